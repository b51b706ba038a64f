"""The statements of the SQLite store: each a small function of a connection, run inside a transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from typing import cast

from turnfold.errors import ConversationDeleted, UnsafeStore
from turnfold.records import Checkpoint, Document
from turnfold.stores import ledger
from turnfold.stores.checksums import (
    Mark,
    checked_checkpoint,
    checked_columns,
    checked_document,
    checked_row,
    damaged,
    entry_checksum,
)
from turnfold.stores.ledger import Columns, Row, Stored
from turnfold.stores.log_mark import log_mark
from turnfold.stores.protocol import ConversationInfo, Head
from turnfold.stores.sqlite_engine import Connection

__all__ = (
    "Held",
    "checkpoints",
    "delete_from",
    "document_version",
    "entries",
    "entry_epoch",
    "find_conversation",
    "first_of_turn",
    "insert_entries",
    "known_ids",
    "live_checkpoint",
    "mark_of",
    "new_epoch",
    "new_row",
    "newest_entries",
    "raise_generation",
    "raw_rows",
    "revision",
    "row_id",
    "rows",
    "save_head",
    "to_checkpoint",
    "to_document",
    "to_info",
    "to_row",
)

_CHECKPOINTS = (
    "SELECT id, previous, upto, text, digest, model, trust, fidelity, created, checksum FROM checkpoint "
    "WHERE conversation = ?"
)
ROW_COLUMNS = (
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
STANDING = (
    "conversation LEFT JOIN entry AS last ON last.id = (SELECT max(id) FROM entry "
    "WHERE id > conversation.key << 32 AND id <= conversation.key << 32 | 4294967295)"
)
"""Conversations, each with its newest entry: the two together are its head."""

LAST_SEQ = 0xFFFFFFFF
_LAST_GENERATION = 0xFFFFFFFF
_INSERT_ENTRY = "INSERT OR FAIL INTO entry (id, revision, client_id, created, turn, tokens, running, body, checksum)"
_MOST_ROWS = 128


@dataclass(slots=True)
class Held:
    """A conversation's row."""

    key: int
    """0 until it is first written."""
    head: Head
    deleted: bool = False
    unindexed: bool = False
    """Whether it is known that entries wait to be indexed."""
    dropped: int = 0
    """The highest version that a dropped document had."""


def find_conversation(connection: Connection, tenant: str, name: str, *, writing: bool) -> Held:
    """The conversation's row; an erased one refuses to be written."""
    found = connection.execute(
        f"SELECT key, deleted, unindexed, dropped, {HEAD_COLUMNS} FROM {STANDING} WHERE tenant = ? AND name = ?",  # noqa: S608 (constants)
        (tenant, name),
    ).fetchone()
    if found is None:
        return Held(0, Head())
    key, deleted, unindexed, dropped = cast("tuple[int, int, int, int]", found[:4])
    head = _head(found[4:], partial(log_mark, tenant, name))
    held = Held(key, head, bool(deleted), bool(unindexed), dropped)
    if held.deleted and writing:
        raise ConversationDeleted(f"conversation {name!r} has been erased; use another id")
    return held


def save_head(
    connection: Connection,
    tenant: str,
    name: str,
    held: Held,
    *,
    now: int,
    deleted: bool = False,
    epoch: int = 0,
) -> None:
    """Write the conversation's row, one generation further and with the epoch of this write; entries are written apart.

    An append gives the `epoch` its entries have; for anything else one is drawn.
    """
    head, epoch = held.head, epoch or new_epoch()
    generation, place = head.generation + 1, (head.seq, head.tokens, head.turns, head.checkpoint)
    held.head = Head(*place, generation, head.counter, epoch)
    values = (head.checkpoint, revision(generation, epoch), head.counter, now, int(deleted))
    if held.key:
        connection.execute(
            "UPDATE conversation SET checkpoint = ?, revision = ?, counter = ?, updated = ?, deleted = ?, "
            "unindexed = unindexed OR ? > indexed WHERE key = ?",
            (*values, head.seq, held.key),
        )
    else:
        connection.execute(
            "INSERT INTO conversation (tenant, name, checkpoint, revision, counter, updated, deleted, created, "
            "unindexed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (tenant, name, *values, now, int(head.seq > 0)),
        )
        held.key = connection.last_insert_rowid()


def new_epoch() -> int:
    """An epoch that a revision has room for: 31 bits."""
    return ledger.new_epoch() >> 32 or 1


def revision(generation: int, epoch: int) -> int:
    """A generation and its epoch as one number."""
    if generation > _LAST_GENERATION:
        raise UnsafeStore(
            f"the conversation has changed {_LAST_GENERATION:,} times, which is all a SQLite store can count: export "
            "it and import it under another id"
        )
    return (epoch & 0x7FFFFFFF) << 32 | generation


def raise_generation(connection: Connection, held: Held, *, now: int) -> None:
    """Note that something beside the log changed."""
    head = held.head
    generation, epoch = head.generation + 1, new_epoch()
    held.head = Head(
        head.seq, head.tokens, head.turns, head.checkpoint, generation, head.counter, epoch
    )
    connection.execute(
        "UPDATE conversation SET revision = ?, updated = ? WHERE key = ?",
        (revision(generation, epoch), now, held.key),
    )


def known_ids(connection: Connection, key: int, client_ids: Sequence[str]) -> dict[str, Stored]:
    """Which of these ids the conversation has, and under which entries."""
    known: dict[str, Stored] = {}
    for client_id in client_ids:
        found = connection.execute(
            f"SELECT {ROW_COLUMNS} FROM entry WHERE conversation = ? AND client_id = ?",  # noqa: S608 (constants)
            (key, client_id),
        ).fetchone()
        if found is not None:
            row = to_row(connection, key, found)
            known[client_id] = Stored(row.seq, row.body)
    return known


def new_row(key: int, generation: int, row: Row) -> tuple[object, ...]:
    """An entry as its table takes it; `generation` is the conversation's, once the entry is written."""
    seq, client_id, created, turn, tokens, running, body, epoch = row
    place = key << 32 | seq
    checksum = entry_checksum(place, (client_id, created, turn, body))
    written, name = revision(generation, epoch), client_id or None
    return (place, written, name, created, turn, tokens, running, body, checksum)


def insert_entries(connection: Connection, new: Sequence[tuple[object, ...]]) -> None:
    """Write entries made by `new_row`. What they are found by is written later, by `index_some`.

    When one cannot be written, those before it stay until the caller's job is undone: to take them back itself
    (without OR FAIL) SQLite would copy every page beforehand.
    """
    start = 0
    while start < len(new):
        many = min(1 << (len(new) - start).bit_length() - 1, _MOST_ROWS)
        values = tuple(chain.from_iterable(new[start : start + many]))
        connection.execute(_insert_statement(many), values)
        start += many


@cache
def _insert_statement(many: int) -> str:
    """One statement for so many rows: after each step of one, another thread may take the interpreter."""
    return f"{_INSERT_ENTRY} VALUES {', '.join(['(?, ?, ?, ?, ?, ?, ?, ?, ?)'] * many)}"


def entries(
    connection: Connection, key: int, *, after: int = 0, upto: int = LAST_SEQ, limit: int = -1
) -> Iterator[Columns]:
    """A conversation's entries with `after < seq <= upto`, at most `limit` of them, none left out."""
    found = raw_rows(connection, key, after=after, upto=upto, limit=limit)
    mark = partial(mark_of, connection, key)
    return checked_columns(found, key << 32, mark, first=min(after, LAST_SEQ) + 1, step=1)


def newest_entries(connection: Connection, key: int) -> Iterator[Columns]:
    """A conversation's entries, the newest first, none left out."""
    found, seq = raw_rows(connection, key, newest_first=True), 1
    mark = partial(mark_of, connection, key)
    for columns in checked_columns(found, key << 32, mark, step=-1):
        seq = columns[0]
        yield columns
    if seq != 1:
        raise damaged(f"the entry before {seq}", mark)


def rows(
    connection: Connection, key: int, *, after: int = 0, upto: int = LAST_SEQ
) -> Iterator[Row]:
    """A conversation's entries with `after < seq <= upto`, none left out, with names for their columns."""
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
    """Entries as their columns: for who can do without those that are damaged, which `to_row` refuses."""
    order = "DESC" if newest_first else "ASC"
    statement = (
        f"SELECT {ROW_COLUMNS} FROM entry WHERE id > ? AND id <= ? ORDER BY id {order} LIMIT ?"  # noqa: S608 (constants)
    )
    span = (row_id(key, min(after, LAST_SEQ)), row_id(key, min(upto, LAST_SEQ)))
    return iter(connection.execute(statement, (*span, limit)))


def to_row(connection: Connection, key: int, columns: tuple[object, ...]) -> Row:
    """An entry from its columns."""
    return checked_row(columns, key << 32, partial(mark_of, connection, key))


def mark_of(connection: Connection, key: int) -> str:
    """The log mark of a conversation."""
    found = connection.execute(
        "SELECT tenant, name FROM conversation WHERE key = ?", (key,)
    ).fetchone()
    return log_mark(str(found[0]), str(found[1])) if found is not None else f"number {key}"


def checkpoints(connection: Connection, key: int) -> list[Checkpoint]:
    """A conversation's checkpoints, oldest first."""
    found = connection.execute(f"{_CHECKPOINTS} ORDER BY upto", (key,))
    return [to_checkpoint(connection, key, row) for row in found]


def live_checkpoint(connection: Connection, key: int) -> Checkpoint | None:
    """A conversation's newest checkpoint."""
    row = connection.execute(f"{_CHECKPOINTS} ORDER BY upto DESC LIMIT 1", (key,)).fetchone()
    return None if row is None else to_checkpoint(connection, key, row)


def to_checkpoint(connection: Connection, key: int, row: tuple[object, ...]) -> Checkpoint:
    """A checkpoint from its row."""
    return checked_checkpoint(row, partial(mark_of, connection, key))


def to_document(connection: Connection, key: int, row: tuple[object, ...]) -> Document:
    """A document from its row: kind, key, body, version, created, text, checksum."""
    return checked_document(row, partial(mark_of, connection, key))


def to_info(tenant: str, row: tuple[object, ...]) -> ConversationInfo:
    """A line of a listing from its row: name, created, updated, head columns."""
    name, created, updated = cast("tuple[str, int, int]", row[:3])
    return ConversationInfo(name, _head(row[3:], partial(log_mark, tenant, name)), created, updated)


def _head(values: tuple[object, ...], mark: Mark) -> Head:
    """A head from its columns; of the conversation's revision and its newest entry's the later one is true."""
    seq, tokens, turns, checkpoint, own, newest, counter = cast(
        "tuple[int, int, int, str, int, int, str]", values
    )
    try:
        _ = tokens + turns  # numbers, whatever the row says they are
        later = newest if newest & _LAST_GENERATION > own & _LAST_GENERATION else own
        generation, epoch = later & _LAST_GENERATION, later >> 32
    except TypeError:
        raise damaged("the head", mark) from None
    return Head(seq, tokens, turns, checkpoint, generation, counter, epoch)


def first_of_turn(connection: Connection, held: Held, turn: int) -> int:
    """The first seq whose turn is at least `turn`; one past the newest when there is none."""
    low, high = 1, held.head.seq + 1
    while low < high:
        middle = (low + high) // 2
        found = connection.execute(
            "SELECT turn FROM entry WHERE id = ?", (row_id(held.key, middle),)
        ).fetchone()
        if found is not None and type(found[0]) is not int:
            raise damaged(f"entry {middle}", partial(mark_of, connection, held.key))
        if found is not None and cast("int", found[0]) >= turn:
            high = middle
        else:
            low = middle + 1
    return low


def entry_epoch(connection: Connection, key: int, seq: int) -> int:
    """The epoch of an entry; -1 where there is none."""
    row = connection.execute(
        "SELECT revision >> 32 FROM entry WHERE id = ?", (row_id(key, seq),)
    ).fetchone()
    return cast("int", row[0]) if row is not None else -1


def document_version(connection: Connection, key: int, kind: str, name: str) -> int:
    """Which version a document has; 0 when there is none."""
    found = connection.execute(
        "SELECT version FROM document WHERE conversation = ? AND kind = ? AND key = ?",
        (key, kind, name),
    ).fetchone()
    return cast("int", found[0]) if found is not None else 0


def delete_from(connection: Connection, table: str, key: int) -> int:
    """Remove a conversation's rows from a table; how many there were."""
    before = connection.total_changes()
    if table == "entry":
        span = (row_id(key, 0), row_id(key, LAST_SEQ))
        connection.execute("DELETE FROM entry WHERE id > ? AND id <= ?", span)
    else:
        connection.execute(f"DELETE FROM {table} WHERE conversation = ?", (key,))  # noqa: S608 (a table named in this file)
    return connection.total_changes() - before


def row_id(key: int, seq: int) -> int:
    """The number of an entry, in its table and in the search index."""
    return key << 32 | seq
