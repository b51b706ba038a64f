"""Appends to the PostgreSQL store: one round trip where nobody else writes.

A store remembers where it left the conversations it wrote last and sends the next append for the row to be still there:
head, entries, index and commit in one round trip. If somebody else has written meanwhile, or the ids are known, nothing
happens, and the append is made again under the row's lock, in two. Which tool an answer is from is told by its call:
mostly one that this store wrote a moment ago, and then it is remembered as well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from turnfold.records import decode_message
from turnfold.stores import postgres_rows as sql
from turnfold.stores.findable import CALL_REACH, ToolNames, findable
from turnfold.stores.ledger import Batch, Row, Stored, new_epoch, plan_append
from turnfold.stores.postgres_engine import Link, PostgresEngine, Rows, Statement, UniqueViolation
from turnfold.stores.postgres_heads import RememberedHeads
from turnfold.stores.postgres_keys import Place
from turnfold.stores.postgres_recount import recounted
from turnfold.stores.protocol import Appended, Head, State
from turnfold.tokens import TokenCounter

__all__ = ("Appends",)

_Calls: TypeAlias = Mapping[str, tuple[int, str]]
_MOST_REMEMBERED = 1024


class Appends:
    """The appends of a store."""

    def __init__(
        self,
        engine: PostgresEngine,
        heads: RememberedHeads,
        counter: TokenCounter,
        clock: Callable[[], int],
    ) -> None:
        self._engine, self._heads = engine, heads
        self._counter, self._clock = counter, clock
        self._lock = threading.Lock()
        self._calls: dict[tuple[str, str], _Calls] = {}

    async def append(self, place: Place, batch: Batch, expect: int | None) -> Appended:
        """Append a batch, all or nothing."""
        calls = await self._known_calls(place, batch)
        remembered = self._heads.take(place)
        if (
            remembered is not None
            and remembered.counter == batch.counter
            and expect in (None, remembered.seq)
        ):
            done = await self._append_at(place, remembered, batch, calls)
            if done is not None:
                return done

        async def work(link: Link) -> Appended:
            return await self._append_locked(link, place, batch, calls, expect)

        done = await self._engine.transact(place.tenant, work)
        self._heads.put(place, done.head)
        return done

    async def _append_at(
        self, place: Place, head: Head, batch: Batch, calls: _Calls
    ) -> Appended | None:
        """Append at a remembered head in one round trip; None if the conversation has moved on."""
        now, epoch = self._clock(), new_epoch()
        rows = plan_append(batch, head, {}, created=now, epoch=epoch, expect=None)
        assert isinstance(rows, list)  # noqa: S101 (nothing is known, so nothing is repeated)
        moved = _after(head, rows, batch)
        tools = ToolNames(after=head.seq, calls=calls)
        statement = _write_rows(place, moved, rows, batch, tools, before=head.state)

        async def work(link: Link) -> bool:
            [[(count,)]] = await link.finish(statement)
            return bool(count)

        try:
            if not await self._engine.transact(place.tenant, work):
                return None
        except UniqueViolation:
            return None
        return self._appended(place, rows, moved, tools, before=head.state)

    async def _append_locked(
        self, link: Link, place: Place, batch: Batch, calls: _Calls, expect: int | None
    ) -> Appended:
        ids = batch.client_ids
        _, found, known = await link.ask(
            sql.make_conversation(place, now=self._clock()),
            sql.lock_head(place),
            sql.find_known(place, ids),
        )
        head = sql.to_held(found).for_writing(place.name)
        head = await recounted(link, place, head, self._counter, clock=self._clock)
        now, epoch, stored = self._clock(), new_epoch(), sql.to_known(place, known)
        plan = plan_append(batch, head, stored, created=now, epoch=epoch, expect=expect)
        if isinstance(plan, Stored):
            last = plan.seq + len(ids) - 1
            return Appended(plan.seq, last, repeated=True, head=head, before=head.state)
        moved = _after(head, plan, batch)
        tools = ToolNames(after=head.seq, calls=calls)
        await link.finish(_write_rows(place, moved, plan, batch, tools, before=head.state))
        return self._appended(place, plan, moved, tools, before=head.state)

    def _appended(
        self, place: Place, rows: Sequence[Row], head: Head, tools: ToolNames, *, before: State
    ) -> Appended:
        self._heads.put(place, head)
        if tools.calls:
            self._remember(place, tools.calls)
        return Appended(rows[0].seq, rows[-1].seq, repeated=False, head=head, before=before)

    # --------------------------------------------------------------------------------- which tool answers

    async def _known_calls(self, place: Place, batch: Batch) -> _Calls:
        """The calls that answers among the batch may belong to."""
        with self._lock:
            known = self._calls.get(place.keys, {})
        messages = [entry.message for entry in batch.entries]
        if not ToolNames(calls=known).needs_earlier(messages):
            return known

        async def work(link: Link) -> Rows:
            [found] = await link.finish(sql.newest_rows(place, CALL_REACH))
            return found

        rows = await self._engine.transact(place.tenant, work, reading=True)
        found = sql.to_rows(place, rows)
        tools = ToolNames(after=found[0].seq - 1 if found else 0)
        for row in found:
            tools.of(decode_message(row.body))
        return tools.calls

    def _remember(self, place: Place, calls: _Calls) -> None:
        with self._lock:
            self._calls.pop(place.keys, None)
            self._calls[place.keys] = calls
            if len(self._calls) > _MOST_REMEMBERED:
                del self._calls[next(iter(self._calls))]


def _after(head: Head, rows: Sequence[Row], batch: Batch) -> Head:
    last = rows[-1]
    generation = head.generation + 1
    moved = (last.seq, last.running, last.turn, head.checkpoint)
    return Head(*moved, generation, batch.counter, last.epoch)


def _write_rows(
    place: Place,
    head: Head,
    rows: Sequence[Row],
    batch: Batch,
    tools: ToolNames,
    *,
    before: State,
) -> Statement:
    messages = [entry.message for entry in batch.entries]
    found_by = [findable(message, tools.of(message)) for message in messages]
    return sql.append_rows(place, head, rows, found_by, before=before)
