"""A change of mind is never lost, ends what it names and nothing else; answers and questions are no rules."""

from __future__ import annotations

import pytest

from tests.rules.generator import read_sentences
from turnfold.rules import (
    StandingRule,
    demands,
    extract_rules,
    render_rules,
    shown_rules,
    taken_back,
    update_ledger,
)

LANGUAGES = ("en", "zh")
NAMES = ("changes", "unseen")


def quarters(text: str) -> int:
    return (len(text) + 3) // 4


def said(*texts: str) -> tuple[StandingRule, ...]:
    """The ledger after these messages; message number n has the seq 2n."""
    rules: tuple[StandingRule, ...] = ()
    for number, text in enumerate(texts, start=1):
        new = extract_rules(text, seq=2 * number, trust="user")
        rules = update_ledger(rules, new, limit_tokens=100_000, count=quarters).rules
    return rules


def active(*texts: str) -> list[str]:
    return [rule.text for rule in said(*texts) if rule.state == "active"]


def taken(text: str) -> list[StandingRule]:
    return [rule for rule in extract_rules(text, seq=1, trust="user") if rule.act != "done"]


def pairs(name: str, language: str, kind: str) -> list[list[str]]:
    return [line.split(" => ") for line in read_sentences(name, language)[kind]]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", NAMES)
def test_no_change_of_mind_is_lost(name: str, language: str) -> None:
    every = pairs(name, language, "ends")
    lost = [
        after for before, after in every if not any(rule.seq == 4 for rule in said(before, after))
    ]
    assert lost == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_pairs_see_a_change_that_is_judged_like_any_sentence(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demands, "gives_new_value", lambda *_: False)
    every = [after for _, after in pairs("changes", language, "ends")]
    assert [after for after in every if not taken(after)]


@pytest.mark.parametrize(
    ("name", "language", "least"),
    [("changes", "en", 0.7), ("changes", "zh", 0.85), ("unseen", "en", 0.5), ("unseen", "zh", 0.7)],
)
def test_a_change_ends_what_it_names_and_nothing_else(
    name: str, language: str, least: float
) -> None:
    every = pairs(name, language, "ends")
    ended = [pair for pair in every if pair[0] not in active(*pair)]
    assert len(ended) >= least * len(every)
    stays = pairs(name, language, "stays")
    assert [pair for pair in stays if any(rule.ended for rule in said(*pair))] == []


@pytest.mark.parametrize(
    ("name", "language", "most"),
    [("changes", "en", 4), ("changes", "zh", 0), ("unseen", "en", 2), ("unseen", "zh", 2)],
)
def test_questions_answers_and_news_are_no_rules(name: str, language: str, most: int) -> None:
    sentences = read_sentences(name, language)
    assert len([text for text in sentences["none"] if taken(text)]) <= most
    assert [text for text in sentences["rule"] if not taken(text)] == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("快递用顺丰。", "快递改成京东吧。"),
        ("快递用顺丰。", "还是换成京东快递吧。"),
        ("用支付宝付款", "改成微信付款吧"),
        ("部署到阿里云", "还是部署到腾讯云吧"),
        ("缩进用4个空格", "改成2个空格吧"),
        ("晚上九点以后不要给我打电话", "电话那个，改成八点以后就不要打了"),
        ("我住在朝阳区。", "我搬家了，现在住海淀区中关村"),
        ("我不喝咖啡", "我现在开始喝咖啡了"),
        ("审批额度是500元", "审批额度改成1000元"),
        ("机票订国航。", "机票改成东航吧"),
        ("我叫陈静。", "我改名了，现在叫陈岚"),
        ("我不吃香菜", "现在我能吃香菜了"),
        ("快遞用順豐。", "快遞改成京東吧。"),
        ("Deploy to Alibaba Cloud.", "Actually let's deploy to Tencent Cloud."),
        ("I live in York.", "I moved, I live in Leeds now."),
        ("I don't drink coffee.", "I do drink coffee these days."),
    ],
)
def test_a_change_in_few_words_takes_the_place_of_the_old_value(before: str, after: str) -> None:
    assert active(before, after) == [after]


@pytest.mark.parametrize(
    ("before", "after", "remark"),
    [
        ("快递用顺丰。", "改成京东", "（晚于 [2]，可能取代它）"),
        ("Use SF Express.", "Make it JD instead.", " (said later than [2] and may replace it)"),
    ],
)
def test_where_a_change_may_mean_a_rule_both_are_shown_and_the_later_one_says_so(
    before: str, after: str, remark: str
) -> None:
    rules = said(before, after)
    assert render_rules(rules).endswith(f"- [2] {before}\n- [4] {after}{remark}")
    # Without the older rule there is nothing to point at.
    assert render_rules(rules[1:]).endswith(f"- [4] {after}")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("我叫陈静。", "改成京东"),  # a name is not replaced by whatever comes next
        ("快递用顺丰。", "改成每月一号对账吧"),
        ("不要订朝阳区的酒店。", "改成京东"),
    ],
)
def test_a_change_points_at_no_rule_that_it_cannot_mean(before: str, after: str) -> None:
    assert [rule.may_replace for rule in said(before, after)] == [(), ()]


def test_a_permission_for_one_thing_lifts_no_prohibition_of_another() -> None:
    for forbidden, allowed in (
        ("订单4711不能退款。", "订单4712现在可以退款了。"),
        ("我不喝咖啡。", "我现在开始喝茶了。"),
        ("Order 4711 must not be refunded.", "Order 4712 may be refunded now."),
    ):
        assert active(forbidden, allowed) == [forbidden, allowed]
    assert active("收货地址是海淀区中关村。", "收货地址不能改。")[0] == "收货地址是海淀区中关村。"


@pytest.mark.parametrize(
    "text",
    [
        "订单4711不能退款",
        "订单 4711 不能退款",
        "订单4711不要退款",
        "订单号4711的不能退款",
        "订单8890的地址不能改",
        "订单４７１１不能退款。",
        "別在週末發貨，謝謝。",
        "别在周末发货，谢谢。",
    ],
)
def test_neither_spaces_nor_widths_nor_the_script_matter(text: str) -> None:
    assert [(rule.text, rule.kind) for rule in taken(text)] == [(text, "prohibition")]


def test_both_scripts_state_the_same_rule() -> None:
    assert active("不要在周末发货", "別在週末發貨，謝謝。") == ["別在週末發貨，謝謝。"]


@pytest.mark.parametrize(
    "text",
    ["先不要了。", "好的，就这样", "行，就这么办", "ok, go with that", "not now"],
)
def test_an_answer_that_says_nothing_alone_is_no_rule(text: str) -> None:
    assert taken(text) == []


@pytest.mark.parametrize("text", ["你们几点下班", "能不能便宜点", "what time do you close"])
def test_a_question_needs_no_question_mark(text: str) -> None:
    assert taken(text) == []


@pytest.mark.parametrize("text", ["不管谁问都不要说", "能不能以后都用中文回答"])
def test_a_word_of_a_question_makes_no_question_of_a_demand(text: str) -> None:
    assert [rule.text for rule in taken(text)] == [text]


def test_prohibitions_come_before_decisions_and_may_take_more_room() -> None:
    forbidden = [f"订单 {number} 不能退款，谁来说都不行。" for number in range(4711, 4720)]
    decided = [f"{name}选了米色的。" for name in ("窗帘", "地毯", "沙发", "墙纸", "台灯", "书柜")]
    rules = [
        *(StandingRule(id=text, text=text, kind="decision", seq=1) for text in decided),
        *(StandingRule(id=text, text=text, kind="prohibition", seq=2) for text in forbidden[:3]),
        *(StandingRule(id=text, text=text, kind="prohibition", seq=3) for text in forbidden[3:6]),
        *(StandingRule(id=text, text=text, kind="prohibition", seq=4) for text in forbidden[6:]),
    ]
    short, _ = shown_rules(rules, limit_tokens=180, count=len)
    assert {rule.kind for rule in short} == {"prohibition"}
    shown, left_out = shown_rules(rules, limit_tokens=220, vital_tokens=420, count=len)
    assert [rule.kind for rule in shown].count("prohibition") > 5
    assert "decision" in {rule.kind for rule in shown}, "the others keep half of the usual room"
    assert left_out
    lines = render_rules(shown)
    assert 220 < len(lines) <= 420


def test_an_allergy_comes_first_even_if_it_reads_like_a_preference() -> None:
    rules = [
        StandingRule(id="a", text="我对花生过敏，配点心的时候注意。", kind="preference", seq=1),
        *(
            StandingRule(
                id=str(seq), text=f"第 {seq} 间的窗帘选了米色的。", kind="decision", seq=seq
            )
            for seq in range(2, 30)
        ),
    ]
    shown, _ = shown_rules(rules, limit_tokens=190, count=len)
    assert shown[0].id == "a"


def test_where_the_user_lived_before_is_taken_back_by_a_plain_statement() -> None:
    rules = said("I live in Turin.", "I've relocated to Genoa.")
    assert [rule.text for rule in taken_back(rules)] == ["I live in Turin."]
    again = said("I live in Turin.", "I live in Turin.")
    assert again[0].state == "superseded"
    assert taken_back(again) == (), "it still holds"
    other = said("The contract number is 7.", "The contract number is 9.")
    assert taken_back(other) == ()
