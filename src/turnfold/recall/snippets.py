"""The stretch of a text that shows best why it was found, with what was asked for marked in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from turnfold.errors import InvalidOption
from turnfold.recall.occurrences import Occurrence, occurrences

__all__ = ("SNIPPET_CHARACTERS", "Snippet", "snippet")

SNIPPET_CHARACTERS = 160
_LEAD = 0.25
"""Of the room that is left, how much is shown before what was found."""
_LONGEST_WORD = 24
"""Characters that are left out at most so that a snippet begins and ends with a whole word."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """A stretch of a text."""

    text: str
    marks: tuple[tuple[int, int], ...] = ()
    """Start and stop, within `text`, of what was asked for; in order, none touching another."""
    before: bool = False
    """Whether something stands before it."""
    after: bool = False
    """Whether something stands after it."""

    def shown(self, begin: str, end: str, cut: str = "…") -> str:
        """The text with every mark between `begin` and `end`, and a sign where something was cut."""
        parts = [cut if self.before else ""]
        at = 0
        for start, stop in self.marks:
            parts += [self.text[at:start], begin, self.text[start:stop], end]
            at = stop
        return "".join([*parts, self.text[at:], cut if self.after else ""])


def snippet(text: str, terms: Collection[str], *, characters: int = SNIPPET_CHARACTERS) -> Snippet:
    """At most `characters` of the text, where it holds most of the different terms."""
    if characters < 1:
        raise InvalidOption(f"a snippet has at least 1 character, got {characters}")
    found = occurrences(text, terms)
    start, stop = _best(found, characters) if found else (0, 0)
    start, stop = _widened(text, start, stop, characters)
    marks = _joined([each for each in found if each.start < stop and each.stop > start])
    return Snippet(
        text[start:stop],
        tuple((max(first, start) - start, min(last, stop) - start) for first, last in marks),
        before=bool(text[:start].strip()),
        after=bool(text[stop:].strip()),
    )


def _best(found: Sequence[Occurrence], characters: int) -> tuple[int, int]:
    """The first stretch, no longer than that, which holds the most different terms, and then the most of them."""
    held: Counter[str] = Counter()
    best, place, last = (0, 0), (found[0].start, found[0].stop), 0
    for first, each in enumerate(found):
        while last < len(found) and (found[last].stop - each.start <= characters or last == first):
            held[found[last].term] += 1
            last += 1
        worth = (len(+held), held.total())
        if worth > best:
            best = worth
            place = (each.start, max(one.stop for one in found[first:last]))
        held[each.term] -= 1
    return place


def _widened(text: str, start: int, stop: int, characters: int) -> tuple[int, int]:
    """The stretch with what stands around it, from a whole word to a whole word where there are words."""
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
    """Stretches that touch or overlap, made one."""
    joined: list[tuple[int, int]] = []
    for start, stop, _ in found:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], stop))
        else:
            joined.append((start, stop))
    return joined
