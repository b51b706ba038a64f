"""A writer is killed at any instant, again and again: nothing it was told is stored is ever missing.

The writer says what was acknowledged through a pipe, so what it said before it died is known. Opened again, the file
must hold each acknowledged batch at its place, no batch in part, seqs without gaps, and pass SQLite's own check.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import pytest

from tests.house.source_tree import ROOT
from tests.stores.sqlite_file import integrity, settled, stored_texts
from turnfold.stores.sqlite_store import SqliteStore

CYCLES_OF_A_FILE = 25
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="writers are forked")

Texts = dict[str, list[tuple[int, str]]]


@dataclass
class Told:
    """What writers were told is stored."""

    batches: list[tuple[str, int, int, str]] = field(
        default_factory=list[tuple[str, int, int, str]]
    )

    def hear(self, line: str) -> None:
        conversation, first, size, label = line.split()[1:]
        self.batches.append((conversation, int(first), int(size), label))

    def faults(self, held: Texts) -> list[str]:
        """What the file's content contradicts."""
        found = [fault for rows in held.values() for fault in _unsound(rows)]
        for conversation, first, size, label in self.batches:
            rows = held.get(conversation, [])[first - 1 : first - 1 + size]
            if rows != [(first + part, f"{label} {part}/{size}") for part in range(size)]:
                found.append(f"lost: {label} at {first}")
        return found


def _unsound(rows: list[tuple[int, str]]) -> Iterator[str]:
    expected = ""
    for place, (seq, text) in enumerate(rows, 1):
        if seq != place:
            yield f"gap: {seq} at place {place}"
            return
        label, part, size = text.replace("/", " ").split()
        if expected not in ("", text) or (not expected and part != "0"):
            yield f"torn: {text} where {expected or 'a batch'} begins or goes on"
        following = int(part) + 1
        expected = "" if following == int(size) else f"{label} {following}/{size}"
    if expected:
        yield f"torn: {expected} is missing"


class Nursery:
    """A process that forks writers; see sqlite_writers.py."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin
        assert process.stdout
        self._orders, self._news = process.stdin, process.stdout

    def raise_and_kill(
        self, cycle: int, path: Path, told: Told, *, batches: int, seconds: float
    ) -> None:
        """Let a writer hear so many answers, and live for about so long after; kill it, and hear what it had said."""
        self._orders.write(f"{cycle} {path}\n")
        self._orders.flush()
        born, pid = self._news.readline().split()
        assert born == "born"
        for _ in range(batches):
            told.hear(self._news.readline())
        time.sleep(seconds)
        os.kill(int(pid), signal.SIGKILL)
        for line in self._news:
            if line.startswith("dead"):
                assert line.split() == ["dead", str(-signal.SIGKILL)], "the writer died by itself"
                return
            told.hear(line)
        raise AssertionError("the nursery is gone")


@contextmanager
def nursery(*words: str) -> Iterator[Nursery]:
    program = Path(__file__).with_name("sqlite_writers.py")
    with subprocess.Popen(
        [sys.executable, str(program), "nursery", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"},
    ) as process:
        yield Nursery(process)
        assert process.stdin
        process.stdin.close()


def reopened(path: Path, told: Told) -> list[str]:
    """The faults of the file, as the store itself brings it back and as stock SQLite sees it."""
    settled(SqliteStore(path, blocking=True).close())
    connection = apsw.Connection(str(path))
    try:
        verdict = integrity(connection)
        return told.faults(stored_texts(connection)) + ([verdict] if verdict != "ok" else [])
    finally:
        connection.close()


def kill_often(place: Path, cycles: int, *words: str) -> tuple[int, list[str]]:
    """How many batches were acknowledged, and every fault found."""
    dice = random.Random(cycles)  # noqa: S311 (a run that can be repeated)
    acknowledged, faults = 0, list[str]()
    told, path = Told(), place / "0.db"
    with nursery(*words) as writers:
        for cycle in range(cycles):
            batches = dice.choice((0, 1, 2, 3, 5, 8))
            seconds = dice.random() * (0.01 if batches else 0.04)
            writers.raise_and_kill(cycle, path, told, batches=batches, seconds=seconds)
            last_of_file = (cycle + 1) % CYCLES_OF_A_FILE == 0
            # Now and then nobody looks in between: the next writer finds the log as the dead one left it.
            if last_of_file or dice.random() < 0.4:
                faults += reopened(path, told)
            if last_of_file:
                acknowledged += len(told.batches)
                told, path = Told(), place / f"{cycle + 1}.db"
    return acknowledged, faults


@needs_fork
@pytest.mark.parametrize(
    "cycles",
    [200, pytest.param(1_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])],
)
def test_a_killed_writer_loses_nothing_it_was_told_is_stored(tmp_path: Path, cycles: int) -> None:
    acknowledged, faults = kill_often(tmp_path, cycles)
    assert faults == []
    assert acknowledged > cycles


@needs_fork
def test_a_store_that_answers_before_it_commits_is_caught(tmp_path: Path) -> None:
    _, faults = kill_often(tmp_path, 2 * CYCLES_OF_A_FILE, "hasty")
    assert any(fault.startswith("lost") for fault in faults)


def test_the_check_sees_a_loss_a_gap_and_half_a_batch() -> None:
    told = Told()
    told.hear("ack b 2 2 w-1")
    whole = [(1, "w-0 0/1"), (2, "w-1 0/2"), (3, "w-1 1/2")]
    assert told.faults({"b": whole}) == []
    assert told.faults({"b": whole[:1]}) == ["lost: w-1 at 2"]
    assert any("torn" in fault for fault in told.faults({"b": whole[:2]}))
    assert any("gap" in fault for fault in told.faults({"b": [whole[0], *whole[2:]]}))
    assert any("torn" in fault for fault in told.faults({"b": [*whole, (4, "w-2 1/2")]}))
