"""Writers of a SQLite file in processes of their own: `nursery [hasty]`, `crowds PATH SIZES`; see writers.py."""

from __future__ import annotations

import asyncio
import sys
import time
from functools import partial

from tests.stores.writers import CLOCKS, crowd, crowds, nursery
from turnfold.stores import SqliteStore, Store
from turnfold.stores.sqlite.engine import SqliteEngine
from turnfold.stores.sqlite.write_queue import notify


def _opened(place: str, *, blocking: bool) -> Store:
    return SqliteStore(place, blocking=blocking)


def _answer_before_commit(engine: SqliteEngine) -> None:
    engine._writer.execute("BEGIN IMMEDIATE")
    engine._take()
    group = engine._group
    for job in group:
        job.result = job.kind.alone(engine._writer, job.item)
    notify(group)
    group.clear()
    time.sleep(0.005)
    engine._writer.execute("COMMIT")


def _part(path: str, sizes: list[int], clock: str) -> list[list[object]]:
    return asyncio.run(crowd([SqliteStore(path, clock=CLOCKS[clock])], clock, sizes))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["nursery", *faults]:
            if "hasty" in faults:
                setattr(SqliteEngine, "_commit", _answer_before_commit)  # noqa: B010 (a method is replaced on purpose)
            nursery(_opened)
        case ["crowds", path, *sizes]:
            crowds(partial(_part, path, [int(size) for size in sizes]))
        case _:
            raise SystemExit(f"unknown: {sys.argv[1:]}")
