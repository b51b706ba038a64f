"""How search results are ordered, alike on every backend.

BM25 with the counts of the caller's own scope. A backend's built-in ranking counts over the whole index, so one
tenant's answers would shift with another's data; here nothing outside the scope takes part.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from turnfold.recall import terms_of
from turnfold.stores.protocol import Hit

__all__ = ("MOST_CANDIDATES", "query_terms", "rank")

MOST_CANDIDATES = 2000
"""Matching entries that are weighed; of more, the newest."""

_SATURATION = 1.2
_LENGTH_WEIGHT = 0.75
_USUAL_LENGTH = 60


def query_terms(terms: Iterable[str]) -> list[str]:
    """The distinct terms asked for, each as it is indexed; whatever else is in them is not a term."""
    return sorted({term for text in terms for term in terms_of(text)})


def rank(
    candidates: Sequence[tuple[str, int, Counter[str]]],
    holding: Mapping[str, int],
    *,
    total: int,
    limit: int,
) -> list[Hit]:
    """The best of the candidates (conversation, seq, terms). `holding` says how many of `total` entries hold a term."""
    weights = {
        term: math.log(1 + (total - count + 0.5) / (count + 0.5)) for term, count in holding.items()
    }
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
