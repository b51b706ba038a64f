"""The durable store at scale: PostgreSQL, one transaction per verb, one round trip where nobody else writes.

A conversation's writers take turns at its row, which also carries where it stands. A store remembers where it
left the conversations it wrote last and sends the next append for the row to be still there: head, entries,
index and commit in one round trip. If somebody else has written meanwhile, or the ids are known, nothing
happens, and the append is made again under the row's lock, in two.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar, cast

from turnfold.errors import StoreUnavailable
from turnfold.records import Checkpoint, Document, Entry, NewEntry
from turnfold.stores import postgres_beside as beside
from turnfold.stores import postgres_rows as sql
from turnfold.stores import postgres_terms as terms_of_place
from turnfold.stores.checksums import checked_columns
from turnfold.stores.ledger import (
    check_checkpoint,
    check_document,
    check_seen,
    check_state,
    check_succession,
    check_version,
    columns_entry,
    known_checkpoint,
    next_version,
    prepare,
)
from turnfold.stores.postgres_append import Appends
from turnfold.stores.postgres_engine import (
    Link,
    PostgresEngine,
    Rows,
    Statement,
    TimeLimits,
)
from turnfold.stores.postgres_heads import RememberedHeads
from turnfold.stores.postgres_health import Opening, inspect
from turnfold.stores.postgres_keys import Place, key_of
from turnfold.stores.postgres_recount import is_foreign, recounted
from turnfold.stores.postgres_search import search
from turnfold.stores.postgres_transfer import capture, restore
from turnfold.stores.protocol import (
    Ability,
    Appended,
    Captured,
    ConversationInfo,
    Erasure,
    Head,
    Health,
    Hit,
    Piece,
    Restored,
    Scope,
    State,
    Written,
    check_budget,
    check_document_name,
    check_name,
    check_page,
    check_range,
    check_turn,
)
from turnfold.stores.ranking import query_terms
from turnfold.stores.restoring import Pieces
from turnfold.stores.within import ALL_ENTRIES, Within
from turnfold.tokens import TokenCounter, cautious_counter

__all__ = ("PostgresStore",)

_LARGEST = (1 << 63) - 1
_ERASED = ("turnfold_term", "turnfold_entry", "turnfold_checkpoint", "turnfold_document")
_Answer = TypeVar("_Answer")


class PostgresStore:
    """Conversations in a PostgreSQL database; its tables are made on first use.

    Whatever takes longer than its limit, in seconds, ends in `StoreUnavailable`: making a connection
    (`connect_timeout_seconds`, at least 2), one statement (`statement_timeout_seconds`), a wait for a lock that another
    program holds (`lock_timeout_seconds`), one statement of an import, a deletion, a recount or a new search index
    (`long_timeout_seconds`), and a peer that does not confirm what was sent (`tcp_timeout_seconds`). None means no
    limit, or for statements and locks the server's own; migrations have none. The address may say otherwise with
    `connect_timeout`, `keepalives_idle`, `keepalives_interval`, `keepalives_count` and `tcp_user_timeout`.
    """

    abilities = frozenset({Ability.DURABLE, Ability.SHARED, Ability.SEARCH})

    def __init__(
        self,
        url: str,
        *,
        counter: TokenCounter | None = None,
        blocking: bool = False,
        clock: Callable[[], int] | None = None,
        pool_size: int = 10,
        connect_timeout_seconds: int = 10,
        statement_timeout_seconds: float | None = 30.0,
        lock_timeout_seconds: float | None = 10.0,
        long_timeout_seconds: float | None = 600.0,
        tcp_timeout_seconds: float | None = 30.0,
    ) -> None:
        self.blocking = blocking
        self._counter = counter or cautious_counter()
        self._clock = clock or (lambda: time.time_ns() // 1000)
        self._heads = RememberedHeads()
        limits = TimeLimits(
            connect=connect_timeout_seconds,
            statement=statement_timeout_seconds,
            lock=lock_timeout_seconds,
            long=long_timeout_seconds,
            tcp=tcp_timeout_seconds,
        )
        self._engine = PostgresEngine(
            url, limits, blocking=blocking, pool_size=pool_size, prepare=Opening().make_ready
        )
        self._appends = Appends(self._engine, self._heads, self._counter, self._clock)

    async def append(
        self,
        scope: Scope,
        conversation: str,
        entries: Sequence[NewEntry],
        *,
        expect: int | None = None,
    ) -> Appended:
        self._engine.check_open()  # before any lock: in a forked process it may be taken for ever
        check_name(conversation, "conversation id")
        batch = prepare(entries, self._counter)
        return await self._appends.append(Place(scope.tenant, conversation), batch, expect)

    async def head(self, scope: Scope, conversation: str) -> Head:
        place = _place(scope, conversation)
        return sql.to_held(await self._read(place, sql.find_head(place))).head

    async def read(
        self,
        scope: Scope,
        conversation: str,
        *,
        after: int = 0,
        upto: int | None = None,
        limit: int = 1000,
    ) -> list[Entry]:
        place = _place(scope, conversation)
        check_range(after, upto, limit)
        last = _LARGEST if upto is None else upto
        return _entries(place, await self._read(place, sql.rows_between(place, after, last, limit)))

    async def read_turn(self, scope: Scope, conversation: str, turn: int) -> list[Entry]:
        place = _place(scope, conversation)
        check_turn(turn)
        return _entries(place, await self._read(place, sql.rows_of_turn(place, turn)))

    async def find(self, scope: Scope, conversation: str, client_ids: Sequence[str]) -> list[Entry]:
        place = _place(scope, conversation)
        for name in client_ids:
            check_name(name, "client id")
        return _entries(place, await self._read(place, sql.rows_by_id(place, client_ids)))

    async def tail(
        self, scope: Scope, conversation: str, *, tokens: int, messages: int = 0
    ) -> list[Entry]:
        place = _place(scope, conversation)
        check_budget(tokens, messages)
        wanted = sql.rows_of_tail(place, tokens, messages)

        async def read(link: Link) -> tuple[Rows, Rows]:
            head, rows = await link.finish(sql.find_head(place), wanted)
            return head, rows

        async def recount(link: Link) -> Rows:
            [found] = await link.ask(sql.lock_head(place))
            head = sql.to_held(found).for_writing(conversation)
            await recounted(link, place, head, self._counter, clock=self._clock)
            [rows] = await link.finish(wanted)
            return rows

        found, rows = await self._engine.transact(place.tenant, read, reading=True)
        if is_foreign(sql.to_held(found).head, self._counter):
            rows = await self._engine.transact(place.tenant, recount)
        return _entries(place, rows)

    async def add_checkpoint(
        self,
        scope: Scope,
        conversation: str,
        checkpoint: Checkpoint,
        *,
        seen: tuple[int, int] | None = None,
    ) -> Checkpoint:
        place = _place(scope, conversation)
        check_checkpoint(checkpoint)

        async def work(link: Link) -> Checkpoint:
            head, found = await self._lock(link, place, beside.find_checkpoints(place))
            known = beside.to_checkpoints(place, found)
            repeated = known_checkpoint(checkpoint, known)
            if repeated is not None:
                return repeated
            check_succession(checkpoint, known[-1] if known else None, head)
            if seen is not None:
                [rows] = await link.ask(sql.entry_epoch(place, seen[0]))
                check_seen(seen, cast("int", rows[0][0]) if rows else -1)
            stored = replace(checkpoint, created=self._clock())
            after = sql.changed(replace(head, checkpoint=stored.id))
            await link.finish(
                beside.insert_checkpoint(place, stored),
                *terms_of_place.add_beside(place, [beside.found_by(stored)]),
                sql.save_head(place, after, before=head.state, now=stored.created),
            )
            return stored

        return await self._write(place, work)

    async def live_checkpoint(self, scope: Scope, conversation: str) -> Checkpoint | None:
        place = _place(scope, conversation)
        found = beside.to_checkpoints(
            place, await self._read(place, beside.find_live_checkpoint(place))
        )
        return found[0] if found else None

    async def checkpoints(self, scope: Scope, conversation: str) -> list[Checkpoint]:
        place = _place(scope, conversation)
        return beside.to_checkpoints(place, await self._read(place, beside.find_checkpoints(place)))

    async def put_document(
        self,
        scope: Scope,
        conversation: str,
        document: Document,
        *,
        expect: int | None = None,
        state: State | None = None,
        seen: tuple[int, int] | None = None,
    ) -> Written:
        place = _place(scope, conversation)
        check_document(document)

        async def work(link: Link) -> Written:
            present = beside.find_version(place, document.kind, document.key)
            head, found = await self._lock(link, place, present, make=True)
            if state is not None:
                check_state(state, head)
            if seen is not None:
                [rows] = await link.ask(sql.entry_epoch(place, seen[0]))
                check_seen(seen, cast("int", rows[0][0]) if rows else -1)
            version, dropped, searchable = beside.to_version(found)
            check_version(expect, version, document.kind, document.key)
            now, version = self._clock(), next_version(version, dropped)
            stored = replace(document, version=version, created=now)
            after = sql.changed(head)
            await link.finish(
                *beside.replace_document(place, stored, searchable=searchable),
                sql.save_head(place, after, before=head.state, now=now),
            )
            return Written(stored, head.state, after.state)

        return await self._write(place, work)

    async def note(
        self, scope: Scope, conversation: str, document: Document, *, state: State
    ) -> State:
        place = _place(scope, conversation)
        check_document(document)

        async def work(link: Link) -> State:
            present = beside.find_version(place, document.kind, document.key)
            head, found = await self._lock(link, place, present, make=True)
            check_state(state, head)
            version, dropped, _ = beside.to_version(found)
            check_version(0, version, document.kind, document.key)
            now, version = self._clock(), next_version(version, dropped)
            stored, after = replace(document, version=version, created=now), sql.changed(head)
            await link.finish(
                *beside.replace_document(place, stored, searchable=False),
                sql.save_head(place, after, before=head.state, now=now),
            )
            return after.state

        return await self._write(place, work)

    async def get_document(
        self, scope: Scope, conversation: str, kind: str, key: str
    ) -> Document | None:
        place = _place(scope, conversation)
        check_document_name(kind, key)
        found = await self._read(place, beside.find_document(place, kind, key))
        return next(iter(beside.to_documents(place, kind, found)), None)

    async def documents(
        self, scope: Scope, conversation: str, kind: str, *, after: str = "", limit: int = 1000
    ) -> list[Document]:
        place = _place(scope, conversation)
        check_name(kind, "document kind")
        check_page(after, limit)
        found = await self._read(place, beside.find_documents(place, kind, after, limit))
        return beside.to_documents(place, kind, found)

    async def drop_document(
        self, scope: Scope, conversation: str, kind: str, key: str, *, expect: int | None = None
    ) -> bool:
        place = _place(scope, conversation)
        check_document_name(kind, key)

        async def work(link: Link) -> bool:
            head, found = await self._lock(link, place, beside.find_version(place, kind, key))
            version, _, searchable = beside.to_version(found)
            check_version(expect, version, kind, key)
            if version:
                await link.finish(
                    *(terms_of_place.remove_beside(place, kind, key) if searchable else ()),
                    beside.drop_document(place, kind, key),
                    sql.save_head(place, sql.changed(head), before=head.state, now=self._clock()),
                )
            return bool(version)

        return await self._write(place, work)

    async def conversations(
        self, scope: Scope, *, after: str = "", limit: int = 100
    ) -> list[ConversationInfo]:
        check_page(after, limit)

        async def work(link: Link) -> Rows:
            [found] = await link.finish(sql.list_conversations(scope.tenant, after, limit))
            return found

        found = await self._engine.transact(key_of(scope.tenant), work, reading=True)
        return [sql.to_info(row) for row in found]

    async def search(
        self,
        scope: Scope,
        terms: Sequence[str],
        *,
        conversation: str | None = None,
        limit: int = 20,
        within: Within = ALL_ENTRIES,
    ) -> list[Hit]:
        check_page("", limit)
        wanted = query_terms(terms)
        everywhere = conversation is None
        place = Place(scope.tenant, "") if conversation is None else _place(scope, conversation)

        self._engine.check_open()
        if not wanted:
            return []
        return await search(
            self._engine, place, wanted, everywhere=everywhere, limit=limit, within=within
        )

    async def capture(
        self, scope: Scope, conversation: str, take: Callable[[Document], None]
    ) -> Captured | None:
        place = _place(scope, conversation)

        async def work(link: Link) -> Captured | None:
            link.take_long()
            return await capture(link, place, take, self._aside)

        return await self._engine.transact(place.tenant, work, reading=True)

    async def restore(self, scope: Scope, pieces: Iterable[Piece]) -> Restored:
        stream = Pieces(pieces, self._counter)

        async def work(link: Link) -> Restored:
            link.take_long()
            return await restore(link, scope.tenant, stream, self._aside)

        return await self._engine.transact(key_of(scope.tenant), work)

    async def delete(self, scope: Scope, conversation: str) -> Erasure:
        place = _place(scope, conversation)

        async def work(link: Link) -> Erasure:
            link.take_long()
            now = self._clock()
            _, found, entries, checkpoints, documents = await link.ask(
                sql.make_conversation(place, now=now),
                sql.lock_head(place),
                *(
                    sql.of_conversation("SELECT count(*)", table, place)
                    for table in ("turnfold_entry", "turnfold_checkpoint", "turnfold_document")
                ),
            )
            held = sql.to_held(found)
            counts = [cast("int", rows[0][0]) for rows in (entries, checkpoints, documents)]
            await link.finish(
                terms_of_place.name_conversation(place),
                *(sql.of_conversation("DELETE", table, place) for table in _ERASED),
                sql.bury(place, held.head.generation + 1, now=now),
            )
            return Erasure(conversation, *counts, already=held.deleted)

        return await self._write(place, work)

    async def health(self) -> Health:
        if self._engine.closed:
            return Health(ok=False, backend="postgres")
        try:
            details, warnings = await self._engine.transact("-", inspect, reading=True)
        except StoreUnavailable as error:
            return Health(ok=False, backend="postgres", warnings=(str(error),))
        details |= {
            "transactions": str(self._engine.transactions),
            "round_trips": str(self._engine.round_trips),
        }
        return Health(ok=True, backend="postgres", details=details, warnings=warnings)

    async def close(self) -> None:
        self._engine.close()

    async def _aside(self, work: Callable[[], _Answer]) -> _Answer:
        return work() if self.blocking else await asyncio.to_thread(work)

    async def _read(self, place: Place, statement: Statement) -> Rows:
        async def work(link: Link) -> Rows:
            [found] = await link.finish(statement)
            return found

        return await self._engine.transact(place.tenant, work, reading=True)

    async def _write(self, place: Place, work: Callable[[Link], Awaitable[_Answer]]) -> _Answer:
        self._engine.check_open()
        self._heads.take(place)
        return await self._engine.transact(place.tenant, work)

    async def _lock(
        self, link: Link, place: Place, question: Statement, *, make: bool = False
    ) -> tuple[Head, Rows]:
        """Where a conversation stands, and an answer, with every other writer kept waiting."""
        making = [sql.make_conversation(place, now=self._clock())] if make else []
        *_, found, answer = await link.ask(*making, sql.lock_head(place), question)
        return sql.to_held(found).for_writing(place.name), answer


def _place(scope: Scope, conversation: str) -> Place:
    check_name(conversation, "conversation id")
    return Place(scope.tenant, conversation)


def _entries(place: Place, found: Rows) -> list[Entry]:
    return [columns_entry(columns) for columns in checked_columns(found, 0, place.mark)]
