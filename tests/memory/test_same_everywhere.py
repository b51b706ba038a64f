"""One history, every store, every process: the same context, byte for byte, at every call.

Messages, costs, places in the log, anchor and fates are compared with those of the memory store. Handles change on the
way: a fresh one knows only what the store holds, so that nothing a process happens to remember may show.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from tests.house.source_tree import ROOT
from tests.memory.fold_actors import COUNTER
from tests.memory.golden_histories import (
    GOLDEN,
    HISTORIES,
    history,
    in_memory,
    noon,
    options,
    replayed,
    steps,
    summarised,
)
from turnfold.memory import AsyncMemory, AsyncSession, ConversationCache, Memory
from turnfold.memory.live_window import LiveWindow
from turnfold.records import WindowNote
from turnfold.stores import MemoryStore, SqliteStore, Store

SOME = range(16)
FEW = range(4)
ALL = pytest.param(range(HISTORIES), marks=[pytest.mark.slow, pytest.mark.timeout(3_600)], id="all")
_names = count(1)


@cache
def expected(seed: int) -> tuple[str, ...]:
    return tuple(in_memory(seed))


def changing_hands(store: Store, seed: int) -> Callable[[int], AsyncSession]:
    """Three handles in turns, one of which is new every time it is used."""
    name = f"history {seed} {next(_names)}"
    dice = random.Random(seed)  # noqa: S311 (a run that can be repeated)
    made = options(seed)
    kept = [Memory(store, **made).awaiting.session(name) for _ in range(2)]  # pyright: ignore[reportArgumentType] (made there)

    def handle(_: int) -> AsyncSession:
        chosen = dice.randrange(5)
        if chosen == 4:
            return Memory(store, **made).awaiting.session(name)  # pyright: ignore[reportArgumentType] (made there)
        return kept[chosen % 2]

    return handle


def differences(store: Store, seeds: range) -> list[int]:
    """The seeds of the histories that are shown otherwise."""
    return [
        seed
        for seed in seeds
        if tuple(replayed(seed, changing_hands(store, seed))) != expected(seed)
    ]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Store]:
    from tests.stores.servers import fresh_database
    from turnfold.runtime import drive
    from turnfold.stores.postgres.store import PostgresStore

    store = PostgresStore(fresh_database(), counter=COUNTER, blocking=True, clock=noon)
    yield store
    drive(store.close())


@pytest.mark.parametrize("seeds", [pytest.param(SOME, id="some"), ALL])
def test_the_memory_store_in_changing_hands(seeds: range) -> None:
    assert differences(MemoryStore(counter=COUNTER, clock=noon), seeds) == []


@pytest.mark.parametrize("seeds", [pytest.param(SOME, id="some"), ALL])
def test_sqlite_in_changing_hands(seeds: range) -> None:
    assert differences(SqliteStore(None, counter=COUNTER, blocking=True, clock=noon), seeds) == []


@pytest.mark.parametrize("seeds", [pytest.param(FEW, id="few"), ALL])
def test_postgres_in_changing_hands(postgres: Store, seeds: range) -> None:
    assert differences(postgres, seeds) == []


@pytest.mark.parametrize("seeds", [pytest.param(FEW, id="few"), ALL])
def test_postgres_behind_redis_in_changing_hands(postgres: Store, seeds: range) -> None:
    from tests.stores.redis_server import PATIENCE, shared_url
    from turnfold.stores.redis.cache import CachedStore

    cached = CachedStore(postgres, shared_url(), blocking=True, timeout_seconds=PATIENCE)
    assert differences(cached, seeds) == []


@pytest.mark.parametrize("seeds", [pytest.param(FEW, id="few"), ALL])
def test_with_an_event_loop(tmp_path: Path, seeds: range) -> None:
    async def replay(seed: int) -> list[str]:
        made = options(seed)
        url = f"sqlite:///{tmp_path / f'{seed}.db'}"
        found: list[str] = []
        acts = history(seed)
        half = len(acts) // 2
        for part in (acts[:half], acts[half:]):
            async with AsyncMemory(url, **made) as memory:  # pyright: ignore[reportArgumentType] (made there)
                found += await steps(memory.session("c"), part)
        return found

    for seed in seeds:
        assert tuple(asyncio.run(replay(seed))) == expected(seed), seed


SECOND_HALF = """
import sys
from tests.memory.golden_histories import history, options, steps
from turnfold.memory import Memory
from turnfold.runtime import drive
seed, half = int(sys.argv[2]), int(sys.argv[3])
with Memory(sys.argv[1], **options(seed)) as memory:
    print(*drive(steps(memory.awaiting.session("c"), history(seed)[half:])), sep="\\n")
"""


@pytest.mark.parametrize("seed", FEW[:2])
def test_a_second_process_goes_on_where_the_first_ended(tmp_path: Path, seed: int) -> None:
    url = f"sqlite:///{tmp_path / 'chat.db'}"
    half = len(history(seed)) // 2
    with Memory(url, **options(seed)) as memory:  # pyright: ignore[reportArgumentType] (made there)
        session = memory.awaiting.session("c")
        first = [shown for number in range(half) for shown in _one(session, seed, number)]
    finished = subprocess.run(
        [sys.executable, "-c", SECOND_HALF, url, str(seed), str(half)],
        capture_output=True,
        check=False,
        encoding="utf-8",
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONHASHSEED": str(seed + 1),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
        },
    )
    assert finished.returncode == 0, finished.stderr
    assert (*first, *finished.stdout.splitlines()) == expected(seed)


def _one(session: AsyncSession, seed: int, number: int) -> list[str]:
    from turnfold.runtime import drive

    return drive(steps(session, [history(seed)[number]]))


def test_contexts_are_those_of_the_last_release() -> None:
    """See golden_histories.py for the command that writes the file anew."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert len(golden) >= 10
    assert {seed: summarised(expected(int(seed))) for seed in golden} == golden


def test_the_histories_fold_cut_and_shorten() -> None:
    """Otherwise there would be little to agree on."""
    made = [expected(seed) for seed in SOME]
    assert sum(map(len, made)) > 150
    assert len({shown for shown_in_one in made for shown in shown_in_one}) > 150
    verbs = {act.verb for seed in SOME for act in history(seed)}
    assert verbs == {"add", "clear", "context", "fold", "pin", "query", "state", "system", "unpin"}  # fmt: skip


@pytest.mark.slow  # shows that the tests above can fail
def test_a_window_that_depends_on_its_process_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = ConversationCache._load_window

    async def forgetful(self: ConversationCache, note: WindowNote) -> LiveWindow:
        if (
            note.anchor > 3
        ):  # a process that forgot what the note says was shortened, and whose question it shows
            note = WindowNote(anchor=note.anchor, reason=note.reason)
        return await begin(self, note)

    right = [expected(seed) for seed in SOME]
    monkeypatch.setattr(ConversationCache, "_load_window", forgetful)
    store = MemoryStore(counter=COUNTER, clock=noon)
    assert right != [tuple(replayed(seed, changing_hands(store, seed))) for seed in SOME]
