"""What a provider is sent, and what had to be changed for it.

A conversation may have been held with another provider, or another model. Whatever cannot be said in the new place
as it was said in the old one is converted or left out by a rule, and every such case is listed, so that a receipt can
show it and nothing disappears unseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from turnfold.window import Changed
from turnfold.wire.values import JsonObject

__all__ = ("Action", "Change", "Notes", "Request", "by_rule")

_MOST_RULES = 32
"""Kinds of changes an account names one by one; a log of a thousand odd blocks must not make a receipt of a thousand
lines."""


class Action(StrEnum):
    """What was done to a part."""

    CONVERTED = "converted"
    """Said in another form."""
    LEFT_OUT = "left out"
    """Not sent."""
    MOVED = "moved"
    """Sent at another place."""
    ADDED = "added"
    """Not in the original: put there because the provider asks for something."""


class Change(NamedTuple):
    """One thing that is not sent as it was said."""

    path: str
    """Where: `messages[3].parts[0]` of the messages given, or `messages[3].content[0]` of a payload repaired."""
    action: Action
    reason: str
    lost: str = ""
    """The text that is sent nowhere because of it."""

    def __str__(self) -> str:
        return f"{self.path} {self.action}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of one call to a provider's SDK."""

    provider: str
    kwargs: JsonObject
    """Keyword arguments of the official SDK's call, as plain JSON values."""
    changes: tuple[Change, ...]
    """Every part that had to be converted or left out for this provider and model."""


def by_rule(changes: Sequence[Change]) -> tuple[Changed, ...]:
    """The changes counted by what was done and why, in the order they were first met."""
    found: dict[tuple[str, str], list[str]] = {}
    for change in changes:
        found.setdefault((str(change.action), change.reason), []).append(change.path)
    rules = [
        Changed(action, reason, len(paths), paths[0]) for (action, reason), paths in found.items()
    ]
    rest = rules[_MOST_RULES:]
    if rest:
        others = f"for {len(rest):,} other reasons"
        rules[_MOST_RULES:] = [
            Changed("changed", others, sum(rule.times for rule in rest), rest[0].first)
        ]
    return tuple(rules)


class Notes:
    """Collects changes while something is written."""

    __slots__ = ("changes",)

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def converted(self, path: str, reason: str) -> None:
        """Said in another form."""
        self.changes.append(Change(path, Action.CONVERTED, reason))

    def left_out(self, path: str, reason: str, lost: str = "") -> None:
        """Not sent."""
        self.changes.append(Change(path, Action.LEFT_OUT, reason, lost))

    def moved(self, path: str, reason: str) -> None:
        """Sent at another place."""
        self.changes.append(Change(path, Action.MOVED, reason))

    def added(self, path: str, reason: str) -> None:
        """Put there for the provider."""
        self.changes.append(Change(path, Action.ADDED, reason))
