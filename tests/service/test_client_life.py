"""A remote memory that was closed, or is used from several event loops: it works, or says what is wrong."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from tests.service.running import PATIENCE, Running, running
from turnfold.client import (
    AsyncRemoteMemory,
    AsyncRemoteShortMemory,
    RemoteMemory,
    RemoteShortMemory,
)
from turnfold.errors import StoreUnavailable
from turnfold.service import ServiceOptions

CLOSED = "was closed"


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with running(ServiceOptions()) as started:
        yield started


def test_a_closed_memory_is_a_typed_error(service: Running) -> None:
    memory, short = RemoteMemory(service.url), RemoteShortMemory(service.url)
    session = memory.session("blocking")
    session.user("hello 你好")
    for each in (memory, memory, short, short):
        each.close()  # twice is allowed
    for late in (
        lambda: session.user("late"),
        session.context,
        session.pins,
        lambda: memory.search("hello"),
        lambda: short.get_short_memory("one"),
    ):
        with pytest.raises(StoreUnavailable, match=CLOSED):
            late()


def test_a_closed_awaiting_memory_is_a_typed_error(service: Running) -> None:
    async def run() -> None:
        memory, short = AsyncRemoteMemory(service.url), AsyncRemoteShortMemory(service.url)
        session = memory.session("awaiting")
        await session.user("hello 你好")
        for each in (memory, memory, short, short):
            await each.close()
        for late in (
            lambda: session.user("late"),
            session.context,
            lambda: memory.search("hello"),
            lambda: short.get_short_memory("one"),
        ):
            with pytest.raises(StoreUnavailable, match=CLOSED):
                await late()

    asyncio.run(run())


def test_closing_while_others_ask_strands_nobody(service: Running) -> None:
    async def run() -> None:
        memory = AsyncRemoteMemory(service.url, backoff=0.0)
        session = memory.session("closing")

        async def ask() -> None:
            while True:
                await session.user("again 再来")

        asking = [asyncio.create_task(ask()) for _ in range(8)]
        await asyncio.sleep(0.05)
        await memory.close()
        ended = await asyncio.wait_for(asyncio.gather(*asking, return_exceptions=True), PATIENCE)
        assert [type(each) for each in ended] == [StoreUnavailable] * 8

    asyncio.run(run())


def test_loops_one_after_another(service: Running) -> None:
    memory = AsyncRemoteMemory(service.url)
    session = memory.session("in turn")
    seqs = [asyncio.run(session.user(f"loop {number} 循环")).first for number in range(4)]
    assert seqs == [1, 2, 3, 4]
    asyncio.run(memory.close())


def test_loops_at_the_same_time(service: Running) -> None:
    memory = AsyncRemoteMemory(service.url)
    session = memory.session("at once")
    stored: list[tuple[int, str]] = []
    broken: list[BaseException] = []

    async def speak(name: int) -> None:
        for turn in range(10):
            text = f"{name}.{turn} 说"
            stored.append(((await session.user(text)).first, text))

    def run(name: int) -> None:
        try:
            asyncio.run(asyncio.wait_for(speak(name), PATIENCE))
        except BaseException as error:
            broken.append(error)

    threads = [threading.Thread(target=run, args=(name,), daemon=True) for name in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE)
    assert broken == []
    entries = asyncio.run(session.history(limit=100))
    assert sorted(stored) == [(entry.seq, entry.message.text) for entry in entries]
    asyncio.run(memory.close())
