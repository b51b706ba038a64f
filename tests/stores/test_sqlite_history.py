"""Crowds in several processes write to the same conversations: there is one order, and everybody sees it.

Each process notes when every call began and ended, by a clock that all share. A conversation only grows, so its last
content is the truth the notes are held against: each acknowledged value stands once, at the seq that was answered;
who began after another's answer stands behind it; a read shows a stretch of the truth and reaches every answer given
before it began. The stores' own clocks stand still, run backwards or leap, and it makes no difference.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.house.source_tree import ROOT
from tests.stores.sqlite_file import ALICE, dump, settled
from turnfold.records import Checkpoint, Document, NewEntry, assistant, user
from turnfold.stores.sqlite_store import SqliteStore

WRITERS_OF_A_PROCESS = 50
CLOCKS = ("true", "frozen", "backward", "leaping")
TALKS = 5

Truth = list[tuple[int, str]]


class Append(NamedTuple):
    """An acknowledged append, and when it was asked for and answered."""

    began: int
    ended: int
    seq: int
    value: str


class Read(NamedTuple):
    """What was read behind a seq, and when."""

    began: int
    ended: int
    after: int
    values: Truth


@dataclass
class History:
    """What was noted of one conversation, and what it holds in the end."""

    appends: list[Append] = field(default_factory=list[Append])
    reads: list[Read] = field(default_factory=list[Read])
    truth: Truth = field(default_factory=list[tuple[int, str]])

    def anomalies(self) -> Counter[str]:
        """Every way in which the notes contradict one order."""
        truth, appends = self.truth, self.appends
        times = Counter(value for _, value in truth)
        stands = {value: seq for seq, value in truth}
        newest = _newest_answered(appends)
        found = Counter(
            {
                "gap": int([seq for seq, _ in truth] != list(range(1, len(truth) + 1))),
                "duplicate": len(truth) - len(times),
                "lost": sum(each.value not in stands for each in appends),
                "moved": sum(stands.get(each.value, each.seq) != each.seq for each in appends),
                "phantom": len(times.keys() - {each.value for each in appends}),
                "order": sum(newest(each.began) >= each.seq for each in appends),
            }
        )
        for read in self.reads:
            end = read.values[-1][0] if read.values else read.after
            found["stale"] += end < newest(read.began)
            found["other content"] += read.values != truth[read.after : end]
        return +found


def _newest_answered(appends: list[Append]) -> Callable[[int], int]:
    """The highest seq answered before a moment."""
    answered = sorted((append.ended, append.seq) for append in appends)
    moments = [ended for ended, _ in answered]
    highest = [0]
    for _, seq in answered:
        highest.append(max(highest[-1], seq))
    return lambda moment: highest[bisect_left(moments, moment)]


def crowds(path: Path, appends: int) -> Iterator[list[Any]]:
    """What the crowds of four processes noted, each with a clock of its own."""
    program = Path(__file__).with_name("sqlite_writers.py")
    sizes = [str(size) for size in (WRITERS_OF_A_PROCESS, appends, TALKS)]
    words = [sys.executable, str(program), "crowd", str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    running = [
        subprocess.Popen([*words, clock, *sizes], stdout=subprocess.PIPE, env=environment)
        for clock in CLOCKS
    ]
    for process in running:
        answer, _ = process.communicate()
        assert process.returncode == 0
        yield from json.loads(answer)


@pytest.mark.parametrize(
    "appends",
    [15, pytest.param(500, marks=[pytest.mark.slow, pytest.mark.timeout(900)])],
)
def test_two_hundred_writers_in_four_processes_agree_on_one_order(
    tmp_path: Path, appends: int
) -> None:
    notes: dict[str, History] = defaultdict(History)
    for kind, talk, began, ended, place, what in crowds(tmp_path / "chat.db", appends):
        if kind == "append":
            notes[talk].appends.append(Append(began, ended, place, what))
        else:
            values = [(seq, text) for seq, text in what]
            notes[talk].reads.append(Read(began, ended, place, values))
    store = SqliteStore(tmp_path / "chat.db", blocking=True)
    for talk, history in notes.items():
        entries = settled(store.read(ALICE, talk, limit=1_000_000))
        history.truth = [(entry.seq, entry.message.text) for entry in entries]
        assert history.anomalies() == {}
    settled(store.close())
    assert sum(len(history.appends) for history in notes.values()) == 4 * 50 * appends
    assert sum(len(history.reads) for history in notes.values()) > 4 * 50 * appends // 10


def sound() -> History:
    """A history without a fault."""
    truth = [(seq, f"v{seq}") for seq in range(1, 31)]
    appends = [Append(10 * seq, 10 * seq + 15, seq, value) for seq, value in truth]
    reads = [Read(10 * seq + 16, 10 * seq + 19, 0, truth[:seq]) for seq in range(1, 31)]
    return History(appends, reads, truth)


def test_the_checker_finds_nothing_in_a_sound_history() -> None:
    assert sound().anomalies() == {}


def _lose(history: History) -> None:
    del history.truth[-1]


def _double(history: History) -> None:
    history.truth.append((31, "v3"))


def _reorder(history: History) -> None:
    history.truth[9], history.truth[19] = (10, "v20"), (20, "v10")


def _answer_out_of_order(history: History) -> None:
    history.appends[4] = history.appends[4]._replace(began=200, ended=210)


def _read_late(history: History) -> None:
    history.reads[20] = history.reads[20]._replace(values=history.truth[:19])


def _read_otherwise(history: History) -> None:
    history.reads[20] = history.reads[20]._replace(values=[*history.truth[:20], (21, "w")])


def _leave_a_gap(history: History) -> None:
    history.truth[-1] = (32, "v30")


def _invent(history: History) -> None:
    history.truth.append((31, "nobody's"))


@pytest.mark.parametrize(
    ("sabotage", "name"),
    [
        (_lose, "lost"),
        (_double, "duplicate"),
        (_reorder, "moved"),
        (_answer_out_of_order, "order"),
        (_read_late, "stale"),
        (_read_otherwise, "other content"),
        (_leave_a_gap, "gap"),
        (_invent, "phantom"),
    ],
)
def test_the_checker_notices(sabotage: Callable[[History], None], name: str) -> None:
    history = sound()
    sabotage(history)
    assert history.anomalies()[name] > 0


def _life(path: Path, clock: Callable[[], int]) -> dict[str, list[tuple[Any, ...]]]:
    store = SqliteStore(path, blocking=True, clock=clock)
    for number in range(40):
        batch = [
            NewEntry(user(f"问 {number}"), f"q{number}"),
            NewEntry(assistant("答"), f"a{number}"),
        ]
        settled(store.append(ALICE, f"talk-{number % 3}", batch))
    settled(store.add_checkpoint(ALICE, "talk-0", Checkpoint("c1", "", 4, "s", "d")))
    settled(store.add_checkpoint(ALICE, "talk-0", Checkpoint("c2", "c1", 8, "s", "d")))
    for body in (b"1", b"2"):
        settled(store.put_document(ALICE, "talk-1", Document("state", "s", body, 0)))
    settled(store.search(ALICE, ["问"]))
    settled(store.delete(ALICE, "talk-2"))
    settled(store.close())
    return dump(path)


def _without_times(held: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    """The rows without the columns that are there for people: created, updated."""
    times = {"conversation": (9, 10), "entry": (3,), "checkpoint": (9,), "document": (4,)}
    return {
        table: [
            tuple(value for at, value in enumerate(row) if at not in times.get(table, ()))
            for row in rows
        ]
        for table, rows in held.items()
    }


def test_a_clock_that_stands_still_or_runs_backwards_changes_nothing(tmp_path: Path) -> None:
    forward, backward = iter(range(1, 10_000)), iter(range(10_000, 1, -1))
    true = _life(tmp_path / "true.db", lambda: next(forward))
    frozen = _life(tmp_path / "frozen.db", lambda: 7)
    reversed_ = _life(tmp_path / "backward.db", lambda: next(backward))
    assert _without_times(true) == _without_times(frozen) == _without_times(reversed_)
    assert true != frozen != reversed_
