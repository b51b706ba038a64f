"""What a restore means, decided once for every backend.

A file may say anything, so nothing that arrives as a piece is trusted: `Order` refuses the first piece that could not
stand where it does in any log, and costs are counted here, by the counter of the store that is written. `Pieces` hands
a backend what to write a batch at a time, so that a conversation of any length passes through a few megabytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, NoReturn

from turnfold.errors import Conflict, IdReused, InvalidRecord
from turnfold.records import Checkpoint, Document, Entry, Message, encode_message
from turnfold.stores.findable import ToolNames
from turnfold.stores.ledger import Row, check_checkpoint, check_document, new_epoch
from turnfold.stores.protocol import Opening, Piece, Restored, check_name
from turnfold.tokens import TokenCounter

__all__ = (
    "LARGEST_BATCH",
    "Batch",
    "Known",
    "Order",
    "Pieces",
    "RepeatedId",
    "check_new",
    "check_same",
    "check_same_whole",
)

LARGEST_BATCH = 500
_LARGEST_BATCH_BYTES = 4 << 20
_FURTHEST = 1 << 60
"""No time and no version lies further from 0: room enough that every backend can go on counting from it."""


class RepeatedId(IdReused):
    """Two entries of one conversation with the same client id; nothing was written."""

    def __init__(self, *, conversation: str, seq: int) -> None:
        self.conversation = conversation
        self.seq = seq
        super().__init__(
            f"entry {seq:,} of conversation {conversation!r} has the client id of an earlier entry"
        )


class Order:
    """Where a stream of pieces stands, and what may come next."""

    def __init__(self) -> None:
        self.opening: Opening | None = None
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
        """Go one piece further, or refuse it."""
        if isinstance(piece, Opening):
            self._take_opening(piece)
        elif self.opening is None:
            raise InvalidRecord(f"{type(piece).__name__} before the first conversation")
        elif isinstance(piece, Entry):
            self._take_entry(piece)
        elif isinstance(piece, Document):
            self._take_document(piece)
        else:
            self._take_checkpoint(piece)

    def _take_opening(self, opening: Opening) -> None:
        check_name(opening.conversation, "conversation id")
        _check_number(opening.created, "created", least=-_FURTHEST)
        _check_number(opening.updated, "updated", least=-_FURTHEST)
        _check_number(opening.dropped, "dropped", least=0)
        self.opening = opening
        self._begin()

    def _take_document(self, document: Document) -> None:
        if self.seq or self.checkpoints:
            _misplaced("a document", "the entries")
        check_document(document)
        place = (document.kind, document.key)
        if place <= self._place:
            raise InvalidRecord(
                f"document {document.kind}/{document.key} stands after {'/'.join(self._place)}: "
                "each stands once, by kind and key"
            )
        _check_number(document.version, "version", least=1)
        _check_number(document.created, "created", least=-_FURTHEST)
        if type(document.body) is not bytes:
            raise InvalidRecord(f"a body is bytes, not {type(document.body).__name__}")
        self._place = place
        self.documents += 1

    def _take_entry(self, entry: Entry) -> None:
        if self.checkpoints:
            _misplaced("an entry", "the checkpoints")
        if type(entry.message) is not Message:
            raise InvalidRecord(f"a message is needed, not {type(entry.message).__name__}")
        turns = self.turns + (entry.message.role == "user")
        for what, found, right in (("seq", entry.seq, self.seq + 1), ("turn", entry.turn, turns)):
            if type(found) is not int or found != right:
                raise InvalidRecord(f"{what} {found!r} where {right:,} is next")
        _check_number(entry.created, "created", least=-_FURTHEST)
        if entry.client_id:
            check_name(entry.client_id, "client id")
        self.seq += 1
        self.turns = turns

    def _take_checkpoint(self, checkpoint: Checkpoint) -> None:
        check_checkpoint(checkpoint)
        _check_number(checkpoint.upto, "upto", least=1)
        _check_number(checkpoint.created, "created", least=-_FURTHEST)
        if checkpoint.previous != self.live:
            raise InvalidRecord(
                f"checkpoint {checkpoint.id!r} follows {checkpoint.previous!r}, not {self.live!r}"
            )
        if not self._covered < checkpoint.upto <= self.seq:
            raise InvalidRecord(
                f"checkpoint {checkpoint.id!r} covers up to {checkpoint.upto}; it must lie after {self._covered:,} "
                f"and not after the last entry {self.seq:,}"
            )
        if checkpoint.id in self._names:
            raise InvalidRecord(f"checkpoint {checkpoint.id!r} stands twice")
        self._names.add(checkpoint.id)
        self.live, self._covered = checkpoint.id, checkpoint.upto
        self.checkpoints += 1


class Batch(NamedTuple):
    """Some of the pieces of one conversation, in order, as a backend writes them."""

    documents: list[Document]
    rows: list[Row]
    said: list[tuple[Message, list[str]]]
    """The rows' messages, with the tools they are about, for a backend that indexes while it writes."""
    checkpoints: list[Checkpoint]

    @property
    def client_ids(self) -> list[str]:
        """The client ids of its rows."""
        return [row.client_id for row in self.rows if row.client_id]


class Pieces:
    """A stream of pieces: checked, counted, a batch at a time."""

    def __init__(self, pieces: Iterable[Piece], counter: TokenCounter) -> None:
        self._pieces = iter(pieces)
        self._counter = counter
        self._ahead: Opening | None = None
        self.counter = counter.name
        self.order = Order()
        self.tokens = 0
        """Cost of the conversation's entries so far."""
        self._epoch = 0
        self._tools = ToolNames()
        self._total = Restored()

    def next_conversation(self) -> Opening | None:
        """The next conversation, once all batches of this one were taken; None at the end."""
        opening, self._ahead = self._ahead, None
        if opening is None:
            piece = next(self._pieces, None)
            if piece is None:
                return None
            self.order.take(piece)  # refuses anything but an opening here
            opening = self.order.opening
        else:
            self.order.take(opening)
        self.tokens = 0
        self._epoch = new_epoch()
        self._tools = ToolNames()
        return opening

    def next_batch(self, *, counted: bool = True) -> Batch | None:
        """Some more of the conversation; None at its end. Without counting, rows say they cost nothing."""
        batch = Batch([], [], [], [])
        count = size = 0
        while count < LARGEST_BATCH and size < _LARGEST_BATCH_BYTES:
            piece = self._ahead or next(self._pieces, None)
            if piece is None or isinstance(piece, Opening):
                self._ahead = piece
                break
            self.order.take(piece)
            size += self._add(batch, piece, counted=counted)
            count += 1
        return batch if count else None

    def _add(self, batch: Batch, piece: Document | Entry | Checkpoint, *, counted: bool) -> int:
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
        batch.said.append((piece.message, self._tools.of(piece.message)))
        return len(body)

    def written(self) -> None:
        """The conversation has been written."""
        order, total = self.order, self._total
        self._total = Restored(
            total.conversations + 1,
            total.already,
            total.entries + order.seq,
            total.checkpoints + order.checkpoints,
            total.documents + order.documents,
        )

    def found(self) -> None:
        """The conversation was already there."""
        self._total = replace(self._total, already=self._total.already + 1)

    def restored(self) -> Restored:
        """What has been done so far."""
        return self._total


class Known(NamedTuple):
    """What a backend has where a batch would stand."""

    documents: Mapping[tuple[str, str], Document]
    rows: Mapping[int, Row]
    checkpoints: Mapping[int, Checkpoint]
    """By the last seq they cover."""


def check_new(conversation: str, batch: Batch, known_ids: Iterable[str]) -> None:
    """Refuse client ids that this conversation, written so far, has already."""
    ids = set(known_ids)
    for row in batch.rows:
        if row.client_id and row.client_id in ids:
            raise RepeatedId(conversation=conversation, seq=row.seq)
        ids.add(row.client_id)


def check_same(conversation: str, batch: Batch, known: Known) -> None:
    """Refuse a conversation that is here but is not the one that is to be restored."""
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


def check_same_whole(order: Order, *, created: int, counts: Sequence[int]) -> None:
    """The same of what is said of the whole conversation; `counts` are its entries, checkpoints and documents here."""
    opening = order.opening
    assert opening is not None  # noqa: S101 (a conversation was begun)
    if opening.created != created:
        _refuse(opening.conversation, f"it was created at {created} here, {opening.created} there")
    theirs = (order.seq, order.checkpoints, order.documents)
    for what, ours, other in zip(
        ("entries", "checkpoints", "documents"), counts, theirs, strict=True
    ):
        if ours != other:
            _refuse(opening.conversation, f"it has {ours:,} {what} here, {other:,} there")


def _compare(
    conversation: str, what: str, theirs: object, ours: object | None, fields: Iterable[str]
) -> None:
    if ours is None:
        _refuse(conversation, f"{what} is not here")
    for field in fields:
        here, there = getattr(ours, field), getattr(theirs, field)
        if here != there:
            shown = f": {here} here, {there} there" if isinstance(here, int) else ""
            _refuse(conversation, f"{what} has another {field}{shown}")


def _refuse(conversation: str, difference: str) -> NoReturn:
    raise Conflict(
        f"conversation {conversation!r} is here and differs: {difference}. Restore into another scope, or leave the "
        "conversation out"
    )


def _misplaced(what: str, after: str) -> NoReturn:
    raise InvalidRecord(f"{what} after {after}: documents, entries, checkpoints is the order")


def _check_number(value: int, what: str, *, least: int) -> None:
    if type(value) is not int or not least <= value <= _FURTHEST:
        raise InvalidRecord(f"{what} must be {least} to {_FURTHEST}, got {value!r}")
