"""How much a tenant may keep: tokens in its logs, and bytes of everything.

Tokens are added up from a listing, without reading a message. Bytes are those of the messages and of the documents
beside them (snapshots, findings, manifests, kept answers), as they are handed to the store; a log only grows, so of a
conversation that changed only the new entries are read, and its documents. The first look at a tenant after the start
reads all of it once: that is the price of the byte quota, and nobody pays it who sets none.

Between two looks this process adds what it takes in itself, so several processes together may pass the limit by what
they write in that time.

What is known of tenants is bounded: of those that have not asked for longest it is forgotten, and their next request
looks at the store first, as the first one did.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from turnfold.errors import LimitExceeded
from turnfold.records import Document, encode_message
from turnfold.stores.protocol import ConversationInfo, Scope, State, Store

__all__ = ("Quota",)

_PAGE: Final = 1_000
_TENANTS: Final = 1_024
"""Tenants of which it is known what they hold."""
_CONVERSATIONS: Final = 200_000
"""Conversations of which it is known what they hold, of all tenants but the newest together."""


@dataclass(slots=True)
class _Held:
    """What one conversation holds."""

    tokens: int = 0
    seq: int = 0
    """The entries up to here are in `said`."""
    state: State = (-1, 0)
    """The documents as of this one are in `beside`."""
    said: int = 0
    beside: int = 0

    @property
    def bytes(self) -> int:
        return self.said + self.beside


@dataclass(slots=True)
class _Used:
    at: float
    held: dict[str, _Held]
    tokens: int = 0
    bytes: int = 0

    def forget(self, conversation: str) -> None:
        gone = self.held.pop(conversation, None)
        if gone is not None:
            self.tokens -= gone.tokens
            self.bytes -= gone.bytes


@dataclass(slots=True)
class _Turn:
    """One request looks at a tenant at a time."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    asking: int = 0
    """Requests that look or wait for it."""


@dataclass(slots=True)
class Quota:
    """How much each tenant may keep; 0 for no limit."""

    store: Store
    tokens: int = 0
    bytes: int = 0
    look_again: float = 60.0
    clock: Callable[[], float] = time.monotonic
    _used: OrderedDict[str, _Used] = field(default_factory=OrderedDict[str, _Used])
    """By tenant, the one that asked last at the end."""
    _looking: dict[str, _Turn] = field(default_factory=dict[str, _Turn])

    async def check(self, tenant: str, *, brings: int = 0) -> None:
        """Refuse to write where the tenant has used up its room, or would with so many bytes more."""
        if not self.tokens and not self.bytes:
            return
        used = await self._known(tenant)
        if self.tokens and used.tokens >= self.tokens:
            raise LimitExceeded(
                f"this tenant's conversations hold {used.tokens:,} tokens and may hold {self.tokens:,}: erase some",
                allowed=self.tokens,
                used=used.tokens,
                unit="tokens",
                status=403,
            )
        if self.bytes and used.bytes + brings > self.bytes:
            raise LimitExceeded(
                f"this tenant keeps {used.bytes:,} bytes and this request brings {brings:,}: together "
                f"{used.bytes + brings:,} of the {self.bytes:,} it may keep; erase some",
                allowed=self.bytes,
                used=used.bytes,
                asked=brings,
                unit="bytes",
                status=403,
            )

    def wrote(self, tenant: str, conversation: str, tokens: int) -> None:
        """A conversation holds so many tokens now."""
        used = self._used.get(tenant)
        if used is not None:
            held = used.held.setdefault(conversation, _Held())
            used.tokens += tokens - held.tokens
            held.tokens = tokens

    def took(self, tenant: str, size: int) -> None:
        """A request that brought so many bytes was carried out; the next look finds what became of them."""
        used = self._used.get(tenant)
        if used is not None:
            used.bytes += size

    def erased(self, tenant: str, conversation: str) -> None:
        """A conversation is gone."""
        used = self._used.get(tenant)
        if used is not None:
            used.forget(conversation)

    async def _known(self, tenant: str) -> _Used:
        """What a tenant uses; where it is time to look again one request looks and the others wait for it."""
        turn = self._looking.setdefault(tenant, _Turn())
        turn.asking += 1
        try:
            async with turn.lock:
                used = self._used.get(tenant)
                if used is None or self.clock() - used.at >= self.look_again:
                    used = await self._look(tenant, used)
                self._keep(tenant, used)
                return used
        finally:
            turn.asking -= 1
            if not turn.asking:
                del self._looking[tenant]

    def _keep(self, tenant: str, used: _Used) -> None:
        known, self._used[tenant] = self._used.get(tenant), used
        self._used.move_to_end(tenant)
        if known is used:
            return
        held = sum(len(each.held) for each in self._used.values())
        while len(self._used) > 1 and (len(self._used) > _TENANTS or held > _CONVERSATIONS):
            _, gone = self._used.popitem(last=False)
            held -= len(gone.held)

    async def _look(self, tenant: str, before: _Used | None) -> _Used:
        at = self.clock()
        known = before.held if before else {}
        found: dict[str, _Held] = {}
        after = ""
        while True:
            page = await self.store.conversations(Scope(tenant), after=after, limit=_PAGE)
            for each in page:
                found[each.conversation] = await self._weigh(tenant, each, known)
            if len(page) < _PAGE:
                break
            after = page[-1].conversation
        tokens = sum(each.tokens for each in found.values())
        return _Used(at, found, tokens, sum(each.bytes for each in found.values()))

    async def _weigh(self, tenant: str, info: ConversationInfo, known: dict[str, _Held]) -> _Held:
        """What a conversation holds; only what is new of it is read."""
        held, head = replace(known.get(info.conversation, _Held())), info.head
        if head.seq < held.seq or (head.state != held.state and head.generation <= held.state[0]):
            held = (
                _Held()
            )  # erased and begun anew, or the store was restored: what was read may be gone
        held.tokens = head.tokens
        if not self.bytes or held.state == head.state:
            return held
        place = Scope(tenant), info.conversation
        while held.seq < head.seq:
            page = await self.store.read(*place, after=held.seq, upto=head.seq, limit=_PAGE)
            if not page:
                break  # erased meanwhile
            held.said += sum(len(encode_message(each.message)) for each in page)
            held.seq = page[-1].seq
        sizes: list[int] = []

        def take(document: Document) -> None:
            sizes.append(len(document.body))

        await self.store.capture(*place, take)
        held.beside, held.state = sum(sizes), head.state
        return held
