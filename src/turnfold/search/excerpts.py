"""Excerpts and snippets: the part of a long text that matches a query.

An excerpt is cut by tokens, for a model: a tool result or a pasted file may be larger than the budget for recall, and
its beginning is rarely what is needed, so the sentences around the best match are taken. A snippet is cut by
characters, for a person, with the matching words marked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from turnfold.errors import InvalidOption
from turnfold.search.term_matches import Occurrence, occurrences
from turnfold.text import RUN, clip, count_upto, plain_text, terms_of_run

__all__ = (
    "SNIPPET_CHARACTERS",
    "Snippet",
    "excerpt",
    "snippet",
)


_PIECE = re.compile(
    r"[^\n.!?。！？；]*(?:[.!?](?!\s)[^\n.!?。！？；]*)*(?:[.!?。！？；]+\s*|\n+|$)"
)
_CUT = "…"
_MARKS = 4
"""Tokens that the two ellipses may take."""


def excerpt(text: str, terms: Collection[str], limit: int, count: Callable[[str], int]) -> str:
    """Return a part of `text` that costs at most `limit` tokens, around the sentence with the most of the terms."""
    if count_upto(text, limit, count) <= limit:
        return text
    pieces = [match.span() for match in _PIECE.finditer(text) if match[0]]
    room = limit - _MARKS
    if room < 1 or not pieces:
        return clip(text, max(limit, 0), count)
    matcher = _TermMatcher(terms)
    matches = [matcher.count_in(text[start:stop]) for start, stop in pieces]
    best = matches.index(max(matches))
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
    """Return start and end of the best piece with its neighbours, more of them after it than before, while it fits."""
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


class _TermMatcher:
    """Counts matching terms in the pieces of one text; each distinct word is analysed once."""

    def __init__(self, terms: Collection[str]) -> None:
        self._terms = frozenset(terms)
        self._of_run: dict[str, frozenset[str]] = {}

    def count_in(self, piece: str) -> int:
        """Return how many of the terms a piece contains."""
        found: set[str] = set()
        for run in RUN.findall(plain_text(piece)):
            of_run = self._of_run.get(run)
            if of_run is None:
                of_run = self._of_run[run] = self._terms.intersection(terms_of_run(run))
            found |= of_run
        return len(found)


SNIPPET_CHARACTERS = 160
_LEAD = 0.25
"""Share of the remaining room that is shown before the match."""
_LONGEST_WORD = 24
"""Most characters dropped at either end so that a snippet begins and ends with a whole word."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """A part of a text, with the matching words marked."""

    text: str
    marks: tuple[tuple[int, int], ...] = ()
    """Start and stop, within `text`, of the matches; in order, none touching another."""
    before: bool = False
    """True if there is text before it."""
    after: bool = False
    """True if there is text after it."""

    def shown(self, begin: str, end: str, cut: str = "…") -> str:
        """Return the text with every match between `begin` and `end`, and `cut` where text was left out."""
        parts = [cut if self.before else ""]
        at = 0
        for start, stop in self.marks:
            parts += [self.text[at:start], begin, self.text[start:stop], end]
            at = stop
        return "".join([*parts, self.text[at:], cut if self.after else ""])


def snippet(text: str, terms: Collection[str], *, characters: int = SNIPPET_CHARACTERS) -> Snippet:
    """Return at most `characters` of the text, where most of the different terms are."""
    if characters < 1:
        raise InvalidOption(f"a snippet has at least 1 character, got {characters}")
    found = occurrences(text, terms)
    start, stop = _best(found, characters) if found else (0, 0)
    start, stop = _widened_snippet(text, start, stop, characters)
    marks = _joined([each for each in found if each.start < stop and each.stop > start])
    return Snippet(
        text[start:stop],
        tuple((max(first, start) - start, min(last, stop) - start) for first, last in marks),
        before=bool(text[:start].strip()),
        after=bool(text[stop:].strip()),
    )


def _best(found: Sequence[Occurrence], characters: int) -> tuple[int, int]:
    """Return the first range of at most `characters` with the most different terms, then the most matches."""
    counts: Counter[str] = Counter()
    best, place, last = (0, 0), (found[0].start, found[0].stop), 0
    for first, each in enumerate(found):
        while last < len(found) and (found[last].stop - each.start <= characters or last == first):
            counts[found[last].term] += 1
            last += 1
        worth = (len(+counts), counts.total())
        if worth > best:
            best = worth
            place = (each.start, max(one.stop for one in found[first:last]))
        counts[each.term] -= 1
    return place


def _widened_snippet(text: str, start: int, stop: int, characters: int) -> tuple[int, int]:
    """Return the range with text around it, beginning and ending with a whole word if possible."""
    stop = min(stop, start + characters)
    room = characters - (stop - start)
    begin = max(0, start - int(room * _LEAD))
    end = min(len(text), begin + characters)
    begin = max(0, min(begin, end - characters))
    return _word_start(text, begin, start), _word_end(text, end, stop)


def _word_start(text: str, begin: int, start: int) -> int:
    if not begin or text[begin - 1].isspace():
        return begin
    for place in range(begin, min(begin + _LONGEST_WORD, start)):
        if text[place].isspace():
            return place + 1
    return begin


def _word_end(text: str, end: int, stop: int) -> int:
    if end >= len(text) or text[end].isspace():
        return end
    for place in range(end, max(end - _LONGEST_WORD, stop), -1):
        if text[place - 1].isspace():
            return place - 1
    return end


def _joined(found: Sequence[Occurrence]) -> list[tuple[int, int]]:
    """Merge ranges that touch or overlap."""
    joined: list[tuple[int, int]] = []
    for start, stop, _ in found:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], stop))
        else:
            joined.append((start, stop))
    return joined
