"""Whatever is folded, the answer before the newest question stays in the window, word for word, if it fits at all."""

from __future__ import annotations

import pytest

from turnfold import Budget, Memory
from turnfold.window import Outcome, Section

QUESTIONS = {
    "en": "Question {0}: what about the order, its invoice and the delivery?",
    "zh": "第{0}个问题：订单、发票和配送的情况怎么样了？",
}
ANSWERS = {
    "en": "Answer {0}: it is in the ticket, and we tell you as soon as there is something new. "
    * 2,
    "zh": "回答{0}：已经记录在工单里，处理进展会第一时间同步给您，请您放心。" * 3,
}


@pytest.mark.parametrize("language", QUESTIONS)
@pytest.mark.parametrize("tokens", [700, 1_000, 2_000, 3_000])
def test_the_answer_before_the_newest_question_stays(tokens: int, language: str) -> None:
    with Memory("sqlite://", model="gpt-4o", budget=Budget(max_tokens=tokens)) as memory:
        session = memory.session("talk")
        session.system("You are careful.")
        answer = ""
        for turn in range(tokens // 40 + 10):
            session.user(QUESTIONS[language].format(turn))
            context = session.context()
            assert (
                answer in [message.text for message in context.section(Section.WINDOW)] or not turn
            )
            answer = ANSWERS[language].format(turn)
            session.assistant(answer)
        assert session.explain().manifest.count(Outcome.FOLDED) > 10


@pytest.mark.parametrize("long", [300, 500, 800])
def test_a_long_answer_stays_and_recall_gives_way(long: int) -> None:
    """An answer of up to about half of the budget: "make it shorter" means this one."""
    with Memory("sqlite://", model="gpt-4o", budget=Budget(max_tokens=2_000)) as memory:
        session = memory.session("talk")
        for turn in range(40):
            session.user(QUESTIONS["en"].format(turn))
            session.context()
            session.assistant(ANSWERS["en"].format(turn))
        session.user("Write the whole report, please.")
        session.context()
        report = " ".join(f"Finding {number} is new." for number in range(long // 5))
        session.assistant(report)
        session.user("Make it shorter.")
        shown = [message.text for message in session.context().section(Section.WINDOW)]
        assert report in shown
        assert "Write the whole report, please." in shown


def test_folds_are_not_made_for_a_few_tokens_in_every_turn() -> None:
    with Memory("sqlite://", model="gpt-4o", budget=Budget(max_tokens=1_000)) as memory:
        session = memory.session("talk")
        for turn in range(60):
            session.user(QUESTIONS["zh"].format(turn))
            session.context()
            session.assistant(ANSWERS["zh"].format(turn))
        assert len(session.checkpoints()) < 30
