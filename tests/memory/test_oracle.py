"""Contexts of random schedules, judged by an oracle that reads the whole log: under faults, on every store.

A failure prints its seed: `run_schedule(seed, KINDS["kills"])` repeats it. The defects this oracle was made for are put
back one by one at the end, and it must find each of them.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from tests.memory.fold_actors import COUNTER, NOW
from tests.memory.schedules import Kind, run_schedule, run_schedules
from tests.sizes import SCHEDULES
from tests.stores.epochs import draw_one_epoch
from turnfold.budget import Budget
from turnfold.memory import AsyncMemory, ConversationCache, cached_conversation, leases
from turnfold.memory.cached_conversation import StateLock
from turnfold.memory.call_log import CALL
from turnfold.memory.context import ContextBuilder
from turnfold.memory.folding import FoldManager
from turnfold.records import Document, Usage
from turnfold.runtime import drive
from turnfold.stores import Scope, Store, Written, open_store

TALK = ("turn", "turn", "loop")
KINDS = {
    kind.name: kind
    for kind in (
        Kind("plain"),
        Kind("crowd", handles=3),
        Kind("long", acts=8),
        Kind("cancelled", interrupts=0.4),
        Kind("interrupted", handles=1, acts=6, interrupts=0.4, lines=True),
        Kind("interrupted pair", acts=4, interrupts=0.4, lines=True),
        Kind("killed", kills=0.2),
        Kind("failed over", failovers=1),
        Kind("huge", huge=0.8),
        Kind("reports", handles=1, acts=6, does=(*TALK, "look", "look"), reports=True),
        Kind("cleared", does=(*TALK, "look", "clear")),
    )
}
PERCENT = {
    "plain": 12,
    "crowd": 7,
    "long": 2,
    "cancelled": 20,
    "interrupted": 14,
    "interrupted pair": 3,
    "killed": 14,
    "failed over": 12,
    "huge": 5,
    "reports": 7,
    "cleared": 4,
}
"""How many of a hundred schedules of the slow suite are of each kind: the longer they take, the fewer."""
_SHARDS = 4
_SCHEDULES = int(os.environ.get("TURNFOLD_SCHEDULES") or SCHEDULES.slow)
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
    found = run_schedules(range(SCHEDULES.default * PERCENT[kind] // 100), KINDS[kind])
    assert not found, told(found)


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        (
            "failed over",
            1_075_027,
        ),  # the text of an extract was lost, the note that names it was not
        ("failed over", 1_057_449),
        ("failed over", 1_014_654),  # a checkpoint was lost, the entries it covered were not
        ("failed over", 1_092_639),  # nothing of the conversation was left
        ("interrupted pair", 1_023_654),  # a model answered only when all was quiet
        ("cancelled", 1_009_741),  # beside a placeholder for a missing result a turn does not fit
        ("cancelled", 1_052_633),
    ],
)
def test_schedules_that_once_failed(kind: str, seed: int) -> None:
    assert not run_schedule(seed, KINDS[kind])


@pytest.mark.slow
@pytest.mark.timeout(60 * SCHEDULES.minutes)
@pytest.mark.parametrize("shard", range(_SHARDS))
@pytest.mark.parametrize("kind", KINDS)
def test_every_context_of_a_million_schedules_is_right(kind: str, shard: int) -> None:
    """1,000,000 schedules over all kinds and shards; TURNFOLD_SCHEDULES sets another number."""
    each = -(-_SCHEDULES * PERCENT[kind] // (100 * _SHARDS))
    first = 1_000_000 + shard * each
    found = run_schedules(range(first, first + each), KINDS[kind])
    assert not found, told(found)


def _opened(url: str, **options: Any) -> Store:
    return open_store(url, counter=COUNTER, blocking=True, clock=lambda: NOW, **options)


@pytest.mark.parametrize("kind", ["crowd", "interrupted pair", "killed", "huge"])
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


@pytest.mark.slow  # shows that the tests above can fail
def test_c1_a_huge_result_that_empties_the_context_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """How much of the log is read is decided by raw cost, and a fold waits until the window moves."""
    before = ContextBuilder._fold_before

    def uncapped(budget: Budget) -> int:
        return 1_000 * budget.tokens

    async def waits(
        self: ContextBuilder, request: Any, context: Any, prompt: Any, *, ask: bool
    ) -> bool:
        window = await self.cache.window(request.budget)
        if self._in_tool_loop(window) and not context.moved:
            return False
        return ask and await before(self, request, context, prompt, ask=ask)

    monkeypatch.setattr(cached_conversation, "_largest", uncapped)
    monkeypatch.setattr(ContextBuilder, "_fold_before", waits)
    assert "nowhere" in found_with("huge")


@pytest.mark.slow  # shows that the tests above can fail
def test_c2_messages_nowhere_while_a_fold_is_slow_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never(*_: object, **__: object) -> bool:
        return False

    monkeypatch.setattr(FoldManager, "stand_in", never)
    assert "nowhere" in found_with("plain")


def count_reports_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put back what a report of usage did before: one generation more, whatever was read, and no epoch to compare."""

    def queue_write(self: ConversationCache, written: Written) -> None:
        del written
        self._state = (self._state[0] + 1, self._state[1])

    monkeypatch.setattr(ConversationCache, "queue_write", queue_write)
    draw_one_epoch(monkeypatch)


class LateReply:
    """A store whose reply to a report of usage waits until it is let go; the report itself is committed."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.committed, self.let_go = asyncio.Event(), asyncio.Event()

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._inner, verb)

    async def put_document(
        self, scope: Scope, conversation: str, document: Document, **options: Any
    ) -> Written:
        written = await self._inner.put_document(scope, conversation, document, **options)
        if document.kind == CALL and options.get("expect"):
            self.committed.set()
            await self.let_go.wait()
        return written


async def shown_after_a_late_reply(url: str, refreshes: str) -> list[str]:
    """The context after a question, where something was read between a report of usage and the reply to it."""
    store = LateReply(open_store(url))
    async with AsyncMemory(cast("Store", store), budget=Budget(max_tokens=4_000)) as memory:
        session = memory.session("talk")
        await session.user("first question")
        await session.context()
        await session.assistant("first answer")
        report = asyncio.create_task(session.record_usage(Usage(input=10, output=1)))
        await store.committed.wait()
        await getattr(session, refreshes)()
        store.let_go.set()
        await report
        await session.user("second question")
        return [message.text for message in (await session.context()).messages]


_REFRESHING = ["status", "pins", "context", "fold"]


@pytest.mark.parametrize("refreshes", _REFRESHING)
def test_a_late_reply_to_a_report_of_usage_hides_no_question(
    refreshes: str, tmp_path: Path
) -> None:
    shown = asyncio.run(shown_after_a_late_reply(f"sqlite:///{tmp_path}/late.db", refreshes))
    assert shown[-1] == "second question"


@pytest.mark.parametrize("refreshes", _REFRESHING)
def test_c3_a_report_that_is_counted_twice_hides_the_next_question(
    refreshes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_reports_twice(monkeypatch)
    shown = asyncio.run(shown_after_a_late_reply(f"sqlite:///{tmp_path}/late.db", refreshes))
    assert "second question" not in shown


@pytest.mark.slow  # shows that the tests above can fail
def test_c3_a_report_that_is_counted_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    count_reports_twice(monkeypatch)
    assert {"stale", "nowhere"} & found_with("reports")


@pytest.mark.slow  # shows that the tests above can fail
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
    monkeypatch.setattr(leases.StoredLease, "is_active", lambda *_: True)
    found = run_schedules(range(60), KINDS["killed"])
    assert not found, told(found)
