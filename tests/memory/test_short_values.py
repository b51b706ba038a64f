"""Sessions as JSON, under the document's names; and two changes of one that become one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sizes import examples
from turnfold import InvalidRecord, user
from turnfold.errors import Conflict
from turnfold.memories import PendingAction, SessionValue, SharedEntities, as_read
from turnfold.memories.short_memory.changed_fields import (
    apply_changes,
    changes_of,
    settable_of,
    to_parts,
)
from turnfold.memories.short_memory.stored_state import Offer, add_offer, count_landing, newest_seen

# The document's structures, name for name; what it leaves open is left out.
DOCUMENTED: dict[str, set[str]] = {
    "meta": {"conversation_id", "user_id", "updated_at"},
    "flow_context": {"current_agent_key", "last_bot_message", "turn_count"},
    "message_context": {"summary", "window_messages", "mode", "checkpoint_message_id"},
    "global_state": {"shared", "entities", "agent_slots", "current_intent", "pending_action"},
    "user_snapshot": {"user_id", "name", "allergies", "history", "surgery_history", "preferences"},
}


def full() -> SessionValue:
    session = SessionValue()
    session.meta.conversation_id = "conv-123"
    session.message_context.window_messages = [user("头晕")]
    session.message_context.cached_checkpoint = "历史摘要: x"
    session.global_state.shared = SharedEntities(disease="高血压", more={"city": "上海"})
    session.global_state.agent_slots = {"triage_agent": {"level": None, "asked": ["a", 1.5]}}
    session.global_state.pending_action = PendingAction(tool_name="pay", tool_params={"n": 1})
    session.user_snapshot.chronic_diseases = ["高血压", "2型糖尿病"]
    return session


def test_the_names_are_the_document_s() -> None:
    written = json.loads(SessionValue().to_json())
    assert {part: set(fields) for part, fields in written.items()} == DOCUMENTED
    told = json.loads(full().to_json())
    assert told["user_snapshot"]["history"] == ["高血压", "2型糖尿病"]
    assert told["message_context"]["window_messages"] == [{"role": "user", "content": "头晕"}]
    assert told["message_context"]["cached_checkpoint"] == "历史摘要: x"
    assert told["global_state"]["shared"]["city"] == "上海"


def test_json_comes_back_as_it_was() -> None:
    session = full()
    session.message_context.checkpoint_message_id = "2-abc"
    assert SessionValue.from_json(session.to_json()) == session


def test_what_was_never_set_may_be_null() -> None:
    nulls = {part: dict.fromkeys(fields) for part, fields in DOCUMENTED.items()}
    assert SessionValue.from_json(json.dumps(nulls)) == SessionValue()
    assert SessionValue.from_json(json.dumps(dict.fromkeys(DOCUMENTED))) == SessionValue()


def test_older_data_without_a_checkpoint_is_in_full_history() -> None:
    for mode in ("", "SUMMARY_N"):
        old = json.dumps({"message_context": {"summary": "s", "mode": mode}})
        assert SessionValue.from_json(old).message_context.mode == "FULL_HISTORY"


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"other": {}}',
        '{"meta": {"other": 1}}',
        '{"meta": {"updated_at": "now"}}',
        '{"message_context": {"mode": "HALF", "checkpoint_message_id": "x"}}',
        '{"message_context": {"window_messages": [{"role": "owner", "content": "x"}]}}',
        '{"global_state": {"shared": 3}}',
        '{"global_state": {"agent_slots": ' + "[" * 2000 + "]" * 2000 + "}}",
    ],
)
def test_what_is_no_session_is_refused(text: str) -> None:
    with pytest.raises(InvalidRecord):
        SessionValue.from_json(text)


@pytest.mark.parametrize("value", [float("nan"), "\ud800", b"x", {1: 2}])
def test_what_json_would_change_is_refused(value: Any) -> None:
    session = SessionValue()
    session.global_state.agent_slots["a"] = value
    with pytest.raises(InvalidRecord):
        session.to_json()
    hidden = SessionValue()
    hidden.global_state.shared.more["disease"] = "hides the field"
    with pytest.raises(InvalidRecord, match="disease"):
        hidden.to_json()


# -------------------------------------------------------------------------------------------- merging

NAMES = st.sampled_from(["a", "a.b", "disease", "数"])
JSON = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.text(max_size=3)
    | st.lists(st.integers(0, 1))
)


@st.composite
def sessions(draw: st.DrawFn) -> SessionValue:
    session = SessionValue()
    session.flow_context.current_agent_key = draw(st.sampled_from(["", "x", "y"]))
    session.global_state.agent_slots = draw(st.dictionaries(NAMES, JSON, max_size=3))
    session.global_state.entities.disease = draw(st.sampled_from(["", "d"]))
    session.global_state.entities.more = draw(st.dictionaries(st.sampled_from("pq"), JSON))
    session.global_state.current_intent = draw(st.sampled_from(["", "i", "j"]))
    session.user_snapshot.allergies = draw(
        st.lists(st.sampled_from(["青霉素", "芒果"]), max_size=2)
    )
    return session


@examples(60)
@given(sessions())
def test_what_is_set_is_found_again(session: SessionValue) -> None:
    again = SessionValue()
    again.flow_context, again.global_state, again.user_snapshot = to_parts(settable_of(session))
    assert again == session


@examples(60)
@given(sessions(), sessions(), sessions())
def test_of_two_changes_both_hold_or_the_second_is_told(
    stored: SessionValue, ours: SessionValue, theirs: SessionValue
) -> None:
    for session in (ours, theirs):
        session.as_read = as_read(stored)
    base = settable_of(stored)
    first = apply_changes(base, *changes_of(ours))
    assert first == settable_of(ours)
    _, wanted = changes_of(theirs)
    before, _ = changes_of(theirs)
    touched = {*before, *wanted}
    mine = {place for place in {*base, *first} if base.get(place, ...) != first.get(place, ...)}
    try:
        merged = apply_changes(first, *changes_of(theirs))
    except Conflict:
        assert any(first.get(p, ...) != wanted.get(p, ...) for p in mine & touched)
        return
    for place in {*merged, *first, *wanted, *base}:
        expected = wanted if place in touched else first
        assert merged.get(place, ...) == expected.get(place, ...), place


def test_a_session_that_was_not_read_is_refused_for_that_reason() -> None:
    stored, new = SessionValue(), SessionValue()
    stored.user_snapshot.allergies, new.user_snapshot.allergies = ["a"], ["b"]
    with pytest.raises(Conflict, match="this session was not read from the memory"):
        apply_changes(settable_of(stored), *changes_of(new), was_read=False)


# --------------------------------------------------------------------------------------------- offers


def test_a_summary_is_held_to_the_first_reader_of_its_group() -> None:
    offers = add_offer((), live="", seen=10, covered=0)
    offers = add_offer(offers, live="", seen=14, covered=0)
    assert newest_seen(offers, covered=0, newest=20) == 10
    offers = count_landing(offers)
    assert newest_seen(offers, covered=6, newest=20) == 10, "one is still on its way"
    later = add_offer(offers, live="c1", seen=30, covered=6)
    assert newest_seen(later, covered=6, newest=40) == 10
    assert newest_seen(later, covered=10, newest=40) == 30, "the first can say nothing new any more"
    assert newest_seen(count_landing(offers), covered=8, newest=20) == 20, "all have come"


def test_readers_who_bring_nothing_are_forgotten() -> None:
    offers: tuple[Offer, ...] = (Offer("", 10, 4),)
    for _ in range(3):
        assert newest_seen(offers, covered=0, newest=99) == 10
        offers = count_landing(offers)
    assert newest_seen(offers, covered=0, newest=99) == 99
    many: tuple[Offer, ...] = ()
    for seen in range(1, 1000):
        many = add_offer(many, live=f"c{seen // 3}", seen=seen, covered=0)
    assert len(many) <= 2
    assert all(group.readers <= 4 for group in many)
