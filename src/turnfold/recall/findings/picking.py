"""The part of a long result that a question is about, in whole sentences and rows.

The answer to the next question rarely stands at the beginning of a page. Where a text must be shortened and some of its
sentences or rows hold words of the question, those are shown first, in their places; the heading of a table stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from turnfold.recall.findings.cutting import boundaries, cut, is_row
from turnfold.recall.findings.matching import folded, held_by
from turnfold.tokens import clip

__all__ = ("most_that_fit", "pick")

_RULER = re.compile(r"[\s|:+-]+")
"""The line under the heading of a table."""
_GAP = "…"
_GAP_TOKENS = 2


def most_that_fit(number: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `number` that fits, found by halving and then made sure of; 0 needs no proof."""
    low, high = 0, number
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    while low and not fits(low):
        low -= 1
    return low


def pick(
    text: str,
    limit: int,
    count: Callable[[str], int],
    *,
    mark: str,
    asked: Collection[str] = (),
) -> str:
    """`text` if it costs at most `limit` tokens, else what of it holds most of what is asked, and the line `mark`.

    Its beginning where nothing does.
    """
    if not asked or len(clip(text, max(limit, 0), count)) == len(text):
        return cut(text, limit, count, mark=mark)
    ends = list(boundaries(text))
    pieces = [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    held = held_by([folded(piece) for piece in pieces], asked)
    if not any(held):
        return cut(text, limit, count, mark=mark)
    matching = sorted((at for at, much in enumerate(held) if much), key=lambda at: (-held[at], at))
    order = list(dict.fromkeys([*_heading(pieces), *matching, *range(len(pieces))]))

    def shown(number: int) -> str:
        return f"{_joined(pieces, sorted(order[:number]))}\n{mark}"

    number = _affordable(order, pieces, limit - count(mark), count)
    while number and count(shown(number)) > limit:
        number -= 1
    if not any(held[at] for at in order[:number]):
        return cut(text, limit, count, mark=mark)
    return shown(number)


def _affordable(
    order: Sequence[int], pieces: Sequence[str], limit: int, count: Callable[[str], int]
) -> int:
    """How many of the pieces fit by their own prices: pieces are priced once, the whole then only to make sure."""
    for number, at in enumerate(order):
        limit -= count(pieces[at]) + _GAP_TOKENS
        if limit < 0:
            return number
    return len(order)


def _heading(pieces: Sequence[str]) -> range:
    """The pieces that head a table: its first row, if a line is drawn under it."""
    if len(pieces) > 1 and is_row(pieces[0]) and _RULER.fullmatch(pieces[1]):
        return range(2)
    return range(0)


def _joined(pieces: Sequence[str], chosen: Sequence[int]) -> str:
    """The pieces in order, with a sign where something is left out between them."""
    text, last = "", -1
    for at in chosen:
        if at != last + 1:
            text = f"{text.rstrip()}\n{_GAP}\n" if text else f"{_GAP}\n"
        text += pieces[at]
        last = at
    return text.rstrip()
