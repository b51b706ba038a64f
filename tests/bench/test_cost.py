"""Prices of replayed calls, worked out by hand."""

from __future__ import annotations

import pytest

from bench.cost import cached_share_of_folds, charged, folds_charged
from bench.lanes.replay import FoldSent, Sent
from turnfold.tokens import PriceTable
from turnfold.tokens.prices import CacheRule, Price

PRICES = PriceTable(
    currency="USD",
    date="2026-01-01",
    models={
        "auto": Price(input=10, cached=1, output=100, cache="auto"),
        "marks": Price(input=10, cached=1, written=20, output=100, cache="marks"),
        "bare": Price(input=10, output=100),
    },
    caches={
        "none": CacheRule(),
        "auto": CacheRule(least=1_000, step=100),
        "marks": CacheRule(least=1_000, marks=True),
    },
)


def sent(prompt: int, repeated: int, *, usable: bool = True) -> Sent:
    return Sent(0, prompt, 1_200, repeated, 50, usable, inside=False)


CALLS = [sent(2_003, 0), sent(3_003, 2_000)]


@pytest.mark.parametrize(
    ("model", "dollars"),
    [
        # 2,003 fresh; then 2,000 read and 1,003 fresh; 50 answered each time; mean of two, times a thousand
        ("auto", ((2_003 * 10) + (2_000 * 1 + 1_003 * 10) + 2 * 50 * 100) / 2 / 1_000),
        # 2,000 written and 3 fresh; then 2,000 read, 1,000 written, 3 fresh
        (
            "marks",
            ((2_000 * 20 + 3 * 10) + (2_000 + 1_000 * 20 + 3 * 10) + 2 * 50 * 100) / 2 / 1_000,
        ),
        ("bare", ((2_003 + 3_003) * 10 + 2 * 50 * 100) / 2 / 1_000),
    ],
)
def test_a_call_costs_what_its_provider_charges(model: str, dollars: float) -> None:
    assert charged(CALLS, model, PRICES) == pytest.approx(dollars)


def test_own_marks_keep_what_stands_before_what_changed() -> None:
    """Of the second call 1,500 repeat the first: up to its mark at 1,400 they are read, without it up to 1,200."""
    own = [call._replace(repeated=each) for call, each in zip(CALLS, (0, 1_500), strict=True)]
    marked = [call._replace(marks=(1_200, 1_400, call.prompt - 3)) for call in own]
    saved = charged(own, "marks", PRICES) - charged(marked, "marks", PRICES)
    assert saved == pytest.approx(200 * (20 - 1) / 2 / 1_000)


def test_a_call_nobody_would_take_costs_nothing_and_leaves_nothing_cached() -> None:
    broken = [sent(2_003, 0, usable=False), sent(3_003, 0)]
    assert charged(broken, "marks", PRICES) == pytest.approx(
        charged([sent(3_003, 0)], "marks", PRICES)
    )
    assert charged([sent(9, 0, usable=False)], "auto", PRICES) == 0.0


FOLDED = [
    sent(2_003, 0)._replace(folds=(FoldSent(1_500, 40, 1_900, 1_850, 2_100, 2_000),)),
    sent(3_003, 2_000)._replace(folds=(FoldSent(1_200, 40),)),
]


@pytest.mark.parametrize(
    ("model", "read", "fresh"),
    # 18 steps of the prefix; all up to the mark; nothing. The second fold shares nothing with the call before.
    [("auto", 1_800, 100 + 1_200), ("marks", 2_000, 100 + 1_200), ("bare", 0, 1_900 + 1_200)],
)
def test_a_fold_costs_what_the_cache_does_not_know(model: str, read: int, fresh: int) -> None:
    cost = (read * 1 + fresh * 10 + 80 * 100) / 2 / 1_000
    assert folds_charged(FOLDED, model, PRICES, cached=True) == pytest.approx(cost)
    fresh_cost = (2_700 * 10 + 80 * 100) / 2 / 1_000
    assert folds_charged(FOLDED, model, PRICES, cached=False) == pytest.approx(fresh_cost)
    assert cached_share_of_folds(FOLDED, model, PRICES) == read / (read + fresh)
    assert charged(FOLDED, model, PRICES) == charged(CALLS, model, PRICES)
