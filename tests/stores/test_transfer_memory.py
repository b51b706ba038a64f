"""A file of any length passes through a few megabytes: out of a store, through the check, and into another."""

from __future__ import annotations

import gc
import io
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.stores.transfers import ALICE
from turnfold.records import Entry, user
from turnfold.runtime import drive
from turnfold.stores import ConversationOpening, Piece, SqliteStore, Store, export_to, import_from
from turnfold.testing.stores.sample_values import TALK, character_counter

FEW, MANY = 20_000, 200_000


def pieces(entries: int) -> Iterator[Piece]:
    yield ConversationOpening(TALK, created=1, updated=2)
    for seq in range(1, entries + 1):
        text = f"entry {seq} 北京 " + "x" * 60
        yield Entry(seq, user(text), f"id-{seq}", seq, seq, 0, 0)


def opened(path: Path) -> SqliteStore:
    return SqliteStore(path, counter=character_counter(), blocking=True)


def peak_of(work: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def peaks(folder: Path, entries: int) -> dict[str, int]:
    """The memory of each step, at most."""
    folder.mkdir()
    file = folder / "export.jsonl"
    first, second = opened(folder / "a.db"), opened(folder / "b.db")
    stores: list[Store] = [first, second]
    found = {
        "restore": peak_of(lambda: drive(first.restore(ALICE, pieces(entries)))),
        "export": peak_of(lambda: drive(export_to(first, ALICE, file))),
        "import": peak_of(lambda: drive(import_from(second, ALICE, file))),
        "again": peak_of(lambda: drive(import_from(second, ALICE, file))),
    }
    assert drive(second.head(ALICE, TALK)).seq == entries
    for store in stores:
        drive(store.close())
    return found


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_times_the_entries_take_no_more_memory(tmp_path: Path) -> None:
    few, many = peaks(tmp_path / "few", FEW), peaks(tmp_path / "many", MANY)
    assert {step: many[step] / few[step] < 1.5 for step in few} == dict.fromkeys(few, True)
    assert max(many.values()) < 32 << 20


@pytest.mark.slow
def test_a_store_that_held_everything_would_be_seen(tmp_path: Path) -> None:
    class Hoarder(SqliteStore):
        async def restore(self, scope: object, pieces: object) -> object:  # type: ignore[override]
            return await super().restore(scope, list(pieces))  # type: ignore[arg-type]

    def peak(entries: int) -> int:
        store = Hoarder(tmp_path / f"{entries}.db", counter=character_counter(), blocking=True)
        found = peak_of(lambda: drive(store.restore(ALICE, pieces(entries))))
        drive(store.close())
        return found

    assert peak(6_000) / peak(2_000) > 2


def test_an_export_in_memory_is_what_the_file_is(tmp_path: Path) -> None:
    store = opened(tmp_path / "a.db")
    drive(store.restore(ALICE, pieces(10)))
    file = io.BytesIO()
    done = drive(export_to(store, ALICE, file))
    assert done.size == len(file.getvalue())
    assert done.longest_line == max(map(len, file.getvalue().splitlines(keepends=True)))
    drive(store.close())
