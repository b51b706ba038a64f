"""What a benchmark answers with: tables, targets met or missed, and the bare figures for machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ("Plot", "Report", "Table", "Target", "as_markdown", "as_text", "duration")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a title; the first column names the row, the others are figures."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """A figure that was promised, and the one that was measured; `met` is None where it was not."""

    claim: str
    measured: str
    met: bool | None

    @property
    def verdict(self) -> str:
        """PASS, MISS or OPEN."""
        return {True: "PASS", False: "MISS", None: "OPEN"}[self.met]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A picture of some figures: lines over sizes, or a bar for each contender (its one value)."""

    name: str
    title: str
    series: Mapping[str, Mapping[int, float]]
    """By contender; ours begin with `turnfold`."""
    x: str
    y: str = ""
    bars: bool = False
    logarithmic: bool = False
    """Of bars; lines always are."""
    digits: int = 0
    """Shown after the point at a bar."""

    @property
    def file(self) -> str:
        """Its name among the pictures of the documentation."""
        return f"bench-{self.name}.svg"

    def shown(self, value: float) -> str:
        """A value at its bar."""
        return f"{value:,.{self.digits}f}"


@dataclass(slots=True)
class Report:
    """The answer to one question."""

    name: str
    question: str
    tables: list[Table] = field(default_factory=list[Table])
    targets: list[Target] = field(default_factory=list[Target])
    figures: dict[str, object] = field(default_factory=dict[str, object])
    plots: list[Plot] = field(default_factory=list[Plot])


def duration(seconds: float) -> str:
    """A time with three digits and the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size or unit == "µs":
            scaled = seconds / size
            digits = 0 if scaled >= 100 else 1 if scaled >= 10 else 2
            return f"{scaled:,.{digits}f} {unit}"
    raise AssertionError(seconds)


def as_text(report: Report) -> str:
    """The report for a terminal."""
    lines = [f"== {report.name}: {report.question}", ""]
    for table in report.tables:
        lines += [table.title, *_aligned([table.columns, *table.rows])]
        lines += [*(f"  {note}" for note in table.notes), ""]
    lines += [f"{target.verdict}  {target.claim}: {target.measured}" for target in report.targets]
    return "\n".join(lines)


def as_markdown(report: Report) -> str:
    """The report for the documentation."""
    lines: list[str] = []
    for plot in report.plots:
        lines += [f"![{plot.title}](images/{plot.file})", ""]
    for table in report.tables:
        rule = ["---", *("---:" for _ in table.columns[1:])]
        lines += [f"**{table.title}**", ""]
        lines += [_row(row) for row in (table.columns, rule, *table.rows)]
        lines += ["", *(f"- {note}" for note in table.notes)]
        lines += [""] if table.notes else []
    if report.targets:
        lines += ["| target | measured | |", "|---|---|---|"]
        lines += [_row((each.claim, each.measured, each.verdict)) for each in report.targets]
    return "\n".join(lines).strip()


def _row(cells: Sequence[str]) -> str:
    """A row of a Markdown table; a bar inside a cell would end it."""
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    table = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
