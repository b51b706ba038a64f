"""The part of a long text that a question is about.

A tool's answer or a pasted file may be larger than everything that may be brought back. Its beginning is rarely what
was asked for, so the stretch around the lines that match is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from turnfold.recall.terms import terms_of
from turnfold.tokens import clip

__all__ = ("excerpt",)

_PIECE = re.compile(
    r"[^\n.!?。！？；]*(?:[.!?](?!\s)[^\n.!?。！？；]*)*(?:[.!?。！？；]+\s*|\n+|$)"
)
_CUT = "…"
_MARKS = 4
"""Tokens the two signs of a cut may take."""


def excerpt(text: str, terms: Collection[str], limit: int, count: Callable[[str], int]) -> str:
    """A stretch of `text` that costs at most `limit` tokens, around the sentence that holds most of the terms."""
    if count(text) <= limit:
        return text
    pieces = [match.span() for match in _PIECE.finditer(text) if match[0]]
    room = limit - _MARKS
    if room < 1 or not pieces:
        return clip(text, max(limit, 0), count)
    wanted = set(terms)
    held = [len(wanted.intersection(terms_of(text[start:stop]))) for start, stop in pieces]
    best = held.index(max(held))
    start, stop = _widened(text, pieces, best, room, count)
    shown = clip(text[start:stop].strip(), room, count)
    before = _CUT if text[:start].strip() else ""
    found = f"{before}{shown}{_CUT}"
    return found if count(found) <= limit else clip(found, limit, count)


def _widened(
    text: str,
    pieces: list[tuple[int, int]],
    best: int,
    room: int,
    count: Callable[[str], int],
) -> tuple[int, int]:
    """From the best piece outwards, more often onwards than back, while it fits."""
    first = last = best
    room -= count(text[slice(*pieces[best])])
    while room > 0:
        onwards = last + 1 < len(pieces) and (last - best <= 2 * (best - first) or first == 0)
        at = last + 1 if onwards else first - 1
        if at < 0:
            break
        room -= count(text[slice(*pieces[at])])
        if room < 0:
            break
        first, last = min(first, at), max(last, at)
    return pieces[first][0], pieces[last][1]
