"""Calibrate estimated token counts by the usage that providers report.

After each call a provider reports how many tokens the prompt really had. The ratio of reported to counted, averaged
with more weight on recent and on larger calls, corrects later estimates in either direction: an estimate for an unknown
model is high on purpose, and this brings it down to the provider's own numbers. The spread of the ratios is the error
of the corrected count. Observations take the counts of the uncorrected counter. A calibration is immutable: `observe`
returns a new one. A corrected counter has another name, so corrected and uncorrected counts never mix in a cache.

Every recorded usage of a memory is one observation of its `CalibrationLog`. A session corrects its estimates by itself,
with a factor: the second largest ratio of the newest reports, so that one odd report changes nothing and the count is
rather too high. The factor has bounds (`_BOUNDS`) and changes in steps (`_STEP`), because a corrected counter begins a
new window. It is stored with the conversation, so every process uses the same. Counts in the store stay uncorrected. An
exact counter is never corrected; `Memory.calibration` and the metric `count_ratio` tell how far off it is.
"""

from __future__ import annotations

import math
import re
import threading
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from turnfold.errors import InvalidOption
from turnfold.tokens.certainty import Certainty, TextCounter
from turnfold.tokens.counter import TokenCounter

__all__ = (
    "Calibration",
    "CalibrationLog",
    "Corrected",
    "ScaledCounter",
    "calibrated",
    "can_correct",
    "corrected_counter",
    "correction_of",
)


_MEMORY = 0.9
"""Factor by which each new call reduces the weight of all earlier calls; the last ten calls have about 2/3 of the
weight."""


_NEWEST = 9
"""Number of newest usage reports of a provider from which the correction factor of token counts is computed."""
_FEWEST = 3
"""Least usage reports from which a correction factor is computed; with fewer, counts are not corrected."""
_LEAST_TOKENS = 256
"""Reports of prompts with fewer tokens are not used for the factor: the provider's framing distorts their ratio."""
_BOUNDS = (0.5, 2.0)
"""Smallest and largest correction factor of token counts: beyond them something else is wrong, such as tools that were
not counted."""
_STEP = 0.05
"""Relative change above which a new factor replaces the current one."""
_FACTOR = re.compile(r"\*(\d+\.\d{4})\+")


class Corrected(NamedTuple):
    """A corrected token count with the error to expect."""

    tokens: int
    error: int
    """Number of tokens by which the count is wrong at most, in about 19 of 20 calls."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Weighted sums of reported token usage, and the correction of token counts computed from them."""

    observations: int = 0
    counted: float = 0.0
    """Sum of the counted tokens, with less weight on older calls; also the total weight of the observations."""
    counted_squares: float = 0.0
    reported: float = 0.0
    ratio_squares: float = 0.0

    def observe(self, *, counted: int, reported: int) -> Calibration:
        """Return a new calibration that includes one more call: its tokens as counted and as the provider reported."""
        if counted <= 0 or reported <= 0:
            raise InvalidOption(
                f"cannot calibrate with {counted} counted and {reported} reported tokens: both must be at least 1"
            )
        return Calibration(
            self.observations + 1,
            self.counted * _MEMORY + counted,
            self.counted_squares * _MEMORY**2 + counted**2,
            self.reported * _MEMORY + reported,
            self.ratio_squares * _MEMORY + reported / counted * reported,
        )

    @property
    def ratio(self) -> float:
        """The provider's reported tokens divided by turnfold's counted tokens; 1.0 before the first report."""
        return self.reported / self.counted if self.observations else 1.0

    @property
    def spread(self) -> float:
        """Standard deviation of reported / counted tokens, relative to their ratio; inf before the second report."""
        repeats = self._repeats
        if repeats <= 0:
            return math.inf
        variance = max(0.0, self.ratio_squares / self.counted - self.ratio**2)
        return math.sqrt(variance * (1 + 1 / repeats)) / self.ratio

    def correct(self, tokens: int) -> Corrected:
        """Return the token count that the provider would probably report, with the error to expect.

        Raises `InvalidOption` if there are too few reports to know the error.
        """
        repeats = self._repeats
        if repeats <= 0:
            raise InvalidOption(
                f"{self.observations} reports of token usage are too few to estimate the error of counts: observe "
                "at least 2 calls of similar size"
            )
        corrected = tokens * self.ratio
        # Two deviations cover 19 of 20 calls after many reports. A few reports say little about their spread, and
        # their ratio is itself uncertain.
        deviations = (2 + 3 / repeats) * math.sqrt(1 + 1 / (repeats + 1))
        return Corrected(math.ceil(corrected), math.ceil(corrected * deviations * self.spread))

    @property
    def _repeats(self) -> float:
        """Return the effective number of reports (recent ones weigh more) minus one; 0 if one outweighs the others."""
        if self.observations < 2:
            return 0.0
        repeats = self.counted**2 / self.counted_squares - 1
        return repeats if repeats > 0.01 else 0.0


class ScaledCounter:
    """A text counter that multiplies the counts of another counter by a constant and rounds up."""

    __slots__ = ("_count", "_factor", "name")

    certainty = Certainty.ESTIMATE

    def __init__(self, inner: TextCounter, factor: float) -> None:
        if not (math.isfinite(factor) and factor > 0):
            raise InvalidOption(f"scale factor={factor} must be above 0 and finite")
        self.name = f"{inner.name}*{factor:.4f}"
        self._count = inner.count
        self._factor = factor

    def count(self, text: str) -> int:
        """Return the inner counter's tokens of `text` times the factor, rounded up."""
        return math.ceil(self._count(text) * self._factor)


def calibrated(counter: TokenCounter, calibration: Calibration) -> TokenCounter:
    """Return a counter whose estimates are corrected by the providers' reports.

    An exact counter is returned unchanged.
    """
    if counter.text.certainty is Certainty.EXACT or not calibration.observations:
        return counter
    ratio = round(calibration.ratio, 4)
    text = ScaledCounter(counter.text, ratio)
    return TokenCounter(text, framing=counter.framing.scaled(ratio), images=counter.images)


def can_correct(counter: TokenCounter) -> bool:
    """Return True if reported usage can correct this counter: it estimates, and is not a `DriverCounter`."""
    return counter.is_additive and counter.text.certainty is not Certainty.EXACT


def corrected_counter(counter: TokenCounter, factor: float) -> TokenCounter:
    """Return `counter` with its text and framing counts multiplied by a factor; unchanged for the factor 1."""
    if factor == 1.0:
        return counter
    text = ScaledCounter(counter.text, factor)
    return TokenCounter(text, framing=counter.framing.scaled(factor), images=counter.images)


def correction_of(counter: TokenCounter, name: str) -> float | None:
    """Return the factor by which the counter called `name` scales the counts of `counter`.

    Returns 1.0 if `name` is `counter` itself, None if it is no scaled form of it.
    """
    if name == counter.name:
        return 1.0
    found = _FACTOR.search(name, len(counter.text.name))
    factor = float(found[1]) if found else 1.0
    known = _BOUNDS[0] <= factor <= _BOUNDS[1]
    return factor if known and corrected_counter(counter, factor).name == name else None


class CalibrationLog:
    """Collects the usage that providers report to a memory, to correct estimated token counts. Thread-safe."""

    __slots__ = ("_lock", "_ratios", "value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ratios: deque[float] = deque(maxlen=_NEWEST)
        self.value = Calibration()
        """The calibration after all reports so far."""

    def next_factor(self, current: float) -> float:
        """Return the new factor for estimated token counts; `current` if the newest reports differ too little."""
        with self._lock:
            ratios = sorted(self._ratios)
        if len(ratios) < _FEWEST:
            return current
        factor = round(min(max(ratios[-2], _BOUNDS[0]), _BOUNDS[1]), 2)
        return factor if abs(factor / current - 1) > _STEP else current

    def observe(self, *, counted: int, reported: int) -> None:
        """Add one report of a provider; a report of 0 tokens, which some providers send, is ignored."""
        if counted > 0 and reported > 0:
            with self._lock:
                self.value = self.value.observe(counted=counted, reported=reported)
                if counted >= _LEAST_TOKENS:
                    self._ratios.append(reported / counted)
