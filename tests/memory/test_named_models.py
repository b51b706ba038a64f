"""A model that is named later, as adapters do: its counter and budget, unless the memory was given its own."""

from __future__ import annotations

from typing import Any

import pytest

from turnfold import Budget, Memory
from turnfold.memory import use_model
from turnfold.runtime import drive
from turnfold.tokens import cautious_counter, counter_for
from turnfold.window import check

WORDS = "The parcel for Lyon was sent on Monday; 寄往里昂的包裹已于周一发出。"


def test_a_named_model_has_its_counter_and_its_budget() -> None:
    with Memory("sqlite://") as memory:
        session = memory.session("s")
        session.user(WORDS)
        before = session.context()
        assert (before.counter.name, before.budget.tokens) == (cautious_counter().name, 12_000)
        drive(use_model(session.awaiting, "gpt-4o"))
        after = session.context()
        assert after.counter.name == counter_for("gpt-4o").name
        assert after.budget == session.budget == Budget(context_window=128_000)
        assert after.tokens == counter_for("gpt-4o").count(after.messages).tokens < before.tokens
        assert [call.counter for call in session.calls()] == [
            before.counter.name,
            after.counter.name,
        ]
        session.pin("note " * 2_000)  # fits the pins of the new budget, not those of the old one


def test_models_may_take_turns_in_a_conversation_with_folds() -> None:
    with Memory("sqlite://", budget=Budget(max_tokens=1_500)) as memory:
        session = memory.session("s")
        for number in range(40):
            model = ("gpt-4o", "claude-sonnet-4-5", "gpt-4")[number % 3]
            drive(use_model(session.awaiting, model))
            session.user(f"{number}: {WORDS * 3}")
            context = session.context()
            assert check(context) == ()
            assert context.counter.name.startswith(counter_for(model).name)
            assert counter_for(model).count(context.messages).tokens <= context.tokens <= 1_500
            session.assistant("ok")
        assert session.status().checkpoint


@pytest.mark.parametrize(
    "given",
    [{"model": "gpt-4"}, {"counter": counter_for("gpt-4")}, {"budget": Budget(max_tokens=900)}],
)
def test_what_the_memory_was_given_stays(given: dict[str, Any]) -> None:
    with Memory("sqlite://", **given) as memory:
        session = memory.session("s")
        before = session.budget, session.counter.name
        drive(use_model(session.awaiting, "gpt-4o"))
        drive(use_model(session.awaiting, "a model nobody knows"))
        kept = session.budget, session.counter.name
        assert kept[0] == before[0]
        assert kept[1] == (counter_for("gpt-4o").name if "budget" in given else before[1])
