"""How much one caller may take: of the body of a request, of the time of the service, of the room in its store.

Each refusal shows the sum that did not fit and, where waiting helps, how long. The pace is kept per token and per
process. The quota counts the tokens in the logs of a tenant, because a listing can add those up without reading a
message; between two listings this process adds what it writes itself, so several processes together may pass the limit
by what they write in that time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from turnfold.errors import InvalidOption, LimitExceeded
from turnfold.stores.protocol import Scope, Store

__all__ = ("Limits", "Pace", "Quota")

_PAGE: Final = 1_000
_MOST_BUCKETS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the service takes."""

    body: int = 8 * 1024 * 1024
    """Bytes of a request."""
    rate: float = 0.0
    """Requests a second for each token; 0 for no limit."""
    burst: int = 100
    """Requests at once before the rate tells."""
    quota: int = 0
    """Tokens in all the logs of a tenant; 0 for no limit."""
    streams: int = 32
    """Event streams of one token at a time."""

    def __post_init__(self) -> None:
        for name, least in (("body", 1), ("rate", 0), ("burst", 1), ("quota", 0), ("streams", 0)):
            if getattr(self, name) < least:
                raise InvalidOption(f"{name}={getattr(self, name)} must be at least {least}")

    def check_body(self, size: int) -> None:
        """Refuse a body of more bytes than are taken."""
        if size > self.body:
            raise LimitExceeded(
                f"a body of more than {self.body:,} bytes is not taken; send it in parts",
                allowed=self.body,
                asked=size,
                status=413,
            )


@dataclass(slots=True)
class Pace:
    """How often each token may ask: a bucket that fills at `rate` and holds `burst`."""

    rate: float = 0.0
    burst: int = 100
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])

    def take(self, name: str) -> None:
        """One request more."""
        if not self.rate:
            return
        now = self.clock()
        held, at = self._buckets.get(name, (float(self.burst), now))
        held = min(self.burst, held + (now - at) * self.rate)
        if held < 1.0:
            self._buckets[name] = held, now
            again = (1.0 - held) / self.rate
            raise LimitExceeded(
                f"more than {self.burst} requests at once and {self.rate:g} a second; try again in {again:.2f} s",
                allowed=self.rate,
                asked=1,
                again=again,
            )
        if len(self._buckets) >= _MOST_BUCKETS:
            self._buckets.clear()
        self._buckets[name] = held - 1.0, now


@dataclass(slots=True)
class _Used:
    total: int
    at: float
    tokens: dict[str, int]
    """By conversation, so that what one of them grew by is known."""


@dataclass(slots=True)
class Quota:
    """How much each tenant may keep."""

    store: Store
    tokens: int = 0
    look_again: float = 60.0
    clock: Callable[[], float] = time.monotonic
    _used: dict[str, _Used] = field(default_factory=dict[str, _Used])

    async def check(self, tenant: str) -> None:
        """Refuse to write where the tenant has used up its room."""
        if not self.tokens:
            return
        used = self._used.get(tenant)
        if used is None or self.clock() - used.at >= self.look_again:
            used = self._used[tenant] = await self._sum(tenant)
        if used.total >= self.tokens:
            raise LimitExceeded(
                f"this tenant's conversations hold {used.total:,} tokens and may hold {self.tokens:,}: erase some",
                allowed=self.tokens,
                used=used.total,
                status=403,
            )

    def wrote(self, tenant: str, conversation: str, tokens: int) -> None:
        """A conversation holds so many tokens now."""
        used = self._used.get(tenant)
        if used is not None:
            used.total += tokens - used.tokens.get(conversation, 0)
            used.tokens[conversation] = tokens

    async def _sum(self, tenant: str) -> _Used:
        found: dict[str, int] = {}
        after = ""
        while True:
            page = await self.store.conversations(Scope(tenant), after=after, limit=_PAGE)
            found.update((each.conversation, each.head.tokens) for each in page)
            if len(page) < _PAGE:
                return _Used(sum(found.values()), self.clock(), found)
            after = page[-1].conversation
