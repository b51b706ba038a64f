"""Redis may do anything: random calls through two handles, while it is killed, stalled, emptied, damaged and set back.

Every answer is compared with the durable store's own at the same moment, every error with its own, and at the end
every acknowledged entry must be there. A second run shows that the checker sees what it should: without the fence it
finds stale answers, without the seal damaged ones.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.sizes import REDIS_CALLS
from tests.stores.fault_proxy import FAULTS, Corrupted, Fault, FaultProxy, Flushed, SetBack
from tests.stores.redis_server import RedisServer
from turnfold.errors import TurnfoldError
from turnfold.records import Checkpoint, Document, Entry, NewEntry, assistant, user
from turnfold.runtime import drive
from turnfold.stores import Scope, SqliteStore, Store
from turnfold.stores.redis import cache as redis_cache
from turnfold.stores.redis import cached_values as redis_shelf
from turnfold.stores.redis.cache import CachedStore
from turnfold.stores.redis.cached_values import CachedWindow

SCOPES = (Scope("default"), Scope("acme"))
TALKS = ("conv-1", "对话-2")
WEIGHTS = {
    "append": 8,
    "tail": 20,
    "get_document": 12,
    "put_document": 4,
    "checkpoints": 6,
    "add_checkpoint": 2,
    "drop_document": 1,
    "head": 2,
    "delete": 0.2,
}
QUICK, THOROUGH = REDIS_CALLS.default, REDIS_CALLS.slow


@dataclass
class Tally:
    """What a run found."""

    calls: int = 0
    stale: int = 0
    lost: int = 0
    errors: int = 0

    @property
    def violations(self) -> tuple[int, int, int]:
        return self.stale, self.lost, self.errors


@dataclass
class Run:
    """Two cached handles and the store behind both, used at random."""

    url: str
    seed: int
    inner: Store = field(default_factory=lambda: SqliteStore(blocking=True))
    tally: Tally = field(default_factory=Tally)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)  # noqa: S311 (a run that can be repeated)
        self.handles = [self._handle(), self._handle()]
        self.acknowledged: dict[tuple[Scope, str], dict[int, str]] = {}
        self.names: Counter[tuple[Scope, str]] = Counter()

    def step(self) -> None:
        """One random call through one of the handles, judged at once."""
        self.now += 0.05
        self.tally.calls += 1
        scope, talk = self.dice.choice(SCOPES), self.talk()
        verb = self.dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        store = self.dice.choice(self.handles)
        if verb in ("tail", "get_document", "checkpoints", "head"):
            call = self._reading(verb, scope, talk)
            found, right = outcome(call(store)), outcome(call(self.inner))
            self.tally.stale += found != right
            self.tally.errors += isinstance(found, Exception) and not isinstance(right, Exception)
        else:
            self._write(store, verb, scope, talk)

    def finish(self) -> Tally:
        """Close everything after looking for every acknowledged entry."""
        for (scope, talk), said in self.acknowledged.items():
            found = drive(self.inner.read(scope, talk, limit=1_000_000))
            self.tally.lost += {entry.seq: entry.message.text for entry in found} != said
        for handle in self.handles:
            drive(handle.close())
        return self.tally

    def count(self, name: str) -> int:
        """A counter of both handles together."""
        details = [drive(handle.health()).details for handle in self.handles]
        return sum(int(each[f"redis.{name}"]) for each in details)

    @property
    def failures(self) -> int:
        return sum(sum(handle._cache.engine.breaker.failures.values()) for handle in self.handles)

    def talk(self) -> str:
        return self.dice.choice(TALKS)

    def _handle(self) -> CachedStore:
        return CachedStore(
            self.inner,
            self.url,
            blocking=True,
            longest_pause_seconds=0.5,
            monotonic=lambda: self.now,
        )

    def _reading(
        self, verb: str, scope: Scope, talk: str
    ) -> Callable[[Store], Coroutine[object, None, object]]:
        name = self._living(scope, talk)
        tokens, most = self.dice.choice((10, 60, 300, 5000)), self.dice.choice((0, 0, 0, 3))
        key = self.dice.choice("ab")
        match verb:
            case "tail":
                return lambda store: store.tail(scope, name, tokens=tokens, messages=most)
            case "get_document":
                return lambda store: store.get_document(scope, name, "state", key)
            case "checkpoints":
                return lambda store: store.checkpoints(scope, name)
            case _:
                return lambda store: store.head(scope, name)

    def _write(self, store: Store, verb: str, scope: Scope, talk: str) -> None:
        name, number = self._living(scope, talk), self.tally.calls
        said = self.acknowledged.setdefault((scope, name), {})
        try:
            match verb:
                case "append":
                    texts = [f"第 {number} 次 {'said ' * self.dice.randrange(9)}" for _ in "ab"]
                    new = [NewEntry(user(texts[0])), NewEntry(assistant(texts[1]))]
                    done = drive(store.append(scope, name, new))
                    said.update(zip(range(done.first, done.last + 1), texts, strict=True))
                case "put_document":
                    value = Document("state", self.dice.choice("ab"), str(number).encode(), 0)
                    drive(store.put_document(scope, name, value))
                case "drop_document":
                    drive(store.drop_document(scope, name, "state", self.dice.choice("ab")))
                case "add_checkpoint":
                    drive(self._fold(store, scope, name))
                case _:
                    drive(store.delete(scope, name))
                    said.clear()
                    self.names[scope, talk] += (
                        1  # a deleted name stays deleted: go on with a new one
                    )
        except TurnfoldError:
            self.tally.errors += 1

    async def _fold(self, store: Store, scope: Scope, name: str) -> None:
        head = await self.inner.head(scope, name)
        known = await self.inner.checkpoints(scope, name)
        if head.seq > (known[-1].upto if known else 0):
            made = Checkpoint(f"c{self.tally.calls}", head.checkpoint, head.seq, "摘要", "digest")
            await store.add_checkpoint(scope, name, made)

    def _living(self, scope: Scope, talk: str) -> str:
        return f"{talk}-{self.names[scope, talk]}"


def outcome(call: Coroutine[object, None, object]) -> object:
    try:
        return drive(call)
    except TurnfoldError as error:
        return type(error)
    except Exception as error:
        return error


@pytest.fixture
def server() -> Iterator[RedisServer]:
    server = RedisServer()
    yield server
    server.stop()


@pytest.fixture
def proxy(server: RedisServer) -> Iterator[FaultProxy]:
    proxy = FaultProxy(server.port)
    yield proxy
    proxy.stop()


def endure(fault: Fault, run: Run, calls: int) -> Tally:
    """Random calls with the fault coming and going among them."""
    struck = False
    for number in range(calls):
        run.step()
        if number % 8 == 7 and run.dice.random() < 0.4:
            if struck:
                fault.heal()
            else:
                fault.strike()
            struck = not struck
    if struck:
        fault.heal()
    assert fault.shows(run), "the fault was not felt: the run proves nothing"
    assert run.count("hits") > 0, "nothing was ever served from the cache: the run proves nothing"
    return run.finish()


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
def test_no_fault_shows_in_any_answer(
    kind: type[Fault], server: RedisServer, proxy: FaultProxy
) -> None:
    run = Run(proxy.url, seed=7)
    tally = endure(kind(server, proxy, run.dice), run, QUICK)
    assert tally.violations == (0, 0, 0)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
def test_no_fault_shows_in_ten_thousand_answers(
    kind: type[Fault],
    server: RedisServer,
    proxy: FaultProxy,
    record_property: Callable[[str, object], None],
) -> None:
    run = Run(proxy.url, seed=11)
    tally = endure(kind(server, proxy, run.dice), run, THOROUGH)
    record_property("tally", str(tally))
    print(f"\n{kind.__name__:12} {tally} hits {run.count('hits')} joined {run.count('joined')}")  # noqa: T201
    assert tally.violations == (0, 0, 0)


def test_without_the_fence_the_checker_finds_stale_answers(
    server: RedisServer, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_cache, "is_fresh", lambda _kept, _now: True)
    run = Run(proxy.url, seed=7)
    assert endure(Flushed(server, proxy, run.dice), run, QUICK).stale > 0


def test_without_the_seal_the_checker_finds_damaged_answers(
    server: RedisServer, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    import msgspec

    def trusting(sealed: bytes, kind: type[Any], *_: object, **__: object) -> Any:
        try:
            return msgspec.msgpack.decode(sealed[16:], type=kind)
        except (msgspec.MsgspecError, UnicodeError):
            return None

    monkeypatch.setattr(redis_shelf, "open_sealed", trusting)
    run = Run(proxy.url, seed=7)
    fault = Corrupted(server, proxy, run.dice)
    monkeypatch.setattr(fault, "shows", lambda _run: True)
    assert endure(fault, run, 2 * QUICK).stale > 0


def test_without_the_same_newest_entry_the_checker_finds_a_wrong_join(
    server: RedisServer, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def careless(window: CachedWindow, head: Any, _newer: list[Entry]) -> CachedWindow:
        return CachedWindow(head, window.budget, window.rows)

    monkeypatch.setattr(redis_cache, "extend_window", careless)
    run = Run(proxy.url, seed=7)
    assert endure(SetBack(server, proxy, run.dice), run, QUICK).stale > 0


def test_expiry_at_any_moment_changes_no_answer(server: RedisServer) -> None:
    calm = Run(f"{server.url[:-1]}1", seed=3, inner=SqliteStore(blocking=True, clock=lambda: 1))
    vexed = Run(server.url, seed=3, inner=SqliteStore(blocking=True, clock=lambda: 1))
    dice = random.Random(5)  # noqa: S311 (a run that can be repeated)
    for _ in range(2 * QUICK):
        seen = [transcript(run) for run in (calm, vexed)]
        assert seen[0] == seen[1]
        for key in server.ask("KEYS", "*") if dice.random() < 0.3 else ():
            server.ask(*dice.choice((("DEL", key), ("PEXPIRE", key, 1))))
    assert (calm.finish().violations, vexed.finish().violations) == ((0, 0, 0), (0, 0, 0))


def transcript(run: Run) -> object:
    run.step()
    return [
        outcome(run.handles[0].tail(scope, run._living(scope, talk), tokens=60))
        for scope in SCOPES
        for talk in TALKS
    ]
