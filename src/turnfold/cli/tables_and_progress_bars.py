"""Printing of command results: tables and texts that fit any width, JSON, progress bars.

Widths are in terminal cells; a Chinese character takes two. In a pipe, or with NO_COLOR, the output has no escape
codes.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

import msgspec
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from turnfold.cli.chinese_labels import known_label, label

__all__ = (
    "Reporter",
    "as_json",
    "columns",
    "is_plain",
    "is_uncut",
    "make_console",
    "moment",
    "print_result",
    "printable",
    "progressing",
    "tables",
    "without_controls",
)


_PROGRESS_DELAY = 1.0
"""Seconds that a command runs before its progress bar is shown; a quick command shows none."""
_MICRO = 1_000_000
_LONGEST_CELL = 28
"""Most terminal columns that a column of a table gets if it is not the wide one; longer texts are cut."""
_NARROWEST_CELL = 12
_UNCUT = 1_000_000
"""Width of a console that cuts no line."""


def make_console(*, to_stderr: bool = False) -> Console:
    """Return the console that a command prints to; without colours if NO_COLOR is set.

    In a pipe no line is cut or broken, unless COLUMNS sets a width: programs read it, and `grep` finds whole texts.
    """
    stream = sys.stderr if to_stderr else sys.stdout
    width = None if stream.isatty() or os.environ.get("COLUMNS") else _UNCUT
    if os.environ.get("NO_COLOR"):
        return Console(
            color_system=None, highlight=False, stderr=to_stderr, markup=False, width=width
        )
    return Console(highlight=False, stderr=to_stderr, markup=False, width=width)


def is_uncut(console: Console) -> bool:
    """Return True if the console has no width that a line must fit."""
    return console.width >= _UNCUT


def is_plain(console: Console) -> bool:
    """Return True if the console has no colours, so that letters must be used instead."""
    return console.color_system is None or console.options.ascii_only


_STEERING: Final = re.compile(
    "[\\x7f-\\x9f\\u00ad\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]"
)
"""Matches a character that JSON need not escape, but that a terminal obeys or that reorders what it shows."""


def as_json(value: object) -> str:
    """Return a value as indented JSON; its shape is part of the documented interface."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_result(
    value: object, draw: Callable[[Console], Iterable[RenderableType]], *, json: bool
) -> None:
    """Print a value as JSON, or draw it on the console."""
    if json:
        print(as_json(value))  # noqa: T201 (what the command is for)
        return
    console = make_console()
    for line in draw(console):
        console.print(line)


def without_controls(text: str, *, keep: str = "") -> str:
    """Replace characters that could move the cursor or change colours by spaces, except those in `keep`."""
    return "".join(char if char.isprintable() or char in keep else " " for char in text)


def printable(text: str) -> str:
    """Return a stored text in one line, without control characters."""
    return without_controls(" ".join(text.split()))


def moment(microseconds: int) -> str:
    """Format a time for people, in the local time zone and with its name; a dash if it is unknown."""
    if microseconds <= 0:
        return "-"
    local = datetime.fromtimestamp(microseconds / _MICRO, UTC).astimezone()
    return local.strftime("%Y-%m-%d %H:%M %Z")


def columns(
    console: Console,
    heads: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    wide: str = "",
    only: Sequence[int] | None = None,
    wrap: bool = False,
) -> Table | Text:
    """Return a table without lines; numbers are right-aligned, and `wide` takes the remaining width and is truncated.

    If less than 12 cells remain for the `wide` column, it is left out, unless it is the first one. `only` selects
    columns; `wrap` breaks the lines of the `wide` column instead of truncating them. In a pipe nothing is truncated.
    """
    selected = range(len(heads)) if only is None else only
    heads = [heads[at] for at in selected]
    body = [[row[at] for at in selected] for row in rows]
    longest_cell = _UNCUT if is_uncut(console) else _LONGEST_CELL
    widths = [
        max([cell_len(label(head)), *(min(_cells(row[at]), longest_cell) for row in body)])
        for at, head in enumerate(heads)
    ]
    named = heads.index(wide) if wide else -1
    if is_uncut(console):
        return _uncut_lines(heads, body, widths, named)
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
        wrapped = wrap and at == named
        table.add_column(
            label(heads[at]),
            justify="right" if _is_numeric(at, body, named) else "left",
            no_wrap=not wrapped,
            overflow="fold" if wrapped else "ellipsis",
            width=widths[at],
        )
    for row in body:
        table.add_row(*(_safe(row[at]) for at in shown))
    return table


def _is_numeric(at: int, body: Sequence[Sequence[str | Text]], named: int) -> bool:
    return at != named and bool(body) and all(_is_number(row[at]) for row in body)


def _uncut_lines(
    heads: Sequence[str],
    body: Sequence[Sequence[str | Text]],
    widths: Sequence[int],
    named: int,
) -> Text:
    """Return a table as lines of different lengths, without the trailing blanks that rich adds to short lines."""
    right = [_is_numeric(at, body, named) for at in range(len(heads))]
    lines = [
        [Text(label(head)) for head in heads],
        *([_safe(cell) for cell in row] for row in body),
    ]
    drawn = Text(no_wrap=True, overflow="ignore")
    for number, line in enumerate(lines):
        joined = Text("\n" if number else "")
        for at, cell in enumerate(line):
            blank = " " * (widths[at] - cell.cell_len)
            joined.append(blank if right[at] else "").append_text(cell)
            joined.append("" if right[at] else blank).append("  ")
        joined.rstrip()
        drawn.append_text(joined)
    return drawn


def tables(
    console: Console, heads: Sequence[str], rows: Sequence[Sequence[str | Text]], *, keys: int
) -> Iterator[Table | Text]:
    """Yield one table, or several narrower ones that show all columns; each repeats the first `keys` columns."""
    yield from _halves(console, heads, rows, keys, range(keys, len(heads)))


def _halves(
    console: Console,
    heads: Sequence[str],
    rows: Sequence[Sequence[str | Text]],
    keys: int,
    shown: Sequence[int],
) -> Iterator[Table | Text]:
    table = columns(console, heads, rows, only=(*range(keys), *shown))
    if isinstance(table, Text):
        yield table
        return
    width = sum((column.width or 0) + 2 for column in table.columns) - 2
    if width <= console.width or len(shown) == 1:
        yield table
        return
    middle = (len(shown) + 1) // 2
    for half in (shown[:middle], shown[middle:]):
        yield from _halves(console, heads, rows, keys, half)


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
    """Shows a progress bar on a terminal, once the work has taken a second."""

    def __init__(self, what: str) -> None:
        self._what = known_label(what)
        self._began = time.monotonic()
        self._progress: Progress | None = None
        self._task: int | None = None

    def report(self, done: int, total: int, what: str = "") -> None:
        """Set the progress bar to `done` of `total`; `what` replaces its label."""
        if self._progress is None:
            if not sys.stderr.isatty() or time.monotonic() - self._began < _PROGRESS_DELAY:
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
        """Remove the progress bar."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


@contextmanager
def progressing(what: str) -> Generator[Reporter]:
    """Context manager: yield a progress bar for some work, and remove it when the work ends."""
    reporter = Reporter(what)
    try:
        yield reporter
    finally:
        reporter.close()
