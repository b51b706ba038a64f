"""Writing an export: each conversation as it was at one instant, whole or not at all.

A conversation is first written aside. If it is erased while its entries are read, none of it reaches the export.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol, TypeVar

from turnfold.records import Checkpoint, Document, Entry
from turnfold.stores.protocol import Captured, Scope, Store
from turnfold.stores.transfer_lines import End, write_line, write_piece
from turnfold.stores.transfer_reading import content_digest

__all__ = ("Chapter", "Writable", "aside", "read_chapter", "replaced", "write_all")

_FIRST_PAGE = 100
_LARGEST_PAGE = 1000
_PAGE_BYTES = 4 << 20

_Answer = TypeVar("_Answer")


class Writable(Protocol):
    """What is asked of a file that is written."""

    def write(self, data: bytes, /) -> int | None:
        """Write the data, or say how much of it was written."""
        ...


async def aside(store: Store, work: Callable[[], _Answer]) -> _Answer:
    """Run what blocks as the store does: in place, or in a thread so that the event loop goes on."""
    return work() if store.blocking else await asyncio.to_thread(work)


def write_all(file: Writable, data: bytes) -> None:
    """Write all of it, also to a file that takes less at a time."""
    done = file.write(data)
    while done is not None and done < len(data):
        data = data[done:]
        done = file.write(data)


class Chapter:
    """The lines of one conversation between its first and its last, and the digest of them."""

    def __init__(self, file: IO[bytes] | None) -> None:
        self.file = file
        self.documents = self.entries = self.checkpoints = self.size = self.longest = 0
        self._content = hashlib.sha256()

    def add_document(self, document: Document) -> None:
        """Write a document."""
        self.documents += 1
        self._add(write_piece(document))

    def add_entries(self, entries: list[Entry]) -> None:
        """Write entries."""
        self.entries += len(entries)
        for entry in entries:
            self._add(write_piece(entry))

    def add_checkpoints(self, checkpoints: tuple[Checkpoint, ...]) -> None:
        """Write checkpoints."""
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
        """The digest of the conversation that began then."""
        return content_digest(self._content, created)

    def end(self, created: int) -> bytes:
        """The conversation's last line."""
        return write_line(End(self.documents, self.entries, self.checkpoints, self.digest(created)))


async def read_chapter(
    store: Store,
    scope: Scope,
    conversation: str,
    chapter: Chapter,
    *,
    tell: Callable[[int], None],
) -> Captured | None:
    """Write a conversation as it is now; None if it is not there, or is erased meanwhile."""
    captured = await store.capture(scope, conversation, chapter.add_document)
    if captured is None:
        return None
    last, many = captured.head.seq, _FIRST_PAGE
    while chapter.entries < last:
        before = chapter.size
        page = await store.read(scope, conversation, after=chapter.entries, upto=last, limit=many)
        if not page:
            return None
        await aside(store, lambda page=page: chapter.add_entries(page))
        many = max(1, min(_LARGEST_PAGE, _PAGE_BYTES * len(page) // (chapter.size - before)))
        tell(chapter.entries)
    await aside(store, lambda: chapter.add_checkpoints(captured.checkpoints))
    return captured


@contextmanager
def replaced(path: Path) -> Generator[IO[bytes]]:
    """A file that takes the place of `path` once it is written and synced; until then that is as it was."""
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
        return  # there is no such thing there
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
