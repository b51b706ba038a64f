"""A cache of limited size that drops the values that were not used for the longest time."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

__all__ = ("SizedCache",)


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class SizedCache(Generic[_Key, _Value]):
    """A least-recently-used cache with a limit on the sum of sizes; safe to share between threads."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._items: OrderedDict[_Key, tuple[_Value, int]] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: _Key) -> _Value | None:
        """Return the cached value; None if there is none."""
        with self._lock:
            found = self._items.get(key)
            if found is None:
                return None
            self._items.move_to_end(key)
            return found[0]

    def put(self, key: _Key, value: _Value, *, size: int = 1) -> None:
        """Cache a value, and evict the least recently used values above the limit."""
        with self._lock:
            self._size += size - self._items.pop(key, (None, 0))[1]
            self._items[key] = (value, size)
            while self._size > self._limit:
                self._size -= self._items.popitem(last=False)[1][1]

    def drop(self, key: _Key) -> None:
        """Remove a value from the cache."""
        with self._lock:
            self._size -= self._items.pop(key, (None, 0))[1]
