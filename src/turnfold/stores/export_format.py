"""The export file: its lines (one JSON object each), a reader that validates them, and a writer of conversations.

A line is accepted only if decoding and encoding it gives the same bytes. That rules out duplicate keys, unknown fields,
NaN, lone surrogates, other spacing and other ways to write a number. Files with equal content have equal bytes.

An import reads the file twice. The first pass only validates, so that an invalid file never keeps a store busy. The
second pass yields the pieces to restore and validates again: if the file has changed meanwhile, the transaction fails.

An export writes each conversation to a temporary file first: if the conversation is deleted while its entries are read,
no part of it gets into the export.
"""

from __future__ import annotations

import hashlib
import math
import os
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Protocol, TypeAlias, assert_never

import msgspec

from turnfold.errors import InvalidExport, InvalidOption, InvalidRecord
from turnfold.records import Checkpoint, Document, Entry, decode_message, encode_message
from turnfold.stores.fork_guard import run_off_loop
from turnfold.stores.protocol import Captured, ConversationOpening, Piece, Scope, Store
from turnfold.stores.restore_checks import PieceOrder

__all__ = (
    "FORMAT",
    "LONGEST_LINE",
    "VERSION",
    "ExportReader",
    "ExportedConversation",
    "Footer",
    "Header",
    "Writable",
    "atomic_file",
    "export_conversation",
    "write_all",
    "write_line",
    "write_piece",
)


FORMAT = "turnfold-export"
VERSION = 1


class _Form(
    msgspec.Struct, frozen=True, tag_field="line", tag=str.lower, forbid_unknown_fields=True
):
    """Base class of all lines of an export file; the field `line` of a line names its kind."""


class Header(_Form, frozen=True):
    """The first line of an export: format, format version, and the turnfold release that wrote it."""

    format: str
    version: int
    created_by: str


class Conversation(_Form, frozen=True):
    """The first line of a conversation in an export: its id, times, and the highest version of a removed document."""

    name: str
    created: int
    updated: int
    dropped: int


class DocumentLine(_Form, frozen=True, tag="document", omit_defaults=True):
    """The line of a document in an export, with its body in base64, and its searchable text if it has one."""

    kind: str
    key: str
    version: int
    created: int
    body: bytes
    text: str = ""


class EntryLine(_Form, frozen=True, tag="entry"):
    """The line of an entry (stored message) in an export, with the message in its canonical JSON form."""

    seq: int
    turn: int
    created: int
    client_id: str
    message: msgspec.Raw


class CheckpointLine(_Form, frozen=True, tag="checkpoint"):
    """The line of a checkpoint (summary of the log up to an entry) in an export."""

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
    """The last line of a conversation in an export: how many lines of each kind it has, and their digest."""

    documents: int
    entries: int
    checkpoints: int
    digest: str


class Footer(_Form, frozen=True):
    """The last line of an export: totals of the file, and the digest of all lines before it."""

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
    """Return the bytes of a line of the export, with its newline."""
    return _encoder.encode(line) + b"\n"


def write_piece(piece: Piece) -> bytes:
    """Return the bytes of the export line for a part of a conversation: opening line, document, entry or checkpoint."""
    match piece:
        case ConversationOpening():
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
                float(piece.fidelity) + 0.0,  # turns -0.0 into 0.0: no database tells them apart
            )
        case _:
            assert_never(piece)
    return write_line(line)


def read_header(data: bytes) -> Header:
    """Return the decoded first line of an export; raise `InvalidExport` if this release cannot read the file."""
    try:
        any_header = _header_decoder.decode(data)
    except _UNREADABLE:
        raise InvalidExport(
            "not an export file",
            line=1,
            remedy=f'Its first line must be a JSON object with "format": "{FORMAT}" and a version',
        ) from None
    if any_header.format != FORMAT:
        raise InvalidExport(
            f"the format is {any_header.format!r}, not {FORMAT!r}: this is not an export of turnfold",
            line=1,
        )
    if any_header.version != VERSION:
        raise InvalidExport(
            f"the format has version {any_header.version}; this release reads version {VERSION}",
            line=1,
            remedy="Upgrade turnfold" if any_header.version > VERSION else "",
        )
    header = read_line(data, 1)
    if not isinstance(header, Header):
        raise InvalidExport(
            'the first line is not a valid header: it must have "line": "header"',
            line=1,
            remedy="Import the file as it was exported, without changes",
        )
    return header


def read_line(data: bytes, number: int) -> Line:
    """Decode a line and check that it is in canonical form; `number` is the line number that errors show."""
    try:
        line = _decoder.decode(data)
        canonical = write_line(line)
    except _UNREADABLE as error:
        raise InvalidExport(f"this is not a line of an export: {error}", line=number) from None
    if canonical != data:
        raise InvalidExport(
            "the line is not in canonical form (a duplicate key, or other spacing, order or numbers)",
            line=number,
            remedy="Import the file as it was exported, without changes",
        )
    return line


def read_piece(line: Line, number: int) -> Piece | None:
    """Return the opening, entry, checkpoint or document that a line of an export contains.

    Returns None if the line is of another kind.
    """
    match line:
        case Conversation():
            return ConversationOpening(line.name, line.created, line.updated, line.dropped)
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
        raise InvalidExport(
            "the message is not in its canonical form (other spacing, order or numbers)",
            line=number,
            remedy="Import the file as it was exported, without changes",
        )
    return Entry(line.seq, message, line.client_id, line.created, line.turn, tokens=0, running=0)


def _read_checkpoint(line: CheckpointLine, number: int) -> Checkpoint:
    if math.copysign(1.0, line.fidelity) < 0:
        raise InvalidExport(
            f"the fidelity of a checkpoint must be 0 to 1, got {line.fidelity}", line=number
        )
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


LONGEST_LINE = 32 << 20
"""Default limit for the bytes of a line. Decoding a message takes several times its size in memory."""
_PROGRESS_BYTES = 1 << 20


class Readable(Protocol):
    """A binary file that is read line by line."""

    def readline(self, limit: int, /) -> bytes:
        """Return the next line, or its first `limit` bytes."""
        ...


class ExportReader:
    """Reads an export once and validates it. `on_progress` is called with the bytes read, about once per megabyte."""

    def __init__(
        self, file: Readable, *, longest_line: int, on_progress: Callable[[int], None]
    ) -> None:
        self._file = file
        self._longest_line = longest_line
        self._on_progress = on_progress
        self._reported = 0
        self._whole = hashlib.sha256()
        self._content = hashlib.sha256()
        self._opening: ConversationOpening | None = None
        self._name = ""
        self._part = [0, 0, 0]
        self._total = [0, 0, 0]
        self._conversations = 0
        self._first_entries: dict[str, int] = {}
        self.names: list[str] = []
        """Ids of the conversations read so far."""
        self.line = 0
        """Number of the last line read."""
        self.size = 0
        """Bytes read so far; at the end, the size of the export."""
        self.digest = ""
        """SHA-256 of the file up to its footer; empty until the footer was verified."""

    def check(self) -> None:
        """Read the whole export; raise `InvalidExport` if any line cannot be restored."""
        order = PieceOrder()
        for piece in self.pieces():
            try:
                order.take(piece)
            except (InvalidRecord, InvalidOption) as error:
                raise InvalidExport(str(error), line=self.line) from None

    def pieces(self) -> Iterator[Piece]:
        """Yield the parts of all conversations in the file; raise `InvalidExport` if anything in it is invalid."""
        data = self._next()
        read_header(data)
        self._whole.update(data)
        while True:
            data = self._next()
            line = read_line(data, self.line)
            if isinstance(line, Footer):
                self._finish(line)
                return
            self._whole.update(data)
            piece = self._accept(line, data)
            if piece is not None:
                yield piece

    def line_of(self, conversation: str, seq: int) -> int:
        """Return the line number of an entry in the export.

        This works only for the conversation read last and the one before.
        """
        return self._first_entries.get(conversation, self.line - seq + 1) + seq - 1

    def _next(self) -> bytes:
        data = self._file.readline(self._longest_line + 1)
        if not isinstance(data, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] (a file opened as text)
            raise InvalidOption("an export must be read as bytes: open the file in binary mode")
        self.line += 1
        self.size += len(data)
        if len(data) > self._longest_line:
            raise InvalidExport(
                f"the line is longer than {self._longest_line:,} bytes",
                line=self.line,
                remedy="If you trust the file, raise longest_line",
            )
        if not data.endswith(b"\n"):
            raise InvalidExport(
                "the file ends before its footer", line=self.line, remedy="Export it again"
            )
        if self.size - self._reported >= _PROGRESS_BYTES:
            self._reported = self.size
            self._on_progress(self.size)
        return data

    def _accept(self, line: Line, data: bytes) -> Piece | None:
        """Check that a line may follow the lines before it.

        Returns the opening, entry, document or checkpoint that it contains; None for the end line of a conversation.
        """
        if isinstance(line, End):
            self._end(line)
            return None
        piece = read_piece(line, self.line)
        if isinstance(piece, ConversationOpening):
            self._begin(piece)
        elif piece is None or isinstance(line, Header):
            raise InvalidExport(
                "this is a second header: only line 1 may be a header", line=self.line
            )
        elif self._opening is None:
            raise InvalidExport(
                "this line is outside of a conversation: a conversation line must come before it",
                line=self.line,
            )
        else:
            self._content.update(data)
            kind = ("Document", "Entry", "Checkpoint").index(type(piece).__name__)
            self._part[kind] += 1
            if kind == 1:
                self._first_entries.setdefault(self._name, self.line)
        return piece

    def _begin(self, opening: ConversationOpening) -> None:
        if self._opening is not None:
            raise InvalidExport(
                f"the end line of conversation {self._name!r} is missing",
                line=self.line,
                remedy="Export it again",
            )
        name = opening.conversation
        if name <= self._name:
            problem = (
                "comes twice: an export has each conversation once"
                if name == self._name
                else f"comes after {self._name!r}: conversations must be sorted by name"
            )
            raise InvalidExport(f"conversation {name!r} {problem}", line=self.line)
        while len(self._first_entries) > 1:  # a store may be one conversation behind the reader
            del self._first_entries[next(iter(self._first_entries))]
        self._opening, self._name, self._part = opening, name, [0, 0, 0]
        self.names.append(name)
        self._content = hashlib.sha256()

    def _end(self, end: End) -> None:
        if self._opening is None:
            raise InvalidExport(
                "this end line is outside of a conversation: a conversation line must come before it",
                line=self.line,
            )
        self._compare_counts((end.documents, end.entries, end.checkpoints), self._part)
        if end.digest != content_digest(self._content, self._opening.created):
            raise InvalidExport(
                f"the digest of conversation {self._name!r} does not match: the conversation was changed or damaged",
                line=self.line,
                remedy="Export it again",
            )
        self._total = [total + part for total, part in zip(self._total, self._part, strict=True)]
        self._conversations += 1
        self._opening = None

    def _finish(self, footer: Footer) -> None:
        if self._opening is not None:
            raise InvalidExport(
                f"the end line of conversation {self._name!r} is missing",
                line=self.line,
                remedy="Export it again",
            )
        stated = (footer.conversations, footer.documents, footer.entries, footer.checkpoints)
        self._compare_counts(stated, (self._conversations, *self._total))
        if footer.digest != self._whole.hexdigest():
            raise InvalidExport(
                "the digest of the file does not match: the file was changed or damaged",
                line=self.line,
                remedy="Export it again",
            )
        if self._file.readline(1):
            raise InvalidExport(
                "data follows the footer, which must be the last line",
                line=self.line + 1,
                remedy="Import the file as it was exported, without changes",
            )
        self.digest = footer.digest
        self._on_progress(self.size)

    def _compare_counts(self, stated: tuple[int, ...], found: Sequence[int]) -> None:
        if list(stated) != list(found):
            raise InvalidExport(
                f"the counts in this line are {', '.join(map(str, stated))}, but {', '.join(map(str, found))} were "
                "read: lines are missing or were added",
                line=self.line,
                remedy="Export it again",
            )


def content_digest(content: hashlib._Hash, created: int) -> str:  # pyright: ignore[reportPrivateUsage] (its only name)
    """Return the SHA-256 of a conversation's lines and creation time, but not of its name and token counts."""
    whole = content.copy()
    whole.update(b"%d" % created)
    return whole.hexdigest()


_FIRST_PAGE = 100
_LARGEST_PAGE = 1000
_PAGE_BYTES = 4 << 20


class Writable(Protocol):
    """A binary file to write to."""

    def write(self, data: bytes, /) -> int | None:
        """Write the data; return the number of bytes written, or None if all were written."""
        ...


def write_all(file: Writable, data: bytes) -> None:
    """Write all of the data, even if the file accepts only a part of it per call."""
    done = file.write(data)
    while done is not None and done < len(data):
        data = data[done:]
        done = file.write(data)


class ExportedConversation:
    """Writes the documents, entries and checkpoints of one conversation as lines, and computes their digest.

    `file` is None to compute the digest only.
    """

    def __init__(self, file: IO[bytes] | None) -> None:
        self.file = file
        self.documents = self.entries = self.checkpoints = self.size = self.longest = 0
        self._content = hashlib.sha256()

    def add_document(self, document: Document) -> None:
        """Write the line of a document to the export, and count it."""
        self.documents += 1
        self._add(write_piece(document))

    def add_entries(self, entries: list[Entry]) -> None:
        """Write the lines of entries to the export, and count them."""
        self.entries += len(entries)
        for entry in entries:
            self._add(write_piece(entry))

    def add_checkpoints(self, checkpoints: tuple[Checkpoint, ...]) -> None:
        """Write the lines of checkpoints (summaries) to the export, and count them."""
        self.checkpoints += len(checkpoints)
        for checkpoint in checkpoints:
            self._add(write_piece(checkpoint))

    def _add(self, line: bytes) -> None:
        self._content.update(line)
        self.size += len(line)
        self.longest = max(self.longest, len(line))
        if self.file is not None:
            self.file.write(line)

    def digest(self, created: int) -> str:
        """Return the digest of the lines added so far and the conversation's creation time."""
        return content_digest(self._content, created)

    def end(self, created: int) -> bytes:
        """Return the last line of the conversation, with the counts and the digest of its lines."""
        return write_line(End(self.documents, self.entries, self.checkpoints, self.digest(created)))


async def export_conversation(
    store: Store,
    scope: Scope,
    conversation: str,
    exported: ExportedConversation,
    *,
    on_progress: Callable[[int], None],
) -> Captured | None:
    """Write a snapshot of a conversation to `exported`; return None if it does not exist or is deleted meanwhile."""
    captured = await store.capture(scope, conversation, exported.add_document)
    if captured is None:
        return None
    last, many = captured.head.seq, _FIRST_PAGE
    while exported.entries < last:
        before = exported.size
        page = await store.read(scope, conversation, after=exported.entries, upto=last, limit=many)
        if not page:
            return None
        work = partial(exported.add_entries, page)
        await run_off_loop(work, blocking=store.blocking)
        many = max(1, min(_LARGEST_PAGE, _PAGE_BYTES * len(page) // (exported.size - before)))
        on_progress(exported.entries)
    work = partial(exported.add_checkpoints, captured.checkpoints)
    await run_off_loop(work, blocking=store.blocking)
    return captured


@contextmanager
def atomic_file(path: Path) -> Generator[IO[bytes]]:
    """Open a temporary file that replaces `path` when the block ends; after an exception, `path` stays as it was."""
    path = path.absolute()
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return  # Windows cannot sync a folder
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
