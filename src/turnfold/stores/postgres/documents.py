"""SQL statements of the PostgreSQL store for checkpoints and documents.

Functions named `to_...` convert rows of a result; the others return statements, which the caller executes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.records import Checkpoint, Document
from turnfold.search import CHECKPOINT
from turnfold.stores.checksums import (
    LogMark,
    checked_document,
    damaged,
    document_checksum,
    record_checksum,
)
from turnfold.stores.postgres import statements as sql
from turnfold.stores.postgres.statements import HERE, ConversationKey, key_of, long_form
from turnfold.stores.postgres.transactions import Rows, Statement

__all__ = (
    "DOCUMENT_COLUMNS",
    "drop_checkpoint",
    "drop_document",
    "find_checkpoints",
    "find_document",
    "find_documents",
    "find_documents_of",
    "find_live_checkpoint",
    "find_searchable",
    "find_version",
    "indexed_text",
    "insert_checkpoint",
    "put_documents",
    "replace_document",
    "to_checkpoint",
    "to_checkpoints",
    "to_document",
    "to_documents",
    "to_version",
)


# ruff: noqa: S608 (statements are joined from constants written here; every value is bound)


_THIS = f"{HERE} AND kind = $3 AND key = $4"
_VALUES = "coalesce(long_key, key), body, version, created, text, checksum"
DOCUMENT_COLUMNS = f"coalesce(long_kind, kind), {_VALUES}"


def find_checkpoints(place: ConversationKey) -> Statement:
    """Return the statement that selects all checkpoints (stored summaries) of a conversation, oldest first."""
    return Statement(
        f"SELECT record, checksum FROM turnfold_checkpoint WHERE {HERE} ORDER BY upto",
        place.keys,
    )


def find_live_checkpoint(place: ConversationKey) -> Statement:
    """Return the statement that selects the newest checkpoint (stored summary) of a conversation."""
    return Statement(
        f"SELECT record, checksum FROM turnfold_checkpoint WHERE {HERE} ORDER BY upto DESC LIMIT 1",
        place.keys,
    )


def insert_checkpoint(place: ConversationKey, checkpoint: Checkpoint) -> Statement:
    """Return the statement that inserts a checkpoint, as bytes: PostgreSQL text cannot contain every character."""
    record = msgspec.json.encode(checkpoint)
    return Statement(
        "INSERT INTO turnfold_checkpoint (tenant, conversation, upto, id, created, record, checksum) "
        "VALUES ($1, $2, $3, $4, $5, $6, $7)",
        (
            *place.keys,
            checkpoint.upto,
            key_of(checkpoint.id),
            checkpoint.created,
            record,
            record_checksum(record),
        ),
    )


def drop_checkpoint(place: ConversationKey, checkpoint: Checkpoint) -> list[Statement]:
    """Return the statements that delete a checkpoint (summary) and remove it from the search index."""
    return [
        *(sql.unindex_text(place, CHECKPOINT, checkpoint.id) if checkpoint.text else ()),
        Statement(
            f"DELETE FROM turnfold_checkpoint WHERE {HERE} AND upto = $3",
            (*place.keys, checkpoint.upto),
        ),
    ]


def to_checkpoints(place: ConversationKey, found: Rows) -> list[Checkpoint]:
    """Return rows of checkpoints (summaries) as `Checkpoint` values; raise an error if one is damaged."""
    return [to_checkpoint(record, checksum, place.mark) for record, checksum in found]


def to_checkpoint(record: object, checksum: object, mark: LogMark) -> Checkpoint:
    """Return a checkpoint (summary) decoded from its row; raise an error if it does not match its checksum."""
    if type(record) is not bytes or checksum not in (None, record_checksum(record)):
        raise damaged("a checkpoint", mark)
    try:
        return msgspec.json.decode(record, type=Checkpoint)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InvalidRecord(
            f"a stored checkpoint of conversation {mark()} cannot be decoded ({type(error).__name__}): the storage is "
            "damaged",
            remedy="Restore the store from a backup",
        ) from None


def find_version(place: ConversationKey, kind: str, key: str) -> Statement:
    """Return the statement that selects a document's version (0 if it does not exist) and two other values.

    These are the highest version of any removed document, and whether this document has a searchable text.
    """
    return Statement(
        f"SELECT coalesce((SELECT version FROM turnfold_document WHERE {_THIS}), 0), "
        f"coalesce((SELECT dropped FROM turnfold_conversation WHERE {HERE}), 0), "
        f"coalesce((SELECT text <> '' FROM turnfold_document WHERE {_THIS}), false)",
        _keys(place, kind, key),
    )


def to_version(found: Rows) -> tuple[int, int, bool]:
    """Return the row of `find_version`: version, highest version of removed documents, True if searchable."""
    return cast("tuple[int, int, bool]", tuple(found[0]))


def put_documents(place: ConversationKey, documents: Sequence[Document]) -> Statement:
    """Return the statement that inserts or replaces documents."""
    return Statement(
        "INSERT INTO turnfold_document "
        "(tenant, conversation, kind, long_kind, key, long_key, version, created, body, text, checksum) "
        "SELECT $1, $2, new.* FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], "
        "$8::bigint[], $9::bytea[], $10::bytea[], $11::bigint[]) AS new ON CONFLICT (tenant, conversation, kind, key) "
        "DO UPDATE SET long_kind = excluded.long_kind, version = excluded.version, created = excluded.created, "
        "body = excluded.body, text = excluded.text, checksum = excluded.checksum",
        (
            *place.keys,
            [key_of(each.kind) for each in documents],
            [long_form(each.kind) for each in documents],
            [key_of(each.key) for each in documents],
            [long_form(each.key) for each in documents],
            [each.version for each in documents],
            [each.created for each in documents],
            [each.body for each in documents],
            [each.text.encode() for each in documents],
            [
                document_checksum(
                    (each.kind, each.key, each.body, each.version, each.created, each.text)
                )
                for each in documents
            ],
        ),
    )


def replace_document(
    place: ConversationKey, document: Document, *, searchable: bool
) -> list[Statement]:
    """Return statements that insert or replace a document and its text in the search index.

    `searchable` is True if the existing document is in the search index.
    """
    unindex = sql.unindex_text(place, document.kind, document.key) if searchable else []
    return [
        *unindex,
        put_documents(place, [document]),
        *sql.index_texts(place, [indexed_text(document)]),
    ]


def drop_document(place: ConversationKey, kind: str, key: str) -> Statement:
    """Return the statement that deletes a document and records its version, which no later document may get."""
    return Statement(
        f"WITH gone AS (DELETE FROM turnfold_document WHERE {_THIS} RETURNING version) "
        "UPDATE turnfold_conversation SET dropped = greatest(dropped, (SELECT version FROM gone)) "
        f"WHERE {HERE}",
        _keys(place, kind, key),
    )


def indexed_text(stored: Checkpoint | Document) -> sql.IndexedText:
    """Return the text of a checkpoint or document, to be added to the search index."""
    if isinstance(stored, Checkpoint):
        return sql.IndexedText(CHECKPOINT, stored.id, stored.created, stored.text)
    return sql.IndexedText(stored.kind, stored.key, stored.created, stored.text)


def find_document(place: ConversationKey, kind: str, key: str) -> Statement:
    """Return the statement that selects one document."""
    return Statement(
        f"SELECT {_VALUES} FROM turnfold_document WHERE {_THIS}",
        _keys(place, kind, key),
    )


def find_searchable(place: ConversationKey) -> Statement:
    """Return the statement that selects all documents of a conversation that have a searchable text."""
    return Statement(
        f"SELECT {DOCUMENT_COLUMNS} FROM turnfold_document WHERE {HERE} AND text <> ''",
        place.keys,
    )


def find_documents(place: ConversationKey, kind: str, after: str, limit: int) -> Statement:
    """Return the statement that selects documents of a kind after a key, in key order."""
    return Statement(
        f"SELECT {_VALUES} FROM turnfold_document "
        f"WHERE {HERE} AND kind = $3 AND key > $4 ORDER BY key LIMIT $5",
        (*_keys(place, kind, after), limit),
    )


def find_documents_of(place: ConversationKey, kinds: Sequence[str]) -> Statement:
    """Return the statement that selects all documents of these kinds."""
    return Statement(
        f"SELECT {DOCUMENT_COLUMNS} FROM turnfold_document WHERE {HERE} AND kind = ANY($3)",
        (*place.keys, [key_of(kind) for kind in kinds]),
    )


def to_document(place: ConversationKey, row: Sequence[object]) -> Document:
    """Return the document of a row (kind, key, body, version, created, text, checksum), verified by its checksum."""
    *fields, text, checksum = row
    try:
        decoded = text.decode() if type(text) is bytes else text
    except UnicodeDecodeError as error:
        raise damaged(f"the text of document {fields[0]}/{fields[1]}", place.mark) from error
    return checked_document((*fields, decoded, checksum), place.mark)


def to_documents(place: ConversationKey, kind: str, found: Rows) -> list[Document]:
    """Return the documents of a kind from their rows, each verified by its checksum."""
    return [to_document(place, (kind, *row)) for row in found]


def _keys(place: ConversationKey, kind: str, key: str) -> tuple[str, str, str, str]:
    return (*place.keys, key_of(kind), key_of(key))
