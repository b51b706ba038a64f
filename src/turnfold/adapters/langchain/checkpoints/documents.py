"""The documents of the checkpoint saver: their names, contents, compression and seals.

There is one document per checkpoint and one per task with pending writes. A checkpoint's document holds the values that
changed with it and names, for every other value, the document that has it, so storing a checkpoint is one atomic write.
Names sort newest first, because a store returns documents in the order of their names and the newest checkpoint is
requested most often.

A graph writes a whole channel at every step, though most of it is unchanged, so values are stored as byte differences:
ranges of an earlier value to copy, and bytes to insert. This works with any serializer. A list that grew differs at two
places, its length at the beginning and its new items at the end; both are found.

Bodies are compressed, with a seal (digest) over the bytes and the place they were stored at. The seal is checked first:
a body that was damaged, cut off or moved to another document is not unpacked. Without a key the seal is a checksum,
which anyone who can write to the store can compute; with a key that is kept outside the store, only data that was
written with that key is read. Neither proves that a body is the newest one of its document.

Limits apply to data read from a store, because a kilobyte can unpack to a megabyte, differences can double it again and
again, and a byte of msgpack can become an object of two hundred bytes. Bytes are counted before they are decoded; above
a few megabytes the memory of their objects is estimated too.
"""

from __future__ import annotations

import hmac
import zlib
from collections.abc import Sequence
from hashlib import blake2b
from typing import Annotated, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.records import Document
from turnfold.stores import document_name

__all__ = (
    "CHECKPOINT",
    "REMEDY",
    "WRITES",
    "BodyCodec",
    "BodySeal",
    "ChannelValue",
    "DeltaScript",
    "DocumentPlace",
    "SizeLimit",
    "StoredCheckpoint",
    "Typed",
    "ValueRef",
    "Write",
    "Writes",
    "ancestor_cycle",
    "applied_size",
    "apply_delta",
    "checkpoint_key",
    "decoded_size",
    "delta_size",
    "is_checkpoint_id",
    "make_delta",
    "namespace_prefix",
    "writes_key",
)


_UNCOUNTED = 4 << 20
"""Stored values of up to this many bytes are read without counting the objects in them: they take at most some hundred
megabytes of memory."""
_GROWTH = 4
"""Most bytes of memory per stored byte that the objects of a stored value may take when it is decoded; a value that
takes more is refused."""

# About the bytes of memory of Python's objects, with the place each takes in a list.
_SLOT, _NUMBER, _TEXT, _LIST, _MAP, _OBJECT = 8, 40, 64, 64, 240, 400

_HEADERS: list[tuple[int, int, int]] = [(_SLOT, 0, 0)] * 256
"""First byte of a msgpack value -> bytes of memory for the value, bytes to skip, width of a length that follows. Of
lists, maps and extensions only the header is skipped: their values come next."""
_HEADERS[0x80:0x90] = [(_MAP, 0, 0)] * 16
_HEADERS[0x90:0xA0] = [(_LIST, 0, 0)] * 16
_HEADERS[0xA0:0xC0] = [(_TEXT, length, 0) for length in range(32)]
_HEADERS[0xC4:0xC7] = _HEADERS[0xD9:0xDC] = [(_TEXT, 0, width) for width in (1, 2, 4)]
_HEADERS[0xC7:0xCA] = [(_OBJECT, width, 0) for width in (2, 3, 5)]
_HEADERS[0xCA:0xCC] = [(_NUMBER, width, 0) for width in (4, 8)]
_HEADERS[0xCC:0xD0] = _HEADERS[0xD0:0xD4] = [(_NUMBER, width, 0) for width in (1, 2, 4, 8)]
_HEADERS[0xD4:0xD9] = [(_OBJECT, 1, 0)] * 5
_HEADERS[0xDC:0xDE] = [(_LIST, width, 0) for width in (2, 4)]
_HEADERS[0xDE:0xE0] = [(_MAP, width, 0) for width in (2, 4)]


class SizeLimit:
    """Limits the stored bytes that are decoded together, and the memory that their objects take."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._memory = 0

    def add(self, data: bytes, path: str = "") -> None:
        """Count msgpack bytes before they are decoded; raise `InvalidRecord` if there are too many."""
        self.add_size(len(data), path)
        if self._bytes <= _UNCOUNTED:
            return
        limit = _GROWTH * max(self._max_bytes, _UNCOUNTED)
        self._memory += decoded_size(data, limit - self._memory)
        if self._memory > limit:
            raise InvalidRecord(
                f"the objects in {self._bytes:,} stored bytes need more than {limit:,} bytes of memory",
                path=path,
                remedy=f"If your application wrote them, raise max_checkpoint_bytes={self._max_bytes:,}",
            )

    def add_size(self, size: int, path: str = "") -> None:
        """Count bytes that are not msgpack; raise `InvalidRecord` if there are too many."""
        self._bytes += size
        if self._bytes > self._max_bytes:
            raise InvalidRecord(
                f"the data has {self._bytes:,} bytes, but a checkpoint may have only {self._max_bytes:,}",
                path=path,
                remedy="Keep large data elsewhere, or raise max_checkpoint_bytes",
            )


def decoded_size(data: bytes, limit: int) -> int:
    """Estimate the memory of the objects in msgpack bytes; stops counting above `limit`."""
    total, at, end = 0, 0, len(data)
    while at < end and total <= limit:
        memory, skipped, width = _HEADERS[data[at]]
        at += 1
        if width:
            skipped = int.from_bytes(data[at : at + width], "big")
            at += width
        total += memory + skipped
        at += skipped
    return total


Piece: TypeAlias = bytes | tuple[int, int]
"""A piece of a stored difference: bytes to insert, or the start and length of a range to copy from the earlier
value."""

_ANCHOR = 24
"""Number of bytes in an anchor: a piece of the new value that is searched for in the earlier value, to find where both
agree again after a difference."""
_COPY_COST = 8
_WINDOW = 1 << 16
"""Number of bytes of the earlier value in which such a piece (anchor) is searched for."""
_PROBES = 48
"""Number of pieces (anchors) of the new value that are searched for in the earlier value; if none is found, the rest of
the new value is stored whole."""


def make_delta(base: bytes, new: bytes) -> list[Piece]:
    """Return the difference that makes `new` from `base`: bytes to insert, and ranges of `base` to copy."""
    tail = _common_suffix(base, new)
    pieces: list[Piece] = []
    at, done, end = 0, 0, len(new) - tail
    while done < end:
        same = min(_common_prefix(base, at, new, done), end - done)
        if same >= _ANCHOR:
            pieces.append((at, same))
            at, done = at + same, done + same
            continue
        found = _resync(base, at, new, done, end)
        if found is None:
            pieces.append(new[done:end])
            break
        pieces.append(new[done : found[1]])
        at, done = found
    if tail:
        pieces.append((len(base) - tail, tail))
    return pieces


def apply_delta(base: bytes, pieces: Sequence[Piece]) -> bytes:
    """Return the value that a difference (`pieces`) makes from the earlier value `base`."""
    return b"".join(
        piece if isinstance(piece, bytes) else base[piece[0] : piece[0] + piece[1]]
        for piece in pieces
    )


def applied_size(base: int, pieces: Sequence[Piece]) -> int:
    """Return the size of the value that a difference makes from `base` bytes; -1 if it copies more than these."""
    size = 0
    for piece in pieces:
        if isinstance(piece, bytes):
            size += len(piece)
            continue
        start, length = piece
        if start < 0 or length < 0 or start + length > base:
            return -1
        size += length
    return size


def delta_size(pieces: Sequence[Piece]) -> int:
    """Estimate the bytes that a difference takes when it is stored."""
    return sum(len(piece) if isinstance(piece, bytes) else _COPY_COST for piece in pieces)


def _common_prefix(base: bytes, at: int, new: bytes, done: int) -> int:
    """Return how many bytes of `base` from `at` on and of `new` from `done` on are equal.

    Compares ranges, not single bytes.
    """
    low, high = 0, min(len(base) - at, len(new) - done)
    while low < high:
        middle = (low + high + 1) // 2
        if base[at + low : at + middle] == new[done + low : done + middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_suffix(base: bytes, new: bytes) -> int:
    low, high = 0, min(len(base), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if base[len(base) - middle : len(base) - low] == new[len(new) - middle : len(new) - low]:
            low = middle
        else:
            high = middle - 1
    return low if low >= _ANCHOR else 0


def _resync(base: bytes, at: int, new: bytes, done: int, end: int) -> tuple[int, int] | None:
    """Return the next positions at which `base` and `new` are equal again; None if there are none nearby."""
    skip = 0
    for _ in range(_PROBES):
        if done + skip + _ANCHOR > end:
            return None
        anchor = new[done + skip : done + skip + _ANCHOR]
        found = base.find(anchor, at, at + _WINDOW)
        if found >= 0:
            return found, done + skip
        skip += 1 + skip // 4
    return None


CHECKPOINT: Final = "langgraph-checkpoint"
WRITES: Final = "langgraph-writes"

Typed: TypeAlias = tuple[str, bytes]
"""A value as LangGraph's serializer writes it: its type and its bytes."""

_LONGEST_ID = 200
_SEPARATOR: Final = "\x1f"
_END: Final = "\x7f"
"""Sorts after every character of an id: of two ids with the same beginning, the longer one comes later."""

_FIRST, _LAST = 0x21, 0x7E
_NEWEST_FIRST = {code: _FIRST + _LAST - code for code in range(_FIRST, _LAST + 1)}


class ValueRef(msgspec.Struct, frozen=True, array_like=True):
    """A reference to the stored bytes of a channel's value: their digest, and the checkpoint that has them."""

    digest: bytes
    holder: str = ""
    """Id of the checkpoint whose document has the bytes of the value; empty if they are in the document with this
    reference."""

    def at(self, checkpoint: str) -> ValueRef:
        """Return the reference with its holder filled in: an empty holder becomes `checkpoint`."""
        return self if self.holder else ValueRef(self.digest, checkpoint)


class ChannelValue(msgspec.Struct, frozen=True, array_like=True):
    """The value of a LangGraph channel at a checkpoint: its version, and where its bytes are stored."""

    version: int | float | str | None
    kind: str
    ref: ValueRef
    size: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Size of the value in bytes; 0 if a release wrote it that had no such field."""

    def at(self, checkpoint: str) -> ChannelValue:
        """Return the value with a complete reference: if it names no checkpoint, its bytes are in `checkpoint`."""
        return msgspec.structs.replace(self, ref=self.ref.at(checkpoint))


class DeltaScript(msgspec.Struct, frozen=True, array_like=True):
    """A stored value of a channel, as the difference from an earlier value: ranges to copy, and new bytes."""

    digest: bytes
    index: Annotated[int, msgspec.Meta(ge=0)]
    """Number of earlier versions in the chain of differences; 0 for a value that is stored whole."""
    base: ValueRef | None
    pieces: list[Piece]


class StoredCheckpoint(msgspec.Struct, frozen=True, array_like=True):
    """The stored form of a checkpoint: its metadata, and references to the values of its channels."""

    namespace: str
    id: str
    parent: str
    checkpoint: Typed
    """The checkpoint without the values of its channels."""
    metadata: Typed
    values: dict[str, ChannelValue]
    scripts: list[DeltaScript]

    def script(self, digest: bytes) -> DeltaScript | None:
        """Return the stored difference of the value with this digest.

        Returns None if this checkpoint does not store the value.
        """
        return next((one for one in self.scripts if one.digest == digest), None)


class Write(msgspec.Struct, frozen=True, array_like=True):
    """One value that a LangGraph task wrote to a channel."""

    index: int
    channel: str
    value: Typed
    path: str


class Writes(msgspec.Struct, frozen=True, array_like=True):
    """The values that a LangGraph task wrote after a checkpoint."""

    checkpoint: str
    task: str
    writes: list[Write]


REMEDY: Final = "Restore the store from a backup, or delete the thread"
"""What errors about damaged stored data advise to do."""
_MOVED_OR_FORGED: Final = (
    "It was moved or forged: restore the store from a backup, or delete the thread"
)
_encoder = msgspec.msgpack.Encoder()
_checkpoints = msgspec.msgpack.Decoder(StoredCheckpoint)
_writes = msgspec.msgpack.Decoder(Writes)


_Body = TypeVar("_Body", StoredCheckpoint, Writes)


class BodyCodec:
    """Converts checkpoints and writes to the bodies of documents and back: compressed, sealed, limited in size."""

    def __init__(self, seal: BodySeal) -> None:
        self._seal = seal

    def pack(self, record: StoredCheckpoint | Writes, place: DocumentPlace) -> bytes:
        """Return a document's body with a checkpoint or a task's writes: encoded, compressed, sealed for its place."""
        return self._seal.pack(_encoder.encode(record), place)

    def checkpoint(self, home: str, document: Document) -> tuple[StoredCheckpoint, int]:
        """Return the checkpoint in a document and its size in bytes.

        Raises `InvalidRecord` if it is another checkpoint.
        """
        place = DocumentPlace(home, CHECKPOINT, document.key)
        stored, size = self._decoded(_checkpoints, document.body, place)
        if (
            not is_checkpoint_id(stored.id)
            or checkpoint_key(stored.namespace, stored.id) != document.key
            or not (stored.parent == "" or is_checkpoint_id(stored.parent))
        ):
            raise InvalidRecord(
                f"the document holds checkpoint {stored.id[:100]!r} of namespace {stored.namespace[:100]!r}, not the "
                "checkpoint that its key names",
                path=place.path,
                remedy=_MOVED_OR_FORGED,
            )
        return stored, size

    def writes(self, home: str, document: Document) -> Writes:
        """Return a task's writes in a document; raise `InvalidRecord` if they are of another task or checkpoint."""
        place = DocumentPlace(home, WRITES, document.key)
        found, _ = self._decoded(_writes, document.body, place)
        beginning, _, task = document.key.partition(_END)
        named = found.checkpoint.translate(_NEWEST_FIRST)
        if beginning.rpartition(_SEPARATOR)[2] != named or task != document_name(found.task):
            raise InvalidRecord(
                f"the document holds writes of task {found.task[:100]!r} after checkpoint {found.checkpoint[:100]!r}, "
                "not the writes that its key names",
                path=place.path,
                remedy=_MOVED_OR_FORGED,
            )
        return found

    def _decoded(
        self, decoder: msgspec.msgpack.Decoder[_Body], body: bytes, place: DocumentPlace
    ) -> tuple[_Body, int]:
        data = self._seal.unpack(body, place)
        try:
            return decoder.decode(data), len(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise InvalidRecord(
                f"a stored checkpoint, or the writes of a task, cannot be decoded: {error}",
                path=place.path,
                remedy=REMEDY,
            ) from None


def namespace_prefix(namespace: str) -> str:
    """Return the prefix of the keys of all documents of a LangGraph namespace."""
    return f"{document_name(namespace)}{_SEPARATOR}"


def is_checkpoint_id(checkpoint: str) -> bool:
    """Return True if the text has the form of a checkpoint id."""
    return (
        0 < len(checkpoint) <= _LONGEST_ID
        and ord(min(checkpoint)) >= _FIRST
        and ord(max(checkpoint)) <= _LAST
    )


def checkpoint_key(namespace: str, checkpoint: str) -> str:
    """Return the key of a checkpoint's document, which is also the prefix of the keys of its writes."""
    if not is_checkpoint_id(checkpoint):
        raise InvalidOption(
            f"checkpoint id {checkpoint!r} must have 1 to {_LONGEST_ID} printable ASCII characters, without spaces"
        )
    return f"{namespace_prefix(namespace)}{checkpoint.translate(_NEWEST_FIRST)}{_END}"


def writes_key(namespace: str, checkpoint: str, task: str) -> str:
    """Return the key of the document that stores a task's writes after a checkpoint."""
    return f"{checkpoint_key(namespace, checkpoint)}{document_name(task)}"


_CHECKSUM: Final = b"\x01"
_KEYED: Final = b"\x02"
_ZLIB: Final = b"\x78"
"""First byte of a body that an old release wrote, without a seal."""
_SEAL_BYTES = 16
_SHORTEST_KEY = 16
_PERSON: Final = b"turnfold-saver"
_LEVEL = 6


class DocumentPlace(NamedTuple):
    """The place of a document in the store: its home (conversation), kind and key."""

    home: str
    kind: str
    key: str

    @property
    def path(self) -> str:
        """Conversation, kind and key of the document as one text, for errors."""
        return f"{self.home}/{self.kind}/{self.key!r}"


class BodySeal:
    """Compresses bodies of documents and adds a seal (digest or HMAC); checks the seal and unpacks them."""

    def __init__(self, *, key: bytes | str | None, max_bytes: int) -> None:
        given = key.encode() if isinstance(key, str) else key
        if given is not None and len(given) < _SHORTEST_KEY:
            raise InvalidOption(
                f"seal_key has {len(given)} bytes: give at least {_SHORTEST_KEY}, for example secrets.token_bytes(32)"
            )
        self._key = b"" if given is None else blake2b(given, person=_PERSON).digest()
        self._mark = _KEYED if self._key else _CHECKSUM
        self._max_bytes = max_bytes

    def pack(self, data: bytes, place: DocumentPlace) -> bytes:
        """Compress `data` and add a seal (digest) for its place; return the body to store."""
        if len(data) > self._max_document_bytes:
            raise InvalidRecord(
                f"a checkpoint or the writes of a task have {len(data):,} bytes, but a document may have only "
                f"{self._max_document_bytes:,}",
                remedy=f"Keep large data elsewhere, or raise max_checkpoint_bytes={self._max_bytes:,}",
            )
        packed = zlib.compress(data, _LEVEL)
        return self._mark + self.seal(packed, place) + packed

    def unpack(self, body: bytes, place: DocumentPlace) -> bytes:
        """Return the data in a document's body; raise `InvalidRecord` if its seal (digest) or its size is wrong."""
        packed = self._checked(body, place)
        inflater = zlib.decompressobj()
        try:
            data = inflater.decompress(packed, self._max_document_bytes + 1)
        except zlib.error as error:
            raise InvalidRecord(
                f"the stored document is damaged and cannot be decompressed: {error}",
                path=place.path,
                remedy=REMEDY,
            ) from None
        if len(data) > self._max_document_bytes:
            raise InvalidRecord(
                f"the {len(body):,} bytes of the document unpack to more than {self._max_document_bytes:,}",
                path=place.path,
                remedy=f"If your application wrote it, raise max_checkpoint_bytes={self._max_bytes:,}",
            )
        if not inflater.eof or inflater.unused_data:
            raise InvalidRecord(
                "the stored document is damaged: it is cut off or has trailing bytes",
                path=place.path,
                remedy=REMEDY,
            )
        SizeLimit(self._max_document_bytes).add(data, place.path)
        return data

    @property
    def _max_document_bytes(self) -> int:
        # A document may keep values of a checkpoint that was stored twice, and always has names and versions.
        return 2 * self._max_bytes + (1 << 20)

    def _checked(self, body: bytes, place: DocumentPlace) -> bytes:
        mark, seal, packed = body[:1], body[1 : 1 + _SEAL_BYTES], body[1 + _SEAL_BYTES :]
        if mark == _ZLIB and not self._key:
            return body
        if mark == _KEYED and not self._key:
            raise InvalidRecord(
                "the stored document was sealed with a seal_key, but this saver has no seal_key",
                path=place.path,
                remedy="Give the key: TurnfoldSaver(..., seal_key=...)",
            )
        if mark != self._mark or not hmac.compare_digest(seal, self.seal(packed, place)):
            why = (
                "was not sealed with this seal_key, or was moved from another place"
                if self._key
                else "is damaged, or was moved from another place"
            )
            raise InvalidRecord(
                f"the stored document {why}",
                path=place.path,
                remedy=REMEDY,
            )
        return packed

    def seal(self, packed: bytes, place: DocumentPlace) -> bytes:
        """Return the seal of compressed bytes and the document's place: a digest, or with a key an HMAC."""
        seal = blake2b(key=self._key, digest_size=_SEAL_BYTES, person=_PERSON)
        for part in (*(name.encode("utf-8", "surrogatepass") for name in place), packed):
            seal.update(len(part).to_bytes(8, "big"))
            seal.update(part)
        return seal.digest()


def ancestor_cycle(checkpoint: str) -> InvalidRecord:
    """Return the error to raise if a stored checkpoint is its own ancestor."""
    return InvalidRecord(
        f"the stored checkpoints are damaged: checkpoint {checkpoint} is its own ancestor",
        remedy=REMEDY,
    )
