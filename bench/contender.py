"""What a peer has to offer to be measured: one file in `peers` with `NEEDS` and any of the tuples named here.

`NEEDS` are the requirements of its environment. `CONTENDERS` build windows, `HELD` are message types whose size in
memory is weighed, `IMPORTS` are statements a fresh interpreter runs, `REOPENED` are stores opened again after a
restart, `STORED` build windows from a store, `APPENDED` append to one, `SUMMARISED` fold old messages by a model,
`FOUND` search what no longer fits, `COUNTED` count tokens. Peers receive and give back plain `Item`s, so that all of
them work on the same conversation and are judged by the same judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

__all__ = (
    "Appended",
    "Appender",
    "Ask",
    "Call",
    "Checkpointed",
    "Contender",
    "Counted",
    "Extract",
    "Find",
    "Found",
    "Held",
    "Item",
    "Reopened",
    "Session",
    "Settings",
    "Stored",
    "StoredSession",
    "Summarised",
    "Told",
    "Turn",
)


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
    timed: bool = True
    """Whether its windows are timed; variants that only differ in what they send need not be."""
    growth: float = 1.0
    """At least how its first call grows with the messages, as an exponent: what would take minutes is not tried."""
    raw: bool = False
    """A raw limit rather than a peer."""
    folds: Callable[[Any], Sequence[Any]] = lambda _: ()
    """The requests for summaries (`FoldSent`) that the last window of a session would have taken by a model."""
    marks: Callable[[Any], Sequence[int]] = lambda _: ()
    """Messages of the last window up to each cache mark it sets by itself; none: the ends of system and prompt."""
    low_mark: float = 0.0
    """Of ours: how far a cut goes, where it is not the default."""


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
    whole: bool = True
    """Whether it can begin with next to nothing; what is stored folded cannot."""
    largest: int = 1_000_000
    """Messages beyond which one call takes too long to wait for."""


class Turn(NamedTuple):
    """What one writer says to a conversation in one go: it is stored whole and durably, or not at all."""

    talk: str
    name: str
    """Names the turn, for a contender that knows a repetition by it."""
    items: tuple[Item, ...]


Told = Callable[[Turn], object]
"""Called with a turn when its writer knows it to be stored."""


class Settings(NamedTuple):
    """What a connection of a writer says of itself: whether a power cut loses what it was told is stored."""

    journal: str
    """`PRAGMA journal_mode`."""
    synchronous: int
    """`PRAGMA synchronous`: 0 off, 1 normal, 2 full, 3 extra."""

    @property
    def durable(self) -> bool:
        """Whether every commit waits for the disk; below 2 those since the last checkpoint may be lost."""
        return self.synchronous >= 2 and self.journal not in ("memory", "off")


class Appender(Protocol):
    """An open store that is written to; `bench.appenders` has what tasks and threads need for it."""

    def append(self, writers: Sequence[Iterable[Turn]], told: Told, /) -> None:
        """What each writer says, in its order, all writers at once: tasks or threads, as suits the contender."""
        ...

    def texts(self, talk: str, /) -> list[str]:
        """The texts of a conversation, in order, as the store has them."""
        ...

    def settings(self) -> Settings:
        """Asked of a connection that was opened as those of the writers are."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """One way to append to a file, or to a PostgreSQL database, durably."""

    name: str
    package: str
    open: Callable[[Any], Appender]
    """Opens a file by its path and makes it where it is not there; or opens a database by what psycopg connects to."""
    served: bool = False
    """Whether it is a database."""
    note: str = ""
    """What was done, in words."""
    ours: bool = False
    raw: bool = False
    """A raw limit rather than a peer."""
    largest: int = 1_000_000
    """Messages in one conversation beyond which a turn takes too long to wait for."""


Ask = Callable[[str], str]
"""The model that summarises: a prompt in, a text out. It may raise, as a model does."""


class Extract(NamedTuple):
    """A summary that was written without the model."""

    text: str
    previous: str
    """The summary before it, which it stands for too."""
    covers: frozenset[int]
    """The messages it was made of, by their place in the conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarised:
    """One way to fold what no longer fits into a summary by a model."""

    name: str
    package: str
    convert: Callable[[Sequence[Item]], list[Any]]
    """Items as the contender's messages."""
    open: Callable[[int, Ask], Session]
    """An empty conversation for a budget of so many tokens, with the model to ask."""
    read: Callable[[Sequence[Any]], list[Item]]
    """A window as items."""
    note: str = ""
    """What was done, in words; the settings among it."""
    ours: bool = False


Find = Callable[[str, int], list[str]]
"""A question and a number of results to texts of messages, best first; a result may show more than the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One way to search what was said and no longer fits."""

    name: str
    package: str
    open: Callable[[Path, Sequence[Item]], tuple[Find, Callable[[], object]]]
    """Stores a conversation in a new file; gives what searches it, and what closes the file again."""
    note: str = ""
    """What was done, in words."""
    ours: bool = False
    raw: bool = False
    """A raw limit rather than a peer."""
    largest: int = 1_000_000
    """Messages beyond which storing or one search takes too long to wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointed:
    """One saver of a graph's checkpoints."""

    name: str
    package: str
    hold: Callable[[Path, int], tuple[int, int, float]]
    """Holds a conversation of so many turns in an empty folder: bytes said, bytes on disk, seconds."""
    note: str = ""
    ours: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """One way to count the tokens of a text."""

    name: str
    package: str
    count: Callable[[str], int]
    claims: str = "estimate"
    """What it says of its figure: `exact`, `bound` or `estimate`."""
    encoding: str = ""
    """The vocabulary the claim is about; empty where it is about any."""
    note: str = ""
    """What was done, in words."""
    ours: bool = False
    raw: bool = False
    """A raw limit rather than a peer."""
