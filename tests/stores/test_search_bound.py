"""Of more matching entries than can be weighed, every backend weighs the same ones, and they are well chosen."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sizes import SEARCHES
from tests.stores.servers import PostgresPlaces, postgres_places
from turnfold.errors import StoreError
from turnfold.records import NewEntry, user
from turnfold.runtime import drive
from turnfold.search import Hit, ranking
from turnfold.stores import MemoryStore, Scope, SqliteStore, Store
from turnfold.stores import memory_store as memory_search
from turnfold.stores.postgres import search as postgres_search
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.sqlite import search as sqlite_search

__all__ = ("postgres_places",)

Make = Callable[[Path, PostgresPlaces], Store]
MOST = 5
TENANTS = count()
BACKENDS: dict[str, Make] = {
    "sqlite": lambda path, _: SqliteStore(path / "chat.db", blocking=True),
    "postgres": lambda path, places: PostgresStore(places.url(path), blocking=True),
}
words = st.sampled_from(["alpha", "beta", "gamma", "你好", "filler " * 30])
texts = st.lists(words, min_size=1, max_size=4).map(" ".join)
logs = st.dictionaries(
    st.sampled_from(["a", "b", "长" * 400, "长" * 401]),
    st.lists(texts, min_size=1, max_size=8),
    min_size=1,
    max_size=4,
)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "MOST_WALKED", 2 * MOST)
    for module in (ranking, memory_search, sqlite_search, postgres_search):
        monkeypatch.setattr(module, "MOST_CANDIDATES", MOST)


@pytest.fixture(params=BACKENDS.values(), ids=list(BACKENDS))
def store(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_places: PostgresPlaces
) -> Iterator[Store]:
    store = request.param(tmp_path, postgres_places)
    yield store
    drive(store.close())
    postgres_places.sweep()


async def found(
    store: Store, scope: Scope, log: dict[str, list[str]], asked: list[str]
) -> list[list[Hit]]:
    for name, said in log.items():
        await store.append(scope, name, [NewEntry(user(text)) for text in said])
    answers = [await store.search(scope, asked, limit=100)]
    answers += [await store.search(scope, asked, conversation=name) for name in log]
    return answers


def compare(store: Store, log: dict[str, list[str]], asked: list[str]) -> None:
    scope = Scope(f"tenant {next(TENANTS)}")
    assert drive(found(store, scope, log, asked)) == drive(found(MemoryStore(), scope, log, asked))


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("examples", SEARCHES.values())
def test_every_backend_weighs_the_same_entries(store: Store, examples: int) -> None:
    @settings(
        deadline=None,
        max_examples=examples,
        database=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(logs, st.lists(words, min_size=1, max_size=3))
    def tried(log: dict[str, list[str]], asked: list[str]) -> None:
        compare(store, log, asked)

    tried()


@pytest.mark.usefixtures("few")
def test_a_backend_that_cuts_elsewhere_is_caught(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = {"a": ["beta alpha", *["alpha"] * 9], "b": ["alpha"] * 9}
    compare(store, log, ["alpha", "beta"])
    careless = ranking.TermChoice((), ("alpha", "beta"), dict.fromkeys(("alpha", "beta"), 1))
    for module in (sqlite_search, postgres_search):
        monkeypatch.setattr(module, "choosing_terms", lambda *_values, **_options: careless)
    with pytest.raises(AssertionError):
        compare(store, {"a": ["beta", *["alpha"] * 9], "b": ["alpha"] * 9}, ["alpha", "beta"])


@pytest.mark.usefixtures("few")
def test_a_rare_word_is_found_however_old_and_a_long_conversation_leaves_room(
    store: Store,
) -> None:
    scope = Scope("alice")
    log = {"long": ["alpha beta", *["alpha"] * 30], "short": ["alpha"] * 2}
    [hits, *_] = drive(found(store, scope, log, ["alpha beta"]))
    assert (hits[0].conversation, hits[0].seq) == ("long", 1)
    [common, *_] = drive(found(store, Scope("bob"), log, ["alpha"]))
    assert {(hit.conversation, hit.seq) for hit in common} == {
        ("long", 31),
        ("long", 30),
        ("long", 29),
        ("short", 2),
        ("short", 1),
    }


def test_the_bounds_are_those_the_protocol_tells() -> None:
    for bound in (ranking.MOST_CANDIDATES, ranking.MOST_WALKED):
        assert f"{bound:,}" in str(Store.search.__doc__)


def test_counts_that_cannot_be_are_called_damage() -> None:
    with pytest.raises(StoreError, match="counts 3 entries with a term, but 2 entries in all"):
        ranking.rank([], {"alpha": 3}, total=2, limit=1)


def test_postgres_ranks_off_the_event_loop(
    tmp_path: Path, postgres_places: PostgresPlaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    rank = ranking.rank

    def watched(*values: object, **options: object) -> list[Hit]:
        threads.append(threading.get_ident())
        return rank(*values, **options)  # pyright: ignore[reportArgumentType] (passed on as it came)

    async def search() -> int:
        store = PostgresStore(postgres_places.url(tmp_path))
        await store.append(Scope("alice"), "talk", [NewEntry(user("alpha"))])
        assert len(await store.search(Scope("alice"), ["alpha"])) == 1
        await store.close()
        return threading.get_ident()

    monkeypatch.setattr(postgres_search, "rank", watched)
    loop = asyncio.run(search())
    assert len(threads) == 1
    assert loop not in threads
    postgres_places.sweep()
