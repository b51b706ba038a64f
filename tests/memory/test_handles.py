"""What a process keeps of the conversations it serves is bounded, however many there are and however long it runs."""

from __future__ import annotations

import asyncio
import base64
import gc
import threading
import time
from collections import OrderedDict

import pytest

from turnfold import AsyncMemory, Budget, Memory
from turnfold.errors import InvalidOption
from turnfold.memory import AsyncSession, SessionCache
from turnfold.records import Message

pytestmark = pytest.mark.usefixtures("only_own_garbage")

SMALL = Budget(max_tokens=600)


def live(kind: type) -> int:
    """Objects of a class that are reachable."""
    gc.collect()
    return sum(type(each) is kind for each in gc.get_objects())


def talk(memory: Memory, turns: int, conversations: int = 2) -> None:
    for turn in range(turns):
        session = memory.session(f"talk {turn % conversations}")
        session.user(f"question {turn}: what grows here? 问题 {turn}：这里什么会变大？")
        session.context()
        session.assistant(f"answer {turn}: nothing should. 回答 {turn}：什么都不该变大。")


@pytest.mark.parametrize("fold", ["inline", "manual"])
def test_messages_that_left_the_window_are_let_go(fold: str) -> None:
    before = live(Message)
    with Memory("sqlite://", budget=SMALL, fold=fold) as memory:
        talk(memory, 60)
        early = live(Message) - before
        talk(memory, 80)
        late = live(Message) - before
    # A context of 600 tokens has at most 24 of these messages. Twice as many and 32 more may be recognised, of each of
    # the two conversations; 280 were said.
    assert early <= 2 * (2 * 24 + 32)
    assert late <= 2 * (2 * 24 + 32)


def test_the_number_of_handles_is_bounded() -> None:
    before = live(AsyncSession)
    with Memory("sqlite://", budget=SMALL) as memory:
        memory.awaiting._handles = handles = SessionCache(most=5)
        talk(memory, 60, conversations=30)
        assert len(handles) == 5
        assert live(AsyncSession) - before == 5
        assert memory.session("talk 29").awaiting is memory.session("talk 29").awaiting


def test_the_weight_of_handles_is_bounded() -> None:
    picture = "data:image/png;base64," + base64.b64encode(bytes(60_000)).decode()
    with Memory("sqlite://", budget=Budget(max_tokens=100_000)) as memory:
        memory.awaiting._handles = handles = SessionCache(most_bytes=1_000_000)
        for number in range(200):
            session = memory.session(f"talk {number % 50}")
            session.user([{"type": "image_url", "image_url": {"url": picture}}])
            session.context()
        sizes = [each.held_bytes for each in handles._sessions.values()]
        assert min(sizes) > 80_000  # a picture of few tokens is many bytes
        # The one handed out last has not been weighed since it was used.
        assert sum(sizes) <= 1_000_000 + 4 * 81_000
        assert len(handles) < 50
        lone = SessionCache(most_bytes=0)
        memory.awaiting._handles = lone
        for _ in range(64):
            memory.session("talk 0").context()
        assert len(lone) == 1  # the one in use stays, however heavy


def test_what_was_evicted_is_read_again() -> None:
    with Memory("sqlite://", budget=SMALL) as memory:
        memory.awaiting._handles = SessionCache(most=1)
        for number in range(4):
            memory.session(f"talk {number}").user(f"my number is {number} 号码 {number}")
        for number in range(4):
            [message] = memory.session(f"talk {number}").context().messages
            assert message.text == f"my number is {number} 号码 {number}"


def test_tenants_that_share_handles_never_share_a_session() -> None:
    async def run() -> None:
        handles = SessionCache(most=8)
        async with AsyncMemory("sqlite://", scope="a", budget=SMALL) as first:
            mine = AsyncMemory.over(first._config, owns=False, handles=handles)
            async with AsyncMemory("sqlite://", scope="b", budget=SMALL) as second:
                theirs = AsyncMemory.over(second._config, owns=False, handles=handles)
                assert mine.session("talk") is not theirs.session("talk")
                await mine.session("talk").user("mine 我的")
                assert await theirs.session("talk").history() == []
                await mine.delete("talk")
                assert len(handles) == 1

    asyncio.run(run())


class Yielding(OrderedDict[tuple[str, str], AsyncSession]):
    """Lets another thread run after each look-up."""

    def get(self, key: tuple[str, str]) -> AsyncSession | None:  # type: ignore[override]
        found = super().get(key)
        time.sleep(0)
        return found


def test_threads_may_ask_for_more_conversations_than_are_kept() -> None:
    errors: list[BaseException] = []
    with Memory("sqlite://", budget=SMALL) as memory:
        memory.awaiting._handles = handles = SessionCache(most=1)
        handles._sessions = Yielding()
        together = threading.Barrier(4)

        def ask(name: str) -> None:
            together.wait(30)
            try:
                for _ in range(300):
                    assert memory.session(name).id == name
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=ask, args=(f"talk {n % 2}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert errors == []
        assert len(handles) == 1


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"most": 0}, "most=0, the number of sessions to cache, must be at least 1"),
        ({"most_bytes": -1}, "most_bytes=-1 must not be negative"),
    ],
)
def test_bounds_that_cannot_hold_are_refused(wrong: dict[str, int], told: str) -> None:
    with pytest.raises(InvalidOption, match=told):
        SessionCache(**wrong)


def test_handles_that_grow_at_the_same_time_are_weighed_too() -> None:
    async def run() -> None:
        async with AsyncMemory("sqlite://", budget=Budget(max_tokens=100_000)) as memory:
            memory._handles = handles = SessionCache(most_bytes=200_000)
            sessions = [memory.session(f"talk {number}") for number in range(20)]
            await asyncio.gather(*(session.user("long 长 " * 4_000) for session in sessions))
            await asyncio.gather(*(session.context() for session in sessions))
            assert handles.held_bytes > 1_000_000  # all were handed out before any of them was used
            for _ in range(1_024):
                memory.session("talk 0")
            assert handles.held_bytes <= 200_000 + sessions[0].held_bytes

    asyncio.run(run())
