"""PydanticAI over a memory that blocks: its loop goes on while the disk is slow, and no step works in it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")

from tests.adapters.pydantic_agents import MANY, Watched, agent_of, answering, looping
from tests.adapters.slow_disk import SlowDisk, watch_threads
from turnfold import Memory
from turnfold.memory.off_loop import OffLoop
from turnfold.recall.findings import FindingRule


def test_other_tasks_run_while_the_disk_is_slow() -> None:
    async def work(memory: Memory) -> None:
        disk = SlowDisk(memory)
        agent = agent_of(Watched(answering("Noted.")), memory.session("s"))
        running = asyncio.create_task(agent.run("My boat is blue."))
        await disk.wait(running)
        disk.let_go_on()
        assert (await running).output == "Noted."

    with Memory("sqlite://") as memory:
        asyncio.run(work(memory))
        words = [entry.message.text for entry in memory.session("s").history()]
        assert words[-2:] == ["My boat is blue.", "Noted."]


def test_sabotage_in_place_the_loop_is_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def in_place(_: OffLoop, work: Coroutine[Any, Any, Any]) -> Any:
        return await work

    monkeypatch.setattr(OffLoop, "__call__", in_place)
    with pytest.raises(AssertionError, match="the loop waits"):
        test_other_tasks_run_while_the_disk_is_slow()


def test_a_whole_run_with_findings_and_usage_leaves_the_loop_alone() -> None:
    async def work(memory: Memory) -> None:
        threads = watch_threads(memory)
        rules = [FindingRule("look")]
        agent = agent_of(Watched(looping(6)), memory.session("s"), findings=rules)
        await agent.run("Look at everything.", usage_limits=MANY)
        assert threads
        assert threading.get_ident() not in threads

    with Memory("sqlite://") as memory:
        asyncio.run(work(memory))
        assert memory.session("s").calls()
