"""The Claude Agent SDK over a memory that blocks: hooks, the recall tool and the session store leave the loop alone."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

pytest.importorskip(
    "claude_agent_sdk",
    reason="the extra claude-agent-sdk is not installed; make test-claude has it",
)

from tests.adapters.slow_disk import (
    SlowDisk,
    check_that_in_place_the_loop_is_held_up,
    watch_threads,
)
from turnfold import Memory
from turnfold.adapters.claude_agent_sdk import turnfold_options

KEY: Any = {"project_key": "p", "session_id": "s"}


def hook(options: Any, event: str) -> Any:
    return options.hooks[event][0].hooks[0]


def test_other_tasks_run_while_the_disk_is_slow() -> None:
    async def work(memory: Memory) -> None:
        disk = SlowDisk(memory)
        options = turnfold_options(memory, "s")
        asking = asyncio.create_task(
            hook(options, "UserPromptSubmit")({"prompt": "Hello 你好"}, None, None)
        )
        await disk.wait(asking)
        disk.let_go_on()
        await asking
        assert memory.session("s").status().turns == 1

    with Memory("sqlite://") as memory:
        asyncio.run(work(memory))


def test_sabotage_in_place_the_loop_is_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    check_that_in_place_the_loop_is_held_up(
        monkeypatch, test_other_tasks_run_while_the_disk_is_slow
    )


def test_every_hook_and_the_session_store_leave_the_loop_alone() -> None:
    async def work(memory: Memory) -> None:
        threads = watch_threads(memory)
        options: Any = turnfold_options(memory, "s")
        payload = {"prompt": "Look.", "tool_name": "look", "tool_input": {}, "tool_response": "sea"}
        for event in options.hooks:
            await hook(options, event)({**payload, "last_assistant_message": "done"}, "t1", None)
        store = options.session_store
        await store.append(KEY, [{"uuid": "1", "type": "user"}])
        assert await store.load(KEY) == [{"uuid": "1", "type": "user"}]
        assert [one["session_id"] for one in await store.list_sessions("p")] == ["s"]
        assert len(await store.list_session_summaries("p")) == 1
        assert await store.list_subkeys(KEY) == []
        await store.delete(KEY)
        assert threads
        assert threading.get_ident() not in threads

    with Memory("sqlite://") as memory:
        asyncio.run(work(memory))
