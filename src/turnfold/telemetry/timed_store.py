"""A store wrapper that measures how long each call of a durable store takes.

It wraps the durable store itself, below a cache, so that it measures the database. Calls that move whole conversations,
or none, are not measured: their times would hide the others.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from time import perf_counter
from typing import TypeVar

from turnfold.errors import Conflict, ConversationDeleted, IdReused, InvalidOption, WrongProcess
from turnfold.records import Checkpoint, Document, Entry, NewEntry
from turnfold.search import ALL_ENTRIES, Hit, Within
from turnfold.stores import (
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
)
from turnfold.telemetry.metrics import Meter

__all__ = (
    "MeteredStore",
    "redis_listener",
)


# ruff: noqa: D102 (the methods are described once, in stores/protocol.py)


_Result = TypeVar("_Result")
_READ = "database_read_seconds"
_WRITE = "database_write_seconds"
_REFUSALS = (Conflict, ConversationDeleted, IdReused, InvalidOption)
"""Errors by which a working store refuses a request."""


def redis_listener(meter: Meter) -> Callable[[float, bool], None]:
    """Return the callback of a cache that records the time of each Redis request in `meter`."""

    def listen(seconds: float, answered: bool) -> None:  # noqa: FBT001 (the signature of the callback)
        meter.observe("redis_seconds", seconds)
        if not answered:
            meter.add("redis_failures")

    return listen


class MeteredStore:
    """A store whose calls are timed."""

    def __init__(self, inner: Store, meter: Meter) -> None:
        self.abilities = inner.abilities
        self.blocking = inner.blocking
        self._inner = inner
        self._meter = meter

    async def append(
        self,
        scope: Scope,
        conversation: str,
        entries: Sequence[NewEntry],
        *,
        expect: int | None = None,
    ) -> Appended:
        return await self._timed(
            _WRITE, self._inner.append(scope, conversation, entries, expect=expect)
        )

    async def head(self, scope: Scope, conversation: str) -> Head:
        return await self._timed(_READ, self._inner.head(scope, conversation))

    async def view(self, scope: Scope, conversation: str, kinds: Sequence[str]) -> View:
        return await self._timed(_READ, self._inner.view(scope, conversation, kinds))

    async def read(
        self,
        scope: Scope,
        conversation: str,
        *,
        after: int = 0,
        upto: int | None = None,
        limit: int = 1000,
    ) -> list[Entry]:
        return await self._timed(
            _READ, self._inner.read(scope, conversation, after=after, upto=upto, limit=limit)
        )

    async def read_turn(self, scope: Scope, conversation: str, turn: int) -> list[Entry]:
        return await self._timed(_READ, self._inner.read_turn(scope, conversation, turn))

    async def find(self, scope: Scope, conversation: str, client_ids: Sequence[str]) -> list[Entry]:
        return await self._timed(_READ, self._inner.find(scope, conversation, client_ids))

    async def tail(
        self, scope: Scope, conversation: str, *, tokens: int, messages: int = 0
    ) -> list[Entry]:
        return await self._timed(
            _READ, self._inner.tail(scope, conversation, tokens=tokens, messages=messages)
        )

    async def add_checkpoint(
        self,
        scope: Scope,
        conversation: str,
        checkpoint: Checkpoint,
        *,
        seen: tuple[int, int] | None = None,
    ) -> Checkpoint:
        return await self._timed(
            _WRITE, self._inner.add_checkpoint(scope, conversation, checkpoint, seen=seen)
        )

    async def live_checkpoint(self, scope: Scope, conversation: str) -> Checkpoint | None:
        return await self._timed(_READ, self._inner.live_checkpoint(scope, conversation))

    async def checkpoints(self, scope: Scope, conversation: str) -> list[Checkpoint]:
        return await self._timed(_READ, self._inner.checkpoints(scope, conversation))

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
        return await self._timed(
            _WRITE,
            self._inner.put_document(
                scope, conversation, document, expect=expect, state=state, seen=seen
            ),
        )

    async def note(
        self, scope: Scope, conversation: str, document: Document, *, state: State
    ) -> State:
        return await self._timed(
            _WRITE, self._inner.note(scope, conversation, document, state=state)
        )

    async def get_document(
        self, scope: Scope, conversation: str, kind: str, key: str
    ) -> Document | None:
        return await self._timed(_READ, self._inner.get_document(scope, conversation, kind, key))

    async def documents(
        self, scope: Scope, conversation: str, kind: str, *, after: str = "", limit: int = 1000
    ) -> list[Document]:
        return await self._timed(
            _READ, self._inner.documents(scope, conversation, kind, after=after, limit=limit)
        )

    async def drop_document(
        self, scope: Scope, conversation: str, kind: str, key: str, *, expect: int | None = None
    ) -> bool:
        return await self._timed(
            _WRITE, self._inner.drop_document(scope, conversation, kind, key, expect=expect)
        )

    async def conversations(
        self, scope: Scope, *, after: str = "", limit: int = 100
    ) -> list[ConversationInfo]:
        return await self._timed(_READ, self._inner.conversations(scope, after=after, limit=limit))

    async def search(
        self,
        scope: Scope,
        terms: Sequence[str],
        *,
        conversation: str | None = None,
        limit: int = 20,
        within: Within = ALL_ENTRIES,
    ) -> list[Hit]:
        return await self._timed(
            _READ,
            self._inner.search(scope, terms, conversation=conversation, limit=limit, within=within),
        )

    async def capture(
        self, scope: Scope, conversation: str, take: Callable[[Document], None]
    ) -> Captured | None:
        return await self._inner.capture(scope, conversation, take)

    async def restore(self, scope: Scope, pieces: Iterable[Piece]) -> Restored:
        return await self._inner.restore(scope, pieces)

    async def delete(self, scope: Scope, conversation: str) -> Erasure:
        return await self._timed(_WRITE, self._inner.delete(scope, conversation))

    async def health(self) -> Health:
        return await self._inner.health()

    async def close(self) -> None:
        await self._inner.close()

    async def _timed(self, name: str, call: Coroutine[object, None, _Result]) -> _Result:
        began = perf_counter()
        try:
            answer = await call
        except WrongProcess:
            raise  # nothing was done, and in a forked process the lock of the meter may never be released
        except BaseException as error:
            if isinstance(error, Exception) and not isinstance(error, _REFUSALS):
                self._meter.add("database_errors")
            self._meter.observe(name, perf_counter() - began)
            raise
        self._meter.observe(name, perf_counter() - began)
        return answer
