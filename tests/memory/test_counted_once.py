"""What stands around the window is counted once, however often the window moves on."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.memory.noting import Noting
from turnfold import Budget, Memory
from turnfold.records import Message
from turnfold.stores import MemoryStore
from turnfold.tokens import TokenCounter
from turnfold.window import Transcript

_RULES = "Be brief. " * 40


def _played() -> tuple[Counter[str], int]:
    """How often each text was counted in a conversation with tool calls, and how often its window was cut."""
    text = Noting()
    counter = TokenCounter(text)
    budget = Budget(max_tokens=1_500)
    memory = Memory(MemoryStore(counter=counter), counter=counter, budget=budget, fold="manual")
    session = memory.session("talk")
    session.system(_RULES)
    cuts = 0
    for number in range(60):
        session.user(f"question {number} " * 12)
        session.add(Message("assistant", None, tool_calls=[_call(number)]))
        session.tool("result " * 20, tool_call_id=f"call_{number}")
        shown = session.context()
        cuts += shown.moved
        session.assistant(f"answer {number}")
    memory.close()
    return text.asked, cuts


def _call(number: int) -> dict[str, object]:
    return {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": "look", "arguments": "{}"},
    }


def test_the_system_message_is_not_counted_again_when_the_window_moves() -> None:
    asked, cuts = _played()
    assert cuts > 3
    assert asked[_RULES] <= 3, "when it was stored, for the share it takes, for the room it leaves"


def test_without_what_is_remembered_it_would_be_counted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class _Forgetting(dict[object, object]):
        def update(self, *_: object, **__: object) -> None:
            """Remember nothing."""

    made = Transcript.__init__

    def forgetful(self: Transcript, *given: object, **named: object) -> None:
        made(self, *given, **named)  # pyright: ignore[reportArgumentType]
        self.memo = _Forgetting()

    monkeypatch.setattr(Transcript, "__init__", forgetful)
    asked, cuts = _played()
    assert asked[_RULES] > min(cuts, 3)
