"""Reader of JSON files of any size: yields one value at a time, with the line on which it begins.

A list is read element by element, JSON Lines line by line, and a single object as one value. Files may be compressed
with gzip or be the zip archive that a provider sends; nothing is unpacked to disk and only one value is in memory.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from turnfold.errors import InvalidExport, NotFound
from turnfold.importers.reader_events import UnreadableItem
from turnfold.records import object_of_pairs

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer as Buffer

__all__ = (
    "Fields",
    "Value",
    "open_text",
    "read_fields",
    "read_values",
    "text_field",
    "unpacked",
)


_LONGEST_VALUE = 128 << 20
"""Most characters that a single JSON value, or the white space before it, may have; with more, the file counts as
damaged."""
_CHUNK = 1 << 20
_DAMAGED = (
    zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError
)  # fmt: skip
"""Errors that unpacking a damaged file can raise. An unknown method is a NotImplementedError, encrypted content a
RuntimeError."""
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_LARGEST_DIRECTORY = 8 << 20
"""Most bytes of the list of files in a zip file; each file in it takes several times its bytes of memory."""
_UNPACKED_FREELY = 64 << 20
"""Number of bytes to which every compressed file may unpack, however small it is; beyond that a ratio limits it
(protection against zip bombs)."""
_MOST_RATIO = 200
"""Limit for larger compressed files: one may unpack to at most this many times its own size."""
_MOST_BLANK = 1_000_000
"""Most empty lines in a row that are skipped; each costs as much time as a line with a message."""
_DEEPEST = 100_000
"""Depth of nested brackets from which a value is not read to its end, because it could not be decoded anyway."""
_STRUCTURE = re.compile(r'["{}\[\]]')
_STRING_END = re.compile(r'["\\]')
_NO_SPACE = re.compile(r"[^ \t\r\n,]")
_MAX_ATOM = 16
"""If a JSON parser fails at most this many characters before the end of what was read, the value may be cut off there:
more is read before it counts as an error."""


_DECODER = json.JSONDecoder(object_pairs_hook=object_of_pairs)


@dataclass(frozen=True, slots=True)
class Value:
    """A JSON value, and the number of the line on which it begins."""

    line: int
    value: object


@contextmanager
def open_text(path: Path) -> Generator[IO[str]]:
    """Context manager: opens a plain, gzip or zip file as UTF-8 text.

    Raises `NotFound` if there is no such file, `InvalidExport` if it cannot be read.
    """
    try:
        with path.open("rb") as file:
            start = file.read(2)
    except FileNotFoundError:
        raise NotFound(f"file not found: {path}") from None
    except OSError as error:
        raise InvalidExport(f"{path} cannot be read: {error.strerror}") from None
    try:
        if start == b"PK":
            with ExitStack() as stack:
                with _told_if_damaged(path):
                    opened = stack.enter_context(_ArchiveFile(path.open("rb", buffering=0)))
                    archive = stack.enter_context(zipfile.ZipFile(opened))
                    file = stack.enter_context(archive.open(_member(archive, path)))
                yield _unpacked_text(file, path)
        elif start == b"\x1f\x8b":
            with gzip.open(path) as file:
                yield _unpacked_text(file, path)
        else:
            with path.open(encoding="utf-8-sig", newline="\n") as file:
                yield file
    except UnicodeDecodeError as error:
        raise InvalidExport(
            f"{path} is not text in UTF-8: save it as UTF-8, or convert it, for example with "
            f"iconv -f GBK -t UTF-8 {path.name} > utf8-{path.name}",
        ) from error


@contextmanager
def _told_if_damaged(path: Path) -> Generator[None]:
    """Context manager: every error that unpacking a file can raise becomes `InvalidExport`."""
    try:
        yield
    except _DAMAGED as error:
        raise InvalidExport(f"{path} is damaged: {error}") from None


class _ArchiveFile(io.BufferedReader):
    """A zip file; raises `BadZipFile` if its list of files, which is read at once, is too large."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read at most `size` bytes."""
        if size is not None and size > _LARGEST_DIRECTORY:
            raise zipfile.BadZipFile(
                f"its list of files has more than {_LARGEST_DIRECTORY:,} bytes"
            )
        return super().read(size)


class _Unpacked(io.RawIOBase):
    """The content of a compressed file; raises `InvalidExport` once it is far larger than text ever is.

    Text is compressed ten- to thirtyfold. A file that grows a thousandfold keeps a program busy for hours.
    """

    def __init__(self, file: IO[bytes] | gzip.GzipFile, path: Path) -> None:
        self._file = file
        self._path = path
        self._left = max(_UNPACKED_FREELY, _MOST_RATIO * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer)
        with _told_if_damaged(self._path):
            data = self._file.read(len(view))
        self._left -= len(data)
        if self._left < 0:
            raise InvalidExport(
                f"{self._path} unpacks to more than {_MOST_RATIO} times its size, so it is no text",
                remedy="Unpack it and look at its content",
            )
        view[: len(data)] = data
        return len(data)


def unpacked(file: IO[bytes] | gzip.GzipFile, path: Path) -> io.BufferedReader:
    """Return the content of a compressed file, as bytes; reading more than a text can have raises `InvalidExport`."""
    return io.BufferedReader(_Unpacked(file, path), _CHUNK)


def _unpacked_text(file: IO[bytes] | gzip.GzipFile, path: Path) -> IO[str]:
    return io.TextIOWrapper(unpacked(file, path), encoding="utf-8-sig", newline="\n")


def _member(archive: zipfile.ZipFile, path: Path) -> str:
    names = [name for name in archive.namelist() if Path(name).name.startswith("conversations")]
    names = [name for name in names if name.endswith(".json")]
    if len(names) == 1 and archive.getinfo(names[0]).compress_type not in _PACKINGS:
        raise zipfile.BadZipFile("it is packed in another way than exports are")
    if len(names) != 1:
        raise InvalidExport(
            f"{path} contains {len(names)} files named conversations*.json; one is expected",
            remedy="Unpack it and import the files one by one",
        )
    return names[0]


def read_values(file: IO[str]) -> Iterator[Value | UnreadableItem]:
    """Yield every JSON value of a file, in order; a value that is not valid JSON becomes an `UnreadableItem`."""
    first, number = file.readline(_CHUNK), 1  # a whole export may be on one line
    while first and not first.strip():
        number += first.endswith("\n")
        _check_blank(number, number)
        first = file.readline(_CHUNK)
    if not first.lstrip().startswith("["):
        first = _rest_of_line(first, file, number)
    if first.lstrip().startswith("[") or (first and not _is_json(first)):
        yield from _elements(first, file, number)
    else:
        yield from _lines(first, file, number)


def _is_json(line: str) -> bool:
    return isinstance(_parse(line, 1), Value)


def _lines(first: str, file: IO[str], number: int) -> Iterator[Value | UnreadableItem]:
    line, blank = first, 0
    while line:
        if line.strip():
            yield _parse(line, number)
            blank = 0
        else:
            blank += 1
            _check_blank(blank, number)
        number += 1
        line = _rest_of_line("", file, number)


def _check_blank(lines: int, number: int) -> None:
    if lines > _MOST_BLANK:
        raise InvalidExport(f"more than {_MOST_BLANK:,} empty lines in a row", line=number)


def _rest_of_line(begun: str, file: IO[str], number: int) -> str:
    """Read a line to its end; raise `InvalidExport` above a limit, because compressed lines may unpack to gigabytes."""
    if begun.endswith("\n"):
        return begun
    line = begun + file.readline(_LONGEST_VALUE - len(begun) + 1)
    if len(line) > _LONGEST_VALUE:
        raise InvalidExport(
            f"the line has more than {_LONGEST_VALUE:,} characters, the most that can be imported",
            line=number,
        )
    return line


def _parse(text: str, line: int) -> Value | UnreadableItem:
    try:
        return Value(line, cast("object", _DECODER.decode(text)))
    except RecursionError:
        return UnreadableItem(line, "nested too deeply to be read")
    except ValueError as error:
        return UnreadableItem(line, f"not JSON: {error}")


def _elements(first: str, file: IO[str], number: int) -> Iterator[Value | UnreadableItem]:
    """Yield the elements of a JSON list, or objects that span several lines.

    `number` is the number of the line `first`.
    """
    scan = _Scan(first, file, number)
    scan.skip_opening()
    while (found := scan.next_value()) is not None:
        yield found


class _Scan:
    """Reads a JSON file value by value; only the current value is in memory.

    A value that is not valid JSON is skipped up to its closing bracket, so that the values after it are found too.
    """

    def __init__(self, first: str, file: IO[str], number: int) -> None:
        self._text, self._file = first, file
        self._at, self._line = 0, number
        self._list = False

    def skip_opening(self) -> None:
        """Skip the opening bracket if the file is a JSON list."""
        self._skip()
        if self._text[self._at : self._at + 1] == "[":
            self._list = True
            self._at += 1

    def next_value(self) -> Value | UnreadableItem | None:
        """Return the next JSON value; None at the end of the file."""
        self._skip()
        opening = self._text[self._at : self._at + 1]
        if not opening or (self._list and opening == "]"):
            if self._list and not opening:
                self._list = False
                return UnreadableItem(self._line, "the file ends inside its list: it is truncated")
            return None
        line = self._line
        whole = self._decoded() if opening in "{[" else None
        if whole is not None:
            value, end = whole
            self._forget(end)
            return Value(line, value)
        end = self._end_of_value(self._at)
        if end is None:
            self._text, self._at, self._list = "", 0, False
            self._file = io.StringIO()  # where the next value begins cannot be told
            return UnreadableItem(
                line,
                "the file ends inside this value, or it is not a JSON object, or nested too deeply",
            )
        text = self._text[self._at : end]
        self._forget(end)
        return _parse(text, line)

    def _decoded(self) -> tuple[object, int] | None:
        """Decode the JSON value at the current position; return it and its end, None if it is not valid JSON."""
        while True:
            try:
                return _DECODER.raw_decode(self._text, self._at)
            except RecursionError:
                return None
            except json.JSONDecodeError as error:
                at_the_end = error.pos >= len(self._text) - _MAX_ATOM
                cut = at_the_end or error.msg.startswith("Unterminated string")
                if not cut or not self._more():
                    return None
            except ValueError:  # a key that is given twice: `_parse` tells which
                return None

    def _end_of_value(self, start: int) -> int | None:
        if self._text[start] not in "{[":
            return None
        depth, at = 0, start
        while (found := self._search(_STRUCTURE, at)) is not None:
            mark = self._text[found]
            at = found + 1
            if mark == '"':
                closed = self._end_of_string(at)
                if closed is None:
                    return None
                at = closed
                continue
            depth += 1 if mark in "{[" else -1
            if depth == 0:
                return at
            if depth > _DEEPEST:
                return None
        return None

    def _end_of_string(self, at: int) -> int | None:
        while (found := self._search(_STRING_END, at)) is not None:
            if self._text[found] == '"':
                return found + 1
            at = found + 2
        return None

    def _search(self, pattern: re.Pattern[str], at: int) -> int | None:
        while True:
            found = pattern.search(self._text, at)
            if found is not None:
                return found.start()
            at = max(at, len(self._text))
            if not self._more():
                return None

    def _more(self) -> bool:
        if len(self._text) - self._at > _LONGEST_VALUE:
            raise InvalidExport(
                f"the value has more than {_LONGEST_VALUE:,} characters, the most that can be imported",
                line=self._line,
            )
        # Doubling, so that the total is linear, up to the limit: a small compressed file may contain gigabytes.
        chunk = self._file.read(min(max(_CHUNK, len(self._text)), _LONGEST_VALUE))
        self._text += chunk
        return bool(chunk)

    def _skip(self) -> None:
        skipped = 0
        while True:
            found = _NO_SPACE.search(self._text, self._at)
            end = found.start() if found is not None else len(self._text)
            self._line += self._text.count("\n", self._at, end)
            skipped += end - self._at
            self._at = end
            if skipped > _LONGEST_VALUE:
                raise InvalidExport(
                    f"more than {_LONGEST_VALUE:,} spaces in a row", line=self._line
                )
            if found is not None:
                return
            self._text, self._at = "", 0
            if not self._more():
                return

    def _forget(self, end: int) -> None:
        self._line += self._text.count("\n", self._at, end)
        self._at = end
        if end > _CHUNK:
            self._text, self._at = self._text[end:], 0


Fields = dict[str, object]


def read_fields(value: object) -> Fields:
    """Return the fields of a JSON object; an empty dict if the value is not an object."""
    return cast("Fields", value) if isinstance(value, dict) else {}


def text_field(fields: Fields, key: str) -> str:
    """Return the field `key` if it is a string, else an empty string."""
    value = fields.get(key)
    return value if isinstance(value, str) else ""
