"""Searching a whole memory: every conversation of the scope, checkpoints and documents too, shown by what was found."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnfold import AsyncMemory, Memory
from turnfold.errors import InvalidOption
from turnfold.findings import FindingRule
from turnfold.records import Checkpoint, Document, user
from turnfold.runtime import drive
from turnfold.search import CHECKPOINT, Within


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory("sqlite://", clock=lambda: 7) as made:
        one = made.session("one")
        one.user("The budgets of src/app.py 预算")
        one.assistant("noted " * 80 + "the budget is 4711 " + "and so on " * 80)
        made.session("two").user("機器人 budget")
        other = Memory(made.store, scope="other")
        other.session("one").user("budget of another")
        yield made


def test_every_conversation_of_the_scope_is_searched(memory: Memory) -> None:
    found = memory.search("budget")
    assert {(each.conversation, each.seq) for each in found} == {("one", 1), ("one", 2), ("two", 1)}
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    long = next(each for each in found if each.seq == 2)
    assert (long.role, long.turn, long.created, long.kind) == ("assistant", 1, 7, "")
    assert "the [budget] is 4711" in long.snippet.shown("[", "]")
    assert len(long.snippet.text) < len(long.text)


def test_a_search_may_name_one_conversation_and_filters(memory: Memory) -> None:
    assert [each.conversation for each in memory.search("机器人")] == ["two"]
    assert {each.seq for each in memory.search("budget", conversation="one")} == {1, 2}
    within = Within(paths=frozenset({"src"}))
    [found] = memory.search("budget", within=within)
    assert (found.conversation, found.seq) == ("one", 1)
    assert len(memory.search("budget", limit=1)) == 1


@pytest.mark.parametrize("tokens", [None, 500])
def test_a_question_does_not_recall_itself(tokens: int | None) -> None:
    with Memory("sqlite://") as memory:
        session = memory.session("keys")
        session.user("Where is the spare key?")
        session.assistant("The spare key is under the blue pot.")
        session.user(" Where is the spare key?\n")
        found = session.recall("Where is the spare key?", tokens=tokens)
        assert {each.seq for each in found} == {1, 2}  # asked before, with its answer
        assert 3 in {each.seq for each in session.recall("spare key", tokens=tokens)}
        assert {each.seq for each in memory.search("Where is the spare key?")} == {1, 2, 3}
        session.assistant("Under the pot.")
        session.user("And the gate code?")
        found = session.recall("Where is the spare key?", tokens=tokens)
        assert 3 in {each.seq for each in found}  # of an earlier turn now


def test_a_question_does_not_lift_what_is_said_around_it() -> None:
    with Memory("sqlite://") as memory:
        session = memory.session("keys")
        session.add([user(f"Invoice {n} was sent.") for n in range(20)])
        session.user("The spare key is under the blue pot.")
        session.add([user(f"Invoice {n} was paid.") for n in range(20)])
        session.assistant("Fine. What else?")
        session.user("Where is the spare key?")
        found = session.recall("Where is the spare key?", tokens=120)
        assert "The spare key is under the blue pot." in {each.message.text for each in found}
        assert "Fine. What else?" not in {each.message.text for each in found}


def test_checkpoints_and_documents_are_found_where_they_are_asked_for(memory: Memory) -> None:
    store, scope = memory.store, memory.scope
    drive(store.add_checkpoint(scope, "one", Checkpoint("c", "", 2, "预算 folded", "digest")))
    drive(store.put_document(scope, "one", Document("note", "k", b"", 0, text="预算 noted")))
    found = memory.search("预算", within=Within(kinds=None))
    assert {(each.kind, each.key, each.seq, each.text) for each in found} == {
        ("", "", 1, "The budgets of src/app.py 预算"),
        (CHECKPOINT, "c", 2, "预算 folded"),
        ("note", "k", 0, "预算 noted"),
    }
    assert {each.snippet.shown("[", "]") for each in found if each.kind} == {
        "[预算] folded",
        "[预算] noted",
    }


@pytest.mark.parametrize("limit", [0, -1])
def test_a_search_for_nothing_is_refused(memory: Memory, limit: int) -> None:
    with pytest.raises(InvalidOption, match="at least 1"):
        memory.search("budget", limit=limit)


def test_a_recall_keeps_to_its_filters(memory: Memory) -> None:
    session = memory.session("one")
    said = Within(roles=frozenset({"assistant"}))
    assert [each.seq for each in session.recall("budget", within=said)] == [2]
    assert [each.seq for each in session.recall("budget")] == [2, 1], "the newer first"
    brought = session.recall("预算", tokens=300, within=Within(roles=frozenset({"user"})))
    assert 1 in {each.seq for each in brought}
    assert session.recall("budget", tokens=300, within=Within(turns=(5, 6))) == []
    with pytest.raises(InvalidOption, match="finds entries only"):
        session.recall("budget", within=Within(kinds=None))


def test_the_awaiting_face_finds_the_same() -> None:
    async def searched() -> list[tuple[str, int]]:
        async with AsyncMemory("sqlite://") as memory:
            await memory.session("one").user("alpha")
            return [(each.conversation, each.seq) for each in await memory.search("alpha")]

    assert asyncio.run(searched()) == [("one", 1)]


def test_what_is_erased_between_the_search_and_the_reading_is_left_out(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = memory.store
    search = inner.search

    async def erased(*values: object, **options: object) -> object:
        hits = await search(*values, **options)  # pyright: ignore[reportArgumentType] (passed on as it came)
        await inner.delete(memory.scope, "two")
        return hits

    monkeypatch.setattr(inner, "search", erased)
    assert {each.conversation for each in memory.search("budget")} == {"one"}


def test_findings_are_found_by_what_tools_answered(tmp_path: Path) -> None:
    with Memory(f"sqlite:///{tmp_path / 'a.db'}") as memory:
        session = memory.session("one")
        session.user("What is in the handbook?")
        session.findings.use([FindingRule("get_toc")])
        call = {"id": "c1", "name": "get_toc", "arguments": '{"book": "tides"}'}
        session.findings.note(call, "第二章 潮汐\nChapter 3 Pilots")
        for query in ("潮汐", "pilots"):
            [found] = memory.search(query, within=Within(kinds=frozenset({"finding"})))
            assert (found.kind, found.conversation) == ("finding", "one")
            assert found.snippet.marks
        assert memory.search("pilots") == []
