"""What stands beside the log in the SQLite store: changes of checkpoints and documents, each whole within its job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import cast

from turnfold.records import Checkpoint, Document
from turnfold.stores import sqlite_index as index
from turnfold.stores import sqlite_rows as sql
from turnfold.stores.checksums import checkpoint_checksum, document_checksum
from turnfold.stores.ledger import (
    check_seen,
    check_state,
    check_succession,
    check_version,
    known_checkpoint,
    next_version,
)
from turnfold.stores.protocol import State, Written
from turnfold.stores.sqlite_engine import Connection
from turnfold.stores.within import CHECKPOINT

__all__ = (
    "add_checkpoint",
    "all_documents",
    "documents_after",
    "drop_document",
    "dropped_version",
    "find_document",
    "insert_checkpoints",
    "insert_documents",
    "put_document",
)

_DOCUMENTS = (
    "SELECT kind, key, body, version, created, text, checksum FROM document WHERE conversation = ?"
)


def add_checkpoint(
    connection: Connection,
    tenant: str,
    conversation: str,
    checkpoint: Checkpoint,
    *,
    seen: tuple[int, int] | None,
    clock: Callable[[], int],
) -> Checkpoint:
    """Make a checkpoint live, or return the stored one it repeats."""
    held = sql.find_conversation(connection, tenant, conversation, writing=True)
    known = sql.checkpoints(connection, held.key)
    repeated = known_checkpoint(checkpoint, known)
    if repeated is not None:
        return repeated
    check_succession(checkpoint, known[-1] if known else None, held.head)
    if seen is not None:
        check_seen(seen, sql.entry_epoch(connection, held.key, seen[0]))
    stored = replace(checkpoint, created=clock())
    insert_checkpoints(connection, held.key, [stored])
    held.head = replace(held.head, checkpoint=stored.id)
    sql.save_head(connection, tenant, conversation, held, now=stored.created)
    return stored


def insert_checkpoints(connection: Connection, key: int, new: Sequence[Checkpoint]) -> None:
    """Write checkpoints as they are."""
    connection.executemany(
        "INSERT INTO checkpoint (conversation, id, previous, upto, text, digest, model, trust, fidelity, created, "
        "checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (
                key,
                each.id,
                each.previous,
                each.upto,
                each.text,
                each.digest,
                each.model,
                each.trust,
                each.fidelity,
                each.created,
                checkpoint_checksum(each),
            )
            for each in new
        ),
    )
    for each in new:
        if each.text:
            index.place_beside(connection, key, CHECKPOINT, each.id)


def put_document(
    connection: Connection,
    tenant: str,
    conversation: str,
    document: Document,
    *,
    expect: int | None,
    state: State | None,
    seen: tuple[int, int] | None,
    clock: Callable[[], int],
) -> Written:
    """Write a document over what is there."""
    held = sql.find_conversation(connection, tenant, conversation, writing=True)
    before = held.head.state
    if state is not None:
        check_state(state, held.head)
    if seen is not None:
        check_seen(seen, sql.entry_epoch(connection, held.key, seen[0]))
    version = sql.document_version(connection, held.key, document.kind, document.key)
    check_version(expect, version, document.kind, document.key)
    version = next_version(version, dropped_version(connection, held.key))
    now = clock()
    sql.save_head(connection, tenant, conversation, held, now=now)
    stored = replace(document, version=version, created=now)
    if version > 1:
        index.remove_beside(connection, tenant, held.key, document.kind, document.key)
    insert_documents(connection, held.key, [stored])
    return Written(stored, before, held.head.state)


def insert_documents(connection: Connection, key: int, new: Sequence[Document]) -> None:
    """Write documents as they are, over what is there; what is there must not be found any more."""
    connection.executemany(
        "INSERT INTO document (conversation, kind, key, version, created, body, text, checksum) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET version = excluded.version, "
        "created = excluded.created, body = excluded.body, text = excluded.text, checksum = excluded.checksum",
        (
            (
                key,
                each.kind,
                each.key,
                each.version,
                each.created,
                each.body,
                each.text,
                document_checksum(
                    (each.kind, each.key, each.body, each.version, each.created, each.text)
                ),
            )
            for each in new
        ),
    )
    for each in new:
        if each.text:
            index.place_beside(connection, key, each.kind, each.key)


def drop_document(
    connection: Connection,
    tenant: str,
    conversation: str,
    place: tuple[str, str],
    *,
    expect: int | None,
    clock: Callable[[], int],
) -> bool:
    """Remove a document; of it there remains only the number that no later version may have."""
    held = sql.find_conversation(connection, tenant, conversation, writing=True)
    version = sql.document_version(connection, held.key, *place)
    check_version(expect, version, *place)
    if not version:
        return False
    index.remove_beside(connection, tenant, held.key, *place)
    connection.execute(
        "DELETE FROM document WHERE conversation = ? AND kind = ? AND key = ?", (held.key, *place)
    )
    connection.execute(
        "UPDATE conversation SET dropped = max(dropped, ?) WHERE key = ?", (version, held.key)
    )
    sql.save_head(connection, tenant, conversation, held, now=clock())
    return True


def dropped_version(connection: Connection, key: int) -> int:
    """The highest version that a dropped document of the conversation had."""
    found = connection.execute("SELECT dropped FROM conversation WHERE key = ?", (key,)).fetchone()
    return cast("int", found[0]) if found is not None else 0


def find_document(connection: Connection, key: int, place: tuple[str, str]) -> Document | None:
    """One document."""
    found = connection.execute(f"{_DOCUMENTS} AND kind = ? AND key = ?", (key, *place)).fetchone()
    return sql.to_document(connection, key, found) if found is not None else None


def documents_after(
    connection: Connection, key: int, kind: str, after: str, limit: int
) -> list[Document]:
    """The documents of a kind after a key, in key order."""
    found = connection.execute(
        f"{_DOCUMENTS} AND kind = ? AND key > ? ORDER BY key LIMIT ?", (key, kind, after, limit)
    )
    return [sql.to_document(connection, key, row) for row in found]


def all_documents(connection: Connection, key: int) -> Iterator[Document]:
    """Every document, by kind and key, one at a time."""
    for row in connection.execute(f"{_DOCUMENTS} ORDER BY kind, key", (key,)):
        yield sql.to_document(connection, key, row)
