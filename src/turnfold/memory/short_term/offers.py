"""Who may still bring a summary, and what they had read when they were asked for one.

A summary comes without word of what it is a summary of, perhaps long after it was asked for, perhaps when another has
landed already. So each query that asks for one leaves word of how far it had read, in a group per checkpoint that was
live then; until as many summaries have come, none of them is taken to have seen more than the first of its group. Who
never brings theirs is forgotten after a few checkpoints, or their silence would hold up everybody.
"""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ("Offer", "bound_of", "is_offered", "landed", "offered")

_GROUPS: Final = 2
_READERS: Final = 4
"""Summaries of one group that may be in the making at once."""
_LANDINGS: Final = 3
"""Checkpoints after which the rest of a group is forgotten."""


class Offer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Queries that asked for a summary while the same checkpoint was live."""

    live: str
    seen: int
    """The newest entry that the one that had read least had read."""
    readers: int = 1
    landings: int = 0
    """Checkpoints that have landed since."""


Offers = tuple[Offer, ...]
"""Newest group first."""


def offered(offers: Offers, *, live: str, seen: int, covered: int) -> Offers:
    """The offers after a query that has seen entries up to `seen` asked for a summary."""
    for group in offers:
        if group.live == live and group.seen > covered:
            readers, least = min(group.readers + 1, _READERS), min(group.seen, seen)
            joined = msgspec.structs.replace(group, readers=readers, seen=least)
            return tuple(joined if each is group else each for each in offers)
    return Offer(live, seen), *offers[: _GROUPS - 1]


def landed(offers: Offers) -> Offers:
    """The offers after a summary has come: one reader less of the newest group, whoever brought it."""
    left = [
        msgspec.structs.replace(
            group, readers=group.readers - (at == 0), landings=group.landings + 1
        )
        for at, group in enumerate(offers)
    ]
    return tuple(group for group in left if group.readers and group.landings < _LANDINGS)


def bound_of(offers: Offers, *, covered: int, newest: int) -> int:
    """The newest entry that a summary of an unknown reader can have seen; `covered` for nothing new."""
    waiting = [group.seen for group in offers if group.seen > covered]
    if waiting:
        return min(waiting)
    return covered if offers else newest


def is_offered(offers: Offers, live: str) -> bool:
    """Whether a query asked for a summary since this checkpoint."""
    return any(group.live == live for group in offers)
