"""Rank search results, the same on every backend.

Scoring is BM25 with the counts of the caller's own scope. A backend's built-in ranking counts over the whole index, so
one tenant's results would shift with another's data; here nothing outside the scope counts.

Scoring an entry needs its text, so of very many matching entries only some are scored: those with the rarest terms, by
integer sums that are the same on every backend, and of equals the newest. To avoid reading the long lists of common
words, only the rarest terms select candidates if all together match very many entries; all terms count in the score. A
single Chinese character occurs in so many words that it adds mostly noise: if there are more matches than can be
scored, it selects only if no pair of the query with it occurs anywhere.

Neighbours: an answer is often next to the words of its question, in the reply or some turns on. So an entry gets the
score of its own match and a share of its neighbours' scores. The reach is a length of text, not a number of entries:
several short turns, or hardly the next long one. Before the entries are read, their average length stands for it. Of
two equal entries the newer ranks a little higher.

Fusion: a name or a number is found by its letters, a paraphrase by its meaning. Ranks alone would lose how much better
the best match is, so scores are added: words as a share of the best, meaning by how far an entry stands out from the
conversation around it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from turnfold.errors import StoreError
from turnfold.search.term_matches import TermMatches
from turnfold.text import is_character, terms_of

__all__ = (
    "COMMON_CHOOSING",
    "MOST_CANDIDATES",
    "MOST_WALKED",
    "Candidate",
    "Hit",
    "TermChoice",
    "choosing_terms",
    "fuse",
    "fused_parts",
    "query_terms",
    "rank",
    "ranked_places",
    "worth_of_places",
)


MOST_CANDIDATES = 400
"""Most entries that are scored; of more matches, those whose selecting terms are rarest."""
MOST_WALKED = 10_000
"""Most entries that the rarest terms may match together for all of these entries to be read."""
COMMON_CHOOSING = 3
"""Further, more common terms that take part in selecting."""

_SATURATION = 1.2
_LENGTH_WEIGHT = 0.2
_CHARACTER_WEIGHT = 0.3
"""A character occurs in many words, and always where the pairs of a word occur."""
_USUAL_LENGTH = 60
_TOGETHER = 1.0
"""Bonus, as a share of the score, if the whole query occurs in one piece."""
_PAIR = 2


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result."""

    conversation: str
    seq: int
    """The seq of an entry; 0 for anything else."""
    score: float
    """Higher is better; comparable within one answer only."""
    kind: str = ""
    """Empty for an entry, `checkpoint`, or the kind of a document."""
    key: str = ""
    """The checkpoint's id, or the document's key."""


class Candidate(NamedTuple):
    """An entry or document to score, with the query terms that occur in it."""

    conversation: str
    seq: int
    kind: str
    key: str
    matches: TermMatches


@dataclass(frozen=True, slots=True)
class TermChoice:
    """The terms that select the candidates to score."""

    walked: tuple[str, ...]
    """Rare terms: everything that matches one of these is a candidate."""
    common: tuple[str, ...]
    """Common terms: of what matches only these, the newest with the most of them are candidates."""
    rarities: Mapping[str, int]
    """Weight of each of these terms in millionths: integers, so that every backend computes the same sums."""


def query_terms(terms: Iterable[str]) -> list[str]:
    """Return the distinct index terms of the given texts, sorted; anything else in them is dropped."""
    return sorted({term for text in terms for term in terms_of(text)})


def choosing_terms(holding: Mapping[str, int], *, total: int) -> TermChoice:
    """Return the terms that select candidates; `holding` has how many of `total` entries match each term."""
    weights = _weights(holding, total)
    # Ordered by the number of matches, not by weight: a single character weighs less than its rarity says.
    order = sorted(_worth_walking(holding), key=lambda term: (holding[term], term))
    walked, places = 0, 0
    for term in order:
        places += holding[term]
        if places > MOST_WALKED:
            break
        walked += 1
    first, common = order[:walked], order[walked : walked + COMMON_CHOOSING]
    rarities = {term: round(weights[term] * 1_000_000) for term in (*first, *common)}
    return TermChoice(tuple(first), tuple(common), rarities)


def _worth_walking(holding: Mapping[str, int]) -> list[str]:
    """Return the terms with matches; if there are very many, without characters that are in a pair with matches."""
    found = [term for term, count in holding.items() if count]
    if sum(holding.values()) <= MOST_CANDIDATES:
        return found
    paired = {
        character
        for term in found
        if len(term) == _PAIR and is_character(term[0])
        for character in term
    }
    return [term for term in found if term not in paired]


def rank(
    candidates: Iterable[Candidate],
    holding: Mapping[str, int],
    *,
    total: int,
    limit: int,
) -> list[Hit]:
    """Return the best of the candidates; `holding` has how many of `total` entries match each term."""
    weights = _weights(holding, total)
    hits = [
        Hit(name, seq, round(_score(matches, weights), 9), kind, key)
        for name, seq, kind, key, matches in candidates
    ]
    return sorted(hits, key=_place)[:limit]


def _score(matches: TermMatches, weights: Mapping[str, float]) -> float:
    counts = matches.counts
    length = 1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * matches.length / _USUAL_LENGTH
    score = sum(
        weight * counts[term] * (_SATURATION + 1) / (counts[term] + _SATURATION * length)
        for term, weight in weights.items()
        if term in counts
    )
    return score * (1 + _TOGETHER) if matches.together else score


def _place(hit: Hit) -> tuple[float, str, str, int, str]:
    return -hit.score, hit.conversation, hit.kind, -hit.seq, hit.key


def _weights(holding: Mapping[str, int], total: int) -> dict[str, float]:
    """Return the weight of each term: the rarer the higher, and less for a single Chinese character."""
    return {
        term: _weight(count, total) * (_CHARACTER_WEIGHT if is_character(term) else 1.0)
        for term, count in holding.items()
    }


def _weight(count: int, total: int) -> float:
    if not 0 <= count <= total:
        raise StoreError(
            f"the search index is damaged: {count} of {total} entries match a term; restore the store from a backup"
        )
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


_SHARE = 0.6
"""Share of a score that a neighbour gets at distance 0."""
_REACH_TOKENS = 150.0
"""Distance in tokens over which that share falls to about a third."""
_FURTHEST = 10
"""Most entries a match reaches to either side."""
_RECENCY = 0.1
"""How much more the newest entry counts than the first, as a share of the score."""


def ranked_places(
    hits: Iterable[tuple[int, float]],
    *,
    newest: int,
    mean_tokens: float,
    after: int = 0,
    before: int | None = None,
    positions: Mapping[int, float] | None = None,
) -> list[tuple[int, float]]:
    """Return the hits and their neighbours between `after` and `before` as (seq, score), best first.

    `hits` are (seq, score) of a search, `newest` is the last seq of the conversation, `mean_tokens` the average cost of
    its entries. With `positions` (tokens from the start of the log to the middle of each entry) only these entries
    count, at their real distances.
    """
    worth = worth_of_places(
        hits,
        newest=newest,
        mean_tokens=mean_tokens,
        after=after,
        before=before,
        positions=positions,
    )
    return _best_first((seq, score * (1 + _RECENCY * seq / newest)) for seq, score in worth.items())


def _best_first(places: Iterable[tuple[int, float]]) -> list[tuple[int, float]]:
    ordered = sorted((-round(score, 9), -seq) for seq, score in places)
    return [(-seq, -score) for score, seq in ordered]


def worth_of_places(
    hits: Iterable[tuple[int, float]],
    *,
    newest: int,
    mean_tokens: float,
    after: int = 0,
    before: int | None = None,
    positions: Mapping[int, float] | None = None,
) -> dict[int, float]:
    """Return the score of each place with shares of its neighbours' scores, by seq; age does not count here."""
    stop = newest + 1 if before is None else min(before, newest + 1)
    shares = [
        _SHARE * math.exp(-distance * max(mean_tokens, 1.0) / _REACH_TOKENS)
        for distance in range(_FURTHEST + 1)
    ]
    worth: defaultdict[int, float] = defaultdict(float)
    for seq, score in sorted(hits):  # float sums depend on their order
        if not after < seq < stop or (positions is not None and seq not in positions):
            continue
        first, last = max(after + 1, seq - _FURTHEST), min(stop, seq + _FURTHEST + 1)
        for neighbour in range(first, last):
            if neighbour == seq:
                worth[seq] += score
            elif positions is None:
                worth[neighbour] += shares[abs(neighbour - seq)] * score
            elif neighbour in positions:
                distance = abs(positions[neighbour] - positions[seq])
                worth[neighbour] += _SHARE * math.exp(-distance / _REACH_TOKENS) * score
    return worth


_WEIGHT = 0.9
"""Score of the closest match by meaning; the best match by words scores 1."""
_STEEPNESS = 2.0
"""Exponent: the score falls faster than the closeness."""


def fuse(
    words: Sequence[tuple[int, float]], meaning: Iterable[tuple[int, float]]
) -> list[tuple[int, float]]:
    """Return places as (seq, score), best first, from matches by words (score) and by meaning (closeness, 0 to 1)."""
    parts = fused_parts(words, meaning)
    return _best_first(
        (seq, by_words + by_meaning) for seq, (by_words, by_meaning) in parts.items()
    )


def fused_parts(
    words: Sequence[tuple[int, float]], meaning: Iterable[tuple[int, float]]
) -> dict[int, tuple[float, float]]:
    """Return the scores by words and by meaning of each place, by seq; their sum is its score."""
    best = max((score for _, score in words), default=0.0)
    worth = {seq: (score / best, 0.0) for seq, score in words} if best > 0 else {}
    for seq, closeness in meaning:
        by_words, _ = worth.get(seq, (0.0, 0.0))
        worth[seq] = by_words, _WEIGHT * min(max(closeness, 0.0), 1.0) ** _STEEPNESS
    return worth
