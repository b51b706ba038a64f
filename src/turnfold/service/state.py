"""State shared by all requests of a running service: the store, memories, authorization, limits, stored responses.

Every tenant has its own memory over the shared store. The token decides the tenant of a request; a request cannot name
another.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

from turnfold._caches import SizedCache
from turnfold.errors import TurnfoldError
from turnfold.memories import AsyncShortMemory
from turnfold.memory import AsyncMemory, AsyncSession, MemoryConfig, SessionCache
from turnfold.service.auth import RequestGate
from turnfold.service.concurrency import RequestSlots
from turnfold.service.idempotent_replies import IdempotentReplies
from turnfold.service.limits import Limits, Quota
from turnfold.service.second_process import MeteredRuntime, PassedOn, SecondProcess, TenantCosts
from turnfold.stores import Scope
from turnfold.tokens import CalibrationLog, PriceTable, shipped_prices

__all__ = (
    "ChangeSignal",
    "ServiceState",
)


_PROBE_EVERY: Final = 0.5
"""Least seconds between two checks of the store for health probes, which need no token; in between, the last result is
returned."""
_MOST_TENANTS: Final = 1_024
"""Most tenants whose memory objects are cached; an evicted one is made again from the store."""


class ChangeSignal:
    """Signal that wakes the event streams of a tenant when a call was made."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def send(self) -> None:
        """Wake all event streams that wait for this signal."""
        for each in self._waiting:
            if not each.done():
                each.set_result(None)
        self._waiting.clear()

    async def wait(self, seconds: float) -> None:
        """Wait for the next signal, but at most `seconds`."""
        signal = asyncio.get_running_loop().create_future()
        self._waiting.add(signal)
        try:
            await asyncio.wait([signal], timeout=seconds)
        finally:
            self._waiting.discard(signal)


@dataclass(slots=True)
class ServiceState:
    """Everything that the requests of a running service share: store, memories, access tokens, limits, caches."""

    config: MemoryConfig
    gate: RequestGate = field(default_factory=RequestGate)
    limits: Limits = field(default_factory=Limits)
    prices: PriceTable = field(default_factory=shipped_prices)
    """Prices of models, for the costs in the inspector."""
    stopping: bool = False
    """True while the service shuts down: event streams end, and the readiness probe fails."""
    answered: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    """Number of responses sent, by operation and HTTP status."""
    streams: Counter[str] = field(default_factory=Counter[str])
    """Open event streams by token name."""
    handles: SessionCache = field(default_factory=SessionCache)
    """Cached sessions of all tenants."""
    costs: TenantCosts = field(default_factory=TenantCosts)
    """Processor time that tenants used; without a second process nobody is moved for it."""
    second: SecondProcess | None = None
    """Process that serves the tenants that compute most; None if there is none."""
    slots: RequestSlots = field(init=False)
    quota: Quota = field(init=False)
    replies: IdempotentReplies = field(init=False)
    _memories: SizedCache[str, tuple[AsyncMemory, AsyncShortMemory]] = field(
        default_factory=lambda: SizedCache[str, tuple[AsyncMemory, AsyncShortMemory]](
            limit=_MOST_TENANTS
        )
    )
    _signals: WeakValueDictionary[str, ChangeSignal] = field(
        default_factory=WeakValueDictionary[str, ChangeSignal]
    )
    """Signals by tenant; one exists while an event stream uses it."""
    _runtimes: WeakValueDictionary[str, MeteredRuntime] = field(
        default_factory=WeakValueDictionary[str, MeteredRuntime]
    )
    """Runtimes by tenant; one exists while a session uses it."""
    _probing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _probed: tuple[float, bool] = (float("-inf"), False)
    """Time and result of the last check of the store for readiness probes."""

    def __post_init__(self) -> None:
        store, limits = self.config.store, self.limits
        self.slots = RequestSlots(limits)
        self.quota = Quota(store, limits.quota, limits.stored)
        self.config = replace(self.config, store=self.quota.metered())
        self.replies = IdempotentReplies(self.config.store, limits.answer_hours * 3_600)

    def memory(self, tenant: str) -> AsyncMemory:
        """Return the memory of a tenant, cached for later requests."""
        return self._memories_of(tenant)[0]

    def short(self, tenant: str) -> AsyncShortMemory:
        """Return the short-term memory of a tenant, cached for later requests."""
        return self._memories_of(tenant)[1]

    def fresh_session(self, tenant: str, conversation: str) -> AsyncSession:
        """Return a new session that no other request shares, for settings that apply to one request."""
        own = replace(self.config, scope=Scope(tenant), runtime=self.runtime(tenant))
        return AsyncSession(conversation, own)

    def signal(self, tenant: str) -> ChangeSignal:
        """Return the signal that is sent when a call is made for a tenant through this process."""
        signal = self._signals.get(tenant)
        if signal is None:
            self._signals[tenant] = signal = ChangeSignal()
        return signal

    async def is_store_ready(self) -> bool:
        """Return True if the store can serve requests; it is checked at most twice a second."""
        async with self._probing:
            checked, ready = self._probed
            if time.monotonic() - checked >= _PROBE_EVERY:
                try:
                    ready = (await self.config.store.health()).ok
                except TurnfoldError:
                    ready = False
                self._probed = time.monotonic(), ready
        return ready

    def call_made(self, tenant: str) -> None:
        """Wake the event streams of a tenant, because a model call was recorded for it."""
        signal = self._signals.get(tenant)
        if signal is not None:
            signal.send()

    def stop(self) -> None:
        """Begin the shutdown: fail readiness probes, and end the event streams."""
        self.stopping = True
        for signal in list(self._signals.values()):
            signal.send()

    async def close(self, *, cancel: bool = False) -> None:
        """Finish the running folds (compactions), or cancel them, and close the store. Closing twice is allowed."""
        self.stop()
        await self.config.runtime.finish(cancel=cancel)
        await self.config.store.close()

    async def passed_on(self, tenant: str) -> PassedOn | None:
        """Return the response that the second process gives to a request of a tenant; None to answer it here."""
        if self.second is None or not self.costs.is_moved(tenant):
            return None
        link = await self.second.connect()
        return None if link is None else PassedOn(link)

    def _is_moved(self, tenant: str) -> bool:
        return self.second is not None and self.second.is_ready and self.costs.is_moved(tenant)

    def runtime(self, tenant: str) -> MeteredRuntime:
        """Return the runtime of a tenant, which runs one computation at a time.

        Two threads of a tenant would be no faster, because only one at a time holds the interpreter lock; and the event
        loop would wait longer for that lock.
        """
        runtime = self._runtimes.get(tenant)
        if runtime is None:
            runtime = MeteredRuntime(
                self.config.runtime,
                charge=partial(self.costs.charge, tenant),
                is_moved=partial(self._is_moved, tenant),
            )
            self._runtimes[tenant] = runtime
        return runtime

    def _memories_of(self, tenant: str) -> tuple[AsyncMemory, AsyncShortMemory]:
        known = self._memories.get(tenant)
        if known is None:
            own = replace(
                self.config,
                scope=Scope(tenant),
                calibrating=CalibrationLog(),
                runtime=self.runtime(tenant),
            )
            memory = AsyncMemory.over(own, owns=False, handles=self.handles)
            known = memory, AsyncShortMemory.over(own, owns=False)
            self._memories.put(tenant, known)
        return known
