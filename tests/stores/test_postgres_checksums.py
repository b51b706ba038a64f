"""What is damaged in a PostgreSQL database is told, with a typed error, and never served as text."""

# ruff: noqa: S608 (statements are joined from constants written here)

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.stores.servers import PostgresPlaces, admin_url, postgres_places
from tests.stores.test_checksums import ENTRIES, MARK, NOTES, READS, SUMMARIES, TALK, fill
from turnfold.errors import InvalidRecord, TurnfoldError
from turnfold.runtime import drive
from turnfold.stores import Store
from turnfold.stores.postgres.store import PostgresStore

__all__ = ("postgres_places",)

SECOND = f"(SELECT body FROM turnfold_entry WHERE seq = 2 AND conversation = '{TALK}')"
AGREED = "convert_to(replace(convert_from(record, 'UTF8'), 'refused', 'agreed!'), 'UTF8')"
DAMAGE: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "a body": ([f"UPDATE turnfold_entry SET body = {SECOND} WHERE seq = 1"], ENTRIES),
    "a time": (["UPDATE turnfold_entry SET created = 9 WHERE seq = 1"], ENTRIES),
    "no body": (
        [
            "ALTER TABLE turnfold_entry ALTER COLUMN body DROP NOT NULL",
            "UPDATE turnfold_entry SET body = NULL WHERE seq = 1",
        ],
        ENTRIES,
    ),
    "no body and no checksum": (
        [
            "ALTER TABLE turnfold_entry ALTER COLUMN body DROP NOT NULL",
            "UPDATE turnfold_entry SET body = NULL, checksum = NULL WHERE seq = 1",
        ],
        ENTRIES,
    ),
    "a summary": (
        [f"UPDATE turnfold_checkpoint SET record = {AGREED}"],
        (*SUMMARIES, "search beside"),
    ),
    "a document": (["UPDATE turnfold_document SET body = '\\x00' WHERE kind = 'finding'"], NOTES),
    "what it is found by": (
        ["UPDATE turnfold_document SET text = 'deposit' WHERE kind = 'finding'"],
        (*NOTES, "search beside"),
    ),
    "no document": (
        [
            "ALTER TABLE turnfold_document ALTER COLUMN body DROP NOT NULL",
            "UPDATE turnfold_document SET body = NULL, checksum = NULL WHERE kind = 'finding'",
        ],
        NOTES,
    ),
}


@pytest.fixture
def url(postgres_places: PostgresPlaces, tmp_path: Path) -> Iterator[str]:
    yield postgres_places.url(tmp_path)
    postgres_places.sweep()


def refusal(store: Store, verb: str) -> TurnfoldError | None:
    try:
        drive(READS[verb](store))
    except TurnfoldError as error:
        return error
    return None


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_told_by_every_verb_that_would_show_it(url: str, name: str) -> None:
    statements, expected = DAMAGE[name]
    store = PostgresStore(url, blocking=True, clock=lambda: 1)
    fill(store)
    assert not [verb for verb in READS if refusal(store, verb)]
    place = conninfo_to_dict(url)
    above = make_conninfo(admin_url(), dbname=place["dbname"], options=place["options"])
    with psycopg.connect(above, autocommit=True) as raw:
        for statement in statements:
            raw.execute(statement.encode())
    refused = {verb: error for verb in READS if (error := refusal(store, verb))}
    assert sorted(refused) == sorted(expected)
    for error in refused.values():
        assert isinstance(error, InvalidRecord)
        assert MARK in str(error)
        assert "backup" in str(error)
    drive(store.close())
