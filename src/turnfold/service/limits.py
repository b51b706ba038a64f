"""Limits of a service: size of a body, requests per access token, and tokens and bytes of the messages of a tenant.

Each error shows the numbers and, if waiting helps, how long to wait. The rate is limited per access token and process.

The quota of (model) tokens is checked against the totals in the listing of conversations, without reading messages. The
byte quota covers messages, summaries and the documents stored with them (pins, state, snapshots, remembered tool
results, manifests, stored responses), each with `ROW_BYTES` added. The bytes are found by a scan, at most once a
minute: it reads the new entries and the documents of changed conversations; only the first scan of a tenant after
startup reads everything. Services without a byte quota do not scan.

Between two scans a process adds the bytes that it writes itself: `Quota.metered` wraps the store that the service
opened and, if that is a cache, the durable store it caches, which some writes reach directly. Several processes
together may exceed the quota by what they write between two scans. The usage of a bounded number of tenants is cached;
the least recently used is evicted.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Final, cast

from msgspec.structs import astuple

from turnfold.errors import InvalidOption, LimitExceeded, StoreError
from turnfold.records import (
    AudioPart,
    Checkpoint,
    Document,
    Entry,
    FilePart,
    ImagePart,
    Message,
    NewEntry,
    Part,
    ToolResult,
    encode_message,
)
from turnfold.stores import (
    Appended,
    ConversationInfo,
    ConversationOpening,
    Piece,
    Restored,
    Scope,
    State,
    Store,
    redaction_of,
)

__all__ = (
    "ROW_BYTES",
    "Limits",
    "Quota",
    "RateLimit",
)


ROW_BYTES: Final = 100
"""Bytes that the quota adds for each message, summary and document, for its keys and index entries."""


_MOST_BUCKETS: Final = 10_000
_LARGEST_ANSWER: Final = 64 << 20
"""Most bytes of a response; a request for more is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a service: sizes, rates, quotas, concurrency and deadlines."""

    body: int = 8 * 1024 * 1024
    """Largest request body in bytes."""
    rate: float = 0.0
    """Most requests per second of one access token; 0 for no limit."""
    burst: int = 100
    """Most requests that an access token may send at once before the rate applies."""
    quota: int = 0
    """Most tokens that all logs of a tenant may have together; 0 for no limit."""
    stored: int = 0
    """Most bytes that all messages and documents of a tenant may have together; 0 for no limit."""
    answer_hours: float = 24.0
    """Hours for which a response is kept under its Idempotency-Key; 0 for ever."""
    streams: int = 32
    """Most event streams that an access token may have open at once."""
    concurrent: int = 64
    """Most requests of a tenant that run at once."""
    heavy: int = 2
    """Most requests of a tenant that run at once and need much computing: search, rank, count or fold (compact)."""
    queued: int = 64
    """Most requests of a tenant that wait until others end; more are refused."""
    request_seconds: float = 300.0
    """Seconds after which a request is cancelled."""
    message: int = 1_000_000
    """Most characters of a message: its texts, names, ids, tool arguments and metadata; media do not count."""
    batch: int = 1_000
    """Most messages that one request may append."""
    parts: int = 10_000
    """Most parts (texts, images, tool calls and results) that the messages of one request may have together."""
    keys: int = 100_000
    """Most keys that all objects in a request body may have together."""
    values: int = 200_000
    """Most values that all lists and objects in a request body may have together."""
    counted: int = 256 * 1024
    """Most bytes of the body of an operation that carries no messages and no files: contexts, pins, summaries, queries.
    Also the largest state of a session, because each change reads and writes the whole state."""
    connections: int = 1_000
    """Most open connections; fewer if the system allows the process fewer open files."""
    header_seconds: float = 10.0
    """Seconds within which the headers of a request must arrive."""
    body_seconds: float = 120.0
    """Seconds within which the whole body of a request must arrive."""
    read_seconds: float = 60.0
    """Seconds after which a connection is closed if its client has read nothing of what it was sent."""

    def __post_init__(self) -> None:
        at_least_one = (
            "batch", "body", "burst", "concurrent", "connections", "heavy", "keys", "message", "parts",
            "values",
        )  # fmt: skip
        for each in fields(self):
            least, given = int(each.name in at_least_one), getattr(self, each.name)
            if not given >= least:
                raise InvalidOption(f"{each.name}={given} must be at least {least}")
        for name in ("header_seconds", "body_seconds", "read_seconds", "request_seconds"):
            if not getattr(self, name) > 0:
                raise InvalidOption(f"{name}={getattr(self, name)} must be more than 0")

    def check_messages(self, messages: Sequence[Message]) -> None:
        """Raise `LimitExceeded` if a request appends too many messages or parts, or a message that is too long."""
        if len(messages) > self.batch:
            raise LimitExceeded(
                f"the request appends {len(messages):,} messages, the limit is {self.batch:,}; send them in parts",
                allowed=self.batch,
                asked=len(messages),
                status=413,
            )
        parts = sum(_number_of_parts(part) for message in messages for part in message.parts)
        if parts > self.parts:
            raise LimitExceeded(
                f"the messages have {parts:,} parts, the limit is {self.parts:,}; send fewer at once",
                allowed=self.parts,
                asked=parts,
                status=413,
            )
        size = max(map(_message_length, messages), default=0)
        if size > self.message:
            raise LimitExceeded(
                f"the message has {size:,} characters, the limit is {self.message:,}; send it in parts",
                allowed=self.message,
                asked=size,
                status=413,
            )

    def check_keys(self, keys: int) -> None:
        """Raise `LimitExceeded` if the objects in a request body have too many keys."""
        if keys > self.keys:
            raise LimitExceeded(
                f"the objects in the body have more than {self.keys:,} keys; send the body in parts",
                allowed=self.keys,
                asked=keys,
                status=413,
            )

    def check_values(self, values: int) -> None:
        """Raise `LimitExceeded` if the lists and objects in a request body have too many values."""
        if values > self.values:
            raise LimitExceeded(
                f"the lists and objects in the body have more than {self.values:,} values; send it in parts",
                allowed=self.values,
                asked=values,
                status=413,
            )

    def check_answer(self, size: int) -> None:
        """Raise `LimitExceeded` if a response, or its entries, would have too many bytes."""
        if size > _LARGEST_ANSWER:
            raise LimitExceeded(
                f"the answer would have more than {_LARGEST_ANSWER:,} bytes; ask for less at once",
                allowed=_LARGEST_ANSWER,
                asked=size,
                status=413,
            )

    def check_state(self, size: int) -> None:
        """Raise `LimitExceeded` if the state of a session would have more bytes than the limit."""
        if size > self.counted:
            raise LimitExceeded(
                f"the state of the session would have {size:,} bytes, the limit is {self.counted:,}; remove values",
                allowed=self.counted,
                asked=size,
                status=413,
            )

    def check_counted(self, size: int) -> None:
        """Raise `LimitExceeded` if the body of an operation that counts its text at once is too large."""
        if size > self.counted:
            raise LimitExceeded(
                f"the body has {size:,} bytes, the limit of this operation is {self.counted:,}; send less",
                allowed=self.counted,
                asked=size,
                status=413,
            )

    def check_body(self, size: int) -> None:
        """Raise `LimitExceeded` if a request body has more bytes than the limit."""
        if size > self.body:
            raise LimitExceeded(
                f"the body is larger than {self.body:,} bytes; send it in parts",
                allowed=self.body,
                asked=size,
                status=413,
            )


def _number_of_parts(part: Part) -> int:
    return 1 + len(part.content) if isinstance(part, ToolResult) else 1


def _message_length(message: Message) -> int:
    notes = len(message.name or "") + len(message.extra) + len(message.labels)
    return notes + sum(map(_part_length, message.parts))


def _part_length(part: Part) -> int:
    """Return the characters of everything in a part that is written as text; the data of media do not count."""
    if isinstance(part, ImagePart | AudioPart | FilePart):
        return len(part.extra)
    inner = sum(map(_part_length, part.content)) if isinstance(part, ToolResult) else 0
    return inner + sum(len(value) for value in astuple(part) if isinstance(value, str))


@dataclass(slots=True)
class RateLimit:
    """Rate limiter with one bucket per access token: a bucket refills at `rate` per second and holds `burst`."""

    rate: float = 0.0
    burst: int = 100
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])

    def take(self, name: str) -> None:
        """Count one request of the access token `name`; raises `LimitExceeded` if it sends requests too fast."""
        if not self.rate:
            return
        now = self.clock()
        level, at = self._buckets.get(name, (float(self.burst), now))
        level = min(self.burst, level + (now - at) * self.rate)
        if level < 1.0:
            self._buckets[name] = level, now
            again = (1.0 - level) / self.rate
            raise LimitExceeded(
                f"a token may send {self.burst} requests at once and {self.rate:g} per second: retry in {again:.2f} s",
                allowed=self.rate,
                asked=1,
                again=again,
            )
        self._buckets[name] = level - 1.0, now
        if len(self._buckets) > _MOST_BUCKETS:
            self._evict_idle(now)

    def _evict_idle(self, now: float) -> None:
        """Drop full buckets, because new ones are equal to them; if too few are full, drop the fullest others."""

        def used(name: str) -> float:
            level, at = self._buckets[name]
            return max(0.0, self.burst - level - (now - at) * self.rate)

        by_use = sorted(self._buckets, key=used)
        full = sum(not used(name) for name in by_use)
        for name in by_use[: max(full, len(by_use) - _MOST_BUCKETS // 2)]:
            del self._buckets[name]


_PAGE: Final = 1_000
_MOST_TENANTS: Final = 1_024
"""Most tenants whose usage (tokens and bytes) is cached; the one used least recently is dropped first."""
_MOST_DOCUMENTS: Final = 10_000
"""Most documents written between two scans whose sizes are kept by name; after more, a scan is due."""
_MOST_CONVERSATIONS: Final = 200_000
"""Most conversations whose usage is cached, for all tenants together; the tenant used last is always cached."""


@dataclass(slots=True)
class _ConversationUsage:
    """Stored tokens and bytes of one conversation."""

    tokens: int = 0
    seq: int = 0
    """Seq (log position) of the last entry that is counted in `log_bytes`."""
    state: State = (-1, 0)
    """State of the conversation when `other_bytes` was counted."""
    log_bytes: int = 0
    other_bytes: int = 0
    """Bytes of the documents and checkpoints of the conversation."""

    @property
    def bytes(self) -> int:
        return self.log_bytes + self.other_bytes


@dataclass(slots=True)
class _TenantUsage:
    """Stored tokens and bytes of one tenant: the sums of the last scan, and the writes since then."""

    at: float
    """Time of the last scan, by the quota's clock in seconds."""
    conversations: dict[str, _ConversationUsage]
    tokens: int = 0
    bytes: int = 0
    put: dict[tuple[str, str, str], int] = field(default_factory=dict[tuple[str, str, str], int])
    """(conversation, kind, key) -> bytes of the documents written since the scan, so that a document written twice
    counts once. Until the next scan, the version from before this scan counts as well."""
    stale: bool = False
    """True if something was removed since the scan, so that the sums may be too high."""

    def forget(self, conversation: str) -> None:
        gone = self.conversations.pop(conversation, None)
        if gone is not None:
            self.tokens -= gone.tokens
            self.bytes -= gone.bytes


@dataclass(slots=True)
class _ScanLock:
    """Lock that lets one request at a time scan a tenant."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    """Number of requests that hold the lock or wait for it."""
    usage: _TenantUsage | None = None
    """Usage that is written while a scan runs; None if none runs."""


@dataclass(slots=True)
class Quota:
    """Checks and counts the tokens and bytes that each tenant stores against its quota; 0 for no limit."""

    store: Store
    tokens: int = 0
    bytes: int = 0
    scan_every: float = 60.0
    clock: Callable[[], float] = time.monotonic
    _used: OrderedDict[str, _TenantUsage] = field(default_factory=OrderedDict[str, _TenantUsage])
    """Cached usage by tenant, least recently used first."""
    _scanning: dict[str, _ScanLock] = field(default_factory=dict[str, _ScanLock])

    def metered(self) -> Store:
        """Return a wrapper of the store that counts all writes; the store itself if there is no quota."""
        if not self.tokens and not self.bytes:
            return self.store
        redaction = redaction_of(self.store)
        if redaction is not None:
            redaction.on_stored = lambda scope, conversation, document: self.put(
                scope.tenant, conversation, document
            )
        return cast("Store", _MeteredStore(self.store, self))

    async def check(self, tenant: str, *, brings: int = 0, log: bool = True) -> None:
        """Raise `LimitExceeded` if the tenant is over its quota, or would be after storing `brings` more bytes.

        `log` is False for a request that adds no message; the token quota does not apply to it.
        """
        if not self.bytes and not (self.tokens and log):
            return
        used = await self._usage(tenant)
        try:
            self._refuse(used, brings, log=log)
        except LimitExceeded:
            if not used.stale:
                raise
            used.at = float(
                "-inf"
            )  # something was removed since the scan: scan again before refusing
            self._refuse(await self._usage(tenant), brings, log=log)

    def _refuse(self, used: _TenantUsage, brings: int, *, log: bool) -> None:
        if self.tokens and log and used.tokens >= self.tokens:
            raise LimitExceeded(
                f"this tenant stores {used.tokens:,} tokens, the quota is {self.tokens:,}: delete conversations",
                allowed=self.tokens,
                used=used.tokens,
                unit="tokens",
                status=403,
            )
        self._check_bytes(used.bytes, brings)

    def _check_bytes(self, used: int, brings: int) -> None:
        if self.bytes and used + brings > self.bytes:
            raise LimitExceeded(
                f"this tenant stores {used:,} bytes and this request adds {brings:,}: together "
                f"{used + brings:,}, the quota is {self.bytes:,}; delete conversations",
                allowed=self.bytes,
                used=used,
                asked=brings,
                unit="bytes",
                status=403,
            )

    def wrote(self, tenant: str, conversation: str, tokens: int) -> None:
        """Set the tokens of a conversation in the tenant's cached usage to `tokens`, its new total."""
        used = self._used.get(tenant)
        if used is not None:
            usage = used.conversations.setdefault(conversation, _ConversationUsage())
            used.tokens += tokens - usage.tokens
            usage.tokens = tokens

    def took(self, tenant: str, size: int) -> None:
        """Add `size` bytes of written entries, checkpoints or copied conversations to the tenant's cached usage."""
        for used in self._recorded(tenant):
            used.bytes += size

    def put(self, tenant: str, conversation: str, document: Document) -> None:
        """Add the bytes of a written document to the tenant's cached usage.

        A document that is written again counts once.

        Does nothing without a byte quota.
        """
        if not self.bytes:
            return
        name, size = (conversation, document.kind, document.key), _document_bytes(document)
        for used in self._recorded(tenant):
            used.bytes += size - used.put.get(name, 0)
            used.put[name] = size
            if len(used.put) > _MOST_DOCUMENTS:
                used.at = float("-inf")  # a scan is due

    def dropped(self, tenant: str, conversation: str, kind: str, key: str) -> None:
        """Subtract a removed document from the tenant's cached usage, if it was written since the last scan.

        An older one is subtracted by the next scan, which runs before a request is refused.
        """
        for used in self._recorded(tenant):
            used.bytes -= used.put.pop((conversation, kind, key), 0)
            used.stale = True

    def check_copy(self, tenant: str, size: int, tokens: int) -> None:
        """Raise `LimitExceeded` if copies with `size` bytes and `tokens` tokens do not fit the tenant's quotas.

        Uses the cached usage; without one, nothing is checked.
        """
        used = self._used.get(tenant)
        if used is None:
            return
        if self.tokens and used.tokens + tokens > self.tokens:
            raise LimitExceeded(
                f"this tenant stores {used.tokens:,} tokens and the copy has {tokens:,}: together "
                f"{used.tokens + tokens:,}, the quota is {self.tokens:,}; delete conversations",
                allowed=self.tokens,
                used=used.tokens,
                asked=tokens,
                unit="tokens",
                status=403,
            )
        self._check_bytes(used.bytes, size)

    def _recorded(self, tenant: str) -> Iterator[_TenantUsage]:
        """Yield the totals to which a write must be added: the cached ones, and those of a running scan."""
        known = self._used.get(tenant)
        if known is not None:
            yield known
        scan = self._scanning.get(tenant)
        if scan is not None and scan.usage is not None:
            yield scan.usage

    def erased(self, tenant: str, conversation: str) -> None:
        """Remove a deleted conversation from the tenant's cached usage."""
        used = self._used.get(tenant)
        if used is not None:
            used.forget(conversation)
            used.stale = True

    def shrank(self, tenant: str, conversation: str) -> None:
        """Note that a part of a conversation was erased; its size is subtracted by the next scan.

        A scan runs before a request is refused.
        """
        used = self._used.get(tenant)
        if used is not None:
            known = used.conversations.get(conversation, _ConversationUsage())
            used.conversations[conversation] = _ConversationUsage(known.tokens)
            used.stale = True

    async def _usage(self, tenant: str) -> _TenantUsage:
        """Return the tokens and bytes that a tenant stores; if a scan is due, one request scans and the others wait."""
        lock = self._scanning.setdefault(tenant, _ScanLock())
        lock.waiting += 1
        try:
            async with lock.lock:
                used = self._used.get(tenant)
                if used is None or self.clock() - used.at >= self.scan_every:
                    lock.usage = _TenantUsage(self.clock(), {})
                    try:
                        used = await self._scan(tenant, used, lock.usage)
                    finally:
                        lock.usage = None
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

    async def _scan(
        self, tenant: str, before: _TenantUsage | None, meanwhile: _TenantUsage
    ) -> _TenantUsage:
        """Read the tokens and bytes that a tenant stores, and return the sums.

        Writes during the scan may count twice.
        """
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
        stored = sum(each.bytes for each in found.values()) + max(meanwhile.bytes, 0)
        return _TenantUsage(meanwhile.at, found, tokens, stored, meanwhile.put)

    async def _measure(
        self, tenant: str, info: ConversationInfo, known: dict[str, _ConversationUsage]
    ) -> _ConversationUsage:
        """Return a conversation's stored tokens and bytes; reads its documents, and entries since the last scan."""
        usage, head = replace(known.get(info.conversation, _ConversationUsage())), info.head
        if head.seq < usage.seq or (
            head.state != usage.state and head.generation <= usage.state[0]
        ):
            # The conversation was deleted and created again, or the store was restored: count from the start.
            usage = _ConversationUsage()
        usage.tokens = head.tokens
        if not self.bytes or usage.state == head.state:
            return usage
        place = Scope(tenant), info.conversation
        while usage.seq < head.seq:
            page = await self.store.read(*place, after=usage.seq, upto=head.seq, limit=_PAGE)
            if not page:
                break  # deleted meanwhile
            usage.log_bytes += sum(_entry_bytes(each) for each in page)
            usage.seq = page[-1].seq
        sizes: list[int] = []

        def take(document: Document) -> None:
            sizes.append(_document_bytes(document))

        captured = await self.store.capture(*place, take)
        sizes += map(_checkpoint_bytes, captured.checkpoints if captured else ())
        usage.other_bytes, usage.state = sum(sizes), head.state
        return usage


class _MeteredStore:
    """Wrapper of a store that adds what is written to a quota, after each call of a method in `_METERED`.

    It has no other attributes than the methods of a store, because another attribute could allow uncounted writes.
    """

    def __init__(self, inner: Store, quota: Quota) -> None:
        self._inner = inner
        self._quota = quota
        self.abilities, self.blocking = inner.abilities, inner.blocking
        self.redaction = redaction_of(inner)
        self.session_values: object = getattr(inner, "session_values", None)
        """Copies of sessions in Redis, if there is a cache; they expire, so the quota does not count them."""
        self.content_digest: object = getattr(inner, "content_digest", None)
        """Makes the keyed digests in the ids of an encrypted store; None if the store is not encrypted."""
        durable = cast("Store | None", getattr(inner, "durable", None))
        self.durable = None if durable is None else _MeteredStore(durable, quota)
        """The durable store that `inner` caches, if `inner` is a cache; `ShortMemory` writes to it directly."""
        for name in _READS:
            setattr(self, name, getattr(inner, name))
        for name, record in _METERED.items():
            setattr(self, name, _metered(inner, name, partial(record, quota)))

    async def drop_checkpoint(
        self,
        scope: Scope,
        conversation: str,
        checkpoint: str,
        *,
        put: Sequence[Document] = (),
        drop: Sequence[Document] = (),
        state: State | None = None,
    ) -> list[Checkpoint]:
        gone = await self._inner.drop_checkpoint(
            scope, conversation, checkpoint, put=put, drop=drop, state=state
        )
        for document in put:
            self._quota.put(scope.tenant, conversation, document)
        return gone

    async def restore(self, scope: Scope, pieces: Iterable[Piece]) -> Restored:
        size, conversation = 0, ""
        tokens = Counter[str]()
        refusal: LimitExceeded | None = None

        def counted() -> Iterator[Piece]:
            nonlocal size, conversation, refusal
            for piece in pieces:
                size += _piece_bytes(piece)
                if isinstance(piece, ConversationOpening):
                    conversation = piece.conversation
                elif isinstance(piece, Entry):
                    tokens[conversation] += piece.tokens
                try:
                    self._quota.check_copy(scope.tenant, size, tokens.total())
                except LimitExceeded as error:
                    refusal = error
                    raise
                yield piece

        try:
            done = await self._inner.restore(scope, counted())
        except StoreError:  # a store wraps an error raised while it iterates
            if refusal is not None:
                raise refusal from None
            raise
        self._quota.took(scope.tenant, size)
        for copied, total in tokens.items() if done.conversations else ():
            self._quota.wrote(scope.tenant, copied, total)
        return done


def _metered(
    store: Store, name: str, record: Callable[..., None]
) -> Callable[..., Coroutine[object, None, object]]:
    call = getattr(store, name)

    async def write(scope: Scope, *args: object, **options: object) -> object:
        done = await call(scope, *args, **options)
        record(scope.tenant, done, *args)
        return done

    return write


def _appended(
    quota: Quota, tenant: str, done: Appended, conversation: str, entries: Sequence[NewEntry]
) -> None:
    if not done.repeated:
        quota.took(tenant, sum(map(_entry_bytes, entries)))
        quota.wrote(tenant, conversation, done.head.tokens)


def _added_checkpoint(
    quota: Quota, tenant: str, _done: object, _conversation: str, checkpoint: Checkpoint
) -> None:
    quota.took(tenant, _checkpoint_bytes(checkpoint))


def _put(quota: Quota, tenant: str, _done: object, conversation: str, document: Document) -> None:
    quota.put(tenant, conversation, document)


def _dropped(
    quota: Quota, tenant: str, _done: object, conversation: str, kind: str, key: str
) -> None:
    quota.dropped(tenant, conversation, kind, key)


def _erased(quota: Quota, tenant: str, _done: object, conversation: str, *_entry: object) -> None:
    quota.shrank(tenant, conversation)


def _deleted(quota: Quota, tenant: str, _done: object, conversation: str) -> None:
    quota.erased(tenant, conversation)


_METERED: Final[dict[str, Callable[..., None]]] = {
    "append": _appended,
    "add_checkpoint": _added_checkpoint,
    "put_document": _put,
    "note": _put,
    "drop_document": _dropped,
    "erase": _erased,
    "delete": _deleted,
}
"""Name of a store method -> function that adds its calls to the quota, given quota, tenant, result and positional
arguments."""


_READS: Final = (
    "head view read read_ranges read_turn find tail live_checkpoint checkpoints get_document documents conversations "
    "search capture health close"
).split()
"""Methods of a store that write nothing."""


def _entry_bytes(entry: NewEntry | Entry) -> int:
    return len(encode_message(entry.message)) + len(entry.client_id.encode()) + ROW_BYTES


def _document_bytes(document: Document) -> int:
    return len(document.body) + len(document.text.encode()) + len(document.key.encode()) + ROW_BYTES


def _checkpoint_bytes(checkpoint: Checkpoint) -> int:
    return len(checkpoint.text.encode()) + ROW_BYTES


def _piece_bytes(piece: Piece) -> int:
    match piece:
        case Entry():
            return _entry_bytes(piece)
        case Document():
            return _document_bytes(piece)
        case Checkpoint():
            return _checkpoint_bytes(piece)
        case ConversationOpening():
            return 0
