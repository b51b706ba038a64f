"""What people look at adds up to what was sent: every token in one row, every entry in one place."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sizes import examples
from turnfold import Budget, Memory, Message, Session, assistant, tool, user, wire
from turnfold.inspect import (
    LogCosts,
    call_point,
    call_view,
    context_view,
    diff_calls,
    excerpt,
    left_out,
    recent_calls,
    sent_items,
)
from turnfold.rules import StandingRule
from turnfold.runtime import drive
from turnfold.stores import MemoryStore, Scope, digest

MODEL = "gpt-4o"
WORDS = st.integers(0, 80)


def grown(shape: list[int], *, tokens: int, mode: str) -> Session:
    """A session with one turn per number, each with a tool call and results of that many words."""
    memory = Memory(
        MemoryStore(), model=MODEL, budget=Budget(max_tokens=tokens), fold=mode, keep_turns=2
    )
    session = memory.session("s")
    session.system("Be exact. 要准确。")
    for turn, words in enumerate(shape):
        call = {
            "id": f"c{turn}",
            "type": "function",
            "function": {"name": "look", "arguments": "{}"},
        }
        session.user(f"第 {turn} 步 " + "word " * words)
        session.context()
        session.add([assistant(tool_calls=[call]), tool("shelf " * words, tool_call_id=f"c{turn}")])
        session.context()
        session.assistant(f"Answer {turn}")
    return session


@examples(20)
@given(
    st.lists(WORDS, min_size=1, max_size=12),
    st.integers(500, 1200),
    st.sampled_from(["inline", "manual"]),
)
def test_every_token_and_every_entry_is_in_one_place(
    shape: list[int], tokens: int, mode: str
) -> None:
    session = grown(shape, tokens=tokens, mode=mode)
    for made in session.calls(limit=1000):
        view = call_view(session.explain(made.call))
        assert view.exact
        assert sum(item.tokens for item in view.items) == sum(made.sections.values())
        for name, cost in made.sections.items():
            assert sum(item.tokens for item in view.items if item.section == name) == cost
        sent = [item.seq for item in view.items if item.seq]
        left = [seq for one in view.left_out for seq in range(one.first, one.last + 1)]
        assert sorted([*sent, *left]) == list(range(1, made.seq + 1))
        assert all(one.reason for one in view.left_out)
        assert {item.fate for item in view.items} <= {"kept", "shrunk", "moved", "injected"}


def test_the_proof_sees_an_entry_that_is_missing() -> None:
    session = grown([40] * 8, tokens=700, mode="manual")
    explained = session.explain(session.calls(limit=1000)[-1].call)
    lying = msgspec.structs.replace(explained.manifest, fates=())
    view = call_view(type(explained)(lying, explained.messages, explained.exact, costs=explained.costs,
                                     seqs=explained.seqs, ends=explained.ends))  # fmt: skip
    sent = {item.seq for item in view.items if item.seq}
    assert view.left_out == ()
    assert sent != set(range(1, explained.manifest.seq + 1))


def test_the_view_of_a_preview_is_that_of_the_call_that_follows() -> None:
    session = grown([30] * 9, tokens=800, mode="manual")
    preview = session.preview()
    context = session.context()
    assert preview.messages == context.messages
    ours, theirs = sent_items(preview), sent_items(session.explain())
    assert [(i.seq, i.tokens, i.section, i.digest) for i in ours if i.section != "system"] == [
        (i.seq, i.tokens, i.section, i.digest) for i in theirs if i.section != "system"
    ]
    manifest = session.explain().manifest
    fates = [(f.start, f.stop, str(f.outcome), f.reason) for f in preview.fates]
    assert left_out(fates) == left_out(manifest.fates)


def test_no_more_rules_are_named_than_were_left_out() -> None:
    """One entry may state several rules, of which the prompt shows some in another place."""
    rules = [
        StandingRule(id=text, text=text, kind="decision", seq=seq)
        for seq, text in ((2, "first"), (2, "second"), (2, "third"), (10, "fourth"))
    ]
    why = "no room in their share of the budget, or not clear alone"
    reason = f"tail: 3 rules not shown, of entries 2, 2, 10: {why}; rules() lists them, and recall finds them"
    [left] = left_out([(-1, 0, "shrunk", reason)], rules=rules, tail="")
    assert (left.rules, [rule.seq for rule in left.named]) == (3, [2, 2, 10])


def test_a_preview_stores_nothing_and_moves_nothing() -> None:
    store = MemoryStore()
    with Memory(store, model=MODEL, budget=Budget(max_tokens=700)) as memory:
        session = memory.session("s")
        for turn in range(12):
            session.user(f"turn {turn} " + "word " * 40)
            session.assistant("yes " * 20)
        before = drive(digest(store, Scope("default"), "s"))
        looked = session.preview(budget=Budget(max_tokens=500))
        assert looked.tokens <= 500
        session.preview("turn 3")
        assert drive(digest(store, Scope("default"), "s")) == before
        assert session.calls() == []
        session.context()  # the same question asked in earnest leaves its traces
        assert drive(digest(store, Scope("default"), "s")) != before


def test_a_preview_makes_no_fold() -> None:
    with Memory(MemoryStore(), model=MODEL, budget=Budget(max_tokens=700)) as memory:
        session = memory.session("s")
        for turn in range(12):
            session.user(f"turn {turn} " + "word " * 40)
            session.assistant("yes " * 20)
        session.preview()
        assert session.checkpoints() == []
        session.context()
        assert session.checkpoints() != []


def test_the_budget_at_a_glance() -> None:
    session = grown([40] * 10, tokens=900, mode="inline")
    calls = [call_point(made) for made in session.calls(limit=1000)]
    context = session.preview()
    view = context_view(
        context, conversation="s", calls=calls, checkpoints=session.checkpoints(), biggest=3
    )
    assert view.free == view.allowed - view.tokens
    assert view.delta == view.tokens - calls[-1].tokens
    assert view.fold_at == int(0.75 * 900)
    assert [item.tokens for item in view.biggest] == sorted(context.costs, reverse=True)[:3]
    assert sum(view.roles.values()) == view.sections["window"] + view.sections["turn"]
    moved = [call.call for call in calls[1:] if call.moved]
    assert view.cache.broken_by == moved[-1]
    assert view.cache.calls == len(calls) - [c.call for c in calls].index(moved[-1])
    assert "checkpoint" in view.cache.reason
    nobody = context_view(context, conversation="s")
    assert nobody.delta is None
    assert nobody.cache.broken_by == ""


def test_two_calls_side_by_side() -> None:
    session = grown([40] * 6, tokens=900, mode="inline")
    made = session.calls(limit=1000)
    for first, second in pairwise(made):
        before, after = session.explain(first.call), session.explain(second.call)
        found = diff_calls(before, after)
        assert found.same_tokens + found.rebilled == sum(after.costs)
        if found.first is not None:
            at = found.first.index
            assert before.messages[:at] == after.messages[:at]
            assert before.messages[at : at + 1] != after.messages[at : at + 1]
    same = diff_calls(session.explain(made[0].call), session.explain(made[0].call))
    assert (same.first, same.gone, same.new, same.rebilled) == (None, (), (), 0)


def test_the_newest_calls_are_found_from_the_end() -> None:
    session = grown([1] * 80, tokens=4000, mode="manual")
    everything = session.calls(limit=1000)
    for most in (1, 7, 150, 1000):
        assert drive(recent_calls(session.awaiting, most=most)) == everything[-most:]


def test_costs_add_up_by_entry_tool_and_role() -> None:
    session = grown([10, 60, 30], tokens=4000, mode="manual")
    entries = session.history(limit=1000)
    costs = LogCosts(most=4)
    costs.add(entries[:5])
    costs.add(entries[5:])
    assert costs.tokens == sum(entry.tokens for entry in entries)
    assert sum(row.tokens for row in costs.roles()) == costs.tokens
    assert sum(row.share for row in costs.roles()) == pytest.approx(1.0)
    [look] = costs.tools()
    assert (look.name, look.entries) == ("look", 6)
    assert look.tokens == sum(e.tokens for e in entries if e.message.calls or e.message.results)
    assert [row.tokens for row in costs.costliest()] == sorted(
        (e.tokens for e in entries), reverse=True
    )[:4]


@given(st.text(max_size=400), st.integers(2, 60))
def test_an_excerpt_is_one_line_of_the_length_asked_for(text: str, characters: int) -> None:
    said = excerpt(Message("user", text), characters=characters)
    assert len(said) <= characters
    assert said == " ".join(said.split())
    assert excerpt(user("猫  和\n狗")) == "猫 和 狗"


def test_escaped_characters_of_tool_arguments_are_shown_as_themselves() -> None:
    for arguments, shown in (
        ('{"room": "\\u623f"}', '{"room": "房"}'),
        ('{"room": "\\u62', '{"room": "\\u62'),
    ):
        call = {"id": "c1", "function": {"name": "book", "arguments": arguments}}
        assert excerpt(assistant(tool_calls=[call])) == f"book({shown})"


def test_a_preview_for_a_provider_is_the_call_for_it() -> None:
    small = Budget(max_tokens=2_000, max_bytes=2_500)
    with Memory("sqlite://", budget=small, fold="manual") as memory:
        session = memory.session("s")
        for number in range(30):
            session.user(f'"{number}" ' + "quoted \\ words " * 8)
            session.assistant(f"{number}")
        session.user("and now?")
        looked = session.preview(to=wire.anthropic)
        plain = session.preview()
        made = session.context(to=wire.anthropic)
    assert looked.receipt.wired is not None
    assert (looked.messages, looked.receipt.wired) == (made.messages, made.receipt.wired)
    assert plain.receipt.wired is None
