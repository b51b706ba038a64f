"""One contender at one size: the window for the next call, cold from a list of messages and warm after one more."""

from __future__ import annotations

from collections.abc import Sequence
from time import process_time
from typing import Any

from bench.contender import Contender, Session
from bench.judge import Record, call_due
from bench.workload import stretch

__all__ = ("Lane",)


class Lane:
    """A conversation that is held by one contender and goes on."""

    def __init__(
        self, contender: Contender, *, size: int, longest: int, tail: int, budget: int, zh: float
    ) -> None:
        talk = stretch(size, tail=tail, longest=longest, zh=zh)
        converted = contender.convert([*talk.history, *talk.tail])
        self._contender = contender
        self._budget = budget
        self._tail = talk.tail
        self._messages = converted[:-tail]
        self._arriving = converted[-tail:]
        self._session: Session | None = None
        self._taken = 0
        self._record = Record()

    def cold(self) -> float:
        """Processor seconds of one cold call; its conversation is the one that goes on."""
        begin = process_time()
        self._session = self._contender.open(self._messages, self._budget)
        self._session.window()
        seconds = process_time() - begin
        self._taken = 0
        return seconds

    def round(self, calls: int) -> list[float]:
        """Processor seconds of warm calls, each judged after it was timed."""
        assert self._session is not None
        samples: list[float] = []
        for _ in range(min(calls, len(self._arriving) - self._taken)):
            message = self._arriving[self._taken]
            begin = process_time()
            self._session.add(message)
            window = self._session.window()
            samples.append(process_time() - begin)
            self._judge(window)
        return samples

    def record(self) -> Record:
        """How its windows were."""
        return self._record

    def _judge(self, window: Sequence[Any]) -> None:
        self._taken += 1
        said = self._tail[: self._taken]
        if call_due(said):
            items = self._contender.read(window)
            self._record.judge(items, newest=said[-1], budget=self._budget)
