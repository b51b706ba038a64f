"""A file that is deleted, moved, replaced or written over while a store has it open: nobody is told that it is stored.

SQLite itself goes on writing into the file it has open, which nobody will ever see again.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from tests.stores.sqlite_file import ALICE, settled
from turnfold.errors import StoreUnavailable, UnsafeStore
from turnfold.records import Document, NewEntry, user
from turnfold.stores import SqliteStore
from turnfold.stores.sqlite import file_checks as sqlite_file
from turnfold.stores.sqlite.file_checks import SqliteFile
from turnfold.stores.sqlite.write_queue import Connection


def said(*texts: str) -> list[NewEntry]:
    return [NewEntry(user(text)) for text in texts]


@pytest.fixture(autouse=True)
def _reads_look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "_FRESH", 0.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with two entries, and beside it an older copy (one entry), another store and another program's file."""
    path = tmp_path / "here" / "chat.db"
    path.parent.mkdir()
    _write(path, "first 第一")
    shutil.copy(path, tmp_path / "older.db")
    _write(path, "x" * 80_000)
    _write(tmp_path / "other.db", "另一个 other")
    program = apsw.Connection(str(tmp_path / "program.db"))
    program.execute("CREATE TABLE things (a); INSERT INTO things VALUES (1)")
    program.close()
    return path


def _write(path: Path, *texts: str) -> None:
    store = SqliteStore(path, blocking=True)
    for text in texts:
        settled(store.append(ALICE, "talk", said(text)))
    settled(store.close())


def _delete_all(path: Path) -> None:
    for each in path.parent.iterdir():
        each.unlink()


def _restore(name: str) -> Callable[[Path], None]:
    def replace(path: Path) -> None:
        copy = shutil.copy(path.parent.parent / name, path.with_name("copy.db"))
        Path(copy).replace(path)

    return replace


def _overwrite(name: str) -> Callable[[Path], None]:
    def overwrite(path: Path) -> None:
        before = path.stat().st_ino
        shutil.copyfile(path.parent.parent / name, path)
        assert path.stat().st_ino == before

    return overwrite


FAULTS: dict[str, Callable[[Path], object]] = {
    "deleted with all beside it": _delete_all,
    "deleted": lambda path: path.unlink(),
    "moved away": lambda path: path.rename(path.with_name("elsewhere.db")),
    "its folder moved away": lambda path: path.parent.rename(path.parent.with_name("there")),
    "replaced by an older copy": _restore("older.db"),
    "replaced by another store": _restore("other.db"),
    "overwritten by an older copy": _overwrite("older.db"),
    "overwritten by another program's": _overwrite("program.db"),
    "emptied": lambda path: os.truncate(path, 0),
    "its log deleted": lambda path: path.with_name("chat.db-wal").unlink(),
    "its log replaced": lambda path: Path(
        shutil.copy(path.with_name("chat.db-wal"), path.with_name("copy"))
    ).replace(path.with_name("chat.db-wal")),
}


def opened(path: Path) -> SqliteStore:
    store = SqliteStore(path, blocking=True)
    settled(store.append(ALICE, "talk", said("before")))
    settled(store.head(ALICE, "talk"))
    return store


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_is_acknowledged_into_a_file_that_is_gone(path: Path, fault: str) -> None:
    store = opened(path)
    FAULTS[fault](path)
    with pytest.raises(UnsafeStore, match="no longer the file that was opened") as raised:
        settled(store.append(ALICE, "talk", said("lost 丢失")))
    assert str(path) in str(raised.value)
    assert "open it again" in str(raised.value)
    for verb in (
        store.head(ALICE, "talk"),
        store.append(ALICE, "talk", said("lost too")),
        store.put_document(ALICE, "talk", Document("state", "key", b"", 0)),
        store.search(ALICE, ["before"]),
        store.delete(ALICE, "talk"),
    ):
        with pytest.raises(UnsafeStore):
            settled(verb)
    health = settled(store.health())
    assert not health.ok
    assert any("no longer the file that was opened" in each for each in health.warnings)
    settled(store.close())
    with pytest.raises(StoreUnavailable, match="closed"):
        settled(store.head(ALICE, "talk"))


@pytest.mark.parametrize("fault", FAULTS)
def test_who_only_reads_is_told_as_well(path: Path, fault: str) -> None:
    store = opened(path)
    FAULTS[fault](path)
    with pytest.raises(UnsafeStore):
        settled(store.head(ALICE, "talk"))
    settled(store.close())


def test_what_was_put_there_is_used_after_opening_again(path: Path) -> None:
    store = opened(path)
    FAULTS["replaced by an older copy"](path)
    with pytest.raises(UnsafeStore, match="the log of the former file is now"):
        settled(store.append(ALICE, "talk", said("lost")))
    settled(store.close())
    again = SqliteStore(path, blocking=True)
    assert settled(again.append(ALICE, "talk", said("after 之后"))).last == 2
    texts = [entry.message.text for entry in settled(again.read(ALICE, "talk"))]
    assert texts == ["first 第一", "after 之后"]
    settled(again.close())


def test_without_putting_the_log_aside_the_copy_is_mixed_with_the_former_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        SqliteFile, "_rename_stale_log", lambda _file: "the log of the former file is now"
    )
    with pytest.raises((AssertionError, apsw.Error, StoreUnavailable)):
        test_what_was_put_there_is_used_after_opening_again(path)


def test_a_file_that_goes_while_it_is_written_is_noticed_before_the_answer(path: Path) -> None:
    store = opened(path)

    def go(connection: Connection) -> None:
        connection.execute("UPDATE conversation SET updated = updated + 1")
        path.rename(path.with_name("elsewhere.db"))

    with pytest.raises(UnsafeStore, match="deleted or moved away"):
        settled(store._engine.write(go))
    settled(store.close())


def test_tasks_are_told_as_well(path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(path)
        await store.append(ALICE, "talk", said("before"))
        path.unlink()  # noqa: ASYNC240 (a moment)
        done = await asyncio.gather(
            *(store.append(ALICE, "talk", said(f"{number}")) for number in range(5)),
            *(store.head(ALICE, "talk") for _ in range(5)),
            return_exceptions=True,
        )
        assert [type(each) for each in done] == [UnsafeStore] * 10
        await store.close()

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_missing_file_is_not_made_anew_by_a_reader(path: Path) -> None:
    store = opened(path)
    store._engine._readers.close()
    path.unlink()
    with pytest.raises(UnsafeStore):
        settled(store.head(ALICE, "talk"))
    assert not path.exists()
    settled(store.close())


def test_what_may_happen_to_a_file_in_use_is_no_fault(path: Path, tmp_path: Path) -> None:
    """Other writers, logs that are moved into the file and emptied, backups, a link to the file, a store in memory."""
    link = tmp_path / "link.db"
    link.symlink_to(path)
    store, other = opened(path), SqliteStore(link, blocking=True)
    for number in range(24):
        settled(store.append(ALICE, "talk", said(f"{number} 一")))
        settled(other.put_document(ALICE, "talk", Document("long", str(number), b"x" * 400_000, 0)))
        if number % 8 == 0:
            settled(other._engine.scrub())
            _write(path, "a third, which closes")
    settled(store.backup(tmp_path / "backup.db"))
    settled(store.search(ALICE, ["third"]))
    settled(other.delete(ALICE, "talk"))
    settled(other.close())
    assert settled(store.append(ALICE, "more", said("fine"))).last == 1
    assert settled(store.health()).ok
    settled(store.close())
    nowhere = SqliteStore(blocking=True)
    assert settled(nowhere.append(ALICE, "talk", said("fine"))).last == 1
    settled(nowhere.close())


@pytest.mark.parametrize("fault", ["deleted", "replaced by an older copy", "its log deleted"])
def test_without_the_look_they_would_be_acknowledged(
    path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(SqliteFile, "check_now", lambda _file, _connection: None)
    with pytest.raises((pytest.fail.Exception, AssertionError, StoreUnavailable)):
        test_nothing_is_acknowledged_into_a_file_that_is_gone(path, fault)
