"""What does a durable turn cost beside the bare commit loop of the same disk, with one writer and with 64?

A turn is a question and its answer, with client ids, counted exactly, checked against repetition, and synced. The raw
loop writes the same bytes into a bare table: no ids, no counts, no order per conversation. Writers and the raw loop
take turns; what is shown are means over a round, so that checkpoints of the log are in them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from uuid import uuid4

from bench.report import Report, Table, Target, duration
from bench.stores_turns import (
    SCOPE,
    TALK,
    Lane,
    RawLog,
    counter,
    fill,
    named,
    scratch,
    turns,
)
from bench.timing import Ratio, growth, ratio
from turnfold import Message
from turnfold.memory.drive import drive
from turnfold.records import encode_message
from turnfold.stores import Store
from turnfold.stores.sqlite_store import SqliteStore

__all__ = ("QUESTION", "run")

QUESTION = "a durable turn on SQLite beside the raw commit loop of the same disk"
WRITERS = 64
RAW = "raw loop"


@dataclass(frozen=True, slots=True)
class _Plan:
    sizes: Sequence[int]
    rounds: int
    turns: int
    """Turns of a round with one writer."""
    each: int
    """Turns of each of many writers in a round."""
    warm: int
    """Turns that do not count: enough for the log to be written once around."""


FULL = _Plan(sizes=(0, 10_000, 100_000), rounds=15, turns=400, each=25, warm=1_200)
QUICK = _Plan(sizes=(0, 1_000, 10_000), rounds=5, turns=128, each=10, warm=400)


def run(*, quick: bool) -> Report:
    """One writer by messages held, many writers, and the bytes on disk."""
    plan = QUICK if quick else FULL
    report = Report("stores_append", QUESTION)
    with scratch() as folder:
        _one_writer(report, plan, folder)
        _many_writers(report, plan, folder)
        _bytes_on_disk(report, plan, folder)
    return report


class _OneWriter:
    """A blocking store and one thread."""

    def __init__(self, store: Store, *, random_ids: bool = False) -> None:
        self._store, self._random = store, random_ids
        self._numbers = count()

    def append(self, many: int) -> None:
        said = turns(2_000)
        for number in map(next, [self._numbers] * many):
            name = uuid4().hex if self._random else f"turn-{number:08}"
            entries = named(said[number % len(said)], name)
            drive(self._store.append(SCOPE, TALK, entries))


class _ManyWriters:
    """64 writers on one store: threads that block, or tasks of one event loop."""

    def __init__(self, store: SqliteStore, *, tasks: bool, own: bool) -> None:
        self.store = store
        self._loop = asyncio.new_event_loop() if tasks else None
        self._own = own
        self._run = 0

    def append(self, many: int) -> None:
        self._run += 1
        each = many // WRITERS
        if self._loop is not None:
            self._loop.run_until_complete(self._all(each))
            return
        threads = [
            threading.Thread(target=lambda writer=writer: drive(self._write(writer, each)))
            for writer in range(WRITERS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def close(self) -> None:
        if self._loop is None:
            drive(self.store.close())
        else:
            self._loop.run_until_complete(self.store.close())
            self._loop.close()

    async def _all(self, each: int) -> None:
        await asyncio.gather(*(self._write(writer, each) for writer in range(WRITERS)))

    async def _write(self, writer: int, many: int) -> None:
        said = turns(2_000)
        talk = f"{TALK}-{writer:02}" if self._own else TALK
        for number in range(many):
            entries = named(
                said[(writer * many + number) % len(said)], f"{self._run}.{writer}.{number}"
            )
            await self.store.append(SCOPE, talk, entries)


def _seed(size: int) -> list[Message]:
    said = turns(2_000)
    return [said[number // 2 % len(said)][number % 2] for number in range(size)]


@contextmanager
def _opened(path: Path, size: int) -> Iterator[SqliteStore]:
    store = SqliteStore(path, blocking=True, counter=counter())
    fill(store, _seed(size))
    try:
        yield store
    finally:
        drive(store.close())


def _one_writer(report: Report, plan: _Plan, folder: Path) -> None:
    raws: dict[int, Lane] = {}
    ours: dict[int, Lane] = {}
    rows: list[list[str]] = []
    for size in plan.sizes:
        raw = RawLog(folder / f"raw-{size}.db")
        raw.fill(_seed(size))
        with _opened(folder / f"one-{size}.db", size) as store:
            raws[size] = Lane(RAW, raw.append)
            ours[size] = Lane("turnfold", _OneWriter(store).append)
            others = [ours[size]]
            if size == max(plan.sizes):
                random_ids = Lane("turnfold, random ids", _OneWriter(store, random_ids=True).append)
                others.append(random_ids)
            _take_turns([raws[size], *others], plan, plan.turns)
            rows += [_one_row(size, raws[size], each) for each in others]
        raw.close()
    report.tables.append(
        Table(
            "One writer, by messages held",
            ["held", RAW, "turnfold", "of the raw speed", "added", "processor: raw", "turnfold"],
            rows,
            [
                "by the clock, mean per turn of a round; median (10th to 90th percentile) over the rounds",
                "added depends little on the disk: the slower a sync, the nearer both are to each other",
                "random ids: client ids that hit another page of their index every time",
            ],
        )
    )
    _one_targets(report, plan, raws, ours)


def _take_turns(lanes: Sequence[Lane], plan: _Plan, many: int) -> None:
    for lane in lanes:
        for _ in range(0, plan.warm, many):
            lane.append(many)
    for _ in range(plan.rounds):
        for lane in lanes:
            lane.round(many)


def _one_row(size: int, raw: Lane, ours: Lane) -> list[str]:
    return [
        f"{size:,}, {ours.name}",
        raw.clock.shown(),
        ours.clock.shown(),
        _share(ratio(raw.clock, ours.clock)),
        duration(_added(raw, ours)),
        duration(raw.processor.median),
        duration(ours.processor.median),
    ]


def _added(raw: Lane, ours: Lane) -> float:
    """What a turn takes longer than in the raw loop, from the rounds both have."""
    pairs = zip(raw.clock.rounds, ours.clock.rounds, strict=True)
    return max(median(slow - fast for [fast], [slow] in pairs), 0.0)


def _share(measured: Ratio) -> str:
    return f"{measured.middle:.2f} ({measured.least:.2f} – {measured.most:.2f})"


def _one_targets(report: Report, plan: _Plan, raws: dict[int, Lane], ours: dict[int, Lane]) -> None:
    added = (
        plan.warm + plan.rounds * plan.turns
    )  # twice that many messages, half of them on average
    points = {size + added: ours[size].clock.median for size in plan.sizes}
    exponent = growth(points, start=1)
    claim = f"one writer: growth exponent < 0.05 from {min(points):,} to {max(points):,} messages"
    report.targets.append(Target(claim, f"{exponent:+.3f}", exponent < 0.05))
    shares = {size: ratio(raws[size].clock, ours[size].clock) for size in plan.sizes}
    worst = min(shares.values(), key=lambda each: each.middle)
    claim = "one writer: >= 0.8 of the raw loop's speed, at every size"
    report.targets.append(Target(claim, _share(worst), worst.middle >= 0.8))
    for size in plan.sizes:
        report.figures[f"one writer, {size}"] = {
            RAW: raws[size].figures(),
            "turnfold": ours[size].figures(),
        }


def _many_writers(report: Report, plan: _Plan, folder: Path) -> None:
    raw = RawLog(folder / "raw-many.db")
    writers = {
        f"{'tasks' if tasks else 'threads'}, {'a conversation each' if own else 'one conversation'}": (
            _ManyWriters(
                SqliteStore(
                    folder / f"many-{tasks:d}{own:d}.db", blocking=not tasks, counter=counter()
                ),
                tasks=tasks,
                own=own,
            )
        )
        for own in (False, True)
        for tasks in (False, True)
    }
    lanes = {name: Lane(name, each.append) for name, each in writers.items()}
    alone = Lane(RAW, raw.append)
    _take_turns([alone, *lanes.values()], plan, plan.each * WRITERS)
    rows = [[f"{RAW}, one writer", alone.clock.shown(), duration(alone.processor.median), "1", ""]]
    for name, lane in lanes.items():
        measured = ratio(alone.clock, lane.clock)
        shared = _turns_per_commit(writers[name])
        rows.append(
            [name, lane.clock.shown(), duration(lane.processor.median), str(measured), shared]
        )
        claim = f"{WRITERS} {name}: >= 4x the raw loop of one writer"
        report.targets.append(Target(claim, str(measured), measured.middle >= 4))
        report.figures[f"{WRITERS} {name}"] = lane.figures()
        writers[name].close()
    raw.close()
    columns = [f"{WRITERS} writers", "time per turn", "processor", "times the raw loop", "a commit"]
    notes = ["a commit: turns that share one, on average"]
    report.tables.append(Table("Many writers, one file", columns, rows, notes))


def _turns_per_commit(writers: _ManyWriters) -> str:
    engine = writers.store._engine  # noqa: SLF001 (health() tells the same as text)
    return f"{engine.jobs_done / engine.commits:.0f} turns"


def _bytes_on_disk(report: Report, plan: _Plan, folder: Path) -> None:
    size = max(plan.sizes)
    payload = sum(len(encode_message(message)) for message in _seed(size))
    rows: list[list[str]] = []
    shares: dict[str, float] = {}
    for name, ids in (("with client ids", True), ("without", False)):
        path = folder / f"bytes-{ids:d}.db"
        store = SqliteStore(path, blocking=True, counter=counter())
        fill(store, _seed(size), ids=ids)
        drive(store.close())
        held = sum(each.stat().st_size for each in folder.glob(f"{path.name}*"))
        shares[name] = held / payload
        rows.append([name, f"{held / size:,.0f}", f"{payload / size:,.0f}", f"{shares[name]:.2f}"])
        report.figures[f"bytes, {name}"] = held
    columns = [f"{size:,} messages", "bytes per message on disk", "of payload", "share"]
    notes = [
        "payload: the canonical bytes of the messages; the search index is made by the first search"
    ]
    report.tables.append(Table("Bytes on disk, without the search index", columns, rows, notes))
    worst = max(shares.values())
    report.targets.append(Target("bytes on disk: <= 2x the payload", f"{worst:.2f}x", worst <= 2))
