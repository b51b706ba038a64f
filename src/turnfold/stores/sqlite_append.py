"""Appends in one go: the path every turn takes, so what it costs is what a durable turn costs.

Nearly every append is new and follows what this process wrote before. Such ones need no look at the file: where
their conversation stands is remembered, and the rows of all who wait go into it with one statement, which runs on
while other threads prepare what is next.
An append that is anything but ordinary (a repetition, a contradiction, a stale writer) runs alone, step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from turnfold.stores import sqlite_rows as sql
from turnfold.stores.ledger import Batch, Row, Stored, plan_append
from turnfold.stores.protocol import Appended, Head
from turnfold.stores.sqlite_engine import Connection
from turnfold.stores.sqlite_jobs import TryAlone
from turnfold.stores.sqlite_remembered import Remembered

__all__ = ("Append", "Appends")


class Append(NamedTuple):
    """One batch on its way into a conversation."""

    tenant: str
    conversation: str
    batch: Batch
    expect: int | None


class Appends:
    """The appends of a store. `recount` replaces the costs of a conversation written with another counter."""

    lasting = True

    def __init__(
        self,
        remembered: Remembered,
        *,
        clock: Callable[[], int],
        recount: Callable[[Connection, str, str, sql.Held], None],
    ) -> None:
        self._remembered, self._clock, self._recount = remembered, clock, recount

    def together(self, connection: Connection, items: Sequence[Append], /) -> list[Appended]:
        """Append all of them, if every one is ordinary."""
        self._remembered.begin(connection)
        now = self._clock()
        written: list[tuple[object, ...]] = []
        done = [self._plan(connection, item, now, written) for item in items]
        sql.insert_entries(connection, written)
        self._remembered.end(connection)
        return done

    def alone(self, connection: Connection, item: Append, /) -> Appended:
        """Append one, whatever there is to be said about it."""
        tenant, name, batch, expect = item
        held = sql.find_conversation(connection, tenant, name, writing=True)
        self._recount(connection, tenant, name, held)
        known = sql.known_ids(connection, held.key, batch.client_ids) if held.key else {}
        now, epoch = self._clock(), sql.new_epoch()
        plan = plan_append(batch, held.head, known, created=now, epoch=epoch, expect=expect)
        if isinstance(plan, Stored):
            last = plan.seq + len(batch.bodies) - 1
            return Appended(plan.seq, last, repeated=True, head=held.head, before=held.head.state)
        before = held.head.state
        _move(connection, item, held, plan[-1], now)
        generation = held.head.generation
        sql.insert_entries(connection, [sql.new_row(held.key, generation, row) for row in plan])
        return Appended(plan[0].seq, plan[-1].seq, repeated=False, head=held.head, before=before)

    def _plan(
        self, connection: Connection, item: Append, now: int, written: list[tuple[object, ...]]
    ) -> Appended:
        """Move the head over the batch; its rows are added to those to be written."""
        held = self._remembered.held(connection, item.tenant, item.conversation)
        if held.head.seq and held.head.counter != item.batch.counter:
            raise TryAlone
        head, expect = held.head, item.expect
        if expect is not None and expect != head.seq:
            raise TryAlone
        epoch = sql.new_epoch()
        plan = plan_append(item.batch, head, {}, created=now, epoch=epoch, expect=None)
        if isinstance(plan, Stored):
            raise TryAlone
        _move(connection, item, held, plan[-1], now)
        key, generation = held.key, held.head.generation
        written += [sql.new_row(key, generation, row) for row in plan]
        return Appended(
            head.seq + 1, held.head.seq, repeated=False, head=held.head, before=head.state
        )


def _move(connection: Connection, item: Append, held: sql.Held, last: Row, now: int) -> None:
    """Let the head stand at the batch's last row; the conversation's own row is written only if it must change."""
    head, counter = held.head, item.batch.counter
    moved = (last.seq, last.running, last.turn, head.checkpoint)
    if held.unindexed and head.counter == counter:
        held.head = Head(*moved, head.generation + 1, counter, last.epoch)
        return
    held.head = Head(*moved, head.generation, counter)
    sql.save_head(connection, item.tenant, item.conversation, held, now=now, epoch=last.epoch)
    held.unindexed = True
