"""What a context brings back of one keyword, of courtesies, follow-ups and questions; and which match comes first."""

from __future__ import annotations

import re

import pytest

from turnfold import Budget, Memory
from turnfold.memory import Session
from turnfold.records import Message, ToolCall, tool
from turnfold.search import Recalled
from turnfold.window import Section

CHAIRS = {
    "en": (
        "We need {0} more chairs for row {0}, the folding ones from the school.",
        "Row {0} gets {0} folding chairs from the school, I have put them on the list.",
    ),
    "zh": ("第{0}排还差{0}把椅子，用学校的折叠椅。", "第{0}排：{0}把学校的折叠椅，已经写进清单。"),
}


def told(memory: Memory, *said: str, language: str = "en", turns: int = 30) -> Session:
    """A talk that begins with `said`, by turns of user and assistant, and goes on about chairs."""
    session = memory.session("one")
    for user, assistant in zip(said[::2], said[1::2], strict=True):
        session.user(user)
        session.assistant(assistant)
    asked, answered = CHAIRS[language]
    for number in range(turns):
        session.user(asked.format(number))
        session.context()
        session.assistant(answered.format(number))
    return session


def small() -> Memory:
    return Memory("sqlite://", model="gpt-4o", budget=Budget(max_tokens=1_200), rules=False)


def tail(session: Session, said: str) -> str:
    session.user(said)
    context = session.context()
    assert session.explain().exact
    return "\n".join(message.text for message in context.section(Section.TAIL))


KEYWORDS = {
    "en": ("Anything for Sunday?", "Nadia moderates the Sunday talk.", "Who moderates?", "en"),
    "zh": ("周日有什么安排？", "周日的对谈由林晓主持。", "谁主持？", "zh"),
}


@pytest.mark.parametrize(("asked", "fact", "question", "language"), KEYWORDS.values(), ids=KEYWORDS)
def test_one_rare_keyword_brings_its_entry_back_and_no_newest_ones(
    asked: str, fact: str, question: str, language: str
) -> None:
    with small() as memory:
        shown = tail(told(memory, asked, fact, language=language), question)
        assert fact in shown
        assert "row 20" not in shown
        assert "第20排" not in shown


@pytest.mark.parametrize(
    "said",
    [
        "thanks, talk tomorrow!",
        "good night!",
        "Great, thanks! That was very helpful.",
        "谢谢，明天聊！",
        "晚安",
        "好的，辛苦了，明天见",
    ],
)
def test_a_courtesy_recalls_nothing(said: str) -> None:
    with small() as memory:
        session = told(memory, "Two nights, with a talk tomorrow?", "晚安酒店两晚，明天聊天会。")
        assert tail(session, said) == ""


FOLLOW_UPS = (
    "What should we do next?",
    "OK, let's continue",
    "Why? Can you explain that again, in other words?",
    "接下来做什么？",
    "好的，继续吧",
    "为什么？能再具体解释一下吗？",
)


@pytest.mark.parametrize("said", FOLLOW_UPS)
def test_a_follow_up_brings_back_the_newest_messages_and_none_that_only_share_its_words(
    said: str,
) -> None:
    with small() as memory:
        session = told(memory, f"Once more: {said}", f"Next, why, again, continue: {said}")
        shown = tail(session, said)
        assert "Once more" not in shown
        assert "again, continue" not in shown
        recalled = [int(row) for row in re.findall(r"for row (\d+)", shown)]
        window = session.context().section(Section.WINDOW)
        first = min(int(row) for each in window for row in re.findall(r"for row (\d+)", each.text))
        assert len(recalled) > 4
        assert recalled == list(range(first - len(recalled), first))


@pytest.mark.parametrize(
    "said",
    ["Thanks, and when is the talk?", "谢谢，那聊天会在哪天？", "Good night hotel, how much?"],
)
def test_a_question_after_a_courtesy_is_searched_for(said: str) -> None:
    with small() as memory:
        session = told(
            memory,
            "The talk is on 4 May, in the night hotel.",
            "Noted: the talk, 4 May. 聊天会在五月四日。",
        )
        assert "4 May" in tail(session, said)


def test_a_question_comes_back_with_its_answer_or_not_at_all() -> None:
    question, answer = "Who brings the briefing for the minister?", "Fatima does, by Friday."
    with small() as memory:
        session = told(memory, question, answer)
        shown = tail(session, "The minister wants the briefing earlier.")
        assert shown.index(question) < shown.index(answer)
    for tokens in range(20, 90):
        found = [each.message.text for each in session_recall(question, answer, tokens)]
        assert (question in found) <= (answer in found)


def session_recall(question: str, answer: str, tokens: int) -> list[Recalled]:
    with small() as memory:
        session = told(memory, question, answer, turns=1)
        return session.recall("briefing minister", tokens=tokens)


def test_a_reply_of_one_word_comes_with_what_it_replies_to() -> None:
    with small() as memory:
        session = told(
            memory, "Ask me about the ferry.", "Shall I book the ferry to Oban?", "yes", "Done."
        )
        for tokens in range(20, 120, 4):
            found = {each.seq for each in session.recall("book ferry Oban", tokens=tokens)}
            assert (3 in found) <= (2 in found)
            assert (4 in found) <= (3 in found)
        assert {2, 3, 4} <= {each.seq for each in session.recall("book ferry Oban", tokens=400)}


def test_every_turn_has_its_heading() -> None:
    with small() as memory:
        session = told(
            memory, "The ferry is late.", "The ferry left.", "No ferry now.", "Ferry at nine."
        )
        shown = tail(session, "When does the ferry leave?").splitlines()
        assert shown.count("[turn 2]") == 1
        assert shown.index("[turn 2]") < shown.index("user: No ferry now.")


def test_the_question_itself_comes_after_what_answers_it() -> None:
    with small() as memory:
        session = told(
            memory,
            "Who moderates the talk?",
            "I don't know yet.",
            "Nadia moderates the long talk on Sunday, and Sander the one about fiction.",
            "Noted.",
            turns=3,
        )
        session.user("So who moderates the talk?")
        assert [each.seq for each in session.recall("who moderates the talk")] == [3, 1, 11]


@pytest.mark.parametrize(
    ("old", "new", "question", "past"),
    [
        (
            "The cache expires after 10 minutes.",
            "No: the cache expires after 90 seconds, that was what the team decided today.",
            "When does the cache expire?",
            "When did the cache expire originally?",
        ),
        (
            "缓存过期时间是10分钟。",
            "改一下，缓存过期时间以后用90秒，组里刚定的。",
            "缓存过期时间多久？",
            "缓存过期时间原来多久？",
        ),
    ],
)
def test_of_entries_with_the_same_words_the_newer_is_first(
    old: str, new: str, question: str, past: str
) -> None:
    with small() as memory:
        session = told(memory, old, "Noted.", new, "Noted, too.", turns=3)
        assert [each.message.text for each in session.recall(question, limit=2)] == [new, old]
        assert session.recall(past, limit=1)[0].message.text == old


IDLE = {
    "en": ("One moment, please.", "You're welcome. Anything else I can do for you?", "Thanks!"),
    "zh": ("好的，我帮您查一下，请稍等。", "不客气，还有其他可以帮您的吗？", "谢谢"),
}
LAMPS = {
    "en": ("Which lamp did the kitchen get?", "The kitchen got the lamp Sirius, 84 EUR."),
    "zh": ("厨房装的是哪盏灯？", "厨房装的是天狼星灯，84 元。"),
}


@pytest.mark.parametrize("language", IDLE)
def test_no_formalities_come_back_beside_an_answer(language: str) -> None:
    wait, welcome, thanks = IDLE[language]
    asked, answer = LAMPS[language]
    with small() as memory:
        session = told(memory, asked, wait, asked, answer, thanks, welcome, language=language)
        shown = tail(session, asked)
        assert answer in shown
        assert not any(each in shown for each in IDLE[language])


def test_tool_output_does_not_change_the_language_of_what_is_brought_back() -> None:
    listing = "\n".join(
        f"def handler_{number}(request, session): return {number}" for number in range(30)
    )
    with small() as memory:
        session = memory.session("one")
        session.user("支付回调的处理函数在哪个文件？")
        session.add(
            Message("assistant", [ToolCall(id="a", name="read", arguments="{}")]),
        )
        session.add(tool(listing, tool_call_id="a"))
        session.assistant("在 callbacks.py 里，支付回调由 handler_7 处理。")
        for number in range(30):
            session.user(CHAIRS["zh"][0].format(number))
            session.context()
            session.assistant(CHAIRS["zh"][1].format(number))
        shown = tail(session, "支付回调由哪个 handler 处理？")
        assert "handler_7" in shown
        assert "先前对话中可能与当前有关的原文" in shown
        assert "[turn" not in shown
        assert "助手：在 callbacks.py 里" in shown


MOVED = {
    "en": (
        "I'm moving. From May 10 on please send things to my new address: 88 Quayside Court, Bath.",
        "Send the chairs to the new address, I'll have moved by then.",
        "Where will the chairs be sent?",
        "88 Quayside Court",
    ),
    "zh": (
        "对了，我要搬家了，5 月 10 号以后寄到新地址：滨江区江南大道 588 号 1203。",
        "椅子就寄新地址吧，那时候我已经搬了。",
        "我的椅子会寄到哪里？",
        "江南大道 588 号",
    ),
}


@pytest.mark.parametrize("language", MOVED)
def test_what_was_replaced_is_shown_if_its_value_stands_nowhere_else(language: str) -> None:
    said, later, asked, value = MOVED[language]
    with Memory("sqlite://", model="gpt-4o", budget=Budget(max_tokens=1_200)) as memory:
        session = told(memory, said, "OK.", later, "OK.", language=language)
        session.user(asked)
        sent = "\n".join(message.text for message in session.context().messages)
        assert value in sent
