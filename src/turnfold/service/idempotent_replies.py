"""Responses that are stored under their Idempotency-Key, and sent again when a client retries the request.

Only writes that are not appends need one (a repeated append finds its first result in the log). Without it, the retry
of a fold (compaction), fork or removal would get another response, such as "nothing to fold" or "exists already". The
response is stored with the conversation, so that any process can send it again. If a process dies after the work but
before it stored the response, the retry does the work again and gets a new response.
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
from turnfold.stores import Redaction, Scope, Store, redaction_of

__all__ = (
    "IdempotentReplies",
    "StoredReply",
)


_REPLY: Final = "reply"
_PAGE: Final = 500
"""Number of stored responses that one request scans for expired ones; the next request continues after them."""
_MOST_SCANNED: Final = 10_000
_SCANS: Final = 24
"""How often a conversation is scanned for expired responses during the time for which a response is kept."""


class _ReplyRecord(msgspec.Struct, frozen=True):
    request: str
    answer: msgspec.Raw
    at: float = 0.0
    """Time at which the response was stored, in seconds since 1970."""


@dataclass(slots=True)
class IdempotentReplies:
    """Stored responses of a service, by conversation and Idempotency-Key; expired responses are deleted."""

    store: Store
    seconds: float = 24 * 3_600.0
    """Seconds for which a response is kept; 0 for ever."""
    clock: Callable[[], float] = time.time
    kept: int = 0
    """Number of responses this process stored; `repeated` and `pruned` count those sent again and deleted."""
    repeated: int = 0
    pruned: int = 0
    _scans: OrderedDict[tuple[Scope, str], tuple[float, str]] = field(
        default_factory=OrderedDict[tuple[Scope, str], tuple[float, str]]
    )
    """Conversation -> time of its next scan for expired responses, and the key after which the scan begins."""

    async def of(
        self, scope: Scope, conversation: str, key: str, request: bytes, body: bytes = b""
    ) -> StoredReply:
        """Return an object that reads or stores the response of the request with this Idempotency-Key.

        `request` and its JSON `body` are what the request is recognised by; a digest of them is stored.
        """
        redaction = redaction_of(self.store)
        if redaction is not None:  # a digest of a secret would confirm a guess of it
            request, body = await asyncio.to_thread(_without_secrets, redaction, request, body)
        digest = blake2b(b"\0".join([request, body]), digest_size=16).hexdigest()
        return StoredReply(self, scope, conversation, key, digest)

    def is_expired(self, at: float) -> bool:
        """Return True if a response stored at `at` (seconds since 1970) has expired."""
        return bool(self.seconds) and self.clock() - at >= self.seconds

    async def prune(self, scope: Scope, conversation: str) -> None:
        """Delete expired responses of a conversation, one page per call; does nothing while no scan is due."""
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

    async def _drop(self, place: tuple[Scope, str], document: Document) -> bool:
        """Delete one stored response and return True; return False if a new request has used its key meanwhile."""
        try:
            return await self.store.drop_document(
                *place, _REPLY, document.key, expect=document.version
            )
        except (Conflict, ConversationDeleted):
            return False

    def _schedule(self, place: tuple[Scope, str], due: float, after: str) -> None:
        self._scans[place] = due, after
        while len(self._scans) > _MOST_SCANNED:
            self._scans.popitem(last=False)


class StoredReply:
    """The stored response of one request: read it, or store it under the request's Idempotency-Key."""

    def __init__(
        self, replies: IdempotentReplies, scope: Scope, conversation: str, key: str, digest: str
    ) -> None:
        self._replies = replies
        self._place = scope, conversation
        self._key = key
        self._digest = digest
        self._version = 0

    async def stored(self) -> bytes | None:
        """Return the stored response, None if there is none; raises `IdReused` if another request used the key."""
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
        """Store a response and return it; if the same request stored a response meanwhile, return that response."""
        record = _ReplyRecord(self._digest, msgspec.Raw(answer), self._replies.clock())
        with suppress(
            ConversationDeleted
        ):  # the work is done, but there is no conversation to store it with
            try:
                document = Document(_REPLY, self._key, msgspec.json.encode(record), 0)
                await self._replies.store.put_document(*self._place, document, expect=self._version)
            except Conflict:
                return await self.stored() or answer
            self._replies.kept += 1
            await self._replies.prune(*self._place)
        return answer


def _without_secrets(redaction: Redaction, request: bytes, body: bytes) -> tuple[bytes, bytes]:
    value: object = msgspec.json.decode(body) if body else None
    told = redaction.unnumbered_value([request.decode(), value])
    return msgspec.json.encode(told), b""


def _decoded_reply(document: Document) -> _ReplyRecord:
    return msgspec.json.decode(document.body, type=_ReplyRecord)
