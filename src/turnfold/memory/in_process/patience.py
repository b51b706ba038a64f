"""How often a model that fails is asked again, where there is no clock to go by.

A memory that is asked for a history at every call would ask a dead model at every call, and its user would wait for the
refusal each time. A failure may be a passing one, so the first few are followed by another attempt at once; after that
the model is left alone for a number of calls, twice as many each time. Whoever answers is trusted again.
"""

from __future__ import annotations

__all__ = ("Patience",)

_AT_ONCE = 3
"""Failures in a row that are forgiven."""
_LONGEST_REST = 32
"""Calls that a model is left alone at most: so late it may be noticed that it is back."""


class Patience:
    """Of one memory with its model."""

    __slots__ = ("_failures", "_rest")

    def __init__(self) -> None:
        self._failures = 0
        self._rest = 0

    def asks(self) -> bool:
        """Whether this call asks the model; each that does not brings the next attempt nearer."""
        if not self._rest:
            return True
        self._rest -= 1
        return False

    def failed(self) -> None:
        """The model did not answer."""
        self._failures += 1
        past = self._failures - _AT_ONCE
        self._rest = min(2 ** (past - 1), _LONGEST_REST) if past > 0 else 0

    def answered(self) -> None:
        """The model answered."""
        self._failures = self._rest = 0
