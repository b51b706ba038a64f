"""Bars whose parts are tokens or messages: every part that is there is seen, and the cells add up.

Parts are told apart by colour where there is colour and by a letter of their own where there is none, so that a pipe, a
screen without colours and an eye that does not tell red from green see the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

__all__ = ("Bar", "Legend", "Part", "share_cells")

_NARROWEST = 10


class Part(NamedTuple):
    """One part of a bar."""

    label: str
    amount: int
    mark: str
    """Its letter where there is no colour."""
    style: str
    solid: bool = True
    """Whether it is filled; what is empty or still to come is not."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar as wide as the place it is put into."""

    parts: tuple[Part, ...]
    plain: bool

    def text(self, width: int) -> Text:
        """The bar in `width` cells."""
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
    """What the parts of a bar are and how much each is; breaks between parts only."""

    parts: tuple[Part, ...]
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

    def _entry(self, part: Part) -> Text:
        amount = f" {part.amount:,}" if self.amounts else ""
        return Text.assemble(
            (_glyph(part, "■", plain=self.plain), part.style), f" {part.label}{amount}"
        )


def _glyph(part: Part, filled: str, *, plain: bool) -> str:
    if plain:
        return part.mark
    return filled if part.solid else "·"


def share_cells(amounts: Sequence[int], width: int) -> list[int]:
    """`width` cells divided in proportion to the amounts: none for nothing, at least one for anything.

    With fewer cells than parts the first parts get them.
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
