"""The search index of the PostgreSQL store: what a place is found by, as it stands in its table.

Terms are marked with their tenant, so that no search wades through another's. Beside them stand what filters ask for,
as digests with a sign no term has, and a mark of the conversation, which lets a deletion see the rows it must remove:
the table shows a transaction only rows that hold what the transaction has named (see postgres_schema.py).
"""

# ruff: noqa: S608 (statements are joined from constants written here; every value is bound)

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from turnfold.recall import distinct_terms
from turnfold.stores.findable import Findable, marks_of_text
from turnfold.stores.postgres_engine import Statement
from turnfold.stores.postgres_keys import Place, key_of, long_form

__all__ = (
    "Beside",
    "add_beside",
    "index_text",
    "name_conversation",
    "name_terms",
    "remove_beside",
    "scoped",
    "scoped_marks",
)

_HERE = "tenant = $1 AND conversation = $2"


class Beside(NamedTuple):
    """Something beside the log that can be found."""

    kind: str
    key: str
    created: int
    text: str


def scoped(place: Place, terms: Iterable[str]) -> list[str]:
    """Terms as they are indexed."""
    tenant = _tenant_mark(place)
    return [f"{tenant}:{term}" for term in terms]


def scoped_marks(place: Place, marks: Iterable[str]) -> list[str]:
    """What filters ask for, as it is indexed."""
    tenant = _tenant_mark(place)
    return [f"{tenant}:@{blake2b(mark.encode(), digest_size=10).hexdigest()}" for mark in marks]


def index_text(place: Place, found: Findable) -> str:
    """All that a place is found by, apart by spaces."""
    terms = sorted(distinct_terms(found.text))
    marks = scoped_marks(place, sorted(found.marks))
    return " ".join((_conversation_mark(place), *scoped(place, terms), *marks))


def _tenant_mark(place: Place) -> str:
    return blake2b(place.tenant.encode(), digest_size=5).hexdigest()


def _conversation_mark(place: Place) -> str:
    digest = blake2b("\x00".join(place.keys).encode(), digest_size=10).hexdigest()
    return f"#{digest}"


def name_terms(place: Place, terms: Sequence[str]) -> Statement:
    """Say that this transaction is about the rows that hold any of the terms."""
    return _name(scoped(place, terms))


def name_conversation(place: Place) -> Statement:
    """Say that this transaction is about the rows of a conversation."""
    return _name([_conversation_mark(place)])


def _name(named: Sequence[str]) -> Statement:
    return Statement("SELECT set_config('turnfold.terms', $1, true)", (" ".join(named),))


def add_beside(place: Place, new: Sequence[Beside]) -> list[Statement]:
    """Let things beside the log be found; none of them may be in the index yet."""
    new = [each for each in new if each.text]
    if not new:
        return []
    insert = Statement(
        "INSERT INTO turnfold_term (tenant, conversation, seq, kind, long_kind, key, long_key, created, terms) "
        "SELECT $1, $2, 0, new.kind, new.long_kind, new.key, new.long_key, new.created, "
        "string_to_array(new.terms, ' ') FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], "
        "$7::bigint[], $8::text[]) AS new (kind, long_kind, key, long_key, created, terms)",
        (
            *place.keys,
            [key_of(each.kind) for each in new],
            [long_form(each.kind) for each in new],
            [key_of(each.key) for each in new],
            [long_form(each.key) for each in new],
            [each.created for each in new],
            [index_text(place, Findable(each.text, marks_of_text(each.text))) for each in new],
        ),
    )
    return [insert, _count_beside(place, len(new))]


def remove_beside(place: Place, kind: str, key: str) -> list[Statement]:
    """Let something beside the log be found no more; it must have been in the index."""
    return [
        name_conversation(place),
        Statement(
            f"DELETE FROM turnfold_term WHERE {_HERE} AND kind = $3 AND key = $4",
            (*place.keys, key_of(kind), key_of(key)),
        ),
        _count_beside(place, -1),
    ]


def _count_beside(place: Place, change: int) -> Statement:
    return Statement(
        f"UPDATE turnfold_conversation SET beside = beside + $3 WHERE {_HERE}",
        (*place.keys, change),
    )
