"""Runs coroutines: `AsyncRuntime` with an event loop, `SyncRuntime` and `drive()` without one.

All code that uses a store or a model is written once, as coroutines. The few operations that differ (lock, ask a model
with a time-out, pause, background and repeated work) are methods of a `Runtime`; no other module needs to know which of
the two is used.

With a blocking store a coroutine never suspends, so `drive()` runs it to its end with one `send()`. That works in a
script, in a thread, in a notebook and inside a running loop, where `asyncio.run` fails.

A signal handler (Ctrl-C, a time-out by `signal.alarm`) may raise at any line of a driven coroutine, also after a lock
was acquired and before the code that releases it is reached. So each lock is registered before it is acquired, and
`drive()` releases the locks that are still held: no lock stays acquired after the call.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import copy_context
from functools import partial
from typing import Protocol, TypeVar, cast

from turnfold.errors import InvalidOption, WrongProcess

__all__ = (
    "AsyncRuntime",
    "LimitedRuntime",
    "LoopThread",
    "Runtime",
    "SyncRuntime",
    "drive",
)


_JOIN_TIMEOUT = 5.0
"""Seconds to wait for an event loop to stop; after that it is left to itself, because a task may refuse to be
cancelled."""
_COMPUTE_THREADS = 8
"""Number of threads that compute for an event loop. More threads would compete for the interpreter lock."""
_Result = TypeVar("_Result")
_Work = Callable[[], Coroutine[object, None, None]]


class _OwnedLock(Protocol):
    """A lock that raises RuntimeError if it is released by a thread that does not hold it."""

    def release(self) -> None: ...


class _HeldLocks(threading.local):
    """The locks of one thread that `drive()` must release if its call is interrupted."""

    def __init__(self) -> None:
        self.locks: list[_OwnedLock] = []
        """The locks that this thread holds, or is about to acquire, in the calls it is driving."""


_held = _HeldLocks()


def drive(coroutine: Coroutine[object, None, _Result]) -> _Result:
    """Run a coroutine that never suspends and return its result; raises `InvalidOption` if it suspends."""
    locks = _held.locks
    outer = len(locks)
    try:
        coroutine.send(None)
    except StopIteration as finished:
        return cast("_Result", finished.value)
    finally:
        while len(locks) > outer:  # the call was interrupted before the code that releases them
            with suppress(RuntimeError):
                locks[-1].release()
            del locks[-1]
    coroutine.close()
    name = getattr(coroutine, "__qualname__", type(coroutine).__name__)
    raise InvalidOption(
        f"{name} has to wait, which is not possible without an event loop: open the store with blocking=True, or await "
        "the coroutine"
    )


class Runtime(Protocol):
    """Operations that differ with and without an event loop: locks, model calls, background work."""

    def lock(self) -> AbstractAsyncContextManager[None]:
        """Return a new lock; it is not reentrant."""
        ...

    async def ask(self, question: Callable[[], object], *, seconds: float) -> object:
        """Call a user's function, await its result if needed, and return it; TimeoutError after `seconds`."""
        ...

    async def compute(self, work: Callable[[], _Result]) -> _Result:
        """Run a long computation without blocking an event loop, and return its result."""
        ...

    async def each(self, jobs: Sequence[_Work], *, parallel: int) -> None:
        """Run all jobs, at most `parallel` at once; when all have ended, raise the first error if there was one."""
        ...

    async def pause(self, seconds: float) -> bool:
        """Wait for some seconds; return True at once if the runtime is closed before or meanwhile."""
        ...

    async def complete(self, work: Callable[[], Coroutine[object, None, _Result]]) -> _Result:
        """Await work to its end, even if the calling task is cancelled; the cancellation takes effect afterwards."""
        ...

    def repeat(self, work: _Work, *, seconds: float) -> AbstractAsyncContextManager[None]:
        """Return a context manager that does the work every `seconds` in the background while its block runs."""
        ...

    def begin(self, name: str, work: _Work) -> bool:
        """Start background work; False if work of this name is running or the runtime was closed."""
        ...

    async def wait(self) -> None:
        """Wait for the background work that is running now; further work can be started meanwhile and afterwards."""
        ...

    async def finish(self, *, cancel: bool = False) -> None:
        """Close the runtime and wait for all background work; if `cancel` is True, tell it to stop first."""
        ...

    @property
    def stopping(self) -> bool:
        """True if background work has been told to stop."""
        ...


class SyncRuntime:
    """The runtime for applications without an event loop; it uses threads."""

    def __init__(self) -> None:
        self._running: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._loop = LoopThread()
        self._closed = threading.Event()

    @property
    def stopping(self) -> bool:
        """True if background work has been told to stop."""
        return self._stop.is_set()

    def lock(self) -> AbstractAsyncContextManager[None]:
        """Return a new thread lock."""
        return _ThreadLock()

    async def ask(self, question: Callable[[], object], *, seconds: float) -> object:
        """Call the function in a thread of its own, so that it can time out.

        An awaitable result is awaited in one event loop that all calls share, because the connections of a client
        belong to the loop they were made in.
        """
        call = _Question(question, self._loop)
        give_up = time.monotonic() + seconds
        try:
            # As with asyncio: what the caller set in context variables, the function sees.
            run = partial(copy_context().run, call.run)
            threading.Thread(target=run, name="turnfold-ask", daemon=True).start()
            while not call.done.wait(min(0.1, max(give_up - time.monotonic(), 0.0))):
                self._check_time(give_up, seconds)
        except BaseException:  # a time-out or Ctrl-C: the result is no longer needed
            call.give_up()
            raise
        if call.error is not None:
            raise call.error
        return call.answer

    def _check_time(self, give_up: float, seconds: float) -> None:
        if self._stop.is_set() or time.monotonic() >= give_up:
            raise TimeoutError(f"the function did not return within {seconds:g} s")

    async def compute(self, work: Callable[[], _Result]) -> _Result:
        """Call the function in this thread: there is no event loop to keep free."""
        return work()

    async def each(self, jobs: Sequence[_Work], *, parallel: int) -> None:
        """Run all jobs in up to `parallel` threads; when all have ended, raise the first error if there was one."""
        waiting = list(reversed(jobs))
        errors: list[BaseException] = []

        def run(ended: threading.Event) -> None:
            while True:
                try:
                    job = waiting.pop()
                except IndexError:
                    ended.set()
                    return
                try:
                    drive(job())
                except BaseException as error:
                    errors.append(error)

        ends = [threading.Event() for _ in range(min(parallel, len(jobs)))]
        try:
            for ended in ends:
                begun = partial(copy_context().run, run, ended)
                threading.Thread(target=begun, name="turnfold-job", daemon=True).start()
            for ended in ends:
                while not ended.wait(0.1):
                    pass  # a wait without a time-out is not interruptible on every platform
        except BaseException:  # Ctrl-C: running jobs cannot be stopped, the others are not started
            waiting.clear()
            raise
        if errors:
            raise errors[0]

    async def pause(self, seconds: float) -> bool:
        """Wait for some seconds; return True at once if the runtime is closed before or meanwhile."""
        return self._closed.wait(seconds)

    async def complete(self, work: Callable[[], Coroutine[object, None, _Result]]) -> _Result:
        """Do the work in this thread: there is no task that could be cancelled."""
        return await work()

    def repeat(self, work: _Work, *, seconds: float) -> AbstractAsyncContextManager[None]:
        """Return a context manager that does the work every `seconds`, in a thread, while its block runs."""
        return _RepeatThread(work, seconds)

    def begin(self, name: str, work: _Work) -> bool:
        """Start background work in a thread; False if work of this name is running or the runtime was closed."""
        with self._lock:
            if self._closed.is_set() or name in self._running:
                return False

            def run() -> None:
                try:
                    drive(work())
                finally:
                    with self._lock:
                        self._running.pop(name, None)

            thread = threading.Thread(target=run, name=f"turnfold-{name}", daemon=True)
            self._running[name] = thread
            thread.start()
            return True

    async def wait(self) -> None:
        """Wait for the threads that are running now."""
        with self._lock:
            working = list(self._running.values())
        for thread in working:
            if thread is not threading.current_thread():
                thread.join()

    async def finish(self, *, cancel: bool = False) -> None:
        """Start no further threads, end their pauses, and wait until the running ones have ended."""
        with self._lock:
            self._closed.set()
        if cancel:
            self._stop.set()
        await self.wait()
        self._loop.stop()


class AsyncRuntime:
    """The runtime for applications with an event loop; it uses tasks."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[None]] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._pauses: set[asyncio.Future[None]] = set()
        self._closed = False
        self._stopping = False

    @property
    def stopping(self) -> bool:
        """True if background work has been told to stop."""
        return self._stopping

    def lock(self) -> AbstractAsyncContextManager[None]:
        """Return a new lock for tasks; tasks of two event loops must not use it at the same time."""
        return _TaskLock()

    async def ask(self, question: Callable[[], object], *, seconds: float) -> object:
        """Await a coroutine function; call a plain function in a thread, so that it does not block the loop."""
        if inspect.iscoroutinefunction(question):
            async with asyncio.timeout(seconds):
                return await question()
        given_up, answers = threading.Event(), list[object]()

        def ask() -> None:
            answers.append(question())
            if given_up.is_set():
                _discard(answers[0])

        try:
            async with asyncio.timeout(seconds):
                await asyncio.to_thread(ask)
                [found] = answers
                return await _awaited(found) if inspect.isawaitable(found) else found
        except BaseException:
            given_up.set()
            for late in answers:
                _discard(late)
            raise

    async def compute(self, work: Callable[[], _Result]) -> _Result:
        """Run a long computation in a thread; a cancelled task ends only after the function has returned.

        It has threads of its own, because the event loop's default threads may all be waiting for a slow model.
        """
        if self._threads is None:
            self._threads = ThreadPoolExecutor(
                _COMPUTE_THREADS, thread_name_prefix="turnfold-compute"
            )
        call = partial(copy_context().run, work)
        running = asyncio.get_running_loop().run_in_executor(self._threads, call)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])  # it may still be changing data of the caller
            raise

    async def each(self, jobs: Sequence[_Work], *, parallel: int) -> None:
        """Run all jobs as tasks, at most `parallel` at once; cancelling this call cancels them."""
        gate = asyncio.Semaphore(parallel)

        async def run(job: _Work) -> None:
            async with gate:
                await job()

        done = await asyncio.gather(*map(run, jobs), return_exceptions=True)
        for error in done:
            if isinstance(error, BaseException):
                raise error

    async def pause(self, seconds: float) -> bool:
        """Wait for some seconds; return True at once if the runtime is closed before or meanwhile."""
        if not self._closed:
            waiting = asyncio.get_running_loop().create_future()
            self._pauses.add(waiting)
            try:
                await asyncio.wait([waiting], timeout=seconds)
            finally:
                self._pauses.discard(waiting)
        return self._closed

    async def complete(self, work: Callable[[], Coroutine[object, None, _Result]]) -> _Result:
        """Await the work in a task of its own; if the calling task is cancelled, it ends when the work has ended."""
        task = asyncio.get_running_loop().create_task(work())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            raise

    def repeat(self, work: _Work, *, seconds: float) -> AbstractAsyncContextManager[None]:
        """Return a context manager that does the work every `seconds`, in a task, while its block runs."""
        return _RepeatTask(work, seconds)

    def begin(self, name: str, work: _Work) -> bool:
        """Start background work in a task; False if work of this name is running or the runtime was closed."""
        if self._closed or name in self._running:
            return False
        task = asyncio.get_running_loop().create_task(work(), name=f"turnfold-{name}")
        self._running[name] = task
        task.add_done_callback(lambda _: self._running.pop(name, None))
        return True

    def _working(self) -> list[asyncio.Task[None]]:
        """Return the running tasks; raises `InvalidOption` if one of them runs in another loop that is still open."""
        loop = asyncio.get_running_loop()
        working = [task for task in self._running.values() if not task.get_loop().is_closed()]
        if any(task.get_loop() is not loop for task in working):
            raise InvalidOption(
                "background work of this memory is running in another event loop: close the memory in that loop, or "
                "after that loop has ended"
            )
        return working

    async def wait(self) -> None:
        """Wait for the tasks of this loop that are running now; raises `InvalidOption` if some are in another loop."""
        await asyncio.gather(*self._working(), return_exceptions=True)

    async def finish(self, *, cancel: bool = False) -> None:
        """Start no further tasks, end the pauses of this loop, and wait for its tasks.

        Raises `InvalidOption` if some run in another loop.
        """
        working = self._working()
        self._closed = True
        for waiting in self._pauses:
            if waiting.get_loop() is asyncio.get_running_loop() and not waiting.done():
                waiting.set_result(None)
        if cancel and not self._stopping:  # a fold cancelled twice would not release its lease
            self._stopping = True
            for task in working:
                task.cancel()
        await asyncio.gather(*working, return_exceptions=True)
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None


class LimitedRuntime:
    """A runtime that shares everything with another runtime, but computes at most `most` functions at once.

    A service has one for each tenant, so that the computations of one tenant cannot take all threads from the others.
    """

    def __init__(self, inner: Runtime, *, most: int) -> None:
        self._inner = inner
        self._places = asyncio.Semaphore(most)

    @property
    def stopping(self) -> bool:
        """True if background work has been told to stop."""
        return self._inner.stopping

    def lock(self) -> AbstractAsyncContextManager[None]:
        """Return a new lock of the shared runtime; it is not reentrant."""
        return self._inner.lock()

    async def ask(self, question: Callable[[], object], *, seconds: float) -> object:
        """Call a user's function, await its result if needed, and return it; TimeoutError after `seconds`."""
        return await self._inner.ask(question, seconds=seconds)

    async def compute(self, work: Callable[[], _Result]) -> _Result:
        """Run a long computation without blocking the event loop; waits while `most` others are running."""
        async with self._places:
            return await self._inner.compute(work)

    async def each(self, jobs: Sequence[_Work], *, parallel: int) -> None:
        """Run all jobs, at most `parallel` at once; when all have ended, raise the first error if there was one."""
        await self._inner.each(jobs, parallel=parallel)

    async def pause(self, seconds: float) -> bool:
        """Wait for some seconds; return True at once if the shared runtime is closed before or meanwhile."""
        return await self._inner.pause(seconds)

    async def complete(self, work: Callable[[], Coroutine[object, None, _Result]]) -> _Result:
        """Await work to its end, even if the calling task is cancelled; the cancellation takes effect afterwards."""
        return await self._inner.complete(work)

    def repeat(self, work: _Work, *, seconds: float) -> AbstractAsyncContextManager[None]:
        """Return a context manager that does the work every `seconds` in the background while its block runs."""
        return self._inner.repeat(work, seconds=seconds)

    def begin(self, name: str, work: _Work) -> bool:
        """Start background work in the shared runtime; False if work of this name is running or it was closed."""
        return self._inner.begin(name, work)

    async def wait(self) -> None:
        """Wait for the background work of the shared runtime."""
        await self._inner.wait()

    async def finish(self, *, cancel: bool = False) -> None:
        """Close the shared runtime and wait for all background work; if `cancel` is True, tell it to stop first."""
        await self._inner.finish(cancel=cancel)


class _Question:
    """A call of a function in a thread; the caller may stop waiting for it."""

    def __init__(self, question: Callable[[], object], loop: LoopThread) -> None:
        self._question = question
        self._loop = loop
        self._given_up = threading.Event()
        self._future: Future[object] | None = None
        self.done = threading.Event()
        self.answer: object = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Call the function and store its result or error."""
        try:
            found = self._question()
            if self._given_up.is_set():
                _discard(found)
            elif inspect.isawaitable(found):
                self._future = self._loop.start(found)
                if self._given_up.is_set():  # the caller gave up after the check above
                    self._future.cancel()
                self.answer = self._future.result()
            else:
                self.answer = found
        except BaseException as raised:
            self.error = raised
        finally:
            self.done.set()

    def give_up(self) -> None:
        """Stop waiting for the function's result, and cancel the awaitable that it returned."""
        self._given_up.set()
        if self._future is not None:
            self._future.cancel()


class LoopThread:
    """An event loop in a thread, started when it is first needed."""

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self, found: Awaitable[object]) -> Future[object]:
        """Start to await an object in the loop's thread and return a future; callable from any thread."""
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._loop,), name="turnfold-loop", daemon=True
                )
                self._thread.start()
        return asyncio.run_coroutine_threadsafe(_awaited(found), self._loop)

    def stop(self) -> None:
        """Cancel the running tasks and end the loop; the next call of `start` begins a new loop."""
        with self._starting:
            loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            if self._thread is not threading.current_thread():
                self._thread.join(_JOIN_TIMEOUT)

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_forever()
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.wait(left))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()


def _discard(found: object) -> None:
    """Close a coroutine that nobody will await, to avoid Python's "never awaited" warning."""
    if inspect.iscoroutine(found) and not found.cr_running:
        found.close()


async def _awaited(found: Awaitable[object]) -> object:
    return await found


class _ThreadLock:
    """An `async with` lock for threads; `drive()` releases it even if the call is interrupted."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # `drive` needs it to refuse a release by another thread
        self._opened_in = os.getpid()

    async def __aenter__(self) -> None:
        # After a fork the lock may be held by a thread that exists only in the parent.
        if os.getpid() != self._opened_in:
            raise WrongProcess(
                f"this memory was opened in process {self._opened_in} and is used in its fork {os.getpid()}: open a "
                "new one after the fork, in each process that uses it"
            )
        _held.locks.append(self._lock)
        self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()
        _held.locks.remove(self._lock)


class _TaskLock:
    """An `async with` lock for tasks; it can be used in another event loop after the first one has ended.

    It can be used in one loop at a time: tasks of two loops cannot wait for each other, so using it in a second loop
    raises `InvalidOption`.
    """

    def __init__(self) -> None:
        self._switching = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()
        self._users = 0
        """Tasks of the loop that hold the lock or wait for it."""
        self._holder: asyncio.Task[object] | None = None

    async def __aenter__(self) -> None:
        lock = self._enter(asyncio.get_running_loop())
        try:
            await lock.acquire()
        except BaseException:
            self._leave(lock)
            raise
        self._holder = asyncio.current_task()

    async def __aexit__(self, *_: object) -> None:
        if self._holder is None or self._holder is not _current_task():
            return  # its loop ended while it held the lock: the lock is gone with the loop
        lock, self._holder = self._lock, None
        lock.release()
        self._leave(lock)

    def _enter(self, loop: asyncio.AbstractEventLoop) -> asyncio.Lock:
        with self._switching:
            if self._loop is not loop:
                before = self._loop
                if before is not None and self._users and not before.is_closed():
                    raise InvalidOption(
                        "this session is in use in another event loop: give each loop its own memory, or use the loops "
                        "one after the other"
                    )
                self._loop, self._lock = loop, asyncio.Lock()
                self._users, self._holder = 0, None
            self._users += 1
            return self._lock

    def _leave(self, lock: asyncio.Lock) -> None:
        with self._switching:
            if lock is self._lock:
                self._users -= 1


class _RepeatThread:
    """Does some work every few seconds in a thread; `drive()` ends it even if the call is interrupted."""

    def __init__(self, work: _Work, seconds: float) -> None:
        self._work, self._seconds = work, seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="turnfold-repeat", daemon=True)

    def release(self) -> None:
        """Stop the thread's repeated work, without waiting for the work that is being done."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            drive(self._work())

    async def __aenter__(self) -> None:
        _held.locks.append(self)
        self._thread.start()

    async def __aexit__(self, *_: object) -> None:
        self.release()
        with suppress(ValueError):
            _held.locks.remove(self)
        self._thread.join()


class _RepeatTask:
    """Does some work every few seconds in a task."""

    def __init__(self, work: _Work, seconds: float) -> None:
        self._work, self._seconds = work, seconds
        self._task: asyncio.Task[None] | None = None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            await self._work()

    async def __aenter__(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="turnfold-repeat")

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        task, self._task = self._task, None
        if task is None or task.get_loop().is_closed():
            return
        task.cancel()
        if kind is None or not issubclass(kind, GeneratorExit):  # which nothing may be awaited in
            await asyncio.wait([task])


def _current_task() -> asyncio.Task[object] | None:
    """Return the running task; None in a coroutine that is closed after its loop has ended."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
