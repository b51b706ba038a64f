"""Compares two snapshots: unified line diffs of texts, and changes of state values.

The diffs are exact, down to a missing newline at the end. Lines are compared only between the first and the last
difference of a file; if that range has too many lines to compare, all of it is shown as replaced, which is exact but
longer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

__all__ = (
    "ItemChange",
    "SnapshotDiff",
    "compare_contents",
    "state_changes",
    "unified",
)


_Change: TypeAlias = Literal["added", "removed", "changed"]
_Content: TypeAlias = str | bytes
_CONTEXT_LINES = 3
"""Unchanged lines shown around a change."""
_MAX_LINES = 4_000
"""The most lines that are compared line by line; a longer range is shown as replaced."""
_NO_NEWLINE = "\\ No newline at end of file\n"
_Block: TypeAlias = tuple[int, int, int, int]
"""Ranges of lines that differ: old lines [start, stop) and new lines [start, stop)."""


@dataclass(frozen=True, slots=True)
class ItemChange:
    """The change of one file, or of the rendered context if `path` is empty."""

    path: str
    change: _Change
    patch: str
    """The unified diff of the item; empty if one side is not text."""
    sizes: tuple[int, int]
    """Number of bytes of the item before and after."""
    binary: bool = False


@dataclass(frozen=True, slots=True)
class SnapshotDiff:
    """The changes of a workspace from the snapshot of one turn to that of another."""

    before: int
    after: int
    context: ItemChange | None
    files: tuple[ItemChange, ...]
    state: Mapping[str, tuple[object, object]]
    """Name of a state value -> its values before and after; `...` stands for a missing value."""
    text: str
    """All changes rendered for a model, within the requested tokens."""
    cut: bool
    """True if `text` leaves something out; the text says what."""


def compare_contents(
    path: str, before: _Content | None, after: _Content | None
) -> ItemChange | None:
    """Return the change of one file or context; None if it is unchanged.

    A side is None if the file does not exist there.
    """
    if before == after and type(before) is type(after):
        return None
    change: _Change = "added" if before is None else "removed" if after is None else "changed"
    sizes = _size(before), _size(after)
    if isinstance(before, bytes) or isinstance(after, bytes):
        return ItemChange(path, change, "", sizes, binary=True)
    names = (
        f"a/{path}" if before is not None else "/dev/null",
        f"b/{path}" if after is not None else "/dev/null",
    )
    return ItemChange(path, change, unified(before or "", after or "", names=names), sizes)


def state_changes(
    before: Mapping[str, object], after: Mapping[str, object]
) -> dict[str, tuple[object, object]]:
    """Return {name: (before, after)} of the state values that differ; `...` stands for a missing value."""
    names = sorted({*before, *after})
    pairs = {name: (before.get(name, ...), after.get(name, ...)) for name in names}
    return {name: pair for name, pair in pairs.items() if _as_json(pair[0]) != _as_json(pair[1])}


def _as_json(value: object) -> str:
    # 1, 1.0 and true are equal to Python and different in JSON.
    return "..." if value is ... else json.dumps(value, sort_keys=True, ensure_ascii=True)


def unified(before: str, after: str, *, names: tuple[str, str]) -> str:
    """Return the unified diff of two texts; applying it to the first text results in the second."""
    old, new = _lines(before), _lines(after)
    written = [f"--- {names[0]}\n", f"+++ {names[1]}\n"]
    for group in _group(_blocks(old, new)):
        written += _hunk(group, old, new)
    return "".join(written)


def _size(content: _Content | None) -> int:
    if content is None:
        return 0
    return len(content.encode() if isinstance(content, str) else content)


def _lines(text: str) -> list[str]:
    """Split a text into lines with their line ends; only a newline ends a line, other line breaks are content."""
    parts = text.split("\n")
    last = parts.pop()
    return [f"{part}\n" for part in parts] + ([last] if last else [])


def _blocks(old: Sequence[str], new: Sequence[str]) -> Iterator[_Block]:
    head = 0
    shorter = min(len(old), len(new))
    while head < shorter and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shorter - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    old_end, new_end = len(old) - tail, len(new) - tail
    if max(old_end, new_end) - head > _MAX_LINES:
        yield head, old_end, head, new_end
        return
    matcher = SequenceMatcher(None, old[head:old_end], new[head:new_end], autojunk=False)
    for tag, start, stop, new_start, new_stop in matcher.get_opcodes():
        if tag != "equal":
            yield start + head, stop + head, new_start + head, new_stop + head


def _group(blocks: Iterable[_Block]) -> Iterator[list[_Block]]:
    """Yield the changed blocks of lines in groups; blocks are in one group if their surrounding lines touch."""
    group: list[_Block] = []
    for block in blocks:
        if group and block[0] - group[-1][1] > 2 * _CONTEXT_LINES:
            yield group
            group = []
        group.append(block)
    if group:
        yield group


def _hunk(group: Sequence[_Block], old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    before = min(_CONTEXT_LINES, group[0][0])
    after = min(_CONTEXT_LINES, len(old) - group[-1][1])
    start, stop = group[0][0] - before, group[-1][1] + after
    new_start, new_stop = group[0][2] - before, group[-1][3] + after
    yield f"@@ -{_range(start, stop)} +{_range(new_start, new_stop)} @@\n"
    at = start
    for block in group:
        yield from (_prefixed(" ", line) for line in old[at : block[0]])
        yield from (_prefixed("-", line) for line in old[block[0] : block[1]])
        yield from (_prefixed("+", line) for line in new[block[2] : block[3]])
        at = block[1]
    yield from (_prefixed(" ", line) for line in old[at:stop])


def _range(start: int, stop: int) -> str:
    length = stop - start
    # The unified format names an empty range by the line before it.
    return f"{start + 1 if length else start},{length}"


def _prefixed(mark: str, line: str) -> str:
    return f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n{_NO_NEWLINE}"
