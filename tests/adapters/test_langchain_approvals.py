"""Approvals, retries, guardrails and sub-agents of LangChain: the same runs with and without turnfold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

pytest.importorskip("langchain", reason="the extra langchain is not installed")

from langchain.agents import create_agent
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    ToolRetryMiddleware,
)
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from tests.adapters.langchain_agents import (
    SMALL,
    Prompt,
    Watched,
    answering,
    asked,
    calling,
    check_prompt,
    log_of,
    look,
    looping,
    thread,
    words,
)
from turnfold import Budget, Memory
from turnfold.adapters._common import framework_history_in_log
from turnfold.adapters.langchain import TurnfoldSaver, turnfold_middleware
from turnfold.memory import Session

LARGE = Budget(max_tokens=200_000)
paid: list[int] = []


@tool
def pay(amount: int) -> str:
    """Pay."""
    paid.append(amount)
    return f"paid {amount} 已付"


@tool
def peek() -> str:
    """Look."""
    return "sea 海"


def two_payments(number: int) -> AIMessage:
    if number != 1:
        return AIMessage(f"done {number}")
    calls = [
        {"name": name, "args": args, "id": f"call-{at}", "type": "tool_call"}
        for at, (name, args) in enumerate(
            [("pay", {"amount": 1}), ("peek", {}), ("pay", {"amount": 2})]
        )
    ]
    return AIMessage("Paying.", tool_calls=calls)


DECISIONS: dict[str, list[Any]] = {
    "approved": [{"type": "approve"}] * 2,
    "rejected": [{"type": "reject", "message": "No. 不行"}] * 2,
    "one rejected": [{"type": "approve"}, {"type": "reject", "message": "Too much."}],
    "edited": [
        {"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 7}}},
        {"type": "approve"},
    ],
    "answered": [{"type": "respond", "message": "It is paid already."}, {"type": "approve"}],
}
Opened: TypeAlias = Callable[[], tuple[Any, list[Any], Any]]
"""Opens a process: returns its saver, the middleware of turnfold, and a function to close it."""


def run_of_processes(opened: Opened, decisions: list[Any]) -> tuple[list[Any], list[int]]:
    """The prompts of a run that stops for approvals and is resumed in another process; and what was paid."""
    paid.clear()
    model = Watched(step=two_payments)
    given: list[Any] = [
        asked("Pay! 付款"),
        Command(resume={"decisions": decisions}),
        asked("And now?"),
    ]
    for each in given:
        saver, ours, close = opened()
        guard = HumanInTheLoopMiddleware(interrupt_on={"pay": True})
        agent: Any = create_agent(model, [pay, peek], middleware=[*ours, guard], checkpointer=saver)
        agent.invoke(each, thread())
        close()
    # The tools of one response run at the same time.
    return [prompt.messages for prompt in model.prompts], sorted(paid)


@pytest.mark.parametrize("name", DECISIONS)
def test_a_run_is_resumed_in_another_process_as_without_turnfold(name: str, tmp_path: Path) -> None:
    kept = InMemorySaver()

    def plain() -> tuple[Any, list[Any], Any]:
        return kept, [], lambda: None

    def ours() -> tuple[Any, list[Any], Any]:
        memory = Memory(f"sqlite:///{tmp_path / 'a.db'}", budget=LARGE)
        return TurnfoldSaver(memory), [turnfold_middleware(memory)], memory.close

    theirs = run_of_processes(plain, DECISIONS[name])
    prompts, done = run_of_processes(ours, DECISIONS[name])
    assert done == theirs[1]
    assert list(map(shapes, prompts)) == list(map(shapes, theirs[0]))
    with Memory(f"sqlite:///{tmp_path / 'a.db'}", budget=LARGE) as memory:
        session = memory.session("t")
        for prompt in prompts:
            check_prompt(Prompt(prompt), session)
        answers = [one.message.results for one in log_of(session) if one.message.results]
        assert len(answers) == 3


@pytest.mark.parametrize("name", DECISIONS)
def test_sabotage_without_recognising_it_a_resumed_run_differs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framework_history_in_log, "longest_overlap", lambda log, _: (len(log), 0))
    with pytest.raises(AssertionError):
        test_a_run_is_resumed_in_another_process_as_without_turnfold(name, tmp_path)


def shapes(messages: list[Any]) -> list[Any]:
    return [
        (one.type, str(one.text), getattr(one, "tool_calls", None), getattr(one, "tool_call_id", 0))
        for one in messages
    ]


def test_a_model_call_that_is_retried_or_falls_back_is_stored_once() -> None:
    def failing(number: int) -> AIMessage:
        if number % 3:
            raise ConnectionError("line cut")
        return AIMessage("Noted.")

    def never(_: int) -> AIMessage:
        raise ConnectionError("no line")

    with Memory("sqlite://", budget=SMALL) as memory:
        model, broken = Watched(step=failing), Watched(step=never)
        retry = ModelRetryMiddleware(max_retries=3, initial_delay=0.0, jitter=False)
        others: dict[str, tuple[Watched, Any]] = {
            "retried": (model, retry),
            "fallback": (broken, ModelFallbackMiddleware(Watched(step=answering("Noted.")))),
        }
        for name, (main, middleware) in others.items():
            for order in (0, 1):
                where = f"{name}-{order}"
                both = [turnfold_middleware(memory), middleware]
                agent: Any = create_agent(main, middleware=both if order else both[::-1])
                agent.invoke(asked("The harbour is Kronborg."), thread(where))
                log = [one.message.text for one in log_of(memory.session(where))]
                assert log == ["The harbour is Kronborg.", "Noted."], where


def test_a_tool_that_is_retried_has_one_result() -> None:
    tries: list[int] = []

    @tool
    def flaky() -> str:
        """Look."""
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("line cut")
        return "sea 海"

    def step(number: int) -> AIMessage:
        return calling("flaky", {}, 1) if number == 1 else AIMessage("done")

    with Memory("sqlite://") as memory:
        retry = ToolRetryMiddleware(max_retries=3, initial_delay=0.0, jitter=False)
        model = Watched(step=step)
        agent: Any = create_agent(model, [flaky], middleware=[turnfold_middleware(memory), retry])
        agent.invoke(asked("Look."), thread())
        assert len(tries) == 3
        results = [one.message.text for one in log_of(memory.session("t")) if one.message.results]
        assert results == ["sea 海"]


@pytest.mark.parametrize("first", [False, True], ids=["behind", "before"])
def test_text_that_a_guardrail_took_out_reaches_no_later_model(first: bool) -> None:  # noqa: FBT001
    with Memory("sqlite://", budget=LARGE) as memory:
        guards: list[Any] = [
            PIIMiddleware(kind, strategy="redact", apply_to_output=True)
            for kind in ("email", "credit_card")
        ]
        ours: list[Any] = [turnfold_middleware(memory)]
        model = Watched(step=answering("Write to ada@example.com.", "ok", "ok"))
        agent: Any = create_agent(
            model,
            middleware=[*ours, *guards] if first else [*guards, *ours],
            checkpointer=TurnfoldSaver(memory),
        )
        for text in ("Whom? I am eve@example.com.", "And then?", "And now?"):
            agent.invoke(asked(text), thread())
        for prompt in model.prompts[1:]:
            assert "@example.com" not in words(prompt)


def test_a_sub_agent_is_held_to_the_budget_and_sees_its_own_messages() -> None:
    with Memory("sqlite://", budget=SMALL) as memory:
        inner = Watched(step=looping(30, answer="deep"))
        expert: Any = create_agent(inner, [look], middleware=[turnfold_middleware(memory)])

        @tool
        def ask_expert(question: str) -> str:
            """Ask."""
            return str(expert.invoke(asked(question), thread())["messages"][-1].text)

        def step(number: int) -> AIMessage:
            if number <= 3:
                return calling("ask_expert", {"question": f"Question {number}?"}, number)
            return AIMessage("done")

        outer = Watched(step=step)
        agent: Any = create_agent(outer, [ask_expert], middleware=[turnfold_middleware(memory)])
        agent.invoke(asked("Ask."), thread())
        session: Session = memory.session("t")
        counts = [check_prompt(prompt, session) for prompt in (*inner.prompts, *outer.prompts)]
        assert len(counts) == 3 * 31 + 4
        assert max(counts) > 0.7 * SMALL.tokens
        assert "entry 3" not in words(outer.prompts[-1])
        assert "Question 1?" not in words(inner.prompts[-1])
