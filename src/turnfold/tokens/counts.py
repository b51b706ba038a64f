"""A count says how far it can be trusted.

`EXACT` is what the model's own tokenizer gives. `BOUND` is not exact but never too low: framing the provider does not
publish is priced from above. `ESTIMATE` may err either way, though turnfold's own estimates are built to err upward. A
sum is only as trustworthy as its weakest term.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

__all__ = ("Certainty", "Count", "TextCounter", "weakest")


class Certainty(StrEnum):
    """How far a count can be trusted, best first."""

    EXACT = "exact"
    BOUND = "bound"
    ESTIMATE = "estimate"


_RANK = {Certainty.EXACT: 0, Certainty.BOUND: 1, Certainty.ESTIMATE: 2}


def weakest(*certainties: Certainty) -> Certainty:
    """The certainty of a sum of such counts."""
    return max(certainties, key=_RANK.__getitem__, default=Certainty.EXACT)


class Count(NamedTuple):
    """A number of tokens and how far it can be trusted."""

    tokens: int
    certainty: Certainty

    def __str__(self) -> str:
        mark = {Certainty.EXACT: "", Certainty.BOUND: "at most ", Certainty.ESTIMATE: "about "}
        return f"{mark[self.certainty]}{self.tokens:,} tokens"


class TextCounter(Protocol):
    """Anything that can count the tokens of a text."""

    @property
    def name(self) -> str:
        """Identity of the counter. Counters that may disagree on any text have different names."""
        ...

    @property
    def certainty(self) -> Certainty:
        """How far its counts can be trusted."""
        ...

    def count(self, text: str) -> int:
        """Tokens of `text`, special-token spellings counted as the plain text they are."""
        ...
