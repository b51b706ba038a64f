"""SQL statements of the SQLite store for conversations and entries: small functions that run inside a transaction.

`key` is the primary key of a conversation's row. A revision is a generation (lower 32 bits) and its epoch as one
number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from hashlib import blake2b
from itertools import chain
from typing import Any, cast

from turnfold.errors import ConversationDeleted, UnsafeStore
from turnfold.records import Checkpoint, Document
from turnfold.stores import log_semantics
from turnfold.stores.checksums import (
    LogMark,
    checked_checkpoint,
    checked_columns,
    checked_document,
    checked_row,
    damaged,
    entry_checksum,
)
from turnfold.stores.log_semantics import Columns, Row, Stored, log_mark
from turnfold.stores.protocol import ConversationInfo, Head
from turnfold.stores.sqlite.write_queue import Connection

__all__ = (
    "CONVERSATIONS_WITH_HEAD",
    "HEAD_COLUMNS",
    "LAST_SEQ",
    "TIMES",
    "SqliteConversation",
    "checkpoints",
    "delete_from",
    "document_version",
    "entries",
    "entry_epoch",
    "erased_name",
    "find_conversation",
    "first_of_turn",
    "hide_erased_names",
    "hide_name",
    "insert_entries",
    "known_ids",
    "live_checkpoint",
    "new_epoch",
    "new_row",
    "newest_entries",
    "raw_rows",
    "renew_entries",
    "replace_entry",
    "row_id",
    "rows",
    "save_generation",
    "save_head",
    "scalar",
    "to_document",
    "to_info",
    "to_row",
)


_CHECKPOINTS = (
    "SELECT id, previous, upto, text, digest, model, trust, fidelity, created, checksum FROM checkpoint "
    "WHERE conversation = ?"
)
_ROW_COLUMNS = (
    "seq, coalesce(client_id, ''), created, turn, tokens, running, body, revision >> 32, checksum"
)
HEAD_COLUMNS = (
    "coalesce(last.seq, 0), coalesce(last.running, 0), coalesce(last.turn, 0), "
    "checkpoint, conversation.revision, coalesce(last.revision, 0), counter"
)
TIMES = (
    "conversation.created, iif(last.revision & 4294967295 > conversation.revision & 4294967295, "
    "last.created, updated)"
)
CONVERSATIONS_WITH_HEAD = (
    "conversation LEFT JOIN entry AS last ON last.id = (SELECT max(id) FROM entry "
    "WHERE id > conversation.key << 32 AND id <= conversation.key << 32 | 4294967295)"
)
"""Conversations joined with their newest entry; the columns of both make the head."""

_ERASED_TENANT = "\0"
"""Tenant of the rows that remain of deleted conversations; no caller can have it."""
_ANY_ERASED = "SELECT 1 FROM conversation WHERE tenant = ? LIMIT 1"
LAST_SEQ = 0xFFFFFFFF
_LAST_GENERATION = 0xFFFFFFFF
_INSERT_ENTRY = "INSERT OR FAIL INTO entry (id, revision, client_id, created, turn, tokens, running, body, checksum)"
_MOST_ROWS = 128


@dataclass(slots=True)
class SqliteConversation:
    """The row of a conversation in the database, and its head (newest seq, totals, version)."""

    key: int
    """Primary key of the conversation's row; 0 before the conversation is first written."""
    head: Head
    deleted: bool = False
    unindexed: bool = False
    """True if the conversation's row is already marked as having entries to index."""
    dropped: int = 0
    """The highest version of any removed document of the conversation."""


def scalar(connection: Connection, statement: str, values: Sequence[object] = ()) -> Any:  # noqa: ANN401 (as stored)
    """Execute a statement; return the first value of its first row, None if there is no row."""
    row = connection.execute(statement, values).fetchone()
    return None if row is None else row[0]


def find_conversation(
    connection: Connection, tenant: str, name: str, *, writing: bool
) -> SqliteConversation:
    """Return a conversation's row (key 0 if there is none); with `writing`, refuse a deleted conversation."""
    found = connection.execute(
        f"SELECT key, deleted, unindexed, dropped, {HEAD_COLUMNS} FROM {CONVERSATIONS_WITH_HEAD} "  # noqa: S608 (constants)
        "WHERE tenant = ? AND name = ?",
        (tenant, name),
    ).fetchone()
    if found is None and scalar(connection, _ANY_ERASED, (_ERASED_TENANT,)) is not None:
        found = connection.execute(
            f"SELECT key, deleted, unindexed, dropped, {HEAD_COLUMNS} FROM {CONVERSATIONS_WITH_HEAD} "  # noqa: S608 (constants)
            "WHERE tenant = ? AND name = ?",
            erased_name(connection, tenant, name),
        ).fetchone()
    if found is None:
        return SqliteConversation(0, Head())
    key, deleted, unindexed, dropped = cast("tuple[int, int, int, int]", found[:4])
    head = _head(found[4:], partial(log_mark, tenant, name))
    record = SqliteConversation(key, head, bool(deleted), bool(unindexed), dropped)
    if record.deleted and writing:
        raise ConversationDeleted(f"conversation {name!r} has been erased; use another id")
    return record


def erased_name(connection: Connection, tenant: str, name: str) -> tuple[str, str]:
    """Return the tenant and name for the row of a deleted conversation: both are replaced by a salted digest."""
    salt: bytes = scalar(connection, "SELECT salt FROM name_salt")
    text = f"{len(tenant)}:{tenant}{name}".encode()
    return _ERASED_TENANT, blake2b(text, key=salt, digest_size=16).hexdigest()


def hide_erased_names(connection: Connection) -> None:
    """Replace the names of all deleted conversations by digests; for files of an earlier release."""
    found = connection.execute(
        "SELECT key, tenant, name FROM conversation WHERE deleted AND tenant NOT IN ('', ?)",
        (_ERASED_TENANT,),
    ).fetchall()
    for key, tenant, name in cast("list[tuple[int, str, str]]", found):
        hide_name(connection, key, tenant, name)


def hide_name(connection: Connection, key: int, tenant: str, name: str) -> None:
    """Replace the tenant and name of a deleted conversation's row by their digest."""
    connection.execute(
        "UPDATE conversation SET tenant = ?, name = ? WHERE key = ?",
        (*erased_name(connection, tenant, name), key),
    )


def save_head(
    connection: Connection,
    tenant: str,
    name: str,
    record: SqliteConversation,
    *,
    now: int,
    deleted: bool = False,
    epoch: int = 0,
) -> None:
    """Insert or update a conversation's row, with the next generation; entries are written separately.

    An append passes the `epoch` of its entries; other writes get a random one. `record.head` is set to the new head.
    """
    head, epoch = record.head, epoch or new_epoch()
    generation, place = head.generation + 1, (head.seq, head.tokens, head.turns, head.checkpoint)
    record.head = Head(*place, generation, head.counter, epoch)
    values = (head.checkpoint, revision(generation, epoch), head.counter, now, int(deleted))
    if record.key:
        connection.execute(
            "UPDATE conversation SET checkpoint = ?, revision = ?, counter = ?, updated = ?, deleted = ?, "
            "unindexed = unindexed OR ? > indexed WHERE key = ?",
            (*values, head.seq, record.key),
        )
    else:
        connection.execute(
            "INSERT INTO conversation (tenant, name, checkpoint, revision, counter, updated, deleted, created, "
            "unindexed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (tenant, name, *values, now, int(head.seq > 0)),
        )
        record.key = connection.last_insert_rowid()


def new_epoch() -> int:
    """Return a random epoch (number that identifies one write) of 31 bits, the most that fit into a revision."""
    return log_semantics.new_epoch() >> 32 or 1


def revision(generation: int, epoch: int) -> int:
    """Return one number, the revision, made of a generation (number of the change) and its epoch."""
    if generation > _LAST_GENERATION:
        raise UnsafeStore(
            f"the conversation has changed {_LAST_GENERATION:,} times, the most that a SQLite store can count: export "
            "it and import it under another id"
        )
    return (epoch & 0x7FFFFFFF) << 32 | generation


def save_generation(connection: Connection, record: SqliteConversation, *, now: int) -> None:
    """Count a change of the conversation that adds no entries: write its next generation and a new random epoch."""
    head = record.head
    generation, epoch = head.generation + 1, new_epoch()
    record.head = Head(
        head.seq, head.tokens, head.turns, head.checkpoint, generation, head.counter, epoch
    )
    connection.execute(
        "UPDATE conversation SET revision = ?, updated = ? WHERE key = ?",
        (revision(generation, epoch), now, record.key),
    )


def known_ids(connection: Connection, key: int, client_ids: Sequence[str]) -> dict[str, Stored]:
    """Return {client id: stored entry} of the conversation's entries that have one of these client ids."""
    known: dict[str, Stored] = {}
    for client_id in client_ids:
        found = connection.execute(
            f"SELECT {_ROW_COLUMNS} FROM entry WHERE conversation = ? AND client_id = ?",  # noqa: S608 (constants)
            (key, client_id),
        ).fetchone()
        if found is not None:
            row = to_row(connection, key, found)
            known[client_id] = Stored(row.seq, row.body)
    return known


def new_row(key: int, generation: int, row: Row) -> tuple[object, ...]:
    """Return the database columns of a new entry; `generation` is the conversation's generation after the write."""
    seq, client_id, created, turn, tokens, running, body, epoch = row
    place = key << 32 | seq
    checksum = entry_checksum(place, (client_id, created, turn, body))
    written, name = revision(generation, epoch), client_id or None
    return (place, written, name, created, turn, tokens, running, body, checksum)


def insert_entries(connection: Connection, new: Sequence[tuple[object, ...]]) -> None:
    """Insert entries, passed as columns that `new_row` made; the next search indexes them.

    If an entry cannot be inserted, those before it stay inserted until the caller rolls back: with OR FAIL, SQLite need
    not copy every page beforehand to be able to undo the statement.
    """
    start = 0
    while start < len(new):
        many = min(1 << (len(new) - start).bit_length() - 1, _MOST_ROWS)
        values = tuple(chain.from_iterable(new[start : start + many]))
        connection.execute(_insert_statement(many), values)
        start += many


@cache
def _insert_statement(many: int) -> str:
    """Return one INSERT statement for `many` rows.

    With several statements, other threads could take the interpreter lock between two of them.
    """
    return f"{_INSERT_ENTRY} VALUES {', '.join(['(?, ?, ?, ?, ?, ?, ?, ?, ?)'] * many)}"


def replace_entry(
    connection: Connection, key: int, old: Row, body: bytes, *, tokens: int, epoch: int
) -> None:
    """Replace the body of an entry; it and all later entries get the new `epoch` and corrected running token sums."""
    place = row_id(key, old.seq)
    checksum = entry_checksum(place, (old.client_id, old.created, old.turn, body))
    connection.execute(
        "UPDATE entry SET body = ?, tokens = ?, checksum = ? WHERE id = ?",
        (body, tokens, checksum, place),
    )
    connection.execute(
        "UPDATE entry SET running = running + ?, revision = ? | revision & 4294967295 WHERE id >= ? AND id <= ?",
        (tokens - old.tokens, revision(0, epoch), place, row_id(key, LAST_SEQ)),
    )


def renew_entries(connection: Connection, key: int, *, after: int, epoch: int) -> None:
    """Give all entries with `seq > after` a new epoch, so that readers that cached them read them again."""
    connection.execute(
        "UPDATE entry SET revision = ? | revision & 4294967295 WHERE id > ? AND id <= ?",
        (revision(0, epoch), row_id(key, after), row_id(key, LAST_SEQ)),
    )


def entries(
    connection: Connection, key: int, *, after: int = 0, upto: int = LAST_SEQ, limit: int = -1
) -> Iterator[Columns]:
    """Return the entries with `after < seq <= upto`, at most `limit`; raise an error if one is damaged or missing."""
    found = raw_rows(connection, key, after=after, upto=upto, limit=limit)
    mark = partial(_log_mark_of, connection, key)
    return checked_columns(found, key << 32, mark, first=min(after, LAST_SEQ) + 1, step=1)


def newest_entries(connection: Connection, key: int) -> Iterator[Columns]:
    """Yield all entries, newest first; raise an error if one is damaged or missing."""
    found, seq = raw_rows(connection, key, newest_first=True), 1
    mark = partial(_log_mark_of, connection, key)
    for columns in checked_columns(found, key << 32, mark, step=-1):
        seq = columns[0]
        yield columns
    if seq != 1:
        raise damaged(f"the entry before {seq}", mark)


def rows(
    connection: Connection, key: int, *, after: int = 0, upto: int = LAST_SEQ
) -> Iterator[Row]:
    """Yield the entries with `after < seq <= upto` as `Row`; raise an error if one is damaged or missing."""
    return (Row(*each[:8]) for each in entries(connection, key, after=after, upto=upto))


def raw_rows(
    connection: Connection,
    key: int,
    *,
    after: int = 0,
    upto: int = LAST_SEQ,
    limit: int = -1,
    newest_first: bool = False,
) -> Iterator[tuple[object, ...]]:
    """Yield entries as columns that are not verified, for callers that skip damaged entries; `to_row` verifies them."""
    order = "DESC" if newest_first else "ASC"
    statement = (
        f"SELECT {_ROW_COLUMNS} FROM entry WHERE id > ? AND id <= ? ORDER BY id {order} LIMIT ?"  # noqa: S608 (constants)
    )
    span = (row_id(key, min(after, LAST_SEQ)), row_id(key, min(upto, LAST_SEQ)))
    return iter(connection.execute(statement, (*span, limit)))


def to_row(connection: Connection, key: int, columns: tuple[object, ...]) -> Row:
    """Return columns of an entry as a `Row`; raise an error if its checksum does not match."""
    return checked_row(columns, key << 32, partial(_log_mark_of, connection, key))


def _log_mark_of(connection: Connection, key: int) -> str:
    """Return the pseudonym of a conversation for errors and log records."""
    found = connection.execute(
        "SELECT tenant, name FROM conversation WHERE key = ?", (key,)
    ).fetchone()
    return log_mark(str(found[0]), str(found[1])) if found is not None else f"number {key}"


def checkpoints(connection: Connection, key: int) -> list[Checkpoint]:
    """Return a conversation's checkpoints (stored summaries), oldest first."""
    found = connection.execute(f"{_CHECKPOINTS} ORDER BY upto", (key,))
    return [checked_checkpoint(row, partial(_log_mark_of, connection, key)) for row in found]


def live_checkpoint(connection: Connection, key: int) -> Checkpoint | None:
    """Return a conversation's newest checkpoint (stored summary); None if there is none."""
    row = connection.execute(f"{_CHECKPOINTS} ORDER BY upto DESC LIMIT 1", (key,)).fetchone()
    return None if row is None else checked_checkpoint(row, partial(_log_mark_of, connection, key))


def to_document(connection: Connection, key: int, row: tuple[object, ...]) -> Document:
    """Return the document of a row (kind, key, body, version, created, text, checksum), verified by its checksum."""
    return checked_document(row, partial(_log_mark_of, connection, key))


def to_info(tenant: str, row: tuple[object, ...]) -> ConversationInfo:
    """Return a row of a listing (name, created, updated, newest seq and totals) as a `ConversationInfo`."""
    name, created, updated = cast("tuple[str, int, int]", row[:3])
    return ConversationInfo(name, _head(row[3:], partial(log_mark, tenant, name)), created, updated)


def _head(values: tuple[object, ...], mark: LogMark) -> Head:
    """Return a conversation's head (newest seq, totals, version) from database columns; raise if they are damaged."""
    seq, tokens, turns, checkpoint, own, newest, counter = cast(
        "tuple[int, int, int, str, int, int, str]", values
    )
    try:
        _ = tokens + turns  # raises unless both are numbers
        later = newest if newest & _LAST_GENERATION > own & _LAST_GENERATION else own
        generation, epoch = later & _LAST_GENERATION, later >> 32
    except TypeError:
        raise damaged("the stored head (newest seq and totals)", mark) from None
    return Head(seq, tokens, turns, checkpoint, generation, counter, epoch)


def first_of_turn(connection: Connection, record: SqliteConversation, turn: int) -> int:
    """Return the first seq whose turn is at least `turn`, found by binary search; newest seq + 1 if there is none."""
    low, high = 1, record.head.seq + 1
    while low < high:
        middle = (low + high) // 2
        found = connection.execute(
            "SELECT turn FROM entry WHERE id = ?", (row_id(record.key, middle),)
        ).fetchone()
        if found is not None and type(found[0]) is not int:
            raise damaged(f"entry {middle}", partial(_log_mark_of, connection, record.key))
        if found is not None and cast("int", found[0]) >= turn:
            high = middle
        else:
            low = middle + 1
    return low


def entry_epoch(connection: Connection, key: int, seq: int) -> int:
    """Return the epoch (number of the write) of the entry `seq`; -1 if there is no such entry."""
    epoch = scalar(connection, "SELECT revision >> 32 FROM entry WHERE id = ?", (row_id(key, seq),))
    return -1 if epoch is None else epoch


def document_version(connection: Connection, key: int, kind: str, name: str) -> int:
    """Return the version of a document; 0 if it does not exist. Raises `InvalidRecord` if the version is damaged."""
    statement = "SELECT version FROM document WHERE conversation = ? AND kind = ? AND key = ?"
    found = connection.execute(statement, (key, kind, name)).fetchone()
    version = found[0] if found is not None else 0
    if type(version) is not int:
        raise damaged(
            f"the version of document {kind}/{name}", partial(_log_mark_of, connection, key)
        )
    return version


def delete_from(connection: Connection, table: str, key: int) -> None:
    """Delete all rows of a conversation from one table (`entry`, `checkpoint` or `document`)."""
    if table == "entry":
        span = (row_id(key, 0), row_id(key, LAST_SEQ))
        connection.execute("DELETE FROM entry WHERE id > ? AND id <= ?", span)
    else:
        connection.execute(f"DELETE FROM {table} WHERE conversation = ?", (key,))  # noqa: S608 (a table named in this file)


def row_id(key: int, seq: int) -> int:
    """Return the id of an entry in its table and in the search index: the conversation's key and the seq."""
    return key << 32 | seq
