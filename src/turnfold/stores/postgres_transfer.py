"""Whole conversations out of and into a PostgreSQL store: each way one transaction, a batch to a round trip.

Documents are told in the order of their real names. Keys of very long names sort otherwise, so the server sorts, once,
and a cursor walks through what it sorted.
"""

# ruff: noqa: S608 (statements are joined from constants written here; every value is bound)

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar, cast

from turnfold.records import Document
from turnfold.stores import postgres_beside as beside
from turnfold.stores import postgres_rows as sql
from turnfold.stores import postgres_terms as terms
from turnfold.stores.findable import findable
from turnfold.stores.postgres_engine import Link, Rows, Statement
from turnfold.stores.postgres_keys import Place, key_of
from turnfold.stores.protocol import Captured, Head, Opening, Restored
from turnfold.stores.restoring import (
    Batch,
    Known,
    Pieces,
    check_new,
    check_same,
    check_same_whole,
)

__all__ = ("Aside", "capture", "restore")

_Answer = TypeVar("_Answer")
_HERE = "tenant = $1 AND conversation = $2"
_FIRST_FETCH = 16
_MOST_FETCHED = 500
_FETCHED_BYTES = 4 << 20


class Aside(Protocol):
    """How a store runs what would keep its event loop waiting."""

    def __call__(self, work: Callable[[], _Answer], /) -> Awaitable[_Answer]:
        """The answer of `work`."""
        ...


# ------------------------------------------------------------------------------------------- capture


async def capture(
    link: Link, place: Place, take: Callable[[Document], None], aside: Aside
) -> Captured | None:
    """The conversation as it is in this transaction; `take` is given its documents."""
    found, opening, checkpoints, _ = await link.ask(
        sql.find_head(place), _find_opening(place), beside.find_checkpoints(place), _sort(place)
    )
    held = sql.to_held(found)
    if held.deleted or not held.head.generation:
        return None
    many = _FIRST_FETCH
    while True:
        [page] = await link.ask(Statement(f"FETCH {many} FROM turnfold_sorted"))
        if not page:
            break
        documents = [beside.to_document(place, row) for row in page]
        await aside(lambda some=documents: [take(document) for document in some])
        size = sum(len(document.body) + len(document.text) for document in documents)
        many = max(1, min(_MOST_FETCHED, _FETCHED_BYTES * len(page) // max(size, 1)))
    chain = tuple(beside.to_checkpoints(place, checkpoints))
    return Captured(_to_opening(place, opening), held.head, chain)


def _sort(place: Place) -> Statement:
    return Statement(
        "DECLARE turnfold_sorted NO SCROLL CURSOR FOR SELECT coalesce(long_kind, kind) AS kind, "
        "coalesce(long_key, key) AS key, body, version, created, text, checksum FROM turnfold_document "
        f'WHERE {_HERE} ORDER BY coalesce(long_kind, kind) COLLATE "C", coalesce(long_key, key) COLLATE "C"',
        place.keys,
    )


def _find_opening(place: Place) -> Statement:
    return Statement(
        f"SELECT created, updated, dropped FROM turnfold_conversation WHERE {_HERE}", place.keys
    )


def _to_opening(place: Place, found: Rows) -> Opening:
    return Opening(place.name, *cast("tuple[int, int, int]", tuple(found[0])))


# ------------------------------------------------------------------------------------------- restore


async def restore(link: Link, tenant: str, stream: Pieces, aside: Aside) -> Restored:
    """Write the conversations of a stream; whatever is raised, the transaction is undone as a whole."""
    while (opening := await aside(stream.next_conversation)) is not None:
        place = Place(tenant, opening.conversation)
        _, found = await link.ask(
            sql.make_conversation(place, now=opening.created), sql.lock_head(place)
        )
        head = sql.to_held(found).for_writing(place.name)
        if head.generation:
            await _compare(link, place, head, stream, aside)
            stream.found()
        else:
            await _write(link, place, stream, opening, aside)
            stream.written()
    return stream.restored()


async def _write(link: Link, place: Place, stream: Pieces, opening: Opening, aside: Aside) -> None:
    while (batch := await aside(stream.next_batch)) is not None:
        [known] = await link.ask(sql.find_known(place, batch.client_ids))
        check_new(place.name, batch, sql.to_known(place, known))
        await link.ask(*_batch_statements(place, batch))
    order = stream.order
    counter = stream.counter if order.seq else ""
    head = sql.changed(Head(order.seq, stream.tokens, order.turns, order.live, 0, counter))
    await link.ask(
        sql.save_head(place, head, before=Head().state, now=opening.updated),
        Statement(
            f"UPDATE turnfold_conversation SET dropped = $3 WHERE {_HERE}",
            (*place.keys, opening.dropped),
        ),
    )


def _batch_statements(place: Place, batch: Batch) -> list[Statement]:
    statements = [beside.insert_checkpoint(place, checkpoint) for checkpoint in batch.checkpoints]
    if batch.documents:
        statements.append(beside.put_documents(place, batch.documents))
    if batch.rows:
        found_by = [findable(message, tools) for message, tools in batch.said]
        statements.append(sql.insert_rows(place, batch.rows, found_by))
    found = [beside.found_by(each) for each in (*batch.checkpoints, *batch.documents)]
    return [*statements, *terms.add_beside(place, found)]


async def _compare(link: Link, place: Place, head: Head, stream: Pieces, aside: Aside) -> None:
    while (batch := await aside(lambda: stream.next_batch(counted=False))) is not None:
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


async def _known(link: Link, place: Place, batch: Batch) -> Known:
    first, last = (batch.rows[0].seq, batch.rows[-1].seq) if batch.rows else (1, 0)
    uptos = [checkpoint.upto for checkpoint in batch.checkpoints]
    documents, rows, checkpoints = await link.ask(
        _find_documents(place, batch.documents),
        sql.rows_between(place, first - 1, last, max(last - first + 1, 0)),
        Statement(
            f"SELECT record, checksum FROM turnfold_checkpoint WHERE {_HERE} AND upto = ANY($3)",
            (*place.keys, uptos),
        ),
    )
    found = [beside.to_document(place, row) for row in documents]
    return Known(
        {(each.kind, each.key): each for each in found},
        {row.seq: row for row in sql.to_rows(place, rows)},
        {each.upto: each for each in beside.to_checkpoints(place, checkpoints)},
    )


def _find_documents(place: Place, documents: Sequence[Document]) -> Statement:
    return Statement(
        "SELECT coalesce(long_kind, kind), coalesce(long_key, key), body, version, created, text, checksum "
        "FROM turnfold_document "
        f"JOIN unnest($3::text[], $4::text[]) AS asked (kind, key) USING (kind, key) WHERE {_HERE}",
        (
            *place.keys,
            [key_of(each.kind) for each in documents],
            [key_of(each.key) for each in documents],
        ),
    )
