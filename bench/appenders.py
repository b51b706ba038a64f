"""What appenders of peers have in common: writers that are tasks of one event loop, or threads that block.

A peer's file says how one turn is written; who writes at the same time is decided here, alike for everybody. The first
failure of a writer is raised once all of them have ended.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from bench.contender import Told, Turn

__all__ = ("TaskAppender", "ThreadAppender")

_Answer = TypeVar("_Answer")


class TaskAppender(ABC):
    """Writers are tasks of one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    @abstractmethod
    async def write(self, turn: Turn) -> None:
        """Store one turn; it is durable when this returns."""

    def append(self, writers: Sequence[Iterable[Turn]], told: Told) -> None:
        """All writers at once."""
        self.run(self._all(writers, told))

    def run(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Wait for something that is not timed."""
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        """Let go of the loop; a peer with more to let go of does so before."""
        self._loop.close()

    async def _all(self, writers: Sequence[Iterable[Turn]], told: Told) -> None:
        ended = await asyncio.gather(
            *(self._one(turns, told) for turns in writers), return_exceptions=True
        )
        for failure in filter(None, ended):
            raise failure

    async def _one(self, turns: Iterable[Turn], told: Told) -> None:
        for turn in turns:
            await self.write(turn)
            told(turn)


class ThreadAppender(ABC):
    """Writers are threads; a single one writes in the thread it is called in."""

    @abstractmethod
    def write(self, turn: Turn) -> None:
        """Store one turn; it is durable when this returns."""

    def append(self, writers: Sequence[Iterable[Turn]], told: Told) -> None:
        """All writers at once."""
        if len(writers) == 1:
            self._one(writers[0], told)
            return
        failures: list[Exception] = []
        threads = [
            threading.Thread(target=self._kept, args=(turns, told, failures)) for turns in writers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def _one(self, turns: Iterable[Turn], told: Told) -> None:
        for turn in turns:
            self.write(turn)
            told(turn)

    def _kept(self, turns: Iterable[Turn], told: Told, failures: list[Exception]) -> None:
        try:
            self._one(turns, told)
        except Exception as failure:
            failures.append(failure)
