"""An approval that nobody gives: the user sends another prompt, and PydanticAI fills in results for the open calls."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    repair_messages,
)
from pydantic_ai.ui.vercel_ai import VercelAIAdapter
from pydantic_ai.ui.vercel_ai.request_types import SubmitMessage, TextUIPart, UIMessage

from tests.adapters.pydantic_agents import Watched, check_prompt, log_of, with_memory
from turnfold import AsyncMemory, Budget
from turnfold.adapters.pydantic_ai import message_history, turnfold_capability
from turnfold.memory import AsyncSession

LARGE = Budget(max_tokens=50_000)
NO_RESULT = "[no result was recorded for this call]"


def paying(*calls: int) -> Any:
    """A model that asks for so many payments in its first answers, with a look between them, then talks."""

    def step(number: int) -> ModelResponse:
        if number > len(calls):
            return ModelResponse([TextPart(f"answer {number} 回答")])
        asked: list[Any] = [TextPart("Let me. 我来")]
        for at in range(calls[number - 1]):
            asked += [ToolCallPart("look", {}, f"look_{number}_{at}")] * bool(at)
            asked.append(ToolCallPart("pay", {"amount": at}, f"pay_{number}_{at}"))
        return ModelResponse(asked)

    return step


def made(watched: Watched, memory: AsyncMemory, paid: list[int]) -> Agent[Any, Any]:
    agent: Agent[Any, Any] = Agent(
        watched.model,
        output_type=[str, DeferredToolRequests],
        capabilities=[turnfold_capability(memory, recall=False)],
    )

    @agent.tool_plain(requires_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount} 已付"

    @agent.tool_plain
    def look() -> str:
        """Look."""
        return "sea 海"

    del pay, look
    return agent


async def stored(session: AsyncSession) -> list[str]:
    """Each message of the log, hidden ones too, by its role and text."""
    return [f"{one.message.role}: {one.message.text}" for one in await log_of(session)]


def results(messages: Sequence[ModelMessage]) -> list[tuple[str, str]]:
    parts = [part for message in messages for part in message.parts]
    return [
        (part.tool_call_id, str(part.content)) for part in parts if isinstance(part, ToolReturnPart)
    ]


def over_json(messages: list[ModelMessage]) -> list[ModelMessage]:
    written = ModelMessagesTypeAdapter.dump_json(messages)
    return ModelMessagesTypeAdapter.validate_json(written)


@pytest.mark.parametrize("calls", [(1,), (2,), (1, 1), (2, 1)])
def test_the_session_stores_nothing_again_after_an_approval_was_ignored(
    calls: tuple[int, ...],
) -> None:
    async def work(memory: AsyncMemory) -> None:
        watched, session = Watched(paying(*calls)), memory.session("c")
        agent = made(watched, memory, [])
        prompts = [f"question {number} 问题" for number in range(len(calls) + 4)]
        for number, prompt in enumerate(prompts):
            history = over_json(await message_history(session))
            if number <= len(calls):  # PydanticAI refuses a prompt after open calls of a history
                history = []
            await agent.run(prompt, conversation_id="c", message_history=history or None)
            check_prompt(*watched.prompts[-1], session)
        expected: list[str] = []
        for number, prompt in enumerate(prompts, start=1):
            asked = calls[number - 1] if number <= len(calls) else 0
            answer = "Let me. 我来" if asked else f"answer {number} 回答"
            expected += [f"user: {prompt}", f"assistant: {answer}"]
            expected += ["tool: sea 海"] * max(0, asked - 1)
        assert await stored(session) == expected
        open_calls = {name for name, text in results(watched.prompts[-1][0]) if text == NO_RESULT}
        assert len(open_calls) == sum(calls)

    with_memory(work, budget=LARGE)


def test_a_repaired_history_with_a_prompt_is_stored_once() -> None:
    async def work(memory: AsyncMemory) -> None:
        watched, session = Watched(paying(1, 2)), memory.session("c")
        agent = made(watched, memory, [])
        for number in range(5):
            history = repair_messages(await message_history(session))
            await agent.run(f"question {number}", conversation_id="c", message_history=history)
            check_prompt(*watched.prompts[-1], session)
        log = await stored(session)
        assert [one for one in log if one.startswith("user")] == [
            f"user: question {number}" for number in range(5)
        ]
        assert len(log) == 14  # with its words for each of three open calls, and a look at the sea

    with_memory(work, budget=LARGE)


def test_a_prompt_that_is_sent_again_after_a_failure_is_stored_once() -> None:
    async def work(memory: AsyncMemory) -> None:
        session, step, down = memory.session("c"), paying(1), [False, True, False, False]

        def failing(number: int) -> ModelResponse:
            if down[number - 1]:
                raise ConnectionError("line cut")
            return step(number)

        watched = Watched(failing)
        agent = made(watched, memory, [])
        await agent.run("Pay 付款", conversation_id="c")
        with pytest.raises(ConnectionError):
            await agent.run("Never mind 算了", conversation_id="c")
        history = repair_messages(await message_history(session))
        await agent.run(message_history=history, conversation_id="c")
        assert results(watched.prompts[-1][0]) == [("pay_1_0", NO_RESULT)]
        check_prompt(*watched.prompts[-1], session)
        await agent.run(
            "And now?", message_history=await message_history(session), conversation_id="c"
        )
        assert await stored(session) == [
            "user: Pay 付款",
            "assistant: Let me. 我来",
            "user: Never mind 算了",
            "assistant: answer 3 回答",
            "user: And now?",
            "assistant: answer 4 回答",
        ]

    with_memory(work, budget=LARGE)


def test_an_approval_after_it_was_ignored_goes_back_to_the_call() -> None:
    async def work(memory: AsyncMemory) -> None:
        watched, session = Watched(paying(1)), memory.session("c")
        paid: list[int] = []
        agent = made(watched, memory, paid)
        await agent.run("Pay 付款", conversation_id="c")
        waiting = await message_history(session)
        await agent.run("SECRET, are you there? 在吗", conversation_id="c")
        approved = DeferredToolResults(approvals={"pay_1_0": True})
        done = await agent.run(
            message_history=waiting, deferred_tool_results=approved, conversation_id="c"
        )
        assert paid == [0]
        assert done.output == "answer 3 回答"
        assert results(watched.prompts[-1][0]) == [("pay_1_0", "paid 0 已付")]
        assert "SECRET" not in watched.words()
        check_prompt(*watched.prompts[-1], session)
        await agent.run(
            "And now?", message_history=await message_history(session), conversation_id="c"
        )
        shown = [str(one.parts[0]) for one in await message_history(session)]
        assert len(shown) == 6

    with_memory(work, budget=LARGE)


async def send(agent: Agent[Any, Any], given: list[Any], front_end: str) -> list[Any]:
    """Send a conversation as a front end does; the messages that it has afterwards."""
    if front_end == "ag_ui":
        core: Any = import_module("ag_ui.core")
        front: Any = import_module("pydantic_ai.ui.ag_ui")
        run_input: Any = core.RunAgentInput(
            thread_id="c",
            run_id=f"run-{len(given)}",
            state={},
            messages=given,
            tools=[],
            context=[],
            forwarded_props={},
        )
        adapter: Any = front.AGUIAdapter(agent=agent, run_input=run_input)
    else:
        run_input = SubmitMessage(trigger="submit-message", id="c", messages=given)
        adapter = VercelAIAdapter(agent=agent, run_input=run_input, sdk_version=6)
    answers: list[Any] = []

    def ended(result: Any) -> None:
        answers.extend(type(adapter).dump_messages(result.new_messages()))

    async for _ in adapter.run_stream(on_complete=ended):
        pass
    assert answers
    return [*given, *answers]


@pytest.mark.parametrize("front_end", ["vercel_ai", "ag_ui"])
@pytest.mark.parametrize("calls", [(1,), (2,), (1, 1)])
def test_behind_a_front_end_an_ignored_approval_stores_nothing_again(
    calls: tuple[int, ...], front_end: str
) -> None:
    if front_end == "ag_ui":
        pytest.importorskip("ag_ui", reason="AG-UI is in the environment of make test-frameworks")

    async def work(memory: AsyncMemory) -> None:
        watched, session = Watched(paying(*calls)), memory.session("c")
        agent = made(watched, memory, [])
        shown: list[Any] = []
        for number in range(len(calls) + 3):
            text = f"question {number} 问题"
            prompt = (
                import_module("ag_ui.core").UserMessage(id=f"u{number}", content=text)
                if front_end == "ag_ui"
                else UIMessage(id=f"u{number}", role="user", parts=[TextUIPart(text=text)])
            )
            shown = await send(agent, [*shown, prompt], front_end)
            check_prompt(*watched.prompts[-1], session)
        log = await stored(session)
        assert [one for one in log if one.startswith("user")] == [
            f"user: question {number} 问题" for number in range(len(calls) + 3)
        ]
        assert len(log) == 2 * (len(calls) + 3) + sum(max(0, one - 1) for one in calls)

    with_memory(work, budget=LARGE)
