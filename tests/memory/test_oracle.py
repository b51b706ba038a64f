"""Contexts of random schedules, judged by an oracle that reads the whole log: under faults, on every store.

A failure prints its seed: `run_schedule(seed, KINDS["kills"])` repeats it. The defects this oracle was made for are put
back one by one at the end, and it must find each of them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.memory.fold_actors import COUNTER, NOW
from tests.memory.schedules import Kind, run_schedule, run_schedules
from tests.stores.epochs import draw_one_epoch
from turnfold.budget import Budget
from turnfold.memory import fold_keeper, follower
from turnfold.memory.assembling import Assembler
from turnfold.memory.drive import drive
from turnfold.memory.fold_keeper import FoldKeeper
from turnfold.memory.follower import StateLock
from turnfold.stores import open_store
from turnfold.stores.protocol import Store

KINDS = {
    kind.name: kind
    for kind in (
        Kind("plain"),
        Kind("crowd", handles=3, acts=4),
        Kind("long", acts=10),
        Kind("cancelled", interrupts=0.4),
        Kind("interrupted", interrupts=0.4, lines=True),
        Kind("killed", kills=0.2),
        Kind("failed over", failovers=1),
        Kind("huge", huge=0.8),
        Kind("reports", acts=5, reports=True),
    )
}
_SHARDS = 4
_EACH = int(os.environ.get("TURNFOLD_SCHEDULES", "0"))
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Models fail by the thousand here: nobody reads what is logged of it."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def told(found: Mapping[int, Sequence[str]]) -> str:
    return "\n".join(f"seed {seed}: {'; '.join(faults[:4])}" for seed, faults in found.items())


@pytest.mark.parametrize("kind", KINDS)
def test_every_context_is_right(kind: str) -> None:
    found = run_schedules(range(250), KINDS[kind])
    assert not found, told(found)


@pytest.mark.slow
@pytest.mark.timeout(36_000)
@pytest.mark.parametrize("shard", range(_SHARDS))
@pytest.mark.parametrize("kind", KINDS)
def test_every_context_of_a_million_schedules_is_right(kind: str, shard: int) -> None:
    """1,000,000 schedules over all kinds and shards; TURNFOLD_SCHEDULES sets another number for each."""
    each = _EACH or -(-1_000_000 // (len(KINDS) * _SHARDS))
    first = 1_000_000 + shard * each
    found = run_schedules(range(first, first + each), KINDS[kind])
    assert not found, told(found)


def _opened(url: str, **options: Any) -> Store:
    return open_store(url, counter=COUNTER, blocking=True, clock=lambda: NOW, **options)


@pytest.mark.parametrize("kind", ["crowd", "interrupted", "killed", "huge"])
def test_every_context_is_right_on_sqlite(kind: str, tmp_path: Path) -> None:
    store = _opened(f"sqlite:///{tmp_path}/schedules.db")
    for seed in range(12):
        found = run_schedule(seed, KINDS[kind], store=store)
        assert not found, told({seed: found})
    drive(store.close())


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("kind", ["crowd", "killed"])
def test_every_context_is_right_on_servers(kind: str, tmp_path: Path, *, cached: bool) -> None:
    pytest.importorskip("psycopg", reason="needs psycopg")
    pytest.importorskip("redis", reason="needs redis")
    from tests.memory.short_places import as_url
    from tests.stores.redis_server import shared_url
    from tests.stores.servers import PostgresPlaces

    places = PostgresPlaces()
    try:
        options = {"cache": shared_url()} if cached else {}
        store = _opened(as_url(places.url(tmp_path)), **options)
        for seed in range(5):
            found = run_schedule(seed, KINDS[kind], store=store)
            assert not found, told({seed: found})
        drive(store.close())
    finally:
        places.sweep()
        places.close()


# ---------------------------------------------------------------------------------------------- defects put back


def found_with(kind: str, *, seeds: int = 250) -> set[str]:
    """The kinds of faults found in the first schedules in which there are some."""
    faults: set[str] = set()
    for seed in range(seeds):
        faults |= {fault.partition(":")[0] for fault in run_schedule(seed, KINDS[kind])}
        if len(faults) > 1:
            break
    return faults


def test_c1_a_huge_result_that_empties_the_context_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """How much of the log is read is decided by raw cost, and a fold waits until the window moves."""
    before = Assembler._fold_before

    def uncapped(budget: Budget) -> int:
        return 1_000 * budget.tokens

    async def waits(self: Assembler, wanted: Any, context: Any, around: Any, *, ask: bool) -> bool:
        window = await self.follower.window(wanted.budget)
        if self._in_tool_loop(window) and not context.moved:
            return False
        return ask and await before(self, wanted, context, around, ask=ask)

    monkeypatch.setattr(follower, "_largest", uncapped)
    monkeypatch.setattr(Assembler, "_fold_before", waits)
    assert "nowhere" in found_with("huge")


def test_c2_messages_nowhere_while_a_fold_is_slow_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never(*_: object, **__: object) -> bool:
        return False

    monkeypatch.setattr(FoldKeeper, "stand_in", never)
    assert "nowhere" in found_with("plain")


def test_c4_a_lost_history_that_is_taken_for_this_one_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw_one_epoch(monkeypatch)
    assert {"invented", "ahead"} & found_with("failed over", seeds=500)


def test_h1_what_an_interrupt_left_half_changed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def enter(self: StateLock) -> None:
        await self._lock.__aenter__()

    monkeypatch.setattr(StateLock, "__aenter__", enter)
    assert found_with("interrupted")


def test_a_lease_that_is_believed_for_ever_leaves_nothing_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who cannot fold stands in: leases only save work."""
    monkeypatch.setattr(fold_keeper.FoldKeeper, "_holds", lambda *_: True)
    found = run_schedules(range(60), KINDS["killed"])
    assert not found, told(found)
