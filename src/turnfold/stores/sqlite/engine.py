"""The SQLite engine: runs reads and writes on one file, with a write-ahead log, full sync and group commit.

`synchronous=NORMAL`, the usual advice, does not sync at commit, so a power failure can lose an acknowledged turn. FULL
syncs; all waiting callers share one commit, so this is cheap. The settings are read back after they are set; a file
that does not accept them is not opened. Only a group of jobs that are all notes, which need not survive a power
failure, commits without waiting for the sync; the next synced commit writes them to disk too.

Writes are queued as jobs. A caller that finds the writer free becomes the leader: it begins a transaction, runs every
waiting job, commits once, and only then gives each caller its result. A blocking caller leads in its own thread until
it has its own result, which saves a thread switch; for an asynchronous caller a thread of the engine leads, so
cancelling the caller cannot interrupt a write.

A blocking leader can be interrupted (Ctrl-C, `signal.alarm`) between any two instructions. So a caller holds no lock,
and the progress of a leader is kept in three attributes that each change by one atomic call: `_jobs` (waiting),
`_group` (being run) and `_decided` (not empty as soon as the group is committed or has failed; the call that commits
also adds to it). The next leader reads them first (`_recover`): if the group was decided, it wakes the callers; if not,
it rolls back and queues the jobs again, without those whose callers are gone.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar, cast

import apsw

from turnfold.errors import StoreUnavailable
from turnfold.stores.fork_guard import ProcessGuard
from turnfold.stores.sqlite.driver_errors import (
    DAMAGE,
    damage_error,
    interrupted_error,
    read_error,
    write_error,
)
from turnfold.stores.sqlite.file_checks import FirstWrite, SqliteFile, copy_into
from turnfold.stores.sqlite.write_queue import (
    BACKGROUND,
    ONCE,
    OUTSIDE,
    SINGLE,
    Connection,
    Job,
    JobKind,
    WriterTurn,
    WriterTurns,
    notify,
    wake,
)
from turnfold.stores.sqlite.writer_and_readers import GroupedReads, Readers, Writer

__all__ = (
    "REBUILT_BYTES",
    "SAFE_SQLITE",
    "SqliteEngine",
    "sqlite_version",
)


REBUILT_BYTES = 64 << 20
"""Largest file that is rewritten (VACUUM) when an entry is erased; a larger one would block writers for too long."""


Item = TypeVar("Item")
Result = TypeVar("Result")

SAFE_SQLITE = (3, 51, 3)
"""The first SQLite release without the write-ahead-log reset bug, which can corrupt a file with two connections."""

_log = logging.getLogger(__name__)
_LARGEST_GROUP = 256
_COMMIT = ("COMMIT",)
_POLL_SECONDS = 0.25
"""Seconds that a blocking caller waits for its result before it checks whether the caller that runs the queue (the
leader) still lives."""
_MAX_INTERRUPTS = 3
"""Most times that a write job is run again because the thread that ran it was interrupted (Ctrl-C); after that it
fails."""


class SqliteEngine(Writer):
    """Runs reads and writes on one database file: one writer with group commit, and readers that never wait for it."""

    def __init__(self, path: str, *, blocking: bool, busy_seconds: float = 10.0) -> None:
        self.path = path
        self.blocking = blocking
        self._file = SqliteFile(path, busy_seconds=busy_seconds)
        super().__init__(self._file.open())
        self.process = ProcessGuard(self, file=self._file.address)
        self._turns = WriterTurns()
        self._jobs: deque[Job] = deque()
        self._group: list[Job] = []
        self._decided: list[object] = []
        self._leader_starting = False  # a thread was submitted that will lead
        self._queue_lock = threading.Lock()  # for event loops only; a blocking caller takes no lock
        self._readers = Readers(self._file.open)
        self._short_reads = GroupedReads(lambda serve: self._pool().submit(serve), self._read)
        # The writer and short reads have threads of their own, so that long reads cannot keep them waiting.
        self._threads: ThreadPoolExecutor | None = None
        self._long_reads: ThreadPoolExecutor | None = None
        self._closed = False  # no new jobs are accepted
        self._ended = False  # no queued jobs are served
        self._first_write = FirstWrite()
        self.commits = 0
        """Number of committed transactions; `jobs_done / commits` is the average size of a group."""
        self.jobs_done = 0
        """Number of write jobs in the committed transactions."""

    async def write(self, work: Callable[[Connection], Result], *, once: bool = False) -> Result:
        """Run `work` in a transaction; return its result once it is committed and on disk.

        With `once`, it is never retried.
        """
        kind = ONCE if once else SINGLE
        return await self.submit(
            cast("JobKind[Callable[[Connection], Result], Result]", kind), work
        )

    async def submit(self, kind: JobKind[Item, Result], item: Item) -> Result:
        """Like `write`, for a job that can be grouped: waiting jobs of the same kind are executed together."""
        self.process.check()
        self._check_open()
        return await self._submit(kind, item)

    def write_here(
        self, work: Callable[[Connection], Result], *, background: bool = False
    ) -> Result:
        """Like `write`, but block the calling thread, which must have no event loop; works with every engine.

        `background` work has a transaction of its own, so that no other caller waits for more than one of them.
        """
        self._check_open()
        kind = cast(
            "JobKind[Callable[[Connection], Result], Result]", BACKGROUND if background else SINGLE
        )
        return self._submit_here(kind, work)

    def read_here(self, work: Callable[[Connection], Result]) -> Result:
        """Like `read`, but run `work` in the calling thread, which must have no event loop; works with every engine."""
        self._check_open()
        return self._read(work)

    async def _submit(self, kind: JobKind[Item, Result], item: Item) -> Result:
        if not self.blocking:
            waiter = asyncio.get_running_loop().create_future()
            job = Job(cast("JobKind[object, object]", kind), item, waiter)
            with self._queue_lock:
                if self._ended:
                    raise StoreUnavailable("the store has been closed; open it again")
                self._jobs.append(job)
                self._start_leader()
            return cast("Result", await waiter)
        return self._submit_here(kind, item)

    def _submit_here(self, kind: JobKind[Item, Result], item: Item) -> Result:
        job = Job(cast("JobKind[object, object]", kind), item, None)
        try:
            self._jobs.append(job)
            self._lead(job)
            while not job.notified:
                woken = job.gate.acquire(timeout=_POLL_SECONDS)
                if not job.notified:
                    self._lead(job, check_lost=not woken)
        except BaseException:
            job.abandoned = True  # the next leader skips it, unless it is done
            self._hand_over()
            raise
        if job.failure is not None:
            raise job.failure
        return cast("Result", job.result)

    async def read(self, work: Callable[[Connection], Result], *, short: bool = False) -> Result:
        """Run `work` on a snapshot of the committed data; return its result. `short` work may share a snapshot."""
        self.process.check()
        self._check_open()
        if self.blocking:
            return self._read(work)
        if short:
            return await self._short_reads.run(work)
        return await asyncio.get_running_loop().run_in_executor(self._long_pool(), self._read, work)

    async def run(self, work: Callable[[], Result]) -> Result:
        """Return the result of long work, run outside the event loop; it may call `read_here` and `write_here`."""
        self.process.check()
        self._check_open()
        if self.blocking:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._long_pool(), work)

    @property
    def closed(self) -> bool:
        """True once `close` was called."""
        return self._closed

    def prepare(self, work: Callable[[Connection], None], *, unless_busy: bool = False) -> None:
        """Run `work`, such as a migration, on the writer's connection before any job.

        `work` begins its own transaction.

        With `unless_busy`, the work is optional: it is skipped if another program is writing.
        """
        driver = cast("apsw.Connection", self._writer)
        try:
            if unless_busy:
                driver.set_busy_timeout(0)
            work(self._writer)
            if unless_busy:
                driver.set_busy_timeout(self._file.busy_ms)
        except BaseException as error:
            if unless_busy and isinstance(error, apsw.BusyError):
                driver.set_busy_timeout(self._file.busy_ms)
                return
            self._closed = self._ended = True
            self._writer.close()
            if isinstance(error, apsw.Error):
                raise StoreUnavailable(f"cannot use {self.path!r}: {error}") from error
            if isinstance(error, DAMAGE):
                raise damage_error(error) from None
            raise

    def check_log(self) -> None:
        """Raise `UnsafeStore` if data was written to the file but its write-ahead log (-wal) is missing."""
        if not self._file.in_memory:
            self.prepare(self._check_log)

    def _check_log(self, connection: Connection) -> None:
        self._first_write.check(connection, self.path, had_log=self._file.had_log)

    async def scrub(self, *, rebuild: bool = False) -> None:
        """Remove deleted text from the disk: move the write-ahead log into the file and truncate the log.

        With `rebuild`, a file of at most `REBUILT_BYTES` is rewritten: the unused space inside a page may contain bytes
        of older versions of its rows.
        """
        if self._closed:
            return  # closing truncates the log as well
        try:
            await self._run_between(partial(self._scrub, rebuild=rebuild))
        except StoreUnavailable:
            if not self._closed:
                raise

    async def backup(self, target: str) -> None:
        """Copy the database into the new file `target` while it is in use."""
        self.process.check()
        if self.blocking:
            self._backup(target)
        else:
            await asyncio.get_running_loop().run_in_executor(
                self._long_pool(), self._backup, target
            )

    async def close(self) -> None:
        """Finish the queued jobs and close every connection; a call that was interrupted can be repeated.

        In a forked process nothing is closed: the connections belong to the parent.
        """
        if not self.process.is_own:
            return
        self._closed = True
        if self._ended:
            return
        with suppress(StoreUnavailable):  # another caller closed it meanwhile
            await self._run_between(self._close)
        with self._queue_lock:
            for threads in (self._threads, self._long_reads):
                if threads is not None:
                    threads.shutdown(wait=False)

    async def _run_between(self, work: Callable[[], None]) -> None:
        """Run `work` between two write transactions, before any write that is queued later."""
        await self._submit(cast("JobKind[Callable[[], None], None]", OUTSIDE), work)

    def _close(self) -> None:
        with suppress(apsw.Error):  # already closed, or the file is gone
            self._first_write.end(self._writer)
        self._ended = True
        self._readers.close()
        self._writer.close()
        self.process.release()

    def _scrub(self, *, rebuild: bool) -> None:
        if self._file.in_memory:
            return
        try:
            if rebuild and self._size() <= REBUILT_BYTES:
                self._writer.execute("VACUUM")
            answer = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if answer is not None and answer[0]:
                raise apsw.BusyError("a reader still uses an older state of the database")
        except apsw.Error as error:
            raise StoreUnavailable(
                f"the data was deleted, but the write-ahead log, which may contain its bytes, could not be truncated "
                f"({error}): delete again"
            ) from error

    def _size(self) -> int:
        """Return the size of the database in bytes, by its number of pages."""
        pages, size = (
            self._writer.execute(f"PRAGMA {each}").fetchone()
            for each in ("page_count", "page_size")
        )
        return cast("int", pages[0]) * cast("int", size[0]) if pages and size else 0

    def _backup(self, target: str) -> None:
        with self._readers.lend() as source:
            copy_into(target, source)

    # ------------------------------------------------------------------------------------------- leading

    def _start_leader(self) -> None:
        # A leader checks the queue again after its turn ended, and a starting one has yet to check it.
        if not self._leader_starting and self._turns.is_free():
            self._pool().submit(self._lead_in_thread)
            self._leader_starting = True

    def _lead_in_thread(self) -> None:
        with self._queue_lock:
            self._leader_starting = False
        while self._jobs or self._group:
            try:
                self._lead()
            except BaseException as error:
                # Raised by a job, not by a signal: those reach the main thread. Retries of its job are limited.
                kind = type(error).__name__
                fields = {"event": "write_failed", "error": kind}
                _log.error("a write to the SQLite file failed unexpectedly: %s", kind, extra=fields)
            else:
                return

    def _lead(self, own: Job | None = None, *, check_lost: bool = False) -> None:
        """Become the leader, which runs the queued jobs, unless there is one; stop when the job `own` is done."""
        # The queue is checked again after a turn: a job queued during it started no leader.
        while self._jobs or self._group:
            if own is not None and own.notified:
                self._hand_over()
                return
            turn = WriterTurn()
            try:
                if not self._turns.take(turn, check_lost=check_lost):
                    return
                self._serve()
            except BaseException:
                if own is not None:
                    own.abandoned = True
                if self._turns.holds(turn):
                    self._recover()
                    with suppress(apsw.Error):
                        self._roll_back()  # at once: an open transaction blocks other processes too
                raise
            finally:
                turn.ended = True
                turn.frame = None

    def _hand_over(self) -> None:
        # With many writers the queue is never empty: a caller that led until it is empty would never return.
        with suppress(IndexError):  # the queue is empty
            if self._jobs[0].waiter is None:
                wake(self._jobs[0])
            else:
                with self._queue_lock:
                    self._start_leader()

    def _serve(self) -> None:
        """Run the next queued jobs: several in one transaction, or one that needs no transaction."""
        self._recover()
        if self._ended:
            self._reject_all()
        elif self._jobs and self._jobs[0].kind is OUTSIDE:
            self._run_outside()
        elif self._jobs:
            self._commit()

    def _recover(self) -> None:
        """Finish an interrupted leader's jobs: wake the callers if they were committed or failed, else requeue them."""
        group, jobs = self._group, self._jobs
        if not group:
            self._decided.clear()
            return
        if self._decided:
            self._notify_group()
            return
        with suppress(apsw.Error):  # the next transaction fails with it too, and reports it
            self._undo()
        while group:
            job = group[-1]
            if not job.notified:
                job.result, job.failure = None, None
                job.interrupts += 1
                if job.kind is ONCE or job.interrupts > _MAX_INTERRUPTS:
                    job.failure = interrupted_error()
                    notify([job])
                elif not jobs or jobs[0] is not job:  # after an interrupt it may be in both
                    jobs.appendleft(job)
            group.pop()

    def _notify_group(self) -> None:
        """Give the callers of the group's jobs their results; called after the group was committed or has failed."""
        if not self._first_write.is_done:
            with suppress(apsw.Error):  # retried at the next commit, or on closing
                self._first_write.end(self._writer)
        if not self._ended:
            check = self._file.check if self._durable is False else self._file.check_now
            fault = check(self._writer)
            for job in self._group if fault is not None else ():
                if not job.notified:
                    job.failure = job.failure or fault
        notify(self._group)
        self._group.clear()  # before `_decided`: a group that is not decided would run again
        self._decided.clear()

    def _take(self) -> None:
        """Move the first queued jobs into the group that shares the next transaction."""
        jobs, group = self._jobs, self._group
        while jobs and len(group) < _LARGEST_GROUP:
            job = jobs[0]
            if (
                job.kind is OUTSIDE
                or (job.kind.durable and not self._durable)
                or (job.kind is BACKGROUND and group)
            ):
                break  # it runs after this transaction
            if not job.is_cancelled:
                group.append(job)
            jobs.popleft()  # after an interrupt before this it is in both; see `_recover`
            if job.kind is BACKGROUND:
                break

    def _reject_all(self) -> None:
        """Let all queued jobs fail with `StoreUnavailable`, because the store has been closed."""
        while self._jobs:
            self._group.append(self._jobs[0])
            self._jobs.popleft()
        for job in self._group:
            job.failure = StoreUnavailable("the store has been closed; open it again")
        self._decided.append(None)
        self._notify_group()

    def _run_outside(self) -> None:
        """Run the first queued job while no transaction is open."""
        job = self._jobs[0]
        self._group.append(job)
        self._jobs.popleft()
        try:
            self._roll_back()
            job.result = cast("Callable[[], object]", job.item)()
        except Exception as error:
            job.failure = error
        self._decided.append(None)
        self._notify_group()

    def _commit(self) -> None:
        group = self._group
        committing = False
        try:
            # Set before the transaction begins: SQLite applies it only between two.
            durable = self._jobs[0].kind.durable
            if durable != self._durable:
                self._set_durable(durable=durable)
            if not self._first_write.is_done:
                self._roll_back()  # an interrupt may have left a transaction open
                self._first_write.begin(self._writer)
            self._begin()
            self._take()  # as late as possible, so that more callers share the commit
            self._run(group)
            committing = True
            if self._writer.in_transaction or any(job.failure is None for job in group):
                # One call commits and records it, so that no interrupt can come between.
                self._decided.extend(map(self._writer.execute, _COMMIT))
                self._version = self._writer.data_version()
                self.commits += 1
                self.jobs_done += len(group)
        except Exception as error:
            with suppress(apsw.Error):  # the callers are notified in any case
                self._undo()
            if not group:
                self._take()
            failure = write_error(error, committing=committing)
            for job in group:
                job.failure = failure
        self._decided.append(None)
        self._notify_group()

    def _read(self, work: Callable[[Connection], Result]) -> Result:
        try:
            with self._readers.lend() as connection:
                if (fault := self._file.check(connection)) is not None:
                    raise fault
                connection.execute("BEGIN")
                try:
                    return work(connection)
                finally:
                    connection.execute("COMMIT")
        except apsw.Error as error:
            self._check_open()
            raise read_error(error) from error
        except DAMAGE as error:
            raise damage_error(error) from None

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(4, thread_name_prefix="turnfold-sqlite")
        return self._threads

    def _long_pool(self) -> ThreadPoolExecutor:
        if self._long_reads is None:
            self._long_reads = ThreadPoolExecutor(16, thread_name_prefix="turnfold-sqlite-read")
        return self._long_reads

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store has been closed; open it again")
        if self._file.fault is not None:
            raise self._file.fault


def sqlite_version() -> str:
    """Return the version of the SQLite library in use."""
    return apsw.sqlite_lib_version()
