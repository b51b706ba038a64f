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

from bench.attempts import Attempt
from bench.hosts import Guests
from bench.judge import Record
from bench.report import Plot, Report, Table, Target, duration
from bench.stores_turns import scratch
from bench.timing import Samples, growth, ratio, shown_sizes

__all__ = ("QUESTION", "run")

QUESTION = "the next context from a SQLite file (8,000 tokens), warm and cold"
BUDGET = 8_000
TAIL = 600
COMPARED = 100_000
"""Messages at which everybody is compared; a longer history repeats one of this length."""


@dataclass(frozen=True, slots=True)
class _Plan:
    sizes: Sequence[int]
    rounds: int
    calls: int
    """Warm calls of a round, fewer for the slow."""
    patience: float
    """Seconds of warm calls per contender and size, not counting the first round."""


FULL = _Plan(sizes=(1_500, 15_000, COMPARED, 1_000_000), rounds=5, calls=60, patience=6.0)
QUICK = _Plan(sizes=(1_500, 15_000), rounds=3, calls=30, patience=3.0)


@dataclass(slots=True)
class _Run(Attempt):
    """One contender at one size."""

    window: Samples = field(default_factory=Samples)
    """The window alone."""
    processor: Samples = field(default_factory=Samples)

    def open(self, guests: Guests, path: Path, size: int) -> None:
        """Make the lane and store the history; not timed."""
        self.lane = guests.lane(
            self.offered, "stored", path=path, size=size, longest=COMPARED, tail=TAIL,
            budget=BUDGET, zh=0.3,
        )  # fmt: skip
        self.lane.ask("seed")

    def round(self, calls: int) -> None:
        """A round of warm calls."""
        assert self.lane is not None
        found = self.lane.ask("round", calls)
        self.warm.rounds.append(found.both)
        self.window.rounds.append(found.window)
        self.processor.rounds.append(found.processor)

    def forget(self) -> None:
        """Begin again with the times of warm calls."""
        for samples in (self.warm, self.window, self.processor):
            samples.rounds.clear()


Runs = dict[str, dict[int, _Run]]


def run(guests: Guests, *, quick: bool) -> Report:
    """Measure everybody at every size."""
    plan = QUICK if quick else FULL
    everybody = guests.offered("stored")
    runs: Runs = {each.name: {} for each in everybody}
    with scratch() as folder:
        for size in plan.sizes:
            for number, each in enumerate(everybody):
                if size <= each.facts["largest"]:
                    one = runs[each.name][size] = _Run(each)
                    path = folder / f"{number}-{size}.db"
                    one.attempt(lambda one=one, path=path, size=size: one.open(guests, path, size))
        measured = [one for sizes in runs.values() for one in sizes.values()]
        _measure(measured, plan)
        asked = measured[0].lane.ask("asked", 40) if measured[0].lane else {}
        for one in measured:
            one.attempt(one.finish)
    report = _report(plan, runs, guests)
    report.tables.append(_costs_table(asked))
    return report


def _measure(runs: Sequence[_Run], plan: _Plan) -> None:
    for number in range(4):
        for one in runs:
            if number < 2 or (one.cold.rounds and one.cold.median < 1.0):
                one.attempt(one.start)
            if number == 0:  # code and vocabulary were loaded
                one.cold.rounds.clear()
    for one in runs:
        one.attempt(lambda one=one: one.round(2))  # the first after a cold one are not counted
        one.forget()
    for _ in range(plan.rounds):
        for one in runs:
            if not one.failure and one.warm.total < plan.patience:
                guess = one.warm.median if one.warm.rounds else one.cold.median
                calls = max(1, min(plan.calls, int(plan.patience / plan.rounds / guess)))
                one.attempt(lambda one=one, calls=calls: one.round(calls))


def _report(plan: _Plan, runs: Runs, guests: Guests) -> Report:
    report = Report("context", QUESTION)
    exponents = {
        name: growth({size: one.window.median for size, one in sizes.items() if one.window.rounds})
        for name, sizes in runs.items()
    }
    report.tables = [_warm_table(plan, runs, exponents, guests), _cold_table(plan, runs)]
    report.targets = _targets(plan, runs)
    report.plots.append(_plot(runs))
    report.figures = {
        name: {
            str(size): {
                "warm": one.warm.figures(),
                "window": {**one.window.figures(), "p99": one.window.percentile(0.99)},
                "processor": one.processor.figures(),
                "cold": one.cold.figures(),
                "windows": one.record.shown(),
            }
            if one.warm.rounds
            else {"failure": one.failure}
            for size, one in sizes.items()
        }
        for name, sizes in runs.items()
    }
    return report


def _plot(runs: Runs) -> Plot:
    series = {
        name: {size: one.warm.median * 1e3 for size, one in sizes.items() if one.warm.rounds}
        for name, sizes in runs.items()
    }
    return Plot(
        name="context",
        title="One message appended durably, and the next context, from a SQLite file",
        series={name: points for name, points in series.items() if points},
        x="messages in the file",
        y="milliseconds by the clock",
    )


def _warm_table(plan: _Plan, runs: Runs, exponents: dict[str, float], guests: Guests) -> Table:
    rows: list[list[str]] = []
    for name, sizes in runs.items():
        for what in ("window", "warm", "processor"):
            label = {"window": "window alone", "warm": "append + window", "processor": "processor"}
            cells = [
                _cell(sizes[size], getattr(sizes[size], what)) if size in sizes else ""
                for size in plan.sizes
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
        *(f"{each.name}: {each.facts['note']}" for each in guests.offered("stored")),
        *guests.notes(),
    ]
    columns = ["warm", *shown_sizes(plan.sizes), "exponent", "windows"]
    return Table("Warm, by messages in the file", columns, rows, notes)


def _cell(one: _Run, samples: Samples) -> str:
    if not samples.rounds:
        return f"failed: {one.failure[:60]}"
    return f"{duration(samples.median)} ({duration(samples.percentile(0.99))})"


def _cold_table(plan: _Plan, runs: Runs) -> Table:
    rows = [
        [
            name,
            *(
                duration(sizes[size].cold.median)
                if size in sizes and sizes[size].cold.rounds
                else ""
                for size in plan.sizes
            ),
        ]
        for name, sizes in runs.items()
    ]
    notes = ["the file opened by somebody new, and the first window; imports are not part of it"]
    return Table("Cold, by messages in the file", ["cold", *shown_sizes(plan.sizes)], rows, notes)


def _record(sizes: dict[int, _Run]) -> Record:
    total = Record()
    for one in sizes.values():
        total.add(one.record)
    return total


def _targets(plan: _Plan, runs: Runs) -> list[Target]:
    least, most = min(plan.sizes), max(plan.sizes)
    ours = {name: sizes for name, sizes in runs.items() if sizes[least].offered.ours}
    targets: list[Target] = []
    for name, sizes in ours.items():
        slowest = max(plan.sizes, key=lambda size: sizes[size].window.median)
        measured = sizes[slowest].window.median / sizes[least].window.median
        claim = f"{name}: p50 of context() at every size up to {most:,} within 3x of {least:,}"
        targets.append(Target(claim, f"{measured:.2f}x at {slowest:,}", measured <= 3))
        record = _record(sizes)
        claim = f"{name}: every window valid and within budget"
        targets.append(Target(claim, record.shown(), record.clean))
    size = min(most, COMPARED)
    for budgeted in (True, False):
        best = _best(runs, size, budgeted=budgeted)
        targets += [_faster(runs, name, best, size, wanted=budgeted) for name in ours]
    first = _best(runs, size, budgeted=True, cold=True)
    return targets + [_sooner(runs, name, first, size) for name in ours]


def _best(runs: Runs, size: int, *, budgeted: bool, cold: bool = False) -> str:
    """The fastest peer whose windows were all good."""
    good = [
        name
        for name, sizes in runs.items()
        if size in sizes
        and not sizes[size].offered.ours
        and sizes[size].offered.facts["budgeted"] == budgeted
        and sizes[size].warm.rounds
        and _record(sizes).clean
    ]
    what = "cold" if cold else "warm"
    return min(good, key=lambda name: getattr(runs[name][size], what).median, default="")


def _sooner(runs: Runs, name: str, best: str, size: int) -> Target:
    """The first window after a restart."""
    if not best:
        claim = f"{name}, first window after a restart: faster than the best peer"
        return Target(claim, "no peer's windows were all good", None)
    measured = ratio(runs[best][size].cold, runs[name][size].cold)
    claim = f"{name}, first window after a restart: >= 20x faster at {size:,} than the best peer ({best})"
    return Target(claim, str(measured), measured.middle >= 20 if size == COMPARED else None)


def _faster(runs: Runs, name: str, best: str, size: int, *, wanted: bool) -> Target:
    if not best:
        return Target(f"{name}: faster than the best peer", "no peer's windows were all good", None)
    measured = ratio(runs[best][size].warm, runs[name][size].warm)
    worked = ratio(runs[best][size].processor, runs[name][size].processor)
    shown = f"{measured}; of the processor {worked}"
    if wanted:
        full = size == COMPARED
        claim = f"{name}, append + window: >= 20x faster at {size:,} than the best peer ({best})"
        return Target(claim, shown, measured.middle >= 20 if full else None)
    return Target(f"{name}, append + window: against {best} at {size:,}, no target", shown, None)


def _costs_table(asked: dict[str, tuple[float, float]]) -> Table:
    """What one context() asks of its store, and how long each answer takes."""
    rows = [[name, f"{times:.2f}", duration(mean)] for name, (times, mean) in asked.items()]
    notes = ["per message appended and context built; the append itself is one of the writes"]
    return Table("What is asked of the store", ["verb", "calls", "mean time"], rows, notes)
