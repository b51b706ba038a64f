"""Export and import of conversations through a file: exact, all or nothing, and safe for untrusted files.

The file is JSON Lines: a header; for each conversation, by name, an opening, its documents, entries and checkpoints
(summaries), and an end with their digest; a footer with the digest of everything. Token costs are not in it: the
importing store counts again. The digest of a conversation is the same in every store that has the same content.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Protocol, TypeAlias

from turnfold.errors import InvalidExport, InvalidOption, InvalidRecord
from turnfold.stores.export_format import (
    FORMAT,
    LONGEST_LINE,
    VERSION,
    ExportedConversation,
    ExportReader,
    Footer,
    Header,
    Writable,
    atomic_file,
    export_conversation,
    write_all,
    write_line,
    write_piece,
)
from turnfold.stores.fork_guard import run_off_loop
from turnfold.stores.paged_reads import all_conversations, was_erased
from turnfold.stores.protocol import ConversationOpening, Piece, Scope, Store, check_name
from turnfold.stores.restore_checks import RepeatedId

__all__ = (
    "Progress",
    "Transferred",
    "digest",
    "export_to",
    "import_from",
)


_IN_MEMORY = 1 << 20


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an export or import, as its `progress` callback gets it."""

    what: str
    """The current step: `exporting` (counts entries), or `checking` and then `restoring` (count bytes of the file)."""
    done: int
    total: int
    """The total of the step, as far as known; at the end of the step, `done` equals it."""


@dataclass(frozen=True, slots=True)
class Transferred:
    """The result of an export or import: numbers of conversations, entries and bytes."""

    conversations: int
    entries: int
    checkpoints: int
    documents: int
    already: int = 0
    """Conversations that an import found in the store, identical to the file's."""
    left_out: tuple[str, ...] = ()
    """Conversations that were deleted while they were exported, or that an import skipped because of `skip_erased`."""
    size: int = 0
    """Bytes of the export file."""
    longest_line: int = 0
    """Bytes of the longest line of an export; see `LONGEST_LINE`."""
    digest: str = ""
    """SHA-256 of the export file up to its footer."""


class Source(Protocol):
    """A binary file to import from; if it cannot seek, it is copied to a temporary file while it is read."""

    def readline(self, limit: int, /) -> bytes:
        """Return the next line, or its first `limit` bytes."""
        ...

    def seekable(self) -> bool:
        """Return True if `seek` and `tell` work."""
        ...

    def seek(self, offset: int, whence: int = ..., /) -> int:
        """Set the position at which the file is read next; return it."""
        ...

    def tell(self) -> int:
        """Return the position at which the file is read next."""
        ...


ProgressCallback: TypeAlias = Callable[[Progress], object]


# -------------------------------------------------------------------------------------------- export


async def export_to(
    store: Store,
    scope: Scope,
    target: str | os.PathLike[str] | Writable,
    *,
    conversations: Iterable[str] | None = None,
    progress: ProgressCallback | None = None,
) -> Transferred:
    """Write all conversations of a tenant, or those in `conversations`, to a path or a binary file.

    A path is replaced atomically when the export is complete. Writers need not stop: each conversation is exported as a
    consistent snapshot. `progress` is called from time to time, possibly from another thread.
    """
    names, total = await _names(store, scope, conversations)
    steps = _ProgressReporter("exporting", progress, total)
    if isinstance(target, str | os.PathLike):
        with atomic_file(Path(target)) as file:
            done = await _Export(store, scope, file, steps).write(names)
    else:
        done = await _Export(store, scope, target, steps).write(names)
    steps.finish()
    return done


async def digest(store: Store, scope: Scope, conversation: str) -> str:
    """Return the SHA-256 of a conversation's content, the same in every store that has the same content."""
    exported = ExportedConversation(None)
    captured = await export_conversation(
        store, scope, conversation, exported, on_progress=lambda _: None
    )
    if captured is None:
        raise InvalidOption(
            f"conversation {conversation!r} does not exist: conversations() lists all conversations"
        )
    return exported.digest(captured.opening.created)


async def _names(store: Store, scope: Scope, wanted: Iterable[str] | None) -> tuple[list[str], int]:
    """Return the conversations to export, sorted by name, and the number of their entries."""
    chosen = None if wanted is None else set(wanted)
    for name in chosen or ():
        check_name(name, "conversation id")
    found = {
        info.conversation: info.head.seq
        for info in await all_conversations(store, scope)
        if chosen is None or info.conversation in chosen
    }
    missing = sorted((chosen or set()) - set(found))
    if missing:
        raise InvalidOption(
            f"{len(missing)} of the {len(chosen or ())} conversations to export do not exist: "
            f"{missing[0]!r}{' and others' if len(missing) > 1 else ''}"
        )
    return sorted(found), sum(found.values())


class _Export:
    """Writes an export to a file: header, conversations, footer."""

    def __init__(
        self, store: Store, scope: Scope, file: Writable, steps: _ProgressReporter
    ) -> None:
        self._store, self._scope, self._file, self._steps = store, scope, file, steps
        self._sha = hashlib.sha256()
        self._size = self._longest = 0
        self._counts = [0, 0, 0, 0]
        self._left_out: list[str] = []

    async def write(self, names: list[str]) -> Transferred:
        # Imported by name, because the package itself is above this layer.
        release: str = vars(import_module("turnfold"))["__version__"]
        header = Header(FORMAT, VERSION, release)
        await self._put_off_loop(write_line(header))
        for name in names:
            await self._write_conversation(name)
        checksum = self._sha.hexdigest()
        conversations, documents, entries, checkpoints = self._counts
        footer = Footer(conversations, documents, entries, checkpoints, checksum)
        await self._put_off_loop(write_line(footer))
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
            exported = ExportedConversation(spool)
            captured = await export_conversation(
                self._store,
                self._scope,
                name,
                exported,
                on_progress=lambda entries: self._steps.reach(before + entries),
            )
            if captured is None:
                self._left_out.append(name)
                return
            opening = captured.opening

            def put() -> None:
                self._put(write_piece(opening))
                spool.seek(0)
                while data := spool.read(_IN_MEMORY):
                    self._put(data, longest=exported.longest)
                self._put(exported.end(opening.created))

            await run_off_loop(put, blocking=self._store.blocking)
        parts = (1, exported.documents, exported.entries, exported.checkpoints)
        self._counts = [total + part for total, part in zip(self._counts, parts, strict=True)]

    async def _put_off_loop(self, data: bytes) -> None:
        await run_off_loop(lambda: self._put(data), blocking=self._store.blocking)

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
    skip_erased: bool = False,
    progress: ProgressCallback | None = None,
) -> Transferred:
    """Restore all conversations of an export; if there is an error, no conversation is written.

    The whole file is checked before anything is written. Identical conversations that already exist are left
    alone, so an import can be repeated. A conversation that was erased here raises `ConversationDeleted`; with
    `skip_erased` it is left out and listed, and the others are restored. `progress` is called from time to time,
    possibly from another thread.
    """
    if longest_line < 1:
        raise InvalidOption(f"longest_line must be at least 1, got {longest_line}")
    with _opened(source) as file:
        steps = _ProgressReporter("checking", progress, file.size)
        reader = ExportReader(file, longest_line=longest_line, on_progress=steps.reach)
        await run_off_loop(reader.check, blocking=store.blocking)
        steps.finish()
        steps = _ProgressReporter("restoring", progress, reader.size)
        again = ExportReader(file.again(), longest_line=longest_line, on_progress=steps.reach)
        names = reader.names if skip_erased else []
        erased = [name for name in names if await was_erased(store, scope, name)]
        try:
            restored = await store.restore(scope, _pieces_without(erased, again.pieces()))
        except RepeatedId as error:
            line = again.line_of(error.conversation, error.seq)
            raise InvalidExport(str(error), line=line) from None
        except InvalidRecord as error:
            raise InvalidExport(
                f"the file changed while it was imported, and nothing was written: {error}",
                line=again.line,
            ) from None
    steps.finish()
    return Transferred(
        restored.conversations,
        restored.entries,
        restored.checkpoints,
        restored.documents,
        already=restored.already,
        left_out=tuple(erased),
        size=again.size,
        digest=again.digest,
    )


def _pieces_without(names: Iterable[str], pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield the pieces of all conversations but those with these names."""
    skipped, skipping = frozenset(names), False
    for piece in pieces:
        if isinstance(piece, ConversationOpening):
            skipping = piece.conversation in skipped
        if not skipping:
            yield piece


@contextmanager
def _opened(source: str | os.PathLike[str] | Source) -> Generator[_RereadableFile]:
    if isinstance(source, str | os.PathLike):
        with Path(source).open("rb") as file:
            yield _RereadableFile(file, None)
    elif source.seekable():
        yield _RereadableFile(source, None)
    else:
        with tempfile.TemporaryFile() as copy:
            yield _RereadableFile(source, copy)


class _RereadableFile:
    """A file that is read twice, from its current position: by seeking back, or from a copy made in the first pass."""

    def __init__(self, source: Source, copy: IO[bytes] | None) -> None:
        self._source, self._copy = source, copy
        self._start = 0 if copy is not None else source.tell()
        self.size = 0 if copy is not None else _size_from(source, self._start)

    def readline(self, limit: int, /) -> bytes:
        """Return the next line of the first reading of the file."""
        data = self._source.readline(limit)
        if self._copy is not None:
            self._copy.write(data)
        return data

    def again(self) -> Source:
        """Return a file for the second reading, which has the same lines as the first."""
        file = self._source if self._copy is None else self._copy
        file.seek(self._start)
        return file


def _size_from(source: Source, start: int) -> int:
    try:
        size = source.seek(0, os.SEEK_END) - start
    except (OSError, ValueError):  # the size of a compressed file is not known before it was read
        size = 0
    source.seek(start)
    return size


# ------------------------------------------------------------------------------------------ progress


class _ProgressReporter:
    """Calls the progress callback of one step; `done` never decreases, and equals the total at the end."""

    def __init__(self, what: str, callback: ProgressCallback | None, total: int) -> None:
        self._what, self._callback, self._total = what, callback, total
        self.done = 0
        self.reach(0)

    def reach(self, done: int) -> None:
        """Report to the callback that this much of the step is done."""
        self.done = max(done, self.done)
        self._total = max(self._total, self.done)
        if self._callback is not None:
            self._callback(Progress(self._what, self.done, self._total))

    def finish(self) -> None:
        """Report to the callback that the whole step is done."""
        self.reach(self._total)
