"""Keeping text within a token limit, whatever the counter.

Tokens do not add up: two lines joined may cost more or less than the lines alone. Everything here
therefore ends by counting the very text it returns, and gives up parts until that count is within
the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from turnfold.errors import InvalidOption

__all__ = ("best_that_fit", "cut_to_fit", "joint_cost", "require_limit")

Counter = Callable[[str], int]


def require_limit(limit: int) -> None:
    """Refuse a limit that no text can respect."""
    if limit <= 0:
        raise InvalidOption(
            f"limit must be at least 1 token, got {limit}. Give the summary a positive limit."
        )


def joint_cost(count: Counter) -> int:
    """What a line break between two lines costs with this counter."""
    return max(0, count("a\nb") - count("a") - count("b"))


def best_that_fit(
    ranked: Sequence[int], render: Callable[[Sequence[int]], str], *, limit: int, count: Counter
) -> str:
    """The rendering of a head of `ranked` that costs at most `limit`, all of it if that fits; "" if none does.

    Bisection finds the longest such head where every line adds cost. A counter need not behave like that, so no head
    is returned that was not itself counted.
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
    """The longest head of `text` that costs at most `limit`, not ending inside a word or number if that leaves any."""
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
    while 0 < whole < len(text) and _inside_word(text, whole):
        whole -= 1
    for end in (whole, *range(low, 0, -1)):
        head = text[:end].rstrip()
        if head and count(head) <= limit:
            return head
    return ""


def _inside_word(text: str, at: int) -> bool:
    before, after = text[at - 1], text[at]
    return before.isascii() and after.isascii() and not before.isspace() and not after.isspace()
