"""What a peer has to offer to be measured: one file in `peers` with the tuples named here.

`CONTENDERS` build windows, `HELD` are message types whose size in memory is weighed, `IMPORTS` are statements a fresh
interpreter runs, `REOPENED` are stores opened again after a restart, `STORED` build windows from a store. A peer may
leave any of them out. Peers receive and give back plain `Item`s, so that all of them work on the same conversation and
are judged by the same judge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

__all__ = ("Call", "Contender", "Held", "Item", "Reopened", "Session", "Stored", "StoredSession")


class Call(NamedTuple):
    """A tool call."""

    id: str
    name: str
    arguments: str
    """JSON text."""


class Item(NamedTuple):
    """One message, in no library's shape."""

    role: str
    text: str
    calls: tuple[Call, ...] = ()
    answers: str = ""
    """The id of the call a tool message answers."""


class Session(Protocol):
    """A conversation held by a contender, in its own message type."""

    def add(self, message: Any, /) -> None:  # noqa: ANN401 (each contender has its own message type)
        """Append one message."""
        ...

    def window(self) -> Sequence[Any]:
        """What the next model call would be sent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One way to build the window for the next call."""

    name: str
    package: str
    """The distribution whose version is shown."""
    convert: Callable[[Sequence[Item]], list[Any]]
    """Items as the contender's messages. Not timed."""
    open: Callable[[Sequence[Any], int], Session]
    """A conversation with these messages, for a budget of so many tokens."""
    read: Callable[[Sequence[Any]], list[Item]]
    """A window as items, for the judge. Not timed."""
    ours: bool = False
    keeps_history: bool = True
    """False where building a window throws the rest of the history away."""
    replays: bool = True
    """Whether it takes part in the replay of traces; variants with the same windows need not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One way to hold a conversation in memory."""

    name: str
    package: str
    build: Callable[[Any], object]
    """What is weighed: makes what is held from what was prepared."""
    prepare: Callable[[Sequence[Item]], object] = list
    """Everything that is not to be weighed: the raw strings, parsed arguments, a loaded tokenizer."""
    ours: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopened:
    """One way to go on with a stored conversation after a restart."""

    name: str
    package: str
    seed: Callable[[Path, Sequence[Item]], object]
    """Stores a conversation in a new file, in the fastest way the contender has. Not timed."""
    reopen: Callable[[Path], tuple[int, Callable[[], object]]]
    """Opens the file and gets what the next call is built from: how many messages, and what closes the file again."""
    note: str = ""
    """What was done, in words."""
    ours: bool = False


class StoredSession(Protocol):
    """A conversation in a contender's store."""

    def add(self, item: Item, /) -> None:
        """Append one message, durably."""
        ...

    def window(self) -> Sequence[Any]:
        """What the next model call would be sent, built from the store."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One way to build the window for the next call from a SQLite file."""

    name: str
    package: str
    seed: Callable[[Path, Sequence[Item]], object]
    """Stores a conversation in a new file, in the fastest way the contender has. Not timed."""
    open: Callable[[Path, int], StoredSession]
    """The conversation in the file, for a budget of so many tokens."""
    read: Callable[[Sequence[Any]], list[Item]] = list
    """A window as items, for the judge. Not timed."""
    note: str = ""
    """What was done, in words."""
    ours: bool = False
    budgeted: bool = True
    """False where the messages read are a number the user guessed, so that tokens are trimmed but not sought."""
    largest: int = 1_000_000
    """Messages beyond which one call takes too long to wait for."""
