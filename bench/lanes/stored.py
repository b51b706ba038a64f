"""One contender at one size: the window for the next call from a file, by somebody new and after one more message.

Timed by the clock, because durable writes wait for the disk; processor time stands beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

from bench.contender import Stored, StoredSession
from bench.judge import Record, call_due
from bench.workload import stretch

__all__ = ("Lane", "Round")


class Round(NamedTuple):
    """Seconds of the calls of a round."""

    both: list[float]
    """One message appended and the window built, by the clock."""
    window: list[float]
    """The window alone, by the clock."""
    processor: list[float]
    """Of both, all threads of the process."""


class Lane:
    """A conversation in a file."""

    def __init__(
        self,
        contender: Stored,
        *,
        path: Path,
        size: int,
        longest: int,
        tail: int,
        budget: int,
        zh: float,
    ) -> None:
        self._contender = contender
        self._path = path
        self._budget = budget
        talk = stretch(size, tail=tail, longest=longest, zh=zh)
        self._history, self._tail = list(talk.history), talk.tail
        self._session: StoredSession | None = None
        self._taken = 0
        self._record = Record()

    def seed(self) -> None:
        """Store the history."""
        self._contender.seed(self._path, self._history)
        self._history.clear()

    def cold(self) -> float:
        """Seconds by the clock to open the file as somebody new and build a window."""
        self.close()
        begin = perf_counter()
        self._session = self._contender.open(self._path, self._budget)
        self._session.window()
        return perf_counter() - begin

    def round(self, calls: int) -> Round:
        """Warm calls, each judged after it was timed."""
        assert self._session is not None
        found = Round([], [], [])
        for _ in range(min(calls, len(self._tail) - self._taken)):
            item = self._tail[self._taken]
            worked, begin = process_time(), perf_counter()
            self._session.add(item)
            added = perf_counter()
            window = self._session.window()
            end = perf_counter()
            found.processor.append(process_time() - worked)
            found.both.append(end - begin)
            found.window.append(end - added)
            self._judge(window)
        return found

    def asked(self, calls: int) -> dict[str, tuple[float, float]]:
        """What one more call asks of its store, where the contender can tell: by name, times asked and mean seconds."""
        meter = getattr(self._session, "meter", None)
        if meter is None:
            return {}
        before: dict[str, tuple[int, float]] = meter()
        self.round(calls)
        after: dict[str, tuple[int, float]] = meter()
        counts = {name: after[name][0] - before[name][0] for name in before}
        return {
            name: (counts[name] / calls, (after[name][1] - before[name][1]) / max(counts[name], 1))
            for name in before
        }

    def record(self) -> Record:
        """How its windows were."""
        return self._record

    def close(self) -> None:
        """Let go of the file."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _judge(self, window: Sequence[object]) -> None:
        self._taken += 1
        said = self._tail[: self._taken]
        if call_due(said):
            items = self._contender.read(window)
            self._record.judge(items, newest=said[-1], budget=self._budget)
