"""The embedded store: one SQLite file, durable when `append` returns.

Each verb is one job of the engine: a function of a connection that happens whole or not at all. Costs are
stored with every entry, so the tail for a budget is found by walking back from the newest row, and no row
outside it is read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, cast

from turnfold.errors import Conflict
from turnfold.records import Checkpoint, Document, Entry, NewEntry, decode_message
from turnfold.stores import sqlite_rows as sql
from turnfold.stores.ledger import (
    Row,
    Stored,
    check_checkpoint,
    check_succession,
    check_version,
    plan_append,
    prepare,
    row_entry,
)
from turnfold.stores.protocol import (
    Ability,
    Appended,
    ConversationInfo,
    Erasure,
    Head,
    Health,
    Hit,
    Scope,
    check_budget,
    check_document_name,
    check_name,
    check_page,
    check_range,
    check_turn,
)
from turnfold.stores.ranking import MOST_CANDIDATES, query_terms, rank
from turnfold.stores.sqlite_engine import SAFE_SQLITE, Connection, SqliteEngine, sqlite_version
from turnfold.stores.sqlite_schema import migrate
from turnfold.tokens import TokenCounter, cautious_counter

__all__ = ("SqliteStore",)

_log = logging.getLogger(__name__)
_INDEX_STEP = 2000
_ALL_ROWS = (0, (1 << 63) - 1)
_Answer = TypeVar("_Answer")


class SqliteStore:
    """Conversations in one SQLite file, or in memory without a path."""

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        counter: TokenCounter | None = None,
        blocking: bool = False,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.abilities = frozenset(
            {Ability.SEARCH, Ability.ERASES_BYTES, Ability.BACKUP}
            | ({Ability.DURABLE, Ability.SHARED} if path is not None else set[Ability]())
        )
        self._counter = counter or cautious_counter()
        self._clock = clock or (lambda: time.time_ns() // 1000)
        self._engine = SqliteEngine(":memory:" if path is None else str(path), blocking=blocking)
        self._engine.prepare(migrate)

    async def append(
        self,
        scope: Scope,
        conversation: str,
        entries: Sequence[NewEntry],
        *,
        expect: int | None = None,
    ) -> Appended:
        check_name(conversation, "conversation id")
        batch = prepare(entries, self._counter)

        def job(connection: Connection) -> Appended:
            held = sql.find_conversation(connection, scope.tenant, conversation, writing=True)
            self._recount(connection, scope, conversation, held)
            known = sql.known_ids(connection, held.key, batch.client_ids) if held.key else {}
            now = self._clock()
            plan = plan_append(batch, held.head, known, created=now, expect=expect)
            if isinstance(plan, Stored):
                return Appended(
                    plan.seq, plan.seq + len(entries) - 1, repeated=True, head=held.head
                )
            last = plan[-1]
            held.head = replace(
                held.head, seq=last.seq, tokens=last.running, turns=last.turn, counter=batch.counter
            )
            sql.save_head(connection, scope.tenant, conversation, held, now=now)
            sql.insert_rows(connection, held.key, plan)
            return Appended(plan[0].seq, last.seq, repeated=False, head=held.head)

        return await self._engine.write(job)

    async def head(self, scope: Scope, conversation: str) -> Head:
        return (await self._reading(scope, conversation, lambda _, held: held)).head

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
        last = upto if upto is not None else 1 << 62

        def job(connection: Connection, held: sql.Held) -> list[Row]:
            where = "conversation = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
            return list(sql.rows(connection, where, (held.key, after, last, limit)))

        return [row_entry(row) for row in await self._reading(scope, conversation, job)]

    async def read_turn(self, scope: Scope, conversation: str, turn: int) -> list[Entry]:
        check_turn(turn)

        def job(connection: Connection, held: sql.Held) -> list[Row]:
            # Turns grow with seq, so their edges are found by halving, not by an index of their own.
            first = sql.first_of_turn(connection, held, turn)
            stop = sql.first_of_turn(connection, held, turn + 1)
            where = "conversation = ? AND seq >= ? AND seq < ? ORDER BY seq"
            return list(sql.rows(connection, where, (held.key, first, stop)))

        return [row_entry(row) for row in await self._reading(scope, conversation, job)]

    async def find(self, scope: Scope, conversation: str, client_ids: Sequence[str]) -> list[Entry]:
        for name in client_ids:
            check_name(name, "client id")

        def job(connection: Connection, held: sql.Held) -> list[Row]:
            found = sql.known_ids(connection, held.key, sorted(set(client_ids)))
            return [
                row
                for seq in sorted(stored.seq for stored in found.values())
                for row in sql.rows(connection, "conversation = ? AND seq = ?", (held.key, seq))
            ]

        return [row_entry(row) for row in await self._reading(scope, conversation, job)]

    async def tail(
        self, scope: Scope, conversation: str, *, tokens: int, messages: int = 0
    ) -> list[Entry]:
        check_budget(tokens, messages)
        await self._ensure_counted(scope, conversation)

        def job(connection: Connection, held: sql.Held) -> list[Row]:
            kept: list[Row] = []
            where = "conversation = ? AND seq <= ? ORDER BY seq DESC"
            for row in sql.rows(connection, where, (held.key, held.head.seq)):
                if held.head.tokens - row.running + row.tokens > tokens:
                    break
                if messages and len(kept) >= messages:
                    break
                kept.append(row)
            return kept[::-1]

        return [row_entry(row) for row in await self._reading(scope, conversation, job)]

    async def add_checkpoint(
        self, scope: Scope, conversation: str, checkpoint: Checkpoint
    ) -> Checkpoint:
        check_name(conversation, "conversation id")
        check_checkpoint(checkpoint)

        def job(connection: Connection) -> Checkpoint:
            held = sql.find_conversation(connection, scope.tenant, conversation, writing=True)
            known = sql.checkpoints(connection, held.key)
            if any(other.id == checkpoint.id for other in known):
                raise Conflict(f"checkpoint {checkpoint.id!r} exists already")
            check_succession(checkpoint, known[-1] if known else None, held.head)
            stored = replace(checkpoint, created=self._clock())
            connection.execute(
                "INSERT INTO checkpoint (conversation, id, previous, upto, text, digest, model, trust, fidelity, "
                "created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (held.key, *_values(stored)),
            )
            held.head = replace(held.head, checkpoint=stored.id)
            sql.save_head(connection, scope.tenant, conversation, held, now=stored.created)
            return stored

        return await self._engine.write(job)

    async def checkpoints(self, scope: Scope, conversation: str) -> list[Checkpoint]:
        return await self._reading(
            scope, conversation, lambda connection, held: sql.checkpoints(connection, held.key)
        )

    async def put_document(
        self, scope: Scope, conversation: str, document: Document, *, expect: int | None = None
    ) -> Document:
        check_name(conversation, "conversation id")
        check_document_name(document.kind, document.key)

        def job(connection: Connection) -> Document:
            held = sql.find_conversation(connection, scope.tenant, conversation, writing=True)
            version = sql.document_version(connection, held.key, document.kind, document.key)
            check_version(expect, version, document.kind, document.key)
            now = self._clock()
            sql.save_head(connection, scope.tenant, conversation, held, now=now)
            connection.execute(
                "INSERT INTO document (conversation, kind, key, version, created, body) VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET version = excluded.version, created = excluded.created, "
                "body = excluded.body",
                (held.key, document.kind, document.key, version + 1, now, document.body),
            )
            return Document(document.kind, document.key, document.body, version + 1, now)

        return await self._engine.write(job)

    async def get_document(
        self, scope: Scope, conversation: str, kind: str, key: str
    ) -> Document | None:
        check_document_name(kind, key)

        def job(connection: Connection, held: sql.Held) -> Document | None:
            found = connection.execute(
                "SELECT kind, key, body, version, created FROM document "
                "WHERE conversation = ? AND kind = ? AND key = ?",
                (held.key, kind, key),
            ).fetchone()
            return sql.to_document(found) if found is not None else None

        return await self._reading(scope, conversation, job)

    async def documents(
        self, scope: Scope, conversation: str, kind: str, *, after: str = "", limit: int = 1000
    ) -> list[Document]:
        check_name(kind, "document kind")
        check_page(after, limit)

        def job(connection: Connection, held: sql.Held) -> list[Document]:
            found = connection.execute(
                "SELECT kind, key, body, version, created FROM document "
                "WHERE conversation = ? AND kind = ? AND key > ? ORDER BY key LIMIT ?",
                (held.key, kind, after, limit),
            )
            return [sql.to_document(row) for row in found]

        return await self._reading(scope, conversation, job)

    async def drop_document(
        self, scope: Scope, conversation: str, kind: str, key: str, *, expect: int | None = None
    ) -> bool:
        check_name(conversation, "conversation id")
        check_document_name(kind, key)

        def job(connection: Connection) -> bool:
            held = sql.find_conversation(connection, scope.tenant, conversation, writing=True)
            version = sql.document_version(connection, held.key, kind, key)
            check_version(expect, version, kind, key)
            if not version:
                return False
            connection.execute(
                "DELETE FROM document WHERE conversation = ? AND kind = ? AND key = ?",
                (held.key, kind, key),
            )
            sql.save_head(connection, scope.tenant, conversation, held, now=self._clock())
            return True

        return await self._engine.write(job)

    async def conversations(
        self, scope: Scope, *, after: str = "", limit: int = 100
    ) -> list[ConversationInfo]:
        check_page(after, limit)

        def job(connection: Connection) -> list[ConversationInfo]:
            found = connection.execute(
                "SELECT name, created, updated, seq, tokens, turns, checkpoint, generation, counter "
                "FROM conversation WHERE tenant = ? AND name > ? AND NOT deleted ORDER BY name LIMIT ?",
                (scope.tenant, after, limit),
            )
            return [sql.to_info(row) for row in found]

        return await self._engine.read(job)

    async def search(
        self,
        scope: Scope,
        terms: Sequence[str],
        *,
        conversation: str | None = None,
        limit: int = 20,
    ) -> list[Hit]:
        check_page("", limit)
        if conversation is not None:
            check_name(conversation, "conversation id")
        wanted = query_terms(terms)
        if not wanted:
            return []
        await self._catch_up(scope)

        def job(connection: Connection) -> list[Hit]:
            span, total = _searched(connection, scope, conversation)
            holding = {term: sql.holding(connection, scope.tenant, span, term) for term in wanted}
            found = sql.candidates(connection, scope.tenant, span, wanted, most=MOST_CANDIDATES)
            return rank(found, holding, total=total, limit=limit)

        return await self._engine.read(job)

    async def delete(self, scope: Scope, conversation: str) -> Erasure:
        check_name(conversation, "conversation id")

        def job(connection: Connection) -> Erasure:
            held = sql.find_conversation(connection, scope.tenant, conversation, writing=False)
            already = held.deleted
            sql.unindex(connection, scope.tenant, held.key)
            counts = [
                sql.delete_from(connection, table, held.key)
                for table in ("entry", "checkpoint", "document")
            ]
            held.head = Head(generation=held.head.generation)
            sql.save_head(
                connection, scope.tenant, conversation, held, now=self._clock(), deleted=True
            )
            return Erasure(conversation, *counts, already=already)

        erasure = await self._engine.write(job)
        await self._engine.scrub()
        return erasure

    async def backup(self, target: str | Path) -> None:
        """Copy the store into a new file while it is in use."""
        await self._engine.backup(str(target))

    async def health(self) -> Health:
        version = sqlite_version()
        too_old = tuple(int(part) for part in version.split(".")) < SAFE_SQLITE
        safe = ".".join(map(str, SAFE_SQLITE))
        warning = f"SQLite {version} has the log-reset bug that can corrupt a file; {safe} has not"
        details = {
            "sqlite": version,
            "path": self._engine.path,
            "commits": str(self._engine.commits),
            "jobs": str(self._engine.jobs_done),
        }
        return Health(
            ok=not self._engine.closed,
            backend="sqlite",
            details=details,
            warnings=(warning,) if too_old else (),
        )

    async def close(self) -> None:
        await self._engine.close()

    async def _reading(
        self, scope: Scope, conversation: str, job: Callable[[Connection, sql.Held], _Answer]
    ) -> _Answer:
        check_name(conversation, "conversation id")

        def work(connection: Connection) -> _Answer:
            held = sql.find_conversation(connection, scope.tenant, conversation, writing=False)
            return job(connection, held)

        return await self._engine.read(work)

    async def _catch_up(self, scope: Scope) -> None:
        """Index what was appended since the last search, in steps that leave room for writers."""
        while await self._engine.read(
            lambda connection: sql.has_unindexed(connection, scope.tenant)
        ):
            await self._engine.write(
                lambda connection: sql.index_some(connection, scope.tenant, most=_INDEX_STEP)
            )

    async def _ensure_counted(self, scope: Scope, conversation: str) -> None:
        head = await self.head(scope, conversation)
        if not head.seq or head.counter == self._counter.name:
            return

        def job(connection: Connection) -> None:
            held = sql.find_conversation(connection, scope.tenant, conversation, writing=False)
            self._recount(connection, scope, conversation, held)

        await self._engine.write(job)

    def _recount(
        self, connection: Connection, scope: Scope, conversation: str, held: sql.Held
    ) -> None:
        """Replace the stored costs of a conversation that was written with another counter."""
        name = self._counter.name
        if not held.head.seq or held.head.counter == name:
            return
        _log.warning("recounting %d entries: %s -> %s", held.head.seq, held.head.counter, name)
        running = 0
        changes: list[tuple[int, int, int, int]] = []
        for row in sql.rows(connection, "conversation = ? ORDER BY seq", (held.key,)):
            cost = self._counter.count_message(decode_message(row.body))
            running += cost
            changes.append((cost, running, held.key, row.seq))
        connection.executemany(
            "UPDATE entry SET tokens = ?, running = ? WHERE conversation = ? AND seq = ?", changes
        )
        held.head = replace(held.head, tokens=running, counter=name)
        sql.save_head(connection, scope.tenant, conversation, held, now=self._clock())


def _values(checkpoint: Checkpoint) -> tuple[str, str, int, str, str, str, str, float, int]:
    return (
        checkpoint.id,
        checkpoint.previous,
        checkpoint.upto,
        checkpoint.text,
        checkpoint.digest,
        checkpoint.model,
        checkpoint.trust,
        checkpoint.fidelity,
        checkpoint.created,
    )


def _searched(
    connection: Connection, scope: Scope, conversation: str | None
) -> tuple[tuple[int, int], int]:
    """The rows a search may see, and how many entries they are."""
    if conversation is None:
        found = connection.execute(
            "SELECT coalesce(sum(seq), 0) FROM conversation WHERE tenant = ?", (scope.tenant,)
        ).fetchone()
        return _ALL_ROWS, cast("int", found[0]) if found is not None else 0
    held = sql.find_conversation(connection, scope.tenant, conversation, writing=False)
    return (sql.row_id(held.key, 0), sql.row_id(held.key, 0xFFFFFFFF)), held.head.seq
