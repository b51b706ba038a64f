"""What an append means, decided once for every backend.

A backend looks up where the conversation stands and which of the batch's client ids it knows; `plan_append`
says whether the batch is new, a repetition of one stored before, or a contradiction. The backend then only
writes rows.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from turnfold.errors import Conflict, IdReused, InvalidOption
from turnfold.records import (
    Checkpoint,
    Document,
    Entry,
    NewEntry,
    decode_message,
    encode_message,
)
from turnfold.records.json_text import check_text
from turnfold.stores.protocol import (
    Head,
    State,
    check_document_name,
    check_name,
)
from turnfold.stores.within import CHECKPOINT
from turnfold.tokens import TokenCounter

__all__ = (
    "Batch",
    "Columns",
    "Row",
    "Stored",
    "check_checkpoint",
    "check_document",
    "check_seen",
    "check_state",
    "check_succession",
    "check_version",
    "columns_entry",
    "entry_row",
    "known_checkpoint",
    "new_epoch",
    "next_version",
    "plan_append",
    "prepare",
    "row_entry",
)


_DRAWN_AT_ONCE = 32
_drawn: list[int] = []
"""Numbers of the system's generator that wait to be used: asking it for each would be a tenth of an append."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drawn.clear)


def new_epoch() -> int:
    """A random number from 1 to 2**63 - 1 for one write, which no other write has."""
    while True:
        try:
            return _drawn.pop()
        except IndexError:
            words = struct.unpack(f"{_DRAWN_AT_ONCE}Q", os.urandom(8 * _DRAWN_AT_ONCE))
            _drawn.extend([word >> 1 or 1 for word in words])


class Row(NamedTuple):
    """An entry as a backend writes it."""

    seq: int
    client_id: str
    created: int
    turn: int
    tokens: int
    running: int
    body: bytes
    epoch: int = 0
    """That of the write that stored the entry; 0 where a release before epochs did. Equal seqs and epochs other than 0
    are the same entry after the same history; entries of two histories can be equal in everything else."""


Columns: TypeAlias = tuple[int, str, int, int, int, int, bytes, int, int | None]
"""An entry as a backend reads it: the fields of `Row`, and its checksum. A plain tuple, because logs are long."""


class Stored(NamedTuple):
    """What a backend already has under one of the batch's client ids."""

    seq: int
    body: bytes


class Batch(NamedTuple):
    """Entries checked, encoded and counted; made before any lock is taken."""

    entries: Sequence[NewEntry]
    bodies: tuple[bytes, ...]
    costs: tuple[int, ...]
    counter: str

    @property
    def client_ids(self) -> tuple[str, ...]:
        """The ids that protect the batch against being stored twice."""
        return tuple(entry.client_id for entry in self.entries if entry.client_id)


def prepare(entries: Sequence[NewEntry], counter: TokenCounter) -> Batch:
    """Check, encode and count a batch."""
    if not entries:
        raise InvalidOption("an append needs at least one entry")
    ids = [entry.client_id for entry in entries if entry.client_id]
    if ids:
        _check_ids(ids, len(entries))
    bodies = tuple([encode_message(entry.message) for entry in entries])
    costs = tuple([counter.count_message(entry.message) for entry in entries])
    return Batch(entries, bodies, costs, counter.name)


def _check_ids(ids: Sequence[str], entries: int) -> None:
    if len(ids) != entries:
        raise InvalidOption(
            f"{len(ids)} of the batch's {entries} entries have a client id: give one to all of them or to none, "
            "or a retry could not tell the others"
        )
    if len(set(ids)) != len(ids):
        raise InvalidOption("two entries of one batch have the same client id")
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
    """The rows to write, or the first stored entry of the batch this one repeats."""
    if known:
        return _repeated(batch, known)
    if expect is not None and expect != head.seq:
        raise Conflict(
            f"the writer expected entry {expect} to be the newest, but it is {head.seq}: read what is new, then append"
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
            raise IdReused(
                f"client id {entry.client_id!r} already names entry {stored.seq} with another body: use a new id"
            )
        if not first:
            first = stored.seq - offset
        elif first != stored.seq - offset:
            raise IdReused(
                "the ids of this batch were stored before, in another order: use new ids"
            )
    return Stored(first, b"")


def entry_row(entry: Entry) -> Row:
    """The row behind an entry."""
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
    """The entry behind a row."""
    seq, client_id, created, turn, tokens, running, body, epoch = row
    return Entry(seq, decode_message(body), client_id, created, turn, tokens, running, epoch)


def columns_entry(columns: Columns) -> Entry:
    """The entry behind its columns."""
    seq, client_id, created, turn, tokens, running, body, epoch, _ = columns
    return Entry(seq, decode_message(body), client_id, created, turn, tokens, running, epoch)


def check_checkpoint(checkpoint: Checkpoint) -> None:
    """Refuse a checkpoint that some backend could not hold exactly."""
    check_name(checkpoint.id, "checkpoint id")
    for part in ("text", "digest", "model", "trust"):
        check_text(getattr(checkpoint, part), path=f"checkpoint.{part}")
    if not 0 <= checkpoint.fidelity <= 1:
        raise InvalidOption(f"fidelity is a share, 0 to 1, got {checkpoint.fidelity}")


def check_document(document: Document) -> None:
    """Refuse a document that some backend could not hold exactly."""
    check_document_name(document.kind, document.key)
    if not document.text:
        return
    check_text(document.text, path="document.text")
    if document.kind == CHECKPOINT:
        raise InvalidOption(
            f"documents of kind {CHECKPOINT!r} cannot be searched: a search names checkpoints so; use another kind"
        )


def known_checkpoint(checkpoint: Checkpoint, known: Iterable[Checkpoint]) -> Checkpoint | None:
    """The stored checkpoint that this one repeats; its id with another content is a conflict."""
    stored = next((other for other in known if other.id == checkpoint.id), None)
    if stored is not None and stored != replace(checkpoint, created=stored.created):
        raise Conflict(
            f"checkpoint {checkpoint.id!r} exists already, with another content: use another id"
        )
    return stored


def check_succession(checkpoint: Checkpoint, live: Checkpoint | None, head: Head) -> None:
    """Refuse a checkpoint whose predecessor is no longer live, or that covers nothing new or nothing yet written."""
    if checkpoint.previous != (live.id if live else ""):
        raise Conflict(
            f"checkpoint {checkpoint.id!r} follows {checkpoint.previous!r}, but "
            f"{(live.id if live else '')!r} is live: summarise again from there"
        )
    covered = live.upto if live else 0
    if not covered < checkpoint.upto <= head.seq:
        raise Conflict(
            f"checkpoint {checkpoint.id!r} covers up to {checkpoint.upto}; it must lie after {covered} and not "
            f"after the newest entry {head.seq}"
        )


def check_seen(seen: tuple[int, int], found: int) -> None:
    """Refuse a writer from another history: `found` is the epoch of the entry at the seq it has seen, -1 for none."""
    seq, epoch = seen
    if epoch and epoch != found:
        raise Conflict(
            f"entry {seq} of the conversation is not the one that was seen: the store was restored or failed over, and "
            "what was written since is lost. Read the log again, then decide"
        )


def check_version(expect: int | None, version: int, kind: str, key: str) -> None:
    """Refuse a change that expects another version than the present one."""
    if expect is not None and expect != version:
        raise Conflict(
            f"document {kind}/{key} is at version {version}, not {expect}: read it again, then decide"
        )


def check_state(expected: State, head: Head) -> None:
    """Refuse a note by someone who has not seen the newest change, or has seen it in another history."""
    if expected[0] != head.generation:
        raise Conflict(
            f"the conversation is at generation {head.generation}, not {expected[0]}: look again, then decide"
        )
    if expected[1] != head.epoch:
        raise Conflict(
            f"generation {head.generation} of the conversation is not the one that was seen: the store was restored "
            "or failed over, and what was written since is lost. Look again, then decide"
        )


def next_version(version: int, dropped: int) -> int:
    """The version a document is written with: after its present one, or after all that were dropped before it."""
    return (version or dropped) + 1
