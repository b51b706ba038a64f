"""From entries that match a question to places worth showing.

What answers a question often stands beside the words of the question: in the reply, or some turns on. So an entry is
worth what it matches itself, and a share of what its neighbours match. How far that reaches is a length of text, not a
number of entries: where turns are short it spans several, where they are long hardly the next one. Of two entries worth
the same the newer one is a little more likely to hold still.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

__all__ = ("ranked_places", "worth_of_places")

_SHARE = 0.7
"""What a neighbour gets of a match, before distance."""
_REACH_TOKENS = 110.0
"""The distance over which that falls to about a third."""
_FURTHEST = 6
"""Entries a match reaches at most, to either side."""
_RECENCY = 0.1
"""How much more the newest entry counts than the first."""


def ranked_places(
    hits: Iterable[tuple[int, float]],
    *,
    newest: int,
    mean_tokens: float,
    after: int = 0,
    before: int | None = None,
) -> list[tuple[int, float]]:
    """Entries worth showing as (seq, score), best first: the hits and their neighbours between `after` and `before`.

    `hits` are (seq, score) of a search; `newest` is the last seq of the conversation, `mean_tokens` what one of its
    entries costs on average.
    """
    worth = worth_of_places(
        hits, newest=newest, mean_tokens=mean_tokens, after=after, before=before
    )
    places = [
        (seq, round(score * (1 + _RECENCY * seq / newest), 9)) for seq, score in worth.items()
    ]
    return sorted(places, key=lambda place: (-place[1], -place[0]))


def worth_of_places(
    hits: Iterable[tuple[int, float]],
    *,
    newest: int,
    mean_tokens: float,
    after: int = 0,
    before: int | None = None,
) -> dict[int, float]:
    """What each place is worth with what stands beside it, by seq, the age aside."""
    stop = newest + 1 if before is None else min(before, newest + 1)
    shares = [
        _SHARE * math.exp(-distance * max(mean_tokens, 1.0) / _REACH_TOKENS)
        for distance in range(1, _FURTHEST + 1)
    ]
    worth: defaultdict[int, float] = defaultdict(float)
    for seq, score in sorted(hits):  # sums of floats depend on their order
        if not after < seq < stop:
            continue
        worth[seq] += score
        for distance, share in enumerate(shares, 1):
            for neighbour in (seq - distance, seq + distance):
                if after < neighbour < stop:
                    worth[neighbour] += share * score
    return worth
