"""Append to the PostgreSQL store, in one round trip as long as nobody else writes to the conversation.

A store caches the heads (newest seq, totals, version) of the conversations it wrote last, and sends the next append on
the assumption that the head is unchanged: head, entries, search terms and commit in one round trip. The statement names
the generation and epoch of the cached head, so a stale cache does no harm: if the conversation has changed, lost writes
in a failover, or already has the client ids, nothing is written, and the append is repeated under the row's lock in two
round trips.

The search index needs the tool name of a tool result, which is in its tool call. This store has usually just written
the call, so recent calls are cached too. Token counts that another counter made are counted again before they are used.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Generic, TypeAlias, TypeVar

from turnfold.records import decode_message
from turnfold.search import CALL_REACH, ToolNames, findable
from turnfold.stores.log_semantics import Batch, Row, Stored, new_epoch, plan_append
from turnfold.stores.postgres import statements as sql
from turnfold.stores.postgres.statements import ConversationKey
from turnfold.stores.postgres.transactions import (
    Link,
    PostgresEngine,
    Rows,
    Statement,
    UniqueViolation,
)
from turnfold.stores.protocol import Appended, Head, State
from turnfold.tokens import TokenCounter

__all__ = (
    "PostgresAppends",
    "RecentCache",
    "needs_recount",
    "recount",
)


_log = logging.getLogger(__name__)
_PAGE = 1000
_CACHED_CALLS = 1024
_Calls: TypeAlias = Mapping[str, tuple[int, str]]
_Value = TypeVar("_Value")


class RecentCache(Generic[_Value]):
    """Cache with one value per conversation, for the conversations written last. Thread-safe."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._values: dict[tuple[str, str], _Value] = {}

    def get(self, place: ConversationKey) -> _Value | None:
        """Return the cached value of a conversation; None if there is none."""
        with self._lock:
            return self._values.get(place.keys)

    def take(self, place: ConversationKey) -> _Value | None:
        """Return the cached value and remove it, so that no second writer uses it; None if there is none."""
        with self._lock:
            return self._values.pop(place.keys, None)

    def put(self, place: ConversationKey, value: _Value) -> None:
        """Cache the value of a conversation; if the cache is full, the oldest value is dropped."""
        with self._lock:
            self._values.pop(place.keys, None)
            self._values[place.keys] = value
            if len(self._values) > self._size:
                del self._values[next(iter(self._values))]


def needs_recount(head: Head, counter: TokenCounter) -> bool:
    """Return True if the stored token counts of a conversation were made by another token counter than `counter`."""
    return bool(head.seq) and head.counter != counter.name


async def recount(
    link: Link,
    place: ConversationKey,
    head: Head,
    counter: TokenCounter,
    *,
    clock: Callable[[], int],
) -> Head:
    """Count a conversation's tokens again if another counter made the stored counts; return its new head (totals)."""
    if not needs_recount(head, counter):
        return head
    _log.warning(
        "the token counter has changed: counting the tokens again (entries: %d, %s -> %s)",
        head.seq,
        head.counter,
        counter.name,
        extra={
            "event": "recounting",
            "conversation": place.mark(),
            "entries": head.seq,
        },
    )
    link.allow_long()
    running = 0
    for after in range(0, head.seq, _PAGE):
        [found] = await link.ask(sql.rows_between(place, after, after + _PAGE, _PAGE))
        costs: list[tuple[int, int, int]] = []
        for row in sql.to_rows(place, found):
            cost = counter.count_message(decode_message(row.body))
            running += cost
            costs.append((row.seq, cost, running))
        await link.ask(sql.change_costs(place, costs))
    after = sql.next_head(replace(head, tokens=running, counter=counter.name))
    await link.ask(sql.save_head(place, after, before=head.state, now=clock()))
    return after


class PostgresAppends:
    """Appends entries to conversations, with caches of their heads (newest seq, totals, version) and of tool calls."""

    def __init__(
        self,
        engine: PostgresEngine,
        heads: RecentCache[Head],
        counter: TokenCounter,
        clock: Callable[[], int],
    ) -> None:
        self._engine, self._heads = engine, heads
        self._counter, self._clock = counter, clock
        self._calls = RecentCache[_Calls](_CACHED_CALLS)

    async def append(self, place: ConversationKey, batch: Batch, expect: int | None) -> Appended:
        """Append all entries of a batch, or none; raise `Conflict` if `expect` is neither None nor the newest seq."""
        calls = await self._known_calls(place, batch)
        cached = self._heads.take(place)
        if cached and cached.counter == batch.counter and expect in (None, cached.seq):
            done = await self._append_at(place, cached, batch, calls)
            if done is not None:
                return done

        async def work(link: Link) -> Appended:
            return await self._append_locked(link, place, batch, calls, expect)

        done = await self._engine.transact(place.tenant, work)
        self._heads.put(place, done.head)
        return done

    async def _append_at(
        self, place: ConversationKey, head: Head, batch: Batch, calls: _Calls
    ) -> Appended | None:
        """Append in one round trip; return None if the conversation has changed since the cached `head` was read."""
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
        self, link: Link, place: ConversationKey, batch: Batch, calls: _Calls, expect: int | None
    ) -> Appended:
        ids = batch.client_ids
        _, found, erased, known = await link.ask(
            sql.make_conversation(place, now=self._clock()),
            sql.lock_head(place),
            sql.find_erased(place),
            sql.find_known(place, ids),
        )
        head = sql.to_conversation(erased or found).for_writing(place.name)
        head = await recount(link, place, head, self._counter, clock=self._clock)
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
        self,
        place: ConversationKey,
        rows: Sequence[Row],
        head: Head,
        tools: ToolNames,
        *,
        before: State,
    ) -> Appended:
        self._heads.put(place, head)
        if tools.calls:
            self._calls.put(place, tools.calls)
        return Appended(rows[0].seq, rows[-1].seq, repeated=False, head=head, before=before)

    async def _known_calls(self, place: ConversationKey, batch: Batch) -> _Calls:
        """Return the tool calls that the batch's tool results may belong to, from the cache or the database."""
        known = self._calls.get(place) or {}
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


def _after(head: Head, rows: Sequence[Row], batch: Batch) -> Head:
    last = rows[-1]
    generation = head.generation + 1
    moved = (last.seq, last.running, last.turn, head.checkpoint)
    return Head(*moved, generation, batch.counter, last.epoch)


def _write_rows(
    place: ConversationKey,
    head: Head,
    rows: Sequence[Row],
    batch: Batch,
    tools: ToolNames,
    *,
    before: State,
) -> Statement:
    messages = [entry.message for entry in batch.entries]
    texts = [findable(message, tools.of(message)) for message in messages]
    return sql.append_rows(place, head, rows, texts, before=before)
