"""Whatever breaks between the store and PostgreSQL, a batch is whole or absent, and the next caller is served."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.stores.postgres_wire import Wire
from tests.stores.servers import PostgresPlaces, admin_url, postgres_places
from turnfold.errors import StoreUnavailable
from turnfold.records import NewEntry, user
from turnfold.runtime import drive
from turnfold.stores import Scope
from turnfold.stores.postgres.store import PostgresStore

__all__ = ("postgres_places",)

ALICE = Scope("alice")


@pytest.fixture
def url(postgres_places: PostgresPlaces, tmp_path: Path) -> Iterator[str]:
    yield postgres_places.url(tmp_path)
    postgres_places.sweep()


@pytest.fixture
def wire(url: str) -> Iterator[Wire]:
    wire = Wire(url)
    yield wire
    wire.close()


def batch(*words: str) -> list[NewEntry]:
    return [NewEntry(user(word), word) for word in words]


def texts(store: PostgresStore, name: str = "talk") -> list[str]:
    return [entry.message.text for entry in drive(store.read(ALICE, name))]


@pytest.mark.parametrize("remembered", [False, True], ids=["under the lock", "in one round trip"])
@pytest.mark.parametrize(("lost", "stored"), [("reply", True), ("request", False)])
def test_a_commit_that_was_lost_on_the_way_can_be_asked_for_again(
    wire: Wire, lost: str, *, remembered: bool, stored: bool
) -> None:
    store = PostgresStore(wire.url, blocking=True)
    drive(store.append(ALICE, "talk", batch("before")))
    if not remembered:
        drive(store.delete(ALICE, "other"))
        store._heads = type(store._heads)(1)
    wire.lose = lost
    with pytest.raises(StoreUnavailable, match="whole or not at all"):
        drive(store.append(ALICE, "talk", batch("one", "two")))
    assert wire.lose == ""
    assert texts(store) == (["before", "one", "two"] if stored else ["before"])
    done = drive(store.append(ALICE, "talk", batch("one", "two")))
    assert (done.first, done.last, done.repeated) == (2, 3, stored)
    assert texts(store) == ["before", "one", "two"]
    drive(store.close())


def test_the_round_trips_counted_are_those_on_the_wire(wire: Wire) -> None:
    store = PostgresStore(wire.url, blocking=True)
    drive(store.append(ALICE, "talk", batch("one")))
    before = (wire.bursts, store._engine.round_trips)
    for number in range(5):
        drive(store.append(ALICE, "talk", batch(f"{number}", f"{number}b")))
        drive(store.tail(ALICE, "talk", tokens=100))
    assert (wire.bursts - before[0], store._engine.round_trips - before[1]) == (10, 10)
    drive(store.close())


def _hang_up_all(url: str) -> int:
    dbname = conninfo_to_dict(url)["dbname"]
    with psycopg.connect(admin_url(), autocommit=True) as admin:
        found = admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = %s AND application_name = 'turnfold'",
            (dbname,),
        ).fetchall()
    return len(found)


def test_a_server_that_hung_up_meanwhile_is_called_again(url: str) -> None:
    store = PostgresStore(url, blocking=True)
    drive(store.append(ALICE, "talk", batch("one")))
    assert _hang_up_all(url) >= 1
    assert drive(store.append(ALICE, "talk", batch("two"))).first == 2
    drive(store.close())


def test_a_server_that_hangs_up_during_an_append_makes_it_unavailable(url: str) -> None:
    store = PostgresStore(url, blocking=True)
    drive(store.append(ALICE, "talk", batch("one")))
    outcome: list[BaseException] = []

    def append() -> None:
        try:
            drive(store.append(ALICE, "talk", batch("two")))
        except StoreUnavailable as error:
            outcome.append(error)

    with psycopg.connect(url) as keeper:
        _hold_row(keeper)
        waiter = threading.Thread(target=append)
        waiter.start()
        _until_somebody_waits(url)
        _hang_up_all(url)
        waiter.join(30)
    assert len(outcome) == 1
    assert texts(store) == ["one"]
    assert drive(store.append(ALICE, "talk", batch("two"))).first == 2
    drive(store.close())


def _hold_row(keeper: psycopg.Connection) -> None:
    keeper.execute("SELECT set_config('turnfold.tenant', 'alice', true)")
    keeper.execute("SELECT 1 FROM turnfold_conversation WHERE conversation = 'talk' FOR UPDATE")


def _until_somebody_waits(url: str) -> None:
    dbname = conninfo_to_dict(url)["dbname"]
    with psycopg.connect(admin_url(), autocommit=True) as admin:
        for _ in range(500):
            waiting = admin.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'",
                (dbname,),
            ).fetchone()
            if waiting is not None and waiting[0]:
                return
            time.sleep(0.02)
    raise AssertionError("nobody waits for the row")


def test_a_caller_cancelled_while_waiting_leaves_nobody_waiting(url: str) -> None:
    async def use() -> list[str]:
        store = PostgresStore(url, pool_size=2)
        await store.append(ALICE, "talk", batch("one"))
        with psycopg.connect(url) as keeper:
            _hold_row(keeper)
            waiters = [
                asyncio.create_task(store.append(ALICE, "talk", batch(f"late {n}")))
                for n in range(2)
            ]
            await asyncio.to_thread(_until_somebody_waits, url)
            for waiter in waiters:
                waiter.cancel()
            outcomes = await asyncio.gather(*waiters, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError] * 2
        await store.append(ALICE, "talk", batch("two"))
        found = [entry.message.text for entry in await store.read(ALICE, "talk")]
        await store.close()
        return found

    assert asyncio.run(use()) == ["one", "two"]


def test_cancelled_at_any_moment_a_batch_is_whole_or_absent(url: str) -> None:
    async def use() -> None:
        store = PostgresStore(url, pool_size=3)
        for number in range(60):
            words = [f"{number}/{part}" for part in range(3)]
            task = asyncio.create_task(store.append(ALICE, "talk", batch(*words)))
            for _ in range(number):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        found = await store.find(
            ALICE, "talk", [f"{n}/{part}" for n in range(60) for part in range(3)]
        )
        entries = await store.read(ALICE, "talk")
        assert entries == found
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        numbers = [entry.message.text.split("/")[0] for entry in entries]
        assert all(numbers.count(number) == 3 for number in set(numbers))
        await store.close()

    asyncio.run(use())


def test_a_lock_that_never_comes_free_is_an_error_with_a_limit(url: str) -> None:
    store = PostgresStore(url, blocking=True, lock_timeout_seconds=0.05)
    drive(store.append(ALICE, "talk", batch("one")))
    with psycopg.connect(url) as keeper:
        _hold_row(keeper)
        with pytest.raises(
            StoreUnavailable, match=r"lock timeout \(55P03, lock_timeout_seconds=0.05\)"
        ):
            drive(store.append(ALICE, "talk", batch("two")))
        assert texts(store) == ["one"]
    assert drive(store.append(ALICE, "talk", batch("two"))).first == 2
    drive(store.close())


def test_no_free_connection_is_an_error_with_a_limit(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turnfold.stores.postgres import transactions as postgres_engine

    monkeypatch.setattr(postgres_engine, "_LONGEST_WAIT", 0.05)

    async def use() -> None:
        store = PostgresStore(url, pool_size=1)
        await store.append(ALICE, "talk", batch("one"))
        with psycopg.connect(url) as keeper:
            _hold_row(keeper)
            waiter = asyncio.create_task(store.append(ALICE, "talk", batch("two")))
            await asyncio.to_thread(_until_somebody_waits, url)
            with pytest.raises(StoreUnavailable, match="pool_size"):
                await store.head(ALICE, "talk")
        assert (await waiter).first == 2
        await store.close()

    asyncio.run(use())
