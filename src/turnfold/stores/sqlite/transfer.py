"""Read whole conversations from a SQLite store (capture) and write them into it (restore), each in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from turnfold.records import Document
from turnfold.stores.protocol import Captured, ConversationOpening, Head, Restored
from turnfold.stores.restore_checks import (
    KnownPieces,
    Pieces,
    RestoreBatch,
    check_new,
    check_same,
    check_same_whole,
)
from turnfold.stores.sqlite import documents as doc_sql
from turnfold.stores.sqlite import statements as sql
from turnfold.stores.sqlite.write_queue import Connection

__all__ = (
    "capture",
    "restore",
)


def capture(
    connection: Connection, tenant: str, conversation: str, take: Callable[[Document], None]
) -> Captured | None:
    """Return the opening record, head (version) and checkpoints (summaries) of a conversation.

    Returns None if it does not exist or was deleted.

    `take` is called with each document, one by one; entries are not read.
    """
    record = sql.find_conversation(connection, tenant, conversation, writing=False)
    if record.deleted or not record.key:
        return None
    for document in doc_sql.all_documents(connection, record.key):
        take(document)
    checkpoints = tuple(sql.checkpoints(connection, record.key))
    return Captured(_opening(connection, record.key, conversation), record.head, checkpoints)


def restore(connection: Connection, tenant: str, stream: Pieces) -> Restored:
    """Write whole conversations, read once from a stream of their parts; an exception rolls everything back."""
    while (opening := stream.next_conversation()) is not None:
        record = sql.find_conversation(connection, tenant, opening.conversation, writing=True)
        if record.key:
            _compare(connection, record, stream, opening)
            stream.count_existing()
        else:
            _write(connection, tenant, stream, opening)
            stream.count_written()
    return stream.restored()


def _write(
    connection: Connection, tenant: str, stream: Pieces, opening: ConversationOpening
) -> None:
    name = opening.conversation
    record = sql.SqliteConversation(0, Head(counter=stream.counter))
    sql.save_head(connection, tenant, name, record, now=opening.created)
    while (batch := stream.next_batch()) is not None:
        check_new(name, batch, sql.known_ids(connection, record.key, batch.client_ids))
        doc_sql.insert_documents(connection, record.key, batch.documents)
        sql.insert_entries(connection, [sql.new_row(record.key, 0, row) for row in batch.rows])
        doc_sql.insert_checkpoints(connection, record.key, batch.checkpoints)
    order = stream.order
    record.head = replace(
        record.head,
        seq=order.seq,
        tokens=stream.tokens,
        turns=order.turns,
        checkpoint=order.live,
        counter=stream.counter if order.seq else "",
    )
    sql.save_head(connection, tenant, name, record, now=opening.updated)
    connection.execute(
        "UPDATE conversation SET dropped = ? WHERE key = ?", (opening.dropped, record.key)
    )


def _compare(
    connection: Connection,
    record: sql.SqliteConversation,
    stream: Pieces,
    opening: ConversationOpening,
) -> None:
    while (batch := stream.next_batch(counted=False)) is not None:
        check_same(opening.conversation, batch, _known(connection, record.key, batch))
    counts = (record.head.seq, *doc_sql.counts(connection, record.key))
    ours = _opening(connection, record.key, opening.conversation)
    check_same_whole(stream.order, created=ours.created, counts=counts)


def _known(connection: Connection, key: int, batch: RestoreBatch) -> KnownPieces:
    places = [(document.kind, document.key) for document in batch.documents]
    found = [doc_sql.find_document(connection, key, place) for place in places]
    after, upto = (batch.rows[0].seq - 1, batch.rows[-1].seq) if batch.rows else (0, 0)
    uptos = {checkpoint.upto for checkpoint in batch.checkpoints}
    checkpoints = sql.checkpoints(connection, key) if uptos else []
    return KnownPieces(
        {(each.kind, each.key): each for each in found if each is not None},
        {row.seq: row for row in sql.rows(connection, key, after=after, upto=upto)},
        {each.upto: each for each in checkpoints if each.upto in uptos},
    )


def _opening(connection: Connection, key: int, name: str) -> ConversationOpening:
    found = connection.execute(
        f"SELECT {sql.TIMES}, dropped FROM {sql.CONVERSATIONS_WITH_HEAD} WHERE key = ?",  # noqa: S608 (constants)
        (key,),
    ).fetchone()
    created, updated, dropped = cast("tuple[int, int, int]", found)
    return ConversationOpening(name, created, updated, dropped)
