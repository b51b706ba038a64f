"""When a call is tried again, and after how long."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.unhurried import unhurried
from turnfold.errors import InvalidOption, ModelFailed, ModelUnavailable
from turnfold.models.failures import (
    CallFailed,
    Failure,
    FailureClass,
    RetryPolicy,
    call_with_retries,
    classify,
    retry_delay,
)

failures = st.builds(
    Failure,
    message=st.sampled_from(["no", "busy", "Overloaded", "prompt is too long"]),
    status=st.sampled_from([0, 400, 401, 408, 413, 429, 500, 503, 529]),
    code=st.sampled_from(["", "cut", "timeout", "connection", "insufficient_quota"]),
    retry_after=st.none() | st.floats(0, 600),
    should_retry=st.sampled_from([None, None, True, False]),
    delivered=st.sampled_from([0, 0, 0, 7]),
)
policies = st.builds(
    RetryPolicy,
    retries=st.integers(0, 6),
    first=st.floats(0.01, 2),
    longest=st.floats(2, 30),
    patience=st.floats(0, 300),
)
attempts = st.integers(1, 7) | st.just(2_000)
chances = st.floats(0, 1, exclude_max=True)


@unhurried
@given(failure=failures, policy=policies, attempt=attempts, chance=chances)
def test_a_retry_is_decided_by_these_rules_alone(
    failure: Failure, policy: RetryPolicy, attempt: int, chance: float
) -> None:
    delay = retry_delay(failure, attempt=attempt, policy=policy, chance=chance)
    asked = failure.retry_after or 0.0
    allowed = (
        attempt <= policy.retries
        and classify(failure) is FailureClass.PASSING
        and not failure.delivered
        and asked <= policy.patience
    )
    assert (delay is not None) == allowed
    if delay is not None:
        assert delay >= asked
        assert policy.first / 2 <= delay <= max(policy.longest, asked + policy.first)


@pytest.mark.parametrize(
    ("failure", "attempt", "again"),
    [
        (Failure(message="busy", status=503), 1, True),
        (Failure(message="busy", status=503), 2, True),
        (Failure(message="busy", status=503), 3, False),
        (Failure(message="busy", status=503, delivered=1), 1, False),
        (Failure(message="busy", status=503, retry_after=60.0), 1, True),
        (Failure(message="busy", status=503, retry_after=60.1), 1, False),
        (Failure(message="busy", status=503, should_retry=False), 1, False),
        (Failure(message="no", status=400), 1, False),
        (Failure(message="prompt is too long", status=503), 1, False),
        (Failure(message="gone", code="cut"), 1, True),
    ],
)
def test_each_rule_by_itself(failure: Failure, attempt: int, *, again: bool) -> None:
    delay = retry_delay(failure, attempt=attempt, policy=RetryPolicy(), chance=0.5)
    assert (delay is not None) == again


@unhurried
@given(policy=policies, attempt=st.integers(1, 5), chance=chances)
def test_pauses_grow_until_the_longest(policy: RetryPolicy, attempt: int, chance: float) -> None:
    patient = replace(policy, retries=10)
    busy = Failure(message="busy", status=503)
    pauses = [
        retry_delay(busy, attempt=one, policy=patient, chance=chance) or 0.0
        for one in (attempt, attempt + 1)
    ]
    assert pauses[0] <= pauses[1] <= policy.longest


def test_chance_spreads_callers_out() -> None:
    busy, policy = Failure(message="busy", status=503), RetryPolicy()
    pauses = {
        retry_delay(busy, attempt=1, policy=policy, chance=chance) for chance in (0.0, 0.3, 0.9)
    }
    assert len(pauses) == 3


class Flaky:
    """Fails with each of its failures in turn, then answers."""

    def __init__(self, *failures: Failure) -> None:
        self.failures = list(failures)
        self.calls = 0
        self.slept: list[float] = []

    async def call(self) -> str:
        self.calls += 1
        if self.failures:
            raise CallFailed(self.failures.pop(0))
        return "answer"

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def run(self, retries: int = 2) -> str:
        policy = RetryPolicy(retries=retries)
        return asyncio.run(call_with_retries(self.call, model="m", policy=policy, sleep=self.sleep))


BUSY = Failure(message="busy", status=503)


def test_a_call_that_fails_twice_and_then_works_is_an_answer() -> None:
    flaky = Flaky(BUSY, replace(BUSY, retry_after=5.0))
    assert flaky.run() == "answer"
    assert flaky.calls == 3
    assert flaky.slept[1] >= 5.0


def test_the_last_failure_is_raised_when_the_retries_are_used_up() -> None:
    flaky = Flaky(BUSY, BUSY, BUSY, BUSY)
    with pytest.raises(ModelUnavailable, match="after 3 attempts"):
        flaky.run()
    assert (flaky.calls, len(flaky.slept)) == (3, 2)


def test_what_will_not_pass_is_not_tried_again() -> None:
    flaky = Flaky(Failure(message="bad key", status=401))
    with pytest.raises(ModelFailed, match="bad key"):
        flaky.run()
    assert (flaky.calls, flaky.slept) == (1, [])


def test_no_retries_means_one_call() -> None:
    flaky = Flaky(BUSY)
    with pytest.raises(ModelUnavailable, match="after 1 attempt "):
        flaky.run(retries=0)


def test_other_errors_pass_through_untouched() -> None:
    async def broken() -> str:
        raise KeyError("ours")

    with pytest.raises(KeyError):
        asyncio.run(call_with_retries(broken, model="m", policy=RetryPolicy(), sleep=asyncio.sleep))


@pytest.mark.parametrize(
    "options", [{"retries": -1}, {"first": 0.0}, {"first": 9.0}, {"patience": -1.0}]
)
def test_a_policy_that_makes_no_sense_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(InvalidOption):
        RetryPolicy(**options)  # type: ignore[arg-type]
