"""The lines of an export: one JSON object each, in exactly one form.

A line is accepted only if writing what was read from it gives the same bytes again. So a key that stands twice, a field
nobody knows, NaN, a lone surrogate, other spacing or another way to write a number need no rules of their own, and two
files with the same content are the same file. Reading builds the structs named here and nothing else.
"""

from __future__ import annotations

import math
from typing import TypeAlias, assert_never

import msgspec

from turnfold.errors import InvalidExport, InvalidRecord
from turnfold.records import Checkpoint, Document, Entry, decode_message, encode_message
from turnfold.stores.protocol import Opening, Piece

__all__ = (
    "FORMAT",
    "VERSION",
    "End",
    "Footer",
    "Header",
    "Line",
    "read_header",
    "read_line",
    "read_piece",
    "write_line",
    "write_piece",
)

FORMAT = "turnfold-export"
VERSION = 1


class _Form(
    msgspec.Struct, frozen=True, tag_field="line", tag=str.lower, forbid_unknown_fields=True
):
    """What all lines have: a field that says which they are."""


class Header(_Form, frozen=True):
    """The first line."""

    format: str
    version: int
    created_by: str


class Conversation(_Form, frozen=True):
    """Begins a conversation."""

    name: str
    created: int
    updated: int
    dropped: int


class DocumentLine(_Form, frozen=True, tag="document", omit_defaults=True):
    """A document; its body in base64, and what it is found by unless that is nothing."""

    kind: str
    key: str
    version: int
    created: int
    body: bytes
    text: str = ""


class EntryLine(_Form, frozen=True, tag="entry"):
    """An entry; the message in its canonical form."""

    seq: int
    turn: int
    created: int
    client_id: str
    message: msgspec.Raw


class CheckpointLine(_Form, frozen=True, tag="checkpoint"):
    """A checkpoint."""

    id: str
    previous: str
    upto: int
    created: int
    text: str
    digest: str
    model: str
    trust: str
    fidelity: float


class End(_Form, frozen=True):
    """Ends a conversation: how many lines of each kind it has, and the digest of them."""

    documents: int
    entries: int
    checkpoints: int
    digest: str


class Footer(_Form, frozen=True):
    """The last line: what the file has, and the digest of all lines before."""

    conversations: int
    documents: int
    entries: int
    checkpoints: int
    digest: str


Line: TypeAlias = Header | Conversation | DocumentLine | EntryLine | CheckpointLine | End | Footer


class _AnyHeader(msgspec.Struct):
    format: str
    version: int


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)
_header_decoder = msgspec.json.Decoder(_AnyHeader)
_UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeError)


def write_line(line: Line) -> bytes:
    """The line with its end."""
    return _encoder.encode(line) + b"\n"


def write_piece(piece: Piece) -> bytes:
    """The line of a piece."""
    match piece:
        case Opening():
            line = Conversation(piece.conversation, piece.created, piece.updated, piece.dropped)
        case Document():
            line = DocumentLine(
                piece.kind, piece.key, piece.version, piece.created, bytes(piece.body), piece.text
            )
        case Entry():
            message = msgspec.Raw(encode_message(piece.message))
            line = EntryLine(piece.seq, piece.turn, piece.created, piece.client_id, message)
        case Checkpoint():
            line = CheckpointLine(
                piece.id,
                piece.previous,
                piece.upto,
                piece.created,
                piece.text,
                piece.digest,
                piece.model,
                piece.trust,
                float(piece.fidelity) + 0.0,  # no database tells -0.0 from 0.0
            )
        case _:
            assert_never(piece)
    return write_line(line)


def read_header(data: bytes) -> Header:
    """The first line of a file, which says whether this release can read the rest."""
    try:
        any_header = _header_decoder.decode(data)
    except _UNREADABLE:
        raise InvalidExport(
            "this is no export", line=1, remedy=f"The first line of one says format {FORMAT!r}"
        ) from None
    if any_header.format != FORMAT:
        raise InvalidExport(f"format {any_header.format!r}, not {FORMAT!r}", line=1)
    if any_header.version != VERSION:
        raise InvalidExport(
            f"version {any_header.version}; this release reads version {VERSION}",
            line=1,
            remedy="Upgrade turnfold" if any_header.version > VERSION else "",
        )
    header = read_line(data, 1)
    if not isinstance(header, Header):
        raise InvalidExport("the first line is no header", line=1)
    return header


def read_line(data: bytes, number: int) -> Line:
    """The line behind its bytes; `number` is where it stands, for the error."""
    try:
        line = _decoder.decode(data)
        again = write_line(line)
    except _UNREADABLE as error:
        raise InvalidExport(f"not a line of an export: {error}", line=number) from None
    if again != data:
        raise InvalidExport(
            "not in the form this format has: a key twice, other spacing, order or numbers",
            line=number,
            remedy="Import files as they were exported",
        )
    return line


def read_piece(line: Line, number: int) -> Piece | None:
    """The piece of a line; None for lines that are about other lines."""
    match line:
        case Conversation():
            return Opening(line.name, line.created, line.updated, line.dropped)
        case DocumentLine():
            return Document(line.kind, line.key, line.body, line.version, line.created, line.text)
        case EntryLine():
            return _read_entry(line, number)
        case CheckpointLine():
            return _read_checkpoint(line, number)
        case Header() | End() | Footer():
            return None
        case _:
            assert_never(line)


def _read_entry(line: EntryLine, number: int) -> Entry:
    body = bytes(line.message)
    try:
        message = decode_message(body)
    except InvalidRecord as error:
        raise InvalidExport(str(error.within("message")), line=number) from None
    if encode_message(message) != body:
        raise InvalidExport("the message is not in its canonical form", line=number)
    return Entry(line.seq, message, line.client_id, line.created, line.turn, tokens=0, running=0)


def _read_checkpoint(line: CheckpointLine, number: int) -> Checkpoint:
    if math.copysign(1.0, line.fidelity) < 0:
        raise InvalidExport(f"fidelity is a share, 0 to 1, got {line.fidelity}", line=number)
    return Checkpoint(
        line.id,
        line.previous,
        line.upto,
        line.text,
        line.digest,
        line.model,
        line.trust,
        line.fidelity,
        line.created,
    )
