"""The breaker: one failure is enough, one probe at a time, longer and longer pauses, one line in the log."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest

from turnfold.stores.redis.guarded_client import Breaker


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def breaker(time: Time) -> Breaker:
    return Breaker(longest_pause=30.0, clock=time)


def pause(breaker: Breaker, time: Time) -> float:
    """How long nothing is admitted; the call that ends it is the probe."""
    began = time.now
    while not breaker.allows():
        time.now += 0.05
    return round(time.now - began, 2)


def test_it_admits_everyone_until_the_first_failure(breaker: Breaker) -> None:
    assert all(breaker.allows() for _ in range(9))
    breaker.failed(OSError())
    assert breaker.state == "open"
    assert not breaker.allows()


def test_the_pause_doubles_up_to_its_limit(breaker: Breaker, time: Time) -> None:
    pauses: list[float] = []
    breaker.failed(OSError())
    for _ in range(11):
        pauses.append(pause(breaker, time))
        breaker.failed(OSError())
    assert pauses[0] == pytest.approx(0.1, abs=0.06)
    assert all(
        later == pytest.approx(min(30.0, 2 * earlier), rel=0.6)
        for earlier, later in pairwise(pauses)
    )
    assert pauses[-1] == pytest.approx(30.0, abs=0.1)


def test_one_probe_decides_for_all(breaker: Breaker, time: Time) -> None:
    breaker.failed(OSError())
    time.now = 1.0
    assert [breaker.allows() for _ in range(3)] == [True, False, False]
    assert breaker.state == "probing"
    breaker.worked()
    assert breaker.state == "closed"
    assert all(breaker.allows() for _ in range(3))
    breaker.failed(OSError())
    assert pause(breaker, time) == pytest.approx(0.1, abs=0.06)  # it begins anew


def test_a_probe_that_is_abandoned_leaves_the_next_one_free(breaker: Breaker, time: Time) -> None:
    breaker.failed(OSError())
    time.now = 1.0
    assert breaker.allows()
    breaker.abandoned()
    assert breaker.state == "open"
    assert breaker.allows()


def test_an_answer_from_before_the_outage_ends_no_outage(breaker: Breaker) -> None:
    breaker.failed(OSError())
    breaker.worked()
    assert breaker.state == "open"


def test_an_outage_is_logged_once_and_says_no_content(
    breaker: Breaker, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        for _ in range(50):
            breaker.failed(OSError("secret text"))
            time.now += 40.0
            breaker.allows()
        breaker.worked()
    assert len(caplog.records) == 2
    assert "secret" not in caplog.text
    assert "OSError" in caplog.text
    assert breaker.failures == {"OSError": 50}
    assert breaker.outages == 1
