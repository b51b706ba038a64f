"""What providers report, gathered: how far the counts of a memory are from theirs.

Every recorded usage is one observation. The counter of a memory does not change under its feet, because every stored
cost and every window rests on it; who wants the corrected one opens the memory with it:
`Memory(..., counter=calibrated(counter, memory.calibration))`.
"""

from __future__ import annotations

import threading

from turnfold.tokens import Calibration

__all__ = ("Calibrating",)


class Calibrating:
    """A calibration that grows. Safe across threads."""

    __slots__ = ("_lock", "value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.value = Calibration()
        """What the reports so far say."""

    def observe(self, *, counted: int, reported: int) -> None:
        """One more report; one that says nothing (a provider that reports 0) is left out."""
        if counted > 0 and reported > 0:
            with self._lock:
                self.value = self.value.observe(counted=counted, reported=reported)
