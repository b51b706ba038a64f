"""Responses stored under their Idempotency-Key, for writes that are not appends.

An append finds its first result in the log. A repeated fold, fork or removal would get another response ("nothing to
fold", "exists already", "was not there"), so the first response is stored with the conversation and sent again, by any
process. If a process dies after the work and before it stored the response, the repeated request is handled as new.

Responses are kept for `Limits.answer_hours`, since retries come within minutes. An expired response is not sent any
more, and its key may be used for another request; storing the next response of the same conversation deletes it. A
conversation is scanned for expired responses once in a twenty-fourth of that time.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import msgspec

from turnfold.errors import Conflict, ConversationDeleted, IdReused
from turnfold.records import Document
from turnfold.stores import Scope as Tenant
from turnfold.stores import Store

__all__ = (
    "IdempotentReplies",
    "StoredReply",
)


_REPLY: Final = "reply"
_PAGE: Final = 500
"""Stored responses one request scans; the next request continues after them."""
_MOST_SCANNED: Final = 10_000
_SCANS: Final = 24
"""Scans of a conversation in the time a response is kept."""


class _ReplyRecord(msgspec.Struct, frozen=True):
    request: str
    answer: msgspec.Raw
    at: float = 0.0
    """Seconds since 1970."""


@dataclass(slots=True)
class IdempotentReplies:
    """The stored responses of a service, and how long they are kept."""

    store: Store
    seconds: float = 24 * 3_600.0
    """Seconds a response is kept; 0 for ever."""
    clock: Callable[[], float] = time.time
    kept: int = 0
    """Responses this process stored, sent again (`repeated`) and deleted (`pruned`)."""
    repeated: int = 0
    pruned: int = 0
    _scans: OrderedDict[tuple[Tenant, str], tuple[float, str]] = field(
        default_factory=OrderedDict[tuple[Tenant, str], tuple[float, str]]
    )
    """Time of the next scan of each conversation, and the key it starts after."""

    def of(self, scope: Tenant, conversation: str, key: str, request: bytes) -> StoredReply:
        """Return the handle on the stored response of one request."""
        return StoredReply(self, scope, conversation, key, request)

    def is_expired(self, at: float) -> bool:
        """Return True if a response stored at that time has expired."""
        return bool(self.seconds) and self.clock() - at >= self.seconds

    async def prune(self, scope: Tenant, conversation: str) -> None:
        """Delete expired responses of a conversation, one page of them, if a scan is due."""
        now, place = self.clock(), (scope, conversation)
        due, after = self._scans.pop(place, (0.0, ""))
        if not self.seconds or now < due:
            self._schedule(place, due, after)
            return
        page = await self.store.documents(scope, conversation, _REPLY, after=after, limit=_PAGE)
        more = len(page) == _PAGE
        if more:
            self._schedule(place, 0.0, page[-1].key)
        else:
            self._schedule(place, now + self.seconds / _SCANS, "")
        old = [each for each in page if self.is_expired(_decoded_reply(each).at)]
        self.pruned += sum(await asyncio.gather(*(self._drop(place, each) for each in old)))

    async def _drop(self, place: tuple[Tenant, str], document: Document) -> bool:
        """Delete one, unless its key was taken by a new request meanwhile."""
        try:
            return await self.store.drop_document(
                *place, _REPLY, document.key, expect=document.version
            )
        except (Conflict, ConversationDeleted):
            return False

    def _schedule(self, place: tuple[Tenant, str], due: float, after: str) -> None:
        self._scans[place] = due, after
        while len(self._scans) > _MOST_SCANNED:
            self._scans.popitem(last=False)


class StoredReply:
    """The stored response of one request."""

    def __init__(
        self, replies: IdempotentReplies, scope: Tenant, conversation: str, key: str, request: bytes
    ) -> None:
        self._replies = replies
        self._place = scope, conversation
        self._key = key
        self._digest = blake2b(request, digest_size=16).hexdigest()
        self._version = 0

    async def stored(self) -> bytes | None:
        """Return the stored response, if any; raises `IdReused` if the key belongs to another request."""
        document = await self._replies.store.get_document(*self._place, _REPLY, self._key)
        if document is None:
            return None
        record = _decoded_reply(document)
        if self._replies.is_expired(record.at):
            self._version = document.version
            return None
        if record.request != self._digest:
            raise IdReused("this Idempotency-Key was used for another request; use a new key")
        self._replies.repeated += 1
        return bytes(record.answer)

    async def store(self, answer: bytes) -> bytes:
        """Store a response and return it; if the same request stored one meanwhile, return that one."""
        record = _ReplyRecord(self._digest, msgspec.Raw(answer), self._replies.clock())
        with suppress(ConversationDeleted):  # the work is done, there is nothing to store it with
            try:
                document = Document(_REPLY, self._key, msgspec.json.encode(record), 0)
                await self._replies.store.put_document(*self._place, document, expect=self._version)
            except Conflict:
                return await self.stored() or answer
            self._replies.kept += 1
            await self._replies.prune(*self._place)
        return answer


def _decoded_reply(document: Document) -> _ReplyRecord:
    return msgspec.json.decode(document.body, type=_ReplyRecord)
