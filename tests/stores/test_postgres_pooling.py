"""Behind a pooler that lends connections by transaction: nothing is left on them, and nobody sees another's.

The proxy of pooling_proxy.py is always there; where PgBouncer is, it is used as well. Fewer connections than callers
are lent in turn, so a setting that outlived its transaction would be met by somebody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

import psycopg

from tests.stores.bouncer import Bouncer
from tests.stores.pooling_proxy import PoolingProxy
from tests.stores.postgres_wall import ALICE, BOB, answers, furnish, without_tenants
from tests.stores.servers import Placed, PostgresPlaces, database_url, postgres_places
from turnfold.records import Document, NewEntry, user
from turnfold.runtime import drive
from turnfold.stores import Scope, Store
from turnfold.stores.postgres import transactions as postgres_engine
from turnfold.stores.postgres.store import PostgresStore
from turnfold.testing import StoreConformance
from turnfold.tokens import TokenCounter

__all__ = ("postgres_places",)


@pytest.fixture(scope="module")
def own() -> Iterator[PoolingProxy]:
    with closing(PoolingProxy(database_url())) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def bouncer() -> Iterator[Bouncer]:
    database_url()  # makes sure that there is a server
    with closing(Bouncer()) as proxy:
        yield proxy


@pytest.fixture(params=["own", "bouncer"])
def pooler(request: pytest.FixtureRequest) -> PoolingProxy | Bouncer:
    return request.getfixturevalue(request.param)


@pytest.fixture
def url(
    postgres_places: PostgresPlaces, pooler: PoolingProxy | Bouncer, tmp_path: Path
) -> Iterator[str]:
    yield pooler.url(postgres_places.url(tmp_path))
    postgres_places.sweep()


async def crowd(store: PostgresStore, tenants: int, rounds: int) -> list[str]:
    """Many tenants write and read at once, each its own words; the words that came to the wrong tenant."""
    wrong: list[str] = []

    async def live(number: int) -> None:
        scope, word = Scope(f"tenant {number}"), f"word{number}"
        for each in range(rounds):
            await store.append(scope, "talk", [NewEntry(user(word), f"{each}")])
            await store.put_document(scope, "talk", Document("note", "key", word.encode(), 0))
            found = [entry.message.text for entry in await store.read(scope, "talk")]
            hits = await store.search(scope, [f"word{(number + 1) % tenants}"])
            note = await store.get_document(scope, "talk", "note", "key")
            if found != [word] * (each + 1) or hits or note is None or note.body != word.encode():
                wrong.append(f"{word}: {found} {hits} {note}")

    await asyncio.gather(*(live(number) for number in range(tenants)))
    await store.close()
    return wrong


def test_tenants_who_share_connections_see_their_own(url: str) -> None:
    assert asyncio.run(crowd(PostgresStore(url), tenants=12, rounds=5)) == []


def test_without_any_tenant_predicate_they_still_do(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(url, blocking=True)
    furnish(store)
    with monkeypatch.context() as patched:
        without_tenants(patched)
        assert asyncio.run(crowd(PostgresStore(url), tenants=12, rounds=3)) == []
    expected = [answers(store, scope) for scope in (ALICE, BOB)]
    changed = without_tenants(monkeypatch)
    assert [answers(store, scope) for scope in (ALICE, BOB)] == expected
    assert len(set(changed)) >= 10
    drive(store.close())


def left_behind(url: str) -> set[tuple[object, ...]]:
    """What somebody who names no tenant finds on the connections that are lent."""
    found: set[tuple[object, ...]] = set()
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as stranger:
        for _ in range(6):
            found |= set(
                stranger.execute(
                    "SELECT coalesce(current_setting('turnfold.tenant', true), ''), "
                    "current_setting('lock_timeout'), current_setting('statement_timeout'), "
                    "(SELECT count(*) FROM turnfold_entry)"
                )
            )
    return found


def sweep(url: str) -> None:
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as stranger:
        for _ in range(6):
            stranger.execute(
                "SELECT set_config('turnfold.tenant', '', false), set_config('lock_timeout', '0', false), "
                "set_config('statement_timeout', '0', false), "
                "set_config('idle_in_transaction_session_timeout', '0', false)"
            )


def test_nothing_is_left_for_the_next_who_is_lent_a_connection(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asyncio.run(crowd(PostgresStore(url), tenants=4, rounds=2)) == []
    assert left_behind(url) == {("", "0", "0", 0)}
    # The checker sees what it should: settings that outlive the transaction.
    for name in ("_SETTINGS", "_LIMIT_STATEMENTS", "_LIMIT_LOCKS"):
        lasting = getattr(postgres_engine, name).replace(", true)", ", false)")
        monkeypatch.setattr(postgres_engine, name, lasting)
    store = PostgresStore(url, blocking=True)
    for _ in range(4):
        drive(store.append(ALICE, "talk", [NewEntry(user("hers"))]))
    assert ("alice", "10s", "30s", 4) in left_behind(url)
    drive(store.close())
    sweep(url)
    assert left_behind(url) == {("", "0", "0", 0)}


def test_who_rests_keeps_no_connection_from_others(url: str) -> None:
    stores = [PostgresStore(url, blocking=True) for _ in range(6)]
    for number, store in enumerate(stores * 3):
        assert drive(store.append(ALICE, "talk", [NewEntry(user("x"))])).last == number + 1
    for store in stores:
        drive(store.close())


class Pooled(Placed):
    examples = 3
    blocking = False

    @pytest.fixture(autouse=True)
    def _pooler(self, pooler: PoolingProxy | Bouncer) -> None:
        self._through = pooler

    def open_store(
        self,
        place: Path,
        *,
        counter: TokenCounter | None = None,
        clock: Callable[[], int] | None = None,
    ) -> Store:
        url = self._through.url(self.places.url(place))
        return PostgresStore(url, counter=counter, clock=clock, blocking=self.blocking)


@pytest.mark.slow
class TestPooled(Pooled, StoreConformance):
    pass


@pytest.mark.slow
class TestPooledBlocking(Pooled, StoreConformance):
    blocking = True
