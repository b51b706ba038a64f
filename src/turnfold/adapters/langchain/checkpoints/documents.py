"""What the saver writes: one document per checkpoint, one per task with pending writes, and how they are named.

A checkpoint's document holds the values that changed with it and says of every other value which document has it.
Storing a checkpoint is therefore one write, which happens or does not. Names sort newest first, because a store gives
documents in the order of their names and the newest checkpoint is what is asked for most.
"""

from __future__ import annotations

import zlib
from hashlib import blake2b
from typing import Final, TypeAlias

import msgspec

from turnfold.adapters.langchain.checkpoints.byte_delta import Piece
from turnfold.errors import InvalidOption

__all__ = (
    "CHECKPOINT",
    "WRITES",
    "Held",
    "Kept",
    "Ref",
    "Script",
    "Typed",
    "Write",
    "Writes",
    "checkpoint_key",
    "namespace_prefix",
    "pack",
    "short_name",
    "unpack_kept",
    "unpack_writes",
    "writes_key",
)

CHECKPOINT: Final = "langgraph-checkpoint"
WRITES: Final = "langgraph-writes"

Typed: TypeAlias = tuple[str, bytes]
"""A value as LangGraph's serialiser writes it: what it is, and its bytes."""

_LONGEST = 200
_SEPARATOR: Final = "\x1f"
_END: Final = "\x7f"
"""Sorts behind every character of an id: of two ids, the one that goes on is the greater."""
_DIGEST: Final = "digest:"
_FIRST, _LAST = 0x21, 0x7E
_NEWEST_FIRST = {code: _FIRST + _LAST - code for code in range(_FIRST, _LAST + 1)}


class Ref(msgspec.Struct, frozen=True, array_like=True):
    """Where the bytes of a value are."""

    digest: bytes
    holder: str = ""
    """The checkpoint whose document has them; empty for the one that says so."""

    def at(self, checkpoint: str) -> Ref:
        """The same, said elsewhere than at this checkpoint."""
        return self if self.holder else Ref(self.digest, checkpoint)


class Held(msgspec.Struct, frozen=True, array_like=True):
    """The value of a channel at a checkpoint."""

    version: int | float | str | None
    kind: str
    ref: Ref

    def at(self, checkpoint: str) -> Held:
        """The same, said elsewhere than at this checkpoint."""
        return self if self.ref.holder else Held(self.version, self.kind, self.ref.at(checkpoint))


class Script(msgspec.Struct, frozen=True, array_like=True):
    """Bytes, as pieces of an earlier value and what is new."""

    digest: bytes
    index: int
    """How many versions before it are made of one another; 0 for one that stands alone."""
    base: Ref | None
    pieces: list[Piece]


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """A checkpoint as it is kept."""

    namespace: str
    id: str
    parent: str
    checkpoint: Typed
    """Everything but the values of the channels."""
    metadata: Typed
    values: dict[str, Held]
    scripts: list[Script]

    def script(self, digest: bytes) -> Script | None:
        """The bytes with this digest, if they are here."""
        return next((one for one in self.scripts if one.digest == digest), None)


class Write(msgspec.Struct, frozen=True, array_like=True):
    """One value that a task wrote."""

    index: int
    channel: str
    value: Typed
    path: str


class Writes(msgspec.Struct, frozen=True, array_like=True):
    """What a task wrote after a checkpoint."""

    checkpoint: str
    task: str
    writes: list[Write]


_encoder = msgspec.msgpack.Encoder()
_kept = msgspec.msgpack.Decoder(Kept)
_writes = msgspec.msgpack.Decoder(Writes)


def pack(record: Kept | Writes) -> bytes:
    """The body of a document."""
    return zlib.compress(_encoder.encode(record), 6)


def unpack_kept(body: bytes) -> Kept:
    """A checkpoint from the body of its document."""
    return _kept.decode(zlib.decompress(body))


def unpack_writes(body: bytes) -> Writes:
    """Writes from the body of their document."""
    return _writes.decode(zlib.decompress(body))


def namespace_prefix(namespace: str) -> str:
    """What the names of a namespace begin with."""
    return f"{short_name(namespace)}{_SEPARATOR}"


def checkpoint_key(namespace: str, checkpoint: str) -> str:
    """The name of a checkpoint's document; also what the names of its writes begin with."""
    if not 0 < len(checkpoint) <= _LONGEST or not all(
        _FIRST <= ord(letter) <= _LAST for letter in checkpoint
    ):
        raise InvalidOption(
            f"checkpoint id {checkpoint!r}: 1 to {_LONGEST} printable ASCII characters without spaces are needed"
        )
    return f"{namespace_prefix(namespace)}{checkpoint.translate(_NEWEST_FIRST)}{_END}"


def writes_key(namespace: str, checkpoint: str, task: str) -> str:
    """The name of the document of a task's writes."""
    return f"{checkpoint_key(namespace, checkpoint)}{short_name(task)}"


def short_name(name: str) -> str:
    """A name that every store holds exactly: its digest where it is long or has characters that do not show.

    A name that looks like a digest is digested too, or it would be another name's.
    """
    if len(name) <= _LONGEST and name.isprintable() and not name.startswith(_DIGEST):
        return name
    return f"{_DIGEST}{blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=20).hexdigest()}"
