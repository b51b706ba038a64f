"""Costs that another counter made are counted anew, a page at a time, before anything is decided by them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from turnfold.records import decode_message
from turnfold.stores import postgres_rows as sql
from turnfold.stores.postgres_engine import Link
from turnfold.stores.postgres_keys import Place
from turnfold.stores.protocol import Head
from turnfold.tokens import TokenCounter

__all__ = ("is_foreign", "recounted")

_log = logging.getLogger(__name__)
_PAGE = 1000


def is_foreign(head: Head, counter: TokenCounter) -> bool:
    """Whether the stored costs are another counter's."""
    return bool(head.seq) and head.counter != counter.name


async def recounted(
    link: Link, place: Place, head: Head, counter: TokenCounter, *, clock: Callable[[], int]
) -> Head:
    """Replace the stored costs of a conversation that was written with another counter."""
    if not is_foreign(head, counter):
        return head
    _log.warning(
        "recounting %d entries: %s -> %s",
        head.seq,
        head.counter,
        counter.name,
        extra={
            "event": "recounting",
            "conversation": place.mark(),
            "entries": head.seq,
        },
    )
    link.take_long()
    running = 0
    for after in range(0, head.seq, _PAGE):
        [found] = await link.ask(sql.rows_between(place, after, after + _PAGE, _PAGE))
        changed: list[tuple[int, int, int]] = []
        for row in sql.to_rows(place, found):
            cost = counter.count_message(decode_message(row.body))
            running += cost
            changed.append((row.seq, cost, running))
        await link.ask(sql.change_costs(place, changed))
    after = sql.changed(replace(head, tokens=running, counter=counter.name))
    await link.ask(sql.save_head(place, after, before=head.state, now=clock()))
    return after
