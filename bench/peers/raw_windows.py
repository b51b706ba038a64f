"""No memory at all: the whole conversation in every call, whatever the budget. What forgetting nothing would cost."""

from __future__ import annotations

from collections.abc import Sequence

from bench.contender import Contender, Item

__all__ = ("CONTENDERS", "NEEDS")

NEEDS = None


class _Everything:
    def __init__(self, items: Sequence[Item], budget: int) -> None:
        self.items = list(items)
        self.budget = budget

    def add(self, item: Item) -> None:
        self.items.append(item)

    def window(self) -> list[Item]:
        return list(self.items)


CONTENDERS = (
    Contender(
        name="everything in every call (no budget)",
        package="",
        convert=list,
        open=_Everything,
        read=list,
        timed=False,
        raw=True,
    ),
)
