"""The fenced blocks of a tail, shortened to a limit.

Each block is shortened inside its fence, so that every fence keeps both its marks and no text comes to stand in another
block. The least trusted give way first, down to an even share of the room; one that would show nothing readable is left
out whole. What is pinned is sent word for word or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from turnfold.errors import BudgetTooSmall
from turnfold.window.fence import Fenced, fence_mark
from turnfold.window.shrink import (
    common_cap,
    shrink_end,
    shrink_lines,
    shrink_text,
)

__all__ = ("PINNED", "ShortenedBlocks", "joined_blocks", "pins_too_large", "shorten_blocks")

PINNED = "pinned"
"""Label of the block that is never shortened."""
_TRUST = {"recalled": 1, "findings": 2, "state": 3}
"""Which blocks give way last; all others (the notes of a call, its workspace) give way first."""
_ONE_TEXT = frozenset({"state", "workspace"})
"""Labels of blocks that hold one text: nothing in them has to be told apart."""
_ITEMS = frozenset({"recalled", "findings"})
"""Labels of blocks whose texts are told apart by the margin."""
_FEWEST = 32
"""Tokens of a block below which it is not worth its fence."""


class ShortenedBlocks(NamedTuple):
    """What is left of blocks, and what became of the others, in words."""

    blocks: tuple[Fenced, ...]
    changes: tuple[str, ...]


def joined_blocks(blocks: Sequence[Fenced]) -> str:
    """Blocks as one text."""
    return "\n\n".join(map(str, blocks))


def pins_too_large(parts: dict[str, int], allowed: int, *, remedy: str) -> BudgetTooSmall:
    """The refusal of pins that the tail cannot hold."""
    return BudgetTooSmall(
        needed=sum(parts.values()),
        allowed=allowed,
        parts=parts,
        remedy=f"Pins are sent word for word: {remedy}, or give the tail a larger share of the budget",
    )


@dataclass(frozen=True, slots=True)
class _Prices:
    """What texts cost, and blocks together."""

    count: Callable[[str], int]
    measure: Callable[[str], int]
    """Of a text as the message it is sent in."""

    def of(self, blocks: Sequence[Fenced]) -> int:
        return self.measure(joined_blocks(blocks)) if blocks else 0

    def frame(self, block: Fenced) -> int:
        """The most that the fence of a block costs: its mark may cost a token per character."""
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
    """The blocks so that `measure` of them as one text is at most `limit`; pins that do not fit are an error.

    `count` prices a text, `measure` a message that holds it.
    """
    prices = _Prices(count, measure)
    pinned = [block for block in blocks if block.label == PINNED]
    if (needed := prices.of(pinned)) > limit:
        raise pins_too_large({"pins": needed}, limit, remedy="unpin some, raise the budget")
    kept = dict(enumerate(blocks))
    while True:
        shown = _fitted(kept, limit, prices)
        if shown is not None:
            break
        giving = [at for at, block in kept.items() if block.label != PINNED]
        del kept[min(giving, key=lambda at: (_trust(kept[at]), -at))]
    return ShortenedBlocks(
        tuple(shown.values()), tuple(_changes(dict(enumerate(blocks)), shown, count))
    )


def _fitted(kept: dict[int, Fenced], limit: int, prices: _Prices) -> dict[int, Fenced] | None:
    """The blocks within the limit; None where one of them would be left without anything to read."""
    if not kept or prices.of(list(kept.values())) <= limit:
        return kept
    giving = sorted(
        (at for at, block in kept.items() if block.label != PINNED),
        key=lambda at: (_trust(kept[at]), -at),
    )
    if not giving:
        return None
    costs = {at: prices.count(kept[at].text) for at in giving}
    frames = sum(prices.frame(kept[at]) for at in giving)
    still = prices.of([block for block in kept.values() if block.label == PINNED])
    room = limit - (still or prices.measure(".")) - frames
    while room > 0:
        even = common_cap(costs.values(), room)
        if any(min(even, costs[at]) < min(_FEWEST, costs[at]) for at in giving):
            return None
        shown = dict(kept)
        for at, cap in _caps(giving, costs, even, room).items():
            text = _shrunk(kept[at], cap, prices.count)
            if not text:
                return None
            shown[at] = replace(kept[at], text=text)
        over = prices.of(list(shown.values())) - limit
        if over <= 0:
            return shown
        room -= over
    return None


def _caps(giving: Sequence[int], costs: dict[int, int], even: int, room: int) -> dict[int, int]:
    """What each block may keep: the first give way first, none below an even share."""
    over = sum(costs.values()) - room
    caps: dict[int, int] = {}
    for at in giving:
        less = min(max(over, 0), max(costs[at] - even, 0))
        caps[at] = costs[at] - less
        over -= less
    return caps


def _shrunk(block: Fenced, cap: int, count: Callable[[str], int]) -> str:
    """The text of a block in at most `cap` tokens; empty where nothing of it could be read."""
    if block.label in _ITEMS:
        return shrink_lines(block.text, cap, count)
    if block.label not in _ONE_TEXT:
        return shrink_end(block.text, cap, count)
    text = shrink_text(block.text, cap, count)
    return text if text.strip("… \n") else ""


def _changes(
    blocks: dict[int, Fenced], shown: dict[int, Fenced], count: Callable[[str], int]
) -> list[str]:
    changes: list[str] = []
    for at, block in blocks.items():
        now = shown.get(at)
        if now is None:
            changes.append(f"tail: {block.label} of {count(block.text):,} tokens left out")
        elif now.text != block.text:
            changes.append(
                f"tail: {block.label} of {count(block.text):,} tokens shortened to {count(now.text):,}"
            )
    return changes


def _trust(block: Fenced) -> int:
    return _TRUST.get(block.label, 0)
