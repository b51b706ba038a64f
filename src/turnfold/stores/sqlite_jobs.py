"""What waits to be written, and how those who wait are told: the queue's side of the SQLite engine, without the driver.

Telling costs more than it seems: a lock or a future of the standard library per caller, and a wake-up per caller, is
most of a shared commit. A blocking caller waits at a bare lock; an event loop is woken once for all who wait in it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar, cast

__all__ = ("SINGLE", "Connection", "Cursor", "Job", "Kind", "TryAlone", "split", "tell")

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
    """The kind of jobs that have nothing to share and may not be repeatable; each is begun once."""

    lasting = True

    def together(
        self, connection: Connection, items: Sequence[Callable[[Connection], object]], /
    ) -> Sequence[object]:
        return [item(connection) for item in items]

    def alone(self, connection: Connection, item: Callable[[Connection], object], /) -> object:
        return item(connection)


SINGLE = cast("Kind[object, object]", _Single())


class Job:
    """Something to write, and where its caller waits: at a gate, or in an event loop."""

    __slots__ = ("failure", "gate", "item", "kind", "result", "waiter")

    def __init__(
        self, kind: Kind[object, object], item: object, waiter: asyncio.Future[object] | None
    ) -> None:
        self.kind = kind
        self.item = item
        self.waiter = waiter
        self.result: object = None
        self.failure: BaseException | None = None
        self.gate = threading.Lock()
        if waiter is None:
            self.gate.acquire()


def split(group: list[Job]) -> tuple[list[Job], list[Job]]:
    """The jobs that can run first without a savepoint, because only they would be undone; and the others."""
    kind = group[0].kind if group else SINGLE
    if kind is SINGLE:
        return [], group
    many = next((place for place, job in enumerate(group) if job.kind is not kind), len(group))
    return group[:many], group[many:]


def tell(group: Iterable[Job]) -> None:
    """Open the gates of those who wait at one, and wake each event loop once for all who wait in it."""
    loops: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in group:
        if job.waiter is None:
            job.gate.release()
        else:
            loops.setdefault(job.waiter.get_loop(), []).append(job)
    for loop, jobs in loops.items():
        with suppress(RuntimeError):  # the loop has been closed: nobody is left to be told
            loop.call_soon_threadsafe(_answer, jobs)


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
