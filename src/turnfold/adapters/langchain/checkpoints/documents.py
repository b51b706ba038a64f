"""What the saver writes: one document per checkpoint, one per task with pending writes, and how they are named.

A checkpoint's document holds the values that changed with it and says of every other value which document has it.
Storing a checkpoint is therefore one write, which happens or does not. Names sort newest first, because a store gives
documents in the order of their names and the newest checkpoint is what is asked for most.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated, Final, TypeAlias, TypeVar

import msgspec

from turnfold.adapters.langchain.checkpoints.byte_delta import Piece
from turnfold.adapters.langchain.checkpoints.sealed_body import BodySeal, DocumentPlace
from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.records import Document

__all__ = (
    "CHECKPOINT",
    "WRITES",
    "Bodies",
    "Held",
    "Kept",
    "Ref",
    "Script",
    "Typed",
    "Write",
    "Writes",
    "checkpoint_key",
    "is_checkpoint_id",
    "namespace_prefix",
    "short_name",
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
    size: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Bytes of the value; 0 where a release before this field was added wrote it."""

    def at(self, checkpoint: str) -> Held:
        """The same, said elsewhere than at this checkpoint."""
        return msgspec.structs.replace(self, ref=self.ref.at(checkpoint))


class Script(msgspec.Struct, frozen=True, array_like=True):
    """Bytes, as pieces of an earlier value and what is new."""

    digest: bytes
    index: Annotated[int, msgspec.Meta(ge=0)]
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


_Record = TypeVar("_Record", Kept, Writes)


class Bodies:
    """Records as the bodies of documents and back: compressed, sealed, and no larger than was agreed."""

    def __init__(self, seal: BodySeal) -> None:
        self._seal = seal

    def pack(self, record: Kept | Writes, place: DocumentPlace) -> bytes:
        """The body of a document that is stored at this place."""
        return self._seal.pack(_encoder.encode(record), place)

    def kept(self, home: str, document: Document) -> tuple[Kept, int]:
        """A checkpoint from its document, and the bytes it takes; refused where it says it is another one."""
        place = DocumentPlace(home, CHECKPOINT, document.key)
        kept, size = self._decoded(_kept, document.body, place)
        if (
            not is_checkpoint_id(kept.id)
            or checkpoint_key(kept.namespace, kept.id) != document.key
            or not (kept.parent == "" or is_checkpoint_id(kept.parent))
        ):
            raise InvalidRecord(
                f"it says it is checkpoint {kept.id[:100]!r} of namespace {kept.namespace[:100]!r}",
                path=place.path,
                remedy="It was moved or forged: restore the store from a backup, or delete the thread",
            )
        return kept, size

    def writes(self, home: str, document: Document) -> Writes:
        """Writes from their document; refused where they say they are of another task or checkpoint."""
        place = DocumentPlace(home, WRITES, document.key)
        found, _ = self._decoded(_writes, document.body, place)
        beginning, _, task = document.key.partition(_END)
        named = found.checkpoint.translate(_NEWEST_FIRST)
        if beginning.rpartition(_SEPARATOR)[2] != named or task != short_name(found.task):
            raise InvalidRecord(
                f"it says it has writes of task {found.task[:100]!r} after checkpoint {found.checkpoint[:100]!r}",
                path=place.path,
                remedy="It was moved or forged: restore the store from a backup, or delete the thread",
            )
        return found

    def _decoded(
        self, decoder: msgspec.msgpack.Decoder[_Record], body: bytes, place: DocumentPlace
    ) -> tuple[_Record, int]:
        data = self._seal.unpack(body, place)
        try:
            return decoder.decode(data), len(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise InvalidRecord(f"no stored checkpoint: {error}", path=place.path) from None


def namespace_prefix(namespace: str) -> str:
    """What the names of a namespace begin with."""
    return f"{short_name(namespace)}{_SEPARATOR}"


def is_checkpoint_id(checkpoint: str) -> bool:
    """Whether a checkpoint can be named so."""
    return 0 < len(checkpoint) <= _LONGEST and all(
        _FIRST <= ord(letter) <= _LAST for letter in checkpoint
    )


def checkpoint_key(namespace: str, checkpoint: str) -> str:
    """The name of a checkpoint's document; also what the names of its writes begin with."""
    if not is_checkpoint_id(checkpoint):
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
