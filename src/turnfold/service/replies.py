"""Answers kept under their Idempotency-Key, for the writes that are not appends.

An append finds its first result in the log. A fold, a fork or a removal would answer a repeated request otherwise
("nothing to fold", "exists already", "was not there"), so what it answered is kept beside the conversation and given
again, by any process. A process that dies after the work and before it wrote the answer down leaves none: the repeated
request is then answered as a new one.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import blake2b
from typing import Final

import msgspec

from turnfold.errors import Conflict, ConversationDeleted, IdReused
from turnfold.records import Document
from turnfold.stores.protocol import Scope, Store

__all__ = ("Replies",)

_REPLY: Final = "reply"


class _Kept(msgspec.Struct, frozen=True):
    request: str
    answer: msgspec.Raw


class Replies:
    """The answers kept beside one conversation, for one request."""

    def __init__(
        self, store: Store, scope: Scope, conversation: str, key: str, request: bytes
    ) -> None:
        self._store = store
        self._place = scope, conversation
        self._key = key
        self._digest = blake2b(request, digest_size=16).hexdigest()

    async def known(self) -> bytes | None:
        """What this request was answered with; `IdReused` where the key was another request's."""
        document = await self._store.get_document(*self._place, _REPLY, self._key)
        if document is None:
            return None
        kept = msgspec.json.decode(document.body, type=_Kept)
        if kept.request != self._digest:
            raise IdReused(
                "this Idempotency-Key was used for another request; a new request takes a new key"
            )
        return bytes(kept.answer)

    async def keep(self, answer: bytes) -> bytes:
        """Keep an answer; where the same request was answered meanwhile, that answer counts."""
        body = msgspec.json.encode(_Kept(self._digest, msgspec.Raw(answer)))
        with suppress(ConversationDeleted):  # it is done all the same
            try:
                document = Document(_REPLY, self._key, body, 0)
                await self._store.put_document(*self._place, document, expect=0)
            except Conflict:
                return await self.known() or answer
        return answer
