"""Run the coroutines of a memory for a framework that calls with or without await.

The coroutines of a blocking memory never wait for an event loop, they block it: while one of them waits for a disk, a
lock or a model that folds (compacts), no other task runs. So a framework that awaits has them driven in a thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import copy_context
from threading import Lock
from typing import Any, TypeVar

from turnfold.errors import InvalidOption
from turnfold.memory import AsyncMemory, AsyncSession, Memory, Session
from turnfold.runtime import drive

__all__ = ("HookRunner", "ThreadBridge")


_Result = TypeVar("_Result")


class ThreadBridge:
    """Awaits the coroutines of one conversation in order: in a thread over a blocking memory, else in place.

    Order is kept by a queue, because a cancelled call goes on in its thread and the next one must not overtake it. A
    thread of the loop's own pool is used only while there is work, so any number of bridges may exist.
    """

    def __init__(self, memory: AsyncMemory | Memory | AsyncSession | Session) -> None:
        self.blocking = isinstance(memory, Memory | Session)
        self._queue: deque[Callable[[], None]] = deque()
        self._has_worker = False
        self._lock = Lock()

    async def __call__(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Return the coroutine's result. Work that was begun is finished, even if nobody waits for it any more."""
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

        with self._lock:
            self._queue.append(job)
            if not self._has_worker:
                asyncio.get_running_loop().run_in_executor(None, self._work)
                self._has_worker = True
        return await asyncio.wrap_future(done)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._has_worker = False
                    return
                job = self._queue.popleft()
            job()


class HookRunner:
    """Runs coroutines of one memory for hooks that come in a blocking and an awaiting form.

    Over a blocking memory both forms work: the blocking one in place, the awaiting one in a thread. Over an awaiting
    memory the awaiting form works, and the blocking form from other threads than the loop's (LangGraph runs blocking
    nodes and tools of an awaited run in such threads). `owner` names the object that was given the memory, for errors.
    """

    def __init__(self, *, blocking: bool, owner: str) -> None:
        self._blocking = blocking
        self._owner = owner
        self._loop = _running_loop()
        """The loop the memory was last awaited in, or created in."""

    def block_on(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Return the coroutine's result to a caller that does not await."""
        if self._blocking:
            return drive(work)
        loop = self._loop
        if loop is None or not loop.is_running() or loop is _running_loop():
            work.close()
            raise InvalidOption(
                f"invoke() needs a blocking memory: give {self._owner} a Memory, or use ainvoke()"
            )
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    async def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Return the coroutine's result to a caller that awaits."""
        if self._blocking:
            return await asyncio.to_thread(drive, work)
        self._loop = asyncio.get_running_loop()
        return await work


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
