"""A short reply is recalled with what it replies to, and never with the system message before it."""

from __future__ import annotations

import pytest

from turnfold import Budget, Memory


@pytest.mark.parametrize(
    ("prompt", "first", "asked"),
    [
        (
            "You sell tea and answer in one sentence.",
            "Darjeeling please",
            "Which Darjeeling do I drink?",
        ),
        ("你是茶叶店的客服，只用一句话回答。", "要龙井茶", "我要的龙井茶是哪种？"),
    ],
    ids=["en", "zh"],
)
def test_no_system_message_is_recalled_with_a_short_one(
    prompt: str, first: str, asked: str
) -> None:
    session = Memory(model="gpt-4o", budget=Budget(max_tokens=2_000)).session("s")
    session.system(prompt)
    session.user(first)
    session.assistant("Noted. 记下了。")
    for number in range(40):
        session.user(f"Day {number}: it rained on the hills. 第 {number} 天，山上下雨。")
        session.assistant("I see. 知道了。")
    found = session.recall(asked, tokens=300)
    assert first in [each.message.text for each in found]
    assert "system" not in [each.message.role for each in found]


def test_a_short_reply_is_recalled_with_its_question() -> None:
    session = Memory(model="gpt-4o", budget=Budget(max_tokens=2_000)).session("s")
    session.assistant("Which tea shall I send to your mother?")
    session.user("Darjeeling please")
    for number in range(40):
        session.assistant("I see.")
        session.user(f"Day {number}: it rained on the hills and nobody came.")
    found = [each.message.text for each in session.recall("Darjeeling", tokens=300)]
    assert found[:2] == ["Which tea shall I send to your mother?", "Darjeeling please"]


@pytest.mark.parametrize(
    ("asked", "answer", "query"),
    [
        ("你们有没有会员积分什么的", "有的，满 10,000 分升金卡。", "积分怎么算？"),
        ("what about the loyalty points", "10,000 points make you a gold member.", "Loyalty?"),
        ("Do you have loyalty points", "10,000 of them make you a gold member.", "Loyalty?"),
    ],
)
def test_a_question_without_its_mark_is_recalled_with_its_answer(
    asked: str, answer: str, query: str
) -> None:
    session = Memory(model="gpt-4o", budget=Budget(max_tokens=2_000)).session("s")
    session.user(asked)
    session.assistant(answer)
    for number in range(40):
        session.user(f"Day {number}: it rained on the hills. 第 {number} 天，山上下雨。")
        session.assistant("I see. 知道了。")
    for tokens in range(30, 120, 10):
        shown = [each.message.text for each in session.recall(query, tokens=tokens)]
        assert asked not in shown or answer in shown
