"""JSON values out of a file of any size, one at a time, each with the line it begins on.

A list is given element by element, JSON Lines line by line, one object as itself. Files may be compressed with gzip,
or be the zip archive a provider sends; nothing is unpacked to disk and no more than one value is held.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zipfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from turnfold.errors import InvalidExport, NotFound
from turnfold.memory.importing.pieces import Bad

__all__ = ("LONGEST_VALUE", "Value", "opened", "values")

LONGEST_VALUE = 512 << 20
"""Characters a single value may have: a longer one is no conversation but a damaged file."""
_CHUNK = 1 << 20
_STRUCTURE = re.compile(r'["{}\[\]]')
_STRING_END = re.compile(r'["\\]')
_SPACE = " \t\r\n,"
_DECODER = json.JSONDecoder()
_LONGEST_ATOM = 16
"""Characters of a number, a word or an escape that may lie before the place where a text was cut."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value and where it begins."""

    line: int
    value: object


@contextmanager
def opened(path: Path) -> Generator[IO[str]]:
    """The text of a file, whatever it is packed in."""
    try:
        with path.open("rb") as file:
            start = file.read(2)
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}") from None
    except OSError as error:
        raise InvalidExport(f"{path} cannot be read: {error.strerror}", line=1) from None
    if start == b"PK":
        with zipfile.ZipFile(path) as archive, archive.open(_member(archive, path)) as file:
            yield io.TextIOWrapper(file, encoding="utf-8-sig", newline="\n")
    elif start == b"\x1f\x8b":
        with gzip.open(path, "rt", encoding="utf-8-sig", newline="\n") as file:
            yield file
    else:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            yield file


def _member(archive: zipfile.ZipFile, path: Path) -> str:
    names = [name for name in archive.namelist() if Path(name).name.startswith("conversations")]
    names = [name for name in names if name.endswith(".json")]
    if len(names) != 1:
        raise InvalidExport(
            f"{path} holds {len(names)} files named conversations*.json where one is expected",
            line=1,
            remedy="Unpack it and import the files one by one",
        )
    return names[0]


def values(file: IO[str]) -> Iterator[Value | Bad]:
    """Every value of the file, in order."""
    first = file.readline(_CHUNK)  # a whole export may stand on one line
    while first and not first.strip():
        first = file.readline(_CHUNK)
    if not first.lstrip().startswith("["):
        first = _rest_of_line(first, file, 1)
    if first.lstrip().startswith("[") or (first and _whole(first) is None):
        yield from _nested(first, file)
    else:
        yield from _lines(first, file)


def _whole(line: str) -> Value | None:
    try:
        return Value(1, cast("object", json.loads(line)))
    except (ValueError, RecursionError):
        return None


def _lines(first: str, file: IO[str]) -> Iterator[Value | Bad]:
    line, number = first, 1
    while line:
        if line.strip():
            yield _parsed(line, number)
        number += 1
        line = _rest_of_line("", file, number)


def _rest_of_line(begun: str, file: IO[str], number: int) -> str:
    """A line to its end. A compressed file of a few kilobytes may hold one of gigabytes, which is not read."""
    if begun.endswith("\n"):
        return begun
    line = begun + file.readline(LONGEST_VALUE - len(begun) + 1)
    if len(line) > LONGEST_VALUE:
        raise InvalidExport(
            f"it has more than {LONGEST_VALUE:,} characters, which no conversation has", line=number
        )
    return line


def _parsed(text: str, line: int) -> Value | Bad:
    try:
        return Value(line, cast("object", json.loads(text)))
    except RecursionError:
        return Bad(line, "nested too deeply to be read")
    except ValueError as error:
        return Bad(line, f"not JSON: {error}")


def _nested(first: str, file: IO[str]) -> Iterator[Value | Bad]:
    """The elements of a list, or objects written over many lines."""
    scan = _Scan(first, file)
    scan.skip_opening()
    while (found := scan.next_value()) is not None:
        yield found


class _Scan:
    """One value after the other; no more of the file than that value is held.

    What is no JSON ends where its brackets say, so that the value behind it is found all the same.
    """

    def __init__(self, first: str, file: IO[str]) -> None:
        self._text, self._file = first, file
        self._at, self._line = 0, 1
        self._list = False

    def skip_opening(self) -> None:
        """Go into the list, if the file is one."""
        self._skip()
        if self._text[self._at : self._at + 1] == "[":
            self._list = True
            self._at += 1

    def next_value(self) -> Value | Bad | None:
        """The next value, or None at the end."""
        self._skip()
        opening = self._text[self._at : self._at + 1]
        if not opening or (self._list and opening == "]"):
            if self._list and not opening:
                self._list = False
                return Bad(self._line, "the file ends inside its list: it was cut off")
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
            return Bad(line, "the file ends inside this value, or it is no JSON object")
        text = self._text[self._at : end]
        self._forget(end)
        return _parsed(text, line)

    def _decoded(self) -> tuple[object, int] | None:
        """The value that begins here and where it ends; None where it is no JSON, which is looked at more slowly."""
        while True:
            try:
                return _DECODER.raw_decode(self._text, self._at)
            except RecursionError:
                return None
            except json.JSONDecodeError as error:
                at_the_end = error.pos >= len(self._text) - _LONGEST_ATOM
                cut = at_the_end or error.msg.startswith("Unterminated string")
                if not cut or len(self._text) - self._at > LONGEST_VALUE or not self._more():
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
            if len(self._text) > LONGEST_VALUE or not self._more():
                return None

    def _more(self) -> bool:
        chunk = self._file.read(max(_CHUNK, len(self._text)))  # twice as much each time: linear
        self._text += chunk
        return bool(chunk)

    def _skip(self) -> None:
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._line += self._text[self._at] == "\n"
                self._at += 1
            if self._at < len(self._text) or not self._more():
                return

    def _forget(self, end: int) -> None:
        self._line += self._text.count("\n", self._at, end)
        self._at = end
        if end > _CHUNK:
            self._text, self._at = self._text[end:], 0
