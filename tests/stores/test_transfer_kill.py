"""An import is killed at any instant: the store is as it was, or has everything; and importing again is enough."""

from __future__ import annotations

import io
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from tests.house.source_tree import ROOT
from tests.sizes import IMPORT_KILLS, IMPORT_KILLS_AT_ANY_TIME
from tests.stores.servers import PostgresPlaces, postgres_places
from tests.stores.sqlite_file import integrity
from tests.stores.transfers import ALICE, exported
from turnfold.runtime import drive
from turnfold.stores import MemoryStore, SqliteStore, Store, export_to, import_from
from turnfold.stores.postgres.store import PostgresStore
from turnfold.testing.stores.case_runner import Clock
from turnfold.testing.stores.restore import fill_richly
from turnfold.testing.stores.sample_values import user_entries

__all__ = ("postgres_places",)

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="imports are forked")
ENTRIES = 1_100
"""More than two batches."""


class Nursery:
    """A process that forks imports; see transfer_importers.py."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin
        assert process.stdout
        self._orders, self._news = process.stdin, process.stdout

    def import_and_die(self, die: str, file: Path, place: str) -> int:
        """How the import ended: the number of the signal, below 0; or 0."""
        self._orders.write(f"{die} {file} {place}\n")
        self._orders.flush()
        return int(self._news.readline())


@contextmanager
def nursery(*words: str) -> Iterator[Nursery]:
    program = Path(__file__).with_name("transfer_importers.py")
    with subprocess.Popen(
        [sys.executable, str(program), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"},
    ) as process:
        yield Nursery(process)
        assert process.stdin
        process.stdin.close()


def source() -> MemoryStore:
    store = MemoryStore(clock=Clock())
    drive(fill_richly(store, ALICE, "a"))
    drive(store.append(ALICE, "long", user_entries(*map(str, range(ENTRIES)))))
    drive(fill_richly(store, ALICE, "z"))
    return store


class World:
    """An export, a store as it is before it is imported, and what it would be after."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "export.jsonl"
        self.base = folder / "base.db"
        drive(export_to(source(), ALICE, self.file))
        self.lines = self.file.read_bytes().count(b"\n")
        store = SqliteStore(self.base, blocking=True)
        drive(store.append(ALICE, "mine", user_entries("kept")))
        self.before = exported(store)
        drive(store.close())
        self.after = self._imported(self._copy("after"))

    def _copy(self, name: str) -> Path:
        path = self.folder / f"{name}.db"
        shutil.copy(self.base, path)
        return path

    def _imported(self, path: Path) -> bytes:
        store = SqliteStore(path, blocking=True)
        drive(import_from(store, ALICE, self.file))
        found = exported(store)
        drive(store.close())
        return found

    def outcome(self, writers: Nursery, die: str) -> tuple[str, str]:
        """How the import ended and what it left: before, after or torn."""
        path = self._copy(f"die {die}")
        ended = writers.import_and_die(die, self.file, str(path))
        store = SqliteStore(path, blocking=True)
        found = exported(store)
        drive(store.close())
        connection = apsw.Connection(str(path))
        assert integrity(connection) == "ok"
        connection.close()
        state = {self.before: "before", self.after: "after"}.get(found, "torn")
        if state != "torn":
            assert self._imported(path) == self.after
        return {-signal.SIGKILL: "killed", 0: "lived"}[ended], state


@pytest.mark.parametrize("random_kills", IMPORT_KILLS.values())
def test_a_killed_import_is_whole_or_absent(tmp_path: Path, random_kills: int) -> None:
    world = World(tmp_path)
    dice = random.Random(random_kills)  # noqa: S311 (a run that can be repeated)
    points = [20, 1020, world.lines + 1]
    points += [dice.randrange(1, world.lines + 1) for _ in range(random_kills)]
    with nursery() as writers:
        assert {world.outcome(writers, str(line)) for line in points} == {("killed", "before")}
        assert world.outcome(writers, "0") == ("lived", "after")


@pytest.mark.parametrize("kills", IMPORT_KILLS_AT_ANY_TIME.values())
def test_so_is_one_killed_at_any_time(tmp_path: Path, kills: int) -> None:
    world = World(tmp_path)
    dice = random.Random(kills)  # noqa: S311 (a run that can be repeated)
    with nursery() as writers:
        found = [world.outcome(writers, f"~{dice.randrange(300_000)}") for _ in range(kills)]
    assert {state for _, state in found} <= {"before", "after"}


def test_an_import_that_commits_as_it_goes_is_caught(tmp_path: Path) -> None:
    world = World(tmp_path)
    with nursery("hasty") as writers:
        assert world.outcome(writers, str(world.lines)) == ("killed", "torn")


def test_postgres_has_nothing_of_a_killed_import(
    tmp_path: Path, postgres_places: PostgresPlaces
) -> None:
    file = tmp_path / "export.jsonl"
    drive(export_to(source(), ALICE, file))
    lines = file.read_bytes().count(b"\n")
    url = postgres_places.url(tmp_path / "store")
    store: Store = PostgresStore(url, blocking=True)
    try:
        with nursery() as writers:
            for line in (20, 1020, lines):
                assert writers.import_and_die(str(line), file, url) == -signal.SIGKILL
                assert drive(store.conversations(ALICE)) == []
        drive(import_from(store, ALICE, file))
        again = io.BytesIO()
        drive(export_to(store, ALICE, again))
        assert again.getvalue() == file.read_bytes()
    finally:
        drive(store.close())
        postgres_places.sweep()
