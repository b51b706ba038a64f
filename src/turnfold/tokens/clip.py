"""Cutting a text to a number of tokens with nothing but a counter.

Working on characters keeps it independent of any tokenizer's ids and never splits a character; counting what is really
returned keeps it honest where token counts are not monotone in length (they are not: one more character can merge two
tokens into one).
"""

from __future__ import annotations

from collections.abc import Callable

from turnfold.errors import InvalidOption

__all__ = ("clip", "clip_end", "count_upto")

_CHARACTERS_A_TOKEN = 16
_SLACK = 8


def count_upto(text: str, limit: int, count: Callable[[str], int]) -> int:
    """Tokens of `text`; of one that clearly costs more than `limit`, what a beginning of it costs, which does too.

    A beginning may cost a few tokens more than it does as part of the whole, where it ends inside a token; it must
    therefore cost twice the limit to stand for the whole.
    """
    enough = max(limit, 0) + _SLACK
    head = _CHARACTERS_A_TOKEN * enough
    if len(text) > 2 * head and (least := count(text[:head])) > 2 * enough:
        return least
    return count(text)


def clip(text: str, limit: int, count: Callable[[str], int]) -> str:
    """A beginning of `text` that costs at most `limit` tokens, as long as the search finds."""
    return text[: _fit(len(text), limit, lambda length: count(text[:length]))]


def clip_end(text: str, limit: int, count: Callable[[str], int], *, start: int = 0) -> str:
    """An ending of `text[start:]` that costs at most `limit` tokens, as long as the search finds."""
    end = len(text)
    length = _fit(max(0, end - start), limit, lambda length: count(text[end - length :]))
    return text[end - length :]


def _fit(longest: int, limit: int, cost_of: Callable[[int], int]) -> int:
    """The length of the longest stretch found that costs at most `limit`; `longest` is all there is."""
    if limit < 0:
        raise InvalidOption(f"cannot clip to {limit} tokens")
    if limit == 0 or not longest:
        return 0

    # Grow from a short stretch, by what the last one cost: clipping a huge text does not count all of it.
    low = low_cost = 0
    high = min(longest, 2 * limit + 64)
    while (high_cost := cost_of(high)) <= limit:
        if high == longest:
            return high
        low, low_cost = high, high_cost
        wanted = high * limit * 9 // (8 * max(1, high_cost))
        high = min(longest, max(high * 5 // 4, min(high * 4, wanted)) + 64)
    return _close_in(cost_of, limit, (low, low_cost), (high, high_cost))


def _close_in(
    cost_of: Callable[[int], int], limit: int, fits: tuple[int, int], exceeds: tuple[int, int]
) -> int:
    """The longest length found that fits, between one that does and one that does not, each with its cost.

    Cost grows about evenly with length, so the next length to try is read off the line between the two. It is aimed a
    little past the limit, and further each time it misses, so that the answer is soon held closely from both sides;
    from then on, and wherever the line has misled six times, halving is surer.
    """
    (low, low_cost), (high, high_cost) = fits, exceeds
    aim, past, tries = limit, 2, 0
    while high - low > 1:
        if high - low <= 16 or high_cost - low_cost <= 2 or tries == 6:
            middle = (low + high) // 2
        else:
            middle = low + (high - low) * (aim - low_cost) // (high_cost - low_cost)
            middle = min(max(middle, low + 1), high - 1)
            tries += 1
        cost = cost_of(middle)
        crossed = (cost <= limit) == (aim <= limit)
        past = 2 + abs(cost - limit) // 8 if crossed else 4 * past
        if cost <= limit:
            low, low_cost, aim = middle, cost, limit + past
        else:
            high, high_cost, aim = middle, cost, limit - past
    return low
