"""What a reader of foreign files yields: conversations, one thing said after another, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from turnfold.records import Message

__all__ = ("Bad", "Begin", "Found", "Ignored", "Said")


@dataclass(frozen=True, slots=True)
class Begin:
    """A conversation begins; what follows is its own."""

    conversation: str
    line: int
    created: int = 0
    """Microseconds since 1970; 0 where the file does not say."""


@dataclass(frozen=True, slots=True)
class Said:
    """One message of the conversation that was begun."""

    message: Message
    line: int
    created: int = 0
    client_id: str = ""
    """The message's own id in the file, if it has one."""


@dataclass(frozen=True, slots=True)
class Bad:
    """Something in the file that cannot be read."""

    line: int
    """Where it begins, from 1."""
    problem: str

    def __str__(self) -> str:
        return f"line {self.line:,}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Ignored:
    """Something in the file that is no part of any conversation."""

    what: str


Found: TypeAlias = Iterator[Begin | Said | Bad | Ignored]
