"""A later sentence undoes an earlier one by its form: it permits, corrects, replaces, drops or completes it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.rules.generator import half_of, read_pairs
from turnfold.rules import (
    StandingRule,
    corrections,
    ended_rules,
    extract_rules,
    ledger,
    lifted_prohibitions,
    rule_comparison,
    task_completion,
    update_ledger,
)
from turnfold.rules.lifted_prohibitions import lifts
from turnfold.rules.replaced_values import takes_the_place
from turnfold.rules.reversals import alters

LANGUAGES = ("en", "zh")


def quarters(text: str) -> int:
    return (len(text) + 3) // 4


def said(*texts: str) -> tuple[StandingRule, ...]:
    """The ledger after these messages; message number n has the seq 2n."""
    rules: tuple[StandingRule, ...] = ()
    for number, text in enumerate(texts, start=1):
        new = extract_rules(text, seq=2 * number, trust="user")
        rules = update_ledger(rules, new, limit_tokens=100_000, count=quarters).rules
    return rules


def is_ended(before: str, after: str) -> bool:
    old = [rule for rule in said(before, after) if rule.seq == 2]
    return bool(old) and all(rule.state != "active" for rule in old)


def is_marked(before: str, after: str) -> bool:
    rules = said(before, after)
    marked = {each for rule in rules for each in rule.may_replace}
    return any(rule.seq == 2 and rule.state == "active" and rule.id in marked for rule in rules)


def ended_pairs(name: str, language: str, kind: str, half: str = "") -> tuple[list[str], int]:
    pairs = [
        pair
        for pair in read_pairs(name, language, kind)
        if not half or half_of(" => ".join(pair)) == half
    ]
    found = [
        before
        for before, after in pairs
        if any(rule.seq == 2 and rule.ended for rule in said(before, after))
    ]
    return found, len(pairs)


@pytest.mark.parametrize(
    ("name", "language", "half", "least", "most"),
    [
        ("minds", "en", "develop", 0.95, 0),
        ("minds", "zh", "develop", 0.9, 0),
        ("minds", "en", "report", 0.8, 0),
        ("minds", "zh", "report", 0.7, 1),
        ("near", "en", "", 0.9, 0),
        ("near", "zh", "", 0.85, 0),
        ("later", "en", "", 0.8, 0),
        ("turns", "en", "develop", 0.6, 0),
        ("turns", "en", "report", 0.4, 0),
        ("turns", "zh", "develop", 0.7, 0),
        ("turns", "zh", "report", 0.4, 0),
        ("later", "zh", "", 0.75, 0),  # two first sentences of 24 are taken for no rule at all
    ],
)
def test_everyday_changes_end_the_old_rule_and_no_other(
    name: str, language: str, half: str, least: float, most: int
) -> None:
    changed, every = ended_pairs(name, language, "ends", half)
    assert len(changed) >= least * every
    wrong, every = ended_pairs(name, language, "stays", half)
    assert every > 20
    assert len(wrong) <= most, wrong


CLASSES: dict[str, list[tuple[str, str]]] = {
    "lifts": [
        ("不要香菜。", "香菜可以放。"),
        ("不要自驾。", "算了，还是自驾吧。"),
        ("日志里不许打印用户手机号。", "手机号脱敏后可以打，保留后四位。"),
        (
            "Never call me before 10 am.",
            "Actually you can call me before 10 am, that's fine now.",
        ),
        ("Don't hire a band.", "Let's hire a band after all."),
    ],
    "corrects": [
        (
            "发票抬头开“上海沐光科技有限公司”。",
            "抬头错了，应该是“上海沐光信息科技有限公司”。",
        ),
        ("The contract number is HT-2031.", "I got the contract number wrong, it's HT-2013."),
        ("The company is called Hartwell Ltd.", "The company name should be Hartwell Trading Ltd."),
    ],
    "takes_the_place": [
        ("从虹桥出发。", "虹桥没直飞，从浦东走吧。"),
        ("租车就用一嗨的。", "一嗨那边没车了，换神州。"),
        ("消息队列选 RabbitMQ。", "RabbitMQ 运维不给批，只能用 Kafka。"),
        ("书房打算做榻榻米。", "老公不同意榻榻米，书房就放张沙发床好了。"),
        ("We're staying at the Ibis.", "The Ibis is full, we're staying at the Novotel."),
        ("Dana will do the design.", "Dana is off sick, Priya takes over."),
    ],
    "gives_anew": [
        ("预算 35 万。", "预算我跟老公商量了一下，可以放宽到 40 万。"),
        ("人均报名费 5000 元要审批。", "报名费的线改成 3000。"),
        ("提测时间定在 6 月 20 号。", "提测要提前，6 月 13 号。"),
        ("每天汇总一次发我。", "汇总改成每周一早上发。"),
        ("Articles should be 800 words.", "Articles can be up to 1200 words now."),
    ],
    "drops": [
        ("装中央空调。", "中央空调层高不够，不装中央空调了。"),
        ("新闻早报每天七点推。", "早报别推了，没空看。"),
    ],
    "releases": [("酒店得有电梯。", "电梯无所谓了。")],
    "completes": [
        ("待办：把支付回调的幂等补上。", "幂等那个我写完了，已经合了。"),
        ("提醒我周三去看砖。", "周三看砖去过了，选好了。"),
        ("Todo: send the NDA.", "Marco got the NDA."),
        (
            "Remind me to ask about the wheelchair ramp.",
            "I asked about the wheelchair ramp, they have one.",
        ),
    ],
    "takes_all_back": [("Never mail Bob.", "Forget all my rules.")],
}


def no_one(*_: object, **__: object) -> bool:
    return False


@pytest.mark.parametrize("form", CLASSES)
def test_each_form_ends_what_it_undoes(form: str) -> None:
    assert [pair for pair in CLASSES[form] if not is_ended(*pair)] == []


@pytest.mark.parametrize("form", CLASSES)
def test_the_pairs_see_a_ledger_that_does_not_know_the_form(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (corrections, ended_rules, ledger, rule_comparison):
        monkeypatch.setattr(module, form, no_one, raising=False)
    assert [pair for pair in CLASSES[form] if not is_ended(*pair)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("不喝红酒，别买红酒。", "啤酒可以买。"),
        ("别给我打电话。", "给我妈打电话可以。"),
        ("数据库用 MySQL。", "MySQL 的连接数不够，加到 200。"),
        ("每周一例会。", "这周一的例会取消，下周照常。"),
        ("会议室订 301。", "周四的会议室订 505。"),
        ("提醒我周五交房租。", "水费交过了。"),
        ("每晚九点前把第二天的安排发我。", "第一天落地太晚，不安排活动。"),
        ("No orders in the evening.", "You can call me in the evening."),
        ("Use MySQL for storage.", "MySQL has too few connections, use 200."),
        ("The driver is Bill.", "Bill's car is too small, book another one for the luggage."),
        ("We have a team lunch every Monday.", "This Monday's lunch is cancelled."),
        ("Never deploy on Fridays.", "You can deploy the docs on Fridays."),
        ("Remind me to pay the rent on Friday.", "I paid the water bill."),
    ],
)
def test_the_same_forms_about_another_thing_end_nothing(before: str, after: str) -> None:
    assert not any(rule.ended for rule in said(before, after))


def test_the_pairs_see_forms_that_ignore_what_they_name(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: Callable[..., set[str]] = lambda *_: set()  # noqa: E731
    monkeypatch.setattr(lifted_prohibitions, "only_in_first", nothing)
    assert lifts("给我妈打电话可以。", "别给我打电话。")
    monkeypatch.undo()
    assert not lifts("给我妈打电话可以。", "别给我打电话。")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("注释和提交信息都用中文写。", "提交信息改用英文。"),
        ("缓存咱们用 Redis，过期 10 分钟。", "Redis 过期时间 10 分钟太长了，调成 90 秒。"),
        ("我要黑色的，XL 码。", "颜色换白色，码数不变。"),
    ],
)
def test_what_changes_a_half_ends_nothing_and_is_marked(
    before: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not any(rule.ended for rule in said(before, after))
    assert is_marked(before, after)
    monkeypatch.setattr(ended_rules, "touches_a_part", no_one)
    assert any(rule.ended for rule in said(before, after)) or not is_marked(before, after)


def test_where_it_is_not_sure_the_later_one_points_at_the_earlier_one() -> None:
    for pair in (
        ("送到公司，张江高科 5 号楼。", "还是送家里吧，龙阳路 88 弄 3 号。"),
        ("爸妈两位买商务舱。", "爸妈也坐经济舱吧，省点钱。"),
        (
            "The weekend of 16 and 17 May looks good.",
            "So the festival is on 23 and 24 May now.",
        ),
    ):
        assert not is_ended(*pair)
        assert is_marked(*pair)


def test_a_clause_that_gives_a_side_of_what_ends_goes_with_it() -> None:
    assert is_ended("监理请了老周，电话 138-0172-6655。", "监理换成小秦，电话 139-1688-2047。")
    assert is_ended("6 月 12 号走，18 号回。", "日期往后推一周，19 号走，25 号回。")


def test_what_lifts_a_prohibition_is_no_prohibition() -> None:
    for before, after in CLASSES["lifts"]:
        [*_, last] = said(before, after)
        assert (last.act, last.negative, last.kind == "prohibition") == ("permit", False, False)


def test_forgetting_all_rules_leaves_facts_and_tasks() -> None:
    kept = ["I am allergic to nuts.", "Remind me to call the bank."]
    rules = said("Never mail Bob.", "Always use tabs.", *kept, "Forget all my rules.")
    assert [rule.text for rule in rules if rule.state == "active"] == kept
    assert is_ended("不要放葱。", "之前的规则全部作废。")


@pytest.mark.parametrize(
    "piece", ["可以", "不要", "了，", "a, ", "is full, ", "8 ", "all my ", "换", "和都"]
)
def test_repeated_pieces_are_looked_at_up_to_a_length(piece: str) -> None:
    text = piece * 20_000
    assert not alters(text)
    assert not takes_the_place(text, text)
    assert not lifts(text, "不要香菜。")


@pytest.mark.parametrize(
    ("limit", "report"),
    [
        ("测试覆盖率至少 80%。", "目前覆盖率 73%，还差一点。"),
        ("库存最少保留 50 件。", "现在库存 32 件。"),
        ("拆改总共控制在6,000以内。", "拆改2,750，水电18,650，设计费4,400，瓷砖5,838。"),
        ("油烟机风量要大，至少22立方。", "我今天去看了油烟机，方太的24立方，6,990"),
        ("最迟6月20号要完工。", "大门换了电子锁，临时密码是4826#，完工要记得作废。"),
        ("Test coverage must be at least 80 %.", "Coverage is at 73 % right now, not quite there."),
        ("Always keep at least 50 items in stock.", "We have 32 items in stock now."),
        ("Spend 500 a day at most.", "Yesterday we spent 620 of it on one day."),
    ],
)
def test_a_report_of_what_is_so_ends_no_limit(limit: str, report: str) -> None:
    old = extract_rules(limit, seq=1, trust="user")
    new = extract_rules(report, seq=9, trust="user")
    assert old
    change = update_ledger(old, new, limit_tokens=4_000, count=len)
    assert [rule.state for rule in change.rules if rule.seq == 1] == ["active"] * len(old)
    assert not any(rule.may_replace for rule in change.rules)


def test_what_follows_an_amount_of_another_thing_is_about_that_thing() -> None:
    old = extract_rules(
        "那道墙周岚问过了，不是承重墙，可以拆，拆除报价1,850含税。", seq=1, trust="user"
    )
    new = extract_rules("周岚说柜子要加到26米，多2,400。", seq=9, trust="user")
    change = update_ledger(old, new, limit_tokens=4_000, count=len)
    assert [rule.state for rule in change.rules if rule.seq == 1] == ["active"] * len(old)


RESTATED: dict[str, list[tuple[str, str]]] = {
    "another value after a reason": [
        ("The wedding is at St Mary's.", "St Mary's double-booked us, the wedding is at the town hall."),
        ("婚礼在锦江办。", "锦江撞期了，婚礼在希尔顿办。"),
        ("测试用 pytest 写。", "组里投票了，测试用 unittest 写。"),
    ],
    "another value from a time on": [("孩子八点睡觉。", "下周起孩子七点半睡觉。")],
    "what fails is the value": [
        ("The paint for the nursery is yellow.", "My wife hates the yellow, the nursery is going to be mint."),
        ("进度用邮件发。", "邮件老丢，进度发到飞书。"),
    ],
    "the opposite": [
        ("布朗尼里别放坚果。", "问过了没人过敏，布朗尼里放坚果吧。"),
        ("我对青霉素过敏。", "重新查过了，我对青霉素不过敏。"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("form", RESTATED)
def test_a_sentence_said_again_with_another_value_ends_the_first(form: str) -> None:
    assert [pair for pair in RESTATED[form] if not is_ended(*pair)] == []


@pytest.mark.parametrize("form", RESTATED)
def test_those_pairs_see_a_ledger_that_does_not_compare_them(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended_rules, "restates", no_one)
    assert [pair for pair in RESTATED[form] if not is_ended(*pair)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("The weekly report goes to Mr Wang.", "Mr Wang is travelling, the meeting moves to Friday."),
        ("Never book a seat by the door.", "Tom got sick, book a seat by the window for him too."),
        ("Print 200 posters.", "200 flyers are not enough, print 500 flyers."),
        ("I must water the plants.", "The plants are not watered yet."),
        ("客厅刷米白。", "孩子长大了，卧室刷浅蓝。"),
        ("晚饭订川菜馆。", "老王来了，午饭订粤菜馆。"),
    ],
)  # fmt: skip
def test_the_same_frame_for_another_thing_ends_nothing(before: str, after: str) -> None:
    assert not any(rule.seq == 2 and rule.ended for rule in said(before, after))


@pytest.mark.parametrize(("language", "least"), [("en", 0.85), ("zh", 0.95)])
def test_a_report_closes_the_task_it_names_and_no_question_or_plan_does(
    language: str, least: float
) -> None:
    closed, every = ended_pairs("closed", language, "ends")
    assert len(closed) >= least * every
    assert ended_pairs("closed", language, "stays") == ([], 16)


@pytest.mark.parametrize(("name", "language"), [("_NOT_DONE", "en"), ("_OF_OTHERS", "zh")])
def test_the_samples_see_a_task_that_is_closed_too_early(
    name: str, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_completion, name, re.compile(r"(?!)"))
    assert ended_pairs("closed", language, "stays")[0]
