"""The session of a message memory in a SQLite file.

The messages are the log of a `Session`, its system messages are the session's, `clear` is the session's, and a summary
that stands for released messages is a checkpoint of the session. What the limits of the memory add to that (where the
kept messages and the windows begin, and which of them are shortened) is one document, the state after a certain entry.
Loading reads that state and its messages and then adds the later entries as they were first added; the limits do the
same with the same messages, so the state need not be written with each of them.

Any number of handles may use the session at once, also through `Memory`: whoever finds that another one has changed it
reads it again. Files of releases that had a format of their own are converted when they are opened.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from turnfold.errors import Conflict, InvalidRecord
from turnfold.memories.message_log import MessageLog
from turnfold.memory import ConversationCache, ExtractiveWriter, Folder, FoldRange, Memory
from turnfold.records import (
    CLEARED,
    SESSION,
    SYSTEM,
    Checkpoint,
    ClearedNote,
    Document,
    Entry,
    Message,
    SystemNote,
    decode_message,
    decode_struct,
    encode_message,
    write_note,
)
from turnfold.runtime import SyncRuntime, drive
from turnfold.stores import Appended, ConversationOpening, Head, Scope, SqliteStore
from turnfold.tokens import TokenCounter
from turnfold.window import Anchor

__all__ = ("LoggedMessage", "MessageFile")


_KIND: Final = "message-memory"
_KEPT: Final = "kept"
_PAGE: Final = 1000


class _Place(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An anchor in seqs."""

    first: int = 1
    """The first message shown."""
    caps: tuple[tuple[int, int], ...] = ()
    summary: str = ""
    covered: int = 1
    """The first message that the summary does not cover."""
    reason: str = ""


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    v: int = 1
    seq: int
    """The newest entry the state includes; later entries are added on loading."""
    held: tuple[tuple[int, int], ...] = ()
    """First and last seq of each range of entries that are kept in the process."""
    complete: bool = True
    place: _Place
    """Where the kept messages begin; their summary is the session's checkpoint."""
    windows: tuple[tuple[int, int, _Place], ...] = ()
    """Tokens and bytes of a budget, and where its window begins."""


class LoggedMessage(NamedTuple):
    """A message in the log of the session."""

    message: Message
    seq: int
    tokens: int | None
    """Its cost; None if it is not known."""


class MessageFile:
    """A session in a SQLite file that is read into a `MessageLog` and written with it."""

    def __init__(self, path: str | Path, session: str, *, counter: TokenCounter) -> None:
        self._file = SqliteStore(path, counter=counter, blocking=True)
        self._counter = counter
        try:
            self._memory = Memory(self._file, counter=counter, checkpoint="manual")
            self._session = self._memory.session(session)
            _convert(self._file, self._session.scope, session)
        except BaseException:
            drive(self._file.close())
            raise
        self._store, self._place = self._session.store, (self._session.scope, session)
        self._cache = ConversationCache(self._store, *self._place, counter)
        self._head: Head | None = None
        """The head of the session as it was loaded, own changes included; None if it must be loaded again."""
        self._version = 0
        self._appended = self._closed = False

    def is_current(self) -> bool:
        """Return True if nobody else has changed the session since it was loaded; True after `close()`."""
        if self._closed:
            return True
        head = drive(self._store.head(*self._place))
        return self._head is not None and head.state == self._head.state

    def forget(self) -> None:
        """Load the session again before it is used next."""
        self._head = None

    def load(self) -> tuple[MessageLog, Iterator[LoggedMessage]]:
        """Return the log as it was saved, and the messages that were logged after that."""
        # The document is read before the head, so that it never refers to entries that were not read.
        document = drive(self._store.get_document(*self._place, _KIND, _KEPT))
        self._version = document.version if document else 0
        cache = self._cache
        drive(cache.refresh())
        self._head = cache.head
        kept = _read_kept(document) if document else _Kept(seq=0, place=_Place())
        shown = cache.stand_in or cache.shown_checkpoint
        summary, covered = shown.text if shown else "", cache.covered + 1
        if kept.seq < covered:  # cleared, or folded by another handle, since it was saved
            start = self._turn_start(covered)
            kept = _Kept(
                seq=covered - 1, held=((start, start),) if start else (), place=_Place(covered)
            )
        log = MessageLog(self._counter, [entry.message for entry in cache.system])
        for first, last in kept.held:
            for message in self._read(first - 1, last):
                log.add(*message)
        log.seq, log.complete = kept.seq, kept.complete
        first = max(kept.place.first, covered)
        place = msgspec.structs.replace(kept.place, first=first, summary=summary, covered=covered)
        log.anchor = _anchor(place, log)
        log.windows = {
            (tokens, size): _anchor(each, log)
            for tokens, size, each in kept.windows
            if each.first >= first
        }
        self._appended = False
        return log, self._read(log.seq, cache.head.seq)

    def append(self, message: Message) -> LoggedMessage | None:
        """Append a message durably; None if the session must be loaded again to see it."""
        before = self._head
        done = self._session.add(message)
        return self._logged(message, before, done)

    def set_system(self, message: Message) -> LoggedMessage | None:
        """Replace the system messages; None if the session must be loaded again to see it."""
        before = self._head
        return self._logged(message, before, self._session.system(message.text))

    def clear(self) -> None:
        """Hide everything but the system messages."""
        self._session.clear()
        self.forget()

    def save(self, log: MessageLog) -> None:
        """Write what does not follow from the log of the session; `Conflict` if another handle was faster."""
        upto = _seq_of(log, log.anchor.covered) - 1
        if log.anchor.summary and upto > self._cache.covered:
            self._fold(log.anchor.summary, upto)
        kept = _Kept(
            seq=log.seq,
            held=_ranges(log),
            complete=log.complete,
            place=msgspec.structs.replace(_place(log.anchor, log), summary="", covered=1),
            windows=tuple((*key, _place(anchor, log)) for key, anchor in log.windows.items()),
        )
        document = Document(_KIND, _KEPT, msgspec.json.encode(kept), 0)
        written = drive(self._store.put_document(*self._place, document, expect=self._version))
        self._version, self._appended = written.document.version, False
        if self._head is not None and self._head.state == written.before:
            generation, epoch = written.after
            self._head = replace(self._head, generation=generation, epoch=epoch)
        else:
            self.forget()

    def close(self, log: MessageLog | None = None) -> None:
        """Save the state if messages were added and close the file. Closing twice is allowed."""
        # With the state saved, wider limits do not bring back what the current ones released.
        try:
            if log is not None and self._appended and not (log.complete or self._closed):
                with suppress(
                    Conflict
                ):  # the state is another handle's; all messages are in the log
                    self.save(log)
        finally:
            self._closed = True
            self._memory.close()
            drive(self._file.close())

    def _logged(
        self, message: Message, before: Head | None, done: Appended | None
    ) -> LoggedMessage | None:
        self.forget()
        self._appended = True
        if before is None or done is None or done.before != before.state:
            return None
        if (
            message.role == "system"
        ):  # the session has written a note as well: its state is not known
            return LoggedMessage(message, done.last, None)
        self._head = done.head
        counted = before.counter in ("", self._counter.name)
        return LoggedMessage(
            message, done.last, done.head.tokens - before.tokens if counted else None
        )

    def _fold(self, summary: str, upto: int) -> None:
        """Make the summary a checkpoint of the session."""
        cache = self._cache
        folder = Folder(self._store, *self._place, self._counter, ExtractiveWriter(), SyncRuntime())
        fold = FoldRange(
            cache.checkpoint, cache.folded, upto, 0, cleared=cache.cleared, seen=cache.newest
        )
        self.forget()
        if drive(folder.given(fold, summary)) is None:
            raise Conflict(f"another handle has folded session {self._session.id!r} meanwhile")

    def _turn_start(self, seq: int) -> int:
        """Return the seq of the user message that opened the turn `seq` is inside of; 0 if `seq` opens a turn."""
        found = drive(self._store.read(*self._place, after=seq - 1, limit=1))
        if not found or found[0].turn == 0:
            return 0
        opener = drive(self._store.read_turn(*self._place, found[0].turn))[0].seq
        return opener if self._cache.cleared < opener < seq else 0

    def _read(self, after: int, upto: int) -> Iterator[LoggedMessage]:
        while after < upto:
            page = drive(self._store.read(*self._place, after=after, upto=upto, limit=_PAGE))
            if not page:
                raise InvalidRecord(
                    f"session {self._session.id!r} has no entry {after + 1}, but the state of its messages includes "
                    f"entries up to {upto}",
                    remedy="Restore the file from a backup",
                )
            after = page[-1].seq
            for entry in page:
                if entry.message.role != "system":
                    counted = self._cache.stored_message(entry)
                    yield LoggedMessage(entry.message, entry.seq, counted.tokens)


def _read_kept(document: Document) -> _Kept:
    name = "saved state of a message memory"
    return decode_struct(document.body, _Kept, name=name, path=f"{_KIND}/{_KEPT}")


def _seq_of(log: MessageLog, position: int) -> int:
    numbers = log.transcript.numbers
    return numbers[position] if position < len(numbers) else log.seq + 1


def _place(anchor: Anchor, log: MessageLog) -> _Place:
    caps = tuple((_seq_of(log, at), cap) for at, cap in anchor.caps)
    first, covered = _seq_of(log, anchor.position), _seq_of(log, anchor.covered)
    return _Place(first, caps, anchor.summary, covered, anchor.reason)


def _ranges(log: MessageLog) -> tuple[tuple[int, int], ...]:
    """Return the seqs of the messages in the log as (first, last) of each range without a gap."""
    ranges: list[tuple[int, int]] = []
    for seq in log.transcript.numbers:
        if ranges and seq == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], seq)
        else:
            ranges.append((seq, seq))
    return tuple(ranges)


def _anchor(place: _Place, log: MessageLog) -> Anchor:
    numbers = log.transcript.numbers
    caps = tuple((bisect_left(numbers, seq), cap) for seq, cap in place.caps if seq in numbers)
    first, covered = bisect_left(numbers, place.first), bisect_left(numbers, place.covered)
    return Anchor(first, caps, place.summary, covered if place.summary else 0, place.reason)


# ------------------------------------------------------------------- files of releases before this format
#
# They had the log in a tenant of their own, and the system messages, the summary and everything else in one document.


_OLD: Final = Scope("local")
_OLD_KEY: Final = "state"


class _OldAnchor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    position: int = 0
    caps: tuple[tuple[int, int], ...] = ()
    summary: str = ""
    covered: int = 0
    reason: str = ""


class _OldState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    v: int
    seq: int
    limits: str
    system: tuple[msgspec.Raw, ...]
    held: tuple[tuple[int, int], ...]
    complete: bool
    anchor: _OldAnchor
    windows: tuple[tuple[int, _OldAnchor], ...]


def _convert(store: SqliteStore, scope: Scope, session: str) -> None:
    """Move a session of an earlier release to the tenant and the documents it has now; all of it, or nothing."""
    documents: list[Document] = []
    captured = drive(store.capture(_OLD, session, documents.append))
    state = next((each.body for each in documents if each.kind == _KIND), None)
    # A log without any document may be a memory's that only added messages; it is copied once, and left where it is.
    if captured is None or (state is None and (documents or _exists(store, scope, session))):
        return
    entries: list[Entry] = []
    while page := drive(store.read(_OLD, session, after=len(entries), limit=_PAGE)):
        entries += page
    opening = ConversationOpening(session, captured.opening.created, captured.opening.updated)
    try:
        drive(store.restore(scope, [opening, *_converted(state, entries, opening.created)]))
    except Conflict as conflict:
        raise Conflict(
            f"the file has session {session!r} twice, the older one in tenant {_OLD.tenant!r}, where earlier releases "
            f"kept it ({conflict}): use another session_id, or export and delete one of them"
        ) from conflict
    if state is not None:
        drive(store.delete(_OLD, session))


def _exists(store: SqliteStore, scope: Scope, session: str) -> bool:
    return drive(store.head(scope, session)).generation > 0


def _converted(
    body: bytes | None, entries: list[Entry], created: int
) -> list[Document | Entry | Checkpoint]:
    """Return the documents, entries and checkpoint of a session that was saved in the old format."""
    state = _OldState(
        v=1, seq=0, limits="", system=(), held=(), complete=True, anchor=_OldAnchor(), windows=()
    )
    if body is not None:
        name = "saved state of a message memory"
        state = decode_struct(body, _OldState, name=name, path=f"{_KIND}/{_OLD_KEY}")
    held = [seq for first, last in state.held for seq in range(first, last + 1)]

    def seq_of(position: int) -> int:
        return held[position] if position < len(held) else state.seq + 1

    def place(anchor: _OldAnchor) -> _Place:
        caps = tuple((seq_of(at), cap) for at, cap in anchor.caps)
        first, covered = seq_of(anchor.position), seq_of(anchor.covered)
        return _Place(first, caps, anchor.summary, covered, anchor.reason)

    if held and held[-1] > len(entries):
        raise InvalidRecord(
            f"the saved state refers to entry {held[-1]}, but the log ends at {len(entries)}",
            path=f"{_KIND}/{_OLD_KEY}",
            remedy="Restore the file from a backup",
        )
    system = _system_entries(state, entries, created)
    notes: list[Document] = []
    checkpoints: list[Checkpoint] = []
    if state.anchor.summary:
        checkpoints.append(
            _checkpoint(state.anchor.summary, entries[: seq_of(state.anchor.covered) - 1])
        )
    elif state.seq:
        upto = held[0] - 1 if held else state.seq
        notes.append(write_note(SESSION, CLEARED, ClearedNote(upto=upto)))
    notes.append(write_note(SESSION, SYSTEM, SystemNote(seqs=tuple(each.seq for each in system))))
    kept = _Kept(
        seq=state.seq,
        held=state.held,
        complete=state.complete,
        place=msgspec.structs.replace(place(state.anchor), summary="", covered=1),
        windows=tuple((tokens, 0, place(anchor)) for tokens, anchor in state.windows),
    )
    notes.insert(0, Document(_KIND, _KEPT, msgspec.json.encode(kept), 0))
    new = [each for each in system if each.seq > len(entries)]
    return [*(replace(note, version=1) for note in notes), *entries, *new, *checkpoints]


def _system_entries(state: _OldState, entries: Sequence[Entry], created: int) -> list[Entry]:
    """Return the system messages of an old state as entries, at the end of the log if they are not in it."""
    logged = [entry for entry in entries if entry.message.role == "system"]
    later = [entry.message for entry in logged if entry.seq > state.seq]
    current = [*(decode_message(bytes(raw)) for raw in state.system), *later]
    if [entry.message for entry in logged] == current:
        return logged
    turn, created = (entries[-1].turn, entries[-1].created) if entries else (0, created)
    return [
        Entry(seq, message, "", created, turn, 0, 0)
        for seq, message in enumerate(current, len(entries) + 1)
    ]


def _checkpoint(summary: str, entries: Sequence[Entry]) -> Checkpoint:
    digest = blake2b(b"", digest_size=16)
    for entry in entries:
        digest.update(b"%d:" % entry.seq + encode_message(entry.message))
    upto = entries[-1].seq
    return Checkpoint(
        id=f"{upto}-{digest.hexdigest()[:12]}",
        previous="",
        upto=upto,
        text=summary,
        digest=digest.hexdigest(),
        trust="tool",
    )
