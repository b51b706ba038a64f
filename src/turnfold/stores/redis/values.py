"""The cached values: their shapes, when they may be used, and how they are sealed and stored in Redis.

Every value contains the head it was read under, and is used only if the durable store has exactly that head now: seq,
checkpoint, generation with its epoch, and the costs with their counter. A cached window of an older head can be
extended, because a log only grows: the entries from its newest one on are read, and the first of them must equal that
newest entry. This fails after a restored backup or a failover, where an entry may have the same seq and text but
another epoch.

A value is sealed with a secret, a document of the durable store, created by the first process that needs it. Bytes that
were damaged, forged, moved from another key or written by another store are rejected, also if two stores share a Redis
or a new store has the name of an old one.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from turnfold.errors import Conflict, InvalidRecord, StoreUnavailable, TurnfoldError
from turnfold.records import Checkpoint, Document, Entry
from turnfold.stores.log_semantics import Row, entry_row, row_entry
from turnfold.stores.protocol import Head, Scope, State, Store
from turnfold.stores.redis.engine import RedisEngine, SessionKeys

__all__ = (
    "SECRET_BYTES",
    "CachedCheckpoints",
    "CachedDocument",
    "CachedWindow",
    "Counts",
    "SealedValues",
    "SessionValueRead",
    "document_field",
    "entries_of",
    "extend_window",
    "is_fresh",
    "make_window",
    "open_sealed",
    "seal",
    "session_key",
    "session_keys",
    "store_mark",
    "tail_of",
)


SECRET_BYTES = 32
_SEAL_BYTES = 16
_FORMAT = b"2"
"""Version of the values' format, part of every seal: a release with another format cannot open them."""
_PREFIX = "short_term_memory:session:"
_UNKNOWN = -1

ValueT = TypeVar("ValueT", bound=msgspec.Struct)


class CachedWindow(msgspec.Struct, frozen=True, array_like=True):
    """The newest rows of a conversation."""

    head: Head
    budget: int
    """Token budget for which these rows are the complete tail; -1 if unknown."""
    rows: tuple[Row, ...]


class CachedDocument(msgspec.Struct, frozen=True, array_like=True):
    """A document, or None if there is none."""

    head: Head
    value: Document | None


class CachedCheckpoints(msgspec.Struct, frozen=True, array_like=True):
    """All checkpoints of a conversation."""

    head: Head
    value: tuple[Checkpoint, ...]


def session_key(scope: Scope, conversation: str, *, default_tenant: str) -> str:
    """Return the key of a conversation: `short_term_memory:session:<id>`, other tenants' `...:{<tenant>/<id>}`.

    No two conversations share a key: a quoted tenant contains no `/`, and an id with a brace is written in the second
    form for every tenant. A cluster places the key by the part in braces.
    """
    if scope.tenant == default_tenant and not {"{", "}"} & set(conversation):
        return _PREFIX + conversation
    return f"{_PREFIX}{{{quote(scope.tenant, safe='')}/{conversation}}}"


def session_keys(scope: Scope, conversation: str, *, default_tenant: str) -> SessionKeys:
    """Return all keys of a conversation, which a cluster places together."""
    key = session_key(scope, conversation, default_tenant=default_tenant)
    placed = key if "{" in key else f"{{{key}}}"
    return SessionKeys(key, f"{placed}:written", f"{placed}:cache")


def document_field(kind: str, key: str) -> bytes:
    """Return the hash field of a document; the length of the kind in it separates kind and key unambiguously."""
    return f"document:{len(kind)}:{kind}:{key}".encode("utf-8", "surrogatepass")


def is_fresh(cached: Head, now: Head) -> bool:
    """Return True if a value read under the head `cached` is valid under the head `now`."""
    return cached == now


def seal(value: msgspec.Struct, secret: bytes, key: str, field: bytes) -> bytes | None:
    """Return the bytes to cache, or None if the value cannot be encoded."""
    try:
        body = msgspec.msgpack.encode(value)
    except (msgspec.MsgspecError, UnicodeError, OverflowError):
        return None
    return _seal_digest(body, secret, key, field) + body


def open_sealed(
    sealed: bytes, kind: type[ValueT], secret: bytes, *, key: str, field: bytes
) -> ValueT | None:
    """Return the value if its seal for this key and field verifies, else None."""
    digest, body = sealed[:_SEAL_BYTES], sealed[_SEAL_BYTES:]
    if not hmac.compare_digest(digest, _seal_digest(body, secret, key, field)):
        return None
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def store_mark(secret: bytes) -> str:
    """Return an id of the durable store that reveals nothing about the secret."""
    return hashlib.blake2b(b"store", key=secret, digest_size=8).hexdigest()


def _seal_digest(body: bytes, secret: bytes, key: str, field: bytes) -> bytes:
    digest = hashlib.blake2b(key=secret, digest_size=_SEAL_BYTES)
    for part in (_FORMAT, key.encode(), field, body):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def entries_of(rows: Sequence[Row]) -> list[Entry] | None:
    """Return the entries of rows, or None if one cannot be decoded."""
    try:
        return [row_entry(row) for row in rows]
    except InvalidRecord:
        return None


def make_window(
    head: Head, entries: Sequence[Entry], *, tokens: int, messages: int
) -> CachedWindow | None:
    """Return the window to cache for the newest entries, read after `head`; None if they do not match `head`."""
    covered = [entry for entry in entries if entry.seq <= head.seq]
    if not covered or not _ends_at(head, covered[-1]):
        return None
    spent_later = entries[-1].running - head.tokens
    cut_by_count = messages and len(entries) >= messages
    rows = tuple(entry_row(entry) for entry in covered)
    return CachedWindow(head, _UNKNOWN if cut_by_count else tokens - spent_later, rows)


def tail_of(window: CachedWindow, *, tokens: int, messages: int) -> Sequence[Row] | None:
    """Return the newest rows that cost at most `tokens` together; None if the window does not reach back far enough."""
    rows, total = window.rows, window.head.tokens
    first = len(rows)
    while first:
        row = rows[first - 1]
        if total - row.running + row.tokens > tokens or 0 < messages <= len(rows) - first:
            return rows[first:]
        first -= 1
    if not rows:
        return None
    reaches = rows[0].seq == 1 or tokens <= window.budget or messages == len(rows)
    return rows if reaches else None


def extend_window(window: CachedWindow, head: Head, newer: Sequence[Entry]) -> CachedWindow | None:
    """Extend a window to a later head; None if that fails. `newer`: the log's entries from the window's newest on."""
    rows = tuple(entry_row(entry) for entry in newer)
    if not rows or not window.rows or rows[0] != window.rows[-1] or not _ends_at(head, rows[-1]):
        return None
    if not rows[0].epoch:
        return None  # a row without an epoch may belong to another history
    for earlier, later in pairwise(rows):
        if later.seq != earlier.seq + 1 or later.running != earlier.running + later.tokens:
            return None
    return _trimmed(CachedWindow(head, window.budget, window.rows + rows[1:]), len(window.rows))


def _trimmed(window: CachedWindow, count: int) -> CachedWindow | None:
    """Return the window cut to its budget, so that it does not grow with the conversation."""
    if window.budget == _UNKNOWN:
        return CachedWindow(window.head, _UNKNOWN, window.rows[-count:])
    rows = tail_of(window, tokens=window.budget, messages=0)
    return CachedWindow(window.head, window.budget, tuple(rows)) if rows else None


def _ends_at(head: Head, row: Row | Entry) -> bool:
    return row.seq == head.seq and row.running == head.tokens


_OWN_SCOPE = Scope("turnfold:cache")
_OWN_CONVERSATION = "turnfold:cache"
_SEAL = ("cache", "seal")


@dataclass(slots=True)
class Counts:
    """Results of the reads that the cache can serve. Updated without a lock, for information only."""

    hits: int = 0
    joined: int = 0
    """Reads served from an older cached window and newer entries of the store."""
    misses: int = 0
    fills: int = 0
    refused: int = 0
    """Values not cached because a newer value was cached, or Redis did not respond."""
    unfit: int = 0
    """Values not cached because they are too large, were read too long ago, or changed meanwhile."""
    rubbish: int = 0
    """Cached values that were rejected because their seal did not verify."""


@dataclass(frozen=True, slots=True)
class SessionValueRead:
    """A documented session value as it was found."""

    value: bytes | None = None
    state: State | None = None
    """The state of the conversation it was written for; None if another program wrote it."""
    known: bool = False
    """True if this store wrote the value before it, and it has not expired."""
    deleted: bool = False
    """True if this store wrote one that somebody deleted before its time."""


class _SessionMark(NamedTuple):
    store: str
    state: State
    digest: str


def _session_mark(mark: bytes | None) -> _SessionMark | None:
    parts = (mark or b"").decode("ascii", "replace").split(" ")
    if len(parts) != 5 or not (parts[1].isdigit() and parts[2].lstrip("-").isdigit()):
        return None
    return _SessionMark(parts[0], (int(parts[1]), int(parts[2])), parts[3])


def _text_digest(value: bytes) -> str:
    return hashlib.blake2b(value, digest_size=16).hexdigest()


class SealedValues:
    """The cached values of all conversations."""

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
        self._secret_error = ""
        self.engine = engine
        self.counts = Counts()

    @property
    def is_available(self) -> bool:
        """True if Redis responded to the last call; otherwise no value needs to be prepared for it."""
        return self.engine.breaker.state == "closed"

    async def get(
        self, scope: Scope, conversation: str, field: bytes, kind: type[ValueT]
    ) -> ValueT | None:
        """Return the cached value if its seal verifies, else None."""
        secret = await self._get_secret()
        key = self._key(scope, conversation)
        sealed = await self.engine.fetch(key, field) if secret else None
        if sealed is None:
            return None
        found = open_sealed(sealed, kind, secret, key=key, field=field)
        if found is None:
            self.counts.rubbish += 1
        elif self.engine.pending_erasures:
            await self.engine.erase_pending()
        return found

    async def put(
        self, scope: Scope, conversation: str, field: bytes, value: msgspec.Struct, generation: int
    ) -> None:
        """Cache a value unless a newer one is cached."""
        secret = await self._get_secret()
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
            if self.engine.pending_erasures:
                await self.engine.erase_pending()
        else:
            self.counts.refused += 1

    async def erase(self, scope: Scope, conversation: str) -> None:
        """Delete everything cached of a conversation."""
        secret = await self._get_secret()
        store = store_mark(secret) if secret else ""
        await self.engine.erase(self._keys(scope, conversation), store=store)

    async def read_session(self, scope: Scope, conversation: str) -> SessionValueRead:
        """Return the documented session value, and whether this store wrote it."""
        secret = await self._get_secret()
        if not secret:
            return SessionValueRead()
        value, mark, deleted = await self.engine.read_session(self._keys(scope, conversation))
        written = _session_mark(mark)
        if written is None or written.store != store_mark(secret):
            return SessionValueRead(value)
        if value is None:
            return SessionValueRead(deleted=deleted)
        return SessionValueRead(
            value, written.state if written.digest == _text_digest(value) else None, known=True
        )

    async def write_session(
        self, scope: Scope, conversation: str, value: bytes, state: State
    ) -> None:
        """Store the documented session value of a state."""
        secret = await self._get_secret()
        if not secret or len(value) > self._largest_value:
            self.counts.unfit += 1
            return
        done = await self.engine.write_session(
            self._keys(scope, conversation),
            value,
            store=store_mark(secret),
            state=state,
            digest=_text_digest(value),
            ttl_seconds=self._ttl_seconds,
        )
        self.counts.fills += done
        self.counts.refused += not done

    def details(self) -> Mapping[str, str]:
        """Return state and counters, for `health`."""
        breaker = self.engine.breaker
        failures = ", ".join(f"{kind} {count}" for kind, count in sorted(breaker.failures.items()))
        return {
            "redis": breaker.state,
            "redis.outages": str(breaker.outages),
            "redis.failures": failures or "0",
            "redis.calls": str(self.engine.calls),
            "redis.crowded": str(self.engine.crowded),
            "redis.owed-erasures": str(self.engine.pending_erasures),
            **{f"redis.{name}": str(count) for name, count in asdict(self.counts).items()},
        }

    def warnings(self) -> tuple[str, ...]:
        """Return warnings for the operator."""
        found: list[str] = []
        if self.engine.breaker.state != "closed":
            found.append("Redis does not respond: every read goes to the durable store")
        if self._secret_error and not self._secret:
            found.append(
                f"the cache's secret cannot be read from the store ({self._secret_error}): nothing is cached"
            )
        if self.engine.unerased:
            found.append(
                f"{self.engine.unerased} deleted conversations could not be removed from Redis in time; they expire "
                f"{self._ttl_seconds:g} s after they were last cached"
            )
        return tuple(found)

    def _keys(self, scope: Scope, conversation: str) -> SessionKeys:
        return session_keys(scope, conversation, default_tenant=self._default_tenant)

    def _key(self, scope: Scope, conversation: str) -> str:
        return self._keys(scope, conversation).cache

    async def _get_secret(self) -> bytes:
        """Return the durable store's secret; empty while it cannot be read, and then nothing is cached."""
        if not self._secret:
            try:
                self._secret = await self._read_secret()
            except TurnfoldError as error:
                self._secret_error = type(error).__name__
        return self._secret

    async def _read_secret(self) -> bytes:
        place = (_OWN_SCOPE, _OWN_CONVERSATION)
        found = await self._inner.get_document(*place, *_SEAL)
        if found is None:
            made = Document(*_SEAL, secrets.token_bytes(SECRET_BYTES), version=0)
            try:
                found = (await self._inner.put_document(*place, made, expect=0)).document
            except Conflict:  # another process was first
                found = await self._inner.get_document(*place, *_SEAL)
        if found is None or len(found.body) != SECRET_BYTES:
            raise StoreUnavailable(f"the cache's secret is not {SECRET_BYTES} bytes long")
        return found.body
