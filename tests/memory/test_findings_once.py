"""A tool result stands in the tail once: as a finding or as a passage, never as both."""

from __future__ import annotations

from typing import Any

import pytest

from tests.memory.finding_places import ask, place, session, tail
from turnfold.memory import Session
from turnfold.memory import context as assembling

__all__ = ("place", "session")

FACTS = {
    "en": ("The Ohm bridge carries 4711 volts.", "How many volts does the Ohm bridge carry?"),
    "zh": ("绝缘电阻不小于 10 兆欧。", "绝缘电阻是多少兆欧？"),
}
LANGUAGES = pytest.mark.parametrize(("fact", "question"), FACTS.values(), ids=FACTS)


def _folded(session: Session, fact: str, question: str, **options: Any) -> str:
    ask(session, "search", fact, q="a")
    session.assistant(f"Noted: {fact}")
    for number in range(2, 6):
        ask(session, "other", "nothing", number)
    session.fold(summary="earlier", keep_turns=1)
    session.user(question)
    return tail(session, **options)


def is_recalled(fact: str, shown: str) -> bool:
    """Whether a recalled passage says it; in English or Chinese, the speaker stands before it."""
    return any(f"{speaker}{fact}" in shown for speaker in ("tool: ", "工具："))


@LANGUAGES
@pytest.mark.parametrize("asked", [False, True], ids=["unasked", "asked"])
def test_a_finding_is_not_recalled_again(
    session: Session, fact: str, question: str, *, asked: bool
) -> None:
    options = {"query": question} if asked else {"recall": "automatic"}
    shown = _folded(session, fact, question, **options)
    assert "<findings" in shown
    assert f"\n {fact}\n" in shown
    assert not is_recalled(fact, shown)
    assert f"Noted: {fact}" in shown  # what stands beside it is found as ever


def test_the_same_result_of_an_earlier_call_is_not_recalled_either(session: Session) -> None:
    fact, question = FACTS["en"]
    ask(session, "search", fact, 7, q="a")
    assert not is_recalled(fact, _folded(session, fact, question, query=question))


def test_of_several_findings_those_the_question_speaks_of_leave_the_recall_to_others(
    session: Session,
) -> None:
    fact, question = FACTS["en"]
    ask(session, "search", "Trams of Gothenburg run on rails.", 8, q="trams")
    shown = _folded(session, fact, question, query=question)
    assert f"\n {fact}\n" in shown
    assert not is_recalled(fact, shown)
    assert shown.count("Trams of Gothenburg") == 1


def test_a_finding_that_was_cut_can_be_recalled(session: Session) -> None:
    long = "\n".join(f"Line {at} of the Ohm bridge carries {at} volts." for at in range(400))
    shown = _folded(
        session, long, "Ohm bridge volts of line 399?", query="Ohm bridge Line 399 volts"
    )
    assert "<findings" in shown
    assert "Line 399 of" in shown


@LANGUAGES
def test_a_recall_that_does_not_know_what_is_shown_is_caught(
    session: Session, monkeypatch: pytest.MonkeyPatch, fact: str, question: str
) -> None:
    def never(*_: object) -> bool:
        return False

    monkeypatch.setattr(assembling, "_is_shown_by", never)
    shown = _folded(session, fact, question, query=question)
    assert f"\n {fact}\n" in shown
    assert is_recalled(fact, shown)
