"""Storage of a `MessageMemory` in a SQLite file, as a `Session`.

Messages are entries in the session's log, system messages and `clear` are those of the session, and a summary of
released messages is a checkpoint of the session. What the memory's limits add (which messages are kept, where the
windows begin, what is shortened) is one document: the state after a certain entry. Loading reads that state with its
messages and then adds the later entries again. The limits have the same effect on the same messages, so the state need
not be written with each message.

Any number of handles may use the session at once, also through `Memory`: a handle that finds the session changed by
another one reads it again. Earlier releases kept these sessions in the tenant "local"; such a session is moved when it
is opened.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from turnfold.errors import Conflict, InvalidRecord
from turnfold.memories.message_memory_transcript import KeptMessages
from turnfold.memory import ConversationCache, ExtractiveWriter, Folder, FoldRange, Memory
from turnfold.records import (
    CLEARED,
    SESSION,
    SYSTEM,
    ClearedNote,
    Document,
    Entry,
    Message,
    SystemNote,
    decode_message,
    decode_struct,
    write_note,
)
from turnfold.runtime import SyncRuntime, drive
from turnfold.stores import Scope, SqliteStore
from turnfold.tokens import TokenCounter
from turnfold.window import Anchor

__all__ = ("MessageFile",)


_KIND: Final = "message-memory"
_KEY: Final = "state"
_OLD: Final = Scope("local")
"""Id of the tenant in which earlier releases stored their sessions."""
_PAGE: Final = 1000


class _State(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The stored state of a `MessageMemory`: which messages it keeps, and where its windows begin."""

    v: int = 1
    seq: int = 0
    """Seq (log position) of the newest entry that the state includes; later entries are added on loading."""
    held: tuple[tuple[int, int], ...] = ()
    """Seqs (log positions) of the kept messages, as ranges (first, last); anchors are positions among these
    messages."""
    complete: bool = True
    anchor: Anchor = Anchor()
    windows: tuple[tuple[int, Anchor], ...] = ()
    sizes: tuple[int, ...] = ()
    """Limit of each window in bytes; 0 for none."""
    system: tuple[msgspec.Raw, ...] = ()
    """System messages; only earlier releases wrote this field, because the session has system messages now."""
    limits: str = ""
    """Field that earlier releases wrote; it is not used."""


LoggedMessage: TypeAlias = tuple[Message, int, int]
"""A message of the session's log, with its seq (log position) and its tokens."""


class MessageFile:
    """The SQLite file of a `MessageMemory`, which is a session: loads messages, appends them, saves their state."""

    def __init__(self, path: str | Path, session: str, *, counter: TokenCounter) -> None:
        self._file = SqliteStore(path, counter=counter, blocking=True)
        self._counter = counter
        self._memory = Memory(self._file, counter=counter, fold="manual")
        self._session = self._memory.session(session)
        self._store, self._place = self._session.store, (self._session.scope, session)
        self._cache = ConversationCache(self._store, *self._place, counter)
        self._loaded: tuple[object, ...] = ()
        """Versions and records of which the kept messages were loaded; if one of them changes, the messages are loaded
        again."""
        self._version = 0
        self._appended = self._closed = False
        try:
            _move_old(self._file, *self._place)
        except BaseException:
            self.close()
            raise

    def refresh(self, log: KeptMessages) -> tuple[KeptMessages, Iterator[LoggedMessage]]:
        """Return the messages in the memory, and the new messages to add to it.

        All messages are loaded again if another handle did more than append.
        """
        if self._closed:
            return log, iter(())
        # The document is read before the head, so that it never refers to entries that were not read.
        document = drive(self._store.get_document(*self._place, _KIND, _KEY))
        self._version = document.version if document else 0
        drive(self._cache.refresh())
        if self._loaded != self._dependencies():
            log = self._load(_read_state(document.body) if document else _State())
            self._loaded, self._appended = self._dependencies(), False
        return log, self._read(log.seq, self._cache.head.seq)

    def append(self, message: Message) -> None:
        """Append a message to the session's log; it is on disk on return."""
        self._cache.queue_append(self._session.add(message), ())
        self._appended = True

    def set_system(self, content: str) -> None:
        """Replace the session's system messages by one message with this text."""
        self._session.system(content)

    def clear(self) -> None:
        """Clear the session: hide all messages but the system messages."""
        self._session.clear()

    def _dependencies(self) -> tuple[object, ...]:
        cache = self._cache
        return self._version, cache.cleared, cache.checkpoint, cache.stand_in, cache.system

    def _load(self, state: _State) -> KeptMessages:
        cache = self._cache
        if state.seq <= cache.covered:  # cleared, or folded by another handle, since it was saved
            question = self._turn_start(cache.covered + 1)
            held = ((question, question),) if question else ()
            state = _State(seq=cache.covered, held=held, anchor=Anchor(len(held)))
        log = KeptMessages(self._counter, [entry.message for entry in cache.system])
        for first, last in state.held:
            for message in self._read(first - 1, last):
                log.add(*message)
        log.seq, log.complete, log.anchor = state.seq, state.complete, state.anchor
        shown = cache.stand_in or cache.shown_checkpoint
        if shown is not None:
            covered = bisect_left(log.transcript.numbers, cache.covered + 1)
            first = max(log.anchor.position, covered)
            log.anchor = replace(log.anchor, position=first, summary=shown.text, covered=covered)
        sized = zip(state.windows, chain(state.sizes, repeat(0)), strict=False)
        log.windows = {(tokens, size): anchor for (tokens, anchor), size in sized}
        return log

    def save(self, log: KeptMessages) -> None:
        """Save which messages are in the memory and where windows begin.

        Raises `Conflict` if another handle saved first.
        """
        loaded, self._loaded = self._loaded, ()  # unless it succeeds, the session is read again
        if log.anchor.summary:
            self._fold(log)
        state = _State(
            seq=log.seq,
            held=_ranges(log.transcript.numbers),
            complete=log.complete,
            anchor=log.anchor,
            windows=tuple((tokens, anchor) for (tokens, _), anchor in log.windows.items()),
            sizes=tuple(size for _, size in log.windows),
        )
        document = Document(_KIND, _KEY, msgspec.json.encode(state), 0)
        written = drive(self._store.put_document(*self._place, document, expect=self._version))
        self._cache.queue_write(written)
        self._version, self._appended = written.document.version, False
        self._loaded = (self._version, *loaded[1:])

    def close(self, log: KeptMessages | None = None) -> None:
        """Save the state if messages were released since the last save, and close the file.

        Closing twice is allowed.
        """
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

    def _fold(self, log: KeptMessages) -> None:
        """Store the summary of released messages as a checkpoint of the session, unless it is already stored."""
        cache, numbers, covered = self._cache, log.transcript.numbers, log.anchor.covered
        upto = (numbers[covered] if covered < len(numbers) else log.seq + 1) - 1
        if upto <= cache.covered:
            return
        folder = Folder(self._store, *self._place, self._counter, ExtractiveWriter(), SyncRuntime())
        fold = FoldRange(
            cache.checkpoint, cache.folded, upto, 0, cleared=cache.cleared, seen=cache.newest
        )
        if drive(folder.fold_given(fold, log.anchor.summary)) is None:
            raise Conflict(
                f"another program summarised session {self._session.id!r} at the same time, and nothing was saved: "
                "repeat the call"
            )

    def _turn_start(self, seq: int) -> int:
        """Return the seq of the user message that opened the turn of entry `seq`; 0 if `seq` opens a turn itself."""
        found = drive(self._store.read(*self._place, after=seq - 1, limit=1))
        turn = drive(self._store.read_turn(*self._place, found[0].turn)) if found else []
        opener = turn[0].seq if turn and turn[0].turn else 0
        return opener if self._cache.cleared < opener < seq else 0

    def _read(self, after: int, upto: int) -> Iterator[LoggedMessage]:
        while after < upto:
            page = drive(self._store.read(*self._place, after=after, upto=upto, limit=_PAGE))
            if not page:
                raise InvalidRecord(
                    f"session {self._session.id!r} has no entry {after + 1}, but its saved state refers to entries up "
                    f"to {upto}",
                    remedy="Restore the file from a backup",
                )
            after = page[-1].seq
            for entry in page:
                yield entry.message, entry.seq, self._cache.stored_message(entry).tokens


def _read_state(body: bytes) -> _State:
    name = "saved state of a message memory"
    return decode_struct(body, _State, name=name, path=f"{_KIND}/{_KEY}")


def _ranges(seqs: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return ascending seqs as ranges without a gap: (first, last) of each."""
    ranges: list[tuple[int, int]] = []
    for seq in seqs:
        first = ranges.pop()[0] if ranges and ranges[-1][1] == seq - 1 else seq
        ranges.append((first, seq))
    return tuple(ranges)


def _move_old(store: SqliteStore, scope: Scope, session: str) -> None:
    """Copy a session of an earlier release from the tenant "local" to `scope` in one transaction, then delete it."""
    documents: list[Document] = []
    captured = drive(store.capture(_OLD, session, documents.append))
    body = next((each.body for each in documents if each.kind == _KIND), None)
    moved = drive(store.head(scope, session)).generation > 0
    # A log without any document may be that of a memory that only added messages: it is copied once, and not deleted.
    if captured is None or (body is None and (documents or moved)):
        return
    entries: list[Entry] = []
    while page := drive(store.read(_OLD, session, after=len(entries), limit=_PAGE)):
        entries += page
    state, opening = _read_state(body) if body else _State(), captured.opening
    later = (entry.message for entry in entries[state.seq :] if entry.message.role == "system")
    system = [*(decode_message(bytes(raw)) for raw in state.system), *later]
    turn, first = entries[-1].turn if entries else 0, len(entries) + 1
    shown = SystemNote(seqs=tuple(range(first, first + len(system))))
    hidden = ClearedNote(upto=state.held[0][0] - 1 if state.held else state.seq)
    notes = [
        *([Document(_KIND, _KEY, body, 1)] if body else []),
        write_note(SESSION, CLEARED, hidden),
        write_note(SESSION, SYSTEM, shown),
    ]
    pieces = [
        replace(opening, dropped=0),
        *(replace(note, version=1) for note in notes),
        *entries,
        *(
            Entry(seq, message, "", opening.updated, turn, 0, 0)
            for seq, message in enumerate(system, first)
        ),
    ]
    drive(store.restore(scope, pieces))
    if body is not None:
        drive(store.delete(_OLD, session))
