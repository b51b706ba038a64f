"""The prompt of a fold that goes on from the agent's: its beginning as it was sent, no call without its results."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sizes import examples
from turnfold import Budget, Memory, Message, assistant, tool, user, wire
from turnfold.fold import prefix_prompt, prefix_shows
from turnfold.memory import Session
from turnfold.window import Context, Section

FORMATS = (wire.openai_chat, wire.openai_responses, wire.anthropic, wire.gemini)
STEPS = st.lists(
    st.tuples(st.sampled_from(["user", "assistant", "call", "calls", "late"]), st.integers(1, 40)),
    min_size=2,
    max_size=14,
)


def fill(session: Session, steps: list[tuple[str, int]]) -> None:
    """Say what the steps say; a late result comes after the next message, and some calls are never answered."""
    session.system("Count the boxes. 清点箱子。")
    session.pin("Promise nothing. 不要承诺。")
    session.user("begin 开始")
    owed: list[Message] = []
    for number, (kind, words) in enumerate(steps):
        text = f"{number} 箱 boxes " * words
        if kind in ("user", "assistant"):
            session.add(user(text) if kind == "user" else assistant(text))
        else:
            names = [f"c{number}-{at}" for at in range(2 if kind == "calls" else 1)]
            calls = [
                {"id": name, "function": {"name": "look", "arguments": "{}"}} for name in names
            ]
            session.add(assistant("", tool_calls=calls))
            results = [tool(text, tool_call_id=name) for name in names]
            if kind == "late":
                owed += results
                continue
            session.add(results)
        session.add(owed) if owed and kind == "assistant" else None
        owed = [] if kind == "assistant" else owed
    session.user("and now? 现在呢?")


def shown_seqs(context: Context) -> dict[int, int]:
    """Where in the messages of a context each entry of the log stands."""
    _, summary, window, tail = context.ends
    places = (*range(summary, window), *range(tail, len(context.messages)))
    return dict(zip(places, context.positions, strict=True))


@examples(60)
@given(STEPS, st.integers(0, 30), st.booleans(), st.integers(400, 3_000))
def test_whatever_was_sent(
    steps: list[tuple[str, int]],
    upto: int,
    marked: bool,  # noqa: FBT001 (drawn)
    tokens: int,
) -> None:
    with Memory(budget=Budget(max_tokens=tokens), fold="manual") as memory:
        session = memory.session("x")
        fill(session, steps)
        sent = session.context()
        entries = session.history()[:upto]
    found = prefix_prompt(sent, entries, limit=200, marked=marked)
    places = shown_seqs(sent)
    within = [at for at, seq in places.items() if 0 < seq <= upto]
    assert (found is None) == (not within)
    if found is None:
        return
    *prefix, asked = found.messages
    assert tuple(prefix) == sent.messages[: len(prefix)]
    assert max(within) < len(prefix)
    assert asked.role == "user"
    assert "boxes" not in asked.text
    assert found.tokens == sum(found.costs) + found.tools + found.counter.reply
    after = [at for at in places if max(within) < at < len(prefix)]
    if not marked:  # nothing after the range but results of its calls
        assert all(sent.messages[at].role == "tool" for at in after)
    else:
        assert found.ends[2] in (sent.ends[2], len(sent.messages))
        assert ("Leave out the last" in asked.text or "最后" in asked.text) == any(
            sent.messages[at].role != "tool" for at in after
        )
    for written in FORMATS:
        assert not wire.lint(written.request(found).kwargs, written.PROVIDER)


def folded() -> tuple[Context, Session, Memory]:
    memory = Memory(budget=Budget(max_tokens=4_000), fold="manual")
    session = memory.session("x")
    fill(session, [("user", 9), ("assistant", 9), ("calls", 9), ("assistant", 5)] * 2)
    session.fold(summary="Nine boxes. 九箱。", keep_turns=2)
    session.user("go on 继续")
    return session.context(), session, memory


def test_a_prompt_shows_a_range_only_as_it_is_stored() -> None:
    sent, session, memory = folded()
    with memory:
        after = session.checkpoints()[-1].upto
        entries = [entry for entry in session.history() if entry.seq > after]
        assert prefix_shows(sent, entries, summary="Nine boxes. 九箱。")
        assert not prefix_shows(sent, entries, summary="")
        assert not prefix_shows(sent, entries, summary="Ten boxes. 十箱。")
        other = [*entries[:-1], replace(entries[-1], message=user("go on. 继续"))]
        assert not prefix_shows(sent, other, summary="Nine boxes. 九箱。")
        before = session.history()[: after + 1]
        assert not prefix_shows(sent, before, summary="Nine boxes. 九箱。")


def test_what_was_appended_since_follows_the_whole_prompt() -> None:
    sent, session, memory = folded()
    call = {"id": "n", "function": {"name": "look", "arguments": "{}"}}
    with memory:
        session.assistant("", tool_calls=[call])
        waiting = prefix_prompt(sent, session.history(), limit=9, marked=False)
        session.tool("nine", tool_call_id="n")
        session.user("and more?")
        for marked in (False, True):
            found = prefix_prompt(sent, session.history()[:-1], limit=9, marked=marked)
            assert found is not None
            assert found.messages[: len(sent.messages)] == sent.messages
            roles = [each.role for each in found.messages[len(sent.messages) :]]
            assert roles == ["assistant", "tool", "user"]
            assert found.ends[2] == (sent.ends[2] if marked else len(sent.messages))
        assert waiting is None  # a call without its result is no end
        late = [*session.history()[:-3], session.history()[-2]]
        assert prefix_prompt(sent, late, limit=9, marked=False) is None


@pytest.mark.parametrize("budget", [420, 500, 700])
def test_a_shortened_result_is_not_the_entry(budget: int) -> None:
    call = {"id": "c", "function": {"name": "look", "arguments": "{}"}}
    with Memory(budget=Budget(max_tokens=budget), fold="manual") as memory:
        session = memory.session("x")
        session.add([user("look"), assistant("", tool_calls=[call]), tool("tea " * 900, tool_call_id="c")])  # fmt: skip
        sent = session.context()
        assert sent.section(Section.TURN)[-1].role == "tool"
        assert not prefix_shows(sent, session.history(), summary="")
        assert prefix_shows(sent, session.history()[:2], summary="")


@pytest.mark.parametrize(
    ("said", "language"),
    [("where are the boxes", "Condense them"), ("箱子在哪里，请告诉我", "浓缩为简洁摘要")],
)
def test_the_instruction_is_in_the_language_of_the_conversation(said: str, language: str) -> None:
    with Memory(fold="manual") as memory:
        session = memory.session("x")
        session.add([user(said), assistant("x"), user(said)])
        found = prefix_prompt(session.context(), session.history()[:2], limit=77, marked=False)
    assert found is not None
    assert language in found.messages[-1].text
    assert "77" in found.messages[-1].text


@pytest.mark.parametrize(("limit", "asked"), [(1_999, 1_999), (2_000, 2_000), (19_200, 2_000)])
@pytest.mark.parametrize("said", ["where are the boxes", "箱子在哪里，请告诉我"])
def test_a_model_is_asked_for_at_most_two_thousand_tokens(
    limit: int, asked: int, said: str
) -> None:
    """Of a budget of 128,000 tokens the share of a summary is 19,200: nobody wants to pay for writing so many."""
    with Memory(fold="manual") as memory:
        session = memory.session("x")
        session.add([user(said), assistant("x"), user(said)])
        found = prefix_prompt(session.context(), session.history()[:2], limit=limit, marked=False)
    assert found is not None
    assert re.findall(r"(\d+) (?:tokens|个 token)", found.messages[-1].text) == [str(asked)]
