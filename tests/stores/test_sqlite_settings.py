"""A file that does not take the settings its promises rest on is not opened, and nobody can change them unnoticed."""

from __future__ import annotations

import threading
from pathlib import Path

import apsw
import pytest

from tests.stores.sqlite_file import ALICE, settled
from turnfold.errors import StoreUnavailable, UnsafeStore
from turnfold.records import NewEntry, user
from turnfold.stores import SqliteStore
from turnfold.stores.sqlite import file_checks as sqlite_file
from turnfold.stores.sqlite.engine import SqliteEngine
from turnfold.stores.sqlite.file_checks import SqliteFile
from turnfold.stores.sqlite.write_queue import Connection


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("journal_mode", "DELETE"),
        ("journal_mode", "MEMORY"),
        ("synchronous", "NORMAL"),
        ("synchronous", "OFF"),
        ("secure_delete", "OFF"),
        ("secure_delete", "FAST"),
        ("mmap_size", "65536"),
    ],
)
def test_a_file_with_a_wrong_setting_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    expected = sqlite_file._SETTINGS[name][1]
    monkeypatch.setitem(sqlite_file._SETTINGS, name, (value, expected))
    with pytest.raises(UnsafeStore, match=f"{name}=.* where {expected!r} is needed"):
        SqliteStore(tmp_path / "chat.db")


def test_the_settings_hold_for_the_writer_and_for_every_reader(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "chat.db", blocking=True)
    settled(store.append(ALICE, "talk", [NewEntry(user("hello"))]))
    settled(store.head(ALICE, "talk"))
    engine = store._engine
    assert engine._readers.idle
    wanted = {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1, "mmap_size": 0}
    for connection in (engine._writer, *engine._readers.idle):
        found = {name: connection.execute(f"PRAGMA {name}").fetchall()[0][0] for name in wanted}
        assert found == wanted
    settled(store.close())


def test_a_folder_without_leave_to_write_gives_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"cannot open .*absent' does not exist; create it"):
        SqliteStore(tmp_path / "absent" / "chat.db")


def test_without_the_assertion_the_wrong_setting_would_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trusting(_self: SqliteFile, _connection: Connection, _name: str, _to: object) -> None:
        return

    monkeypatch.setitem(sqlite_file._SETTINGS, "journal_mode", ("DELETE", "wal"))
    monkeypatch.setattr(SqliteFile, "_assert_setting", trusting)
    settled(SqliteStore(tmp_path / "chat.db", blocking=True).close())
    plain = apsw.Connection(str(tmp_path / "chat.db"))
    assert plain.execute("PRAGMA journal_mode").fetchall() == [("delete",)]
    plain.close()


def _open_together(path: Path, many: int) -> list[Exception]:
    gate = threading.Barrier(many)
    errors: list[Exception] = []

    def come() -> None:
        gate.wait()
        try:
            settled(SqliteStore(path, blocking=True).close())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=come) for _ in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_many_may_create_one_file_at_the_same_moment(tmp_path: Path) -> None:
    for number in range(40):
        assert not _open_together(tmp_path / f"{number}.db", 8)


def test_a_log_that_vanishes_while_it_is_looked_at_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last connection of another process removes the log when it closes."""
    store = SqliteStore(tmp_path / "chat.db", blocking=True)
    plain = apsw.Connection(str(tmp_path / "chat.db"))
    plain.execute("PRAGMA application_id=0")  # in the log only
    log, looked = tmp_path / "chat.db-wal", Path.is_file

    def vanishing(path: Path) -> bool:
        found = looked(path)
        if path == log:
            log.unlink()
        return found

    assert log.stat().st_size
    monkeypatch.setattr(sqlite_file, "_has_mark", lambda _: False)
    monkeypatch.setattr(Path, "is_file", vanishing)
    opened = SqliteFile(str(tmp_path / "chat.db"), busy_seconds=1)
    sqlite_file.check_file_owner(str(tmp_path / "chat.db"), opened._open_for_check)
    monkeypatch.undo()
    plain.close()
    settled(store.close())


def test_a_file_that_stays_locked_is_given_up_and_the_message_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    def locked(_self: SqliteFile) -> Connection:
        tries.append(1)
        raise apsw.BusyError("database is locked")

    monkeypatch.setattr(SqliteFile, "_open_once", locked)
    with pytest.raises(StoreUnavailable, match=r"locked for 0\.1 s; another process has it locked"):
        SqliteEngine(str(tmp_path / "chat.db"), blocking=True, busy_seconds=0.1)
    assert len(tries) > 1
