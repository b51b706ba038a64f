"""What all requests of a running service share: the store, a memory for each tenant, the gate and the limits.

Every tenant has a memory of its own over the one store, made for its scope; a request only ever sees that one. Which
tenant that is was decided at the gate, from the token, never from anything in the request.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from dataclasses import dataclass, field, replace
from typing import Final
from weakref import WeakValueDictionary

from turnfold.memory import AsyncMemory, AsyncSession, AsyncShortMemory
from turnfold.memory.calibrating import Calibrating
from turnfold.memory.handles import Handles
from turnfold.memory.setting import Setting
from turnfold.service.admission import Gate
from turnfold.service.limits import Limits
from turnfold.service.quota import Quota
from turnfold.service.replies import Replies
from turnfold.stores.protocol import Scope

__all__ = ("Bell", "ServiceState")

_TENANTS: Final = 1_024
"""Tenants whose memories are kept at hand; nothing is lost with one that is let go, it is all in the store."""


class Bell:
    """Wakes everybody who waits for news of a tenant."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def ring(self) -> None:
        """There is news."""
        for each in self._waiting:
            if not each.done():
                each.set_result(None)
        self._waiting.clear()

    async def wait(self, seconds: float) -> None:
        """Until there is news, or so long."""
        news = asyncio.get_running_loop().create_future()
        self._waiting.add(news)
        try:
            await asyncio.wait([news], timeout=seconds)
        finally:
            self._waiting.discard(news)


@dataclass(slots=True)
class ServiceState:
    """What requests share."""

    setting: Setting
    gate: Gate = field(default_factory=Gate)
    limits: Limits = field(default_factory=Limits)
    stopping: bool = False
    """Whether the service is on its way out: streams end, and it is no longer ready."""
    answered: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    """How often each operation was answered with each status."""
    streams: Counter[str] = field(default_factory=Counter[str])
    """Event streams open now, by token."""
    handles: Handles = field(default_factory=Handles)
    """The sessions at hand, of all tenants together."""
    quota: Quota = field(init=False)
    replies: Replies = field(init=False)
    _memories: OrderedDict[str, tuple[AsyncMemory, AsyncShortMemory]] = field(
        default_factory=OrderedDict[str, tuple[AsyncMemory, AsyncShortMemory]]
    )
    _bells: WeakValueDictionary[str, Bell] = field(default_factory=WeakValueDictionary[str, Bell])
    """By tenant, as long as a stream holds one."""

    def __post_init__(self) -> None:
        store, limits = self.setting.store, self.limits
        self.quota = Quota(store, limits.quota, limits.stored)
        self.replies = Replies(store, limits.answer_hours * 3_600)

    def memory(self, tenant: str) -> AsyncMemory:
        """The memory of a tenant."""
        return self._of(tenant)[0]

    def short(self, tenant: str) -> AsyncShortMemory:
        """Document 003's memory of a tenant."""
        return self._of(tenant)[1]

    def fresh_session(self, tenant: str, conversation: str) -> AsyncSession:
        """A handle no other request has: for what a request sets on it."""
        return AsyncSession(conversation, replace(self.setting, scope=Scope(tenant)))

    def bell(self, tenant: str) -> Bell:
        """What rings when a call was made for a tenant through this process."""
        bell = self._bells.get(tenant)
        if bell is None:
            self._bells[tenant] = bell = Bell()
        return bell

    def ring(self, tenant: str) -> None:
        """A call was made."""
        bell = self._bells.get(tenant)
        if bell is not None:
            bell.ring()

    def stop(self) -> None:
        """Let everything end that would not end by itself."""
        self.stopping = True
        for bell in list(self._bells.values()):
            bell.ring()

    async def close(self, *, cancel: bool = False) -> None:
        """Finish the folds under way, or hand them over, and let go of the store. Closing twice is allowed."""
        self.stop()
        await self.setting.way.finish(cancel=cancel)
        await self.setting.store.close()

    def _of(self, tenant: str) -> tuple[AsyncMemory, AsyncShortMemory]:
        known = self._memories.get(tenant)
        if known is None:
            own = replace(self.setting, scope=Scope(tenant), calibrating=Calibrating())
            memory = AsyncMemory.over(own, owns=False, handles=self.handles)
            known = memory, AsyncShortMemory.over(own, owns=False)
            self._memories[tenant] = known
            while len(self._memories) > _TENANTS:
                self._memories.popitem(last=False)
        self._memories.move_to_end(tenant)
        return known
