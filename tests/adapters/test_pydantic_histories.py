"""The history given to a PydanticAI run says what the conversation is: front ends, branches, edits and retries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    NativeOutput,
    PromptedOutput,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.ui.vercel_ai import VercelAIAdapter
from pydantic_ai.ui.vercel_ai.request_types import SubmitMessage, TextUIPart, UIMessage

from tests.adapters.pydantic_agents import (
    SMALL,
    Watched,
    answering,
    check_prompt,
    log_of,
    looping,
    user_words,
    with_memory,
)
from tests.sizes import examples
from turnfold import AsyncMemory, Budget, InvalidOption
from turnfold.adapters._common import longest_overlap
from turnfold.adapters.pydantic_ai import turnfold_capability

LARGE = Budget(max_tokens=50_000)


def said(messages: Sequence[ModelMessage]) -> list[str]:
    """What a prompt says, system prompts aside."""
    parts = [part for message in messages for part in message.parts]
    return [
        part.tool_name if isinstance(part, ToolCallPart) else str(getattr(part, "content", ""))
        for part in parts
        if not isinstance(part, SystemPromptPart | ThinkingPart)
    ]


def plain(watched: Watched, memory: AsyncMemory, **more: Any) -> Agent[Any, Any]:
    capability = turnfold_capability(memory, recall=False)
    return Agent(watched.model, capabilities=[capability], **more)


def texts(count: int) -> list[str]:
    return [f"answer {number} 回答" for number in range(1, count + 1)]


async def send(agent: Agent[Any, Any], turns: Sequence[tuple[str, str]], name: str) -> list[str]:
    """Send a whole conversation as a Vercel AI front end does; the errors it is told."""
    messages = [
        UIMessage(id=str(at), role=role, parts=[TextUIPart(text=text)])  # pyright: ignore[reportArgumentType]
        for at, (role, text) in enumerate(turns)
    ]
    run_input = SubmitMessage(trigger="submit-message", id=name, messages=messages)
    return [
        str(getattr(event, "error_text", event))
        async for event in VercelAIAdapter(agent=agent, run_input=run_input).run_stream()
        if type(event).__name__ == "ErrorChunk"
    ]


async def send_ag_ui(
    agent: Agent[Any, Any], turns: Sequence[tuple[str, str]], name: str
) -> list[str]:
    """Send a whole conversation as an AG-UI front end does; the errors it is told."""
    core: Any = import_module("ag_ui.core")
    front: Any = import_module("pydantic_ai.ui.ag_ui")
    kinds = {"user": core.UserMessage, "assistant": core.AssistantMessage}
    messages = [kinds[role](id=str(at), content=text) for at, (role, text) in enumerate(turns)]
    run_input = core.RunAgentInput(
        thread_id=name,
        run_id=f"run-{len(turns)}",
        state={},
        messages=messages,
        tools=[],
        context=[],
        forwarded_props={},
    )
    return [
        str(event.message)
        async for event in front.AGUIAdapter(agent=agent, run_input=run_input).run_stream()
        if type(event).__name__ == "RunErrorEvent"
    ]


@pytest.mark.parametrize("front_end", ["vercel_ai", "ag_ui"])
@pytest.mark.parametrize("prompt", ["instructions", "system_prompt"])
def test_behind_a_front_end_nothing_is_stored_or_sent_twice(prompt: str, front_end: str) -> None:
    if front_end == "ag_ui":
        pytest.importorskip("ag_ui", reason="AG-UI is in the environment of make test-frameworks")
    send_by = send_ag_ui if front_end == "ag_ui" else send

    async def work(memory: AsyncMemory) -> None:
        watched = Watched(answering(*texts(5)))
        agent = plain(watched, memory, **{prompt: "You look things up."})
        turns: list[tuple[str, str]] = []
        for number in range(5):
            turns.append(("user", f"question {number} 问题"))
            assert await send_by(agent, turns, "chat") == []
            turns.append(("assistant", said([watched_answer(watched)])[-1]))
        expected = [text for _, text in turns[:-1]]
        assert said(watched.prompts[-1][0]) == expected
        log = [one for one in await log_of(memory.session("chat")) if one.message.role != "system"]
        assert [one.message.text for one in log] == [text for _, text in turns]
        prompts = str(watched.prompts[-1])
        assert prompts.count("You look things up.") >= 1

    with_memory(work, budget=LARGE)


def watched_answer(watched: Watched) -> ModelResponse:
    """The answer of a streamed run, as its words were sent."""
    answer = watched.step(len(watched.prompts))
    [part] = answer.parts
    assert isinstance(part, TextPart)
    return ModelResponse([TextPart(part.content + " ")])


def test_a_first_question_edited_in_a_front_end_leaves_everything_behind() -> None:
    async def work(memory: AsyncMemory) -> None:
        watched = Watched(answering(*texts(3)))
        agent = plain(watched, memory, system_prompt="You look things up.")
        await send(agent, [("user", "SECRET 秘密")], "chat")
        await send(agent, [("user", "edited")], "chat")
        assert said(watched.prompts[-1][0]) == ["edited"]

    with_memory(work, budget=LARGE)


def test_an_abandoned_branch_is_not_shown() -> None:
    async def work(memory: AsyncMemory) -> None:
        watched = Watched(answering(*texts(6)))
        agent = plain(watched, memory)
        first = await agent.run("one", conversation_id="c")
        begun = first.all_messages()
        await agent.run("SECRET two 秘密", conversation_id="c", message_history=begun)
        for _ in range(2):  # another question, then another answer to it
            await agent.run("other two", conversation_id="c", message_history=begun)
            assert said(watched.prompts[-1][0]) == ["one", "answer 1 回答", "other two"]
        await agent.run(None, conversation_id="c", message_history=begun[:1])
        assert said(watched.prompts[-1][0]) == ["one"]
        await agent.run("later", conversation_id="c")
        assert said(watched.prompts[-1][0]) == ["one", "answer 5 回答", "later"]
        log = [one.message.text for one in await log_of(memory.session("c"))]
        assert "SECRET two 秘密" in log

    with_memory(work, budget=LARGE)


def test_an_abandoned_branch_is_in_no_summary_of_a_long_conversation() -> None:
    async def work(memory: AsyncMemory) -> None:
        watched = Watched(looping(12))
        agent = plain(watched, memory)

        @agent.tool_plain
        def look(at: int) -> str:
            """Look."""
            return f"place {at} " + "water and stone 水与石 " * 30

        del look
        first = await agent.run("Look at everything.", conversation_id="c")
        abandoned = await agent.run(
            "The SECRET harbour is Kronborg.",
            conversation_id="c",
            message_history=first.all_messages(),
        )
        assert (await memory.session("c").status()).checkpoint
        await agent.run(
            "And now? SECRET harbour?", conversation_id="c", message_history=first.all_messages()
        )
        for messages, info in watched.prompts:
            check_prompt(messages, info, memory.session("c"))
        sent = ModelMessagesTypeAdapter.dump_json(watched.prompts[-1][0]).decode()
        assert "Kronborg" in abandoned.all_messages_json().decode()
        assert "Kronborg" not in sent

    with_memory(work, budget=SMALL)


def test_a_history_cut_by_its_program_keeps_the_memory_of_what_was_cut() -> None:
    async def work(memory: AsyncMemory) -> None:
        watched = Watched(answering(*texts(4)))
        agent = plain(watched, memory)
        result = await agent.run("one", conversation_id="c")
        result = await agent.run("two", conversation_id="c", message_history=result.all_messages())
        cut = result.all_messages()[-2:]
        await agent.run("three", conversation_id="c", message_history=cut)
        assert user_words(watched.prompts[-1][0]) == ["one", "two", "three"]
        await agent.run("other three", conversation_id="c", message_history=cut)
        assert user_words(watched.prompts[-1][0]) == ["one", "two", "other three"]

    with_memory(work, budget=LARGE)


def test_a_retried_approval_goes_on() -> None:
    async def work(memory: AsyncMemory) -> None:
        failing = [True, False]

        def step(number: int) -> ModelResponse:
            if number == 1:
                return ModelResponse([ToolCallPart("pay", {"sum": 1}, "call_1")])
            if failing.pop(0):
                raise ConnectionError("line cut")
            return ModelResponse([TextPart("done")])

        watched = Watched(step)
        agent = plain(watched, memory, output_type=[str, DeferredToolRequests])

        @agent.tool_plain(requires_approval=True)
        def pay(sum: int) -> str:  # noqa: A002 (the model's word for it)
            """Pay."""
            return f"paid {sum}"

        del pay
        first = await agent.run("Pay 付款", conversation_id="c")
        history = first.all_messages()
        approved = DeferredToolResults(approvals={"call_1": True})
        for _ in range(2):
            try:
                result = await agent.run(
                    message_history=history, deferred_tool_results=approved, conversation_id="c"
                )
            except ConnectionError:
                continue
            assert result.output == "done"
        assert not failing
        assert said(watched.prompts[-1][0]) == ["Pay 付款", "pay", "paid 1"]
        check_prompt(*watched.prompts[-1], memory.session("c"))
        roles = [one.message.role for one in await log_of(memory.session("c"))]
        assert roles == ["user", "assistant", "tool", "assistant"]

    with_memory(work, budget=LARGE)


class Answer(BaseModel):
    """A very long description of an answer, 很长的描述."""

    first: str
    second: list[int]


@pytest.mark.parametrize("kind", [NativeOutput, PromptedOutput])
def test_the_schema_of_native_and_prompted_output_is_counted(kind: Any) -> None:
    async def overhead(memory: AsyncMemory, name: str, output: Any) -> int:
        async def answer(_: list[ModelMessage], __: AgentInfo) -> AsyncIterator[str]:
            yield json.dumps({"first": "a", "second": [1]})

        model = FunctionModel(stream_function=answer, profile={"supports_json_schema_output": True})
        capability = turnfold_capability(memory, recall=False)
        agent = Agent(model, output_type=output, capabilities=[capability])
        async with agent.run_stream("Go.", conversation_id=name) as result:
            await result.get_output()
        [call] = await memory.session(name).calls()
        return call.tokens

    async def work(memory: AsyncMemory) -> None:
        plain_tokens = await overhead(memory, "plain", str)
        tokens = await overhead(memory, "schema", kind(Answer))
        schema = json.dumps(Answer.model_json_schema())
        assert tokens - plain_tokens > 0.5 * memory.session("plain").counter.count_text(schema)

    with_memory(work, budget=LARGE)


def test_a_run_without_a_conversation_is_refused_and_one_with_a_history_is_not() -> None:
    async def work(memory: AsyncMemory) -> None:
        watched = Watched(answering(*texts(3)))
        agent = plain(watched, memory)
        with pytest.raises(InvalidOption, match="conversation_id=") as refused:
            await agent.run("Hello 你好")
        assert "remember nothing" in str(refused.value)
        assert await memory.conversations() == []
        first = await agent.run("one", conversation_id="c")
        await agent.run("two", message_history=first.all_messages())
        assert user_words(watched.prompts[-1][0]) == ["one", "two"]
        session = Agent(watched.model, capabilities=[turnfold_capability(memory.session("s"))])
        await session.run("three")
        assert [one.conversation for one in await memory.conversations()] == ["c", "s"]

    with_memory(work, budget=LARGE)


def test_two_runs_with_the_same_history_at_once_both_finish() -> None:
    async def work(memory: AsyncMemory) -> None:
        watched = Watched(answering("one", "other", "two"))
        agent = plain(watched, memory)
        first = await agent.run("begin", conversation_id="c")

        @agent.tool_plain
        async def meanwhile() -> str:
            """Another run leaves the branch of the one that calls this."""
            await inner.run("B", conversation_id="c", message_history=first.all_messages())
            return "A goes on"

        del meanwhile
        inner = plain(Watched(answering("b")), memory)
        script = [
            ModelResponse([ToolCallPart("meanwhile", {}, "call_1")]),
            ModelResponse([TextPart("A is done")]),
        ]
        outer = Watched(lambda number: script[number - 1])
        with agent.override(model=outer.model):
            result = await agent.run("A", conversation_id="c", message_history=first.all_messages())
        assert result.output == "A is done"
        assert said(outer.prompts[-1][0]) == ["begin", "one", "A", "meanwhile", "A goes on"]
        check_prompt(*outer.prompts[-1], memory.session("c"))

    with_memory(work, budget=LARGE)


def test_runs_that_begin_at_once_with_one_history_all_finish() -> None:
    async def work(memory: AsyncMemory) -> None:
        watched = Watched(answering(*texts(40)))
        agent = plain(watched, memory)
        begun = (await agent.run("begin 开始", conversation_id="c")).all_messages()
        for _ in range(5):
            before = len(watched.prompts)
            prompts = ["A 甲", "B 乙", "C 丙"]
            await asyncio.gather(
                *(agent.run(one, conversation_id="c", message_history=begun) for one in prompts)
            )
            sent = sorted(said(messages) for messages, _ in watched.prompts[before:])
            assert sent == [["begin 开始", "answer 1 回答", one] for one in prompts]

    with_memory(work, budget=LARGE)


def test_thoughts_that_a_front_end_drops_are_sent_from_the_log() -> None:
    async def work(memory: AsyncMemory) -> None:
        thinking = ThinkingPart("hm", signature="sig", provider_name="anthropic")
        calling = ModelResponse([thinking, ToolCallPart("look", {"at": 1}, "call_1")])
        script = [calling, ModelResponse([TextPart("done")]), ModelResponse([TextPart("again")])]
        watched = Watched(lambda number: script[number - 1])
        agent = plain(watched, memory)

        @agent.tool_plain
        def look(at: int) -> dict[str, int]:
            """Look."""
            return {"at": at}

        del look
        await agent.run("Look.", conversation_id="c")
        by_hand: list[ModelMessage] = [
            ModelRequest([UserPromptPart("Look.")]),
            ModelResponse([ToolCallPart("look", '{"at":1}', "call_1")]),
            ModelRequest([ToolReturnPart("look", {"at": 1}, "call_1")]),
            ModelResponse([TextPart("done")]),
        ]
        await agent.run("Again.", conversation_id="c", message_history=by_hand)
        parts = [part for message in watched.prompts[-1][0] for part in message.parts]
        assert [part.signature for part in parts if isinstance(part, ThinkingPart)] == ["sig"]
        assert (await memory.session("c").status()).entries == 6

    with_memory(work, budget=LARGE)


@pytest.mark.parametrize("given", ["memory", "session"])
def test_an_agent_that_a_tool_runs_has_a_conversation_of_its_own(given: str) -> None:
    async def work(memory: AsyncMemory) -> None:
        place = memory if given == "memory" else memory.session("s")
        inner = Watched(answering(*texts(2)))
        expert = Agent(inner.model, capabilities=[turnfold_capability(place)])
        script = [
            ModelResponse([ToolCallPart("ask", {}, "call_1")]),
            ModelResponse([ToolCallPart("recall_context", {"query": "boss"}, "call_2")]),
            ModelResponse([TextPart("done")]),
        ]
        outer = Watched(lambda number: script[number - 1])
        agent = Agent(outer.model, capabilities=[turnfold_capability(place)])

        @agent.tool_plain
        async def ask() -> str:
            """Ask."""
            return (await expert.run("What then? 然后呢")).output

        del ask
        await agent.run("boss question", conversation_id="s")
        assert user_words(inner.prompts[-1][0]) == ["What then? 然后呢"]
        assert user_words(outer.prompts[-1][0]) == ["boss question"]
        assert "boss question" in said(outer.prompts[-1][0])[-1]
        assert [one.conversation for one in await memory.conversations()] == ["s", "s/call_1"]

    with_memory(work, budget=LARGE)


KEYS = st.lists(st.sampled_from("abc"), max_size=8)


@examples(200)
@given(KEYS, KEYS)
def test_an_overlap_is_a_stretch_of_the_log_and_no_other_is_longer(
    log: list[str], given_keys: list[str]
) -> None:
    start, length = longest_overlap(log, given_keys)
    assert log[start : start + length] == given_keys[:length]
    stretches = [
        (len(common), at)
        for at in range(len(log))
        for size in range(len(given_keys) + 1)
        if (common := given_keys[:size]) == log[at : at + size]
    ]
    assert length == max((size for size, _ in stretches), default=0)
