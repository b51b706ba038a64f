"""The hard facts of a text are found, in both languages, and nothing else is called one."""

from __future__ import annotations

import pytest

from turnfold.fold.facts import (
    FACT_WEIGHTS,
    Fact,
    canonical_clock,
    canonical_date,
    canonical_number,
    chinese_numeral,
    fact_at,
    find_hits,
)
from turnfold.text import SentenceKind


def find_facts(text: str, kind: SentenceKind = "prose") -> list[Fact]:
    return [fact_at(text, hit) for hit in find_hits(text, kind)]


def keys_of(text: str, kind: str | None = None) -> list[str]:
    return [fact.key for fact in find_facts(text) if kind is None or fact.kind == kind]


@pytest.mark.parametrize(
    ("text", "kind", "key"),
    [
        ("the budget is 4,200 EUR", "money", "4200|eur"),
        ("it costs $30.00 now", "money", "30|usd"),
        ("投资２９００万美元", "money", "29000000|usd"),
        ("一共300块钱", "money", "300|cny"),
        ("RMB 88 each", "money", "88|cny"),
        ("a 24-hour wait", "number", "24|h"),
        ("take 30mg daily", "number", "30|mg"),
        ("a fall of 12.50%", "number", "12.5|%"),
        ("at -5°C outside", "number", "-5|°c"),
        ("见第3章", "number", "3|章"),
        ("做了四次", "number", "4|次"),
        ("等了二十分钟", "number", "20|min"),
        ("3 passengers", "number", "3|passenger"),
        ("the 2nd attempt", "number", "2|th"),
        ("due 2024-05-20 at noon", "date", "2024-5-20"),
        ("due May 20th, 2024", "date", "2024-5-20"),
        ("due 20 May 2024", "date", "2024-5-20"),
        ("due 5/20/2024", "date", "2024-5-20"),
        ("due 20/5/2024", "date", "2024-5-20"),
        ("2024年5月20日交货", "date", "2024-5-20"),
        ("五月交货", "date", "-5-"),
        ("see you on Wednesday", "date", "weekday 2"),
        ("星期三见", "date", "weekday 2"),
        ("at 3:30 pm sharp", "time", "15:30"),
        ("at 3 p.m. sharp", "time", "15:00"),
        ("下午3点半开会", "time", "15:30"),
        ("logged 2024-05-20T09:08:54Z", "time", "9:08"),
        ("order A-10293 shipped", "id", "a-10293"),
        ("订单号A-10293已发货", "id", "a-10293"),
        ("order #W2378156", "id", "#w2378156"),
        ("user mia_li_3668", "id", "mia_li_3668"),
        ("commit 3a5f9c2", "id", "3a5f9c2"),
        ("id 123e4567-e89b-12d3-a456-426614174000", "id", "123e4567-e89b-12d3-a456-426614174000"),
        ("call 555-123-2002", "id", "555-123-2002"),
        ("write to ana.ruiz@example.org.", "email", "ana.ruiz@example.org"),
        ("see https://example.org/a?b=1).", "url", "https://example.org/a?b=1"),
        ("open src/app/main.py now", "path", "src/app/main.py"),
        ("在/etc/hosts里", "path", "/etc/hosts"),
        (r"open C:\data\list.txt", "path", r"c:\data\list.txt"),
        ("edit config.toml", "path", "config.toml"),
        ("upgrade to v1.2", "version", "v1.2"),
        ("upgrade to 1.24.3", "version", "1.24.3"),
        ("call getOrder here", "identifier", "getorder"),
        ("set max_tokens high", "identifier", "max_tokens"),
        ("os.path.join works", "identifier", "os.path.join"),
        ("pass --dry-run", "identifier", "--dry-run"),
        ('the "Blue Heron" suite', "name", "blue heron"),
        ("读过《边城》吗", "name", "边城"),
    ],
)
def test_a_fact_is_found_under_its_key(text: str, kind: str, key: str) -> None:
    assert keys_of(text, kind) == [key]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("Please do not send emails.", "forbid:email send"),
        ("Never send e-mail!", "forbid:email send"),
        ("不要发邮件。", "forbid:发邮 邮件"),
        ("禁止发邮件", "forbid:发邮 邮件"),
        ("千万别吃辣", "forbid:吃辣"),
        ("Refunds are not allowed.", "forbid:refund"),
        ("You must sign the lease.", "require:leas sign"),
        ("必须签字", "require:签字"),
        ("我们不得不签字", "require:签字"),
    ],
)
def test_a_constraint_is_known_by_its_polarity_and_key_phrase(text: str, key: str) -> None:
    assert keys_of(text, "constraint") == [key]


@pytest.mark.parametrize(
    "text", ["We agreed on the blue lamp.", "我们决定买蓝灯", "客户已确认地址"]
)
def test_a_decision_is_found(text: str) -> None:
    assert [fact.kind for fact in find_facts(text)] == ["decision"]


@pytest.mark.parametrize(
    "text",
    [
        "Don't worry, I don't know either.",
        "I can't wait to see it!",
        "That must have been great.",
        "It must be nice over there.",
        "Nature and time, can't beat it!",
        "I can't find the lamp.",
        "Tough times don't last.",
        "I have never been to Ghent.",
        "At least it was dry.",
        "I want to make sure of it.",
        "I went with my aunt.",
        "别担心，不用客气",
        "不要担心钱",
        "至少他来过",
        "能不能吃？要不要去？",
        "特别好，分别是不同人的区别",
        "每周一次",
        "he/she and/or",
        "1. Stay calm",
        "方法：1. 多喝水；2. 早睡",
        "I have 2 and you have 3.",
        "It ended.Then we left.",
        "几十个，三四天",
        "她说：“我明天就走。”",
    ],
)
def test_what_only_looks_like_a_fact_is_none(text: str) -> None:
    assert find_facts(text) == []


def test_the_digits_of_an_identifier_are_not_a_quantity_too() -> None:
    facts = find_facts("A-10293, 10.0.0.1, v2.11, 555-123-2002, mia_li_3668")
    assert [fact.kind for fact in facts] == ["id", "version", "version", "id", "id"]


def test_json_keys_are_syntax_and_values_are_facts() -> None:
    facts = find_facts('"order_id": "A-10293", "zip_code": "90210"', kind="json")
    assert [fact.key for fact in facts] == ["a-10293", "90210|"]


def test_a_fact_carries_the_words_around_it_and_its_speaker() -> None:
    text = "After a long talk we said that the budget is 4,200 EUR for the whole of the trip."
    [hit] = find_hits(text)
    fact = fact_at(text, hit, speaker="user")
    assert fact == Fact(
        "money",
        "4,200 EUR",
        "4200|eur",
        "…we said that the budget is 4,200 EUR for the whole of the trip.",
        "user",
    )


def test_rules_weigh_most_and_code_names_least() -> None:
    ranked = sorted(FACT_WEIGHTS, key=lambda kind: -FACT_WEIGHTS[kind])
    assert (ranked[:2], ranked[-1]) == (["unread", "constraint"], "identifier")


@pytest.mark.parametrize(
    ("written", "shift", "value"),
    [
        ("4,200", 0, "4200"),
        ("007.50", 0, "7.5"),
        ("2.9", 3, "2900"),
        ("-0.05", 0, "-0.05"),
        ("1.25", 1, "12.5"),
    ],
)
def test_numbers_have_one_spelling(written: str, shift: int, value: str) -> None:
    assert canonical_number(written, shift=shift) == value


@pytest.mark.parametrize(
    ("written", "value"),
    [("三", 3), ("十", 10), ("十二", 12), ("二十", 20), ("三千五百", 3500), ("一百零五", 105), ("二〇二四", 2024),
     ("三四", None), ("百", None), ("十百", None)],
)  # fmt: skip
def test_plain_chinese_numerals_are_read_and_others_refused(
    written: str, value: int | None
) -> None:
    assert chinese_numeral(written) == value


def test_dates_and_times_keep_what_the_text_leaves_open() -> None:
    assert canonical_date(None, "Sept.", "07") == "-9-7"
    assert canonical_date("24", "5", None) == "2024-5-"
    assert canonical_clock("12", "05", "am") == "0:05"
    assert canonical_clock("12", None, "pm") == "12:00"
