"""Keeps one tenant from taking the processor from the others: places for requests, and counting off the event loop.

Requests of a tenant beyond its number wait for its own, first come first served, and too many of those are refused.
Requests that search, rank, count or fold have a smaller number of their own: what they compute shares the processor
with everybody. A request that takes too long is cancelled.

The tokens of a long text are counted in a thread before it is stored, and remembered for a moment, so that neither the
store nor the session counts it on the event loop (`CountedTexts`). The counting itself needs no interpreter lock.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from turnfold.errors import LimitExceeded
from turnfold.records import Message
from turnfold.service.limits import Limits
from turnfold.tokens import TextCounter, TokenCounter, token_executor

__all__ = ("CountedTexts", "RequestSlots", "count_ahead", "with_counted_texts")


_RETRY_SECONDS: Final = 1.0
_LONG_TEXT: Final = 10_000
"""Characters of a text that is counted off the event loop."""
_REMEMBERED: Final = 16_000_000
"""Characters of counted texts that are remembered together."""


class CountedTexts:
    """A text counter that remembers the newest long texts it counted."""

    def __init__(self, inner: TextCounter) -> None:
        self.name = inner.name
        self.certainty = inner.certainty
        self._count = inner.count
        self._lock = Lock()
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._characters = 0

    def count(self, text: str) -> int:
        """Return the tokens of a text."""
        if len(text) < _LONG_TEXT:
            return self._count(text)
        known = self._counts.get(text)
        if known is not None:
            return known
        tokens = self._count(text)
        with self._lock:
            if text not in self._counts:
                self._counts[text] = tokens
                self._characters += len(text)
            while self._characters > _REMEMBERED and len(self._counts) > 1:
                oldest, _ = self._counts.popitem(last=False)
                self._characters -= len(oldest)
        return tokens


def with_counted_texts(counter: TokenCounter) -> TokenCounter:
    """Return a counter with the same results that remembers long texts; a counter of another kind is left as it is."""
    if type(counter) is not TokenCounter:
        return counter
    texts = CountedTexts(counter.text)
    return TokenCounter(texts, framing=counter.framing, images=counter.images)


async def count_ahead(counter: TokenCounter, messages: Sequence[Message]) -> None:
    """Count the long messages in a thread, so that they need not be counted on the event loop."""
    long = [each for each in messages if len(each.text) >= _LONG_TEXT]
    if long:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(token_executor(), counter.count_messages, long)


@dataclass(slots=True)
class _Lane:
    """The requests of one tenant."""

    light: asyncio.Semaphore
    heavy: asyncio.Semaphore
    inside: int = 0
    """Requests that run or wait."""


@dataclass(slots=True)
class RequestSlots:
    """Places for the requests of each tenant."""

    limits: Limits
    _lanes: dict[str, _Lane] = field(default_factory=dict[str, _Lane])
    """By tenant, while it has requests."""

    @asynccontextmanager
    async def hold(self, tenant: str, *, heavy: bool) -> AsyncGenerator[None]:
        """Wait for a place and hold it; raises `LimitExceeded` if too many wait, or if it is held for too long."""
        limits = self.limits
        lane = self._lanes.get(tenant)
        if lane is None:
            light, few = (asyncio.Semaphore(n) for n in (limits.concurrent, limits.heavy))
            lane = self._lanes[tenant] = _Lane(light, few)
        if lane.inside >= limits.concurrent + limits.queued:
            raise LimitExceeded(
                f"{lane.inside} requests of this tenant run or wait, the limit is {lane.inside}; try again later",
                allowed=limits.concurrent + limits.queued,
                used=lane.inside,
                asked=1,
                again=_RETRY_SECONDS,
            )
        lane.inside += 1
        try:
            async with lane.heavy if heavy else lane.light:
                deadline = asyncio.timeout(limits.request_seconds)
                try:
                    async with deadline:
                        yield
                except TimeoutError:
                    if not deadline.expired():
                        raise
                    raise LimitExceeded(
                        f"the request took longer than {limits.request_seconds:g} s and was cancelled; ask for less",
                        allowed=limits.request_seconds,
                        status=503,
                    ) from None
        finally:
            lane.inside -= 1
            if not lane.inside:
                del self._lanes[tenant]
