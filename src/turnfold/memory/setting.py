"""What all sessions of a memory share.

One value instead of a dozen parameters on every class between the front door and the store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from turnfold.budget import Budget
from turnfold.errors import InvalidOption
from turnfold.memory.calibrating import Calibrating
from turnfold.memory.fold_keeper import FoldPolicy
from turnfold.memory.metrics.meter import Meter
from turnfold.memory.waiting import Way
from turnfold.models.embedding import Embedder
from turnfold.stores.protocol import Scope, Store
from turnfold.tokens import TokenCounter
from turnfold.window import Strategy

__all__ = ("RecallMode", "Setting")


class RecallMode(StrEnum):
    """When a context brings back what lies before its window."""

    OFF = "off"
    """When a query asks for it."""
    AUTOMATIC = "automatic"
    """Also when something speaks of what the user said last, in half of the tail's share."""
    ALWAYS = "always"
    """In every turn, the best there is for what the user said last."""

    @classmethod
    def named(cls, name: str) -> RecallMode:
        """The mode of this name."""
        try:
            return cls(name)
        except ValueError:
            known = ", ".join(repr(str(mode)) for mode in cls)
            raise InvalidOption(f"recall={name!r} is none of {known}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where conversations live, what a call may spend, how history is folded."""

    store: Store
    scope: Scope
    budget: Budget
    counter: TokenCounter
    strategy: Strategy
    policy: FoldPolicy
    way: Way
    clock: Callable[[], int]
    """Microseconds since 1970: for leases and for people, never for order."""
    meter: Meter
    recall: RecallMode = RecallMode.OFF
    embedder: Embedder | None = None
    """Who says what texts mean, for a recall by meaning beside the one by words."""
    calibrating: Calibrating = field(default_factory=Calibrating)
