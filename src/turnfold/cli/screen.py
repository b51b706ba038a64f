"""What every command writes to: a screen that fits any width, with colours where they are wanted, or JSON.

Widths are in terminal cells, of which a Chinese character takes two. In a pipe and under NO_COLOR the same words come
without a single escape code.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from turnfold.cli.words import label

__all__ = (
    "Reporter",
    "as_json",
    "columns",
    "is_plain",
    "make_console",
    "moment",
    "printable",
    "progressing",
)

_PATIENCE = 1.0
"""Seconds before a progress bar is worth looking at."""
_MICRO = 1_000_000
_LONGEST_CELL = 28
"""Cells a column that is not the wide one may take."""
_NARROWEST_CELL = 12


def make_console(*, to_stderr: bool = False) -> Console:
    """Where a command draws."""
    if os.environ.get("NO_COLOR"):
        return Console(color_system=None, highlight=False, stderr=to_stderr, markup=False)
    return Console(highlight=False, stderr=to_stderr, markup=False)


def is_plain(console: Console) -> bool:
    """Whether letters must do what colours do elsewhere."""
    return console.color_system is None or console.options.ascii_only


def as_json(value: object) -> str:
    """A value as indented JSON; the shapes are stable, see the documentation of the command line."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def printable(text: str) -> str:
    """A stored text in one line, with nothing in it that could move a cursor or change a colour."""
    return "".join(char if char.isprintable() else " " for char in " ".join(text.split()))


def moment(microseconds: int) -> str:
    """A time for people, in UTC; a dash where none is known."""
    if microseconds <= 0:
        return "-"
    return datetime.fromtimestamp(microseconds / _MICRO, UTC).strftime("%Y-%m-%d %H:%M")


def columns(
    console: Console, heads: Sequence[str], rows: Iterable[Sequence[str | Text]], *, wide: str = ""
) -> Table:
    """A table without lines: numbers to the right, the column `wide` takes what is left and is cut where it must be.

    Where not even 12 cells are left for it, it is not shown, unless it stands first: then it names the rows.
    """
    body = [list(row) for row in rows]
    widths = [
        max([cell_len(label(head)), *(min(_cells(row[at]), _LONGEST_CELL) for row in body)])
        for at, head in enumerate(heads)
    ]
    named = list(heads).index(wide) if wide else -1
    shown = list(range(len(heads)))
    if wide:
        others = sum(width + 2 for at, width in enumerate(widths) if at != named)
        left = console.width - others
        longest = max([cell_len(label(wide)), *(_cells(row[named]) for row in body)])
        widths[named] = max(min(left, longest), _NARROWEST_CELL)
        if left < _NARROWEST_CELL and named:
            shown.remove(named)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for at in shown:
        right = at != named and bool(body) and all(_is_number(row[at]) for row in body)
        table.add_column(
            label(heads[at]),
            justify="right" if right else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=widths[at],
        )
    for row in body:
        table.add_row(*(_safe(row[at]) for at in shown))
    return table


def _cells(cell: str | Text) -> int:
    return cell_len(cell if isinstance(cell, str) else cell.plain)


def _safe(cell: str | Text) -> Text:
    return cell if isinstance(cell, Text) else Text(printable(cell))


def _is_number(cell: str | Text) -> bool:
    text = cell if isinstance(cell, str) else cell.plain
    return (
        not text or text.strip("+-▲▼$% ").replace(",", "").replace(".", "").isdigit() or text == "-"
    )


class Reporter:
    """Shows how far something is, once it has taken a second, and only to somebody who watches."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._began = time.monotonic()
        self._progress: Progress | None = None
        self._task: int | None = None

    def report(self, done: int, total: int, what: str = "") -> None:
        """So much of so much is done."""
        if self._progress is None:
            if not sys.stderr.isatty() or time.monotonic() - self._began < _PATIENCE:
                return
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:,.0f} / {task.total:,.0f}"),
                TimeRemainingColumn(),
                console=make_console(to_stderr=True),
                transient=True,
            )
            self._progress.start()
        if self._task is None:
            self._task = int(self._progress.add_task(what or self._what, total=total))
        self._progress.update(
            self._progress.task_ids[0], completed=done, total=total, description=what or self._what
        )

    def close(self) -> None:
        """Take it off the screen."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


@contextmanager
def progressing(what: str) -> Generator[Reporter]:
    """A reporter for the time of a piece of work."""
    reporter = Reporter(what)
    try:
        yield reporter
    finally:
        reporter.close()
