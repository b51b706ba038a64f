"""Estimated counts are corrected by what the provider reports: by themselves, within bounds, in every process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from turnfold import Budget, Memory
from turnfold.inspect import audit
from turnfold.memory import Session
from turnfold.tokens import CalibrationLog, cautious_counter, corrected_counter, correction_of
from turnfold.window import check

BUDGET = Budget(max_tokens=2_000)
TEXT = "The parcel for Lyon was sent on Monday; 寄往里昂的包裹已于周一发出。"


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'chat.db'}"


@pytest.fixture
def memory(address: str) -> Iterator[Memory]:
    with Memory(address, budget=BUDGET) as opened:
        yield opened


def call(session: Session, ratio: float | None, *, turn: str = TEXT) -> int:
    """Make a call; the provider counts `ratio` times what turnfold would without a correction."""
    session.user(turn * 3)
    context = session.context()
    assert check(context) == ()
    assert context.tokens <= BUDGET.tokens
    plain = cautious_counter().count(context.messages).tokens
    if ratio is not None:
        session.record_usage({"prompt_tokens": round(plain * ratio), "completion_tokens": 1})
    session.assistant("ok")
    return plain


def factor(session: Session) -> float:
    found = correction_of(cautious_counter(), session.counter.name)
    assert found is not None
    return found


@pytest.mark.parametrize("ratio", [0.7, 1.4])
def test_a_session_corrects_its_counts_by_itself(memory: Memory, ratio: float) -> None:
    session = memory.session("one")
    for _ in range(12):
        call(session, ratio)
    assert factor(session) == pytest.approx(ratio, rel=0.02)
    session.user(TEXT)
    context = session.context()
    really = cautious_counter().count(context.messages).tokens * ratio
    assert context.tokens == pytest.approx(really, rel=0.06)
    # The room of the budget is used as the provider counts it.
    most = max(call(session, ratio) for _ in range(40)) * ratio
    assert 0.5 * BUDGET.tokens < most <= 1.01 * BUDGET.tokens
    assert audit(session) == []


def test_it_is_kept_over_a_restart_and_the_same_in_every_process(address: str) -> None:
    with Memory(address, budget=BUDGET) as before:
        for _ in range(8):
            call(before.session("one"), 0.7)
        assert factor(before.session("one")) == pytest.approx(0.7, rel=0.02)
    with Memory(address, budget=BUDGET) as here, Memory(address, budget=BUDGET) as there:
        here.session("one").user(TEXT)
        ours, theirs = here.session("one").context(), there.session("one").context()
        assert factor(here.session("one")) == factor(there.session("one"))
        assert factor(here.session("one")) == pytest.approx(0.7, rel=0.02)
        assert ours.messages == theirs.messages
        assert ours.tokens == theirs.tokens
        assert here.session("one").preview().tokens == ours.tokens


def test_one_odd_report_changes_nothing(memory: Memory) -> None:
    session = memory.session("one")
    for ratio in (1.0, 1.0, 1.0, 1.0, 9.0, 1.0, 1.0, 0.01, 1.0, 1.0):
        call(session, ratio)
        assert factor(session) == 1.0


def test_two_reports_are_too_few(memory: Memory) -> None:
    session = memory.session("one")
    for ratio in (0.6, 0.6, None):
        call(session, ratio, turn=TEXT * 5)
    assert factor(session) == 1.0
    call(session, 0.6)
    call(session, None)
    assert factor(session) < 1.0


@pytest.mark.parametrize(("ratio", "bound"), [(0.1, 0.5), (7.0, 2.0)])
def test_the_factor_is_bounded(memory: Memory, ratio: float, bound: float) -> None:
    session = memory.session("one")
    for _ in range(6):
        call(session, ratio, turn=TEXT * 2)
    assert factor(session) == bound


def test_an_exact_counter_is_not_corrected_and_the_difference_is_told(address: str) -> None:
    with Memory(address, model="gpt-4o", budget=BUDGET) as memory:
        session = memory.session("one")
        name = session.counter.name
        for _ in range(8):
            call(session, 0.7)
        assert session.counter.name == name
        assert memory.calibration.observations == 8
        assert memory.calibration.ratio < 0.95
        assert memory.meter.values["count_ratio"].count == 8


def test_another_conversation_of_the_memory_learns_from_one_report(memory: Memory) -> None:
    for _ in range(6):
        call(memory.session("one"), 0.7)
    fresh = memory.session("two")
    call(fresh, 0.7, turn=TEXT * 3)
    call(fresh, None)
    assert factor(fresh) == pytest.approx(0.7, rel=0.02)


def test_models_do_not_share_a_factor(address: str) -> None:
    plain = cautious_counter()
    with (
        Memory(address, model="claude-sonnet-4-5", counter=plain, budget=BUDGET) as one,
        Memory(address, model="some-local-model", counter=plain, budget=BUDGET) as other,
    ):
        for _ in range(6):
            call(one.session("one"), 0.7)
        call(one.session("one"), None)
        call(other.session("one"), None)
        assert factor(one.session("one")) == pytest.approx(0.7, rel=0.02)
        assert factor(other.session("one")) == 1.0


def test_calls_before_and_after_can_be_explained_exactly(memory: Memory) -> None:
    session = memory.session("one")
    for number in range(14):
        call(session, 0.7 if number < 9 else 1.3, turn=f"{number}: {TEXT * 12}")
    made = session.calls(limit=50)
    assert len({each.counter for each in made}) > 1
    assert [each.call for each in made if not session.explain(each.call).exact] == []


def test_a_fork_keeps_the_factor(memory: Memory) -> None:
    session = memory.session("one")
    for _ in range(6):
        call(session, 0.7)
    call(session, None)
    copy = session.fork(conversation="copy")
    copy.context()
    assert factor(copy) == factor(session) < 1.0


def test_a_factor_stays_until_reports_differ_by_more_than_a_step() -> None:
    log = CalibrationLog()
    for ratio in (100, 102, 104, 96, 98):
        log.observe(counted=1_000, reported=ratio * 10)
    assert log.next_factor(1.0) == 1.0
    for _ in range(9):
        log.observe(counted=1_000, reported=900)
    assert log.next_factor(1.0) == 0.9
    assert log.next_factor(0.92) == 0.92
    log.observe(counted=10, reported=90)  # a prompt this short says nothing
    assert log.next_factor(0.9) == 0.9


def test_a_corrected_counter_is_known_by_its_name() -> None:
    plain = cautious_counter()
    for wanted in (0.5, 0.83, 1.0, 2.0):
        assert correction_of(plain, corrected_counter(plain, wanted).name) == wanted
    assert correction_of(plain, "another+openai+generic-images") is None
    assert correction_of(plain, corrected_counter(plain, 3.0).name) is None
