"""Match query terms in a text: how often they occur, and where.

Counting: a search ranks some hundred texts. Splitting each text into all its terms would be most of the cost, so only
the terms of the query are counted, in the text itself, with the same result. Character pairs have no position: a text
may contain both pairs of a three-character word in different sentences, or a Latin word far from the character it
belongs to in the query (`X线`, `CT检查`). So a match also says whether the whole query occurs in one piece.

Positions, for highlighting: terms are made from normalized text, so a position there is mapped back to the text as it
was written. A whole word is marked if its stem is in the query. A single Chinese character is marked only if the query
has it by itself: as part of a word it occurs in many others.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import add
from typing import NamedTuple

from turnfold._caches import SizedCache
from turnfold.text import (
    CHARACTERS,
    EDGES,
    LETTERS,
    RUN,
    SIMPLIFIED,
    WORDS,
    WantedTerms,
    found_in,
    is_character,
    is_cjk,
    normal_form,
    plain_text,
    terms_of,
    terms_of_words,
)

__all__ = (
    "Occurrence",
    "QueryTerms",
    "TermMatches",
    "occurrences",
)


_PAIR = 2
_LONGEST_TOGETHER = 24
"""Most terms of a query that is also matched as one phrase; a longer quotation is found by pairs of its terms
anyway."""
_LONG = 20_000
"""Characters of a text above which each distinct word is split into terms only once, because most words repeat."""
_LONG_RUN = 20_000
"""A run of Chinese, Japanese or Korean characters is counted in pieces of this many characters, so that other threads
can run in between."""
_CACHED_LENGTH = 2_000
_CACHED_CHARACTERS = 2_000_000
"""Characters of the texts, each of at most `_CACHED_LENGTH`, whose terms are cached: up to 30 MB."""
_ENTRY_SIZE = 40
"""Characters for which each cached text counts beside its own."""
_FEW = 128
"""Up to this number, the Chinese, Japanese and Korean terms of a query are counted one by one; for more, counting all
terms of the text is faster."""


@dataclass(frozen=True, slots=True)
class TermMatches:
    """Numbers of times that the terms of a query occur in a text."""

    counts: dict[str, int]
    """Term -> number of its occurrences; terms that do not occur are left out."""
    length: int
    """Number of all terms of the text, with repetitions."""
    together: bool = False
    """True if all query terms (at least two, one of them CJK) occur next to each other in the order of the query."""


class _Counted(NamedTuple):
    """The words and CJK runs of a text, prepared for counting the terms of a query in it."""

    plain: str
    runs: Sequence[str]
    """Runs of CJK characters in the text."""
    words: dict[str, int]
    """Number of occurrences by term, for all terms that are not CJK."""
    length: int
    """Number of all terms of the text, with repetitions."""


def _counted(text: str, wanted: WantedTerms | None = None) -> _Counted:
    """Count the terms of a text; terms that are not `wanted` may be missing in the result."""
    plain = plain_text(text)
    runs = () if plain.isascii() else list(found_in(CHARACTERS, plain))
    words: dict[str, int] = {}
    length = 2 * sum(map(len, runs)) - len(runs)
    found = Counter(found_in(WORDS, plain)) if len(plain) > _LONG else Counter(WORDS.findall(plain))
    for word, times in found.items():
        if wanted is not None and wanted.rules_out(word):
            length += times
            continue
        for term in terms_of_words(word):
            words[term] = words.get(term, 0) + times
            length += times
    return _Counted(plain, runs, words, length)


_counted_texts: SizedCache[str, _Counted] = SizedCache(limit=_CACHED_CHARACTERS)


def _counted_again(text: str) -> _Counted:
    """Do `_counted` with a cache, for short texts: the turns of a session search the same log again and again."""
    found = _counted_texts.get(text)
    if found is None:
        found = _counted(text)
        _counted_texts.put(text, found, size=len(text) + _ENTRY_SIZE)
    return found


class QueryTerms:
    """The terms of a query, prepared for matching against many texts."""

    def __init__(self, terms: Iterable[str]) -> None:
        distinct = list(dict.fromkeys(terms))
        self._words = frozenset(term for term in distinct if not is_cjk(term))
        self._wanted = WantedTerms(self._words)
        self._characters = [term for term in distinct if is_cjk(term)]
        pairs = [term for term in self._characters if len(term) == _PAIR]
        # A pair of the same character occurs twice in three of it, which `str.count` does not see.
        self._doubled = [pair for pair in pairs if pair[0] == pair[1]]
        paired = frozenset("".join(pairs))
        self._edges = frozenset("".join(self._characters))
        units = len(pairs) + len(self._words) + len(self._edges - paired)
        self._joints = units - 1 if self._edges and units <= _LONGEST_TOGETHER else 0
        """Number of places where one term continues in the next; 0 if the query is not matched as a whole."""
        self._triples = {
            first + second[1]
            for first in (pairs if self._joints else ())
            for second in pairs
            if first[1] == second[0]
        }

    def count_in(self, text: str) -> TermMatches:
        """Return how often each term of the query occurs in `text`."""
        short = len(text) <= _CACHED_LENGTH
        found = _counted_again(text) if short else _counted(text, self._wanted)
        counts = self._counts(found.plain, found.runs)
        counts |= {term: found.words[term] for term in self._words if term in found.words}
        return TermMatches(counts, found.length, self._is_together(found.plain, counts))

    def _counts(self, plain: str, runs: Sequence[str]) -> dict[str, int]:
        """Return how often each CJK term of the query occurs, by term."""
        if len(self._characters) <= _FEW:
            count = plain.count
            counts = {term: times for term in self._characters if (times := count(term))}
            return counts | {
                term: _overlapping(plain, term) for term in self._doubled if term in counts
            }
        tally: Counter[str] = Counter()
        for run in runs:
            for start in range(0, len(run), _LONG_RUN):  # in one call, no other thread could run
                piece = run[start : start + _LONG_RUN + 1]
                tally.update(piece[:_LONG_RUN])
                tally.update(map(add, piece, piece[1:]))
        return {term: tally[term] for term in self._characters if term in tally}

    def _is_together(self, plain: str, counts: dict[str, int]) -> bool:
        if not self._joints or len(counts) < len(self._words) + len(self._characters):
            return False
        joints = sum(triple in plain for triple in self._triples)
        if joints < self._joints and self._words:
            # Query words right beside a character of the query.
            joints += len(
                {
                    term
                    for each in EDGES.finditer(plain)
                    for before, word, after in [each.groups("")]
                    if before in self._edges or after in self._edges
                    for term in self._words.intersection(terms_of_words(word))
                }
            )
        return joints >= self._joints


def _overlapping(plain: str, term: str) -> int:
    times, at = 0, plain.find(term)
    while at >= 0:
        times, at = times + 1, plain.find(term, at + 1)
    return times


class Occurrence(NamedTuple):
    """A range of a text that matches a term of the query."""

    start: int
    stop: int
    term: str


def occurrences(text: str, terms: Collection[str]) -> list[Occurrence]:
    """Return the ranges of `text` that match one of the terms, in order; two ranges may touch or overlap."""
    wanted = frozenset(terms)
    alone = _single_characters(wanted)
    plain, origins = _plain(text)
    cache: dict[str, frozenset[str]] = {}
    prepared = WantedTerms(wanted)
    found = [
        Occurrence(_origin(origins, start), _origin(origins, stop), term)
        for run in RUN.finditer(plain)
        for start, stop, term in (
            _characters(run[0], run.start(), wanted, alone)
            if is_cjk(run[0])
            else ()
            if prepared.rules_out(run[0])
            else _words(run[0], run.start(), _terms_in(run[0], wanted, cache))
        )
    ]
    return sorted(each for each in found if each.start < each.stop)


def _single_characters(wanted: frozenset[str]) -> frozenset[str]:
    """Return the single characters of the query that are not part of one of its longer terms."""
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


def _terms_in(run: str, wanted: frozenset[str], cache: dict[str, frozenset[str]]) -> frozenset[str]:
    """Return the wanted terms that a run of text without spaces contains."""
    found = cache.get(run)
    if found is None:
        found = cache[run] = wanted.intersection(terms_of(run))
    return found


def _words(run: str, at: int, whole: frozenset[str]) -> Iterator[Occurrence]:
    """Yield the range of each term of `whole` in a run of words that begins at index `at` of the text."""
    if not whole:
        return
    found: set[str] = set()
    for part in LETTERS.finditer(run):
        in_part = whole.intersection(terms_of(part[0]))
        found |= in_part
        for term in sorted(in_part):
            yield Occurrence(at + part.start(), at + part.end(), term)
    # The rest are terms of the whole run: its words joined, or without their apostrophe.
    for term in sorted(whole - found):
        yield Occurrence(at, at + len(run), term)


def _plain(text: str) -> tuple[str, list[int] | None]:
    """Return the text in NFKC, and for each of its characters the index in `text` (None if nothing changed)."""
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
    """Return True if a character may combine with the characters before it when the text is normalised."""
    first = unicodedata.normalize("NFKD", character)[:1]
    return unicodedata.combining(first) > 0 or "\u1160" <= first <= "\u11ff"


def _origin(origins: list[int] | None, place: int) -> int:
    return place if origins is None else origins[place]
