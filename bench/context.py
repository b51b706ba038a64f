"""How long does the context of the next call take from a SQLite file, and how does that grow with the history?

Warm: one message is appended, then the window is built from the store; both are timed, the window also alone. Cold: the
file is opened by somebody new and the first window is built. The newest messages are the same at every size. Peers are
measured on the same conversation in the same run; the best is the fastest whose windows were all good and which seeks
the budget itself. Everything is timed by the clock, because durable writes wait for the disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time

from bench.contender import Item, Stored, StoredSession
from bench.judge import Record, call_due
from bench.peers import absent, stored
from bench.peers.turnfold_itself import SessionOnDisk
from bench.report import Report, Table, Target, duration
from bench.stores_turns import scratch
from bench.timing import Samples, growth, ratio, shown_sizes
from bench.workload import Stretch, stretch

__all__ = ("QUESTION", "run")

QUESTION = "the next context from a SQLite file (8,000 tokens), warm and cold"
BUDGET = 8_000
TAIL = 600
LONGEST_INVENTED = 100_000
"""A longer history repeats one of this length: its newest messages are the same."""


@dataclass(frozen=True, slots=True)
class _Plan:
    sizes: Sequence[int]
    rounds: int
    calls: int
    """Warm calls of a round, fewer for the slow."""
    patience: float
    """Seconds of warm calls per contender and size, not counting the first round."""


FULL = _Plan(sizes=(1_000, 10_000, 100_000, 1_000_000), rounds=5, calls=60, patience=6.0)
QUICK = _Plan(sizes=(1_000, 10_000), rounds=3, calls=30, patience=3.0)


@dataclass(slots=True)
class _Lane:
    """One contender at one size."""

    contender: Stored
    path: Path
    tail: list[Item]
    warm: Samples = field(default_factory=Samples)
    """One message appended and the window built."""
    window: Samples = field(default_factory=Samples)
    """The window alone."""
    processor: Samples = field(default_factory=Samples)
    cold: Samples = field(default_factory=Samples)
    record: Record = field(default_factory=Record)
    session: StoredSession | None = None
    taken: int = 0

    def start(self) -> None:
        """Open the file as somebody new and build a window."""
        if self.session is not None:
            self.session.close()
        begin = perf_counter()
        self.session = self.contender.open(self.path, BUDGET)
        self.session.window()
        self.cold.rounds.append([perf_counter() - begin])

    def round(self, calls: int) -> None:
        """A round of warm calls, each judged after it was timed."""
        assert self.session is not None
        both: list[float] = []
        alone: list[float] = []
        worked: list[float] = []
        for _ in range(min(calls, len(self.tail) - self.taken)):
            item = self.tail[self.taken]
            used, begin = process_time(), perf_counter()
            self.session.add(item)
            added = perf_counter()
            window = self.session.window()
            end = perf_counter()
            worked.append(process_time() - used)
            both.append(end - begin)
            alone.append(end - added)
            self._judge(window)
        self.warm.rounds.append(both)
        self.window.rounds.append(alone)
        self.processor.rounds.append(worked)

    def forget(self) -> None:
        """Begin again with the times of warm calls."""
        for samples in (self.warm, self.window, self.processor):
            samples.rounds.clear()

    def _judge(self, window: Sequence[object]) -> None:
        self.taken += 1
        said = self.tail[: self.taken]
        if call_due(said):
            items = self.contender.read(window)
            self.record.judge(items, newest=said[-1], budget=BUDGET)


Lanes = dict[str, dict[int, _Lane]]


def run(*, quick: bool) -> Report:
    """Measure everybody at every size."""
    plan = QUICK if quick else FULL
    lanes: Lanes = {each.name: {} for each in stored()}
    with scratch() as folder:
        for size in plan.sizes:
            talk = _talk(size)
            for number, each in enumerate(stored()):
                if size <= each.largest:
                    path = folder / f"{number}-{size}.db"
                    each.seed(path, talk.history)
                    lanes[each.name][size] = _Lane(each, path, talk.tail)
        measured = [lane for sizes in lanes.values() for lane in sizes.values()]
        _measure(measured, plan)
        report = _report(plan, lanes)
        report.tables.append(_costs_table(measured[0]))
        for lane in measured:
            if lane.session is not None:
                lane.session.close()
    return report


def _talk(size: int) -> Stretch:
    part = min(size, LONGEST_INVENTED)
    talk = stretch(part, tail=TAIL, longest=LONGEST_INVENTED)
    system, *said = talk.history
    return Stretch([system, *(said * (size // part))], talk.tail)


def _measure(lanes: Sequence[_Lane], plan: _Plan) -> None:
    for number in range(4):
        for lane in lanes:
            if number < 2 or lane.cold.median < 1.0:
                lane.start()
            if number == 0:  # code and vocabulary were loaded
                lane.cold.rounds.clear()
    for lane in lanes:
        lane.round(2)  # the first calls after a cold one are not counted
        lane.forget()
    for _ in range(plan.rounds):
        for lane in lanes:
            if lane.warm.total < plan.patience:
                guess = lane.warm.median if lane.warm.rounds else lane.cold.median
                lane.round(max(1, min(plan.calls, int(plan.patience / plan.rounds / guess))))


def _report(plan: _Plan, lanes: Lanes) -> Report:
    report = Report("context", QUESTION)
    exponents = {
        name: growth({size: lane.window.median for size, lane in sizes.items()})
        for name, sizes in lanes.items()
    }
    report.tables = [_warm_table(plan, lanes, exponents), _cold_table(plan, lanes)]
    report.targets = _targets(plan, lanes)
    report.figures = {
        name: {
            str(size): {
                "warm": lane.warm.figures(),
                "window": {**lane.window.figures(), "p99": lane.window.percentile(0.99)},
                "processor": lane.processor.figures(),
                "cold": lane.cold.figures(),
                "windows": lane.record.shown(),
            }
            for size, lane in sizes.items()
        }
        for name, sizes in lanes.items()
    }
    return report


def _warm_table(plan: _Plan, lanes: Lanes, exponents: dict[str, float]) -> Table:
    rows: list[list[str]] = []
    for name, sizes in lanes.items():
        for what in ("window", "warm", "processor"):
            label = {"window": "window alone", "warm": "append + window", "processor": "processor"}
            cells = [
                _spread(getattr(sizes[size], what)) if size in sizes else "" for size in plan.sizes
            ]
            first = what == "window"
            rows.append(
                [
                    f"{name}: {label[what]}",
                    *cells,
                    f"{exponents[name]:+.2f}" if first else "",
                    _record(sizes).shown() if first else "",
                ]
            )
    notes = [
        "by the clock, 50th (99th) percentile; processor: of the append and the window, all threads of the process",
        "exponent: slope of log(time of the window) over log(messages)",
        *(f"{each.name}: {each.note}" for each in stored()),
        *(f"left out, package not installed: {name}" for name in absent()),
    ]
    columns = ["warm", *shown_sizes(plan.sizes), "exponent", "windows"]
    return Table("Warm, by messages in the file", columns, rows, notes)


def _spread(samples: Samples) -> str:
    return f"{duration(samples.median)} ({duration(samples.percentile(0.99))})"


def _cold_table(plan: _Plan, lanes: Lanes) -> Table:
    rows = [
        [
            name,
            *(duration(sizes[size].cold.median) if size in sizes else "" for size in plan.sizes),
        ]
        for name, sizes in lanes.items()
    ]
    notes = ["the file opened by somebody new, and the first window; imports are not part of it"]
    return Table("Cold, by messages in the file", ["cold", *shown_sizes(plan.sizes)], rows, notes)


def _record(sizes: dict[int, _Lane]) -> Record:
    total = Record()
    for lane in sizes.values():
        total.add(lane.record)
    return total


def _targets(plan: _Plan, lanes: Lanes) -> list[Target]:
    least, most = min(plan.sizes), max(plan.sizes)
    ours = {name: sizes for name, sizes in lanes.items() if sizes[least].contender.ours}
    targets: list[Target] = []
    for name, sizes in ours.items():
        slowest = max(plan.sizes, key=lambda size: sizes[size].window.median)
        measured = sizes[slowest].window.median / sizes[least].window.median
        claim = f"{name}: p50 of context() at every size up to {most:,} within 3x of {least:,}"
        targets.append(Target(claim, f"{measured:.2f}x at {slowest:,}", measured <= 3))
        record = _record(sizes)
        claim = f"{name}: every window valid and within budget"
        targets.append(Target(claim, record.shown(), record.clean))
    size = min(most, LONGEST_INVENTED)
    for budgeted in (True, False):
        best = _best(lanes, size, budgeted=budgeted)
        targets += [_faster(lanes, name, best, size, wanted=budgeted) for name in ours]
    return targets


def _best(lanes: Lanes, size: int, *, budgeted: bool) -> str:
    good = [
        name
        for name, sizes in lanes.items()
        if size in sizes
        and not sizes[size].contender.ours
        and sizes[size].contender.budgeted == budgeted
        and _record(sizes).clean
    ]
    return min(good, key=lambda name: lanes[name][size].warm.median, default="")


def _faster(lanes: Lanes, name: str, best: str, size: int, *, wanted: bool) -> Target:
    if not best:
        return Target(f"{name}: faster than the best peer", "no peer's windows were all good", None)
    measured = ratio(lanes[best][size].warm, lanes[name][size].warm)
    worked = ratio(lanes[best][size].processor, lanes[name][size].processor)
    shown = f"{measured}; of the processor {worked}"
    if wanted:
        full = size == LONGEST_INVENTED
        claim = f"{name}, append + window: >= 20x faster at {size:,} than the best peer ({best})"
        return Target(claim, shown, measured.middle >= 20 if full else None)
    return Target(f"{name}, append + window: against {best} at {size:,}, no target", shown, None)


def _costs_table(lane: _Lane) -> Table:
    """What one context() asks of its store, and how long each answer takes."""
    assert isinstance(lane.session, SessionOnDisk)
    meter = lane.session.memory.meter
    began = {name: (each.count, each.total) for name, each in meter.values.items()}
    made = 0
    for item in lane.tail[lane.taken : lane.taken + 40]:
        lane.session.add(item)
        lane.session.window()
        made += 1
    rows: list[list[str]] = []
    for name in ("database_read_seconds", "database_write_seconds"):
        count, total = began[name]
        now = meter.values[name]
        asked = now.count - count
        rows.append([name, f"{asked / made:.2f}", duration((now.total - total) / max(asked, 1))])
    notes = ["per message appended and context built; the append itself is one of the writes"]
    return Table("What is asked of the store", ["verb", "calls", "mean time"], rows, notes)
