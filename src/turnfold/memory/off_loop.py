"""A memory that blocks, used by a framework that awaits: its work is done in a thread, one thing after another.

The coroutines of a blocking memory never wait for a loop, they hold it up: while one of them waits for a disk, for a
lock or for a model that folds, no other task runs. So they are driven in a thread. Those of one conversation keep their
order, because a call that was cancelled goes on in its thread, and what is said next must not overtake it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import copy_context
from threading import Lock
from typing import Any, TypeVar

from turnfold.memory.blocking import Memory, Session
from turnfold.memory.drive import drive
from turnfold.memory.front_door import AsyncMemory
from turnfold.memory.session import AsyncSession

__all__ = ("OffLoop",)

_Result = TypeVar("_Result")


class OffLoop:
    """Awaits the coroutines of one conversation: in a thread over a memory that blocks, else in place.

    It takes a thread of the loop's own pool while there is something to do, so that any number may be held.
    """

    def __init__(self, memory: AsyncMemory | Memory | AsyncSession | Session) -> None:
        self.blocking = isinstance(memory, Memory | Session)
        self._waiting: deque[Callable[[], None]] = deque()
        self._working = False
        self._changing = Lock()

    async def __call__(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """What the coroutine gives. One that was begun is finished, even if nobody waits for it any more."""
        if not self.blocking:
            return await work
        done: Future[_Result] = Future()
        context = copy_context()

        def job() -> None:
            if not done.set_running_or_notify_cancel():
                work.close()
                return
            try:
                done.set_result(context.run(drive, work))
            except BaseException as error:
                done.set_exception(error)

        self._queue(job)
        return await asyncio.wrap_future(done)

    def _queue(self, job: Callable[[], None]) -> None:
        with self._changing:
            self._waiting.append(job)
            if not self._working:
                asyncio.get_running_loop().run_in_executor(None, self._work)
                self._working = True

    def _work(self) -> None:
        while True:
            with self._changing:
                if not self._waiting:
                    self._working = False
                    return
                job = self._waiting.popleft()
            job()
