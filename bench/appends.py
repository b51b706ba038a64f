"""What does a durable turn cost beside the bare commit of the same disk and beside peers, and is what was told kept?

A turn is a question and its answer, stored whole; it counts when its writer was told that it is stored. Everybody takes
turns on the same disk in the same run, in short rounds, because a disk has busy moments. Some write more the longer a
conversation is: one writer and writers of one conversation begin a new one every round, many writers go on with theirs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

from bench.appends_kept import killed, retried, weighed
from bench.appends_runs import Run, best_peer, in_turn, opened, take_turns
from bench.hosts import Guests, Lane, Offered, PeerFailed
from bench.lanes.appended import Found, Round
from bench.report import Report, Table, Target, duration
from bench.stores_turns import scratch
from bench.timing import Ratio, growth, ratio

__all__ = ("QUESTION", "run")

QUESTION = "a durable turn on SQLite beside the raw commit and peers; repetitions, kills, bytes"
WRITERS = 64
PROCESSES = 8


@dataclass(frozen=True, slots=True)
class _Plan:
    rounds: int
    turns: int
    """Turns of a round with one writer, fewer for the slow."""
    each: int
    """Turns of each of many writers in a round, fewer for the slow."""
    patience: float
    """Seconds of one contender in one table."""
    held: Sequence[int]
    """Messages in the conversation one writer goes on with."""
    weights: Sequence[int]
    """Messages after which the file is weighed."""
    kills: int


FULL = _Plan(
    rounds=15, turns=100, each=25, patience=5.0, held=(0, 10_000, 100_000),
    weights=(1_500, 15_000), kills=5,
)  # fmt: skip
QUICK = _Plan(rounds=7, turns=40, each=6, patience=4.0, held=(0, 10_000), weights=(1_500,), kills=1)


def run(guests: Guests, *, quick: bool) -> Report:
    """One writer, by messages held, many writers, several processes, repetitions, kills, and bytes on disk."""
    plan = QUICK if quick else FULL
    report = Report("appends", QUESTION)
    busy = os.getloadavg()[0]
    everybody = [each for each in guests.offered("appended") if not each.facts["served"]]
    with scratch() as folder:
        _one_writer(report, plan, guests, everybody, folder)
        _by_held(report, plan, guests, everybody, folder)
        for own in (True, False):
            _many_writers(report, plan, guests, everybody, folder, own=own)
        _processes(report, plan, guests, everybody, folder)
        retried(report, guests, everybody, folder)
        killed(report, guests, everybody, folder, kills=plan.kills)
        weighed(report, guests, everybody, folder, sizes=plan.weights)
    report.tables.append(_load_table(busy, os.getloadavg()[0]))
    return report


def _load_table(before: float, after: float) -> Table:
    """Whether the clock can be trusted: a writer that was woken by the disk still waits for a processor."""
    notes = [
        "above the number of processors a commit is as long as the scheduler's turn, whoever makes it"
    ]
    cells = [f"{before:.1f}", f"{after:.1f}", str(os.cpu_count())]
    return Table(
        "How busy the machine was", ["load", "before", "after", "processors"], [["", *cells]], notes
    )


def _one_writer(
    report: Report, plan: _Plan, guests: Guests, everybody: Sequence[Offered], folder: Path
) -> None:
    runs = opened(guests, everybody, folder, "one")
    take_turns(runs, rounds=plan.rounds, each=plan.turns, patience=plan.patience)
    _closed(runs)
    raw = _raw(runs)
    rows = [[*_cells(run), _share(raw, run)] for run in runs]
    columns = ["one writer", *_COLUMNS, "of the raw speed"]
    notes = [
        f"conversations of up to {plan.turns} turns; median (10th to 90th percentile) of the means of the rounds",
        "p50, p99: what a turn took its writer; processor: all threads of the process",
        "durable: every commit waits for the disk, by the settings its own connection tells",
        *(f"{each.name}: {each.facts['note']}" for each in everybody),
        *guests.notes(),
    ]
    report.tables.append(Table("One writer", columns, rows, notes))
    report.figures["one writer"] = {run.name: run.figures() for run in runs}
    for run in runs:
        if run.offered.ours and raw and run.clock.rounds:
            measured = ratio(raw.clock, run.clock)
            claim = f"{run.name}, one writer: >= 0.8 of the raw commit's speed"
            report.targets.append(Target(claim, _shown(measured), measured.middle >= 0.8))


_COLUMNS = ("time per turn", "turns/s", "p50", "p99", "processor", "durable")


def _cells(run: Run) -> list[str]:
    settings = run.settings
    told = f"{settings.journal}, synchronous={settings.synchronous}" if settings else "?"
    durable = "" if settings is None or settings.durable else "no: "
    if not run.clock.rounds:
        return [run.name, f"failed: {run.failure[:80]}", "", "", "", "", f"{durable}{told}"]
    return [
        run.name if not run.failure else f"{run.name} (later failed: {run.failure[:80]})",
        run.clock.shown(),
        f"{1 / run.clock.median:,.0f}",
        duration(run.waits.median),
        duration(run.waits.percentile(0.99)),
        duration(run.processor.median),
        f"{durable}{told}",
    ]


def _raw(runs: Sequence[Run]) -> Run | None:
    return next((run for run in runs if run.raw and run.clock.rounds), None)


def _share(raw: Run | None, run: Run) -> str:
    if raw is None or not run.clock.rounds:
        return ""
    return _shown(ratio(raw.clock, run.clock))


def _shown(measured: Ratio) -> str:
    return f"{measured.middle:.2f} ({measured.least:.2f} – {measured.most:.2f})"


def _closed(runs: Sequence[Run]) -> None:
    for run in runs:
        run.attempt(lambda lane: lane.close())


def _by_held(
    report: Report, plan: _Plan, guests: Guests, everybody: Sequence[Offered], folder: Path
) -> None:
    """One writer who goes on with a long conversation: ours and the raw limit."""
    ours = next((each for each in everybody if each.ours), None)
    limit = next((each for each in everybody if each.facts["raw"]), None)
    if ours is None or limit is None:
        return
    rows: list[list[str]] = []
    medians: dict[int, float] = {}
    for size in plan.held:
        kinds = [("", False)] + [(", random names", True)] * (size == max(plan.held))
        raw, *lanes = [
            *opened(guests, [limit], folder, f"raw-{size}"),
            *(
                opened(guests, [ours], folder, f"held-{size}-{chance:d}", random_names=chance)[0]
                for _, chance in kinds
            ),
        ]
        _go_on([raw, *lanes], plan, size)
        for (name, _), run in zip(kinds, lanes, strict=True):
            added = max(run.clock.median - raw.clock.median, 0.0)
            cells = (raw.clock.shown(), run.clock.shown(), _share(raw, run), duration(added))
            rows.append([f"{size:,}{name}", *cells])
        medians[size + plan.rounds * plan.turns] = lanes[0].clock.median
        report.figures[f"held {size}"] = {run.name: run.figures() for run in (raw, lanes[0])}
    columns = ["messages held", "raw SQLite", ours.name, "of the raw speed", "added"]
    notes = ["random names: client ids that hit another page of their index every time"]
    report.tables.append(Table("One writer, by messages held", columns, rows, notes))
    exponent = growth(medians, start=1)
    claim = (
        f"{ours.name}: growth exponent < 0.05 from {min(medians):,} to {max(medians):,} messages"
    )
    report.targets.append(Target(claim, f"{exponent:+.3f}", exponent < 0.05))


def _go_on(runs: Sequence[Run], plan: _Plan, size: int) -> None:
    for run in runs:
        run.attempt(lambda lane: lane.ask("hold", size))
        run.attempt(lambda lane: lane.ask("round", plan.turns))
    for number in range(plan.rounds):
        for run in in_turn(runs, number):
            run.attempt(lambda lane, run=run: run.take(lane.ask("round", plan.turns)))
    _closed(runs)


def _many_writers(
    report: Report,
    plan: _Plan,
    guests: Guests,
    everybody: Sequence[Offered],
    folder: Path,
    *,
    own: bool,
) -> None:
    where = "a conversation each" if own else "one conversation"
    runs = opened(guests, everybody, folder, f"many-{own:d}", writers=WRITERS, own=own)
    take_turns(runs, rounds=plan.rounds, each=plan.each, patience=plan.patience, go_on=own)
    rows: list[list[str]] = []
    for run in runs:
        lost, shared = [""], [""]
        run.attempt(lambda lane, lost=lost: lost.append(_lost(lane.ask("found"))))
        run.attempt(lambda lane, shared=shared: shared.append(_several(lane)))
        rows.append([*_cells(run)[:-1], shared[-1], lost[-1]])
    _closed(runs)
    columns = [f"{WRITERS} writers, {where}", *_COLUMNS[:-1], "a commit", "turns there"]
    notes = ["a commit: turns that share one, on average; raw: one at a time, on one connection"]
    report.tables.append(Table(f"{WRITERS} writers of one process, {where}", columns, rows, notes))
    report.figures[f"{WRITERS} writers, {where}"] = {run.name: run.figures() for run in runs}
    _against_best(report, runs, f"{WRITERS} writers, {where}", wanted=5.0)


def _several(lane: Lane) -> str:
    several = lane.ask("turns_per_commit")
    return f"{several:.0f} turns" if several else ""


def _lost(found: Found) -> str:
    faults = {"lost": found.missing, "out of order": found.disordered}
    return ", ".join(f"{many} {fault}" for fault, many in faults.items() if many) or "all there"


def _against_best(report: Report, runs: Sequence[Run], what: str, *, wanted: float) -> None:
    best = best_peer(runs)
    for run in runs:
        if not (run.offered.ours and run.clock.rounds):
            continue
        if best is None:
            claim = f"{run.name}, {what}: faster than the best peer"
            report.targets.append(Target(claim, "no peer finished", None))
            continue
        measured = ratio(best.clock, run.clock)
        claim = f"{run.name}, {what}: >= {wanted:.0f}x the best durable peer ({best.name})"
        report.targets.append(Target(claim, str(measured), measured.middle >= wanted))


def _processes(
    report: Report, plan: _Plan, guests: Guests, everybody: Sequence[Offered], folder: Path
) -> None:
    """Several processes on one file; each writer has its own conversation."""
    runs = [Run(offered) for offered in everybody]
    for number, run in enumerate(runs):
        try:
            _crowded(run, plan, guests, folder / f"crew-{number}.db")
        except PeerFailed as failed:
            run.failure = str(failed)
    rows = [_cells(run)[:-1] for run in runs]
    columns = [f"{PROCESSES} processes", *_COLUMNS[:-1]]
    writers = WRITERS // PROCESSES
    title = f"{PROCESSES} processes with {writers} writers each, one file, a conversation each"
    notes = ["not in turns: one contender after another, since each needs its processes"]
    report.tables.append(Table(title, columns, rows, notes))
    report.figures[f"{PROCESSES} processes"] = {run.name: run.figures() for run in runs}


def _crowded(run: Run, plan: _Plan, guests: Guests, path: Path) -> None:
    """Four rounds after the first, or one if patience is at its end before."""
    settings = [
        {"path": path, "writers": WRITERS // PROCESSES, "label": f"p{process}"}
        for process in range(PROCESSES)
    ]
    with guests.crew(run.offered, "appended", settings) as lanes:
        end = perf_counter() + plan.patience
        for number in range(5):
            if number > 1 and perf_counter() > end:
                break
            for lane in lanes:
                lane.begin("round", max(plan.each // 4, 2) if number else 1)
            done = _together([lane.end() for lane in lanes])
            if number:
                run.take(done)


def _together(rounds: Sequence[Round]) -> Round:
    """Rounds that ran at the same time, as one: as long as the longest, for all of their turns."""
    longest = max(done.clock for done in rounds) / len(rounds)
    waits = [wait for done in rounds for wait in done.waits]
    return Round(longest, median(done.processor for done in rounds), waits)
