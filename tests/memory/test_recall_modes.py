"""What is brought back without being asked for: off, where it speaks of what was said, or always."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.memory.talking import SMALL, talk
from turnfold import Budget, Memory
from turnfold.budget import RECALL_TOKENS
from turnfold.errors import InvalidOption
from turnfold.memory import Session
from turnfold.search import relevant_places
from turnfold.window import Section

ASKED = {
    "en": ("From which pier does the ferry leave again?", "Number nine, at dawn."),
    "zh": ("我的猫叫什么名字来着？", "她是小白"),
    "name": ("And A-4711?", "blue crate"),
}
IDLE = ("Thanks!", "好的，辛苦了", "ok", "42?")


@contextmanager
def told(folder: Path, mode: str) -> Iterator[Session]:
    with Memory(
        f"sqlite:///{folder / mode}.db", model="gpt-4o", budget=SMALL, recall=mode, rules=False
    ) as memory:
        session = memory.session("one")
        session.user("From which pier does the ferry leave?")
        session.assistant("Number nine, at dawn.")
        session.user("你还记得我的貓叫什麼名字嗎？")
        session.assistant("当然，她是小白。")
        session.user("A-4711 is the blue crate.")
        session.assistant("Noted: the blue crate.")
        talk(session, 30)
        session.context()
        yield session


def tail(session: Session, *, recall: str | None = None) -> str:
    context = session.context(recall=recall)
    assert session.explain().exact
    return "\n".join(message.text for message in context.section(Section.TAIL))


@pytest.mark.parametrize(("said", "fact"), ASKED.values(), ids=ASKED.keys())
def test_what_speaks_of_the_newest_turn_comes_back_unasked(
    tmp_path: Path, said: str, fact: str
) -> None:
    with told(tmp_path, "automatic") as session:
        session.user(said)
        assert fact in tail(session)
        assert session.explain().manifest.recalled
        assert session.context().tokens <= SMALL.tokens


@pytest.mark.parametrize("said", IDLE)
def test_idle_words_bring_nothing_old_back(tmp_path: Path, said: str) -> None:
    with told(tmp_path, "automatic") as session:
        session.user(said)
        assert tail(session) == ""
        assert not session.explain().manifest.recalled


@pytest.mark.parametrize(("said", "fact"), ASKED.values(), ids=ASKED.keys())
def test_off_brings_back_only_what_is_asked_for(tmp_path: Path, said: str, fact: str) -> None:
    with told(tmp_path, "off") as session:
        session.user(said)
        assert tail(session) == ""
        assert fact in tail(session, recall="automatic")
        assert fact in "\n".join(m.text for m in session.context(said).section(Section.TAIL))


def test_always_brings_back_the_best_there_is(tmp_path: Path) -> None:
    with told(tmp_path, "always") as session:
        session.user("ok, order it")
        assert "<recalled " in tail(session)


def test_the_tail_stands_still_while_the_turn_runs(tmp_path: Path) -> None:
    with told(tmp_path, "automatic") as session:
        session.user(ASKED["en"][0])
        first = tail(session)
        session.assistant(tool_calls=[{"id": "x", "function": {"name": "look", "arguments": "{}"}}])
        session.tool("the ferry is late", tool_call_id="x")
        assert tail(session) == first
        session.user("Thanks!")
        assert ASKED["en"][1] not in tail(session)


def test_recalled_passages_use_the_room_that_is_free(tmp_path: Path) -> None:
    with told(tmp_path, "automatic") as session:
        session.user("Which orders of how many tonnes arrive when? 哪些订单的货何时到？")
        receipt = session.context().receipt
        assert 2 * SMALL.share("tail") < receipt.sections[Section.TAIL]
        assert receipt.tokens <= SMALL.tokens


def test_a_large_budget_does_not_recall_more_than_is_worth_it() -> None:
    large = Budget(max_tokens=60_000)
    with Memory("sqlite://", model="gpt-4o", budget=large, fold="manual") as memory:
        session = memory.session("one")
        talk(session, 400)
        session.fold(keep_turns=2)
        session.user("Which orders of how many tonnes arrive when? 哪些订单的货何时到？")
        receipt = session.context().receipt
        assert large.share("tail") > RECALL_TOKENS
        assert RECALL_TOKENS // 2 < receipt.sections[Section.TAIL] <= RECALL_TOKENS


def test_recalled_passages_give_way_to_the_running_turn(tmp_path: Path) -> None:
    with told(tmp_path, "automatic") as session:
        session.user("Which orders of how many tonnes arrive when? 哪些订单的货何时到？")
        context = before = session.context()
        for number in range(6):
            call = {"id": f"x{number}", "function": {"name": "look", "arguments": "{}"}}
            session.assistant(tool_calls=[call])
            session.tool(
                f"crate {number} " + "is on its way, 在路上 " * 6, tool_call_id=f"x{number}"
            )
            context = session.context()
            assert context.tokens <= SMALL.tokens
            assert session.explain().exact
        assert context.receipt.sections[Section.TAIL] < before.receipt.sections[Section.TAIL]
        shown = [message.text.split()[1] for message in context.messages if message.role == "tool"]
        assert shown[-6:] == ["0", "1", "2", "3", "4", "5"], "nothing of the turn is left out"


def test_a_conversation_that_fits_is_not_folded_for_passages() -> None:
    with Memory("sqlite://", model="gpt-4o", budget=SMALL) as memory:
        session = memory.session("one")
        while session.status().tokens < 0.7 * SMALL.tokens:
            session.user("order A-1 of 5 tonnes")
            assert session.context().receipt.sections[Section.SUMMARY] == 0
            session.assistant("noted, 记下了")
        assert session.checkpoints() == []


def test_what_was_cleared_stays_away(tmp_path: Path) -> None:
    with told(tmp_path, "automatic") as session:
        session.clear()
        session.user(ASKED["en"][0])
        assert tail(session) == ""


def test_while_everything_is_shown_nothing_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory(f"sqlite:///{tmp_path / 'a.db'}", model="gpt-4o", recall="always") as memory:
        session = memory.session("one")
        session.user("From which pier does the ferry leave?")
        monkeypatch.setattr("turnfold.memory.recall.Recaller.passages", None)
        assert tail(session) == ""


@pytest.mark.parametrize("name", ["on", "", "Automatic"])
def test_an_unknown_mode_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidOption, match="'off', 'automatic', 'always'"):
        Memory("sqlite://", recall=name)
    with told(tmp_path, "off") as session, pytest.raises(InvalidOption, match="is not one of"):
        session.context(recall=name)


@pytest.mark.parametrize(
    ("scores", "question", "shown"),
    [
        ([5.0], False, 1),  # one rare word of 100 entries: log(101) is 4.6
        ([2.2], False, 0),
        ([2.2], True, 1),  # a question gets the best there is
        ([5.0, 2.4, 1.9], False, 2),
        ([5.0, 2.4, 1.9, 1.3], True, 2),  # beside a good match a weak one only fills room
        ([2.2, 1.9, 0.6], True, 2),
        ([60.0, 4.0, 3.0, 1.3], True, 3),
        ([60.0, 4.0, 3.0, 1.3], False, 2),
        ([], True, 0),
    ],
)
def test_what_matches_as_little_as_by_chance_is_not_shown(
    scores: list[float],
    question: bool,  # noqa: FBT001
    shown: int,
) -> None:
    places = [(seq, score) for seq, score in enumerate(scores, 1)]
    assert relevant_places(places, entries=100, question=question) == places[:shown]
