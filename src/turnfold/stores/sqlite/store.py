"""`SqliteStore`: the store in one SQLite file, durable when `append` returns.

Each method passes one function to the engine, which runs it with a connection in one transaction. The token count of
every entry is stored with it, so `tail` reads back from the newest row until the budget is used, and reads no other
row.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from turnfold.errors import UnsafeStore
from turnfold.records import Checkpoint, Document, Entry, Message, NewEntry, decode_message
from turnfold.search import ALL_ENTRIES, Hit, Within, query_terms
from turnfold.stores.log_semantics import (
    Columns,
    check_checkpoint,
    check_document,
    columns_entry,
    log_mark,
    prepare,
)
from turnfold.stores.protocol import (
    Ability,
    Appended,
    Captured,
    ConversationInfo,
    Erasure,
    Head,
    Health,
    Piece,
    Restored,
    Scope,
    State,
    View,
    Written,
    check_budget,
    check_document_name,
    check_kinds,
    check_name,
    check_page,
    check_range,
    check_ranges,
    check_turn,
)
from turnfold.stores.restore_checks import Pieces
from turnfold.stores.sqlite import documents as doc_sql
from turnfold.stores.sqlite import statements as sql
from turnfold.stores.sqlite.engine import SAFE_SQLITE, SqliteEngine, sqlite_version
from turnfold.stores.sqlite.erasure import (
    EntryErasure,
    continue_erasing,
    delete,
    erase_entry,
    erase_some,
    erasure_warnings,
    is_erasing,
    next_long_place,
)
from turnfold.stores.sqlite.file_checks import file_address
from turnfold.stores.sqlite.grouped_writes import (
    AppendJob,
    HeadCache,
    NoteJob,
    NoteJobs,
    SqliteAppends,
)
from turnfold.stores.sqlite.schema import migrate
from turnfold.stores.sqlite.search import search
from turnfold.stores.sqlite.search_index import index_warnings, prepare_index
from turnfold.stores.sqlite.search_index_backfill import IndexBackfill, log_incomplete
from turnfold.stores.sqlite.transfer import capture, restore
from turnfold.stores.sqlite.write_queue import Connection
from turnfold.tokens import TokenCounter, cautious_counter

__all__ = ("SqliteStore",)


_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")


class SqliteStore:
    """Store that keeps conversations in one SQLite file, or in memory without a path.

    The first search after a write indexes the new entries and calls `on_indexing` with the numbers done and total. If
    more than 20,000 entries wait to be indexed, it indexes some of them and searches the indexed entries and the newest
    of the others; a background thread indexes the rest. The result's `unsearched` is then the number of entries that
    were not searched, a warning is logged, and `health` reports it. `reindex` indexes everything at once. With
    `index_process`, the terms of long texts are made by a process of their own, which is started when it is needed.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        counter: TokenCounter | None = None,
        blocking: bool = False,
        clock: Callable[[], int] | None = None,
        on_indexing: Callable[[int, int], None] | None = None,
        index_process: bool = False,
    ) -> None:
        self.abilities = frozenset(
            {Ability.SEARCH, Ability.ERASES_BYTES, Ability.BACKUP, Ability.IN_ORDER}
            | ({Ability.DURABLE, Ability.SHARED} if path is not None else set[Ability]())
        )
        self.blocking = blocking
        self._counter = counter or cautious_counter()
        self._clock = clock or (lambda: time.time_ns() // 1000)
        address = ":memory:" if path is None else file_address(path)
        self._engine = SqliteEngine(address, blocking=blocking)
        self._engine.prepare(migrate)
        self._engine.prepare(prepare_index)
        self._engine.check_log()
        self._engine.prepare(continue_erasing, unless_busy=True)
        self._index = IndexBackfill(self._engine, on_indexing, in_process=index_process)
        heads = HeadCache(self._engine)
        self._appends = SqliteAppends(heads, clock=self._clock, recount=self._recount)
        self._notes = NoteJobs(heads, clock=self._clock)

    async def append(
        self,
        scope: Scope,
        conversation: str,
        entries: Sequence[NewEntry],
        *,
        expect: int | None = None,
    ) -> Appended:
        self._engine.process.check()  # before any lock: in a forked process it may be held forever
        check_name(conversation, "conversation id")
        batch = prepare(entries, self._counter)
        item = AppendJob(scope.tenant, conversation, batch, expect)
        return await self._engine.submit(self._appends, item)

    async def head(self, scope: Scope, conversation: str) -> Head:
        return (await self._read(scope, conversation, lambda _, record: record)).head

    async def view(self, scope: Scope, conversation: str, kinds: Sequence[str]) -> View:
        check_kinds(kinds)

        def job(connection: Connection, record: sql.SqliteConversation) -> View:
            documents = doc_sql.documents_of(connection, record.key, kinds)
            return View(record.head, sql.live_checkpoint(connection, record.key), documents)

        return await self._read(scope, conversation, job)

    async def read(
        self,
        scope: Scope,
        conversation: str,
        *,
        after: int = 0,
        upto: int | None = None,
        limit: int = 1000,
    ) -> list[Entry]:
        check_range(after, upto, limit)
        last = sql.LAST_SEQ if upto is None else upto

        def job(connection: Connection, record: sql.SqliteConversation) -> list[Columns]:
            return list(sql.entries(connection, record.key, after=after, upto=last, limit=limit))

        return [columns_entry(each) for each in await self._read(scope, conversation, job)]

    async def read_ranges(
        self, scope: Scope, conversation: str, ranges: Sequence[tuple[int, int]]
    ) -> list[Entry]:
        check_ranges(ranges)

        def job(connection: Connection, record: sql.SqliteConversation) -> list[Columns]:
            return [
                each
                for first, last in ranges
                for each in sql.entries(connection, record.key, after=first - 1, upto=last)
            ]

        return [columns_entry(each) for each in await self._read(scope, conversation, job)]

    async def read_turn(self, scope: Scope, conversation: str, turn: int) -> list[Entry]:
        check_turn(turn)

        def job(connection: Connection, record: sql.SqliteConversation) -> list[Columns]:
            # Turns grow with seq, so their bounds are found by binary search, without an index.
            first = sql.first_of_turn(connection, record, turn)
            stop = sql.first_of_turn(connection, record, turn + 1)
            return list(sql.entries(connection, record.key, after=first - 1, upto=stop - 1))

        return [columns_entry(each) for each in await self._read(scope, conversation, job)]

    async def find(self, scope: Scope, conversation: str, client_ids: Sequence[str]) -> list[Entry]:
        for name in client_ids:
            check_name(name, "client id")

        def job(connection: Connection, record: sql.SqliteConversation) -> list[Columns]:
            found = sql.known_ids(connection, record.key, sorted(set(client_ids)))
            return [
                each
                for seq in sorted(stored.seq for stored in found.values())
                for each in sql.entries(connection, record.key, after=seq - 1, upto=seq)
            ]

        return [columns_entry(each) for each in await self._read(scope, conversation, job)]

    async def tail(
        self, scope: Scope, conversation: str, *, tokens: int, messages: int = 0
    ) -> list[Entry]:
        check_budget(tokens, messages)
        await self._ensure_counted(scope, conversation)

        def job(connection: Connection, record: sql.SqliteConversation) -> list[Columns]:
            newest: list[Columns] = []
            for each in sql.newest_entries(connection, record.key):
                cost, running = each[4:6]
                if record.head.tokens - running + cost > tokens:
                    break
                if messages and len(newest) >= messages:
                    break
                newest.append(each)
            return newest[::-1]

        return [columns_entry(each) for each in await self._read(scope, conversation, job)]

    async def add_checkpoint(
        self,
        scope: Scope,
        conversation: str,
        checkpoint: Checkpoint,
        *,
        seen: tuple[int, int] | None = None,
    ) -> Checkpoint:
        check_name(conversation, "conversation id")
        check_checkpoint(checkpoint)
        return await self._engine.write(
            lambda connection: doc_sql.add_checkpoint(
                connection, scope.tenant, conversation, checkpoint, seen=seen, clock=self._clock
            )
        )

    async def live_checkpoint(self, scope: Scope, conversation: str) -> Checkpoint | None:
        return await self._read(
            scope,
            conversation,
            lambda connection, record: sql.live_checkpoint(connection, record.key),
        )

    async def checkpoints(self, scope: Scope, conversation: str) -> list[Checkpoint]:
        return await self._read(
            scope, conversation, lambda connection, record: sql.checkpoints(connection, record.key)
        )

    async def drop_checkpoint(
        self,
        scope: Scope,
        conversation: str,
        checkpoint: str,
        *,
        put: Sequence[Document] = (),
        drop: Sequence[Document] = (),
        state: State | None = None,
    ) -> list[Checkpoint]:
        check_name(conversation, "conversation id")
        for document in put:
            check_document(document)
        return await self._engine.write(
            lambda connection: doc_sql.drop_checkpoint(
                connection,
                scope.tenant,
                conversation,
                checkpoint,
                put=put,
                drop=drop,
                state=state,
                now=self._clock(),
            )
        )

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
        check_name(conversation, "conversation id")
        check_document(document)
        return await self._engine.write(
            lambda connection: doc_sql.put_document(
                connection,
                scope.tenant,
                conversation,
                document,
                expect=expect,
                state=state,
                seen=seen,
                clock=self._clock,
            )
        )

    async def note(
        self, scope: Scope, conversation: str, document: Document, *, state: State
    ) -> State:
        check_name(conversation, "conversation id")
        check_document(document)
        item = NoteJob(scope.tenant, conversation, document, state)
        return await self._engine.submit(self._notes, item)

    async def get_document(
        self, scope: Scope, conversation: str, kind: str, key: str
    ) -> Document | None:
        check_document_name(kind, key)

        def job(connection: Connection, record: sql.SqliteConversation) -> Document | None:
            return doc_sql.find_document(connection, record.key, (kind, key))

        return await self._read(scope, conversation, job)

    async def documents(
        self, scope: Scope, conversation: str, kind: str, *, after: str = "", limit: int = 1000
    ) -> list[Document]:
        check_name(kind, "document kind")
        check_page(after, limit)

        def job(connection: Connection, record: sql.SqliteConversation) -> list[Document]:
            return doc_sql.documents_after(connection, record.key, kind, after, limit)

        return await self._read(scope, conversation, job)

    async def drop_document(
        self, scope: Scope, conversation: str, kind: str, key: str, *, expect: int | None = None
    ) -> bool:
        check_name(conversation, "conversation id")
        check_document_name(kind, key)
        return await self._engine.write(
            lambda connection: doc_sql.drop_document(
                connection,
                scope.tenant,
                conversation,
                (kind, key),
                expect=expect,
                clock=self._clock,
            )
        )

    async def conversations(
        self, scope: Scope, *, after: str = "", limit: int = 100
    ) -> list[ConversationInfo]:
        check_page(after, limit)

        def job(connection: Connection) -> list[ConversationInfo]:
            found = connection.execute(
                f"SELECT name, {sql.TIMES}, {sql.HEAD_COLUMNS} FROM {sql.CONVERSATIONS_WITH_HEAD} "  # noqa: S608 (constants)
                "WHERE tenant = ? AND name > ? AND NOT deleted ORDER BY name LIMIT ?",
                (scope.tenant, after, limit),
            )
            return [sql.to_info(scope.tenant, row) for row in found]

        return await self._engine.read(job)

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
        if conversation is not None:
            check_name(conversation, "conversation id")
        wanted = query_terms(terms)
        if not wanted:
            return []
        waiting = await self._index.for_search(scope.tenant, conversation)
        found = await self._engine.read(
            lambda connection: search(
                connection,
                scope.tenant,
                wanted,
                conversation=conversation,
                limit=limit,
                within=within,
                waiting=waiting,
            )
        )
        if found.unsearched:
            log_incomplete(found.unsearched)
        return found

    async def reindex(self) -> int:
        """Index all texts that are not indexed yet, and remove old indexes; return the number of texts indexed.

        Interrupted deletions are finished first.
        """
        if await self._engine.read(is_erasing):
            await self._finish_erasing()
            await self._engine.scrub()
        return await self._index.everything()

    async def capture(
        self, scope: Scope, conversation: str, take: Callable[[Document], None]
    ) -> Captured | None:
        check_name(conversation, "conversation id")
        return await self._engine.read(
            lambda connection: capture(connection, scope.tenant, conversation, take)
        )

    async def restore(self, scope: Scope, pieces: Iterable[Piece]) -> Restored:
        stream = Pieces(pieces, self._counter)
        return await self._engine.write(
            lambda connection: restore(connection, scope.tenant, stream), once=True
        )

    async def delete(self, scope: Scope, conversation: str) -> Erasure:
        check_name(conversation, "conversation id")

        erasure = await self._engine.write(
            lambda connection: delete(connection, scope.tenant, conversation, now=self._clock())
        )
        await self._finish_erasing()
        await self._index.remove_retired()
        await self._engine.scrub()
        return erasure

    async def erase(
        self,
        scope: Scope,
        conversation: str,
        seq: int,
        message: Message,
        *,
        replace: Sequence[Document] = (),
        drop: Sequence[Document] = (),
    ) -> Erasure:
        check_name(conversation, "conversation id")
        check_range(seq, None, 0)
        for document in replace:
            check_document(document)
        wanted = EntryErasure(conversation, seq, message, replace, drop)
        tokens = self._counter.count_message(message)

        def job(connection: Connection) -> Erasure:
            tenant = scope.tenant
            record = sql.find_conversation(connection, tenant, conversation, writing=True)
            self._recount(connection, tenant, conversation, record)
            return erase_entry(connection, tenant, wanted, record, tokens=tokens, now=self._clock())

        erasure = await self._engine.write(job)
        await self._index.remove_retired()
        await self._engine.scrub(rebuild=not erasure.already)
        return erasure

    async def _finish_erasing(self) -> None:
        """Delete all rows and index terms of hidden conversations, in steps; finishes interrupted deletions too."""
        long = None
        while await self._engine.read(is_erasing):
            known, job = long, erase_some
            long = await self._engine.read(lambda connection: next_long_place(connection, known))  # noqa: B023 (awaited)
            if long is not None:
                job = partial(erase_some, long=long)
            await self._engine.write(job)

    async def backup(self, target: str | Path) -> None:
        """Copy the store into the new file `target`, while the store is in use; raise if the file exists."""
        await self._engine.backup(str(target))

    async def health(self) -> Health:
        version = sqlite_version()
        too_old = tuple(int(part) for part in version.split(".")) < SAFE_SQLITE
        safe = ".".join(map(str, SAFE_SQLITE))
        bug = f"SQLite {version} has the log-reset bug that can corrupt a file: use {safe} or newer"
        warnings = (bug,) if too_old else ()
        ok = not self._engine.closed
        if ok:
            try:
                if await self._engine.read(is_erasing):
                    await self._engine.write(erase_some)
                    if not await self._engine.read(is_erasing):
                        await self._engine.scrub()
                warnings += await self._engine.read(
                    lambda connection: (*erasure_warnings(connection), *index_warnings(connection))
                )
            except UnsafeStore as fault:  # the file is no longer the one that was opened
                ok, warnings = False, (*warnings, str(fault))
        details = {
            "sqlite": version,
            "path": self._engine.path,
            "commits": str(self._engine.commits),
            "jobs": str(self._engine.jobs_done),
        }
        return Health(
            ok=ok,
            backend="sqlite",
            details=details,
            warnings=warnings,
        )

    async def close(self) -> None:
        self._index.close()
        await self._engine.close()

    async def _read(
        self,
        scope: Scope,
        conversation: str,
        job: Callable[[Connection, sql.SqliteConversation], _Result],
    ) -> _Result:
        check_name(conversation, "conversation id")

        def work(connection: Connection) -> _Result:
            record = sql.find_conversation(connection, scope.tenant, conversation, writing=False)
            return job(connection, record)

        return await self._engine.read(work, short=True)

    async def _ensure_counted(self, scope: Scope, conversation: str) -> None:
        head = await self.head(scope, conversation)
        if not head.seq or head.counter == self._counter.name:
            return

        def job(connection: Connection) -> None:
            record = sql.find_conversation(connection, scope.tenant, conversation, writing=False)
            self._recount(connection, scope.tenant, conversation, record)

        await self._engine.write(job)

    def _recount(
        self, connection: Connection, tenant: str, conversation: str, record: sql.SqliteConversation
    ) -> None:
        """Count the tokens of a conversation again if its stored counts were made by another token counter."""
        name = self._counter.name
        if not record.head.seq or record.head.counter == name:
            return
        _log.warning(
            "the token counter has changed: counting the tokens again (entries: %d, %s -> %s)",
            record.head.seq,
            record.head.counter,
            name,
            extra={
                "event": "recounting",
                "conversation": log_mark(tenant, conversation),
                "entries": record.head.seq,
            },
        )
        running = 0
        changes: list[tuple[int, int, int]] = []
        for row in sql.rows(connection, record.key):
            cost = self._counter.count_message(decode_message(row.body))
            running += cost
            changes.append((cost, running, sql.row_id(record.key, row.seq)))
        connection.executemany("UPDATE entry SET tokens = ?, running = ? WHERE id = ?", changes)
        record.head = replace(record.head, tokens=running, counter=name)
        sql.save_head(connection, tenant, conversation, record, now=self._clock())
