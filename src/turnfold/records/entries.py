"""What a store keeps: log entries, checkpoints (summaries) and documents, and the JSON form of a message.

A message is a value; an entry is that value at a place in a conversation, with seq, time and token count. The store
alone assigns `seq`, without gaps, from 1; ordering never depends on a clock.

`decode_message(encode_message(m)) == m` for every message. Old versions of the JSON form are upgraded in `_upgrade`,
the one place that knows them. Decoding builds only the structs named here: stored data never runs code.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.records.messages import Message, Origin, Role
from turnfold.records.parts import Part

__all__ = (
    "SCHEMA_VERSION",
    "Checkpoint",
    "Document",
    "Entry",
    "NewEntry",
    "decode_message",
    "encode_message",
)


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A message to append."""

    message: Message
    client_id: str = ""
    """Idempotency key: a retry with the same id and body returns the first result. Empty: retries append again."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored message."""

    seq: int
    """Position in the conversation: 1, 2, 3 ... without gaps."""
    message: Message
    client_id: str
    created: int
    """Microseconds since 1970, UTC; for people, never for ordering."""
    turn: int
    """Number of user messages up to and including this entry."""
    tokens: int
    """Tokens by the conversation's counter."""
    running: int
    """Tokens of everything up to and including this entry."""
    epoch: int = field(default=0, compare=False, repr=False)
    """Random number of the write that stored it; 0 if unknown. Entries with equal seq and epoch are the same and have
    the same history, also after a failover or a restored backup."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A summary that replaces the entries up to `upto` in contexts; made by a fold (compaction)."""

    id: str
    previous: str
    """The checkpoint it replaces; empty for the first."""
    upto: int
    """The last seq it covers."""
    text: str
    digest: str
    """Digest of the entries it covers, to prove what was summarised."""
    model: str = ""
    """The model that wrote it; empty for the extractive summariser."""
    trust: str = "mixed"
    """The lowest trust of the entries it covers."""
    fidelity: float = 1.0
    """Share of the hard facts of its range that the text states."""
    created: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    """A named value of a conversation: session state, a call's manifest, a finding, a snapshot."""

    kind: str
    key: str
    body: bytes
    version: int
    """Incremented by each change. Starts at 1, or higher after documents were dropped: no version is used twice."""
    created: int = 0
    text: str = ""
    """Text indexed for search; empty if it should not be found."""


SCHEMA_VERSION = 1


class _Form(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    v: int
    role: Role
    parts: tuple[Part, ...]
    name: str | None = None
    extra: str = ""
    labels: str = ""
    origin: Origin | None = None


class _Version(msgspec.Struct):
    v: int


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Form)
_version_decoder = msgspec.json.Decoder(_Version)


def encode_message(message: Message) -> bytes:
    """Return the canonical JSON of a message: equal messages give equal bytes."""
    return _encoder.encode(
        _Form(
            SCHEMA_VERSION,
            message.role,
            message.parts,
            message.name,
            message.extra,
            message.labels,
            message.origin,
        )
    )


def decode_message(data: bytes | str) -> Message:
    """Decode a message from its canonical JSON; raises `InvalidRecord` for anything else."""
    try:
        form = _decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        form = _upgrade(data, error)
    if form.v != SCHEMA_VERSION:
        form = _upgrade(data, None)
    return Message.of(
        form.role,
        form.parts,
        name=form.name,
        extra=form.extra,
        labels=form.labels,
        origin=form.origin,
    )


def _upgrade(data: bytes | str, error: Exception | None) -> _Form:
    """Read a record of another version. Version 1 is the first, so there is nothing older to read yet."""
    try:
        version = _version_decoder.decode(data).v
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        version = SCHEMA_VERSION
    if version <= SCHEMA_VERSION:
        raise InvalidRecord(f"not a stored message: {error or f'version {version}'}") from None
    raise InvalidRecord(
        f"schema version {version}; this release reads version {SCHEMA_VERSION}",
        path="v",
        remedy="Upgrade turnfold",
    )
