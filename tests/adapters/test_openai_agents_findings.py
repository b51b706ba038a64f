"""Results of a run's tools are remembered by rules, shown at the next question, and served by a guardrail."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest

pytest.importorskip("agents", reason="the extra openai-agents is not installed")

from agents import (
    Agent,
    FunctionTool,
    GuardrailFunctionOutput,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    Runner,
    function_tool,
    output_guardrail,
)
from agents.run_config import ToolErrorFormatterArgs
from agents.testing import ScriptedModel

from tests.adapters.openai_runs import agent_of, called, run_either, said, with_memory
from turnfold import AgentMemory, AsyncMemory, Budget, Memory
from turnfold.adapters.openai_agents import serve_findings, turnfold_run
from turnfold.errors import InvalidOption
from turnfold.findings import FindingRule
from turnfold.memory import AsyncSession

ROOM = Budget(max_tokens=12_000)
TOC = "第一章 港口\n第二章 潮汐\nChapter 3 Pilots"
ANGUI = '{"reg_id": "angui_2024"}'
RULES = [FindingRule("get_toc", kind="toc", invalidated_by=("edit",))]
SERVED = [FindingRule("get_toc", kind="toc", serve=True, invalidated_by=("edit",))]


class Library:
    """Tools that count how often they ran."""

    def __init__(self, *, guarded: bool = False, failing: bool = False) -> None:
        self.fetched = 0

        @function_tool(tool_input_guardrails=[serve_findings] if guarded else None)
        def get_toc(reg_id: str) -> str:
            """Return the table of contents of a book."""
            self.fetched += 1
            if failing:
                raise OSError("磁盘已满 disk full")
            return f"{reg_id}: {TOC}"

        @function_tool
        def edit(reg_id: str) -> str:
            """Change a book."""
            return f"{reg_id} changed"

        self.tools: Sequence[FunctionTool] = (get_toc, edit)


def asks(number: int, tool: str = "get_toc") -> list[Any]:
    return [called(tool, number, ANGUI)]


def prompt_of(model: ScriptedModel) -> str:
    return str(model.calls[-1].input)


async def found(session: AsyncSession) -> list[str]:
    return [each.content for each in await session.findings.list()]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_result_is_shown_again_after_the_history_is_cleared(streamed: bool) -> None:  # noqa: FBT001
    async def work(memory: AsyncMemory) -> None:
        session, library = memory.session("s"), Library()
        model = ScriptedModel([asks(1), [said("3 chapters")], [said("还是 3 章")]])
        agent = agent_of(model, *library.tools)
        await run_either(streamed, agent, "几章？", **turnfold_run(session, findings=RULES))
        assert await found(session) == [f"angui_2024: {TOC}"]
        assert prompt_of(model).count("第二章 潮汐") == 1
        await session.clear()
        await run_either(streamed, agent, "Again?", **turnfold_run(session, findings=RULES))
        assert "第二章 潮汐" in prompt_of(model)
        assert "Chapter 3 Pilots" in prompt_of(model)

    with_memory(work, budget=ROOM)


def test_sabotage_without_rules_nothing_is_shown_again() -> None:
    async def work(memory: AsyncMemory) -> None:
        session, library = memory.session("s"), Library()
        model = ScriptedModel([asks(1), [said("3")], [said("3")]])
        agent = agent_of(model, *library.tools)
        await Runner.run(agent, "How many?", **turnfold_run(session))
        await session.clear()
        await Runner.run(agent, "Again?", **turnfold_run(session))
        assert "第二章 潮汐" not in prompt_of(model)

    with_memory(work, budget=ROOM)


def test_what_the_window_still_shows_is_not_shown_a_second_time() -> None:
    async def work(memory: AsyncMemory) -> None:
        session, library = memory.session("s"), Library()
        model = ScriptedModel([asks(1), [said("3")], [said("3")]])
        agent = agent_of(model, *library.tools)
        for question in ("How many?", "How many were there?"):
            await Runner.run(agent, question, **turnfold_run(session, findings=RULES))
        assert prompt_of(model).count("第二章 潮汐") == 1

    with_memory(work, budget=ROOM)


@pytest.mark.parametrize("blocking", [False, True])
def test_an_agent_memory_is_kept_up_to_date(blocking: bool) -> None:  # noqa: FBT001
    """Document 004, with tools that return objects: the SDK shows them as Python writes them."""
    known = AgentMemory()

    @function_tool
    def get_toc(reg_id: str) -> dict[str, Any]:
        """Return the table of contents."""
        return {"title": reg_id, "children": [{"title": "第一章 总则"}, {"title": "Chapter 2"}]}

    @function_tool
    def smart_search(query: str) -> list[dict[str, Any]]:
        """Search."""
        hit = {"content": f"{query}电阻不小于 10 MΩ", "source": "angui_2024 P85"}
        return [{**hit, "score": 0.9}, {**hit, "source": "angui_2024 P9", "score": 0.1}]

    @function_tool
    def read_page_range(reg_id: str, start_page: int) -> str:
        """Read pages."""
        return f"{reg_id} page {start_page}"

    script = [
        asks(1),
        [
            called("smart_search", 2, '{"query": "绝缘"}'),
            called("read_page_range", 3, '{"reg_id": "angui_2024", "start_page": 85}'),
        ],
        [said("10 MΩ")],
    ]
    agent = agent_of(ScriptedModel(script), get_toc, smart_search, read_page_range)
    if blocking:
        with Memory("sqlite://", budget=ROOM) as memory:
            asyncio.run(Runner.run(agent, "电阻？", **turnfold_run(memory, "s", findings=known)))
    else:

        async def work(memory: AsyncMemory) -> None:
            await Runner.run(agent, "电阻？", **turnfold_run(memory, "s", findings=known))

        with_memory(work, budget=ROOM)
    assert known.known_chapters == ["第一章 总则", "Chapter 2"]
    assert [(each.content, each.source) for each in known.relevant_chunks] == [
        ("绝缘电阻不小于 10 MΩ", "angui_2024 P85"),
        ("angui_2024 page 85", "angui_2024 P85"),
    ]


def test_a_repeated_call_is_served_until_another_tool_makes_it_stale() -> None:
    async def work(memory: AsyncMemory) -> None:
        session, library = memory.session("s"), Library(guarded=True)
        script = [[*asks(1)], [said("3")], asks(2), [said("3")], asks(3, "edit"), [said("ok")]]
        model = ScriptedModel([*script, asks(4), [said("3")]])
        agent = agent_of(model, *library.tools)
        await Runner.run(agent, "几章？", **turnfold_run(session, findings=SERVED))
        again = await Runner.run(agent, "几章？", **turnfold_run(session, findings=SERVED))
        assert library.fetched == 1
        outputs = [item.output for item in again.new_items if item.type == "tool_call_output_item"]
        assert str(outputs[0]).endswith(f"angui_2024: {TOC}")
        assert outputs != [f"angui_2024: {TOC}"]
        await Runner.run(agent, "Change it.", **turnfold_run(session, findings=SERVED))
        assert await found(session) == []
        await Runner.run(agent, "And now?", **turnfold_run(session, findings=SERVED))
        assert library.fetched == 2

    with_memory(work, budget=ROOM)


def test_tools_that_run_together_make_each_other_stale() -> None:
    async def work(memory: AsyncMemory) -> None:
        session, library = memory.session("s"), Library()
        model = ScriptedModel([[*asks(1), *asks(2, "edit")], [said("ok")]])
        run = turnfold_run(session, findings=RULES)
        await Runner.run(agent_of(model, *library.tools), "Both.", **run)
        assert await found(session) == []

    with_memory(work, budget=ROOM)


def test_serve_without_the_guardrail_is_refused() -> None:
    async def work(memory: AsyncMemory) -> None:
        model = ScriptedModel([[said("ok")]])
        agent = agent_of(model, *Library().tools)
        with pytest.raises(InvalidOption, match=r"'get_toc' has serve=True.*serve_findings"):
            await Runner.run(agent, "Hi", **turnfold_run(memory, "s", findings=SERVED))
        assert not model.calls

    with_memory(work, budget=ROOM)


def test_the_guardrail_lets_calls_of_runs_without_memory_pass() -> None:
    library = Library(guarded=True)
    model = ScriptedModel([asks(1), asks(2), [said("3")]])
    agent: Agent[Any] = agent_of(model, *library.tools)
    assert asyncio.run(Runner.run(agent, "几章？")).final_output == "3"
    assert library.fetched == 2


@pytest.mark.parametrize("own", [False, True])
def test_an_error_is_not_remembered(own: bool) -> None:  # noqa: FBT001
    def formatted(args: ToolErrorFormatterArgs[Any]) -> str:
        return f"{args.tool_name} 失败"

    async def work(memory: AsyncMemory) -> None:
        session, library = memory.session("s"), Library(failing=True)
        model = ScriptedModel([asks(1), [said("sorry")]])
        config = RunConfig(tool_error_formatter=formatted) if own else None
        run = turnfold_run(session, run_config=config, findings=RULES)
        await Runner.run(agent_of(model, *library.tools), "几章？", **run)
        assert library.fetched == 1
        assert ("get_toc 失败" in prompt_of(model)) is own
        assert await found(session) == []

    with_memory(work, budget=ROOM)


def test_the_text_of_a_timeout_is_not_remembered() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")

        @function_tool(timeout=0.001)
        async def get_toc(reg_id: str) -> str:
            """Never return."""
            await asyncio.Event().wait()
            return reg_id

        model = ScriptedModel([asks(1), [said("sorry")]])
        run = turnfold_run(session, findings=RULES)
        await Runner.run(agent_of(model, get_toc), "几章？", **run)
        assert "timed out" in prompt_of(model)
        assert await found(session) == []

    with_memory(work, budget=ROOM)


@pytest.mark.parametrize("rejected", [False, True])
def test_output_that_a_guardrail_rejects_is_not_remembered(rejected: bool) -> None:  # noqa: FBT001
    """The SDK stores a note in its place."""

    @output_guardrail
    async def refuse(*_: object) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=rejected)

    async def work(memory: AsyncMemory) -> None:
        session, library = memory.session("s"), Library()
        more = {"tool_use_behavior": "stop_on_first_tool", "output_guardrails": [refuse]}
        agent = agent_of(ScriptedModel([asks(1)]), *library.tools, **more)
        refused = pytest.raises(OutputGuardrailTripwireTriggered) if rejected else nullcontext()
        with refused:
            await Runner.run(agent, "几章？", **turnfold_run(session, findings=RULES))
        assert await found(session) == ([] if rejected else [f"angui_2024: {TOC}"])

    with_memory(work, budget=ROOM)
