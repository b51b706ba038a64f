"""The values cached in Redis: their types, when they may be used, and how they are authenticated and stored.

Every value contains the head (version) of the conversation at which it was read, and is used only if the durable store
has exactly that head now: seq, checkpoint, generation with its epoch, and the token counts with their counter. A window
(the newest entries) cached at an older head can be extended, because a log only grows: the entries from its newest one
on are read, and the first of them must equal that newest entry. It does not after a restored backup or a failover,
where an entry may have the same seq and text but another epoch.

A value is sealed: a keyed hash, its authentication tag, stands before it. The secret for it is a document of the
durable store, created by the first process that needs it. So bytes that were damaged, forged, moved from another key or
written by another store are rejected, also if two stores share a Redis or a new store has the name of an old one.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from threading import Lock
from typing import NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from turnfold.errors import Conflict, InvalidRecord, StoreUnavailable, TurnfoldError
from turnfold.records import Checkpoint, Document, Entry
from turnfold.stores.log_semantics import Row, entry_row, row_entry
from turnfold.stores.protocol import Head, Scope, State, Store, View
from turnfold.stores.redis.guarded_client import RedisEngine, SessionKeys

__all__ = (
    "OLDEST_FILL",
    "SECRET_BYTES",
    "CachedCheckpoints",
    "CachedDocument",
    "CachedSegment",
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


OLDEST_FILL = 10.0
"""Seconds after its reading from which a value is not cached any more: a deletion's tombstone must outlast it."""
SECRET_BYTES = 32
_SEAL_BYTES = 16
_FORMAT = b"2"
"""Version of the format of cached values, part of every authentication tag: a release with another format rejects
them."""
_PREFIX = "short_term_memory:session:"
_UNKNOWN = -1
_SEGMENT = b"segment"
_OPENED_BYTES = 4 << 20
"""Most bytes of cached segments (notes and newest entries) that this process keeps decoded; beyond that, the oldest are
dropped."""

ValueT = TypeVar("ValueT", bound=msgspec.Struct)


class CachedWindow(msgspec.Struct, frozen=True, array_like=True):
    """Cached value: the newest rows of a conversation, and the head (version) at which they were read."""

    head: Head
    budget: int
    """Token budget for which the cached rows are exactly what `Store.tail` returns; -1 if unknown."""
    rows: tuple[Row, ...]


class CachedDocument(msgspec.Struct, frozen=True, array_like=True):
    """Cached value: a document, or None if it does not exist."""

    head: Head
    value: Document | None


class CachedCheckpoints(msgspec.Struct, frozen=True, array_like=True):
    """Cached value: all checkpoints (stored summaries) of a conversation."""

    head: Head
    value: tuple[Checkpoint, ...]


class CachedSegment(msgspec.Struct, frozen=True, array_like=True):
    """Cached value: what a query of a `ShortMemory` reads: head (version), checkpoint, documents, newest rows."""

    head: Head
    checkpoint: Checkpoint | None
    documents: tuple[Document, ...]
    rows: tuple[Row, ...]


def session_key(scope: Scope, conversation: str, *, default_tenant: str) -> str:
    """Return the Redis key of a session (JSON): `short_term_memory:session:<id>`, or `...:{<tenant>/<id>}`.

    The first form is for the default tenant. No two conversations share a key: a quoted tenant contains no `/`, and an
    id with a brace is written in the second form for every tenant. A cluster chooses the node by the part in braces.
    """
    if scope.tenant == default_tenant and not {"{", "}"} & set(conversation):
        return _PREFIX + conversation
    return f"{_PREFIX}{{{quote(scope.tenant, safe='')}/{conversation}}}"


def session_keys(scope: Scope, conversation: str, *, default_tenant: str) -> SessionKeys:
    """Return the three Redis keys of a conversation, which a cluster keeps on one node."""
    key = session_key(scope, conversation, default_tenant=default_tenant)
    placed = key if "{" in key else f"{{{key}}}"
    return SessionKeys(key, f"{placed}:written", f"{placed}:cache")


def document_field(kind: str, key: str) -> bytes:
    """Return the Redis hash field in which a document is cached; no two documents have the same."""
    return f"document:{len(kind)}:{kind}:{key}".encode("utf-8", "surrogatepass")


def is_fresh(cached: Head, now: Head) -> bool:
    """Return True if a cached value is still valid: the conversation has the same head (newest seq, version)."""
    return cached == now


def seal(value: msgspec.Struct, secret: bytes, key: str, field: bytes) -> bytes | None:
    """Return the bytes to cache (authentication tag and encoded value); None if the value cannot be encoded."""
    try:
        body = msgspec.msgpack.encode(value)
    except (msgspec.MsgspecError, UnicodeError, OverflowError):
        return None
    return _seal_digest(body, secret, key, field) + body


def open_sealed(
    sealed: bytes, kind: type[ValueT], secret: bytes, *, key: str, field: bytes
) -> ValueT | None:
    """Return the decoded value; None if its authentication tag is not right for this key and field."""
    digest, body = sealed[:_SEAL_BYTES], sealed[_SEAL_BYTES:]
    if not hmac.compare_digest(digest, _seal_digest(body, secret, key, field)):
        return None
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def store_mark(secret: bytes) -> str:
    """Return a public id of the durable store: a keyed hash, from which its secret cannot be found."""
    return hashlib.blake2b(b"store", key=secret, digest_size=8).hexdigest()


def _seal_digest(body: bytes, secret: bytes, key: str, field: bytes) -> bytes:
    digest = hashlib.blake2b(key=secret, digest_size=_SEAL_BYTES)
    for part in (_FORMAT, key.encode(), field, body):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def entries_of(rows: Sequence[Row]) -> list[Entry] | None:
    """Return the entries that cached rows contain; None if a row cannot be decoded."""
    try:
        return [row_entry(row) for row in rows]
    except InvalidRecord:
        return None


def make_window(
    head: Head, entries: Sequence[Entry], *, tokens: int, messages: int
) -> CachedWindow | None:
    """Return the newest entries as a value to cache; None if they do not end at `head`: the log has changed since."""
    covered = [entry for entry in entries if entry.seq <= head.seq]
    if not covered or not _ends_at(head, covered[-1]):
        return None
    spent_later = entries[-1].running - head.tokens
    cut_by_count = messages and len(entries) >= messages
    rows = tuple(entry_row(entry) for entry in covered)
    return CachedWindow(head, _UNKNOWN if cut_by_count else tokens - spent_later, rows)


def tail_of(window: CachedWindow, *, tokens: int, messages: int) -> Sequence[Row] | None:
    """Return the newest cached rows with at most `tokens` tokens together; None if too few are cached."""
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
    """Return cached rows extended by `newer` rows to a later version; None if these do not follow the cached ones.

    `newer` are the entries of the log from the window's newest one on.
    """
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
    """Return the cached rows cut to their token budget, so that the value stays small; None if no rows are left."""
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
    """Counters of cache hits, misses and rejected values. Updated without a lock, for information only."""

    hits: int = 0
    joined: int = 0
    """Number of reads answered from an older cached window together with newer entries of the durable store."""
    misses: int = 0
    fills: int = 0
    refused: int = 0
    """Number of values not cached because a newer value was cached, or Redis did not respond."""
    unfit: int = 0
    """Number of values not cached because they are too large, were read too long ago, or changed meanwhile."""
    rubbish: int = 0
    """Number of cached values that were rejected because their authentication tag was wrong."""


@dataclass(frozen=True, slots=True)
class SessionValueRead:
    """The session value (JSON object of document 003, which other programs read too) as it was found in Redis."""

    value: bytes | None = None
    state: State | None = None
    """The state of the conversation at which this store wrote the value; None if another program wrote it."""
    known: bool = False
    """True if this store wrote this value, or one that another program has overwritten."""
    deleted: bool = False
    """True if this store wrote a value that was deleted before it expired."""
    segment: bytes | None = None
    """The cached segment with its authentication tag, if it was requested."""
    read_at: float = 0.0
    """Time of the request to Redis, by the monotonic clock."""


class _SessionMark(NamedTuple):
    """Record in Redis next to a session (JSON object): which store wrote it, at which version, and its digest."""

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


_Segment: TypeAlias = tuple[View, list[Entry]]


class _OpenedSegments:
    """Cache of decoded segments: the same bytes under the same key are not decoded again. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._opened: OrderedDict[str, tuple[bytes, _Segment]] = OrderedDict()
        self._bytes = 0

    def get(self, key: str, sealed: bytes) -> _Segment | None:
        with self._lock:
            known, segment = self._opened.get(key, (b"", None))
            return segment if known == sealed else None

    def put(self, key: str, sealed: bytes, segment: _Segment) -> None:
        with self._lock:
            replaced, _ = self._opened.pop(key, (b"", None))
            self._opened[key] = (sealed, segment)
            self._bytes += len(sealed) - len(replaced)
            while self._bytes > _OPENED_BYTES:
                _, (oldest, _) = self._opened.popitem(last=False)
                self._bytes -= len(oldest)

    def drop(self, key: str) -> None:
        with self._lock:
            gone, _ = self._opened.pop(key, (b"", None))
            self._bytes -= len(gone)


class SealedValues:
    """Reads and writes the values cached in Redis, with their authentication tags."""

    def __init__(
        self,
        inner: Store,
        engine: RedisEngine,
        *,
        ttl_seconds: float,
        largest_value: int,
        default_tenant: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inner = inner
        self._monotonic = monotonic
        self._ttl_seconds = ttl_seconds
        self._largest_value = largest_value
        self._default_tenant = default_tenant
        self._secret = b""
        self._secret_error = ""
        self._segments = _OpenedSegments()
        self.engine = engine
        self.counts = Counts()

    @property
    def is_available(self) -> bool:
        """True unless Redis failed to respond lately; if False, it is not worth preparing a value to cache."""
        return self.engine.breaker.state == "closed"

    async def get(
        self, scope: Scope, conversation: str, field: bytes, kind: type[ValueT]
    ) -> ValueT | None:
        """Return the cached value; None if there is none, or if its authentication tag is wrong."""
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
        """Cache a value in Redis, unless it is too large or a value of a newer generation is cached."""
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
        """Delete all cached values and the session value (JSON object of document 003) of a conversation."""
        self._segments.drop(self._key(scope, conversation))
        secret = await self._get_secret()
        store = store_mark(secret) if secret else ""
        await self.engine.erase(self._keys(scope, conversation), store=store)

    async def read_session(
        self, scope: Scope, conversation: str, *, segment: bool = False
    ) -> SessionValueRead:
        """Return the session value (JSON object of document 003) in Redis and whether this store wrote it.

        With `segment`, the cached segment (notes and newest entries) is returned too.
        """
        secret = await self._get_secret()
        if not secret:
            return SessionValueRead()
        began, keys = self._monotonic(), self._keys(scope, conversation)
        found = await self.engine.read_session(keys, _SEGMENT if segment else b"")
        value, written = found.value, _session_mark(found.mark)
        read = SessionValueRead(value, segment=found.cached, read_at=began)
        if written is None or written.store != store_mark(secret):
            return read
        if value is None:
            return replace(read, deleted=found.deleted)
        state = written.state if written.digest == _text_digest(value) else None
        return replace(read, state=state, known=True)

    def now(self) -> float:
        """Return the current time of the monotonic clock, in seconds."""
        return self._monotonic()

    def open_segment(
        self, scope: Scope, conversation: str, sealed: bytes
    ) -> tuple[View, list[Entry]] | None:
        """Return a cached segment decoded: a view and the newest entries; None if its authentication tag is wrong."""
        key = self._key(scope, conversation)
        known = self._segments.get(key, sealed)
        if known is None:
            opened = open_sealed(sealed, CachedSegment, self._secret, key=key, field=_SEGMENT)
            entries = None if opened is None else entries_of(opened.rows)
            if opened is None or entries is None:
                self.counts.rubbish += 1
                return None
            known = View(opened.head, opened.checkpoint, opened.documents), entries
            self._segments.put(key, sealed, known)
        return known[0], list(known[1])

    async def write_segment(
        self, scope: Scope, conversation: str, view: View, entries: Sequence[Entry], *, since: float
    ) -> None:
        """Cache the data that one query needs: a view and the newest entries of a conversation, read after `since`."""
        fits = not entries or _ends_at(view.head, entries[-1])
        if not fits or self._monotonic() - since > OLDEST_FILL:
            self.counts.unfit += 1
            return
        rows = tuple(entry_row(entry) for entry in entries)
        segment = CachedSegment(view.head, view.checkpoint, view.documents, rows)
        await self.put(scope, conversation, _SEGMENT, segment, view.head.generation)

    async def write_session(
        self, scope: Scope, conversation: str, value: bytes, state: State
    ) -> None:
        """Store the session (JSON object) of a conversation in Redis; `state` is the version that it shows."""
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
        """Return the state of the circuit breaker and the counters of this process, for `Store.health`."""
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
        """Return warnings for the operator of the store, for `Store.health`."""
        found: list[str] = []
        if self.engine.breaker.state != "closed":
            found.append(
                "Redis does not respond: every read goes to the durable store. Check the server and the address of the "
                "cache"
            )
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
        """Return the secret for authentication tags; empty if it cannot be read, and then nothing is cached."""
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
            raise StoreUnavailable(
                f"the stored secret that authenticates cached values does not have {SECRET_BYTES} bytes, so nothing is "
                "cached: restore the store from a backup"
            )
        return found.body
