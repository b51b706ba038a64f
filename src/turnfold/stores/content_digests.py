"""Digests of content that are a part of an id: the same content gets the same id, and is stored once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import cast

from turnfold.stores.protocol import Scope, Store

__all__ = ("content_digest", "plain_digest")


async def content_digest(
    store: Store, scope: Scope, conversation: str, content: str, *, size: int
) -> str:
    """Return a digest of `size` bytes by which an id names content: the same for the same content.

    Ids are stored in plain text, where an unkeyed digest would confirm a guess of the content. An encrypted store keys
    it with the key of the conversation.
    """
    keyed: object = getattr(store, "content_digest", None)
    if keyed is None:
        return plain_digest(content, size=size)
    # Stores that wrap an encrypted store pass its method on.
    make = cast("Callable[[Scope, str, bytes, int], Awaitable[str]]", keyed)
    return await make(scope, conversation, content.encode("utf-8", "surrogatepass"), size)


def plain_digest(content: str, *, size: int) -> str:
    """Return the digest by which an id names content in a store that is not encrypted."""
    return blake2b(content.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()
