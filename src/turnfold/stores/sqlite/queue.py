"""The job queue of the SQLite engine, without the driver: jobs, leadership of the writer, notification of callers.

Waking each caller separately would be most of the cost of a shared commit. So a blocking caller waits for a plain lock,
and an event loop is woken once for all its callers.

An exception of a signal handler (Ctrl-C, an alarm) can end a blocking caller between any two instructions, so nothing
here depends on a lock being released. A leader holds a turn, which it takes by one atomic call; if the function of a
leader is no longer on its thread's stack, another caller can take over its turn.
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
    """The rows of a statement."""

    def __iter__(self) -> Iterator[tuple[object, ...]]: ...

    def fetchone(self) -> tuple[object, ...] | None:
        """Return the next row, or None."""
        ...

    def fetchall(self) -> list[tuple[object, ...]]:
        """Return all remaining rows."""
        ...


class Connection(Protocol):
    """The methods of a connection that the package uses; only the engine imports the driver."""

    @property
    def in_transaction(self) -> bool:
        """True while a transaction is open."""
        ...

    def execute(self, statements: str, bindings: Sequence[object] = ..., /) -> Cursor:
        """Run statements with every value bound."""
        ...

    def executemany(self, statements: str, bindings: Iterable[Sequence[object]], /) -> Cursor:
        """Run a statement once per set of values."""
        ...

    def last_insert_rowid(self) -> int:
        """Return the key of the row inserted last."""
        ...

    def data_version(self) -> int:
        """Return a number that changes with each commit: with its own at once, with others' at the next transaction."""
        ...

    def total_changes(self) -> int:
        """Return the number of rows changed since the connection was opened."""
        ...

    def read(self, schema: str, which: int, offset: int, amount: int, /) -> tuple[bool, bytes]:
        """Return bytes of the database file itself (`which` 0)."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class TryAlone(Exception):
    """Raised by jobs that ran together and must run one by one; only the engine sees it."""


class JobKind(Protocol[ItemOf_contra, ResultOf_co]):
    """A kind of jobs that can be executed together. A job may run twice: together with others, and then alone."""

    @property
    def durable(self) -> bool:
        """True if the writes must be on disk before the callers are notified."""
        ...

    def together(
        self, connection: Connection, items: Sequence[ItemOf_contra], /
    ) -> Sequence[ResultOf_co]:
        """Execute all items in order; after any exception they are rolled back and each runs `alone`."""
        ...

    def alone(self, connection: Connection, item: ItemOf_contra, /) -> ResultOf_co:
        """Execute one item."""
        ...


class _Single:
    """A kind of jobs that are functions: each is called by itself, never batched with others."""

    durable = True

    def together(
        self, connection: Connection, items: Sequence[Callable[[Connection], object]], /
    ) -> Sequence[object]:
        return [item(connection) for item in items]

    def alone(self, connection: Connection, item: Callable[[Connection], object], /) -> object:
        return item(connection)


SINGLE = cast("JobKind[object, object]", _Single())
ONCE = cast("JobKind[object, object]", _Single())
"""Like `SINGLE`, for jobs that cannot run twice because they consume a stream."""
OUTSIDE = cast("JobKind[object, object]", _Single())
"""Functions without arguments that the leader runs between two transactions."""


class Job:
    """A queued job and its caller, which waits for the lock `gate` or in an event loop.

    The lock is released when the job is `notified`, and also when the caller should become the leader.
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
    """The leadership of one function call: created in that function, and `ended` is set before the function returns."""

    __slots__ = ("ended", "following", "frame", "thread")

    def __init__(self) -> None:
        self.ended = False
        self.following: dict[str, WriterTurn] = {}
        self.thread = threading.get_ident()
        self.frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] (names a call)

    def is_lost(self) -> bool:
        """Return True if an interrupt ended the call before it could set `ended`: it has left its thread's stack."""
        frame = sys._current_frames().get(self.thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] (shows a stack)
        while frame is not None and frame is not self.frame:
            frame = frame.f_back
        return frame is None


class WriterTurns:
    """Gives leadership to one call at a time: the next turn begins when the last one has ended or is lost."""

    def __init__(self) -> None:
        self._known = WriterTurn()
        self._known.ended = True
        self._known.frame = None

    def take(self, turn: WriterTurn, *, check_lost: bool) -> bool:
        """Begin a turn unless another is active; with `check_lost`, take over a turn that is lost."""
        last = self._last()
        if not last.ended and not (check_lost and last.is_lost()):
            return False
        if last.following.setdefault("turn", turn) is not turn:  # one atomic call
            return False
        self._known = turn
        return True

    def holds(self, turn: WriterTurn) -> bool:
        """Return True if this turn is the last one."""
        return self._last() is turn

    def is_free(self) -> bool:
        """Return True if there is no leader."""
        return self._last().ended

    def _last(self) -> WriterTurn:
        last = self._known
        while (following := last.following.get("turn")) is not None:
            last = following
        return last


def split_by_kind(group: list[Job]) -> tuple[list[Job], list[Job]]:
    """Split a group into the leading jobs of one kind, which need no savepoint, and the rest."""
    kind = group[0].kind if group else SINGLE
    if isinstance(kind, _Single):
        return [], group
    count = next((place for place, job in enumerate(group) if job.kind is not kind), len(group))
    return group[:count], group[count:]


def notify(group: Iterable[Job]) -> None:
    """Wake all blocking callers, and each event loop once for all its callers. May be repeated."""
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
    """Wake a blocking caller by releasing the lock that it waits for."""
    with suppress(RuntimeError):  # already open
        job.gate.release()


def _resolve(jobs: Iterable[Job]) -> None:
    """Resolve the futures of the callers; runs in their event loop."""
    for job in jobs:
        waiter = job.waiter
        if waiter is None or waiter.done():  # done: the caller was cancelled
            continue
        if job.failure is None:
            waiter.set_result(job.result)
        else:
            waiter.set_exception(job.failure)
