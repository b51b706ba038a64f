"""Connections to read with, and short reads of an event loop, done in groups: a thread for each costs many times more.

Whoever finds nobody on the way calls a thread; it does whatever has been asked by then, on one state of the file, wakes
each event loop once, and looks again. So under load a hand-over serves many. There are two threads at most: one would
let everybody wait for a page that comes from a slow disk, and more only contend with the loop. What is long does not
belong here.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar, cast

from turnfold.stores.sqlite_jobs import SINGLE, Connection, Job, tell

__all__ = ("GroupedReads", "Readers")

Result = TypeVar("Result")
_LARGEST_GROUP = 32
_MOST_THREADS = 2


class Readers:
    """Connections that only read; as many as are read with at the same time.

    Nothing is held by a lock: an interrupt between any two instructions costs a connection at most, and an idle one.
    """

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self.idle: list[Connection] = []
        self._closed = False

    @contextmanager
    def lend(self) -> Generator[Connection]:
        """A connection nobody else uses."""
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
        """Close those that are not in use, and each of the others when it is given back."""
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self.idle.pop().close()


class GroupedReads:
    """Reads that wait. `call` has a thread run something; `read` does a read on one state of the file, or raises."""

    def __init__(
        self,
        call: Callable[[Callable[[], None]], object],
        read: Callable[[Callable[[Connection], None]], None],
    ) -> None:
        self._call, self._read = call, read
        self._jobs: deque[Job] = deque()
        self._threads = 0  # that do them, or are on their way
        self._coming = 0  # of these, the ones that have yet to look what there is to do
        self._entering = threading.Lock()

    async def ask(self, work: Callable[[Connection], Result]) -> Result:
        """What `work` finds in a state of the file that is no older than this call."""
        waiter = asyncio.get_running_loop().create_future()
        with self._entering:
            if not self._coming and self._threads < _MOST_THREADS:
                self._call(self._serve)  # it takes nothing before this lock is free
                self._threads += 1
                self._coming += 1
            self._jobs.append(Job(SINGLE, work, waiter))
        return cast("Result", await waiter)

    def _serve(self) -> None:
        with self._entering:
            self._coming -= 1
        while group := self._take():
            self._do(group)

    def _take(self) -> list[Job]:
        group: list[Job] = []
        with self._entering:
            while self._jobs and len(group) < _LARGEST_GROUP:
                job = self._jobs.popleft()
                if job.waiter is None or not job.waiter.cancelled():
                    group.append(job)
            if not group:  # none is left either
                self._threads -= 1
        return group

    def _do(self, group: Sequence[Job]) -> None:
        """All of them; after one that fails the others go on in another state, because its connection is closed."""
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
                    # Who fails before any of them is asked fails for all; who fails after the last, for that one.
                    failed = [left.popleft()] if begun and left else list(left) or [group[-1]]
                    for job in failed:
                        job.failure = error
                    if not begun:
                        break
        finally:
            tell(group)
