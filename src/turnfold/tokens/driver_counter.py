"""Count tokens with a model driver's own `count_tokens`.

The driver knows its model best, so single counts prefer it. It may be remote and need not be thread-safe, so it is
called only from the caller's own thread, and never for batches that go to the thread pool. Its counts have a cache of
their own, because a driver's and a tokenizer's count of one message may differ.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Sequence
from typing import Protocol, cast

from turnfold.records import Message
from turnfold.tokens.cache import CountCache
from turnfold.tokens.certainty import Certainty
from turnfold.tokens.counter import TokenCounter

__all__ = (
    "DriverCounter",
    "ModelDriver",
)


_log = logging.getLogger(__name__)


class ModelDriver(Protocol):
    """A model driver that can count tokens."""

    def count_tokens(self, messages: Sequence[dict[str, object]], /) -> int:
        """Return the tokens of the messages, given as OpenAI-style dictionaries."""
        ...


class DriverCounter(TokenCounter):
    """A counter that asks the driver for whole messages and falls back to `local` if the driver fails."""

    __slots__ = ("_cache", "_driver", "_local")

    def __init__(self, driver: object, local: TokenCounter, *, cache_size: int) -> None:
        super().__init__(local.text, framing=local.framing, images=local.images)
        self.name = f"driver:{type(driver).__qualname__}+{local.name}"
        self._driver = cast("ModelDriver", driver)
        self._local = local
        self._cache = CountCache(cache_size)

    @property
    def cache(self) -> CountCache:
        """Cache of the driver's counts."""
        return self._cache

    def count_message(self, message: Message) -> int:
        """Return the tokens of one message by the driver; by the local counter, with a warning, if that fails."""
        count = self._cache.get(message)
        if count is None:
            count = self._ask(message)
            if count is None:
                return self._local.count_message(message)
            self._cache.put(message, count)
        return count

    def certainty_of(self, message: Message) -> Certainty:
        """Return ESTIMATE: a driver does not say how it counts, and the local counter may have replaced it."""
        del message
        return Certainty.ESTIMATE

    def _ask(self, message: Message) -> int | None:
        try:
            count = cast("object", self._driver.count_tokens([message.model_dump()]))
        except Exception as error:  # whatever a driver raises, counting goes on locally
            # The error text may quote the conversation: it goes to the debug log only.
            kind = type(error).__name__
            _log.warning(
                "count_tokens raised %s, counting locally",
                kind,
                extra={"event": "count_tokens_failed", "error": kind},
            )
            _log.debug("count_tokens raised", exc_info=True)
            return None
        if inspect.iscoroutine(count):
            count.close()
        if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
            return count
        shown = f"the number {count}" if isinstance(count, int) else type(count).__name__
        _log.warning(
            "count_tokens returned %s instead of a count, counting locally",
            shown,
            extra={"event": "count_tokens_failed", "error": "unusable answer"},
        )
        return None
