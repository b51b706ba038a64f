"""Approvals in LlamaIndex: calls that wait for a human, answered in the same process and in another one."""

from __future__ import annotations

import asyncio
import json
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
from turnfold import Budget, Memory
from turnfold.adapters.llama_index import TurnfoldFunctionAgent, turnfold_memory

agents: Any = import_module("llama_index.core.agent.workflow")
memories: Any = import_module("llama_index.core.memory")
tools: Any = import_module("llama_index.core.tools")
workflow: Any = import_module("llama_index.core.workflow")

# LlamaIndex uses names that pydantic and Python have since replaced, and warns of memories it does not restore.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*unserializable key.*"),
]

LARGE = Budget(max_tokens=100_000)
done: list[tuple[int, str]] = []


async def pay(ctx: Any, amount: int) -> str:
    """Pay."""
    asked = workflow.InputRequiredEvent(prefix=f"pay {amount}?")
    answer = await ctx.wait_for_event(
        workflow.HumanResponseEvent,
        waiter_id=f"pay {amount}",
        waiter_event=asked,
        requirements={"amount": amount},
    )
    done.append((amount, answer.response))
    return f"paid {amount} 已付" if answer.response == "yes" else "refused"


pay.__annotations__["ctx"] = workflow.Context


def two_payments() -> ChatMessage:
    blocks = [*called("pay", 1, amount=1).blocks, called("pay", 2, amount=2).blocks[1]]
    return ChatMessage(role="assistant", blocks=blocks)


def agent_of(kind: Any, llm: Any) -> Any:
    return kind(llm=llm, tools=[tools.FunctionTool.from_defaults(async_fn=pay)], streaming=False)


def decide(send: Any) -> None:
    for amount, response in ((1, "yes"), (2, "no")):
        send(workflow.HumanResponseEvent(response=response, amount=amount))


async def asked_for(running: Any, calls: int) -> None:
    waiting = 0
    async for event in running.stream_events():
        waiting += isinstance(event, workflow.InputRequiredEvent)
        if waiting == calls:
            return


def shapes(llm: Any) -> list[Any]:
    return [
        [(one.role.value, one.content, one.additional_kwargs.get("tool_call_id")) for one in prompt]
        for prompt in llm.prompts
    ]


def script() -> Any:
    return ScriptedLLM(script=[two_payments(), said("done"), said("again")])


PROMPTS = [
    ("user", "Pay both.", None),
    ("assistant", "I look.", None),
    ("tool", "paid 1 已付", "call_1"),
    ("tool", "refused", "call_2"),
    ("assistant", "done", None),
    ("user", "And now?", None),
]


@pytest.mark.parametrize("ours", [False, True], ids=["without turnfold", "with turnfold"])
def test_an_approved_and_a_rejected_call_are_shown_with_their_answers(ours: bool) -> None:  # noqa: FBT001
    async def work(memory: Memory) -> None:
        done.clear()
        llm = script()
        flow = agent_of(TurnfoldFunctionAgent if ours else agents.FunctionAgent, llm)
        buffer = memories.ChatMemoryBuffer
        kept = turnfold_memory(memory, "s") if ours else buffer.from_defaults(token_limit=100_000)
        context = workflow.Context(flow)
        running = flow.run("Pay both.", memory=kept, ctx=context)
        await asked_for(running, 2)
        decide(running.ctx.send_event)
        await running
        await flow.run("And now?", memory=kept, ctx=context)
        assert sorted(done) == [(1, "yes"), (2, "no")]
        assert shapes(llm) == [PROMPTS[:1], PROMPTS[:4], PROMPTS]

    with Memory("sqlite://", budget=LARGE) as memory:
        asyncio.run(work(memory))


def test_a_call_that_waits_is_answered_after_the_store_was_opened_again(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'a.db'}"
    serializer = workflow.JsonSerializer()
    llm = ScriptedLLM(script=[called("pay", 1, amount=1), said("done"), said("again")])

    async def asking() -> str:
        with Memory(address, budget=LARGE) as memory:
            flow = agent_of(TurnfoldFunctionAgent, llm)
            context = workflow.Context(flow)
            kept = turnfold_memory(memory, "s")
            running = flow.run("Pay both.", memory=kept, ctx=context)
            await asked_for(running, 1)
            await asyncio.sleep(0.05)  # the call waits
            written = json.dumps(context.to_dict(serializer=serializer))
            await running.cancel_run()
            return written

    async def answering(written: str) -> None:
        with Memory(address, budget=LARGE) as memory:
            turnfold_memory(memory, "s")  # opens the store under its address
            flow = agent_of(TurnfoldFunctionAgent, llm)
            context = workflow.Context.from_dict(flow, json.loads(written), serializer=serializer)
            running = flow.run(ctx=context)
            running.ctx.send_event(workflow.HumanResponseEvent(response="yes", amount=1))
            await running
            await flow.run("And now?", ctx=context)
            log = [one.message.role for one in memory.session("s").history()]
            assert log == ["user", "assistant", "tool", "assistant", "user", "assistant"]

    done.clear()
    written = asyncio.run(asking())
    asyncio.run(answering(written))
    assert done == [(1, "yes")]
    alone = [one for one in PROMPTS if one[2] != "call_2"]
    assert shapes(llm) == [alone[:1], alone[:3], alone]
