"""Cut text to a token limit, with any function that counts the tokens of a text.

Texts are cut between characters, so no token ids of a tokenizer are needed and no character is split. Token counts
neither add up (two lines joined may cost more or less than the lines alone) nor grow steadily with length (one more
character can merge two tokens into one). Therefore each function counts the very text it returns, and drops parts of it
until it fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from turnfold.errors import InvalidOption

__all__ = (
    "best_that_fit",
    "clip",
    "clip_end",
    "count_upto",
    "cut_to_fit",
    "joint_cost",
    "require_limit",
    "splits_word",
)


_CHARACTERS_PER_TOKEN = 16
_SLACK = 8

Counter = Callable[[str], int]


def count_upto(text: str, limit: int, count: Counter) -> int:
    """Return the token count of `text`, or, for a long text far over `limit`, only that of its beginning.

    Either count tells correctly whether the text exceeds the limit. A beginning cut inside a token may cost a few
    tokens too many, so its count is used only if it is more than twice the limit.
    """
    enough = max(limit, 0) + _SLACK
    head = _CHARACTERS_PER_TOKEN * enough
    while len(text) > 2 * head:
        if (least := count(text[:head])) > 2 * enough:
            return least
        head *= 4  # one token may stand for a hundred line breaks
    return count(text)


def clip(text: str, limit: int, count: Counter) -> str:
    """Return the beginning of `text`, cut to at most `limit` tokens; it is nearly the longest that fits."""
    return text[: _fit(len(text), limit, lambda length: count(text[:length]))]


def clip_end(text: str, limit: int, count: Counter, *, start: int = 0) -> str:
    """Return the end of `text[start:]`, cut to at most `limit` tokens; it is nearly the longest that fits."""
    end = len(text)
    length = _fit(max(0, end - start), limit, lambda length: count(text[end - length :]))
    return text[end - length :]


def _fit(longest: int, limit: int, cost_of: Callable[[int], int]) -> int:
    """Return nearly the greatest length, up to `longest`, for which `cost_of(length)` is at most `limit` tokens."""
    if limit < 0:
        raise InvalidOption(f"cannot clip to {limit} tokens: give a limit of 0 or more")
    if limit == 0 or not longest:
        return 0

    # Grow from a short length by the cost of the last one, so that a huge text is never counted whole.
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
    """Search between a length that fits and one that does not, both as (length, cost).

    Returns the greatest that fits.

    Cost grows about evenly with length, so the next length to try is interpolated. It is aimed a little past the limit,
    and further past it after each miss, so that both bounds are soon close together; from then on, and after six
    interpolations, the interval is halved.
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


def require_limit(limit: int) -> None:
    """Raise `InvalidOption` unless `limit` is at least 1 token."""
    if limit <= 0:
        raise InvalidOption(
            f"limit={limit} must be at least 1 token: give the summary a positive limit"
        )


def joint_cost(count: Counter) -> int:
    """Return the number of tokens that a line break between two lines adds with this counter."""
    return max(0, count("a\nb") - count("a") - count("b"))


def best_that_fit(
    ranked: Sequence[int], render: Callable[[Sequence[int]], str], *, limit: int, count: Counter
) -> str:
    """Render the first items of `ranked`, as many as fit into `limit` tokens; "" if not even one item fits.

    The number of items is found by bisection, which assumes that each item adds to the cost. That is not so with every
    counter, so only a text that was itself counted is returned.
    """
    if not ranked:
        return ""
    everything = render(ranked)
    if count(everything) <= limit:
        return everything
    fitting, low, high = "", 0, len(ranked) - 1
    while low < high:
        middle = (low + high + 1) // 2
        text = render(ranked[:middle])
        if count(text) <= limit:
            fitting, low = text, middle
        else:
            high = middle - 1
    return fitting


def cut_to_fit(text: str, *, limit: int, count: Counter) -> str:
    """Return the longest beginning of `text` that has at most `limit` tokens; "" if not one character fits.

    It is cut between words, inside a word only if the first word is too long by itself. Found by bisection, so with a
    counter by which a longer text may have fewer tokens it may be shorter than the longest.
    """
    if count(text) <= limit:
        return text
    high = min(len(text), max(16, limit))
    while high < len(text) and count(text[:high]) <= limit:
        high = min(len(text), high * 2)
    low = 0
    while low < high:
        middle = (low + high + 1) // 2
        if count(text[:middle]) <= limit:
            low = middle
        else:
            high = middle - 1
    whole = low
    while 0 < whole < len(text) and splits_word(text, whole):
        whole -= 1
    for end in (whole, *range(low, 0, -1)):
        head = text[:end].rstrip()
        if head and count(head) <= limit:
            return head
    return ""


def splits_word(text: str, at: int) -> bool:
    """Return True if a cut before index `at` would be between two ASCII characters that are not white space.

    These may belong to one word, number or path.
    """
    before, after = text[at - 1], text[at]
    return before.isascii() and after.isascii() and not before.isspace() and not after.isspace()
