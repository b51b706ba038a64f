"""The OpenAI Agents SDK over a memory that blocks: its loop goes on while the disk is slow, and order is kept."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Any

import pytest

pytest.importorskip("agents", reason="the extra openai-agents is not installed")

from agents import Runner, Usage
from agents.testing import ModelStep, ScriptedModel

from tests.adapters.openai_runs import agent_of, called, look_tool, looping, said
from tests.adapters.slow_disk import (
    SlowDisk,
    check_that_in_place_the_loop_is_held_up,
    watch_threads,
)
from turnfold import AsyncMemory, Memory
from turnfold.adapters._common import ThreadBridge
from turnfold.adapters.openai_agents import TurnfoldSession, recall_tool, turnfold_run
from turnfold.errors import InvalidOption
from turnfold.runtime import drive


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def with_blocking(work: Callable[[Memory], Awaitable[None]]) -> None:
    with Memory("sqlite://") as memory:
        asyncio.run(_main(work, memory))


async def _main(work: Callable[[Memory], Awaitable[None]], memory: Memory) -> None:
    await work(memory)


def words(memory: Memory) -> list[str]:
    return [one.message.text for one in memory.session("s").history()]


def test_other_tasks_run_while_the_disk_is_slow() -> None:
    async def work(memory: Memory) -> None:
        disk = SlowDisk(memory)
        adding = asyncio.create_task(TurnfoldSession(memory, "s").add_items([user("one")]))
        await disk.wait(adding)
        disk.let_go_on()
        await adding
        assert words(memory) == ["one"]

    with_blocking(work)


async def in_any_thread(_: ThreadBridge, work: Coroutine[Any, Any, Any]) -> Any:
    return await asyncio.to_thread(drive, work)


def test_sabotage_in_place_the_loop_is_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    check_that_in_place_the_loop_is_held_up(
        monkeypatch, test_other_tasks_run_while_the_disk_is_slow
    )


def test_what_is_said_next_does_not_overtake_what_was_cancelled() -> None:
    async def work(memory: Memory) -> None:
        disk = SlowDisk(memory)
        session = TurnfoldSession(memory, "s")
        first = asyncio.create_task(session.add_items([user("one")]))
        await disk.wait(first)
        first.cancel()
        second = asyncio.create_task(session.add_items([user("two")]))
        third = asyncio.create_task(session.add_items([user("three")]))
        done, _ = await asyncio.wait([first])
        assert done == {first}
        assert first.cancelled()
        second.cancel()  # it was never begun: nothing of it is stored
        await asyncio.wait([second])
        disk.let_go_on()
        await third
        assert words(memory) == ["one", "three"]

    with_blocking(work)


def test_what_is_asked_first_is_done_first_and_without_the_queue_it_is_overtaken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def order(memory: Memory, *, overtaking: bool) -> list[str]:
        off_loop, gate = ThreadBridge(memory), threading.Event()
        done: list[str] = []

        async def slow() -> None:
            gate.wait()
            done.append("first")

        async def quick() -> None:
            done.append("second")

        async with asyncio.TaskGroup() as group:
            group.create_task(off_loop(slow()))
            second = group.create_task(off_loop(quick()))
            if overtaking:
                await second  # only possible because it does not wait for the first
            else:
                await asyncio.sleep(0)  # both are asked for
            gate.set()
        return done

    async def work(memory: Memory) -> None:
        assert await order(memory, overtaking=False) == ["first", "second"]
        monkeypatch.setattr(ThreadBridge, "__call__", in_any_thread)
        assert await order(memory, overtaking=True) == ["second", "first"]

    with_blocking(work)


def test_a_whole_run_leaves_the_loop_alone() -> None:
    async def work(memory: Memory) -> None:
        threads = watch_threads(memory)
        usage = Usage(input_tokens=3, output_tokens=1)
        recalling = [called("recall_context", 90, '{"query": "harbour"}')]
        script: list[Any] = [
            recalling,
            *looping(3)[:-1],
            ModelStep(output=[said("done")], usage=usage),
        ]
        agent = agent_of(ScriptedModel(script), look_tool("sea"), recall_tool())
        await Runner.run(agent, "Look.", **turnfold_run(memory, "s"))
        session = TurnfoldSession(memory, "s")
        assert len(await session.get_items()) == 1 + 2 + 9 + 1
        await session.pop_item()
        await session.clear_session()
        assert threads
        assert threading.get_ident() not in threads
        assert memory.session("s").calls()[-1].usage is not None

    with_blocking(work)


def test_a_fault_and_the_context_of_the_caller_pass_through() -> None:
    named: ContextVar[str] = ContextVar("named")

    async def ask() -> str:
        return named.get()

    async def fail() -> None:
        raise InvalidOption("on purpose")

    async def work(memory: Memory) -> None:
        off_loop = ThreadBridge(memory)
        named.set("Ada")
        assert await off_loop(ask()) == "Ada"
        with pytest.raises(InvalidOption, match="on purpose"):
            await off_loop(fail())
        assert await off_loop(ask()) == "Ada"  # it goes on after a fault

    with_blocking(work)


def test_a_memory_that_awaits_is_awaited_in_place() -> None:
    async def main() -> None:
        async def where() -> int:
            await asyncio.sleep(0)
            return threading.get_ident()

        async with AsyncMemory("sqlite://") as memory:
            assert await ThreadBridge(memory)(where()) == threading.get_ident()

    asyncio.run(main())
