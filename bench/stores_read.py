"""Does reading for the next call depend on how long the history is, warm and after a restart?

Warm: the newest 8,000 tokens of a conversation are read from an open store. After a restart: the file is opened and
the first window is built; peers open theirs and get the messages they would build a window from. Imports are not
part of it, and the operating system has the files in its cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from bench.hosts import Guests, Lane, Offered, PeerFailed
from bench.report import Report, Table, Target, duration
from bench.stores_turns import SCOPE, TALK, counter, fill, scratch, turns
from bench.timing import Samples, growth, ratio, shown_sizes
from turnfold import Message
from turnfold.runtime import drive
from turnfold.stores import SqliteStore

__all__ = ("QUESTION", "run")

QUESTION = "reading the newest 8,000 tokens from SQLite, warm and after a restart"
BUDGET = 8_000


@dataclass(frozen=True, slots=True)
class _Plan:
    sizes: Sequence[int]
    rounds: int
    calls: int
    restart: int
    """Messages held when the file is opened again."""


FULL = _Plan(sizes=(1_000, 10_000, 100_000, 1_000_000), rounds=15, calls=40, restart=100_000)
QUICK = _Plan(sizes=(1_000, 10_000, 100_000), rounds=5, calls=20, restart=10_000)


def run(guests: Guests, *, quick: bool) -> Report:
    """Measure the tail by size, and the first window after a restart beside the peers'."""
    plan = QUICK if quick else FULL
    report = Report("stores_read", QUESTION)
    with scratch() as folder:
        _tail(report, plan, folder)
    with scratch() as folder:
        _restart(report, plan, folder, guests)
    return report


def _history(size: int) -> list[Message]:
    """So many messages; the newest are the same for every size."""
    said = turns(10_000)
    start = -size // 2
    return [message for number in range(start, 0) for message in said[number % len(said)]]


def _tail(report: Report, plan: _Plan, folder: Path) -> None:
    stores: dict[int, SqliteStore] = {}
    for size in plan.sizes:
        stores[size] = SqliteStore(folder / f"{size}.db", blocking=True, counter=counter())
        fill(stores[size], _history(size), ids=False)
    samples = {size: Samples() for size in plan.sizes}
    found: dict[int, list[str]] = {}
    for number in range(plan.rounds + 1):
        for size, store in stores.items():
            taken: list[float] = []
            for _ in range(plan.calls):
                begin = perf_counter()
                entries = drive(store.tail(SCOPE, TALK, tokens=BUDGET))
                taken.append(perf_counter() - begin)
            found[size] = [entry.message.text for entry in entries]
            if number:
                samples[size].rounds.append(taken)
    assert len({tuple(texts) for texts in found.values()}) == 1, "the newest messages are the same"
    for store in stores.values():
        drive(store.close())
    least, most = min(plan.sizes), max(plan.sizes)
    exponent = growth({size: each.median for size, each in samples.items()})
    rows = [["tail(8,000)", *(samples[size].shown() for size in plan.sizes), f"{exponent:+.2f}"]]
    columns = ["warm", *shown_sizes(plan.sizes), "exponent"]
    notes = [f"by the clock; {len(found[least])} messages read, decoded and returned by each call"]
    report.tables.append(Table("The newest messages, by messages held", columns, rows, notes))
    measured = ratio(samples[most], samples[least])
    claim = f"tail at {most:,}: within 3x of the same at {least:,}"
    report.targets.append(Target(claim, str(measured), measured.middle <= 3))
    report.figures["tail"] = {str(size): each.figures() for size, each in samples.items()}


@dataclass(slots=True)
class _Restart:
    offered: Offered
    lane: Lane
    clock: Samples = field(default_factory=Samples)
    processor: Samples = field(default_factory=Samples)
    messages: int = 0

    def round(self) -> None:
        opening = self.lane.ask("open")
        self.messages = opening.messages
        self.clock.rounds.append([opening.clock])
        self.processor.rounds.append([opening.processor])


def _restart(report: Report, plan: _Plan, folder: Path, guests: Guests) -> None:
    restarts: list[_Restart] = []
    failures = guests.notes()
    for number, each in enumerate(guests.offered("reopened")):
        try:
            lane = guests.lane(each, "reopened", path=folder / f"{number}.db", size=plan.restart)
            restarts.append(_Restart(each, lane))
            restarts[-1].round()  # the first time code and vocabulary are loaded
        except PeerFailed as failed:
            failures.append(f"failed: {each.name}: {failed}")
            restarts = [one for one in restarts if one.offered != each]
    for restart in restarts:
        restart.clock.rounds.clear()
        restart.processor.rounds.clear()
    for _ in range(plan.rounds // 3):
        for restart in restarts:
            restart.round()
    ours, peers = restarts[0], restarts[1:]
    rows = [
        [
            restart.offered.name,
            restart.clock.shown(),
            duration(restart.processor.median),
            f"{restart.messages:,}",
            f"{ours.clock.median / restart.clock.median:.2%}",
        ]
        for restart in restarts
    ]
    columns = ["opened again", "time", "processor", "messages got", "turnfold's share"]
    notes = [f"{each.offered.name}: {each.offered.facts['note']}" for each in restarts]
    notes += failures
    title = f"First window after a restart, {plan.restart:,} messages held"
    report.tables.append(Table(title, columns, rows, notes))
    for peer in peers:
        measured = ratio(ours.clock, peer.clock).middle
        claim = f"first window after a restart: < 5 % of {peer.offered.name}"
        met = measured < 0.05 if plan is FULL else None
        report.targets.append(Target(claim, f"{measured:.2%}", met))
    report.figures["restart"] = {each.offered.name: each.clock.figures() for each in restarts}
