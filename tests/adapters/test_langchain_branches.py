"""LangChain threads that go back in time or are edited: what they left is not shown, and the rest is in order."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain", reason="the extra langchain is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, InvalidToolCall, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from tests.adapters.langchain_agents import (
    Watched,
    agent_of,
    answering,
    appending,
    asked,
    calling,
    check_prompt,
    logged,
    look,
    thread,
    user_words,
    words,
)
from tests.sizes import examples
from turnfold import AsyncMemory, Budget, Memory
from turnfold.adapters.langchain import TurnfoldSaver, state_log


def test_runs_that_begin_at_once_on_one_thread_all_finish() -> None:
    async def work() -> None:
        async with AsyncMemory("sqlite://", budget=Budget(max_tokens=50_000)) as memory:
            model = Watched(step=lambda number: AIMessage(f"answer {number} 回答"))
            agent = agent_of(model, memory, checkpointer=TurnfoldSaver(memory), recall=False)
            await agent.ainvoke(asked("begin 开始"), thread())
            for _ in range(5):
                before = len(model.prompts)
                questions = ["A 甲", "B 乙", "C 丙"]
                await asyncio.gather(*(agent.ainvoke(asked(one), thread()) for one in questions))
                sent = [user_words(one.messages) for one in model.prompts[before:]]
                assert sorted(one[-1] for one in sent) == questions
                assert len({tuple(one[:-1]) for one in sent}) == 1  # none has another's question

    asyncio.run(work())


def answers(prompt: Any) -> list[str]:
    return [str(one.text) for one in prompt.messages if isinstance(one, AIMessage)]


def test_an_answer_left_behind_stays_hidden_when_the_first_question_is_edited_afterwards() -> None:
    """The edited question is stored last; the state still begins where its first version stands."""

    def step(number: int) -> AIMessage:
        return calling("look", {"at": 2}, 2) if number == 2 else AIMessage(f"answer {number}")

    with Memory("sqlite://") as memory:
        model = Watched(step=step)
        agent = agent_of(model, memory, checkpointer=TurnfoldSaver(memory), recall=False)
        agent.invoke(asked("我的船是什么颜色? What colour is my boat?"), thread())
        fork = next(one for one in agent.get_state_history(thread()) if one.next == ("model",))
        agent.invoke(None, {**thread(), **fork.config})
        [question, *_] = agent.get_state(thread()).values["messages"]
        edited = question.model_copy(update={"content": "它有多长? How long is it?"})
        agent.update_state(thread(), {"messages": [edited]}, as_node="model")
        agent.invoke(asked("And how wide?"), thread())
        assert answers(model.prompts[-1]) == ["", "answer 3"]
        words = user_words(model.prompts[-1].messages)
        assert words == ["它有多长? How long is it?", "And how wide?"]
        check_prompt(model.prompts[-1], memory.session("t"))


def left_and_begun_anew(path: Path) -> Any:
    """The prompt of a new state, in another process, after a thread had left one of its answers behind."""
    with Memory(f"sqlite:///{path}") as memory:
        model = Watched(step=answering("an answer", "a better answer 更好"))
        agent = agent_of(model, memory, checkpointer=InMemorySaver(), recall=False)
        agent.invoke(asked("What colour? 什么颜色?"), thread())
        fork = next(one for one in agent.get_state_history(thread()) if one.next == ("model",))
        agent.invoke(None, {**thread(), **fork.config})
        [question, answer] = agent.get_state(thread()).values["messages"]
        edited = question.model_copy(update={"content": "How long? 多长?"})
        agent.update_state(thread(), {"messages": [edited]}, as_node="model")
        agent.invoke(asked("And how wide?"), thread())
        assert str(answer.text) == "a better answer 更好"
    with Memory(f"sqlite:///{path}") as memory:
        model = Watched(step=answering("fine"))
        agent_of(model, memory, recall=False).invoke(asked("Go on."), thread())
        check_prompt(model.prompts[-1], memory.session("t"))
        return model.prompts[-1]


def test_a_state_that_begins_anew_is_shown_what_the_last_one_said(tmp_path: Path) -> None:
    prompt = left_and_begun_anew(tmp_path / "memory.db")
    assert user_words(prompt.messages) == ["How long? 多长?", "And how wide?", "Go on."]
    assert answers(prompt) == ["a better answer 更好", "a better answer 更好"]


def test_sabotage_without_following_the_state_what_was_left_is_shown_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_log, "follow_history", appending)
    assert "an answer" in answers(left_and_begun_anew(tmp_path / "memory.db"))


ACTION = st.one_of(
    st.tuples(st.just("say"), st.integers(0, 3)),
    st.tuples(st.just("go back"), st.integers(0, 30)),
    st.tuples(st.just("change"), st.integers(0, 30)),
)


def act(actions: list[tuple[str, int]], budget: int) -> None:
    """Say, go back and change, and look at every prompt."""
    steps: list[int] = []

    def step(number: int) -> AIMessage:
        left = steps.pop()
        if left:
            steps.append(left - 1)
            return calling("look", {"at": number}, number, said=f"thought {number}")
        return AIMessage(f"answer {number}")

    with Memory("sqlite://", budget=Budget(max_tokens=budget)) as memory:
        model = Watched(step=step)
        agent = agent_of(model, memory, checkpointer=TurnfoldSaver(memory), recall=False)
        for what, number in actions:
            config = thread()
            history = list(agent.get_state_history(config))
            steps[:] = [number % 4]
            if what == "say" or not history:
                agent.invoke(asked(f"question {len(model.prompts)}"), config)
            elif what == "go back":
                fork = history[number % len(history)]
                agent.invoke(None if fork.next else asked("and now?"), {**config, **fork.config})
            elif messages := history[0].values["messages"]:
                one = messages[number % len(messages)]
                changed = one.model_copy(update={"content": "changed " * (number % 40 + 1)})
                agent.update_state(config, {"messages": [changed]}, as_node="model")
        for prompt in model.prompts:
            check_prompt(prompt, memory.session("t"))


@examples(12)
@given(st.lists(ACTION, min_size=2, max_size=7), st.sampled_from([1_000, 3_000]))
def test_whatever_is_done_to_a_thread_every_prompt_is_valid_and_within_the_budget(
    actions: list[tuple[str, int]], budget: int
) -> None:
    act(actions, budget)


@pytest.mark.slow
@settings(max_examples=1_000, deadline=None)
@given(st.lists(ACTION, min_size=2, max_size=7), st.sampled_from([1_000, 3_000]))
def test_whatever_is_done_to_a_thread_a_thousand_times(
    actions: list[tuple[str, int]], budget: int
) -> None:
    act(actions, budget)


@pytest.mark.parametrize(
    ("actions", "budget"),
    [
        # An answer was left, then the first question edited.
        ([("say", 0), ("go back", 2), ("change", 0), ("say", 0)], 3_000),
        # An answer was left, then the thread began anew.
        (
            [
                ("say", 2),
                ("go back", 2),
                ("change", 0),
                ("change", 0),
                ("change", 0),
                ("go back", 17),
            ],
            3_000,
        ),
        # A call and its answer were edited, then the thread began anew.
        (
            [("say", 1), ("change", 22), ("change", 22), ("change", 1), ("go back", 0)]
            + [("go back", 9)] * 2,
            3_000,
        ),
        # An answer was edited after its first version was folded.
        ([("say", 1), ("say", 3), ("change", 3), ("say", 0), ("go back", 7)], 1_000),
        # The question of the turn it went back to is behind the window, its last step is not.
        (
            [
                ("say", 0),
                ("change", 14),
                ("say", 1),
                ("go back", 5),
                ("change", 12),
                ("go back", 10),
            ],
            1_000,
        ),
        # The turn was said again, and an edited call of it stands before that.
        (
            [
                ("say", 1),
                ("say", 2),
                ("change", 21),
                ("say", 0),
                ("go back", 15),
                ("go back", 27),
                ("change", 0),
            ],
            1_000,
        ),
        # A tool ran again, and its second answer was edited.
        (
            [
                ("say", 0),
                ("go back", 22),
                ("change", 16),
                ("go back", 28),
                ("change", 16),
                ("change", 21),
                ("say", 3),
            ],
            3_000,
        ),
    ],
)
def test_what_was_once_shown_wrongly_is_shown_rightly(
    actions: list[tuple[str, int]], budget: int
) -> None:
    act(actions, budget)


def malformed(number: int, *, beside: bool) -> AIMessage:
    """A call whose arguments are no JSON, alone or beside a good one; then answers."""
    if number != 1:
        return AIMessage(f"ok {number}")
    error = "no JSON"
    bad = InvalidToolCall(
        type="invalid_tool_call", name="look", args='{"at": ', id="call_9", error=error
    )
    good = calling("look", {"at": 1}, 1).tool_calls if beside else []
    return AIMessage("", tool_calls=good, invalid_tool_calls=[bad])


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a good call"])
@pytest.mark.parametrize("turnfold", [False, True], ids=["plain", "turnfold"])
def test_a_malformed_call_has_exactly_one_answer(beside: bool, turnfold: bool) -> None:  # noqa: FBT001
    with Memory("sqlite://") as memory:
        model = Watched(step=lambda number: malformed(number, beside=beside))
        saver = TurnfoldSaver(memory)
        agent = (
            agent_of(model, memory, checkpointer=saver, recall=False)
            if turnfold
            else create_agent(model, [look], checkpointer=saver)
        )
        for question in ("Look. 看", "Try again.", "And again."):
            agent.invoke(asked(question), thread())
        for prompt in model.prompts:
            check_prompt(prompt, memory.session("t"))
        answers = [one for one in model.prompts[-1].messages if isinstance(one, ToolMessage)]
        assert [one.tool_call_id for one in answers] == ["call_9", "call-1"][: 1 + beside]


@pytest.mark.parametrize("given", ["memory", "session"])
def test_an_agent_that_a_tool_runs_has_a_conversation_of_its_own(given: str) -> None:
    with Memory("sqlite://") as memory:
        place = memory if given == "memory" else memory.session("t")
        inner = Watched(step=lambda number: AIMessage(f"expert says {number}"))
        expert = agent_of(inner, place, system_prompt="You are the EXPERT 专家.", tools=[])

        @tool
        def ask(question: str) -> str:
            """Ask."""
            return str(expert.invoke(asked(question))["messages"][-1].text)

        outer = Watched(
            step=lambda number: (
                calling("ask", {"question": f"Q{number}"}, number)
                if number < 3
                else AIMessage("ok")
            )
        )
        agent = agent_of(outer, place, tools=[ask], checkpointer=InMemorySaver())
        agent.invoke(asked("boss question"), thread())
        assert [user_words(one.messages) for one in inner.prompts] == [["Q1"], ["Q2"]]
        assert user_words(outer.prompts[-1].messages) == ["boss question"]
        for model, name in ((inner, "t/call-1"), (outer, "t")):
            for prompt in model.prompts:
                check_prompt(prompt, memory.session(name))
        named = [one.conversation for one in memory.conversations()]
        assert named == ["t", "t/call-1", "t/call-2"]
        state = agent.get_state(thread()).values["messages"]
        assert [one.text for one in logged(memory.session("t"))] == [one.text for one in state]


def test_a_state_edited_after_going_back_shows_no_abandoned_answer_in_a_small_budget() -> None:
    """Go back, edit the question, go on: what was left is in no summary and in no recall."""
    with Memory("sqlite://", budget=Budget(max_tokens=1_000)) as memory:
        model = Watched(step=lambda number: AIMessage(f"answer {number} " + "word 词 " * 60))
        agent = agent_of(model, memory, checkpointer=TurnfoldSaver(memory))
        for question in ("one", "SECRET two"):
            agent.invoke(asked(question), thread())
        fork = next(
            one
            for one in agent.get_state_history(thread())
            if [str(each.text) for each in one.values["messages"]][-1:] == ["SECRET two"]
        )
        question = fork.values["messages"][-1].model_copy(update={"content": "mended two"})
        config = agent.update_state({**thread(), **fork.config}, {"messages": [question]})
        agent.invoke(None, {**thread(), **config})
        for text in ("three", "four", "What was SECRET?"):
            agent.invoke(asked(text), thread())
        later = [words(prompt) for prompt in model.prompts[2:]]
        assert not [text for text in later if "SECRET two" in text or "answer 2" in text]
        for prompt in model.prompts:
            check_prompt(prompt, memory.session("t"))
        assert memory.session("t").status().checkpoint
