"""Names, pages and caches of the documents that adapters keep in a store.

What a framework stores under a name lives in a home: a conversation of the store with a unique name of its own, so that
deleting it erases every byte and a name can be used again afterwards. One small document points at the home.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from hashlib import blake2b
from threading import Lock
from typing import Generic, TypeVar
from uuid import uuid4

from turnfold.records import Document
from turnfold.stores import Scope, Store

__all__ = ("SizedCache", "all_documents", "is_home", "name_digest", "new_home", "short_name")


_PAGE = 500
_LONGEST = 200
"""Characters of a name that is used as it is; a longer one is replaced by its digest."""
_UNIQUE = re.compile("[0-9a-f]{32}")
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


async def all_documents(store: Store, scope: Scope, conversation: str, kind: str) -> list[Document]:
    """Return every document of a kind, page by page in the order of their keys."""
    found: list[Document] = []
    after = ""
    while page := await store.documents(scope, conversation, kind, after=after, limit=_PAGE):
        found += page
        after = page[-1].key
    return found


def new_home(prefix: str) -> str:
    """Return a home name that was never used before, not even for a deleted thing of the same name."""
    return f"{prefix}{uuid4().hex}"


def is_home(name: str, prefix: str) -> bool:
    """Return True if `new_home` may have made this name; a home is erased on a stored document's word."""
    return name.startswith(prefix) and bool(_UNIQUE.fullmatch(name, len(prefix)))


def short_name(name: str) -> str:
    """Return a name that every store can hold: the digest of one that is long or not printable."""
    return name if len(name) <= _LONGEST and name.isprintable() else name_digest(name)


def name_digest(name: str) -> str:
    """Return the digest that stands for a name."""
    return f"digest:{blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=20).hexdigest()}"


class SizedCache(Generic[_Key, _Value]):
    """A least-recently-used cache with a limit on the sum of sizes; safe to share between threads."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._items: OrderedDict[_Key, tuple[_Value, int]] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def get(self, key: _Key) -> _Value | None:
        """Return the cached value, or None."""
        with self._lock:
            found = self._items.get(key)
            if found is None:
                return None
            self._items.move_to_end(key)
            return found[0]

    def put(self, key: _Key, value: _Value, *, size: int = 1) -> None:
        """Cache a value, and evict what was not used for longest."""
        with self._lock:
            self._size += size - self._items.pop(key, (None, 0))[1]
            self._items[key] = (value, size)
            while self._size > self._limit:
                self._size -= self._items.popitem(last=False)[1][1]

    def drop(self, key: _Key) -> None:
        """Remove a value from the cache."""
        with self._lock:
            self._size -= self._items.pop(key, (None, 0))[1]
