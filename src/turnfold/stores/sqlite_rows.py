"""The statements of the SQLite store: each a small function of a connection, run inside a transaction."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from turnfold.errors import ConversationDeleted
from turnfold.recall import terms_of
from turnfold.records import Checkpoint, Document, decode_message
from turnfold.stores.ledger import Row, Stored
from turnfold.stores.protocol import ConversationInfo, Head
from turnfold.stores.sqlite_engine import Connection

__all__ = (
    "Held",
    "candidates",
    "checkpoints",
    "delete_from",
    "document_version",
    "find_conversation",
    "first_of_turn",
    "has_unindexed",
    "holding",
    "index_some",
    "insert_rows",
    "known_ids",
    "row_id",
    "rows",
    "save_head",
    "to_checkpoint",
    "to_document",
    "to_info",
    "unindex",
)

ROW_COLUMNS = "seq, coalesce(client_id, ''), created, turn, tokens, running, body"
HEAD_COLUMNS = "seq, tokens, turns, checkpoint, generation, counter"

_SETTLED = re.compile(
    "[0-9a-z\u00df-\u024f\u0370-\u03ff\u0430-\u0481\u05d0-\u05ea\u0620-\u064a"
    "\u3041-\u3096\u30a1-\u30fa\u30fc\u4e00-\u9fcc\uac00-\ud7a3]+"
)
"""Letters and digits on which Python and every release of the index's tokenizer agree."""
_SPELT = "\ue000"
"""Marks a term that is spelt out; for private use, so no term has it, and the tokenizer takes it for a letter."""


@dataclass(slots=True)
class Held:
    """A conversation's row."""

    key: int
    """0 until it is first written."""
    head: Head
    deleted: bool = False


def find_conversation(connection: Connection, tenant: str, name: str, *, writing: bool) -> Held:
    """The conversation's row; an erased one refuses to be written."""
    found = connection.execute(
        f"SELECT key, deleted, {HEAD_COLUMNS} FROM conversation WHERE tenant = ? AND name = ?",  # noqa: S608 (constants)
        (tenant, name),
    ).fetchone()
    if found is None:
        return Held(0, Head())
    held = Held(cast("int", found[0]), _head(found[2:]), deleted=bool(found[1]))
    if held.deleted and writing:
        raise ConversationDeleted(f"conversation {name!r} has been erased; use another id")
    return held


def save_head(
    connection: Connection, tenant: str, name: str, held: Held, *, now: int, deleted: bool = False
) -> None:
    """Write the conversation's row, with its generation one further."""
    head = held.head
    values = (head.seq, head.tokens, head.turns, head.checkpoint, head.generation + 1, head.counter)
    if held.key:
        connection.execute(
            "UPDATE conversation SET seq = ?, tokens = ?, turns = ?, checkpoint = ?, generation = ?, counter = ?, "
            "updated = ?, deleted = ? WHERE key = ?",
            (*values, now, int(deleted), held.key),
        )
    else:
        connection.execute(
            "INSERT INTO conversation (tenant, name, seq, tokens, turns, checkpoint, generation, counter, created, "
            "updated, deleted) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (tenant, name, *values, now, now, int(deleted)),
        )
        held.key = connection.last_insert_rowid()
    held.head = Head(*values)


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


def insert_rows(connection: Connection, key: int, new: Sequence[Row]) -> None:
    """Write entries. What they are found by is written later, by `index_some`."""
    connection.executemany(
        "INSERT INTO entry (conversation, seq, client_id, created, turn, tokens, running, body) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        ((key, row.seq, row.client_id or None, *row[2:]) for row in new),
    )


def index_some(connection: Connection, tenant: str, *, most: int) -> int:
    """Index entries of the scope that are not indexed yet, at most `most`; how many were."""
    done = 0
    pending = connection.execute(
        "SELECT key, indexed FROM conversation WHERE tenant = ? AND indexed < seq", (tenant,)
    ).fetchall()
    for key, indexed in cast("list[tuple[int, int]]", pending):
        where = "conversation = ? AND seq > ? ORDER BY seq LIMIT ?"
        new = list(rows(connection, where, (key, indexed, most - done)))
        connection.executemany(
            "INSERT INTO entry_terms (rowid, scope, terms) VALUES (?, ?, ?)",
            ((row_id(key, row.seq), scope_term(tenant), _index_text(row.body)) for row in new),
        )
        connection.execute(
            "UPDATE conversation SET indexed = ? WHERE key = ?", (indexed + len(new), key)
        )
        done += len(new)
        if done >= most:
            break
    return done


def has_unindexed(connection: Connection, tenant: str) -> bool:
    """Whether entries of the scope wait to be indexed."""
    found = connection.execute(
        "SELECT 1 FROM conversation WHERE tenant = ? AND indexed < seq LIMIT 1", (tenant,)
    ).fetchone()
    return found is not None


def unindex(connection: Connection, tenant: str, key: int) -> None:
    """Take a conversation's entries out of the search index."""
    found = connection.execute("SELECT indexed FROM conversation WHERE key = ?", (key,)).fetchone()
    indexed = cast("int", found[0]) if found is not None else 0
    connection.executemany(
        "INSERT INTO entry_terms (entry_terms, rowid, scope, terms) VALUES ('delete', ?, ?, ?)",
        [
            (row_id(key, row.seq), scope_term(tenant), _index_text(row.body))
            for row in rows(
                connection, "conversation = ? AND seq <= ? ORDER BY seq", (key, indexed)
            )
        ],
    )
    connection.execute("UPDATE conversation SET indexed = 0 WHERE key = ?", (key,))


def rows(connection: Connection, where: str, values: tuple[object, ...]) -> Iterator[Row]:
    """Entries by a condition written in this package, with every value bound."""
    statement = f"SELECT {ROW_COLUMNS} FROM entry WHERE {where}"  # noqa: S608 (constants; values are bound)
    for found in connection.execute(statement, values):
        yield Row(*cast("tuple[int, str, int, int, int, int, bytes]", found))


def checkpoints(connection: Connection, key: int) -> list[Checkpoint]:
    """A conversation's checkpoints, oldest first."""
    found = connection.execute(
        "SELECT id, previous, upto, text, digest, model, trust, fidelity, created FROM checkpoint "
        "WHERE conversation = ? ORDER BY upto",
        (key,),
    )
    return [to_checkpoint(row) for row in found]


def to_checkpoint(row: tuple[object, ...]) -> Checkpoint:
    """A checkpoint from its row; the strict table vouches for the types."""
    return Checkpoint(*cast("tuple[str, str, int, str, str, str, str, float, int]", row))


def to_document(row: tuple[object, ...]) -> Document:
    """A document from its row: kind, key, body, version, created."""
    return Document(*cast("tuple[str, str, bytes, int, int]", row))


def to_info(row: tuple[object, ...]) -> ConversationInfo:
    """A line of a listing from its row: name, created, updated, head columns."""
    name, created, updated = cast("tuple[str, int, int]", row[:3])
    return ConversationInfo(name, _head(row[3:]), created, updated)


def _head(values: tuple[object, ...]) -> Head:
    return Head(*cast("tuple[int, int, int, str, int, str]", values))


def holding(connection: Connection, tenant: str, span: tuple[int, int], term: str) -> int:
    """How many entries of the scope hold a term."""
    found = connection.execute(
        "SELECT count(*) FROM entry_terms WHERE entry_terms MATCH ? AND rowid BETWEEN ? AND ?",
        (_match(tenant, (term,)), *span),
    ).fetchone()
    return cast("int", found[0]) if found else 0


def candidates(
    connection: Connection, tenant: str, span: tuple[int, int], terms: Sequence[str], *, most: int
) -> list[tuple[str, int, Counter[str]]]:
    """The newest entries of the scope that hold any of the terms, with all their terms."""
    found = connection.execute(
        "SELECT conversation.name, entry.seq, entry.body FROM entry_terms "
        "JOIN entry ON entry.conversation = entry_terms.rowid >> 32 AND entry.seq = entry_terms.rowid & 4294967295 "
        "JOIN conversation ON conversation.key = entry.conversation AND conversation.tenant = ? "
        "WHERE entry_terms MATCH ? AND entry_terms.rowid BETWEEN ? AND ? ORDER BY entry_terms.rowid DESC LIMIT ?",
        (tenant, _match(tenant, terms), *span, most),
    )
    return [
        (cast("str", name), cast("int", seq), Counter(_terms(cast("bytes", body))))
        for name, seq, body in found
    ]


def first_of_turn(connection: Connection, held: Held, turn: int) -> int:
    """The first seq whose turn is at least `turn`; one past the newest when there is none."""
    low, high = 1, held.head.seq + 1
    while low < high:
        middle = (low + high) // 2
        found = connection.execute(
            "SELECT turn FROM entry WHERE conversation = ? AND seq = ?", (held.key, middle)
        ).fetchone()
        if found is not None and cast("int", found[0]) >= turn:
            high = middle
        else:
            low = middle + 1
    return low


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
    connection.execute(f"DELETE FROM {table} WHERE conversation = ?", (key,))  # noqa: S608 (a table named in this file)
    return connection.total_changes() - before


def row_id(key: int, seq: int) -> int:
    """The search index's number for an entry."""
    return key << 32 | seq


def scope_term(tenant: str) -> str:
    """A tenant as a term of letters and digits, which no text can contain as a term of its own column."""
    return f"s{tenant.encode().hex()}"


def _match(tenant: str, terms: Sequence[str]) -> str:
    # Terms are letters and digits only; the quotes are there so that AND, OR and NOT are words too.
    wanted = " OR ".join(f'"{_indexed(term)}"' for term in terms)
    return f'scope : "{scope_term(tenant)}" AND terms : ({wanted})'


def _terms(body: bytes) -> list[str]:
    return terms_of(decode_message(body).text)


def _index_text(body: bytes) -> str:
    return " ".join(map(_indexed, _terms(body)))


def _indexed(term: str) -> str:
    """A term as the index keeps it whole: what its tokenizer may not know for a letter is spelt in hexadecimal."""
    return term if _SETTLED.fullmatch(term) else f"{_SPELT}{term.encode().hex()}"
