"""Shorten the fenced blocks of a tail to a token limit.

Each block is shortened inside its fence, so that every fence keeps both its marks and no text moves into another block.
The least trusted blocks are shortened first, down to an even share of the room; a block that would show nothing
readable is left out. Pins are sent word for word or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from turnfold.errors import BudgetTooSmall
from turnfold.text import Fenced, fence_mark
from turnfold.window.shrink import common_cap, shrink_end, shrink_lines, shrink_text

__all__ = (
    "PINNED",
    "joined_blocks",
    "pins_too_large",
    "shorten_blocks",
)


PINNED = "pinned"
"""Label of the block that is never shortened."""
_TRUST = {"recalled": 1, "findings": 2, "state": 3, "rules": 4}
"""Trust by label: blocks of higher trust are shortened later. Labels not listed (notes, workspace) come first."""
_ONE_TEXT = frozenset({"state", "workspace"})
"""Labels of blocks that hold one text, which may be cut anywhere."""
_ITEMS = frozenset({"recalled", "findings", "rules"})
"""Labels of blocks that list items, each beginning at the left margin."""
_FEWEST = 32
"""Smallest useful block in tokens; a shorter one is not worth its fence."""


class ShortenedBlocks(NamedTuple):
    """The blocks that fit, and a sentence for each that was shortened or left out."""

    blocks: tuple[Fenced, ...]
    changes: tuple[str, ...]


def joined_blocks(blocks: Sequence[Fenced]) -> str:
    """Join blocks into one text."""
    return "\n\n".join(map(str, blocks))


def pins_too_large(parts: dict[str, int], allowed: int, *, remedy: str) -> BudgetTooSmall:
    """Return the error for pins that do not fit the tail's share."""
    return BudgetTooSmall(
        needed=sum(parts.values()),
        allowed=allowed,
        parts=parts,
        remedy=f"Pins are sent word for word: {remedy}, or give the tail a larger share of the budget",
    )


@dataclass(frozen=True, slots=True)
class _Prices:
    """Token counts of texts, and of blocks sent together."""

    count: Callable[[str], int]
    measure: Callable[[str], int]
    """Tokens of a message that holds the text."""

    def of(self, blocks: Sequence[Fenced]) -> int:
        return self.measure(joined_blocks(blocks)) if blocks else 0

    def frame(self, block: Fenced) -> int:
        """Return the most that the fence of a block can cost: its mark may cost a token per character."""
        mark = fence_mark("")
        spare = 2 * max(len(mark) - self.count(mark), 0)
        return self.count(f"\n\n{replace(block, text='')}") + spare


def shorten_blocks(
    blocks: Sequence[Fenced],
    limit: int,
    *,
    count: Callable[[str], int],
    measure: Callable[[str], int],
) -> ShortenedBlocks:
    """Shorten or drop blocks until `measure` of them as one text is at most `limit`.

    `count` counts a text, `measure` a message that holds it. Raises `BudgetTooSmall` if the pins alone do not fit.
    """
    prices = _Prices(count, measure)
    pinned = [block for block in blocks if block.label == PINNED]
    if (needed := prices.of(pinned)) > limit:
        raise pins_too_large({"pins": needed}, limit, remedy="unpin some, raise the budget")
    remaining = dict(enumerate(blocks))
    while (shown := _fitted(remaining, limit, prices)) is None:
        del remaining[_shrink_order(remaining)[0]]
    return ShortenedBlocks(tuple(shown.values()), tuple(_changes(blocks, shown, count)))


def _shrink_order(blocks: dict[int, Fenced]) -> list[int]:
    """Return the indexes of the blocks that may be shortened: least trusted first, then the last of them."""
    return sorted(
        (at for at, block in blocks.items() if block.label != PINNED),
        key=lambda at: (_TRUST.get(blocks[at].label, 0), -at),
    )


def _fitted(blocks: dict[int, Fenced], limit: int, prices: _Prices) -> dict[int, Fenced] | None:
    """Return the blocks shortened to the limit; None if one of them would have nothing readable left."""
    if not blocks or prices.of(list(blocks.values())) <= limit:
        return blocks
    order = _shrink_order(blocks)
    if not order:
        return None
    costs = {at: prices.count(blocks[at].text) for at in order}
    frames = sum(prices.frame(blocks[at]) for at in order)
    pinned = prices.of([block for block in blocks.values() if block.label == PINNED])
    room = limit - (pinned or prices.measure(".")) - frames
    while room > 0:
        even = common_cap(costs.values(), room)
        if any(min(even, costs[at]) < min(_FEWEST, costs[at]) for at in order):
            return None
        shown = dict(blocks)
        for at, cap in _caps(costs, even, room).items():
            text = _shrunk(blocks[at], cap, prices.count)
            if not text:
                return None
            shown[at] = replace(blocks[at], text=text)
        over = prices.of(list(shown.values())) - limit
        if over <= 0:
            return shown
        room -= over
    return None


def _caps(costs: dict[int, int], even: int, room: int) -> dict[int, int]:
    """Return the tokens each block may keep: the first are shortened first, none below an even share."""
    over = sum(costs.values()) - room
    caps: dict[int, int] = {}
    for at, cost in costs.items():
        less = min(max(over, 0), max(cost - even, 0))
        caps[at] = cost - less
        over -= less
    return caps


def _shrunk(block: Fenced, cap: int, count: Callable[[str], int]) -> str:
    """Return the text of a block in at most `cap` tokens; "" if nothing of it would be readable."""
    if block.label in _ITEMS:
        return shrink_lines(block.text, cap, count)
    if block.label not in _ONE_TEXT:
        return shrink_end(block.text, cap, count)
    text = shrink_text(block.text, cap, count)
    return text if text.strip("… \n") else ""


def _changes(
    blocks: Sequence[Fenced], shown: dict[int, Fenced], count: Callable[[str], int]
) -> Iterator[str]:
    for at, block in enumerate(blocks):
        now = shown.get(at)
        if now is None or now.text != block.text:
            outcome = "left out" if now is None else f"shortened to {count(now.text):,}"
            yield f"tail: {block.label} of {count(block.text):,} tokens {outcome}"
