"""`MemoryConfig`: the options that all sessions of a memory share, as one value instead of a dozen parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from turnfold.budget import Budget
from turnfold.errors import InvalidOption
from turnfold.memory.folding import FoldPolicy
from turnfold.models import Embedder
from turnfold.runtime import Runtime
from turnfold.stores import Scope, Store
from turnfold.telemetry import Meter
from turnfold.tokens import CalibrationLog, TokenCounter
from turnfold.window import Strategy

__all__ = (
    "MemoryConfig",
    "RecallMode",
    "check_budget",
    "check_type",
    "choice",
)


_Choice = TypeVar("_Choice", bound=StrEnum)


def check_type(option: str, value: object, kinds: tuple[Any, ...], right: str) -> None:
    """Raise `InvalidOption` for an option of the wrong type; `right` is an example of how it is written."""
    if not isinstance(value, kinds):
        raise InvalidOption(f"{option}={value!r} is {type(value).__name__}: write {right}")


def check_budget(budget: object) -> None:
    """Raise `InvalidOption` for a budget that is no `Budget`, such as a number of tokens."""
    number = isinstance(budget, int) and not isinstance(budget, bool)
    tokens = budget if number else 8_000
    check_type("budget", budget, (Budget, type(None)), f"budget=Budget(max_tokens={tokens})")


def choice(option: str, name: str, kind: type[_Choice]) -> _Choice:
    """Return the enum member that an option's value names; raises `InvalidOption` if there is none."""
    try:
        return kind(name)
    except ValueError:
        known = ", ".join(repr(str(each)) for each in kind)
        raise InvalidOption(f"{option}={name!r} is not one of {known}") from None


class RecallMode(StrEnum):
    """When a context recalls entries from before its window."""

    OFF = "off"
    """Recall only if a query is given."""
    AUTOMATIC = "automatic"
    """Recall without a query too, in unused room: the best matches for the user's last message, and more of them if
    they share enough words with it."""
    ALWAYS = "always"
    """Recall the best matches for the user's last message in every turn, even weak ones."""

    @classmethod
    def named(cls, name: str) -> RecallMode:
        """Return the mode of this name."""
        return choice("recall", name, cls)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryConfig:
    """The options of a memory: store, budget, token counter, folding, recall and runtime."""

    store: Store
    scope: Scope
    budget: Budget
    counter: TokenCounter
    strategy: Strategy
    policy: FoldPolicy
    runtime: Runtime
    clock: Callable[[], int]
    """Returns microseconds since 1970; used for leases and display, never to order entries."""
    meter: Meter
    model: str = ""
    address: str = ""
    """Address of the store without its password, or the class of an open store; only for display."""
    cache: str | None = None
    """Address of the cache without its password; only for display."""
    recall: RecallMode = RecallMode.AUTOMATIC
    rules: bool = True
    """True if what users lay down is taken from their messages and shown once it left the window."""
    embedder: Embedder | None = None
    """Computes vectors of texts, for recall by meaning in addition to recall by words."""
    calibrating: CalibrationLog = field(default_factory=CalibrationLog)
