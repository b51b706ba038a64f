"""Whoever did not hear the answer of a PostgreSQL store asks again, and nothing is doubled or lost; see retrying.py.

The line is cut by a proxy: before the commit arrives, or after it happened and before the reply comes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

from tests.sizes import LOST_POSTGRES_ANSWERS, LOST_POSTGRES_ANSWERS_CACHED
from tests.stores.postgres_wire import Wire
from tests.stores.redis_server import PATIENCE, shared_url
from tests.stores.retrying import ALICE, Caller, told_and_held
from tests.stores.servers import PostgresPlaces, postgres_places
from turnfold.errors import IdReused
from turnfold.records import NewEntry, user
from turnfold.runtime import drive
from turnfold.stores import Appended, Store
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.redis.cache import CachedStore

__all__ = ("postgres_places",)


class PostgresCaller(Caller):
    ways = ("request", "reply", "reply")  # a lost reply is the one that leaves the caller in doubt

    def __init__(self, wire: Wire, *, cache: str = "") -> None:
        self.wire, self._cache = wire, cache
        super().__init__()

    def opened(self) -> Store:
        self.wire.lose = ""
        store = PostgresStore(self.wire.url, blocking=True)
        drive(store.head(ALICE, "talk"))  # so that the next commit is the append's
        if not self._cache:
            return store
        return CachedStore(store, self._cache, blocking=True, timeout_seconds=PATIENCE)

    def ask(self, batch: list[NewEntry], way: str) -> Appended:
        self.wire.lose = "" if way == "none" else way
        done = drive(self.store.append(ALICE, "talk", batch))
        assert way == "none", "the answer came although it was lost"
        if self._cache:
            newest = drive(self.store.tail(ALICE, "talk", tokens=50))[-1]
            assert newest.seq >= done.last
        return done


@pytest.fixture
def wire(postgres_places: PostgresPlaces, tmp_path: Path) -> Iterator[Wire]:
    with closing(Wire(postgres_places.url(tmp_path))) as wire:
        yield wire
    postgres_places.sweep()


@pytest.mark.parametrize("batches", LOST_POSTGRES_ANSWERS.values())
def test_lost_answers_neither_lose_nor_double_an_entry(wire: Wire, batches: int) -> None:
    assert_nothing_lost_or_doubled(PostgresCaller(wire), batches)


@pytest.mark.parametrize("batches", LOST_POSTGRES_ANSWERS_CACHED.values())
def test_nor_do_they_behind_a_cache(wire: Wire, batches: int) -> None:
    assert_nothing_lost_or_doubled(PostgresCaller(wire, cache=shared_url()), batches)


def assert_nothing_lost_or_doubled(caller: PostgresCaller, batches: int) -> None:
    told, held = told_and_held(caller, batches)
    assert held == told
    # Far from what the dice give: a failure of another kind shifts them all.
    assert caller.lost["reply"] > batches // 2
    assert caller.lost["request"] > batches // 4
    assert caller.restarts > batches // 20


@pytest.mark.slow  # shows that the tests above can fail
def test_without_client_ids_entries_are_doubled(wire: Wire) -> None:
    told, held = told_and_held(PostgresCaller(wire), 40, with_ids=False)
    assert set(held) == set(told)
    assert len(held) > len(told)


def test_an_id_with_another_body_is_refused_even_after_a_restart(wire: Wire) -> None:
    caller = PostgresCaller(wire)
    caller.append([NewEntry(user("yes"), "one")])
    caller.restart()
    with pytest.raises(IdReused):
        drive(caller.store.append(ALICE, "talk", [NewEntry(user("no"), "one")]))
    drive(caller.store.close())
