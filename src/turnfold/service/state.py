"""State shared by all requests of a running service: the store, a memory per tenant, authorization and limits.

Every tenant has its own memory over the one store, and a request sees only that of its tenant, which is decided by the
token and never by the request.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from dataclasses import dataclass, field, replace
from typing import Final
from weakref import WeakValueDictionary

from turnfold.memories import AsyncShortMemory
from turnfold.memory import AsyncMemory, AsyncSession, MemoryConfig, SessionCache
from turnfold.service.auth import RequestGate
from turnfold.service.idempotency import IdempotentReplies
from turnfold.service.limits import Limits, Quota
from turnfold.stores import Scope
from turnfold.tokens import CalibrationLog

__all__ = (
    "ChangeSignal",
    "ServiceState",
)


_MOST_TENANTS: Final = 1_024
"""Tenants whose memories are cached; everything is in the store."""


class ChangeSignal:
    """Wakes the event streams of a tenant when a call was made."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def send(self) -> None:
        """Wake all waiting streams."""
        for each in self._waiting:
            if not each.done():
                each.set_result(None)
        self._waiting.clear()

    async def wait(self, seconds: float) -> None:
        """Wait for the next signal, at most so many seconds."""
        signal = asyncio.get_running_loop().create_future()
        self._waiting.add(signal)
        try:
            await asyncio.wait([signal], timeout=seconds)
        finally:
            self._waiting.discard(signal)


@dataclass(slots=True)
class ServiceState:
    """State shared by all requests."""

    config: MemoryConfig
    gate: RequestGate = field(default_factory=RequestGate)
    limits: Limits = field(default_factory=Limits)
    stopping: bool = False
    """True while the service shuts down: streams end, and it is not ready."""
    answered: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    """Number of responses by operation and status."""
    streams: Counter[str] = field(default_factory=Counter[str])
    """Open event streams by token name."""
    handles: SessionCache = field(default_factory=SessionCache)
    """Cached sessions of all tenants."""
    quota: Quota = field(init=False)
    replies: IdempotentReplies = field(init=False)
    _memories: OrderedDict[str, tuple[AsyncMemory, AsyncShortMemory]] = field(
        default_factory=OrderedDict[str, tuple[AsyncMemory, AsyncShortMemory]]
    )
    _signals: WeakValueDictionary[str, ChangeSignal] = field(
        default_factory=WeakValueDictionary[str, ChangeSignal]
    )
    """By tenant, while a stream uses it."""

    def __post_init__(self) -> None:
        store, limits = self.config.store, self.limits
        self.quota = Quota(store, limits.quota, limits.stored)
        self.replies = IdempotentReplies(store, limits.answer_hours * 3_600)

    def memory(self, tenant: str) -> AsyncMemory:
        """Return the memory of a tenant."""
        return self._memories_of(tenant)[0]

    def short(self, tenant: str) -> AsyncShortMemory:
        """Return the short-term memory of a tenant."""
        return self._memories_of(tenant)[1]

    def fresh_session(self, tenant: str, conversation: str) -> AsyncSession:
        """Return a session that no other request shares, for settings of one request."""
        return AsyncSession(conversation, replace(self.config, scope=Scope(tenant)))

    def signal(self, tenant: str) -> ChangeSignal:
        """Return the signal of calls made for a tenant through this process."""
        signal = self._signals.get(tenant)
        if signal is None:
            self._signals[tenant] = signal = ChangeSignal()
        return signal

    def call_made(self, tenant: str) -> None:
        """Signal that a call was made for a tenant."""
        signal = self._signals.get(tenant)
        if signal is not None:
            signal.send()

    def stop(self) -> None:
        """Begin the shutdown: end the event streams."""
        self.stopping = True
        for signal in list(self._signals.values()):
            signal.send()

    async def close(self, *, cancel: bool = False) -> None:
        """Finish the running folds, or cancel them, and close the store. Closing twice is allowed."""
        self.stop()
        await self.config.runtime.finish(cancel=cancel)
        await self.config.store.close()

    def _memories_of(self, tenant: str) -> tuple[AsyncMemory, AsyncShortMemory]:
        known = self._memories.get(tenant)
        if known is None:
            own = replace(self.config, scope=Scope(tenant), calibrating=CalibrationLog())
            memory = AsyncMemory.over(own, owns=False, handles=self.handles)
            known = memory, AsyncShortMemory.over(own, owns=False)
            self._memories[tenant] = known
            while len(self._memories) > _MOST_TENANTS:
                self._memories.popitem(last=False)
        self._memories.move_to_end(tenant)
        return known
