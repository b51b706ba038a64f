"""LlamaIndex over a memory that blocks: what is awaited leaves the loop alone, what is not is done in place."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

pytest.importorskip(
    "llama_index.core",
    reason="the extra llama-index is not installed; it has an environment of its own",
)

from llama_index.core.llms import ChatMessage

from tests.adapters.llama_scripts import ScriptedLLM, called, said
from tests.adapters.slow_disk import (
    SlowDisk,
    check_that_in_place_the_loop_is_held_up,
    watch_threads,
)
from turnfold import Memory
from turnfold.adapters.llama_index import TurnfoldFunctionAgent, recall_tool, turnfold_memory

# LlamaIndex uses names that pydantic and Python have since replaced.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_other_tasks_run_while_the_disk_is_slow() -> None:
    async def work(memory: Memory) -> None:
        disk = SlowDisk(memory)
        kept = turnfold_memory(memory, "s")
        adding = asyncio.create_task(kept.aput(ChatMessage("one")))
        await disk.wait(adding)
        after = asyncio.create_task(kept.aput_messages([ChatMessage("two")]))
        disk.let_go_on()
        await asyncio.gather(adding, after)
        assert [one.content for one in await kept.aget_all()] == ["one", "two"]

    with Memory("sqlite://") as memory:
        asyncio.run(work(memory))


def test_sabotage_in_place_the_loop_is_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    check_that_in_place_the_loop_is_held_up(
        monkeypatch, test_other_tasks_run_while_the_disk_is_slow
    )


def test_a_whole_run_leaves_the_loop_alone_and_calls_without_await_are_done_in_place() -> None:
    async def work(memory: Memory) -> None:
        threads = watch_threads(memory)
        kept = turnfold_memory(memory, "s")
        script = [called("recall_context", 1, query="harbour"), said("done")]
        kind: Any = TurnfoldFunctionAgent
        agent = kind(
            llm=ScriptedLLM(script=script), tools=[recall_tool(memory, "s")], streaming=False
        )
        await agent.run("Which harbour?", memory=kept)
        await kept.aset([ChatMessage("anew")])
        assert [one.content for one in await kept.aget("anew")] == ["anew"]
        await kept.areset()
        assert threads
        assert threading.get_ident() not in threads
        kept.put(ChatMessage("at once"))
        assert [one.content for one in kept.get()] == ["at once"]
        assert threading.get_ident() in threads

    with Memory("sqlite://") as memory:
        asyncio.run(work(memory))
