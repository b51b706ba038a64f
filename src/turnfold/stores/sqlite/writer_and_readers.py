"""SQLite connections: the writer, which runs a group of jobs in one transaction, and a pool of readers.

Jobs of one kind are executed together, without savepoints, because a savepoint copies every page that changes in it. If
that fails, each job runs again in its own savepoint, like jobs of different kinds that share a transaction.

Short reads of an event loop are grouped, because a thread switch for each read costs many times more than the read
itself. If no thread is starting, a caller starts one; the thread executes all reads queued by then on one snapshot,
wakes each event loop once, and checks the queue again. There are at most two threads: with one, all callers would wait
while a page is read from a slow disk, and more would only compete with the event loop. Long reads are not grouped.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar, cast

import apsw

from turnfold.stores.sqlite.driver_errors import caller_error
from turnfold.stores.sqlite.write_queue import (
    ONCE,
    SINGLE,
    Connection,
    Job,
    TryAlone,
    notify,
    split_by_kind,
)

__all__ = (
    "GroupedReads",
    "Readers",
    "Writer",
)


_SYNC_FULL = "PRAGMA synchronous=FULL"
_SYNC_NORMAL = "PRAGMA synchronous=NORMAL"
_RETRY_ALONE = (TryAlone, apsw.ConstraintError)


class Writer:
    """The connection that writes, in transactions with a group of jobs each; used by one thread at a time."""

    def __init__(self, connection: Connection) -> None:
        self._writer = connection
        self._durable: bool | None = True  # True if commits wait for the sync; None: unknown
        self._version = -1
        self.invalidations = 0
        """Number of rollbacks, and of commits by other connections: each makes cached heads invalid."""

    def _begin(self) -> None:
        if self._writer.in_transaction:  # left open by an earlier failure
            self._undo()
        self._writer.execute("BEGIN IMMEDIATE")
        if self._writer.data_version() != self._version:
            self.invalidations += 1

    def _set_durable(self, *, durable: bool) -> None:
        """Set whether commits wait until the data is on disk (synced)."""
        if self._writer.in_transaction:
            self._undo()
        self._durable = None
        if durable:
            self._writer.execute(_SYNC_FULL).fetchall()
        else:
            self._writer.execute(_SYNC_NORMAL).fetchall()
        self._durable = durable

    def _run(self, group: list[Job]) -> None:
        same, others = (group, []) if len(group) == 1 else split_by_kind(group)
        if not self._run_together(same, only=not others):
            self._begin()
            others = group
        for job in others:
            self._run_alone(job)

    def _run_together(self, jobs: list[Job], *, only: bool) -> bool:
        """Run the first jobs of a transaction together; return False if they were undone and must be run one by one."""
        if not jobs:
            return True
        kind = jobs[0].kind
        try:
            results = kind.together(self._writer, [job.item for job in jobs])
        except Exception as error:
            self._undo()
            if (
                kind is SINGLE
                or kind is ONCE
                or (len(jobs) == 1 and only and not isinstance(error, _RETRY_ALONE))
            ):
                jobs[0].failure = caller_error(error)
                return True
            return False
        for job, result in zip(jobs, results, strict=True):
            job.result = result
        return True

    def _run_alone(self, job: Job) -> None:
        """Run one write job in a savepoint; if it fails, roll it back and store its error for the caller."""
        self._writer.execute("SAVEPOINT job")
        try:
            job.result = job.kind.alone(self._writer, job.item)
        except Exception as error:
            self._undo_savepoint()
            job.failure = caller_error(error)
        else:
            self._writer.execute("RELEASE job")

    def _undo_savepoint(self) -> None:
        self.invalidations += 1
        self._writer.execute("ROLLBACK TO job; RELEASE job")

    def _undo(self) -> None:
        self.invalidations += 1
        self._roll_back()

    def _roll_back(self) -> None:
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")


Result = TypeVar("Result")
_LARGEST_GROUP = 32
_MAX_THREADS = 2


class Readers:
    """A pool of read-only connections, one per concurrent read.

    It uses no lock, so that an interrupt at any instruction loses at most one idle connection.
    """

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self.idle: list[Connection] = []
        self._closed = False

    @contextmanager
    def lend(self) -> Generator[Connection]:
        """Context manager: lend a read connection that nobody else uses meanwhile."""
        try:
            connection = self.idle.pop()
        except IndexError:
            connection = self._connect()
            connection.execute("PRAGMA query_only=ON")
        try:
            yield connection
        except BaseException:
            connection.close()  # the error may keep a statement open, and with it an old snapshot
            raise
        self.idle.append(connection)
        if self._closed:
            self._close_idle()

    def close(self) -> None:
        """Close the idle connections now, and each connection in use when it is returned."""
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self.idle.pop().close()


class GroupedReads:
    """Executes short reads of event loops in groups: one thread switch and one snapshot for several reads.

    `start_thread` runs a function in a thread; `read` executes work on a snapshot of the file.
    """

    def __init__(
        self,
        start_thread: Callable[[Callable[[], None]], object],
        read: Callable[[Callable[[Connection], None]], None],
    ) -> None:
        self._start_thread, self._read = start_thread, read
        self._jobs: deque[Job] = deque()
        self._threads = 0  # running or starting
        self._starting = 0  # of these, the ones that have not read the queue yet
        self._lock = threading.Lock()

    async def run(self, work: Callable[[Connection], Result]) -> Result:
        """Run a short read on a snapshot of the file no older than this call; return its result."""
        waiter = asyncio.get_running_loop().create_future()
        with self._lock:
            if not self._starting and self._threads < _MAX_THREADS:
                self._start_thread(self._serve)  # it waits for this lock
                self._threads += 1
                self._starting += 1
            self._jobs.append(Job(SINGLE, work, waiter))
        return cast("Result", await waiter)

    def _serve(self) -> None:
        with self._lock:
            self._starting -= 1
        while group := self._take():
            self._run_group(group)

    def _take(self) -> list[Job]:
        group: list[Job] = []
        with self._lock:
            while self._jobs and len(group) < _LARGEST_GROUP:
                job = self._jobs.popleft()
                if job.waiter is None or not job.waiter.cancelled():
                    group.append(job)
            if not group:
                self._threads -= 1
        return group

    def _run_group(self, group: Sequence[Job]) -> None:
        """Run all reads of a group on one snapshot of the file, and wake their callers.

        After a failed read, its connection is closed, and the other reads continue on a new snapshot.
        """
        left = deque(group)
        begun = False

        def each(connection: Connection) -> None:
            nonlocal begun
            begun = True
            while left:
                left[0].result = cast("Callable[[Connection], object]", left[0].item)(connection)
                left.popleft()

        try:
            while left:
                begun = False
                try:
                    self._read(each)
                except Exception as error:
                    # An error before the first read fails all reads; an error after the last one fails the last.
                    failed = [left.popleft()] if begun and left else list(left) or [group[-1]]
                    for job in failed:
                        job.failure = error
                    if not begun:
                        break
        finally:
            notify(group)
