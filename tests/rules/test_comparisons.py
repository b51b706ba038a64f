"""The work for a new sentence does not grow with the rules so far: a ledger of N unrelated rules costs O(N)."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from types import FrameType

import msgspec
import pytest

from turnfold.rules import StandingRule, extract_rules, update_ledger
from turnfold.rules.active_rules import ActiveRules

SYLLABLES = [f"{first}{vowel}" for first in "bdfgklmnprstvz" for vowel in "aeiou"]
ZH_FIRST, ZH_THINGS = 0x6000, 0x7400
"""Code points from which characters are taken that few words have."""
FEW, MANY = 40, 160
EN_ALIKE, ZH_ALIKE = "Never send invoice {0} to customer {1}.", "绝对不要把发票 {0} 发给客户 {1}。"


def invented(number: int) -> str:
    """Return a word that begins as no other does."""
    return f"{SYLLABLES[number % 70]}{SYLLABLES[number // 70]}{SYLLABLES[(number * 7) % 70]}x"


def english(number: int) -> str:
    return f"Never {invented(3 * number)} the {invented(3 * number + 1)} of {invented(3 * number + 2)}."


def chinese(number: int) -> str:
    thing = "".join(chr(ZH_THINGS + 3 * number + at) for at in range(3))
    return f"绝对不要{chr(ZH_FIRST + number)}{thing}。"


def searches(work: Callable[[], object]) -> int:
    """Return how often regular expressions are searched, matched or substituted during some work."""
    found = 0

    def count(_frame: FrameType, event: str, called: object) -> None:
        nonlocal found
        found += event == "c_call" and isinstance(getattr(called, "__self__", None), re.Pattern)

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def said(texts: Iterable[str], first: int = 1) -> list[StandingRule]:
    return [
        rule
        for seq, text in enumerate(texts, first)
        for rule in extract_rules(text, seq=seq, trust="user")
    ]


def searches_for_one_more(say: Callable[[int], str], many: int) -> int:
    """Return how many searches one more unrelated rule costs in a ledger of `many` rules whose keys are cached."""
    rules = said(map(say, range(many)))
    assert len(rules) == many
    ledger = update_ledger((), rules, limit_tokens=10**6, count=len).rules
    new = said([say(many)], many + 1)
    update_ledger(ledger, said([say(many + 1)], many + 1), limit_tokens=10**6, count=len)
    return searches(lambda: update_ledger(ledger, new, limit_tokens=10**6, count=len))


@pytest.mark.parametrize("say", [english, chinese])
def test_an_unrelated_rule_costs_as_much_in_a_ledger_of_many_rules(
    say: Callable[[int], str],
) -> None:
    few, many = (searches_for_one_more(say, number) for number in (FEW, MANY))
    assert 0 < many <= few + 20


@pytest.mark.parametrize("say", [english, chinese])
def test_the_count_sees_a_ledger_that_compares_every_pair(
    say: Callable[[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def every(rules: ActiveRules, *_: object, **__: object) -> list[StandingRule]:
        return rules.of_messages(range(MANY + 9))

    monkeypatch.setattr(ActiveRules, "near", every)
    few, many = (searches_for_one_more(say, number) for number in (FEW, MANY))
    assert many > few + 120


@pytest.mark.parametrize("say", [EN_ALIKE, ZH_ALIKE])
def test_of_very_many_rules_with_the_same_words_the_newest_are_compared(say: str) -> None:
    rules = said(say.format(1_000 + number, 9_000 + number) for number in range(300))
    ledger = ActiveRules(rules)
    [new] = said([say.format(5_000, 8_000)], 900)
    near = ledger.near(new, new.plain)
    assert near[-256:] == rules[-256:]
    assert len(near) < 290


@pytest.mark.parametrize(
    ("alike", "early", "late"),
    [
        (EN_ALIKE, "Never send the Zwolle catalogue.", "Send customer 7 the Zwolle catalogue now."),
        (ZH_ALIKE, "绝对不要发昆山目录。", "现在把昆山目录发给客户 7 吧。"),
    ],
)
def test_however_old_a_rule_with_a_rare_word_is_compared(alike: str, early: str, late: str) -> None:
    rules = said([early, *(alike.format(1_000 + at, 9_000 + at) for at in range(300))])
    new = msgspec.structs.replace(rules[-1], id="new", text=late, seq=900, scope=(), value=())
    near = ActiveRules(rules).near(new, late)
    assert near[0].text == early
    assert len(near) < 290
