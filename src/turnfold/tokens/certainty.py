"""The certainty of token counts, and the protocol of a text counter.

`EXACT` is the count of the model's own tokenizer. `BOUND` may be too high but never too low: framing that the provider
does not publish is counted at its upper bound. `ESTIMATE` may be too high or too low, though turnfold's own estimates
are built to be too high. A sum is only as certain as its least certain term.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

__all__ = (
    "Certainty",
    "Count",
    "TextCounter",
    "weakest",
)


class Certainty(StrEnum):
    """The certainty of a token count, best first: exact, an upper bound, or an estimate."""

    EXACT = "exact"
    BOUND = "bound"
    ESTIMATE = "estimate"


_RANK = {Certainty.EXACT: 0, Certainty.BOUND: 1, Certainty.ESTIMATE: 2}


def weakest(*certainties: Certainty) -> Certainty:
    """Return the certainty of a sum of token counts: that of its least certain term."""
    return max(certainties, key=_RANK.__getitem__, default=Certainty.EXACT)


class Count(NamedTuple):
    """A number of tokens and its certainty."""

    tokens: int
    certainty: Certainty

    def __str__(self) -> str:
        mark = {Certainty.EXACT: "", Certainty.BOUND: "at most ", Certainty.ESTIMATE: "about "}
        return f"{mark[self.certainty]}{self.tokens:,} tokens"


class TextCounter(Protocol):
    """Counts the tokens of a text."""

    @property
    def name(self) -> str:
        """Name that identifies the counter; counters that may disagree on any text have different names."""
        ...

    @property
    def certainty(self) -> Certainty:
        """The certainty of this counter's counts: exact, an upper bound, or an estimate."""
        ...

    def count(self, text: str) -> int:
        """Return the number of tokens of `text`; special tokens written in it count as plain text."""
        ...
