"""Terminal charts of the demo: bars of tokens or messages, and each call as a frame or a line.

Every non-empty part of a bar gets at least one cell, and the cells add up to the width. Parts differ by colour, or by
letter in output without colours, so that a pipe shows the same information. The functions return objects that rich can
print; widths are in terminal cells, of which a Chinese character takes two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from turnfold.cli.demo.replay import Fold, Sample, Shrunk, Step, in_language
from turnfold.cli.demo.texts import Texts
from turnfold.inspect import with_tail_parts
from turnfold.window import Outcome

__all__ = (
    "Bar",
    "BarPart",
    "Drawing",
    "Legend",
    "share_cells",
)


_NARROWEST = 10


class BarPart(NamedTuple):
    """One part of a bar: its label, amount, letter and colour."""

    label: str
    amount: int
    mark: str
    """The letter that is used in output without colours."""
    style: str
    solid: bool = True
    """True if the part is drawn filled; free space and future messages are drawn empty."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of coloured parts that fills the available width of the terminal."""

    parts: tuple[BarPart, ...]
    plain: bool

    def text(self, width: int) -> Text:
        """Return the bar as text of `width` terminal cells."""
        drawn = Text(no_wrap=True)
        cells = share_cells([part.amount for part in self.parts], width)
        for part, count in zip(self.parts, cells, strict=True):
            drawn.append(_glyph(part, "█", plain=self.plain) * count, part.style)
        return drawn

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.text(options.max_width)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(_NARROWEST, options.max_width), options.max_width)


@dataclass(frozen=True, slots=True)
class Legend:
    """Labels and amounts of the parts of a bar; lines break between parts only."""

    parts: tuple[BarPart, ...]
    plain: bool
    amounts: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        line = Text(no_wrap=True)
        for entry in map(self._entry, self.parts):
            if line and line.cell_len + 2 + entry.cell_len > options.max_width:
                yield line
                line = Text(no_wrap=True)
            if line:
                line.append("  ")
            line.append_text(entry)
        yield line

    def _entry(self, part: BarPart) -> Text:
        amount = f" {part.amount:,}" if self.amounts else ""
        return Text.assemble(
            (_glyph(part, "■", plain=self.plain), part.style), f" {part.label}{amount}"
        )


def _glyph(part: BarPart, filled: str, *, plain: bool) -> str:
    if plain:
        return part.mark
    return filled if part.solid else "·"


def share_cells(amounts: Sequence[int], width: int) -> list[int]:
    """Divide `width` cells in proportion to the amounts; an amount of 0 gets no cell, any other at least one.

    With fewer cells than parts, the first parts get them.
    """
    total = sum(amounts)
    present = [index for index, amount in enumerate(amounts) if amount > 0]
    cells = [0] * len(amounts)
    for index in present[:width]:
        cells[index] = 1
    spare = width - sum(cells)
    if spare <= 0 or not total:
        return cells
    exact = [amount * width / total for amount in amounts]
    for _ in range(spare):
        neediest = max(present, key=lambda index: exact[index] - cells[index])
        cells[neediest] += 1
    return cells


_COLUMN_CELLS = (4, 4, 0, 6, 6, 5, 6)
"""Column widths for output with one line per call; 0 stands for the bar, which takes the remaining width."""
_INKS = (
    ("s", "blue", True),
    ("#", "magenta", True),
    ("=", "cyan", True),
    ("p", "bright_yellow", True),
    ("!", "yellow", True),
    ("?", "dark_orange", True),
    ("+", "green", True),
    ("t", "bright_black", True),
    (".", "bright_black", False),
)
"""Letter, colour and `solid` of each section of a context in order (three parts for the tail), of the tools, and of the
free tokens."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """Draws the demo in one language, with or without colours."""

    texts: Texts
    plain: bool
    sample: Sample
    budget: int
    model: str

    def opening(self, tokens_logged: int) -> RenderableType:
        """Return the introduction that the demo shows before the first call."""
        setting = self.texts.setting.format(
            messages=len(self.sample.messages),
            tokens=tokens_logged,
            calls=self.sample.calls,
            budget=self.budget,
            model=self.model,
        )
        return Group(Text("turnfold demo", "bold"), Text(self.texts.intro), Text(setting, "dim"))

    def frame(self, step: Step, newest_fold: tuple[int, Fold] | None) -> RenderableType:
        """Draw one call: the log, the prompt, and why it was cut."""
        receipt = step.context.receipt
        bars = Table.grid(padding=(0, 1, 0, 0), expand=True)
        bars.add_column(no_wrap=True)
        bars.add_column(ratio=1)
        bars.add_column(no_wrap=True, justify="right")
        log_figures = self.texts.log_figures.format(
            folded=step.folded, shown=len(step.context.positions), logged=step.logged
        )
        figures = self.texts.call_figures.format(tokens=receipt.tokens, budget=self.budget)
        bars.add_row(self.texts.log, Bar(self._log_parts(step), self.plain), log_figures)
        bars.add_row(self.texts.call, Bar(self._parts(step), self.plain), figures)
        question = Text(f"{self.texts.asked}  ", "bold", no_wrap=True, overflow="ellipsis")
        question.append(" ".join(step.question.split()), "not bold")
        title = self.texts.title.format(
            call=step.number, calls=self.sample.calls, turn=step.turn, turns=self.sample.turns
        )
        return Panel(
            Group(
                question,
                bars,
                Legend(self._parts(step), self.plain),
                self._facts(step),
                Text(self._why(newest_fold), "dim"),
            ),
            title=title,
            title_align="left",
            border_style="dim",
        )

    def heading(self, width: int) -> Text:
        """Return the column headings for output in which each call of the demo is one line."""
        return Text(self._joined(list(self.texts.columns), width), "bold")

    def key(self) -> RenderableType:
        """Return the legend of the bars: the sections of a prompt and their colours or letters."""
        return Legend(self._inks((0,) * len(_INKS)), self.plain, amounts=False)

    def line(self, step: Step, width: int) -> Text:
        """Draw one call of the demo as one line of `width` cells."""
        receipt = step.context.receipt
        cells = [
            f"{step.number}",
            f"{step.turn}",
            "",
            f"{receipt.tokens:,}",
            f"{receipt.prefix_share:.0%}",
            f"{len(step.context.positions)}",
            f"{step.folded}",
        ]
        before, after = self._joined(cells, width).split("\0")
        drawn = Text(before, no_wrap=True)
        drawn.append_text(Bar(self._parts(step), self.plain).text(_bar_cells(width)))
        return drawn.append(after)

    def events(self, step: Step) -> Iterator[RenderableType]:
        """Yield sentences about the history that this call folded (compacted) and the messages it shortened."""
        place = self.texts.at_call.format(call=step.number)
        if step.fold is not None:
            why = self.texts.why.format(
                needed=step.fold.needed,
                budget=self.budget,
                share=step.fold.needed / self.budget,
            )
            own = (line for line in step.fold.excerpt if in_language(line, self.texts.language))
            quoted = (f"“{line}”" for line in own)
            yield self._event(place, self._fold_line(step.fold), (why, *quoted))
        for shrunk in step.shrunk:
            yield self._event(place, self._shrink_line(shrunk), ())

    def _event(self, place: str, line: Text, more: tuple[str, ...]) -> RenderableType:
        """Return the lines that describe an event of the demo; in plain output they are not aligned in a table."""
        if not self.plain:
            return _event(place, line, more)
        indent = " " * (cell_len(place) + 2)
        details = (Text(f"{indent}{detail}", no_wrap=True, overflow="ellipsis") for detail in more)
        return Group(Text.assemble(f"{place}  ", line, overflow="fold"), *details)

    def _parts(self, step: Step) -> tuple[BarPart, ...]:
        receipt = step.context.receipt
        sections = {str(name): tokens for name, tokens in receipt.sections.items()}
        parts = with_tail_parts(sections, step.context.tail_parts())
        free = receipt.allowed - receipt.tokens
        return self._inks((*parts.values(), receipt.tools + receipt.reply, free))

    def _inks(self, amounts: tuple[int, ...]) -> tuple[BarPart, ...]:
        return tuple(
            BarPart(label, amount, *ink)
            for label, amount, ink in zip(self.texts.sections, amounts, _INKS, strict=True)
        )

    def _log_parts(self, step: Step) -> tuple[BarPart, ...]:
        shown = len(step.context.positions)
        to_come = self.sample.talk - step.logged
        return (
            BarPart("", step.logged - shown, "#", "magenta"),
            BarPart("", shown, "=", "cyan"),
            BarPart("", to_come, ".", "bright_black", solid=False),
        )

    def _facts(self, step: Step) -> Text:
        receipt = step.context.receipt
        facts = self.texts.facts.format(
            prefix=receipt.prefix_share, violations=len(step.violations)
        )
        shortened = receipt.count(Outcome.SHRUNK)
        if shortened:
            facts += f" · {self.texts.shortened.format(count=shortened)}"
        return Text(facts)

    def _why(self, newest_fold: tuple[int, Fold] | None) -> str:
        if newest_fold is None:
            return self.texts.fits
        call, fold = newest_fold
        return self.texts.since_fold.format(call=call, needed=fold.needed)

    def _fold_line(self, fold: Fold) -> Text:
        template = self.texts.folded_again if fold.summary_before else self.texts.folded
        line = template.format(
            messages=fold.messages,
            tokens=fold.tokens,
            checkpoint=fold.checkpoint,
            summary=fold.summary_tokens,
            fidelity=fold.fidelity,
        )
        return _with_first_word(line, "bold magenta")

    def _shrink_line(self, shrunk: Shrunk) -> Text:
        what = (
            self.texts.result_of.format(tool=shrunk.tool)
            if shrunk.tool
            else self.texts.whole_message.format(position=shrunk.position)
        )
        line = self.texts.shrunk.format(what=what, tokens=shrunk.tokens, sent=shrunk.sent)
        return _with_first_word(line, "bold yellow")

    def _joined(self, cells: list[str], width: int) -> str:
        """Join the cells of a line to columns, right-aligned; a NUL character stands for the place of the bar."""
        joined: list[str] = []
        for cell, size in zip(cells, _COLUMN_CELLS, strict=True):
            if size:
                joined.append(_right_aligned(cell, size))
            else:
                joined.append(set_cell_size(cell, _bar_cells(width)) if cell else "\0")
        return " ".join(joined)


def _bar_cells(width: int) -> int:
    return max(width - sum(_COLUMN_CELLS) - len(_COLUMN_CELLS) + 1, 8)


def _right_aligned(cell: str, size: int) -> str:
    blank = size - Text(cell).cell_len
    return " " * max(blank, 0) + cell


def _with_first_word(line: str, style: str) -> Text:
    word, rest = line.split("  ", 1)
    return Text.assemble((word, style), f"  {rest}")


def _event(place: str, line: Text, more: tuple[str, ...]) -> RenderableType:
    event = Table.grid(padding=(0, 2, 0, 0))
    event.add_column(no_wrap=True, style="dim")
    event.add_column(overflow="fold")
    event.add_row(place, line)
    for detail in more:
        event.add_row("", Text(detail, "dim", no_wrap=True, overflow="ellipsis"))
    return event
