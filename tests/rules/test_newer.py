"""What the user said last about a thing is in the ledger, and the earlier rule never stands there alone."""

from __future__ import annotations

from typing import Literal

import pytest

from tests.rules.generator import half_of, read_pairs, read_sentences
from tests.rules.test_reversals import no_one, said
from turnfold.rules import ended_rules, overrides_of, permissions

Outcome = Literal["ended", "shown with it", "side by side", "alone"]


def outcome(before: str, after: str) -> Outcome:
    """What becomes of the rule `before` once the user has said `after`."""
    rules = said(before, after)
    old = [rule for rule in rules if rule.seq == 2 and rule.state == "active"]
    new = [rule for rule in rules if rule.seq == 4 and rule.state == "active"]
    if not old:
        return "ended"
    later = overrides_of(rule for rule in rules if rule.state == "active").later
    if any(later.get(rule.id) for rule in old):
        return "shown with it"
    return "side by side" if new else "alone"


def outcomes(name: str, language: str, kind: str, half: str) -> list[tuple[Outcome, str]]:
    pairs = [" => ".join(pair) for pair in read_pairs(name, language, kind)]
    return [
        (outcome(*pair.split(" => ")), pair) for pair in pairs if not half or half_of(pair) == half
    ]


@pytest.mark.parametrize(
    ("name", "language", "half", "least"),
    [
        ("newer", "en", "develop", 1.0),
        ("newer", "zh", "develop", 1.0),
        ("newer", "en", "report", 0.7),
        ("newer", "zh", "report", 0.7),
        ("lately", "en", "develop", 0.85),
        ("lately", "zh", "develop", 0.85),  # one first sentence of 10 is taken for no rule
        ("lately", "en", "report", 0.9),
        ("lately", "zh", "report", 0.9),
    ],
)
def test_another_value_for_the_same_ends_the_old_one(
    name: str, language: str, half: str, least: float
) -> None:
    found = outcomes(name, language, "ends", half)
    assert found
    assert [each for each in found if each[0] == "alone"] == []
    assert sum(each[0] == "ended" for each in found) >= least * len(found)


@pytest.mark.parametrize(
    ("name", "language", "half", "least"),
    [
        ("newer", "en", "develop", 1.0),
        ("newer", "zh", "develop", 1.0),
        ("newer", "en", "report", 0.8),
        ("newer", "zh", "report", 0.7),
        ("lately", "en", "develop", 1.0),
        ("lately", "zh", "develop", 0.75),  # a chicken is meat, but no word says so
        ("lately", "en", "report", 0.7),
        ("lately", "zh", "report", 1.0),
    ],
)
def test_a_permission_is_kept_and_shown_with_what_it_permits(
    name: str, language: str, half: str, least: float
) -> None:
    found = outcomes(name, language, "kept", half)
    assert found
    assert sum(each[0] in ("shown with it", "ended") for each in found) >= least * len(found)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", ["newer", "lately"])
def test_another_thing_ends_nothing(name: str, language: str) -> None:
    found = [
        each for each in outcomes(name, language, "stays", "") if said(each[1].split(" => ")[0])
    ]
    assert len(found) > 12
    assert [each for each in found if each[0] == "ended"] == []


PERMITTED = [
    ("Don't touch the config file.", "It's okay to edit the config this time."),
    ("Never order takeaway.", "Just for today you may order takeaway."),
    ("Nobody touches the thermostat.", "Lena may adjust the thermostat tonight."),
    ("别动配置文件。", "这次改配置文件也行。"),
    ("不要点外卖。", "今天破例点一次外卖。"),
    ("上午别给我打电话。", "我换班了，上午打也没事。"),
]
FILLED = [
    ("Give distances in miles.", "From here on use kilometres, please."),
    ("Keep answers to three sentences.", "You can write longer answers, a page is fine."),
    ("回答三句话以内。", "可以写长一点，讲细点。"),
    ("温度用华氏度。", "读者都在国内，用摄氏度吧。"),
]


def test_a_permission_that_ends_nothing_points_at_the_prohibition() -> None:
    for before, after in PERMITTED:
        [old, *_, new] = said(before, after)
        assert (old.state, new.text, new.negative) == ("active", after.rstrip(), False)
        assert new.may_replace == (old.id,)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("没有评审不许合并。", "小孙休假了，这个不评审直接合也行。"),
        ("不许花钱投广告。", "老板这个月批了两百，广告可以投一点。"),
        ("Never merge without a review.", "Merging this one without a review is okay."),
    ],
)
def test_a_permission_for_one_thing_or_month_ends_no_prohibition(before: str, after: str) -> None:
    assert outcome(before, after) == "shown with it"


def test_a_thing_of_the_same_kind_closes_no_task() -> None:
    assert outcome("Todo: bring Tom the ladder.", "Tom has the ladder.") == "ended"
    assert outcome("Todo: bring Tom the ladder.", "Tom has a ladder.") != "ended"


def test_those_pairs_see_a_ledger_without_permissions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_rules, "permits_what", no_one)
    monkeypatch.setattr(ended_rules, "exempts", no_one)
    assert [outcome(*pair) for pair in PERMITTED].count("shown with it") < len(PERMITTED) - 2


def test_those_pairs_see_a_ledger_that_compares_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [outcome(*pair) for pair in FILLED] == ["ended"] * len(FILLED)
    monkeypatch.setattr(ended_rules, "fills_again", no_one)
    assert "ended" not in [outcome(*pair) for pair in FILLED]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Don't touch the config file.", "It's okay to edit the readme this time."),
        ("别动配置文件。", "这次改说明文档也行。"),
        ("Never push to main.", "Push to main without exception is forbidden."),
        ("No orders in the evening.", "You can call me in the evening."),
        ("不要点外卖。", "能破例点一次外卖吗？"),
    ],
)
def test_a_permission_of_another_thing_and_a_question_are_not_linked(
    before: str, after: str
) -> None:
    assert not any(rule.may_replace for rule in said(before, after))


def test_the_samples_see_permissions_that_ignore_what_they_permit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ended_rules, "permits_what", lambda *_: True)
    assert any(rule.may_replace for rule in said("别动配置文件。", "这次改说明文档也行。"))


@pytest.mark.parametrize("piece", ["可以", "is fine, ", "行", "you can ", "exception "])
def test_repeated_pieces_are_read_up_to_a_length(piece: str) -> None:
    assert not permissions.is_permission(piece * 20_000)


@pytest.mark.parametrize(("language", "least"), [("en", 0.9), ("zh", 0.9)])
def test_polite_demands_and_told_decisions_are_rules(language: str, least: float) -> None:
    taken = [bool(said(text)) for text in read_sentences("lately", language)["rules"]]
    assert sum(taken) >= least * len(taken)
    false = [text for text in read_sentences("lately", language)["none"] if said(text)]
    assert len(false) <= (1 if language == "en" else 2), false


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Give me Celsius please, I can't think in Fahrenheit.", "rule"),
        ("Put it on the list: buy a stroller.", "task"),
        ("记一下：买婴儿车。", "task"),
        ("待办：数据库升级到 16。", "task"),
        ("你能不能别老道歉了？", "prohibition"),
    ],
)
def test_forms_of_demands(text: str, kind: str) -> None:
    assert [rule.kind for rule in said(text)][:1] == [kind]
