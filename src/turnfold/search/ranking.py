"""Rank search results, with the same order on every backend.

Scoring is BM25 with the word counts of the caller's own tenant. A backend's built-in ranking counts over the whole
index, so one tenant's results would shift with another's data.

Scoring an entry needs its text, so if very many entries match, only some (the candidates) are scored: those with the
rarest terms, by integer sums that are the same on every backend, and among equals the newest. To avoid reading the long
lists of common words, only the rarest terms select candidates if all terms together match very many entries; all terms
count in the score. A single Chinese character occurs in so many words that it adds mostly noise: if more entries match
than can be scored, a character selects candidates only if no pair of the query's characters with it occurs anywhere.

Neighbours: an answer is often next to the words of its question, in the reply or some turns on. So an entry gets the
score of its own match and a share of its neighbours' scores; weak matches give a smaller share. The share falls with
the distance in tokens, not in entries: it reaches several short turns, but hardly past one long turn. Before the
entries are read, their average length is used. Of two equal entries the newer ranks a little higher.

Fusion of two searches: a name or a number is found by its letters, a paraphrase by its meaning (embeddings). Scores of
both are measured by chance and added. Among n entries some share one rare word with any query, with a score near
log(n), and the nearest of n unrelated vectors is about sqrt(2 log(n)) standard deviations above the mean: each of these
counts 1. So words decide if they match better than by chance, and meaning if one entry stands out, in logs of any
length and with any encoder. Neighbours share scores by words before they are added; nearness in meaning includes the
neighbours already. If the words of the query match only by chance ("what should I order tonight?" after "peanuts nearly
killed me"), the score by words counts less: see `trust_in_words`.

Days: a question such as "what did I cook on May 4th?" names the day its answer was written, which stands in no text. A
named day counts as a word that all entries of that day have, and more, because nobody names a day by chance.
"""

from __future__ import annotations

import math
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
    "trust_in_words",
    "with_days",
    "worth_of_places",
)


MOST_CANDIDATES = 400
"""Most entries that are scored; if more match, the entries with the rarest terms are scored."""
MOST_WALKED = 10_000
"""Most entries, together, that the rare terms of a query may match, so that all of these entries are looked at."""
COMMON_CHOOSING = 3
"""After the rare terms of a query select texts, this many of its common terms, the rarest first, select more."""

_SATURATION = 1.2
_LENGTH_WEIGHT = 0.2
_CHARACTER_WEIGHT = 0.3
"""Weight of a single CJK character, relative to a pair: it occurs in many words."""
_USUAL_LENGTH = 60
"""Number of terms in a text of average length. In a longer text, matching terms count for less."""
_TOGETHER = 1.0
"""Bonus, as a share of the score, for a text that contains the whole query in one piece."""
_PAIR = 2


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result: which entry, checkpoint or document matched, and its score."""

    conversation: str
    seq: int
    """Seq (position in the log) of an entry; 0 for a checkpoint or document."""
    score: float
    """Relevance of the hit: higher is better. Scores of different searches cannot be compared."""
    kind: str = ""
    """Kind of the hit: empty for an entry, `checkpoint`, or the kind of a document."""
    key: str = ""
    """Id of a checkpoint, or key of a document; empty for an entry."""


class Candidate(NamedTuple):
    """An entry or document to score, with the query terms that occur in it."""

    conversation: str
    seq: int
    kind: str
    key: str
    matches: TermMatches


@dataclass(frozen=True, slots=True)
class TermChoice:
    """The terms of a query that select the candidates, which are the entries to score, as rare and as common terms."""

    walked: tuple[str, ...]
    """Rare terms: the index lists of these terms are read whole, and every entry in one of the lists is a candidate."""
    common: tuple[str, ...]
    """Common terms: of the entries that have only these, those with the most of them are candidates, newest first."""
    rarities: Mapping[str, int]
    """Weight of each selecting term in millionths: integers, so that every backend computes the same sums."""


def query_terms(terms: Iterable[str]) -> list[str]:
    """Return the distinct index terms of these query words, sorted; punctuation is dropped."""
    return sorted({term for text in terms for term in terms_of(text)})


def choosing_terms(holding: Mapping[str, int], *, total: int) -> TermChoice:
    """Return the query terms that select the entries to score.

    `holding` maps each term to the number of entries, of `total`, that contain it.
    """
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
    """Return the query terms that occur in entries.

    If very many entries match, single characters that are part of a pair are left out.
    """
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
    """Score the candidates by BM25 and return the best `limit`.

    `holding` maps each term to the number of entries, of `total`, that contain it.
    """
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
    """Return the weight of each term: the rarer the higher, and less for a single Chinese character.

    Raises `StoreError` if a count of the index is impossible.
    """
    return {
        term: _weight(count, total) * (_CHARACTER_WEIGHT if is_character(term) else 1.0)
        for term, count in holding.items()
    }


def _weight(count: int, total: int) -> float:
    if not 0 <= count <= total:
        raise StoreError(
            f"the search index is damaged: it counts {count} entries with a term, but {total} entries in all; "
            "restore the store from a backup"
        )
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


_SHARE = 0.6
"""Share of a match's score that the entry directly next to it gets; it falls with the distance."""
_REACH_TOKENS = 150.0
"""Distance in tokens over which the share of a neighbour falls to about a third."""
_FURTHEST = 10
"""Number of entries before and after a match that get a share of its score."""
_SHARPNESS = 0.5
"""Exponent that weakens low scores: a match at a quarter of the best score gives half of its share. Many weak matches
do not make a strong one."""
_MOST_BESIDE = 0.8
"""An entry without a match of its own gets at most this share of the score of a match near it, however many matches are
near."""
_RECENCY = 0.1
"""Bonus of the newest entry over the first one, as a share of the score; entries between them get a part of it."""


def ranked_places(
    hits: Iterable[tuple[int, float]],
    *,
    newest: int,
    mean_tokens: float,
    after: int = 0,
    before: int | None = None,
    positions: Mapping[int, float] | None = None,
) -> list[tuple[int, float]]:
    """Return the hits and their neighbours with `after < seq < before` as (seq, score), best first.

    `hits` are the results of a search as (seq, score), `newest` is the last seq of the conversation, `mean_tokens` the
    average token count of its entries. `positions` says how many tokens lie between the start of the log and the middle
    of each entry: with it, only these entries are returned, and real distances are used.
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
    """Return {seq: score}, with shares of the neighbours' scores and without the bonus for new entries."""
    stop = newest + 1 if before is None else min(before, newest + 1)
    shares = [
        _SHARE * math.exp(-distance * max(mean_tokens, 1.0) / _REACH_TOKENS)
        for distance in range(_FURTHEST + 1)
    ]
    found = sorted(hits)  # float sums depend on their order
    best = max((score for _, score in found), default=0.0)
    worth: dict[int, float] = {}
    beside: dict[int, float] = {}  # the best match beside each entry
    for seq, score in found:
        if not after < seq < stop or (positions is not None and seq not in positions):
            continue
        given = score * (score / best) ** _SHARPNESS if best > 0 else 0.0
        here = positions[seq] if positions is not None else 0.0
        for neighbour in range(max(after + 1, seq - _FURTHEST), min(stop, seq + _FURTHEST + 1)):
            if neighbour == seq:
                worth[seq] = worth.get(seq, 0.0) + score
                continue
            if positions is None:
                share = shares[abs(neighbour - seq)] * given
            elif neighbour in positions:
                share = _SHARE * math.exp(-abs(positions[neighbour] - here) / _REACH_TOKENS) * given
            else:
                continue
            worth[neighbour] = worth.get(neighbour, 0.0) + share
            if score > beside.get(neighbour, -1.0):
                beside[neighbour] = score
    for seq in worth.keys() - {seq for seq, _ in found}:
        worth[seq] = min(worth[seq], _MOST_BESIDE * beside[seq])
    return worth


_SURE_SHARE = 0.5
"""If one match has at least this share of the query's terms, matches by words are trusted fully, and those by meaning
count less."""
_SURE_SCORE = 2.0
"""Score of the best match from which matches by words are fully trusted, in units of the logarithm of the number of
entries."""
_NO_CHANCE = 1.6
"""Score of the best match, in the units of `_SURE_SCORE`, from which its nearness in meaning no longer matters."""
_AGREED = 0.7
"""Closeness (nearness in meaning) from which a match by words also counts as a match by meaning."""
_DOUBT = 3.0
"""Exponent: trust in matches by words falls with this power of the share, the score or the closeness."""


def trust_in_words(best: float, *, share: float, closeness: float, entries: int) -> float:
    """Return how far matches by words are trusted compared with matches by meaning, 0 to 1.

    `best` is the highest score, `share` the largest share of the query's terms in one of the best matches, `closeness`
    the largest closeness in meaning of one of them, `entries` the number of entries searched. Of many entries some
    share a rare word with any query by chance, with a score near log(entries): these must be near in meaning too.
    """
    chance = math.log(entries + 1)
    by_score = best / (_SURE_SCORE * chance) if entries > 0 else 1.0
    trust = min(max(share / _SURE_SHARE, by_score, 0.0), 1.0)
    above = (best / chance - 1.0) / (_NO_CHANCE - 1.0) if entries > 0 else 1.0
    agreed = min(max(closeness, 0.0) / _AGREED, 1.0)
    return trust**_DOUBT * agreed ** (_DOUBT * (1.0 - min(max(above, 0.0), 1.0)))


def fuse(
    words: Sequence[tuple[int, float]],
    meaning: Iterable[tuple[int, float]],
    *,
    entries: int,
    trust: float = 1.0,
) -> list[tuple[int, float]]:
    """Merge entries found by words (seq, score) and by meaning (seq, closeness) into (seq, score), best first.

    `entries` is the number of entries searched, `trust` (0 to 1) how far words are trusted.
    """
    parts = fused_parts(words, meaning, entries=entries, trust=trust)
    return _best_first(
        (seq, by_words + by_meaning) for seq, (by_words, by_meaning) in parts.items()
    )


def fused_parts(
    words: Sequence[tuple[int, float]],
    meaning: Iterable[tuple[int, float]],
    *,
    entries: int,
    trust: float = 1.0,
) -> dict[int, tuple[float, float]]:
    """Return two scores by seq for each entry: its score by words and its score by meaning, which `fuse` adds.

    Both are 1 for a match such as chance gives. The score by meaning is the square of the closeness: most entries are a
    little nearer than the mean, and together they must not outweigh a match by words.
    """
    unit = trust / math.log(max(entries, 1) + 1)
    worth = {seq: (unit * score, 0.0) for seq, score in words}
    for seq, closeness in meaning:
        by_words, _ = worth.get(seq, (0.0, 0.0))
        worth[seq] = by_words, max(closeness, 0.0) ** 2
    return worth


_DAY_WEIGHT, _PERIOD_WEIGHT = 4.0, 1.0
"""Weight of a day that the query names, and of a longer period, relative to a word that occurs in as many entries."""


def with_days(
    places: Iterable[tuple[int, float]],
    dated: Iterable[int],
    *,
    count: int,
    entries: int,
    days: bool = True,
    in_units: bool = False,
) -> list[tuple[int, float]]:
    """Return places as (seq, score), best first, in which the entries `dated` score for the day they were written on.

    The query names days if `days` is True, otherwise longer periods; `count` of all `entries` were written in them.
    With `in_units`, scores are those of `fuse`.
    """
    unit = math.log(max(entries, 1) + 1) if in_units else 1.0
    weight = _DAY_WEIGHT if days else _PERIOD_WEIGHT
    bonus = weight * _weight(min(count, entries), entries) / unit
    scores = dict(places)
    for seq in dated:
        scores[seq] = scores.get(seq, 0.0) + bonus
    return _best_first(scores.items())
