"""`PostgresStore`: the store in a PostgreSQL database, durable and shared by many processes.

Each method is one transaction, usually one round trip to the server. Writers of a conversation lock its row, which also
has its head; see append.py for the round trips of an append.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, cast

from turnfold.errors import StoreUnavailable
from turnfold.records import Checkpoint, Document, Entry, Message, NewEntry, decode_message
from turnfold.search import (
    ALL_ENTRIES,
    CALL_REACH,
    Hit,
    ToolNames,
    Within,
    findable,
    query_terms,
)
from turnfold.stores.checksums import checked_columns
from turnfold.stores.log_semantics import (
    Row,
    check_checkpoint,
    check_document,
    check_erasure,
    check_seen,
    check_state,
    check_succession,
    check_version,
    columns_entry,
    next_version,
    prepare,
    repeated_checkpoint,
    split_checkpoints,
)
from turnfold.stores.postgres import documents as doc_sql
from turnfold.stores.postgres import statements as sql
from turnfold.stores.postgres.append import (
    PostgresAppends,
    RecentCache,
    needs_recount,
    recount,
)
from turnfold.stores.postgres.schema import TABLES, migrate
from turnfold.stores.postgres.search import search
from turnfold.stores.postgres.statements import ConversationKey, key_of
from turnfold.stores.postgres.timeouts import TimeLimits
from turnfold.stores.postgres.transactions import Link, PostgresEngine, Rows, Statement
from turnfold.stores.postgres.transfer import capture, restore
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
from turnfold.tokens import TokenCounter, cautious_counter

__all__ = ("PostgresStore",)


_log = logging.getLogger(__name__)
_RISKS = ("fsync", "full_page_writes")
"""Settings of the server with which it can lose data if they are off, and which a transaction cannot change."""
_FACTS = """
SELECT current_setting('server_version'), current_user::text, current_database()::text,
       (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user),
       current_setting('fsync'), current_setting('full_page_writes'),
       (SELECT count(*) FROM unnest($1::text[]) AS wanted
        JOIN pg_class ON pg_class.oid = to_regclass(wanted)
        WHERE relrowsecurity AND relforcerowsecurity),
       coalesce((SELECT relkind = 'v' FROM pg_class WHERE oid = to_regclass('ai_message')), false)
"""


async def _inspect(link: Link) -> tuple[dict[str, str], tuple[str, ...]]:
    """Read details and warnings about the server and the connected role, which `health` returns."""
    [[facts]] = await link.finish(Statement(_FACTS, (list(TABLES),)))
    names = ("server", "user", "database", "bypasses", *_RISKS, "secured", "view")
    known: dict[str, object] = dict(zip(names, facts, strict=True))
    details = {name: str(known[name]) for name in ("server", "user", "database")}
    return details, tuple(_warnings(known))


def _warnings(known: Mapping[str, object]) -> list[str]:
    warnings: list[str] = []
    if known["bypasses"]:
        warnings.append(
            f"connected as {known['user']!r}, who bypasses row-level security, the second barrier between tenants: "
            "connect as a role that is neither superuser nor BYPASSRLS"
        )
    secured = cast("int", known["secured"])
    if secured < len(TABLES):
        warnings.append(
            f"row-level security is enabled and forced on only {secured} of {len(TABLES)} tables: on the others, run "
            "ALTER TABLE ... ENABLE ROW LEVEL SECURITY and FORCE ROW LEVEL SECURITY"
        )
    warnings += _risks(known)
    if not known["view"]:
        warnings.append(
            "ai_message is not the documented view, because a table of that name already existed: rename the table, "
            "and the next process that opens the store creates the view"
        )
    return warnings


def _risks(known: Mapping[str, object]) -> list[str]:
    return [
        f"the server runs with {name}=off: unless its storage makes up for that, a crash of the machine can lose "
        "acknowledged entries"
        for name in _RISKS
        if known[name] == "off"
    ]


_LAST_SEQ = (1 << 63) - 1
_CACHED_HEADS = 4096
_ERASED = ("turnfold_term", "turnfold_entry", "turnfold_checkpoint", "turnfold_document")
_Result = TypeVar("_Result")


class PostgresStore:
    """Store that keeps conversations in a PostgreSQL database; its tables are created on first use.

    Anything that takes longer than its limit, in seconds, raises `StoreUnavailable`: connecting
    (`connect_timeout_seconds`, at least 2), one statement (`statement_timeout_seconds`), waiting for a lock of another
    program (`lock_timeout_seconds`), one statement of an import, a deletion, a recount of tokens or a rebuild of the
    search index (`long_timeout_seconds`), and a server that does not acknowledge data (`tcp_timeout_seconds`). None
    means no limit, or for statements and locks the limit set on the server; migrations have no limit. The address may
    override the limits of connecting and TCP with `connect_timeout`, `keepalives_idle`, `keepalives_interval`,
    `keepalives_count` and `tcp_user_timeout`.
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
        self._heads = RecentCache[Head](_CACHED_HEADS)
        self._warned = False
        limits = TimeLimits(
            connect=connect_timeout_seconds,
            statement=statement_timeout_seconds,
            lock=lock_timeout_seconds,
            long=long_timeout_seconds,
            tcp=tcp_timeout_seconds,
        )
        self._engine = PostgresEngine(
            url, limits, blocking=blocking, pool_size=pool_size, prepare=self._prepare
        )
        self._appends = PostgresAppends(self._engine, self._heads, self._counter, self._clock)

    async def _prepare(self, link: Link) -> None:
        """Apply missing migrations, and log a warning if settings of the server may lose acknowledged writes."""
        await migrate(link)
        [[found]] = await link.ask(
            Statement("SELECT current_setting('fsync'), current_setting('full_page_writes')")
        )
        risks = [] if self._warned else _risks(dict(zip(_RISKS, found, strict=True)))
        self._warned = True
        for risk in risks:
            _log.warning(risk, extra={"event": "unsafe_setting"})

    async def append(
        self,
        scope: Scope,
        conversation: str,
        entries: Sequence[NewEntry],
        *,
        expect: int | None = None,
    ) -> Appended:
        self._engine.check_open()  # before any lock: in a forked process it may be held forever
        check_name(conversation, "conversation id")
        batch = prepare(entries, self._counter)
        return await self._appends.append(
            ConversationKey(scope.tenant, conversation), batch, expect
        )

    async def head(self, scope: Scope, conversation: str) -> Head:
        place = _place(scope, conversation)
        found = await self._read(place, sql.find_head(place))
        if not found:
            found = await self._read(place, sql.find_erased(place))
        return sql.to_conversation(found).head

    async def view(self, scope: Scope, conversation: str, kinds: Sequence[str]) -> View:
        place = _place(scope, conversation)
        check_kinds(kinds)

        async def work(link: Link) -> list[Rows]:
            return await link.finish(
                sql.find_head(place),
                doc_sql.find_live_checkpoint(place),
                doc_sql.find_documents_of(place, kinds),
            )

        head, live, rows = await self._engine.transact(place.tenant, work, reading=True)
        if not head:
            head = await self._read(place, sql.find_erased(place))
        documents = sorted(
            (doc_sql.to_document(place, row) for row in rows),
            key=lambda each: (each.kind, each.key),
        )
        checkpoint = next(iter(doc_sql.to_checkpoints(place, live)), None)
        return View(sql.to_conversation(head).head, checkpoint, tuple(documents))

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
        last = _LAST_SEQ if upto is None else upto
        return _entries(place, await self._read(place, sql.rows_between(place, after, last, limit)))

    async def read_ranges(
        self, scope: Scope, conversation: str, ranges: Sequence[tuple[int, int]]
    ) -> list[Entry]:
        place = _place(scope, conversation)
        check_ranges(ranges)
        return _entries(place, await self._read(place, sql.rows_of_ranges(place, ranges)))

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

        async def read_recounted(link: Link) -> Rows:
            [found] = await link.ask(sql.lock_head(place))
            head = sql.to_conversation(found).for_writing(conversation)
            await recount(link, place, head, self._counter, clock=self._clock)
            [rows] = await link.finish(wanted)
            return rows

        found, rows = await self._engine.transact(place.tenant, read, reading=True)
        if needs_recount(sql.to_conversation(found).head, self._counter):
            rows = await self._engine.transact(place.tenant, read_recounted)
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
            head, found = await self._lock(link, place, doc_sql.find_checkpoints(place))
            known = doc_sql.to_checkpoints(place, found)
            repeated = repeated_checkpoint(checkpoint, known)
            if repeated is not None:
                return repeated
            check_succession(checkpoint, known[-1] if known else None, head)
            await _check_seen(link, place, seen)
            stored = replace(checkpoint, created=self._clock())
            after = sql.next_head(replace(head, checkpoint=stored.id))
            await link.finish(
                doc_sql.insert_checkpoint(place, stored),
                *sql.index_texts(place, [doc_sql.indexed_text(stored)]),
                sql.save_head(place, after, before=head.state, now=stored.created),
            )
            return stored

        return await self._write(place, work)

    async def live_checkpoint(self, scope: Scope, conversation: str) -> Checkpoint | None:
        place = _place(scope, conversation)
        found = doc_sql.to_checkpoints(
            place, await self._read(place, doc_sql.find_live_checkpoint(place))
        )
        return found[0] if found else None

    async def checkpoints(self, scope: Scope, conversation: str) -> list[Checkpoint]:
        place = _place(scope, conversation)
        return doc_sql.to_checkpoints(
            place, await self._read(place, doc_sql.find_checkpoints(place))
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
        place = _place(scope, conversation)
        for document in put:
            check_document(document)

        async def work(link: Link) -> list[Checkpoint]:
            link.allow_long()
            head, found = await self._lock(link, place, doc_sql.find_checkpoints(place))
            kept, gone = split_checkpoints(doc_sql.to_checkpoints(place, found), checkpoint)
            if state is not None:
                check_state(state, head)
            statements = await self._document_changes(link, place, put, drop)
            live, covered = (kept[-1].id, kept[-1].upto) if kept else ("", 0)
            after = sql.next_head(replace(head, checkpoint=live))
            await link.finish(
                *statements,
                *(one for each in gone for one in doc_sql.drop_checkpoint(place, each)),
                sql.renew_entries(place, after=covered, epoch=after.epoch),
                sql.save_head(place, after, before=head.state, now=self._clock()),
            )
            return gone

        return await self._write(place, work)

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
        return await self._put(place, document, expect=expect, state=state, seen=seen)

    async def _put(
        self,
        place: ConversationKey,
        document: Document,
        *,
        expect: int | None,
        state: State | None,
        seen: tuple[int, int] | None = None,
    ) -> Written:
        check_document(document)

        async def work(link: Link) -> Written:
            present = doc_sql.find_version(place, document.kind, document.key)
            head, found = await self._lock(link, place, present, create=True)
            if state is not None:
                check_state(state, head)
            await _check_seen(link, place, seen)
            version, dropped, searchable = doc_sql.to_version(found)
            check_version(expect, version, document.kind, document.key)
            now, version = self._clock(), next_version(version, dropped)
            stored = replace(document, version=version, created=now)
            after = sql.next_head(head)
            await link.finish(
                *doc_sql.replace_document(place, stored, searchable=searchable),
                sql.save_head(place, after, before=head.state, now=now),
            )
            return Written(stored, head.state, after.state)

        return await self._write(place, work)

    async def note(
        self, scope: Scope, conversation: str, document: Document, *, state: State
    ) -> State:
        place = _place(scope, conversation)
        return (await self._put(place, document, expect=0, state=state)).after

    async def get_document(
        self, scope: Scope, conversation: str, kind: str, key: str
    ) -> Document | None:
        place = _place(scope, conversation)
        check_document_name(kind, key)
        found = await self._read(place, doc_sql.find_document(place, kind, key))
        return next(iter(doc_sql.to_documents(place, kind, found)), None)

    async def documents(
        self, scope: Scope, conversation: str, kind: str, *, after: str = "", limit: int = 1000
    ) -> list[Document]:
        place = _place(scope, conversation)
        check_name(kind, "document kind")
        check_page(after, limit)
        found = await self._read(place, doc_sql.find_documents(place, kind, after, limit))
        return doc_sql.to_documents(place, kind, found)

    async def drop_document(
        self, scope: Scope, conversation: str, kind: str, key: str, *, expect: int | None = None
    ) -> bool:
        place = _place(scope, conversation)
        check_document_name(kind, key)

        async def work(link: Link) -> bool:
            head, found = await self._lock(link, place, doc_sql.find_version(place, kind, key))
            version, _, searchable = doc_sql.to_version(found)
            check_version(expect, version, kind, key)
            if version:
                await link.finish(
                    *(sql.unindex_text(place, kind, key) if searchable else ()),
                    doc_sql.drop_document(place, kind, key),
                    sql.save_head(place, sql.next_head(head), before=head.state, now=self._clock()),
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
        place = ConversationKey(scope.tenant, "") if everywhere else _place(scope, conversation)
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
            link.allow_long()
            return await capture(link, place, take, blocking=self.blocking)

        return await self._engine.transact(place.tenant, work, reading=True)

    async def restore(self, scope: Scope, pieces: Iterable[Piece]) -> Restored:
        stream = Pieces(pieces, self._counter)

        async def work(link: Link) -> Restored:
            link.allow_long()
            return await restore(link, scope.tenant, stream, blocking=self.blocking)

        return await self._engine.transact(key_of(scope.tenant), work)

    async def delete(self, scope: Scope, conversation: str) -> Erasure:
        place = _place(scope, conversation)

        async def work(link: Link) -> Erasure:
            link.allow_long()
            now = self._clock()
            _, found, erased, entries, checkpoints, documents = await link.ask(
                sql.make_conversation(place, now=now, unless_erased=True),
                sql.lock_head(place),
                sql.find_erased(place),
                *(
                    sql.of_conversation("SELECT count(*)", table, place)
                    for table in ("turnfold_entry", "turnfold_checkpoint", "turnfold_document")
                ),
            )
            record = sql.to_conversation(erased or found)
            counts = [cast("int", rows[0][0]) for rows in (entries, checkpoints, documents)]
            # Another deletion may have ended just before the insert, which then made a new row beside the erased one.
            tables = (*_ERASED, "turnfold_conversation") if erased else _ERASED
            await link.finish(
                sql.allow_conversation(place),
                *(sql.of_conversation("DELETE", table, place) for table in tables),
                sql.mark_deleted(place, record.head.generation + 1, now=now),
            )
            return Erasure(conversation, *counts, already=record.deleted)

        return await self._write(place, work)

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
        place = _place(scope, conversation)
        check_range(seq, None, 0)
        for document in replace:
            check_document(document)

        async def work(link: Link) -> Erasure:
            link.allow_long()
            # The tool name in the index row of a result is that of its call, a few entries before.
            reach = sql.rows_between(place, max(seq - CALL_REACH - 1, 0), seq, CALL_REACH + 1)
            head, found = await self._lock(link, place, reach)
            rows = {row.seq: row for row in sql.to_rows(place, found)}
            body = check_erasure(rows.get(seq), seq, message)
            head = await recount(link, place, head, self._counter, clock=self._clock)
            [found, known] = await link.ask(reach, doc_sql.find_checkpoints(place))
            rows = {row.seq: row for row in sql.to_rows(place, found)}
            statements = await self._document_changes(link, place, replace, drop)
            after, already, dropped = sql.next_head(head), rows[seq].body == body, 0
            if not already:
                checkpoints = doc_sql.to_checkpoints(place, known)
                covering = [each for each in checkpoints if each.upto >= seq]
                kept = checkpoints[: len(checkpoints) - len(covering)]
                dropped, live = len(covering), kept[-1].id if kept else ""
                new = rows[seq]._replace(
                    body=body, tokens=self._counter.count_message(message), epoch=after.epoch
                )
                after = _erased_head(after, rows[seq], new, live)
                statements += _entry_changes(place, list(rows.values()), new)
                statements += [
                    one for each in covering for one in doc_sql.drop_checkpoint(place, each)
                ]
            if statements:
                save = sql.save_head(place, after, before=head.state, now=self._clock())
                await link.finish(*statements, save)
            changed = len(replace) + len(drop)
            return Erasure(conversation, int(not already), dropped, changed, already)

        return await self._write(place, work)

    async def _document_changes(
        self,
        link: Link,
        place: ConversationKey,
        replaced: Sequence[Document],
        dropped: Sequence[Document],
    ) -> list[Statement]:
        """Return the statements that write and delete documents; raise `Conflict` if a document has another version."""
        given = (*replaced, *dropped)
        asked = [doc_sql.find_version(place, each.kind, each.key) for each in given]
        answers = await link.ask(*asked) if asked else []
        statements: list[Statement] = []
        for at, (each, found) in enumerate(zip(given, answers, strict=True)):
            version, highest, searchable = doc_sql.to_version(found)
            check_version(each.version, version, each.kind, each.key)
            if at < len(replaced):
                version = next_version(version, highest)
                stored = replace(each, version=version, created=self._clock())
                statements += doc_sql.replace_document(place, stored, searchable=searchable)
            else:
                statements += sql.unindex_text(place, each.kind, each.key) if searchable else []
                statements.append(doc_sql.drop_document(place, each.kind, each.key))
        return statements

    async def health(self) -> Health:
        if self._engine.closed:
            return Health(ok=False, backend="postgres")
        try:
            details, warnings = await self._engine.transact("-", _inspect, reading=True)
        except StoreUnavailable as error:
            return Health(ok=False, backend="postgres", warnings=(str(error),))
        details |= {
            "transactions": str(self._engine.transactions),
            "round_trips": str(self._engine.round_trips),
        }
        return Health(ok=True, backend="postgres", details=details, warnings=warnings)

    async def close(self) -> None:
        self._engine.close()

    async def _read(self, place: ConversationKey, statement: Statement) -> Rows:
        async def work(link: Link) -> Rows:
            [found] = await link.finish(statement)
            return found

        return await self._engine.transact(place.tenant, work, reading=True)

    async def _write(
        self, place: ConversationKey, work: Callable[[Link], Awaitable[_Result]]
    ) -> _Result:
        self._engine.check_open()
        self._heads.take(place)
        return await self._engine.transact(place.tenant, work)

    async def _lock(
        self, link: Link, place: ConversationKey, statement: Statement, *, create: bool = False
    ) -> tuple[Head, Rows]:
        """Lock a conversation against other writers.

        Returns its head (newest seq, version) and the rows that `statement` selects. With `create`, a missing
        conversation is created. Raises `ConversationDeleted` for a deleted one.
        """
        creation = [sql.make_conversation(place, now=self._clock())] if create else []
        *_, found, rows = await link.ask(*creation, sql.lock_head(place), statement)
        record = sql.to_conversation(found)
        if not record.head.generation:  # missing, or made just now
            [erased] = await link.ask(sql.find_erased(place))
            record = sql.to_conversation(erased or found)
        return record.for_writing(place.name), rows


def _erased_head(head: Head, old: Row, new: Row, checkpoint: str) -> Head:
    """Return the head (newest seq, totals, version) of the conversation after `new` has replaced the entry `old`."""
    return replace(head, tokens=head.tokens + new.tokens - old.tokens, checkpoint=checkpoint)


def _entry_changes(place: ConversationKey, rows: Sequence[Row], new: Row) -> list[Statement]:
    """Return the statements that replace the last entry of `rows` by `new`.

    The other rows are the tool calls, from which the names of its tools are taken.
    """
    tools = ToolNames(after=rows[0].seq - 1)
    for row in rows[:-1]:
        tools.of(decode_message(row.body))
    message = decode_message(new.body)
    return sql.replace_entry(place, rows[-1], new, findable(message, tools.of(message)))


async def _check_seen(link: Link, place: ConversationKey, seen: tuple[int, int] | None) -> None:
    if seen is not None:
        [rows] = await link.ask(sql.entry_epoch(place, seen[0]))
        check_seen(seen, cast("int", rows[0][0]) if rows else -1)


def _place(scope: Scope, conversation: str) -> ConversationKey:
    check_name(conversation, "conversation id")
    return ConversationKey(scope.tenant, conversation)


def _entries(place: ConversationKey, found: Rows) -> list[Entry]:
    return [columns_entry(columns) for columns in checked_columns(found, 0, place.mark)]
