"""How the demo ends: the totals, in a table beside two simple ways to remember the same conversation."""

from __future__ import annotations

from dataclasses import dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turnfold.cli.demo.compare import Comparison, Tally
from turnfold.cli.demo.texts import Texts

__all__ = ("Ending", "draw_ending")

_LOW_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What is known when all calls are made."""

    budget: int
    model: str
    tokens_logged: int
    folds: int
    violations: int
    rules: int
    compared: Comparison

    @property
    def sound(self) -> bool:
        """Whether every call kept every promise."""
        ours = self.compared.turnfold
        return not (self.violations or ours.calls_over_budget or ours.broken_pairs)


def draw_ending(end: Ending, texts: Texts) -> RenderableType:
    """The totals, the comparison, and what they come to."""
    ours = end.compared.turnfold
    figures = texts.figures.format(
        logged=end.tokens_logged, calls=ours.calls, folds=end.folds, violations=end.violations
    )
    verdict = (texts.good if end.sound else texts.bad).format(
        violations=end.violations,
        over=ours.calls_over_budget,
        broken=ours.broken_pairs,
        kept=ours.rules_in_last_call,
        rules=end.rules,
    )
    return Group(
        Text(figures, "bold"),
        _comparison(end, texts),
        Text(verdict, "green" if end.sound else "bold red"),
        Text(texts.cache_note.format(model=end.model), "dim"),
        Text(texts.onward, "dim"),
    )


def _comparison(end: Ending, texts: Texts) -> Table:
    label, ours, sliding, everything = texts.compared
    compared = end.compared
    table = Table(box=box.ROUNDED, border_style="dim", header_style="bold")
    table.add_column(label, overflow="fold")
    for name in (ours, sliding.format(last=compared.sliding_messages), everything):
        table.add_column(name, justify="right")
    columns = [
        _figures(tally, end.rules)
        for tally in (compared.turnfold, compared.sliding, compared.everything)
    ]
    for row, cells in zip(texts.rows, zip(*columns, strict=True), strict=True):
        table.add_row(row.format(budget=end.budget), *cells)
    return table


def _figures(tally: Tally, rules: int) -> list[Text]:
    fits = tally.calls_over_budget == 0
    return [
        Text(f"{tally.tokens_sent:,}"),
        _judged(f"{tally.largest_call:,}", good=fits),
        _judged(f"{tally.calls_over_budget}", good=fits),
        _judged(f"{tally.calls_with_broken_pairs}", good=tally.broken_pairs == 0),
        _judged(f"{tally.mean_prefix:.0%}", good=tally.mean_prefix >= _LOW_SHARE),
        _judged(f"{tally.cached_share:.0%}", good=tally.cached_share >= _LOW_SHARE),
        _judged(f"{tally.rules_in_last_call} / {rules}", good=tally.rules_in_last_call == rules),
    ]


def _judged(text: str, *, good: bool) -> Text:
    return Text(text, "green" if good else "red")
