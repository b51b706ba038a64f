"""What a run of the OpenAI Agents SDK may bring along: filters, hooks, tools, policies; and what is refused."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

pytest.importorskip("agents", reason="the extra openai-agents is not installed")

from agents import (
    Agent,
    RunConfig,
    RunHooks,
    Runner,
    Usage,
)
from agents.lifecycle import RunHooksBase
from agents.run_config import ModelInputData
from agents.testing import ModelStep, ScriptedModel

from tests.adapters.openai_runs import (
    PAGE,
    agent_of,
    called,
    look_tool,
    looping,
    said,
    with_memory,
)
from turnfold import AsyncMemory, Budget
from turnfold.adapters.openai_agents import TurnfoldSession, recall_tool, turnfold_run
from turnfold.errors import MissingExtra
from turnfold.tokens import counter_for

LARGE = Budget(max_tokens=200_000)


def test_a_filter_of_the_run_is_called_last_and_its_hooks_are_called_too() -> None:
    async def work(memory: AsyncMemory) -> None:
        seen: set[str] = set()

        class Watch(RunHooks[Any]):
            """Notes which hooks are called."""

            def __getattribute__(self, name: str) -> Any:
                if name.startswith("on_"):
                    seen.add(name)
                return super().__getattribute__(name)

        async def redact(data: Any) -> ModelInputData:
            text = json.dumps(data.model_data.input).replace("4711", "****")
            return ModelInputData(json.loads(text), data.model_data.instructions)

        target = Agent(name="target", model=ScriptedModel([[said("x")]]))
        model = ScriptedModel([*looping(1)[:1], [called("transfer_to_target", 7)]])
        given = RunConfig(call_model_input_filter=redact, workflow_name="mine")
        more = turnfold_run(memory, "s", run_config=given, hooks=Watch())
        assert more["run_config"].workflow_name == "mine"
        assert given.call_model_input_filter is redact
        agent = agent_of(model, look_tool("sea"), handoffs=[target])
        await Runner.run(agent, "My number is 4711.", **more)
        assert "4711" not in json.dumps(model.calls[-1].input)
        assert "4711" in (await memory.session("s").history())[0].message.text
        assert seen == {name for name in vars(RunHooksBase) if name.startswith("on_")}

    with_memory(work, LARGE)


def test_reported_usage_is_noted_with_its_call() -> None:
    async def work(memory: AsyncMemory) -> None:
        step = ModelStep(output=[said("hi")], usage=Usage(input_tokens=321, output_tokens=5))
        await Runner.run(agent_of(ScriptedModel([step])), "hello", **turnfold_run(memory, "s"))
        [call] = await memory.session("s").calls()
        assert call.usage is not None
        assert (call.usage.input, call.usage.output) == (321, 5)

    with_memory(work)


def test_the_tool_brings_back_what_was_folded_in_the_run_that_calls_it() -> None:
    async def work(memory: AsyncMemory) -> None:
        tool = recall_tool(max_tokens=500)
        answers: list[str] = []
        for name, secret in (("a", "Kronborg"), ("b", "Helsingør")):
            await memory.session(name).user(f"The harbour is {secret}.")
            script = [[called("recall_context", 1, '{"query": "harbour"}')], [said("ok")]]
            agent = agent_of(model := ScriptedModel(script), tool)
            await Runner.run(agent, "Which harbour?", **turnfold_run(memory, name))
            answers.append(model.calls[-1].input[-1]["output"])
        assert "Kronborg" in answers[0] and "Helsingør" not in answers[0]  # noqa: PT018
        assert "Helsingør" in answers[1]
        script = [
            [called("recall_context", 1, "{}")],
            [called("recall_context", 2, "[")],
            [said("k")],
        ]
        bare = ScriptedModel(script)
        await Runner.run(agent_of(bare, tool), "Which?")
        assert "no turnfold memory" in bare.calls[-1].input[-1]["output"]

    with_memory(work)


def test_items_of_a_kind_nobody_knows_are_shown_verbatim_and_counted() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = TurnfoldSession(memory, "s")
        odd: Any = {"type": "from_next_year", "payload": PAGE}
        developer: Any = {"role": "developer", "content": "Speak plainly."}
        await session.add_items([{"role": "user", "content": "hi"}, odd, developer])
        model = ScriptedModel([[said("ok")]])
        await Runner.run(agent_of(model), "And now?", **turnfold_run(memory, "s"))
        assert model.calls[-1].input[1:3] == [odd, developer]
        [call] = await memory.session("s").calls()
        assert call.tokens > memory.session("s").counter.count_text(PAGE)

    with_memory(work)


def test_reasoning_ids_are_left_out_where_the_run_wants_it() -> None:
    async def work(memory: AsyncMemory) -> None:
        policies: Any = ((None, {"rs_1", "rs_2"}), ("omit", set[str]()))
        for policy, ids in policies:
            model = ScriptedModel(looping(2))
            given = RunConfig(reasoning_item_id_policy=policy)
            more = turnfold_run(memory, f"s-{policy}", run_config=given)
            await Runner.run(agent_of(model, look_tool("sea")), "Look.", **more)
            thoughts = [one for one in model.calls[-1].input if one.get("type") == "reasoning"]
            assert len(thoughts) == 2
            assert {one["id"] for one in thoughts if "id" in one} == ids

    with_memory(work, LARGE)


def test_without_the_sdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        name for name in sys.modules if name.startswith("turnfold.adapters.openai_agents")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "agents", None)
    with pytest.raises(MissingExtra, match=r"turnfold\[openai-agents\]"):
        __import__("turnfold.adapters.openai_agents")


@pytest.mark.parametrize("of_run", [False, True])
def test_tokens_are_counted_as_the_model_of_the_run_counts_them(of_run: bool) -> None:  # noqa: FBT001
    async def work() -> None:
        async with AsyncMemory("sqlite://") as memory:
            model, other = ScriptedModel([[said("hi")]]), ScriptedModel([])
            vars(model)["model"] = "gpt-4o"
            agent = agent_of(other if of_run else model)
            config = RunConfig(model=model if of_run else None)
            await Runner.run(agent, "hello", **turnfold_run(memory, "s", run_config=config))
            [call] = await memory.session("s").calls()
            assert call.counter == counter_for("gpt-4o").name

    asyncio.run(work())
