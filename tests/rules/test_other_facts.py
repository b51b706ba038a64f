"""A rule ends only for what the new sentence changes: no address, number, allergy or other ban is lost with it."""

from __future__ import annotations

import pytest

from turnfold import Budget, Memory
from turnfold.records import Message
from turnfold.rules.other_facts import bans_another_thing, has_other_fact, only_refers

STAYS = [
    (
        "收货地址是张江路 88 号，手机 13800001234。",
        "地址改一下，新地址是漕溪北路 2600 弄。",
        "13800001234",
    ),
    ("新地址是漕溪北路 2600 弄。", "11 月 25 号以后的都寄新地址。", "2600"),
    (
        "快递不要放门卫，一定要送到家门口。",
        "对了，快递不要用中通了，太慢，都用顺丰。",
        "不要放门卫",
    ),
    ("快递不要放驿站。", "快递不要发圆通了，发京东。", "不要放驿站"),
    ("我姓陈，过敏体质，不能吃海鲜。", "算了，海鲜也可以吃一点。", "过敏体质"),
    (
        "My address is 88 Hill Road, phone 555-0101.",
        "Change the address: the new one is 26 Oak Lane.",
        "555-0101",
    ),
    (
        "The new address is 26 Oak Lane.",
        "Everything after November 25 goes to the new address.",
        "26 Oak Lane",
    ),
    ("My phone number is 555-0101.", "From Monday on call me on that number.", "555-0101"),
]
"""What was said, what was said later, and words of the first that must still be among the rules."""
ENDS = [
    ("我的地址是张江路 88 号。", "我的地址改成漕溪北路 2600 弄。", "张江路"),
    ("手机号是 13800001234。", "手机号换成 13900005678 了。", "13800001234"),
    ("以后都发中通。", "以后都发顺丰，不发中通了。", "都发中通"),
    ("不要在九点前打电话。", "还是不要在十点前打电话吧。", "九点"),
    ("My address is 88 Hill Road.", "My address is now 26 Oak Lane.", "88 Hill"),
    ("My phone number is 555-0101.", "My new phone number is 555-0202.", "555-0101"),
]
"""The same with words that must not be among the rules any more."""


def _rules(*said: str) -> list[str]:
    memory = Memory(budget=Budget(max_tokens=4_000))
    session = memory.session("s")
    for text in said:
        session.user(text)
        session.add(Message("assistant", "OK."))
    return [rule.text for rule in session.rules()]


@pytest.mark.parametrize(("before", "later", "words"), STAYS)
def test_what_a_sentence_does_not_touch_stays(before: str, later: str, words: str) -> None:
    found = _rules(before, later)
    assert any(words in text for text in found), found


@pytest.mark.parametrize(("before", "later", "words"), ENDS)
def test_another_value_still_ends_the_rule(before: str, later: str, words: str) -> None:
    found = _rules(before, later)
    assert not any(words in text for text in found), found


@pytest.mark.parametrize(
    ("before", "later"),
    [
        ("我姓陈，过敏体质，不能吃海鲜。", "算了，海鲜也可以吃一点。"),
        ("麦片来三袋。", "算了，两袋吧。"),
        ("Three bags of oats, please.", "Actually, make it two."),
    ],
)
def test_a_rule_that_may_be_changed_is_linked_and_the_model_is_told(
    before: str, later: str
) -> None:
    memory = Memory(budget=Budget(max_tokens=4_000))
    session = memory.session("s")
    session.user(before)
    session.assistant("OK.")
    session.user(later)
    session.assistant("OK.")
    old, new = session.rules()
    assert new.may_replace == (old.id,)
    session.fold(keep_turns=0)
    session.user("?")
    shown = "\n".join(message.text for message in session.context().messages[1:])
    assert later in shown
    if before in shown:
        assert "may replace it)" in shown or "可能取代它）" in shown


def test_bans_of_different_things() -> None:
    assert bans_another_thing("不要发圆通了，发京东", "快递不要放驿站")
    assert not bans_another_thing("不要用空格，用制表符", "不要用制表符，用空格")
    assert not bans_another_thing("don't use spaces, use tabs", "don't use tabs, use spaces")
    assert not bans_another_thing("don't call before ten", "don't call before nine")
    assert not bans_another_thing("use tabs", "don't use tabs")


def test_facts_of_other_clauses() -> None:
    assert has_other_fact("海鲜可以吃", "我姓陈，不能吃海鲜")
    assert not has_other_fact("海鲜可以吃", "不能吃海鲜，太腥")
    assert not has_other_fact("I like tea", "my name is Chen, I can't eat fish")
    assert has_other_fact("I can eat a little seafood", "I have an allergy, I can't eat seafood")
    assert only_refers("send it to my address", "my address is 26 Oak Lane")
    assert not only_refers("my address is 88 Hill Road", "my address is 26 Oak Lane")
    assert not only_refers("don't use that address", "my address is 26 Oak Lane")


@pytest.mark.parametrize(
    "said",
    [
        "她是对芒果过敏。",
        "我女儿对牛奶没事，她是对芒果过敏，果干礼盒里有芒果吗？",
        "She's allergic to mango.",
        "It's mango she is allergic to.",
        "He has a peanut allergy.",
    ],
)
def test_an_allergy_of_somebody_named_before_is_a_fact(said: str) -> None:
    assert _rules(said) == [said]


@pytest.mark.parametrize(
    "said", ["芒果会引起过敏吗？", "Is she allergic?", "她朋友说猫会让人过敏。"]
)
def test_a_question_about_allergies_is_none(said: str) -> None:
    assert _rules(said) == []
