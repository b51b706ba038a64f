"""When not to ask a cache that does not answer: waiting for it once is a pity, waiting every time is an outage.

The first failure opens the breaker: nothing is asked for a while, and the while doubles with each failed probe up
to a limit. Then one caller, and only one, is let through to probe. An outage is logged when it begins and when it
ends, never per call, and never with content.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Literal, TypeAlias

__all__ = ("Breaker", "BreakerState")

BreakerState: TypeAlias = Literal["closed", "open", "probing"]

_log = logging.getLogger(__name__)
_FIRST_PAUSE = 0.1


class Breaker:
    """Closed: calls go through. Open: none does. Probing: one is on its way and decides. Safe across threads."""

    def __init__(self, *, longest_pause: float, clock: Callable[[], float]) -> None:
        self._longest_pause = longest_pause
        self._clock = clock
        self._lock = threading.Lock()
        self._pause = 0.0
        self._opened = 0.0
        self.state: BreakerState = "closed"
        self.failures: dict[str, int] = {}
        """How many calls failed, by the kind of error."""
        self.outages = 0
        """How many times it opened after having been closed."""

    def admits(self) -> bool:
        """Whether this call may be made; who gets a yes must report `worked`, `failed` or `abandoned`."""
        with self._lock:
            if self.state == "closed":
                return True
            if self.state == "probing" or self._clock() - self._opened < self._pause:
                return False
            self.state = "probing"
            return True

    def worked(self) -> None:
        """A call was answered."""
        if self.state == "closed":
            return
        with self._lock:
            if self.state == "probing":  # a late answer from before the outage ends no outage
                self.state, self._pause = "closed", 0.0
                _log.warning("the cache answers again", extra={"event": "cache_back"})

    def failed(self, error: BaseException) -> None:
        """A call was not answered, or not usefully."""
        kind = type(error).__name__
        with self._lock:
            self.failures[kind] = self.failures.get(kind, 0) + 1
            if self.state == "open":
                return
            if self.state == "closed":
                self.outages += 1
                _log.warning(
                    "the cache fails (%s): reads go to the durable store until it answers",
                    kind,
                    extra={"event": "cache_lost", "error": kind},
                )
            self._pause = min(self._longest_pause, self._pause * 2 or _FIRST_PAUSE)
            self._opened = self._clock()
            self.state = "open"

    def abandoned(self) -> None:
        """The caller went away before the answer: nothing was learned, the next caller may probe."""
        with self._lock:
            if self.state == "probing":
                self.state = "open"
