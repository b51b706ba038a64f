"""A store belongs to the process that opened it: a forked child is refused at once, and the parent is not disturbed.

Parents write with several threads while they fork, so that connections, locks and transactions are in use at the moment
of the fork.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

if not hasattr(os, "fork"):
    pytest.skip("needs os.fork", allow_module_level=True)
pytest.importorskip("psycopg", reason="needs psycopg")

from tests.stores.forked import error_name, in_children
from tests.stores.redis_server import PATIENCE, shared_url
from tests.stores.servers import PostgresPlaces, postgres_places
from turnfold import Memory
from turnfold.errors import WrongProcess
from turnfold.records import Document, NewEntry, user
from turnfold.runtime import drive
from turnfold.stores import Scope, SqliteStore, Store
from turnfold.stores.fork_guard import ProcessGuard
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.redis.cache import CachedStore
from turnfold.stores.redis.guarded_client import RedisEngine
from turnfold.stores.sqlite.file_checks import SqliteFile

__all__ = ("postgres_places",)

pytestmark = pytest.mark.usefixtures("only_own_garbage")

ALICE, BOB = Scope("alice"), Scope("bob")
CHILDREN = 3
WRITERS = 3


@dataclass
class Place:
    """Where a store is, and how one is opened there."""

    kind: str
    address: str

    def open(self, *, blocking: bool = True) -> Store:
        if self.kind == "sqlite":
            return SqliteStore(self.address, blocking=blocking)
        store = PostgresStore(self.address, blocking=blocking)
        if self.kind == "postgres":
            return store
        return CachedStore(store, shared_url(), blocking=blocking, timeout_seconds=PATIENCE)


@contextmanager
def closing_store(place: Place) -> Iterator[Store]:
    store = place.open()
    yield store
    drive(store.close())


@pytest.fixture(params=["sqlite", "postgres", "postgres+valkey"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield Place("sqlite", str(tmp_path / "chat.db"))
        return
    places: PostgresPlaces = request.getfixturevalue("postgres_places")
    yield Place(request.param, places.url(tmp_path))
    places.sweep()


class Writers:
    """Threads of the parent that append and read, each its own words, until told to stop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stop = threading.Event()
        self.acknowledged: dict[int, str] = {}
        self.wrong: list[str] = []
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(WRITERS)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        own = Scope(f"tenant {number}")
        try:
            drive(self._store.append(own, "talk", [NewEntry(user(f"of tenant {number}"))]))
            for each in range(100_000):
                if self._stop.is_set():
                    return
                text = f"writer {number}, message {each}"
                done = drive(self._store.append(ALICE, "talk", [NewEntry(user(text))]))
                self.acknowledged[done.first] = text
                found = drive(self._store.tail(own, "talk", tokens=100))
                if [entry.message.text for entry in found] != [f"of tenant {number}"]:
                    self.wrong.append(f"tenant {number} was given {found}")
        except Exception as error:
            self.wrong.append(repr(error))

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()


def _tried(store: Store) -> str:
    """All that a child is told when it uses an inherited store in every way."""
    note = Document("kind", "key", b"", 0)
    told = {
        error_name(lambda: drive(store.append(ALICE, "talk", [NewEntry(user("late"))]))),
        error_name(lambda: drive(store.read(BOB, "talk"))),
        error_name(lambda: drive(store.tail(BOB, "talk", tokens=10))),
        error_name(lambda: drive(store.put_document(BOB, "talk", note))),
        error_name(lambda: drive(store.get_document(BOB, "talk", "kind", "key"))),
        error_name(lambda: drive(store.search(BOB, ["hello"]))),
        error_name(lambda: drive(store.delete(BOB, "talk"))),
        error_name(lambda: drive(store.health())),
    }
    drive(store.close())
    gc.collect()
    return " ".join(sorted(told))


def _fork_while_writing(place: Place) -> list[str]:
    """What children are told while the parent writes; the parent's own log is right before and after."""
    store = place.open()
    drive(store.append(BOB, "talk", [NewEntry(user("hello"))]))
    writers = Writers(store)
    told: list[str] = []
    try:
        for _ in range(2):
            told += in_children([lambda: _tried(store)] * CHILDREN)
    finally:
        writers.stop()
    assert writers.wrong == []
    drive(store.close())
    _assert_held(place, writers.acknowledged)
    return told


def _assert_held(place: Place, acknowledged: dict[int, str]) -> None:
    again = place.open()
    entries = drive(again.read(ALICE, "talk", limit=100_000))
    assert {entry.seq: entry.message.text for entry in entries} == acknowledged
    assert [entry.message.text for entry in drive(again.read(BOB, "talk"))] == ["hello"]
    drive(again.close())


def test_children_are_refused_and_the_parent_is_not_disturbed(place: Place) -> None:
    assert _fork_while_writing(place) == ["WrongProcess"] * (2 * CHILDREN)


def test_without_the_guard_children_are_not_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = place.open()
    drive(store.append(BOB, "talk", [NewEntry(user("hello"))]))
    with monkeypatch.context() as unguarded:
        unguarded.setattr(ProcessGuard, "check", lambda _self: None)
        unguarded.setattr(
            "turnfold.stores.sqlite.file_checks.check_not_inherited", lambda _path: None
        )
        read = in_children([lambda: error_name(lambda: drive(store.read(BOB, "talk")))])
    assert read == [""]
    assert in_children([lambda: error_name(lambda: drive(store.read(BOB, "talk")))]) == [
        "WrongProcess"
    ]
    drive(store.close())


def test_the_error_names_both_processes_and_the_remedy(place: Place) -> None:
    store = place.open()

    def told() -> str:
        with pytest.raises(WrongProcess) as refused:
            drive(store.head(ALICE, "talk"))
        assert f"used in process {os.getpid()}" in str(refused.value)
        return str(refused.value)

    [text] = in_children([told])
    assert f"opened in process {os.getpid()}" in text
    assert "open it again after the fork" in text
    assert ("close it before the fork" in text) == (place.kind == "sqlite")
    drive(store.close())


def test_a_session_of_an_inherited_memory_is_refused(place: Place) -> None:
    with closing_store(place) as store, Memory(store, scope="alice") as memory:
        memory.session("of the parent").user("hello")
        child = memory.session("of the child")
        told = in_children(
            [
                lambda: error_name(lambda: child.user("hello")),
                lambda: error_name(child.context),
                lambda: error_name(lambda: child.recall("hello")),
                lambda: error_name(memory.conversations),
                lambda: error_name(memory.close),
            ]
        )
        assert told == ["WrongProcess"] * 4 + [""]
        assert memory.session("of the parent").user("again").first == 2


def test_a_store_of_an_event_loop_is_refused_in_a_child(place: Place) -> None:
    async def use() -> list[str]:
        store = place.open(blocking=False)
        await store.append(ALICE, "talk", [NewEntry(user("hello"))])

        def read() -> str:
            return error_name(lambda: drive(store.head(ALICE, "talk")))

        told = in_children([read] * CHILDREN)
        assert (await store.append(ALICE, "talk", [NewEntry(user("again"))])).first == 2
        await store.close()
        return told

    assert asyncio.run(use()) == ["WrongProcess"] * CHILDREN


def test_a_cache_alone_is_refused_as_well() -> None:
    engine = RedisEngine(
        shared_url(),
        blocking=True,
        cluster=False,
        timeout_seconds=PATIENCE,
        longest_pause_seconds=1.0,
        most_connections=2,
    )
    assert drive(engine.fetch("turnfold-test-fork", b"field")) is None
    read = in_children([lambda: error_name(lambda: drive(engine.fetch("any", b"field")))])
    assert read == ["WrongProcess"]
    drive(engine.close())


def test_a_child_that_opens_a_store_of_its_own_works(place: Place) -> None:
    parent = place.open()
    drive(parent.append(ALICE, "talk", [NewEntry(user("parent"))]))
    if place.kind == "sqlite":
        drive(parent.close())

    def write() -> str:
        store = place.open()
        done = drive(store.append(ALICE, "talk", [NewEntry(user("child"))]))
        drive(store.close())
        return str(done.first)

    assert in_children([write]) == ["2"]
    parent = parent if place.kind != "sqlite" else place.open()
    assert drive(parent.append(ALICE, "talk", [NewEntry(user("parent"))])).first == 3
    drive(parent.close())


# ------------------------------------------------------------------------------ SQLite, opened anew


def _lose_an_entry(path: Path) -> list[str]:
    """A child opens the file anew, its parent closes it, the child writes; what the file has in the end."""
    parent = SqliteStore(path, blocking=True)
    drive(parent.append(ALICE, "talk", [NewEntry(user("parent"))]))
    (begun, begin), (closed, close) = os.pipe(), os.pipe()

    def write() -> str:
        try:
            child = SqliteStore(path, blocking=True)
            drive(child.append(ALICE, "talk", [NewEntry(user("child 1"))]))
        finally:
            os.write(begin, b".")
        os.read(closed, 1)
        drive(child.append(ALICE, "talk", [NewEntry(user("child 2"))]))
        return "acknowledged"

    def close_in_between() -> None:
        os.read(begun, 1)
        drive(parent.close())
        os.write(close, b".")

    closing = threading.Thread(target=close_in_between)
    closing.start()
    [told] = in_children([write])
    closing.join(60)
    for end in (begun, begin, closed, close):
        os.close(end)
    again = SqliteStore(path, blocking=True)
    texts = [entry.message.text for entry in drive(again.read(ALICE, "talk"))]
    drive(again.close())
    return [told, *texts]


def test_a_file_the_parent_has_open_is_not_opened_in_a_child(tmp_path: Path) -> None:
    told, *texts = _lose_an_entry(tmp_path / "chat.db")
    assert told.startswith("raised WrongProcess")
    assert "close the store before the fork" in told
    assert texts == ["parent"]


def test_if_it_were_an_acknowledged_entry_would_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "turnfold.stores.sqlite.file_checks.check_not_inherited", lambda _path: None
    )
    monkeypatch.setattr(
        SqliteFile, "check_now", lambda *_: None
    )  # it would see that the log is gone
    told, *texts = _lose_an_entry(tmp_path / "chat.db")
    assert told == "acknowledged"
    assert "child 2" not in texts


# ----------------------------------------------------------------------- a child that ends by itself

_ENDING = """
import gc, os, sys, threading, warnings, weakref
warnings.simplefilter("ignore", DeprecationWarning)
from turnfold.records import NewEntry, user
from turnfold.stores import Scope
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores import SqliteStore
from turnfold.runtime import drive

SCOPE = Scope("alice")
kind, address = sys.argv[1:]
store = (SqliteStore if kind == "sqlite" else PostgresStore)(address, blocking=True)


def append(text):
    return drive(store.append(SCOPE, "talk", [NewEntry(user(text))])).first


def end(connection):
    # End as a program does, so that finalizers run; the connection must not be freed before that.
    global store
    inherited = weakref.ref(connection)
    del connection, store
    gc.collect()
    sys.exit(inherited() is None)


append("one")
"""
_IDLE = """
backend = store._engine._blocking_pool._idle[0].pgconn.backend_pid
if not os.fork():
    drive(store.close())
    end(store._engine._blocking_pool._idle[0])
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
assert append("two") == 2
assert [each.pgconn.backend_pid for each in store._engine._blocking_pool._idle] == [backend]
drive(store.close())
"""
_WITHIN_A_WRITE = """
from turnfold.stores.sqlite import statements as sqlite_rows

insert, begun, go_on = sqlite_rows.insert_entries, threading.Event(), threading.Event()


def gated(connection, new):
    insert(connection, new)
    begun.set()
    assert go_on.wait(60)


sqlite_rows.insert_entries = gated
writing = threading.Thread(target=append, args=("two",))
writing.start()
assert begun.wait(60)
if not os.fork():
    drive(store.close())
    end(store._engine._writer)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
go_on.set()
writing.join(60)
assert append("three") == 3
drive(store.close())
store = SqliteStore(address, blocking=True)
assert [entry.message.text for entry in drive(store.read(SCOPE, "talk"))] == ["one", "two", "three"]
assert store._engine._writer.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
"""


def _run_program(program: str, *arguments: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (ended.returncode, ended.stderr.replace(_FSYNC, "")) == (0, "")


_FSYNC = (
    "the server runs with fsync=off: unless its storage makes up for that, a crash of the machine can lose "
    "acknowledged entries\n"
)


def test_a_child_that_ends_leaves_the_session_of_its_parent_on_the_server(
    postgres_places: PostgresPlaces, tmp_path: Path
) -> None:
    _run_program(_ENDING + _IDLE, "postgres", postgres_places.url(tmp_path))
    postgres_places.sweep()


def test_a_child_forked_within_a_write_leaves_it_whole(tmp_path: Path) -> None:
    _run_program(_ENDING + _WITHIN_A_WRITE, "sqlite", str(tmp_path / "chat.db"))
