"""A message memory in a SQLite file.

Every message is appended to the log of a store before `add` returns. What does not follow from that log (system
messages, what was released, summaries, where windows begin) is one document, the state after a certain entry. Opening
reads the state and its messages and then adds the later entries as they were first added; the limits do the same with
the same messages, so the state need not be written with each of them.

There is one writer. Another gets a `Conflict` when it appends, because it has not seen the newest entry, and when it
writes the state, because the document has another version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from turnfold.errors import Conflict, InvalidRecord, StoreUnavailable
from turnfold.memories.message_log import MessageLog
from turnfold.records import Document, Entry, Message, NewEntry, decode_message, encode_message
from turnfold.runtime import drive
from turnfold.stores import Head, Scope, SqliteStore
from turnfold.tokens import TokenCounter
from turnfold.window import Anchor

__all__ = ("SavedMessages",)


_SCOPE = Scope("local")
_KIND, _KEY = "message-memory", "state"
_VERSION = 1
_PAGE = 1000


class LoggedMessage(NamedTuple):
    """A message in the saved log."""

    message: Message
    seq: int
    tokens: int | None
    """Its cost; None if the log was counted by another counter."""


class _AnchorForm(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    position: int = 0
    caps: tuple[tuple[int, int], ...] = ()
    summary: str = ""
    covered: int = 0
    reason: str = ""


class _State(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    v: int
    seq: int
    """The newest entry the state includes; later entries are added on loading."""
    limits: str
    """The limits the messages were kept to: under other limits more may have to be released."""
    system: tuple[msgspec.Raw, ...]
    held: tuple[tuple[int, int], ...]
    """First and last seq of each range of entries in the transcript."""
    complete: bool
    anchor: _AnchorForm
    windows: tuple[tuple[int, _AnchorForm], ...]


class _Version(msgspec.Struct):
    v: int


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_State)
_version_decoder = msgspec.json.Decoder(_Version)


class SavedMessages:
    """The log and the state of one session in a SQLite file."""

    def __init__(
        self, path: str | Path, session: str, *, counter: TokenCounter, limits: str
    ) -> None:
        self._store = SqliteStore(path, counter=counter, blocking=True)
        self._session = session
        self._label = f"session {session!r} of {str(path)!r}"
        self._counter = counter
        self._limits = limits
        self._head = Head()
        self._version = 0
        self._state: _State | None = None
        self._is_unsaved = False
        self._has_appended = False
        self._anchor = Anchor()

    def load(self) -> MessageLog:
        """Load the messages of the saved state; none if there is no state."""
        # The document is read before the head, so that the state never refers to entries that were not read.
        document = drive(self._store.get_document(_SCOPE, self._session, _KIND, _KEY))
        self._head = drive(self._store.head(_SCOPE, self._session))
        log = MessageLog(self._counter)
        if document is None:
            return log
        self._version = document.version
        self._state = state = _read_state(document.body)
        for raw in state.system:
            log.transcript.add(decode_message(bytes(raw)))
        for first, last in state.held:
            self._load_range(log, first, last)
        log.complete = state.complete
        log.anchor = self._anchor = _anchor(state.anchor)
        log.windows.update((tokens, _anchor(form)) for tokens, form in state.windows)
        return log

    def newer_messages(self) -> Iterator[LoggedMessage]:
        """Yield the messages logged after the saved state."""
        after = self._state.seq if self._state else 0
        yield from map(self._logged, self._read(after, self._head.seq))

    def finish_loading(self, *, changed: bool) -> bool:
        """Return True if the state was saved under other limits, so that the current ones must be enforced.

        Opening writes nothing. If `changed`, or under other limits, the state is saved with the next change.
        """
        moved = self._state is not None and self._state.limits != self._limits
        self._is_unsaved = changed or moved
        self._state = None
        return moved

    def append(self, message: Message, log: MessageLog) -> LoggedMessage:
        """Append a message durably; `log` is the log without it."""
        self.check_current(log)
        before = self._head
        try:
            appended = drive(
                self._store.append(
                    _SCOPE, self._session, [NewEntry(message)], expect=self._head.seq
                )
            )
        except Conflict as conflict:
            raise self._conflict() from conflict
        self._head, self._has_appended = appended.head, True
        same_counter = before.counter in ("", self._counter.name)
        tokens = appended.head.tokens - before.tokens if same_counter else None
        return LoggedMessage(message, appended.last, tokens)

    def check_current(self, log: MessageLog) -> None:
        """Raise `Conflict` if another writer changed the session; save a state that could not be saved before."""
        document = drive(self._store.get_document(_SCOPE, self._session, _KIND, _KEY))
        head = drive(self._store.head(_SCOPE, self._session))
        if (document.version if document else 0) != self._version or head.seq != self._head.seq:
            raise self._conflict()
        if self._is_unsaved:
            self.save(log)

    def save(self, log: MessageLog) -> None:
        """Write the state; after a failure it is written before the next change."""
        self._is_unsaved = True
        document = Document(_KIND, _KEY, _encoder.encode(self._state_of(log)), 0)
        try:
            stored = drive(
                self._store.put_document(_SCOPE, self._session, document, expect=self._version)
            )
        except Conflict as conflict:
            raise self._conflict() from conflict
        self._version, self._anchor = stored.document.version, log.anchor
        self._is_unsaved = self._has_appended = False

    def try_save(self, log: MessageLog) -> None:
        """Write the state after an append; a failure must not look as if the message was not stored."""
        try:
            self.save(log)
        except (Conflict, StoreUnavailable):
            self._is_unsaved = True  # the next change raises the same error before it does anything

    def close(self, log: MessageLog | None = None) -> None:
        """Save the state if needed and close the file. Closing twice is allowed."""
        # With the anchor saved, wider limits do not bring back what the current ones released.
        lags = log is not None and self._has_appended and log.anchor != self._anchor
        try:
            if log is not None and (self._is_unsaved or lags):
                # After a conflict the state is another writer's; all messages are in the log.
                with suppress(Conflict):
                    self.check_current(log)
                    self.save(log)
        finally:
            self._is_unsaved = self._has_appended = False
            drive(self._store.close())

    def _load_range(self, log: MessageLog, first: int, last: int) -> None:
        after = first - 1
        for entry in self._read(after, last):
            log.add(*self._logged(entry))
            after = entry.seq
        if after < last:
            raise InvalidRecord(
                f"the state of {self._label} refers to entries {first} to {last}, but the log has none after {after}",
                remedy="Restore the file from a backup",
            )

    def _read(self, after: int, upto: int) -> Iterator[Entry]:
        while after < upto:
            page = drive(
                self._store.read(_SCOPE, self._session, after=after, upto=upto, limit=_PAGE)
            )
            if not page:
                return
            yield from page
            after = page[-1].seq

    def _logged(self, entry: Entry) -> LoggedMessage:
        counted = self._head.counter == self._counter.name
        return LoggedMessage(entry.message, entry.seq, entry.tokens if counted else None)

    def _state_of(self, log: MessageLog) -> _State:
        return _State(
            v=_VERSION,
            seq=self._head.seq,
            limits=self._limits,
            system=tuple(msgspec.Raw(encode_message(each)) for each in log.transcript.system),
            held=_ranges(log.seqs),
            complete=log.complete,
            anchor=_anchor_form(log.anchor),
            windows=tuple((tokens, _anchor_form(anchor)) for tokens, anchor in log.windows.items()),
        )

    def _conflict(self) -> Conflict:
        return Conflict(
            f"another writer has changed {self._label}; nothing was written: open it again to continue from its "
            "current state, and give each writer its own session_id"
        )


def _read_state(body: bytes) -> _State:
    try:
        version = _version_decoder.decode(body).v
        if version == _VERSION:
            return _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InvalidRecord(f"not a saved message memory state: {error}") from None
    raise InvalidRecord(
        f"state version {version}; this release reads version {_VERSION}",
        path="v",
        remedy="Upgrade turnfold",
    )


def _ranges(seqs: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return ascending seqs as (first, last) of each range without a gap; 0 stands for no seq."""
    ranges: list[tuple[int, int]] = []
    first = previous = 0
    for seq in seqs:
        if seq != previous + 1 or not first:
            if first:
                ranges.append((first, previous))
            first = seq
        previous = seq
    return (*ranges, (first, previous)) if first else ()


def _anchor_form(anchor: Anchor) -> _AnchorForm:
    return _AnchorForm(anchor.position, anchor.caps, anchor.summary, anchor.covered, anchor.reason)


def _anchor(form: _AnchorForm) -> Anchor:
    return Anchor(form.position, form.caps, form.summary, form.covered, form.reason)
