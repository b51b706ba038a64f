"""Two ways of waiting, so that everything that waits is written once.

The same coroutines serve programs with and without an event loop. What differs is small: how to keep others out, how to
ask a model, how to pause, how to work in the background. Each is a method here, once for a program that blocks and once
for one that awaits; no other module asks which of the two it runs in.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from turnfold.errors import InvalidOption, WrongProcess
from turnfold.memory.drive import drive, held_locks

__all__ = ("AwaitingWay", "BlockingWay", "Way")

_PATIENCE = 5.0
"""Seconds a loop that was told to end is waited for: a task may refuse to be cancelled."""
_Work = Callable[[], Coroutine[object, None, None]]


class Way(Protocol):
    """How to wait."""

    def turnstile(self) -> AbstractAsyncContextManager[None]:
        """Something that lets one through at a time; the same one may not enter twice."""
        ...

    async def ask(self, question: Callable[[], object], *, seconds: float) -> object:
        """What a caller's own function answers, awaited if it is a coroutine; TimeoutError after `seconds`."""
        ...

    async def each(self, jobs: Sequence[_Work], *, parallel: int) -> None:
        """Do all jobs, at most `parallel` at once; when all are done, raise what the first that failed raised."""
        ...

    async def pause(self, seconds: float) -> None:
        """Wait; cut short when background work is told to stop."""
        ...

    def begin(self, name: str, work: _Work) -> bool:
        """Work in the background, unless work of this name is under way or this way has been closed."""
        ...

    async def finish(self, *, cancel: bool = False) -> None:
        """Wait for all background work; with `cancel`, tell it to stop first."""
        ...

    @property
    def stopping(self) -> bool:
        """Whether background work has been told to stop."""
        ...


class BlockingWay:
    """For programs without an event loop: threads."""

    def __init__(self) -> None:
        self._working: dict[str, threading.Thread] = {}
        self._entering = threading.Lock()
        self._stop = threading.Event()
        self._loop = _LoopThread()
        self._closed = False

    @property
    def stopping(self) -> bool:
        """Whether background work has been told to stop."""
        return self._stop.is_set()

    def turnstile(self) -> AbstractAsyncContextManager[None]:
        """A thread lock."""
        return _ThreadTurnstile()

    async def ask(self, question: Callable[[], object], *, seconds: float) -> object:
        """Ask in a thread of its own, so that it can be given up.

        What has to be awaited is awaited in one loop that all questions share: a client's connections live in the loop
        they were made in.
        """
        asked = _Asked(question, self._loop)
        give_up = time.monotonic() + seconds
        try:
            threading.Thread(target=asked.run, name="turnfold-ask", daemon=True).start()
            while not asked.done.wait(min(0.1, max(give_up - time.monotonic(), 0.0))):
                self._go_on_until(give_up, seconds)
        except BaseException:  # Ctrl-C too: nobody waits for it any more
            asked.give_up()
            raise
        if asked.error is not None:
            raise asked.error
        return asked.answer

    def _go_on_until(self, give_up: float, seconds: float) -> None:
        if self._stop.is_set() or time.monotonic() >= give_up:
            raise TimeoutError(f"no answer within {seconds:g} s")

    async def each(self, jobs: Sequence[_Work], *, parallel: int) -> None:
        """A thread for each of the first `parallel`; whoever is done takes the next."""
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
                threading.Thread(
                    target=run, args=(ended,), name="turnfold-job", daemon=True
                ).start()
            for ended in ends:
                while not ended.wait(0.1):
                    pass  # a wait without end cannot be interrupted everywhere
        except BaseException:  # Ctrl-C: what is under way cannot be stopped, the rest is not begun
            waiting.clear()
            raise
        if errors:
            raise errors[0]

    async def pause(self, seconds: float) -> None:
        """Wait until told to stop."""
        self._stop.wait(seconds)

    def begin(self, name: str, work: _Work) -> bool:
        """A thread per piece of work."""
        with self._entering:
            if self._closed or name in self._working:
                return False

            def run() -> None:
                try:
                    drive(work())
                finally:
                    with self._entering:
                        self._working.pop(name, None)

            thread = threading.Thread(target=run, name=f"turnfold-{name}", daemon=True)
            self._working[name] = thread
            thread.start()
            return True

    async def finish(self, *, cancel: bool = False) -> None:
        """Join the threads."""
        with self._entering:
            self._closed = True
            working = list(self._working.values())
        if cancel:
            self._stop.set()
        for thread in working:
            if thread is not threading.current_thread():
                thread.join()
        self._loop.stop()


class AwaitingWay:
    """For programs with an event loop: tasks."""

    def __init__(self) -> None:
        self._working: dict[str, asyncio.Task[None]] = {}
        self._closed = False
        self._stopping = False

    @property
    def stopping(self) -> bool:
        """Whether background work has been told to stop."""
        return self._stopping

    def turnstile(self) -> AbstractAsyncContextManager[None]:
        """A lock of the running loop."""
        return _TaskTurnstile()

    async def ask(self, question: Callable[[], object], *, seconds: float) -> object:
        """Await it; a plain function is called in a thread, so that it does not hold up the loop."""
        if inspect.iscoroutinefunction(question):
            async with asyncio.timeout(seconds):
                return await question()
        given_up, answers = threading.Event(), list[object]()

        def ask() -> None:
            answers.append(question())
            if given_up.is_set():
                _let_go(answers[0])

        try:
            async with asyncio.timeout(seconds):
                await asyncio.to_thread(ask)
                [found] = answers
                return await _awaited(found) if inspect.isawaitable(found) else found
        except BaseException:
            given_up.set()
            for late in answers:
                _let_go(late)
            raise

    async def each(self, jobs: Sequence[_Work], *, parallel: int) -> None:
        """A task for each, a semaphore for all; cancelling this cancels them."""
        gate = asyncio.Semaphore(parallel)

        async def run(job: _Work) -> None:
            async with gate:
                await job()

        done = await asyncio.gather(*map(run, jobs), return_exceptions=True)
        for error in done:
            if isinstance(error, BaseException):
                raise error

    async def pause(self, seconds: float) -> None:
        """Sleep."""
        await asyncio.sleep(seconds)

    def begin(self, name: str, work: _Work) -> bool:
        """A task per piece of work."""
        if self._closed or name in self._working:
            return False
        task = asyncio.get_running_loop().create_task(work(), name=f"turnfold-{name}")
        self._working[name] = task
        task.add_done_callback(lambda _: self._working.pop(name, None))
        return True

    async def finish(self, *, cancel: bool = False) -> None:
        """Gather the tasks; those of a loop that has ended are over, those of another that runs are refused."""
        loop = asyncio.get_running_loop()
        working = [task for task in self._working.values() if not task.get_loop().is_closed()]
        if any(task.get_loop() is not loop for task in working):
            raise InvalidOption(
                "a fold of this memory is under way in another event loop: close the memory in that loop, or when it "
                "has ended"
            )
        self._closed = True
        if cancel and not self._stopping:  # told twice, a fold would not give its lease back
            self._stopping = True
            for task in working:
                task.cancel()
        await asyncio.gather(*working, return_exceptions=True)


class _Asked:
    """A question that is being answered in a thread, and may be given up."""

    def __init__(self, question: Callable[[], object], loop: _LoopThread) -> None:
        self._question = question
        self._loop = loop
        self._given_up = threading.Event()
        self._future: Future[object] | None = None
        self.done = threading.Event()
        self.answer: object = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Ask, and keep what comes of it."""
        try:
            found = self._question()
            if self._given_up.is_set():
                _let_go(found)
            elif inspect.isawaitable(found):
                self._future = self._loop.start(found)
                if self._given_up.is_set():  # between the question and here
                    self._future.cancel()
                self.answer = self._future.result()
            else:
                self.answer = found
        except BaseException as raised:
            self.error = raised
        finally:
            self.done.set()

    def give_up(self) -> None:
        """Nobody waits any more: what is awaited is cancelled."""
        self._given_up.set()
        if self._future is not None:
            self._future.cancel()


class _LoopThread:
    """An event loop in a thread, started when it is first needed."""

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self, found: Awaitable[object]) -> Future[object]:
        """Its answer, in the future; called from another thread."""
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._loop,), name="turnfold-loop", daemon=True
                )
                self._thread.start()
        return asyncio.run_coroutine_threadsafe(_awaited(found), self._loop)

    def stop(self) -> None:
        """Cancel what still runs and let the loop end; the next question starts another."""
        with self._starting:
            loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            if self._thread is not threading.current_thread():
                self._thread.join(_PATIENCE)

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


def _let_go(found: object) -> None:
    """Nobody waits for it any more: a coroutine that was never begun is closed, or Python would complain."""
    if inspect.iscoroutine(found) and not found.cr_running:
        found.close()


async def _awaited(found: Awaitable[object]) -> object:
    return await found


class _ThreadTurnstile:
    """A reusable `async with` over a thread lock; the call that takes it releases it, however it ends."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # it knows its owner, which `drive` relies on
        self._opened_in = os.getpid()

    async def __aenter__(self) -> None:
        if (
            os.getpid() != self._opened_in
        ):  # another thread may have held it at the fork: nobody would release it
            raise WrongProcess(
                f"this memory was opened in process {self._opened_in} and is used in process {os.getpid()}, a fork of "
                "it: open it anew after the fork, in each process that uses it"
            )
        held_locks().append(self._lock)
        self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()
        held_locks().remove(self._lock)


class _TaskTurnstile:
    """A reusable `async with` over a task lock; a session may outlive the loop it was first used in.

    One loop at a time: tasks of two loops cannot wait for one another, so the second is refused.
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
            return  # of a loop that ended in the middle: its lock is gone with it
        lock, self._holder = self._lock, None
        lock.release()
        self._leave(lock)

    def _enter(self, loop: asyncio.AbstractEventLoop) -> asyncio.Lock:
        with self._switching:
            if self._loop is not loop:
                before = self._loop
                if before is not None and self._users and not before.is_closed():
                    raise InvalidOption(
                        "this session is in use in another event loop: give each loop a memory of its own, or use one "
                        "after the other"
                    )
                self._loop, self._lock = loop, asyncio.Lock()
                self._users, self._holder = 0, None
            self._users += 1
            return self._lock

    def _leave(self, lock: asyncio.Lock) -> None:
        with self._switching:
            if lock is self._lock:
                self._users -= 1


def _current_task() -> asyncio.Task[object] | None:
    """The task that is running; a coroutine that is closed after its loop has ended is in none."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
