"""A file that was copied without its log, before anything had moved into it, does not pass for a new store."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import apsw
import pytest

from tests.stores.interrupts import count_instructions, interrupted_at
from tests.stores.sqlite_file import ALICE, settled
from turnfold.errors import Conflict, UnsafeStore
from turnfold.records import NewEntry, user
from turnfold.stores import SqliteStore
from turnfold.stores.sqlite.file_checks import FirstWrite

pytestmark = [
    # An interrupt between making a coroutine and awaiting it leaves it unawaited.
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
SAID = [NewEntry(user("hello 你好"))]


def copied(path: Path, *, log: bool) -> Path:
    """The file as it is now in a folder of its own, with or without what is beside it."""
    folder = path.parent / f"copy {log}"
    folder.mkdir()
    for file in path.parent.glob(f"{path.name}*" if log else path.name):
        shutil.copy(file, folder)
    return folder / path.name


def opened(path: Path) -> SqliteStore:
    return SqliteStore(path, blocking=True)


def seq(path: Path) -> int:
    store = opened(path)
    found = settled(store.head(ALICE, "talk")).seq
    settled(store.close())
    return found


def test_a_copy_without_its_log_is_refused_and_one_with_it_is_not(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    store = opened(path)
    settled(store.append(ALICE, "talk", SAID))
    alone, whole = copied(path, log=False), copied(path, log=True)
    before = alone.read_bytes()
    with pytest.raises(UnsafeStore, match="is missing") as raised:
        opened(alone)
    assert str(alone) + "-wal" in str(raised.value)
    assert "backup()" in str(raised.value)
    assert alone.read_bytes() == before
    with pytest.raises(UnsafeStore):
        opened(alone)
    assert seq(whole) == 1
    settled(store.close())
    assert seq(path) == 1


def test_without_the_note_it_would_pass_for_a_new_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FirstWrite, "begin", lambda _first, _connection: None)
    with pytest.raises(pytest.fail.Exception):
        test_a_copy_without_its_log_is_refused_and_one_with_it_is_not(tmp_path)


def test_the_tables_are_in_the_file_before_anything_else_is(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    store = opened(path)
    alone = copied(path, log=False)
    raw = apsw.Connection(str(alone))
    tables = {row[0] for row in raw.execute("SELECT name FROM sqlite_schema")}
    raw.close()
    assert {"entry", "conversation", "migration"} <= tables
    assert seq(alone) == 0, "nothing was stored: it is a store, and empty"
    settled(store.close())


def test_a_first_write_that_stores_nothing_leaves_no_note(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    store = opened(path)
    with pytest.raises(Conflict):
        settled(store.append(ALICE, "talk", SAID, expect=7))
    settled(store.close())
    assert seq(path) == 0
    assert seq(path) == 0


def test_who_was_killed_before_the_first_write_may_open_again(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    store = opened(path)
    store._engine._first_write.begin(store._engine._writer)
    left = copied(path, log=True)
    for _ in range(2):
        assert seq(left) == 0
    settled(store.close())
    assert seq(path) == 0


def test_the_first_write_of_another_process_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    first = opened(path)
    writer = first._engine._writer
    first._engine._first_write.begin(writer)
    writer.execute(
        "PRAGMA wal_checkpoint(TRUNCATE)"
    ).fetchall()  # as a third process that opens the file does
    writing = threading.Timer(0.3, lambda: settled(first.append(ALICE, "talk", SAID)))
    writing.start()
    assert seq(path) in (0, 1)  # refused as a copy without its log if nobody waits
    writing.join()
    settled(first.close())
    assert seq(path) == 1


def test_an_interrupt_of_the_first_write_leaves_a_store_that_opens(tmp_path: Path) -> None:
    def first(number: int) -> SqliteStore:
        return opened(tmp_path / f"{number}.db")

    store = first(0)
    many = count_instructions(lambda: settled(store.append(ALICE, "talk", SAID)))
    settled(store.close())
    for point in range(1, many, many // 25):
        store = first(point)
        interrupted_at(lambda: settled(store.append(ALICE, "talk", SAID)), point)  # noqa: B023 (called at once)
        settled(store.close())
        assert seq(tmp_path / f"{point}.db") in (0, 1)


def test_a_deleted_conversation_is_something_that_was_stored(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    store = opened(path)
    settled(store.append(ALICE, "talk", SAID))
    settled(store.delete(ALICE, "talk"))
    assert seq(copied(path, log=False)) == 0
    settled(store.close())
