"""Runner of the store cases: a case is written once as a coroutine and runs on blocking and on asynchronous stores.

A blocking store never suspends, so its coroutines run without an event loop and concurrency means threads; any other
store runs in an event loop and concurrency means tasks. A case need not know which of the two is used: it gets a
`Trial`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import wraps
from itertools import count
from pathlib import Path
from typing import ClassVar, Concatenate, ParamSpec, Protocol, TypeVar

import pytest

from turnfold.runtime import drive
from turnfold.stores import Ability, Store
from turnfold.testing.stores.sample_values import character_counter
from turnfold.tokens import TokenCounter

__all__ = ("HANG_SECONDS", "Clock", "OpenStore", "StoreCases", "Trial", "case")


HANG_SECONDS = 60.0
"""Seconds after which a caller that still waits makes the test case fail."""

_Result = TypeVar("_Result")
_Cases = TypeVar("_Cases")
_Options = ParamSpec("_Options")


class OpenStore(Protocol):
    """The function that opens the store at a place; the author of a store writes it."""

    def __call__(
        self,
        place: Path,
        *,
        counter: TokenCounter | None = None,
        clock: Callable[[], int] | None = None,
    ) -> Store:
        """Open the store of a test case at `place`, with this token counter and clock."""
        ...


class Clock:
    """A clock controlled by the test: it advances by `step` microseconds per call."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000
        self.step = 1

    def __call__(self) -> int:
        """Return the time in microseconds; each call advances it by `step`."""
        self.now += self.step
        return self.now


class Trial:
    """The store of one test case, with methods to run coroutines and to open the store again."""

    def __init__(self, open_store: OpenStore, folder: Path, *, blocking: bool) -> None:
        self.blocking = blocking
        self.folder = folder
        """All files of the stores of this trial are in this folder."""
        self.clock = Clock()
        self._open_store = open_store
        self._opened: list[Store] = []
        self._loop = None if blocking else asyncio.Runner()
        self._numbers = count(1)
        self.store = self.open()

    def open(
        self,
        place: str = "store",
        *,
        counter: TokenCounter | None = None,
        clock: Clock | None = None,
    ) -> Store:
        """Open another handle at a place; at the same place it has the same data if the store is shared or durable."""
        store = self._open_store(
            self.folder / place, counter=counter or character_counter(), clock=clock or self.clock
        )
        self._opened.append(store)
        return store

    async def reopen(self, *, counter: TokenCounter | None = None) -> Store:
        """Close the store and open it again at the same place; skip the case if the store is not durable."""
        self.need(Ability.DURABLE)
        await self.store.close()
        self.store = self.open(counter=counter)
        return self.store

    def need(self, ability: Ability) -> None:
        """Skip the test case if the store's backend does not have this ability."""
        if ability not in self.store.abilities:
            pytest.skip(f"the backend does not claim the ability {ability.value!r}")

    def fresh(self, word: str) -> str:
        """Return a name made of `word` that this trial has not used before."""
        return f"{word}-{next(self._numbers)}"

    def run(self, work: Coroutine[object, None, _Result]) -> _Result:
        """Run a coroutine to its end; for synchronous code only."""
        if self._loop is None:
            return drive(work)
        return self._loop.run(_with_timeout(work))

    async def together(
        self, jobs: Sequence[Callable[[], Coroutine[object, None, _Result]]]
    ) -> list[_Result | Exception]:
        """Run jobs concurrently, as threads or tasks; return the result or exception of each, in order."""
        if self.blocking:
            return _in_threads(jobs)
        outcomes = await asyncio.gather(*(job() for job in jobs), return_exceptions=True)
        return [_raise_if_fatal(outcome) for outcome in outcomes]

    def finish(self) -> None:
        """Close all stores that the trial has opened."""
        try:
            for store in self._opened:
                self.run(store.close())
        finally:
            if self._loop is not None:
                self._loop.close()


class StoreCases(ABC):
    """Base class of all groups of test cases; a subclass says how the store is opened, and if it is blocking."""

    blocking: ClassVar[bool] = False
    """True if `open_store` returns stores that never suspend: their coroutines run without an event loop."""
    examples: ClassVar[int] = 20
    """Number of random examples per property."""

    @abstractmethod
    def open_store(
        self,
        place: Path,
        *,
        counter: TokenCounter | None = None,
        clock: Callable[[], int] | None = None,
    ) -> Store:
        """Open the store at `place`. A new place is empty; a durable store has its data at a place used before."""

    @pytest.fixture
    def trial(self, tmp_path: Path) -> Iterator[Trial]:
        """Pytest fixture: yield the `Trial` (store) of one test case, in a new folder."""
        trial = Trial(self.open_store, tmp_path, blocking=self.blocking)
        try:
            yield trial
        finally:
            trial.finish()


def case(
    body: Callable[Concatenate[_Cases, Trial, _Options], Coroutine[object, None, None]],
) -> Callable[Concatenate[_Cases, Trial, _Options], None]:
    """Make a test case of a coroutine; it runs with or without an event loop, as the store under test requires."""

    @wraps(body)
    def run_case(
        self: _Cases, trial: Trial, *args: _Options.args, **kwargs: _Options.kwargs
    ) -> None:
        trial.run(body(self, trial, *args, **kwargs))

    return run_case


async def _with_timeout(work: Coroutine[object, None, _Result]) -> _Result:
    async with asyncio.timeout(HANG_SECONDS):
        return await work


def _raise_if_fatal(outcome: _Result | BaseException) -> _Result | Exception:
    if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
        raise outcome
    return outcome


def _in_threads(
    jobs: Sequence[Callable[[], Coroutine[object, None, _Result]]],
) -> list[_Result | Exception]:
    outcomes: dict[int, _Result | Exception] = {}
    start = threading.Barrier(len(jobs))

    def work(index: int) -> None:
        start.wait(HANG_SECONDS)
        try:
            outcomes[index] = drive(jobs[index]())
        except Exception as error:
            outcomes[index] = error

    # Daemons: a caller that hangs must fail the case, not keep the interpreter alive.
    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(len(jobs))]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + HANG_SECONDS
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))
    waiting = len(jobs) - len(outcomes)
    if waiting:
        raise AssertionError(
            f"{waiting} of {len(jobs)} callers still waited after {HANG_SECONDS:g} s"
        )
    return [outcomes[index] for index in range(len(jobs))]
