"""How long does it take to build the window for the next call, and how does that grow with the history?

Warm: one message is appended (and counted, where the contender counts exactly) and the window is built. Cold: the same
from a list of messages. The newest messages are the same for every size, so that only the length of the history
differs. Every warm window is judged where a call is due; the best peer is the fastest whose windows were all good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.attempts import Attempt
from bench.hosts import Guests, Offered
from bench.judge import Record
from bench.report import Plot, Report, Table, Target, duration
from bench.timing import growth, ratio, shown_sizes

__all__ = ("QUESTION", "run")

QUESTION = "time to build the window for the next call (8,000 tokens)"
BUDGET = 8_000
TAIL = 600
TOO_SLOW = 60.0
"""Seconds a call may take; what is expected to take longer is extrapolated and marked."""
COMPARED = 100_000
"""Messages up to which everybody is measured; beyond that only turnfold."""


@dataclass(frozen=True, slots=True)
class _Plan:
    sizes: Sequence[int]
    rounds: int
    calls: int
    """Warm calls of a round, fewer for the slow."""
    patience: float
    """Seconds of warm calls per contender and size, not counting the first round."""
    shares: Sequence[float]
    """Of Chinese, at which the smallest size above a thousand is measured again."""


FULL = _Plan(
    sizes=(1_500, 15_000, COMPARED, 1_000_000),
    rounds=7,
    calls=60,
    patience=6.0,
    shares=(0.0, 0.3, 1.0),
)
QUICK = _Plan(sizes=(1_500, 15_000), rounds=5, calls=40, patience=1.2, shares=(0.0, 1.0))


@dataclass(slots=True)
class _Run(Attempt):
    """One contender at one size."""

    expected: float = 0.0
    """Seconds a call would take, where it was not tried."""
    skipped: bool = False

    @property
    def tried(self) -> bool:
        """Whether there is anything to ask of it."""
        return not (self.expected or self.failure or self.skipped)

    def open(self, guests: Guests, size: int, longest: int, zh: float) -> None:
        """Make the lane; converting messages is not timed."""
        self.lane = guests.lane(
            self.offered, "window", size=size, longest=longest, tail=TAIL, budget=BUDGET, zh=zh
        )

    def round(self, calls: int) -> None:
        """A round of warm calls."""
        assert self.lane is not None
        self.warm.rounds.append(self.lane.ask("round", calls))


Runs = dict[str, dict[int, _Run]]


def run(guests: Guests, *, quick: bool) -> Report:
    """Measure everybody at every size, and at every share of Chinese."""
    plan = QUICK if quick else FULL
    everybody = [each for each in guests.offered("windows") if each.facts["timed"]]
    runs: Runs = {each.name: {} for each in everybody}
    for size in plan.sizes:
        for each in everybody:
            skipped = size > COMPARED and each.name != everybody[0].name
            expected = 0.0 if skipped else _expected(runs[each.name], size, each.facts["growth"])
            one = _Run(each, expected=expected, skipped=skipped)
            runs[each.name][size] = one
            one.attempt(lambda one=one, size=size: one.open(guests, size, COMPARED, 0.3))
        _measure_cold([sizes[size] for sizes in runs.values()])
    _measure_warm(guests, [one for sizes in runs.values() for one in sizes.values()], plan)
    report = _report(plan, runs, guests)
    report.tables.append(_by_share(guests, plan, everybody))
    return report


def _by_share(guests: Guests, plan: _Plan, everybody: Sequence[Offered]) -> Table:
    """The same at one size with less and with more Chinese."""
    size = plan.sizes[0]
    runs = {(each.name, zh): _Run(each) for each in everybody for zh in plan.shares}
    for (_, zh), one in runs.items():
        one.attempt(lambda one=one, zh=zh: one.open(guests, size, COMPARED, zh))
    _measure_cold(list(runs.values()))
    _measure_warm(guests, list(runs.values()), plan)
    rows = [
        [
            each.name,
            *(_warm_cell(runs[each.name, zh]) for zh in plan.shares),
            *(runs[each.name, zh].record.shown() for zh in plan.shares),
        ]
        for each in everybody
    ]
    columns = [
        "warm",
        *(f"{zh:.0%} Chinese" for zh in plan.shares),
        *(f"windows, {zh:.0%}" for zh in plan.shares),
    ]
    return Table(f"Warm at {size:,} messages, by the share of Chinese", columns, rows)


def _expected(known: dict[int, _Run], size: int, least: float) -> float:
    """Seconds a call would take where that is too long to try, from the growth so far; 0 where it is not."""
    seconds = {
        each: one.expected or one.cold.median
        for each, one in known.items()
        if one.expected or one.cold.rounds
    }
    if not seconds:
        return 0.0
    exponent = growth(seconds, start=min(seconds)) if len(seconds) > 1 else least
    largest = max(seconds)
    expected = seconds[largest] * (size / largest) ** max(exponent, least)
    return expected if expected > TOO_SLOW else 0.0


def _measure_cold(runs: Sequence[_Run]) -> None:
    for number in range(3):
        for one in runs:
            if number == 0 or (one.cold.rounds and one.cold.median < 1.0):
                one.attempt(one.start)


def _measure_warm(guests: Guests, runs: Sequence[_Run], plan: _Plan) -> None:
    with guests.frozen_heaps():
        for number in range(plan.rounds + 1):
            for one in runs:
                if number == 0:
                    one.attempt(lambda one=one: one.round(1))
                    one.warm.rounds.clear()  # the first call after a cold one is not counted
                elif one.tried and (one.warm.total < plan.patience or len(one.warm.rounds) < 2):
                    guess = one.warm.median if one.warm.rounds else one.cold.median
                    calls = max(1, min(plan.calls, int(plan.patience / plan.rounds / guess)))
                    one.attempt(lambda one=one, calls=calls: one.round(calls))
    for one in runs:
        one.attempt(one.finish)


def _report(plan: _Plan, runs: Runs, guests: Guests) -> Report:
    report = Report("window", QUESTION)
    exponents = {name: _growth(sizes) for name, sizes in runs.items()}
    report.tables = [_warm_table(plan, runs, exponents, guests), _cold_table(plan, runs)]
    report.targets = _targets(plan, runs, exponents)
    report.plots.append(_plot(runs))
    report.figures = {
        name: {
            str(size): {
                "warm": one.warm.figures() if one.warm.rounds else None,
                "cold": one.cold.figures() if one.cold.rounds else None,
                "expected": one.expected or None,
                "failure": one.failure or None,
                "windows": one.record.shown(),
            }
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
        name="window",
        title="One message more, and the window for the next call (8,000 tokens)",
        series={name: points for name, points in series.items() if points},
        x="messages held",
        y="milliseconds of the processor",
    )


def _growth(sizes: dict[int, _Run]) -> float:
    return growth({size: one.warm.median for size, one in sizes.items() if one.warm.rounds})


def _total_record(sizes: dict[int, _Run]) -> Record:
    total = Record()
    for one in sizes.values():
        total.add(one.record)
    return total


def _warm_table(plan: _Plan, runs: Runs, exponents: dict[str, float], guests: Guests) -> Table:
    rows = [
        [
            name,
            *(_warm_cell(sizes[size]) for size in plan.sizes),
            f"{exponents[name]:+.2f}",
            _total_record(sizes).shown(),
            "yes" if sizes[plan.sizes[0]].offered.facts["keeps_history"] else "no",
        ]
        for name, sizes in runs.items()
    ]
    notes = [
        "processor time, median (10th to 90th percentile), of one message appended and the window built",
        "exponent: slope of log(time) over log(messages) from 1,000 messages up",
        "a window is good when its pairs are whole, the newest message is in it and it is within the budget",
        "history kept: no = the cut replaces the history, so these hold a window and not the whole conversation",
        *guests.notes(),
    ]
    columns = ["warm", *shown_sizes(plan.sizes), "exponent", "windows", "history kept"]
    return Table("Warm, by messages held", columns, rows, notes)


def _warm_cell(one: _Run) -> str:
    if one.skipped:
        return ""
    if one.failure:
        return f"failed: {one.failure[:60]}"
    return one.warm.shown() if one.warm.rounds else f"est. {duration(one.expected)}"


def _cold_table(plan: _Plan, runs: Runs) -> Table:
    rows = [
        [
            name,
            *(
                duration(one.cold.median) if one.cold.rounds else _warm_cell(one)
                for one in (sizes[size] for size in plan.sizes)
            ),
        ]
        for name, sizes in runs.items()
    ]
    notes = [
        "processor time of a conversation made from a list of messages, and its first window; median of up to 3"
    ]
    return Table("Cold, by messages held", ["cold", *shown_sizes(plan.sizes)], rows, notes)


def _targets(plan: _Plan, runs: Runs, exponents: dict[str, float]) -> list[Target]:
    largest = min(max(plan.sizes), COMPARED)
    full = plan is FULL
    ours = [name for name, sizes in runs.items() if sizes[largest].offered.ours]
    targets = [
        Target(
            f"{name}: |growth exponent| < 0.1",
            f"{exponents[name]:+.3f}",
            abs(exponents[name]) < 0.1,
        )
        for name in ours
    ]
    records = {name: _total_record(runs[name]) for name in ours}
    targets += [
        Target(f"{name}: every window valid and within budget", record.shown(), record.clean)
        for name, record in records.items()
    ]
    for keeps in (True, False):
        best = _best_peer(runs, largest, keeps=keeps)
        targets += [_faster(runs, name, best, wanted=full and keeps) for name in ours[:2]]
    return targets


def _best_peer(runs: Runs, size: int, *, keeps: bool) -> str:
    """The fastest peer whose windows were all good."""
    good = [
        name
        for name, sizes in runs.items()
        if not sizes[size].offered.ours
        and sizes[size].offered.facts["keeps_history"] == keeps
        and sizes[size].warm.rounds
        and _total_record(sizes).clean
    ]
    return min(good, key=lambda name: runs[name][size].warm.median, default="")


def _faster(runs: Runs, name: str, best: str, *, wanted: bool) -> Target:
    size = min(max(runs[name]), COMPARED)
    if not best:
        return Target(f"{name}: faster than the best peer", "no peer's windows were all good", None)
    measured = ratio(runs[best][size].warm, runs[name][size].warm)
    if wanted:
        claim = f"{name}: >= 100x faster at {size:,} than the best peer with good windows ({best})"
        return Target(claim, str(measured), measured.middle >= 100)
    return Target(f"{name}: against {best} at {size:,}, no target", str(measured), None)
