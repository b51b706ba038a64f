"""Row-level security is a second wall: with every tenant predicate taken out of every statement, tenants stay apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

import psycopg
from psycopg import sql

from tests.stores.postgres_wall import ALICE, BOB, answers, furnish, without_tenants
from tests.stores.servers import PostgresPlaces, postgres_places
from turnfold.records import Document, NewEntry, user
from turnfold.runtime import drive
from turnfold.stores.postgres.schema import TABLES
from turnfold.stores.postgres.store import PostgresStore

__all__ = ("postgres_places",)


@pytest.fixture
def url(postgres_places: PostgresPlaces, tmp_path: Path) -> Iterator[str]:
    yield postgres_places.url(tmp_path)
    postgres_places.sweep()


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(url, blocking=True)
    furnish(store)
    yield store
    drive(store.close())


def test_without_any_tenant_predicate_every_answer_is_the_same(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [answers(store, scope) for scope in (ALICE, BOB)]
    changed = without_tenants(monkeypatch)
    assert [answers(store, scope) for scope in (ALICE, BOB)] == expected
    assert len(set(changed)) >= 10


def test_without_any_tenant_predicate_a_change_reaches_nobody_else(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = answers(store, ALICE)
    with monkeypatch.context() as patched:
        without_tenants(patched)
        drive(store.append(BOB, "talk", [NewEntry(user("more"))]))
        drive(store.put_document(BOB, "talk", Document("note", "key", b"new", 0)))
        drive(store.drop_document(BOB, "talk", "note", "his"))
        assert drive(store.delete(BOB, "talk")).entries == 4
        assert drive(store.delete(BOB, "hers")).entries == 0
    assert answers(store, ALICE) == expected


def test_with_the_wall_down_the_same_mutation_leaks(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = answers(store, ALICE)
    with psycopg.connect(url, autocommit=True) as connection:
        for table in TABLES:
            connection.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
        try:
            assert answers(store, ALICE) == expected
            without_tenants(monkeypatch)
            assert [entry.message.text for entry in drive(store.read(ALICE, "talk"))] != expected[0]
            assert any("his" in entry.message.text for entry in drive(store.read(ALICE, "talk")))
        finally:
            for table in TABLES:
                connection.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")


@pytest.mark.parametrize("table", TABLES)
def test_a_session_sees_nothing_before_it_names_a_tenant(
    store: PostgresStore, url: str, table: str
) -> None:
    drive(store.head(ALICE, "talk"))
    with psycopg.connect(url) as connection:
        question = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))
        connection.execute("SELECT set_config('turnfold.terms', 'x', true)")
        assert connection.execute(question).fetchone() == (0,)
        connection.execute("SELECT set_config('turnfold.tenant', 'alice', true)")
        seen = connection.execute(question).fetchone()
        assert seen is not None
        assert (seen[0] > 0) == (
            table != "turnfold_term"
        )  # that table shows only what is asked for


def test_a_row_cannot_be_written_for_or_moved_to_another_tenant(
    store: PostgresStore, url: str
) -> None:
    drive(store.head(ALICE, "talk"))
    insert = (
        "INSERT INTO turnfold_document VALUES ('bob', 'talk', 'note', 'planted', NULL, 1, 1, '')"
    )
    for attempt in (insert, "UPDATE turnfold_document SET tenant = 'bob'"):
        with psycopg.connect(url) as connection:
            connection.execute("SELECT set_config('turnfold.tenant', 'alice', true)")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(attempt)


def test_a_deletion_takes_the_index_rows_with_it(
    store: PostgresStore, postgres_places: PostgresPlaces, url: str
) -> None:
    drive(store.delete(ALICE, "talk"))
    schema = re.search(r"search_path=(\w+)", url)
    assert schema is not None
    for table in TABLES:
        left = postgres_places.count(schema[1], table, "alice", "talk")
        assert left == 0, table
        assert postgres_places.count(schema[1], table, "bob", "talk") > 0, table
