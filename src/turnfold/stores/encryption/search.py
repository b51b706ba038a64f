"""Search in one encrypted conversation: an index in memory, made of the decrypted log on first use and kept up to date.

The index is a SQLite store in memory with a decrypted copy of the conversation, so results are those of a store that is
not encrypted. Nothing of it is written to disk. Before a search, entries written since the last one are added to the
copy. If entries were replaced or lost (then their epochs, random numbers of each write, differ), a new copy is made.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final

from turnfold.records import Checkpoint, Document, Entry, NewEntry
from turnfold.runtime import drive
from turnfold.search import Hit, Within
from turnfold.stores.protocol import ConversationOpening, Piece, Scope
from turnfold.stores.sqlite.store import SqliteStore
from turnfold.tokens import Certainty, Framing, TokenCounter

__all__ = ("ConversationIndex", "IndexCache", "IndexUpdate")


_MAX_INDEXES: Final = 256
_MAX_BYTES: Final = 64 << 20
"""Most bytes that the texts in all search indexes in memory may have together; beyond that, the index used least
recently is dropped."""


_NO_FRAMING: Final = Framing(name="none", origin="nothing is counted", message=0, reply=0)


class _NoTokens:
    """A token counter that returns 0 for every text."""

    name = "none"
    certainty = Certainty.ESTIMATE

    def count(self, text: str) -> int:  # noqa: ARG002 (the protocol)
        return 0


@dataclass(frozen=True, slots=True)
class IndexUpdate:
    """Changes of a conversation that are added to its search index: new entries, checkpoints, searchable documents."""

    scope: Scope
    opening: ConversationOpening
    entries: Sequence[Entry]
    """The entries after the newest indexed entry; for a new index, all entries."""
    checkpoints: Sequence[Checkpoint]
    documents: Mapping[tuple[str, str], Document]
    """Documents with a text, by kind and key."""


@dataclass(slots=True)
class ConversationIndex:
    """A decrypted copy of one conversation with a search index, in memory. Thread-safe."""

    store: SqliteStore = field(init=False)
    seq: int = 0
    """Seq (number) of the newest entry in the copy."""
    epoch: int = 0
    """Epoch (random number of the write) of the newest entry in the copy; it differs if the entry was replaced
    since."""
    held_bytes: int = 0
    """Approximate bytes of memory that the copy takes."""
    _now: int = 0
    _checkpoints: tuple[Checkpoint, ...] = ()
    _documents: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """Version of each document in the copy, by kind and key."""
    _lock: Lock = field(default_factory=Lock)
    _closed: bool = False

    def __post_init__(self) -> None:
        counter = TokenCounter(_NoTokens(), framing=_NO_FRAMING)  # tokens are not needed here
        self.store = SqliteStore(counter=counter, blocking=True, clock=lambda: self._now)

    def search(
        self, update: IndexUpdate, terms: Sequence[str], *, limit: int, within: Within
    ) -> list[Hit] | None:
        """Add the update to the index and search it.

        Returns None if entries were replaced, so that a new index is needed.
        """
        with self._lock:
            if self._closed:
                return None
            if update.entries and update.entries[0].seq != self.seq + 1:
                return None
            if self._checkpoints != tuple(update.checkpoints)[: len(self._checkpoints)]:
                return None
            self._apply(update)
            return drive(
                self.store.search(
                    update.scope,
                    terms,
                    conversation=update.opening.conversation,
                    limit=limit,
                    within=within,
                )
            )

    def close(self) -> None:
        """Close the index and free its memory."""
        with self._lock:
            self._closed = True
            drive(self.store.close())

    def _apply(self, update: IndexUpdate) -> None:
        scope, name = update.scope, update.opening.conversation
        if not self.seq and not self._documents and not self._checkpoints:
            documents = [replace(update.documents[at], body=b"") for at in sorted(update.documents)]
            pieces: list[Piece] = [update.opening, *documents, *update.entries, *update.checkpoints]
            drive(self.store.restore(scope, pieces))
            drive(self.store.reindex())
        else:
            self._extend(scope, name, update)
        if update.entries:
            self.seq, self.epoch = update.entries[-1].seq, update.entries[-1].epoch
        self.held_bytes += sum(4 * len(each.message.text) for each in update.entries)
        self._checkpoints = tuple(update.checkpoints)
        self._documents = {place: each.version for place, each in update.documents.items()}

    def _extend(self, scope: Scope, name: str, update: IndexUpdate) -> None:
        for entry in update.entries:
            self._now = entry.created
            drive(self.store.append(scope, name, [NewEntry(entry.message)]))
        for checkpoint in update.checkpoints[len(self._checkpoints) :]:
            self._now = checkpoint.created
            drive(self.store.add_checkpoint(scope, name, checkpoint))
        for place in self._documents.keys() - update.documents.keys():
            drive(self.store.drop_document(scope, name, *place))
        for place, document in update.documents.items():
            if self._documents.get(place) != document.version:
                self._now = document.created
                drive(self.store.put_document(scope, name, replace(document, body=b"")))


class IndexCache:
    """Cache with the indexes of the conversations that were searched last. Thread-safe."""

    def __init__(self) -> None:
        self._indexes: OrderedDict[tuple[str, str], ConversationIndex] = OrderedDict()
        self._lock = Lock()

    def get(self, place: tuple[str, str]) -> ConversationIndex | None:
        """Return the cached search index of a conversation; None if it is not cached."""
        with self._lock:
            found = self._indexes.get(place)
            if found is not None:
                self._indexes.move_to_end(place)
            return found

    def put(self, place: tuple[str, str], index: ConversationIndex) -> None:
        """Cache a search index; if the cache is full, the least recently used indexes are closed."""
        with self._lock:
            self._indexes[place] = index
            self._indexes.move_to_end(place)
            total = sum(each.held_bytes for each in self._indexes.values())
            gone: list[ConversationIndex] = []
            while len(self._indexes) > 1 and (
                len(self._indexes) > _MAX_INDEXES or total > _MAX_BYTES
            ):
                gone.append(self._indexes.popitem(last=False)[1])
                total -= gone[-1].held_bytes
        for each in gone:
            each.close()

    def drop(self, place: tuple[str, str]) -> None:
        """Close the search index of a conversation and remove it from the cache."""
        with self._lock:
            gone = self._indexes.pop(place, None)
        if gone is not None:
            gone.close()

    def clear(self) -> None:
        """Close all search indexes and empty the cache."""
        with self._lock:
            gone = list(self._indexes.values())
            self._indexes.clear()
        for each in gone:
            each.close()
