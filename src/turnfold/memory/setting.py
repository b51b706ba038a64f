"""What all sessions of a memory share.

One value instead of a dozen parameters on every class between the front door and the store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from turnfold.budget import Budget
from turnfold.memory.calibrating import Calibrating
from turnfold.memory.fold_keeper import FoldPolicy
from turnfold.memory.metrics.meter import Meter
from turnfold.memory.waiting import Way
from turnfold.stores.protocol import Scope, Store
from turnfold.tokens import TokenCounter
from turnfold.window import Strategy

__all__ = ("Setting",)


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
    calibrating: Calibrating = field(default_factory=Calibrating)
