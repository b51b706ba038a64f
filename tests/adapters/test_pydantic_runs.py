"""Runs that do not go straight: streamed, retried, parallel, cancelled, failed, two at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")

from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    ToolReturn,
    capture_run_messages,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models.function import FunctionModel

from tests.adapters.pydantic_agents import (
    MANY,
    Step,
    Watched,
    agent_of,
    check_prompt,
    dumped,
    log_of,
    logged,
    looping,
    user_words,
    with_memory,
)
from turnfold import AsyncMemory, Budget
from turnfold.adapters._common import framework_history_in_log as alignment
from turnfold.adapters.pydantic_ai import message_history, turnfold_capability
from turnfold.adapters.pydantic_ai.capability import RunView
from turnfold.memory import AsyncSession
from turnfold.records import Message
from turnfold.window import Context


def test_streamed_runs_are_logged_and_shaped_alike() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        watched = Watched(looping(3, thinking=False))
        agent = agent_of(watched, session)
        async with agent.run_stream("Look.", usage_limits=MANY) as run:
            words = [part async for part in run.stream_text(delta=True)]
        assert "".join(words).strip() == "done 4"
        assert len(watched.prompts) == 4
        for prompt in watched.prompts:
            check_prompt(*prompt, session)
        assert dumped(await logged(session)) == dumped(run.all_messages())

    with_memory(work)


def test_a_retried_tool_call_and_rejected_output_stay_paired() -> None:  # noqa: C901 (one script)
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")

        def step(number: int) -> ModelResponse:
            if number == 1:
                return ModelResponse([ToolCallPart("fussy", {"word": "no"}, "f1")])
            if number == 2:
                return ModelResponse([ToolCallPart("fussy", '{"wrong": 1}', "f2")])
            if number == 3:
                return ModelResponse([ToolCallPart("fussy", {"word": "yes"}, "f3")])
            return ModelResponse([TextPart("bad" if number == 4 else "good")])

        watched = Watched(step)
        agent = Agent(watched.model, retries=5, capabilities=[turnfold_capability(session)])

        @agent.tool_plain
        def fussy(word: str) -> str:
            """Takes one word only."""
            if word != "yes":
                raise ModelRetry("say yes")
            return "fine"

        @agent.output_validator
        def good_only(output: str) -> str:
            if output != "good":
                raise ModelRetry("say good")
            return output

        del fussy, good_only
        result = await agent.run("Try.")
        assert result.output == "good"
        assert len(watched.prompts) == 5
        for prompt in watched.prompts:
            check_prompt(*prompt, session)
        assert "say good" in watched.words(-1)
        assert dumped(await logged(session)) == dumped(result.all_messages())

    with_memory(work)


def test_parallel_calls_stay_with_all_their_results() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")

        def step(number: int) -> ModelResponse:
            if number % 6:
                calls = [ToolCallPart("look", {"at": number * 10 + at}) for at in range(3)]
                return ModelResponse([TextPart("several"), *calls])
            return ModelResponse([TextPart("done")])

        watched = Watched(step)
        agent = agent_of(watched, session)
        for number in range(4):
            await agent.run(f"Round {number}.")
        for prompt in watched.prompts:
            check_prompt(*prompt, session)
        assert len(await session.checkpoints()) >= 1

    with_memory(work)


def test_a_run_cancelled_midway_leaves_what_it_said_and_can_be_resumed() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        started = asyncio.Event()
        watched = Watched(
            lambda number: (
                ModelResponse([ToolCallPart("wait", {}, "w1"), ToolCallPart("quick", {}, "q1")])
                if number == 1
                else ModelResponse([TextPart("resumed")])
            )
        )
        agent = Agent(watched.model, capabilities=[turnfold_capability(session)])

        @agent.tool_plain
        async def wait() -> str:
            """Never comes back."""
            started.set()
            await asyncio.Event().wait()
            return "never"

        @agent.tool_plain
        def quick() -> str:
            """Comes back at once."""
            return "quick result"

        del wait, quick
        run = asyncio.ensure_future(agent.run("Begin."))
        await started.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        roles = [one.message.role for one in await log_of(session) if one.message.role != "system"]
        assert roles[:2] == ["user", "assistant"]
        result = await agent.run("Go on.")
        assert result.output == "resumed"
        check_prompt(*watched.prompts[-1], session)
        again = await agent.run("And on.", message_history=await logged(session))
        check_prompt(*watched.prompts[-1], session)
        # PydanticAI answers the open call in the history it is given: the log follows it.
        assert user_words(watched.prompts[-1][0]) == ["Begin.", "Go on.", "And on."]
        assert again.output == "resumed"

    with_memory(work)


def paying(
    watched: Watched, session: AsyncSession, started: asyncio.Event, *, end: str, approved: bool
) -> Agent[Any, Any]:
    """An agent with a tool that pays, and one that is cancelled or fails once the other has paid."""
    paid = asyncio.Event()
    agent: Agent[Any, Any] = Agent(
        watched.model,
        output_type=[str, DeferredToolRequests],
        capabilities=[turnfold_capability(session, recall=False)],
    )

    @agent.tool_plain(requires_approval=approved)
    async def pay() -> ToolReturn:
        """Pay."""
        paid.set()
        return ToolReturn("paid 付款", content="The receipt. 收据")

    @agent.tool_plain(requires_approval=approved)
    async def wait() -> str:
        """Never comes back."""
        await paid.wait()
        await asyncio.sleep(0.01)
        started.set()
        await (asyncio.Event().wait() if end == "cancelled" else asyncio.sleep(0))
        raise RuntimeError("broken")

    del pay, wait
    return agent


@pytest.mark.parametrize("end", ["cancelled", "failed"])
@pytest.mark.parametrize("approved", [False, True])
def test_what_a_tool_did_before_its_run_was_cancelled_is_in_the_log_once(
    end: str,
    approved: bool,  # noqa: FBT001
) -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        started = asyncio.Event()
        calls = [ToolCallPart("pay", {}, "p1"), ToolCallPart("wait", {}, "w1")]
        watched = Watched(
            lambda number: ModelResponse(calls if number == 1 else [TextPart(f"answer {number}")])
        )
        agent = paying(watched, session, started, end=end, approved=approved)
        given: dict[str, Any] = {"user_prompt": "Pay."}
        if approved:
            await agent.run("Pay.")
            results = DeferredToolResults(approvals={"p1": True, "w1": True})
            given = {"deferred_tool_results": results}
            given["message_history"] = await message_history(session)
        with capture_run_messages() as captured:
            run = asyncio.ensure_future(agent.run(**given))
            await started.wait()
            if end == "cancelled":
                run.cancel()
            with pytest.raises((asyncio.CancelledError, RuntimeError)):
                await run
        kept = [message for message in captured if message.parts]
        log = [one.message for one in await log_of(session)]
        assert [(one.role, one.text) for one in log] == [
            ("user", "Pay."),
            ("assistant", ""),
            ("tool", "paid 付款"),
            ("user", "The receipt. 收据"),
        ]
        for given_by in ("id", "program", "session"):
            stored = await message_history(session)
            history = {"id": None, "program": kept, "session": stored}[given_by]
            await agent.run("Go on.", message_history=history)
            check_prompt(*watched.prompts[-1], session)
            assert watched.words().count("paid 付款") == 1
        log = [one.message for one in await log_of(session)]
        assert [one.text for one in log].count("Pay.") == 2  # `kept` goes back to before "Go on."

    with_memory(work)


def test_a_model_that_fails_leaves_the_question_in_the_log() -> None:
    def fails(messages: list[ModelMessage], info: object) -> ModelResponse:
        raise RuntimeError(f"no answer to {len(messages)} messages for {type(info).__name__}")

    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        agent = Agent(FunctionModel(fails), capabilities=[turnfold_capability(session)])
        with pytest.raises(RuntimeError, match="no answer"):
            await agent.run("Anybody there?")
        assert [
            one.message.text for one in await log_of(session) if one.message.role == "user"
        ] == ["Anybody there?"]

    with_memory(work)


class Interleaved:
    """Two runs on one conversation that take turns at every step."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._turns = {"A": asyncio.Event(), "B": asyncio.Event()}
        self._done: set[str] = set()
        self.watched = {name: Watched(self._script(name)) for name in ("A", "B")}

    @staticmethod
    def _script(name: str) -> Step:
        def step(number: int) -> ModelResponse:
            if number <= 5:
                return ModelResponse([ToolCallPart("pass_on", {"name": name, "at": number})])
            return ModelResponse([TextPart(f"{name} is done")])

        return step

    async def run(self) -> list[list[ModelMessage]]:
        return list(await asyncio.gather(self._run("A", "B"), self._run("B", "A")))

    async def _run(self, name: str, other: str) -> list[ModelMessage]:
        agent = Agent(self.watched[name].model, capabilities=[turnfold_capability(self._session)])
        turns = self._turns

        @agent.tool_plain
        async def pass_on(name: str, at: int) -> str:
            """Lets the other run take a step first."""
            turns[other].set()
            if other not in self._done:
                await turns[name].wait()
                turns[name].clear()
            return f"{name} {at}"

        del pass_on
        try:
            result = await agent.run(f"Question {name}.")
        finally:
            self._done.add(name)
            turns[other].set()
        assert result.output == f"{name} is done"
        return result.all_messages()

    def strangers(self) -> list[str]:
        """What stood last in prompts of a run and was not the run's own."""
        return [
            str(messages[-1].parts[-1])
            for name, seen in self.watched.items()
            for messages, _ in seen.prompts
            if name not in str(getattr(messages[-1].parts[-1], "content", ""))
        ]


def test_two_runs_at_once_lose_nothing_and_each_goes_on_with_its_own_turn() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        both = Interleaved(session)
        histories = await both.run()
        for seen in both.watched.values():
            for prompt in seen.prompts:
                check_prompt(*prompt, session)
        assert both.strangers() == []
        log = await log_of(session)
        assert len({one.client_id for one in log}) == len(log)
        assert len(log) == 1 + sum(map(len, histories))

    with_memory(work, budget=Budget(max_tokens=8_000))


def test_sabotage_in_the_order_of_the_log_a_run_goes_on_with_anothers_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def as_logged(self: RunView, context: Context, own: set[str]) -> list[Message]:
        del self, own
        return list(context.messages[context.ends[0] :])

    monkeypatch.setattr(RunView, "_own_last", as_logged)

    async def work(memory: AsyncMemory) -> None:
        both = Interleaved(memory.session("s"))
        await both.run()
        assert both.strangers() != []

    with_memory(work, budget=Budget(max_tokens=8_000))


def test_sabotage_without_recognising_it_a_history_handed_on_is_stored_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(alignment, "longest_overlap", lambda log, _: (len(log), 0))

    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        agent = agent_of(Watched(looping(1)), session)
        first = await agent.run("One.")
        await agent.run("Two.", message_history=first.all_messages())
        said = [one.message.text for one in await log_of(session) if one.message.role == "user"]
        assert said.count("One.") > 1

    with_memory(work)
