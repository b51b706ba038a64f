"""Approvals, rejected output and agents as tools: the same runs with the SDK's own session and with turnfold."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

pytest.importorskip("agents", reason="the extra openai-agents is not installed")

from agents import (
    Agent,
    GuardrailFunctionOutput,
    OutputGuardrail,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunState,
    SQLiteSession,
    function_tool,
)
from agents.testing import ScriptedModel

from tests.adapters.openai_runs import (
    SMALL,
    agent_of,
    called,
    check_prompt,
    look_tool,
    looping,
    run_either,
    said,
    thought,
    with_memory,
)
from turnfold import AsyncMemory, Budget
from turnfold.adapters.openai_agents import TurnfoldSession, recall_tool, turnfold_run

LARGE = Budget(max_tokens=200_000)
both = pytest.mark.parametrize("streamed", [False, True], ids=["run", "run_streamed"])
Options: TypeAlias = Callable[[], dict[str, Any]]
"""Returns the keyword arguments of the next run."""
Prompts: TypeAlias = list[list[Any]]


@function_tool(needs_approval=True)
def pay() -> str:
    """Pay."""
    return "paid 已付"


@function_tool
def peek() -> str:
    """Look."""
    return "sea 海"


class Talk:
    """One conversation with an agent, in a session of the SDK or of turnfold."""

    def __init__(self, agent: Agent[Any], options: Options, streamed: bool) -> None:  # noqa: FBT001
        self.agent = agent
        self.options = options
        self.streamed = streamed

    async def ask(self, given: Any) -> Any:
        return await run_either(self.streamed, self.agent, given, **self.options())

    async def resume(self, result: Any, *, saved: bool = True, rejected: int = 0) -> Any:
        """Approve the waiting calls, the last `rejected` ones excepted, and go on; `saved`: from another process."""
        state = result.to_state()
        if saved:
            state = await RunState.from_json(self.agent, state.to_json())
        waiting = state.get_interruptions()
        for number, each in enumerate(waiting):
            if number < len(waiting) - rejected:
                state.approve(each)
            else:
                state.reject(each)
        return await self.ask(state)


Script: TypeAlias = Callable[[Options, bool], Awaitable[Prompts]]


def prompts(*models: ScriptedModel) -> Prompts:
    return [call.input for model in models for call in model.calls]


async def after_a_tool(options: Options, streamed: bool) -> Prompts:  # noqa: FBT001
    script = [[called("peek", 1)], [thought(2), called("pay", 2)], [said("done")], [said("x", 3)]]
    model = ScriptedModel(script)
    talk = Talk(agent_of(model, pay, peek), options, streamed)
    await talk.resume(await talk.ask("Pay! 付款"))
    await talk.ask("And?")
    return prompts(model)


async def after_another_run(options: Options, streamed: bool) -> Prompts:  # noqa: FBT001
    model = ScriptedModel([[said("hello", 0)], [called("pay", 2)], [said("done")], [said("x", 3)]])
    talk = Talk(agent_of(model, pay), options, streamed)
    await talk.ask("Hi")
    await talk.resume(await talk.ask("Pay!"))
    await talk.ask("And?")
    return prompts(model)


async def beside_a_tool_that_ran(options: Options, streamed: bool) -> Prompts:  # noqa: FBT001
    model = ScriptedModel([[called("pay", 1), called("peek", 2)], [said("done")], [said("x", 3)]])
    talk = Talk(agent_of(model, pay, peek), options, streamed)
    await talk.resume(await talk.ask("Pay!"))
    await talk.ask("And?")
    return prompts(model)


async def twice_in_a_row(options: Options, streamed: bool) -> Prompts:  # noqa: FBT001
    script = [
        [said("hello", 0)],
        [called("pay", 1), called("peek", 2)],
        [called("pay", 3)],
        [said("done")],
        [said("x", 3)],
    ]
    model = ScriptedModel(script)
    talk = Talk(agent_of(model, pay, peek), options, streamed)
    await talk.ask("Hi")
    await talk.resume(await talk.resume(await talk.ask("Pay!")))
    await talk.ask("And?")
    return prompts(model)


async def one_of_two_rejected(options: Options, streamed: bool) -> Prompts:  # noqa: FBT001
    script = [[said("hello", 0)], [called("pay", 1), called("pay", 2)], [said("done")]]
    model = ScriptedModel([*script, [said("x", 3)]])
    talk = Talk(agent_of(model, pay), options, streamed)
    await talk.ask("Hi")
    await talk.resume(await talk.ask("Pay!"), rejected=1)
    await talk.ask("And?")
    return prompts(model)


async def inside_an_agent_that_is_a_tool(options: Options, streamed: bool) -> Prompts:  # noqa: FBT001
    inner = ScriptedModel([[called("pay", 11)], [said("inner done", 12)]])
    clerk = Agent(name="clerk", model=inner, tools=[pay])
    call = called("ask_clerk", 1, '{"input": "Pay!"}')
    outer = ScriptedModel([[said("hello", 0)], [call], [said("done")], [said("x", 3)]])
    talk = Talk(agent_of(outer, clerk.as_tool("ask_clerk", "Ask.")), options, streamed)
    await talk.ask("Hi")
    await talk.resume(await talk.ask("Pay!"), saved=False)
    await talk.ask("And?")
    return prompts(outer, inner)


async def rejected_by_a_guardrail(options: Options, streamed: bool) -> Prompts:  # noqa: FBT001
    rejected = [thought(0), said("REJECTED 不许", 7), thought(1), called("peek", 1)]
    model = ScriptedModel([rejected, [said("ok", 2)]])
    agent = agent_of(model, peek, tool_use_behavior="stop_on_first_tool", output_guardrails=[TRIP])
    talk = Talk(agent, options, streamed)
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await talk.ask("Tell me.")
    agent.output_guardrails = []
    await talk.ask("Go on.")
    assert "REJECTED" not in json.dumps(model.calls[-1].input)
    return prompts(model)


async def text_rejected_by_a_guardrail(options: Options, streamed: bool) -> Prompts:  # noqa: FBT001
    model = ScriptedModel([[called("peek", 1)], [said("REJECTED", 7)], [said("ok", 2)]])
    agent = agent_of(model, peek, output_guardrails=[TRIP])
    talk = Talk(agent, options, streamed)
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await talk.ask("Tell me.")
    agent.output_guardrails = []
    await talk.ask("Go on.")
    assert "REJECTED" not in json.dumps(model.calls[-1].input)
    return prompts(model)


TRIP = OutputGuardrail(
    guardrail_function=lambda *_: GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)
)
SCRIPTS = (
    after_a_tool,
    after_another_run,
    beside_a_tool_that_ran,
    twice_in_a_row,
    one_of_two_rejected,
    inside_an_agent_that_is_a_tool,
    rejected_by_a_guardrail,
    text_rejected_by_a_guardrail,
)


@both
@pytest.mark.parametrize("reused", [False, True], ids=["fresh", "reused"])
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_a_run_sends_and_keeps_what_it_does_with_the_sessions_of_the_sdk(
    script: Script,
    reused: bool,  # noqa: FBT001
    streamed: bool,  # noqa: FBT001
) -> None:
    async def work(memory: AsyncMemory) -> None:
        theirs = SQLiteSession("s")
        expected = await script(lambda: {"session": theirs}, streamed)
        same: dict[str, Any] = {**turnfold_run(memory, "s")}
        found = await script(lambda: same if reused else {**turnfold_run(memory, "s")}, streamed)
        assert found == expected
        assert await TurnfoldSession(memory, "s").get_items() == await theirs.get_items()
        theirs.close()

    with_memory(work, LARGE)


@both
def test_a_call_that_was_never_approved_stays_in_the_session(streamed: bool) -> None:  # noqa: FBT001
    async def work(memory: AsyncMemory) -> None:
        model = ScriptedModel([[called("pay", 1), called("peek", 2)], [said("Fine.", 3)]])
        agent = agent_of(model, pay, peek)
        talk = Talk(agent, lambda: {**turnfold_run(memory, "s")}, streamed)
        await talk.ask("Pay!")
        await talk.ask("Never mind. 算了")
        await check_prompt(model.calls[-1], agent, memory.session("s"))
        items = await TurnfoldSession(memory, "s").get_items()
        shapes = [item.get("type", item.get("role")) for item in items]
        calls = ["function_call", "function_call", "function_call_output"]
        assert shapes == ["user", *calls, "user", "message"]

    with_memory(work, LARGE)


def test_a_guardrail_of_the_run_keeps_its_rejected_text_from_the_log() -> None:
    async def work(memory: AsyncMemory) -> None:
        model = ScriptedModel([[said("REJECTED", 7), called("peek", 1)]])
        agent = agent_of(model, peek, tool_use_behavior="stop_on_first_tool")
        options = turnfold_run(memory, "s", run_config=RunConfig(output_guardrails=[TRIP]))
        with pytest.raises(OutputGuardrailTripwireTriggered):
            await run_either(False, agent, "Tell me.", **options)  # noqa: FBT003
        assert await memory.search("REJECTED") == []
        assert "REJECTED" not in str(await memory.session("s").history())

    with_memory(work, LARGE)


@both
def test_agents_that_are_tools_stay_in_budget_two_levels_deep(streamed: bool) -> None:  # noqa: FBT001
    async def work(memory: AsyncMemory) -> None:
        deep = ScriptedModel(looping(30, answer="deep done"))
        expert = agent_of(deep, look_tool())
        ask_expert = expert.as_tool("ask_expert", "Ask.", max_turns=100)
        middle = ScriptedModel(
            [[called("ask_expert", 2000, '{"input": "深入"}')], *looping(30, answer="middle done")]
        )
        clerk = agent_of(middle, look_tool(), ask_expert)
        ask_clerk = clerk.as_tool("ask_clerk", "Ask.", max_turns=100)
        outer = ScriptedModel([[called("ask_clerk", 1, '{"input": "Look."}')], [said("done")]])
        agent = agent_of(outer, ask_clerk)
        result = await run_either(streamed, agent, "Look.", **turnfold_run(memory, "s"))
        assert result.final_output == "done"
        session = memory.session("s")
        counts = [
            await check_prompt(call, each, session)
            for model, each in ((deep, expert), (middle, clerk), (outer, agent))
            for call in model.calls
        ]
        assert len(counts) == 31 + 32 + 2
        assert max(counts) > 0.7 * SMALL.tokens
        assert "middle done" in json.dumps(outer.calls[-1].input)
        assert "deep done" not in json.dumps(outer.calls[-1].input)
        names = [each.conversation for each in await memory.conversations()]
        assert names == ["s", "s/call_1", "s/call_1/1"]

    with_memory(work)


def test_two_agents_that_are_tools_at_once_see_their_own_conversations() -> None:
    async def work(memory: AsyncMemory) -> None:
        models = [ScriptedModel(looping(3, answer=f"done {name}")) for name in "ab"]
        tools = [
            agent_of(model, look_tool(f"seen by {name}")).as_tool(f"ask_{name}", "Ask.")
            for model, name in zip(models, "ab", strict=True)
        ]
        calls = [called(f"ask_{name}", n, '{"input": "Look."}') for n, name in ((1, "a"), (2, "b"))]
        outer = ScriptedModel([calls, [said("done")]])
        await run_either(False, agent_of(outer, *tools), "Look.", **turnfold_run(memory, "s"))  # noqa: FBT003
        for model, name, other in zip(models, "ab", "ba", strict=True):
            sent = json.dumps(model.calls[-1].input)
            assert sent.count(f"seen by {name}") == 3
            assert f"seen by {other}" not in sent

    with_memory(work, LARGE)


def test_recall_searches_the_run_and_an_agent_that_is_a_tool_its_own_conversation() -> None:
    async def work(memory: AsyncMemory) -> None:
        recall = called("recall_context", 50, '{"query": "harbour"}')
        inner = ScriptedModel([[recall], [said("42", 9)]])
        tool = Agent(name="expert", model=inner, tools=[recall_tool()]).as_tool("ask", "Ask.")
        outer = ScriptedModel(
            [
                [said("Noted.", 1)],
                [called("recall_context", 51, '{"query": "harbour"}')],
                [called("ask", 1, '{"input": "The harbour is Elsinore."}')],
                [said("done", 2)],
            ]
        )
        agent = agent_of(outer, tool, recall_tool())
        for text in ("The harbour is Kronborg.", "Which one?"):
            await run_either(False, agent, text, **turnfold_run(memory, "s"))  # noqa: FBT003
        assert "Kronborg" in outer.calls[2].input[-1]["output"]
        own = inner.calls[-1].input[-1]["output"]
        assert "Elsinore" in own
        assert "Kronborg" not in own

    with_memory(work, LARGE)
