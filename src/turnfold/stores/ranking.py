"""How search results are ordered, alike on every backend.

BM25 with the counts of the caller's own scope. A backend's built-in ranking counts over the whole index, so one
tenant's answers would shift with another's data; here nothing outside the scope takes part.

Weighing an entry needs its text, so of very many that hold a term only some are weighed. Which ones is decided by
whole numbers that every backend computes alike: first those that hold the rarer terms, then those nearest to the end
of their conversation, whichever conversation that is, so that a long one does not push out the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from turnfold.errors import StoreError
from turnfold.recall import is_character, terms_of
from turnfold.stores.protocol import Hit

__all__ = ("MOST_CANDIDATES", "Candidate", "cut", "query_terms", "rank", "rarity")

MOST_CANDIDATES = 400
"""Matching entries that are weighed; of more, those `cut` keeps."""

Candidate: TypeAlias = tuple[str, int, Counter[str]]
"""An entry that holds a term: conversation, seq, all its terms."""

_SATURATION = 1.2
_LENGTH_WEIGHT = 0.2
_CHARACTER_WEIGHT = 0.1
"""A character stands in many words; where the pairs of a word are found, its characters are found with them."""
_USUAL_LENGTH = 60


def query_terms(terms: Iterable[str]) -> list[str]:
    """The distinct terms asked for, each as it is indexed; whatever else is in them is not a term."""
    return sorted({term for text in terms for term in terms_of(text)})


def rarity(holding: Mapping[str, int], *, total: int) -> dict[str, int]:
    """How much each term tells, in millionths: whole numbers, so that sums are the same in any order and language."""
    weights = _weights(holding, total)
    return {term: round(weight * 1_000_000) for term, weight in weights.items()}


def cut(
    candidates: Sequence[Candidate],
    rarities: Mapping[str, int],
    heads: Mapping[str, int],
    *,
    most: int,
) -> list[Candidate]:
    """The candidates that are weighed when there are more than `most`; `heads` are the newest seqs."""

    def place(candidate: Candidate) -> tuple[int, int, str]:
        name, seq, bag = candidate
        told = sum(value for term, value in rarities.items() if term in bag)
        return -told, heads[name] - seq, name

    return sorted(candidates, key=place)[:most]


def rank(
    candidates: Sequence[Candidate],
    holding: Mapping[str, int],
    *,
    total: int,
    limit: int,
) -> list[Hit]:
    """The best of the candidates. `holding` says how many of `total` entries hold a term."""
    weights = _weights(holding, total)
    hits: list[Hit] = []
    for name, seq, bag in candidates:
        length = 1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * bag.total() / _USUAL_LENGTH
        score = sum(
            weight * bag[term] * (_SATURATION + 1) / (bag[term] + _SATURATION * length)
            for term, weight in weights.items()
            if bag[term]
        )
        hits.append(Hit(name, seq, round(score, 9)))
    return sorted(hits, key=lambda hit: (-hit.score, hit.conversation, -hit.seq))[:limit]


def _weights(holding: Mapping[str, int], total: int) -> dict[str, float]:
    """What each term tells: the rarer the more, and a single character of Chinese a part of what a word does."""
    return {
        term: _weight(count, total) * (_CHARACTER_WEIGHT if is_character(term) else 1.0)
        for term, count in holding.items()
    }


def _weight(count: int, total: int) -> float:
    if not 0 <= count <= total:
        raise StoreError(
            f"the search index is damaged: {count} of {total} entries hold a term; restore the store from a backup"
        )
    return math.log(1 + (total - count + 0.5) / (count + 0.5))
