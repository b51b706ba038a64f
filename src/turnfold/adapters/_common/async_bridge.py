"""Runs the coroutines of a memory for frameworks that call with or without await.

The coroutines of a blocking memory block the event loop: while one of them waits for a disk, a lock or a model that
folds (compacts), no other task runs. For a framework that awaits, they are therefore run in a thread.
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
    """Runs the coroutines of one conversation in order: in a thread if the memory is blocking, else in the event loop.

    A queue keeps the order, because a cancelled call continues in its thread and the next one must not overtake it. A
    thread of the loop's own pool is used only while there is work, so any number of bridges may exist.

    `own_loops` is the name of a framework's function that runs an event loop of its own. If it is given, an
    `AsyncMemory` that is used in a second loop is refused, because its connections and locks belong to the first.
    """

    def __init__(
        self,
        memory: AsyncMemory | Memory | AsyncSession | Session | None,
        *,
        own_loops: str = "",
    ) -> None:
        self.blocking = isinstance(memory, Memory | Session)
        self._own_loops = own_loops
        self._loop = _running_loop()
        self._queue: deque[Callable[[], None]] = deque()
        self._has_worker = False
        self._lock = Lock()

    @classmethod
    def of(cls, *, blocking: bool) -> ThreadBridge:
        """Return a runner without a memory object; `blocking` is True for a `Memory`, False for an `AsyncMemory`."""
        bridge = cls(None)
        bridge.blocking = blocking
        return bridge

    async def __call__(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine and return its result; once started it is finished, even if the caller is cancelled."""
        loop = _running_loop()
        if not self.blocking or loop is None:
            self._check_loop(loop, work)
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
                loop.run_in_executor(None, self._work)
                self._has_worker = True
        return await asyncio.wrap_future(done)

    def _check_loop(
        self, loop: asyncio.AbstractEventLoop | None, work: Coroutine[Any, Any, Any]
    ) -> None:
        if not self._own_loops:
            return
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            work.close()
            raise InvalidOption(
                f"{self._own_loops} runs an event loop of its own, and an AsyncMemory belongs to the loop that opened "
                "it: give the adapter a Memory, or use the awaited form"
            )

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._has_worker = False
                    return
                job = self._queue.popleft()
            job()


class HookRunner:
    """Runs coroutines of one memory for hooks that a framework calls both with and without await.

    With a blocking memory both forms work: the blocking one in the caller's thread, the awaiting one in another thread.
    With an awaiting memory the awaiting form works, and the blocking form only in threads other than the event loop's
    (LangGraph runs blocking nodes and tools of an awaited run in such threads). `owner` is the name, for errors, of the
    object that was given the memory.
    """

    def __init__(self, *, blocking: bool, owner: str) -> None:
        self._blocking = blocking
        self._owner = owner
        self._loop = _running_loop()
        """The event loop in which the memory is used: the one that ran when this object was made, or the first one
        later; None until then."""

    def block_on(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine to its end and return its result, for a caller that does not await; block meanwhile."""
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
        """Await a coroutine and return its result; a blocking memory's coroutine runs in another thread."""
        if self._blocking:
            return await asyncio.to_thread(drive, work)
        self._loop = asyncio.get_running_loop()
        return await work


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
