"""Times that can be compared: contenders take turns, so a busy moment of the machine hits them alike.

What runs in this process is measured in processor time of all its threads, which waiting for a busy machine does not
lengthen and helping threads do not shorten.

A figure is the median of all its samples; its spread is the 10th to the 90th percentile. A ratio is formed round by
round and then summed up, so that what drifts between rounds cancels out.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean, median
from time import process_time

from bench.report import duration

__all__ = (
    "Ratio",
    "Samples",
    "frozen_heap",
    "growth",
    "percentile",
    "ratio",
    "shown_sizes",
    "take_turns",
)


@dataclass(slots=True)
class Samples:
    """Seconds of one contender, a list per round."""

    rounds: list[list[float]] = field(default_factory=list[list[float]])

    @property
    def seconds(self) -> list[float]:
        """All samples, sorted."""
        return sorted(sample for each in self.rounds for sample in each)

    @property
    def total(self) -> float:
        """Time spent altogether."""
        return sum(self.seconds)

    @property
    def median(self) -> float:
        """The middle sample."""
        return median(self.seconds)

    def percentile(self, share: float) -> float:
        """The sample below which `share` of them lie."""
        seconds = self.seconds
        return seconds[min(int(share * len(seconds)), len(seconds) - 1)]

    def shown(self) -> str:
        """Median and spread."""
        if len(self.seconds) < 2:
            return f"{duration(self.median)} (once)"
        low, high = duration(self.percentile(0.1)), duration(self.percentile(0.9))
        return f"{duration(self.median)} ({low} – {high})"

    def figures(self) -> dict[str, float]:
        """The same for machines."""
        return {
            "median": self.median,
            "p10": self.percentile(0.1),
            "p90": self.percentile(0.9),
            "samples": len(self.seconds),
        }


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as long the slower one takes: middle, least and most over the rounds."""

    middle: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{_times(self.middle)} ({_times(self.least)} – {_times(self.most)})"


def ratio(slow: Samples, fast: Samples) -> Ratio:
    """What `slow` takes over what `fast` takes, from the medians of the rounds both have."""
    pairs = zip(slow.rounds, fast.rounds, strict=False)
    ratios = [median(slower) / median(faster) for slower, faster in pairs if slower and faster]
    return Ratio(median(ratios), min(ratios), max(ratios))


def growth(points: Mapping[int, float], *, start: int = 1_000) -> float:
    """The exponent of growth: the slope of log(time) over log(size), for sizes of at least `start`."""
    logs = [(math.log(size), math.log(value)) for size, value in points.items() if size >= start]
    mean_x, mean_y = fmean(x for x, _ in logs), fmean(y for _, y in logs)
    spread = sum((x - mean_x) ** 2 for x, _ in logs)
    if not spread:
        return math.nan
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / spread


def take_turns(
    works: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    before: Callable[[], object] = lambda: None,
) -> dict[str, Samples]:
    """Each work once per round, in a fixed order, after one round that is not counted; `before` is never timed."""
    samples = {name: Samples() for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            before()
            start = process_time()
            work()
            if number:
                samples[name].rounds.append([process_time() - start])
    return samples


@contextmanager
def frozen_heap() -> Iterator[None]:
    """Keep what is held for all contenders out of the garbage collector's way while one of them is timed."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _times(value: float) -> str:
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{digits}f}x"


def shown_sizes(sizes: Sequence[int]) -> list[str]:
    """Column titles for sizes."""
    return [f"{size:,}" for size in sizes]


def percentile(samples: list[float], share: float) -> float:
    ordered = sorted(samples)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
