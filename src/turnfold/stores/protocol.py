"""The one small protocol every store speaks.

Order is the store's business. `append` assigns seqs under the conversation's lock, all of a batch or none of
it; a retry with known client ids returns the first result; `expect` refuses a writer who has not seen the
newest entry. Everything else is out of band: checkpoints and documents change by compare-and-swap and never
touch the log. A `Scope` is required everywhere: a tenant cannot be forgotten. What a backend cannot do it says
in `abilities`; nothing raises "not implemented".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias

from turnfold.errors import InvalidOption
from turnfold.records import Checkpoint, Document, Entry, NewEntry
from turnfold.stores.ranking import Hit
from turnfold.stores.within import ALL_ENTRIES, Within

__all__ = (
    "Ability",
    "Appended",
    "Captured",
    "ConversationInfo",
    "Erasure",
    "Head",
    "Health",
    "Opening",
    "Piece",
    "Restored",
    "Scope",
    "State",
    "Store",
    "Written",
    "check_budget",
    "check_document_name",
    "check_name",
    "check_page",
    "check_range",
    "check_turn",
)

_LONGEST_NAME = 512
_LARGEST_COUNT = (1 << 63) - 1


def check_name(value: str, what: str) -> None:
    """Refuse a name that some backend could not hold exactly."""
    if not value or len(value) > _LONGEST_NAME or "\x00" in value:
        raise InvalidOption(
            f"{what} must be 1 to {_LONGEST_NAME} characters without NUL, got {len(value)} characters"
        )
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidOption(
                f"{what} holds a lone surrogate at character {error.start}"
            ) from None


def check_document_name(kind: str, key: str) -> None:
    """Refuse a kind or key that some backend could not hold exactly."""
    check_name(kind, "document kind")
    check_name(key, "document key")


def check_range(after: int, upto: int | None, limit: int) -> None:
    """Refuse a range that no log can have."""
    _check_count(after, "after")
    _check_count(0 if upto is None else upto, "upto")
    _check_count(limit, "limit")


def check_turn(turn: int) -> None:
    """Refuse a turn that no log can have."""
    _check_count(turn, "turn")


def check_budget(tokens: int, messages: int) -> None:
    """Refuse a budget that nothing can have."""
    _check_count(tokens, "tokens")
    _check_count(messages, "messages")


def check_page(after: str, limit: int) -> None:
    """Refuse a page that starts after no possible name, or has no possible length."""
    if after:
        check_name(after, "the name a page starts after")
    _check_count(limit, "limit")


def _check_count(value: int, what: str) -> None:
    # A negative number or one beyond 64 bits would mean another thing, or another error, on each backend.
    if not 0 <= value <= _LARGEST_COUNT:
        raise InvalidOption(f"{what} must be 0 to {_LARGEST_COUNT}, got {value}")


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose data a call may touch. Two scopes share nothing."""

    tenant: str

    def __post_init__(self) -> None:
        check_name(self.tenant, "tenant")


class Ability(StrEnum):
    """What a backend can do beyond the log itself."""

    DURABLE = "durable"
    """An acknowledged append survives a crash of the process and of the machine."""
    SHARED = "shared"
    """Several processes may use it at once."""
    SEARCH = "search"
    """`search` is indexed."""
    ERASES_BYTES = "erases-bytes"
    """After `delete` no byte of the text remains in its files."""
    BACKUP = "backup"
    """It can be copied while in use."""
    IN_ORDER = "in-order"
    """Appends asked for one after another are stored in that order, also where nobody waited in between."""


State: TypeAlias = tuple[int, int]
"""A generation and its epoch. Two equal states are the same state of the same history; a generation alone is not."""


@dataclass(frozen=True, slots=True)
class Head:
    """Where a conversation stands."""

    seq: int = 0
    """The newest entry; 0 when there is none."""
    tokens: int = 0
    """Cost of all entries by `counter`."""
    turns: int = 0
    checkpoint: str = ""
    """The live checkpoint's id; empty before the first."""
    generation: int = 0
    """Grows with every change of any kind."""
    counter: str = ""
    """The counter the stored costs were made with."""
    epoch: int = 0
    """A random number drawn by the change that made this generation; 0 before the first, and where a release before
    epochs wrote. After a failover or a restored backup, a generation that was lost comes again with another epoch."""

    @property
    def state(self) -> State:
        """The state this head was read in: caches are keyed by it, conditional writes compare it."""
        return self.generation, self.epoch


@dataclass(frozen=True, slots=True)
class Appended:
    """What an append did."""

    first: int
    """Seq of the first entry of the batch."""
    last: int
    repeated: bool
    """Whether the batch had been stored before and nothing was written."""
    head: Head
    before: State = (0, 0)
    """The state that the append followed; the head's own if it was repeated. Older services do not tell it."""


@dataclass(frozen=True, slots=True)
class Written:
    """A document that was written, and the states of the conversation before and after."""

    document: Document
    before: State
    after: State


@dataclass(frozen=True, slots=True)
class ConversationInfo:
    """One row of a listing."""

    conversation: str
    head: Head
    created: int
    updated: int


@dataclass(frozen=True, slots=True)
class Erasure:
    """The receipt of a deletion."""

    conversation: str
    entries: int
    checkpoints: int
    documents: int
    already: bool
    """Whether it had been deleted before."""


@dataclass(frozen=True, slots=True)
class Opening:
    """Where a conversation begins in a stream of pieces: what is said of it as a whole."""

    conversation: str
    created: int
    updated: int
    dropped: int = 0
    """The highest version a dropped document had: the next new document's version is higher."""


Piece: TypeAlias = Opening | Document | Entry | Checkpoint
"""What conversations are carried in from store to store. An opening, then its documents by kind and key, its entries,
its checkpoints oldest first, then the next opening. What an entry cost elsewhere is not looked at."""


@dataclass(frozen=True, slots=True)
class Captured:
    """A conversation without its entries and documents, as it was at one instant."""

    opening: Opening
    head: Head
    """Its entries are those up to `head.seq`: a log only grows."""
    checkpoints: tuple[Checkpoint, ...]


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore wrote; conversations that were already there are not among the rest."""

    conversations: int = 0
    already: int = 0
    entries: int = 0
    checkpoints: int = 0
    documents: int = 0


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the store can serve, and what an operator should know."""

    ok: bool
    backend: str
    details: Mapping[str, str] = field(default_factory=dict[str, str])
    warnings: tuple[str, ...] = ()


class Store(Protocol):
    """An append-only log of conversations, with checkpoints and documents beside it."""

    abilities: frozenset[Ability]
    blocking: bool
    """Whether every verb finishes before its coroutine suspends, so that it can be run without an event loop."""

    async def append(
        self,
        scope: Scope,
        conversation: str,
        entries: Sequence[NewEntry],
        *,
        expect: int | None = None,
    ) -> Appended:
        """Append a batch, all or nothing. `expect` is the seq the writer believes newest; another is a `Conflict`."""
        ...

    async def head(self, scope: Scope, conversation: str) -> Head:
        """Where the conversation stands; an unknown one stands at seq 0."""
        ...

    async def read(
        self,
        scope: Scope,
        conversation: str,
        *,
        after: int = 0,
        upto: int | None = None,
        limit: int = 1000,
    ) -> list[Entry]:
        """Entries with `after < seq <= upto`, oldest first, at most `limit`."""
        ...

    async def read_turn(self, scope: Scope, conversation: str, turn: int) -> list[Entry]:
        """The entries of one turn; turn 0 is what came before the first user message."""
        ...

    async def find(self, scope: Scope, conversation: str, client_ids: Sequence[str]) -> list[Entry]:
        """The entries with these client ids, oldest first; unknown ids are simply not among them."""
        ...

    async def tail(
        self, scope: Scope, conversation: str, *, tokens: int, messages: int = 0
    ) -> list[Entry]:
        """The newest entries that cost at most `tokens` together, oldest first; reads no other rows."""
        ...

    async def add_checkpoint(
        self,
        scope: Scope,
        conversation: str,
        checkpoint: Checkpoint,
        *,
        seen: tuple[int, int] | None = None,
    ) -> Checkpoint:
        """Make a checkpoint live if `checkpoint.previous` still is; otherwise a `Conflict`.

        `seen` is the seq and epoch of an entry that the summary's writer has read, best the newest: where the store has
        no such entry, it is in another history, and that is a `Conflict` too. An epoch of 0 is not compared.

        One that is stored already, the time aside, is returned as it is stored, whether it is still live or not.
        """
        ...

    async def live_checkpoint(self, scope: Scope, conversation: str) -> Checkpoint | None:
        """The newest checkpoint, or None before the first; reads no other."""
        ...

    async def checkpoints(self, scope: Scope, conversation: str) -> list[Checkpoint]:
        """All checkpoints, oldest first; the last one is live."""
        ...

    async def put_document(
        self,
        scope: Scope,
        conversation: str,
        document: Document,
        *,
        expect: int | None = None,
        state: State | None = None,
        seen: tuple[int, int] | None = None,
    ) -> Written:
        """Write a document. `expect` is the version it must have now (0: it must not exist); None writes anyway.

        With `state` it is also a `Conflict` unless the conversation is at just that state, with `seen` unless it has
        the entry with this seq and epoch.
        A version is one more than the last. After a drop it goes on, so a writer who expects the version of a
        document that is gone is always refused.
        """
        ...

    async def note(
        self, scope: Scope, conversation: str, document: Document, *, state: State
    ) -> State:
        """Write a new document if the conversation is in exactly this state, else a `Conflict`; the state after it.

        One question instead of a look at the head and a write. A note outlives the process; the newest ones may be
        lost with the power, until something that must last is written after them.
        """
        ...

    async def get_document(
        self, scope: Scope, conversation: str, kind: str, key: str
    ) -> Document | None:
        """One document, or None."""
        ...

    async def documents(
        self, scope: Scope, conversation: str, kind: str, *, after: str = "", limit: int = 1000
    ) -> list[Document]:
        """The documents of a kind with `key > after`, in key order."""
        ...

    async def drop_document(
        self, scope: Scope, conversation: str, kind: str, key: str, *, expect: int | None = None
    ) -> bool:
        """Remove a document; whether it was there."""
        ...

    async def conversations(
        self, scope: Scope, *, after: str = "", limit: int = 100
    ) -> list[ConversationInfo]:
        """The scope's conversations with id > `after`, in id order, deleted ones left out."""
        ...

    async def search(
        self,
        scope: Scope,
        terms: Sequence[str],
        *,
        conversation: str | None = None,
        limit: int = 20,
        within: Within = ALL_ENTRIES,
    ) -> list[Hit]:
        """Places that hold any of the terms, best first; `within` keeps to some. Terms are data, never query syntax.

        Up to 400 are weighed. Of more, it is those whose terms tell most, and of equals those of the conversation
        begun last, the newest first: an older entry that says a common word more often is then not found. Where the
        terms stand in more than 10,000 places together, the rarest of them choose what is weighed (as many as stand in
        so many, and three more); where in more than 400, a single character of Chinese does so only if no pair it is
        asked for with stands anywhere. Ask for more words, or within one conversation.
        """
        ...

    async def capture(
        self, scope: Scope, conversation: str, take: Callable[[Document], None]
    ) -> Captured | None:
        """The conversation as it is at one instant, or None. `take` is given all its documents, by kind and key.

        `take` may be called from another thread and must not use the store; what it raises ends the call.
        """
        ...

    async def restore(self, scope: Scope, pieces: Iterable[Piece]) -> Restored:
        """Write whole conversations exactly as they were elsewhere, all of them or nothing.

        One that is here and the same is left alone; one that differs is a `Conflict`, an erased one is
        `ConversationDeleted`. Token costs are counted anew. `pieces` is read once, from whichever thread writes, and
        never held whole.
        """
        ...

    async def delete(self, scope: Scope, conversation: str) -> Erasure:
        """Erase a conversation and everything derived from it; nothing late brings it back."""
        ...

    async def health(self) -> Health:
        """Whether the store can serve."""
        ...

    async def close(self) -> None:
        """Finish what was acknowledged and let go of files and connections. Closing twice is allowed."""
        ...
