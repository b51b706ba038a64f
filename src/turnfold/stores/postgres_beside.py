"""What stands beside the log in the PostgreSQL store: the statements of checkpoints and documents."""

# ruff: noqa: S608 (statements are joined from constants written here; every value is bound)

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.records import Checkpoint, Document
from turnfold.stores.postgres_engine import Rows, Statement
from turnfold.stores.postgres_rows import Place, key_of, long_form

__all__ = (
    "drop_document",
    "find_checkpoints",
    "find_document",
    "find_documents",
    "find_live_checkpoint",
    "find_version",
    "insert_checkpoint",
    "put_document",
    "put_documents",
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


def find_live_checkpoint(place: Place) -> Statement:
    """The newest checkpoint of a conversation."""
    return Statement(
        f"SELECT record FROM turnfold_checkpoint WHERE {_HERE} ORDER BY upto DESC LIMIT 1",
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
    return [_to_checkpoint(cast("bytes", record)) for (record,) in found]


def _to_checkpoint(record: bytes) -> Checkpoint:
    try:
        return msgspec.json.decode(record, type=Checkpoint)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InvalidRecord(f"not a stored checkpoint: {error}") from None


def find_version(place: Place, kind: str, key: str) -> Statement:
    """Which version a document has, and the highest that a dropped one had."""
    return Statement(
        f"SELECT coalesce((SELECT version FROM turnfold_document WHERE {_THIS}), 0), "
        f"coalesce((SELECT dropped FROM turnfold_conversation WHERE {_HERE}), 0)",
        _keys(place, kind, key),
    )


def to_version(found: Rows) -> tuple[int, int]:
    """Both of them; 0 when there is none."""
    version, dropped = cast("tuple[int, int]", found[0])
    return version, dropped


def put_document(place: Place, document: Document) -> Statement:
    """Write a document over what is there."""
    return put_documents(place, [document])


def put_documents(place: Place, documents: Sequence[Document]) -> Statement:
    """Write documents over what is there."""
    return Statement(
        "INSERT INTO turnfold_document "
        "(tenant, conversation, kind, long_kind, key, long_key, version, created, body) "
        "SELECT $1, $2, new.* FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], "
        "$8::bigint[], $9::bytea[]) AS new ON CONFLICT (tenant, conversation, kind, key) "
        "DO UPDATE SET long_kind = excluded.long_kind, version = excluded.version, "
        "created = excluded.created, body = excluded.body",
        (
            *place.keys,
            [key_of(each.kind) for each in documents],
            [long_form(each.kind) for each in documents],
            [key_of(each.key) for each in documents],
            [long_form(each.key) for each in documents],
            [each.version for each in documents],
            [each.created for each in documents],
            [each.body for each in documents],
        ),
    )


def drop_document(place: Place, kind: str, key: str) -> Statement:
    """Remove a document; of it there remains only the number that no later version may have."""
    return Statement(
        f"WITH gone AS (DELETE FROM turnfold_document WHERE {_THIS} RETURNING version) "
        "UPDATE turnfold_conversation SET dropped = greatest(dropped, (SELECT version FROM gone)) "
        f"WHERE {_HERE}",
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
