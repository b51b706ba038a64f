"""A rule ends only by a later sentence about the same thing; what is no rule is not kept, and what matters is shown."""

from __future__ import annotations

import pytest

from tests.rules.generator import read_sentences
from turnfold.rules import (
    StandingRule,
    corrections,
    extract_rules,
    rule_comparison,
    shown_rules,
    update_ledger,
)
from turnfold.rules.display import rank_rules
from turnfold.rules.subjects import is_fragment, subject_of

LANGUAGES = ("en", "zh")
NAMES = ("apart", "blind")


def quarters(text: str) -> int:
    return (len(text) + 3) // 4


def said(*texts: str, apart: int = 2) -> tuple[StandingRule, ...]:
    """The ledger after these messages, with other entries between them."""
    rules: tuple[StandingRule, ...] = ()
    for number, text in enumerate(texts, start=1):
        new = extract_rules(text, seq=number * apart, trust="user")
        rules = update_ledger(rules, new, limit_tokens=100_000, count=quarters).rules
    return rules


def active(*texts: str, apart: int = 2) -> list[str]:
    return [rule.text for rule in said(*texts, apart=apart) if rule.state == "active"]


def ended(name: str, language: str, kind: str) -> tuple[list[str], int]:
    """The pairs of a kind whose first sentence is ended by the second one, and the number of pairs."""
    pairs = read_sentences(name, language)[kind]
    found = [
        pair
        for pair in pairs
        if any(rule.seq == 2 and rule.state != "active" for rule in said(*pair.split(" => ")))
    ]
    return found, len(pairs)


def taken(text: str) -> list[StandingRule]:
    return [rule for rule in extract_rules(text, seq=1, trust="user") if rule.act != "done"]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", NAMES)
def test_no_rule_is_ended_by_a_sentence_about_another_thing(name: str, language: str) -> None:
    assert ended(name, language, "stays")[0] == []
    changed, every = ended(name, language, "ends")
    assert len(changed) >= 0.85 * every


def test_the_pairs_see_a_ledger_that_ignores_qualifiers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corrections, "own_topic", lambda *_: set[str]())
    monkeypatch.setattr(rule_comparison, "own_topic", lambda *_: set[str]())
    assert all(len(ended("apart", language, "stays")[0]) > 1 for language in LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", NAMES)
def test_requests_reports_and_ids_are_no_rules(name: str, language: str) -> None:
    sentences = read_sentences(name, language)
    assert [text for text in sentences["none"] if taken(text)] == []
    wanted = [line.rsplit(" => ", 1) for line in sentences["rule"]]
    assert [
        text for text, part in wanted if not any(part in rule.text for rule in taken(text))
    ] == []


@pytest.mark.parametrize(
    ("rule", "change", "other"),
    [
        ("Let's have the viewing on Monday.", "Make it Wednesday instead.", "I live in Leeds."),
        ("看房定在周一。", "改到周三。", "我住在南京。"),
        ("Keep the copies for 7 days.", "Make it 14 days instead of 7.", "I live in Leeds."),
    ],
)
def test_a_change_without_a_subject_reaches_only_what_was_said_last(
    rule: str, change: str, other: str
) -> None:
    assert active(rule, change) == [change]
    assert active(rule, other, change) == [other, change]
    assert rule in active(rule, change, apart=100)
    assert rule in active(rule, f"{other} {change}")


@pytest.mark.parametrize(
    ("rule", "later"),
    [
        ("We only ship on Tuesdays and Thursdays.", "Don't let me forget the dentist on the 12th."),
        ("The main package is in src/app.", "Never push directly to main."),
        ("数据库密码不要写进日志。", "日志级别改成 DEBUG。"),
    ],
)
def test_words_of_change_with_another_object_end_nothing(rule: str, later: str) -> None:
    assert active(rule, later) == [rule, later]


def test_a_change_without_a_subject_ends_neither_of_two_candidates() -> None:
    both = ["The viewing is on Monday.", "The signing is on Thursday.", "Make it Wednesday."]
    assert active(*both) == both
    both = ["看房定在周一。", "签约定在周四。", "改到周三。"]
    assert active(*both) == both


def test_what_elaborates_a_decision_is_part_of_it_and_ends_with_it() -> None:
    [floor] = taken("客厅地面我决定铺木地板，三层实木，橡木色。")
    assert floor.text.endswith("橡木色。")
    assert active("客厅地面我决定铺木地板，三层实木。", "客厅改主意了，不铺木地板，铺瓷砖。") == [
        "客厅改主意了，不铺木地板，铺瓷砖。"
    ]
    [limit] = taken("The retry limit should be 7 with a delay of 2 seconds, capped at 10 minutes.")
    assert limit.text.endswith("capped at 10 minutes.")
    assert is_fragment("capped at 10 minutes.")
    assert not is_fragment("never retry twice")
    assert not is_fragment("不要用英文")


def test_a_rule_with_a_pronoun_is_shown_with_the_sentence_before_it() -> None:
    [rule] = taken("The cellar is full of mould. Never open it without a mask.")
    assert rule.lead == "The cellar is full of mould. "
    [first, second] = taken("Only I repair the lamp. Please never touch it with wet hands.")
    assert second.continues == first.id


def test_what_a_change_replaced_is_not_cut_inside_a_word() -> None:
    old = "Keep the encrypted copies of the quarterly statements in the archive of the bank for 7 days."
    [*_, change] = said(old, "Make it 14 days instead of 7.")
    assert change.supersedes
    assert change.about.rstrip("…").split()[-1] in old


def test_the_subject_is_told_apart_from_the_value() -> None:
    found = subject_of("Set the log level to DEBUG instead of INFO.", changes=True)
    assert {"log", "level"} <= found.topic
    assert "debug" in found.given
    assert "info" in found.left
    found = subject_of("支付接口的超时改成 10 秒。", changes=True)
    assert {"支付", "接口", "=timeout"} <= found.topic


@pytest.mark.parametrize(
    ("vital", "others"),
    [
        ("所有板材必须 ENF 级。", ["我不喜欢复杂造型。", "5 月 8 号我出差。", "我喜欢浅色的墙。"]),
        ("我女儿对花生过敏。", ["我不喜欢复杂造型。", "我决定买卡萨帝冰箱。", "我喜欢浅色的墙。"]),
        (
            "My daughter is allergic to dust.",
            ["I don't like ornaments.", "I prefer pale walls.", "We decided to buy a new fridge."],
        ),
        (
            "The site manager is Ines, phone 555-0133.",
            ["I prefer pale walls.", "We decided to buy a fridge.", "I like oak."],
        ),
    ],
)
def test_what_does_harm_if_it_is_forgotten_is_shown_first(vital: str, others: list[str]) -> None:
    kinds = {"喜": "preference", "like": "preference", "prefer": "preference"}
    texts = [*others * 6, vital, *others * 6]
    rules = [
        StandingRule(
            id=str(seq),
            text=text,
            seq=seq,
            kind=next((kind for part, kind in kinds.items() if part in text), "decision"),  # pyright: ignore[reportArgumentType]
        )
        for seq, text in enumerate(texts, start=1)
    ]
    shown, left_out = shown_rules(rules, limit_tokens=70, count=quarters)
    assert left_out
    assert vital in [rule.text for rule in shown]


def test_a_plan_for_a_day_long_past_is_shown_last() -> None:
    texts = ["量房定在 4 月 12 号。", "木工 5 月 14 号进场。", "竣工日是 7 月 5 号。"]
    rules = [
        StandingRule(id=str(seq), text=text, kind="decision", seq=seq)
        for seq, text in enumerate(texts, start=1)
    ]
    ranked = rank_rules(rules, limit_tokens=999, cost=lambda _: 1)
    assert ranked[-1].text == texts[0]
