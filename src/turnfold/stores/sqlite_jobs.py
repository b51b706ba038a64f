"""What waits to be written, and how those who wait are told: the queue's side of the SQLite engine, without the driver.

Telling costs more than it seems: a lock or a future of the standard library per caller, and a wake-up per caller, is
most of a shared commit. A blocking caller waits at a bare lock; an event loop is woken once for all who wait in it.

An exception of a signal handler (Ctrl-C, an alarm) can end a blocking caller between any two of its instructions. So
nothing here is held by a lock that somebody must release: who leads is a chain of turns, extended by one atomic call,
and the turn of a leader whose function is no longer on its thread's stack may be taken over.
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
    "ONCE", "OUTSIDE", "SINGLE", "Connection", "Cursor", "Job", "Kind", "TryAlone", "Turn", "Turns",
    "split", "tell", "wake",
)  # fmt: skip

ItemOf_contra = TypeVar("ItemOf_contra", contravariant=True)
ResultOf_co = TypeVar("ResultOf_co", covariant=True)


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
    """What the rest of the package uses of a connection: the driver itself stays in the engine."""

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

    def data_version(self) -> int:
        """A number that a commit changes: one's own at once, another connection's when a transaction begins."""
        ...

    def total_changes(self) -> int:
        """Rows changed since the connection was opened."""
        ...

    def read(self, schema: str, which: int, offset: int, amount: int, /) -> tuple[bool, bytes]:
        """Bytes of the database file itself (`which` 0)."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


class TryAlone(Exception):
    """Raised by jobs that ran together and need to run one by one; nobody outside the engine sees it."""


class Kind(Protocol[ItemOf_contra, ResultOf_co]):
    """Jobs that can be done in one go when several wait. They may be begun twice: what failed together runs alone."""

    @property
    def lasting(self) -> bool:
        """Whether what they wrote must be on the disk before their callers are told."""
        ...

    def together(
        self, connection: Connection, items: Sequence[ItemOf_contra], /
    ) -> Sequence[ResultOf_co]:
        """Do all of them, in order; whatever is raised undoes them, and each of them runs `alone`."""
        ...

    def alone(self, connection: Connection, item: ItemOf_contra, /) -> ResultOf_co:
        """Do one of them."""
        ...


class _Single:
    """The kind of jobs that have nothing to share; each is begun once, or again if an interrupt undid it."""

    lasting = True

    def together(
        self, connection: Connection, items: Sequence[Callable[[Connection], object]], /
    ) -> Sequence[object]:
        return [item(connection) for item in items]

    def alone(self, connection: Connection, item: Callable[[Connection], object], /) -> object:
        return item(connection)


SINGLE = cast("Kind[object, object]", _Single())
ONCE = cast("Kind[object, object]", _Single())
"""Like `SINGLE`, for what cannot be begun again: it reads a stream that is then used up."""
OUTSIDE = cast("Kind[object, object]", _Single())
"""Functions without arguments that run on the leader's thread between two transactions."""


class Job:
    """Something to write, and where its caller waits: at a gate, or in an event loop.

    The gate opens when the job is `told`, and also when its caller should lead.
    """

    __slots__ = ("abandoned", "failure", "gate", "interrupts", "item", "kind", "result", "told", "waiter")  # fmt: skip

    def __init__(
        self, kind: Kind[object, object], item: object, waiter: asyncio.Future[object] | None
    ) -> None:
        self.kind = kind
        self.item = item
        self.waiter = waiter
        self.result: object = None
        self.failure: BaseException | None = None
        self.told = False
        self.abandoned = False
        self.interrupts = 0
        self.gate = threading.Lock()
        if waiter is None:
            self.gate.acquire()

    @property
    def is_unwanted(self) -> bool:
        """Whether its caller no longer waits for it: interrupted, or cancelled."""
        return self.abandoned or (self.waiter is not None and self.waiter.cancelled())


class Turn:
    """A function call's time as the leader; made in the function that leads, and `ended` before that returns."""

    __slots__ = ("ended", "following", "frame", "thread")

    def __init__(self) -> None:
        self.ended = False
        self.following: dict[str, Turn] = {}
        self.thread = threading.get_ident()
        self.frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] (names a call)

    def is_lost(self) -> bool:
        """Whether the call has left its thread's stack: an interrupt ended it before it could say so."""
        frame = sys._current_frames().get(self.thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] (shows a stack)
        while frame is not None and frame is not self.frame:
            frame = frame.f_back
        return frame is None


class Turns:
    """Who leads: one at a time. The last of a chain of turns; the next begins when it has ended, or is lost."""

    def __init__(self) -> None:
        self._known = Turn()
        self._known.ended = True
        self._known.frame = None

    def take(self, turn: Turn, *, look: bool) -> bool:
        """Begin a turn unless another is under way; `look` asks whether that one is lost."""
        last = self._last()
        if not last.ended and not (look and last.is_lost()):
            return False
        if last.following.setdefault("turn", turn) is not turn:  # one atomic call decides
            return False
        self._known = turn
        return True

    def holds(self, turn: Turn) -> bool:
        """Whether this turn is the last one."""
        return self._last() is turn

    def is_free(self) -> bool:
        """Whether nobody leads."""
        return self._last().ended

    def _last(self) -> Turn:
        last = self._known
        while (following := last.following.get("turn")) is not None:
            last = following
        return last


def split(group: list[Job]) -> tuple[list[Job], list[Job]]:
    """The jobs that can run first without a savepoint, because only they would be undone; and the others."""
    kind = group[0].kind if group else SINGLE
    if isinstance(kind, _Single):
        return [], group
    many = next((place for place, job in enumerate(group) if job.kind is not kind), len(group))
    return group[:many], group[many:]


def tell(group: Iterable[Job]) -> None:
    """Open the gates of those who wait at one, and wake each event loop once for all who wait in it.

    Telling somebody twice does no harm.
    """
    loops: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in group:
        job.told = True
        if job.waiter is None:
            wake(job)
        else:
            loops.setdefault(job.waiter.get_loop(), []).append(job)
    for loop, jobs in loops.items():
        with suppress(RuntimeError):  # the loop has been closed: nobody is left to be told
            loop.call_soon_threadsafe(_answer, jobs)


def wake(job: Job) -> None:
    """Open the gate of a blocking caller."""
    with suppress(RuntimeError):  # it is open already
        job.gate.release()


def _answer(jobs: Iterable[Job]) -> None:
    """Runs in the loop of the waiters."""
    for job in jobs:
        waiter = job.waiter
        if waiter is None or waiter.done():  # done: its caller has been cancelled
            continue
        if job.failure is None:
            waiter.set_result(job.result)
        else:
            waiter.set_exception(job.failure)
