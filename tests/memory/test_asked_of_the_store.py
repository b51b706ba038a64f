"""How often a step asks its store: what is asked for nothing is paid for by every turn of every conversation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import log2

import pytest

from turnfold import Memory, ShortMemory
from turnfold.memory import call_key
from turnfold.memory.call_log import CallLog
from turnfold.stores import MemoryStore

_VERBS = (
    "append", "documents", "find", "get_document", "head", "live_checkpoint", "note", "put_document", "read",
    "read_ranges", "search", "tail", "view",
)  # fmt: skip


class _Asked:
    """A store whose verbs are counted."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, clock: Callable[[], int] = lambda: 0
    ) -> None:
        self.store = MemoryStore(clock=clock)
        self.times: Counter[str] = Counter()
        for verb in _VERBS:
            monkeypatch.setattr(self.store, verb, self._counted(verb, getattr(self.store, verb)))

    def _counted(self, verb: str, ask: Callable[..., object]) -> Callable[..., object]:
        def counted(*values: object, **options: object) -> object:
            self.times[verb] += 1
            return ask(*values, **options)

        return counted


def test_a_turn_is_written_with_three_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _Asked(monkeypatch)
    memory = ShortMemory(asked.store)
    for number in range(3):
        asked.times.clear()
        memory.write_turn("talk", user_query=f"why {number}", agent_response="because 因为")
        # If the store is encrypted, before and after the first write; and if the conversation is empty: a write that
        # expects it to be would count the tokens of an old one twice where the counter has changed.
        looked_up = {"head": 3} if number == 0 else {}
        assert dict(asked.times) == {"get_document": 1, "append": 1, "read": 1, **looked_up}


def test_after_a_summary_the_mode_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _Asked(monkeypatch)
    memory = ShortMemory(asked.store)
    for number in range(3):
        done = memory.write_turn("talk", user_query=f"why {number}", agent_response="because")
        assert done.mode == "FULL_HISTORY"
    memory.checkpoint_short_memory("talk", "they asked why", 1)
    done = memory.write_turn("talk", user_query="why not", agent_response="no reason")
    assert done.mode == "SUMMARY_N" == memory.get_short_memory("talk").message_context.mode


_HANDLES = 100


def _call_by_new_handles(asked: _Asked) -> int:
    """What the last of many new handles asks for one context of a conversation to which nobody adds a word."""
    Memory(asked.store).session("talk").user("hello")
    for _ in range(_HANDLES):
        asked.times.clear()
        Memory(asked.store).session("talk").context()
    return asked.times.total()


def test_the_name_of_a_call_is_found_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _Asked(monkeypatch)
    assert _call_by_new_handles(asked) < 20 + 2 * log2(_HANDLES)
    made = [each.call for each in Memory(asked.store).session("talk").calls(limit=1000)]
    assert made == [call_key(1, number) for number in range(_HANDLES)]


def test_one_who_tries_every_name_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    async def next_one(_self: CallLog, _seq: int, taken: int) -> int:
        return taken + 1

    monkeypatch.setattr(CallLog, "_next_free", next_one)
    assert _call_by_new_handles(_Asked(monkeypatch)) > _HANDLES


@pytest.mark.parametrize("tokens", [None, 2_000], ids=["matches", "passages"])
@pytest.mark.parametrize("days", [1, 400])
def test_matches_all_over_the_log_are_read_at_once(
    tokens: int | None, days: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = 24 * 3_600 * 1_000_000
    now = 0
    asked = _Asked(monkeypatch, clock=lambda: now)
    memory = Memory(asked.store, clock=lambda: now)
    session = memory.session("talk")
    for number in range(days):
        now = number * day
        met = number % 20 == 0
        session.user(f"We met {number} of them at the harbour." if met else f"Nothing on {number}.")
    asked.times.clear()
    found = session.recall("Who was at the harbour on 22 January 1970?", limit=20, tokens=tokens)
    assert len([each for each in found if "harbour" in each.message.text]) >= min(days, 15)
    assert asked.times["search"] == 1
    # The newest entries, those of the day that is named (found among 16 at a time), and the matches.
    assert asked.times["read"] == 0
    assert asked.times["read_ranges"] <= 2 + 1 + 2 * (1 + log2(days) / 4)
