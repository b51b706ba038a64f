"""Estimates learn from what the provider reports, in both directions, and say how far off they may be."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnfold.errors import InvalidOption
from turnfold.records import assistant, user
from turnfold.tokens import Calibration, Certainty, ScaledCounter, calibrated, counter_for

TALK = [
    user("Fold the old turns, keep the new ones. " * 20),
    assistant("先把旧的对话折叠起来。" * 20),
]


def after(pairs: list[tuple[int, int]]) -> Calibration:
    calibration = Calibration()
    for counted, reported in pairs:
        calibration = calibration.observe(counted=counted, reported=reported)
    return calibration


@pytest.mark.parametrize("ratio", [0.5, 0.8, 1.0, 1.25, 2.0])
def test_a_steady_ratio_is_learnt_in_either_direction(ratio: float) -> None:
    calibration = after([(1000, round(1000 * ratio))] * 5)
    assert calibration.ratio == pytest.approx(ratio)
    assert calibration.correct(4000).tokens == round(4000 * ratio)
    assert calibration.correct(4000).error == 0


def test_a_changed_ratio_is_followed() -> None:
    calibration = after([(1000, 800)] * 20 + [(1000, 1200)] * 10)
    assert 1.05 < calibration.ratio < 1.2
    assert after([(1000, 800)] * 20 + [(1000, 1200)] * 60).ratio == pytest.approx(1.2, abs=0.001)


def test_larger_calls_weigh_more() -> None:
    assert after([(10_000, 10_000), (10, 20)]).ratio == pytest.approx(1.0, abs=0.002)


def test_noise_averages_out() -> None:
    chance = random.Random(4)  # noqa: S311 - reproducible
    pairs = [(5000, round(5000 * 1.3 * chance.gauss(1, 0.05))) for _ in range(200)]
    assert after(pairs).ratio == pytest.approx(1.3, rel=0.03)
    assert 0.03 < after(pairs).spread < 0.08


def test_observing_gives_a_new_value_and_leaves_the_old_one() -> None:
    first = Calibration().observe(counted=100, reported=120)
    first.observe(counted=100, reported=300)
    assert first == Calibration().observe(counted=100, reported=120)
    assert (first.ratio, Calibration().ratio) == (1.2, 1.0)
    assert (first.observations, Calibration().observations) == (1, 0)


@pytest.mark.parametrize(("counted", "reported"), [(0, 5), (5, 0), (-1, 5), (5, -1)])
def test_a_call_that_teaches_nothing_is_refused(counted: int, reported: int) -> None:
    with pytest.raises(
        InvalidOption,
        match=f"cannot calibrate with {counted} counted and {reported} reported tokens",
    ):
        Calibration().observe(counted=counted, reported=reported)


def test_no_error_is_guessed_from_one_report() -> None:
    for calibration in (Calibration(), after([(100, 120)]), after([(1, 1), (10**9, 10**9)])):
        assert calibration.spread == math.inf
        with pytest.raises(InvalidOption, match=r"observe at least 2 calls"):
            calibration.correct(100)


@pytest.mark.parametrize(
    ("reports", "share"), [(2, 0.8), (3, 0.88), (5, 0.92), (20, 0.93), (100, 0.93)]
)
@pytest.mark.parametrize("sizes", ["alike", "mixed"])
def test_the_error_shown_is_the_error_met(reports: int, share: float, sizes: str) -> None:
    """On calls that vary by 5 %, the next report lies within the error shown about 19 times of 20."""
    chance = random.Random(11)  # noqa: S311 - reproducible
    within = 0
    for _ in range(600):
        ratio = chance.uniform(0.6, 1.6)
        calls = [
            5000 if sizes == "alike" else int(10 ** chance.uniform(3, 4))
            for _ in range(reports + 1)
        ]
        pairs = [(counted, round(counted * ratio * chance.gauss(1, 0.05))) for counted in calls]
        corrected = after(pairs[:-1]).correct(pairs[-1][0])
        within += abs(corrected.tokens - pairs[-1][1]) <= corrected.error
    assert within / 600 >= share


def test_the_error_shrinks_as_reports_come_in() -> None:
    pairs = [(5000, 5000 + swing) for swing in (200, -200) * 20]
    errors = [after(pairs[:number]).correct(5000).error for number in (2, 4, 8, 40)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 600


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)), min_size=1, max_size=30))
def test_the_ratio_lies_among_those_reported(pairs: list[tuple[int, int]]) -> None:
    calibration = after(pairs)
    ratios = [reported / counted for counted, reported in pairs]
    assert min(ratios) * 0.999 <= calibration.ratio <= max(ratios) * 1.001
    assert calibration.spread >= 0


def test_an_estimate_is_corrected_text_and_framing_alike() -> None:
    claude = counter_for("claude-sonnet-4")
    counted = claude.count(TALK).tokens
    for ratio in (0.8, 1.3):
        corrected = calibrated(claude, after([(counted, round(counted * ratio))] * 3))
        assert corrected.count(TALK).tokens == pytest.approx(counted * ratio, rel=0.01)
        assert (
            corrected.count([user("hi")]).tokens >= claude.count([user("hi")]).tokens * ratio * 0.99
        )
        assert corrected.count(TALK).certainty is Certainty.ESTIMATE


def test_exact_counters_and_untaught_calibrations_change_nothing() -> None:
    exact, estimate = counter_for("gpt-4o"), counter_for("claude-sonnet-4")
    assert calibrated(exact, after([(100, 150)] * 5)) is exact
    assert calibrated(estimate, Calibration()) is estimate


def test_corrected_counters_have_names_of_their_own() -> None:
    claude = counter_for("claude-sonnet-4")
    names = {
        claude.name,
        calibrated(claude, after([(1000, 800)])).name,
        calibrated(claude, after([(1000, 900)])).name,
    }
    assert len(names) == 3
    same = calibrated(claude, after([(1000, 800)] * 2)).name
    assert same in names


def test_a_scaled_counter_rounds_up_and_refuses_nonsense() -> None:
    scaled = ScaledCounter(counter_for("gpt-4o").text, 1.5)
    assert scaled.count("hello") == 2
    assert scaled.count("") == 0
    assert scaled.certainty is Certainty.ESTIMATE
    for factor in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InvalidOption, match="must be above 0 and finite"):
            ScaledCounter(counter_for("gpt-4o").text, factor)
