"""Checks of a restore, the same for every backend.

The pieces of a restore (documents, entries, summaries) come from a file and are not trusted: `PieceOrder` rejects the
first piece that a log could not have at that place. Tokens are counted here, by the counter of the target store.
`Pieces` gives a backend one batch at a time, so that a conversation of any length needs only a few megabytes of memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, NoReturn

from turnfold.errors import Conflict, IdReused, InvalidRecord
from turnfold.records import Checkpoint, Document, Entry, Message, encode_message
from turnfold.search import ToolNames
from turnfold.stores.log_semantics import Row, check_checkpoint, check_document, new_epoch
from turnfold.stores.protocol import ConversationOpening, Piece, Restored, check_name
from turnfold.tokens import TokenCounter

__all__ = (
    "KnownPieces",
    "PieceOrder",
    "Pieces",
    "RepeatedId",
    "RestoreBatch",
    "check_new",
    "check_same",
    "check_same_whole",
)


_LARGEST_BATCH = 500
_LARGEST_BATCH_BYTES = 4 << 20
_LARGEST_NUMBER = 1 << 60
"""Largest time or version that a restore accepts: low enough that every backend can count up from it."""


class RepeatedId(IdReused):
    """Raised if two entries of a conversation to restore have the same client id; nothing was written."""

    def __init__(self, *, conversation: str, seq: int) -> None:
        self.conversation = conversation
        self.seq = seq
        super().__init__(
            f"entry {seq:,} of conversation {conversation!r} has the client id of an earlier entry: each needs its own"
        )


class PieceOrder:
    """Checks that the parts of restored conversations (documents, entries, ...) are valid and in order; counts them."""

    def __init__(self) -> None:
        self.opening: ConversationOpening | None = None
        self._begin()

    def _begin(self) -> None:
        self.seq = 0
        self.turns = 0
        self.documents = 0
        self.checkpoints = 0
        self.live = ""
        self._covered = 0
        self._place = ("", "")
        self._names: set[str] = set()

    def take(self, piece: Piece) -> None:
        """Check the next part of a restore (opening, document, entry, checkpoint).

        Raises `InvalidRecord` if it is invalid.
        """
        if isinstance(piece, ConversationOpening):
            self._take_opening(piece)
        elif self.opening is None:
            raise InvalidRecord(
                f"the first piece of a restore is of type {type(piece).__name__}: it must be a ConversationOpening"
            )
        elif isinstance(piece, Entry):
            self._take_entry(piece)
        elif isinstance(piece, Document):
            self._take_document(piece)
        else:
            self._take_checkpoint(piece)

    def _take_opening(self, opening: ConversationOpening) -> None:
        check_name(opening.conversation, "conversation id")
        _check_number(opening.created, "created", least=-_LARGEST_NUMBER)
        _check_number(opening.updated, "updated", least=-_LARGEST_NUMBER)
        _check_number(opening.dropped, "dropped", least=0)
        self.opening = opening
        self._begin()

    def _take_document(self, document: Document) -> None:
        if self.seq or self.checkpoints:
            _misplaced("a document", "the entries")
        check_document(document)
        place = (document.kind, document.key)
        if place == self._place:
            raise InvalidRecord(
                f"document {document.kind}/{document.key} comes twice: a conversation has one document per kind and key"
            )
        if place < self._place:
            raise InvalidRecord(
                f"document {document.kind}/{document.key} comes after {'/'.join(self._place)}: documents must be "
                "sorted by kind and key"
            )
        _check_number(document.version, "version", least=1)
        _check_number(document.created, "created", least=-_LARGEST_NUMBER)
        if type(document.body) is not bytes:
            raise InvalidRecord(
                f"a document's body must be bytes, not {type(document.body).__name__}"
            )
        self._place = place
        self.documents += 1

    def _take_entry(self, entry: Entry) -> None:
        if self.checkpoints:
            _misplaced("an entry", "the checkpoints")
        if type(entry.message) is not Message:
            raise InvalidRecord(
                f"the message of an entry must be a Message, not {type(entry.message).__name__}"
            )
        turns = self.turns + (entry.message.role == "user")
        for what, found, right in (("seq", entry.seq, self.seq + 1), ("turn", entry.turn, turns)):
            if type(found) is not int or found != right:
                raise InvalidRecord(
                    f"an entry is missing, or out of order: its {what} is {found!r}, expected {right:,}"
                )
        _check_number(entry.created, "created", least=-_LARGEST_NUMBER)
        if entry.client_id:
            check_name(entry.client_id, "client id")
        self.seq += 1
        self.turns = turns

    def _take_checkpoint(self, checkpoint: Checkpoint) -> None:
        check_checkpoint(checkpoint)
        _check_number(checkpoint.upto, "upto", least=1)
        _check_number(checkpoint.created, "created", least=-_LARGEST_NUMBER)
        if checkpoint.previous != self.live:
            raise InvalidRecord(
                f"checkpoint {checkpoint.id!r} follows {checkpoint.previous!r}, but the checkpoint before it is "
                f"{self.live!r}: checkpoints must be complete, oldest first"
            )
        if not self._covered < checkpoint.upto <= self.seq:
            raise InvalidRecord(
                f"checkpoint {checkpoint.id!r} covers the entries up to {checkpoint.upto}; it must cover more than "
                f"the {self._covered:,} already covered, and at most the {self.seq:,} in the conversation"
            )
        if checkpoint.id in self._names:
            raise InvalidRecord(
                f"two checkpoints of one conversation have the id {checkpoint.id!r}: each checkpoint needs its own id"
            )
        self._names.add(checkpoint.id)
        self.live, self._covered = checkpoint.id, checkpoint.upto
        self.checkpoints += 1


class RestoreBatch(NamedTuple):
    """Consecutive documents, entries and checkpoints of one conversation that a backend writes together."""

    documents: list[Document]
    rows: list[Row]
    messages: list[tuple[Message, list[str]]]
    """The rows' messages with the names of their tools, for a backend that indexes while it writes."""
    checkpoints: list[Checkpoint]

    @property
    def client_ids(self) -> list[str]:
        """The client ids of the batch's entries."""
        return [row.client_id for row in self.rows if row.client_id]


class Pieces:
    """Reads the parts of restored conversations: checks their order, counts tokens, returns them in batches."""

    def __init__(self, pieces: Iterable[Piece], counter: TokenCounter) -> None:
        self._pieces = iter(pieces)
        self._counter = counter
        self._ahead: ConversationOpening | None = None
        self.counter = counter.name
        self.order = PieceOrder()
        self.tokens = 0
        """Token cost of the conversation's entries so far."""
        self._epoch = 0
        self._tools = ToolNames()
        self._total = Restored()

    def next_conversation(self) -> ConversationOpening | None:
        """Return the opening of the next conversation to restore; None at the end.

        All batches of the last one must have been read.
        """
        opening, self._ahead = self._ahead, None
        if opening is None:
            piece = next(self._pieces, None)
            if piece is None:
                return None
            self.order.take(piece)  # raises for anything but an opening
            opening = self.order.opening
        else:
            self.order.take(opening)
        self.tokens = 0
        self._epoch = new_epoch()
        self._tools = ToolNames()
        return opening

    def next_batch(self, *, counted: bool = True) -> RestoreBatch | None:
        """Return the next batch of the current conversation, None at its end; `counted=False` sets all tokens to 0."""
        batch = RestoreBatch([], [], [], [])
        count = size = 0
        while count < _LARGEST_BATCH and size < _LARGEST_BATCH_BYTES:
            piece = self._ahead or next(self._pieces, None)
            if piece is None or isinstance(piece, ConversationOpening):
                self._ahead = piece
                break
            self.order.take(piece)
            size += self._add(batch, piece, counted=counted)
            count += 1
        return batch if count else None

    def _add(
        self, batch: RestoreBatch, piece: Document | Entry | Checkpoint, *, counted: bool
    ) -> int:
        if isinstance(piece, Document):
            batch.documents.append(piece)
            return len(piece.body) + len(piece.text)
        if isinstance(piece, Checkpoint):
            batch.checkpoints.append(piece)
            return len(piece.text)
        body = encode_message(piece.message)
        cost = self._counter.count_message(piece.message) if counted else 0
        self.tokens += cost
        batch.rows.append(
            Row(
                piece.seq,
                piece.client_id,
                piece.created,
                piece.turn,
                cost,
                self.tokens,
                body,
                self._epoch,
            )
        )
        batch.messages.append((piece.message, self._tools.of(piece.message)))
        return len(body)

    def count_written(self) -> None:
        """Count the current conversation and its parts as restored."""
        order, total = self.order, self._total
        self._total = Restored(
            total.conversations + 1,
            total.already,
            total.entries + order.seq,
            total.checkpoints + order.checkpoints,
            total.documents + order.documents,
        )

    def count_existing(self) -> None:
        """Count the current conversation as one that the store already has."""
        self._total = replace(self._total, already=self._total.already + 1)

    def restored(self) -> Restored:
        """Return how much has been restored so far."""
        return self._total


class KnownPieces(NamedTuple):
    """The stored documents, entries and checkpoints with the same keys as those of a batch, to compare with it."""

    documents: Mapping[tuple[str, str], Document]
    rows: Mapping[int, Row]
    checkpoints: Mapping[int, Checkpoint]
    """Checkpoints (summaries) by the last seq that each covers."""


def check_new(conversation: str, batch: RestoreBatch, known_ids: Iterable[str]) -> None:
    """Raise `RepeatedId` if a client id occurs twice in the batch, or was restored already (`known_ids`)."""
    ids = set(known_ids)
    for row in batch.rows:
        if row.client_id and row.client_id in ids:
            raise RepeatedId(conversation=conversation, seq=row.seq)
        ids.add(row.client_id)


def check_same(conversation: str, batch: RestoreBatch, known: KnownPieces) -> None:
    """Raise `Conflict` if a part of a stored conversation differs from the same part in the batch to restore."""
    for document in batch.documents:
        what = f"document {document.kind}/{document.key}"
        found = known.documents.get((document.kind, document.key))
        _compare(conversation, what, document, found, ("version", "created", "body", "text"))
    for row in batch.rows:
        fields = ("client_id", "created", "turn", "body")
        _compare(conversation, f"entry {row.seq:,}", row, known.rows.get(row.seq), fields)
    for checkpoint in batch.checkpoints:
        what = f"checkpoint {checkpoint.id!r}"
        fields = Checkpoint.__slots__
        _compare(conversation, what, checkpoint, known.checkpoints.get(checkpoint.upto), fields)


def check_same_whole(order: PieceOrder, *, created: int, counts: Sequence[int]) -> None:
    """Raise `Conflict` if a stored conversation was created at another time, or has more or fewer parts.

    `counts` are the numbers of stored entries, checkpoints and documents.
    """
    opening = order.opening
    assert opening is not None  # noqa: S101 (a conversation was opened)
    if opening.created != created:
        _refuse(
            opening.conversation,
            f"it was created at {created} in the store, {opening.created} in the file",
        )
    theirs = (order.seq, order.checkpoints, order.documents)
    for what, ours, other in zip(
        ("entries", "checkpoints", "documents"), counts, theirs, strict=True
    ):
        if ours != other:
            _refuse(
                opening.conversation,
                f"it has {ours:,} {what} in the store, {other:,} in the file",
            )


def _compare(
    conversation: str, what: str, theirs: object, ours: object | None, fields: Iterable[str]
) -> None:
    if ours is None:
        _refuse(conversation, f"{what} is not in the store")
    for field in fields:
        here, there = getattr(ours, field), getattr(theirs, field)
        if here != there:
            shown = f": {here} in the store, {there} in the file" if isinstance(here, int) else ""
            _refuse(conversation, f"{what} has a different {field}{shown}")


def _refuse(conversation: str, difference: str) -> NoReturn:
    raise Conflict(
        f"conversation {conversation!r} already exists and differs: {difference}. Restore into another scope, or leave "
        "the conversation out"
    )


def _misplaced(what: str, after: str) -> NoReturn:
    raise InvalidRecord(
        f"{what} comes after {after}: the order must be documents, entries, checkpoints"
    )


def _check_number(value: int, what: str, *, least: int) -> None:
    if type(value) is not int or not least <= value <= _LARGEST_NUMBER:
        raise InvalidRecord(f"{what} must be {least} to {_LARGEST_NUMBER}, got {value!r}")
