"""A Redis cache in front of a durable store: the same results with fewer rows read.

Writes go to the durable store, which alone acknowledges them. Reads of the newest entries, of documents and of
checkpoints (summaries) first read the head (version) of the conversation there, one lookup by key, and use a cached
value only if it was read at exactly that head. So nothing has to be invalidated. If Redis is down, slow, emptied,
damaged or stale, a read takes longer, but its result is the same. The head itself, and every value whose cached copy is
not authentic, come from the durable store.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from turnfold.errors import InvalidOption
from turnfold.records import Checkpoint, Document, Entry, Message, NewEntry
from turnfold.search import ALL_ENTRIES, Hit, Within
from turnfold.stores.protocol import (
    Ability,
    Appended,
    Captured,
    ConversationInfo,
    Erasure,
    Head,
    Health,
    Piece,
    Restored,
    Scope,
    State,
    Store,
    View,
    Written,
    check_name,
)
from turnfold.stores.redis.cached_values import (
    OLDEST_FILL,
    CachedCheckpoints,
    CachedDocument,
    CachedWindow,
    SealedValues,
    document_field,
    entries_of,
    extend_window,
    is_fresh,
    make_window,
    tail_of,
)
from turnfold.stores.redis.guarded_client import RedisEngine

__all__ = ("CachedStore",)


_Cached = TypeVar("_Cached", CachedCheckpoints, CachedDocument)
_WINDOW = b"window"
_CHECKPOINTS = b"checkpoints"
_MAX_NEW = 256
"""A cached window is extended if at most this many entries were added since; otherwise it is read again."""


class CachedStore:
    """A durable store with a Redis cache in front of it. Closing this object closes both.

    `on_answer` is called after each request to Redis with the seconds it took and whether Redis responded.
    """

    def __init__(
        self,
        inner: Store,
        redis_url: str,
        *,
        ttl_seconds: float = 1800.0,
        blocking: bool = False,
        cluster: bool = False,
        timeout_seconds: float = 0.05,
        longest_pause_seconds: float = 30.0,
        most_connections: int = 64,
        largest_value: int = 1 << 20,
        default_tenant: str = "default",
        monotonic: Callable[[], float] = time.monotonic,
        on_answer: Callable[[float, bool], None] | None = None,
    ) -> None:
        check_name(default_tenant, "default tenant")
        _check_positive(
            ttl_seconds=ttl_seconds,
            timeout_seconds=timeout_seconds,
            longest_pause_seconds=longest_pause_seconds,
            most_connections=most_connections,
            largest_value=largest_value,
        )
        self.abilities = inner.abilities & {Ability.DURABLE, Ability.SHARED, Ability.SEARCH}
        self.blocking = blocking and inner.blocking
        self._inner = inner
        self._monotonic = monotonic
        self._counter: str | None = None
        engine = RedisEngine(
            redis_url,
            blocking=blocking,
            cluster=cluster,
            timeout_seconds=timeout_seconds,
            longest_pause_seconds=longest_pause_seconds,
            most_connections=most_connections,
            clock=monotonic,
            on_answer=on_answer,
        )
        self._cache = SealedValues(
            inner,
            engine,
            ttl_seconds=ttl_seconds,
            largest_value=largest_value,
            default_tenant=default_tenant,
            monotonic=monotonic,
        )

    async def append(
        self,
        scope: Scope,
        conversation: str,
        entries: Sequence[NewEntry],
        *,
        expect: int | None = None,
    ) -> Appended:
        done = await self._inner.append(scope, conversation, entries, expect=expect)
        self._counter = done.head.counter
        return done

    async def head(self, scope: Scope, conversation: str) -> Head:
        return await self._inner.head(scope, conversation)

    async def read(
        self,
        scope: Scope,
        conversation: str,
        *,
        after: int = 0,
        upto: int | None = None,
        limit: int = 1000,
    ) -> list[Entry]:
        return await self._inner.read(scope, conversation, after=after, upto=upto, limit=limit)

    async def read_ranges(
        self, scope: Scope, conversation: str, ranges: Sequence[tuple[int, int]]
    ) -> list[Entry]:
        return await self._inner.read_ranges(scope, conversation, ranges)

    async def read_turn(self, scope: Scope, conversation: str, turn: int) -> list[Entry]:
        return await self._inner.read_turn(scope, conversation, turn)

    async def find(self, scope: Scope, conversation: str, client_ids: Sequence[str]) -> list[Entry]:
        return await self._inner.find(scope, conversation, client_ids)

    async def tail(
        self, scope: Scope, conversation: str, *, tokens: int, messages: int = 0
    ) -> list[Entry]:
        started = self._monotonic()
        head = await self._inner.head(scope, conversation)
        # A store recounts a conversation that was written with another counter; the cache must not hide that.
        if head.seq and head.counter == self._counter and tokens >= 0 and messages >= 0:
            window = await self._current_window(scope, conversation, head)
            rows = window and tail_of(window, tokens=tokens, messages=messages)
            entries = None if rows is None else entries_of(rows)
            if entries is not None:
                return entries
        self._cache.counts.misses += 1
        found = await self._inner.tail(scope, conversation, tokens=tokens, messages=messages)
        if self._counter is not None and not self._cache.is_available:
            return found
        window = make_window(head, found, tokens=tokens, messages=messages)
        if window is not None and await self._has_own_costs(scope, conversation, head, started):
            await self._cache.put(scope, conversation, _WINDOW, window, head.generation)
        return found

    async def add_checkpoint(
        self,
        scope: Scope,
        conversation: str,
        checkpoint: Checkpoint,
        *,
        seen: tuple[int, int] | None = None,
    ) -> Checkpoint:
        return await self._inner.add_checkpoint(scope, conversation, checkpoint, seen=seen)

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
        await self._cache.erase(scope, conversation)
        return gone

    async def live_checkpoint(self, scope: Scope, conversation: str) -> Checkpoint | None:
        return await self._inner.live_checkpoint(scope, conversation)

    async def view(self, scope: Scope, conversation: str, kinds: Sequence[str]) -> View:
        return await self._inner.view(scope, conversation, kinds)

    async def checkpoints(self, scope: Scope, conversation: str) -> list[Checkpoint]:
        started = self._monotonic()
        head = await self._inner.head(scope, conversation)
        if not head.checkpoint:
            return await self._inner.checkpoints(scope, conversation)

        async def load() -> CachedCheckpoints:
            found = await self._inner.checkpoints(scope, conversation)
            return CachedCheckpoints(head, tuple(found))

        place = (scope, conversation, _CHECKPOINTS)
        return list((await self._read_through(place, CachedCheckpoints, load, head, started)).value)

    async def put_document(
        self,
        scope: Scope,
        conversation: str,
        document: Document,
        *,
        expect: int | None = None,
        state: State | None = None,
        seen: tuple[int, int] | None = None,
    ) -> Written:
        return await self._inner.put_document(
            scope, conversation, document, expect=expect, state=state, seen=seen
        )

    async def note(
        self, scope: Scope, conversation: str, document: Document, *, state: State
    ) -> State:
        return await self._inner.note(scope, conversation, document, state=state)

    async def get_document(
        self, scope: Scope, conversation: str, kind: str, key: str
    ) -> Document | None:
        started = self._monotonic()
        head = await self._inner.head(scope, conversation)
        if not head.generation:
            return await self._inner.get_document(scope, conversation, kind, key)

        async def load() -> CachedDocument:
            return CachedDocument(
                head, await self._inner.get_document(scope, conversation, kind, key)
            )

        place = (scope, conversation, document_field(kind, key))
        return (await self._read_through(place, CachedDocument, load, head, started)).value

    async def documents(
        self, scope: Scope, conversation: str, kind: str, *, after: str = "", limit: int = 1000
    ) -> list[Document]:
        return await self._inner.documents(scope, conversation, kind, after=after, limit=limit)

    async def drop_document(
        self, scope: Scope, conversation: str, kind: str, key: str, *, expect: int | None = None
    ) -> bool:
        return await self._inner.drop_document(scope, conversation, kind, key, expect=expect)

    async def conversations(
        self, scope: Scope, *, after: str = "", limit: int = 100
    ) -> list[ConversationInfo]:
        return await self._inner.conversations(scope, after=after, limit=limit)

    async def search(
        self,
        scope: Scope,
        terms: Sequence[str],
        *,
        conversation: str | None = None,
        limit: int = 20,
        within: Within = ALL_ENTRIES,
    ) -> list[Hit]:
        return await self._inner.search(
            scope, terms, conversation=conversation, limit=limit, within=within
        )

    async def capture(
        self, scope: Scope, conversation: str, take: Callable[[Document], None]
    ) -> Captured | None:
        return await self._inner.capture(scope, conversation, take)

    async def restore(self, scope: Scope, pieces: Iterable[Piece]) -> Restored:
        # Cached values are valid only at the head at which they were read: a restored conversation has another one.
        return await self._inner.restore(scope, pieces)

    async def delete(self, scope: Scope, conversation: str) -> Erasure:
        erasure = await self._inner.delete(scope, conversation)
        await self._cache.erase(scope, conversation)
        return erasure

    async def erase(
        self,
        scope: Scope,
        conversation: str,
        seq: int,
        message: Message,
        *,
        replace: Sequence[Document] = (),
        drop: Sequence[Document] = (),
    ) -> Erasure:
        erasure = await self._inner.erase(
            scope, conversation, seq, message, replace=replace, drop=drop
        )
        await self._cache.erase(scope, conversation)
        return erasure

    @property
    def durable(self) -> Store:
        """The durable store behind the Redis cache."""
        return self._inner

    @property
    def session_values(self) -> SealedValues:
        """The sessions in Redis, JSON objects of document 003 that other programs read too; for `ShortMemory`."""
        return self._cache

    async def health(self) -> Health:
        inner = await self._inner.health()
        await self._cache.engine.ping()  # so that the details below say whether Redis responds now
        return Health(
            ok=inner.ok,
            backend=f"{inner.backend}+redis",
            details={**inner.details, **self._cache.details()},
            warnings=(*inner.warnings, *self._cache.warnings()),
        )

    async def close(self) -> None:
        await self._cache.engine.close()
        await self._inner.close()

    async def _read_through(
        self,
        place: tuple[Scope, str, bytes],
        kind: type[_Cached],
        load: Callable[[], Awaitable[_Cached]],
        head: Head,
        started: float,
    ) -> _Cached:
        """Return the cached value if the conversation has not changed since; otherwise load, cache and return it."""
        cached = await self._cache.get(*place, kind)
        if cached is not None and is_fresh(cached.head, head):
            self._cache.counts.hits += 1
            return cached
        self._cache.counts.misses += 1
        loaded = await load()
        if self._cache.is_available and await self._unchanged(place[0], place[1], head, started):
            await self._cache.put(*place, loaded, head.generation)
        return loaded

    async def _current_window(
        self, scope: Scope, conversation: str, head: Head
    ) -> CachedWindow | None:
        """Return the cached newest entries, extended to `head` by the entries added since.

        Returns None if that is not possible.
        """
        cached = await self._cache.get(scope, conversation, _WINDOW, CachedWindow)
        if cached is None or is_fresh(cached.head, head):
            self._cache.counts.hits += cached is not None
            return cached
        behind = head.seq - cached.head.seq
        if not 0 <= behind <= _MAX_NEW or cached.head.counter != head.counter:
            return None
        newest = cached.head.seq
        newer = await self._inner.read(scope, conversation, after=newest - 1, upto=head.seq)
        window = extend_window(cached, head, newer)
        if window is not None:
            self._cache.counts.joined += 1
            await self._cache.put(scope, conversation, _WINDOW, window, head.generation)
        return window

    async def _has_own_costs(
        self, scope: Scope, conversation: str, head: Head, started: float
    ) -> bool:
        """Return True if the token counts read at `head` may be cached, because this store's own counter made them."""
        if self._counter is None and await self._unchanged(scope, conversation, head, started):
            self._counter = head.counter
        return head.counter == self._counter and self._monotonic() - started <= OLDEST_FILL

    async def _unchanged(self, scope: Scope, conversation: str, head: Head, started: float) -> bool:
        """Return True if the conversation has not changed since `head` was read, and the read began recently enough."""
        same = is_fresh(head, await self._inner.head(scope, conversation))
        recent = self._monotonic() - started <= OLDEST_FILL
        self._cache.counts.unfit += not (same and recent)
        return same and recent


def _check_positive(**options: float) -> None:
    for name, value in options.items():
        if value <= 0:
            raise InvalidOption(f"{name} must be more than 0, got {value}")
