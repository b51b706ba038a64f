"""Where in a text its terms stand, so that what was found can be shown.

Terms are made of a text whose widths and forms were made one, so places in that text must be led back to the text as it
was written. A whole word is marked where its stem was asked for. A single character of Chinese is marked only where it
was asked for by itself: as a part of a word it stands in many others.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator
from typing import NamedTuple

from turnfold.recall.simplified import SIMPLIFIED
from turnfold.recall.terms import LETTERS, RUN, is_character, is_cjk, terms_of
from turnfold.tokens import normal_form

__all__ = ("Occurrence", "occurrences")

_APOSTROPHES = ("'", "’")


class Occurrence(NamedTuple):
    """A stretch of a text that holds a term."""

    start: int
    stop: int
    term: str


def occurrences(text: str, terms: Collection[str]) -> list[Occurrence]:
    """Where the terms stand, in order; two stretches may touch or overlap."""
    wanted = frozenset(terms)
    alone = _asked_alone(wanted)
    plain, origins = _plain(text)
    held: dict[str, frozenset[str]] = {}
    found = [
        Occurrence(_origin(origins, start), _origin(origins, stop), term)
        for run in RUN.finditer(plain)
        for start, stop, term in (
            _characters(run[0], run.start(), wanted, alone)
            if is_cjk(run[0])
            else _words(run[0], run.start(), _held(run[0], wanted, held))
        )
    ]
    return sorted(each for each in found if each.start < each.stop)


def _asked_alone(wanted: frozenset[str]) -> frozenset[str]:
    """Single characters that are no part of a longer term asked for."""
    parts = {character for term in wanted if len(term) > 1 for character in term}
    return frozenset(term for term in wanted if is_character(term) and term not in parts)


def _characters(
    run: str, at: int, wanted: frozenset[str], alone: frozenset[str]
) -> Iterator[Occurrence]:
    simple = run.translate(SIMPLIFIED)
    for place, character in enumerate(simple):
        if character in alone:
            yield Occurrence(at + place, at + place + 1, character)
        pair = simple[place : place + 2]
        if len(pair) > 1 and pair in wanted:
            yield Occurrence(at + place, at + place + 2, pair)


def _held(run: str, wanted: frozenset[str], known: dict[str, frozenset[str]]) -> frozenset[str]:
    """The terms wanted that a run holds; `known` are those of runs looked at before."""
    held = known.get(run)
    if held is None:
        held = known[run] = wanted.intersection(terms_of(run))
    return held


def _words(run: str, at: int, whole: frozenset[str]) -> Iterator[Occurrence]:
    """Where the terms that a run holds stand in it."""
    if not whole:
        return
    shown: set[str] = set()
    for part in LETTERS.finditer(run):
        held = whole.intersection(terms_of(part[0]))
        shown |= held
        for term in sorted(held):
            yield Occurrence(at + part.start(), at + part.end(), term)
    # What is left is a term of the whole: its words written together, or without their apostrophe.
    for term in sorted(whole - shown):
        yield Occurrence(at, at + len(run), term)


def _plain(text: str) -> tuple[str, list[int] | None]:
    """The text with widths and forms made one, and for each of its characters where it came from."""
    if normal_form("NFKC", text) == text:
        return text, None
    plain: list[str] = []
    origins: list[int] = []
    start = 0
    for stop in range(1, len(text) + 1):
        if stop < len(text) and _joins(text[stop]):
            continue
        piece = normal_form("NFKC", text[start:stop])
        plain.append(piece)
        origins += [start] * len(piece)
        start = stop
    return "".join(plain), [*origins, len(text)]


def _joins(character: str) -> bool:
    """Whether a character may become one with those before it."""
    first = unicodedata.normalize("NFKD", character)[:1]
    return unicodedata.combining(first) > 0 or "\u1160" <= first <= "\u11ff"


def _origin(origins: list[int] | None, place: int) -> int:
    return place if origins is None else origins[place]
