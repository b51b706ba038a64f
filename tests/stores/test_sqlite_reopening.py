"""A file that needs nothing is opened by one connection that writes nothing and waits for nobody."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from tests.stores.sqlite_file import ALICE, settled
from turnfold.errors import StoreUnavailable, UnsafeStore
from turnfold.records import NewEntry, user
from turnfold.stores import SqliteStore
from turnfold.stores.sqlite import file_checks as sqlite_looking
from turnfold.stores.sqlite import schema as sqlite_schema
from turnfold.stores.sqlite.engine import SqliteEngine
from turnfold.stores.sqlite.file_checks import MARK


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "chat.db"
    store = SqliteStore(made, blocking=True)
    settled(store.append(ALICE, "talk", [NewEntry(user("hello 你好"))]))
    settled(store.close())
    return made


def _mark_of(path: Path) -> int:
    return int.from_bytes(path.read_bytes()[68:72], "big")


@contextmanager
def _told(connections: list[list[str]]) -> Iterator[None]:
    """The statements of every connection that is opened meanwhile."""

    def listen(connection: apsw.Connection) -> None:
        said: list[str] = []
        connections.append(said)
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: said.append(event["sql"]))

    apsw.connection_hooks.append(listen)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(listen)


def _said_at_opening(path: Path) -> list[list[str]]:
    connections: list[list[str]] = []
    with _told(connections):
        store = SqliteStore(path, blocking=True)
    settled(store.close())
    return connections


def test_one_connection_opens_it_and_writes_nothing(path: Path) -> None:
    before = path.read_bytes()
    [said] = _said_at_opening(path)
    assert len(said) <= 24
    assert not [each for each in said if each.startswith(("BEGIN I", "CREATE", "INSERT", "UPDATE"))]
    assert path.read_bytes() == before


def test_without_the_mark_another_connection_looks_first(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_looking, "_has_mark", lambda _: False)
    assert len(_said_at_opening(path)) == 2


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


def _make_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = SqliteEngine.__init__.__kwdefaults__
    assert usual is not None
    monkeypatch.setitem(usual, "busy_seconds", 0.05)


def test_opening_waits_for_no_writer(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _make_impatient(monkeypatch)
    with _writing(path):
        store = SqliteStore(path, blocking=True)
        assert settled(store.head(ALICE, "talk")).seq == 1
        settled(store.close())


def test_one_who_locks_before_looking_would_be_caught(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make_impatient(monkeypatch)
    monkeypatch.setattr(sqlite_schema, "_is_newest", lambda _: False)
    with _writing(path), pytest.raises(StoreUnavailable):
        SqliteStore(path, blocking=True)


def test_a_store_from_before_the_mark_gets_it_and_keeps_what_it_holds(path: Path) -> None:
    plain = apsw.Connection(str(path))
    plain.execute("PRAGMA application_id=0")
    plain.close()
    assert _mark_of(path) == 0
    store = SqliteStore(path, blocking=True)
    assert settled(store.read(ALICE, "talk"))[0].message.text == "hello 你好"
    settled(store.close())
    assert _mark_of(path) == MARK


def _step_of_tomorrow(plain: apsw.Connection) -> None:
    plain.execute("INSERT INTO migration (name) VALUES ('9999_tomorrow')")


def _trigger(plain: apsw.Connection) -> None:
    plain.execute("CREATE TRIGGER late AFTER INSERT ON entry BEGIN DELETE FROM entry; END")


def _loose(plain: apsw.Connection) -> None:
    plain.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    plain.execute(
        "PRAGMA writable_schema=ON; "
        "UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ') -- ) STRICT') WHERE name = 'beside'"
    ).fetchall()


@pytest.mark.parametrize("alter", [_step_of_tomorrow, _trigger, _loose])
def test_a_marked_file_that_was_altered_is_refused(
    path: Path, alter: Callable[[apsw.Connection], None]
) -> None:
    plain = apsw.Connection(str(path))
    alter(plain)
    plain.close()
    with pytest.raises(UnsafeStore):
        SqliteStore(path, blocking=True)


@pytest.mark.parametrize(
    ("made", "sure"),
    [
        ("CREATE TABLE t (a INTEGER) STRICT", True),
        ("CREATE TABLE t (a INTEGER PRIMARY KEY) STRICT, WITHOUT ROWID", True),
        ("CREATE TABLE t (a INTEGER PRIMARY KEY) WITHOUT ROWID, STRICT", False),
        ("CREATE TABLE t (a INTEGER)", False),
        ("CREATE TABLE t (a INTEGER) -- ) STRICT", False),
        ("CREATE TABLE t (a INTEGER) /* ) STRICT", False),
        ("CREATE TABLE t (a TEXT DEFAULT ') STRICT')", False),
    ],
)
def test_a_table_taken_for_strict_is_strict(made: str, *, sure: bool) -> None:
    plain = apsw.Connection(":memory:")
    plain.execute(made)
    [(strict,)] = plain.execute("SELECT strict FROM pragma_table_list WHERE name = 't'").fetchall()
    assert sqlite_schema._is_strict(made) == sure
    assert strict or not sure
    plain.close()


def test_a_file_that_may_not_be_written_is_told_at_once(path: Path) -> None:
    path.chmod(0o400)
    if os.access(path, os.W_OK):
        pytest.skip("this user may write every file")
    with pytest.raises(StoreUnavailable, match="cannot open"):
        SqliteStore(path, blocking=True)
