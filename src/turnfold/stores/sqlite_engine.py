"""SQLite with its promises asserted: write-ahead log, full sync, one writer at a time, commits shared by a group.

`synchronous=NORMAL`, the usual advice, does not sync at commit: an acknowledged turn can be lost with the
power. FULL syncs, and sharing one commit among everyone who is waiting makes it cheap. The settings are read
back after they are made; a file that does not take them is not opened. Only where nothing but notes waits, which
need not outlive the power, is a commit not waited for; the next one that is waited for carries them along.

Jobs queue; whoever finds the writer free leads: begins a transaction, runs every waiting job, commits once, and
only then tells each caller. Jobs of one kind run in one go; should that fail, each runs again, in a savepoint of
its own like all others that share a transaction. (A savepoint copies every page that changes in it.) A blocking
caller leads in its own thread, until it has its own answer, and pays for no hand-over; an asynchronous one leaves
leading to the engine's thread, so cancelling it cannot tear a write.
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
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar, cast

import apsw

from turnfold.errors import InvalidOption, StoreUnavailable, UnsafeStore
from turnfold.stores.sqlite_failures import DAMAGE, damaged, known, unread, unwritten
from turnfold.stores.sqlite_jobs import SINGLE, Connection, Job, Kind, TryAlone, split, tell
from turnfold.stores.sqlite_looking import check_own, look
from turnfold.stores.sqlite_reads import GroupedReads

__all__ = ("SAFE_SQLITE", "Connection", "SqliteEngine", "sqlite_version")

Item = TypeVar("Item")
Result = TypeVar("Result")


SAFE_SQLITE = (3, 51, 3)
"""The first release without the write-ahead-log reset bug, which can corrupt a file with two connections."""

_log = logging.getLogger(__name__)
_LARGEST_GROUP = 256
_BACKUP_PAGES = 1024
"""Pages a backup copies before others get a chance."""
_SETTINGS: dict[str, tuple[str, object]] = {
    "journal_mode": ("WAL", "wal"),
    "synchronous": ("FULL", 2),
    "secure_delete": ("ON", 1),
    "mmap_size": ("0", 0),
}
_WAITING = "PRAGMA synchronous=FULL"
_NOT_WAITING = "PRAGMA synchronous=NORMAL"
_NOT_ORDINARY = (TryAlone, apsw.ConstraintError)
_memory_names = itertools.count()


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
        self._own = self._in_memory  # whether the file is known to be no other program's
        self._writer = self._open()
        self._leading = threading.Lock()
        self._jobs: deque[Job] = deque()
        self._called = False  # whether a thread is on its way to lead
        self._entering = threading.Lock()
        self._readers: list[Connection] = []
        self._reading = threading.Lock()
        self._short_reads = GroupedReads(lambda serve: self._pool().submit(serve), self._read)
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False
        self._waits = True  # whether a commit waits for the disk
        self.commits = 0
        """Transactions committed; with `jobs_done` it shows how many callers share one."""
        self.jobs_done = 0
        self._version = -1
        self.doubts = 0
        """Grows with each rollback, and each commit of another connection: what a job wrote may be gone or changed."""

    async def write(self, work: Callable[[Connection], Result]) -> Result:
        """Run `work` in a transaction; returns when it is committed and synced."""
        return await self.submit(cast("Kind[Callable[[Connection], Result], Result]", SINGLE), work)

    async def submit(self, kind: Kind[Item, Result], item: Item) -> Result:
        """Like `write`; items of one kind that wait at the same time are done in one go."""
        waiter = None if self.blocking else asyncio.get_running_loop().create_future()
        job = Job(cast("Kind[object, object]", kind), item, waiter)
        # Nobody joins the queue once it is closed: who closes serves all that are in it, and no one after.
        with self._entering:
            self._check_open()
            self._jobs.append(job)
            if waiter is not None:
                self._call_leader()
        if waiter is not None:
            return cast("Result", await waiter)
        self._lead(job)
        job.gate.acquire()
        if job.failure is not None:
            raise job.failure
        return cast("Result", job.result)

    async def read(self, work: Callable[[Connection], Result], *, short: bool = False) -> Result:
        """Run `work` on a snapshot of what is committed; `short` work may be done in one go with others."""
        self._check_open()
        if self.blocking:
            return self._read(work)
        if short:
            return await self._short_reads.ask(work)
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
            while self._jobs:
                self._commit()
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
        copy = apsw.Connection(str(Path(target).absolute()))  # absolute, so it cannot be ":memory:"
        try:
            with self._reader() as source:
                # Pinned to one state: otherwise every commit of others would make it begin again, without end.
                source.execute("BEGIN; SELECT 1 FROM sqlite_schema").fetchall()
                with copy.backup("main", cast("apsw.Connection", source), "main") as task:
                    while not task.done:
                        task.step(_BACKUP_PAGES)
                source.execute("COMMIT")
        finally:
            copy.close()

    def _call_leader(self) -> None:
        # Who leads looks at the queue again after letting go, and who was called has yet to look.
        if not self._called and not self._leading.locked():
            self._called = True
            self._pool().submit(self._answer_call)

    def _answer_call(self) -> None:
        self._called = False
        self._lead()

    def _lead(self, own: Job | None = None) -> None:
        # After letting go of the lock the queue is looked at again: a job that came while it was held found no leader.
        while self._jobs:
            if own is not None and not own.gate.locked():
                self._hand_over()
                return
            if not self._leading.acquire(blocking=False):
                return
            try:
                self._commit()
            except BaseException:
                self._leading.release()
                self._lead()  # an interrupted leader still serves those who wait for one
                raise
            self._leading.release()

    def _hand_over(self) -> None:
        # The caller has its answer and goes; among many writers somebody always waits, and it would never return.
        with self._entering:
            if not self._closed:  # who closes serves all that wait
                self._call_leader()

    def _take(self) -> list[Job]:
        group: list[Job] = []
        while self._jobs and len(group) < _LARGEST_GROUP:
            if self._jobs[0].kind.lasting and not self._waits:
                break  # came after this transaction began: it leads the next
            job = self._jobs.popleft()
            if job.waiter is None or not job.waiter.cancelled():
                group.append(job)
        return group

    def _commit(self) -> None:
        group: list[Job] = []
        committing = False
        try:
            # Asked before the transaction begins: SQLite changes its mind only between two.
            waits = not self._jobs or self._jobs[0].kind.lasting
            if waits != self._waits:
                self._wait(waits=waits)
            self._begin()
            group = self._take()  # as late as can be: whoever came meanwhile shares the commit
            self._run(group)
            committing = True
            if self._writer.in_transaction or any(job.failure is None for job in group):
                self._writer.execute("COMMIT")
                self._version = self._writer.data_version()
                self.commits += 1
                self.jobs_done += len(group)
        except BaseException as error:
            with suppress(apsw.Error):  # whoever waits is told, whatever state the writer is in
                self._undo()
            group = group or self._take()
            failure = unwritten(error, committing=committing)
            for job in group:
                job.failure = failure
            if not isinstance(error, Exception):
                raise
        finally:
            tell(group)

    def _begin(self) -> None:
        if self._writer.in_transaction:  # what an earlier failure could not undo
            self._undo()
        self._writer.execute("BEGIN IMMEDIATE")
        if self._writer.data_version() != self._version:
            self.doubts += 1

    def _wait(self, *, waits: bool) -> None:
        """Wait for the disk at commits from now on, or no longer."""
        if self._writer.in_transaction:
            self._undo()
        if waits:
            self._writer.execute(_WAITING).fetchall()
        else:
            self._writer.execute(_NOT_WAITING).fetchall()
        self._waits = waits

    def _run(self, group: list[Job]) -> None:
        same, others = (group, []) if len(group) == 1 else split(group)
        if not self._run_together(same, only=not others):
            self._begin()
            others = group
        for job in others:
            self._attempt(job)

    def _run_together(self, jobs: list[Job], *, only: bool) -> bool:
        """Run the first jobs of a transaction; whether that went well: if not, all is undone and they run alone."""
        if not jobs:
            return True
        kind = jobs[0].kind
        try:
            results = kind.together(self._writer, [job.item for job in jobs])
        except Exception as error:
            self._undo()
            if kind is SINGLE or (len(jobs) == 1 and only and not isinstance(error, _NOT_ORDINARY)):
                jobs[0].failure = known(error)
                return True
            return False
        for job, result in zip(jobs, results, strict=True):
            job.result = result
        return True

    def _attempt(self, job: Job) -> None:
        """Run a job; if it fails, everything it did is undone."""
        self._writer.execute("SAVEPOINT job")
        try:
            job.result = job.kind.alone(self._writer, job.item)
        except Exception as error:
            self._undo_savepoint()
            job.failure = known(error)
        else:
            self._writer.execute("RELEASE job")

    def _undo_savepoint(self) -> None:
        self.doubts += 1
        self._writer.execute("ROLLBACK TO job; RELEASE job")

    def _undo(self) -> None:
        self.doubts += 1
        self._roll_back()

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
            raise unread(error) from error
        except DAMAGE as error:
            raise damaged(error) from None

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
        looked = self._own or look(self.path, self._to_look)
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        if self._in_memory:  # the one address that is no path
            flags |= apsw.SQLITE_OPEN_URI
        driver = apsw.Connection(self._address, flags=flags)
        connection = cast("Connection", driver)
        try:
            driver.set_busy_timeout(self._busy_ms)
            if not looked:
                check_own(connection)
            self._own = True  # said before any setting: those are written into the file
            if driver.readonly("main"):
                raise apsw.ReadOnlyError("this process may not write it")  # noqa: TRY301 (told as all others)
            for name, (value, expected) in _SETTINGS.items():
                connection.execute(f"PRAGMA {name}={value}").fetchall()
                self._assert_setting(connection, name, expected)
        except BaseException:
            connection.close()
            raise
        return connection

    def _to_look(self, address: str, *, only: bool, keep_log: bool) -> Connection:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        driver = apsw.Connection(address, flags=flags if only else apsw.SQLITE_OPEN_READWRITE)
        driver.set_busy_timeout(self._busy_ms)
        driver.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(keep_log))
        return cast("Connection", driver)

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


def sqlite_version() -> str:
    """The version of the SQLite library in use."""
    return apsw.sqlite_lib_version()
