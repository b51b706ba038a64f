"""Appends and notes of the SQLite store, executed in groups, with a cache of conversation heads (versions).

Nearly every append is ordinary: it is not a retry, and this process also wrote the entry before it. Ordinary appends
read nothing: the head is cached, and the rows of all waiting callers are inserted with one statement. Any other append
(a retry, a conflict, a writer with an old head) runs alone, with more statements. The same holds for notes (documents
that record a model call): two statements suffice if the state that the writer saw is that of the cached head. A note
does not wait until it is on disk (synced); the next synced commit also writes it to disk.

The cache is valid only while nothing else has changed the file: no other job of this writer (`total_changes`), no other
connection and no rollback (`invalidations`). Jobs that keep the cache up to date call `begin` first and `end` last; any
other change invalidates it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from turnfold.records import Document
from turnfold.stores.checksums import document_checksum
from turnfold.stores.log_semantics import (
    Batch,
    Row,
    Stored,
    next_version,
    plan_append,
)
from turnfold.stores.protocol import Appended, Head, State
from turnfold.stores.sqlite import statements as sql
from turnfold.stores.sqlite.documents import put_document
from turnfold.stores.sqlite.engine import SqliteEngine
from turnfold.stores.sqlite.write_queue import Connection, TryAlone

__all__ = (
    "AppendJob",
    "HeadCache",
    "NoteJob",
    "NoteJobs",
    "SqliteAppends",
)


_MAX_CACHED = 4096


class HeadCache:
    """Cache of the heads (newest seq, totals, version) of the conversations that were written last."""

    def __init__(self, engine: SqliteEngine) -> None:
        self._engine = engine
        self._records: dict[tuple[str, str], sql.SqliteConversation] = {}
        self._state: tuple[int, int] | None = None

    def begin(self, connection: Connection) -> None:
        """Begin a write transaction.

        Clears the cache if anything else has changed the file since the last transaction.
        """
        if self._state != (connection.total_changes(), self._engine.invalidations):
            self._records.clear()

    def end(self, connection: Connection) -> None:
        """End a write transaction: the cache matches the file once it is committed."""
        self._state = (connection.total_changes(), self._engine.invalidations)

    def get(self, connection: Connection, tenant: str, conversation: str) -> sql.SqliteConversation:
        """Return a conversation's row with its head (newest seq, version), cached or read; raises if it was deleted."""
        name = (tenant, conversation)
        record = self._records.get(name)
        if record is None:
            record = sql.find_conversation(connection, tenant, conversation, writing=True)
            if len(self._records) >= _MAX_CACHED:
                self._records.clear()
            self._records[name] = record
        return record


class AppendJob(NamedTuple):
    """A write job: one batch of entries to append to a conversation."""

    tenant: str
    conversation: str
    batch: Batch
    expect: int | None


class SqliteAppends:
    """Executes append jobs; several together in one transaction where that is possible.

    `recount` is called to count the tokens of a conversation again if another token counter was used before.
    """

    durable = True

    def __init__(
        self,
        heads: HeadCache,
        *,
        clock: Callable[[], int],
        recount: Callable[[Connection, str, str, sql.SqliteConversation], None],
    ) -> None:
        self._heads, self._clock, self._recount = heads, clock, recount

    def together(self, connection: Connection, items: Sequence[AppendJob], /) -> list[Appended]:
        """Append all batches with one statement; raise `TryAlone` if one may be a retry or a conflict."""
        self._heads.begin(connection)
        now = self._clock()
        written: list[tuple[object, ...]] = []
        done = [self._plan(connection, item, now, written) for item in items]
        sql.insert_entries(connection, written)
        self._heads.end(connection)
        return done

    def alone(self, connection: Connection, item: AppendJob, /) -> Appended:
        """Append one batch, after checking whether it is a retry or a conflict."""
        tenant, name, batch, expect = item
        record = sql.find_conversation(connection, tenant, name, writing=True)
        self._recount(connection, tenant, name, record)
        known = sql.known_ids(connection, record.key, batch.client_ids) if record.key else {}
        now, epoch = self._clock(), sql.new_epoch()
        plan = plan_append(batch, record.head, known, created=now, epoch=epoch, expect=expect)
        if isinstance(plan, Stored):
            last = plan.seq + len(batch.bodies) - 1
            return Appended(
                plan.seq, last, repeated=True, head=record.head, before=record.head.state
            )
        before = record.head.state
        _move(connection, item, record, plan[-1], now)
        generation = record.head.generation
        sql.insert_entries(connection, [sql.new_row(record.key, generation, row) for row in plan])
        return Appended(plan[0].seq, plan[-1].seq, repeated=False, head=record.head, before=before)

    def _plan(
        self, connection: Connection, item: AppendJob, now: int, written: list[tuple[object, ...]]
    ) -> Appended:
        """Return the result of appending a batch, and add the rows that the caller must insert to `written`."""
        record = self._heads.get(connection, item.tenant, item.conversation)
        if record.head.seq and record.head.counter != item.batch.counter:
            raise TryAlone
        head, expect = record.head, item.expect
        if expect is not None and expect != head.seq:
            raise TryAlone
        epoch = sql.new_epoch()
        plan = plan_append(item.batch, head, {}, created=now, epoch=epoch, expect=None)
        if isinstance(plan, Stored):
            raise TryAlone
        _move(connection, item, record, plan[-1], now)
        key, generation = record.key, record.head.generation
        written += [sql.new_row(key, generation, row) for row in plan]
        return Appended(
            head.seq + 1, record.head.seq, repeated=False, head=record.head, before=head.state
        )


def _move(
    connection: Connection, item: AppendJob, record: sql.SqliteConversation, last: Row, now: int
) -> None:
    """Set the cached head (newest seq, totals) to the last row of a batch.

    The conversation's row is written only if needed.
    """
    head, counter = record.head, item.batch.counter
    moved = (last.seq, last.running, last.turn, head.checkpoint)
    if record.unindexed and head.counter == counter:
        record.head = Head(*moved, head.generation + 1, counter, last.epoch)
        return
    record.head = Head(*moved, head.generation, counter)
    sql.save_head(connection, item.tenant, item.conversation, record, now=now, epoch=last.epoch)
    record.unindexed = True


class NoteJob(NamedTuple):
    """A note (new document) to write, and the version of the conversation that its writer has read."""

    tenant: str
    conversation: str
    document: Document
    state: State


class NoteJobs:
    """Writes the notes (documents that record a model call) of a store."""

    durable = False

    def __init__(self, heads: HeadCache, *, clock: Callable[[], int]) -> None:
        self._heads, self._clock = heads, clock

    def together(self, connection: Connection, items: Sequence[NoteJob], /) -> list[State]:
        """Write all notes with two statements; raise `TryAlone` if one may be a conflict."""
        self._heads.begin(connection)
        now = self._clock()
        done = [self._write(connection, item, now) for item in items]
        self._heads.end(connection)
        return done

    def alone(self, connection: Connection, item: NoteJob, /) -> State:
        """Write one note; raise `Conflict` if the conversation has another version than its writer has read."""
        tenant, name, document, state = item
        return put_document(
            connection, tenant, name, document, expect=0, state=state, clock=self._clock
        ).after

    def _write(self, connection: Connection, item: NoteJob, now: int) -> State:
        record = self._heads.get(connection, item.tenant, item.conversation)
        if not record.key or record.head.state != item.state or item.document.text:
            raise TryAlone
        kind, key, body = item.document.kind, item.document.key, item.document.body
        version = next_version(0, record.dropped)
        checksum = document_checksum((kind, key, body, version, now, ""))
        sql.save_generation(connection, record, now=now)
        # If the document exists, the insert violates the primary key, and the note runs again with `alone`.
        connection.execute(
            "INSERT INTO document (conversation, kind, key, version, created, body, checksum) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (record.key, kind, key, version, now, body, checksum),
        )
        return record.head.state
