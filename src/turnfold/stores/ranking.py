"""How search results are chosen and ordered, alike on every backend.

BM25 with the counts of the caller's own scope. A backend's built-in ranking counts over the whole index, so one
tenant's answers would shift with another's data; here nothing outside the scope takes part.

Weighing a place needs its text, so of very many that hold a term only some are weighed: those whose terms tell most, in
whole numbers that every backend adds up alike, and of equals the newest. Lest a search walk through the long lists of
common words for that, only the rarest of its words choose where all together stand in very many places; all of them
weigh. A single character of Chinese stands in so many words that it brings in hardly anything but noise: where places
are more than can be weighed, it chooses only if no pair that it is asked for with stands anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from turnfold.errors import StoreError
from turnfold.recall import HeldTerms, is_character, terms_of

__all__ = (
    "COMMON_CHOOSING",
    "MOST_CANDIDATES",
    "MOST_WALKED",
    "Candidate",
    "Choosing",
    "Hit",
    "choosing_terms",
    "query_terms",
    "rank",
    "rarity",
)

MOST_CANDIDATES = 400
"""Matching places that are weighed; of more, those the choosing terms tell most of."""
MOST_WALKED = 10_000
"""Places that the rarest terms may stand in, together, for all of these places to be looked at."""
COMMON_CHOOSING = 3
"""Terms beyond those that take part in choosing."""

_SATURATION = 1.2
_LENGTH_WEIGHT = 0.2
_CHARACTER_WEIGHT = 0.1
"""A character stands in many words; where the pairs of a word are found, its characters are found with them."""
_USUAL_LENGTH = 60
_TOGETHER = 1.0
"""What it adds, as a share of the score, that all of what was asked stands together."""
_PAIR = 2


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result."""

    conversation: str
    seq: int
    """The entry's; 0 for anything else."""
    score: float
    """Higher is better; comparable within one answer only."""
    kind: str = ""
    """Empty for an entry, `checkpoint`, or the kind of a document."""
    key: str = ""
    """The checkpoint's id, or the document's key."""


class Candidate(NamedTuple):
    """A place that is weighed, with what it holds of the terms asked for."""

    conversation: str
    seq: int
    kind: str
    key: str
    held: HeldTerms


@dataclass(frozen=True, slots=True)
class Choosing:
    """The terms that choose what is weighed, and how much each of them tells."""

    walked: tuple[str, ...]
    """Every place that holds one of these is looked at."""
    common: tuple[str, ...]
    """Of the places that hold only these, the newest that hold most."""
    rarities: Mapping[str, int]
    """Of both."""


def query_terms(terms: Iterable[str]) -> list[str]:
    """The distinct terms asked for, each as it is indexed; whatever else is in them is not a term."""
    return sorted({term for text in terms for term in terms_of(text)})


def rarity(holding: Mapping[str, int], *, total: int) -> dict[str, int]:
    """How much each term tells, in millionths: whole numbers, so that sums are the same in any order and language."""
    weights = _weights(holding, total)
    return {term: round(weight * 1_000_000) for term, weight in weights.items()}


def choosing_terms(holding: Mapping[str, int], *, total: int) -> Choosing:
    """Which terms choose; `holding` says in how many of `total` places each of them stands."""
    rarities = rarity(holding, total=total)
    # In the order of how many hold them, not of what they tell: a single character tells less than it is rare.
    order = sorted(_worth_walking(holding), key=lambda term: (holding[term], term))
    walked, places = 0, 0
    for term in order:
        places += holding[term]
        if places > MOST_WALKED:
            break
        walked += 1
    first, common = order[:walked], order[walked : walked + COMMON_CHOOSING]
    return Choosing(
        tuple(first), tuple(common), {term: rarities[term] for term in (*first, *common)}
    )


def _worth_walking(holding: Mapping[str, int]) -> list[str]:
    """The terms that stand somewhere; of very many places, without characters whose pair stands somewhere."""
    held = [term for term, count in holding.items() if count]
    if sum(holding.values()) <= MOST_CANDIDATES:
        return held
    paired = {
        character
        for term in held
        if len(term) == _PAIR and is_character(term[0])
        for character in term
    }
    return [term for term in held if term not in paired]


def rank(
    candidates: Iterable[Candidate],
    holding: Mapping[str, int],
    *,
    total: int,
    limit: int,
) -> list[Hit]:
    """The best of the candidates. `holding` says how many of `total` places hold a term."""
    weights = _weights(holding, total)
    hits = [
        Hit(name, seq, round(_score(held, weights), 9), kind, key)
        for name, seq, kind, key, held in candidates
    ]
    return sorted(hits, key=_place)[:limit]


def _score(held: HeldTerms, weights: Mapping[str, float]) -> float:
    counts = held.counts
    length = 1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * held.length / _USUAL_LENGTH
    score = sum(
        weight * counts[term] * (_SATURATION + 1) / (counts[term] + _SATURATION * length)
        for term, weight in weights.items()
        if term in counts
    )
    return score * (1 + _TOGETHER) if held.together else score


def _place(hit: Hit) -> tuple[float, str, str, int, str]:
    return -hit.score, hit.conversation, hit.kind, -hit.seq, hit.key


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
