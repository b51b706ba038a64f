"""A write happens whole or not at all: every statement of every verb is made to fail, every await is cancelled.

After each fault the file is what it was before or what it would have been after; no lock is left behind, so another
connection can write at once; and the same store goes on working.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.stores.cancelling import CancelledAt
from tests.stores.sqlite_faults import Faulty
from tests.stores.sqlite_file import ALICE, dump, settled
from turnfold.errors import StoreUnavailable
from turnfold.records import Checkpoint, Document, NewEntry, user
from turnfold.stores import Scope, SqliteStore
from turnfold.stores.sqlite import statements as sqlite_rows
from turnfold.stores.sqlite.engine import SqliteEngine
from turnfold.stores.sqlite.write_queue import Connection, Job
from turnfold.testing.stores.sample_values import note_now

Verb = Callable[[SqliteStore], Coroutine[Any, Any, object]]
BATCH = [NewEntry(user(text), text) for text in ("第一", "second", "third")]
VERBS: dict[str, Verb] = {
    "append": lambda store: store.append(ALICE, "talk", BATCH),
    "append to a new conversation": lambda store: store.append(ALICE, "new", BATCH),
    "add_checkpoint": lambda store: store.add_checkpoint(
        ALICE, "talk", Checkpoint("c2", "c1", 3, "summary", "digest")
    ),
    "put_document": lambda store: store.put_document(
        ALICE, "talk", Document("state", "old", b"new", 0)
    ),
    "put a first document": lambda store: store.put_document(
        ALICE, "talk", Document("state", "new", b"new", 0)
    ),
    "note": lambda store: note_now(store, ALICE, "talk", Document("state", "new", b"new", 0)),
    "drop_document": lambda store: store.drop_document(ALICE, "talk", "state", "old"),
    "search": lambda store: store.search(ALICE, ["again"]),
    "delete": lambda store: store.delete(ALICE, "talk"),
}


def opened(path: Path, *, blocking: bool = True) -> SqliteStore:
    return SqliteStore(path, blocking=blocking, clock=lambda: 1)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with entries, indexed and not, a checkpoint and a document."""
    path = tmp_path_factory.mktemp("base") / "chat.db"
    store = opened(path)
    settled(store.append(ALICE, "talk", [NewEntry(user("hello")), NewEntry(user("你好"))]))
    settled(store.add_checkpoint(ALICE, "talk", Checkpoint("c1", "", 1, "summary", "digest")))
    settled(store.put_document(ALICE, "talk", Document("state", "old", b"old", 0)))
    settled(store.search(ALICE, ["hello"]))
    settled(store.append(ALICE, "talk", [NewEntry(user("hello again"))]))
    settled(store.close())
    return path


@pytest.fixture
def path(base: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(base, tmp_path / "chat.db"))


def finished(base: Path, place: Path, verb: Verb) -> dict[str, list[tuple[Any, ...]]]:
    """What the file holds when nothing disturbs the verb."""
    store = opened(Path(shutil.copy(base, place / "undisturbed.db")))
    settled(verb(store))
    settled(store.close())
    return dump(place / "undisturbed.db")


def assert_no_lock_is_left(path: Path, *, milliseconds: int = 0) -> None:
    """Fails if the writer's lock cannot be had; `milliseconds` is how long what still runs may take."""
    other = apsw.Connection(str(path))
    other.set_busy_timeout(milliseconds)
    other.execute("BEGIN IMMEDIATE; ROLLBACK")
    other.close()


def assert_it_goes_on(store: SqliteStore, number: int) -> None:
    done = settled(store.append(Scope("bob"), "talk", [NewEntry(user("next"), f"next {number}")]))
    assert done.last == settled(store.head(Scope("bob"), "talk")).seq == number


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("error", [apsw.IOError, apsw.FullError, RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("name", VERBS)
def test_a_fault_at_any_statement_leaves_before_or_after(
    base: Path, tmp_path: Path, name: str, error: type[BaseException], *, late: bool
) -> None:
    after, before = finished(base, tmp_path, VERBS[name]), dump(base)
    assert (before == after) is False
    expected = KeyboardInterrupt if error is KeyboardInterrupt else (StoreUnavailable, RuntimeError)
    point = 0
    while True:
        point += 1
        path = Path(shutil.copy(base, tmp_path / f"{point}.db"))
        store = opened(path)
        settled(store.head(ALICE, "talk"))  # so that there is a reader to fail
        with Faulty(store, point, error=error, late=late) as faulty:
            if faulty_run := _outcome(VERBS[name](store)):
                assert isinstance(faulty_run, expected), faulty.statements[-1]
        assert dump(path) in (before, after), faulty.statements[-1]
        assert_no_lock_is_left(path)
        assert_it_goes_on(store, 1)
        settled(store.close())
        if not faulty.struck:
            break
    assert faulty_run is None
    assert point > 5


def _outcome(verb: Coroutine[Any, Any, object]) -> BaseException | None:
    try:
        settled(verb)
    except (Exception, KeyboardInterrupt) as error:
        return error
    return None


@pytest.mark.parametrize("times", [2, 3, 4])
@pytest.mark.parametrize("name", VERBS)
def test_so_do_faults_that_hit_the_way_back_as_well(
    base: Path, tmp_path: Path, name: str, times: int
) -> None:
    after, before = finished(base, tmp_path, VERBS[name]), dump(base)
    struck = point = 1
    while struck:
        path = Path(shutil.copy(base, tmp_path / f"{point}.db"))
        store = opened(path)
        settled(store.head(ALICE, "talk"))
        with Faulty(store, point, error=apsw.IOError, times=times) as faulty:
            _outcome(VERBS[name](store))
        assert_it_goes_on(store, 1)
        assert_no_lock_is_left(path)
        assert dump(path) in (before, after), faulty.statements[-times:]
        settled(store.close())
        struck, point = faulty.struck, point + 1


async def _cancel_at(path: Path, verb: Verb, point: int) -> tuple[bool, int]:
    """Whether the verb was cancelled, and how often it had waited."""
    store = opened(path, blocking=False)
    cancelled_at = CancelledAt(verb(store), point)

    async def run() -> object:
        return await cancelled_at

    task = asyncio.create_task(run())
    await asyncio.wait([task])
    await store.append(Scope("bob"), "talk", [NewEntry(user("next"))])  # queued behind what is left
    assert_no_lock_is_left(path)
    await store.close()
    return task.cancelled(), cancelled_at.waits


@pytest.mark.parametrize("name", VERBS)
def test_cancelling_at_any_await_leaves_before_or_after(
    base: Path, tmp_path: Path, name: str
) -> None:
    after, before = finished(base, tmp_path, VERBS[name]), dump(base)
    cancelled, point, seen, path = True, 0, 0, base
    while cancelled:
        point += 1
        path = Path(shutil.copy(base, tmp_path / f"{point}.db"))
        cancelled, seen = asyncio.run(_cancel_at(path, VERBS[name], point))
        assert dump(path) in (before, after)
    assert dump(path) == after
    assert seen == point - 1 >= 1


@pytest.mark.parametrize("running", [False, True], ids=["queued", "running"])
def test_a_cancelled_write_is_dropped_while_queued_and_finished_once_begun(
    base: Path, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, running: bool
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    insert_entries = sqlite_rows.insert_entries

    def gated(connection: Connection, new: list[tuple[object, ...]]) -> None:
        begun.set()
        assert go_on.wait(30)
        insert_entries(connection, new)

    async def cancelled() -> None:
        store = opened(path, blocking=False)
        first = None if running else asyncio.create_task(store.append(ALICE, "gate", BATCH))
        if first:
            await asyncio.to_thread(begun.wait, 30)
        write = asyncio.create_task(store.append(ALICE, "talk", BATCH))
        await asyncio.to_thread(begun.wait, 30) if running else await asyncio.sleep(0)
        write.cancel()
        await asyncio.wait([write])
        assert write.cancelled()
        go_on.set()
        if first:
            await first
        await store.append(Scope("bob"), "talk", [NewEntry(user("next"))])
        await store.close()

    after, before = finished(base, tmp_path, VERBS["append"]), dump(base)
    monkeypatch.setattr(sqlite_rows, "insert_entries", gated)
    asyncio.run(cancelled())
    kept = [row for row in dump(path)["entry"] if row[0] == 1]
    assert kept == (after if running else before)["entry"]


def test_without_savepoints_and_transactions_half_a_batch_is_seen(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(engine: SqliteEngine, group: list[Job]) -> None:
        engine._writer.execute("COMMIT")
        try:
            for job in group:
                job.result = job.kind.alone(engine._writer, job.item)
        finally:
            engine._writer.execute("BEGIN")

    monkeypatch.setattr(SqliteEngine, "_run", run)
    with pytest.raises(AssertionError):
        test_a_fault_at_any_statement_leaves_before_or_after(
            base, tmp_path, "append", apsw.IOError, late=False
        )


@pytest.mark.parametrize(
    ("statement", "verb", "error", "raised"),
    [
        ("PRAGMA wal_checkpoint", "delete", apsw.IOError, StoreUnavailable),
        ("INSERT", "append", KeyboardInterrupt, KeyboardInterrupt),
    ],
)
def test_who_came_while_another_failed_is_served(
    path: Path,
    statement: str,
    verb: str,
    error: type[BaseException],
    raised: type[BaseException],
) -> None:
    store = opened(path)
    answers: list[object] = []

    def write() -> None:
        answers.append(settled(store.append(Scope("bob"), "talk", BATCH)))

    writer = threading.Thread(target=write, daemon=True)

    def fault(text: str) -> BaseException:
        writer.start()
        while not store._engine._jobs:
            threading.Event().wait(0.001)
        return error(text)

    with Faulty(store, statement, error=fault), pytest.raises(raised):
        settled(VERBS[verb](store))
    writer.join(10)
    assert len(answers) == 1
    settled(store.close())
