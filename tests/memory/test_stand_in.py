"""While the model fails, an extract stands in for what left the window: no message is ever nowhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tests.memory.faulty_model import Fault, FaultyModel, SetClock
from tests.memory.fold_actors import COUNTER
from turnfold.budget import Budget
from turnfold.errors import SummaryFailed
from turnfold.memory import Memory, Session
from turnfold.memory.fold_keeper import FoldKeeper, FoldMode, MemoryMode
from turnfold.memory.folding import FoldRange
from turnfold.records import Checkpoint
from turnfold.stores.memory_store import MemoryStore
from turnfold.testing.audit import audit
from turnfold.window import Context, check

BUDGET = Budget(max_tokens=1_200)
OWN = (FoldMode.INLINE, FoldMode.BACKGROUND)
_NUMBER = re.compile(r"#(\d+)#")


@dataclass
class Talk:
    """A conversation whose summariser is down."""

    mode: FoldMode
    stand_in: bool = True
    backoff: float = 1.0
    clock: SetClock = field(default_factory=SetClock)
    model: FaultyModel = field(default_factory=lambda: FaultyModel(Fault.ERROR))

    def __post_init__(self) -> None:
        self.store = MemoryStore(counter=COUNTER, clock=self.clock)
        self.session = self.opened(FoldMode.INLINE).session("c")
        self.said = 0
        self.until(lambda: self.session.status().fold_failures > 0)
        assert len(self.model.asked) == 1
        self.session = self.opened(self.mode).session("c")

    def opened(self, mode: FoldMode, *, clock: Callable[[], int] | None = None) -> Memory:
        """A handle as another process would hold it, perhaps by another clock."""
        return Memory(
            self.store,
            counter=COUNTER,
            budget=BUDGET,
            summarizer=self.model,
            checkpoint=mode,
            keep_turns=2,
            backoff=self.backoff,
            stand_in=self.stand_in,
            clock=clock or self.clock,
        )

    def turn(self) -> Context:
        """A question, the context of its call, an answer."""
        self.said += 1
        self.session.user(f"#{self.said}# order {self.said * 37} is late, 请尽快处理。 " * 2)
        context = self.session.context()
        assert check(context) == ()
        self.session.assistant(f"order {self.said * 37}: noted")
        return context

    def until(self, happened: Callable[[], bool]) -> None:
        """Turns until something has happened."""
        for _ in range(60):
            if happened():
                return
            self.turn()
        raise AssertionError("it did not happen in 60 turns")

    def nowhere(self, context: Context) -> set[int]:
        """Questions that the window neither shows nor has a summary of."""
        shown = {int(one) for one in _NUMBER.findall("".join(m.text for m in context.messages))}
        covered = sum(
            entry.message.role == "user"
            for entry in self.session.history(limit=1_000)
            if entry.seq <= self.session.status().covered
        )
        return set(range(covered + 1, self.said + 1)) - shown

    def close(self) -> list[str]:
        return list(map(str, audit(self.session)))


@pytest.mark.parametrize("mode", OWN)
def test_nothing_is_nowhere_however_long_the_model_is_down(mode: FoldMode) -> None:
    talk = Talk(mode)
    for _ in range(40):
        assert talk.nowhere(talk.turn()) == set()
    checkpoints = talk.session.checkpoints()
    assert len(checkpoints) > 1
    assert {each.model for each in checkpoints} == {""}
    assert talk.close() == []


@pytest.mark.parametrize("mode", OWN)
def test_without_a_stand_in_they_would_be_nowhere(mode: FoldMode) -> None:
    talk = Talk(mode, stand_in=False)
    assert any(talk.nowhere(talk.turn()) for _ in range(40))
    assert talk.session.checkpoints() == []
    assert talk.session.status().mode is MemoryMode.FULL_HISTORY


@pytest.mark.parametrize("mode", OWN)
def test_the_failure_stays_in_sight_and_the_model_is_left_alone(mode: FoldMode) -> None:
    talk = Talk(mode)
    for _ in range(40):
        talk.turn()
    status = talk.session.status()
    assert status.checkpoint
    assert (status.fold_failures, status.fold_error) == (1, "RateLimited")
    assert status.mode is MemoryMode.SUMMARY_N
    assert len(talk.model.asked) == 1, "its time had not come: nothing moved the clock"


def test_a_model_that_may_be_asked_at_every_call_is_given_up_after_its_last_retry() -> None:
    talk = Talk(FoldMode.INLINE, backoff=0.0)
    for _ in range(40):
        assert talk.nowhere(talk.turn()) == set()
    assert talk.session.status().fold_failures > 4
    assert talk.session.checkpoints()


def test_every_handle_shows_the_same_stand_in() -> None:
    talk = Talk(FoldMode.INLINE)
    for _ in range(40):
        talk.turn()
    talk.session.user("and now?")
    here = talk.session.context()
    there = talk.opened(FoldMode.INLINE).session("c").context()
    assert there.messages == here.messages
    assert talk.session.checkpoints()[-1].text in here.messages[0].text


def test_the_model_goes_on_from_the_extract_when_it_is_back() -> None:
    talk = Talk(FoldMode.INLINE)
    talk.until(lambda: bool(talk.session.checkpoints()))
    stood_in = talk.session.checkpoints()[-1]
    talk.model.fault = None
    talk.clock.later()
    talk.until(lambda: talk.session.status().checkpoint != stood_in.id)
    written = talk.session.checkpoints()[-1]
    assert (written.model, written.previous) == ("faulty", stood_in.id)
    assert stood_in.text in talk.model.asked[-1], "the extract is the summary so far"
    assert f"#{talk.said}#" not in talk.model.asked[-1]
    status = talk.session.status()
    assert (status.fold_failures, status.fold_error) == (0, "")
    assert talk.close() == []


def test_a_model_that_answers_too_late_for_the_stand_in_is_forgiven_and_its_answer_dropped() -> (
    None
):
    talk = Talk(FoldMode.INLINE)
    slow = talk.clock()
    other = talk.opened(FoldMode.INLINE, clock=lambda: slow).session("c")
    talk.model.fault = None
    talk.clock.later()
    talk.model.meanwhile = lambda: _overtake(talk, other)
    talk.until(lambda: bool(talk.session.checkpoints()))
    assert [each.model for each in talk.session.checkpoints()] == [""]
    assert talk.session.status().fold_failures == 0
    assert talk.nowhere(talk.turn()) == set()
    assert talk.close() == []


def _overtake(talk: Talk, other: Session) -> None:
    """Another process, whose clock is behind, says so much that messages leave the window before the model answers."""
    talk.model.meanwhile = None
    for _ in range(40):
        if other.checkpoints():
            return
        talk.said += 1
        other.user(f"#{talk.said}# and another thing, " * 4)
        other.context()


def test_nobody_stands_in_for_who_has_not_failed() -> None:
    talk = Talk(FoldMode.INLINE)
    talk.model.fault = None
    talk.clock.later()
    talk.until(lambda: bool(talk.session.checkpoints()))
    assert talk.session.checkpoints()[-1].model == "faulty"


def test_a_checkpoint_asked_for_by_hand_still_raises() -> None:
    talk = Talk(FoldMode.MANUAL)
    for _ in range(40):
        talk.turn()
    talk.clock.later()
    with pytest.raises(SummaryFailed):
        talk.session.checkpoint()
    assert talk.session.checkpoints() == []


def test_these_tests_see_a_stand_in_that_forgets_part_of_its_range(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand_in = FoldKeeper.stand_in

    async def lazy(self: FoldKeeper, fold: FoldRange) -> Checkpoint | None:
        return await stand_in(self, fold) if fold.previous is None else None

    monkeypatch.setattr(FoldKeeper, "stand_in", lazy)
    talk = Talk(FoldMode.INLINE)
    assert any(talk.nowhere(talk.turn()) for _ in range(40))
