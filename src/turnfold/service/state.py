"""State shared by all requests of a running service: the store, memories, authorization, limits, stored responses.

Every tenant has its own memory over the shared store. The token decides the tenant of a request; a request cannot name
another.

Responses to writes that are not appends are stored under their Idempotency-Key (a repeated append finds its first
result in the log). Without this, the retry of a fold, fork or removal would get another response, such as "nothing to
fold" or "exists already". The stored response is kept with the conversation, and any process can send it again. If a
process dies after the work but before it stored the response, the retry does the work again and gets a new response.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from turnfold.errors import Conflict, ConversationDeleted, IdReused, TurnfoldError
from turnfold.memories import AsyncShortMemory
from turnfold.memory import AsyncMemory, AsyncSession, MemoryConfig, SessionCache
from turnfold.records import Document
from turnfold.runtime import LimitedRuntime
from turnfold.service.auth import RequestGate
from turnfold.service.concurrency import RequestSlots
from turnfold.service.limits import Limits, Quota
from turnfold.stores import Scope, Store
from turnfold.tokens import CalibrationLog

__all__ = (
    "ChangeSignal",
    "IdempotentReplies",
    "ServiceState",
    "StoredReply",
)


_REPLY: Final = "reply"
_PAGE: Final = 500
"""Number of stored responses that one request scans for expired ones; the next request continues after them."""
_MOST_SCANNED: Final = 10_000
_SCANS: Final = 24
"""Number of scans of a conversation within the time for which a response is kept."""


class _ReplyRecord(msgspec.Struct, frozen=True):
    request: str
    answer: msgspec.Raw
    at: float = 0.0
    """Seconds since 1970."""


@dataclass(slots=True)
class IdempotentReplies:
    """Stored responses of a service, by conversation and Idempotency-Key; expired ones are deleted."""

    store: Store
    seconds: float = 24 * 3_600.0
    """Seconds a response is kept; 0 for ever."""
    clock: Callable[[], float] = time.time
    kept: int = 0
    """Number of responses this process stored; `repeated` and `pruned` count those sent again and deleted."""
    repeated: int = 0
    pruned: int = 0
    _scans: OrderedDict[tuple[Scope, str], tuple[float, str]] = field(
        default_factory=OrderedDict[tuple[Scope, str], tuple[float, str]]
    )
    """Time of the next scan of each conversation, and the key it starts after."""

    def of(self, scope: Scope, conversation: str, key: str, request: bytes) -> StoredReply:
        """Return the handle for reading and storing the response of one request."""
        return StoredReply(self, scope, conversation, key, request)

    def is_expired(self, at: float) -> bool:
        """Return True if a response stored at the time `at` has expired."""
        return bool(self.seconds) and self.clock() - at >= self.seconds

    async def prune(self, scope: Scope, conversation: str) -> None:
        """Delete the expired responses on the next page of a conversation, if a scan is due."""
        now, place = self.clock(), (scope, conversation)
        due, after = self._scans.pop(place, (0.0, ""))
        if not self.seconds or now < due:
            self._schedule(place, due, after)
            return
        page = await self.store.documents(scope, conversation, _REPLY, after=after, limit=_PAGE)
        more = len(page) == _PAGE
        if more:
            self._schedule(place, 0.0, page[-1].key)
        else:
            self._schedule(place, now + self.seconds / _SCANS, "")
        old = [each for each in page if self.is_expired(_decoded_reply(each).at)]
        self.pruned += sum(await asyncio.gather(*(self._drop(place, each) for each in old)))

    async def _drop(self, place: tuple[Scope, str], document: Document) -> bool:
        """Delete one stored response, unless a new request took its key meanwhile."""
        try:
            return await self.store.drop_document(
                *place, _REPLY, document.key, expect=document.version
            )
        except (Conflict, ConversationDeleted):
            return False

    def _schedule(self, place: tuple[Scope, str], due: float, after: str) -> None:
        self._scans[place] = due, after
        while len(self._scans) > _MOST_SCANNED:
            self._scans.popitem(last=False)


class StoredReply:
    """Handle for the stored response of one request: reads it, or stores it under the Idempotency-Key."""

    def __init__(
        self, replies: IdempotentReplies, scope: Scope, conversation: str, key: str, request: bytes
    ) -> None:
        self._replies = replies
        self._place = scope, conversation
        self._key = key
        self._digest = blake2b(request, digest_size=16).hexdigest()
        self._version = 0

    async def stored(self) -> bytes | None:
        """Return the stored response, None if there is none; raises `IdReused` if another request used the key."""
        document = await self._replies.store.get_document(*self._place, _REPLY, self._key)
        if document is None:
            return None
        record = _decoded_reply(document)
        if self._replies.is_expired(record.at):
            self._version = document.version
            return None
        if record.request != self._digest:
            raise IdReused("this Idempotency-Key was used for another request; use a new key")
        self._replies.repeated += 1
        return bytes(record.answer)

    async def store(self, answer: bytes) -> bytes:
        """Store a response and return it; if the same request stored one meanwhile, return that one."""
        record = _ReplyRecord(self._digest, msgspec.Raw(answer), self._replies.clock())
        with suppress(
            ConversationDeleted
        ):  # the work is done, but there is no conversation to store it with
            try:
                document = Document(_REPLY, self._key, msgspec.json.encode(record), 0)
                await self._replies.store.put_document(*self._place, document, expect=self._version)
            except Conflict:
                return await self.stored() or answer
            self._replies.kept += 1
            await self._replies.prune(*self._place)
        return answer


def _decoded_reply(document: Document) -> _ReplyRecord:
    return msgspec.json.decode(document.body, type=_ReplyRecord)


_PROBE_EVERY: Final = 0.5
"""Least seconds between two checks of the store for health probes, which need no token."""
_MOST_TENANTS: Final = 1_024
"""Most tenants whose memory objects are cached; an evicted one is made again from the store."""


class ChangeSignal:
    """Signal that wakes the event streams of a tenant when a call was made."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def send(self) -> None:
        """Wake all waiting streams."""
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
    """State shared by all requests of a running service."""

    config: MemoryConfig
    gate: RequestGate = field(default_factory=RequestGate)
    limits: Limits = field(default_factory=Limits)
    stopping: bool = False
    """True while the service shuts down: event streams end, and the readiness probe fails."""
    answered: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    """Number of responses by operation and status."""
    streams: Counter[str] = field(default_factory=Counter[str])
    """Open event streams by token name."""
    handles: SessionCache = field(default_factory=SessionCache)
    """Cached sessions of all tenants."""
    slots: RequestSlots = field(init=False)
    quota: Quota = field(init=False)
    replies: IdempotentReplies = field(init=False)
    _memories: OrderedDict[str, tuple[AsyncMemory, AsyncShortMemory]] = field(
        default_factory=OrderedDict[str, tuple[AsyncMemory, AsyncShortMemory]]
    )
    _signals: WeakValueDictionary[str, ChangeSignal] = field(
        default_factory=WeakValueDictionary[str, ChangeSignal]
    )
    """Signals by tenant; one exists while an event stream uses it."""
    _runtimes: WeakValueDictionary[str, LimitedRuntime] = field(
        default_factory=WeakValueDictionary[str, LimitedRuntime]
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
        """Return the memory of a tenant."""
        return self._memories_of(tenant)[0]

    def short(self, tenant: str) -> AsyncShortMemory:
        """Return the short-term memory of a tenant."""
        return self._memories_of(tenant)[1]

    def fresh_session(self, tenant: str, conversation: str) -> AsyncSession:
        """Return a new session that no other request shares, for settings that apply to one request."""
        own = replace(self.config, scope=Scope(tenant), runtime=self._runtime(tenant))
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
        """Signal that a call was made for a tenant."""
        signal = self._signals.get(tenant)
        if signal is not None:
            signal.send()

    def stop(self) -> None:
        """Begin the shutdown: fail readiness probes, and end the event streams."""
        self.stopping = True
        for signal in list(self._signals.values()):
            signal.send()

    async def close(self, *, cancel: bool = False) -> None:
        """Finish the running folds, or cancel them, and close the store. Closing twice is allowed."""
        self.stop()
        await self.config.runtime.finish(cancel=cancel)
        await self.config.store.close()

    def _runtime(self, tenant: str) -> LimitedRuntime:
        """Return the runtime of a tenant, which computes as much at once as the tenant has heavy requests."""
        runtime = self._runtimes.get(tenant)
        if runtime is None:
            runtime = LimitedRuntime(self.config.runtime, most=self.limits.heavy)
            self._runtimes[tenant] = runtime
        return runtime

    def _memories_of(self, tenant: str) -> tuple[AsyncMemory, AsyncShortMemory]:
        known = self._memories.get(tenant)
        if known is None:
            own = replace(
                self.config,
                scope=Scope(tenant),
                calibrating=CalibrationLog(),
                runtime=self._runtime(tenant),
            )
            memory = AsyncMemory.over(own, owns=False, handles=self.handles)
            known = memory, AsyncShortMemory.over(own, owns=False)
            self._memories[tenant] = known
            while len(self._memories) > _MOST_TENANTS:
                self._memories.popitem(last=False)
        self._memories.move_to_end(tenant)
        return known
