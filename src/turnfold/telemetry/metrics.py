"""Metrics of a memory: `METRICS` lists them all, and a `Meter` counts events and collects values under their names.

The list has name, unit, description and buckets of each metric; the meter, the exporters and the documentation use it.
A meter does not depend on any monitoring system: exporters subscribe to it or read a snapshot. Metrics never contain
text of a conversation. A listener that raises an exception does not break a call: it is removed, with a warning in the
log. A wrapper measures how long each call of a durable store takes.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Final, Literal, cast

from turnfold.errors import Conflict, ConversationDeleted, IdReused, InvalidOption, WrongProcess
from turnfold.stores import Store
from turnfold.telemetry.spans import NO_SPAN, Attributes, SpanNote, Tracer

__all__ = (
    "METRICS",
    "Distribution",
    "Meter",
    "Metric",
    "redis_listener",
    "time_store_calls",
)


_SECONDS: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0,
)  # fmt: skip
_SHARES: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
_RATIOS: Final = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0)
_TOKENS: Final = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
_ENTRIES: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000)


@dataclass(frozen=True, slots=True)
class Metric:
    """The name, kind, unit and buckets of one metric."""

    name: str
    kind: Literal["count", "distribution"]
    unit: str
    """The unit of the metric in the Unified Code for Units of Measure: `s`, `1` for a share, `{token}` for countable
    things."""
    description: str
    bounds: tuple[float, ...] = ()
    """Upper bounds of the histogram buckets of a distribution; one more bucket is for larger values."""


METRICS: Final = (
    Metric("contexts", "count", "{context}", "Contexts assembled for a model call"),
    Metric("entries", "count", "{entry}", "Entries appended to a log"),
    Metric("checkpoints", "count", "{checkpoint}", "Checkpoints stored"),
    Metric("fold_failures", "count", "{attempt}", "Attempts to fold that failed"),
    Metric(
        "folds_lost",
        "count",
        "{fold}",
        "Folds dropped because another fold was stored first or was running",
    ),
    Metric("fold_requests", "count", "{request}", "Requests to a model that writes summaries"),
    Metric("meaning_entries", "count", "{entry}", "Entries whose vectors were computed"),
    Metric("meaning_failures", "count", "{attempt}", "Recalls by meaning whose embedder failed"),
    Metric(
        "cache_misses",
        "count",
        "{call}",
        "Calls for which a provider reported no cached tokens although the prompt began like the previous one",
    ),
    Metric("database_errors", "count", "{call}", "Calls of the durable store that failed"),
    Metric("redis_failures", "count", "{call}", "Redis requests that failed"),
    Metric(
        "token_ratio",
        "distribution",
        "1",
        "Tokens of a context as a share of its budget",
        _SHARES,
    ),
    Metric(
        "prefix_share",
        "distribution",
        "1",
        "Share of the previous prompt that a context repeats at its beginning",
        _SHARES,
    ),
    Metric(
        "count_ratio",
        "distribution",
        "1",
        "Tokens a provider reported for a prompt, divided by the tokens counted",
        _RATIOS,
    ),
    Metric(
        "checkpoint_entries",
        "distribution",
        "{entry}",
        "Entries that one checkpoint folded",
        _ENTRIES,
    ),
    Metric(
        "summary_tokens", "distribution", "{token}", "Tokens of a checkpoint's summary", _TOKENS
    ),
    Metric(
        "summary_fidelity",
        "distribution",
        "1",
        "Share of the hard facts (numbers, ids, dates, paths, negations) of the folded entries that the summary states",
        _SHARES,
    ),
    Metric(
        "fold_input_tokens",
        "distribution",
        "{token}",
        "Prompt tokens a provider reported for a request that writes a summary",
        _TOKENS,
    ),
    Metric(
        "fold_cached_share",
        "distribution",
        "1",
        "Share of the prompt tokens of such a request that came from the provider's prompt cache",
        _SHARES,
    ),
    Metric(
        "database_read_seconds",
        "distribution",
        "s",
        "Time of a read from the durable store",
        _SECONDS,
    ),
    Metric(
        "database_write_seconds",
        "distribution",
        "s",
        "Time of a write to the durable store",
        _SECONDS,
    ),
    Metric("redis_seconds", "distribution", "s", "Time of a Redis request", _SECONDS),
)


_Listener = Callable[[str, float], None]

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Distribution:
    """A histogram of values, with their number, sum, minimum and maximum."""

    bounds: tuple[float, ...] = ()
    """Upper bounds of the histogram's buckets, ascending."""
    count: int = 0
    total: float = 0.0
    least: float = 0.0
    most: float = 0.0
    buckets: list[int] = field(default_factory=list[int])
    """Number of values in each bucket: values of at most the bucket's bound and above the previous bound. The last
    bucket has no bound."""

    def __post_init__(self) -> None:
        self.buckets = list(self.buckets) or [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        """Add a value to the histogram: to its bucket, and to number, sum, minimum and maximum."""
        self.least = value if self.count == 0 else min(self.least, value)
        self.most = value if self.count == 0 else max(self.most, value)
        self.count += 1
        self.total += value
        self.buckets[bisect_left(self.bounds, value)] += 1

    @property
    def mean(self) -> float:
        """Mean of the values; 0 if there are no values."""
        return self.total / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True)
class _MeterReading:
    """The values of all metrics at one moment: counts and distributions."""

    counts: dict[str, int]
    values: dict[str, Distribution]


class Meter:
    """Counts events and collects values by the names in `METRICS`. Thread-safe."""

    def __init__(self) -> None:
        self.counts = {metric.name: 0 for metric in METRICS if metric.kind == "count"}
        self.values = {
            metric.name: Distribution(metric.bounds)
            for metric in METRICS
            if metric.kind == "distribution"
        }
        self.tracer: Tracer | None = None
        """Creates trace spans for the memories that use this meter; set by `trace_to_otel`, None for no tracing."""
        self._lock = threading.Lock()
        self._count_listeners: tuple[_Listener, ...] = ()
        self._value_listeners: tuple[_Listener, ...] = ()

    def add(self, name: str, amount: int = 1) -> None:
        """Add `amount` to the counter metric `name`, and call the listeners."""
        with self._lock:
            self.counts[name] += amount
        for listener in self._count_listeners:
            self._notify(listener, name, amount)

    def observe(self, name: str, value: float) -> None:
        """Add a value to the histogram metric `name`, and call the listeners."""
        with self._lock:
            self.values[name].add(value)
        for listener in self._value_listeners:
            self._notify(listener, name, value)

    def subscribe(self, *, counts: _Listener, values: _Listener) -> None:
        """Call `counts(name, amount)` for each later `add`, and `values(name, value)` for each later `observe`."""
        with self._lock:
            self._count_listeners += (counts,)
            self._value_listeners += (values,)

    def span(
        self, name: str, conversation: str, attributes: Attributes
    ) -> AbstractContextManager[SpanNote]:
        """Return a context manager that traces work on a conversation; it does nothing without a tracer."""
        if self.tracer is None:
            return NO_SPAN
        return self.tracer.span(name, conversation, attributes)

    def snapshot(self) -> _MeterReading:
        """Return a copy of all metrics, taken at one moment."""
        with self._lock:
            return _MeterReading(
                dict(self.counts), {name: replace(each) for name, each in self.values.items()}
            )

    def _notify(self, listener: _Listener, name: str, value: float) -> None:
        try:
            listener(name, value)
        except Exception as error:
            kind = type(error).__name__
            with self._lock:
                self._count_listeners = tuple(
                    each for each in self._count_listeners if each is not listener
                )
                self._value_listeners = tuple(
                    each for each in self._value_listeners if each is not listener
                )
            _log.warning(
                "a metrics listener raised %s and was removed",
                kind,
                extra={"event": "listener_failed", "error": kind, "metric": name},
            )


_READ = "database_read_seconds"
_WRITE = "database_write_seconds"
_METHODS = {
    _READ: "head view read read_ranges read_turn find tail live_checkpoint checkpoints get_document "
    "documents conversations search",
    _WRITE: "append add_checkpoint drop_checkpoint put_document note drop_document erase delete",
}
_REFUSALS = (Conflict, ConversationDeleted, IdReused, InvalidOption)
"""Errors with which a working store refuses a request, so that they do not count as database errors."""


class _TimedStore:
    def __init__(self, inner: Store, meter: Meter) -> None:
        self._inner = inner
        for metric, methods in _METHODS.items():
            for name in methods.split():
                setattr(self, name, _timed(inner, name, metric, meter))

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def time_store_calls(store: Store, meter: Meter) -> Store:
    """Return `store` with the time of each read and write, and each error, recorded in `meter`."""
    return cast("Store", _TimedStore(store, meter))


def redis_listener(meter: Meter) -> Callable[[float, bool], None]:
    """Return a callback for a Redis cache that records the time and the failure of each request in `meter`."""

    def listen(seconds: float, answered: bool) -> None:  # noqa: FBT001 (the signature of the callback)
        meter.observe("redis_seconds", seconds)
        if not answered:
            meter.add("redis_failures")

    return listen


def _timed(
    store: Store, name: str, metric: str, meter: Meter
) -> Callable[..., Coroutine[object, None, object]]:
    async def call(*args: object, **options: object) -> object:
        began = perf_counter()
        try:
            answer = await getattr(store, name)(*args, **options)
        except WrongProcess:
            raise  # nothing was done; in a forked process the meter's lock may never be released
        except BaseException as error:
            if isinstance(error, Exception) and not isinstance(error, _REFUSALS):
                meter.add("database_errors")
            meter.observe(metric, perf_counter() - began)
            raise
        meter.observe(metric, perf_counter() - began)
        return answer

    return call
