"""Whether a window would be accepted and fits, judged alike for everybody and with no code of turnfold.

Tokens are counted from below: contents, names and arguments of calls by raw tiktoken, 4 per message, 3 for the answer.
Call ids and other framing, which providers charge as well, are left out: a window found over budget is over budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from bench.contender import Item
from bench.raw_tiktoken import count_text

__all__ = ("PER_ANSWER", "PER_MESSAGE", "Record", "call_due", "item_tokens", "tokens_of")

PER_MESSAGE = 4
PER_ANSWER = 3
_RECOGNISABLE = 8
"""Characters by which the newest message is recognised, since it may be shortened."""


@dataclass(slots=True)
class Record:
    """How the windows of one contender were."""

    windows: int = 0
    broken: int = 0
    """A call without its result or a result without its call."""
    newest_missing: int = 0
    """Without the message the model is to answer."""
    over: int = 0
    """More tokens than the budget."""
    refused: int = 0
    """The contender raised an error instead."""
    most: int = 0
    """Tokens of the largest window."""

    @property
    def clean(self) -> bool:
        """Whether every window was valid and within the budget."""
        return self.windows > 0 and not (
            self.broken or self.newest_missing or self.over or self.refused
        )

    def judge(self, window: Sequence[Item], *, newest: Item, budget: int) -> bool:
        """Take one more window into account; whether it would do, its size aside."""
        tokens = tokens_of(window)
        whole, shows = _pairs_intact(window), _shows(window, newest)
        self.windows += 1
        self.broken += not whole
        self.newest_missing += not shows
        self.over += tokens > budget
        self.most = max(self.most, tokens)
        return whole and shows

    def add(self, other: Record) -> None:
        """Take the windows of another record into account."""
        self.windows += other.windows
        self.broken += other.broken
        self.newest_missing += other.newest_missing
        self.over += other.over
        self.refused += other.refused
        self.most = max(self.most, other.most)

    def shown(self) -> str:
        """The record as a phrase."""
        faults = {
            "broken": self.broken,
            "newest missing": self.newest_missing,
            "over": self.over,
            "refused": self.refused,
        }
        found = ", ".join(f"{count} {fault}" for fault, count in faults.items() if count)
        return f"{found} of {self.windows}" if found else f"all {self.windows} good"


def call_due(items: Sequence[Item]) -> bool:
    """Whether the model is to speak next: the user has, or every call is answered."""
    answered: set[str] = set()
    for item in reversed(items):
        if item.role != "tool":
            return item.role == "user" or (
                bool(answered) and answered >= {call.id for call in item.calls}
            )
        answered.add(item.answers)
    return False


@lru_cache(maxsize=200_000)
def item_tokens(item: Item) -> int:
    """Tokens of one message, from below."""
    called = sum(count_text(call.name) + count_text(call.arguments) for call in item.calls)
    return PER_MESSAGE + count_text(item.text) + called


def tokens_of(window: Sequence[Item]) -> int:
    """Tokens of a prompt, from below."""
    return sum(map(item_tokens, window)) + PER_ANSWER


def _pairs_intact(window: Sequence[Item]) -> bool:
    waiting: set[str] = set()
    for item in window:
        if item.role == "tool":
            if item.answers not in waiting:
                return False
            waiting.discard(item.answers)
        elif waiting:
            return False
        else:
            waiting = {call.id for call in item.calls}
    return not waiting


def _shows(window: Sequence[Item], newest: Item) -> bool:
    if not window or (window[-1].role, window[-1].answers) != (newest.role, newest.answers):
        return False
    return bool(newest.answers) or window[-1].text[:_RECOGNISABLE] == newest.text[:_RECOGNISABLE]
