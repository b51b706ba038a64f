"""Display of the demo while it runs, and its results: a table that compares three methods, and all figures as JSON.

The JSON has the same steps and figures as the terminal output; it does not depend on the clock or the machine, so two
runs of one version give the same text.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

import turnfold
from turnfold.budget import Budget
from turnfold.cli.demo.charts import Drawing
from turnfold.cli.demo.replay import (
    CONVERSATION,
    Comparison,
    Fold,
    Sample,
    Step,
    Tally,
    compare,
    load_sample,
    replay,
)
from turnfold.cli.demo.texts import TEXTS, LabelCode, Texts
from turnfold.fold import check_fidelity, passages_of
from turnfold.inspect import FIDELITY_MEANING
from turnfold.text import language_of
from turnfold.tokens import Charge, TokenCounter, counter_for, shipped_prices
from turnfold.window import Outcome

__all__ = (
    "MODEL",
    "Ending",
    "call_record",
    "draw_ending",
    "ending_of",
    "report",
    "report_text",
    "show",
)


_LOW_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The figures of the demo after all calls."""

    budget: int
    model: str
    tokens_logged: int
    folds: int
    violations: int
    rules: int
    compared: Comparison
    fidelity_of_all: float | None
    """Fidelity of the last summary to all entries it covers; None if nothing was folded."""

    @property
    def ok(self) -> bool:
        """True if no call violated an invariant, exceeded the budget or broke a tool pair."""
        ours = self.compared.turnfold
        return not (self.violations or ours.calls_over_budget or ours.broken_pairs)


def draw_ending(end: Ending, texts: Texts) -> RenderableType:
    """Draw the totals, the comparison and the verdict."""
    ours = end.compared.turnfold
    figures = texts.figures.format(
        logged=end.tokens_logged, calls=ours.calls, folds=end.folds, violations=end.violations
    )
    verdict = (texts.good if end.ok else texts.bad).format(
        violations=end.violations,
        over=ours.calls_over_budget,
        broken=ours.broken_pairs,
        kept=ours.rules_in_last_call,
        rules=end.rules,
    )
    return Group(
        Text(figures, "bold"),
        _comparison(end, texts),
        Text(verdict, "green" if end.ok else "bold red"),
        Text(texts.cache_note.format(model=end.model, date=shipped_prices().date), "dim"),
        Text(_fidelity(end, texts), "dim"),
        Text(texts.onward, "dim"),
    )


def _fidelity(end: Ending, texts: Texts) -> str:
    """Return what the fidelity of the folds means, and that of the last summary to everything it stands for."""
    if end.fidelity_of_all is None:
        return ""
    whole = texts.fidelity_of_all.format(fidelity=end.fidelity_of_all)
    return FIDELITY_MEANING[texts.language] + (" " if texts.language == "en" else "") + whole


def _comparison(end: Ending, texts: Texts) -> Table:
    label, ours, sliding, everything = texts.compared
    compared = end.compared
    table = Table(box=box.ROUNDED, border_style="dim", header_style="bold")
    table.add_column(label, overflow="fold")
    for name in (ours, sliding.format(last=compared.sliding_messages), everything):
        table.add_column(name, justify="right")
    columns = [
        _figures(tally, end.rules, end.model)
        for tally in (compared.turnfold, compared.sliding, compared.everything)
    ]
    for row, cells in zip(texts.rows, zip(*columns, strict=True), strict=True):
        name = row.format(budget=end.budget, currency=shipped_prices().currency)
        table.add_row(name, *cells)
    return table


def _figures(tally: Tally, rules: int, model: str) -> list[Text]:
    fits = tally.calls_over_budget == 0
    return [
        Text(f"{tally.tokens_sent:,}"),
        _judged(f"{tally.largest_call:,}", good=fits),
        _judged(f"{tally.calls_over_budget}", good=fits),
        _judged(f"{tally.calls_with_broken_pairs}", good=tally.broken_pairs == 0),
        _judged(f"{tally.mean_prefix:.0%}", good=tally.mean_prefix >= _LOW_SHARE),
        _judged(f"{tally.cached_share:.0%}", good=tally.cached_share >= _LOW_SHARE),
        Text(f"{_prompt_cost(tally, model):.2f}"),
        _judged(f"{tally.rules_in_last_call} / {rules}", good=tally.rules_in_last_call == rules),
    ]


def _prompt_cost(tally: Tally, model: str) -> float:
    """Return the list price of the prompts of all calls; answers cost the same with every method."""
    cached = round(tally.tokens_sent * tally.cached_share)
    charge = Charge(read=cached, written=0, fresh=tally.tokens_sent - cached, output=0)
    return shipped_prices().price(model).of(charge)


def _judged(text: str, *, good: bool) -> Text:
    return Text(text, "green" if good else "red")


MODEL = "gpt-4o"
"""The model whose tokens are counted: exactly and offline, because its vocabulary is public."""


def report_text(tokens: int, *, keep: Path | None = None) -> str:
    """Return the whole replay under a budget of `tokens` as JSON text; the database file stays at the path `keep`."""
    return json.dumps(report(tokens, keep=keep), ensure_ascii=False, indent=2)


def report(tokens: int, *, keep: Path | None = None) -> dict[str, object]:
    """Run the demo under a budget of `tokens` and return all its calls and totals as JSON values."""
    sample, budget, counter = load_sample(), Budget(max_tokens=tokens), counter_for(MODEL)
    steps = list(replay(sample, budget, counter, keep=keep))
    compared = compare(sample, steps, budget, counter)
    return {
        "turnfold": turnfold.__version__,
        "model": MODEL,
        "counter": counter.name,
        "budget": {"tokens": budget.tokens, "low_mark": budget.marks.low},
        "calls": [call_record(step) for step in steps],
        "summary": _summary(sample, steps, compared, counter),
    }


def call_record(step: Step) -> dict[str, object]:
    """Return one call of the demo as JSON values."""
    receipt = step.context.receipt
    return {
        "call": step.number,
        "turn": step.turn,
        "tokens": receipt.tokens,
        "allowed": receipt.allowed,
        "certainty": receipt.certainty.value,
        "sections": {section.value: cost for section, cost in receipt.sections.items()},
        "tools": receipt.tools,
        "reply": receipt.reply,
        "free": receipt.allowed - receipt.tokens,
        "logged": step.logged,
        "messages": receipt.messages,
        **{outcome.value: receipt.count(outcome) for outcome in Outcome},
        "shared": receipt.shared,
        "prefix": round(receipt.prefix_share, 4),
        "violations": [str(violation) for violation in step.violations],
        "fold": _rounded(asdict(step.fold)) if step.fold is not None else None,
        "newly_shrunk": [asdict(shrunk) for shrunk in step.shrunk],
    }


def _summary(
    sample: Sample, steps: list[Step], compared: Comparison, counter: TokenCounter
) -> dict[str, object]:
    return {
        "messages_logged": len(sample.messages),
        "turns": sample.turns,
        "tokens_logged": sum(map(counter.count_message, sample.messages)),
        "folds": sum(step.fold is not None for step in steps),
        "shrunk": sum(len(step.shrunk) for step in steps),
        "violations": sum(len(step.violations) for step in steps),
        "rules_pinned": len(sample.rules),
        "fidelity_of_all": _fidelity_of_all(sample, steps),
        "turnfold": _rounded(asdict(compared.turnfold)),
        "sliding_window": {
            "last_messages": compared.sliding_messages,
            **_rounded(asdict(compared.sliding)),
        },
        "everything": _rounded(asdict(compared.everything)),
    }


def _rounded(figures: dict[str, object]) -> dict[str, object]:
    return {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in figures.items()
    }


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
        fidelity_of_all=_fidelity_of_all(sample, steps),
    )
    return draw_ending(end, texts)


def _fidelity_of_all(sample: Sample, steps: Sequence[Step]) -> float | None:
    anchor = steps[-1].context.anchor
    if not anchor.summary:
        return None
    covered = [each for each in sample.messages[: anchor.covered] if each.role != "system"]
    return check_fidelity(passages_of(covered), anchor.summary).score


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
