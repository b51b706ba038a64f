"""Conversations from store to store through a file: exact, all or nothing, and safe to read from anyone.

The file is JSON Lines: a header; for each conversation, by name, an opening, its documents, entries and checkpoints and
an end with their digest; a footer with the digest of everything. What a message cost is not in it: the store that
imports counts for itself. The digest of a conversation is the same in every store that has the same content.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Protocol, TypeAlias

from turnfold.errors import InvalidExport, InvalidOption, InvalidRecord
from turnfold.stores.protocol import Scope, Store, check_name
from turnfold.stores.restoring import RepeatedId
from turnfold.stores.transfer_lines import FORMAT, VERSION, Footer, Header, write_line, write_piece
from turnfold.stores.transfer_reading import LONGEST_LINE, ExportReader
from turnfold.stores.transfer_writing import (
    Chapter,
    Writable,
    aside,
    read_chapter,
    replaced,
    write_all,
)

__all__ = (
    "LONGEST_LINE",
    "Progress",
    "Source",
    "Transferred",
    "digest",
    "export_to",
    "import_from",
)

_IN_MEMORY = 1 << 20
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a transfer is."""

    what: str
    """`exporting` counts entries; `checking` and `restoring`, in this order, count bytes of the file."""
    done: int
    total: int
    """As far as it is known; at the end of each step it equals `done`."""


@dataclass(frozen=True, slots=True)
class Transferred:
    """What an export wrote to a file, or an import to a store."""

    conversations: int
    entries: int
    checkpoints: int
    documents: int
    already: int = 0
    """Conversations an import found in the store, the same as in the file."""
    left_out: tuple[str, ...] = ()
    """Conversations that were erased while they were exported."""
    size: int = 0
    """Bytes of the file."""
    longest_line: int = 0
    """Bytes of its longest line, when it was exported; see `LONGEST_LINE`."""
    digest: str = ""
    """SHA-256 of the file up to its footer."""


class Source(Protocol):
    """What is asked of a file object to import from; one that cannot seek is kept in a temporary file meanwhile."""

    def readline(self, limit: int, /) -> bytes:
        """The next line, or as much of it."""
        ...

    def seekable(self) -> bool:
        """Whether the other two work."""
        ...

    def seek(self, offset: int, whence: int = ..., /) -> int:
        """Go to a place."""
        ...

    def tell(self) -> int:
        """Which place this is."""
        ...


Report: TypeAlias = Callable[[Progress], object]


# -------------------------------------------------------------------------------------------- export


async def export_to(
    store: Store,
    scope: Scope,
    target: str | os.PathLike[str] | Writable,
    *,
    conversations: Iterable[str] | None = None,
    progress: Report | None = None,
) -> Transferred:
    """Write the scope's conversations, or those named, to a path or a binary file.

    A path has the whole export or what it had before. Writers need not stop: each conversation is written as it was
    at one instant. `progress` is called now and then, from whichever thread works.
    """
    names, total = await _names(store, scope, conversations)
    steps = _Steps("exporting", progress, total)
    if isinstance(target, str | os.PathLike):
        with replaced(Path(target)) as file:
            done = await _Export(store, scope, file, steps).write(names)
    else:
        done = await _Export(store, scope, target, steps).write(names)
    steps.finish()
    return done


async def digest(store: Store, scope: Scope, conversation: str) -> str:
    """The digest of a conversation's content: the same in every store that has the same."""
    chapter = Chapter(None)
    captured = await read_chapter(store, scope, conversation, chapter, tell=_ignore)
    if captured is None:
        raise InvalidOption(f"conversation {conversation!r} is not there")
    return chapter.digest(captured.opening.created)


async def _names(store: Store, scope: Scope, wanted: Iterable[str] | None) -> tuple[list[str], int]:
    """The conversations to export, by name, and how many entries they have together."""
    chosen = None if wanted is None else set(wanted)
    for name in chosen or ():
        check_name(name, "conversation id")
    found: dict[str, int] = {}
    after = ""
    while page := await store.conversations(scope, after=after, limit=_PAGE):
        after = page[-1].conversation
        found.update(
            (info.conversation, info.head.seq)
            for info in page
            if chosen is None or info.conversation in chosen
        )
    missing = sorted((chosen or set()) - set(found))
    if missing:
        raise InvalidOption(
            f"{len(missing)} of the {len(chosen or ())} conversations to export are not there, "
            f"{missing[0]!r} among them"
        )
    return sorted(found), sum(found.values())


class _Export:
    def __init__(self, store: Store, scope: Scope, file: Writable, steps: _Steps) -> None:
        self._store, self._scope, self._file, self._steps = store, scope, file, steps
        self._sha = hashlib.sha256()
        self._size = self._longest = 0
        self._counts = [0, 0, 0, 0]
        self._left_out: list[str] = []

    async def write(self, names: list[str]) -> Transferred:
        # By name: the package as a whole stands above this layer.
        release: str = vars(import_module("turnfold"))["__version__"]
        header = Header(FORMAT, VERSION, release)
        await aside(self._store, lambda: self._put(write_line(header)))
        for name in names:
            await self._write_conversation(name)
        checksum = self._sha.hexdigest()
        conversations, documents, entries, checkpoints = self._counts
        footer = Footer(conversations, documents, entries, checkpoints, checksum)
        await aside(self._store, lambda: self._put(write_line(footer)))
        return Transferred(
            conversations,
            entries,
            checkpoints,
            documents,
            left_out=tuple(self._left_out),
            size=self._size,
            longest_line=self._longest,
            digest=checksum,
        )

    async def _write_conversation(self, name: str) -> None:
        before = self._steps.done
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as spool:
            chapter = Chapter(spool)
            captured = await read_chapter(
                self._store,
                self._scope,
                name,
                chapter,
                tell=lambda entries: self._steps.reach(before + entries),
            )
            if captured is None:
                self._left_out.append(name)
                return
            opening = captured.opening

            def put() -> None:
                self._put(write_piece(opening))
                spool.seek(0)
                while data := spool.read(_IN_MEMORY):
                    self._put(data, longest=chapter.longest)
                self._put(chapter.end(opening.created))

            await aside(self._store, put)
        parts = (1, chapter.documents, chapter.entries, chapter.checkpoints)
        self._counts = [total + part for total, part in zip(self._counts, parts, strict=True)]

    def _put(self, data: bytes, *, longest: int | None = None) -> None:
        self._sha.update(data)
        self._size += len(data)
        self._longest = max(self._longest, len(data) if longest is None else longest)
        write_all(self._file, data)


# -------------------------------------------------------------------------------------------- import


async def import_from(
    store: Store,
    scope: Scope,
    source: str | os.PathLike[str] | Source,
    *,
    longest_line: int = LONGEST_LINE,
    progress: Report | None = None,
) -> Transferred:
    """Restore all conversations of an export, or none: whatever is refused, nothing was written.

    The file is checked whole before the store is asked to write. What is in the store and the same is left alone, so
    an import can be repeated. `progress` is called now and then, from whichever thread works.
    """
    if longest_line < 1:
        raise InvalidOption(f"longest_line must be at least 1, got {longest_line}")
    with _opened(source) as file:
        steps = _Steps("checking", progress, file.size)
        reader = ExportReader(file, longest_line=longest_line, tell=steps.reach)
        await aside(store, reader.check)
        steps.finish()
        steps = _Steps("restoring", progress, reader.size)
        again = ExportReader(file.again(), longest_line=longest_line, tell=steps.reach)
        try:
            restored = await store.restore(scope, again.pieces())
        except RepeatedId as error:
            line = again.line_of(error.conversation, error.seq)
            raise InvalidExport(str(error), line=line) from None
        except InvalidRecord as error:
            raise InvalidExport(f"the file has changed: {error}", line=again.line) from None
    steps.finish()
    return Transferred(
        restored.conversations,
        restored.entries,
        restored.checkpoints,
        restored.documents,
        already=restored.already,
        size=again.size,
        digest=again.digest,
    )


@contextmanager
def _opened(source: str | os.PathLike[str] | Source) -> Generator[_Twice]:
    if isinstance(source, str | os.PathLike):
        with Path(source).open("rb") as file:
            yield _Twice(file, None)
    elif source.seekable():
        yield _Twice(source, None)
    else:
        with tempfile.TemporaryFile() as copy:
            yield _Twice(source, copy)


class _Twice:
    """A file that is read from its place to its end, and then again: by seeking, or from a copy made meanwhile."""

    def __init__(self, source: Source, copy: IO[bytes] | None) -> None:
        self._source, self._copy = source, copy
        self._start = 0 if copy is not None else source.tell()
        self.size = 0 if copy is not None else _size_from(source, self._start)

    def readline(self, limit: int, /) -> bytes:
        """The next line, the first time."""
        data = self._source.readline(limit)
        if self._copy is not None:
            self._copy.write(data)
        return data

    def again(self) -> Source:
        """The same lines once more."""
        file = self._source if self._copy is None else self._copy
        file.seek(self._start)
        return file


def _size_from(source: Source, start: int) -> int:
    try:
        size = source.seek(0, os.SEEK_END) - start
    except (OSError, ValueError):  # a compressed file does not know its size before it was read
        size = 0
    source.seek(start)
    return size


# ------------------------------------------------------------------------------------------ progress


class _Steps:
    """One step of a transfer: what was done only grows, and ends at the total."""

    def __init__(self, what: str, report: Report | None, total: int) -> None:
        self._what, self._report, self._total = what, report, total
        self.done = 0
        self._tell()

    def reach(self, done: int) -> None:
        """So much is done by now."""
        self.done = max(done, self.done)
        self._total = max(self._total, self.done)
        self._tell()

    def finish(self) -> None:
        """All of it is done."""
        self.done = self._total
        self._tell()

    def _tell(self) -> None:
        if self._report is not None:
            self._report(Progress(self._what, self.done, self._total))


def _ignore(done: int) -> None:
    del done
