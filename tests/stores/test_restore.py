"""What a restore needs of the engines, beyond what every store is asked: read once, whole or absent, on any schema."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

from tests.stores.servers import PostgresPlaces, fresh_database, postgres_places
from tests.stores.sqlite_file import held_writer
from tests.stores.transfers import ALICE, exported
from turnfold.errors import Conflict
from turnfold.records import Entry, user
from turnfold.runtime import drive
from turnfold.stores import ConversationOpening, MemoryStore, Piece, SqliteStore, import_from
from turnfold.stores.postgres import schema as postgres_schema
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.sqlite import schema as sqlite_schema
from turnfold.testing.stores.sample_values import BOB, TALK, document, user_entries

__all__ = ("postgres_places",)

PATIENCE = 60.0


def pieces(entries: int) -> Iterator[Piece]:
    yield ConversationOpening(TALK, created=1, updated=2)
    for seq in range(1, entries + 1):
        yield Entry(seq, user(str(seq)), f"id-{seq}", seq, seq, 0, 0)


def test_a_stream_is_read_once_whatever_fails_beside_it(tmp_path: Path) -> None:
    """Jobs that share a commit are run again when one of them fails; a stream would be empty then."""

    async def share_a_commit() -> None:
        store = SqliteStore(tmp_path / "store.db")
        await store.append(ALICE, "other", user_entries("a"))
        engine = store._engine
        with held_writer(store):
            jobs = [
                asyncio.ensure_future(job)
                for job in (
                    store.put_document(ALICE, "other", document("a")),
                    store.restore(ALICE, pieces(700)),
                    store.append(ALICE, "other", user_entries("b"), expect=9),
                    store.append(ALICE, "other", user_entries("c")),
                    store.put_document(ALICE, "other", document("a"), expect=9),
                    store.restore(BOB, pieces(3)),
                )
            ]
            for _ in range(10):  # each reaches the queue in its first step
                await asyncio.sleep(0)
            assert len(engine._jobs) == len(jobs)
        await asyncio.to_thread(engine._lead)
        done = await asyncio.gather(*jobs, return_exceptions=True)
        assert [isinstance(each, Conflict) for each in done] == [
            False,
            False,
            True,
            False,
            True,
            False,
        ]
        assert (await store.head(ALICE, TALK)).seq == 700
        assert (await store.head(BOB, TALK)).seq == 3
        assert (await store.head(ALICE, "other")).seq == 2
        await store.close()

    asyncio.run(asyncio.wait_for(share_a_commit(), PATIENCE))


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_a_cancelled_import_is_whole_or_absent(
    tmp_path: Path, postgres_places: PostgresPlaces, backend: str
) -> None:
    source = MemoryStore()
    drive(source.restore(ALICE, pieces(1_500)))
    data = exported(source)

    async def cancel_after(steps: int) -> int:
        store = (
            SqliteStore(tmp_path / f"{steps}.db")
            if backend == "sqlite"
            else PostgresStore(postgres_places.url(tmp_path / str(steps)))
        )
        call = asyncio.ensure_future(import_from(store, ALICE, io.BytesIO(data)))
        for _ in range(steps):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        again = await import_from(store, ALICE, io.BytesIO(data))
        assert again.conversations + again.already == 1
        seq = (await store.head(ALICE, TALK)).seq
        await store.close()
        return seq

    found = [asyncio.run(cancel_after(steps)) for steps in (0, 1, 3, 10, 100, 1_000)]
    assert found == [1_500] * len(found)
    postgres_places.sweep()


def test_dropped_bytes_are_gone_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path, blocking=True)
    secret = b"a secret that is nowhere else " * 40
    drive(store.put_document(ALICE, TALK, document("hidden-key", secret)))
    drive(store.append(ALICE, TALK, user_entries("a")))
    assert any(secret[:30] in each.read_bytes() for each in tmp_path.iterdir())
    drive(store.drop_document(ALICE, TALK, "note", "hidden-key"))
    drive(store.close())
    for each in tmp_path.iterdir():
        assert secret[:30] not in each.read_bytes()
        assert b"hidden-key" not in each.read_bytes()


def test_a_file_from_before_goes_on_counting(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE migration (name TEXT PRIMARY KEY) STRICT")
    for name, script in sqlite_schema.MIGRATIONS[:2]:
        connection.execute(script)
        connection.execute("INSERT INTO migration (name) VALUES (?)", (name,))
    connection.execute(
        "INSERT INTO conversation VALUES (1, 'alice', 'talk', 0, 0, 0, '', 3, '', 5, 6, 0, 0)"
    )
    connection.execute("INSERT INTO document VALUES (1, 'note', 'key', 7, 5, x'00')")
    connection.close()
    store = SqliteStore(path, blocking=True)
    assert drive(store.drop_document(ALICE, TALK, "note", "key", expect=7))
    assert drive(store.put_document(ALICE, TALK, document("key"), expect=0)).document.version == 8
    drive(store.close())


def test_a_database_from_before_goes_on_counting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = fresh_database()
    with monkeypatch.context() as earlier:
        earlier.setattr(postgres_schema, "MIGRATIONS", postgres_schema.MIGRATIONS[:3])
        old = PostgresStore(url, blocking=True)
        drive(old.health())  # makes the tables of then
        drive(old.close())
    import psycopg

    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute("SELECT set_config('turnfold.tenant', 'alice', false)")
        raw.execute(
            "INSERT INTO turnfold_conversation VALUES "
            "('alice', 'talk', NULL, 0, 0, 0, '', 3, '', 5, 6, false)"
        )
        raw.execute(
            "INSERT INTO turnfold_document (tenant, conversation, kind, key, version, created, body) "
            "VALUES ('alice', 'talk', 'note', 'key', 7, 5, 'x')"
        )
    store = PostgresStore(url, blocking=True)
    assert drive(store.drop_document(ALICE, TALK, "note", "key", expect=7))
    assert drive(store.put_document(ALICE, TALK, document("key"), expect=0)).document.version == 8
    drive(store.close())
