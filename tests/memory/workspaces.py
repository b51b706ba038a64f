"""Workspaces that change turn by turn, and where their snapshots are kept in tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import count as counting
from pathlib import Path

import pytest

from turnfold.runtime import SyncRuntime, drive
from turnfold.stores import MemoryStore, Scope, SqliteStore, Store
from turnfold.tokens import cautious_counter
from turnfold.workspace_snapshots import AsyncSnapshots, Snapshots, SnapshotStorage

__all__ = ("SCOPE", "edited", "kept_store", "made_files", "snapshots_in", "token_count")

SCOPE = Scope("t")
token_count = cautious_counter().count_text


def snapshots_in(
    store: Store, conversation: str = "c", *, clock: Callable[[], int] | None = None
) -> Snapshots:
    """The snapshots of a conversation, through a handle of its own, as another process would have."""
    shelf = SnapshotStorage(store, SCOPE, conversation, runtime=SyncRuntime())
    ticks = counting(1)
    return Snapshots(AsyncSnapshots(shelf, count=token_count, clock=clock or (lambda: next(ticks))))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def kept_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Each kind of store, new for each test."""
    if request.param == "postgres":
        yield from _postgres(tmp_path)
        return
    store = (
        MemoryStore()
        if request.param == "memory"
        else SqliteStore(tmp_path / "kept.db", blocking=True)
    )
    yield store
    drive(store.close())


def _postgres(place: Path) -> Iterator[Store]:
    pytest.importorskip("psycopg", reason="needs psycopg")
    from tests.stores.servers import PostgresPlaces
    from turnfold.stores.postgres.store import PostgresStore

    places = PostgresPlaces()
    store = PostgresStore(places.url(place), blocking=True)
    yield store
    drive(store.close())
    places.sweep()
    places.close()


def made_files(number: int, size: int, *, seed: int = 1) -> dict[str, str]:
    """Files of about `size` bytes, half of them Chinese."""
    dice = random.Random(seed)  # noqa: S311 (a run that can be repeated)
    english = "def return import value window budget turn entry store read the and of".split()
    chinese = ["工作区", "快照", "预算", "窗口", "记录", "轮次", "存储", "读取", "的", "与"]
    files: dict[str, str] = {}
    for at in range(number):
        words = chinese if at % 2 else english
        lines: list[str] = []
        length = 0
        while length < size:
            lines.append(" ".join(dice.choices(words, k=8)) + f" {dice.randrange(10**6)}")
            length += len(lines[-1].encode()) + 1
        files[f"src/part{at:03}.{'md' if at % 2 else 'py'}"] = "\n".join(lines)
    return files


def edited(files: dict[str, str], dice: random.Random, *, mark: str) -> dict[str, str]:
    """The files with one small edit: a line put in, taken out or changed."""
    path = dice.choice(sorted(files))
    lines = files[path].split("\n")
    at = dice.randrange(len(lines))
    match dice.randrange(3):
        case 0:
            lines[at:at] = [f"put in {mark}"]
        case 1:
            del lines[at]
        case _:
            lines[at] = f"changed {mark}"
    return {**files, path: "\n".join(lines)}
