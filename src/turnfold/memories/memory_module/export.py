"""Export the contexts and summaries of a `MemoryModule` as JSON values, and read such an export.

Pieces of content that several contexts share are exported once. `read_export` verifies every piece against its digest,
every context against its id and every summary against its context; one fault raises `InvalidRecord`, and nothing is
imported.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, cast

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.memories.memory_module.values import MemorySummary, summary_id, write_summary
from turnfold.records import (
    LARGEST_SNAPSHOT,
    LATEST_TIME,
    LATEST_TURN,
    Document,
    ItemKind,
    Snapshot,
    SnapshotItem,
    content_digest,
)
from turnfold.stores import ConversationOpening, Piece
from turnfold.workspace_snapshots import (
    SNAPSHOT,
    ListedItem,
    pack,
    rebuild_snapshot,
    split_chunks,
    turn_key,
)

__all__ = (
    "ContextExporter",
    "ExportedContexts",
    "read_export",
)


_FORMAT = "turnfold.contexts"
_VERSION = 1
_Hex = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{40}$")]


class _Encoded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    base64: str


class _Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: ItemKind
    path: str
    text: bool
    pieces: tuple[_Hex, ...]


class _Context(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    turn_number: Annotated[int, msgspec.Meta(ge=1, le=LATEST_TURN)]
    timestamp: Annotated[int, msgspec.Meta(ge=0, le=LATEST_TIME)]
    summary: str
    insights: tuple[str, ...]
    links: tuple[str, ...]
    items: tuple[_Item, ...]


class _Export(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: str
    version: int
    contexts: dict[str, _Context]
    summaries: dict[str, MemorySummary]
    pieces: dict[_Hex, str | _Encoded]


class ContextExporter:
    """Collects the contexts and summaries of a `MemoryModule`, and makes one export of them."""

    def __init__(self) -> None:
        self._pieces: dict[str, str | _Encoded] = {}
        self._contexts: dict[str, _Context] = {}
        self._summaries: dict[str, MemorySummary] = {}

    def add(self, snapshot: Snapshot, summary: MemorySummary | None) -> None:
        """Add a context and its summary, if it has one, to the export."""
        self._contexts[snapshot.id] = _exported(snapshot, self._pieces)
        if summary is not None:
            self._summaries[summary.id] = summary

    def export(self) -> dict[str, object]:
        """Return the whole export as JSON values."""
        export = _Export(_FORMAT, _VERSION, self._contexts, self._summaries, self._pieces)
        return cast("dict[str, object]", msgspec.json.decode(msgspec.json.encode(export)))


def _exported(snapshot: Snapshot, pieces: dict[str, str | _Encoded]) -> _Context:
    items: list[_Item] = []
    for item in snapshot.items():
        names: list[str] = []
        for piece in split_chunks(item.data):
            name = content_digest(piece).hex()
            names.append(name)
            if name not in pieces:
                pieces[name] = _chunk_text(piece)
        items.append(_Item(item.kind, item.path, item.text, tuple(names)))
    return _Context(
        snapshot.id,
        snapshot.turn,
        snapshot.created,
        snapshot.summary,
        snapshot.insights,
        snapshot.links,
        tuple(items),
    )


def _chunk_text(piece: bytes) -> str | _Encoded:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return _Encoded(b64encode(piece).decode())


@dataclass(frozen=True, slots=True)
class ExportedContexts:
    """The verified content of an export: contexts and summaries, as `read_export` returns it."""

    summaries: tuple[MemorySummary, ...]
    """All summaries, sorted by turn."""
    turns: Mapping[int, str]
    """Turn -> context id, sorted by turn."""
    _contexts: tuple[_Context, ...]
    _pieces: Mapping[str, bytes]

    def snapshots(self) -> Iterator[Snapshot]:
        """Yield the contexts of the export as snapshots, sorted by turn."""
        for context in self._contexts:
            yield _snapshot(context, self._pieces)

    def pieces(self, conversation: str) -> Iterator[Piece]:
        """Yield a new conversation with all contexts and summaries, as the pieces that `Store.restore` takes."""
        created = min((context.timestamp for context in self._contexts), default=0)
        updated = max((context.timestamp for context in self._contexts), default=0)
        yield ConversationOpening(conversation, created, updated)
        items: tuple[ListedItem, ...] = ()
        known: dict[bytes, int] = {}
        for snapshot in self.snapshots():
            packed = pack(snapshot, earlier=items, known=known)
            items = packed.items
            known.update((ref.digest, ref.turn) for ref in packed.new_chunks)
            body = Document(SNAPSHOT, turn_key(snapshot.turn), packed.body, 1, snapshot.created)
            yield replace(body, text=packed.text)
        for summary in self.summaries:
            yield replace(write_summary(summary), version=1, created=summary.timestamp)


def read_export(given: object) -> ExportedContexts:
    """Read and verify an export; raises `InvalidRecord` for anything that `ContextExporter` cannot have written."""
    try:
        export = msgspec.convert(given, _Export)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InvalidRecord(
            f"this is not an export of a memory module: {error}. Pass the value that export() returned"
        ) from None
    if (export.format, export.version) != (_FORMAT, _VERSION):
        raise InvalidRecord(
            f"the export has format {export.format!r} version {export.version}; this release reads {_FORMAT!r} "
            f"version {_VERSION}"
        )
    pieces = {name: _chunk_bytes(name, piece) for name, piece in export.pieces.items()}
    contexts = sorted(export.contexts.values(), key=lambda context: context.turn_number)
    turns = {context.turn_number: context.id for context in contexts}
    if len(turns) != len(contexts):
        raise InvalidRecord(
            f"{len(contexts)} contexts have only {len(turns)} different turn numbers: each context needs its own",
            path="contexts",
        )
    unused = pieces.keys() - {
        name for context in contexts for item in context.items for name in item.pieces
    }
    if unused:
        raise InvalidRecord(
            f"the export was changed after it was written: {len(unused)} of its text pieces belong to no context",
            path="pieces",
            remedy="Export the module again",
        )
    for name, context in export.contexts.items():
        _verify_context(name, context, pieces)
    for name, summary in export.summaries.items():
        _verify_summary(name, summary, turns)
    summaries = sorted(export.summaries.values(), key=lambda summary: summary.turn_number)
    return ExportedContexts(tuple(summaries), turns, tuple(contexts), pieces)


def _chunk_bytes(name: str, piece: str | _Encoded) -> bytes:
    where = f"pieces.{name}"
    try:
        data = piece.encode() if isinstance(piece, str) else b64decode(piece.base64, validate=True)
    except (Base64Error, ValueError) as error:
        raise InvalidRecord(f"the piece is not valid base64: {error}", path=where) from None
    if content_digest(data).hex() != name:
        raise InvalidRecord(
            "the export is damaged: this piece does not match the digest that is its name",
            path=where,
            remedy="Export the module again",
        )
    return data


def _verify_context(name: str, context: _Context, pieces: Mapping[str, bytes]) -> None:
    where = f"contexts.{name}"
    missing = {each for item in context.items for each in item.pieces} - pieces.keys()
    if missing:
        raise InvalidRecord(
            f"the export is incomplete: it lacks {len(missing)} pieces of this context", path=where
        )
    size = sum(len(pieces[each]) for item in context.items for each in item.pieces)
    if size > LARGEST_SNAPSHOT:
        raise InvalidRecord(
            f"the context has {size:,} bytes; at most {LARGEST_SNAPSHOT:,} are allowed", path=where
        )
    if name != _snapshot(context, pieces).id:
        raise InvalidRecord(
            f"the export is damaged: the context under this id says that its id is {context.id}",
            path=where,
            remedy="Export the module again",
        )


def _snapshot(context: _Context, pieces: Mapping[str, bytes]) -> Snapshot:
    where = f"contexts.{context.id}"
    snapshot = rebuild_snapshot(
        (
            SnapshotItem(
                item.kind, item.path, item.text, b"".join(map(pieces.__getitem__, item.pieces))
            )
            for item in context.items
        ),
        turn=context.turn_number,
        summary=context.summary,
        insights=context.insights,
        links=context.links,
        created=context.timestamp,
        where=where,
    )
    if snapshot.id != context.id:
        raise InvalidRecord(
            "the export is damaged: the content of the context does not match the digest in its id",
            path=where,
            remedy="Export the module again",
        )
    return snapshot


def _verify_summary(name: str, summary: MemorySummary, turns: Mapping[int, str]) -> None:
    where = f"summaries.{name}"
    context = turns.get(summary.turn_number, "")
    if not name == summary.id == summary_id(summary.context_id) or summary.context_id != context:
        raise InvalidRecord(
            "the export is incomplete: it has this summary, but not the context that it summarises",
            path=where,
        )
    try:
        write_summary(summary)
    except (ValueError, OverflowError) as error:
        raise InvalidRecord(f"the summary cannot be stored: {error}", path=where) from None
