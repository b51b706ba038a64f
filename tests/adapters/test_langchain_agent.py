"""Real LangChain agents with memory: what their model sees, what their state keeps, what the log holds."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("langchain", reason="the extra langchain is not installed")

from langchain.agents import create_agent
from langchain.agents.middleware.types import (
    ModelRequest,
    ModelResponse,
    wrap_model_call,
)
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    SystemMessage,
)
from langchain_core.tools import tool
from pydantic import BaseModel

from tests.adapters.langchain_agents import (
    PAGE,
    SMALL,
    Prompt,
    Watched,
    agent_of,
    answering,
    asked,
    calling,
    check_prompt,
    log_of,
    logged,
    look,
    looping,
    thread,
    user_words,
    words,
)
from turnfold import AsyncMemory, Budget, Memory
from turnfold.adapters.langchain import TurnfoldSaver, turnfold_middleware
from turnfold.adapters.langchain.middleware import GraphView
from turnfold.errors import BudgetTooSmall, InvalidOption
from turnfold.tokens import counter_for

# ---------------------------------------------------------------------------------- the budget


def test_sixty_steps_with_folding_stay_in_budget_and_the_state_keeps_everything() -> None:
    with Memory("sqlite://", budget=SMALL) as memory:
        session, model = memory.session("t"), Watched(step=looping(60))
        agent = agent_of(model, memory, checkpointer=TurnfoldSaver(memory))
        state = agent.invoke(asked("Look at everything."), thread())
        assert state["messages"][-1].text == "done 61"
        assert len(state["messages"]) == 122
        assert agent.get_state(thread()).values["messages"] == state["messages"]
        counts = [check_prompt(prompt, session) for prompt in model.prompts]
        assert len(counts) == 61
        assert max(counts) > 0.7 * SMALL.tokens
        assert len(session.checkpoints()) >= 3
        for prompt in model.prompts:
            assert any("Look at everything." in text for text in user_words(prompt.messages))
        assert logged(session) == state["messages"]


def test_a_run_with_folding_awaited() -> None:
    async def work() -> None:
        async with AsyncMemory("sqlite://", budget=SMALL) as memory:
            session, model = memory.session("t"), Watched(step=looping(25))
            agent = agent_of(model, memory, checkpointer=TurnfoldSaver(memory))
            state = await agent.ainvoke(asked("Look at everything."), thread())
            assert len(state["messages"]) == 52
            assert max(check_prompt(prompt, session) for prompt in model.prompts) > 2_000
            assert (await session.status()).entries == 53  # with the system message

    asyncio.run(work())


def test_a_blocking_memory_serves_ainvoke_too() -> None:
    with Memory("sqlite://", budget=SMALL) as memory:
        model = Watched(step=looping(12))
        agent = agent_of(model, memory, checkpointer=TurnfoldSaver(memory))
        state = asyncio.run(agent.ainvoke(asked("Look."), thread()))
        assert logged(memory.session("t")) == state["messages"]
        assert all(check_prompt(prompt, memory.session("t")) for prompt in model.prompts)


def test_sabotage_without_the_view_the_same_run_is_over_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def as_it_is(_: GraphView, request: ModelRequest[Any]) -> tuple[ModelRequest[Any], str]:
        return request, ""

    monkeypatch.setattr(GraphView, "shape", as_it_is)
    with Memory("sqlite://", budget=SMALL) as memory:
        model = Watched(step=looping(60))
        agent_of(model, memory).invoke(asked("Look."), thread())
        with pytest.raises(AssertionError):
            check_prompt(model.prompts[-1], memory.session("t"))


class Place(BaseModel):
    """Where it is."""

    name: str


@pytest.mark.parametrize("form", [None, Place])
def test_what_fits_is_sent_exactly_as_without_turnfold(form: type[BaseModel] | None) -> None:
    def step(number: int) -> AIMessage:
        if number == 1:
            return calling("look", {"at": 1}, 1, said="I look.")
        return calling("Place", {"name": "Ålesund"}, 2) if form else AIMessage("港口。")

    def run(middleware: list[Any]) -> list[Prompt]:
        model = Watched(step=step)
        agent = create_agent(
            model, [look], system_prompt="Be brief.", middleware=middleware, response_format=form
        )
        said = [SystemMessage("Then this.", id="0"), HumanMessage("深度？", id="1")]
        blocks: Any = [{"type": "text", "text": "And?", "cache_control": {"type": "ephemeral"}}]
        agent.invoke({"messages": [*said, HumanMessage(blocks, id="2")]}, thread())
        return model.prompts

    with Memory("sqlite://") as memory:
        plain, shaped = run([]), run([turnfold_middleware(memory, recall=False)])
        for one, other in zip(plain, shaped, strict=True):
            assert [_bare(message) for message in other.messages] == [
                _bare(message) for message in one.messages
            ]
            assert other.tools == one.tools
        assert len(shaped) == 2


def _bare(message: Any) -> dict[str, Any]:
    return message.model_dump(
        exclude={"id"}
    )  # of a model's answer: LangChain makes it new for each run


def test_the_system_message_and_the_tools_are_counted_and_shortened_with_the_rest() -> None:
    with Memory("sqlite://", budget=Budget(max_tokens=1_600)) as memory:
        model = Watched(step=looping(4))
        agent = agent_of(model, memory, system_prompt=PAGE * 6)
        agent.invoke(asked("Look."), thread())
        for prompt in model.prompts:
            check_prompt(prompt, memory.session("t"))
            assert isinstance(prompt.messages[0], SystemMessage)
            assert len(prompt.messages[0].text) < len(PAGE * 6)
    with (
        Memory("sqlite://", budget=Budget(max_tokens=300)) as memory,
        pytest.raises(BudgetTooSmall),
    ):
        agent_of(Watched(step=looping(1)), memory).invoke(asked("Look."), thread())


def test_messages_that_other_middleware_adds_are_counted() -> None:
    @wrap_model_call
    def remind(
        request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        return handler(request.override(messages=[*request.messages, HumanMessage(PAGE * 3)]))

    with Memory("sqlite://", budget=SMALL) as memory:
        model = Watched(step=looping(20))
        agent = agent_of(model, memory, before=[remind])
        agent.invoke(asked("Look."), thread())
        for prompt in model.prompts:
            check_prompt(prompt, memory.session("t"))
            assert prompt.messages[-1].text == PAGE * 3
        assert PAGE * 3 not in "".join(one.message.text for one in log_of(memory.session("t")))


def test_middleware_that_cuts_the_same_request_is_refused() -> None:
    @wrap_model_call
    def cut(
        request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        return handler(request.override(messages=request.messages[-1:]))

    with Memory("sqlite://") as memory:
        agent = agent_of(Watched(step=looping(1)), memory, before=[cut])
        with pytest.raises(InvalidOption, match="2 of the 3 history messages"):
            agent.invoke(asked("Look."), thread())


# ---------------------------------------------------------------------------------- the log


def test_what_is_said_is_in_the_log_before_the_model_is_asked_and_before_a_tool_runs() -> None:
    seen: list[list[str]] = []

    with Memory("sqlite://") as memory:
        session = memory.session("t")

        @tool
        def peek() -> str:
            """Peek."""
            seen.append([one.message.role for one in log_of(session)])
            return "seen"

        def step(number: int) -> AIMessage:
            seen.append([one.message.role for one in log_of(session)])
            return calling("peek", {}, 1) if number == 1 else AIMessage("done")

        agent = agent_of(Watched(step=step), session, tools=[peek], system_prompt=None)
        agent.invoke(asked("Go."))
        assert seen == [["user"], ["user", "assistant"], ["user", "assistant", "tool"]]
        assert [one.message.role for one in log_of(session)][-1] == "assistant"


def test_sabotage_a_log_that_is_only_written_at_the_end_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from turnfold.adapters.langchain.middleware import ConversationState

    async def nothing(_: ConversationState, call: Any, messages: Any) -> Any:
        from turnfold.adapters.langchain.middleware import ToolRequest
        from turnfold.records import ToolCall

        del messages
        return ToolRequest(ToolCall(call["id"], call["name"]))

    monkeypatch.setattr(ConversationState, "before_tool", nothing)
    with pytest.raises(AssertionError):
        test_what_is_said_is_in_the_log_before_the_model_is_asked_and_before_a_tool_runs()


def test_a_second_run_remembers_without_being_given_the_history() -> None:
    with Memory("sqlite://") as memory:
        model = Watched(step=answering("Noted.", "Blue."))
        agent = agent_of(model, memory)
        agent.invoke(asked("My boat is blue."), thread())
        second = agent.invoke(asked("Which colour is my boat?"), thread())
        assert len(second["messages"]) == 2
        assert user_words(model.prompts[1].messages) == [
            "My boat is blue.",
            "Which colour is my boat?",
        ]


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_history_handed_on_is_stored_once(by_hand: bool) -> None:  # noqa: FBT001
    with Memory("sqlite://") as memory:
        agent = agent_of(Watched(step=answering("And?", "Good.", "Hm.")), memory)
        said: list[Any] = []
        for text in ("yes", "yes", "no"):
            state = agent.invoke({"messages": [*said, ("user", text)]}, thread())
            said = (
                [(one.type, one.text) for one in state["messages"]]
                if by_hand
                else state["messages"]
            )
        told = [one.text for one in logged(memory.session("t"))]
        assert told == ["yes", "And?", "yes", "Good.", "no", "Hm."]


def test_a_history_built_by_hand_is_stored_once() -> None:
    said: list[Any] = []
    with Memory("sqlite://") as memory:
        agent = agent_of(Watched(step=answering("And?")), memory)
        for _ in range(12):
            state = agent.invoke({"messages": [*said, ("user", "yes")]}, thread())
            said = [(one.type, one.text) for one in state["messages"]]
        assert [one.text for one in logged(memory.session("t"))] == ["yes", "And?"] * 12


def test_agents_side_by_side_in_one_thread_are_each_told_their_own_prompt() -> None:
    async def work() -> list[tuple[str, str]]:
        async with AsyncMemory("sqlite://") as memory:
            middleware = turnfold_middleware(memory, recall=False)
            names = ("You are A.", "You are B.", "You are C.")
            models = [Watched(step=answering("ok")) for _ in names]
            agents = [
                create_agent(model, system_prompt=name, middleware=[middleware])
                for name, model in zip(names, models, strict=True)
            ]
            for _ in range(4):
                await asyncio.gather(*(one.ainvoke(asked("hello"), thread()) for one in agents))
            return [
                (name, words(prompt))
                for name, model in zip(names, models, strict=True)
                for prompt in model.prompts
            ]

    seen = asyncio.run(work())
    assert len(seen) == 12
    assert all(name in shown for name, shown in seen)


def test_the_same_words_again_are_said_again() -> None:
    with Memory("sqlite://") as memory:
        agent = agent_of(Watched(step=answering("ok")), memory)
        for _ in range(3):
            agent.invoke(asked("yes"), thread())
        assert [one.text for one in logged(memory.session("t"))] == ["yes", "ok"] * 3


def test_parallel_calls_are_stored_once_and_their_answers_stay_with_them() -> None:
    def step(number: int) -> AIMessage:
        if number > 3:
            return AIMessage("done")
        calls = [
            {"name": "look", "args": {"at": at}, "id": f"{number}-{at}", "type": "tool_call"}
            for at in range(6)
        ]
        return AIMessage("", tool_calls=calls)

    async def awaited() -> None:
        async with AsyncMemory("sqlite://", budget=SMALL) as memory:
            model = Watched(step=step)
            await agent_of(model, memory).ainvoke(asked("All."), thread())
            assert all(check_prompt(prompt, memory.session("t")) for prompt in model.prompts)
            assert (await memory.session("t").status()).entries == 1 + 2 + 3 * 7

    asyncio.run(awaited())
    with Memory("sqlite://", budget=SMALL) as memory:
        model = Watched(step=step)
        state = agent_of(model, memory).invoke(asked("All."), thread())
        assert all(check_prompt(prompt, memory.session("t")) for prompt in model.prompts)
        assert sorted(map(str, logged(memory.session("t")))) == sorted(map(str, state["messages"]))


def test_a_memory_gives_each_thread_its_own_conversation_and_a_run_without_one_is_refused() -> None:
    with Memory("sqlite://") as memory:
        model = Watched(step=answering("Hm."))
        agent = agent_of(model, memory)
        agent.invoke(asked("Here."), thread("a"))
        agent.invoke(asked("There."), thread("b"))
        assert user_words(model.prompts[1].messages) == ["There."]
        assert [info.conversation for info in memory.conversations()] == ["a", "b"]
        with pytest.raises(InvalidOption, match="thread_id"):
            agent.invoke(asked("Nowhere."))


def test_a_memory_that_awaits_is_refused_by_invoke() -> None:
    async def work() -> None:
        async with AsyncMemory("sqlite://") as memory:
            agent = agent_of(Watched(step=answering("Hm.")), memory)
            with pytest.raises(InvalidOption, match="ainvoke"):
                agent.invoke(asked("There."), thread())  # would wait for the loop it stands in

    asyncio.run(work())
    agent = agent_of(Watched(step=answering("Hm.")), AsyncMemory("sqlite://"))
    with pytest.raises(InvalidOption, match="ainvoke"):
        agent.invoke(asked("Here."), thread())


def test_a_blocking_part_of_an_awaited_run_may_ask_an_agent_of_the_same_memory() -> None:
    async def work() -> None:
        async with AsyncMemory("sqlite://") as memory:
            helper = agent_of(
                Watched(step=answering("42.")), memory, checkpointer=TurnfoldSaver(memory)
            )

            @tool
            def ask(question: str) -> str:
                """Ask a helper."""
                return helper.invoke(asked(question), thread("helper"))["messages"][-1].text

            def step(number: int) -> AIMessage:
                return calling("ask", {"question": "?"}, 1) if number == 1 else AIMessage("done")

            model = Watched(step=step)
            await agent_of(model, memory, tools=[ask]).ainvoke(asked("Ask."), thread())
            assert "42." in words(model.prompts[-1])
            assert (await memory.session("helper").status()).turns == 1

    asyncio.run(work())


def test_usage_is_recorded_with_its_call() -> None:
    def step(_: int) -> AIMessage:
        usage: Any = {"input_tokens": 40, "output_tokens": 5, "total_tokens": 45}
        return AIMessage("Hm.", usage_metadata={**usage, "input_token_details": {"cache_read": 30}})

    with Memory("sqlite://") as memory:
        agent_of(Watched(step=step), memory).invoke(asked("Here."), thread())
        [call] = memory.session("t").calls()
        assert call.usage is not None
        assert (call.usage.input, call.usage.output, call.usage.cached) == (40, 5, 30)


def test_without_langchain_the_extra_is_named() -> None:
    code = "import sys; sys.modules['langchain'] = None; import turnfold.adapters.langchain"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'turnfold[langchain]'" in done.stderr


class Named(Watched):
    """A model that has a name, as those of the providers' packages have."""

    model_name: str = "gpt-4o"


def test_tokens_are_counted_as_the_model_of_the_agent_counts_them() -> None:
    with Memory("sqlite://") as memory:
        agent_of(Named(step=answering("Noted.")), memory).invoke(
            asked("My boat is blue."), thread()
        )
        [conversation] = [info.conversation for info in memory.conversations()]
        session = memory.session(conversation)
        [call] = session.calls()
        assert call.counter == counter_for("gpt-4o").name
        assert session.budget.context_window == 128_000
