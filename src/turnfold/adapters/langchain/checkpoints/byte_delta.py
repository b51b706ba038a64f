"""What changed between two byte strings, as stretches to copy and bytes to insert.

A channel of a graph is written whole at every step, and most of it is what it was the step before. Only the differences
are worth keeping. What is compared is bytes, whoever serialised them, so that they come back exactly. A list that grew
differs at two places: its length in front and its new items at the end; both are found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

__all__ = ("Piece", "applied_size", "apply_delta", "delta_size", "make_delta")

Piece: TypeAlias = bytes | tuple[int, int]
"""Bytes to insert, or the start and length of a stretch of the base."""

_ANCHOR = 24
"""Bytes that are looked for in the base; a copy shorter than this is not worth its description."""
_COPY_COST = 8
_WINDOW = 1 << 16
"""How far ahead in the base the anchor is looked for."""
_PROBES = 48
"""Places tried as an anchor before the rest is taken as new."""


def make_delta(base: bytes, new: bytes) -> list[Piece]:
    """How to make `new` of `base`."""
    tail = _same_end(base, new)
    pieces: list[Piece] = []
    at, done, end = 0, 0, len(new) - tail
    while done < end:
        same = min(_same_run(base, at, new, done), end - done)
        if same >= _ANCHOR:
            pieces.append((at, same))
            at, done = at + same, done + same
            continue
        found = _meet_again(base, at, new, done, end)
        if found is None:
            pieces.append(new[done:end])
            break
        pieces.append(new[done : found[1]])
        at, done = found
    if tail:
        pieces.append((len(base) - tail, tail))
    return pieces


def apply_delta(base: bytes, pieces: Sequence[Piece]) -> bytes:
    """What the pieces make of `base`."""
    return b"".join(
        piece if isinstance(piece, bytes) else base[piece[0] : piece[0] + piece[1]]
        for piece in pieces
    )


def applied_size(base: int, pieces: Sequence[Piece]) -> int:
    """How many bytes the pieces make of a base of so many; -1 where one of them reaches outside it."""
    size = 0
    for piece in pieces:
        if isinstance(piece, bytes):
            size += len(piece)
            continue
        start, length = piece
        if start < 0 or length < 0 or start + length > base:
            return -1
        size += length
    return size


def delta_size(pieces: Sequence[Piece]) -> int:
    """About how many bytes the pieces take."""
    return sum(len(piece) if isinstance(piece, bytes) else _COPY_COST for piece in pieces)


def _same_run(base: bytes, at: int, new: bytes, done: int) -> int:
    """How many bytes are the same from here on; found by halving, so that Python compares stretches, not bytes."""
    low, high = 0, min(len(base) - at, len(new) - done)
    while low < high:
        middle = (low + high + 1) // 2
        if base[at + low : at + middle] == new[done + low : done + middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _same_end(base: bytes, new: bytes) -> int:
    low, high = 0, min(len(base), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if base[len(base) - middle : len(base) - low] == new[len(new) - middle : len(new) - low]:
            low = middle
        else:
            high = middle - 1
    return low if low >= _ANCHOR else 0


def _meet_again(base: bytes, at: int, new: bytes, done: int, end: int) -> tuple[int, int] | None:
    """The next place in both from which they go on alike; None where none is near."""
    skip = 0
    for _ in range(_PROBES):
        if done + skip + _ANCHOR > end:
            return None
        anchor = new[done + skip : done + skip + _ANCHOR]
        found = base.find(anchor, at, at + _WINDOW)
        if found >= 0:
            return found, done + skip
        skip += 1 + skip // 4
    return None
