"""Reading an export line by line, believing nothing of it: every line, count and digest is checked as it passes.

The same reading is done twice. The first time only checks, so that a bad file never keeps a store busy; the second time
hands the pieces on, and checks again, so that a file that changed meanwhile is refused inside the transaction it feeds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Protocol

from turnfold.errors import InvalidExport, InvalidOption, InvalidRecord
from turnfold.stores.protocol import Opening, Piece
from turnfold.stores.restoring import Order
from turnfold.stores.transfer_lines import (
    End,
    Footer,
    Header,
    Line,
    read_header,
    read_line,
    read_piece,
)

__all__ = ("LONGEST_LINE", "ExportReader", "Readable", "content_digest")

LONGEST_LINE = 32 << 20
"""Bytes of a line that is read unless more are allowed: a message of that size takes several times as much memory."""
_STEP = 1 << 20


class Readable(Protocol):
    """What is asked of a file that is read once."""

    def readline(self, limit: int, /) -> bytes:
        """The next line, or as much of it."""
        ...


class ExportReader:
    """One reading of an export. `tell` is called with the bytes read, about once per megabyte."""

    def __init__(self, file: Readable, *, longest_line: int, tell: Callable[[int], None]) -> None:
        self._file = file
        self._longest_line = longest_line
        self._tell = tell
        self._told = 0
        self._whole = hashlib.sha256()
        self._content = hashlib.sha256()
        self._opening: Opening | None = None
        self._name = ""
        self._part = [0, 0, 0]
        self._total = [0, 0, 0]
        self._conversations = 0
        self._first_entries: dict[str, int] = {}
        self.line = 0
        """The line read last."""
        self.size = 0
        """Bytes read so far; at the end, the size of the export."""
        self.digest = ""
        """What the footer says, once it was found right."""

    def check(self) -> None:
        """Read everything, and refuse whatever no store could restore."""
        order = Order()
        for piece in self.pieces():
            try:
                order.take(piece)
            except (InvalidRecord, InvalidOption) as error:
                raise InvalidExport(str(error), line=self.line) from None

    def pieces(self) -> Iterator[Piece]:
        """The pieces, one by one; the end is reached only if the footer is right and nothing follows it."""
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
            piece = self._follow(line, data)
            if piece is not None:
                yield piece

    def line_of(self, conversation: str, seq: int) -> int:
        """The line of an entry that was read not long ago."""
        return self._first_entries.get(conversation, self.line - seq + 1) + seq - 1

    def _next(self) -> bytes:
        data = self._file.readline(self._longest_line + 1)
        if not isinstance(data, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] (a file opened as text)
            raise InvalidOption("an export is read as bytes: open the file in binary mode")
        self.line += 1
        self.size += len(data)
        if len(data) > self._longest_line:
            raise InvalidExport(
                f"longer than {self._longest_line:,} bytes",
                line=self.line,
                remedy="If the file is yours, allow it with longest_line",
            )
        if not data.endswith(b"\n"):
            raise InvalidExport(
                "the file ends before its footer", line=self.line, remedy="Export it again"
            )
        if self.size - self._told >= _STEP:
            self._told = self.size
            self._tell(self.size)
        return data

    def _follow(self, line: Line, data: bytes) -> Piece | None:
        """Go one line further; the piece that is in it."""
        if isinstance(line, End):
            self._end(line)
            return None
        piece = read_piece(line, self.line)
        if isinstance(piece, Opening):
            self._begin(piece)
        elif piece is None or isinstance(line, Header):
            raise InvalidExport("a second header", line=self.line)
        elif self._opening is None:
            raise InvalidExport("outside of a conversation", line=self.line)
        else:
            self._content.update(data)
            kind = ("Document", "Entry", "Checkpoint").index(type(piece).__name__)
            self._part[kind] += 1
            if kind == 1:
                self._first_entries.setdefault(self._name, self.line)
        return piece

    def _begin(self, opening: Opening) -> None:
        if self._opening is not None:
            raise InvalidExport(f"conversation {self._name!r} has not ended", line=self.line)
        name = opening.conversation
        if name <= self._name:
            raise InvalidExport(
                f"conversation {name!r} stands after {self._name!r}: each stands once, by name",
                line=self.line,
            )
        while len(self._first_entries) > 1:  # a store may lag one conversation behind
            del self._first_entries[next(iter(self._first_entries))]
        self._opening, self._name, self._part = opening, name, [0, 0, 0]
        self._content = hashlib.sha256()

    def _end(self, end: End) -> None:
        if self._opening is None:
            raise InvalidExport("the end of no conversation", line=self.line)
        self._compare_counts((end.documents, end.entries, end.checkpoints), self._part)
        if end.digest != content_digest(self._content, self._opening.created):
            raise InvalidExport(
                f"the digest of conversation {self._name!r} is another", line=self.line
            )
        self._total = [total + part for total, part in zip(self._total, self._part, strict=True)]
        self._conversations += 1
        self._opening = None

    def _finish(self, footer: Footer) -> None:
        if self._opening is not None:
            raise InvalidExport(f"conversation {self._name!r} has not ended", line=self.line)
        told = (footer.conversations, footer.documents, footer.entries, footer.checkpoints)
        self._compare_counts(told, (self._conversations, *self._total))
        if footer.digest != self._whole.hexdigest():
            raise InvalidExport(
                "the digest of the file is another: it was changed or damaged",
                line=self.line,
                remedy="Export it again",
            )
        if self._file.readline(1):
            raise InvalidExport("something follows the footer", line=self.line + 1)
        self.digest = footer.digest
        self._tell(self.size)

    def _compare_counts(self, told: tuple[int, ...], found: tuple[int, ...] | list[int]) -> None:
        if list(told) != list(found):
            raise InvalidExport(
                f"counts {', '.join(map(str, told))} where {', '.join(map(str, found))} were read",
                line=self.line,
            )


def content_digest(content: hashlib._Hash, created: int) -> str:  # pyright: ignore[reportPrivateUsage] (its only name)
    """The digest of a conversation: of its lines, and of when it began; not of costs, nor of where it stands."""
    whole = content.copy()
    whole.update(b"%d" % created)
    return whole.hexdigest()
