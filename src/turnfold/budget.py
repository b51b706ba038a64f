"""`Budget`: the most tokens, messages and bytes that the prompt of one model call may have.

`tokens = context_window x (1 - reserve_ratio)`, capped by `max_tokens`; a limit of 0 means no limit. The shares limit
the sections that could otherwise leave no room for the conversation. Values that can never work together are rejected
when the budget is created, not at the first long conversation. Ratios are computed as decimals: 0.1 of 128,000 is
12,800, not 12,800.000000000002.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from turnfold._argument_hints import hinted
from turnfold.errors import InvalidBudget

__all__ = (
    "RECALL_TOKENS",
    "SUMMARY_TOKENS",
    "Budget",
    "Shares",
    "WaterMarks",
)


RECALL_TOKENS = 2_400
"""Most tokens that are kept free for recalled passages: in a large budget, more passages would not be relevant."""
SUMMARY_TOKENS = 96
"""Tokens that a summary may take even if its share of the budget is smaller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The largest share of a call's tokens, and of its bytes, for each section; the conversation gets the others."""

    system: float = 0.6
    """Share of the budget for system messages; longer ones are shortened to this share."""
    summary: float = 0.15
    """Share of the budget for the summary of folded (compacted) history. In a small budget the summary may take up to
    `SUMMARY_TOKENS` of the tokens that the other shares leave, because a shorter summary would not be readable."""
    tail: float = 0.15
    """Share of the budget for the tail, the messages before the newest turn: pins, rules, session state, findings
    (remembered tool results)."""
    recall: float = 0.55
    """Share of the budget for passages recalled from before the window. They are shown in unused room; after the first
    fold, later folds (compactions) keep this share free for them, but at most `RECALL_TOKENS`."""

    def __post_init__(self) -> None:
        for name in ("system", "summary", "tail", "recall"):
            share = getattr(self, name)
            if not 0.0 < share < 1.0:
                raise InvalidBudget(
                    f"share {name}={share} must be between 0 and 1: it is a part of the budget"
                )
        total = sum(map(_decimal, (self.system, self.summary, self.tail)))
        if total >= 1:
            raise InvalidBudget(
                f"shares system {self.system} + summary {self.summary} + tail {self.tail} = {float(total):g} leave "
                "nothing for the conversation; their sum must stay below 1"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class WaterMarks:
    """Sets how far the window is cut when the budget is full.

    Nothing is cut until the budget is full. Then the window is cut to the share `low` in one step, so that the
    beginning of the prompt, which the provider caches, stays the same for many calls instead of changing with each
    call.
    """

    low: float = 0.5
    """Share that a cut keeps of the tokens left by system, summary, tail (pins, rules, recalled passages) and tools.
    With 1.0 every call cuts only as much as needed."""
    snap: float = 0.5
    """Share of the low mark: a cut inside a turn is moved forward to the start of the next turn if at least this share
    of the tokens that `low` keeps then remains. 1.0 never moves a cut."""
    folded: float = 0.3
    """Share that stays verbatim when older turns are folded (compacted), at most `low`. Each fold changes the prompt
    from the summary on, so if folds are fewer and larger, the beginning of the prompt stays the same for longer."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.snap <= 1.0:
            raise InvalidBudget(
                f"snap={self.snap} must be between 0 and 1: it is a share of what a cut keeps"
            )
        for name in ("low", "folded"):
            if not 0.0 < (mark := getattr(self, name)) <= 1.0:
                raise InvalidBudget(
                    f"{name}={mark} must be above 0 and at most 1: it is a share of the room"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most tokens, messages and bytes that the prompt of one model call may have."""

    context_window: int = 0
    """Tokens of the model's context window; 0 to use `max_tokens` only."""
    reserve_ratio: float = 0.25
    """Share of the context window that is kept free for the answer."""
    max_tokens: int = 0
    """The most tokens of the prompt, for any context window; 0 for no limit."""
    max_messages: int = 0
    """The most messages of the prompt, system messages included; 0 for no limit."""
    max_bytes: int = 0
    """The most UTF-8 bytes of the prompt's messages as JSON, and of the whole request body if the provider is known
    (`session.context(to=...)`); 0 for no limit."""
    shares: Shares = field(default_factory=Shares)
    marks: WaterMarks = field(default_factory=WaterMarks)
    tokens: int = field(init=False)
    """The tokens that the prompt may have, tool schemas and framing included; computed from the other fields."""

    def __post_init__(self) -> None:
        for name in ("context_window", "max_tokens", "max_messages", "max_bytes"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 0:
                raise InvalidBudget(
                    f"{name}={value!r} must be a whole number, at least 0; use 0 for no limit"
                )
        if isinstance(self.reserve_ratio, str) or not 0.0 <= self.reserve_ratio < 1.0:
            raise InvalidBudget(
                f"reserve_ratio={self.reserve_ratio!r} must be at least 0 and below 1: "
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
        """Return the most tokens that a section may have.

        `section` is `system`, `summary`, `tail` (pins, rules and recalled passages, placed before the newest turn) or
        `recall`.
        """
        tokens = _part(self.tokens, getattr(self.shares, section))
        if section == "summary" and tokens < SUMMARY_TOKENS:
            left = self.tokens - self.share("system") - self.share("tail") - 1
            return max(tokens, min(SUMMARY_TOKENS, left, self.tokens // 3))
        return tokens

    @property
    def recall_tokens(self) -> int:
        """The number of tokens that folds (compactions) keep free for recalled passages."""
        return min(self.share("recall"), RECALL_TOKENS)

    def share_bytes(self, section: str) -> int:
        """Return the most bytes that a section may have; 0 if there is no limit on bytes."""
        return max(_part(self.max_bytes, getattr(self.shares, section)), 1) if self.max_bytes else 0

    def arithmetic(self) -> str:
        """Return the formula of `tokens` with its numbers, for error messages and receipts."""
        if not self.context_window:
            return f"max_tokens {self.max_tokens:,}"
        text = f"{self.context_window:,} x (1 - {self.reserve_ratio})"
        return f"min({text}, max_tokens {self.max_tokens:,})" if self.max_tokens else text


def _advice(given: tuple[object, ...], unknown: Mapping[str, object]) -> str:
    """Return the right call if a budget was passed as a number, or as the tokens of a budget."""
    if given:
        return f"Budget takes its numbers by name, got {given[0]!r}: use Budget(max_tokens={given[0]!r})"
    if "tokens" in unknown:
        tokens = unknown["tokens"]
        return (
            f"tokens is computed by Budget and cannot be given: use Budget(max_tokens={tokens!r})"
        )
    return ""


Budget.__init__ = hinted("Budget", _advice)(
    Budget.__init__
)  # the constructor that `dataclass` wrote


def _decimal(ratio: float | Fraction) -> Fraction:
    return Fraction(str(ratio))


@lru_cache(maxsize=256)  # the same few shares on every call, and fractions are slow
def _part(tokens: int, share: float | Fraction) -> int:
    return math.floor(tokens * _decimal(share))
