"""PydanticAI over a memory that blocks: its loop goes on while the disk is slow, and no step works in it."""

from __future__ import annotations

import asyncio
import threading

import pytest

pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")

from pydantic_ai.messages import ModelResponse, ToolCallPart

from tests.adapters.pydantic_agents import MANY, Watched, agent_of, answering, looping
from tests.adapters.slow_disk import (
    SlowDisk,
    check_that_in_place_the_loop_is_held_up,
    watch_threads,
)
from turnfold import Memory
from turnfold.findings import FindingRule


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
    check_that_in_place_the_loop_is_held_up(
        monkeypatch, test_other_tasks_run_while_the_disk_is_slow
    )


def test_a_whole_run_with_recall_and_findings_leaves_the_loop_alone() -> None:
    async def work(memory: Memory) -> None:
        threads = watch_threads(memory)
        script = looping(6)

        def step(number: int) -> ModelResponse:
            recall = ToolCallPart("recall_context", {"query": "harbour"})
            return ModelResponse([recall]) if number == 1 else script(number)

        watched = Watched(step)
        agent = agent_of(watched, memory.session("s"), findings=[FindingRule("look")])
        await agent.run("Look at everything.", usage_limits=MANY)
        assert threads
        assert threading.get_ident() not in threads

    with Memory("sqlite://") as memory:
        asyncio.run(work(memory))
        session = memory.session("s")
        assert session.calls()[0].usage is not None
        assert len(session.findings.list()) == 5
