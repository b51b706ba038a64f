"""Several handles and several processes on one file: one of them asks the model, and one that dies is replaced."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path

import pytest

from tests.house.source_tree import ROOT
from tests.memory.folding_process import BUDGET
from turnfold.inspect import audit
from turnfold.memory import AsyncMemory, Memory
from turnfold.memory.folding import FoldManager
from turnfold.records import Checkpoint
from turnfold.window import Outcome, Section

PATIENCE = 60.0
LEASE = 120.0


class Model:
    """A model that is asked, and answers when it is let."""

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self.answer = threading.Event()
        self.times = 0

    def __call__(self, prompt: str) -> str:
        assert prompt
        self.times += 1
        self.asked.release()
        assert self.answer.wait(PATIENCE)
        return "what was said, in short"

    def was_asked(self) -> bool:
        return self.asked.acquire(timeout=PATIENCE)


def clock(shift: float = 0.0) -> Callable[[], int]:
    return lambda: time.time_ns() // 1000 + int(shift * 1_000_000)


def opened(url: str, model: Model, *, shift: float = 0.0) -> Memory:
    return Memory(
        url,
        budget=BUDGET,
        summarizer=model,
        fold="background",
        keep_turns=1,
        clock=clock(shift),
    )


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A file with a conversation that is due to be folded."""
    address = f"sqlite:///{tmp_path / 'chat.db'}"
    with Memory(address, budget=BUDGET, fold="manual") as memory:
        session = memory.session("c")
        for number in range(8):
            session.user(f"{number}: " + "the parcel 4711 did not arrive. " * 20)
            session.assistant(f"{number}: " + "we look into it. " * 20)
        session.user("and now?")
    return address


@contextmanager
def process(url: str) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(
        [sys.executable, "-m", "tests.memory.folding_process", url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def heard(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def release(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


def test_of_two_memories_on_one_file_one_asks_the_model(url: str) -> None:
    first, second = Model(), Model()
    with opened(url, first) as one, opened(url, second) as other:
        one.session("c").context()
        assert first.was_asked()
        other.session("c").context()
        other.drain()
        assert second.times == 0
        first.answer.set()
        one.drain()
        assert first.times == 1
        assert len(other.session("c").checkpoints()) == 1
        assert audit(other.session("c")) == []


def test_without_the_lease_both_ask_and_one_checkpoint_lands(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def always(self: FoldManager) -> bool:  # noqa: ARG001 (whoever asks)
        return True

    monkeypatch.setattr(FoldManager, "_claim", always)
    first, second = Model(), Model()
    with opened(url, first) as one, opened(url, second) as other:
        for memory, model in ((one, first), (other, second)):
            memory.session("c").context()
            assert model.was_asked()
        first.answer.set()
        one.drain()
        second.answer.set()
        other.drain()
        assert (first.times, second.times) == (1, 1)
        assert len(other.session("c").checkpoints()) == 1


def test_of_two_processes_on_one_file_one_asks_the_model(url: str) -> None:
    with process(url) as one:
        assert heard(one) == "asked"
        with process(url) as other:
            assert heard(other) == "done"
        release(one)
        assert heard(one) == "done"
    with Memory(url, budget=BUDGET, fold="manual") as memory:
        session = memory.session("c")
        assert len(session.checkpoints()) == 1
        assert audit(session) == []


def test_a_process_that_is_killed_while_it_folds_is_replaced_after_its_lease(url: str) -> None:
    with process(url) as doomed:
        assert heard(doomed) == "asked"
        doomed.kill()
        doomed.wait()
    soon, later = Model(), Model()
    with opened(url, soon) as memory:
        session = memory.session("c")
        context = session.context()
        assert context.section(Section.SUMMARY), "an extract stands in while the lease lasts"
        assert context.receipt.count(Outcome.DROPPED) == 0
        assert audit(session, context=context) == []
        assert session.checkpoints() == []
        memory.drain()
    assert soon.times == 0
    later.answer.set()
    with opened(url, later, shift=LEASE + 1.0) as memory:
        session = memory.session("c")
        session.context()
        memory.drain()
        assert later.times == 1
        assert session.context().section(Section.SUMMARY)
        assert audit(session) == []


def test_closing_waits_for_the_fold_under_way(url: str) -> None:
    model = Model()
    memory = opened(url, model)
    memory.session("c").context()
    assert model.was_asked()
    model.answer.set()
    memory.close()
    with Memory(url, fold="manual") as reopened:
        assert len(reopened.session("c").checkpoints()) == 1


def test_closing_may_cancel_the_fold_under_way_and_nothing_is_flagged(url: str) -> None:
    model = Model()
    memory = opened(url, model)
    memory.session("c").context()
    assert model.was_asked()
    memory.close(cancel=True)
    model.answer.set()
    with opened(url, model) as reopened:
        session = reopened.session("c")
        status = session.status()
        assert (status.checkpoint, status.fold_failures) == ("", 0)
        session.context()  # due again, at once: the lease went with the fold
        reopened.drain()
        assert session.status().checkpoint
        assert model.times == 2


def test_with_an_event_loop_one_task_folds_and_closing_waits_or_cancels(url: str) -> None:
    asked = 0

    async def run(*, cancel: bool) -> str:
        answer, reached = asyncio.Event(), asyncio.Event()

        async def model(prompt: str) -> str:
            nonlocal asked
            assert prompt
            asked += 1
            reached.set()
            await answer.wait()
            return "what was said, in short"

        memory = AsyncMemory(url, budget=BUDGET, summarizer=model, fold="background", keep_turns=1)
        session = memory.session("c")
        await session.context()
        await asyncio.wait_for(reached.wait(), PATIENCE)
        await session.context()
        if not cancel:
            answer.set()
        await memory.close(cancel=cancel)
        async with AsyncMemory(url, fold="manual") as again:
            status = await again.session("c").status()
            assert status.fold_failures == 0
            return status.checkpoint

    assert asyncio.run(run(cancel=True)) == ""
    assert asyncio.run(run(cancel=False)) != ""
    assert asked == 2


class Gate:
    """Tells who arrives at a turnstile; without one, everybody may pass."""

    def __init__(self, lock: AbstractAsyncContextManager[None] | None) -> None:
        self.arrived = threading.Semaphore(0)
        self._lock = lock

    async def __aenter__(self) -> None:
        self.arrived.release()
        if self._lock is not None:
            await self._lock.__aenter__()

    async def __aexit__(self, *_: object) -> None:
        if self._lock is not None:
            await self._lock.__aexit__(None, None, None)


def folded_by_hand_meanwhile(url: str, *, waits: bool) -> tuple[int, list[Checkpoint | None]]:
    """How often the model is asked when one handle folds in the background and by hand; what the hand was given."""
    model, landed = Model(), list[Checkpoint | None]()
    with opened(url, model) as memory:
        session = memory.session("c")
        folds = session.awaiting._folds
        gate = Gate(folds._handle_lock if waits else None)
        folds._handle_lock = gate
        session.context()
        assert model.was_asked()
        assert gate.arrived.acquire(timeout=PATIENCE)
        hand = threading.Thread(target=lambda: landed.append(session.fold()), daemon=True)
        hand.start()
        assert gate.arrived.acquire(timeout=PATIENCE)
        if not waits:
            assert model.was_asked()
        model.answer.set()
        hand.join(PATIENCE)
        memory.drain()
        assert audit(session) == []
        landed.append(session.checkpoints()[-1])
        assert len(session.checkpoints()) == 1
    return model.times, landed


def test_one_handle_that_folds_twice_at_once_asks_the_model_once(url: str) -> None:
    times, (given, live) = folded_by_hand_meanwhile(url, waits=True)
    assert times == 1
    assert given == live


def test_a_handle_that_takes_its_own_lease_for_free_is_caught(url: str) -> None:
    times, _ = folded_by_hand_meanwhile(url, waits=False)
    assert times == 2


def test_tasks_of_one_handle_wait_for_each_other_too(url: str) -> None:
    async def run() -> tuple[int, bool]:
        answer, reached = asyncio.Event(), asyncio.Event()
        asked = 0

        async def model(prompt: str) -> str:
            nonlocal asked
            assert prompt
            asked += 1
            reached.set()
            await answer.wait()
            return "what was said, in short"

        async with AsyncMemory(
            url, budget=BUDGET, summarizer=model, fold="background", keep_turns=1
        ) as memory:
            session = memory.session("c")
            gate = Gate(session._folds._handle_lock)
            session._folds._handle_lock = gate
            await session.context()
            await asyncio.wait_for(reached.wait(), PATIENCE)
            hand = asyncio.create_task(session.fold())
            for _ in range(2):
                assert await asyncio.to_thread(gate.arrived.acquire, timeout=PATIENCE)
            answer.set()
            landed = await asyncio.wait_for(hand, PATIENCE)
            return asked, landed == (await session.checkpoints())[-1]

    assert asyncio.run(run()) == (1, True)
