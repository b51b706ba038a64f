"""Another program's file is refused as it was found: not one byte, and no other journal mode."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import apsw
import pytest

from tests.stores.sqlite_file import ALICE, settled
from turnfold.errors import StoreError, StoreUnavailable, UnsafeStore
from turnfold.records import NewEntry, user
from turnfold.stores import SqliteStore
from turnfold.stores.sqlite import file_checks as sqlite_file
from turnfold.stores.sqlite import file_checks as sqlite_looking
from turnfold.stores.sqlite.engine import SqliteEngine
from turnfold.stores.sqlite.file_checks import MARK, check_owner


def _made_by(script: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        other = apsw.Connection(str(path))
        other.execute(script).fetchall()
        other.close()

    return make


def _left_with_its_log(path: Path) -> None:
    """A file whose program ended without moving its write-ahead log into it."""
    other = apsw.Connection(str(path))
    other.execute("PRAGMA journal_mode=WAL").fetchall()
    other.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    other.execute("CREATE TABLE song (title TEXT); INSERT INTO song VALUES ('歌')")
    other.close()
    assert path.with_name(f"{path.name}-wal").stat().st_size


def _text(path: Path) -> None:
    path.write_text("notes of a user 笔记\n" * 100, encoding="utf-8")


FOREIGN = {
    "tables": _made_by("CREATE TABLE song (title TEXT); INSERT INTO song VALUES ('歌')"),
    "its own steps": _made_by("CREATE TABLE migration (name TEXT); CREATE TABLE song (title TEXT)"),
    "steps by number": _made_by("CREATE TABLE migration (id INTEGER)"),
    "a version alone": _made_by("PRAGMA user_version=7"),
    "an id alone": _made_by("PRAGMA application_id=1196444487"),
    "a log": _made_by("PRAGMA journal_mode=WAL; CREATE TABLE song (title TEXT)"),
    "a log and its own steps": _made_by(
        "PRAGMA journal_mode=WAL; CREATE TABLE migration (id INTEGER)"
    ),
    "a log left": _left_with_its_log,
    "our mark": _made_by(f"PRAGMA application_id={MARK}; CREATE TABLE song (title TEXT)"),
    "our mark alone": _made_by(f"PRAGMA application_id={MARK}"),
    "our mark and a log": _made_by(
        f"PRAGMA journal_mode=WAL; PRAGMA application_id={MARK}; CREATE TABLE song (title TEXT)"
    ),
}


def _all_bytes(folder: Path) -> dict[str, bytes]:
    """Every file but the index of a log, which holds nothing that is not in the log."""
    return {
        file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")
    }


def _refused(path: Path, error: type[StoreError]) -> None:
    before = _all_bytes(path.parent)
    with pytest.raises(error):
        SqliteStore(path, blocking=True)
    assert _all_bytes(path.parent) == before


@pytest.mark.parametrize("make", FOREIGN.values(), ids=FOREIGN)
def test_another_programs_database_is_refused_unchanged(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "their file #1?.db"
    make(path)
    _refused(path, UnsafeStore)


def test_a_file_that_is_no_database_is_refused_unchanged(tmp_path: Path) -> None:
    _text(tmp_path / "notes.txt")
    _refused(tmp_path / "notes.txt", StoreUnavailable)


@pytest.mark.parametrize("size", [1, 3, 11, 15, 16, 100, 600])
def test_a_file_of_a_few_bytes_is_refused_unchanged(tmp_path: Path, size: int) -> None:
    (tmp_path / "notes.txt").write_bytes(b"a" * size)
    _refused(tmp_path / "notes.txt", StoreUnavailable)


def test_a_file_in_use_by_its_program_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    path = tmp_path / "their.db"
    FOREIGN["tables"](path)
    other = apsw.Connection(str(path))
    other.execute("BEGIN EXCLUSIVE; INSERT INTO song VALUES ('b')")
    _refused(path, UnsafeStore)
    other.execute("COMMIT")
    other.close()


def test_a_store_that_sets_before_it_looks_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "their.db"
    FOREIGN["tables"](path)

    def blind(*_: object) -> bool:
        return True

    monkeypatch.setattr(sqlite_file, "check_file_owner", blind)
    with pytest.raises(AssertionError):
        _refused(path, UnsafeStore)


@pytest.mark.parametrize("size", [None, 0])
def test_a_file_that_is_nobodys_becomes_a_store(tmp_path: Path, size: int | None) -> None:
    path = tmp_path / "chat.db"
    if size is not None:
        path.touch()
    for last in (1, 2):
        store = SqliteStore(path, blocking=True)
        assert settled(store.append(ALICE, "talk", [NewEntry(user("hello"))])).last == last
        settled(store.close())


def _looked_at_while_it_is_made(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody makes a store of a new file just after another one has seen that it has no tables.

    The store wants to move its log into the file, which a reader prevents: it waits for that as long as for a lock.
    """
    soon = partial(SqliteEngine, busy_seconds=0.05)
    monkeypatch.setattr("turnfold.stores.sqlite.store.SqliteEngine", soon)
    _made_by("PRAGMA journal_mode=WAL")(path)
    stores: list[SqliteStore] = []
    names = sqlite_looking._schema_names

    def meanwhile(connection: sqlite_looking.Connection) -> set[str]:
        found = names(connection)
        if not stores:
            monkeypatch.setattr(sqlite_looking, "_schema_names", names)
            stores.append(SqliteStore(path, blocking=True))
        return found

    monkeypatch.setattr(sqlite_looking, "_schema_names", meanwhile)
    looking = apsw.Connection(str(path))
    try:
        check_owner(looking)  # type: ignore[arg-type]
    finally:
        looking.close()
        for store in stores:
            settled(store.close())
    assert stores


def test_a_file_that_becomes_a_store_at_that_moment_is_not_foreign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _looked_at_while_it_is_made(tmp_path / "chat.db", monkeypatch)


def test_sabotage_who_looks_twice_takes_it_for_another_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_looking, "_foreign_reason", sqlite_looking._foreign_reason_now)
    with pytest.raises(UnsafeStore, match="application_id"):
        _looked_at_while_it_is_made(tmp_path / "chat.db", monkeypatch)
