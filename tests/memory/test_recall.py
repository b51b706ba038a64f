"""What a session brings back: the best that fits, from the log and from nowhere else, for everybody the same."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.memory.talking import SMALL, talk
from tests.sizes import examples
from turnfold import Memory
from turnfold.errors import InvalidOption
from turnfold.memory import Recaller, RecallTool, Session, recalled_text
from turnfold.runtime import drive
from turnfold.search import recalled_passages as passages
from turnfold.text import local_time, time_text
from turnfold.tokens import counter_for
from turnfold.window import Section

COUNT = counter_for("gpt-4o").count_text
QUESTIONS = ("Where does the ferry leave?", "猫叫什么名字", "订单 A-1013", "order", "是吗", "")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(f"sqlite:///{tmp_path / 'chat.db'}", model="gpt-4o", budget=SMALL) as opened:
        yield opened


def told(session: Session) -> Session:
    """A talk with two facts long before its end, each in the reply to the words it is asked by."""
    session.user("From which pier does the ferry leave?")
    session.assistant("Number nine, at dawn.")
    session.user("你还记得我的貓叫什麼名字嗎？")
    session.assistant("当然，她是小白。")
    talk(session, 30)
    session.user("Now what?")
    return session


def tail_of(session: Session, query: str) -> str:
    return "\n".join(message.text for message in session.context(query).section(Section.TAIL))


@pytest.mark.parametrize(
    ("query", "fact"),
    [("Where does the ferry leave?", "Number nine, at dawn."), ("猫叫什么名字", "她是小白")],
)
def test_the_reply_comes_back_with_the_words_it_answers(
    memory: Memory, query: str, fact: str
) -> None:
    session = told(memory.session("one"))
    assert fact not in tail_of(session, "")
    tail = tail_of(session, query)
    assert fact in tail
    assert "assistant: " in tail
    assert tail.count("<recalled ") == tail.count("</recalled ") == 1
    assert session.context(query).tokens <= SMALL.tokens


def test_a_call_says_what_was_brought_back_and_why(memory: Memory) -> None:
    session = told(memory.session("one"))
    context = session.context("Where does the ferry leave?")
    manifest = session.explain().manifest
    assert {1, 2} <= {seq for seq, _ in manifest.recalled}
    scores = dict(manifest.recalled)
    assert scores[1] == max(scores.values())
    assert max(scores) < context.anchor.position
    assert session.explain().exact
    session.assistant("Let me see.")
    session.context()
    assert session.explain().manifest.recalled == manifest.recalled  # the tail stands still
    session.user("Thanks.")
    session.context()
    later = session.explain().manifest.recalled
    assert all(score < min(scores.values()) for _, score in later), "only what is recent"


ANSWERS = {
    "en": (
        "I keep the spare key of house {0} under stone {0}.",
        "A spare key is best kept by a neighbour. "
        + "A lock needs oil twice a year and a dry place. " * 25,
        "Where do I keep the spare key?",
    ),
    "zh": (
        "{0}号房的备用钥匙我放在第{0}块石头下面。",
        "备用钥匙最好交给邻居保管。" + "门锁每年需要上两次油并且保持干燥。" * 25,
        "备用钥匙放在哪里？",
    ),
}


@pytest.mark.parametrize("language", ANSWERS)
def test_more_tokens_bring_back_more_short_facts_between_long_answers(
    memory: Memory, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fact, answer, question = ANSWERS[language]
    session = memory.session("one")
    for number in range(40):
        session.user(fact.format(number))
        session.assistant(f"{answer} ({number})")

    def facts(tokens: int) -> int:
        found = session.recall(question, tokens=tokens)
        return sum(each.message.role == "user" for each in found)

    assert [facts(tokens) for tokens in (250, 500, 1_000)] == sorted(
        {facts(tokens) for tokens in (250, 500, 1_000)}
    )
    assert facts(2_000) == 40
    monkeypatch.setattr(passages, "_FEWEST_READ", 16)
    assert facts(2_000) < 40


PAIRS = {
    "en": (
        "From which pier does the night ferry to Oban leave?",
        "The crossing is cheaper in winter, and dogs travel free. ",
        "It leaves from pier nine, at dawn. ",
        "The night ferry was late again, number {}: we waited in the rain with everybody else.",
    ),
    "zh": (
        "去涠洲岛的夜班渡轮从几号码头开?",
        "冬天的船票便宜一些,带狗也不加钱。",
        "它天亮时从九号码头出发。",
        "第{}次坐夜班渡轮又晚点了,大家都在雨里等着,谁也没办法。",
    ),
}


@pytest.mark.parametrize(("asked", "filler", "fact", "other"), PAIRS.values(), ids=PAIRS.keys())
def test_a_long_answer_comes_back_with_its_question_and_the_question_with_the_answer(
    memory: Memory, asked: str, filler: str, fact: str, other: str
) -> None:
    session = memory.session("one")
    session.user(asked)
    session.assistant(filler + fact + filler * (700 // COUNT(filler)))
    for number in range(60):
        session.user(other.format(number))
        session.assistant("Noted. 记下了。")
    for query in (asked, filler + fact):
        found = session.recall(query, tokens=1_000)
        assert [each.seq for each in found][:2] == [1, 2]
        assert fact.strip() in found[1].shown


def test_what_the_window_shows_is_not_brought_back(memory: Memory) -> None:
    session = told(memory.session("one"))
    anchor = session.context("order arrives").anchor.position
    recalled = [seq for seq, _ in session.explain().manifest.recalled]
    assert recalled
    assert max(recalled) < anchor


def test_what_was_cleared_is_not_brought_back(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = told(memory.session("one"))
    session.clear()
    talk(session, 30, first=100)
    session.user("ferry?")
    assert "Number nine" not in tail_of(session, "From which pier does the ferry leave?")
    passages = Recaller.passages

    async def forgetful(self: Recaller, query: str, **options: object) -> object:
        return await passages(self, query, **(options | {"after": 0}))  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Recaller, "passages", forgetful)
    assert "Number nine" in tail_of(session, "ferry leave pier")


@pytest.mark.parametrize("query", QUESTIONS)
@pytest.mark.parametrize("tokens", [1, 40, 90, 300, 2_000])
def test_what_is_recalled_fits_and_was_said(memory: Memory, query: str, tokens: int) -> None:
    session = told(memory.session("one"))
    log = {entry.seq: entry.message for entry in session.history(limit=1_000)}
    found = session.recall(query, tokens=tokens)
    assert COUNT(recalled_text(found)) <= tokens
    assert all(log[each.seq] == each.message for each in found)
    assert all(each.shown.strip("…").strip() in log[each.seq].text for each in found)
    assert memory.session("one").recall(query, tokens=tokens) == found
    if tokens == 2_000 and query:
        assert found


@settings(examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(max_size=40), tokens=st.integers(1, 600))
def test_whatever_is_asked_it_fits(memory: Memory, query: str, tokens: int) -> None:
    session = memory.session("any")
    if not session.history(limit=1):
        told(session)
    assert COUNT(recalled_text(session.recall(query, tokens=tokens))) <= tokens


@pytest.mark.parametrize("options", [{"limit": 0}, {"tokens": 0}, {"tokens": -5}])
def test_a_recall_of_nothing_is_refused(memory: Memory, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        memory.session("one").recall("x", **options)


@pytest.mark.parametrize(
    ("zone", "shown"),
    [
        ("UTC", "2026-11-17 22:47 UTC]"),
        ("Asia/Shanghai", "2026-11-18 06:47 UTC+8]"),
        ("Asia/Kolkata", "2026-11-18 04:17 UTC+5:30]"),
        ("America/St_Johns", "2026-11-17 19:17 UTC-3:30]"),
    ],
)
def test_a_model_is_shown_times_in_the_zone_of_the_memory(zone: str, shown: str) -> None:
    at = int(datetime(2026, 11, 17, 22, 47, tzinfo=UTC).timestamp()) * 1_000_000
    with Memory(
        "sqlite://", model="gpt-4o", budget=SMALL, clock=lambda: at, time_zone=zone
    ) as memory:
        session = told(memory.session("chat"))
        assert f"[turn 1, {shown}" in tail_of(session, "Where does the ferry leave?")
        assert shown in recalled_text(session.recall("ferry"))
        assert shown in recalled_text(session.recall("ferry", tokens=200))
        tool = drive(RecallTool(session.awaiting).call({"turn_numbers": [2]}))
        assert f"[第 2 轮，{shown}" in tool
        assert f"time_zone='{zone}'" in repr(memory)


def test_a_time_at_the_end_of_the_calendar_is_shown() -> None:
    last = int(datetime.max.replace(tzinfo=UTC).timestamp() - 1) * 1_000_000
    assert time_text(local_time(last, ZoneInfo("Asia/Shanghai"))) == "9999-12-31 23:59 UTC"
