"""Limits of a service: body size, request rate per token, and the stored tokens and bytes of a tenant.

Each error shows the numbers and, if waiting helps, how long. The rate is limited per token and process.

The quota in tokens is summed from the listing of conversations, without reading a message. The quota in bytes covers
messages and the documents stored with them (snapshots, findings, manifests, idempotent replies). A log only grows, so
of a changed conversation only new entries and its documents are read; the first check of a tenant after startup reads
all of it. Services without a byte quota do not pay for this.

Between two scans a process adds what it writes itself, so several processes together may exceed the limit by what they
write in that time. Usage is remembered for a bounded number of tenants and evicted least recently used first.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from turnfold.errors import InvalidOption, LimitExceeded
from turnfold.records import Document, encode_message
from turnfold.stores import ConversationInfo, Scope, State, Store

__all__ = (
    "Limits",
    "Quota",
    "RateLimit",
)


_MOST_BUCKETS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a service."""

    body: int = 8 * 1024 * 1024
    """Largest request body in bytes."""
    rate: float = 0.0
    """Requests per second and token; 0 for no limit."""
    burst: int = 100
    """Requests a token may send at once before the rate applies."""
    quota: int = 0
    """Tokens in all logs of a tenant; 0 for no limit."""
    stored: int = 0
    """Bytes of all messages and documents of a tenant; 0 for no limit."""
    answer_hours: float = 24.0
    """Hours a response is kept under its Idempotency-Key; 0 for ever."""
    streams: int = 32
    """Concurrent event streams per token."""

    def __post_init__(self) -> None:
        at_least_one = ("body", "burst")
        for name in (*at_least_one, "rate", "quota", "stored", "answer_hours", "streams"):
            least, given = int(name in at_least_one), getattr(self, name)
            if not given >= least:
                raise InvalidOption(f"{name}={given} must be at least {least}")

    def check_body(self, size: int) -> None:
        """Raise `LimitExceeded` if a body has more bytes than the limit."""
        if size > self.body:
            raise LimitExceeded(
                f"the body is larger than {self.body:,} bytes; send it in parts",
                allowed=self.body,
                asked=size,
                status=413,
            )


@dataclass(slots=True)
class RateLimit:
    """Token bucket per access token: it refills at `rate` and holds `burst`."""

    rate: float = 0.0
    burst: int = 100
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])

    def take(self, name: str) -> None:
        """Count one request; raises `LimitExceeded` if the bucket is empty."""
        if not self.rate:
            return
        now = self.clock()
        level, at = self._buckets.get(name, (float(self.burst), now))
        level = min(self.burst, level + (now - at) * self.rate)
        if level < 1.0:
            self._buckets[name] = level, now
            again = (1.0 - level) / self.rate
            raise LimitExceeded(
                f"more than {self.burst} requests at once and {self.rate:g} per second; retry in {again:.2f} s",
                allowed=self.rate,
                asked=1,
                again=again,
            )
        self._buckets[name] = level - 1.0, now
        if len(self._buckets) > _MOST_BUCKETS:
            self._evict_idle(now)

    def _evict_idle(self, now: float) -> None:
        """Drop the buckets that are full again, which equal new ones, or else the fullest ones."""

        def used(name: str) -> float:
            level, at = self._buckets[name]
            return max(0.0, self.burst - level - (now - at) * self.rate)

        by_use = sorted(self._buckets, key=used)
        full = sum(not used(name) for name in by_use)
        for name in by_use[: max(full, len(by_use) - _MOST_BUCKETS // 2)]:
            del self._buckets[name]


_PAGE: Final = 1_000
_MOST_TENANTS: Final = 1_024
"""Tenants whose usage is remembered."""
_MOST_CONVERSATIONS: Final = 200_000
"""Conversations whose usage is remembered, of all tenants but the newest together."""


@dataclass(slots=True)
class _ConversationUsage:
    """Stored tokens and bytes of one conversation."""

    tokens: int = 0
    seq: int = 0
    """Entries up to this one are counted in `log_bytes`."""
    state: State = (-1, 0)
    """State of the conversation when `document_bytes` was counted."""
    log_bytes: int = 0
    document_bytes: int = 0

    @property
    def bytes(self) -> int:
        return self.log_bytes + self.document_bytes


@dataclass(slots=True)
class _TenantUsage:
    at: float
    conversations: dict[str, _ConversationUsage]
    tokens: int = 0
    bytes: int = 0

    def forget(self, conversation: str) -> None:
        gone = self.conversations.pop(conversation, None)
        if gone is not None:
            self.tokens -= gone.tokens
            self.bytes -= gone.bytes


@dataclass(slots=True)
class _ScanLock:
    """Lets one request at a time scan a tenant."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    """Requests that hold the lock or wait for it."""


@dataclass(slots=True)
class Quota:
    """Limits on what each tenant may store; 0 for no limit."""

    store: Store
    tokens: int = 0
    bytes: int = 0
    scan_every: float = 60.0
    clock: Callable[[], float] = time.monotonic
    _used: OrderedDict[str, _TenantUsage] = field(default_factory=OrderedDict[str, _TenantUsage])
    """By tenant, least recently used first."""
    _scanning: dict[str, _ScanLock] = field(default_factory=dict[str, _ScanLock])

    async def check(self, tenant: str, *, brings: int = 0) -> None:
        """Raise `LimitExceeded` if the tenant is over its quota, or would be with `brings` bytes more."""
        if not self.tokens and not self.bytes:
            return
        used = await self._usage(tenant)
        if self.tokens and used.tokens >= self.tokens:
            raise LimitExceeded(
                f"this tenant stores {used.tokens:,} tokens, the quota is {self.tokens:,}: delete conversations",
                allowed=self.tokens,
                used=used.tokens,
                unit="tokens",
                status=403,
            )
        if self.bytes and used.bytes + brings > self.bytes:
            raise LimitExceeded(
                f"this tenant stores {used.bytes:,} bytes and this request adds {brings:,}: together "
                f"{used.bytes + brings:,}, the quota is {self.bytes:,}; delete conversations",
                allowed=self.bytes,
                used=used.bytes,
                asked=brings,
                unit="bytes",
                status=403,
            )

    def wrote(self, tenant: str, conversation: str, tokens: int) -> None:
        """Record that a conversation now has so many tokens."""
        used = self._used.get(tenant)
        if used is not None:
            usage = used.conversations.setdefault(conversation, _ConversationUsage())
            used.tokens += tokens - usage.tokens
            usage.tokens = tokens

    def took(self, tenant: str, size: int) -> None:
        """Record that a request with so many bytes was carried out; the next scan counts what it stored."""
        used = self._used.get(tenant)
        if used is not None:
            used.bytes += size

    def erased(self, tenant: str, conversation: str) -> None:
        """Record that a conversation was deleted."""
        used = self._used.get(tenant)
        if used is not None:
            used.forget(conversation)

    async def _usage(self, tenant: str) -> _TenantUsage:
        """Return the usage of a tenant; if a scan is due, one request scans and the others wait for it."""
        lock = self._scanning.setdefault(tenant, _ScanLock())
        lock.waiting += 1
        try:
            async with lock.lock:
                used = self._used.get(tenant)
                if used is None or self.clock() - used.at >= self.scan_every:
                    used = await self._scan(tenant, used)
                self._remember(tenant, used)
                return used
        finally:
            lock.waiting -= 1
            if not lock.waiting:
                del self._scanning[tenant]

    def _remember(self, tenant: str, used: _TenantUsage) -> None:
        known, self._used[tenant] = self._used.get(tenant), used
        self._used.move_to_end(tenant)
        if known is used:
            return
        total = sum(len(each.conversations) for each in self._used.values())
        while len(self._used) > 1 and (
            len(self._used) > _MOST_TENANTS or total > _MOST_CONVERSATIONS
        ):
            _, gone = self._used.popitem(last=False)
            total -= len(gone.conversations)

    async def _scan(self, tenant: str, before: _TenantUsage | None) -> _TenantUsage:
        at = self.clock()
        known = before.conversations if before else {}
        found: dict[str, _ConversationUsage] = {}
        after = ""
        while True:
            page = await self.store.conversations(Scope(tenant), after=after, limit=_PAGE)
            for each in page:
                found[each.conversation] = await self._measure(tenant, each, known)
            if len(page) < _PAGE:
                break
            after = page[-1].conversation
        tokens = sum(each.tokens for each in found.values())
        return _TenantUsage(at, found, tokens, sum(each.bytes for each in found.values()))

    async def _measure(
        self, tenant: str, info: ConversationInfo, known: dict[str, _ConversationUsage]
    ) -> _ConversationUsage:
        """Return the usage of a conversation; only its new part is read."""
        usage, head = replace(known.get(info.conversation, _ConversationUsage())), info.head
        if head.seq < usage.seq or (
            head.state != usage.state and head.generation <= usage.state[0]
        ):
            # Deleted and begun anew, or the store was restored: what was counted may be gone.
            usage = _ConversationUsage()
        usage.tokens = head.tokens
        if not self.bytes or usage.state == head.state:
            return usage
        place = Scope(tenant), info.conversation
        while usage.seq < head.seq:
            page = await self.store.read(*place, after=usage.seq, upto=head.seq, limit=_PAGE)
            if not page:
                break  # deleted meanwhile
            usage.log_bytes += sum(len(encode_message(each.message)) for each in page)
            usage.seq = page[-1].seq
        sizes: list[int] = []

        def take(document: Document) -> None:
            sizes.append(len(document.body))

        await self.store.capture(*place, take)
        usage.document_bytes, usage.state = sum(sizes), head.state
        return usage
