"""How a case of the store suite is run: written once as a coroutine, driven as the store under test works.

A blocking store never suspends, so its coroutines are driven in place and its concurrency is threads; any other
store runs in an event loop and its concurrency is tasks. Cases do not know which: they are given a `Trial`.
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

from turnfold.memory.drive import drive
from turnfold.stores import Ability, Store
from turnfold.testing.store_conformance_values import character_counter
from turnfold.tokens import TokenCounter

__all__ = ("PATIENCE", "Clock", "OpenStore", "StoreCases", "Trial", "case", "drive")

PATIENCE = 60.0
"""Seconds after which a caller who is still waiting is taken to wait forever."""

_Result = TypeVar("_Result")
_Cases = TypeVar("_Cases")
_Options = ParamSpec("_Options")


class OpenStore(Protocol):
    """What a backend's author writes: a new handle on the store at a place."""

    def __call__(
        self,
        place: Path,
        *,
        counter: TokenCounter | None = None,
        clock: Callable[[], int] | None = None,
    ) -> Store:
        """Open the store at `place`."""
        ...


class Clock:
    """Time that only a test moves: one microsecond per look, or wherever it is set."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000
        self.step = 1

    def __call__(self) -> int:
        """What time it is; later by `step` when asked again."""
        self.now += self.step
        return self.now


class Trial:
    """One case's store, how to run it, and how to open it again."""

    def __init__(self, open_store: OpenStore, folder: Path, *, blocking: bool) -> None:
        self.blocking = blocking
        self.folder = folder
        """Everything the stores of this trial write to disk is below it."""
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
        """Another handle; on the same store when the place is the same and the backend is shared or durable."""
        store = self._open_store(
            self.folder / place, counter=counter or character_counter(), clock=clock or self.clock
        )
        self._opened.append(store)
        return store

    async def reopen(self, *, counter: TokenCounter | None = None) -> Store:
        """Close the store and open it again at the same place; a store that forgets skips the case."""
        self.need(Ability.DURABLE)
        await self.store.close()
        self.store = self.open(counter=counter)
        return self.store

    def need(self, ability: Ability) -> None:
        """Skip the case when the backend does not claim this ability."""
        if ability not in self.store.abilities:
            pytest.skip(f"the backend does not claim the ability {ability.value!r}")

    def fresh(self, word: str) -> str:
        """A name this trial has not used before."""
        return f"{word}-{next(self._numbers)}"

    def run(self, work: Coroutine[object, None, _Result]) -> _Result:
        """Run a coroutine to its end; called from synchronous code only."""
        if self._loop is None:
            return drive(work)
        return self._loop.run(_patiently(work))

    async def together(
        self, jobs: Sequence[Callable[[], Coroutine[object, None, _Result]]]
    ) -> list[_Result | Exception]:
        """Run jobs at the same time, as threads or as tasks; what each returned or raised, in the order given."""
        if self.blocking:
            return _in_threads(jobs)
        outcomes = await asyncio.gather(*(job() for job in jobs), return_exceptions=True)
        return [_expected(outcome) for outcome in outcomes]

    def finish(self) -> None:
        """Close every handle, which closing twice allows."""
        try:
            for store in self._opened:
                self.run(store.close())
        finally:
            if self._loop is not None:
                self._loop.close()


class StoreCases(ABC):
    """What every group of cases stands on: a backend says how it is opened, and whether it blocks."""

    blocking: ClassVar[bool] = False
    """Whether `open_store` gives stores that never suspend: their coroutines are driven without an event loop."""
    examples: ClassVar[int] = 20
    """How many random examples each property is tried with."""

    @abstractmethod
    def open_store(
        self,
        place: Path,
        *,
        counter: TokenCounter | None = None,
        clock: Callable[[], int] | None = None,
    ) -> Store:
        """Open the store at `place`: empty for a new place, for a durable store as it was left for a known one."""

    @pytest.fixture
    def trial(self, tmp_path: Path) -> Iterator[Trial]:
        """The store of one case, in a folder of its own."""
        trial = Trial(self.open_store, tmp_path, blocking=self.blocking)
        try:
            yield trial
        finally:
            trial.finish()


def case(
    body: Callable[Concatenate[_Cases, Trial, _Options], Coroutine[object, None, None]],
) -> Callable[Concatenate[_Cases, Trial, _Options], None]:
    """Make a case of a coroutine: run as the store under test works."""

    @wraps(body)
    def run_case(
        self: _Cases, trial: Trial, *args: _Options.args, **kwargs: _Options.kwargs
    ) -> None:
        trial.run(body(self, trial, *args, **kwargs))

    return run_case


async def _patiently(work: Coroutine[object, None, _Result]) -> _Result:
    async with asyncio.timeout(PATIENCE):
        return await work


def _expected(outcome: _Result | BaseException) -> _Result | Exception:
    if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
        raise outcome
    return outcome


def _in_threads(
    jobs: Sequence[Callable[[], Coroutine[object, None, _Result]]],
) -> list[_Result | Exception]:
    outcomes: dict[int, _Result | Exception] = {}
    start = threading.Barrier(len(jobs))

    def work(index: int) -> None:
        start.wait(PATIENCE)
        try:
            outcomes[index] = drive(jobs[index]())
        except Exception as error:
            outcomes[index] = error

    # Daemons: a caller who waits forever must fail the case, not keep the interpreter alive.
    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(len(jobs))]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + PATIENCE
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))
    waiting = len(jobs) - len(outcomes)
    if waiting:
        raise AssertionError(f"{waiting} of {len(jobs)} callers still wait after {PATIENCE:g} s")
    return [outcomes[index] for index in range(len(jobs))]
