"""Limits on concurrent requests per tenant, and token counting off the event loop, so that no tenant blocks the others.

Each tenant has a number of requests that may run at once. Further requests wait in the tenant's own queue, first come
first served; when the queue is full, they are refused. Requests that search, rank, count or fold (compact) have a
smaller limit, because their computing slows down everybody. A request that takes too long is cancelled.

The tokens of a long text are counted in a thread before the text is stored, and the count is cached for a moment, so
that neither the store nor the session counts on the event loop (`CountedTexts`). Counting long texts releases the
interpreter lock (`count_without_lock`).
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from turnfold.errors import LimitExceeded
from turnfold.records import Message
from turnfold.runtime import Runtime
from turnfold.service.limits import Limits
from turnfold.tokens import TextCounter, TokenCounter

__all__ = ("BodyMemory", "CountedTexts", "RequestSlots", "count_ahead", "with_counted_texts")


_RETRY_SECONDS: Final = 1.0
_LONG_TEXT: Final = 10_000
"""Least characters of a text whose tokens are counted in a thread instead of on the event loop."""
_REMEMBERED: Final = 16_000_000
"""Most characters of all texts whose token counts are cached, together; beyond that, the oldest are dropped."""


class CountedTexts:
    """Text counter with a cache of its results for the newest long texts."""

    def __init__(self, inner: TextCounter) -> None:
        self.name = inner.name
        self.certainty = inner.certainty
        self._count = inner.count
        self._lock = Lock()
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._characters = 0

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, from the cache if it was counted a moment ago."""
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
    """Return a counter that caches the results for long texts; a counter of another class is returned unchanged."""
    if type(counter) is not TokenCounter:
        return counter
    texts = CountedTexts(counter.text)
    return TokenCounter(texts, framing=counter.framing, images=counter.images)


async def count_ahead(counter: TokenCounter, messages: Sequence[Message], runtime: Runtime) -> None:
    """Count the long messages in a thread; later counts on the event loop then find the result in the cache.

    `runtime` is that of the tenant, so that one tenant does not count on all processors at once.
    """
    long = [each for each in messages if len(each.text) >= _LONG_TEXT]
    if long:
        await runtime.compute(lambda: counter.count_messages(long))


@dataclass(slots=True)
class _Lane:
    """Semaphores that limit the concurrent light and heavy (much computing) requests of one tenant."""

    light: asyncio.Semaphore
    heavy: asyncio.Semaphore
    inside: int = 0
    """Number of requests of the tenant that run or wait."""


@dataclass(slots=True)
class RequestSlots:
    """Limits how many requests of each tenant run at once, and how many wait."""

    limits: Limits
    _lanes: dict[str, _Lane] = field(default_factory=dict[str, _Lane])
    """Tenant -> its semaphores; a tenant without requests has none."""

    @asynccontextmanager
    async def hold(
        self, tenant: str, *, heavy: bool, endless: bool = False
    ) -> AsyncGenerator[None]:
        """Context manager for one request: waits until the tenant may run it; `heavy` requests have a smaller limit.

        Raises `LimitExceeded` at once if the requests of the tenant that run or wait are too many together. A request
        that runs longer than the time limit is cancelled, and `LimitExceeded` is raised; the time that it waits does
        not count. An `endless` request has no time limit.
        """
        limits = self.limits
        lane = self._lanes.get(tenant)
        if lane is None:
            light, few = (asyncio.Semaphore(n) for n in (limits.concurrent, limits.heavy))
            lane = self._lanes[tenant] = _Lane(light, few)
        most = limits.concurrent + limits.queued
        if lane.inside >= most:
            raise LimitExceeded(
                f"{lane.inside} requests of this tenant run or wait, the limit is {most}: try again later",
                allowed=most,
                used=lane.inside,
                asked=1,
                again=_RETRY_SECONDS,
            )
        lane.inside += 1
        try:
            async with lane.heavy if heavy else lane.light:
                deadline = asyncio.timeout(None if endless else limits.request_seconds)
                try:
                    async with deadline:
                        yield
                except TimeoutError:
                    if not deadline.expired():
                        raise
                    raise LimitExceeded(
                        f"the request took longer than {limits.request_seconds:g} s and was cancelled: ask for less",
                        allowed=limits.request_seconds,
                        status=503,
                    ) from None
        finally:
            lane.inside -= 1
            if not lane.inside:
                del self._lanes[tenant]


@dataclass(slots=True)
class BodyMemory:
    """Limits the bytes of the request bodies of a tenant that are in memory at once."""

    most: int
    _held: Counter[str] = field(default_factory=Counter[str])
    """Bytes by tenant; a tenant without any has no entry."""

    @contextmanager
    def hold(self, tenant: str) -> Generator[Callable[[int], None]]:
        """Context manager for one body; yields the function to call with the size of each piece that has arrived.

        That function raises `LimitExceeded` if all bodies of the tenant would have too many bytes together.
        """
        own = 0

        def take(size: int) -> None:
            nonlocal own
            held = self._held[tenant] + size
            if held > self.most:
                raise LimitExceeded(
                    f"the bodies of the requests of this tenant that run have {held:,} bytes, the limit is "
                    f"{self.most:,} bytes: try again later",
                    allowed=self.most,
                    used=held - size,
                    asked=size,
                    unit="bytes",
                    again=_RETRY_SECONDS,
                )
            own += size
            self._held[tenant] = held

        try:
            yield take
        finally:
            self._held[tenant] -= own
            if not self._held[tenant]:
                del self._held[tenant]
