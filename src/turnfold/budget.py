"""The budget of one call: tokens, messages and bytes.

`tokens = context_window x (1 - reserve_ratio)`, capped by `max_tokens`; a limit of 0 means no limit. The shares cap the
sections that would otherwise crowd out the conversation. Values that can never work together are rejected when the
budget is made, not by the first long conversation. A ratio means the decimal it is written as: 0.1 of 128,000 is
12,800, not 12,800.000000000002.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from turnfold.errors import InvalidBudget

__all__ = (
    "RECALL_TOKENS",
    "SUMMARY_TOKENS",
    "Budget",
    "Shares",
    "WaterMarks",
)


RECALL_TOKENS = 2_400
"""The most tokens that are kept free for recalled passages, however large the budget is."""
SUMMARY_TOKENS = 96
"""Tokens a summary may take, however small its share of the budget is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The largest share of a call's tokens, and of its bytes, for each section. The rest is for the conversation."""

    system: float = 0.6
    """System messages; longer ones are shortened to this share."""
    summary: float = 0.15
    """The summary of folded (compacted) history. Of a small budget it may take up to `SUMMARY_TOKENS` of what
    the other shares leave: in less room nothing readable could be kept of what is folded."""
    tail: float = 0.15
    """Pinned rules, findings and state, before the newest turn."""
    recall: float = 0.55
    """Passages recalled from before the window. They are shown in room that nothing else uses; once something is
    folded, further folds keep this share free for them, of a large budget at most `RECALL_TOKENS`."""

    def __post_init__(self) -> None:
        for name in ("system", "summary", "tail", "recall"):
            share = getattr(self, name)
            if not 0.0 < share < 1.0:
                raise InvalidBudget(f"share {name}={share} must be between 0 and 1")
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
    """Share of the room left by system, summary, tail and tools that a cut keeps. 1.0 cuts no more than needed, on
    every call."""
    snap: float = 0.5
    """A cut moves on to the next turn if at least this share of the low mark still remains. 1.0 never moves it."""
    folded: float = 0.3
    """Share that stays verbatim when older turns are folded (compacted), never more than `low`. A fold changes the
    prompt from the summary on, and the summary covers what went: fewer and deeper folds keep the prompt's beginning
    longer."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.snap <= 1.0:
            raise InvalidBudget(f"snap {self.snap} must be between 0 and 1")
        for name in ("low", "folded"):
            if not 0.0 < (mark := getattr(self, name)) <= 1.0:
                raise InvalidBudget(f"{name} mark {mark} must be above 0 and at most 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The tokens, messages and bytes one call may spend."""

    context_window: int = 0
    """Tokens of the model's context window; 0 to use `max_tokens` only."""
    reserve_ratio: float = 0.25
    """Share of the window kept free for the answer."""
    max_tokens: int = 0
    """Cap on the tokens of the prompt, whatever the window; 0 for none."""
    max_messages: int = 0
    """Cap on the messages of the prompt, system included; 0 for none."""
    max_bytes: int = 0
    """Cap on the UTF-8 bytes of the prompt's messages as JSON, and of the whole request body if the provider is known
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
                "context_window=0 and max_tokens=0 set no token limit; set one of them"
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
        """Return the most tokens a section (system, summary, tail or recall) may take."""
        tokens = _part(self.tokens, getattr(self.shares, section))
        if section == "summary" and tokens < SUMMARY_TOKENS:
            left = self.tokens - self.share("system") - self.share("tail") - 1
            return max(tokens, min(SUMMARY_TOKENS, left))
        return tokens

    @property
    def recall_tokens(self) -> int:
        """The tokens that folds keep free for recalled passages."""
        return min(self.share("recall"), RECALL_TOKENS)

    def share_bytes(self, section: str) -> int:
        """Return the most bytes a section may take; 0 if there is no limit on bytes."""
        return max(_part(self.max_bytes, getattr(self.shares, section)), 1) if self.max_bytes else 0

    def arithmetic(self) -> str:
        """Return how `tokens` is computed, for error messages and receipts."""
        if not self.context_window:
            return f"max_tokens {self.max_tokens:,}"
        text = f"{self.context_window:,} x (1 - {self.reserve_ratio})"
        return f"min({text}, max_tokens {self.max_tokens:,})" if self.max_tokens else text


def _decimal(ratio: float | Fraction) -> Fraction:
    return Fraction(str(ratio))


@lru_cache(maxsize=256)  # the same few shares on every call, and fractions are slow
def _part(tokens: int, share: float | Fraction) -> int:
    return math.floor(tokens * _decimal(share))
