"""What a sentence is worth, and which sentences together say most within a limit.

A summary is a cover: the facts and the salient terms of the source are to be covered with as few
tokens as possible. Each sentence is worth only what the chosen ones do not say yet, so repetition
costs nothing twice, and the best choice next is the one with the most new worth per token. Worth
only falls as sentences are chosen, so a stale value in the heap is an upper bound and each step
looks at few candidates.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from turnfold.summary.facts import FACT_WEIGHTS, Hit

__all__ = ("Candidate", "Worth", "choose", "estimated_tokens", "weigh")

TERM_SHARE = 0.15
BIGRAM_SHARE = (
    0.4  # a clause has a bigram for each character, an English one a term for each longer word
)
EARLIER_PRIOR = 2.0
EARLIER_CROWDED = 0.8
EARLIER_ROOM = 0.7
LEAST_WORTH = 1e-6
MISFITS_BEFORE_GIVING_UP = 48
_HEAD_CHARACTERS = 6
"""Characters to a token, at least as many as running text has."""
_SLACK = 2
"""Tokens by which a whole line may cost less than its beginning: the last word of that may be cut in two."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sentence that may be kept: the line it would become and what it says.

    `voice` is how much its speaker counts, `stress` what its place and form add or take away.
    `earlier` marks a line of the previous summary.
    """

    line: str
    message: int
    hits: tuple[Hit, ...]
    terms: frozenset[str]
    voice: float
    stress: float
    earlier: bool


@dataclass(frozen=True, slots=True)
class Worth:
    """The weight of each fact and of each term over the whole source."""

    facts: dict[str, float]
    terms: dict[str, float]


def fact_id(hit: Hit) -> str:
    """A fact's identity across the whole source."""
    return f"{hit.kind}\0{hit.key}"


def weigh(candidates: Sequence[Candidate]) -> Worth:
    """Facts by kind, best speaker and repetition; terms by frequency, damped where every message has them."""
    voices: dict[str, float] = {}
    mentions: Tally[str] = Tally()
    kinds: dict[str, float] = {}
    uses: Tally[str] = Tally()
    spread: Tally[str] = Tally()
    last_message: dict[str, int] = {}
    for candidate in candidates:
        for hit in candidate.hits:
            name = fact_id(hit)
            voices[name] = max(voices.get(name, 0.0), candidate.voice)
            kinds[name] = FACT_WEIGHTS[hit.kind]
            mentions[name] += 1
        for term in candidate.terms:
            uses[term] += 1
            if last_message.get(term) != candidate.message:
                last_message[term] = candidate.message
                spread[term] += 1
    facts = {
        name: kinds[name] * voices[name] * (1 + 0.2 * math.log2(n)) for name, n in mentions.items()
    }
    return Worth(facts, _term_weights(uses, spread, messages=len({c.message for c in candidates})))


def _term_weights(uses: Tally[str], spread: Tally[str], *, messages: int) -> dict[str, float]:
    raw = {
        term: (1 + math.log2(n) if n > 1 else 0.6) * math.log2(1 + messages / spread[term])
        for term, n in uses.items()
    }
    mean = sum(raw.values()) / len(raw) if raw else 1.0
    return {
        term: weight / mean * (BIGRAM_SHARE if term > "\u2e7f" else 1.0)
        for term, weight in raw.items()
    }


class _Cover:
    """What the chosen lines say so far, and so what another line would add."""

    def __init__(self, candidates: Sequence[Candidate], worth: Worth) -> None:
        self._candidates = candidates
        self._worth = worth
        self._facts = [frozenset(fact_id(hit) for hit in c.hits) for c in candidates]
        self._costs = [estimated_tokens(c.line) for c in candidates]
        self._said: set[str] = set()
        self._used: set[str] = set()
        self.crowded = False

    def value(self, at: int) -> float:
        """New worth per token of the candidate `at`."""
        candidate = self._candidates[at]
        facts = sum(self._worth.facts[name] for name in sorted(self._facts[at] - self._said))
        terms = sum(self._worth.terms[term] for term in sorted(candidate.terms - self._used))
        new = facts + TERM_SHARE * candidate.voice**2 * terms
        if candidate.earlier:
            new *= EARLIER_CROWDED if self.crowded else EARLIER_PRIOR
        return (new * candidate.stress + LEAST_WORTH) / self._costs[at]

    def add(self, at: int) -> None:
        self._said |= self._facts[at]
        self._used |= self._candidates[at].terms


def choose(
    candidates: Sequence[Candidate], *, limit: int, count: Callable[[str], int], joint: int
) -> list[int]:
    """Indexes of the lines to keep, best first, costing about `limit` together; the best alone if none fits.

    Lines of the previous summary are preferred until they fill most of the limit; beyond that
    newer lines are, so that old facts outlive many folds and new ones still get in.
    """
    cover = _Cover(candidates, weigh(candidates))
    heap = [(-cover.value(at), at) for at in range(len(candidates))]
    heapq.heapify(heap)
    best = heap[0][1] if heap else 0
    chosen: list[int] = []
    spent = earlier_spent = misfits = 0
    while heap and misfits < MISFITS_BEFORE_GIVING_UP:
        _, at = heapq.heappop(heap)
        value = cover.value(at)
        if heap and -heap[0][0] > value:
            heapq.heappush(heap, (-value, at))
            continue
        room = limit - spent - (joint if chosen else 0)
        if room <= 0:
            break
        cost = _cost(candidates[at].line, room, count) + (joint if chosen else 0)
        if spent + cost > limit:
            misfits += 1
            continue
        misfits = 0
        spent += cost
        chosen.append(at)
        cover.add(at)
        if candidates[at].earlier:
            earlier_spent += cost
            cover.crowded = earlier_spent > EARLIER_ROOM * limit
    return chosen or [best]


def _cost(line: str, room: int, count: Callable[[str], int]) -> int:
    """What a line costs; of one whose beginning is too dear for `room`, what that beginning costs.

    When little room is left, most lines that are tried do not fit, and few need to be counted to their end for that.
    """
    head = line[: _HEAD_CHARACTERS * (room + _SLACK)]
    if len(head) < len(line) and (least := count(head)) > room + _SLACK:
        return least
    return count(line)


def estimated_tokens(line: str) -> float:
    """Roughly what a line costs, for ranking only: a line is counted for real before it is paid for."""
    wide = 0 if line.isascii() else sum(character > "\u2e7f" for character in line)
    return 2 + 0.8 * wide + 0.27 * (len(line) - wide)
