"""Results of the tools of LlamaIndex agents are remembered by rules, and shown at the next question."""

from __future__ import annotations

import asyncio
import pickle
from importlib import import_module
from typing import Any

import pytest

pytest.importorskip(
    "llama_index.core",
    reason="the extra llama-index is not installed; it has an environment of its own",
)

from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool

from tests.adapters.llama_scripts import ScriptedLLM, called, said
from turnfold import AgentMemory, AsyncMemory, Budget, Memory
from turnfold.adapters.llama_index import (
    TurnfoldFunctionAgent,
    TurnfoldMemory,
    TurnfoldReActAgent,
    turnfold_memory,
)
from turnfold.errors import InvalidOption
from turnfold.findings import FindingRule
from turnfold.memory import AsyncSession

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

workflow: Any = import_module("llama_index.core.agent.workflow")

ROOM = Budget(max_tokens=12_000)
TOC = "第一章 港口\n第二章 潮汐\nChapter 3 Pilots"
RULES = [FindingRule("get_toc", kind="toc", invalidated_by=("edit",))]


async def get_toc(reg_id: str) -> str:
    """Return the table of contents of a book."""
    return f"{reg_id}: {TOC}"


async def edit(reg_id: str) -> str:
    """Change a book."""
    return f"{reg_id} changed"


async def broken(reg_id: str) -> str:
    """Fail."""
    raise OSError(f"{reg_id}: 磁盘已满 disk full")


def tool(function: Any, name: str = "") -> FunctionTool:
    return FunctionTool.from_defaults(async_fn=function, name=name or function.__name__)


TOOLS = [tool(get_toc), tool(edit)]


def asks(number: int, name: str = "get_toc") -> ChatMessage:
    return called(name, number, reg_id="angui_2024")


def thinks(name: str = "get_toc") -> ChatMessage:
    return said(f'Thought: I look.\nAction: {name}\nAction Input: {{"reg_id": "angui_2024"}}\n')


def words(prompt: list[ChatMessage]) -> str:
    return "\n".join(one.content or "" for one in prompt)


async def found(session: AsyncSession) -> list[str]:
    return [each.content for each in await session.findings.list()]


AGENTS: dict[str, tuple[Any, ChatMessage, ChatMessage]] = {
    "function": (TurnfoldFunctionAgent, asks(1), said("3")),
    "react": (TurnfoldReActAgent, thinks(), said("Thought: I can answer.\nAnswer: 3 章")),
}


async def ask(kind: str, question: str, memory: TurnfoldMemory, *script: ChatMessage) -> str:
    llm = ScriptedLLM(script=list(script))
    agent = AGENTS[kind][0](llm=llm, tools=TOOLS, system_prompt="Be brief.", streaming=False)
    await agent.run(question, memory=memory)
    return words(llm.prompts[-1])


@pytest.mark.parametrize("with_rules", [True, False])
@pytest.mark.parametrize("kind", AGENTS)
def test_a_result_is_shown_again_after_a_reset(kind: str, with_rules: bool) -> None:  # noqa: FBT001
    """Without rules it is not: what shows it is the finding."""
    _, call, answer = AGENTS[kind]

    async def main() -> None:
        async with AsyncMemory("sqlite://", budget=ROOM) as store:
            session = store.session("s")
            memory = turnfold_memory(session, findings=RULES if with_rules else ())
            prompt = await ask(kind, "几章？", memory, call, answer)
            assert prompt.count("第二章 潮汐") == 1
            assert await found(session) == ([f"angui_2024: {TOC}"] if with_rules else [])
            prompt = await ask(kind, "How many were there?", memory, answer)
            assert prompt.count("第二章 潮汐") == 1
            await memory.areset()
            prompt = await ask(kind, "How many were there?", memory, answer)
            assert prompt.count("第二章 潮汐") == prompt.count("Chapter 3 Pilots") == with_rules

    asyncio.run(main())


@pytest.mark.parametrize("blocking", [False, True])
def test_an_agent_memory_is_kept_up_to_date(blocking: bool) -> None:  # noqa: FBT001
    """Document 004, with tools that return objects: LlamaIndex shows them as Python writes them."""
    known = AgentMemory()

    async def get_contents(reg_id: str) -> dict[str, Any]:
        return {"title": reg_id, "children": [{"title": "第一章 总则"}, {"title": "Chapter 2"}]}

    async def smart_search(query: str) -> list[dict[str, Any]]:
        hit = {"content": f"{query}电阻不小于 10 MΩ", "source": "angui_2024 P85"}
        return [{**hit, "score": 0.9}, {**hit, "source": "angui_2024 P9", "score": 0.1}]

    async def read_page_range(reg_id: str, start_page: int) -> str:
        return f"{reg_id} page {start_page}"

    script = [
        asks(1),
        called("smart_search", 2, query="绝缘"),
        called("read_page_range", 3, reg_id="angui_2024", start_page=85),
        said("10 MΩ"),
    ]
    tools = [tool(get_contents, "get_toc"), tool(smart_search), tool(read_page_range)]
    agent = AGENTS["function"][0](llm=ScriptedLLM(script=script), tools=tools)

    async def run(memory: TurnfoldMemory) -> None:
        await agent.run("绝缘电阻是多少？", memory=memory)

    async def main() -> None:
        async with AsyncMemory("sqlite://", budget=ROOM) as store:
            await run(turnfold_memory(store, "s", findings=known))

    if blocking:
        with Memory("sqlite://", budget=ROOM) as store:
            asyncio.run(run(turnfold_memory(store, "s", findings=known)))
    else:
        asyncio.run(main())
    assert known.known_chapters == ["第一章 总则", "Chapter 2"]
    assert [(each.content, each.source) for each in known.relevant_chunks] == [
        ("绝缘电阻不小于 10 MΩ", "angui_2024 P85"),
        ("angui_2024 page 85", "angui_2024 P85"),
    ]


def test_a_tool_that_changes_something_makes_a_result_stale() -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://", budget=ROOM) as store:
            session = store.session("s")
            memory = turnfold_memory(session, findings=RULES)
            both = asks(1)
            both.blocks.append(asks(2, "edit").blocks[-1])
            await ask("function", "Both.", memory, both, said("ok"))
            assert await found(session) == []
            await ask("function", "几章？", memory, asks(3), said("3"))
            assert await found(session) == [f"angui_2024: {TOC}"]
            await ask("function", "Change it.", memory, asks(4, "edit"), said("ok"))
            assert await found(session) == []

    asyncio.run(main())


@pytest.mark.parametrize("kind", AGENTS)
def test_an_error_is_not_remembered(kind: str) -> None:
    agent_class, call, answer = AGENTS[kind]

    async def main() -> None:
        async with AsyncMemory("sqlite://", budget=ROOM) as store:
            session = store.session("s")
            llm = ScriptedLLM(script=[call, answer])
            agent = agent_class(llm=llm, tools=[tool(broken, "get_toc")], streaming=False)
            await agent.run("几章？", memory=turnfold_memory(session, findings=RULES))
            assert "磁盘已满" in words(llm.prompts[-1])
            assert await found(session) == []

    asyncio.run(main())


def test_the_agents_of_a_workflow_share_what_they_found() -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://", budget=ROOM) as store:
            session = store.session("s")
            llm = ScriptedLLM(script=[asks(1), said("3")])
            agent = AGENTS["function"][0](
                name="reader", description="reads", llm=llm, tools=TOOLS, streaming=False
            )
            team = workflow.AgentWorkflow(agents=[agent], root_agent="reader")
            await team.run("几章？", memory=turnfold_memory(session, findings=RULES))
            assert await found(session) == [f"angui_2024: {TOC}"]

    asyncio.run(main())


def test_rules_with_serve_are_refused() -> None:
    served = AgentMemory().finding_rules(serve=True)
    with Memory("sqlite://") as store, pytest.raises(InvalidOption, match="get_toc have serve"):
        turnfold_memory(store, "s", findings=served)


def test_a_restored_memory_uses_the_rules_of_this_process() -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://", budget=ROOM) as store:
            session = store.session("s")
            written = pickle.dumps(turnfold_memory(session, findings=RULES))
            turnfold_memory(store, "another")
            memory = pickle.loads(written)  # noqa: S301 (its own)
            await ask("function", "几章？", memory, asks(1), said("3"))
            assert await found(session) == [f"angui_2024: {TOC}"]

    asyncio.run(main())


def test_a_restored_memory_without_rules_in_this_process_is_refused() -> None:
    with Memory("sqlite://", budget=ROOM) as store:
        written: Any = turnfold_memory(store, "s")
        restored = type(written).from_dict({**written.to_dict(), "has_findings": True})
        with pytest.raises(InvalidOption, match="findings="):
            restored.get()
