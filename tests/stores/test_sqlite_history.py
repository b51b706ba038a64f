"""Crowds in several processes write to the same file: there is one order, and everybody sees it; see history.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sizes import SQLITE_APPENDS
from tests.stores.history import WRITERS, crowded
from tests.stores.sqlite_file import ALICE, dump, settled
from turnfold.records import Checkpoint, Document, NewEntry, assistant, user
from turnfold.stores import SqliteStore


@pytest.mark.parametrize(
    "appends",
    SQLITE_APPENDS.values(),
)
def test_two_hundred_writers_in_four_processes_agree_on_one_order(
    tmp_path: Path, appends: int
) -> None:
    notes = crowded("sqlite_writers.py", str(tmp_path / "chat.db"), appends=appends)
    store = SqliteStore(tmp_path / "chat.db", blocking=True)
    for talk, history in notes.items():
        entries = settled(store.read(ALICE, talk, limit=1_000_000))
        history.truth = [(entry.seq, entry.message.text) for entry in entries]
        assert history.anomalies() == {}
    settled(store.close())
    assert sum(len(history.appends) for history in notes.values()) == WRITERS * appends
    assert sum(len(history.reads) for history in notes.values()) > WRITERS * appends // 10


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
    """The rows without the columns that are there for people (created, updated) and checksums, which cover them."""
    times = {"conversation": (6, 7), "entry": (5, 10), "checkpoint": (9, 10), "document": (4, 7)}
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
