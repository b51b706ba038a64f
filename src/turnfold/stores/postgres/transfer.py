"""Read whole conversations from a PostgreSQL store (capture) and write them into it (restore).

Each is one transaction, with one round trip per batch.

Documents are captured in the order of their full names. Shortened keys of very long names are in another order, so the
server sorts by full name once, and a cursor reads the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from turnfold.records import Document
from turnfold.search import findable
from turnfold.stores.fork_guard import run_off_loop
from turnfold.stores.postgres import documents as doc_sql
from turnfold.stores.postgres import statements as sql
from turnfold.stores.postgres.statements import HERE, ConversationKey, key_of
from turnfold.stores.postgres.transactions import Link, Rows, Statement
from turnfold.stores.protocol import Captured, ConversationOpening, Head, Restored
from turnfold.stores.restore_checks import (
    KnownPieces,
    Pieces,
    RestoreBatch,
    check_new,
    check_same,
    check_same_whole,
)

__all__ = (
    "capture",
    "restore",
)


# ruff: noqa: S608 (statements are joined from constants written here; every value is bound)

_FIRST_FETCH = 16
_MOST_FETCHED = 500
_FETCHED_BYTES = 4 << 20


# ------------------------------------------------------------------------------------------- capture


async def capture(
    link: Link, place: ConversationKey, take: Callable[[Document], None], *, blocking: bool
) -> Captured | None:
    """Return the opening record, head (version) and checkpoints (summaries) of a conversation.

    Returns None if it does not exist or was deleted.

    `take` is called with each document, one by one; entries are not read.
    """
    found, opening, checkpoints, _ = await link.ask(
        sql.find_head(place), _find_opening(place), doc_sql.find_checkpoints(place), _sort(place)
    )
    record = sql.to_conversation(found)
    if record.deleted or not record.head.generation:
        return None
    many = _FIRST_FETCH
    while True:
        [page] = await link.ask(Statement(f"FETCH {many} FROM turnfold_sorted"))
        if not page:
            break
        documents = [doc_sql.to_document(place, row) for row in page]
        await run_off_loop(
            lambda some=documents: [take(document) for document in some], blocking=blocking
        )
        size = sum(len(document.body) + len(document.text) for document in documents)
        many = max(1, min(_MOST_FETCHED, _FETCHED_BYTES * len(page) // max(size, 1)))
    captured = tuple(doc_sql.to_checkpoints(place, checkpoints))
    return Captured(_to_opening(place, opening), record.head, captured)


def _sort(place: ConversationKey) -> Statement:
    return Statement(
        f"DECLARE turnfold_sorted NO SCROLL CURSOR FOR SELECT {doc_sql.DOCUMENT_COLUMNS} FROM turnfold_document "
        f'WHERE {HERE} ORDER BY coalesce(long_kind, kind) COLLATE "C", coalesce(long_key, key) COLLATE "C"',
        place.keys,
    )


def _find_opening(place: ConversationKey) -> Statement:
    return Statement(
        f"SELECT created, updated, dropped FROM turnfold_conversation WHERE {HERE}", place.keys
    )


def _to_opening(place: ConversationKey, found: Rows) -> ConversationOpening:
    return ConversationOpening(place.name, *cast("tuple[int, int, int]", tuple(found[0])))


# ------------------------------------------------------------------------------------------- restore


async def restore(link: Link, tenant: str, stream: Pieces, *, blocking: bool) -> Restored:
    """Write whole conversations, read from a stream of their parts; an exception rolls everything back."""
    while opening := await run_off_loop(stream.next_conversation, blocking=blocking):
        place = ConversationKey(tenant, opening.conversation)
        _, found, erased = await link.ask(
            sql.make_conversation(place, now=opening.created),
            sql.lock_head(place),
            sql.find_erased(place),
        )
        head = sql.to_conversation(erased or found).for_writing(place.name)
        if head.generation:
            await _compare(link, place, head, stream, blocking=blocking)
            stream.count_existing()
        else:
            await _write(link, place, stream, opening, blocking=blocking)
            stream.count_written()
    return stream.restored()


async def _write(
    link: Link,
    place: ConversationKey,
    stream: Pieces,
    opening: ConversationOpening,
    *,
    blocking: bool,
) -> None:
    while (batch := await run_off_loop(stream.next_batch, blocking=blocking)) is not None:
        [known] = await link.ask(sql.find_known(place, batch.client_ids))
        check_new(place.name, batch, sql.to_known(place, known))
        await link.ask(*_batch_statements(place, batch))
    order = stream.order
    counter = stream.counter if order.seq else ""
    head = sql.next_head(Head(order.seq, stream.tokens, order.turns, order.live, 0, counter))
    await link.ask(
        sql.save_head(place, head, before=Head().state, now=opening.updated),
        Statement(
            f"UPDATE turnfold_conversation SET dropped = $3 WHERE {HERE}",
            (*place.keys, opening.dropped),
        ),
    )


def _batch_statements(place: ConversationKey, batch: RestoreBatch) -> list[Statement]:
    statements = [doc_sql.insert_checkpoint(place, checkpoint) for checkpoint in batch.checkpoints]
    if batch.documents:
        statements.append(doc_sql.put_documents(place, batch.documents))
    if batch.rows:
        texts = [findable(message, tools) for message, tools in batch.messages]
        statements.append(sql.insert_rows(place, batch.rows, texts))
    searchable = [doc_sql.indexed_text(each) for each in (*batch.checkpoints, *batch.documents)]
    return [*statements, *sql.index_texts(place, searchable)]


async def _compare(
    link: Link, place: ConversationKey, head: Head, stream: Pieces, *, blocking: bool
) -> None:
    next_batch = partial(stream.next_batch, counted=False)
    while (batch := await run_off_loop(next_batch, blocking=blocking)) is not None:
        check_same(place.name, batch, await _known(link, place, batch))
    opening, *counts = await link.ask(
        _find_opening(place),
        sql.of_conversation("SELECT count(*)", "turnfold_checkpoint", place),
        sql.of_conversation("SELECT count(*)", "turnfold_document", place),
    )
    check_same_whole(
        stream.order,
        created=_to_opening(place, opening).created,
        counts=(head.seq, *(cast("int", rows[0][0]) for rows in counts)),
    )


async def _known(link: Link, place: ConversationKey, batch: RestoreBatch) -> KnownPieces:
    first, last = (batch.rows[0].seq, batch.rows[-1].seq) if batch.rows else (1, 0)
    uptos = [checkpoint.upto for checkpoint in batch.checkpoints]
    documents, rows, checkpoints = await link.ask(
        _find_documents(place, batch.documents),
        sql.rows_between(place, first - 1, last, max(last - first + 1, 0)),
        Statement(
            f"SELECT record, checksum FROM turnfold_checkpoint WHERE {HERE} AND upto = ANY($3)",
            (*place.keys, uptos),
        ),
    )
    found = [doc_sql.to_document(place, row) for row in documents]
    return KnownPieces(
        {(each.kind, each.key): each for each in found},
        {row.seq: row for row in sql.to_rows(place, rows)},
        {each.upto: each for each in doc_sql.to_checkpoints(place, checkpoints)},
    )


def _find_documents(place: ConversationKey, documents: Sequence[Document]) -> Statement:
    return Statement(
        f"SELECT {doc_sql.DOCUMENT_COLUMNS} FROM turnfold_document "
        f"JOIN unnest($3::text[], $4::text[]) AS asked (kind, key) USING (kind, key) WHERE {HERE}",
        (
            *place.keys,
            [key_of(each.kind) for each in documents],
            [key_of(each.key) for each in documents],
        ),
    )
