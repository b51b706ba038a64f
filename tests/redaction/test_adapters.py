"""Adapters with a memory that redacts: they store labels, or refuse at once; none stores what was found."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.redaction.test_stored import found_in, said
from turnfold import AsyncMemory, Memory
from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.redaction import find_secrets


def test_runs_of_the_openai_agents_sdk_store_labels(tmp_path: Path) -> None:
    pytest.importorskip("agents", reason="the extra openai-agents is not installed")
    from agents.testing import ScriptedModel

    from tests.adapters.openai_runs import agent_of, look_tool, looping, run_either
    from turnfold.adapters.openai_agents import TurnfoldSession, turnfold_run

    async def run() -> list[Any]:
        async with AsyncMemory(f"sqlite:///{tmp_path}/a.db", redact=find_secrets) as memory:
            session = memory.session("talk")
            for _ in range(2):
                agent = agent_of(ScriptedModel(looping(2)), look_tool())
                await run_either(False, agent, said("email"), **turnfold_run(session))  # noqa: FBT003 (its signature)
            return await TurnfoldSession(session).get_items()

    items = asyncio.run(run())
    asked = [item["content"] for item in items if item.get("role") == "user"]
    assert asked == ["It is [redacted: email 1] here / 就是[redacted: email 1]。"] * 2
    assert found_in(tmp_path / "a.db") == []


def test_the_langchain_middleware_refuses_at_once() -> None:
    pytest.importorskip("langchain", reason="the extra langchain is not installed")
    from turnfold.adapters.langchain import turnfold_middleware

    with Memory(redact=find_secrets) as memory:
        for given in (memory, memory.session("talk")):
            with pytest.raises(
                InvalidOption, match="turnfold_middleware cannot use a memory with redact="
            ):
                turnfold_middleware(given)


def test_the_pydantic_ai_capability_refuses_at_once() -> None:
    pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")
    from turnfold.adapters.pydantic_ai import turnfold_capability

    with Memory(redact=find_secrets) as memory:
        for given in (memory, memory.session("talk")):
            with pytest.raises(
                InvalidOption, match="turnfold_capability cannot use a memory with redact="
            ):
                turnfold_capability(given)


def test_the_langgraph_saver_refuses_what_it_packs(tmp_path: Path) -> None:
    pytest.importorskip("langgraph", reason="the extra langchain is not installed")
    from langgraph.checkpoint.base import empty_checkpoint

    from turnfold.adapters.langchain import TurnfoldSaver

    with Memory(f"sqlite:///{tmp_path}/a.db", redact=find_secrets) as memory:
        place: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"text": said("email")}
        with pytest.raises(InvalidRecord, match="binary form"):
            TurnfoldSaver(memory).put(place, checkpoint, {}, {"text": "1"})
    assert found_in(tmp_path / "a.db") == []
