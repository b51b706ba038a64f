"""A snapshot as the body of one document, and back.

One document, because one write is whole or not there: a process killed while it writes leaves no snapshot without its
pieces and no piece without its snapshot. What comes back is proved: each piece against its digest, each item against
the digest of the whole, all of it against the id. Bytes of another origin are refused with a typed error.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.recall.snapshots.chunking import LONGEST_CHUNK, chunks_of
from turnfold.recall.snapshots.listing import ListedItem, Ref, check_ref, write_listing
from turnfold.records.snapshots import (
    LARGEST_SNAPSHOT,
    Item,
    Snapshot,
    content_digest,
    snapshot_id,
)

__all__ = ("MOST_INDEXED", "Packed", "SnapshotHead", "StoredSnapshot", "pack", "unpack")

MOST_INDEXED = 200_000
"""Characters of new text that one snapshot can be found by."""
_VERSION = 1
_LARGEST_CHUNK = LONGEST_CHUNK + 3
_LEVEL = 6


class SnapshotHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is said of a snapshot as a whole."""

    v: int
    turn: int
    id: str
    created: int
    summary: str
    insights: tuple[str, ...]
    links: tuple[str, ...]
    listing: tuple[Ref, ...]
    """The pieces of the listing."""
    lengths: tuple[int, ...]
    """Of the pieces this document holds, in order."""
    indexed: int
    """Characters of its new text that it can be found by."""
    unindexed: int
    """Characters of its new text that it cannot be found by, because there were too many."""


class _Version(msgspec.Struct):
    v: int


class _Body(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    head: SnapshotHead
    pieces: bytes
    """Compressed, one after the other."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Body)
_version_decoder = msgspec.msgpack.Decoder(tuple[_Version, bytes])


@dataclass(frozen=True, slots=True)
class Packed:
    """A snapshot ready to be written."""

    id: str
    body: bytes
    text: str
    """What it can be found by."""
    items: tuple[ListedItem, ...]
    learned: tuple[Ref, ...]
    """The pieces it would bring into the store."""
    size: int
    """Bytes of everything it holds, old or new."""


@dataclass(slots=True)
class _Pieces:
    """New pieces, and where all of them lie."""

    turn: int
    known: Mapping[bytes, int]
    new: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    texts: list[str] = field(default_factory=list[str])
    """The new pieces that are text."""

    def add(self, data: bytes, *, text: bool = False) -> tuple[Ref, ...]:
        return tuple(self._ref(piece, text=text) for piece in chunks_of(data))

    def _ref(self, piece: bytes, *, text: bool) -> Ref:
        digest = content_digest(piece)
        holder = self.known.get(digest, self.turn)
        # A piece lies in an earlier document or in this one: no later one is needed to read it.
        if holder < self.turn:
            return Ref(digest, holder)
        if digest not in self.new:
            self.new[digest] = piece
            if text:
                self.texts.append(piece.decode())
        return Ref(digest, self.turn)


def pack(
    snapshot: Snapshot, *, earlier: Iterable[ListedItem] = (), known: Mapping[bytes, int]
) -> Packed:
    """The document of a snapshot whose turn and time are set.

    `earlier` lists an earlier snapshot: an item that is the same there is taken over unread. `known` says of pieces
    which turn holds them; to know too few costs room, nothing else.
    """
    before = {item.place: item for item in earlier}
    pieces = _Pieces(snapshot.turn, known)
    changed: list[Item] = []
    items: list[ListedItem] = []
    size = 0
    for item in snapshot.items():
        size += len(item.data)
        old = before.get((item.kind, item.path))
        digest = content_digest(item.data)
        if old is not None and (old.digest, old.text) == (digest, item.text):
            items.append(old)
            continue
        changed.append(item)
        refs = pieces.add(item.data, text=item.text)
        items.append(ListedItem(item.kind, item.path, item.text, len(item.data), digest, refs))
    fresh = "\n".join(pieces.texts)
    text = _searchable(snapshot, changed, fresh[:MOST_INDEXED])
    listing = pieces.add(write_listing(items))
    head = SnapshotHead(
        v=_VERSION,
        turn=snapshot.turn,
        id=_id(snapshot, items),
        created=snapshot.created,
        summary=snapshot.summary,
        insights=snapshot.insights,
        links=snapshot.links,
        listing=listing,
        lengths=tuple(map(len, pieces.new.values())),
        indexed=min(len(fresh), MOST_INDEXED),
        unindexed=max(len(fresh) - MOST_INDEXED, 0),
    )
    body = _encoder.encode(_Body(head, zlib.compress(b"".join(pieces.new.values()), _LEVEL)))
    learned = tuple(Ref(digest, snapshot.turn) for digest in pieces.new)
    return Packed(head.id, body, text, tuple(items), learned, size)


def _id(snapshot: Snapshot, items: Iterable[ListedItem]) -> str:
    held = [(item.kind, item.path, item.text, item.digest) for item in items]
    return snapshot_id(snapshot.turn, held, (snapshot.summary, snapshot.insights, snapshot.links))


def _searchable(snapshot: Snapshot, changed: Iterable[Item], fresh: str) -> str:
    """What a snapshot can be found by: what was made of it, the names in it, and the text that is new in it."""
    said = [snapshot.summary, *snapshot.insights, *snapshot.links]
    said += [item.path for item in changed]
    text = "\n".join(filter(None, [*said, *snapshot.state, fresh]))
    return text.replace("\x00", " ")  # no backend indexes a NUL, and one refuses it


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """A document read back: what is said of the snapshot, and the pieces it brought."""

    head: SnapshotHead
    pieces: Mapping[bytes, bytes]
    """By the digest each of them has."""

    @property
    def size(self) -> int:
        """Bytes of the pieces."""
        return sum(self.head.lengths)


def unpack(body: bytes, *, turn: int) -> StoredSnapshot:
    """The document of `turn`. Its pieces are named by the digests they have: an altered one is not found."""
    where = f"snapshot/{turn}"
    try:
        found = _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise _not_ours(body, error, where) from None
    head = found.head
    if head.v != _VERSION:
        raise _not_ours(body, None, where)
    if head.turn != turn:
        raise InvalidRecord(f"it says it is turn {head.turn:,}", path=where)
    for ref in head.listing:
        check_ref(ref, turn, where)
    return StoredSnapshot(head, _inflated(found.pieces, head.lengths, where))


def _inflated(data: bytes, lengths: tuple[int, ...], where: str) -> dict[bytes, bytes]:
    size = sum(lengths)
    if any(not 0 < length <= _LARGEST_CHUNK for length in lengths) or size > 2 * LARGEST_SNAPSHOT:
        raise InvalidRecord("pieces of a length no snapshot has", path=where)
    inflater = zlib.decompressobj()
    try:
        # Never more than was announced, and one byte to see that there is no more.
        whole = inflater.decompress(data, size + 1)
    except zlib.error as error:
        raise InvalidRecord(f"its pieces cannot be unpacked: {error}", path=where) from None
    if len(whole) != size or not inflater.eof or inflater.unused_data:
        raise InvalidRecord(
            f"its pieces have {len(whole):,} bytes where {size:,} were announced", path=where
        )
    pieces: dict[bytes, bytes] = {}
    start = 0
    for length in lengths:
        piece = whole[start : start + length]
        pieces[content_digest(piece)] = piece
        start += length
    return pieces


def _not_ours(body: bytes, error: Exception | None, where: str) -> InvalidRecord:
    try:
        version = _version_decoder.decode(body)[0].v
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        version = _VERSION
    if version <= _VERSION:
        return InvalidRecord(f"not a stored snapshot: {error or f'version {version}'}", path=where)
    return InvalidRecord(
        f"snapshot version {version}; this release reads version {_VERSION}",
        path=where,
        remedy="Upgrade turnfold",
    )
