"""Events of a history file: conversations, their messages, and items that are ignored or cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from turnfold.records import Message

__all__ = (
    "ConversationStart",
    "HistoryEvents",
    "IgnoredItem",
    "ImportedMessage",
    "UnreadableItem",
)


@dataclass(frozen=True, slots=True)
class ConversationStart:
    """The start of a conversation; the following messages belong to it."""

    conversation: str
    line: int
    created: int = 0
    """Microseconds since 1970; 0 if the file does not say."""


@dataclass(frozen=True, slots=True)
class ImportedMessage:
    """A message of the current conversation."""

    message: Message
    line: int
    created: int = 0
    client_id: str = ""
    """The id of the message in the file, if it has one."""


@dataclass(frozen=True, slots=True)
class UnreadableItem:
    """An item of the file that cannot be read."""

    line: int
    """Number of the line at which the item begins, from 1."""
    problem: str

    def __str__(self) -> str:
        return f"line {self.line:,}: {self.problem}"


@dataclass(frozen=True, slots=True)
class IgnoredItem:
    """An item of the file that is not part of a conversation."""

    what: str


HistoryEvents: TypeAlias = Iterator[
    ConversationStart | ImportedMessage | UnreadableItem | IgnoredItem
]
