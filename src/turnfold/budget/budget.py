"""What one call may spend.

`tokens = context_window x (1 - reserve_ratio)`, capped by `max_tokens`; a limit of 0 means "no such limit", as in the
configuration files of old. The shares cap the sections that would otherwise crowd out the conversation. Numbers that
can never work together are refused when the budget is made, not when the first long conversation meets them. A ratio
is meant as the decimal it is written as: 0.1 of 128,000 is 12,800, not 12,800.000000000002.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from turnfold.errors import InvalidBudget

__all__ = ("Budget", "Shares", "WaterMarks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The most each section may take of the tokens, and of the bytes, of a call. The rest is for the conversation."""

    system: float = 0.6
    """Instructions. A longer system message is shrunk to this share."""
    summary: float = 0.15
    """The summary of what was folded."""
    tail: float = 0.15
    """Pinned rules, recalled passages, findings and state, before the newest turn."""

    def __post_init__(self) -> None:
        for name in ("system", "summary", "tail"):
            share = getattr(self, name)
            if not 0.0 < share < 1.0:
                raise InvalidBudget(f"share {name}={share} must lie between 0 and 1")
        total = sum(map(_decimal, (self.system, self.summary, self.tail)))
        if total >= 1:
            raise InvalidBudget(
                f"shares system {self.system} + summary {self.summary} + tail {self.tail} = {float(total):g} leave "
                "nothing for the conversation; their sum must stay below 1"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class WaterMarks:
    """When the window is cut, and how far.

    Nothing is cut until the budget is full; then the window is cut to `low` of it in one step, so that the beginning
    of the prompt, which the provider caches, stays the same for many calls instead of changing on each.
    """

    low: float = 0.5
    """Part of what system, summary, tail and tools leave that is kept at a cut. 1.0 cuts no more than needed, on every
    call."""
    snap: float = 0.5
    """A cut moves on to the next turn where at least this part of the low mark still remains. 1.0 never moves it."""
    folded: float = 0.3
    """Part that stays verbatim when older turns are folded, never more than `low`. A fold changes the prompt from the
    summary on, and its summary speaks for what went: fewer and deeper folds keep the prompt's beginning longer."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.snap <= 1.0:
            raise InvalidBudget(f"snap {self.snap} must lie between 0 and 1")
        if not 0.0 < self.low <= 1.0:
            raise InvalidBudget(f"low mark {self.low} must lie above 0 and at most at 1")
        if not 0.0 < self.folded <= 1.0:
            raise InvalidBudget(f"folded mark {self.folded} must lie above 0 and at most at 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The tokens, messages and bytes one call may spend."""

    context_window: int = 0
    """What the model can read at once; 0 when only `max_tokens` is to count."""
    reserve_ratio: float = 0.25
    """Part of the window kept free for the answer."""
    max_tokens: int = 0
    """Cap on the tokens of the prompt, whatever the window; 0 for none."""
    max_messages: int = 0
    """Cap on the messages of the prompt, system included; 0 for none."""
    max_bytes: int = 0
    """Cap on the UTF-8 bytes of the prompt's messages as JSON, and of the whole body where it is known who gets it
    (`session.context(to=...)`); 0 for none."""
    shares: Shares = field(default_factory=Shares)
    marks: WaterMarks = field(default_factory=WaterMarks)
    tokens: int = field(init=False)
    """The tokens the prompt may have, tool schemas and framing included."""

    def __post_init__(self) -> None:
        for name in ("context_window", "max_tokens", "max_messages", "max_bytes"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 0:
                raise InvalidBudget(
                    f"{name}={value!r} must be a whole number, at least 0; use 0 for no limit"
                )
        if not 0.0 <= self.reserve_ratio < 1.0:
            raise InvalidBudget(
                f"reserve_ratio={self.reserve_ratio} must be at least 0 and below 1: "
                "it is the part of the window kept for the answer"
            )
        if not (self.context_window or self.max_tokens):
            raise InvalidBudget(
                "context_window=0 and max_tokens=0 leave nothing to count against; set one of them"
            )
        tokens = self._available()
        if tokens < 1:
            raise InvalidBudget(
                f"context_window {self.context_window:,} x (1 - {self.reserve_ratio}) leaves {tokens} tokens; "
                "raise the window or lower reserve_ratio"
            )
        object.__setattr__(self, "tokens", tokens)

    def _available(self) -> int:
        if not self.context_window:
            return self.max_tokens
        available = _part(self.context_window, 1 - _decimal(self.reserve_ratio))
        return min(available, self.max_tokens) if self.max_tokens else available

    def share(self, section: str) -> int:
        """The most tokens a section of `Shares` (system, summary or tail) may take."""
        return _part(self.tokens, getattr(self.shares, section))

    def share_bytes(self, section: str) -> int:
        """The most bytes a section of `Shares` may take; 0 where bytes have no limit."""
        return max(_part(self.max_bytes, getattr(self.shares, section)), 1) if self.max_bytes else 0

    def arithmetic(self) -> str:
        """How `tokens` came about, for error messages and receipts."""
        if not self.context_window:
            return f"max_tokens {self.max_tokens:,}"
        text = f"{self.context_window:,} x (1 - {self.reserve_ratio})"
        return f"min({text}, max_tokens {self.max_tokens:,})" if self.max_tokens else text


def _decimal(ratio: float | Fraction) -> Fraction:
    return Fraction(str(ratio))


@lru_cache(maxsize=256)  # asked for the same few shares on every call, and fractions are slow
def _part(tokens: int, share: float | Fraction) -> int:
    return math.floor(tokens * _decimal(share))
