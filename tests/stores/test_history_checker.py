"""A checker that finds nothing proves nothing: each fault planted in a sound history must be found, by its name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.stores.history import Append, History, Read


def sound() -> History:
    """A history without a fault."""
    truth = [(seq, f"v{seq}") for seq in range(1, 31)]
    appends = [Append(10 * seq, 10 * seq + 15, seq, value) for seq, value in truth]
    reads = [Read(10 * seq + 16, 10 * seq + 19, 0, truth[:seq]) for seq in range(1, 31)]
    return History(appends, reads, truth)


def test_the_checker_finds_nothing_in_a_sound_history() -> None:
    assert sound().anomalies() == {}


def _lose(history: History) -> None:
    del history.truth[-1]


def _double(history: History) -> None:
    history.truth.append((31, "v3"))


def _reorder(history: History) -> None:
    history.truth[9], history.truth[19] = (10, "v20"), (20, "v10")


def _answer_out_of_order(history: History) -> None:
    history.appends[4] = history.appends[4]._replace(began=200, ended=210)


def _read_late(history: History) -> None:
    history.reads[20] = history.reads[20]._replace(values=history.truth[:19])


def _read_otherwise(history: History) -> None:
    history.reads[20] = history.reads[20]._replace(values=[*history.truth[:20], (21, "w")])


def _leave_a_gap(history: History) -> None:
    history.truth[-1] = (32, "v30")


def _invent(history: History) -> None:
    history.truth.append((31, "nobody's"))


@pytest.mark.parametrize(
    ("sabotage", "name"),
    [
        (_lose, "lost"),
        (_double, "duplicate"),
        (_reorder, "moved"),
        (_answer_out_of_order, "order"),
        (_read_late, "stale"),
        (_read_otherwise, "other content"),
        (_leave_a_gap, "gap"),
        (_invent, "phantom"),
    ],
)
def test_the_checker_notices(sabotage: Callable[[History], None], name: str) -> None:
    history = sound()
    sabotage(history)
    assert history.anomalies()[name] > 0
