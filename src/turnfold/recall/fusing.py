"""Words and meaning in one order.

Both searches know something the other does not: a name or a number is found by its letters, a paraphrase by what it
means. Ranks alone would throw away how much better the best match is, so scores are added: of the words as a share of
the best, of the meaning by how far a place stands out from the conversation around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ("fuse", "fused_parts")

_WEIGHT = 0.5
"""What the nearest place in meaning is worth beside the best match in words."""
_STEEPNESS = 1.5
"""How much faster than its closeness the worth of a place falls."""


def fuse(
    words: Sequence[tuple[int, float]], meaning: Iterable[tuple[int, float]]
) -> list[tuple[int, float]]:
    """Places as (seq, score), best first, from those found by words (score) and by meaning (closeness, 0 to 1)."""
    parts = fused_parts(words, meaning)
    places = [(seq, round(said + meant, 9)) for seq, (said, meant) in parts.items()]
    return sorted(places, key=lambda place: (-place[1], -place[0]))


def fused_parts(
    words: Sequence[tuple[int, float]], meaning: Iterable[tuple[int, float]]
) -> dict[int, tuple[float, float]]:
    """What each place gets for its words and for its meaning, by seq; their sum is its score."""
    best = max((score for _, score in words), default=0.0)
    worth = {seq: (score / best, 0.0) for seq, score in words} if best > 0 else {}
    for seq, closeness in meaning:
        said, _ = worth.get(seq, (0.0, 0.0))
        worth[seq] = said, _WEIGHT * min(max(closeness, 0.0), 1.0) ** _STEEPNESS
    return worth
