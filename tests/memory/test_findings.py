"""What tools found is remembered, forgotten and outdated as the rules say, and nowhere it should not be."""

from __future__ import annotations

import threading

import pytest

from tests.memory.finding_places import MINUTE, RULES, TOC, Places, ask, call, place, session, tail
from turnfold import Memory
from turnfold.errors import ConversationDeleted, InvalidOption, InvalidRecord
from turnfold.findings import FindingRule
from turnfold.memory import Session
from turnfold.records import Document, ToolResult, tool

__all__ = ("place", "session")


def test_what_was_called_where_and_when(session: Session, place: Places) -> None:
    seq = ask(session, "search", '{"score": 0.8, "text": "x"}', 7, q="b", a=1)
    found = session.findings.get("search", {"a": 1.0, "q": "b"})
    assert found is not None
    assert (found.tool, found.arguments, found.call) == ("search", '{"a":1,"q":"b"}', "c7")
    assert (found.turn, found.seq, found.asked, found.score) == (1, seq, seq - 1, 0.8)
    assert (found.created, found.expires) == (place.clock.now, 0)
    assert session.findings.get("search", '{"q": "b"}') is None
    assert session.findings.get("other", {"a": 1, "q": "b"}) is None


@pytest.mark.parametrize(
    "shape",
    [
        {"id": "c1", "name": "search", "arguments": {"q": "a"}},
        {"id": "c1", "name": "search", "input": {"q": "a"}},
        {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q":"a"}'}},
    ],
)
@pytest.mark.parametrize("result", ["text", tool("text", tool_call_id="c1"), ToolResult("c1", ())])
def test_calls_and_results_in_the_shapes_they_come_in(
    session: Session, shape: object, result: object
) -> None:
    found = session.findings.note(shape, result)
    assert found is not None
    assert (found.tool, found.arguments, found.call) == ("search", '{"q":"a"}', "c1")
    assert found.content in ("text", "")


def test_an_error_is_no_finding(session: Session) -> None:
    assert session.findings.note(call("search"), ToolResult("c1", (), is_error=True)) is None
    assert session.findings.list() == ()


@pytest.mark.parametrize("score", [2.0, -1.0, float("nan")])
def test_a_score_that_is_none_changes_nothing(session: Session, score: float) -> None:
    kept = session.findings.note(call("search"), "text", score=0.9)
    with pytest.raises(InvalidRecord):
        session.findings.note(call("search"), "other", score=score)
    assert session.findings.list() == (kept,)


def test_the_newest_result_of_a_call_wins_whatever_its_score(session: Session) -> None:
    session.findings.note(call("search"), "stale", score=0.9)
    session.findings.note(call("search"), "fresh", score=0.1)
    [found] = session.findings.list()
    assert (found.content, found.score) == ("fresh", 0.1)


def test_a_result_not_worth_keeping_still_outdates_the_old_one(session: Session) -> None:
    session.findings.use([FindingRule("search", min_relevance=0.5, largest=50)])
    assert session.findings.note(call("search"), "good", score=0.5) is not None
    assert session.findings.note(call("search"), "bad", score=0.4) is None
    assert session.findings.list() == ()
    session.findings.note(call("search"), "good", score=0.5)
    assert session.findings.note(call("search"), "x" * 51, score=0.9) is None
    assert session.findings.list() == ()


def test_time_ends_a_finding(session: Session, place: Places) -> None:
    session.findings.note(call("quote"), "7.25")
    place.clock.now += MINUTE - 1
    assert session.findings.serve(call("quote")) is not None
    place.clock.now += 1
    assert session.findings.get("quote") is None
    assert session.findings.serve(call("quote")) is None
    session.user("next")
    assert tail(session) == ""
    session.findings.note(call("quote"), "7.50")
    assert session.findings.get("quote") is not None


def test_a_tool_makes_findings_of_another_stale(session: Session, place: Places) -> None:
    ask(session, "search", "the old value", q="a")
    ask(session, "get_toc", TOC, 2)
    other = place()
    other.findings.use([])  # a process without rules: what was decided stands in the finding
    assert other.findings.get("search", {"q": "a"}) is not None
    other.findings.ran("update")
    for handle in (session, other, place()):
        assert handle.findings.get("search", {"q": "a"}) is None
        assert [each.tool for each in handle.findings.list()] == ["get_toc"]
    session.clear()
    session.user("next")
    assert "the old value" not in tail(session)
    ask(session, "search", "the new value", 3, q="a")
    assert session.findings.serve(call("search", q="a")) is not None


def test_a_read_beside_a_change_is_not_trusted(session: Session) -> None:
    """Two calls of one answer run at once: whichever is noted last, the read may have seen the old value."""
    for order in ("read first", "change first"):
        session.user(order)
        reading, changing = call("search", 1, q=order), call("update", 2)
        asked = session.assistant(tool_calls=[reading, changing]).last
        session.findings.ran("update")
        results = [("update", changing), ("search", reading)]
        for name, made in results if order == "change first" else results[::-1]:
            seq = session.tool("done", tool_call_id=made.id).last
            session.findings.note(made, f"{name} done", seq=seq, asked=asked)
            assert session.findings.get("search", {"q": order}) is None
        assert session.findings.get("search", {"q": order}) is None
        session.assistant("ok")


def test_only_what_a_rule_allows_is_served(session: Session) -> None:
    for name in ("get_toc", "search", "update", "unknown"):
        session.findings.note(call(name), "text")
    session.user("and again, after the update")
    session.findings.note(call("search"), "text")
    served = [
        name
        for name in ("get_toc", "search", "update", "unknown")
        if session.findings.serve(call(name))
    ]
    assert served == ["get_toc", "search"]
    session.findings.use([])
    assert session.findings.serve(call("get_toc")) is None


def test_the_number_of_findings_is_bounded(session: Session) -> None:
    session.findings.use(RULES, most=5)
    session.findings.note(call("get_toc"), TOC)
    for number in range(20):
        session.findings.note(call("search", q=number), f"text {number}", score=number % 10 / 10)
    kept = session.findings.list()
    assert [each.tool for each in kept] == ["get_toc"] + ["search"] * 4
    assert [each.score for each in kept[1:]] == [0.9, 0.9, 0.8, 0.8]
    with pytest.raises(InvalidOption):
        session.findings.use(RULES, most=0)


def test_dropping_and_the_end_of_a_question(session: Session, place: Places) -> None:
    session.findings.note(call("get_toc"), TOC)
    for query in "abc":
        session.findings.note(call("search", q=query), query)
    assert session.findings.drop("search", {"q": "a"}) == 1
    assert session.findings.drop("search", {"q": "a"}) == 0
    assert session.findings.drop("nothing") == 0
    assert session.findings.clear_query() == 2
    assert [each.tool for each in place().findings.list()] == ["get_toc"]
    assert session.findings.clear() == 1
    assert place().findings.list() == ()


def test_text_for_programs_that_build_their_own_prompt(session: Session) -> None:
    assert session.findings.text(tokens=100) == ""
    session.findings.note(call("search"), "A finding.")
    assert "A finding." in session.findings.text(tokens=200)
    assert session.findings.text(tokens=5) == ""


# ----------------------------------------------------------------------------------------- who may see it


def test_two_processes_agree(place: Places) -> None:
    here, there = place(), place()
    for number in range(6):
        ask(here if number % 2 else there, "search", f"finding {number}", number, q=number)
    assert here.findings.list() == there.findings.list()
    assert len(here.findings.list()) == 6
    here.clear()
    here.user("next")
    assert here.context().messages == there.context().messages
    assert "finding 5" in tail(there)


def test_nobody_else_sees_it(place: Places) -> None:
    ask(place(), "get_toc", TOC, reg_id="angui")
    strangers = [place("two"), place(scope="other tenant"), place().fork(conversation="forked")]
    for stranger in strangers:
        stranger.findings.use(RULES)
        assert stranger.findings.list() == ()
        assert stranger.findings.serve(call("get_toc", reg_id="angui")) is None
        stranger.clear()
        stranger.user("next")
        assert tail(stranger) == ""


def test_it_is_erased_with_the_conversation(session: Session, place: Places) -> None:
    other = place()
    ask(session, "search", "a secret", q="a")
    assert other.findings.list()
    assert session.delete().documents > 0
    assert place().findings.list() == ()
    with pytest.raises(ConversationDeleted):
        other.findings.note(call("search", q="b"), "late")
    assert place().findings.list() == ()


def test_memory_alone_is_enough() -> None:
    with Memory("sqlite://") as memory:
        session = memory.session("one")
        session.findings.note(call("search"), "text")
        assert [each.content for each in session.findings.list()] == ["text"]


def test_a_damaged_document_is_told(session: Session, place: Places) -> None:
    session.findings.note(call("search"), "text")
    awaiting = session._awaiting._cache
    from turnfold.runtime import drive

    drive(awaiting.store.put_document(awaiting.scope, "one", Document("finding", "x", b"{", 0)))
    with pytest.raises(InvalidRecord, match="finding/x"):
        place().findings.list()


def test_threads_of_two_handles_lose_nothing(place: Places) -> None:
    handles = [place(), place()]

    def work(number: int) -> None:
        for at in range(8):
            session = handles[number % 2]
            session.findings.note(call("search", q=at), f"{number}", score=0.5)
            session.findings.note(call("search", q=f"{number}.{at}"), "own")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert handles[0].findings.list() == handles[1].findings.list()
    assert len(handles[0].findings.list()) == 8 + 32
