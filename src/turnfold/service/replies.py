"""Answers kept under their Idempotency-Key, for the writes that are not appends.

An append finds its first result in the log. A fold, a fork or a removal would answer a repeated request otherwise
("nothing to fold", "exists already", "was not there"), so what it answered is kept beside the conversation and given
again, by any process. A process that dies after the work and before it wrote the answer down leaves none: the repeated
request is then answered as a new one.

Answers are kept for a time (`Limits.answer_hours`), because who repeats a request does so within minutes. Once it is
over an answer is not given any more, and its key may name another request; the next answer kept beside the same
conversation removes it. One conversation is looked through once in a twenty-fourth of that time.
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
from turnfold.stores.protocol import Scope, Store

__all__ = ("Replies", "Reply")

_REPLY: Final = "reply"
_PAGE: Final = 500
"""Answers one request looks through; what is beyond them waits for the next request."""
_MOST_PLACES: Final = 10_000
_SHARE: Final = 24


class _Kept(msgspec.Struct, frozen=True):
    request: str
    answer: msgspec.Raw
    at: float = 0.0
    """Seconds since 1970."""


@dataclass(slots=True)
class Replies:
    """The answers a service keeps, and for how long."""

    store: Store
    seconds: float = 24 * 3_600.0
    """0 for ever."""
    clock: Callable[[], float] = time.time
    kept: int = 0
    """Answers this process kept, gave again, and removed."""
    repeated: int = 0
    pruned: int = 0
    _looked: OrderedDict[tuple[Scope, str], tuple[float, str]] = field(
        default_factory=OrderedDict[tuple[Scope, str], tuple[float, str]]
    )
    """When each conversation is looked through again, and after which key."""

    def of(self, scope: Scope, conversation: str, key: str, request: bytes) -> Reply:
        """The answer of one request."""
        return Reply(self, scope, conversation, key, request)

    def is_over(self, at: float) -> bool:
        """Whether an answer of that time is not given any more."""
        return bool(self.seconds) and self.clock() - at >= self.seconds

    async def prune(self, scope: Scope, conversation: str) -> None:
        """Remove the answers of a conversation whose time is over, a page of them, if it is time to look."""
        now, place = self.clock(), (scope, conversation)
        due, after = self._looked.pop(place, (0.0, ""))
        if not self.seconds or now < due:
            self._remember(place, due, after)
            return
        page = await self.store.documents(scope, conversation, _REPLY, after=after, limit=_PAGE)
        more = len(page) == _PAGE
        if more:
            self._remember(place, 0.0, page[-1].key)
        else:
            self._remember(place, now + self.seconds / _SHARE, "")
        old = [each for each in page if self.is_over(_decoded(each).at)]
        self.pruned += sum(await asyncio.gather(*(self._drop(place, each) for each in old)))

    async def _drop(self, place: tuple[Scope, str], document: Document) -> bool:
        """Remove one, unless its key was taken by a new request meanwhile."""
        try:
            return await self.store.drop_document(
                *place, _REPLY, document.key, expect=document.version
            )
        except (Conflict, ConversationDeleted):
            return False

    def _remember(self, place: tuple[Scope, str], due: float, after: str) -> None:
        self._looked[place] = due, after
        while len(self._looked) > _MOST_PLACES:
            self._looked.popitem(last=False)


class Reply:
    """The answer kept beside one conversation, for one request."""

    def __init__(
        self, replies: Replies, scope: Scope, conversation: str, key: str, request: bytes
    ) -> None:
        self._replies = replies
        self._place = scope, conversation
        self._key = key
        self._digest = blake2b(request, digest_size=16).hexdigest()
        self._version = 0

    async def known(self) -> bytes | None:
        """What this request was answered with; `IdReused` where the key was another request's."""
        document = await self._replies.store.get_document(*self._place, _REPLY, self._key)
        if document is None:
            return None
        kept = _decoded(document)
        if self._replies.is_over(kept.at):
            self._version = document.version
            return None
        if kept.request != self._digest:
            raise IdReused(
                "this Idempotency-Key was used for another request; a new request takes a new key"
            )
        self._replies.repeated += 1
        return bytes(kept.answer)

    async def keep(self, answer: bytes) -> bytes:
        """Keep an answer; where the same request was answered meanwhile, that answer counts."""
        kept = _Kept(self._digest, msgspec.Raw(answer), self._replies.clock())
        with suppress(ConversationDeleted):  # it is done all the same
            try:
                document = Document(_REPLY, self._key, msgspec.json.encode(kept), 0)
                await self._replies.store.put_document(*self._place, document, expect=self._version)
            except Conflict:
                return await self.known() or answer
            self._replies.kept += 1
            await self._replies.prune(*self._place)
        return answer


def _decoded(document: Document) -> _Kept:
    return msgspec.json.decode(document.body, type=_Kept)
