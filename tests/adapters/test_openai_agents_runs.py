"""Real runs of the OpenAI Agents SDK with memory: what their model sees, what the session keeps, what the log holds."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents", reason="the extra openai-agents is not installed")

from agents import (
    Agent,
    RunHooks,
    Runner,
    UserError,
    function_tool,
)
from agents.testing import ScriptedModel

from tests.adapters.openai_runs import (
    MANY,
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
from turnfold import AsyncMemory, Budget, Memory
from turnfold.adapters.openai_agents import (
    TurnfoldHooks,
    TurnfoldSession,
    recall_tool,
    turnfold_run,
)
from turnfold.adapters.openai_agents import items as items_module
from turnfold.adapters.openai_agents import run as run_module
from turnfold.adapters.openai_agents.run import ItemsView

LARGE = Budget(max_tokens=200_000)
both = pytest.mark.parametrize("streamed", [False, True], ids=["run", "run_streamed"])


async def said_in(memory: AsyncMemory, name: str) -> list[str]:
    """The roles of a log, instructions aside."""
    roles = [one.message.role for one in await memory.session(name).history()]
    return [role for role in roles if role != "system"]


@both
def test_sixty_steps_with_folding_stay_in_budget_and_the_session_keeps_everything(
    streamed: bool,  # noqa: FBT001
) -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        model = ScriptedModel(looping(60))
        agent = agent_of(model, look_tool(), recall_tool())
        result = await run_either(streamed, agent, "Look at everything.", **turnfold_run(session))
        assert result.final_output == "done"
        counts = [await check_prompt(call, agent, session) for call in model.calls]
        assert len(counts) == 61
        assert max(counts) > 0.7 * SMALL.tokens
        assert (await session.status()).checkpoint
        items = await TurnfoldSession(session).get_items()
        assert items == result.to_input_list()
        assert len(items) == 1 + 60 + 2 * 72 + 1

    with_memory(work)


def test_without_turnfold_the_same_run_leaves_the_budget() -> None:
    async def work(memory: AsyncMemory) -> None:
        model = ScriptedModel(looping(60))
        agent = agent_of(model, look_tool())
        await Runner.run(agent, "Look at everything.", max_turns=MANY)
        with pytest.raises(AssertionError):
            await check_prompt(model.calls[-1], agent, memory.session("s"))

    with_memory(work)


@both
def test_when_everything_fits_the_run_is_the_one_without_turnfold(streamed: bool) -> None:  # noqa: FBT001
    async def work(memory: AsyncMemory) -> None:
        plain, ours = (ScriptedModel([*looping(12), [said("again", 2)]]) for _ in range(2))
        kept = TurnfoldSession(memory, "plain")
        for model, more in ((plain, {"session": kept}), (ours, None)):
            agent = agent_of(model, look_tool("sea"))
            for question in ("Look.", "And again?"):
                given = more or turnfold_run(memory, "ours")
                result = await run_either(streamed, agent, question, **given)
                assert result.final_output in {"done", "again"}
        assert [call.input for call in ours.calls] == [call.input for call in plain.calls]
        told = [call.system_instructions for call in ours.calls]
        assert told == [call.system_instructions for call in plain.calls]
        assert await TurnfoldSession(memory, "ours").get_items() == await kept.get_items()

    with_memory(work, LARGE)


@both
def test_a_response_is_in_the_log_before_its_tool_runs(
    streamed: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run(memory: AsyncMemory, name: str) -> list[str]:
        seen: list[str] = []

        @function_tool
        async def look() -> str:
            """Look."""
            seen.extend(
                call.id
                for one in await memory.session(name).history()
                for call in one.message.calls
            )
            return "sea"

        script = [[thought(1), called("look", 1), called("look", 2)], [said("done")]]
        agent = agent_of(ScriptedModel(script), look)
        await run_either(streamed, agent, "Look.", **turnfold_run(memory, name))
        items = await TurnfoldSession(memory, name).get_items()
        assert [item.get("call_id") for item in items].count(
            "call_1"
        ) == 2  # the call and its result
        return seen

    async def work(memory: AsyncMemory) -> None:
        assert await run(memory, "s") == ["call_1", "call_2"] * 2
        monkeypatch.setattr(TurnfoldHooks, "on_tool_start", RunHooks.on_tool_start)
        assert await run(memory, "sabotaged") == []

    with_memory(work)


def test_what_was_stored_ahead_is_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(memory: AsyncMemory) -> None:
        async def entries(name: str) -> int:
            agent = agent_of(ScriptedModel(looping(2)), look_tool("sea"))
            await run_either(True, agent, "Look.", **turnfold_run(memory, name))  # noqa: FBT003
            return len(await said_in(memory, name))

        assert await entries("s") == 6
        monkeypatch.setattr(items_module, "_redeem", lambda *_: False)
        assert await entries("sabotaged") > 6

    with_memory(work)


@both
def test_a_run_that_fails_leaves_what_it_said_and_the_next_one_goes_on(streamed: bool) -> None:  # noqa: FBT001
    async def work(memory: AsyncMemory) -> None:
        @function_tool(failure_error_function=None)
        def pay() -> str:
            """Pay."""
            raise ConnectionError("line cut")

        model = ScriptedModel([[called("pay", 1)], [said("Sorry.")]])
        agent = agent_of(model, pay)
        with pytest.raises(Exception, match="line cut"):
            await run_either(streamed, agent, "Pay!", **turnfold_run(memory, "s"))
        assert await said_in(memory, "s") == ["user", "assistant"]
        await run_either(streamed, agent, "And?", **turnfold_run(memory, "s"))
        await check_prompt(model.calls[-1], agent, memory.session("s"))
        shapes = [item.get("type", item.get("role")) for item in model.calls[-1].input]
        assert shapes == ["user", "function_call", "function_call_output", "user"]

    with_memory(work)


def paying(end: str, *, approved: bool) -> tuple[Agent[Any], ScriptedModel, asyncio.Event]:
    """An agent that pays while another tool still works; that tool goes on for ever, or fails."""
    paid, waiting = asyncio.Event(), asyncio.Event()

    @function_tool(needs_approval=approved)
    async def pay() -> str:
        """Pay."""
        paid.set()
        return "paid 付款"

    @function_tool(needs_approval=approved, failure_error_function=None)
    async def wait() -> str:
        """Never comes back."""
        await paid.wait()
        await asyncio.sleep(0.01)
        waiting.set()
        await (asyncio.Event().wait() if end == "cancelled" else asyncio.sleep(0))
        raise ConnectionError("line cut")

    script = [[thought(1), called("wait", 1), called("pay", 2)], [said("A", 1)], [said("B", 2)]]
    model = ScriptedModel(script)
    return agent_of(model, pay, wait), model, waiting


@pytest.mark.parametrize("end", ["cancelled", "failed"])
@pytest.mark.parametrize("approved", [False, True])
@both
def test_what_a_tool_did_before_its_run_was_cancelled_is_in_the_log_once(
    streamed: bool,  # noqa: FBT001
    approved: bool,  # noqa: FBT001
    end: str,
) -> None:
    async def work(memory: AsyncMemory) -> None:
        agent, model, waiting = paying(end, approved=approved)
        given: Any = "Pay!"
        if approved:
            first = await run_either(streamed, agent, given, **turnfold_run(memory, "s"))
            given = first.to_state()
            for each in first.interruptions:
                given.approve(each)
        run = asyncio.ensure_future(run_either(streamed, agent, given, **turnfold_run(memory, "s")))
        await waiting.wait()
        if end == "cancelled":
            run.cancel()
        with pytest.raises((asyncio.CancelledError, UserError)):
            await run
        for question in ("And?", "Well?"):
            await run_either(streamed, agent, question, **turnfold_run(memory, "s"))
            await check_prompt(model.calls[-1], agent, memory.session("s"))
            told = [
                item["output"]
                for item in model.calls[-1].input
                if item.get("type") == "function_call_output" and item["call_id"] == "call_2"
            ]
            assert told == ["paid 付款"]
        items = await TurnfoldSession(memory, "s").get_items()
        assert [item.get("call_id") for item in items].count("call_2") == 2  # the call, its result
        results = [
            part for one in await memory.session("s").history() for part in one.message.results
        ]
        assert [one.call_id for one in results] == ["call_2"]

    with_memory(work)


def test_outputs_are_stored_in_the_order_of_their_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(memory: AsyncMemory) -> None:
        async def order(name: str) -> list[str]:
            second = asyncio.Event()

            @function_tool
            async def look(at: int) -> str:
                """Look at a place."""
                if at > 1:
                    second.set()
                await second.wait()
                await asyncio.sleep(0 if at > 1 else 0.005)
                return "sea"

            calls = [called("look", number, f'{{"at": {number}}}') for number in (1, 2)]
            agent = agent_of(ScriptedModel([calls, [said("done")]]), look)
            await Runner.run(agent, "Look.", **turnfold_run(memory, name))
            log = await memory.session(name).history()
            return [result.call_id for one in log for result in one.message.results]

        assert await order("s") == ["call_1", "call_2"]
        monkeypatch.setattr(run_module, "_WAIT_FOR_EARLIER", 0)
        assert await order("sabotaged") == ["call_2", "call_1"]

    with_memory(work)


def test_a_second_process_goes_on_with_the_conversation(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'chat.db'}"

    async def ask(question: str, script: list[Any]) -> ScriptedModel:
        with Memory(store, budget=SMALL) as memory:  # a blocking memory serves as well
            model = ScriptedModel(script)
            agent = agent_of(model, look_tool())
            await Runner.run(agent, question, max_turns=MANY, **turnfold_run(memory.session("s")))
            await check_prompt(model.calls[-1], agent, memory.session("s").awaiting)
            return model

    asyncio.run(ask("The harbour is called Kronborg.", looping(20)))
    model = asyncio.run(ask("What is the harbour called?", [[said("Kronborg", 2)]]))
    assert "Kronborg" in json.dumps(model.calls[-1].input)


def test_a_popped_question_is_not_shown_to_a_model_again() -> None:
    async def work(memory: AsyncMemory) -> None:
        model = ScriptedModel([[said("A", 1)], [said("B", 2)]])
        agent = agent_of(model)
        await Runner.run(agent, "wrong question", **turnfold_run(memory, "s"))
        session = TurnfoldSession(memory, "s")
        await session.pop_item()
        await session.pop_item()
        await Runner.run(agent, "right question", **turnfold_run(memory, "s"))
        assert [item["content"] for item in model.calls[-1].input] == ["right question"]
        # The question stands a second time: it was stored again when the answer was popped.
        kept = await said_in(memory, "s")
        assert kept == ["user", "assistant", "user", "user", "assistant"]

    with_memory(work)


def test_an_agent_that_works_as_a_tool_sees_its_own_conversation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def itself(view: ItemsView, _: object) -> ItemsView:
        return view

    async def inner_prompt(memory: AsyncMemory, name: str) -> Any:
        inner = ScriptedModel([[said("42", 9)]])
        expert = Agent(name="expert", model=inner)
        tool = expert.as_tool("ask_expert", "Ask.")
        outer = ScriptedModel([[called("ask_expert", 1, '{"input": "Look."}')], [said("done")]])
        agent = agent_of(outer, tool)
        await Runner.run(agent, "Look.", **turnfold_run(memory, name))
        assert (await memory.session(name).status()).turns == 1
        return inner.calls[-1].input

    async def work(memory: AsyncMemory) -> None:
        assert [item["content"] for item in await inner_prompt(memory, "s")] == ["Look."]
        monkeypatch.setattr(ItemsView, "of_tool", lambda view, _: view)
        monkeypatch.setattr(ItemsView, "_view_of", itself)
        assert len(await inner_prompt(memory, "sabotaged")) > 1

    with_memory(work)


def test_a_handoff_goes_on_with_the_conversation_under_other_instructions() -> None:
    async def work(memory: AsyncMemory) -> None:
        second = ScriptedModel([[said("Guten Tag.", 2)]])
        german = Agent(name="german", model=second, instructions="Speak German.")
        first = ScriptedModel([[called("transfer_to_german", 1)]])
        result = await Runner.run(
            agent_of(first, handoffs=[german]), "Hello", **turnfold_run(memory, "s")
        )
        assert result.last_agent is german
        call = second.calls[-1]
        assert call.system_instructions == "Speak German."
        assert [item.get("type", item.get("role")) for item in call.input] == [
            "user",
            "function_call",
            "function_call_output",
        ]

    with_memory(work)


def test_a_run_resumed_after_an_approval_goes_on_where_it_was() -> None:
    async def work(memory: AsyncMemory) -> None:
        @function_tool(needs_approval=True)
        def pay() -> str:
            """Pay."""
            return "paid"

        model = ScriptedModel([[called("pay", 1)], [said("Done.")]])
        agent = agent_of(model, pay)
        first = await Runner.run(agent, "Pay!", **turnfold_run(memory, "s"))
        state = first.to_state()
        state.approve(first.interruptions[0])
        await Runner.run(agent, state, **turnfold_run(memory, "s"))
        shapes = [item.get("type", item.get("role")) for item in model.calls[-1].input]
        assert shapes == ["user", "function_call", "function_call_output"]
        assert len(await TurnfoldSession(memory, "s").get_items()) == 4

    with_memory(work)


def test_two_runs_on_one_conversation_each_go_on_with_their_own_turn() -> None:
    async def work(memory: AsyncMemory) -> None:
        asked = asyncio.Event()

        @function_tool
        async def wait() -> str:
            """Wait."""
            asked.set()
            await other
            return "waited"

        slow = ScriptedModel([[called("wait", 1)], [said("slow done")]])
        quick = ScriptedModel([[said("quick done", 2)]])

        async def ask_quickly() -> None:
            await asked.wait()
            await Runner.run(agent_of(quick), "quick", **turnfold_run(memory, "s"))

        other = asyncio.create_task(ask_quickly())
        agent = agent_of(slow, wait)
        await Runner.run(agent, "slow", **turnfold_run(memory, "s"))
        await check_prompt(slow.calls[-1], agent, memory.session("s"))
        last = slow.calls[-1].input
        assert last[-1]["output"] == "waited"
        assert "quick" in json.dumps(last[:-3])

    with_memory(work, LARGE)
