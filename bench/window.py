"""How long does it take to build the window for the next call, and how does that grow with the history?

Warm: one message is appended (and counted, where the contender counts exactly) and the window is built. Cold: the same
from a list of messages. The newest messages are the same for every size, so that only the length of the history
differs. Every warm window is judged where a call is due; the best peer is the fastest whose windows were all good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import process_time
from typing import Any

from bench.contender import Contender, Item, Session
from bench.judge import Record, call_due
from bench.peers import absent, contenders
from bench.report import Report, Table, Target, duration
from bench.timing import Samples, frozen_heap, growth, ratio, shown_sizes
from bench.workload import stretch

__all__ = ("QUESTION", "run")

QUESTION = "time to build the window for the next call (8,000 tokens)"
BUDGET = 8_000
TAIL = 600
TOO_SLOW = 60.0
"""Seconds a call may take; what is expected to take longer is extrapolated and marked."""


@dataclass(frozen=True, slots=True)
class _Plan:
    sizes: Sequence[int]
    rounds: int
    calls: int
    """Warm calls of a round, fewer for the slow."""
    patience: float
    """Seconds of warm calls per contender and size, not counting the first round."""


FULL = _Plan(sizes=(100, 1_000, 10_000, 100_000), rounds=7, calls=60, patience=6.0)
QUICK = _Plan(sizes=(100, 1_000, 10_000), rounds=5, calls=40, patience=1.2)


@dataclass(slots=True)
class _Lane:
    """One contender at one size."""

    contender: Contender
    history: list[Item]
    tail: list[Item]
    messages: list[Any] = field(default_factory=list[Any])
    arriving: list[Any] = field(default_factory=list[Any])
    session: Session | None = None
    cold: Samples = field(default_factory=Samples)
    warm: Samples = field(default_factory=Samples)
    record: Record = field(default_factory=Record)
    expected: float = 0.0
    """Seconds a call would take, where it was not tried."""
    taken: int = 0

    def prepare(self) -> None:
        """Convert everything, untimed."""
        converted = self.contender.convert([*self.history, *self.tail])
        self.messages = converted[: -len(self.tail)]
        self.arriving = converted[-len(self.tail) :]

    def start(self) -> None:
        """One cold call; its conversation is the one that goes on."""
        begin = process_time()
        self.session = self.contender.open(self.messages, BUDGET)
        self.session.window()
        self.cold.rounds.append([process_time() - begin])
        self.taken = 0

    def round(self, calls: int) -> None:
        """A round of warm calls, each judged after it was timed."""
        assert self.session is not None
        samples: list[float] = []
        for _ in range(calls):
            message = self.arriving[self.taken]
            begin = process_time()
            self.session.add(message)
            window = self.session.window()
            samples.append(process_time() - begin)
            self._judge(window)
        self.warm.rounds.append(samples)

    def _judge(self, window: Sequence[Any]) -> None:
        self.taken += 1
        said = self.tail[: self.taken]
        if call_due(said):
            items = self.contender.read(window)
            self.record.judge(items, newest=said[-1], budget=BUDGET)


def run(*, quick: bool) -> Report:
    """Measure everybody at every size."""
    plan = QUICK if quick else FULL
    lanes: dict[str, dict[int, _Lane]] = {each.name: {} for each in contenders()}
    for size in plan.sizes:
        talk = stretch(size, tail=TAIL, longest=max(plan.sizes))
        for each in contenders():
            lane = _Lane(each, talk.history, talk.tail)
            lane.expected = _expected(lanes[each.name], size)
            lanes[each.name][size] = lane
        _measure_cold([sizes[size] for sizes in lanes.values() if not sizes[size].expected])
    tried = [lane for sizes in lanes.values() for lane in sizes.values() if not lane.expected]
    with frozen_heap():
        _measure_warm(tried, plan)
    return _report(plan, lanes)


def _expected(known: dict[int, _Lane], size: int) -> float:
    """Seconds a call would take where that is too long to try, from the growth so far; 0 where it is not."""
    seconds = {each: lane.expected or lane.cold.median for each, lane in known.items()}
    if not seconds:
        return 0.0
    exponent = growth(seconds, start=min(seconds)) if len(seconds) > 1 else 1.0
    largest = max(seconds)
    expected = seconds[largest] * (size / largest) ** max(exponent, 1.0)
    return expected if expected > TOO_SLOW else 0.0


def _measure_cold(lanes: Sequence[_Lane]) -> None:
    for lane in lanes:
        lane.prepare()
    with frozen_heap():
        for number in range(3):
            for lane in lanes:
                if number == 0 or lane.cold.median < 1.0:
                    lane.start()


def _measure_warm(lanes: Sequence[_Lane], plan: _Plan) -> None:
    for number in range(plan.rounds + 1):
        for lane in lanes:
            if number == 0:
                lane.round(1)  # the first call after a cold one is not counted
                lane.warm.rounds.clear()
            elif lane.warm.total < plan.patience or len(lane.warm.rounds) < 2:
                guess = lane.warm.median if lane.warm.rounds else lane.cold.median
                lane.round(max(1, min(plan.calls, int(plan.patience / plan.rounds / guess))))


def _report(plan: _Plan, lanes: dict[str, dict[int, _Lane]]) -> Report:
    report = Report("window", QUESTION)
    exponents = {name: _growth(sizes) for name, sizes in lanes.items()}
    report.tables = [_warm_table(plan, lanes, exponents), _cold_table(plan, lanes)]
    report.targets = _targets(plan, lanes, exponents)
    report.figures = {
        name: {
            str(size): {
                "warm": lane.warm.figures() if lane.warm.rounds else None,
                "cold": lane.cold.figures() if lane.cold.rounds else None,
                "expected": lane.expected or None,
                "windows": lane.record.shown(),
            }
            for size, lane in sizes.items()
        }
        for name, sizes in lanes.items()
    }
    return report


def _growth(sizes: dict[int, _Lane]) -> float:
    return growth({size: lane.warm.median for size, lane in sizes.items() if lane.warm.rounds})


def _total_record(sizes: dict[int, _Lane]) -> Record:
    total = Record()
    for lane in sizes.values():
        total.add(lane.record)
    return total


def _warm_table(
    plan: _Plan, lanes: dict[str, dict[int, _Lane]], exponents: dict[str, float]
) -> Table:
    rows = [
        [
            name,
            *(_warm_cell(sizes[size]) for size in plan.sizes),
            f"{exponents[name]:+.2f}",
            _total_record(sizes).shown(),
            "yes" if sizes[plan.sizes[0]].contender.keeps_history else "no",
        ]
        for name, sizes in lanes.items()
    ]
    notes = [
        "processor time, median (10th to 90th percentile), of one message appended and the window built",
        "exponent: slope of log(time) over log(messages) from 1,000 messages up",
        "a window is good when its pairs are whole, the newest message is in it and it is within the budget",
        "history kept: no = the cut replaces the history, so these hold a window and not the whole conversation",
        *(f"left out, package not installed: {name}" for name in absent()),
    ]
    columns = ["warm", *shown_sizes(plan.sizes), "exponent", "windows", "history kept"]
    return Table("Warm, by messages held", columns, rows, notes)


def _warm_cell(lane: _Lane) -> str:
    return lane.warm.shown() if lane.warm.rounds else f"est. {duration(lane.expected)}"


def _cold_table(plan: _Plan, lanes: dict[str, dict[int, _Lane]]) -> Table:
    rows = [
        [
            name,
            *(
                duration(lane.cold.median)
                if lane.cold.rounds
                else f"est. {duration(lane.expected)}"
                for lane in (sizes[size] for size in plan.sizes)
            ),
        ]
        for name, sizes in lanes.items()
    ]
    notes = [
        "processor time of a conversation made from a list of messages, and its first window; median of up to 3"
    ]
    return Table("Cold, by messages held", ["cold", *shown_sizes(plan.sizes)], rows, notes)


def _targets(
    plan: _Plan, lanes: dict[str, dict[int, _Lane]], exponents: dict[str, float]
) -> list[Target]:
    largest = max(plan.sizes)
    full = largest == max(FULL.sizes)
    ours = [name for name, sizes in lanes.items() if sizes[largest].contender.ours]
    targets = [
        Target(
            f"{name}: |growth exponent| < 0.1",
            f"{exponents[name]:+.3f}",
            abs(exponents[name]) < 0.1,
        )
        for name in ours
    ]
    records = {name: _total_record(lanes[name]) for name in ours}
    targets += [
        Target(f"{name}: every window valid and within budget", record.shown(), record.clean)
        for name, record in records.items()
    ]
    for keeps in (True, False):
        best = _best_peer(lanes, largest, keeps=keeps)
        targets += [_faster(lanes, name, best, wanted=full and keeps) for name in ours[:2]]
    return targets


def _best_peer(lanes: dict[str, dict[int, _Lane]], size: int, *, keeps: bool) -> str:
    """The fastest peer whose windows were all good."""
    good = [
        name
        for name, sizes in lanes.items()
        if not sizes[size].contender.ours
        and sizes[size].contender.keeps_history == keeps
        and sizes[size].warm.rounds
        and _total_record(sizes).clean
    ]
    return min(good, key=lambda name: lanes[name][size].warm.median, default="")


def _faster(lanes: dict[str, dict[int, _Lane]], name: str, best: str, *, wanted: bool) -> Target:
    size = max(lanes[name])
    if not best:
        return Target(f"{name}: faster than the best peer", "no peer's windows were all good", None)
    measured = ratio(lanes[best][size].warm, lanes[name][size].warm)
    if wanted:
        claim = f"{name}: >= 100x faster at {size:,} than the best peer with good windows ({best})"
        return Target(claim, str(measured), measured.middle >= 100)
    return Target(f"{name}: against {best} at {size:,}, no target", str(measured), None)
