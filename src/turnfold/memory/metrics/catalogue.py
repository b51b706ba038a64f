"""Every figure a memory keeps about itself: name, unit, meaning and buckets, in one place.

What counts, what exports and what documents the figures all read this list, so none of them can know a metric that the
others do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

__all__ = ("METRICS", "Metric")

_SECONDS: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0,
)  # fmt: skip
_SHARES: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
_RATIOS: Final = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0)
_TOKENS: Final = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
_ENTRIES: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000)


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure."""

    name: str
    kind: Literal["count", "distribution"]
    unit: str
    """As the Unified Code for Units of Measure spells it: `s`, `1` for a share, `{token}` for things counted."""
    description: str
    bounds: tuple[float, ...] = ()
    """Upper bounds of the buckets of a distribution; one more bucket holds what is above the last."""


METRICS: Final = (
    Metric("contexts", "count", "{context}", "Contexts assembled for a model call"),
    Metric("entries", "count", "{entry}", "Entries appended to a log"),
    Metric("checkpoints", "count", "{checkpoint}", "Checkpoints that landed"),
    Metric("fold_failures", "count", "{attempt}", "Attempts to fold that failed"),
    Metric(
        "folds_lost", "count", "{fold}", "Folds dropped because another was faster or was at it"
    ),
    Metric("meaning_entries", "count", "{entry}", "Entries whose vectors were made"),
    Metric(
        "meaning_failures", "count", "{attempt}", "Recalls by meaning that an embedder let down"
    ),
    Metric("database_errors", "count", "{call}", "Calls of the durable store that raised"),
    Metric("redis_failures", "count", "{call}", "Questions Redis did not answer"),
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
        "Share of the previous prompt that a context begins with",
        _SHARES,
    ),
    Metric(
        "count_ratio",
        "distribution",
        "1",
        "Tokens a provider reported for a prompt, over the tokens counted",
        _RATIOS,
    ),
    Metric(
        "checkpoint_entries", "distribution", "{entry}", "Entries one checkpoint folded", _ENTRIES
    ),
    Metric(
        "summary_tokens", "distribution", "{token}", "Length of a checkpoint's summary", _TOKENS
    ),
    Metric(
        "summary_fidelity",
        "distribution",
        "1",
        "Share of the hard facts of what was folded that the summary states",
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
    Metric("redis_seconds", "distribution", "s", "Time of a question to Redis", _SECONDS),
)
