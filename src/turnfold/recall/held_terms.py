"""How a text holds what was asked for: how often, among how many terms, and which of it stands together.

A search weighs some hundred texts. Making all terms of each only to look a few of them up was most of what it cost, so
the few are counted in the text itself; the answer is the one that making all of them would give.

Pairs of characters do not tell where they stand: a text may hold both pairs of a word of three in different sentences,
or a word of letters far from the character it was asked for with (`X线`, `CT检查`). So it is told as well whether all
of what was asked stands together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import add

from turnfold.recall.terms import (
    CHARACTERS,
    EDGES,
    WORDS,
    found_in,
    is_cjk,
    plain_text,
    terms_of_words,
)

__all__ = ("AskedTerms", "HeldTerms")

_PAIR = 2
_LONGEST_TOGETHER = 24
"""Terms of a question that is looked for as it stands; a longer quotation is found by its pairs anyway."""
_LONG = 20_000
"""Characters from which each word of a text is looked at once: most stand there more than once."""
_FEW = 128
"""Terms of characters that are faster looked for one by one than by making all terms of a text."""


@dataclass(frozen=True, slots=True)
class HeldTerms:
    """What a text holds of the terms asked for."""

    counts: dict[str, int]
    """How often it holds each of those it does hold."""
    length: int
    """How many terms it has in all."""
    together: bool = False
    """Whether all of them, at least two and one of them of characters, go on into one another as asked."""


class AskedTerms:
    """The terms of a question, made ready to be looked for in many texts."""

    def __init__(self, terms: Iterable[str]) -> None:
        asked = list(dict.fromkeys(terms))
        self._words = frozenset(term for term in asked if not is_cjk(term))
        self._characters = [term for term in asked if is_cjk(term)]
        pairs = [term for term in self._characters if len(term) == _PAIR]
        # A pair of the same character stands twice in three of it, which `str.count` passes over.
        self._doubled = [pair for pair in pairs if pair[0] == pair[1]]
        paired = frozenset("".join(pairs))
        self._edges = frozenset("".join(self._characters))
        units = len(pairs) + len(self._words) + len(self._edges - paired)
        self._joints = units - 1 if self._edges and units <= _LONGEST_TOGETHER else 0
        """How often one term goes on into the next; 0 where nobody asks."""
        self._triples = {
            first + second[1]
            for first in (pairs if self._joints else ())
            for second in pairs
            if first[1] == second[0]
        }

    def held_by(self, text: str) -> HeldTerms:
        """What a text holds of them."""
        plain = plain_text(text)
        runs = CHARACTERS.findall(plain)
        counts = self._counts(plain, runs)
        length = 2 * sum(map(len, runs)) - len(runs)
        if len(plain) > _LONG:
            length += self._count_words(Counter(found_in(WORDS, plain)), counts)
        else:
            for terms in map(terms_of_words, WORDS.findall(plain)):
                length += len(terms)
                if not self._words.isdisjoint(terms):
                    for term in self._words.intersection(terms):
                        counts[term] = counts.get(term, 0) + terms.count(term)
        return HeldTerms(counts, length, self._is_together(plain, counts))

    def _count_words(self, words: Counter[str], counts: dict[str, int]) -> int:
        """Add how often the terms of words stand there; how many terms the words have in all."""
        length = 0
        for word, times in words.items():
            terms = terms_of_words(word)
            length += len(terms) * times
            for term in self._words.intersection(terms):
                counts[term] = counts.get(term, 0) + terms.count(term) * times
        return length

    def _counts(self, plain: str, runs: Sequence[str]) -> dict[str, int]:
        """How often the terms of characters stand there."""
        if len(self._characters) <= _FEW:
            count = plain.count
            counts = {term: many for term in self._characters if (many := count(term))}
            return counts | {
                term: _overlapping(plain, term) for term in self._doubled if term in counts
            }
        tally: Counter[str] = Counter()
        for run in runs:
            tally.update(run)
            tally.update(map(add, run, run[1:]))
        return {term: tally[term] for term in self._characters if term in tally}

    def _is_together(self, plain: str, counts: dict[str, int]) -> bool:
        if not self._joints or len(counts) < len(self._words) + len(self._characters):
            return False
        joints = sum(triple in plain for triple in self._triples)
        if joints < self._joints and self._words:
            joints += len(self._words_beside_characters(plain))
        return joints >= self._joints

    def _words_beside_characters(self, plain: str) -> set[str]:
        """The words asked for that stand right beside a character asked for."""
        return {
            term
            for before, word, after in EDGES.findall(plain)
            if before in self._edges or after in self._edges
            for term in self._words.intersection(terms_of_words(word))
        }


def _overlapping(plain: str, term: str) -> int:
    many, at = 0, plain.find(term)
    while at >= 0:
        many, at = many + 1, plain.find(term, at + 1)
    return many
