"""The protocol every store implements, and the values its methods take and return.

A store keeps conversations. A conversation is an append-only log of entries (messages with a number, the seq), plus its
checkpoints (summaries of the log up to an entry, the results of folds, that is of compactions) and documents (other
data, by kind and key).

`append` stores a batch of entries completely or not at all, and assigns seqs under the conversation's lock. A retry
with the same client ids returns the first result; with `expect`, a writer that has not seen the newest entry gets
`Conflict`. Checkpoints and documents change by compare-and-swap and never change the log. Every method takes a `Scope`,
so no call can forget the tenant. A backend lists its optional features in `abilities`; no method raises "not
implemented".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias

from turnfold.errors import InvalidOption
from turnfold.records import Checkpoint, Document, Entry, Message, NewEntry
from turnfold.search import ALL_ENTRIES, Hit, Within

__all__ = (
    "Ability",
    "Appended",
    "Captured",
    "ConversationInfo",
    "ConversationOpening",
    "Erasure",
    "Head",
    "Health",
    "Piece",
    "Restored",
    "Scope",
    "State",
    "Store",
    "View",
    "Written",
    "check_budget",
    "check_document_name",
    "check_kinds",
    "check_name",
    "check_page",
    "check_range",
    "check_ranges",
    "check_turn",
)


_LONGEST_NAME = 512
_LARGEST_COUNT = (1 << 63) - 1


def check_name(value: str, what: str) -> None:
    """Raise `InvalidOption` unless `value` is a name that every backend can store: 1 to 512 characters, no NUL.

    `what` says in the error which name it is, such as "client id".
    """
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance] (callers may not check types)
        advice = "give one" if value is None else f"give {str(value)!r}"
        raise InvalidOption(f"{what} must be text, got {value!r}: {advice}")
    if not value or len(value) > _LONGEST_NAME:
        raise InvalidOption(
            f"{what} must be 1 to {_LONGEST_NAME} characters, got {len(value)} characters"
        )
    if "\x00" in value:
        raise InvalidOption(
            f"{what} must not contain NUL: remove the one at character {value.index(chr(0))}"
        )
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidOption(
                f"{what} is not valid Unicode: remove the lone surrogate at character {error.start}"
            ) from None


def check_document_name(kind: str, key: str) -> None:
    """Raise `InvalidOption` unless every backend can store the kind and the key of a document."""
    check_name(kind, "document kind")
    check_name(key, "document key")


def check_kinds(kinds: Sequence[str]) -> None:
    """Raise `InvalidOption` unless every backend can store these kinds of documents."""
    for kind in kinds:
        check_name(kind, "document kind")


def check_range(after: int, upto: int | None, limit: int) -> None:
    """Raise `InvalidOption` if a bound of a range of entries, or its limit, is negative or beyond 64 bits."""
    _check_count(after, "after")
    _check_count(0 if upto is None else upto, "upto")
    _check_count(limit, "limit")


def check_ranges(ranges: Sequence[tuple[int, int]]) -> None:
    """Raise `InvalidOption` unless the ranges (first seq, last seq) are in order and do not overlap."""
    before = 0
    for first, last in ranges:
        _check_count(last, "the last seq of a range")
        if not before < first <= last:
            raise InvalidOption(
                f"ranges must be in order, without overlap, and begin at 1 or later; got ({first}, {last}) "
                f"after one that ends at {before}"
            )
        before = last


def check_turn(turn: int) -> None:
    """Raise `InvalidOption` if the number of a turn is negative or beyond 64 bits."""
    _check_count(turn, "turn")


def check_budget(tokens: int, messages: int) -> None:
    """Raise `InvalidOption` if a limit of tokens or of messages is negative or beyond 64 bits."""
    _check_count(tokens, "tokens")
    _check_count(messages, "messages")


def check_page(after: str, limit: int) -> None:
    """Raise `InvalidOption` if the arguments of a listing are invalid: the name it begins after, or its limit."""
    if after:
        check_name(after, "the name a page starts after")
    _check_count(limit, "limit")


def _check_count(value: int, what: str) -> None:
    # Backends treat a negative number, or one beyond 64 bits, each in its own way.
    if not 0 <= value <= _LARGEST_COUNT:
        raise InvalidOption(f"{what} must be 0 to {_LARGEST_COUNT}, got {value}")


@dataclass(frozen=True, slots=True)
class Scope:
    """The tenant whose data a call may touch. Two scopes share nothing."""

    tenant: str

    def __post_init__(self) -> None:
        check_name(self.tenant, "tenant")


class Ability(StrEnum):
    """Optional features of a store's backend."""

    DURABLE = "durable"
    """An acknowledged append survives a crash of the process and of the machine."""
    SHARED = "shared"
    """Several processes may use the store at the same time."""
    SEARCH = "search"
    """`search` uses an index."""
    ERASES_BYTES = "erases-bytes"
    """After `delete`, no byte of the text remains in the store's files."""
    BACKUP = "backup"
    """The store can be copied while in use."""
    ENCRYPTED = "encrypted"
    """Content is encrypted before it is written; one search looks through one conversation."""
    IN_ORDER = "in-order"
    """Appends are stored in the order of the calls, even if a caller did not await one before the next."""


State: TypeAlias = tuple[int, int]
"""Version of a conversation: its generation and the epoch of that generation (see `Head`).

Equal states mean that nothing has changed. Equal generations alone do not: after a failover or a restored backup, a
generation number can stand for another change.
"""


@dataclass(frozen=True, slots=True)
class Head:
    """Current state of a conversation in numbers: newest entry, totals, live checkpoint (summary), version."""

    seq: int = 0
    """Seq of the newest entry; 0 if there is none."""
    tokens: int = 0
    """Number of tokens of all entries, counted by `counter`."""
    turns: int = 0
    """Number of turns; each user message begins one."""
    checkpoint: str = ""
    """Id of the live (newest) checkpoint (summary); empty before the first."""
    generation: int = 0
    """Incremented by every change of any kind."""
    counter: str = ""
    """Name of the token counter that made the stored token counts."""
    epoch: int = 0
    """Random number drawn by the change that made this generation; 0 before the first change, and for changes by a
    release without epochs. After a failover or a restored backup, later changes reuse the generation numbers of lost
    changes, but with other epochs."""

    @property
    def state(self) -> State:
        """Generation and epoch: the version of the conversation, used as a cache key and for compare-and-swap."""
        return self.generation, self.epoch


@dataclass(frozen=True, slots=True)
class Appended:
    """The result of an append: the seqs of its entries, and the head (newest seq, version) after it."""

    first: int
    """Seq (log position) of the first entry of the batch."""
    last: int
    """Seq (log position) of the last entry of the batch."""
    repeated: bool
    """True if the batch was already stored and nothing was written."""
    head: Head
    before: State = (0, 0)
    """State before the append; the head's own state if the batch was repeated. Older services do not send it."""
    redacted: int = 0
    """Secrets that were replaced with labels in the batch, in a memory with `redact`."""


@dataclass(frozen=True, slots=True)
class Written:
    """A document as it was written, and the states of its conversation before and after the write."""

    document: Document
    before: State
    after: State


@dataclass(frozen=True, slots=True)
class View:
    """A conversation at one moment: its head (newest seq, version), live checkpoint and documents of some kinds."""

    head: Head = field(default_factory=Head)
    checkpoint: Checkpoint | None = None
    documents: tuple[Document, ...] = ()
    """Documents of the conversation, sorted by kind and key."""


@dataclass(frozen=True, slots=True)
class ConversationInfo:
    """A conversation in a listing; times are in microseconds since 1970."""

    conversation: str
    head: Head
    created: int
    updated: int


@dataclass(frozen=True, slots=True)
class Erasure:
    """The result of a deletion: how much was removed."""

    conversation: str
    entries: int
    checkpoints: int
    documents: int
    already: bool
    """True if the conversation, or the entry, was already deleted."""
    mentions: tuple[str, ...] = ()
    """Names (`kind/key`) of documents that the application itself wrote and that may still contain the text of the
    erased entry; they are not changed."""


@dataclass(frozen=True, slots=True)
class ConversationOpening:
    """The first piece of a conversation in an export or a restore: its id, its times."""

    conversation: str
    created: int
    updated: int
    dropped: int = 0
    """The highest version of any removed document: the next new document gets a higher one."""


Piece: TypeAlias = ConversationOpening | Document | Entry | Checkpoint
"""The unit in which conversations are copied between stores.

A stream of pieces has, for each conversation, its opening, its documents by kind and key, its entries, and its
checkpoints, oldest first. Token counts of entries are ignored: the target store counts again.
"""


@dataclass(frozen=True, slots=True)
class Captured:
    """A consistent snapshot of a conversation, without its entries and documents, which are read separately."""

    opening: ConversationOpening
    head: Head
    """Version of the conversation in the snapshot, which has the entries up to `head.seq`; the caller reads these
    entries itself, because a log only grows."""
    checkpoints: tuple[Checkpoint, ...]


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore: how much was written. Conversations that existed are counted in `already` only."""

    conversations: int = 0
    already: int = 0
    entries: int = 0
    checkpoints: int = 0
    documents: int = 0


@dataclass(frozen=True, slots=True)
class Health:
    """Report on a store for its operator: if it can serve requests, with details and warnings."""

    ok: bool
    backend: str
    details: Mapping[str, str] = field(default_factory=dict[str, str])
    warnings: tuple[str, ...] = ()


class Store(Protocol):
    """Protocol of all stores: an append-only log of messages per conversation, with its summaries and documents."""

    abilities: frozenset[Ability]
    blocking: bool
    """True if every method finishes without suspending, so that its coroutine can be run without an event loop."""

    async def append(
        self,
        scope: Scope,
        conversation: str,
        entries: Sequence[NewEntry],
        *,
        expect: int | None = None,
    ) -> Appended:
        """Append a batch of entries, all or none; raise `Conflict` if `expect` is set and is not the newest seq."""
        ...

    async def head(self, scope: Scope, conversation: str) -> Head:
        """Return the head of a conversation (newest seq, totals, version).

        Its seq is 0 if the conversation does not exist.
        """
        ...

    async def view(self, scope: Scope, conversation: str, kinds: Sequence[str]) -> View:
        """Return the head (newest seq, version), the live checkpoint and all documents of these kinds at one moment."""
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
        """Return the entries with `after < seq <= upto`, oldest first, at most `limit`."""
        ...

    async def read_ranges(
        self, scope: Scope, conversation: str, ranges: Sequence[tuple[int, int]]
    ) -> list[Entry]:
        """Return the entries of these ranges (first seq, last seq) of the log, oldest first, with one request.

        The ranges are in order and do not overlap.
        """
        ...

    async def read_turn(self, scope: Scope, conversation: str, turn: int) -> list[Entry]:
        """Return the entries of one turn; turn 0 is everything before the first user message."""
        ...

    async def find(self, scope: Scope, conversation: str, client_ids: Sequence[str]) -> list[Entry]:
        """Return the entries with these client ids, oldest first; unknown ids are skipped."""
        ...

    async def tail(
        self, scope: Scope, conversation: str, *, tokens: int, messages: int = 0
    ) -> list[Entry]:
        """Return the newest entries that have at most `tokens` tokens together, oldest first; reads no other rows.

        `messages` limits their number; 0 means no limit.
        """
        ...

    async def add_checkpoint(
        self,
        scope: Scope,
        conversation: str,
        checkpoint: Checkpoint,
        *,
        seen: tuple[int, int] | None = None,
    ) -> Checkpoint:
        """Store a checkpoint (summary) and make it the live one; raise `Conflict` unless `previous` is live now.

        `seen` is the seq and epoch of an entry that the author of the summary has read, ideally the newest one. If the
        store has no such entry (it was restored or failed over), `Conflict` is raised too. Epoch 0 is not compared.

        If the same checkpoint is already stored (ignoring `created`), the stored one is returned, live or not.
        """
        ...

    async def live_checkpoint(self, scope: Scope, conversation: str) -> Checkpoint | None:
        """Return the newest checkpoint (stored summary); None if there is none yet. Other checkpoints are not read."""
        ...

    async def checkpoints(self, scope: Scope, conversation: str) -> list[Checkpoint]:
        """Return all checkpoints (stored summaries) of a conversation, oldest first; the last one is live."""
        ...

    async def drop_checkpoint(
        self,
        scope: Scope,
        conversation: str,
        checkpoint: str,
        *,
        put: Sequence[Document] = (),
        drop: Sequence[Document] = (),
        state: State | None = None,
    ) -> list[Checkpoint]:
        """Remove a checkpoint (stored summary) and all later ones, which were made from it.

        Returns them, oldest first.

        The checkpoint before it, if there is one, becomes live again. Every entry that is no longer summarised gets a
        new epoch: readers that cached it read it again, and a checkpoint or note by a writer that saw the removed
        summary is refused because of its `seen`. Documents in `put` and `drop` are written and removed in the same
        transaction. If a document does not have the version it is given with (0: it must not exist), or if `state` is
        given and is not the conversation's state, nothing is changed and `Conflict` is raised. Raises `NotFound` if
        there is no such checkpoint.
        """
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
        """Write a document if its stored version is `expect`.

        `expect=0` means that it must not exist yet; None means any version.

        Raises `Conflict` if `expect` does not match, if `state` is given and is not the conversation's state, or if
        `seen` is given and there is no entry with that seq and epoch.
        Each write increments the version. Versions continue after a drop, so a writer that expects the version of a
        dropped document is always refused.
        """
        ...

    async def note(
        self, scope: Scope, conversation: str, document: Document, *, state: State
    ) -> State:
        """Write a new document if the conversation has the version `state`; return its version after the write.

        Raises `Conflict` if it has another version, so that the head need not be read first. A note survives a crash
        of the process; a power failure may lose the newest notes, until the next durable write.
        """
        ...

    async def get_document(
        self, scope: Scope, conversation: str, kind: str, key: str
    ) -> Document | None:
        """Return the document with this kind and key; None if there is none."""
        ...

    async def documents(
        self, scope: Scope, conversation: str, kind: str, *, after: str = "", limit: int = 1000
    ) -> list[Document]:
        """Return the documents of a kind with `key > after`, in key order, at most `limit`."""
        ...

    async def drop_document(
        self, scope: Scope, conversation: str, kind: str, key: str, *, expect: int | None = None
    ) -> bool:
        """Remove a document; return True if it existed. Raises `Conflict` if `expect` is set and is not its version."""
        ...

    async def conversations(
        self, scope: Scope, *, after: str = "", limit: int = 100
    ) -> list[ConversationInfo]:
        """Return the conversations of a tenant with id > `after`, in id order, without deleted ones."""
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
        """Return entries, checkpoints and documents that contain any of the terms, best first, filtered by `within`.

        Terms are data, never query syntax. Up to 400 candidates are ranked. If more match, those with the rarest terms
        are ranked, and among equals those of the conversation created last, newest first; an older entry that repeats a
        common word more often is then not found. If the terms match more than 10,000 times together, only the rarest of
        them select candidates (as many as match that often, and three more). Above 400 matches, a single Chinese
        character selects candidates only if no pair of the query's characters with it matches anywhere. To narrow a
        search, pass more words or a conversation.
        """
        ...

    async def capture(
        self, scope: Scope, conversation: str, take: Callable[[Document], None]
    ) -> Captured | None:
        """Return opening, head and checkpoints (summaries) of a conversation at one moment; None if it does not exist.

        Its documents are passed to `take` one by one, sorted by kind and key.

        `take` may be called from another thread and must not use the store; an exception it raises ends the call.
        """
        ...

    async def restore(self, scope: Scope, pieces: Iterable[Piece]) -> Restored:
        """Write whole conversations, unchanged, all of them or none.

        If a conversation already exists, it is left alone if it is identical; if it differs, `Conflict` is raised, if
        it was deleted, `ConversationDeleted`. Tokens are counted again. `pieces` is iterated once, in the thread that
        writes, and never kept in memory as a whole.
        """
        ...

    async def delete(self, scope: Scope, conversation: str) -> Erasure:
        """Delete a conversation with its checkpoints, documents and index; later writes to its id are refused."""
        ...

    async def erase(
        self,
        scope: Scope,
        conversation: str,
        seq: int,
        message: Message,
        *,
        replace: Sequence[Document] = (),
        drop: Sequence[Document] = (),
    ) -> Erasure:
        """Replace the message of one entry by `message` of the same role, and remove the summaries that cover it.

        Checkpoints that cover the entry are removed, the search index is updated, tokens are counted again. Every entry
        from this one on gets a new epoch: readers that cached it read it again, and a checkpoint or note made from the
        old text is refused because of its `seen`. If the entry has this message already, no entry and no checkpoint
        changes (`already` in the result). Documents in `replace` and `drop` are replaced and removed in the same
        transaction; if one does not have the version it is given with, nothing is changed and `Conflict` is raised.
        Raises `NotFound` if there is no such entry.
        """
        ...

    async def health(self) -> Health:
        """Return whether the store can serve requests, with details and warnings."""
        ...

    async def close(self) -> None:
        """Finish acknowledged writes and close files and connections. Closing twice is allowed."""
        ...
