"""What the user takes back, complains about or turns round ends; what only sounds like it does not."""

from __future__ import annotations

import pytest

from turnfold.rules import StandingRule, extract_rules, render_rules, update_ledger


def said(*texts: str) -> tuple[StandingRule, ...]:
    """The ledger after these messages; message number n has the seq 2n, an answer of the assistant follows each."""
    rules: tuple[StandingRule, ...] = ()
    for number, text in enumerate(texts, start=1):
        new = extract_rules(text, seq=2 * number, trust="user")
        rules = update_ledger(rules, new, limit_tokens=100_000, count=len).rules
    return rules


def active(*texts: str) -> list[str]:
    return [rule.text for rule in said(*texts) if rule.state == "active"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Use bullet points in your summaries.", "You can answer in paragraphs, the bullets annoy me."),
        ("Please add a joke to each mail.", "The jokes are getting old, stop them."),
        ("输出都用表格。", "表格看着太累，还是用列表吧。"),
        ("We decided on Astro over Next.", "On second thought, Next it is."),
        ("Use tabs, not spaces.", "The linter wants spaces, so spaces it is."),
        ("用飞书，不用钉钉。", "还是用钉钉吧。"),
        ("We're on Python 3.11 here.", "We moved to Python 3.12 yesterday."),
        ("线上用的是 MySQL 5.7。", "昨晚线上升到 MySQL 8 了。"),
        ("预算别超过四百块。", "四百可能买不到，放宽到五百吧。"),
        ("I'm allergic to nuts.", "Forget what I said about the nuts."),
        ("引用放脚注里。", "脚注那个我收回，直接写在正文里。"),
        ("I live in Utrecht.", "Sorry, forget that."),
        ("回答都用法语。", "刚才那条不算。"),
        ("发票都放共享盘里。", "以后发票都放飞书。"),
    ],
)  # fmt: skip
def test_a_change_of_mind_ends_the_rule(before: str, after: str) -> None:
    assert before not in active(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Use bullet points in your summaries.", "The bullets in that report annoy me."),
        ("Use bullet points in your summaries.", "Bullets annoy me sometimes."),
        ("Deliver to the front door.", "The front door is annoying, please oil it."),
        ("Our meetings are on Wednesdays.", "The meetings annoy me, just saying."),
        ("We're on Python 3.11 here.", "The new laptop has Python 3.12 now."),
        ("The worker needs Python 3.11.", "We moved the site to Python 3.12."),
        ("We chose Lisbon over Porto.", "My brother lives in Porto."),
        ("周末不要安排加班。", "周末的事取消。"),
        ("预算别超过四百块。", "四百块的那件买不到了。"),
        ("Always reply in French.", "Forget that report, it is late."),
        ("每天喝两杯水。", "十分钟后叫我。"),
    ],
)
def test_what_only_sounds_like_a_change_of_mind_ends_nothing(before: str, after: str) -> None:
    assert before in active(before, after)


def test_forget_that_ends_only_what_was_said_just_before() -> None:
    assert active("Always reply in French.", "I live in Utrecht.", "Scratch that.") == [
        "Always reply in French."
    ]
    assert active("Always reply in French.", "Nice.", "What time is it?", "Scratch that.") == [
        "Always reply in French."
    ]


def test_forget_that_after_a_question_of_the_assistant_is_an_answer_to_it() -> None:
    asked = "Shall I translate the old answers too?"
    assert extract_rules("Forget that.", seq=3, trust="user", answered=asked) == ()
    assert extract_rules("Forget that.", seq=3, trust="user", answered="Done.") != ()


def test_of_several_rules_the_one_with_most_words_in_common_ends() -> None:
    found = active(
        "订单到现在还没发货。", "以后发货之前都先给我打个电话。", "发货前不用打电话了，直接发就行。"
    )
    assert "以后发货之前都先给我打个电话。" not in found
    assert "订单到现在还没发货。" in found


def test_what_stays_as_it_was_is_not_said_twice() -> None:
    rule = "我一般都要开增值税专用发票。"
    assert active(rule, "发票还是照旧开。") == [rule]


def test_an_exception_is_shown_as_one() -> None:
    shown = render_rules(said("Never push to main.", "For this one hotfix you can push to main."))
    assert shown.endswith("push to main. (an exception; [2] still holds otherwise)")
    shown = render_rules(said("不要给客户打电话。", "这次可以给客户打电话。"))
    assert shown.endswith("（仅此一次的例外，[2] 平时仍然有效）")


def test_a_permission_is_not_linked_by_the_reason_beside_it() -> None:
    rules = said("Don't leave parcels with the neighbour.", "You can call me, I'm on leave.")
    assert [rule.may_replace for rule in rules] == [(), ()]


def test_another_currency_does_not_end_the_amount() -> None:
    before, after = (
        "Budget is about 3000 euros, all in.",
        "Always give me prices in pounds, not euros.",
    )
    assert active(before, after) == [before, after]
    assert said(before, after)[1].may_replace == (said(before)[0].id,)


def test_a_free_day_gives_nothing_another_day() -> None:
    before = "Swimming moved to Thursdays."
    rules = said(before, "Actually Sunday mornings are free now, we stopped going.")
    assert [(rule.state, rule.may_replace) for rule in rules] == [("active", ())] * 2


def test_what_only_takes_back_is_not_shown_itself() -> None:
    found = active(
        "I'm trying to cut down on red meat.",
        "Forget what I said about red meat, life's too short.",
    )
    assert found == []


def test_a_permission_with_an_amount_ends_a_limit() -> None:
    assert "总字数控制在两千字。" not in active(
        "总字数控制在两千字。", "两千字太短了，写到三千也没关系。"
    )
