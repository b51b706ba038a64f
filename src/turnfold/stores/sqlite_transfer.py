"""Whole conversations out of and into a SQLite store: each way one job, so that it is one instant or nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from turnfold.records import Document
from turnfold.stores import sqlite_beside as beside
from turnfold.stores import sqlite_rows as sql
from turnfold.stores.protocol import Captured, Head, Opening, Restored
from turnfold.stores.restoring import (
    Batch,
    Known,
    Pieces,
    check_new,
    check_same,
    check_same_whole,
)
from turnfold.stores.sqlite_engine import Connection

__all__ = ("capture", "restore")


def capture(
    connection: Connection, tenant: str, conversation: str, take: Callable[[Document], None]
) -> Captured | None:
    """The conversation as it is in this transaction; `take` is given its documents."""
    held = sql.find_conversation(connection, tenant, conversation, writing=False)
    if held.deleted or not held.key:
        return None
    for document in beside.all_documents(connection, held.key):
        take(document)
    checkpoints = tuple(sql.checkpoints(connection, held.key))
    return Captured(_opening(connection, held.key, conversation), held.head, checkpoints)


def restore(connection: Connection, tenant: str, stream: Pieces) -> Restored:
    """Write the conversations of a stream, which can be read once only; whatever is raised, the engine undoes all."""
    while (opening := stream.next_conversation()) is not None:
        held = sql.find_conversation(connection, tenant, opening.conversation, writing=True)
        if held.key:
            _compare(connection, held, stream, opening)
            stream.found()
        else:
            _write(connection, tenant, stream, opening)
            stream.written()
    return stream.restored()


def _write(connection: Connection, tenant: str, stream: Pieces, opening: Opening) -> None:
    name = opening.conversation
    held = sql.Held(0, Head(counter=stream.counter))
    sql.save_head(connection, tenant, name, held, now=opening.created)
    while (batch := stream.next_batch()) is not None:
        check_new(name, batch, sql.known_ids(connection, held.key, batch.client_ids))
        beside.insert_documents(connection, held.key, batch.documents)
        sql.insert_entries(connection, [sql.new_row(held.key, 0, row) for row in batch.rows])
        beside.insert_checkpoints(connection, held.key, batch.checkpoints)
    order = stream.order
    held.head = replace(
        held.head,
        seq=order.seq,
        tokens=stream.tokens,
        turns=order.turns,
        checkpoint=order.live,
        counter=stream.counter if order.seq else "",
    )
    sql.save_head(connection, tenant, name, held, now=opening.updated)
    connection.execute(
        "UPDATE conversation SET dropped = ? WHERE key = ?", (opening.dropped, held.key)
    )


def _compare(connection: Connection, held: sql.Held, stream: Pieces, opening: Opening) -> None:
    while (batch := stream.next_batch(counted=False)) is not None:
        check_same(opening.conversation, batch, _known(connection, held.key, batch))
    counts = [
        cast("int", (connection.execute(statement, (held.key,)).fetchone() or (0,))[0])
        for statement in (
            "SELECT count(*) FROM checkpoint WHERE conversation = ?",
            "SELECT count(*) FROM document WHERE conversation = ?",
        )
    ]
    ours = _opening(connection, held.key, opening.conversation)
    check_same_whole(stream.order, created=ours.created, counts=(held.head.seq, *counts))


def _known(connection: Connection, key: int, batch: Batch) -> Known:
    places = [(document.kind, document.key) for document in batch.documents]
    found = [beside.find_document(connection, key, place) for place in places]
    after, upto = (batch.rows[0].seq - 1, batch.rows[-1].seq) if batch.rows else (0, 0)
    uptos = {checkpoint.upto for checkpoint in batch.checkpoints}
    chain = sql.checkpoints(connection, key) if uptos else []
    return Known(
        {(each.kind, each.key): each for each in found if each is not None},
        {row.seq: row for row in sql.rows(connection, key, after=after, upto=upto)},
        {each.upto: each for each in chain if each.upto in uptos},
    )


def _opening(connection: Connection, key: int, name: str) -> Opening:
    found = connection.execute(
        f"SELECT {sql.TIMES}, dropped FROM {sql.STANDING} WHERE key = ?",  # noqa: S608 (constants)
        (key,),
    ).fetchone()
    created, updated, dropped = cast("tuple[int, int, int]", found)
    return Opening(name, created, updated, dropped)
