"""A verb that is cancelled at a chosen await, so that a test can go through all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any

__all__ = ("CancelledAt",)


class CancelledAt:
    """A verb whose task is cancelled just when it waits for the n-th time."""

    def __init__(self, verb: Coroutine[Any, Any, object], point: int) -> None:
        self._verb, self._point = verb, point
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, object]:
        steps = self._verb.__await__()
        resume: Callable[[Any], Any] = steps.send
        value: Any = None
        while True:
            try:
                waited = resume(value)
            except StopIteration as done:
                return done.value
            self.waits += 1
            if self.waits == self._point:
                task = asyncio.current_task()
                assert task
                task.cancel()
            try:
                value, resume = (yield waited), steps.send
            except BaseException as error:
                value, resume = error, steps.throw
