"""LRU cache of token counts by message, one per counter.

The key is the message itself (equal messages cost the same). Each cache belongs to one counter, so counts of a model's
own endpoint and counts of a tokenizer never mix. Thread-safe.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from turnfold.errors import InvalidOption
from turnfold.records import Message

__all__ = (
    "CacheStats",
    "CountCache",
)


class CacheStats(NamedTuple):
    """Statistics of a `CountCache`: hits, misses, evicted counts, cached counts, and the most counts it may cache."""

    hits: int
    misses: int
    evictions: int
    size: int
    max_size: int

    @property
    def hit_rate(self) -> float:
        """Share of look-ups answered from the cache; 0.0 before the first."""
        lookups = self.hits + self.misses
        return self.hits / lookups if lookups else 0.0


class CountCache:
    """LRU cache of one counter: message -> number of tokens."""

    __slots__ = ("_counts", "_evictions", "_hits", "_lock", "_misses", "_size")

    def __init__(self, size: int) -> None:
        if size <= 0:
            raise InvalidOption(f"cache size={size} must be at least 1 count")
        self._size = size
        self._counts: OrderedDict[Message, int] = OrderedDict()
        self._lock = threading.Lock()
        self._hits = self._misses = self._evictions = 0

    def get(self, message: Message) -> int | None:
        """Return the cached count of an equal message; None if there is none."""
        with self._lock:
            count = self._counts.get(message)
            if count is None:
                self._misses += 1
                return None
            self._counts.move_to_end(message)
            self._hits += 1
            return count

    def get_many(self, messages: Iterable[Message]) -> list[int | None]:
        """Return the cached count of each message, None where there is none; takes the lock once for all."""
        with self._lock:
            get, touch = self._counts.get, self._counts.move_to_end
            counts: list[int | None] = []
            for message in messages:
                count = get(message)
                if count is not None:
                    touch(message)
                counts.append(count)
            missing = counts.count(None)
            self._misses += missing
            self._hits += len(counts) - missing
            return counts

    def put(self, message: Message, count: int) -> None:
        """Store the token count of a message; evicts the least recently used count if the cache is full."""
        with self._lock:
            self._counts[message] = count
            self._counts.move_to_end(message)
            if len(self._counts) > self._size:
                self._counts.popitem(last=False)
                self._evictions += 1

    def clear(self) -> None:
        """Drop all cached counts and reset the statistics."""
        with self._lock:
            self._counts.clear()
            self._hits = self._misses = self._evictions = 0

    def stats(self) -> CacheStats:
        """Return the numbers of hits, misses, cached counts and evicted counts."""
        with self._lock:
            return CacheStats(
                self._hits, self._misses, self._evictions, len(self._counts), self._size
            )
