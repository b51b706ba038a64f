"""Expiry never changes an answer: of two twins with a cache one loses what it keeps, at any moment; nobody can tell.

Both are given the same random calls. Before each call of the vexed twin, and before each command it sends to Redis in
the course of one, its keys may expire, be evicted or be flushed. Every answer and every error must be its twin's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.sizes import EXPIRIES, POSTGRES_EXPIRIES
from tests.stores.redis_server import PATIENCE, RedisServer, redis
from tests.stores.servers import PostgresPlaces, postgres_places
from turnfold.errors import TurnfoldError
from turnfold.records import Checkpoint, Document, NewEntry, assistant, user
from turnfold.runtime import drive
from turnfold.stores import Scope, SqliteStore, Store
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.redis.cache import CachedStore
from turnfold.testing.stores.sample_values import comparable

__all__ = ("postgres_places",)

Call: TypeAlias = Callable[[Store], Coroutine[Any, Any, object]]
SCOPES = (Scope("default"), Scope("acme"))
WEIGHTS = {
    "append": 8,
    "retry": 1,
    "expect": 1,
    "tail": 14,
    "read": 2,
    "get_document": 10,
    "put_document": 4,
    "drop_document": 1,
    "documents": 1,
    "checkpoints": 6,
    "add_checkpoint": 2,
    "head": 2,
    "conversations": 1,
    "search": 0.5,
    "delete": 0.3,
}


class Calls:
    """An endless row of random calls, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)  # noqa: S311 (a run that can be repeated)
        self._lives = dict.fromkeys(
            [(scope, talk) for scope in SCOPES for talk in ("a", "对话")], 0
        )
        self._number = 0

    def __iter__(self) -> Iterator[Call]:
        while True:
            self._number += 1
            verb = self._dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            scope, talk = self._dice.choice(list(self._lives))
            name = f"{talk}-{self._lives[scope, talk]}"
            # Now and then somebody asks for a conversation that was erased.
            if self._dice.random() < 0.05:
                name = f"{talk}-{max(0, self._lives[scope, talk] - 1)}"
            elif verb == "delete":
                self._lives[scope, talk] += 1
            if verb in ("tail", "read", "get_document", "documents", "checkpoints", "head"):
                yield self._question(verb, scope, name)
            elif verb in ("conversations", "search"):
                yield self._search(verb, scope)
            else:
                yield self._change(verb, scope, name)

    def _question(self, verb: str, scope: Scope, name: str) -> Call:
        tokens, most = self._dice.choice((10, 60, 300, 5000)), self._dice.choice((0, 0, 0, 3))
        after, key = self._dice.randrange(40), self._dice.choice("ab")
        match verb:
            case "tail":
                return lambda store: store.tail(scope, name, tokens=tokens, messages=most)
            case "read":
                return lambda store: store.read(scope, name, after=after, limit=20)
            case "get_document":
                return lambda store: store.get_document(scope, name, "state", key)
            case "documents":
                return lambda store: store.documents(scope, name, "state")
            case "checkpoints":
                return lambda store: store.checkpoints(scope, name)
            case _:
                return lambda store: store.head(scope, name)

    def _search(self, verb: str, scope: Scope) -> Call:
        if verb == "search":
            word = f"w{self._dice.randrange(20)}"
            return lambda store: store.search(scope, [word], limit=5)
        return lambda store: store.conversations(scope, limit=10)

    def _change(self, verb: str, scope: Scope, name: str) -> Call:
        number, key = self._number, self._dice.choice("ab")
        texts = [f"w{number % 20} 第 {number} 次 {'said ' * self._dice.randrange(9)}" for _ in "ab"]
        # A retry names the ids of an earlier batch, most often with another body: an error is an answer too.
        back = self._dice.choice((0, 20)) if verb == "retry" else 0
        ids = [f"{(number - back) // 10}-{part}" if back else f"n{number}-{part}" for part in "ab"]
        batch = [NewEntry(user(texts[0]), ids[0]), NewEntry(assistant(texts[1]), ids[1])]
        expect = self._dice.choice((None, 1, 2)) if verb == "put_document" else None
        match verb:
            case "append" | "retry":
                return lambda store: store.append(scope, name, batch)
            case "expect":
                return lambda store: store.append(scope, name, batch, expect=number % 7)
            case "put_document":
                value = Document("state", key, str(number).encode(), 0)
                return lambda store: store.put_document(scope, name, value, expect=expect)
            case "drop_document":
                return lambda store: store.drop_document(scope, name, "state", key)
            case "add_checkpoint":
                return lambda store: _fold(store, scope, name, f"c{number}")
            case _:
                return lambda store: store.delete(scope, name)


async def _fold(store: Store, scope: Scope, name: str, checkpoint: str) -> object:
    head = await store.head(scope, name)
    made = Checkpoint(checkpoint, head.checkpoint, head.seq, "摘要", "digest")
    return await store.add_checkpoint(scope, name, made)


class Vexation:
    """Takes keys away from one database of a server, at random."""

    def __init__(self, server: RedisServer, store: CachedStore) -> None:
        self._client: Any = redis.Redis(port=server.port, socket_timeout=PATIENCE, protocol=2)
        self._dice = random.Random(5)  # noqa: S311 (a run that can be repeated)
        self.struck = 0
        engine = store._cache.engine
        ask = engine._call

        async def vexed(*words: Any) -> object:
            self.strike(0.2)
            return await ask(*words)

        setattr(engine, "_call", vexed)  # noqa: B010 (a method is replaced on purpose)

    def strike(self, share: float) -> None:
        if self._dice.random() >= share:
            return
        keys = self._client.execute_command("KEYS", "*")
        if not keys:
            return
        self.struck += 1
        key = self._dice.choice(keys)
        field = self._dice.choice((b"window", b"checkpoints", b"generation", b"store"))
        blows = (("FLUSHDB",), ("DEL", key), ("PEXPIRE", key, 0), ("HDEL", key, field))
        self._client.execute_command(*self._dice.choice(blows))

    def close(self) -> None:
        self._client.close()


def cached(inner: Store, url: str) -> CachedStore:
    return CachedStore(inner, url, blocking=True, timeout_seconds=PATIENCE)


def differing(
    server: RedisServer, calm: CachedStore, vexed: CachedStore, pairs: int, seed: int
) -> list[tuple[int, object, object]]:
    """The pairs of answers that are not the same."""
    vexation = Vexation(server, vexed)
    found: list[tuple[int, object, object]] = []
    for number, call in zip(range(pairs), Calls(seed), strict=False):
        vexation.strike(0.3)
        answers = outcome(call(calm)), outcome(call(vexed))
        if answers[0] != answers[1]:
            found.append((number, *answers))
    hits = [int(drive(store.health()).details["redis.hits"]) for store in (calm, vexed)]
    vexation.close()
    for store in (calm, vexed):
        drive(store.close())
    assert vexation.struck > pairs // 10, "hardly anything expired: the run proves nothing"
    assert hits[0] > hits[1] > 0, "nothing was served from a cache, or nothing lost from one"
    return found


def outcome(call: Coroutine[Any, Any, object]) -> object:
    try:
        return comparable(drive(call))
    except TurnfoldError as error:
        return type(error), str(error)


@pytest.fixture
def server() -> Iterator[RedisServer]:
    server = RedisServer()
    yield server
    server.stop()


def in_memory(server: RedisServer) -> tuple[CachedStore, CachedStore]:
    inner = [SqliteStore(blocking=True, clock=lambda: 1) for _ in "ab"]
    return cached(inner[0], f"{server.url[:-1]}1"), cached(inner[1], server.url)


@pytest.mark.parametrize("pairs", EXPIRIES.values())
def test_expiry_at_any_moment_changes_no_answer(server: RedisServer, pairs: int) -> None:
    assert differing(server, *in_memory(server), pairs, seed=pairs) == []


@pytest.mark.parametrize("pairs", POSTGRES_EXPIRIES.values())
def test_nor_does_it_in_front_of_postgres(
    server: RedisServer, postgres_places: PostgresPlaces, tmp_path: Path, pairs: int
) -> None:
    urls = [postgres_places.url(tmp_path / name) for name in ("calm", "vexed")]
    inner = [PostgresStore(url, blocking=True, clock=lambda: 1) for url in urls]
    calm, vexed = cached(inner[0], f"{server.url[:-1]}1"), cached(inner[1], server.url)
    assert differing(server, calm, vexed, pairs, seed=pairs) == []
    postgres_places.sweep()


class Forgetful(CachedStore):
    """A cache that takes itself for the truth: what it does not keep, there is not."""

    async def get_document(
        self, scope: Scope, conversation: str, kind: str, key: str
    ) -> Document | None:
        before = self._cache.counts.hits
        found = await super().get_document(scope, conversation, kind, key)
        return found if self._cache.counts.hits > before or found is None else None


def test_a_cache_that_takes_itself_for_the_truth_is_noticed(server: RedisServer) -> None:
    twins = in_memory(server)
    for twin in twins:
        setattr(twin, "__class__", Forgetful)  # noqa: B010 (the same store with another verb)
    assert differing(server, *twins, 300, seed=3) != []
