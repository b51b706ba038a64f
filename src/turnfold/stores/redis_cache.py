"""Redis in front of a durable store: the same answers, fewer rows read; never the truth, never in the way.

Writes go to the durable store and are acknowledged by it alone. Reads of the hot window, of documents and of
checkpoints first read the head there, one lookup by key, and use what Redis keeps only if that was read under this
very head. So nothing has to be invalidated, and a Redis that is dead, slow, emptied, damaged or out of date changes
how long an answer takes, not what it says. The head itself, and everything Redis cannot prove, comes from the
durable store.
"""

# ruff: noqa: D102 (the verbs are described once, in stores/protocol.py)

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from turnfold.errors import InvalidOption
from turnfold.records import Checkpoint, Document, Entry, NewEntry
from turnfold.stores.protocol import (
    Ability,
    Appended,
    Captured,
    ConversationInfo,
    Erasure,
    Head,
    Health,
    Hit,
    Piece,
    Restored,
    Scope,
    State,
    Store,
    Written,
    check_name,
)
from turnfold.stores.redis_engine import RedisEngine
from turnfold.stores.redis_shelf import Shelf
from turnfold.stores.redis_values import (
    KeptCheckpoints,
    KeptDocument,
    Window,
    document_field,
    entries_of,
    is_fresh,
    joined,
    tail_of,
    window_of,
)
from turnfold.stores.within import ALL_ENTRIES, Within

__all__ = ("CachedStore",)

_WINDOW = b"window"
_CHECKPOINTS = b"checkpoints"
_MOST_NEW = 256
"""An older window this many entries behind is not worth joining."""
_OLDEST_FILL = 10.0
"""Seconds after which what was read is not kept any more: an erasure's mark lasts longer than this."""


class CachedStore:
    """A durable store with Redis in front of it. It takes the store over: closing it closes both.

    `on_answer` is told of each question to Redis how many seconds it took and whether it was answered.
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
        self._shelf = Shelf(
            inner,
            engine,
            ttl_seconds=ttl_seconds,
            largest_value=largest_value,
            default_tenant=default_tenant,
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

    async def read_turn(self, scope: Scope, conversation: str, turn: int) -> list[Entry]:
        return await self._inner.read_turn(scope, conversation, turn)

    async def find(self, scope: Scope, conversation: str, client_ids: Sequence[str]) -> list[Entry]:
        return await self._inner.find(scope, conversation, client_ids)

    async def tail(
        self, scope: Scope, conversation: str, *, tokens: int, messages: int = 0
    ) -> list[Entry]:
        began = self._monotonic()
        head = await self._inner.head(scope, conversation)
        # A store recounts a conversation that was written with another counter; a cache must not hide that.
        if head.seq and head.counter == self._counter and tokens >= 0 and messages >= 0:
            window = await self._current_window(scope, conversation, head)
            rows = window and tail_of(window, tokens=tokens, messages=messages)
            entries = None if rows is None else entries_of(rows)
            if entries is not None:
                return entries
        self._shelf.counts.misses += 1
        found = await self._inner.tail(scope, conversation, tokens=tokens, messages=messages)
        if self._counter is not None and not self._shelf.answers:
            return found
        window = window_of(head, found, tokens=tokens, messages=messages)
        if window is not None and await self._is_ours(scope, conversation, head, began):
            await self._shelf.put(scope, conversation, _WINDOW, window, head.generation)
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

    async def live_checkpoint(self, scope: Scope, conversation: str) -> Checkpoint | None:
        return await self._inner.live_checkpoint(scope, conversation)

    async def checkpoints(self, scope: Scope, conversation: str) -> list[Checkpoint]:
        began = self._monotonic()
        head = await self._inner.head(scope, conversation)
        if not head.checkpoint:
            return await self._inner.checkpoints(scope, conversation)
        kept = await self._shelf.get(scope, conversation, _CHECKPOINTS, KeptCheckpoints)
        if kept is not None and is_fresh(kept.head, head):
            self._shelf.counts.hits += 1
            return list(kept.checkpoints)
        self._shelf.counts.misses += 1
        found = await self._inner.checkpoints(scope, conversation)
        if self._shelf.answers and await self._unchanged(scope, conversation, head, began):
            kept = KeptCheckpoints(head, tuple(found))
            await self._shelf.put(scope, conversation, _CHECKPOINTS, kept, head.generation)
        return found

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
        began = self._monotonic()
        head = await self._inner.head(scope, conversation)
        if not head.generation:
            return await self._inner.get_document(scope, conversation, kind, key)
        field = document_field(kind, key)
        kept = await self._shelf.get(scope, conversation, field, KeptDocument)
        if kept is not None and is_fresh(kept.head, head):
            self._shelf.counts.hits += 1
            return kept.document
        self._shelf.counts.misses += 1
        found = await self._inner.get_document(scope, conversation, kind, key)
        if self._shelf.answers and await self._unchanged(scope, conversation, head, began):
            kept = KeptDocument(head, found)
            await self._shelf.put(scope, conversation, field, kept, head.generation)
        return found

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
        # What is kept answers for the head it was read under only: a restored conversation has another.
        return await self._inner.restore(scope, pieces)

    async def delete(self, scope: Scope, conversation: str) -> Erasure:
        erasure = await self._inner.delete(scope, conversation)
        await self._shelf.erase(scope, conversation)
        return erasure

    async def health(self) -> Health:
        inner = await self._inner.health()
        return Health(
            ok=inner.ok,
            backend=f"{inner.backend}+redis",
            details={**inner.details, **self._shelf.details()},
            warnings=(*inner.warnings, *self._shelf.warnings()),
        )

    async def close(self) -> None:
        await self._shelf.engine.close()
        await self._inner.close()

    async def _current_window(self, scope: Scope, conversation: str, head: Head) -> Window | None:
        """The kept window, brought up to this head when it is older."""
        kept = await self._shelf.get(scope, conversation, _WINDOW, Window)
        if kept is None or is_fresh(kept.head, head):
            self._shelf.counts.hits += kept is not None
            return kept
        behind = head.seq - kept.head.seq
        if not 0 <= behind <= _MOST_NEW or kept.head.counter != head.counter:
            return None
        newest = kept.head.seq
        newer = await self._inner.read(scope, conversation, after=newest - 1, upto=head.seq)
        window = joined(kept, head, newer)
        if window is not None:
            self._shelf.counts.joined += 1
            await self._shelf.put(scope, conversation, _WINDOW, window, head.generation)
        return window

    async def _is_ours(self, scope: Scope, conversation: str, head: Head, began: float) -> bool:
        """Whether the costs under `head` are by the counter of the store behind; it has just been asked for a tail."""
        if self._counter is None and await self._unchanged(scope, conversation, head, began):
            self._counter = head.counter
        return head.counter == self._counter and self._monotonic() - began <= _OLDEST_FILL

    async def _unchanged(self, scope: Scope, conversation: str, head: Head, began: float) -> bool:
        """Whether what was read since `head` was is what that head stands for, and is recent enough to keep."""
        same = is_fresh(head, await self._inner.head(scope, conversation))
        recent = self._monotonic() - began <= _OLDEST_FILL
        self._shelf.counts.unfit += not (same and recent)
        return same and recent


def _check_positive(**options: float) -> None:
    for name, value in options.items():
        if value <= 0:
            raise InvalidOption(f"{name} must be more than 0, got {value}")
