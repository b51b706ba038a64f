"""Read and write the checkpoints and documents of a SQLite store.

Every function runs inside a transaction of the caller, so its changes are atomic. `key` is the primary key of the
conversation's row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from turnfold.records import Checkpoint, Document
from turnfold.search import CHECKPOINT
from turnfold.stores.checksums import checkpoint_checksum, document_checksum
from turnfold.stores.log_semantics import (
    check_seen,
    check_state,
    check_succession,
    check_version,
    next_version,
    repeated_checkpoint,
    split_checkpoints,
)
from turnfold.stores.protocol import State, Written
from turnfold.stores.sqlite import search_index as index
from turnfold.stores.sqlite import statements as sql
from turnfold.stores.sqlite.write_queue import Connection

__all__ = (
    "add_checkpoint",
    "all_documents",
    "change_documents",
    "counts",
    "documents_after",
    "documents_of",
    "drop_checkpoint",
    "drop_checkpoints",
    "drop_document",
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
    """Store a checkpoint (summary) and make it the live one; if it is stored already, return the stored one."""
    record = sql.find_conversation(connection, tenant, conversation, writing=True)
    known = sql.checkpoints(connection, record.key)
    repeated = repeated_checkpoint(checkpoint, known)
    if repeated is not None:
        return repeated
    check_succession(checkpoint, known[-1] if known else None, record.head)
    if seen is not None:
        check_seen(seen, sql.entry_epoch(connection, record.key, seen[0]))
    stored = replace(checkpoint, created=clock())
    insert_checkpoints(connection, record.key, [stored])
    record.head = replace(record.head, checkpoint=stored.id)
    sql.save_head(connection, tenant, conversation, record, now=stored.created)
    return stored


def insert_checkpoints(connection: Connection, key: int, new: Sequence[Checkpoint]) -> None:
    """Insert checkpoints (summaries) with all their values, and register their texts for the search index."""
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
            index.add_text(connection, key, CHECKPOINT, each.id)


def put_document(
    connection: Connection,
    tenant: str,
    conversation: str,
    document: Document,
    *,
    expect: int | None,
    state: State | None,
    seen: tuple[int, int] | None = None,
    clock: Callable[[], int],
) -> Written:
    """Write a document; it replaces a document with the same kind and key.

    `expect`, `state` and `seen` are the conditions of `Store.put_document`; raises `Conflict` if one of them is not
    met.
    """
    record = sql.find_conversation(connection, tenant, conversation, writing=True)
    before = record.head.state
    if state is not None:
        check_state(state, record.head)
    if seen is not None:
        check_seen(seen, sql.entry_epoch(connection, record.key, seen[0]))
    version = sql.document_version(connection, record.key, document.kind, document.key)
    check_version(expect, version, document.kind, document.key)
    version = next_version(version, record.dropped)
    now = clock()
    sql.save_head(connection, tenant, conversation, record, now=now)
    stored = replace(document, version=version, created=now)
    if version > 1:
        index.remove_text(connection, tenant, record.key, document.kind, document.key)
    insert_documents(connection, record.key, [stored])
    return Written(stored, before, record.head.state)


def insert_documents(connection: Connection, key: int, new: Sequence[Document]) -> None:
    """Insert or replace documents with all their values, and register their texts for the search index.

    A document that is replaced must have been removed from the search index before.
    """
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
            index.add_text(connection, key, each.kind, each.key)


def drop_document(
    connection: Connection,
    tenant: str,
    conversation: str,
    place: tuple[str, str],
    *,
    expect: int | None,
    clock: Callable[[], int],
) -> bool:
    """Delete a document and record its version, so that no later document gets the same one.

    Returns True if it existed.
    """
    record = sql.find_conversation(connection, tenant, conversation, writing=True)
    version = sql.document_version(connection, record.key, *place)
    check_version(expect, version, *place)
    if not version:
        return False
    _delete_document(connection, tenant, record.key, place, version)
    sql.save_head(connection, tenant, conversation, record, now=clock())
    return True


def _delete_document(
    connection: Connection, tenant: str, key: int, place: tuple[str, str], version: int
) -> None:
    index.remove_text(connection, tenant, key, *place)
    connection.execute(
        "DELETE FROM document WHERE conversation = ? AND kind = ? AND key = ?", (key, *place)
    )
    connection.execute(
        "UPDATE conversation SET dropped = max(dropped, ?) WHERE key = ?", (version, key)
    )


def change_documents(
    connection: Connection,
    tenant: str,
    key: int,
    *,
    replaced: Sequence[Document],
    dropped: Sequence[Document],
    now: int,
) -> None:
    """Write the `replaced` and delete the `dropped` documents; raise `Conflict` if a document has another version.

    The version of a new document is 0.
    """
    for each in (*replaced, *dropped):
        version = sql.document_version(connection, key, each.kind, each.key)
        check_version(each.version, version, each.kind, each.key)
    for each in replaced:
        index.remove_text(connection, tenant, key, each.kind, each.key)
    highest = sql.scalar(connection, "SELECT dropped FROM conversation WHERE key = ?", (key,))
    insert_documents(
        connection,
        key,
        [
            replace(each, version=next_version(each.version, highest), created=now)
            for each in replaced
        ],
    )
    for each in dropped:
        _delete_document(connection, tenant, key, (each.kind, each.key), each.version)


def drop_checkpoint(
    connection: Connection,
    tenant: str,
    conversation: str,
    checkpoint: str,
    *,
    put: Sequence[Document],
    drop: Sequence[Document],
    state: State | None,
    now: int,
) -> list[Checkpoint]:
    """Delete a checkpoint (summary) and all later ones, and return them; the entries they covered get a new epoch."""
    record = sql.find_conversation(connection, tenant, conversation, writing=True)
    key = record.key
    kept, gone = split_checkpoints(sql.checkpoints(connection, key), checkpoint)
    if state is not None:
        check_state(state, record.head)
    change_documents(connection, tenant, key, replaced=put, dropped=drop, now=now)
    _, live = drop_checkpoints(connection, tenant, key, gone[0].upto)
    epoch = sql.new_epoch()
    sql.renew_entries(connection, key, after=kept[-1].upto if kept else 0, epoch=epoch)
    record.head = replace(record.head, checkpoint=live)
    sql.save_head(connection, tenant, conversation, record, now=now, epoch=epoch)
    return gone


def drop_checkpoints(connection: Connection, tenant: str, key: int, first: int) -> tuple[int, str]:
    """Delete the checkpoints (summaries) that cover the entry `first`.

    Returns their number, and the id of the newest that is left.
    """
    known = sql.checkpoints(connection, key)
    for each in known:
        if each.upto >= first:
            index.remove_text(connection, tenant, key, CHECKPOINT, each.id)
    connection.execute("DELETE FROM checkpoint WHERE conversation = ? AND upto >= ?", (key, first))
    kept = [each.id for each in known if each.upto < first]
    return len(known) - len(kept), kept[-1] if kept else ""


def counts(connection: Connection, key: int) -> tuple[int, int]:
    """Return the number of checkpoints and the number of documents of a conversation."""
    return (
        sql.scalar(connection, "SELECT count(*) FROM checkpoint WHERE conversation = ?", (key,)),
        sql.scalar(connection, "SELECT count(*) FROM document WHERE conversation = ?", (key,)),
    )


def find_document(connection: Connection, key: int, place: tuple[str, str]) -> Document | None:
    """Return the document at `place` (kind, key); None if there is none."""
    found = connection.execute(f"{_DOCUMENTS} AND kind = ? AND key = ?", (key, *place)).fetchone()
    return sql.to_document(connection, key, found) if found is not None else None


def documents_after(
    connection: Connection, key: int, kind: str, after: str, limit: int
) -> list[Document]:
    """Return at most `limit` documents of a kind with a key after `after`, in key order."""
    found = connection.execute(
        f"{_DOCUMENTS} AND kind = ? AND key > ? ORDER BY key LIMIT ?", (key, kind, after, limit)
    )
    return [sql.to_document(connection, key, row) for row in found]


def documents_of(connection: Connection, key: int, kinds: Sequence[str]) -> tuple[Document, ...]:
    """Return all documents of these kinds, sorted by kind and key."""
    found = (
        connection.execute(f"{_DOCUMENTS} AND kind = ? ORDER BY key", (key, kind))
        for kind in sorted(set(kinds))
    )
    return tuple(sql.to_document(connection, key, row) for rows in found for row in rows)


def all_documents(connection: Connection, key: int) -> Iterator[Document]:
    """Yield every document of a conversation, sorted by kind and key."""
    for row in connection.execute(f"{_DOCUMENTS} ORDER BY kind, key", (key,)):
        yield sql.to_document(connection, key, row)
