"""Count tokens with the `count_tokens` of a model driver (the caller's client of a model).

The driver knows its model best, so it is preferred to a tokenizer. It may be remote: code on an event loop calls this
counter in a thread. It need not be thread-safe: a lock lets one thread at a time call it. Its counts have a cache of
their own (`CountCache`), because a driver's and a tokenizer's count of one message may differ.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, cast

from turnfold.errors import InvalidOption
from turnfold.records import Message
from turnfold.tokens.certainty import Certainty
from turnfold.tokens.counter import TokenCounter

__all__ = (
    "CacheStats",
    "CountCache",
    "DriverCounter",
    "ModelDriver",
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
        """Return the cached count of each message, None where there is none; takes the lock only once."""
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


_log = logging.getLogger(__name__)


class ModelDriver(Protocol):
    """A model's client that can count tokens."""

    def count_tokens(self, messages: Sequence[dict[str, object]], /) -> int:
        """Return the tokens of the messages, which are passed as OpenAI-style dictionaries.

        A driver may also have `count_tokens_batch(lists)`, which returns the tokens of each of several lists.
        """
        ...


class DriverCounter(TokenCounter):
    """A token counter that asks a model driver to count whole messages, and uses `local` if the driver fails."""

    __slots__ = ("_cache", "_driver", "_local", "_lock")

    def __init__(self, driver: object, local: TokenCounter, *, cache_size: int) -> None:
        super().__init__(local.text, framing=local.framing, images=local.images)
        self.name = f"driver:{type(driver).__qualname__}+{local.name}"
        self._driver = cast("ModelDriver", driver)
        self._local = local
        self._cache = CountCache(cache_size)
        self._lock = threading.Lock()

    @property
    def cache(self) -> CountCache:
        """Cache of the driver's counts."""
        return self._cache

    def count_message(self, message: Message) -> int:
        """Return the driver's count of one message; if the driver fails, log a warning and use the local counter."""
        count = self._cache.get(message)
        if count is None:
            count = self._ask(message)
            if count is None:
                return self._local.count_message(message)
            self._cache.put(message, count)
        return count

    def count_messages(self, messages: Iterable[Message]) -> list[int]:
        """Return the tokens of each message.

        If the driver has `count_tokens_batch`, all new messages are counted in one call.
        """
        batch = getattr(self._driver, "count_tokens_batch", None)
        if callable(batch):
            messages = list(messages)
            new = [each for each in dict.fromkeys(messages) if self._cache.get(each) is None]
            if new:
                self._store(new, self._answer(lambda: batch([[each.model_dump()] for each in new])))
        return super().count_messages(messages)

    def _store(self, messages: Sequence[Message], counts: object) -> None:
        found = cast("Sequence[object]", counts) if isinstance(counts, list | tuple) else ()
        if len(found) != len(messages) or not all(map(_is_count, found)):
            _log_unusable("count_tokens_batch", cast("object", counts))
            return
        for message, count in zip(messages, cast("Sequence[int]", found), strict=True):
            self._cache.put(message, count)

    def certainty_of(self, message: Message) -> Certainty:
        """Return ESTIMATE: how a driver counts is not known, and the local counter may have been used instead."""
        del message
        return Certainty.ESTIMATE

    def _ask(self, message: Message) -> int | None:
        count = self._answer(lambda: self._driver.count_tokens([message.model_dump()]))
        if _is_count(count):
            return cast("int", count)
        _log_unusable("count_tokens", count)
        return None

    def _answer(self, ask: Callable[[], object]) -> object:
        """Call the driver; return its result, or the type of the exception if it raised one."""
        try:
            with self._lock:
                answer = ask()
        except Exception as error:  # whatever a driver raises, counting goes on locally
            # The error text may quote the conversation: it goes to the debug log only.
            _log.debug("the model driver raised an exception while counting tokens", exc_info=True)
            return type(error)
        if inspect.iscoroutine(answer):
            answer.close()
        return answer


def _is_count(count: object) -> bool:
    return isinstance(count, int) and not isinstance(count, bool) and count >= 0


def _log_unusable(method: str, answer: object) -> None:
    if isinstance(answer, type):
        shown, kind = f"raised {answer.__name__}", answer.__name__
    else:
        number = f"the number {answer}" if isinstance(answer, int) else type(answer).__name__
        shown, kind = f"returned {number} instead of a count", "unusable answer"
    _log.warning(
        "%s of the model driver %s; counting locally instead",
        method,
        shown,
        extra={"event": "count_tokens_failed", "error": kind},
    )
