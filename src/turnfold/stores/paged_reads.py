"""Read everything of a kind from a store, page by page: entries, documents, conversations; and what was erased."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from turnfold.records import Document, Entry
from turnfold.stores.protocol import ConversationInfo, Scope, Store

__all__ = ("all_conversations", "all_documents", "all_entries", "was_erased")


_PAGE: Final = 500


async def all_entries(
    store: Store, scope: Scope, conversation: str, *, after: int = 0
) -> AsyncGenerator[Entry]:
    """Yield the entries of a conversation with seq > `after`, oldest first; only one page is in memory."""
    while page := await store.read(scope, conversation, after=after, limit=_PAGE):
        for entry in page:
            yield entry
        after = page[-1].seq


async def all_documents(
    store: Store, scope: Scope, conversation: str, kind: str, *, prefix: str = ""
) -> list[Document]:
    """Return the documents of a kind in the order of their keys; with `prefix`, only those whose key begins with it.

    A key that equals the prefix is not among them.
    """
    found: list[Document] = []
    after = prefix
    while page := await store.documents(scope, conversation, kind, after=after, limit=_PAGE):
        found += [document for document in page if document.key.startswith(prefix)]
        after = page[-1].key
        if not after.startswith(prefix):
            break
    return found


async def all_conversations(
    store: Store, scope: Scope, *, prefix: str = ""
) -> list[ConversationInfo]:
    """Return the conversations of a tenant in the order of their ids.

    With `prefix`, only those whose id begins with it are returned.

    An id that equals the prefix is not among them.
    """
    found: list[ConversationInfo] = []
    after = prefix
    while page := await store.conversations(scope, after=after, limit=_PAGE):
        found += [info for info in page if info.conversation.startswith(prefix)]
        after = page[-1].conversation
        if not after.startswith(prefix):
            break
    return found


async def was_erased(store: Store, scope: Scope, conversation: str) -> bool:
    """Return True if a conversation was deleted: nothing of it is stored, and nothing can be written to its id."""
    head = await store.head(scope, conversation)
    if head.seq or not head.generation:
        return False
    # A conversation with documents and no entries exists; only a deleted one has a history and no snapshot.
    return await store.capture(scope, conversation, lambda _: None) is None
