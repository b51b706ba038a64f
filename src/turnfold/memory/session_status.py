"""Where a session stands, as one value for whoever looks at it: a program, the command line, a service."""

from __future__ import annotations

from dataclasses import dataclass

from turnfold.memory.fold_keeper import MemoryMode

__all__ = ("SessionStatus",)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """Where a session stands."""

    conversation: str
    mode: MemoryMode
    entries: int
    turns: int
    tokens: int
    """Cost of the whole log."""
    checkpoint: str
    """Id of the live checkpoint; empty before the first."""
    covered: int
    """The last seq that is folded or cleared."""
    fold_failures: int
    """Attempts to fold that failed since the last checkpoint."""
    fold_error: str
    """Kind of the last failure."""
