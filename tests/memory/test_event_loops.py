"""One memory used from several event loops, one after another and at the same time.

Each use either works or is refused with a typed error that speaks of the loop. Nothing that was acknowledged is lost,
nothing is stored twice or under another's number, and nobody waits for ever.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from turnfold import AsyncMemory, AsyncSession, Budget
from turnfold.errors import TurnfoldError
from turnfold.stores import MemoryStore
from turnfold.window import check

SECONDS = 60.0
"""A limit that is only reached when somebody waits for ever."""
LOOPS = 3
BUDGET = Budget(max_tokens=1_500)


@pytest.fixture(params=["file", "in memory", "in the process"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AsyncMemory]:
    stores = {
        "file": f"sqlite:///{tmp_path / 'chat.db'}",
        "in memory": "sqlite://",
        "in the process": MemoryStore(),
    }
    opened = AsyncMemory(stores[request.param], budget=BUDGET)
    yield opened
    asyncio.run(asyncio.wait_for(opened.close(), SECONDS))


@dataclass
class Seen:
    """What came of many calls."""

    stored: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """Acknowledged: (seq, text)."""
    refused: list[TurnfoldError] = field(default_factory=list[TurnfoldError])
    broken: list[BaseException] = field(default_factory=list[BaseException])


async def speak(session: AsyncSession, name: str, turns: int, seen: Seen) -> None:
    """Say something and ask for a context, again and again, until that is refused."""
    for turn in range(turns):
        text = f"{name}.{turn} 第 {turn} 句"
        try:
            seen.stored.append(((await session.user(text)).first, text))
            context = await session.context()
        except TurnfoldError as error:
            seen.refused.append(error)
            return
        assert check(context) == ()
        assert text in [message.text for message in context.messages]


def at_once(works: list[Callable[[], Coroutine[None, None, None]]], seen: Seen) -> None:
    """Do each piece of work in a loop of its own in a thread of its own, all at the same time."""
    together = threading.Barrier(len(works))

    def run(work: Callable[[], Coroutine[None, None, None]]) -> None:
        together.wait(SECONDS)
        try:
            asyncio.run(asyncio.wait_for(work(), SECONDS))
        except BaseException as error:
            seen.broken.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * SECONDS)
    assert not any(thread.is_alive() for thread in threads)


async def logged(memory: AsyncMemory, conversation: str) -> dict[int, str]:
    """The log as the store has it, read past every handle."""
    entries = await memory.store.read(memory.scope, conversation, limit=1_000)
    return {entry.seq: entry.message.text for entry in entries}


def nothing_is_lost_or_doubled(memory: AsyncMemory, conversation: str, seen: Seen) -> None:
    log = asyncio.run(asyncio.wait_for(logged(memory, conversation), SECONDS))
    assert seen.broken == []
    assert all("loop" in str(error) for error in seen.refused)
    assert [(seq, text) for seq, text in seen.stored if log.get(seq) != text] == []
    assert len(set(log.values())) == len(log)
    assert len(seen.stored) <= len(log) <= len(seen.stored) + len(seen.refused)
    assert seen.stored  # at least the first loop is served


def test_loops_one_after_another(memory: AsyncMemory) -> None:
    session, seen = memory.session("one"), Seen()
    for number in range(6):
        asyncio.run(asyncio.wait_for(speak(session, f"loop {number}", 2, seen), SECONDS))
    nothing_is_lost_or_doubled(memory, "one", seen)


def test_loops_one_after_another_with_tasks_side_by_side(memory: AsyncMemory) -> None:
    session, seen = memory.session("one"), Seen()

    async def several(number: int) -> None:
        await asyncio.gather(*(speak(session, f"{number}/{task}", 2, seen) for task in range(4)))

    for number in range(4):
        asyncio.run(asyncio.wait_for(several(number), SECONDS))
    nothing_is_lost_or_doubled(memory, "one", seen)


def test_loops_at_the_same_time_in_conversations_of_their_own(memory: AsyncMemory) -> None:
    seen = [Seen() for _ in range(LOOPS)]
    broken = Seen()

    def work(number: int) -> Callable[[], Coroutine[None, None, None]]:
        session = memory.session(f"own {number}")
        return lambda: speak(session, f"loop {number}", 12, seen[number])

    at_once([work(number) for number in range(LOOPS)], broken)
    assert broken.broken == []
    for number in range(LOOPS):
        nothing_is_lost_or_doubled(memory, f"own {number}", seen[number])


def test_loops_at_the_same_time_in_one_session(memory: AsyncMemory) -> None:
    session, seen = memory.session("one"), Seen()

    def work(number: int) -> Callable[[], Coroutine[None, None, None]]:
        return lambda: speak(session, f"loop {number}", 25, seen)

    at_once([work(number) for number in range(LOOPS)], seen)
    nothing_is_lost_or_doubled(memory, "one", seen)
    # Afterwards the session serves the next loop, or says why not.
    later = Seen()
    asyncio.run(asyncio.wait_for(speak(session, "later", 2, later), SECONDS))
    assert later.stored or later.refused


def test_loops_at_the_same_time_with_tasks_side_by_side(memory: AsyncMemory) -> None:
    session, seen = memory.session("one"), Seen()

    def work(number: int) -> Callable[[], Coroutine[None, None, None]]:
        async def several() -> None:
            tasks = (speak(session, f"{number}/{task}", 6, seen) for task in range(4))
            await asyncio.gather(*tasks)

        return several

    at_once([work(number) for number in range(LOOPS)], seen)
    nothing_is_lost_or_doubled(memory, "one", seen)


def test_loops_at_the_same_time_with_handles_of_their_own(memory: AsyncMemory) -> None:
    seen = Seen()

    def work(number: int) -> Callable[[], Coroutine[None, None, None]]:
        session = AsyncSession("one", memory._config)
        return lambda: speak(session, f"loop {number}", 12, seen)

    at_once([work(number) for number in range(LOOPS)], seen)
    nothing_is_lost_or_doubled(memory, "one", seen)


@pytest.mark.parametrize("doing", ["user", "context"])
def test_a_loop_that_was_stopped_in_the_middle_leaves_nobody_waiting(
    memory: AsyncMemory, doing: str
) -> None:
    session, seen = memory.session("one"), Seen()
    asyncio.run(asyncio.wait_for(speak(session, "first", 2, seen), SECONDS))
    left: list[asyncio.Task[object]] = []
    for steps in range(1, 12):
        loop = asyncio.new_event_loop()

        async def begun() -> object:
            return await (session.context() if doing == "context" else session.user("begun 开始"))

        left.append(loop.create_task(begun()))
        for _ in range(steps):
            loop.call_soon(loop.stop)
            loop.run_forever()
        loop.close()
        after = Seen()
        asyncio.run(asyncio.wait_for(speak(session, f"after {steps}", 1, after), SECONDS))
        assert len(after.stored) + len(after.refused) == 1
        seen.stored += after.stored
        seen.refused += after.refused
    log = asyncio.run(asyncio.wait_for(logged(memory, "one"), SECONDS))
    assert [(seq, text) for seq, text in seen.stored if log.get(seq) != text] == []
    for task in left:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # that is what was asked for


def folding(model: Callable[[str], object]) -> AsyncMemory:
    return AsyncMemory(
        "sqlite://", budget=Budget(max_tokens=700), summarizer=model, fold="background", keep_turns=1
    )  # fmt: skip


async def until_a_fold_is_due(session: AsyncSession, asked: threading.Event) -> None:
    for turn in range(200):
        await session.user(f"question {turn}: a few words, 几句话，to fill the budget " * 3)
        await session.context()
        await session.assistant(f"answer {turn} 回答")
        if asked.is_set():
            return
        await asyncio.sleep(0)
    raise AssertionError("no fold was begun")


def works_or_is_refused(work: Coroutine[object, object, object]) -> None:
    try:
        asyncio.run(asyncio.wait_for(work, SECONDS))
    except TurnfoldError as error:
        assert "loop" in str(error)  # noqa: PT017 (works, or is refused in these words)


def test_a_fold_that_ended_with_its_loop_does_not_stop_the_next_one() -> None:
    asked, loops = threading.Event(), list[asyncio.AbstractEventLoop]()

    async def model(prompt: str) -> str:
        assert prompt
        loops.append(asyncio.get_running_loop())
        asked.set()
        if len(set(map(id, loops))) == 1:
            await asyncio.sleep(SECONDS)  # cancelled with its loop
        return "what was said, in short 简而言之"

    memory = folding(model)
    session = memory.session("one")
    asyncio.run(until_a_fold_is_due(session, asked))
    asked.clear()
    works_or_is_refused(until_a_fold_is_due(session, asked))
    works_or_is_refused(memory.drain())
    works_or_is_refused(memory.close(cancel=True))


def test_closing_in_another_loop_than_the_one_that_folds() -> None:
    asked, release = threading.Event(), threading.Event()

    async def model(prompt: str) -> str:
        assert prompt
        asked.set()
        await asyncio.to_thread(release.wait, SECONDS)
        return "what was said, in short 简而言之"

    memory = folding(model)
    broken: list[BaseException] = []

    async def fold() -> None:
        await until_a_fold_is_due(memory.session("one"), asked)
        await asyncio.to_thread(release.wait, SECONDS)

    def run() -> None:
        try:
            works_or_is_refused(fold())
        except BaseException as error:
            broken.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert asked.wait(SECONDS)
    threading.Timer(0.2, release.set).start()
    try:
        works_or_is_refused(memory.close())
    finally:
        release.set()
        thread.join(2 * SECONDS)
    assert not thread.is_alive()
    assert broken == []
    works_or_is_refused(memory.close())
