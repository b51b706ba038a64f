"""Many callers at once through two handles: what a read returns is never older than what was acknowledged before it.

A conversation is a list that only grows, so a history is easy to judge: a tail must reach at least the newest entry
acknowledged before the read began, without gaps and with the very texts that were appended; a document must be at
least as new as the newest version acknowledged by then, and its body must be the one that version was given.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.stores.fault_proxy import FaultProxy
from tests.stores.redis_server import PATIENCE, RedisServer
from turnfold.errors import Conflict
from turnfold.records import Document, Entry, NewEntry, user
from turnfold.stores import Head, Scope, SqliteStore
from turnfold.stores.redis import cache as redis_cache
from turnfold.stores.redis.cache import CachedStore
from turnfold.stores.redis.cached_values import CachedWindow

ALICE = Scope("alice")
TALK = "talk"
WRITERS, READERS, STEPS = 3, 5, 40
WIRE_FAULTS = ("reset", "black hole", "truncated", "garbage", "duplicated", "old reply")


@dataclass
class History:
    """What was acknowledged, and what contradicted it."""

    texts: dict[int, str] = field(default_factory=dict[int, str])
    bodies: dict[int, bytes] = field(default_factory=dict[int, bytes])
    newest: int = 0
    version: int = 0
    faults: list[str] = field(default_factory=list[str])
    reads: int = 0

    def judge_tail(self, entries: list[Entry], before: int) -> None:
        self.reads += 1
        seqs = [entry.seq for entry in entries]
        if before and (not seqs or seqs[-1] < before):
            self.faults.append(f"stale: ends at {seqs[-1:]} after {before} was acknowledged")
        if seqs and seqs != list(range(seqs[0], seqs[-1] + 1)):
            self.faults.append(f"gap: {seqs}")
        self.faults += [
            f"wrong text at {entry.seq}"
            for entry in entries
            if self.texts.get(entry.seq, entry.message.text) != entry.message.text
        ]

    def judge_document(self, found: Document | None, before: int) -> None:
        self.reads += 1
        version = found.version if found else 0
        if version < before:
            self.faults.append(f"stale: version {version} after {before} was acknowledged")
        if found and self.bodies.get(version, found.body) != found.body:
            self.faults.append(f"wrong body of version {version}")


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


async def write(store: CachedStore, history: History, name: str) -> None:
    for number in range(STEPS):
        text = f"{name}-{number}"
        done = await store.append(ALICE, TALK, [NewEntry(user(text))])
        history.texts[done.first] = text
        history.newest = max(history.newest, done.last)
        try:
            value = Document("state", "session", text.encode(), 0)
            put = await store.put_document(ALICE, TALK, value, expect=history.version)
        except Conflict:
            continue
        history.bodies[put.document.version] = put.document.body
        history.version = max(history.version, put.document.version)


async def read(store: CachedStore, history: History, tokens: int) -> None:
    for _ in range(2 * STEPS):
        before = history.newest
        history.judge_tail(await store.tail(ALICE, TALK, tokens=tokens), before)
        before = history.version
        found = await store.get_document(ALICE, TALK, "state", "session")
        history.judge_document(found, before)
        await asyncio.sleep(0)


async def disturb(proxy: FaultProxy, server: RedisServer, dice: random.Random) -> None:
    while True:
        await asyncio.sleep(dice.random() / 20)
        fault: Any = dice.choice(("none", "none", *WIRE_FAULTS))
        proxy.fault = fault
        if dice.random() < 0.2:
            await asyncio.to_thread(server.ask, "FLUSHALL")


async def live(proxy: FaultProxy, vexation: Callable[[], Any] | None) -> tuple[History, int]:
    inner = SqliteStore()
    options: dict[str, Any] = {"longest_pause_seconds": 0.05}
    if vexation is None:
        options["timeout_seconds"] = PATIENCE
    stores = [CachedStore(inner, proxy.url, **options) for _ in "ab"]
    history = History()
    await write(stores[0], history, "first")
    await read(stores[1], history, 500)
    trouble = asyncio.create_task(vexation()) if vexation else None
    await asyncio.gather(
        *(write(stores[number % 2], history, f"w{number}") for number in range(WRITERS)),
        *(read(stores[number % 2], history, 20 + 200 * number) for number in range(READERS)),
    )
    if trouble:
        trouble.cancel()
        await asyncio.gather(trouble, return_exceptions=True)
    left = await inner.read(ALICE, TALK, limit=10_000)
    if {entry.seq: entry.message.text for entry in left} != history.texts:
        history.faults.append("lost")
    details = [(await store.health()).details for store in stores]
    for store in stores:
        await store.close()
    return history, sum(
        int(each[f"redis.{name}"]) for each in details for name in ("hits", "joined")
    )


def test_no_read_is_older_than_what_was_acknowledged_before_it(proxy: FaultProxy) -> None:
    history, served = asyncio.run(live(proxy, None))
    assert history.faults == []
    assert history.reads == (READERS + 1) * 4 * STEPS
    assert served > 0


def test_nor_is_it_while_the_wire_misbehaves(proxy: FaultProxy, server: RedisServer) -> None:
    dice = random.Random(1)  # noqa: S311 (a run that can be repeated)
    history, served = asyncio.run(live(proxy, lambda: disturb(proxy, server, dice)))
    assert history.faults == []
    assert served > 0
    assert proxy.struck > 0


def test_without_the_fence_the_history_shows_stale_reads(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unfenced(_kept: Head, _now: Head) -> bool:
        return True

    monkeypatch.setattr(redis_cache, "is_fresh", unfenced)
    history, _ = asyncio.run(live(proxy, None))
    assert any(fault.startswith("stale") for fault in history.faults)


def test_with_a_careless_join_the_history_shows_it(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def careless(window: CachedWindow, head: Head, _newer: list[Entry]) -> CachedWindow:
        return CachedWindow(head, window.budget, window.rows)

    monkeypatch.setattr(redis_cache, "extend_window", careless)
    history, _ = asyncio.run(live(proxy, None))
    assert history.faults != []
