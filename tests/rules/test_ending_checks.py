"""A rule ends only by a sentence that is about it: not by a question, nor by a correction of another request."""

from __future__ import annotations

import pytest

from turnfold.rules import StandingRule, confirming_words, extract_rules, ledger, update_ledger

KEPT = [
    ("Never restart prod on your own", "sorry, I meant restart staging, not prod"),
    ("Never deploy without asking me", "I mean ask Tom, not deploy"),
    ("Don't delete files without asking", "I said archive it, not delete"),
    ("Don't deploy before I say ok.", "I mean deploy to staging, not prod"),
    ("Always write tests first", "no I mean a smoke test, not unit tests"),
    (
        "Yes but don't book or sign anything before I've said ok, that goes for everything",
        "Engel for the family, block 12 rooms. I mean ask them, not book",
    ),
    ("We use Postgres.", "remind me what we said about Postgres"),
    ("We use Postgres.", "remind me why we use Postgres"),
    ("ok forget Villa Rosa, we take the Old Mill", "Remind me why we dropped Villa Rosa"),
    ("Always ask before you send an email.", "I meant send it to Ana, not to Tom"),
    ("没有我同意不要下单。", "我是说问一下价格，不是下单"),
    ("不要直接重启生产环境。", "不对，我说的是重启测试环境，不是生产环境"),
    ("猫粮也改到上海", "猫粮能换成三文鱼味吗"),
    ("我们用 Postgres。", "再说一下我们为什么用 Postgres"),
    ("收货地址改到杭州市西湖区文三路 188 号 3 幢 502。", "地址门牌写错了，是 3 幢 602，不是 502。"),
    ("No meetings on Fridays, please.", "Cancel Friday's meeting with Ann."),
    ("No pork at our house, we keep kosher.", "Forget the pork roast recipe, I was joking."),
    ("Nobody may know about Leandro until chapter 31.", "I'm on chapter 12 now."),
    ("Please never quote anything after page 200, it's confidential.", "I'm on page 57 now."),
    ("Never release anything before version 3.", "We are on version 2 now."),
    ("The hall is 3 metres high.", "It's 2 metres high, the attic I mean."),
    ("数学课周三晚上七点", "英语课改到八点吧"),
    ("数学老师周三来", "英语老师改到周五来"),
    ("周一周三练腿，周五练背", "周五改成练胸"),
    ("我的邮箱是 a@x.com，小李的是 b@x.com", "小李的邮箱换成 c@x.com 了"),
    (
        "值班是我和小赵，我的电话 13800001234，小赵的是 13900005678",
        "换老钱值班，老钱电话 13700009999",
    ),
    ("Ship it to 12 Mill Lane, flat 502.", "The flat number is wrong, it is 602, not 502."),
]
ENDED = [
    ("Never deploy on Fridays.", "You can deploy on Fridays from now on."),
    ("Don't use emojis.", "Emojis are fine again."),
    ("好，就 23 号。", "等一下，23 号我父亲要去医院，还是 26 号吧。"),
    ("那就 12:30 见。", "12:30 不行，改成 13:00。"),
    ("不要用表情符号。", "表情符号可以用了。"),
    ("发票抬头写周建国。", "发票抬头改一下，改成南京恒远贸易有限公司。"),
]
LINKED = [
    ("so we move the wedding to June 21", "Saturday the 19th then, final answer."),
    ("the date is Saturday June 14", "so we move the wedding to June 21"),
    ("收货地址改到杭州市西湖区文三路 188 号 3 幢 502。", "地址门牌写错了，是 3 幢 602，不是 502。"),
]


def ledger_of(*messages: tuple[str, str]) -> tuple[StandingRule, ...]:
    rules: tuple[StandingRule, ...] = ()
    for number, (text, reply) in enumerate(messages):
        new = extract_rules(
            text, seq=2 + 8 * number, trust="user", confirmation=confirming_words(reply)
        )
        rules = update_ledger(rules, new, limit_tokens=10_000, count=len).rules
    return rules


def first_rules(earlier: str, later: str, reply: str = "") -> list[StandingRule]:
    return [rule for rule in ledger_of((earlier, ""), (later, reply)) if rule.seq == 2]


@pytest.mark.parametrize(("earlier", "later"), KEPT)
def test_a_sentence_about_something_else_ends_nothing(earlier: str, later: str) -> None:
    before = first_rules(earlier, "Thanks.")
    assert before
    assert [rule.state for rule in first_rules(earlier, later)] == ["active"] * len(before)


@pytest.mark.parametrize(("earlier", "later"), ENDED)
def test_a_permission_and_a_new_value_end_the_rule(earlier: str, later: str) -> None:
    assert {rule.state for rule in first_rules(earlier, later)} <= {"superseded", "dropped"}


@pytest.mark.parametrize(("earlier", "later"), LINKED)
def test_where_it_is_not_certain_the_later_rule_says_what_it_may_replace(
    earlier: str, later: str
) -> None:
    rules = ledger_of((earlier, ""), (later, ""))
    linked = {each for rule in rules if rule.seq == 10 for each in rule.may_replace}
    assert linked & {rule.id for rule in rules if rule.seq == 2}


def test_without_the_checks_they_would_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "may_end", lambda *_: True)
    ended = [pair for pair in KEPT if any(rule.state != "active" for rule in first_rules(*pair))]
    assert len(ended) >= 5


@pytest.mark.parametrize(
    ("said", "reply"),
    [
        ("猫粮能换成三文鱼味吗？", "好的，已改为三文鱼味猫粮。"),
        ("Can we move the visit to Friday?", "I've moved the visit to Friday."),
    ],
)
def test_a_question_for_a_change_counts_once_it_is_confirmed(said: str, reply: str) -> None:
    assert ledger_of((said, "")) == ()
    assert [rule.text for rule in ledger_of((said, reply))] == [said]


@pytest.mark.parametrize(
    "said",
    [
        "地板用什么好，客厅",
        "睡眠只有六小时，怎么办",
        "书房我老公要水泥漆，甲醛没事吧",
        "What are three titles you'd consider instead?",
    ],
)
def test_what_only_asks_lays_nothing_down(said: str) -> None:
    assert ledger_of((said, "")) == ()


@pytest.mark.parametrize(
    "said",
    ["Could you switch to metric units from now on?", "能不能换成英文回答？", "你能改成用表格吗？"],
)
def test_a_question_about_how_to_answer_is_a_demand(said: str) -> None:
    assert ledger_of((said, "")) != ()
