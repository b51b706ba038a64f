"""A question that names a day brings back what was said on that day, whatever words it has."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copy

import pytest

from turnfold import Budget, Memory
from turnfold.memory import Session
from turnfold.window import Section

START = datetime(2023, 4, 20, 9, tzinfo=UTC)
SMALL_TALK = {
    "en": ("How do I keep basil number {0} alive?", "Water basil number {0} in the morning."),
    "zh": ("第{0}盆罗勒怎么养？", "第{0}盆罗勒早上浇水。"),
}
DAY = {
    "en": ("I feel low and tired.", "Rest a little, and call a friend.", "What was my mood on May 2nd?"),
    "zh": ("有点低落，也很累。", "休息一下，给朋友打个电话。", "5月2号我的心情怎么样？"),
}  # fmt: skip


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return int(self.now.timestamp() * 1_000_000)


def talk(memory: Memory, clock: Clock, language: str) -> Session:
    """Four turns on each of 24 days; only May 2nd is about something else."""
    session = memory.session("one")
    asked, answered = SMALL_TALK[language]
    for day in range(24):
        clock.now = START + timedelta(days=day)
        for turn in range(4):
            number = 4 * day + turn
            special = (clock.now.month, clock.now.day, turn) == (5, 2, 1)
            session.user(DAY[language][0] if special else asked.format(number))
            session.context()
            session.assistant(DAY[language][1] if special else answered.format(number))
    return session


def opened(file: Path, clock: Clock) -> Memory:
    budget = Budget(max_tokens=900)
    return Memory(f"sqlite:///{file}", model="gpt-4o", budget=budget, clock=clock, rules=False)


@pytest.fixture(scope="module", params=["en", "zh"])
def written(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Clock, str]:
    """The file of a conversation, the time at its end, and its language."""
    file, clock = tmp_path_factory.mktemp("told") / "chat.db", Clock()
    with opened(file, clock) as memory:
        talk(memory, clock, request.param)
    return file, clock, request.param


@pytest.fixture
def told(written: tuple[Path, Clock, str], tmp_path: Path) -> Iterator[tuple[Session, str]]:
    file, clock, language = written
    with opened(Path(copy(file, tmp_path)), clock) as memory:
        yield memory.session("one"), language


def test_the_context_of_a_question_about_a_day_shows_what_was_said_then(
    told: tuple[Session, str],
) -> None:
    session, language = told
    said, _, question = DAY[language]
    session.user(question)
    tail = "\n".join(message.text for message in session.context().section(Section.TAIL))
    assert said in tail
    assert "2023-05-02" in tail


def test_recall_with_a_question_about_a_day_finds_what_was_said_then(
    told: tuple[Session, str],
) -> None:
    session, language = told
    said, answer, question = DAY[language]
    assert said in [each.message.text for each in session.recall(question, tokens=300)]
    days = {
        datetime.fromtimestamp(each.created / 1e6, UTC).day for each in session.recall(question)
    }
    assert days == {2}
    assert answer in [each.message.text for each in session.recall(question, limit=8)]


def test_a_statement_with_a_day_brings_back_no_other_things_of_that_day(
    told: tuple[Session, str],
) -> None:
    session, language = told
    session.user({"en": "On May 2nd it rained.", "zh": "5月2号下了雨。"}[language])
    tail = "\n".join(message.text for message in session.context().section(Section.TAIL))
    assert DAY[language][0] not in tail
