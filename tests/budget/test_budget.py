"""What a call may spend: exact arithmetic, and impossible numbers refused with the numbers in the message."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnfold import Budget
from turnfold.api import BudgetBody
from turnfold.budget import SUMMARY_TOKENS, Shares, WaterMarks
from turnfold.errors import InvalidBudget

TOKENS = [
    ({"context_window": 128_000}, 96_000),
    ({"context_window": 128_000, "reserve_ratio": 0.1}, 115_200),
    ({"context_window": 128_000, "reserve_ratio": 0.9}, 12_800),
    ({"context_window": 200_000, "reserve_ratio": 0.3}, 140_000),
    ({"context_window": 1_000_000, "reserve_ratio": 0.07}, 930_000),
    ({"context_window": 8_192, "reserve_ratio": 0}, 8_192),
    ({"context_window": 10, "reserve_ratio": 0.25}, 7),
    ({"context_window": 128_000, "max_tokens": 8_000}, 8_000),
    ({"context_window": 4_000, "max_tokens": 8_000}, 3_000),
    ({"max_tokens": 4_000}, 4_000),
    ({"max_tokens": 4_000, "reserve_ratio": 0.99}, 4_000),
    ({"max_tokens": 1}, 1),
    ({"context_window": 10**12, "reserve_ratio": 0.1}, 9 * 10**11),
]  # fmt: skip


@pytest.mark.parametrize(("numbers", "tokens"), TOKENS, ids=lambda value: str(value)[:60])
def test_the_window_less_the_reserve_capped(numbers: dict[str, Any], tokens: int) -> None:
    assert Budget(**numbers).tokens == tokens


@settings(deadline=None)
@given(st.integers(1, 10**9), st.integers(0, 999))
def test_a_ratio_is_the_decimal_it_is_written_as(window: int, thousandths: int) -> None:
    kept = window * (1000 - thousandths) // 1000
    if kept:
        assert Budget(context_window=window, reserve_ratio=thousandths / 1000).tokens == kept


def test_shares_are_parts_of_the_tokens() -> None:
    budget = Budget(max_tokens=1_000, shares=Shares(system=0.3, summary=0.1, tail=0.29))
    assert [budget.share(name) for name in ("system", "summary", "tail")] == [300, 100, 290]
    usual = Budget(context_window=128_000)
    assert [usual.share(name) for name in ("system", "summary", "tail")] == [57_600, 14_400, 14_400]
    with pytest.raises(AttributeError):
        usual.share("window")


@settings(deadline=None)
@given(st.integers(1, 10**7), st.integers(1, 98), st.integers(1, 98), st.integers(1, 98))
def test_shares_never_exceed_the_budget_together(
    tokens: int, one: int, two: int, three: int
) -> None:
    parts = [Fraction(part, 100) for part in (one, two, three)]
    if sum(parts) >= 1:
        with pytest.raises(InvalidBudget):
            Shares(system=one / 100, summary=two / 100, tail=three / 100)
    else:
        shares = Shares(system=one / 100, summary=two / 100, tail=three / 100)
        budget = Budget(max_tokens=tokens, shares=shares)
        spent = [budget.share(name) for name in ("system", "summary", "tail")]
        system, summary, tail = (math.floor(tokens * part) for part in parts)
        summary = max(summary, min(SUMMARY_TOKENS, tokens - system - tail - 1, tokens // 3))
        assert spent == [system, summary, tail]
        assert sum(spent) < tokens


IMPOSSIBLE: list[tuple[type, dict[str, Any], str]] = [
    (Budget, {}, "context_window=0 and max_tokens=0 set no token limit; set one of them"),
    (Budget, {"max_messages": 5}, "context_window=0 and max_tokens=0"),
    (Budget, {"max_tokens": -1}, "max_tokens=-1 must be a whole number, at least 0; use 0 for no limit"),
    (Budget, {"context_window": -8}, "context_window=-8 must be"),
    (Budget, {"max_tokens": 5, "max_messages": -2}, "max_messages=-2 must be"),
    (Budget, {"max_tokens": 5, "max_bytes": -2}, "max_bytes=-2 must be"),
    (Budget, {"max_tokens": 5.5}, "max_tokens=5.5 must be a whole number"),
    (Budget, {"max_tokens": 8e3}, "max_tokens=8000.0 must be a whole number"),
    (Budget, {"max_tokens": "8000"}, "max_tokens='8000' must be a whole number"),
    (Budget, {"max_tokens": None}, "max_tokens=None must be a whole number"),
    (Budget, {"context_window": 8, "reserve_ratio": 1}, "reserve_ratio=1 must be at least 0 and below 1"),
    (Budget, {"context_window": 8, "reserve_ratio": -0.1}, "reserve_ratio=-0.1 must be"),
    (Budget, {"context_window": 8, "reserve_ratio": 25}, "reserve_ratio=25 must be"),
    (Budget, {"context_window": 8, "reserve_ratio": math.nan}, "reserve_ratio=nan must be"),
    (
        Budget,
        {"context_window": 1, "reserve_ratio": 0.5},
        "context_window 1 x (1 - 0.5) leaves 0 tokens; raise the window or lower reserve_ratio",
    ),
    (Budget, {"context_window": 9, "reserve_ratio": 0.9, "max_tokens": 100}, "context_window 9 x (1 - 0.9) leaves 0"),
    (Shares, {"system": 0}, "share system=0 must be between 0 and 1"),
    (Shares, {"summary": 1.0}, "share summary=1.0 must be between 0 and 1"),
    (Shares, {"tail": -0.1}, "share tail=-0.1 must be between 0 and 1"),
    (Shares, {"tail": math.nan}, "share tail=nan must be between 0 and 1"),
    (
        Shares,
        {"system": 0.7, "summary": 0.2, "tail": 0.1},
        "system 0.7 + summary 0.2 + tail 0.1 = 1 leave nothing for the conversation; their sum must stay below 1",
    ),
    (Shares, {"system": 0.8, "summary": 0.2, "tail": 0.2}, "= 1.2 leave nothing"),
    (WaterMarks, {"low": 0}, "low=0 must be above 0 and at most 1"),
    (WaterMarks, {"low": 1.01}, "low=1.01 must be above 0 and at most 1"),
    (WaterMarks, {"low": math.nan}, "low=nan must be"),
    (WaterMarks, {"snap": -0.1}, "snap=-0.1 must be between 0 and 1"),
    (WaterMarks, {"snap": 1.5}, "snap=1.5 must be between 0 and 1"),
    (WaterMarks, {"snap": math.nan}, "snap=nan must be between 0 and 1"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "numbers", "message"), IMPOSSIBLE, ids=[row[2][:50] for row in IMPOSSIBLE]
)
def test_impossible_numbers_are_refused_with_the_numbers(
    kind: type, numbers: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidBudget) as caught:
        kind(**numbers)
    assert message in str(caught.value)


def test_the_edges_are_possible() -> None:
    assert WaterMarks(low=1.0, snap=0.0).low == WaterMarks(low=1, snap=1.0).low == 1
    assert Shares(system=0.7, summary=0.2, tail=0.099).tail == 0.099
    assert Budget(max_tokens=5, max_messages=0, max_bytes=0).max_messages == 0


def test_the_arithmetic_can_be_shown() -> None:
    assert Budget(context_window=128_000).arithmetic() == "128,000 x (1 - 0.25)"
    assert Budget(max_tokens=8_000).arithmetic() == "max_tokens 8,000"
    both = Budget(context_window=128_000, max_tokens=8_000, reserve_ratio=0.1)
    assert both.arithmetic() == "min(128,000 x (1 - 0.1), max_tokens 8,000)"


def test_a_budget_is_a_value() -> None:
    budget = Budget(context_window=128_000)
    assert budget == Budget(context_window=128_000, reserve_ratio=0.25)
    assert {budget: 1}[Budget(context_window=128_000)] == 1
    assert dataclasses.replace(budget, reserve_ratio=0.5).tokens == 64_000
    with pytest.raises(dataclasses.FrozenInstanceError):
        budget.max_tokens = 5  # type: ignore[misc]  # on purpose
    with pytest.raises(TypeError):
        Budget(128_000)  # type: ignore[misc]  # on purpose: numbers without names are easily mixed up
    with pytest.raises(TypeError):
        Budget(max_tokens=5, tokens=99)  # type: ignore[call-arg]  # on purpose: it is worked out


def test_a_budget_goes_over_http_with_everything_in_it() -> None:
    shares = Shares(system=0.5, summary=0.1, tail=0.2, recall=0.3)
    marks = WaterMarks(low=0.4, snap=0.3, folded=0.2)
    limits = {"max_tokens": 900, "max_messages": 7, "max_bytes": 5_000}
    budget = Budget(context_window=9_000, reserve_ratio=0.5, shares=shares, marks=marks, **limits)
    plain = Budget(context_window=9_000)
    for part in ("shares", "marks"):
        given, usual = (dataclasses.asdict(getattr(each, part)) for each in (budget, plain))
        assert all(given[name] != usual[name] for name in given), part  # so that a lost one is seen
    assert BudgetBody.of(budget).budget() == budget
