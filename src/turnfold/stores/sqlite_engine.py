"""SQLite with its promises asserted: write-ahead log, full sync, one writer at a time, commits shared by a group.

`synchronous=NORMAL`, the usual advice, does not sync at commit: an acknowledged turn can be lost with the
power. FULL syncs, and sharing one commit among everyone who is waiting makes it cheap. The settings are read
back after they are made; a file that does not take them is not opened. Only where nothing but notes waits, which
need not outlive the power, is a commit not waited for; the next one that is waited for carries them along.

Jobs queue; whoever finds the writer free leads: begins a transaction, runs every waiting job, commits once, and
only then tells each caller. A blocking caller leads in its own thread, until it has its own answer, and pays for no
hand-over; an asynchronous one leaves leading to the engine's thread, so cancelling it cannot tear a write.

A blocking leader can be interrupted (Ctrl-C, `signal.alarm`) between any two instructions. So a caller holds no lock,
and what a leader has got to is in three places that each change by one atomic call: `_jobs` (who waits), `_group` (who
is being served) and `_decided` (whether the outcome of the group is settled; a commit is entered there by the same call
that makes it). Whoever leads next looks there first (`_settle`): a settled group is told, an unsettled one is undone
and waits again, without those whose callers have gone.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar, cast

import apsw

from turnfold.errors import StoreUnavailable
from turnfold.stores.process import ProcessGuard
from turnfold.stores.sqlite_failures import DAMAGE, damaged, interrupted, unread, unwritten
from turnfold.stores.sqlite_file import SqliteFile, copy_into
from turnfold.stores.sqlite_jobs import (
    ONCE,
    OUTSIDE,
    SINGLE,
    Connection,
    Job,
    Kind,
    Turn,
    Turns,
    tell,
    wake,
)  # fmt: skip
from turnfold.stores.sqlite_mark import FirstWrite
from turnfold.stores.sqlite_reads import GroupedReads, Readers
from turnfold.stores.sqlite_writer import Writer

__all__ = ("SAFE_SQLITE", "Connection", "SqliteEngine", "sqlite_version")

Item = TypeVar("Item")
Result = TypeVar("Result")

SAFE_SQLITE = (3, 51, 3)
"""The first release without the write-ahead-log reset bug, which can corrupt a file with two connections."""

_log = logging.getLogger(__name__)
_LARGEST_GROUP = 256
_COMMIT = ("COMMIT",)
_LOOK_AGAIN = 0.25
"""Seconds a blocking caller waits for its answer before it looks whether somebody still leads."""
_MOST_INTERRUPTS = 3
"""How often a job is begun again because whoever ran it was interrupted."""


class SqliteEngine(Writer):
    """One database file: a writer that shares commits, and readers that never wait for it."""

    def __init__(self, path: str, *, blocking: bool, busy_seconds: float = 10.0) -> None:
        self.path = path
        self.blocking = blocking
        self._file = SqliteFile(path, busy_seconds=busy_seconds)
        super().__init__(self._file.open())
        self.process = ProcessGuard(self, file=self._file.address)
        self._turns = Turns()
        self._jobs: deque[Job] = deque()
        self._group: list[Job] = []
        self._decided: list[object] = []
        self._called = False  # whether a thread is on its way to lead
        self._calling = threading.Lock()  # of event loops; a blocking caller takes no lock
        self._readers = Readers(self._file.open)
        self._short_reads = GroupedReads(lambda serve: self._pool().submit(serve), self._read)
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False  # nobody joins the queue any more
        self._ended = False  # nobody in it is served any more
        self._first_write = FirstWrite()
        self.commits = 0
        """Transactions committed; with `jobs_done` it shows how many callers share one."""
        self.jobs_done = 0

    async def write(self, work: Callable[[Connection], Result], *, once: bool = False) -> Result:
        """Run `work` in a transaction; returns when it is committed and synced. `once`: it cannot be begun again."""
        kind = ONCE if once else SINGLE
        return await self.submit(cast("Kind[Callable[[Connection], Result], Result]", kind), work)

    async def submit(self, kind: Kind[Item, Result], item: Item) -> Result:
        """Like `write`; items of one kind that wait at the same time are done in one go."""
        self.process.check()
        self._check_open()
        return await self._submit(kind, item)

    def write_here(self, work: Callable[[Connection], Result]) -> Result:
        """Like `write`, for a thread without an event loop, whatever kind of engine it is."""
        self._check_open()
        kind = cast("Kind[Callable[[Connection], Result], Result]", SINGLE)
        return self._submit_here(kind, work)

    def read_here(self, work: Callable[[Connection], Result]) -> Result:
        """Like `read`, for a thread without an event loop, whatever kind of engine it is."""
        self._check_open()
        return self._read(work)

    async def _submit(self, kind: Kind[Item, Result], item: Item) -> Result:
        if not self.blocking:
            waiter = asyncio.get_running_loop().create_future()
            job = Job(cast("Kind[object, object]", kind), item, waiter)
            with self._calling:
                if self._ended:
                    raise StoreUnavailable("the store has been closed")
                self._jobs.append(job)
                self._call_leader()
            return cast("Result", await waiter)
        return self._submit_here(kind, item)

    def _submit_here(self, kind: Kind[Item, Result], item: Item) -> Result:
        job = Job(cast("Kind[object, object]", kind), item, None)
        try:
            self._jobs.append(job)
            self._lead(job)
            while not job.told:
                woken = job.gate.acquire(timeout=_LOOK_AGAIN)
                if not job.told:
                    self._lead(job, look=not woken)
        except BaseException:
            job.abandoned = True  # whoever leads next leaves it out, unless it is done
            self._hand_over()
            raise
        if job.failure is not None:
            raise job.failure
        return cast("Result", job.result)

    async def read(self, work: Callable[[Connection], Result], *, short: bool = False) -> Result:
        """Run `work` on a snapshot of what is committed; `short` work may be done in one go with others."""
        self.process.check()
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

    def prepare(self, work: Callable[[Connection], None], *, unless_busy: bool = False) -> None:
        """Run `work` on the writer before anyone else uses it; it manages its own transaction.

        `unless_busy`: it can be done later as well, and is left where another program is writing.
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
                raise damaged(error) from None
            raise

    def check_log(self) -> None:
        """Refuse a file whose log is missing; from now on the first write ever is noted in the file beforehand."""
        if not self._file.in_memory:
            self.prepare(self._check_log)

    def _check_log(self, connection: Connection) -> None:
        self._first_write.check(connection, self.path, had_log=self._file.had_log)

    async def scrub(self) -> None:
        """Move the write-ahead log into the file and empty it, so that erased text is in neither."""
        if self._closed:
            return  # closing empties the log as well
        try:
            await self._outside(self._scrub)
        except StoreUnavailable:
            if not self._closed:
                raise

    async def backup(self, target: str) -> None:
        """Copy the database into a new file while it is in use."""
        self.process.check()
        if self.blocking:
            self._backup(target)
        else:
            await asyncio.get_running_loop().run_in_executor(self._pool(), self._backup, target)

    async def close(self) -> None:
        """Finish the queued jobs and close every connection; one that was interrupted can be asked again.

        In a forked process they are left to their owner.
        """
        if not self.process.is_own:
            return
        self._closed = True
        if self._ended:
            return
        with suppress(StoreUnavailable):  # another caller has closed it meanwhile
            await self._outside(self._close)
        with self._calling:
            if self._threads is not None:
                self._threads.shutdown(wait=False)

    async def _outside(self, work: Callable[[], None]) -> None:
        """Run `work` on the writer between two transactions."""
        await self._submit(cast("Kind[Callable[[], None], None]", OUTSIDE), work)

    def _close(self) -> None:
        with suppress(apsw.Error):  # closed already, or the file is gone
            self._first_write.end(self._writer)
        self._ended = True
        self._readers.close()
        self._writer.close()
        self.process.release()

    def _scrub(self) -> None:
        if self._file.in_memory:
            return
        try:
            answer = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if answer is not None and answer[0]:
                raise apsw.BusyError("someone is still reading an older state")
        except apsw.Error as error:
            raise StoreUnavailable(
                f"erased, but the log could not be emptied ({error}): delete once more"
            ) from error

    def _backup(self, target: str) -> None:
        with self._readers.lend() as source:
            copy_into(target, source)

    # ------------------------------------------------------------------------------------------- who leads

    def _call_leader(self) -> None:
        # Who leads looks at the queue again after letting go, and who was called has yet to look.
        if not self._called and self._turns.is_free():
            self._pool().submit(self._answer_call)
            self._called = True

    def _answer_call(self) -> None:
        with self._calling:
            self._called = False
        while self._jobs or self._group:
            try:
                self._lead()
            except BaseException as error:
                # Raised by a job, not by a signal: those come to the main thread. Its job is not begun for ever.
                kind = type(error).__name__
                fields = {"event": "write_failed", "error": kind}
                _log.error("a write raised what ends programs: %s", kind, extra=fields)
            else:
                return

    def _lead(self, own: Job | None = None, *, look: bool = False) -> None:
        """Serve who waits, unless somebody does; a blocking caller goes as soon as it has its `own` answer."""
        # After a turn has ended the queue is looked at again: a job that came during it found no leader.
        while self._jobs or self._group:
            if own is not None and own.told:
                self._hand_over()
                return
            turn = Turn()
            try:
                if not self._turns.take(turn, look=look):
                    return
                self._serve()
            except BaseException:
                if own is not None:
                    own.abandoned = True
                if self._turns.holds(turn):
                    self._settle()
                    with suppress(apsw.Error):
                        self._roll_back()  # now: an open transaction holds up other processes too
                raise
            finally:
                turn.ended = True
                turn.frame = None

    def _hand_over(self) -> None:
        # The caller goes; among many writers somebody always waits, and it would never return.
        with suppress(IndexError):  # nobody waits
            if self._jobs[0].waiter is None:
                wake(self._jobs[0])
            else:
                with self._calling:
                    self._call_leader()

    def _serve(self) -> None:
        """Serve those at the head of the queue."""
        self._settle()
        if self._ended:
            self._refuse()
        elif self._jobs and self._jobs[0].kind is OUTSIDE:
            self._run_outside()
        elif self._jobs:
            self._commit()

    def _settle(self) -> None:
        """Finish what an interrupted leader left: tell what is decided; undo the rest and let it wait again."""
        group, jobs = self._group, self._jobs
        if not group:
            self._decided.clear()
            return
        if self._decided:
            self._tell()
            return
        with suppress(apsw.Error):  # whoever begins next meets it too, and tells
            self._undo()
        while group:
            job = group[-1]
            if not job.told:
                job.result, job.failure = None, None
                job.interrupts += 1
                if job.kind is ONCE or job.interrupts > _MOST_INTERRUPTS:
                    job.failure = interrupted()
                    tell([job])
                elif not (
                    jobs and jobs[0] is job
                ):  # it is in both between two steps of this, and of `_take`
                    jobs.appendleft(job)
            group.pop()

    def _tell(self) -> None:
        """Tell the group, whose outcome is decided."""
        if not self._first_write.is_done:
            with suppress(apsw.Error):  # once more at the next, or when it is closed
                self._first_write.end(self._writer)
        if not self._ended:
            look = self._file.check if self._waits is False else self._file.check_now
            fault = look(self._writer)
            for job in self._group if fault is not None else ():
                if not job.told:
                    job.failure = job.failure or fault
        tell(self._group)
        self._group.clear()  # first: a decided group that is there is told again, an undecided one done again
        self._decided.clear()

    def _take(self) -> None:
        """Move those at the head of the queue into the group, as many as may share its transaction."""
        jobs, group = self._jobs, self._group
        while jobs and len(group) < _LARGEST_GROUP:
            job = jobs[0]
            if job.kind is OUTSIDE or (job.kind.lasting and not self._waits):
                break  # comes after this transaction: it leads the next
            if not job.is_unwanted:
                group.append(job)
            jobs.popleft()  # an interrupt before this leaves it in both; see `_settle`

    def _refuse(self) -> None:
        """Turn away everybody: the store has been closed."""
        while self._jobs:
            self._group.append(self._jobs[0])
            self._jobs.popleft()
        for job in self._group:
            job.failure = StoreUnavailable("the store has been closed")
        self._decided.append(None)
        self._tell()

    def _run_outside(self) -> None:
        """Run the first job, between two transactions."""
        job = self._jobs[0]
        self._group.append(job)
        self._jobs.popleft()
        try:
            self._roll_back()
            job.result = cast("Callable[[], object]", job.item)()
        except Exception as error:
            job.failure = error
        self._decided.append(None)
        self._tell()

    def _commit(self) -> None:
        group = self._group
        committing = False
        try:
            # Asked before the transaction begins: SQLite changes its mind only between two.
            waits = self._jobs[0].kind.lasting
            if waits != self._waits:
                self._wait(waits=waits)
            if not self._first_write.is_done:
                self._roll_back()  # what an interrupt may have left
                self._first_write.begin(self._writer)
            self._begin()
            self._take()  # as late as can be: whoever came meanwhile shares the commit
            self._run(group)
            committing = True
            if self._writer.in_transaction or any(job.failure is None for job in group):
                # One call that commits and notes it: no interrupt can come between.
                self._decided.extend(map(self._writer.execute, _COMMIT))
                self._version = self._writer.data_version()
                self.commits += 1
                self.jobs_done += len(group)
        except Exception as error:
            with suppress(apsw.Error):  # whoever waits is told, whatever state the writer is in
                self._undo()
            if not group:
                self._take()
            failure = unwritten(error, committing=committing)
            for job in group:
                job.failure = failure
        self._decided.append(None)
        self._tell()

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
            raise unread(error) from error
        except DAMAGE as error:
            raise damaged(error) from None

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(4, thread_name_prefix="turnfold-sqlite")
        return self._threads

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store has been closed")
        if self._file.fault is not None:
            raise self._file.fault


def sqlite_version() -> str:
    """The version of the SQLite library in use."""
    return apsw.sqlite_lib_version()
