"""Sessions of the short-term memory: who may set what, what a fresh start leaves, whose conversation it is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.memory.short_places import Place, opener, talk
from turnfold import InvalidOption, Memory, ShortMemory
from turnfold.errors import Conflict, ConversationDeleted
from turnfold.memories import MEMORY_MODE_FULL_HISTORY, PendingAction, SessionValue
from turnfold.records import assistant, tool, user

__all__ = ("opener",)

C = "conv-123"


@pytest.fixture
def here() -> ShortMemory:
    return ShortMemory("sqlite://")


def test_a_create_without_restart_leaves_a_conversation_as_it_is(opener: Place) -> None:
    here = opener()
    assert here.create_short_memory(C, "user-456").meta.user_id == "user-456"
    talk(here, C, range(3))
    here.checkpoint_short_memory(C, "s", 1)
    again = opener()
    before = again.query_memory_context(C)
    again.create_short_memory(C, "user-456", restart=False)
    after = again.query_memory_context(C)
    assert (before.history, before.mode) == (after.history, after.mode)
    with pytest.raises(InvalidOption, match="another user_id"):
        again.create_short_memory(C, "somebody else")


@pytest.mark.parametrize("how", ["reset", "create"])
def test_a_fresh_start(opener: Place, how: str) -> None:
    here = opener()
    here.create_short_memory(C, "user-456", enterprise_id="e")
    talk(here, C, range(6))
    here.checkpoint_short_memory(C, "old summary", 1)
    session = here.get_short_memory(C)
    session.global_state.current_intent = "old intent"
    session.message_context.mode = MEMORY_MODE_FULL_HISTORY
    here.set_short_memory(C, session)
    here.query_memory_context(C, query="old question")
    starts: dict[str, Callable[[], SessionValue]] = {
        "reset": lambda: here.reset_short_memory(C),
        "create": lambda: here.create_short_memory(C, "user-456", restart=True),
    }
    fresh = starts[how]()
    assert fresh == opener().get_short_memory(C)
    assert fresh.flow_context.turn_count == 0
    assert fresh.message_context == SessionValue().message_context
    assert fresh.global_state == SessionValue().global_state
    assert fresh.meta.user_id == "user-456"
    ctx = here.query_memory_context(C, enterprise_id="e")
    assert (ctx.history, ctx.mode, ctx.should_checkpoint_summary) == ("", "FULL_HISTORY", False)
    here.write_turn(C, agent_response="hello")
    assert "old question" not in here.query_memory_context(C).history
    talk(here, C, range(10, 13))
    here.checkpoint_short_memory(C, "new summary", 1)
    ctx = here.query_memory_context(C)
    assert "new summary" in ctx.history
    assert "old summary" not in ctx.history
    assert ctx.session.flow_context.turn_count == 3
    assert len(here.checkpoint_history(C)) == 2


def test_a_session_kept_by_two_is_changed_field_by_field(here: ShortMemory) -> None:
    ours, theirs = here.get_short_memory(C), here.get_short_memory(C)
    ours.global_state.shared.disease = "高血压"
    ours.global_state.pending_action = PendingAction(tool_name="pay", tool_params={"amount": 1})
    here.set_short_memory(C, ours)
    theirs.global_state.shared.target_dept = "心内科"
    merged = here.set_short_memory(C, theirs)
    assert merged.global_state.shared.disease == "高血压"
    assert merged.global_state.shared.target_dept == "心内科"
    theirs.global_state.shared.target_dept = "神经内科"
    here.set_short_memory(C, theirs)  # its own change is no surprise to it
    ours.global_state.shared.target_dept = "骨科"
    with pytest.raises(Conflict, match=r"global_state\.shared\.target_dept"):
        here.set_short_memory(C, ours)
    assert here.get_short_memory(C).global_state.shared.target_dept == "神经内科"
    removed = here.get_short_memory(C)
    removed.global_state.pending_action = None
    assert here.set_short_memory(C, removed).global_state.pending_action is None


def test_a_session_made_by_hand_overwrites_nothing(here: ShortMemory) -> None:
    by_hand = SessionValue()
    by_hand.user_snapshot.name = "李大爷"
    here.set_short_memory(C, by_hand)
    here.set_short_memory(C, SessionValue.from_json(by_hand.to_json()))
    other = SessionValue()
    other.user_snapshot.name = "王大爷"
    with pytest.raises(Conflict, match=r"user_snapshot\.name"):
        here.set_short_memory(C, other)
    talk(here, C, range(1))
    stale = SessionValue.from_json(here.get_short_memory(C).to_json())
    here.set_short_memory(C, copy.deepcopy(stale))
    talk(here, C, range(1, 2))
    with pytest.raises(Conflict, match="get_short_memory"):
        here.set_short_memory(C, stale)


@pytest.mark.parametrize("change", ["turn_count", "summary", "window", "id", "mode", "user"])
def test_what_follows_from_the_log_cannot_be_set(here: ShortMemory, change: str) -> None:
    talk(here, C, range(2))
    session = here.get_short_memory(C)
    if change == "turn_count":
        session.flow_context.turn_count = 7
    elif change == "summary":
        session.message_context.summary = "forged"
    elif change == "window":
        session.message_context.window_messages.pop()
    elif change == "mode":
        session.message_context.mode = "SUMMARY_N"  # pyright: ignore[reportAttributeAccessIssue] - as programs write it
    elif change == "user":
        session.meta.user_id = "somebody else"
    else:
        session.meta.conversation_id = "another"
    with pytest.raises(InvalidOption):
        here.set_short_memory(C, session)


def test_an_unknown_mode_is_refused(here: ShortMemory) -> None:
    session = here.get_short_memory(C)
    session.message_context.mode = "HALF"  # pyright: ignore[reportAttributeAccessIssue] - a typing error of a caller
    with pytest.raises(InvalidOption, match="HALF"):
        here.set_short_memory(C, session)


def test_a_session_of_the_other_face_is_the_same_conversation(tmp_path: Path) -> None:
    """What `Memory` writes is shown here, tool calls and all, and the other way round."""
    url = f"sqlite:///{tmp_path}/a.db"
    call = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    with Memory(url) as memory, ShortMemory(url) as here:
        session = memory.session(C)
        session.system("rules")
        session.add([user("how is it?", name="assistant"), assistant(None, tool_calls=[call])])
        session.add([tool("rain", tool_call_id="1"), assistant("take an umbrella")])
        here.write_turn(C, user_query="thanks", agent_response="bye")
        history = here.query_memory_context(C).history
        assert (
            "user: how is it?\nassistant calls weather: {}\ntool: rain\nassistant: take an"
            in history
        )
        assert "rules" not in history
        here.checkpoint_short_memory(C, "it rains", 1)
        assert "历史摘要: it rains" in session.context().messages[1].text
        session.clear()
        assert here.query_memory_context(C).history == ""


def test_an_erased_conversation_stays_erased(here: ShortMemory) -> None:
    talk(here, C, range(3))
    assert here.delete_short_memory(C).entries == 6
    assert here.query_memory_context(C).history == ""
    for late in (
        lambda: talk(here, C, range(1)),
        lambda: here.query_memory_context(C, query="q"),
        lambda: here.reset_short_memory(C),
    ):
        with pytest.raises(ConversationDeleted):
            late()
