"""What does it cost to keep the workspace of every turn?

A workspace of 2 MB, half English and half Chinese, with small edits from turn to turn: lines put in, taken out or
changed in a few places, the head of a file among them. It is kept as 200 files, and again as one rendered text, the
case where an edit moves everything behind it. Every turn is one snapshot in a SQLite file, durable on return. Storing
them whole is what the sum of their sizes says; compressing each whole is measured on every twentieth.

The text is that of recorded conversations where they are at hand (see conversations.py), and invented otherwise.
"""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, cycle
from pathlib import Path
from time import perf_counter

from bench.conversations import data_folder
from bench.report import Report, Table, Target, duration
from bench.stores_turns import SCOPE, counter, scratch
from bench.timing import Samples, ratio
from bench.workload import transcript
from turnfold.records import Document, Snapshot
from turnfold.runtime import drive
from turnfold.stores import SqliteStore
from turnfold.workspace_snapshots import AsyncSnapshots, SnapshotStorage

__all__ = ("QUESTION", "run")

QUESTION = "bytes and time of a snapshot per turn of a 2 MB workspace with small edits"
SIZE = 2_000_000
FILES = 200
TURNS, QUICK = 1_000, 100
MOST_SHARE = 0.05
_SETS = ("conversations/locomo.jsonl.gz", "conversations/cmtmedqa_zh.jsonl.gz")
_COMPARED_EVERY = 20
_ROUNDS = 5
"""Stretches of turns that ratios are formed in."""

Make = Callable[[dict[str, str]], Snapshot]


@dataclass(slots=True)
class _Lane:
    """What was measured of one way to keep the workspace."""

    name: str
    turns: int
    whole: int = 0
    """Bytes of all snapshots, stored whole."""
    packed: int = 0
    """Bytes of all of them, each compressed whole; estimated from those compared."""
    written: int = 0
    """Bytes of the documents."""
    file: int = 0
    """Bytes of the SQLite file."""
    searched: int = 0
    """Bytes of the SQLite file once everything is indexed."""
    first: float = 0.0
    reading: float = 0.0
    taking: Samples = field(default_factory=lambda: Samples([[] for _ in range(_ROUNDS)]))
    compressing: Samples = field(default_factory=lambda: Samples([[] for _ in range(_ROUNDS)]))
    storing: Samples = field(default_factory=lambda: Samples([[] for _ in range(_ROUNDS)]))


def run(*, quick: bool) -> Report:
    """Measure both ways."""
    turns = QUICK if quick else TURNS
    source = "recorded" if _recorded() else "invented"
    lanes = [
        _measured("200 files", turns, lambda files: Snapshot(files=files)),
        _measured("one rendered text", turns, lambda files: Snapshot(context=_rendered(files))),
    ]
    report = Report("snapshots", QUESTION, tables=[_bytes_table(lanes, source), _time_table(lanes)])
    for lane in lanes:
        share = lane.written / lane.whole
        on_disk = lane.searched / lane.whole
        report.targets += [
            Target(
                f"{lane.name}: {turns:,} snapshots <= {MOST_SHARE:.0%} of storing them whole",
                f"{share:.2%}",
                share <= MOST_SHARE,
            ),
            Target(
                f"{lane.name}: the SQLite file, index included, <= {MOST_SHARE:.0%}",
                f"{on_disk:.2%}",
                on_disk <= MOST_SHARE,
            ),
        ]
        report.figures[lane.name] = {
            "turns": lane.turns,
            "whole": lane.whole,
            "compressed": lane.packed,
            "written": lane.written,
            "file": lane.file,
            "file_with_index": lane.searched,
            "taking": lane.taking.figures(),
            "compressing": lane.compressing.figures(),
            "storing": lane.storing.figures(),
            "reading": lane.reading,
        }
    return report


def _measured(name: str, turns: int, make: Make) -> _Lane:
    lane = _Lane(name, turns)
    chance = random.Random(17)  # noqa: S311 (edits that can be repeated)
    files = _workspace()
    with scratch() as folder:
        path = folder / "snapshots.db"
        store = SqliteStore(path, counter=counter(), blocking=True)
        other = SqliteStore(folder / "whole.db", counter=counter(), blocking=True)
        handle = _opened(store)
        packed: list[float] = []
        for turn in range(turns):
            files = _edited(files, chance, turn)
            snapshot = make(files)
            begin = perf_counter()
            taken = drive(handle.take(snapshot))
            spent = perf_counter() - begin
            at = turn * _ROUNDS // turns
            if turn:
                lane.taking.rounds[at].append(spent)
            else:
                lane.first = spent
            lane.whole += taken.size
            lane.written += taken.written
            if turn % _COMPARED_EVERY == 1:
                packed.append(_compare(lane, files, other, at) / taken.size)
        lane.packed = round(lane.whole * sum(packed) / len(packed))
        lane.file = _bytes(path)
        begin = perf_counter()
        found = drive(_opened(store).get(turns))
        lane.reading = perf_counter() - begin
        assert found is not None
        assert found.files == make(files).files
        assert found.context == make(files).context
        drive(handle.search("工作 workspace"))
        lane.searched = _bytes(path)
        drive(store.close())
        drive(other.close())
    return lane


def _opened(store: SqliteStore) -> AsyncSnapshots:
    shelf = SnapshotStorage(store, SCOPE, "work")
    return AsyncSnapshots(shelf, count=counter().count_text, clock=lambda: 1)


def _compare(lane: _Lane, files: dict[str, str], other: SqliteStore, at: int) -> int:
    """Bytes of the workspace compressed whole; it is also stored as it is, one durable row."""
    data = _rendered(files).encode()
    begin = perf_counter()
    packed = len(zlib.compress(data, 6))
    lane.compressing.rounds[at].append(perf_counter() - begin)
    begin = perf_counter()
    drive(other.put_document(SCOPE, "work", Document("whole", "newest", data, 0)))
    lane.storing.rounds[at].append(perf_counter() - begin)
    return packed


def _rendered(files: dict[str, str]) -> str:
    return "\n".join(f"== {path}\n{text}" for path, text in files.items())


def _bytes(path: Path) -> int:
    return sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*"))


def _recorded() -> bool:
    return all((data_folder() / name).exists() for name in _SETS)


def _texts(name: str) -> Iterator[str]:
    """Lines of text of a recorded set, as they are written; of an invented one otherwise."""
    if not _recorded():
        yield from (item.text for item in transcript(60_000, seed=len(name)) if item.text)
        return
    with gzip.open(data_folder() / name, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield from (line[start : start + 90] for start in range(0, len(line), 90))


def _workspace() -> dict[str, str]:
    sources = [chain.from_iterable(cycle([list(_lines(name))])) for name in _SETS]
    files: dict[str, str] = {}
    for number in range(FILES):
        lines: list[str] = []
        length = 0
        while length < SIZE // FILES:
            lines.append(next(sources[number % 2]))
            length += len(lines[-1].encode()) + 1
        files[f"src/part{number % 10}/file{number:03}.txt"] = "\n".join(lines)
    return files


def _lines(name: str) -> Iterator[str]:
    total = 0
    for text in _texts(name):
        yield from text.replace("\\n", "\n").split("\n")
        total += len(text.encode())
        if total > SIZE:
            return


def _edited(files: dict[str, str], chance: random.Random, turn: int) -> dict[str, str]:
    """One to three small edits; every tenth turn one of them is at the head of a file."""
    edited = dict(files)
    for number in range(chance.randint(1, 3)):
        path = chance.choice(list(edited))
        lines = edited[path].split("\n")
        at = 0 if number == 0 and turn % 10 == 0 else chance.randrange(len(lines))
        match chance.randrange(3):
            case 0:
                lines[at:at] = [f"line {turn}.{number} put in, 第{turn}轮加入"]
            case 1 if len(lines) > 1:
                del lines[at]
            case _:
                lines[at] = f"line {turn}.{number} changed, 第{turn}轮修改"
        edited[path] = "\n".join(lines)
    return edited


def _bytes_table(lanes: list[_Lane], source: str) -> Table:
    rows = [
        [
            lane.name,
            f"{lane.whole / 1e6:,.0f} MB",
            f"{lane.packed / 1e6:,.0f} MB",
            f"{lane.written / 1e6:,.1f} MB",
            f"{lane.written / lane.whole:.2%}",
            f"{lane.file / lane.whole:.2%}",
            f"{lane.searched / lane.whole:.2%}",
        ]
        for lane in lanes
    ]
    columns = ["kept as", "whole", "each compressed", "snapshots", "share", "file", "with index"]
    notes = [f"{lanes[0].turns:,} turns, {source} text; the file holds what else SQLite needs."]
    return Table("Bytes", columns, rows, notes)


def _time_table(lanes: list[_Lane]) -> Table:
    rows = [
        [
            lane.name,
            duration(lane.first),
            lane.taking.shown(),
            str(ratio(lane.taking, lane.compressing)),
            str(ratio(lane.taking, lane.storing)),
            duration(lane.reading),
        ]
        for lane in lanes
    ]
    columns = ["kept as", "the first", "one more", "zlib of all = 1", "raw write = 1", "read back"]
    notes = [
        "By the clock, durable on return; beside them as ratios: compressing the workspace whole with zlib, and",
        "writing it whole into one row of SQLite, every twentieth turn of the same run.",
        "Read back: the last snapshot, whole, by a process that knows nothing yet.",
    ]
    return Table("Time of a snapshot", columns, rows, notes)
