"""Until a fold has landed an extract stands in for what left the window: no message is ever nowhere."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tests.memory.faulty_model import Fault, FaultyModel, SetClock
from tests.memory.fold_actors import COUNTER
from turnfold.budget import Budget
from turnfold.errors import SummaryFailed
from turnfold.inspect import audit
from turnfold.memory import FoldMode, Memory, MemoryMode, Session, SummaryTask
from turnfold.memory.folding import FoldManager
from turnfold.runtime import Runtime, drive
from turnfold.stores import MemoryStore
from turnfold.window import Context, Outcome, Section, check

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
            fold=mode,
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
    assert talk.session.checkpoints() == [], "an extract is no checkpoint"
    assert talk.session.status().covered > 20
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
    assert (status.fold_failures, status.fold_error) == (1, "RateLimited")
    assert status.mode is MemoryMode.SUMMARY_N
    assert len(talk.model.asked) == 1, "its time had not come: nothing moved the clock"


def test_a_model_that_may_be_asked_at_every_call_is_stood_in_for_all_the_same() -> None:
    talk = Talk(FoldMode.INLINE, backoff=0.0)
    for _ in range(40):
        assert talk.nowhere(talk.turn()) == set()
    assert talk.session.status().fold_failures > 4


def test_every_handle_shows_the_same_stand_in_and_explains_it() -> None:
    talk = Talk(FoldMode.INLINE)
    for _ in range(40):
        talk.turn()
    talk.session.user("and now?")
    here = talk.session.context()
    there = talk.opened(FoldMode.INLINE).session("c").context()
    assert there.messages == here.messages
    assert here.section(Section.SUMMARY)
    explained = talk.session.explain()
    assert explained.exact
    assert explained.messages == here.messages


def test_the_model_reads_everything_the_extract_stood_in_for_when_it_is_back() -> None:
    talk = Talk(FoldMode.INLINE)
    for _ in range(20):
        talk.turn()
    stood_in = talk.session.status().covered
    assert stood_in
    talk.model.fault = None
    talk.clock.later()
    talk.until(lambda: talk.session.status().checkpoint != "")
    written = talk.session.checkpoints()[0]
    assert (written.model, written.previous) == ("faulty", "")
    assert "#1#" in talk.model.asked[-1], "the entries themselves, not the extract"
    assert f"#{talk.said}#" not in talk.model.asked[-1]
    assert written.upto >= stood_in
    assert talk.session.status().covered == written.upto, "the summary replaces the extract"
    status = talk.session.status()
    assert (status.fold_failures, status.fold_error) == (0, "")
    assert talk.close() == []


def test_a_model_that_answers_after_the_extract_stood_in_is_still_taken() -> None:
    talk = Talk(FoldMode.INLINE)
    slow = talk.clock()
    other = talk.opened(FoldMode.INLINE, clock=lambda: slow).session("c")
    talk.model.fault = None
    talk.clock.later()
    talk.model.meanwhile = lambda: _overtake(talk, other)
    talk.until(lambda: bool(talk.session.checkpoints()))
    assert [each.model for each in talk.session.checkpoints()] == ["faulty"]
    assert talk.session.status().fold_failures == 0
    assert talk.nowhere(talk.turn()) == set()
    assert talk.close() == []


def _overtake(talk: Talk, other: Session) -> None:
    """Another process says so much that messages leave the window before the model answers."""
    talk.model.meanwhile = None
    for _ in range(40):
        if other.status().covered:
            return
        talk.said += 1
        other.user(f"#{talk.said}# and another thing, " * 4)
        assert other.context().receipt.count(Outcome.DROPPED) == 0
    raise AssertionError("nothing stood in")


def test_nobody_stands_in_for_who_has_not_failed() -> None:
    talk = Talk(FoldMode.INLINE)
    talk.model.fault = None
    talk.clock.later()
    talk.until(lambda: bool(talk.session.checkpoints()))
    assert talk.session.checkpoints()[-1].model == "faulty"
    assert talk.session.status().covered == talk.session.checkpoints()[-1].upto


def test_a_checkpoint_asked_for_by_hand_still_raises() -> None:
    talk = Talk(FoldMode.MANUAL)
    for _ in range(40):
        talk.turn()
    talk.clock.later()
    with pytest.raises(SummaryFailed):
        talk.session.fold()
    assert talk.session.checkpoints() == []


class Stuck:
    """A summariser that was asked and has not answered yet."""

    name = "stuck"

    def __init__(self) -> None:
        self.asked, self.answer = threading.Event(), threading.Event()

    async def write(self, task: SummaryTask, runtime: Runtime) -> str:  # noqa: ARG002 (it answers when told to)
        self.asked.set()
        assert self.answer.wait(60)
        return f"a summary of {len(task.passages)} passages"


def test_nothing_is_nowhere_while_a_fold_in_the_background_is_under_way() -> None:
    model, store = Stuck(), MemoryStore(counter=COUNTER)
    options = {"counter": COUNTER, "budget": BUDGET, "keep_turns": 2}
    with Memory(store, summarizer=model, fold="background", **options) as memory:
        session, said = memory.session("c"), 0
        while said < 60:
            said += 1
            session.user(f"#{said}# order {said * 37} is late, 请尽快处理。 " * 2)
            context = session.context()
            assert context.receipt.count(Outcome.DROPPED) == 0, said
            assert audit(session, context=context) == []
            session.assistant(f"order {said * 37}: noted")
        assert model.asked.is_set()
        assert session.checkpoints() == []
        model.answer.set()
        memory.drain()
        assert [each.model for each in session.checkpoints()] == ["stuck"]
        context = session.context()
        assert context.receipt.count(Outcome.DROPPED) == 0
        assert audit(session, context=context) == []


def test_a_lease_left_by_a_clock_an_hour_ahead_is_not_believed() -> None:
    """A process died holding the lease, and the wall clock was then set back: nobody waits for the hour."""
    clock = SetClock()
    store = MemoryStore(counter=COUNTER, clock=clock)
    model = FaultyModel(None)
    options = {"counter": COUNTER, "budget": BUDGET, "keep_turns": 2, "clock": clock}
    dead = Memory(store, summarizer=model, fold="inline", **options).session("c")
    dead.user("hello")
    assert drive(dead._awaiting._folds._claim())
    clock.now -= 3_600 * 1_000_000
    session = Memory(store, summarizer=model, fold="inline", **options).session("c")
    for said in range(60):
        session.user(f"#{said}# order {said * 37} is late, 请尽快处理。 " * 2)
        session.context()
    assert {each.model for each in session.checkpoints()} == {"faulty"}


def test_a_lease_that_stands_still_is_over_by_the_monotonic_clock() -> None:
    """The wall clock stopped: by it the lease of a dead process would never end."""
    clock, ticks = SetClock(), [0.0]
    store = MemoryStore(counter=COUNTER, clock=clock)
    options = {"counter": COUNTER, "budget": BUDGET, "clock": clock, "fold_lease": 5.0}
    dead = Memory(store, **options).session("c")
    dead.user("hello")
    assert drive(dead._awaiting._folds._claim())
    folds = Memory(store, **options).session("c")._awaiting._folds
    folds._lease.monotonic = lambda: ticks[0]
    assert not drive(folds._claim())
    ticks[0] = 4.9
    assert not drive(folds._claim())
    ticks[0] = 5.1
    assert drive(folds._claim())


def test_these_tests_see_a_stand_in_that_forgets_part_of_its_range(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never(*_: object, **__: object) -> bool:
        return False

    monkeypatch.setattr(FoldManager, "stand_in", never)
    talk = Talk(FoldMode.INLINE)
    assert any(talk.nowhere(talk.turn()) for _ in range(40))


def test_folds_go_on_after_a_drain() -> None:
    options = {"counter": COUNTER, "budget": BUDGET, "keep_turns": 2}
    store = MemoryStore(counter=COUNTER)
    with Memory(store, summarizer=lambda _: "a summary", fold="background", **options) as memory:
        session = memory.session("c")
        for said in range(60):
            session.user(f"#{said}# order {said * 37} is late, 请尽快处理。 " * 2)
            session.context()
            session.assistant(f"order {said * 37}: noted")
            memory.drain()
        assert len(session.checkpoints()) > 1
