"""Snapshots among real processes: killed at any instant, and writing at once; none is lost, torn or read wrongly."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.memory.snapshot_process import files_of
from tests.memory.workspaces import snapshots_in
from tests.sizes import SNAPSHOT_KILLS
from tests.stores.killing import environment
from turnfold.runtime import drive
from turnfold.stores import SqliteStore

Told = dict[tuple[str, int], int]
"""(writer, number) -> turn, as the writer was told."""


def started(path: Path, name: str, most: int, *words: str) -> subprocess.Popen[str]:
    program = Path(__file__).with_name("snapshot_process.py")
    return subprocess.Popen(
        [sys.executable, str(program), str(path), name, str(most), *words],
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env=environment(),
    )


def heard(lines: list[str]) -> Told:
    told: Told = {}
    for line in lines:
        name, number, turn = line.split()
        told[name, int(number)] = int(turn)
    return told


def faults(path: Path, told: Told) -> list[str]:
    """What the store contradicts: every snapshot in it must be whole, every one told must be in it."""
    store = SqliteStore(path, blocking=True)
    reader = snapshots_in(store)
    found: list[str] = []
    held: dict[tuple[str, int], int] = {}
    newest = reader.newest()
    for turn in range(1, newest + 1):
        snapshot = reader.get(turn)  # raises where a piece is missing or altered
        if snapshot is None:
            found.append(f"gap at {turn}")
            continue
        name, number = str(snapshot.files["number"]).split()
        held[name, int(number)] = turn
        if dict(snapshot.files) != files_of(int(number), name):
            found.append(f"torn: {turn}")
    found += [f"lost: {each}" for each, turn in told.items() if turn and held.get(each) != turn]
    found += [f"lost: {each}" for each, turn in told.items() if not turn and each not in held]
    drive(store.close())
    return found


def killed(path: Path, name: str, dice: random.Random, *words: str) -> Told:
    process = started(path, name, 10_000, *words)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(dice.choice((1, 2, 4)))]
    time.sleep(dice.random() * 0.01)  # somewhere inside the next one
    os.kill(process.pid, signal.SIGKILL)
    rest = process.stdout.read().split("\n")
    process.wait()
    process.stdout.close()
    return heard([*lines, *(line for line in rest if len(line.split()) == 3)])


def kill_often(path: Path, times: int, *words: str) -> list[str]:
    dice = random.Random(times)  # noqa: S311 (when to kill, the same each time)
    told: Told = {}
    for number in range(times):
        told |= killed(path, f"w{number}", dice, *words)
    return faults(path, told)


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("times", SNAPSHOT_KILLS.values())
def test_a_killed_writer_leaves_every_snapshot_whole(tmp_path: Path, times: int) -> None:
    assert kill_often(tmp_path / "s.db", times) == []


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_one_that_says_so_too_early_is_caught(tmp_path: Path) -> None:
    dice = random.Random(1)  # noqa: S311 (when to kill, the same each time)
    for number in range(40):
        told = killed(tmp_path / f"{number}.db", "w", dice, "hasty")
        if any(fault.startswith("lost") for fault in faults(tmp_path / f"{number}.db", told)):
            return
    pytest.fail("forty hasty writers were killed and none was caught")


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    drive(SqliteStore(path, blocking=True).close())
    writers = [started(path, name, 12) for name in ("a", "b")]
    told: Told = {}
    for process in writers:
        output, _ = process.communicate()
        assert process.returncode == 0
        told |= heard(output.splitlines())
    assert len(told) == 24
    assert sorted(told.values()) == list(range(1, 25))
    assert faults(path, told) == []


def test_the_check_sees_a_loss(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    output, _ = started(path, "a", 2).communicate()
    told = heard(output.splitlines())
    assert faults(path, told) == []
    assert faults(path, {**told, ("a", 2): 3}) == ["lost: ('a', 2)"]
