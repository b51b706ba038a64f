"""SQLite with its promises asserted: write-ahead log, full sync, one writer at a time, commits shared by a group.

`synchronous=NORMAL`, the usual advice, does not sync at commit: an acknowledged turn can be lost with the
power. FULL syncs, and sharing one commit among everyone who is waiting makes it cheap. The settings are read
back after they are made; a file that does not take them is not opened.

Jobs queue; whoever finds the writer free leads: begins a transaction, runs every waiting job in a savepoint of
its own, commits once, and only then tells each caller. A blocking caller leads in its own thread and pays for
no hand-over; an asynchronous one leaves leading to the engine's thread, so cancelling it cannot tear a write.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Generic, Protocol, TypeVar, cast

import apsw

from turnfold.errors import InvalidOption, StoreError, StoreUnavailable, UnsafeStore

__all__ = ("SAFE_SQLITE", "Connection", "SqliteEngine", "sqlite_version")

Result = TypeVar("Result")


class Cursor(Protocol):
    """The rows of a statement."""

    def __iter__(self) -> Iterator[tuple[object, ...]]: ...

    def fetchone(self) -> tuple[object, ...] | None:
        """The next row, or None."""
        ...

    def fetchall(self) -> list[tuple[object, ...]]:
        """All rows that are left."""
        ...


class Connection(Protocol):
    """What the rest of the package uses of a connection: the driver itself stays in this module."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        ...

    def execute(self, statements: str, bindings: Sequence[object] = ..., /) -> Cursor:
        """Run statements with every value bound."""
        ...

    def executemany(self, statements: str, bindings: Iterable[Sequence[object]], /) -> Cursor:
        """Run a statement once per set of values."""
        ...

    def last_insert_rowid(self) -> int:
        """The key of the row inserted last."""
        ...

    def total_changes(self) -> int:
        """Rows changed since the connection was opened."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


SAFE_SQLITE = (3, 51, 3)
"""The first release without the write-ahead-log reset bug, which can corrupt a file with two connections."""

_log = logging.getLogger(__name__)
_LARGEST_GROUP = 256
_SETTINGS: dict[str, tuple[str, object]] = {
    "journal_mode": ("WAL", "wal"),
    "synchronous": ("FULL", 2),
    "secure_delete": ("ON", 1),
    "mmap_size": ("0", 0),
}
_memory_names = itertools.count()


class _Job(Generic[Result]):
    __slots__ = ("future", "work")

    def __init__(self, work: Callable[[Connection], Result]) -> None:
        self.work = work
        self.future: Future[Result] = Future()


class SqliteEngine:
    """One database file: a writer that shares commits, and readers that never wait for it."""

    def __init__(self, path: str, *, blocking: bool, busy_seconds: float = 10.0) -> None:
        self.path = path
        self.blocking = blocking
        self._busy_ms = int(busy_seconds * 1000)
        self._in_memory = path == ":memory:"
        self._address = (
            f"file:/turnfold-{os.getpid()}-{next(_memory_names)}?vfs=memdb"
            if self._in_memory
            else path
        )
        self._writer = self._open()
        self._leading = threading.Lock()
        self._jobs: deque[_Job[object]] = deque()
        self._entering = threading.Lock()
        self._readers: list[Connection] = []
        self._reading = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False
        self.commits = 0
        """Transactions committed; with `jobs_done` it shows how many callers share one."""
        self.jobs_done = 0

    async def write(self, work: Callable[[Connection], Result]) -> Result:
        """Run `work` in a transaction; returns when it is committed and synced."""
        job = _Job(work)
        # Nobody joins the queue once it is closed: who closes serves all that are in it, and no one after.
        with self._entering:
            self._check_open()
            self._jobs.append(job)  # pyright: ignore[reportArgumentType] (a queue of jobs of any result)
            if not self.blocking:
                self._pool().submit(self._lead)
        if self.blocking:
            self._lead()
            return job.future.result()
        return await asyncio.wrap_future(job.future)

    async def read(self, work: Callable[[Connection], Result]) -> Result:
        """Run `work` on a snapshot of what is committed."""
        self._check_open()
        if self.blocking:
            return self._read(work)
        return await asyncio.get_running_loop().run_in_executor(self._pool(), self._read, work)

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self._closed

    def prepare(self, work: Callable[[Connection], None]) -> None:
        """Run `work` on the writer before anyone else uses it; it manages its own transaction."""
        try:
            with self._leading:
                work(self._writer)
        except BaseException as error:
            self._closed = True
            self._writer.close()
            if isinstance(error, apsw.Error):
                raise StoreUnavailable(f"cannot use {self.path!r}: {error}") from error
            raise

    async def scrub(self) -> None:
        """Move the write-ahead log into the file and empty it, so that erased text is in neither."""
        if not self._closed:
            await self._aside(self._scrub)

    async def backup(self, target: str) -> None:
        """Copy the database into a new file while it is in use."""
        await self._aside(lambda: self._backup(target))

    async def close(self) -> None:
        """Finish the queued jobs and close every connection."""
        with self._entering:
            already, self._closed = self._closed, True
        if not already:
            await self._aside(self._close)
            if self._threads is not None:
                self._threads.shutdown(wait=False)

    async def _aside(self, work: Callable[[], None]) -> None:
        if self.blocking:
            work()
        else:
            await asyncio.get_running_loop().run_in_executor(self._pool(), work)

    def _close(self) -> None:
        with self._leading, self._reading:
            while group := self._take():
                self._commit(group)
            for connection in (*self._readers, self._writer):
                connection.close()
            self._readers.clear()

    def _scrub(self) -> None:
        try:
            with self._leading:
                if not self._in_memory and not self._closed:  # closing empties the log as well
                    answer = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                    if answer is not None and answer[0]:
                        raise apsw.BusyError("someone is still reading an older state")
        except apsw.Error as error:
            raise StoreUnavailable(
                f"erased, but the log could not be emptied ({error}): delete once more"
            ) from error
        finally:
            self._lead()  # for those who came meanwhile and found no leader

    def _backup(self, target: str) -> None:
        if Path(target).exists():
            raise InvalidOption(f"{target} exists: a backup never overwrites")
        copy = apsw.Connection(target)
        try:
            with (
                self._reader() as source,
                copy.backup("main", cast("apsw.Connection", source), "main") as task,
            ):
                while not task.done:
                    task.step(1024)
        finally:
            copy.close()

    def _lead(self) -> None:
        # After letting go of the lock the queue is looked at again: a job that came while it was held found no leader.
        while self._jobs:
            if not self._leading.acquire(blocking=False):
                return
            try:
                group = self._take()
                if group:
                    self._commit(group)
            except BaseException:
                self._leading.release()
                self._lead()  # an interrupted leader still serves those who wait for one
                raise
            self._leading.release()

    def _take(self) -> list[_Job[object]]:
        group: list[_Job[object]] = []
        while self._jobs and len(group) < _LARGEST_GROUP:
            job = self._jobs.popleft()
            if job.future.set_running_or_notify_cancel():
                group.append(job)
        return group

    def _commit(self, group: list[_Job[object]]) -> None:
        outcomes: list[object] = []
        try:
            self._roll_back()  # what an earlier failure could not
            self._writer.execute("BEGIN IMMEDIATE")
            outcomes.extend(self._attempt(job) for job in group)
            self._writer.execute("COMMIT")
        except BaseException as error:
            with suppress(apsw.Error):  # whoever waits is told, whatever state the writer is in
                self._roll_back()
            failure = StoreUnavailable(f"nothing was written: {type(error).__name__}: {error}")
            for job in group:
                job.future.set_exception(failure)
            if not isinstance(error, Exception):
                raise
            return
        self.commits += 1
        self.jobs_done += len(group)
        for job, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, _Failed):
                job.future.set_exception(outcome.error)
            else:
                job.future.set_result(outcome)

    def _attempt(self, job: _Job[object]) -> object:
        """The job's result, or its failure with everything it did undone."""
        self._writer.execute("SAVEPOINT job")
        try:
            result = job.work(self._writer)
        except Exception as error:
            self._writer.execute("ROLLBACK TO job; RELEASE job")
            known = isinstance(error, StoreError | ValueError | LookupError)
            return _Failed(error if known else StoreUnavailable(f"nothing was written: {error}"))
        self._writer.execute("RELEASE job")
        return result

    def _roll_back(self) -> None:
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    def _read(self, work: Callable[[Connection], Result]) -> Result:
        try:
            with self._reader() as connection:
                connection.execute("BEGIN")
                try:
                    return work(connection)
                finally:
                    connection.execute("COMMIT")
        except apsw.Error as error:
            self._check_open()
            raise StoreUnavailable(f"nothing was read: {type(error).__name__}: {error}") from error

    @contextmanager
    def _reader(self) -> Generator[Connection]:
        with self._reading:
            connection = self._readers.pop() if self._readers else None
        if connection is None:
            connection = self._open()
            connection.execute("PRAGMA query_only=ON")
        try:
            yield connection
        except BaseException:
            connection.close()  # the error may keep a statement open, and with it an old snapshot
            raise
        with self._reading:
            if self._closed:
                connection.close()
            else:
                self._readers.append(connection)

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(4, thread_name_prefix="turnfold-sqlite")
        return self._threads

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store has been closed")

    def _open(self) -> Connection:
        # Whoever turns a new file into a write-ahead log needs it alone, and SQLite answers "busy" to
        # the others at once, whatever the time-out: two processes that create one file both succeed
        # only if the loser comes back.
        give_up = time.monotonic() + self._busy_ms / 1000
        while True:
            try:
                return self._open_once()
            except apsw.BusyError as error:
                if time.monotonic() >= give_up:
                    raise StoreUnavailable(
                        f"cannot open {self.path!r}: {error} for {self._busy_ms / 1000:g} s; "
                        "another process holds it alone"
                    ) from error
            except apsw.Error as error:
                raise StoreUnavailable(f"cannot open {self.path!r}: {error}") from error
            time.sleep(random.uniform(0.001, 0.02))  # noqa: S311 (spreads the losers; guards nothing)

    def _open_once(self) -> Connection:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
        driver = apsw.Connection(self._address, flags=flags)
        connection = cast("Connection", driver)
        try:
            driver.set_busy_timeout(self._busy_ms)
            for name, (value, expected) in _SETTINGS.items():
                connection.execute(f"PRAGMA {name}={value}").fetchall()
                self._assert_setting(connection, name, expected)
        except BaseException:
            connection.close()
            raise
        return connection

    def _assert_setting(self, connection: Connection, name: str, expected: object) -> None:
        if self._in_memory and name == "journal_mode":
            return  # there is no file to log ahead of
        row = connection.execute(f"PRAGMA {name}").fetchone()
        if row is not None and row[0] != expected:
            connection.close()
            raise UnsafeStore(
                f"{self.path!r} runs with {name}={row[0]!r} where {expected!r} is needed for acknowledged entries to "
                "survive: use a file on a local disk that this process may write"
            )


class _Failed:
    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


def sqlite_version() -> str:
    """The version of the SQLite library in use."""
    return apsw.sqlite_lib_version()
