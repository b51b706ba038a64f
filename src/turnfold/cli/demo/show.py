"""Display of the demo while it runs.

In a terminal one frame is updated with each call, and folds are printed above it. In a pipe, or with NO_COLOR, every
call is a line of plain text.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from turnfold.budget import Budget
from turnfold.cli.demo.charts import Drawing
from turnfold.cli.demo.comparison import compare
from turnfold.cli.demo.labels import TEXTS, LabelCode, Texts, language_of
from turnfold.cli.demo.replay import CONVERSATION, Fold, Step, replay
from turnfold.cli.demo.report import MODEL, Ending, draw_ending
from turnfold.cli.demo.sample import Sample, load_sample
from turnfold.tokens import TokenCounter, counter_for

__all__ = (
    "ending_of",
    "show",
)


_UNCUT = 1_000_000
"""Width of a console that cuts no line."""
_READING = 2.0
_CALL = 0.12
_EVENT = 0.9


def show(
    tokens: int,
    *,
    language: LabelCode | None = None,
    fast: bool = False,
    keep: Path | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Replay the sample with a budget of `tokens` and draw every call; the database file stays at the path `keep`."""
    console = _console()
    sample, budget, counter = load_sample(), Budget(max_tokens=tokens), counter_for(MODEL)
    texts = TEXTS[language or language_of(os.environ)]
    plain = console.color_system is None or console.options.ascii_only
    drawing = Drawing(texts, plain, sample, budget.tokens, MODEL)
    logged = sum(map(counter.count_message, sample.messages))
    in_terminal = console.is_terminal and console.file.isatty()
    wait = pause if in_terminal and not fast else _no_pause

    console.print(drawing.opening(logged))
    console.print()
    wait(_READING)
    steps = replay(sample, budget, counter, keep=keep)
    moving = in_terminal and not plain and not console.is_dumb_terminal
    present = _as_frame if moving else _as_lines
    shown = list(present(console, drawing, steps, wait))
    console.print()
    console.print(ending_of(sample, shown, budget, counter, texts))
    if keep is not None:
        console.print(Text(texts.kept.format(path=keep, conversation=CONVERSATION)))


def ending_of(
    sample: Sample, steps: Sequence[Step], budget: Budget, counter: TokenCounter, texts: Texts
) -> RenderableType:
    """Compute the final figures from all calls, and draw them."""
    end = Ending(
        budget=budget.tokens,
        model=MODEL,
        tokens_logged=sum(map(counter.count_message, sample.messages)),
        folds=sum(step.fold is not None for step in steps),
        violations=sum(len(step.violations) for step in steps),
        rules=len(sample.rules),
        compared=compare(sample, steps, budget, counter),
    )
    return draw_ending(end, texts)


def _as_frame(
    console: Console, drawing: Drawing, steps: Iterable[Step], wait: Callable[[float], None]
) -> Iterator[Step]:
    newest_fold: tuple[int, Fold] | None = None
    with Live(console=console, auto_refresh=False) as live:
        for step in steps:
            if step.fold is not None:
                newest_fold = (step.number, step.fold)
            events = list(drawing.events(step))
            for event in events:
                console.print(event)
            live.update(drawing.frame(step, newest_fold), refresh=True)
            wait(_EVENT if events else _CALL)
            yield step


def _as_lines(
    console: Console, drawing: Drawing, steps: Iterable[Step], wait: Callable[[float], None]
) -> Iterator[Step]:
    width = min(console.width, 100)
    console.print(drawing.key())
    console.print(drawing.heading(width))
    for step in steps:
        events = list(drawing.events(step))
        for event in events:
            console.print(event)
        console.print(drawing.line(step, width))
        wait(_EVENT if events else _CALL)
        yield step


def _console() -> Console:
    """Return a console as wide as the terminal or COLUMNS; in a pipe without COLUMNS no line is cut or broken."""
    width = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else _UNCUT
    if os.environ.get("NO_COLOR"):
        return Console(color_system=None, highlight=False, width=width)
    return Console(highlight=False, width=width)


def _no_pause(seconds: float) -> None:
    del seconds
