"""What a memory does, in numbers: plain counters and distributions that cost next to nothing.

The core counts into a `Meter` and knows nothing of any monitoring system; who wants the figures elsewhere subscribes or
takes a snapshot. No name and no value ever holds content. A listener that raises never breaks a call: it is let go, and
the log says so.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from turnfold.memory.metrics.catalogue import METRICS

__all__ = ("Distribution", "Listener", "Meter", "Snapshot")

Listener = Callable[[str, float], None]

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Distribution:
    """How some values lie."""

    bounds: tuple[float, ...] = ()
    """Upper bounds of the buckets."""
    count: int = 0
    total: float = 0.0
    least: float = 0.0
    most: float = 0.0
    buckets: list[int] = field(default_factory=list[int])
    """How many values lie at or below each bound and above the one before; the last bucket has no bound."""

    def __post_init__(self) -> None:
        self.buckets = list(self.buckets) or [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        """Take one more value into account."""
        self.least = value if self.count == 0 else min(self.least, value)
        self.most = value if self.count == 0 else max(self.most, value)
        self.count += 1
        self.total += value
        self.buckets[bisect_left(self.bounds, value)] += 1

    @property
    def mean(self) -> float:
        """Their mean; 0 when there are none."""
        return self.total / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All figures at one moment."""

    counts: dict[str, int]
    values: dict[str, Distribution]


class Meter:
    """Counts events and collects values, by the names in `METRICS`. Safe across threads."""

    def __init__(self) -> None:
        self.counts = {metric.name: 0 for metric in METRICS if metric.kind == "count"}
        self.values = {
            metric.name: Distribution(metric.bounds)
            for metric in METRICS
            if metric.kind == "distribution"
        }
        self._lock = threading.Lock()
        self._counting: tuple[Listener, ...] = ()
        self._observing: tuple[Listener, ...] = ()

    def add(self, name: str, amount: int = 1) -> None:
        """`amount` more of `name` happened."""
        with self._lock:
            self.counts[name] += amount
        for listener in self._counting:
            self._tell(listener, name, amount)

    def observe(self, name: str, value: float) -> None:
        """One more value of `name`."""
        with self._lock:
            self.values[name].add(value)
        for listener in self._observing:
            self._tell(listener, name, value)

    def subscribe(self, *, counts: Listener, values: Listener) -> None:
        """Call `counts(name, amount)` and `values(name, value)` for everything from now on."""
        with self._lock:
            self._counting += (counts,)
            self._observing += (values,)

    def snapshot(self) -> Snapshot:
        """A copy of all figures, each of them whole."""
        with self._lock:
            return Snapshot(
                dict(self.counts), {name: replace(each) for name, each in self.values.items()}
            )

    def _tell(self, listener: Listener, name: str, value: float) -> None:
        try:
            listener(name, value)
        except Exception as error:
            kind = type(error).__name__
            with self._lock:
                self._counting = tuple(each for each in self._counting if each is not listener)
                self._observing = tuple(each for each in self._observing if each is not listener)
            _log.warning(
                "a listener for figures raised %s and is let go",
                kind,
                extra={"event": "listener_failed", "error": kind, "metric": name},
            )
