"""The statements of the SQLite store: each a small function of a connection, run inside a transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import cast

from turnfold.errors import ConversationDeleted
from turnfold.records import Checkpoint, Document
from turnfold.stores.ledger import Row, Stored, new_epoch
from turnfold.stores.protocol import ConversationInfo, Head
from turnfold.stores.sqlite_engine import Connection

__all__ = (
    "Held",
    "checkpoints",
    "delete_from",
    "document_version",
    "entry_epoch",
    "find_conversation",
    "first_of_turn",
    "insert_entries",
    "known_ids",
    "live_checkpoint",
    "new_row",
    "raise_generation",
    "row_id",
    "rows",
    "save_head",
    "to_checkpoint",
    "to_document",
    "to_info",
)

_CHECKPOINTS = (
    "SELECT id, previous, upto, text, digest, model, trust, fidelity, created FROM checkpoint "
    "WHERE conversation = ?"
)
ROW_COLUMNS = "seq, coalesce(client_id, ''), created, turn, tokens, running, body, epoch"
HEAD_COLUMNS = (
    "coalesce(last.seq, 0), coalesce(last.running, 0), coalesce(last.turn, 0), "
    "checkpoint, max(conversation.revision, coalesce(last.revision, 0)), counter, "
    "iif(last.revision > conversation.revision, last.epoch, conversation.epoch)"
)
TIMES = "conversation.created, iif(last.revision > conversation.revision, last.created, updated)"
STANDING = (
    "conversation LEFT JOIN entry AS last ON last.id = (SELECT max(id) FROM entry "
    "WHERE id > conversation.key << 32 AND id <= conversation.key << 32 | 4294967295)"
)
"""Conversations, each with its newest entry: the two together are its head."""

LAST_SEQ = 0xFFFFFFFF
_INSERT_ENTRY = "INSERT OR FAIL INTO entry (id, revision, client_id, created, turn, tokens, running, body, epoch)"
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
    held = Held(key, _head(found[4:]), bool(deleted), bool(unindexed), dropped)
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
    generation, epoch = held.head.generation + 1, epoch or new_epoch()
    held.head = head = replace(held.head, generation=generation, epoch=epoch)
    values = (head.checkpoint, generation, epoch, head.counter, now, int(deleted))
    if held.key:
        connection.execute(
            "UPDATE conversation SET checkpoint = ?, revision = ?, epoch = ?, counter = ?, updated = ?, deleted = ?, "
            "unindexed = unindexed OR ? > indexed WHERE key = ?",
            (*values, head.seq, held.key),
        )
    else:
        connection.execute(
            "INSERT INTO conversation (tenant, name, checkpoint, revision, epoch, counter, updated, deleted, created, "
            "unindexed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (tenant, name, *values, now, int(head.seq > 0)),
        )
        held.key = connection.last_insert_rowid()


def raise_generation(connection: Connection, held: Held, *, now: int) -> None:
    """Note that something beside the log changed."""
    head = held.head
    generation, epoch = head.generation + 1, new_epoch()
    held.head = Head(
        head.seq, head.tokens, head.turns, head.checkpoint, generation, head.counter, epoch
    )
    connection.execute(
        "UPDATE conversation SET revision = ?, epoch = ?, updated = ? WHERE key = ?",
        (generation, epoch, now, held.key),
    )


def known_ids(connection: Connection, key: int, client_ids: Sequence[str]) -> dict[str, Stored]:
    """Which of these ids the conversation has, and under which entries."""
    known: dict[str, Stored] = {}
    for client_id in client_ids:
        found = connection.execute(
            "SELECT seq, body FROM entry WHERE conversation = ? AND client_id = ?", (key, client_id)
        ).fetchone()
        if found is not None:
            known[client_id] = Stored(*cast("tuple[int, bytes]", found))
    return known


def new_row(key: int, generation: int, row: Row) -> tuple[object, ...]:
    """An entry as its table takes it; `generation` is the conversation's, once the entry is written."""
    return (key << 32 | row[0], generation, row[1] or None, *row[2:])


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


def rows(
    connection: Connection,
    key: int,
    *,
    after: int = 0,
    upto: int = LAST_SEQ,
    limit: int = -1,
    newest_first: bool = False,
) -> Iterator[Row]:
    """A conversation's entries with `after < seq <= upto`, at most `limit` of them."""
    order = "DESC" if newest_first else "ASC"
    statement = (
        f"SELECT {ROW_COLUMNS} FROM entry WHERE id > ? AND id <= ? ORDER BY id {order} LIMIT ?"  # noqa: S608 (constants)
    )
    span = (row_id(key, min(after, LAST_SEQ)), row_id(key, min(upto, LAST_SEQ)))
    for found in connection.execute(statement, (*span, limit)):
        yield Row(*cast("tuple[int, str, int, int, int, int, bytes, int]", found))


def checkpoints(connection: Connection, key: int) -> list[Checkpoint]:
    """A conversation's checkpoints, oldest first."""
    found = connection.execute(f"{_CHECKPOINTS} ORDER BY upto", (key,))
    return [to_checkpoint(row) for row in found]


def live_checkpoint(connection: Connection, key: int) -> Checkpoint | None:
    """A conversation's newest checkpoint."""
    row = connection.execute(f"{_CHECKPOINTS} ORDER BY upto DESC LIMIT 1", (key,)).fetchone()
    return None if row is None else to_checkpoint(row)


def to_checkpoint(row: tuple[object, ...]) -> Checkpoint:
    """A checkpoint from its row; the strict table vouches for the types."""
    return Checkpoint(*cast("tuple[str, str, int, str, str, str, str, float, int]", row))


def to_document(row: tuple[object, ...]) -> Document:
    """A document from its row: kind, key, body, version, created, text."""
    return Document(*cast("tuple[str, str, bytes, int, int, str]", row))


def to_info(row: tuple[object, ...]) -> ConversationInfo:
    """A line of a listing from its row: name, created, updated, head columns."""
    name, created, updated = cast("tuple[str, int, int]", row[:3])
    return ConversationInfo(name, _head(row[3:]), created, updated)


def _head(values: tuple[object, ...]) -> Head:
    return Head(*cast("tuple[int, int, int, str, int, str, int]", values))


def first_of_turn(connection: Connection, held: Held, turn: int) -> int:
    """The first seq whose turn is at least `turn`; one past the newest when there is none."""
    low, high = 1, held.head.seq + 1
    while low < high:
        middle = (low + high) // 2
        found = connection.execute(
            "SELECT turn FROM entry WHERE id = ?", (row_id(held.key, middle),)
        ).fetchone()
        if found is not None and cast("int", found[0]) >= turn:
            high = middle
        else:
            low = middle + 1
    return low


def entry_epoch(connection: Connection, key: int, seq: int) -> int:
    """The epoch of an entry; -1 where there is none."""
    row = connection.execute("SELECT epoch FROM entry WHERE id = ?", (key << 32 | seq,)).fetchone()
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
