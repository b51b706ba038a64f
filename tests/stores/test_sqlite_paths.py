"""A path is a path: whatever it looks like to SQLite, and wherever the program goes after opening it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.stores.sqlite_faults import Faulty
from tests.stores.sqlite_file import ALICE, settled
from turnfold.errors import InvalidOption, StoreUnavailable
from turnfold.records import NewEntry, user
from turnfold.stores import SqliteStore, open_store
from turnfold.stores.sqlite import engine as sqlite_engine
from turnfold.stores.sqlite import store as sqlite_store

ODD_PATHS = [
    "file:chat.db",
    "file:chat.db?mode=memory",
    "file::memory:?cache=shared",
    "file:chat.db?vfs=memdb",
    "chat.db?mode=ro#part",
    "%63hat.db",
    "./:memory:",
    "'; DROP TABLE entry; --",
    "聊天 👩‍💻.db",
    "-chat.db",
    "~chat.db",
]


def write_and_reopen(path: str) -> None:
    for number in (1, 2):
        store = SqliteStore(path, blocking=True)
        assert settled(store.append(ALICE, "talk", [NewEntry(user("hello"))])).last == number
        settled(store.close())
    assert Path(path).stat().st_size > 0


@pytest.mark.parametrize("path", ODD_PATHS)
def test_a_file_is_called_what_the_caller_calls_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_and_reopen(path)
    assert [file.name for file in tmp_path.iterdir()] == [Path(path).name]


def test_a_path_read_as_an_address_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = apsw.Connection

    def connect(address: str, *, flags: int) -> Any:
        return opened(address, flags=flags | apsw.SQLITE_OPEN_URI)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sqlite_engine.apsw, "Connection", connect)
    monkeypatch.setattr(sqlite_store, "file_address", str)
    with pytest.raises((AssertionError, StoreUnavailable)):
        write_and_reopen("file:chat.db")


def test_a_program_may_go_elsewhere_after_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore("chat.db", blocking=True)
    settled(store.append(ALICE, "talk", [NewEntry(user("hello"))]))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert settled(store.head(ALICE, "talk")).seq == 1  # by a reader that is opened now
    settled(store.close())
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("path", ["", ":memory:", "a\x00b", "a\udcff"])
def test_what_names_no_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidOption):
        SqliteStore(path, blocking=True)
    assert list(tmp_path.iterdir()) == []


def test_an_address_gives_a_path_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("sqlite:///file:chat.db%3Fmode=memory", blocking=True)
    settled(store.append(ALICE, "talk", [NewEntry(user("hello"))]))
    settled(store.close())
    assert (tmp_path / "file:chat.db?mode=memory").is_file()


@pytest.mark.parametrize("target", ["file:copy.db?mode=memory", ":memory:"])
def test_a_backup_goes_to_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore("chat.db", blocking=True)
    settled(store.append(ALICE, "talk", [NewEntry(user("hello"))]))
    settled(store.backup(target))
    settled(store.close())
    copy = SqliteStore(tmp_path / target, blocking=True)
    assert settled(copy.head(ALICE, "talk")).seq == 1
    settled(copy.close())


@pytest.mark.parametrize(
    ("statement", "told"),
    [("INSERT", "nothing was written"), ("COMMIT", "whether it reached the disk is unknown")],
)
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_a_failure_says_what_is_known_of_the_outcome(
    tmp_path: Path, statement: str, told: str, *, late: bool
) -> None:
    store = SqliteStore(tmp_path / "chat.db", blocking=True)
    batch = [NewEntry(user("hello"), "id")]
    fault = Faulty(store, statement, error=apsw.IOError, late=late)
    with fault, pytest.raises(StoreUnavailable, match=told) as caught:
        settled(store.append(ALICE, "talk", batch))
    assert ("nothing was written" in str(caught.value)) is (statement == "INSERT")
    assert ("same client ids" in str(caught.value)) is (statement == "COMMIT")
    settled(store.append(ALICE, "talk", batch))  # as it says
    assert settled(store.head(ALICE, "talk")).seq == 1
    settled(store.close())
