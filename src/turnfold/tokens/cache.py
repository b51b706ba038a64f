"""A count is made once per message and counter.

The key is the message itself (equal messages cost the same) and the cache belongs to one counter, so a count made
by a model's own endpoint can never be handed out as a tokenizer's. Bounded by least recent use; safe across threads.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from turnfold.errors import InvalidOption
from turnfold.records import Message

__all__ = ("CacheStats", "CountCache")


class CacheStats(NamedTuple):
    """How well the cache does."""

    hits: int
    misses: int
    evictions: int
    size: int
    max_size: int

    @property
    def hit_rate(self) -> float:
        """Share of look-ups answered from the cache; 0.0 before the first."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0


class CountCache:
    """Message -> tokens, for one counter."""

    __slots__ = ("_counts", "_evictions", "_hits", "_lock", "_misses", "_size")

    def __init__(self, size: int) -> None:
        if size <= 0:
            raise InvalidOption(f"cache size must be positive, got {size}")
        self._size = size
        self._counts: OrderedDict[Message, int] = OrderedDict()
        self._lock = threading.Lock()
        self._hits = self._misses = self._evictions = 0

    def get(self, message: Message) -> int | None:
        """The count of an equal message, or None."""
        with self._lock:
            count = self._counts.get(message)
            if count is None:
                self._misses += 1
                return None
            self._counts.move_to_end(message)
            self._hits += 1
            return count

    def get_many(self, messages: Iterable[Message]) -> list[int | None]:
        """The counts of equal messages, None for each that is not known; one look for all of them."""
        with self._lock:
            known, newest = self._counts.get, self._counts.move_to_end
            counts: list[int | None] = []
            for message in messages:
                count = known(message)
                if count is not None:
                    newest(message)
                counts.append(count)
            missing = counts.count(None)
            self._misses += missing
            self._hits += len(counts) - missing
            return counts

    def put(self, message: Message, count: int) -> None:
        """Remember a count; the least recently used one makes room."""
        with self._lock:
            self._counts[message] = count
            self._counts.move_to_end(message)
            if len(self._counts) > self._size:
                self._counts.popitem(last=False)
                self._evictions += 1

    def clear(self) -> None:
        """Forget all counts and start the statistics anew."""
        with self._lock:
            self._counts.clear()
            self._hits = self._misses = self._evictions = 0

    def stats(self) -> CacheStats:
        """A snapshot of the statistics."""
        with self._lock:
            return CacheStats(
                self._hits, self._misses, self._evictions, len(self._counts), self._size
            )
