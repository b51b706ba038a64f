"""Import of other programs' conversations into a store.

The whole file is read twice: first to find faults and to compare it with the store, then to write. New conversations
are written all together or not at all. If a conversation of the file is already in the store, only the messages that
the store lacks are appended, so a transcript can be imported again after it has grown. If it differs from the stored
one, `Conflict` is raised and nothing is written.

A transcript may be imported while an answer is still being written. The store then has the beginning of the answer, and
an entry of a log is never changed. So a later import stores the rest of the answer as a separate entry, with an id made
of the answer's id and the number of parts before it; later imports recognise that entry.
"""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from turnfold.errors import Conflict, InvalidExport, InvalidOption
from turnfold.importers.formats import FORMATS, TURNFOLD, detect, read_histories
from turnfold.importers.json_stream import unpacked
from turnfold.importers.reader_events import (
    ConversationStart,
    HistoryEvents,
    IgnoredItem,
    ImportedMessage,
    UnreadableItem,
)
from turnfold.records import Entry, Message, NewEntry
from turnfold.stores import (
    ConversationOpening,
    Piece,
    Progress,
    Scope,
    Store,
    all_conversations,
    check_name,
    digest,
    import_from,
    open_store,
    redaction_of,
    was_erased,
)

__all__ = (
    "Completed",
    "Imported",
    "import_file",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """An answer whose beginning an earlier import stored, and whose rest this import has added."""

    conversation: str
    seq: int
    """Seq (log position) of the entry with the beginning of the answer."""
    parts: int
    """Number of parts of the answer that were added, in a new entry."""


@dataclass(frozen=True, slots=True)
class _MissingParts:
    """The parts of an answer that the store lacks: an earlier import read the answer before it was complete."""

    seq: int
    message: Message
    place: int
    """Number of parts of the answer before the missing ones."""


@dataclass(slots=True)
class _StoredMatch:
    """Compares the stored entries of one conversation with the messages of a file, in order."""

    read: Callable[[int], Awaitable[list[Entry]]]
    """Function that reads a page of entries after a seq (log position)."""
    matched: int = 0
    """Number of messages of the file that are stored, whole or in part."""
    differs: int = 0
    """Seq (log position) of the first entry that differs from the file; 0 if none does."""
    _missing: dict[str, _MissingParts] = field(default_factory=dict[str, _MissingParts])
    _page: list[Entry] = field(default_factory=list[Entry])
    _seq: int = 0
    _ended: bool = False

    async def compare(self, given: ImportedMessage) -> None:
        """Compare the next message of the file with the next stored entry; set `differs` if they are not the same."""
        while not self.differs and (entry := await self._next()) is not None:
            if entry.client_id and entry.client_id in self._missing:
                self._compare_rest(entry, entry.client_id)
            elif self._matches(entry, given.message, given.client_id, place=0):
                self.matched += 1
                return
            else:
                self.differs = entry.seq

    async def finish(self) -> None:
        """After the last message of the file, search the remaining stored entries for parts of incomplete answers."""
        foreign = 0
        while self._missing and not self.differs and (entry := await self._next()) is not None:
            if entry.client_id and entry.client_id in self._missing:
                self._compare_rest(entry, entry.client_id)
            else:
                foreign = foreign or entry.seq
        # If other entries follow, the rest of an answer cannot be appended.
        if self._missing and foreign:
            self.differs = self.differs or foreign

    def missing_entries(self) -> list[NewEntry]:
        """Return the rests of incomplete answers as entries, to be appended before the file's new messages."""
        return [NewEntry(missing.message, name) for name, missing in self._missing.items()]

    def completed(self, conversation: str) -> list[Completed]:
        """Return which incomplete answers of a conversation this import completes, for its result."""
        return [
            Completed(conversation=conversation, seq=missing.seq, parts=len(missing.message.parts))
            for missing in self._missing.values()
        ]

    async def _next(self) -> Entry | None:
        if not self._page and not self._ended:
            self._page = list(reversed(await self.read(self._seq)))
            self._ended = not self._page
        if not self._page:
            return None
        entry = self._page.pop()
        self._seq = entry.seq
        return entry

    def _compare_rest(self, entry: Entry, name: str) -> None:
        missing = self._missing.pop(name)
        answer_id = name.rpartition("+")[0]
        if not self._matches(entry, missing.message, answer_id, place=missing.place):
            self.differs = entry.seq

    def _matches(self, entry: Entry, given: Message, client_id: str, *, place: int) -> bool:
        """Return True if a stored entry equals the message of the file, or one is the beginning of the other."""
        stored = entry.message
        if stored == given:
            return True
        expected_id = client_id if not place else f"{client_id}+{place}"
        if not client_id or entry.client_id != expected_id or not _same_answer(stored, given):
            return False
        have = len(stored.parts)
        if given.parts[:have] != stored.parts[: len(given.parts)]:
            return False
        if have < len(given.parts):
            missing = _MissingParts(entry.seq, _from_part(given, have), place + have)
            self._missing[f"{client_id}+{missing.place}"] = missing
        return True


def _same_answer(stored: Message, given: Message) -> bool:
    return stored.role == "assistant" and _from_part(stored, len(stored.parts)) == _from_part(
        given, len(given.parts)
    )


def _from_part(message: Message, place: int) -> Message:
    """Return the message without its first `place` parts, and without the original form of its framework."""
    return Message.of(
        message.role,
        message.parts[place:],
        name=message.name,
        extra=message.extra,
        labels=message.labels,
        origin=message.origin.without_form() if message.origin else None,
    )


_ProgressCallback: TypeAlias = Callable[[Progress], object]
_PAGE = 500
_MAX_LISTED = 100
"""Most unreadable items of a file that are listed; further ones are only counted."""
_PROGRESS_STEP = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The result of an import: items written, skipped and found unchanged."""

    format: str
    conversations: tuple[str, ...] = ()
    """Ids of the new conversations; empty for an export of turnfold, of which only the number is known."""
    new: int = 0
    continued: tuple[str, ...] = ()
    """Ids of conversations that were in the store before and to which messages were added."""
    completed: tuple[Completed, ...] = ()
    """Answers whose beginning was imported earlier and which are complete now."""
    already: int = 0
    """Number of conversations that were in the store before and did not change."""
    entries: int = 0
    """Number of entries written."""
    bad: tuple[UnreadableItem, ...] = ()
    """Items that could not be read and were skipped (`skip_bad`)."""
    bad_total: int = 0
    erased: tuple[str, ...] = ()
    """Conversations of the file that were erased in the store: they are left out, and their ids stay unusable."""
    ignored: dict[str, int] = field(default_factory=dict[str, int])
    """Kind of item that is not part of a conversation -> how often it occurs in the file."""
    written: bool = True
    """False after a trial run (`trial`), which writes nothing."""


async def import_file(
    store: Store,
    scope: Scope,
    path: str | Path,
    *,
    format_name: str = "auto",
    conversation: str = "",
    skip_bad: bool = False,
    branches: bool = False,
    trial: bool = False,
    progress: _ProgressCallback | None = None,
) -> Imported:
    """Import a file of conversations in one of `FORMATS`; `auto` detects the format.

    `conversation` is the id for the conversation of a file that has only one. With `skip_bad` unreadable items are
    skipped and listed; otherwise they raise `InvalidExport` with their lines, and nothing is written. `branches` also
    imports the abandoned branches of a ChatGPT export. With `trial` the file is only read and checked. A conversation
    that was erased in the store is left out and listed in `Imported.erased`; the others are imported.
    """
    source = Path(path)
    if format_name != "auto" and format_name not in FORMATS:
        raise InvalidOption(
            f"unknown format {format_name!r}; use one of auto, {', '.join(FORMATS)}"
        )
    try:
        chosen = detect(source) if format_name == "auto" else format_name
        if chosen == TURNFOLD:
            return await _import_own(store, scope, source, trial=trial, progress=progress)
        importer = _FileImport(store, scope, source, chosen, conversation, branches=branches)
        return await importer.run(skip_bad=skip_bad, trial=trial, progress=progress)
    except (
        UnicodeDecodeError,
        zipfile.BadZipFile,
        gzip.BadGzipFile,
        zlib.error,
        EOFError,
    ) as error:
        raise InvalidExport(f"{source.name} is damaged or not UTF-8 text: {error}") from None


async def _import_own(
    store: Store, scope: Scope, path: Path, *, trial: bool, progress: _ProgressCallback | None
) -> Imported:
    with path.open("rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
    with gzip.open(path) if packed else path.open("rb") as opened:
        file = unpacked(opened, path) if packed else opened
        if trial:
            return await _try_own(store, scope, file, progress)
        done = await import_from(store, scope, file, skip_erased=True, progress=progress)
    return Imported(
        format=TURNFOLD,
        new=done.conversations,
        already=done.already,
        entries=done.entries,
        erased=done.left_out,
    )


async def _try_own(
    store: Store,
    scope: Scope,
    file: BufferedReader | gzip.GzipFile,
    progress: _ProgressCallback | None,
) -> Imported:
    """Restore an export into a temporary store, and compare each conversation with the one in the real store."""
    erased: list[str] = []
    new = already = entries = 0
    with TemporaryDirectory(prefix="turnfold-") as folder:
        copy = open_store(f"sqlite:///{Path(folder) / 'trial.db'}", blocking=store.blocking)
        try:
            await import_from(copy, scope, file, progress=progress)
            for info in await all_conversations(copy, scope):
                name = info.conversation
                if await was_erased(store, scope, name):
                    erased.append(name)
                elif not (await store.head(scope, name)).generation:
                    new += 1
                    entries += info.head.seq
                elif await digest(store, scope, name) == await digest(copy, scope, name):
                    already += 1
                else:
                    raise Conflict(
                        f"conversation {name!r} is already in the store and differs from the one in the export; "
                        "nothing would be imported. Import into another store, or export the other conversations alone"
                    )
        finally:
            await copy.close()
    return Imported(
        format=TURNFOLD,
        new=new,
        already=already,
        entries=entries,
        erased=tuple(erased),
        written=False,
    )


@dataclass(slots=True)
class _Conversation:
    """A conversation of the file to import, with its comparison with the store."""

    line: int
    matching: _StoredMatch
    stored: int = 0
    """Number of the conversation's entries in the store; 0 for a new conversation."""
    erased: bool = False
    """True if the conversation was erased in the store; then nothing of it is imported."""
    message_count: int = 0

    @property
    def wanted(self) -> int:
        """Number of entries that the import must write for this conversation."""
        if self.erased:
            return 0
        return self.message_count - self.matching.matched + len(self.matching.missing_entries())


class _FileImport:
    """Imports one file: checks all of it and compares it with the store, then writes."""

    def __init__(
        self,
        store: Store,
        scope: Scope,
        path: Path,
        format_name: str,
        conversation: str,
        *,
        branches: bool,
    ) -> None:
        self._store, self._scope = store, scope
        self._path, self._format, self._branches = path, format_name, branches
        self._given_name = conversation
        self._conversations: dict[str, _Conversation] = {}
        self._bad: list[UnreadableItem] = []
        self._bad_total = 0
        self._ignored: Counter[str] = Counter()

    async def run(
        self, *, skip_bad: bool, trial: bool, progress: _ProgressCallback | None
    ) -> Imported:
        """Check the file, raise an error if it cannot be imported, and write it unless `trial` is True."""
        await self._check_file(progress)
        self._raise_faults(skip_bad=skip_bad)
        new = [
            name for name, known in self._conversations.items() if not known.stored and known.wanted
        ]
        grown = [
            name for name, known in self._conversations.items() if known.stored and known.wanted
        ]
        wanted = sum(self._conversations[name].wanted for name in (*new, *grown))
        if not trial:
            if new:
                await self._store.restore(self._scope, self._pieces(frozenset(new)))
            for name in grown:
                await self._continue(name)
            _report(progress, "writing", wanted, wanted)
        return Imported(
            format=self._format,
            conversations=tuple(new),
            new=len(new),
            continued=tuple(grown),
            completed=tuple(
                each
                for name in grown
                for each in self._conversations[name].matching.completed(name)
            ),
            already=sum(
                known.message_count > 0 == known.wanted
                for known in self._conversations.values()
                if not known.erased
            ),
            entries=wanted,
            bad=tuple(self._bad),
            bad_total=self._bad_total,
            erased=tuple(name for name, known in self._conversations.items() if known.erased),
            ignored=dict(self._ignored),
            written=not trial,
        )

    def _read(self) -> HistoryEvents:
        """Read the file; if a conversation id was passed, the only conversation of the file gets that id."""
        begun = 0
        for piece in read_histories(self._path, self._format, branches=self._branches):
            if isinstance(piece, ConversationStart) and self._given_name:
                begun += 1
                if begun > 1:
                    raise InvalidOption(
                        f"{self._path.name} has several conversations (the second begins on line {piece.line:,}); "
                        "import it without a conversation name"
                    )
                yield replace(piece, conversation=self._given_name)
            else:
                yield piece

    async def _check_file(self, progress: _ProgressCallback | None) -> None:
        at: _Conversation | None = None
        for count, piece in enumerate(self._read(), 1):
            match piece:
                case ConversationStart():
                    at = await self._start(piece)
                case ImportedMessage() if at is not None:
                    at.message_count += 1
                    if at.stored:
                        await at.matching.compare(self._comparable(piece))
                case UnreadableItem():
                    self._add_bad(piece)
                case IgnoredItem():
                    self._ignored[piece.what] += 1
                case _:
                    pass
            if count % _PROGRESS_STEP == 0:
                _report(progress, "checking", count, count)
        for known in self._conversations.values():
            await known.matching.finish()

    async def _start(self, piece: ConversationStart) -> _Conversation | None:
        try:
            check_name(piece.conversation, "conversation id")
        except InvalidOption as error:
            self._add_bad(UnreadableItem(piece.line, str(error)))
            return None
        earlier = self._conversations.get(piece.conversation)
        if earlier is not None:
            problem = f"conversation {piece.conversation!r} is already on line {earlier.line:,}"
            self._add_bad(UnreadableItem(piece.line, problem))
            return None
        name = piece.conversation
        head = await self._store.head(self._scope, name)
        matching = _StoredMatch(lambda seq: self._stored(name, seq))
        known = self._conversations[name] = _Conversation(
            piece.line,
            matching,
            stored=head.seq,
            erased=not head.seq and await was_erased(self._store, self._scope, name),
        )
        return known

    async def _stored(self, name: str, after: int) -> list[Entry]:
        """Read a page of stored entries to compare with the file, without the numbers of redaction labels."""
        page = await self._store.read(self._scope, name, after=after, limit=_PAGE)
        if (redaction := redaction_of(self._store)) is None:
            return page
        return [replace(entry, message=redaction.unnumbered(entry.message)) for entry in page]

    def _comparable(self, piece: ImportedMessage) -> ImportedMessage:
        """Redact a message of the file as the store would, with labels without numbers, to compare both."""
        if (redaction := redaction_of(self._store)) is None:
            return piece
        return replace(piece, message=redaction.unnumbered(piece.message))

    def _add_bad(self, bad: UnreadableItem) -> None:
        self._bad_total += 1
        if len(self._bad) < _MAX_LISTED:
            self._bad.append(bad)

    def _raise_faults(self, *, skip_bad: bool) -> None:
        if self._bad_total == 1 and not skip_bad:
            raise InvalidExport(
                f"{self._path.name} cannot be imported: {self._bad[0].problem}",
                line=self._bad[0].line,
                remedy="Nothing was imported. Fix this line, or skip it with --skip-bad (skip_bad=True)",
            )
        if self._bad and not skip_bad:
            shown = "; ".join(map(str, self._bad[:5]))
            more = f"; and {self._bad_total - 5:,} more" if self._bad_total > 5 else ""
            raise InvalidExport(
                f"{self._bad_total:,} items in {self._path.name} cannot be read: {shown}{more}",
                line=self._bad[0].line,
                remedy="Nothing was imported. Fix them, or skip them with --skip-bad (skip_bad=True)",
            )
        for name, known in self._conversations.items():
            if differs := known.matching.differs:
                raise Conflict(
                    f"conversation {name!r} is already in the store and differs from entry {differs:,} on; nothing "
                    "was imported. Delete the stored conversation, or import the file into another store, or under "
                    "another id: --session ID if it has one conversation"
                )
        if not any(known.message_count for known in self._conversations.values()):
            raise InvalidExport(
                f"{self._path.name} has no messages in the format {self._format}",
                remedy=f"If it is in another format, name it: one of {', '.join(FORMATS)}",
            )

    def _pieces(self, wanted: frozenset[str]) -> Iterator[Piece]:
        """Yield the file's new conversations as pieces for `Store.restore`.

        If an id occurs twice in the file, its first conversation is taken.
        """
        seq = turn = 0
        taking = False
        for piece in self._read():
            if isinstance(piece, ConversationStart):
                known = self._conversations.get(piece.conversation)
                taking = (
                    piece.conversation in wanted and known is not None and known.line == piece.line
                )
                seq = turn = 0
                if taking:
                    yield ConversationOpening(piece.conversation, piece.created, piece.created)
            elif isinstance(piece, ImportedMessage) and taking:
                seq += 1
                turn += piece.message.role == "user"
                yield Entry(seq, piece.message, piece.client_id, piece.created, turn, 0, 0)

    async def _continue(self, name: str) -> None:
        known, seq = self._conversations[name], 0
        more = known.matching.missing_entries()
        at = ""
        for piece in self._read():
            if isinstance(piece, ConversationStart):
                at = piece.conversation if piece.line == known.line else ""
            elif isinstance(piece, ImportedMessage) and at == name:
                seq += 1
                if seq > known.matching.matched:
                    more.append(NewEntry(piece.message, piece.client_id or f"import:{seq}"))
        await self._store.append(self._scope, name, more, expect=known.stored)


def _report(progress: _ProgressCallback | None, what: str, done: int, total: int) -> None:
    if progress is not None:
        progress(Progress(what, done, total))
