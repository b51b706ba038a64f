"""A summariser that fails in any way leaves the last good window, says so, and is forgiven when it works again."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.memory.faulty_model import HOSTILE, Fault, FaultyModel, SetClock, long_history, turn
from tests.memory.fold_actors import COUNTER
from tests.sizes import FOLD_FAULTS
from turnfold.budget import Budget
from turnfold.errors import ConversationDeleted, SummaryFailed
from turnfold.inspect import audit
from turnfold.memory import AsyncMemory, Folder, FoldMode, FoldRange, Memory, MemoryMode, Session
from turnfold.records import Checkpoint, Message
from turnfold.stores import MemoryStore
from turnfold.telemetry import Meter
from turnfold.window import Context, Outcome, Section, check

BUDGET = Budget(max_tokens=900)
RETRIES = 1


@dataclass
class Case:
    """A conversation whose next fold goes wrong."""

    fault: Fault
    mode: FoldMode
    seed: int

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)  # noqa: S311 (a run that can be repeated)
        self.clock = SetClock()
        self.meter = Meter()
        self.model = FaultyModel(None, seed=self.seed)
        self.store = MemoryStore(counter=COUNTER, clock=self.clock)
        self.memory = self.opened()
        self.session = self.memory.session("c")
        self.turns = 100

    def opened(self) -> Memory:
        return Memory(
            self.store,
            counter=COUNTER,
            budget=BUDGET,
            summarizer=self.model,
            fold=self.mode,
            keep_turns=2,
            retries=RETRIES,
            backoff=0.0,
            meter=self.meter,
            clock=self.clock,
        )

    def found(self) -> list[str]:
        """Everything that is not as it should be."""
        try:
            return list(self.faults())
        finally:
            self.model.over.set()
            self.memory.close(cancel=True)

    def faults(self) -> Iterator[str]:
        self.session.add(long_history(self.dice, tokens=int(0.8 * BUDGET.tokens)))
        self.session.user("go on")
        self.fold()
        good = self.session.status().checkpoint
        self.model.fault = self.fault
        self.grow()
        before = self.call()
        self.arm()
        self.fold()
        if self.fault is Fault.ERASED:
            yield from self.erased_faults()
            return
        yield from self.window_faults(before)
        status = self.session.status()
        if self.fault.fails:
            yield from self.flag_faults(good)
        elif status.fold_failures:
            yield f"flagged, though something could be made of it: {status.fold_error}"
        yield from self.recovery_faults()

    def grow(self) -> None:
        """Turns until a fold is due."""
        while self.due() < 0.8 * BUDGET.tokens:
            self.session.add(turn(self.dice, self.turns))
            self.turns += 1
        self.session.user("go on")  # within a tool loop nothing is folded inline

    def due(self) -> int:
        status = self.session.status()
        entries = self.session.history(after=status.covered, limit=1_000)
        return sum(entry.tokens for entry in entries)

    def arm(self) -> None:
        """What happens between the question and the answer."""
        if self.fault is Fault.LATE:
            other = Memory(self.store, counter=COUNTER, budget=BUDGET, fold="manual")
            self.model.meanwhile = lambda: self.overtake(other.session("c"))
        elif self.fault is Fault.ERASED:
            self.model.meanwhile = self.erase

    def overtake(self, other: Session) -> None:
        self.model.meanwhile = None
        assert other.fold(summary="somebody else was faster", keep_turns=1) is not None

    def erase(self) -> None:
        self.model.meanwhile = None
        Memory(self.store, counter=COUNTER).session("c").delete()

    def call(self) -> Context | None:
        """A context without a fold."""
        quiet = Memory(self.store, counter=COUNTER, budget=BUDGET, fold="manual")
        return quiet.session("c").context()

    def fold(self) -> None:
        """What folds in this mode, to its end, all retries included."""
        for _ in range(RETRIES + 1):
            self.clock.later()
            try:
                if self.mode is FoldMode.MANUAL:
                    self.session.fold()
                else:
                    self.session.context()
            except SummaryFailed:
                continue
            except ConversationDeleted:
                return
            if self.mode is FoldMode.BACKGROUND:
                self.memory.drain()
                self.memory = self.opened()
                self.session = self.memory.session("c")
            if self.mode is not FoldMode.INLINE:
                return

    def window_faults(self, before: Context | None) -> Iterator[str]:
        context = self.call()
        assert context is not None
        assert before is not None
        yield from map(str, check(context))
        yield from map(str, audit(self.session, context=context))
        if context.tokens > BUDGET.tokens:
            yield f"{context.tokens} tokens"
        if self.fault.fails and _verbatim(context) != _verbatim(before):
            yield "another window than the last good one"
        if self.fault.fails and self.mode is not FoldMode.MANUAL and _nowhere(context):
            yield f"entries {_nowhere(context)} are neither shown nor stood in for"
        if any(message.role == "system" for message in context.messages):
            yield "a summary became a system message"

    def flag_faults(self, good: str) -> Iterator[str]:
        status = self.session.status()
        if status.checkpoint != good:
            yield "a checkpoint was made of nothing"
        if status.fold_failures != RETRIES + 1 or not status.fold_error:
            yield f"{status.fold_failures} failures of kind {status.fold_error!r}"
        stood_in = status.covered > self.session.checkpoints()[-1].upto
        mode = MemoryMode.SUMMARY_N if stood_in else MemoryMode.FULL_HISTORY
        if status.mode is not mode:
            yield f"mode {status.mode} after the last retry"
        if self.meter.counts.get("fold_failures", 0) != RETRIES + 1:
            yield f"the meter counts {self.meter.counts}"

    def recovery_faults(self) -> Iterator[str]:
        self.model.fault = None
        for _ in range(3):
            self.session.add(turn(self.dice, self.turns))
            self.turns += 1
        self.grow()
        live = self.session.status().checkpoint
        self.fold()
        status = self.session.status()
        if status.checkpoint == live or status.fold_failures or status.fold_error:
            yield f"no recovery: {status}"
        if status.mode is not MemoryMode.SUMMARY_N:
            yield f"mode {status.mode} after a success"
        yield from map(str, audit(self.session))

    def erased_faults(self) -> Iterator[str]:
        if self.store._conversations["default", "c"].documents:
            yield "documents after an erasure"
        if self.session.history() or self.session.checkpoints():
            yield "entries or checkpoints after an erasure"


def _verbatim(context: Context) -> list[Message]:
    """Everything but the summary, in whose place an extract may stand, and what is recalled of what it covers."""
    made = (*context.section(Section.SUMMARY), *context.section(Section.TAIL))
    return [message for message in context.messages if message not in made]


def _nowhere(context: Context) -> list[int]:
    dropped = [fate for fate in context.fates if fate.outcome is Outcome.DROPPED]
    return [seq for fate in dropped for seq in range(fate.start, fate.stop)]


@pytest.mark.parametrize("mode", FoldMode)
@pytest.mark.parametrize("fault", Fault)
def test_every_fault_leaves_the_last_good_window(
    fault: Fault, mode: FoldMode, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="turnfold"):
        for seed in range(FOLD_FAULTS.default):
            assert Case(fault, mode, seed).found() == [], (fault, mode, seed)
    if fault.fails:
        assert "folding failed" in caplog.text
    for words in ("4711", "四七一一", "main.py", "429", *HOSTILE[:2]):
        assert words not in caplog.text


@pytest.mark.slow
@pytest.mark.timeout(60 * FOLD_FAULTS.minutes)
@pytest.mark.parametrize("mode", FoldMode)
@pytest.mark.parametrize("fault", Fault)
def test_every_fault_leaves_the_last_good_window_at_length(fault: Fault, mode: FoldMode) -> None:
    for seed in range(1_000, 1_000 + FOLD_FAULTS.slow):
        assert Case(fault, mode, seed).found() == [], (fault, mode, seed)


def test_what_no_store_can_hold_is_a_failed_attempt() -> None:
    case = Case(Fault.HOSTILE, FoldMode.MANUAL, seed=1)
    case.session.add(long_history(case.dice, tokens=600))
    case.model._good._ask = lambda _: "half a character: \ud83d"
    with pytest.raises(SummaryFailed):
        case.session.fold()
    status = case.session.status()
    assert (status.fold_failures, status.fold_error, status.checkpoint) == (1, "InvalidRecord", "")
    assert audit(case.session) == []


@pytest.mark.parametrize("mode", FoldMode)
def test_a_call_that_is_never_answered_does_not_keep_anything_from_being_folded(
    mode: FoldMode,
) -> None:
    case = Case(Fault.LATE, mode, seed=2)
    case.session.add(turn(case.dice, 0, unanswered=True))
    case.grow()
    case.fold()
    status = case.session.status()
    assert status.covered > 4
    assert audit(case.session) == []


def test_a_text_of_any_kind_is_a_turn_like_any_other() -> None:
    case = Case(Fault.LATE, FoldMode.MANUAL, seed=3)
    for text in HOSTILE:
        case.session.user(text)
        case.session.assistant(text)
    status = case.session.status()
    assert (status.checkpoint, status.covered) == ("", 0)
    shown = [message.text for message in case.session.context().messages]
    assert shown == [text for text in HOSTILE for _ in range(2)]
    assert case.session.checkpoints() == []


def test_the_cases_see_a_window_that_a_failure_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Folder.step

    async def gives_up(self: Folder, fold: FoldRange) -> Checkpoint | None:
        try:
            return await step(self, fold)
        except SummaryFailed:
            return await self.fold_given(fold, "(lost)")

    monkeypatch.setattr(Folder, "step", gives_up)
    found = Case(Fault.ERROR, FoldMode.MANUAL, seed=4).found()
    assert "another window than the last good one" in found
    assert any(fault.startswith("0 failures") for fault in found)


@pytest.mark.parametrize("retries", [0, 3])
def test_retries_are_those_of_one_background_fold(retries: int) -> None:
    """A later call at which a fold is due tries again, whatever `retries` is; the error itself is raised by fold()."""
    asked: list[int] = []

    def summarize(*_: object) -> str:
        asked.append(1)
        raise RuntimeError("summary model is down")

    with Memory(
        model="gpt-4o", budget=Budget(max_tokens=600), summarizer=summarize, retries=retries,
        backoff=0.0, fold="inline",
    ) as memory:  # fmt: skip
        session = memory.session("x")
        for turn in range(30):
            session.user(f"turn {turn} " + "word " * 20)
            session.context()
            session.assistant("ok " * 10)
        assert len(asked) > retries + 1
        assert session.status().fold_error == "RuntimeError"
        with pytest.raises(SummaryFailed) as raised:
            session.fold()
        assert str(raised.value.__cause__) == "summary model is down"


def says_it_is_down(asked: list[int]) -> str:
    asked.append(1)
    raise RuntimeError("summary model is down")


def test_close_ends_the_retries_of_a_fold_and_a_later_memory_folds() -> None:
    asked: list[int] = []
    ahead = [0]

    def clock() -> int:
        return time.time_ns() // 1_000 + ahead[0]

    store = MemoryStore(counter=COUNTER, clock=clock)
    memory = Memory(
        store, counter=COUNTER, budget=BUDGET, summarizer=lambda *_: says_it_is_down(asked), clock=clock,
        fold="background", keep_turns=2, retries=1, backoff=20.0,
    )  # fmt: skip
    session = memory.session("x")
    session.add(long_history(random.Random(1), tokens=2 * BUDGET.tokens))  # noqa: S311 (a run that can be repeated)
    session.user("go on")
    session.context()
    memory.close()
    assert asked == [1]
    ahead[0] = 3_600_000_000  # after the pause that the failure left in the store
    with Memory(
        store, counter=COUNTER, budget=BUDGET, summarizer=lambda *_: "what was said", clock=clock
    ) as later:
        assert later.session("x").fold() is not None


def test_an_awaited_close_ends_the_retries_of_a_fold() -> None:
    asked: list[int] = []

    async def run() -> None:
        failed = asyncio.Event()

        async def summarize(*_: object) -> str:
            failed.set()
            return says_it_is_down(asked)

        memory = AsyncMemory(
            MemoryStore(counter=COUNTER), counter=COUNTER, budget=BUDGET, summarizer=summarize,
            fold="background", keep_turns=2, retries=1, backoff=20.0,
        )  # fmt: skip
        session = memory.session("x")
        await session.add(long_history(random.Random(1), tokens=2 * BUDGET.tokens))  # noqa: S311 (a run that can be repeated)
        await session.user("go on")
        await session.context()
        await asyncio.wait_for(failed.wait(), 60)
        await memory.close()

    asyncio.run(run())
    assert asked == [1]
