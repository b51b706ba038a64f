"""LangChain threads that go back in time or are edited: what they left is not shown, and the rest is in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain", reason="the extra langchain is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from tests.adapters.langchain_agents import (
    Watched,
    agent_of,
    answering,
    asked,
    calling,
    check_prompt,
    thread,
    user_words,
)
from tests.sizes import examples
from turnfold import Budget, Memory
from turnfold.adapters.langchain import TurnfoldSaver
from turnfold.adapters.langchain.run_log import GraphRunLog


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


def test_sabotage_without_noting_what_was_left_it_is_shown_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object) -> None:
        return

    monkeypatch.setattr(GraphRunLog, "note_abandoned", nothing)
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
