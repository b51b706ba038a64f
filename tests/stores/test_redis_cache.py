"""The cache as a program and an operator see it: what is kept where, what is let go, and what is told."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.stores.fault_proxy import FaultProxy
from tests.stores.redis_server import PATIENCE, RedisServer, closed_port
from turnfold.errors import InvalidOption
from turnfold.records import Checkpoint, Document, Entry, NewEntry, user
from turnfold.runtime import drive
from turnfold.stores import Ability, MemoryStore, Scope, SqliteStore, Store
from turnfold.stores.redis.cache import CachedStore
from turnfold.stores.redis.cached_values import SealedValues
from turnfold.testing.stores.sample_values import character_counter

DEFAULT, ACME = Scope("default"), Scope("acme")
KEY = "{short_term_memory:session:conv-1}:cache"


@pytest.fixture(scope="module")
def own_server() -> Iterator[RedisServer]:
    server = RedisServer()
    yield server
    server.stop()


@pytest.fixture
def server(own_server: RedisServer) -> RedisServer:
    own_server.ask("FLUSHALL")
    return own_server


def cached(inner: Store, url: str, **options: Any) -> CachedStore:
    return CachedStore(inner, url, blocking=True, **{"timeout_seconds": PATIENCE, **options})


def say(store: Store, *texts: str, scope: Scope = DEFAULT, talk: str = "conv-1") -> None:
    drive(store.append(scope, talk, [NewEntry(user(text)) for text in texts]))


def tail(store: Store, *, scope: Scope = DEFAULT, tokens: int = 10_000) -> list[Entry]:
    return drive(store.tail(scope, "conv-1", tokens=tokens))


def counts(store: CachedStore, *names: str) -> tuple[int, ...]:
    details = drive(store.health()).details
    return tuple(int(details[f"redis.{name}"]) for name in names)


class Counting(SqliteStore):
    """A store that says how many entries it was asked for."""

    def __init__(self) -> None:
        super().__init__(blocking=True)
        self.entries_read = 0

    async def tail(self, *args: Any, **options: Any) -> list[Entry]:
        found = await super().tail(*args, **options)
        self.entries_read += len(found)
        return found

    async def read(self, *args: Any, **options: Any) -> list[Entry]:
        found = await super().read(*args, **options)
        self.entries_read += len(found)
        return found


def stored(inner: Counting) -> list[Entry]:
    return drive(SqliteStore.tail(inner, DEFAULT, "conv-1", tokens=10_000))


def epochs(entries: list[Entry]) -> list[int]:
    """Those of entries, which comparing entries leaves out."""
    return [entry.epoch for entry in entries]


def test_a_window_is_read_from_the_store_once_and_then_only_what_is_new(
    server: RedisServer,
) -> None:
    inner = Counting()
    store, other = cached(inner, server.url), cached(inner, server.url)
    say(store, *(f"message {number}" for number in range(100)))
    say(other, "one more")
    assert len(tail(store)) == 101
    assert inner.entries_read == 101
    assert tail(store) == tail(other) == stored(inner)
    assert inner.entries_read == 101
    assert epochs(tail(store)) == epochs(stored(inner))
    say(other, "and one more")
    assert [entry.seq for entry in tail(store)] == list(range(1, 103))
    assert epochs(tail(other)) == epochs(stored(inner))
    assert 0 not in epochs(tail(other))
    assert inner.entries_read == 103  # the new one, and the one that proves it fits
    assert tail(other)[-1].message.text == "and one more"
    assert counts(store, "misses", "hits", "joined", "rubbish") == (1, 2, 1, 0)
    assert counts(other, "misses", "hits", "joined", "rubbish") == (0, 4, 0, 0)


def test_the_documented_key_holds_the_fence_and_expires(server: RedisServer) -> None:
    store = cached(SqliteStore(blocking=True), server.url)
    say(store, "hello")
    tail(store)
    drive(store.get_document(DEFAULT, "conv-1", "state", "session"))
    assert server.ask("KEYS", "*") == [KEY.encode()]
    head = drive(store.head(DEFAULT, "conv-1"))
    assert int(server.ask("HGET", KEY, "generation")) == head.generation
    assert 1790 < server.ask("TTL", KEY) <= 1800


def test_documents_and_checkpoints_are_kept_and_their_absence_too(server: RedisServer) -> None:
    store = cached(SqliteStore(blocking=True), server.url)
    say(store, "hello")
    for _ in range(2):
        assert drive(store.get_document(DEFAULT, "conv-1", "state", "a")) is None
    put = drive(store.put_document(DEFAULT, "conv-1", Document("state", "a", b"1", 0))).document
    for _ in range(2):
        assert drive(store.get_document(DEFAULT, "conv-1", "state", "a")) == put
    made = drive(store.add_checkpoint(DEFAULT, "conv-1", Checkpoint("c", "", 1, "摘要", "d")))
    for _ in range(2):
        assert drive(store.checkpoints(DEFAULT, "conv-1")) == [made]
    assert counts(store, "hits", "misses") == (3, 3)


def test_two_tenants_with_one_conversation_id_never_meet(server: RedisServer) -> None:
    store = cached(SqliteStore(blocking=True), server.url)
    say(store, "ours", scope=DEFAULT)
    say(store, "theirs", scope=ACME)
    for _ in range(2):
        assert [entry.message.text for entry in tail(store, scope=DEFAULT)] == ["ours"]
        assert [entry.message.text for entry in tail(store, scope=ACME)] == ["theirs"]
    assert len(server.ask("KEYS", "*")) == 2
    assert counts(store, "hits") == (2,)


def test_two_stores_on_one_redis_never_answer_for_each_other(server: RedisServer) -> None:
    stores = [cached(SqliteStore(blocking=True, clock=lambda: 1), server.url) for _ in "ab"]
    say(stores[0], "first store")
    say(stores[1], "other store")  # the same head in every number
    for _ in range(3):
        texts = [entry.message.text for store in stores for entry in tail(store)]
        assert texts == ["first store", "other store"]
    say(stores[0], "far ahead")
    assert len(tail(stores[0])) == 2
    assert len(tail(stores[1])) == len(tail(stores[1])) == 1
    assert counts(stores[1], "hits") == (1,)  # nor does one keep the other from using it


def test_a_change_of_counter_is_not_hidden(server: RedisServer, tmp_path: Any) -> None:
    path = tmp_path / "store"
    cheap = cached(SqliteStore(path, counter=character_counter(1), blocking=True), server.url)
    dear = cached(SqliteStore(path, counter=character_counter(10), blocking=True), server.url)
    say(cheap, "12345", "67890")
    assert len(tail(cheap, tokens=10)) == len(tail(cheap, tokens=10)) == 2
    assert [entry.tokens for entry in tail(dear, tokens=60)] == [50]
    assert [entry.tokens for entry in tail(cheap, tokens=60)] == [5, 5]
    for store in (cheap, dear):
        drive(store.close())


def test_erasing_leaves_a_mark_without_content_that_refuses_what_is_late(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = SqliteStore(blocking=True)
    slow, other = cached(inner, server.url), cached(inner, server.url)
    say(slow, "sentinel")
    keep = SealedValues.put

    async def erased_meanwhile(shelf: SealedValues, *args: Any) -> None:
        await other.delete(DEFAULT, "conv-1")
        await keep(shelf, *args)

    monkeypatch.setattr(SealedValues, "put", erased_meanwhile)
    assert len(tail(slow)) == 1
    assert set(server.ask("HKEYS", KEY)) == {b"store", b"generation"}
    assert 0 < server.ask("TTL", KEY) <= 60
    assert counts(slow, "refused", "fills") == (1, 0)
    assert tail(slow) == []


def test_erasing_drops_everything_of_the_conversation_and_nothing_else(
    server: RedisServer,
) -> None:
    store = cached(SqliteStore(blocking=True), server.url)
    for scope in (DEFAULT, ACME):
        say(store, "sentinel", scope=scope)
        tail(store, scope=scope)
        drive(store.get_document(scope, "conv-1", "state", "a"))
    drive(store.delete(DEFAULT, "conv-1"))
    assert set(server.ask("HKEYS", KEY)) == {b"store", b"generation"}
    assert server.ask("HLEN", "short_term_memory:session:{acme/conv-1}:cache") == 4


def test_an_erasure_during_an_outage_is_done_when_it_ends(server: RedisServer) -> None:
    proxy = FaultProxy(server.port)
    now = [0.0]
    store = cached(SqliteStore(blocking=True), proxy.url, monotonic=lambda: now[0])
    say(store, "sentinel")
    say(store, "stays", talk="other")
    tail(store)
    proxy.fault = "reset"
    tail(store)
    assert drive(store.delete(DEFAULT, "conv-1")).entries == 1
    assert server.ask("HEXISTS", KEY, "window") == 1
    assert counts(store, "owed-erasures") == (1,)
    proxy.fault, now[0] = "none", 60.0
    drive(store.tail(DEFAULT, "other", tokens=100))
    assert set(server.ask("HKEYS", KEY)) == {b"store", b"generation"}
    assert counts(store, "owed-erasures") == (0,)
    drive(store.close())
    proxy.stop()


def test_a_conversation_with_many_documents_stays_small(server: RedisServer) -> None:
    store = cached(SqliteStore(blocking=True), server.url)
    say(store, "hello")
    for number in range(200):
        drive(store.get_document(DEFAULT, "conv-1", "state", str(number)))
    assert server.ask("HLEN", KEY) <= 66


def test_what_is_too_large_is_not_kept(server: RedisServer) -> None:
    store = cached(SqliteStore(blocking=True), server.url, largest_value=1000)
    say(store, "x" * 2000)
    assert tail(store) == tail(store)
    assert server.ask("KEYS", "*") == []
    assert counts(store, "unfit", "hits") == (2, 0)


def test_an_outage_is_seen_in_health_and_once_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = cached(SqliteStore(blocking=True), f"redis://:hidden@127.0.0.1:{closed_port()}/0")
    say(store, "private words")
    with caplog.at_level(logging.INFO, logger="turnfold"):
        for _ in range(20):
            assert len(tail(store)) == 1
    health = drive(store.health())
    assert health.ok
    assert health.backend == "sqlite+redis"
    assert health.details["redis"] == "open"
    assert "ConnectionError" in health.details["redis.failures"]
    assert any("Redis" in warning for warning in health.warnings)
    assert len(caplog.records) == 1
    assert "private" not in caplog.text
    assert "hidden" not in caplog.text + str(health)


def test_it_claims_what_it_can_keep(server: RedisServer, tmp_path: Any) -> None:
    store = cached(SqliteStore(tmp_path / "store", blocking=True), server.url)
    assert store.abilities == {Ability.DURABLE, Ability.SHARED, Ability.SEARCH}
    drive(store.close())


@pytest.mark.parametrize(
    "options",
    [
        {"ttl_seconds": 0},
        {"timeout_seconds": -1},
        {"longest_pause_seconds": 0},
        {"most_connections": 0},
        {"largest_value": 0},
        {"default_tenant": ""},
        {"redis_url": "http://127.0.0.1"},
        {"redis_url": "unix:///socket", "cluster": True},
    ],
)
def test_an_option_outside_its_range_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        CachedStore(MemoryStore(), **{"redis_url": "redis://127.0.0.1", **options})


def test_without_the_driver_the_error_names_the_extra() -> None:
    code = "import sys; sys.modules['redis'] = None; import turnfold.stores.redis.cache"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, encoding="utf-8"
    )
    assert "pip install 'turnfold[redis]'" in done.stderr


# --------------------------------------------------------------------------------------- in an event loop


async def talk_for_a_while(store: CachedStore, number: int) -> None:
    await store.append(DEFAULT, "conv-1", [NewEntry(user(f"message {number}"))])
    for _ in range(3):
        assert len(await store.tail(DEFAULT, "conv-1", tokens=10_000)) == number


def test_one_loop_after_another_can_use_it(server: RedisServer) -> None:
    store = CachedStore(SqliteStore(), server.url, timeout_seconds=PATIENCE)
    for number in (1, 2, 3):
        asyncio.run(talk_for_a_while(store, number))
    assert server.ask("INFO", "clients")["connected_clients"] <= 2
    asyncio.run(store.close())


def test_more_callers_than_connections_are_served_by_the_store(server: RedisServer) -> None:
    async def crowd() -> None:
        store = CachedStore(SqliteStore(), server.url, timeout_seconds=PATIENCE, most_connections=2)
        await store.append(DEFAULT, "conv-1", [NewEntry(user("hello"))])
        found = await asyncio.gather(
            *(store.tail(DEFAULT, "conv-1", tokens=100) for _ in range(50))
        )
        details = (await store.health()).details
        await store.close()
        assert [len(entries) for entries in found] == [1] * 50
        assert int(details["redis.crowded"]) > 0
        assert details["redis"] == "closed"

    asyncio.run(crowd())


def test_a_cancelled_caller_leaves_the_cache_usable(server: RedisServer) -> None:
    proxy = FaultProxy(server.port)

    async def cancelled() -> None:
        store = CachedStore(SqliteStore(), proxy.url, timeout_seconds=PATIENCE)
        await talk_for_a_while(store, 1)
        proxy.fault = "black hole"
        waiting = asyncio.create_task(store.tail(DEFAULT, "conv-1", tokens=100))
        while not proxy.struck:  # noqa: ASYNC110 (it counts in another thread)
            await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        proxy.fault = "none"
        await talk_for_a_while(store, 2)
        details = (await store.health()).details
        await store.close()
        assert details["redis"] == "closed"
        assert int(details["redis.hits"]) >= 3

    asyncio.run(cancelled())
    proxy.stop()


def test_closing_waits_for_the_calls_on_their_way(server: RedisServer) -> None:
    async def closed_in_the_middle() -> None:
        store = CachedStore(SqliteStore(), server.url, timeout_seconds=PATIENCE)
        await talk_for_a_while(store, 1)
        waiting = [
            asyncio.create_task(store.tail(DEFAULT, "conv-1", tokens=100)) for _ in range(20)
        ]
        await asyncio.sleep(0)
        await store.close()
        await asyncio.gather(*waiting, return_exceptions=True)

    before = server.ask("INFO", "clients")["connected_clients"]
    for _ in range(5):
        asyncio.run(closed_in_the_middle())
    gc.collect()  # a connection left open would warn here
    assert server.ask("INFO", "clients")["connected_clients"] <= before
