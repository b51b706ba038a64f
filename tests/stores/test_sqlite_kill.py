"""A writer is killed at any instant, again and again: nothing it was told is stored is ever missing.

Opened again, the file must hold what killing.py asks of every store, and pass SQLite's own check.
"""

from __future__ import annotations

import random
from pathlib import Path

import apsw
import pytest

from tests.sizes import SQLITE_KILLS
from tests.stores.killing import Told, needs_fork, nursery
from tests.stores.sqlite_file import integrity, settled, stored_texts
from turnfold.stores import SqliteStore

CYCLES_OF_A_FILE = 25


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
    with nursery("sqlite_writers.py", *words) as writers:
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
    SQLITE_KILLS.values(),
)
def test_a_killed_writer_loses_nothing_it_was_told_is_stored(tmp_path: Path, cycles: int) -> None:
    acknowledged, faults = kill_often(tmp_path, cycles)
    assert faults == []
    assert acknowledged > cycles


@needs_fork
@pytest.mark.slow  # shows that the tests above can fail
def test_a_store_that_answers_before_it_commits_is_caught(tmp_path: Path) -> None:
    _, faults = kill_often(tmp_path, CYCLES_OF_A_FILE, "hasty")
    assert any(fault.startswith("lost") for fault in faults)


def test_the_check_sees_a_loss_a_gap_half_a_batch_and_a_double() -> None:
    told = Told()
    told.hear("ack b 2 2 w-1")
    whole = [(1, "w-0 0/1"), (2, "w-1 0/2"), (3, "w-1 1/2")]
    assert told.faults({"b": whole}) == []
    assert told.faults({"b": whole[:1]}) == ["lost: w-1 at 2"]
    assert any("torn" in fault for fault in told.faults({"b": whole[:2]}))
    assert any("gap" in fault for fault in told.faults({"b": [whole[0], *whole[2:]]}))
    assert any("torn" in fault for fault in told.faults({"b": [*whole, (4, "w-2 1/2")]}))
    assert told.faults({"b": [*whole, (4, "w-0 0/1")]}) == ["doubled: w-0 0/1"]
