"""Stores workspace snapshots: splits contents into chunks, packs a snapshot into one document, reads it back.

- Contents are split at places that depend only on the bytes just before them. After an insertion the same places are
  found again, so most chunks stay the same. A regular expression finds candidates at the speed of C and a checksum
  picks one in eight of them; a rolling hash in Python would take ten times as long.
- A snapshot is one document, so a process killed while writing leaves it whole or absent. It holds the chunks that
  no earlier snapshot has, and a listing that names every chunk by digest and by the turn whose document holds it. The
  listing is split into chunks too: if three files of a thousand changed, most of it is not written again.
- Everything read back is verified: each chunk against its digest, each item against the digest of its content, the
  snapshot against its id. Documents that were not written by this module are refused with `InvalidRecord`.
- Documents are keyed by turn, written once and never changed: two writers of the same turn conflict by
  compare-and-swap, readers need no lock, and there is no index to update. They are read with `documents` even if only
  one is needed, because `get_document` would put them into the Redis cache, which is for small hot values.
"""

from __future__ import annotations

import json
import re
import threading
import zlib
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar, cast

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.records import (
    LARGEST_SNAPSHOT,
    LATEST_TURN,
    Document,
    ItemKind,
    Snapshot,
    SnapshotItem,
    content_digest,
    snapshot_id,
)
from turnfold.runtime import Runtime
from turnfold.stores import Scope, Store

__all__ = (
    "LONGEST_CHUNK",
    "SNAPSHOT",
    "SNAPSHOT_SUMMARY",
    "ChunkRef",
    "ListedItem",
    "Packed",
    "SnapshotHead",
    "SnapshotStorage",
    "StoredSnapshot",
    "pack",
    "read_listing",
    "rebuild_snapshot",
    "split_chunks",
    "turn_key",
    "turn_of",
    "unpack",
    "write_listing",
)


_SHORTEST: Final = 1 << 10
"""Least bytes of a chunk: before these, no place is considered as its end."""
LONGEST_CHUNK: Final = 1 << 14
"""Most bytes of a chunk (a piece of a snapshot that is stored once); a longer one is ended at the next character."""
_ONE_CUT_IN: Final = 8
"""One in this many candidate positions becomes the end of a chunk; candidates are 256 bytes apart on average."""
_HASHED_BYTES: Final = 32
"""Number of bytes before a place that decide, by their checksum, if a chunk ends there."""
_CLASSES = (
    b"[" + re.escape(bytes(byte for byte in range(256) if byte % 4 == rest)) + b"]"
    for rest in range(4)
)
# Four different classes: a match cannot begin inside another, so each is found independently of the others.
_CANDIDATE: Final = re.compile(b"".join(_CLASSES))


def split_chunks(data: bytes) -> Iterator[bytes]:
    """Yield the chunks of `data`, cut at places that its content determines; text is never cut within a character."""
    start = 0
    for stop in _split_points(data):
        yield data[start:stop]
        start = stop
    if start < len(data):
        yield data[start:]


def _split_points(data: bytes) -> Iterator[int]:
    start = 0
    for found in _CANDIDATE.finditer(data):
        place = found.end()
        while place - start > LONGEST_CHUNK:
            start = _character_end(data, start + LONGEST_CHUNK)
            yield start
        if place - start < _SHORTEST:
            continue
        if zlib.crc32(data[place - _HASHED_BYTES : place]) % _ONE_CUT_IN == 0:
            start = _character_end(data, place)
            yield start
    while len(data) - start > LONGEST_CHUNK:
        start = _character_end(data, start + LONGEST_CHUNK)
        yield start


def _character_end(data: bytes, place: int) -> int:
    """Return `place`, or if it is inside a UTF-8 character the end of that character."""
    for offset in range(4):
        at = place + offset
        if at >= len(data) or data[at] & 0xC0 != 0x80:
            return min(at, len(data))
    return place


_DIGEST = 20
_DAMAGED: Final = "Restore the store from a backup"


class ChunkRef(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Reference to a stored chunk (piece of content), by its digest and the turn that stores it."""

    digest: bytes
    turn: int
    """The turn whose document holds the bytes."""


class ListedItem(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Entry of a snapshot's listing: one item (context, state or file), with references to its stored chunks."""

    kind: ItemKind
    path: str
    text: bool
    size: int
    digest: bytes
    """Digest of the whole content of the item."""
    chunks: tuple[ChunkRef, ...]

    @property
    def place(self) -> tuple[ItemKind, str]:
        """The item's kind and path, unique within a snapshot."""
        return self.kind, self.path

    @property
    def identity(self) -> tuple[ItemKind, str, bool, bytes]:
        """Kind, path, form and digest of the item: equal for two items only if they have the same place and content."""
        return self.kind, self.path, self.text, self.digest


_item_encoder = msgspec.json.Encoder()
_item_decoder = msgspec.json.Decoder(ListedItem)


def write_listing(items: Iterable[ListedItem]) -> bytes:
    """Encode a snapshot's listing, one line per item, so that a changed item does not change other items' bytes."""
    return _item_encoder.encode_lines(items)


def read_listing(data: bytes, *, turn: int) -> tuple[ListedItem, ...]:
    """Decode the listing of a turn's snapshot; raise `InvalidRecord` if it is damaged."""
    try:
        items = tuple(_item_decoder.decode_lines(data))
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InvalidRecord(
            f"the stored listing of the snapshot of turn {turn:,} cannot be decoded: {error}",
            remedy=_DAMAGED,
        ) from None
    places = [item.place for item in items]
    if twice := [place for place, number in Counter(places).items() if number > 1]:
        raise InvalidRecord(
            f"the stored listing of the snapshot of turn {turn:,} is damaged: it has {' '.join(twice[0]).rstrip()!r} "
            "twice",
            remedy=_DAMAGED,
        )
    for item in items:
        _check_item(item, turn)
    return items


def _check_item(item: ListedItem, turn: int) -> None:
    where = f"{item.kind} {item.path}".rstrip()
    if (item.kind == "file") != bool(item.path) or item.size < 0 or len(item.digest) != _DIGEST:
        raise InvalidRecord(
            "the stored listing of a snapshot is damaged: wrong path, size or digest of this item",
            path=where,
            remedy=_DAMAGED,
        )
    for ref in item.chunks:
        _check_ref(ref, turn, where)


def _check_ref(ref: ChunkRef, turn: int, where: str) -> None:
    """Raise `InvalidRecord` if a stored reference to a chunk is impossible: wrong digest, or a later turn."""
    if len(ref.digest) != _DIGEST or not 0 < ref.turn <= min(turn, LATEST_TURN):
        raise InvalidRecord(
            f"the stored snapshot of turn {turn:,} is damaged: it refers to content of turn {ref.turn:,} with a digest "
            f"of {len(ref.digest)} bytes; the turn must be 1 to {turn:,}, the digest {_DIGEST} bytes",
            path=where,
            remedy=_DAMAGED,
        )


_MAX_INDEXED = 200_000
"""Most characters of a snapshot's new text that are indexed for search; the rest is not found by words."""
_VERSION = 1
_LARGEST_CHUNK = LONGEST_CHUNK + 3
_LEVEL = 6


class SnapshotHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The metadata of a stored workspace snapshot: id, turn, summary, and where its listing is stored."""

    v: int
    turn: int
    id: str
    created: int
    summary: str
    insights: tuple[str, ...]
    links: tuple[str, ...]
    listing: tuple[ChunkRef, ...]
    """Chunks of the encoded listing."""
    lengths: tuple[int, ...]
    """Lengths of the chunks in this document, in order."""
    indexed: int
    """Number of characters of the snapshot's new text that are indexed for search."""
    unindexed: int
    """Number of characters of the snapshot's new text that are not indexed, because it exceeds the limit."""


class _Version(msgspec.Struct):
    """The format version of a stored snapshot, decoded alone to recognise snapshots of other releases."""

    v: int


class _Body(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    head: SnapshotHead
    chunks: bytes
    """The chunks of the snapshot, concatenated and compressed."""


_body_encoder = msgspec.msgpack.Encoder()
_body_decoder = msgspec.msgpack.Decoder(_Body)
_version_decoder = msgspec.msgpack.Decoder(tuple[_Version, bytes])


@dataclass(frozen=True, slots=True)
class Packed:
    """A snapshot encoded as the body of a document, with the values that the caller needs to store it."""

    id: str
    body: bytes
    text: str
    """The text to index for search."""
    items: tuple[ListedItem, ...]
    new_chunks: tuple[ChunkRef, ...]
    """The chunks in the document, which no earlier snapshot has."""
    size: int
    """Bytes of the whole content of the snapshot."""


@dataclass(slots=True)
class _ChunkWriter:
    """Collects the chunks of a snapshot that are not stored yet; the others become references."""

    turn: int
    known: Mapping[bytes, int]
    new: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    texts: list[str] = field(default_factory=list[str])
    """The new chunks that are text, for the search index."""

    def add(self, data: bytes, *, text: bool = False) -> tuple[ChunkRef, ...]:
        return tuple(self._ref(chunk, text=text) for chunk in split_chunks(data))

    def _ref(self, chunk: bytes, *, text: bool) -> ChunkRef:
        digest = content_digest(chunk)
        holder = self.known.get(digest, self.turn)
        # Only earlier turns are referred to, so that no later document is needed to read this one.
        if holder < self.turn:
            return ChunkRef(digest, holder)
        if digest not in self.new:
            self.new[digest] = chunk
            if text:
                self.texts.append(chunk.decode())
        return ChunkRef(digest, self.turn)


def pack(
    snapshot: Snapshot, *, earlier: Iterable[ListedItem] = (), known: Mapping[bytes, int]
) -> Packed:
    """Encode a snapshot as a document; chunks that are stored already become references.

    `earlier` is the listing of an earlier snapshot, from which unchanged items are copied. `known` maps the digests of
    stored chunks to the turns that hold them; a chunk that is missing in it is stored again.
    """
    before = {item.place: item for item in earlier}
    chunks = _ChunkWriter(snapshot.turn, known)
    changed: list[SnapshotItem] = []
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
        refs = chunks.add(item.data, text=item.text)
        items.append(ListedItem(item.kind, item.path, item.text, len(item.data), digest, refs))
    fresh = "\n".join(chunks.texts)
    text = _search_text(snapshot, changed, fresh[:_MAX_INDEXED])
    listing = chunks.add(write_listing(items))
    head = SnapshotHead(
        v=_VERSION,
        turn=snapshot.turn,
        id=_snapshot_id(snapshot, items),
        created=snapshot.created,
        summary=snapshot.summary,
        insights=snapshot.insights,
        links=snapshot.links,
        listing=listing,
        lengths=tuple(map(len, chunks.new.values())),
        indexed=min(len(fresh), _MAX_INDEXED),
        unindexed=max(len(fresh) - _MAX_INDEXED, 0),
    )
    body = _body_encoder.encode(_Body(head, zlib.compress(b"".join(chunks.new.values()), _LEVEL)))
    new_chunks = tuple(ChunkRef(digest, snapshot.turn) for digest in chunks.new)
    return Packed(head.id, body, text, tuple(items), new_chunks, size)


def _snapshot_id(snapshot: Snapshot, items: Iterable[ListedItem]) -> str:
    notes = (snapshot.summary, snapshot.insights, snapshot.links)
    return snapshot_id(snapshot.turn, [item.identity for item in items], notes)


def _search_text(snapshot: Snapshot, changed: Iterable[SnapshotItem], fresh: str) -> str:
    """Return the text of a snapshot to index for search: summary, insights, links, names, and the new text."""
    texts = [snapshot.summary, *snapshot.insights, *snapshot.links]
    texts += [item.path for item in changed]
    text = "\n".join(filter(None, [*texts, *snapshot.state, fresh]))
    return text.replace("\x00", " ")  # no backend indexes NUL, and PostgreSQL refuses it


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """A decoded snapshot document: metadata and the chunks it holds."""

    head: SnapshotHead
    chunks: Mapping[bytes, bytes]
    """Chunks by the digest of their bytes."""

    @property
    def size(self) -> int:
        """Total bytes of the chunks in this document."""
        return sum(self.head.lengths)


def unpack(body: bytes, *, turn: int) -> StoredSnapshot:
    """Decode the snapshot document of `turn`; an altered chunk is not found later, as its digest differs."""
    where = f"snapshot/{turn}"
    try:
        found = _body_decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise _format_error(body, error, where) from None
    head = found.head
    if head.v != _VERSION:
        raise _format_error(body, None, where)
    if head.turn != turn:
        raise InvalidRecord(
            f"the stored document of turn {turn:,} is damaged: it holds the snapshot of turn {head.turn:,}",
            path=where,
            remedy=_DAMAGED,
        )
    for ref in head.listing:
        _check_ref(ref, turn, where)
    return StoredSnapshot(head, _unpack_chunks(found.chunks, head.lengths, where))


def _unpack_chunks(data: bytes, lengths: tuple[int, ...], where: str) -> dict[bytes, bytes]:
    size = sum(lengths)
    if any(not 0 < length <= _LARGEST_CHUNK for length in lengths) or size > 2 * LARGEST_SNAPSHOT:
        raise InvalidRecord(
            "the stored snapshot is damaged: lengths of its chunks are outside the limits",
            path=where,
            remedy=_DAMAGED,
        )
    inflater = zlib.decompressobj()
    try:
        # At most the announced size, and one byte more to detect an excess.
        whole = inflater.decompress(data, size + 1)
    except zlib.error as error:
        raise InvalidRecord(
            f"the stored content of this snapshot is damaged and cannot be decompressed: {error}",
            path=where,
            remedy=_DAMAGED,
        ) from None
    if len(whole) != size or not inflater.eof or inflater.unused_data:
        raise InvalidRecord(
            f"the stored snapshot is damaged: its chunks have {len(whole):,} bytes, not {size:,}",
            path=where,
            remedy=_DAMAGED,
        )
    chunks: dict[bytes, bytes] = {}
    start = 0
    for length in lengths:
        chunk = whole[start : start + length]
        chunks[content_digest(chunk)] = chunk
        start += length
    return chunks


def _format_error(body: bytes, error: Exception | None, where: str) -> InvalidRecord:
    try:
        version = _version_decoder.decode(body)[0].v
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        version = _VERSION
    if version <= _VERSION:
        return InvalidRecord(
            f"the document is not a stored snapshot: {error or f'version {version}'}",
            path=where,
            remedy=_DAMAGED,
        )
    return InvalidRecord(
        f"the stored snapshot has format version {version}; this release reads version {_VERSION}",
        path=where,
        remedy="Upgrade turnfold",
    )


def rebuild_snapshot(
    items: Iterable[SnapshotItem],
    *,
    turn: int,
    summary: str,
    insights: tuple[str, ...],
    links: tuple[str, ...],
    created: int,
    where: str,
) -> Snapshot:
    """Rebuild a snapshot from stored or imported items.

    Raises `InvalidRecord`, with the path `where`, if they are invalid.
    """
    found: dict[tuple[str, str], SnapshotItem] = {}
    for item in items:
        if found.setdefault((item.kind, item.path), item) is not item:
            raise InvalidRecord(
                f"the snapshot has two items of kind {item.kind} and path {item.path!r}; each may occur once",
                path=where,
            )
    context, state = found.get(("context", "")), found.get(("state", ""))
    try:
        return Snapshot(
            turn=turn,
            context=context.data.decode() if context else "",
            files={
                item.path: item.data.decode() if item.text else item.data
                for item in found.values()
                if item.kind == "file"
            },
            state=cast("Mapping[str, object]", json.loads(state.data)) if state else {},
            summary=summary,
            insights=insights,
            links=links,
            created=created,
        )
    except (ValueError, RecursionError) as error:
        raise InvalidRecord(
            f"the items of the snapshot cannot be read back: {error}", path=where
        ) from None


def _digests_by_turn(refs: Iterable[ChunkRef]) -> dict[int, set[bytes]]:
    by_turn: defaultdict[int, set[bytes]] = defaultdict(set)
    for ref in refs:
        by_turn[ref.turn].add(ref.digest)
    return by_turn


def _contents(items: Iterable[ListedItem], chunks: Mapping[bytes, bytes]) -> list[bytes]:
    """Put the contents of items together; raise `InvalidRecord` if one does not match its digest."""
    found: list[bytes] = []
    for item in items:
        data = b"".join(chunks[ref.digest] for ref in item.chunks)
        if len(data) != item.size or content_digest(data) != item.digest:
            raise InvalidRecord(
                f"the stored content is damaged: {len(data):,} bytes were read, {item.size:,} were stored, "
                "and size or digest differs",
                path=f"{item.kind} {item.path}".rstrip(),
                remedy="Restore the store from a backup",
            )
        found.append(data)
    return found


SNAPSHOT: Final = "snapshot"
"""Document kind of snapshots."""
SNAPSHOT_SUMMARY: Final = "snapshot-summary"
"""Document kind of summaries of snapshots."""
_DIGITS: Final = 12


def turn_key(turn: int) -> str:
    """Return the key of a turn's snapshot document; keys sort like turns."""
    return f"{turn:0{_DIGITS}}"


def turn_of(key: str) -> int:
    """Return the turn of a snapshot document's key; raise `InvalidRecord` if the key is not a turn number."""
    if len(key) != _DIGITS or not (key.isascii() and key.isdigit()):
        raise InvalidRecord(
            f"a stored document has the key {key!r}, which is not a turn number: turnfold did not write it",
            path=SNAPSHOT,
        )
    return int(key)


_MAX_CACHED_BYTES = 16 << 20
"""Most bytes of snapshot chunks that are cached; a larger snapshot is not cached."""
_LARGE = 50_000
"""A snapshot with more bytes of content than this is read in a thread and not on the event loop."""
_COMPRESSED = 50
"""Bytes of content that a compressed byte counts for; repetitive content is compressed a thousandfold."""
_ITEM_BYTES = 100
"""Bytes that are added for each item (file or text) to decide if a snapshot is large, see `_LARGE`."""
_PAGE = 16
"""Most snapshots that are in memory at once while the metadata of many is read."""
_Result = TypeVar("_Result")


class SnapshotStorage:
    """Reads and writes the snapshot documents of one conversation, and caches the chunks that were read."""

    def __init__(self, store: Store, scope: Scope, conversation: str, *, runtime: Runtime) -> None:
        self.store = store
        self.scope = scope
        self.conversation = conversation
        self._runtime = runtime
        self._cached: OrderedDict[int, StoredSnapshot] = OrderedDict()
        self._cached_bytes = 0
        self._cache_lock = threading.Lock()
        self._newest = 0

    @property
    def held_bytes(self) -> int:
        """Bytes of chunks that are cached."""
        return self._cached_bytes

    async def compute(self, work: Callable[[], _Result], *, size: int, items: int = 0) -> _Result:
        """Return the result of a computation on `size` bytes in `items` items; a large one runs in a thread."""
        if size + items * _ITEM_BYTES <= _LARGE:
            return work()
        return await self._runtime.compute(work)

    async def put(self, turn: int, packed: Packed) -> None:
        """Write the snapshot document of a turn; raise `Conflict` if the turn already has one."""
        document = Document(SNAPSHOT, turn_key(turn), packed.body, 0, text=packed.text)
        await self.store.put_document(self.scope, self.conversation, document, expect=0)
        self._newest = max(self._newest, turn)

    async def stored(self, turn: int) -> StoredSnapshot | None:
        """Read the snapshot document of a turn from the store; None if the turn has no snapshot."""
        page = await self.page(after=turn - 1, limit=1)
        return page[0] if page and page[0].head.turn == turn else None

    async def page(self, *, after: int, limit: int) -> list[StoredSnapshot]:
        """Return the snapshots of the turns after `after`, oldest first, at most `limit`."""
        key = turn_key(min(max(after, 0), LATEST_TURN))
        documents = await self.store.documents(
            self.scope, self.conversation, SNAPSHOT, after=key, limit=limit
        )
        found = await self.compute(
            lambda: [unpack(each.body, turn=turn_of(each.key)) for each in documents],
            size=_COMPRESSED * sum(len(each.body) for each in documents),
        )
        for stored in found:
            self._add_to_cache(stored)
        return found

    async def heads(self, *, after: int, limit: int) -> list[SnapshotHead]:
        """Return the metadata of the snapshots of the turns after `after`, oldest first, at most `limit`."""
        heads: list[SnapshotHead] = []
        while len(heads) < limit:
            asked = min(_PAGE, limit - len(heads))
            page = await self.page(after=heads[-1].turn if heads else after, limit=asked)
            heads += [stored.head for stored in page]
            if len(page) < asked:
                break
        return heads

    async def newest(self, *, below: int = LATEST_TURN + 1) -> int:
        """Return the highest turn below `below` that has a snapshot; 0 if there is none.

        Probes with doubling steps, then bisects, because turns may have gaps.
        """
        low = self._newest if self._newest < below else 0
        probe, high, step = low, below - 1, 1
        while low < high:
            page = await self.page(after=probe, limit=1)
            if page and page[0].head.turn < below:
                low = page[0].head.turn
                probe, step = min(low + step, high), step * 2
            else:
                high = probe
                probe = (low + high) // 2
        self._newest = max(self._newest, low)
        return low

    async def listing(self, stored: StoredSnapshot) -> tuple[ListedItem, ...]:
        """Return the listing of a snapshot: its context, state and files, with references to their chunks."""
        chunks = await self._chunks(stored.head.listing)
        data = b"".join(chunks[ref.digest] for ref in stored.head.listing)
        return await self.compute(
            partial(read_listing, data, turn=stored.head.turn), size=len(data)
        )

    async def contents(self, items: Iterable[ListedItem]) -> list[bytes]:
        """Return the contents of these items; raise `InvalidRecord` if one does not match its digest."""
        wanted = list(items)
        refs = [ref for item in wanted for ref in item.chunks]
        chunks = await self._chunks(refs)
        return await self.compute(
            partial(_contents, wanted, chunks),
            size=sum(item.size for item in wanted),
            items=len(wanted),
        )

    async def _chunks(self, refs: Sequence[ChunkRef]) -> dict[bytes, bytes]:
        by_turn = await self.compute(partial(_digests_by_turn, refs), size=0, items=len(refs))
        chunks: dict[bytes, bytes] = {}
        for turn, digests in sorted(by_turn.items()):
            stored = self._cached.get(turn) or await self.stored(turn)
            missing = digests - stored.chunks.keys() if stored else digests
            if stored is None or missing:
                raise InvalidRecord(
                    f"{len(missing)} chunks that snapshots refer to are missing in the document of turn {turn:,}",
                    path=f"{SNAPSHOT}/{turn}",
                    remedy="Restore the store from a backup",
                )
            chunks.update((digest, stored.chunks[digest]) for digest in digests)
        return chunks

    def _add_to_cache(self, stored: StoredSnapshot) -> None:
        """Cache the chunks of a snapshot document that was read.

        Only a snapshot that was just read from the store refers to them, so erased content is never shown.
        """
        turn = stored.head.turn
        with self._cache_lock:
            if turn in self._cached or stored.size > _MAX_CACHED_BYTES:
                return
            self._cached[turn] = stored
            self._cached_bytes += stored.size
            while self._cached_bytes > _MAX_CACHED_BYTES:
                self._cached_bytes -= self._cached.popitem(last=False)[1].size
