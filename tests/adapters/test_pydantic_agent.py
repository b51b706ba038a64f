"""Real PydanticAI agents with memory: what their model sees, what their history keeps, what the log holds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")

from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import RunContext

from tests.adapters.pydantic_agents import (
    MANY,
    PAGE,
    SMALL,
    Watched,
    agent_of,
    answering,
    check_prompt,
    dumped,
    log_of,
    logged,
    looping,
    user_words,
    with_memory,
)
from turnfold import AsyncMemory, Budget, Memory
from turnfold.adapters.pydantic_ai import turnfold_capability
from turnfold.errors import BudgetTooSmall, InvalidOption
from turnfold.tokens import cautious_counter, counter_for


def test_sixty_steps_with_folding_stay_in_budget_and_the_history_keeps_everything() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        watched = Watched(looping(60))
        result = await agent_of(watched, session).run("Look at everything.", usage_limits=MANY)
        assert result.output == "done 61"
        assert len(result.all_messages()) == 122
        assert len(watched.prompts) == 61
        counts = [check_prompt(*prompt, session) for prompt in watched.prompts]
        assert max(counts) > 0.7 * SMALL.tokens
        assert max(len(messages) for messages, _ in watched.prompts) < 40
        assert len(await session.checkpoints()) >= 3
        for messages, _ in watched.prompts:
            assert any("Look at everything." in words for words in user_words(messages))
            assert isinstance(messages[-1], ModelRequest)
        assert dumped(await logged(session)) == dumped(result.all_messages())

    with_memory(work)


def test_sabotage_without_the_view_the_same_run_is_over_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from turnfold.adapters.pydantic_ai import TurnfoldCapability

    async def as_it_is(
        _: object, ctx: RunContext[object], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        del ctx
        return request_context

    monkeypatch.setattr(TurnfoldCapability, "prepare_model_request", as_it_is)

    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        watched = Watched(looping(60))
        await agent_of(watched, session).run("Look at everything.", usage_limits=MANY)
        with pytest.raises(AssertionError):
            check_prompt(*watched.prompts[-1], session)

    with_memory(work)


def test_while_everything_fits_the_model_is_sent_the_very_messages_of_the_run() -> None:
    async def work(memory: AsyncMemory) -> None:
        watched = Watched(looping(1))
        agent = agent_of(watched, memory.session("s"), recall=False)
        first = await agent.run("Look at everything.")
        second = await agent.run("And again.", message_history=first.all_messages())
        for prompt, result, so_far in ((1, first, 3), (2, second, 5), (3, second, 7)):
            # times, run ids and system prompts included
            assert dumped(watched.prompts[prompt][0]) == dumped(result.all_messages()[:so_far])

    with_memory(work, budget=Budget(max_tokens=50_000))


def test_a_second_run_remembers_without_being_given_the_history() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        watched = Watched(answering("Noted.", "Blue."))
        agent = agent_of(watched, session)
        await agent.run("My boat is blue.")
        second = await agent.run("Which colour is my boat?")
        assert len(second.all_messages()) == 2
        assert user_words(watched.prompts[1][0]) == ["My boat is blue.", "Which colour is my boat?"]
        prompts = [
            part for part in watched.prompts[1][0][0].parts if isinstance(part, SystemPromptPart)
        ]
        assert [part.content for part in prompts] == ["You look things up."]

    with_memory(work)


def test_a_history_handed_on_is_stored_once_whole_cut_or_through_json() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        watched = Watched(looping(2))
        agent = agent_of(watched, session)
        first = await agent.run("One.")
        history = ModelMessagesTypeAdapter.validate_json(first.all_messages_json())
        second = await agent.run("Two.", message_history=history)
        third = await agent.run("Three.", message_history=second.all_messages()[-4:])
        said = [one.message.text for one in await log_of(session) if one.message.role == "user"]
        assert said == ["One.", "Two.", "Three."]
        whole = [*second.all_messages(), *third.new_messages()]
        assert dumped(await logged(session)) == dumped(whole)

    with_memory(work)


def test_a_history_built_by_hand_is_stored_once() -> None:
    def by_hand() -> list[ModelMessage]:
        return [
            ModelRequest([UserPromptPart("yes")]),
            ModelResponse([TextPart("And?")]),
            ModelRequest([UserPromptPart("yes")]),
            ModelResponse([TextPart("Good.")]),
        ]

    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        agent = agent_of(Watched(answering("Hm.")), session)
        await agent.run("First.", message_history=by_hand())
        more = [ModelRequest([UserPromptPart("First.")]), ModelResponse([TextPart("Hm.")])]
        await agent.run("Second.", message_history=[*by_hand(), *more])
        said = [one.message.text for one in await log_of(session) if one.message.role == "user"]
        assert said == ["yes", "yes", "First.", "Second."]

    with_memory(work)


def test_a_memory_gives_each_conversation_its_own_session() -> None:
    async def work(memory: AsyncMemory) -> None:
        watched = Watched(answering("Hm."))
        agent = agent_of(watched, memory)
        await agent.run("Here.", conversation_id="a")
        await agent.run("There.", conversation_id="b")
        assert user_words(watched.prompts[1][0]) == ["There."]
        assert [info.conversation for info in await memory.conversations()] == ["a", "b"]

    with_memory(work)


@pytest.fixture
def loop() -> Iterator[None]:
    """The event loop that `run_sync` looks for, and leaves open."""
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield
    asyncio.set_event_loop(None)
    made.close()


@pytest.mark.usefixtures("loop")
def test_a_memory_without_an_event_loop_serves_run_sync() -> None:
    with Memory("sqlite://", budget=SMALL) as memory:
        watched = Watched(answering("Noted.", "Blue."))
        agent = Agent(watched.model, capabilities=[turnfold_capability(memory.session("s"))])
        agent.run_sync("My boat is blue.")
        agent.run_sync("Which colour is it?")
        assert user_words(watched.prompts[1][0]) == ["My boat is blue.", "Which colour is it?"]
        assert memory.session("s").status().turns == 2


def test_recall_brings_back_what_was_folded_by_itself_and_by_tool() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        filler = Watched(looping(30))
        await agent_of(filler, session, recall=False).run(
            "The safe of the Nordlys has the combination 4711-0815.", usage_limits=MANY
        )
        await agent_of(filler, session, recall=False).run("Look again.", usage_limits=MANY)

        def step(number: int) -> ModelResponse:
            if number == 1:
                return ModelResponse([ToolCallPart("recall_context", {"query": "safe Nordlys"})])
            if number == 2:
                return ModelResponse(
                    [ToolCallPart("recall_context", {"turn_numbers": [1], "max_tokens": 300})]
                )
            return ModelResponse([TextPart("4711-0815")])

        watched = Watched(step)
        result = await agent_of(watched, session).run("What opens the safe of the Nordlys?")
        for prompt in watched.prompts:
            check_prompt(*prompt, session)
        assert "4711-0815" in "".join(user_words(watched.prompts[0][0]))
        returned = [
            str(part.content)
            for message in result.all_messages()
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        ]
        assert all("4711-0815" in text for text in returned)
        assert session.counter.count_text(returned[1]) <= 300

    with_memory(work)


def test_messages_other_capabilities_add_are_sent_and_counted() -> None:
    class Reminds(AbstractCapability[object]):
        async def prepare_model_request(
            self, ctx: RunContext[object], request_context: ModelRequestContext
        ) -> ModelRequestContext:
            del ctx
            reminder = ModelRequest([UserPromptPart("Remember the tide. " * 20)])
            request_context.messages = [*request_context.messages, reminder]
            return request_context

    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        watched = Watched(looping(20))
        agent = Agent(watched.model, capabilities=[Reminds(), turnfold_capability(session)])

        @agent.tool_plain
        def look(at: int) -> str:
            """Look at an entry."""
            return f"entry {at}: {PAGE}"

        del look
        await agent.run("Look.", usage_limits=MANY)
        for prompt in watched.prompts:
            check_prompt(*prompt, session)
            assert "Remember the tide." in user_words(prompt[0])[-1]
        assert not any("tide. Remember" in one.message.text for one in await log_of(session))

    with_memory(work)


def test_a_capability_that_rewrites_the_request_is_refused_not_overruled() -> None:
    class Cuts(AbstractCapability[object]):
        async def before_model_request(
            self, ctx: RunContext[object], request_context: ModelRequestContext
        ) -> ModelRequestContext:
            del ctx
            request_context.messages = request_context.messages[-1:]
            return request_context

    async def work(memory: AsyncMemory) -> None:
        watched = Watched(looping(3))
        agent = agent_of(watched, memory.session("s"))
        with pytest.raises(InvalidOption, match="2 of the 3 history messages"):
            await agent.run("Look.", capabilities=[Cuts()])

    with_memory(work)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (("北京三天怎么安排？", "And in English?"), "这段对话较早的部分"),
        (("Three days in Beijing?", "用中文说一遍"), "Earlier parts of this conversation"),
    ],
)
def test_the_default_instructions_are_in_the_language_of_the_first_user_message(
    said: tuple[str, str], told: str
) -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        watched = Watched(answering("Yes."))
        agent = Agent(watched.model, capabilities=[turnfold_capability(session)])
        first = await agent.run(said[0])
        await agent.run(said[1])
        await agent.run(said[1], message_history=first.all_messages())
        sent = [info.instructions or "" for _, info in watched.prompts]
        assert sent[0].startswith(told)
        assert sent == sent[:1] * 3  # the same text in each run, for the provider's prompt cache

    with_memory(work)


def test_instructions_too_long_for_their_share_are_sent_shortened() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        watched = Watched(answering("Yes."))
        agent = Agent(
            watched.model,
            instructions="Rule: " + "never guess the tide. " * 900,
            capabilities=[turnfold_capability(session, recall=False)],
        )
        result = await agent.run("Ready?")
        _, info = watched.prompts[0]
        assert info.instructions is not None
        assert "tokens in full" in info.instructions
        check_prompt(*watched.prompts[0], session)
        first = result.all_messages()[0]
        assert isinstance(first, ModelRequest)
        assert first.instructions is not None
        assert "tokens in full" not in first.instructions

    with_memory(work)


def test_a_budget_too_small_for_the_tools_says_so() -> None:
    async def work(memory: AsyncMemory) -> None:
        agent = agent_of(Watched(answering("Yes.")), memory.session("s"))
        with pytest.raises(BudgetTooSmall):
            await agent.run("Ready?")

    with_memory(work, budget=Budget(max_tokens=60))


def test_what_the_provider_counted_is_noted_with_the_call() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        watched = Watched(looping(2))
        result = await agent_of(watched, session).run("Look.")
        calls = await session.calls()
        said = [one for one in result.all_messages() if isinstance(one, ModelResponse)]
        assert [call.usage and call.usage.input for call in calls] == [
            one.usage.input_tokens for one in said
        ]

    with_memory(work)


def test_test_model_calls_every_tool_through_the_capability() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        model = TestModel(call_tools=["look"])
        watched = Watched(answering("unused"))
        agent = agent_of(watched, session)
        result = await agent.run("Look.", model=model)
        assert dumped(await logged(session)) == dumped(result.all_messages())

    with_memory(work)


def test_a_run_may_bring_its_own_memory_to_an_agent_that_has_one() -> None:
    async def work(memory: AsyncMemory) -> None:
        watched = Watched(answering("Yes."))
        agent = agent_of(watched, memory.session("usual"))
        own = turnfold_capability(memory.session("own"))
        await agent.run("Here.", capabilities=[own])
        assert [one.message.text for one in await log_of(memory.session("own"))][1:] == [
            "Here.",
            "Yes.",
        ]
        assert await log_of(memory.session("usual")) == []
        bare = Agent(watched.model)
        await bare.run("There.", capabilities=[turnfold_capability(memory.session("own"))])
        assert user_words(watched.prompts[-1][0]) == ["Here.", "There."]
        capabilities = [own, turnfold_capability(memory)]
        with pytest.raises(UserError, match="multiple capabilities"):
            await bare.run("Where?", capabilities=capabilities, conversation_id="other")

    with_memory(work)


@pytest.mark.parametrize("named", ["gpt-4o", "somebody's"])
def test_tokens_are_counted_as_the_model_of_the_agent_counts_them(named: str) -> None:
    async def work(memory: AsyncMemory) -> None:
        model = FunctionModel(Watched(answering("hi")).answer, model_name=named)
        agent = Agent(model, capabilities=[turnfold_capability(memory)])
        await agent.run("Hello", conversation_id="s")
        session = memory.session("s")
        [call] = await session.calls()
        known = named == "gpt-4o"
        assert call.counter == (counter_for(named) if known else cautious_counter()).name
        assert session.budget == Budget(context_window=128_000 if known else 16_000)

    async def run() -> None:
        async with AsyncMemory("sqlite://") as memory:
            await work(memory)

    asyncio.run(run())
