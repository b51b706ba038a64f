"""LlamaIndex memories that are written and restored, queries as bundles, and agents that count what they send."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "llama_index.core",
    reason="the extra llama-index is not installed; it has an environment of its own",
)

from llama_index.core.llms import ChatMessage

from tests.adapters.llama_scripts import ScriptedLLM, called, said
from turnfold import AsyncMemory, Budget, Memory
from turnfold.adapters.llama_index import (
    TurnfoldFunctionAgent,
    TurnfoldReActAgent,
    record_of,
    turnfold_memory,
)
from turnfold.adapters.llama_index import memory as memory_module
from turnfold.errors import InvalidOption

TurnfoldMemory: Any = import_module("turnfold.adapters.llama_index").TurnfoldMemory
agents: Any = import_module("llama_index.core.agent.workflow")
engines: Any = import_module("llama_index.core.chat_engine")
schema: Any = import_module("llama_index.core.schema")
tools: Any = import_module("llama_index.core.tools")
workflow: Any = import_module("llama_index.core.workflow")

# LlamaIndex uses names that pydantic and Python have since replaced.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

SMALL = Budget(max_tokens=3_000)
LONG = "A tool with a very long description, 很长的说明. " * 15
Restore = Callable[[Any], Any]
WAYS: dict[str, Restore] = {
    "to_dict": lambda kept: TurnfoldMemory.from_dict(kept.to_dict()),
    "json": lambda kept: TurnfoldMemory.model_validate_json(kept.model_dump_json()),
    "pickle": lambda kept: pickle.loads(pickle.dumps(kept)),  # noqa: S301 (made here)
    "context": lambda kept: workflow.JsonSerializer().deserialize(
        workflow.JsonSerializer().serialize(kept)
    ),
    "context with pickle": lambda kept: workflow.JsonPickleSerializer().deserialize(
        workflow.JsonPickleSerializer().serialize(kept)
    ),
}


@pytest.mark.parametrize("way", list(WAYS))
def test_a_restored_memory_goes_on_with_its_conversation(way: str) -> None:
    with Memory("sqlite://") as memory, Memory("sqlite://") as other:
        kept: Any = turnfold_memory(memory, "s", recall=False)
        turnfold_memory(other, "s")  # of another store under the same address
        kept.put(ChatMessage("The harbour is Kronborg. 港口"))
        restored = WAYS[way](kept)
        assert [one.content for one in restored.get()] == ["The harbour is Kronborg. 港口"]
        restored.put(ChatMessage("And?"))
        assert [one.content for one in kept.get()] == ["The harbour is Kronborg. 港口", "And?"]
        assert restored.recall is False


def test_a_restored_memory_awaits_a_memory_that_awaits() -> None:
    async def work() -> None:
        async with AsyncMemory("sqlite://") as memory:
            kept: Any = turnfold_memory(memory, "s")
            await kept.aput(ChatMessage("one"))
            restored = TurnfoldMemory.from_dict(kept.to_dict())
            assert [one.content for one in await restored.aget()] == ["one"]

    asyncio.run(work())


def test_another_process_finds_the_store_by_its_address_or_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"sqlite:///{tmp_path / 'chat.db'}"
    with Memory(address) as memory:
        kept: Any = turnfold_memory(memory, "s")
        kept.put(ChatMessage("one"))
        written = kept.to_dict()
    cache: Any = memory_module.SizedCache(limit=64)
    monkeypatch.setattr(memory_module, "_OPEN", cache)  # as in a process that knows nothing yet
    restored = TurnfoldMemory.from_dict(written)
    with pytest.raises(InvalidOption, match="has not opened its store") as refused:
        restored.get()
    assert "turnfold_memory(memory.session('s'))" in str(refused.value)
    with Memory(address) as memory:
        turnfold_memory(memory, "another")
        assert [one.content for one in restored.get()] == ["one"]


def test_a_context_of_a_workflow_goes_on_with_the_memory_in_it() -> None:
    async def work() -> None:
        with Memory("sqlite://") as memory:
            llm = ScriptedLLM(script=[said("Noted."), said("Kronborg.")])
            kind: Any = TurnfoldFunctionAgent
            agent = kind(llm=llm, tools=[], streaming=False)
            flow = agents.AgentWorkflow(agents=[agent])
            context = workflow.Context(flow)
            kept = turnfold_memory(memory, "s")
            await flow.run("The harbour is Kronborg.", memory=kept, ctx=context)
            written = json.loads(json.dumps(context.to_dict(serializer=workflow.JsonSerializer())))
            again = workflow.Context.from_dict(flow, written, serializer=workflow.JsonSerializer())
            await flow.run("Which harbour?", ctx=again)
            assert [one.content for one in llm.prompts[-1]] == [
                "The harbour is Kronborg.",
                "Noted.",
                "Which harbour?",
            ]

    asyncio.run(work())


def test_a_query_may_be_a_bundle() -> None:
    with Memory("sqlite://") as memory:
        kept = turnfold_memory(memory, "s")
        kept.put(ChatMessage("The harbour is Kronborg."))
        bundle = schema.QueryBundle("harbour 港口")
        assert kept.get(bundle) == kept.get("harbour 港口")
        engine = engines.SimpleChatEngine.from_defaults(
            llm=ScriptedLLM(script=[said("ok")]), memory=kept
        )
        query: Any = "Which harbour?"
        assert str(engine.chat(query)) == "ok"


def look_tool() -> Any:
    def look(at: int) -> str:
        """Look."""
        return f"place {at}: " + "water and stone 水与石 " * 40

    return tools.FunctionTool.from_defaults(fn=look, description=LONG)


def reacting(steps: int) -> list[ChatMessage]:
    """Thinks and looks so many times, then answers."""
    looks = [
        said(f'Thought: I look {at}.\nAction: look\nAction Input: {{"at": {at}}}')
        for at in range(steps)
    ]
    return [*looks, said("Thought: I can answer.\nAnswer: done")]


def run(kind: Any, script: list[ChatMessage], memory: Memory, **more: Any) -> ScriptedLLM:
    async def work() -> ScriptedLLM:
        llm = ScriptedLLM(script=script)
        agent = kind(
            llm=llm, tools=[look_tool()], streaming=False, system_prompt="Be brief. 简短", **more
        )
        kept = turnfold_memory(memory, "s")
        result = await agent.run("Look at everything.", memory=kept, max_iterations=100)
        assert str(result).strip() == "done"
        return llm

    return asyncio.run(work())


def tokens(memory: Memory, prompt: list[ChatMessage], *, offered: bool) -> int:
    counter = memory.session("s").counter
    schemas = [look_tool().metadata.to_openai_tool()] if offered else []
    count = sum(counter.count_messages([record_of(one) for one in prompt]))
    return count + (counter.count_tools(schemas) if offered else 0) + counter.reply


@pytest.mark.parametrize("ours", [True, False], ids=["turnfold", "plain"])
@pytest.mark.parametrize("react", [True, False], ids=["ReAct", "function calls"])
def test_a_long_loop_stays_in_budget_with_tools_and_prompt_counted(
    react: bool,  # noqa: FBT001
    ours: bool,  # noqa: FBT001
) -> None:
    calls = [called("look", at, at=at) for at in range(30)]
    script = reacting(30) if react else [*calls, said("done")]
    kinds = {
        (True, True): TurnfoldReActAgent,
        (True, False): agents.ReActAgent,
        (False, True): TurnfoldFunctionAgent,
        (False, False): agents.FunctionAgent,
    }
    with Memory("sqlite://", budget=SMALL) as memory:
        llm = run(kinds[react, ours], script, memory)
        assert len(llm.prompts) == 31
        counts = [tokens(memory, prompt, offered=not react) for prompt in llm.prompts]
        assert (max(counts) <= SMALL.tokens) is ours
        assert max(counts) > 0.7 * SMALL.tokens
        if ours:
            said_in_all = " ".join(
                str(one.content) for one in turnfold_memory(memory, "s").get_all()
            )
            assert "place 0:" in said_in_all
            assert "place 29:" in said_in_all


def test_the_state_that_a_workflow_puts_into_a_question_is_sent() -> None:
    async def work(memory: Memory) -> None:
        calls = [called("look", at, at=at) for at in range(20)]
        llm = ScriptedLLM(script=[*calls, said("done")])
        kind: Any = TurnfoldFunctionAgent
        agent = kind(name="a", description="d", llm=llm, tools=[look_tool()], streaming=False)
        prompt = "Current state: {state}. User message: {msg}"
        flow = agents.AgentWorkflow(agents=[agent], initial_state={"n": 7}, state_prompt=prompt)
        await flow.run("Look.", memory=turnfold_memory(memory, "s"), max_iterations=50)
        first = [str(one.content) for one in llm.prompts[0]]
        assert "Current state: {'n': 7}. User message: Look." in first
        assert max(tokens(memory, one, offered=True) for one in llm.prompts) <= SMALL.tokens

    with Memory("sqlite://", budget=SMALL) as memory:
        asyncio.run(work(memory))
