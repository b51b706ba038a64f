"""Events that the readers of history files yield: start of a conversation, message, ignored or unreadable item."""

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
    """Event of a file reader: a conversation begins; the messages that follow belong to it."""

    conversation: str
    line: int
    created: int = 0
    """Time of the conversation's start in microseconds since 1970; 0 if the file does not say."""


@dataclass(frozen=True, slots=True)
class ImportedMessage:
    """Event of a file reader: a message of the conversation that began last."""

    message: Message
    line: int
    created: int = 0
    client_id: str = ""
    """The id of the message in the file; empty if the message has none."""


@dataclass(frozen=True, slots=True)
class UnreadableItem:
    """Event of a file reader: an item of the file that cannot be read, with its line and the reason."""

    line: int
    """Number of the line at which the item begins, from 1."""
    problem: str

    def __str__(self) -> str:
        return f"line {self.line:,}: {self.problem}"


@dataclass(frozen=True, slots=True)
class IgnoredItem:
    """Event of a file reader: an item that is not a message and is not imported, such as an option of a model call."""

    what: str
    """Kind of the item; items are counted by it."""


HistoryEvents: TypeAlias = Iterator[
    ConversationStart | ImportedMessage | UnreadableItem | IgnoredItem
]
