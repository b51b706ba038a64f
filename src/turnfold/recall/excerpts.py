"""The part of a long text that a question is about.

A tool's answer or a pasted file may be larger than everything that may be brought back. Its beginning is rarely what
was asked for, so the stretch around the lines that match is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from turnfold.recall.terms import RUN, plain_text, terms_of_run
from turnfold.tokens import clip, count_upto

__all__ = ("excerpt",)

_PIECE = re.compile(
    r"[^\n.!?。！？；]*(?:[.!?](?!\s)[^\n.!?。！？；]*)*(?:[.!?。！？；]+\s*|\n+|$)"
)
_CUT = "…"
_MARKS = 4
"""Tokens the two signs of a cut may take."""


def excerpt(text: str, terms: Collection[str], limit: int, count: Callable[[str], int]) -> str:
    """A stretch of `text` that costs at most `limit` tokens, around the sentence that holds most of the terms."""
    if count_upto(text, limit, count) <= limit:
        return text
    pieces = [match.span() for match in _PIECE.finditer(text) if match[0]]
    room = limit - _MARKS
    if room < 1 or not pieces:
        return clip(text, max(limit, 0), count)
    wanted = _Wanted(terms)
    held = [wanted.held_by(text[start:stop]) for start, stop in pieces]
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
    room -= count_upto(text[slice(*pieces[best])], room, count)
    while room > 0:
        onwards = last + 1 < len(pieces) and (last - best <= 2 * (best - first) or first == 0)
        at = last + 1 if onwards else first - 1
        if at < 0:
            break
        room -= count_upto(text[slice(*pieces[at])], room, count)
        if room < 0:
            break
        first, last = min(first, at), max(last, at)
    return pieces[first][0], pieces[last][1]


class _Wanted:
    """The terms that are looked for, piece by piece of one text; each word of it is looked at once."""

    def __init__(self, terms: Collection[str]) -> None:
        self._terms = frozenset(terms)
        self._of_run: dict[str, frozenset[str]] = {}

    def held_by(self, piece: str) -> int:
        """How many of them a piece holds."""
        held: set[str] = set()
        for run in RUN.findall(plain_text(piece)):
            known = self._of_run.get(run)
            if known is None:
                known = self._of_run[run] = self._terms.intersection(terms_of_run(run))
            held |= known
        return len(held)
