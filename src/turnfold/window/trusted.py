"""How far the counts of a call can be trusted, without looking again at what the call before showed.

A sum is as trustworthy as its weakest term, so of the messages of a call it is enough to know how many at the beginning
are counted exactly, and how many at least bounded. The next call repeats nearly all of them and asks only for the rest.
"""

from __future__ import annotations

from typing import NamedTuple

from turnfold.records import Message
from turnfold.tokens import Certainty, TokenCounter

__all__ = ("Trusted",)


class Trusted(NamedTuple):
    """The certainty of the first messages of a call, whichever number of them is taken."""

    looked: int = 0
    """Messages looked at."""
    exact: int = 0
    """Messages at the beginning that are counted exactly."""
    bounded: int = 0
    """Messages at the beginning that are counted exactly or from above."""

    @property
    def certainty(self) -> Certainty:
        """Of all that were looked at."""
        if self.exact == self.looked:
            return Certainty.EXACT
        return Certainty.BOUND if self.bounded == self.looked else Certainty.ESTIMATE

    def beginning(self, messages: int) -> Trusted:
        """The same of so many messages at most."""
        looked, exact, bounded = self
        return Trusted(min(messages, looked), min(messages, exact), min(messages, bounded))

    def extended(self, messages: tuple[Message, ...], counter: TokenCounter) -> Trusted:
        """The same of all these messages, of which those looked at are the beginning."""
        looked, exact, bounded = self
        for message in messages[looked:]:
            if bounded < looked:
                break  # nothing behind an estimate can make it worse
            certainty = counter.certainty_of(message)
            exact += exact == looked and certainty is Certainty.EXACT
            bounded += certainty is not Certainty.ESTIMATE
            looked += 1
        return Trusted(len(messages), exact, bounded)
