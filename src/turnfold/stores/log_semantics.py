"""The rules of the log, the same for every backend: appends, retries, checkpoints, document versions, epochs.

For an append, a backend reads the head (newest seq, totals, version) of the conversation and looks up the batch's
client ids; `plan_append` decides whether the batch is new, a retry of a stored batch, or a conflict. The backend then
only writes the rows. The functions named `check_...` raise an error if a write is not allowed.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

from turnfold.errors import Conflict, IdReused, InvalidOption, NotFound
from turnfold.records import (
    Checkpoint,
    Document,
    Entry,
    Message,
    NewEntry,
    check_text,
    decode_message,
    encode_message,
    is_erased,
)
from turnfold.search import CHECKPOINT
from turnfold.stores.protocol import Head, State, check_document_name, check_name
from turnfold.tokens import TokenCounter

__all__ = (
    "Batch",
    "Columns",
    "Row",
    "Stored",
    "check_batch",
    "check_checkpoint",
    "check_document",
    "check_erasure",
    "check_seen",
    "check_state",
    "check_succession",
    "check_version",
    "columns_entry",
    "entry_row",
    "log_mark",
    "new_epoch",
    "next_version",
    "plan_append",
    "prepare",
    "repeated_checkpoint",
    "row_entry",
    "split_checkpoints",
)


def log_mark(tenant: str, conversation: str) -> str:
    """Return the pseudonym by which errors and log records name a conversation: 16 hexadecimal digits.

    An id may be a person's name or number, and log records are often read by more people than the database. The
    pseudonym is the same in every record, so records can be joined, and anyone who knows an id can compute it. It is
    not secret, because ids can be guessed.
    """
    name = f"{len(tenant)}:{tenant}{conversation}".encode("utf-8", "surrogatepass")
    return blake2b(name, digest_size=8).hexdigest()


_EPOCHS_AT_ONCE = 32
_epoch_pool: list[int] = []
"""Random numbers drawn in advance. Every append stores one as the conversation's epoch, and one system call per append
would take a tenth of its time."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_epoch_pool.clear)


def new_epoch() -> int:
    """Return a random number from 1 to 2**63 - 1 that identifies one write."""
    while True:
        try:
            return _epoch_pool.pop()
        except IndexError:
            words = struct.unpack(f"{_EPOCHS_AT_ONCE}Q", os.urandom(8 * _EPOCHS_AT_ONCE))
            _epoch_pool.extend([word >> 1 or 1 for word in words])


class Row(NamedTuple):
    """An entry as a backend writes it, with its message encoded as bytes (`body`) and its tokens counted.

    `running` is the sum of the tokens of this entry and all before it.
    """

    seq: int
    client_id: str
    created: int
    turn: int
    tokens: int
    running: int
    body: bytes
    epoch: int = 0
    """Epoch of the write that stored the entry; 0 for entries of a release that had no epochs. Equal seqs with equal
    epochs other than 0 mean the same entry after the same history. Entries of two histories may have equal content."""


Columns: TypeAlias = tuple[int, str, int, int, int, int, bytes, int, int | None]
"""An entry as a backend reads it: the fields of `Row` and a checksum. A plain tuple, for speed."""


class Stored(NamedTuple):
    """The seq and body of a stored entry that has one of the client ids of a batch to append."""

    seq: int
    body: bytes


class Batch(NamedTuple):
    """Entries to append: checked, encoded and counted, before any lock is taken."""

    entries: Sequence[NewEntry]
    bodies: tuple[bytes, ...]
    costs: tuple[int, ...]
    counter: str

    @property
    def client_ids(self) -> tuple[str, ...]:
        """The client ids of the entries, by which a retried batch is recognised and not stored twice."""
        return tuple(entry.client_id for entry in self.entries if entry.client_id)


def prepare(entries: Sequence[NewEntry], counter: TokenCounter) -> Batch:
    """Check the entries of an append, encode their messages and count their tokens."""
    check_batch(entries)
    bodies = tuple([encode_message(entry.message) for entry in entries])
    costs = tuple([counter.count_message(entry.message) for entry in entries])
    return Batch(entries, bodies, costs, counter.name)


def check_batch(entries: Sequence[NewEntry]) -> None:
    """Raise `InvalidOption` for an append without entries, or with missing, repeated or invalid client ids."""
    if not entries:
        raise InvalidOption("the batch to append is empty: give at least one entry")
    ids = [entry.client_id for entry in entries if entry.client_id]
    if ids:
        _check_ids(ids, len(entries))


def _check_ids(ids: Sequence[str], entries: int) -> None:
    if len(ids) != entries:
        raise InvalidOption(
            f"{len(ids)} of the batch's {entries} entries have a client id: give a client id to all entries or to "
            "none, because a retry could not recognise the others"
        )
    if len(set(ids)) != len(ids):
        [(repeated, _)] = Counter(ids).most_common(1)
        raise InvalidOption(
            f"several entries of one batch have the client id {repeated!r}: give each entry its own client id"
        )
    for client_id in ids:
        check_name(client_id, "client id")


def plan_append(
    batch: Batch,
    head: Head,
    known: Mapping[str, Stored],
    *,
    created: int,
    epoch: int,
    expect: int | None,
) -> list[Row] | Stored:
    """Return the rows that an append must write, or the stored entry of its first message if it is a retry.

    `known` are the stored entries with one of the batch's client ids. Raises `IdReused` if they are not a stored copy
    of the batch, `Conflict` if `expect` is not the newest seq.
    """
    if known:
        return _repeated(batch, known)
    if expect is not None and expect != head.seq:
        raise Conflict(
            f"the writer expected entry {expect} to be the newest, but it is {head.seq}: read the new entries, then "
            "append"
        )
    rows: list[Row] = []
    turn, running = head.turns, head.tokens
    for offset, (entry, body, cost) in enumerate(
        zip(batch.entries, batch.bodies, batch.costs, strict=True), 1
    ):
        turn += entry.message.role == "user"
        running += cost
        rows.append(
            Row(head.seq + offset, entry.client_id, created, turn, cost, running, body, epoch)
        )
    return rows


def _repeated(batch: Batch, known: Mapping[str, Stored]) -> Stored:
    """Return the stored entries' result for a batch that is appended again (a retry).

    Raises `IdReused` if the batch is not the one that was stored.
    """
    first = 0
    for offset, (entry, body) in enumerate(zip(batch.entries, batch.bodies, strict=True)):
        if not entry.client_id:
            continue
        stored = known.get(entry.client_id)
        if stored is None:
            raise IdReused(
                f"client id {min(known)!r} was stored before, but {entry.client_id!r} of the same batch was not: "
                "repeat the batch as it was, or use new ids"
            )
        if stored.body != body:
            if is_erased(decode_message(stored.body)):
                raise IdReused(
                    f"client id {entry.client_id!r} names entry {stored.seq}, which was erased: use a new id to store "
                    "it again"
                )
            raise IdReused(
                f"client id {entry.client_id!r} already names entry {stored.seq} with other content: use a new id"
            )
        if not first:
            first = stored.seq - offset
        elif first != stored.seq - offset:
            raise IdReused(
                "the client ids of this batch are stored already, but not one after the other in this order: repeat "
                "the batch as it was first appended, or use new client ids"
            )
    return Stored(first, b"")


def entry_row(entry: Entry) -> Row:
    """Return the database row that a backend writes for an entry."""
    return Row(
        entry.seq,
        entry.client_id,
        entry.created,
        entry.turn,
        entry.tokens,
        entry.running,
        encode_message(entry.message),
        entry.epoch,
    )


def row_entry(row: Row) -> Entry:
    """Return the entry that a database row contains, with its message decoded."""
    seq, client_id, created, turn, tokens, running, body, epoch = row
    return Entry(seq, decode_message(body), client_id, created, turn, tokens, running, epoch)


def columns_entry(columns: Columns) -> Entry:
    """Return the entry that these database columns contain, with its message decoded; its checksum is not verified."""
    seq, client_id, created, turn, tokens, running, body, epoch, _ = columns
    return Entry(seq, decode_message(body), client_id, created, turn, tokens, running, epoch)


def check_checkpoint(checkpoint: Checkpoint) -> None:
    """Raise `InvalidOption` unless every backend can store this checkpoint (summary) exactly."""
    check_name(checkpoint.id, "checkpoint id")
    for part in ("text", "digest", "model", "trust"):
        check_text(getattr(checkpoint, part), path=f"checkpoint.{part}")
    if not 0 <= checkpoint.fidelity <= 1:
        raise InvalidOption(
            f"the fidelity of a checkpoint must be 0 to 1, got {checkpoint.fidelity}"
        )


def check_document(document: Document) -> None:
    """Raise `InvalidOption` unless every backend can store this document exactly."""
    check_document_name(document.kind, document.key)
    if not document.text:
        return
    check_text(document.text, path="document.text")
    if document.kind == CHECKPOINT:
        raise InvalidOption(
            f"a searchable document cannot have the kind {CHECKPOINT!r}, reserved for checkpoints: use another kind"
        )


def repeated_checkpoint(checkpoint: Checkpoint, known: Iterable[Checkpoint]) -> Checkpoint | None:
    """Return the stored checkpoint (summary) with the same id; None if there is none.

    Raises `Conflict` if its content differs.
    """
    stored = next((other for other in known if other.id == checkpoint.id), None)
    if stored is not None and stored != replace(checkpoint, created=stored.created):
        raise Conflict(
            f"checkpoint {checkpoint.id!r} already exists with other content: use another id"
        )
    return stored


def check_succession(checkpoint: Checkpoint, live: Checkpoint | None, head: Head) -> None:
    """Raise `Conflict` unless a checkpoint names the live one as its predecessor and covers more entries than it."""
    if checkpoint.previous != (live.id if live else ""):
        raise Conflict(
            f"checkpoint {checkpoint.id!r} follows {checkpoint.previous!r}, but "
            f"{(live.id if live else '')!r} is live: summarise again from there"
        )
    covered = live.upto if live else 0
    if not covered < checkpoint.upto <= head.seq:
        raise Conflict(
            f"checkpoint {checkpoint.id!r} covers the entries up to {checkpoint.upto}; it must cover more than "
            f"the {covered} already covered, and at most the {head.seq} stored"
        )


def split_checkpoints(
    known: Sequence[Checkpoint], name: str
) -> tuple[list[Checkpoint], list[Checkpoint]]:
    """Split checkpoints (summaries) into those before the id `name`, and the rest, which begins with it.

    Raises `NotFound` if the id is unknown.
    """
    at = next((index for index, each in enumerate(known) if each.id == name), None)
    if at is None:
        raise NotFound(
            f"there is no checkpoint {name!r} to drop: checkpoints() lists all checkpoints"
        )
    return list(known[:at]), list(known[at:])


def check_seen(seen: tuple[int, int], found: int) -> None:
    """Raise `Conflict` if the entry (seq, epoch) that a writer has read is no longer in the store.

    `found` is the stored entry's epoch (random number of its write), or -1 if there is no entry. Epoch 0 is not
    compared.
    """
    seq, epoch = seen
    if epoch and epoch != found:
        raise Conflict(
            f"entry {seq} of the conversation is not the one that was read: the store was restored or failed over and "
            "lost later writes. Read the log again, then retry"
        )


def check_erasure(row: Row | None, seq: int, message: Message) -> bytes:
    """Return the encoded `message` that replaces an erased one.

    Raises an error if there is no such row or the roles differ.
    """
    if row is None:
        raise NotFound(f"there is no entry {seq} to erase: history() lists the entries")
    role = decode_message(row.body).role
    if role != message.role:
        raise InvalidOption(
            f"entry {seq} has the role {role!r}; a message of role {message.role!r} cannot replace it"
        )
    return encode_message(message)


def check_version(expect: int | None, version: int, kind: str, key: str) -> None:
    """Raise `Conflict` if a document's version is not `expect`; `expect=None` accepts every version."""
    if expect is not None and expect != version:
        raise Conflict(
            f"document {kind}/{key} has changed since it was read: it is at version {version}, not {expect}; read it "
            "again, then retry"
        )


def check_state(expected: State, head: Head) -> None:
    """Raise `Conflict` if the conversation no longer has the version (generation, epoch) that a writer has read."""
    if expected[0] != head.generation:
        raise Conflict(
            f"the conversation has changed since it was read: it is at generation {head.generation}, not "
            f"{expected[0]}; read it again, then retry"
        )
    if expected[1] != head.epoch:
        raise Conflict(
            f"generation {head.generation} of the conversation is not the one that was read: the store was restored or "
            "failed over and lost later writes. Read it again, then retry"
        )


def next_version(version: int, dropped: int) -> int:
    """Return the version that a document gets when it is written: its current `version` plus 1.

    For a new document (`version` 0) it is one above `dropped`, the highest version of any removed document, so that no
    version is used twice.
    """
    return (version or dropped) + 1
