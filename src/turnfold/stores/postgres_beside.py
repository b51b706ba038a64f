"""What stands beside the log in the PostgreSQL store: the statements of checkpoints and documents."""

# ruff: noqa: S608 (statements are joined from constants written here; every value is bound)

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.records import Checkpoint, Document
from turnfold.stores import postgres_terms as terms
from turnfold.stores.checksums import (
    Mark,
    checked_document,
    damaged,
    document_checksum,
    record_checksum,
)
from turnfold.stores.postgres_engine import Rows, Statement
from turnfold.stores.postgres_keys import Place, key_of, long_form
from turnfold.stores.within import CHECKPOINT

__all__ = (
    "drop_document",
    "find_checkpoints",
    "find_document",
    "find_documents",
    "find_live_checkpoint",
    "find_searchable",
    "find_version",
    "found_by",
    "insert_checkpoint",
    "put_documents",
    "replace_document",
    "to_checkpoint",
    "to_checkpoints",
    "to_document",
    "to_documents",
    "to_version",
)

_HERE = "tenant = $1 AND conversation = $2"
_THIS = f"{_HERE} AND kind = $3 AND key = $4"
_DOCUMENT = "coalesce(long_key, key), body, version, created, text, checksum"


def find_checkpoints(place: Place) -> Statement:
    """All checkpoints of a conversation, oldest first."""
    return Statement(
        f"SELECT record, checksum FROM turnfold_checkpoint WHERE {_HERE} ORDER BY upto",
        place.keys,
    )


def find_live_checkpoint(place: Place) -> Statement:
    """The newest checkpoint of a conversation."""
    return Statement(
        f"SELECT record, checksum FROM turnfold_checkpoint WHERE {_HERE} ORDER BY upto DESC LIMIT 1",
        place.keys,
    )


def insert_checkpoint(place: Place, checkpoint: Checkpoint) -> Statement:
    """Add a checkpoint; its text may have characters that only bytes can hold."""
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


def to_checkpoints(place: Place, found: Rows) -> list[Checkpoint]:
    """Checkpoints from their records and checksums."""
    return [to_checkpoint(record, checksum, place.mark) for record, checksum in found]


def to_checkpoint(record: object, checksum: object, mark: Mark) -> Checkpoint:
    """A checkpoint from its record."""
    if type(record) is not bytes or checksum not in (None, record_checksum(record)):
        raise damaged("a checkpoint", mark)
    try:
        return msgspec.json.decode(record, type=Checkpoint)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InvalidRecord(f"not a stored checkpoint: {error}") from None


def find_version(place: Place, kind: str, key: str) -> Statement:
    """Which version a document has, the highest that a dropped one had, and whether this one can be found."""
    return Statement(
        f"SELECT coalesce((SELECT version FROM turnfold_document WHERE {_THIS}), 0), "
        f"coalesce((SELECT dropped FROM turnfold_conversation WHERE {_HERE}), 0), "
        f"coalesce((SELECT text <> '' FROM turnfold_document WHERE {_THIS}), false)",
        _keys(place, kind, key),
    )


def to_version(found: Rows) -> tuple[int, int, bool]:
    """All three; 0 when there is none."""
    return cast("tuple[int, int, bool]", tuple(found[0]))


def put_documents(place: Place, documents: Sequence[Document]) -> Statement:
    """Write documents over what is there."""
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


def replace_document(place: Place, document: Document, *, searchable: bool) -> list[Statement]:
    """Write a document over what is there, and in the index as well; `searchable`: what is there can be found."""
    gone = terms.remove_beside(place, document.kind, document.key) if searchable else []
    return [
        *gone,
        put_documents(place, [document]),
        *terms.add_beside(place, [found_by(document)]),
    ]


def drop_document(place: Place, kind: str, key: str) -> Statement:
    """Remove a document; of it there remains only the number that no later version may have."""
    return Statement(
        f"WITH gone AS (DELETE FROM turnfold_document WHERE {_THIS} RETURNING version) "
        "UPDATE turnfold_conversation SET dropped = greatest(dropped, (SELECT version FROM gone)) "
        f"WHERE {_HERE}",
        _keys(place, kind, key),
    )


def found_by(stored: Checkpoint | Document) -> terms.Beside:
    """What a checkpoint or a document is found by."""
    if isinstance(stored, Checkpoint):
        return terms.Beside(CHECKPOINT, stored.id, stored.created, stored.text)
    return terms.Beside(stored.kind, stored.key, stored.created, stored.text)


def find_document(place: Place, kind: str, key: str) -> Statement:
    """One document."""
    return Statement(
        f"SELECT {_DOCUMENT} FROM turnfold_document WHERE {_THIS}",
        _keys(place, kind, key),
    )


def find_searchable(place: Place) -> Statement:
    """All documents of a conversation that a search may find."""
    return Statement(
        f"SELECT coalesce(long_kind, kind), {_DOCUMENT} FROM turnfold_document WHERE {_HERE} AND text <> ''",
        place.keys,
    )


def find_documents(place: Place, kind: str, after: str, limit: int) -> Statement:
    """The documents of a kind after a key, in key order."""
    return Statement(
        f"SELECT {_DOCUMENT} FROM turnfold_document "
        f"WHERE {_HERE} AND kind = $3 AND key > $4 ORDER BY key LIMIT $5",
        (*_keys(place, kind, after), limit),
    )


def to_document(place: Place, row: Sequence[object]) -> Document:
    """A document from its row: kind, key, body, version, created, text, checksum."""
    *fields, text, checksum = row
    try:
        said = text.decode() if type(text) is bytes else text
    except UnicodeDecodeError as error:
        raise InvalidRecord(
            f"document {fields[0]}/{fields[1]} has a text that is not UTF-8"
        ) from error
    return checked_document((*fields, said, checksum), place.mark)


def to_documents(place: Place, kind: str, found: Rows) -> list[Document]:
    """Documents of a kind from their rows."""
    return [to_document(place, (kind, *row)) for row in found]


def _keys(place: Place, kind: str, key: str) -> tuple[str, str, str, str]:
    return (*place.keys, key_of(kind), key_of(key))
