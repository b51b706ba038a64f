"""What stands beside the log in the PostgreSQL store: the statements of checkpoints and documents."""

# ruff: noqa: S608 (statements are joined from constants written here; every value is bound)

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from turnfold.records import Checkpoint, Document
from turnfold.stores.postgres_engine import Rows, Statement
from turnfold.stores.postgres_rows import Place, key_of, long_form

__all__ = (
    "drop_document",
    "find_checkpoints",
    "find_document",
    "find_documents",
    "find_version",
    "insert_checkpoint",
    "put_document",
    "to_checkpoints",
    "to_documents",
    "to_version",
)

_HERE = "tenant = $1 AND conversation = $2"
_THIS = f"{_HERE} AND kind = $3 AND key = $4"
_DOCUMENT = "coalesce(long_key, key), body, version, created"


def find_checkpoints(place: Place) -> Statement:
    """All checkpoints of a conversation, oldest first."""
    return Statement(
        f"SELECT record FROM turnfold_checkpoint WHERE {_HERE} ORDER BY upto",
        place.keys,
    )


def insert_checkpoint(place: Place, checkpoint: Checkpoint) -> Statement:
    """Add a checkpoint; its text may have characters that only bytes can hold."""
    record = msgspec.json.encode(checkpoint)
    return Statement(
        "INSERT INTO turnfold_checkpoint (tenant, conversation, upto, id, created, record) "
        "VALUES ($1, $2, $3, $4, $5, $6)",
        (*place.keys, checkpoint.upto, key_of(checkpoint.id), checkpoint.created, record),
    )


def to_checkpoints(found: Rows) -> list[Checkpoint]:
    """Checkpoints from their records."""
    return [msgspec.json.decode(cast("bytes", record), type=Checkpoint) for (record,) in found]


def find_version(place: Place, kind: str, key: str) -> Statement:
    """Which version a document has."""
    return Statement(
        f"SELECT version FROM turnfold_document WHERE {_THIS}",
        _keys(place, kind, key),
    )


def to_version(found: Rows) -> int:
    """The version, 0 when there is no document."""
    return cast("int", found[0][0]) if found else 0


def put_document(place: Place, document: Document) -> Statement:
    """Write a document over what is there."""
    return Statement(
        "INSERT INTO turnfold_document (tenant, conversation, kind, key, long_key, version, created, body) "
        "VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (tenant, conversation, kind, key) "
        "DO UPDATE SET version = excluded.version, created = excluded.created, body = excluded.body",
        (
            *_keys(place, document.kind, document.key),
            long_form(document.key),
            document.version,
            document.created,
            document.body,
        ),
    )


def drop_document(place: Place, kind: str, key: str) -> Statement:
    """Remove a document."""
    return Statement(
        f"DELETE FROM turnfold_document WHERE {_THIS}",
        _keys(place, kind, key),
    )


def find_document(place: Place, kind: str, key: str) -> Statement:
    """One document."""
    return Statement(
        f"SELECT {_DOCUMENT} FROM turnfold_document WHERE {_THIS}",
        _keys(place, kind, key),
    )


def find_documents(place: Place, kind: str, after: str, limit: int) -> Statement:
    """The documents of a kind after a key, in key order."""
    return Statement(
        f"SELECT {_DOCUMENT} FROM turnfold_document "
        f"WHERE {_HERE} AND kind = $3 AND key > $4 ORDER BY key LIMIT $5",
        (*_keys(place, kind, after), limit),
    )


def to_documents(kind: str, found: Rows) -> list[Document]:
    """Documents of a kind from their rows."""
    return [_to_document(kind, row) for row in found]


def _to_document(kind: str, row: Sequence[object]) -> Document:
    return Document(kind, *cast("tuple[str, bytes, int, int]", tuple(row)))


def _keys(place: Place, kind: str, key: str) -> tuple[str, str, str, str]:
    return (*place.keys, key_of(kind), key_of(key))
