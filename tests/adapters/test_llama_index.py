"""LlamaIndex with memory: messages both ways, agents in real tool loops, chat engines."""

from __future__ import annotations

import asyncio
import base64
import math
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

import pytest

pytest.importorskip(
    "llama_index.core",
    reason="the extra llama-index is not installed; it has an environment of its own",
)

from llama_index.core.llms import ChatMessage, MessageRole
from llama_index.core.memory import BaseMemory
from llama_index.core.tools import FunctionTool

from tests.adapters.llama_scripts import ScriptedLLM, called, said
from turnfold import AsyncMemory, Budget, Memory, wire
from turnfold.adapters.llama_index import (
    TurnfoldFunctionAgent,
    chat_messages,
    recall_tool,
    record_of,
    turnfold_memory,
)
from turnfold.adapters.llama_index import messages as messages_module
from turnfold.errors import InvalidOption, MissingExtra
from turnfold.tokens import counter_for

# LlamaIndex uses names that pydantic and Python have since replaced.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

types: Any = import_module("llama_index.core.base.llms.types")
workflow: Any = import_module("llama_index.core.agent.workflow")
engines: Any = import_module("llama_index.core.chat_engine")

SMALL = Budget(max_tokens=2_000)
PAGE = "water and stone 水与石 " * 30
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
CALL = types.ToolCallBlock(tool_call_id="c", tool_name="look", tool_kwargs={"at": 1, "在": "海"})
OPENAI_CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}

MESSAGES = [
    ChatMessage("你好"),
    ChatMessage(""),
    ChatMessage(role="assistant", content=None),
    ChatMessage(role="system", content="Be brief."),
    ChatMessage(role="developer", content="Be brief."),
    ChatMessage(role="chatbot", content="hi", additional_kwargs={"n": [1, None]}),
    ChatMessage(role="model", content="hi"),
    ChatMessage(
        role="assistant",
        blocks=[
            types.ThinkingBlock(content="hm", additional_information={"signature": "s"}),
            types.TextBlock(text="a"),
            types.TextBlock(text="b"),
            CALL,
        ],
    ),
    ChatMessage(
        role="assistant", content="a", additional_kwargs={"tool_calls": [OPENAI_CALL], "x": 1}
    ),
    ChatMessage(role="assistant", blocks=[CALL], additional_kwargs={"tool_calls": [OPENAI_CALL]}),
    ChatMessage(role="assistant", blocks=[types.ToolCallBlock(tool_name="f", tool_kwargs="{bad")]),
    ChatMessage(role="tool", content="r", additional_kwargs={"tool_call_id": "c", "name": "look"}),
    ChatMessage(role="function", content="r", additional_kwargs={"tool_call_id": "c"}),
    ChatMessage(role="tool", content="nobody asked"),
    ChatMessage(
        role="user",
        blocks=[
            types.ImageBlock(image=PNG),
            types.ImageBlock(url="https://example.com/a.png", detail="low"),
            types.DocumentBlock(data=b"abc", title="t", document_mimetype="text/plain"),
            types.AudioBlock(audio=b"abcd", format="wav"),
            types.CachePoint(cache_control=types.CacheControl(type="ephemeral")),
        ],
    ),
    ChatMessage(role="user", content="half a \ud83d pair"),
]


def with_memory(
    work: Callable[[AsyncMemory], Awaitable[None]], budget: Budget = SMALL, **more: Any
) -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://", budget=budget, **more) as memory:
            await work(memory)

    asyncio.run(main())


def look_tool(result: str = PAGE) -> FunctionTool:
    async def look(at: int) -> str:
        """Look at a place."""
        return f"place {at}: {result}"

    return FunctionTool.from_defaults(async_fn=look, name="look")


def looping(steps: int) -> list[ChatMessage]:
    return [*(called("look", number, at=number) for number in range(1, steps + 1)), said("done")]


def lint(prompt: list[ChatMessage]) -> object:
    """What OpenAI's Chat interface would refuse of a prompt."""
    request = wire.openai_chat.request([record_of(one) for one in prompt], repair=False)
    return wire.lint(request.kwargs, "openai_chat")


# ---------------------------------------------------------------------------------- messages


@pytest.mark.parametrize("message", MESSAGES, ids=range(len(MESSAGES)))
def test_a_message_comes_back_as_it_was(message: ChatMessage) -> None:
    [back] = chat_messages([record_of(message)])
    assert back == message


def test_what_json_cannot_carry_comes_back_and_a_call_stays_a_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    half = types.ToolCallBlock(tool_call_id="c", tool_name="look", tool_kwargs={"at": "\ud83d"})
    two_halves = types.TextBlock(text="\ud83d\ude00")  # another text than the emoji they would make
    asked = ChatMessage(
        role="assistant", blocks=[two_halves, half], additional_kwargs={"logprob": -math.inf}
    )
    answer = {"tool_call_id": "c", "sums": [0.5, math.inf, None]}
    told = ChatMessage(role="tool", content="seen", additional_kwargs=answer)
    with Memory("sqlite://") as memory:
        kept = turnfold_memory(memory, "s")
        kept.put_messages([ChatMessage("look"), asked, told])
        assert kept.get_all()[1:] == kept.get()[1:] == [asked, told]
        _, calling, answering = (one.message for one in memory.session("s").history())
        assert calling.calls[0].arguments == '{"at":"\\\\ud83d"}'
        assert answering.results[0].call_id == "c"
    monkeypatch.setattr(messages_module, "with_numbers", lambda written, _: written)
    assert chat_messages([record_of(told)]) != [told]


def test_the_round_trip_rests_on_the_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages_module, "_form", lambda _: None)
    [back] = chat_messages([record_of(MESSAGES[7])])
    assert back != MESSAGES[7]


def test_calls_and_results_are_known_wherever_they_are_carried() -> None:
    for number in (7, 8, 9):
        assert [call.name for call in record_of(MESSAGES[number]).calls] == ["look"]
    assert record_of(MESSAGES[11]).results[0].call_id == "c"


def test_a_memory_gives_back_what_was_put_in_order() -> None:
    with Memory("sqlite://") as memory:
        ours = turnfold_memory(memory, "s")
        assert isinstance(ours, BaseMemory)
        ours.put(MESSAGES[0])
        ours.put_messages(MESSAGES[1:])
        assert ours.get_all() == MESSAGES

    async def work(memory: AsyncMemory) -> None:
        ours = turnfold_memory(memory.session("s"))
        await ours.aput(MESSAGES[0])
        await ours.aput_messages(MESSAGES[1:])
        await ours.aput_messages([])
        assert await ours.aget_all() == MESSAGES

    with_memory(work)


# ---------------------------------------------------------------------------------- memory


def test_what_is_got_fits_the_budget_and_reset_keeps_the_log() -> None:
    with Memory("sqlite://", budget=SMALL) as memory:
        session = memory.session("s")
        ours = turnfold_memory(session)
        for number in range(40):
            ours.put(ChatMessage(f"question {number} {PAGE}"))
            ours.put(said(f"answer {number}"))
        got = ours.get("question 3")
        count = session.counter
        assert sum(count.count_messages([record_of(one) for one in got])) <= SMALL.tokens
        assert len(ours.get_all()) == 80
        fewer = ours.get(initial_token_count=1_000)
        assert sum(count.count_messages([record_of(one) for one in fewer])) <= 1_000
        ours.reset()
        assert ours.get_all() == ours.get() == []
        assert len(session.history(limit=200)) == 80


def test_to_set_messages_goes_on_from_the_present_ones_or_starts_over() -> None:
    with Memory("sqlite://") as memory:
        ours = turnfold_memory(memory, "s")
        first, second, third = ChatMessage("1"), said("2"), ChatMessage("3")
        ours.set([first, second])
        ours.set([first, second, third])
        assert len(memory.session("s").history()) == 3
        ours.set([third])
        assert ours.get_all() == ours.get() == [third]
        assert len(memory.session("s").history()) == 4


def test_to_set_messages_compares_system_messages_and_forms_too() -> None:
    with Memory("sqlite://") as memory:
        ours, session = turnfold_memory(memory, "s"), memory.session("s")
        rule = ChatMessage("Be brief.", role=MessageRole.SYSTEM)
        plain, marked = ChatMessage("1"), ChatMessage("1", additional_kwargs={"own": 1})
        ours.set([rule, plain])
        ours.set([rule, plain, said("2")])
        assert len(session.history()) == 3
        ours.set([rule, marked])
        assert ours.get_all() == [rule, marked]
        assert len(session.history()) == 5
        ours.set([])
        assert ours.get_all() == []


def test_what_makes_no_sense_is_refused() -> None:
    with Memory("sqlite://", budget=SMALL) as memory:
        ours = turnfold_memory(memory, "s")
        with pytest.raises(InvalidOption, match="no_such"):
            ours.get(no_such=1)
        with pytest.raises(InvalidOption, match="2,000"):
            ours.get(initial_token_count=5_000)
        with pytest.raises(InvalidOption, match="negative"):
            turnfold_memory(memory, "s", beside=-1)
        with pytest.raises(InvalidOption, match="turnfold_memory"):
            type(ours).from_defaults(token_limit=1)

    async def work(memory: AsyncMemory) -> None:
        with pytest.raises(InvalidOption, match="await"):
            turnfold_memory(memory, "s").get()

    with_memory(work)


def test_the_schemas_of_tools_and_what_stands_beside_are_counted() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        while (await session.status()).tokens < 1_700:
            await session.user(PAGE[:100])
        await turnfold_memory(session).aget()
        await turnfold_memory(session, tools=[look_tool()]).aget()
        await turnfold_memory(session, tools=[look_tool()], beside=500).aget()
        plain, with_tool, beside = [call.tokens for call in await session.calls()]
        schemas = session.counter.count_tools([look_tool().metadata.to_openai_tool()])
        assert with_tool == plain + schemas
        assert beside <= SMALL.tokens - 500 < plain

    with_memory(work, fold="manual")


# ---------------------------------------------------------------------------------- agents


def agent_of(
    llm: Any, *tools: Any, kind: Any = TurnfoldFunctionAgent, streaming: bool = False
) -> Any:
    return kind(
        name="scout", llm=llm, tools=list(tools), system_prompt="Be brief.", streaming=streaming
    )


async def run(agent: Any, question: str, memory: BaseMemory) -> str:
    result = await agent.run(question, memory=memory, max_iterations=200)
    return str(result.response.content)


@pytest.mark.parametrize("streaming", [False, True])
def test_sixty_steps_with_folding_stay_in_budget_and_the_log_keeps_everything(
    streaming: bool,  # noqa: FBT001
) -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        llm = ScriptedLLM(script=looping(60))
        ours = turnfold_memory(session, tools=[look_tool()], beside=20)
        agent = agent_of(llm, look_tool(), streaming=streaming)
        assert await run(agent, "Look at everything.", ours) == "done"
        assert len(llm.prompts) == 61
        costs = [
            sum(session.counter.count_messages([record_of(one) for one in prompt]))
            for prompt in llm.prompts
        ]
        assert 0.6 * SMALL.tokens < max(costs) <= SMALL.tokens
        assert [lint(prompt) for prompt in llm.prompts] == [()] * 61
        assert (await session.status()).checkpoint
        assert len(await ours.aget_all()) == 122

    with_memory(work)


def test_the_usual_agent_keeps_its_steps_beside_the_memory_and_outgrows_it() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        llm = ScriptedLLM(script=looping(60))
        agent = agent_of(llm, look_tool(), kind=workflow.FunctionAgent)
        await run(agent, "Look at everything.", turnfold_memory(session))
        costs = sum(session.counter.count_messages([record_of(one) for one in llm.prompts[-1]]))
        assert costs > SMALL.tokens

    with_memory(work)


@pytest.mark.parametrize("kind", [TurnfoldFunctionAgent, workflow.FunctionAgent])
def test_when_everything_fits_the_run_is_the_one_without_turnfold(kind: Any) -> None:
    async def work(memory: AsyncMemory) -> None:
        theirs = import_module("llama_index.core.memory").ChatMemoryBuffer.from_defaults(
            token_limit=100_000
        )
        prompts: list[Any] = []
        for used in (theirs, turnfold_memory(memory, "s")):
            llm = ScriptedLLM(script=[*looping(3), said("again")])
            which = workflow.FunctionAgent if used is theirs else kind
            for question in ("Look.", "And again?"):
                await run(agent_of(llm, look_tool("sea"), kind=which), question, used)
            prompts.append(llm.prompts)
        assert prompts[0] == prompts[1]

    with_memory(work, Budget(max_tokens=100_000))


def test_a_step_is_in_the_log_before_its_tool_runs() -> None:
    async def seen_by(memory: AsyncMemory, kind: Any, name: str) -> list[str]:
        seen: list[str] = []

        async def look() -> str:
            entries = await memory.session(name).history()
            seen.extend(call.id for one in entries for call in one.message.calls)
            return "sea"

        tool = FunctionTool.from_defaults(async_fn=look, name="look")
        llm = ScriptedLLM(script=[called("look", 1), said("done")])
        await run(agent_of(llm, tool, kind=kind), "Look.", turnfold_memory(memory, name))
        return seen

    async def work(memory: AsyncMemory) -> None:
        assert await seen_by(memory, TurnfoldFunctionAgent, "s") == ["call_1"]
        assert await seen_by(memory, workflow.FunctionAgent, "usual") == []

    with_memory(work)


def test_agents_that_hand_over_share_the_conversation() -> None:
    async def work(memory: AsyncMemory) -> None:
        first = ScriptedLLM(script=[called("handoff", 1, to_agent="german", reason="language")])
        second = ScriptedLLM(script=[said("Guten Tag.")])
        make: Any = TurnfoldFunctionAgent
        agents = [
            make(
                name=name, description=name, llm=llm, tools=[], streaming=False, system_prompt=name
            )
            for name, llm in (("triage", first), ("german", second))
        ]
        team = workflow.AgentWorkflow(agents=agents, root_agent="triage")
        ours = turnfold_memory(memory, "s")
        result = await team.run("Hallo", memory=ours)
        assert str(result.response.content) == "Guten Tag."
        assert "Hallo" in [one.content for one in second.prompts[-1]]
        assert lint(second.prompts[-1]) == ()

    with_memory(work)


def test_the_tool_brings_back_what_was_folded() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        await session.user("The harbour is Kronborg.")
        tool = recall_tool(session)
        llm = ScriptedLLM(script=[called("recall_context", 1, query="harbour"), said("Kronborg")])
        await run(agent_of(llm, tool), "Which harbour?", turnfold_memory(session))
        assert "Kronborg" in str(llm.prompts[-1][-1].content)

    with_memory(work)


def test_chat_engines_talk_through_the_memory() -> None:
    with Memory("sqlite://", budget=SMALL) as memory:
        llm = ScriptedLLM(script=[said(f"answer {number}") for number in range(30)])
        ours = turnfold_memory(memory, "s")
        prefix = [ChatMessage(role="system", content="Be brief. " * 50)]
        engine = engines.SimpleChatEngine.from_defaults(
            llm=llm, memory=ours, prefix_messages=prefix
        )
        for number in range(30):
            engine.chat(f"question {number} {PAGE}")
        assert len(engine.chat_history) == 60
        count = memory.session("s").counter
        for prompt in llm.prompts:
            assert sum(count.count_messages([record_of(one) for one in prompt])) <= SMALL.tokens
        engine.reset()
        assert engine.chat_history == []

    async def work(memory: AsyncMemory) -> None:
        llm = ScriptedLLM(script=[said("hi")])
        engine = engines.SimpleChatEngine.from_defaults(
            llm=llm, memory=turnfold_memory(memory, "s")
        )
        assert str(await engine.achat("hello")) == "hi"

    with_memory(work)


def test_without_llama_index_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("turnfold.adapters.llama_index")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "llama_index.core", None)
    with pytest.raises(MissingExtra, match=r"turnfold\[llama-index\]"):
        __import__("turnfold.adapters.llama_index")


def test_tokens_are_counted_as_the_model_of_the_agent_counts_them() -> None:
    async def work(memory: AsyncMemory) -> None:
        llm = ScriptedLLM(script=[*looping(30), said("done")], name="gpt-4o")
        await run(agent_of(llm, look_tool("sea " * 400)), "Look.", turnfold_memory(memory, "s"))
        calls = await memory.session("s").calls()
        assert {call.counter for call in calls[1:]} == {counter_for("gpt-4o").name}

    with_memory(work)
