"""Where kept values stand: sealed on the way in, opened on the way out, counted either way.

The secret of the seals is a document of the durable store itself, made by whoever comes first. So values of two
stores that share a Redis, or of a store that was made anew under an old name, can never be taken for one another.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TypeVar

import msgspec

from turnfold.errors import Conflict, StoreUnavailable, TurnfoldError
from turnfold.records import Document
from turnfold.stores.protocol import Scope, Store
from turnfold.stores.redis_engine import RedisEngine
from turnfold.stores.redis_values import SECRET_BYTES, open_sealed, seal, session_key, store_mark

__all__ = ("Counts", "Shelf")

_OWN_SCOPE = Scope("turnfold:cache")
_OWN_PLACE = "turnfold:cache"
_SEAL = ("cache", "seal")

Kept = TypeVar("Kept", bound=msgspec.Struct)


@dataclass(slots=True)
class Counts:
    """What became of the reads a cache can answer. Written without a lock: they inform, they decide nothing."""

    hits: int = 0
    joined: int = 0
    """Answered from an older window and the entries that are new since."""
    misses: int = 0
    fills: int = 0
    refused: int = 0
    """Not kept: something newer was, or the cache did not answer."""
    unfit: int = 0
    """Not kept: too large, read too long ago, or changed while it was read."""
    rubbish: int = 0
    """Found, but not what was kept there."""


class Shelf:
    """The kept values of all conversations."""

    def __init__(
        self,
        inner: Store,
        engine: RedisEngine,
        *,
        ttl_seconds: float,
        largest_value: int,
        default_tenant: str,
    ) -> None:
        self._inner = inner
        self._ttl_seconds = ttl_seconds
        self._largest_value = largest_value
        self._default_tenant = default_tenant
        self._secret = b""
        self._unsealed = ""
        self.engine = engine
        self.counts = Counts()

    @property
    def answers(self) -> bool:
        """Whether Redis answered when it was last asked: if not, preparing a value for it is wasted."""
        return self.engine.breaker.state == "closed"

    async def get(
        self, scope: Scope, conversation: str, field: bytes, kind: type[Kept]
    ) -> Kept | None:
        """What is kept there, if it is what was put there."""
        secret = await self._learned_secret()
        key = self._key(scope, conversation)
        sealed = await self.engine.fetch(key, field) if secret else None
        if sealed is None:
            return None
        found = open_sealed(sealed, kind, secret, key=key, field=field)
        if found is None:
            self.counts.rubbish += 1
        elif self.engine.owed:
            await self.engine.settle()
        return found

    async def put(
        self, scope: Scope, conversation: str, field: bytes, value: msgspec.Struct, generation: int
    ) -> None:
        """Keep a value unless something newer is kept."""
        secret = await self._learned_secret()
        if not secret:
            return
        key = self._key(scope, conversation)
        sealed = seal(value, secret, key, field)
        if sealed is None or len(sealed) > self._largest_value:
            self.counts.unfit += 1
        elif await self.engine.fill(
            key,
            field,
            sealed,
            store=store_mark(secret),
            generation=generation,
            ttl_seconds=self._ttl_seconds,
        ):
            self.counts.fills += 1
            if self.engine.owed:
                await self.engine.settle()
        else:
            self.counts.refused += 1

    async def erase(self, scope: Scope, conversation: str) -> None:
        """Drop everything kept of a conversation."""
        secret = await self._learned_secret()
        store = store_mark(secret) if secret else ""
        await self.engine.erase(self._key(scope, conversation), store=store)

    def details(self) -> Mapping[str, str]:
        """State and counters, for `health`."""
        breaker = self.engine.breaker
        failures = ", ".join(f"{kind} {count}" for kind, count in sorted(breaker.failures.items()))
        return {
            "redis": breaker.state,
            "redis.outages": str(breaker.outages),
            "redis.failures": failures or "0",
            "redis.calls": str(self.engine.calls),
            "redis.crowded": str(self.engine.crowded),
            "redis.owed-erasures": str(self.engine.owed),
            **{f"redis.{name}": str(count) for name, count in asdict(self.counts).items()},
        }

    def warnings(self) -> tuple[str, ...]:
        """What an operator should look at."""
        found: list[str] = []
        if self.engine.breaker.state != "closed":
            found.append("Redis does not answer: every read goes to the durable store")
        if self._unsealed and not self._secret:
            found.append(
                f"the seal of the cache cannot be had ({self._unsealed}): nothing is cached"
            )
        if self.engine.unerased:
            found.append(
                f"{self.engine.unerased} erased conversations could not be dropped from Redis in time; they expire "
                f"{self._ttl_seconds:g} s after they were last kept"
            )
        return tuple(found)

    def _key(self, scope: Scope, conversation: str) -> str:
        return session_key(scope, conversation, default_tenant=self._default_tenant)

    async def _learned_secret(self) -> bytes:
        """The durable store's secret; empty while it cannot be had, and then nothing is kept or used."""
        if not self._secret:
            try:
                self._secret = await self._read_secret()
            except TurnfoldError as error:
                self._unsealed = type(error).__name__
        return self._secret

    async def _read_secret(self) -> bytes:
        place = (_OWN_SCOPE, _OWN_PLACE)
        found = await self._inner.get_document(*place, *_SEAL)
        if found is None:
            made = Document(*_SEAL, secrets.token_bytes(SECRET_BYTES), version=0)
            try:
                found = (await self._inner.put_document(*place, made, expect=0)).document
            except Conflict:  # somebody else was first
                found = await self._inner.get_document(*place, *_SEAL)
        if found is None or len(found.body) != SECRET_BYTES:
            raise StoreUnavailable(f"the seal of the cache is not {SECRET_BYTES} bytes long")
        return found.body
