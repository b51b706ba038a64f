"""The queue of write jobs of the SQLite engine: jobs, the choice of the caller that runs them, waking of callers.

One of the waiting callers, the leader, runs the queued jobs of all of them and commits once (group commit). Waking each
caller separately would be most of the cost of a shared commit. So a blocking caller waits for a plain lock, and an
event loop is woken once for all its callers.

An exception of a signal handler (Ctrl-C, an alarm) can end a blocking caller between any two instructions, so nothing
here depends on a lock being released. A leader holds a `WriterTurn`, which it takes by one atomic call; if the function
of a leader is no longer on its thread's stack, another caller can take over.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from types import FrameType
from typing import Protocol, TypeVar, cast

__all__ = (
    "BACKGROUND",
    "ONCE",
    "OUTSIDE",
    "SINGLE",
    "Connection",
    "Cursor",
    "Job",
    "JobKind",
    "TryAlone",
    "WriterTurn",
    "WriterTurns",
    "notify",
    "split_by_kind",
    "wake",
)


ItemOf_contra = TypeVar("ItemOf_contra", contravariant=True)
ResultOf_co = TypeVar("ResultOf_co", covariant=True)


class Cursor(Protocol):
    """The result of a statement: an iterator of rows."""

    def __iter__(self) -> Iterator[tuple[object, ...]]: ...

    def fetchone(self) -> tuple[object, ...] | None:
        """Return the next row; None if there is none."""
        ...

    def fetchall(self) -> list[tuple[object, ...]]:
        """Return all remaining rows."""
        ...


class Connection(Protocol):
    """The methods of a driver connection that this package uses, so that few modules import the driver."""

    @property
    def filename(self) -> str:
        """Absolute path of the database file; empty for a database in memory."""
        ...

    @property
    def in_transaction(self) -> bool:
        """True while a transaction is open."""
        ...

    def execute(self, statements: str, bindings: Sequence[object] = ..., /) -> Cursor:
        """Run SQL statements; `bindings` are the values of their placeholders."""
        ...

    def executemany(self, statements: str, bindings: Iterable[Sequence[object]], /) -> Cursor:
        """Run a SQL statement once for each sequence of values."""
        ...

    def last_insert_rowid(self) -> int:
        """Return the primary key of the row that this connection inserted last."""
        ...

    def data_version(self) -> int:
        """Return a number that changes with each commit.

        Commits of other connections are counted from the next transaction on.
        """
        ...

    def total_changes(self) -> int:
        """Return the number of rows changed since the connection was opened."""
        ...

    def read(self, schema: str, which: int, offset: int, amount: int, /) -> tuple[bool, bytes]:
        """Read bytes of the file (`which` 0 is the database); return whether all could be read, and the bytes."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class TryAlone(Exception):
    """Raised by `JobKind.together` if its jobs must be executed one by one; only the engine sees it."""


class JobKind(Protocol[ItemOf_contra, ResultOf_co]):
    """A kind of write job, with functions to execute several jobs together, or one alone.

    Jobs that ran together may be undone and run alone.
    """

    @property
    def durable(self) -> bool:
        """True if the writes must be on disk (synced) before the callers get their results."""
        ...

    def together(
        self, connection: Connection, items: Sequence[ItemOf_contra], /
    ) -> Sequence[ResultOf_co]:
        """Execute the items of several jobs in order; after an exception they are rolled back and each runs `alone`."""
        ...

    def alone(self, connection: Connection, item: ItemOf_contra, /) -> ResultOf_co:
        """Execute one job; return its result."""
        ...


class _Single:
    """Job kind whose jobs are functions: each is called by itself, never together with others."""

    durable = True

    def together(
        self, connection: Connection, items: Sequence[Callable[[Connection], object]], /
    ) -> Sequence[object]:
        return [item(connection) for item in items]

    def alone(self, connection: Connection, item: Callable[[Connection], object], /) -> object:
        return item(connection)


SINGLE = cast("JobKind[object, object]", _Single())
"""Job kind of functions that take the connection and write in a transaction."""
ONCE = cast("JobKind[object, object]", _Single())
"""Job kind of functions like those of `SINGLE` that cannot run twice, because they consume a stream."""
BACKGROUND = cast("JobKind[object, object]", _Single())
"""Job kind of functions like those of `SINGLE` that take long: each runs alone in a transaction of its own."""
OUTSIDE = cast("JobKind[object, object]", _Single())
"""Job kind of functions without arguments that the leader runs between two transactions."""


class Job:
    """A queued job and its caller, which waits for the lock `gate`, or for the future `waiter` in an event loop.

    The lock is released when the job is done (`notified`), and also when the caller should become the leader.
    """

    __slots__ = (
        "abandoned", "failure", "gate", "interrupts", "item", "kind", "notified", "result", "waiter",
    )  # fmt: skip

    def __init__(
        self, kind: JobKind[object, object], item: object, waiter: asyncio.Future[object] | None
    ) -> None:
        self.kind = kind
        self.item = item
        self.waiter = waiter
        self.result: object = None
        self.failure: BaseException | None = None
        self.notified = False
        self.abandoned = False
        self.interrupts = 0
        self.gate = threading.Lock()
        if waiter is None:
            self.gate.acquire()

    @property
    def is_cancelled(self) -> bool:
        """True if the caller no longer waits, because it was interrupted or cancelled."""
        return self.abandoned or (self.waiter is not None and self.waiter.cancelled())


class WriterTurn:
    """The time in which one caller is the leader, which runs the queued write jobs; `ended` is set at its end."""

    __slots__ = ("ended", "following", "frame", "thread")

    def __init__(self) -> None:
        self.ended = False
        self.following: dict[str, WriterTurn] = {}
        self.thread = threading.get_ident()
        self.frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] (names a call)

    def is_lost(self) -> bool:
        """Return True if the leader is dead: an interrupt ended its call before it could set `ended`."""
        frame = sys._current_frames().get(self.thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] (shows a stack)
        while frame is not None and frame is not self.frame:
            frame = frame.f_back
        return frame is None


class WriterTurns:
    """Lets one function call at a time be the leader, which runs the queued jobs of all callers."""

    def __init__(self) -> None:
        self._known = WriterTurn()
        self._known.ended = True
        self._known.frame = None

    def take(self, turn: WriterTurn, *, check_lost: bool) -> bool:
        """Become the leader, which runs queued jobs; return False if another call is the leader.

        With `check_lost`, a dead leader is replaced.
        """
        last = self._last()
        if not last.ended and not (check_lost and last.is_lost()):
            return False
        if last.following.setdefault("turn", turn) is not turn:  # one atomic call
            return False
        self._known = turn
        return True

    def holds(self, turn: WriterTurn) -> bool:
        """Return True if the call is still the leader, because no other call has become the leader since."""
        return self._last() is turn

    def is_free(self) -> bool:
        """Return True if there is no leader (call that runs the queued jobs)."""
        return self._last().ended

    def _last(self) -> WriterTurn:
        last = self._known
        while (following := last.following.get("turn")) is not None:
            last = following
        return last


def split_by_kind(group: list[Job]) -> tuple[list[Job], list[Job]]:
    """Split jobs in two: the first jobs, all of one kind, which run together without savepoints, and the others."""
    kind = group[0].kind if group else SINGLE
    if isinstance(kind, _Single):
        return [], group
    count = next((place for place, job in enumerate(group) if job.kind is not kind), len(group))
    return group[:count], group[count:]


def notify(group: Iterable[Job]) -> None:
    """Give the callers of finished jobs their results; each event loop is woken once. May be repeated."""
    loops: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in group:
        job.notified = True
        if job.waiter is None:
            wake(job)
        else:
            loops.setdefault(job.waiter.get_loop(), []).append(job)
    for loop, jobs in loops.items():
        with suppress(RuntimeError):  # the loop was closed, so nobody waits there
            loop.call_soon_threadsafe(_resolve, jobs)


def wake(job: Job) -> None:
    """Wake the blocking caller of a job by releasing the lock that it waits for."""
    with suppress(RuntimeError):  # already open
        job.gate.release()


def _resolve(jobs: Iterable[Job]) -> None:
    """Set the results or errors of these jobs on their asyncio futures; runs in the callers' event loop."""
    for job in jobs:
        waiter = job.waiter
        if waiter is None or waiter.done():  # done: the caller was cancelled
            continue
        if job.failure is None:
            waiter.set_result(job.result)
        else:
            waiter.set_exception(job.failure)
