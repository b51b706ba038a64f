"""A message memory that outlives its process.

Every message is appended to the store's log before `add` returns, and the log keeps all of them. What cannot be told
from the log (system messages, what was let go, summaries, where windows begin) is kept beside it in one document: the
state after a certain entry. Opening reads that state with the messages it holds, then adds the entries after it as
they were added before; limits do the same with the same messages, so the state need not be written with each of them.

There is one writer. Another is refused when it appends, because it has not seen the newest entry, and when it does
anything else, because the document is no longer the one it knows.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from turnfold.errors import Conflict, InvalidRecord, StoreUnavailable
from turnfold.memory.drive import drive
from turnfold.memory.in_process.held import HeldMessages
from turnfold.records import Document, Entry, Message, NewEntry, decode_message, encode_message
from turnfold.stores.protocol import Head, Scope
from turnfold.stores.sqlite_store import SqliteStore
from turnfold.tokens import TokenCounter
from turnfold.window import Anchor

__all__ = ("Added", "SavedMessages")

_SCOPE = Scope("local")
_KIND, _KEY = "message-memory", "state"
_VERSION = 1
_PAGE = 1000


class Added(NamedTuple):
    """A message that is in the log."""

    message: Message
    number: int
    """Its place in the log."""
    tokens: int | None
    """Its cost; None where the log has it by another counter."""


class _AnchorForm(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    position: int = 0
    caps: tuple[tuple[int, int], ...] = ()
    summary: str = ""
    covered: int = 0
    reason: str = ""


class _State(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    v: int
    seq: int
    """The newest entry it speaks of; what comes after it is added again."""
    limits: str
    """What the messages were held to: under other limits more may have to go."""
    system: tuple[msgspec.Raw, ...]
    held: tuple[tuple[int, int], ...]
    """First and last of each run of entries that are in the transcript."""
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
        self._where = f"session {session!r} of {str(path)!r}"
        self._counter = counter
        self._limits = limits
        self._head = Head()
        self._version = 0
        self._state: _State | None = None
        self._unsaved = False
        self._appended = False
        self._anchor = Anchor()

    def load(self) -> HeldMessages:
        """What was held when the state was saved; nothing where none was."""
        # The document before the head: a state that is read never speaks of entries that are not.
        document = drive(self._store.get_document(_SCOPE, self._session, _KIND, _KEY))
        self._head = drive(self._store.head(_SCOPE, self._session))
        held = HeldMessages(self._counter)
        if document is None:
            return held
        self._version = document.version
        self._state = state = _read_state(document.body)
        for raw in state.system:
            held.transcript.add(decode_message(bytes(raw)))
        for first, last in state.held:
            self._load_run(held, first, last)
        held.complete = state.complete
        held.anchor = self._anchor = _anchor(state.anchor)
        held.windows.update((tokens, _anchor(form)) for tokens, form in state.windows)
        return held

    def added_since(self) -> Iterator[Added]:
        """The log after the saved state."""
        after = self._state.seq if self._state else 0
        while entries := self._read(after, self._head.seq):
            after = entries[-1].seq
            yield from map(self._added, entries)

    def settle(self, *, changed: bool) -> bool:
        """The state has been restored; whether it was saved under other limits, which must be kept to from now on.

        Opening writes nothing. If `changed`, or under other limits, the state is saved with the next change.
        """
        moved = self._state is not None and self._state.limits != self._limits
        self._unsaved = changed or moved
        self._state = None
        return moved

    def append(self, message: Message, held: HeldMessages) -> Added:
        """Write a message to the log; it is durable on return. `held` is what is held without it."""
        self.check_current(held)
        before = self._head
        try:
            appended = drive(
                self._store.append(
                    _SCOPE, self._session, [NewEntry(message)], expect=self._head.seq
                )
            )
        except Conflict as conflict:
            raise self._conflict() from conflict
        self._head, self._appended = appended.head, True
        same_counter = before.counter in ("", self._counter.name)
        tokens = appended.head.tokens - before.tokens if same_counter else None
        return Added(message, appended.last, tokens)

    def check_current(self, held: HeldMessages) -> None:
        """Refuse to go on where another writer was; save what could not be saved before."""
        document = drive(self._store.get_document(_SCOPE, self._session, _KIND, _KEY))
        head = drive(self._store.head(_SCOPE, self._session))
        if (document.version if document else 0) != self._version or head.seq != self._head.seq:
            raise self._conflict()
        if self._unsaved:
            self.save(held)

    def save(self, held: HeldMessages) -> None:
        """Write the state; if that fails, it is written before the next change."""
        self._unsaved = True
        document = Document(_KIND, _KEY, _encoder.encode(self._state_of(held)), 0)
        try:
            stored = drive(
                self._store.put_document(_SCOPE, self._session, document, expect=self._version)
            )
        except Conflict as conflict:
            raise self._conflict() from conflict
        self._version, self._anchor = stored.document.version, held.anchor
        self._unsaved = self._appended = False

    def save_soon(self, held: HeldMessages) -> None:
        """Write the state of messages that are in the log already: a failure must not look as if they were not."""
        try:
            self.save(held)
        except (Conflict, StoreUnavailable):
            self._unsaved = True  # the next change meets the same trouble before it does anything

    def close(self, held: HeldMessages | None = None) -> None:
        """Save the state if it lags behind, and let go of the file. Closing twice is allowed."""
        # With the anchor saved, not even wider limits bring back what the present ones let go.
        lags = held is not None and self._appended and held.anchor != self._anchor
        try:
            if held is not None and (self._unsaved or lags):
                with suppress(
                    Conflict
                ):  # the state is another writer's now; all messages are in the log
                    self.check_current(held)
                    self.save(held)
        finally:
            self._unsaved = self._appended = False
            drive(self._store.close())

    def _load_run(self, held: HeldMessages, first: int, last: int) -> None:
        after = first - 1
        while after < last:
            entries = self._read(after, last)
            if not entries:
                raise InvalidRecord(
                    f"{self._where} holds entries {first} to {last}, but its log has none after {after}",
                    remedy="Restore the file from a backup",
                )
            after = entries[-1].seq
            for entry in entries:
                held.add(*self._added(entry))

    def _read(self, after: int, upto: int) -> list[Entry]:
        return drive(self._store.read(_SCOPE, self._session, after=after, upto=upto, limit=_PAGE))

    def _added(self, entry: Entry) -> Added:
        counted = self._head.counter == self._counter.name
        return Added(entry.message, entry.seq, entry.tokens if counted else None)

    def _state_of(self, held: HeldMessages) -> _State:
        return _State(
            v=_VERSION,
            seq=self._head.seq,
            limits=self._limits,
            system=tuple(msgspec.Raw(encode_message(each)) for each in held.transcript.system),
            held=_runs(held.numbers),
            complete=held.complete,
            anchor=_form(held.anchor),
            windows=tuple((tokens, _form(anchor)) for tokens, anchor in held.windows.items()),
        )

    def _conflict(self) -> Conflict:
        return Conflict(
            f"another writer has changed {self._where}; nothing was written: open it again to go on from what it "
            "holds now, and give each writer a session_id of its own"
        )


def _read_state(body: bytes) -> _State:
    try:
        version = _version_decoder.decode(body).v
        if version == _VERSION:
            return _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InvalidRecord(f"not the state of a message memory: {error}") from None
    raise InvalidRecord(
        f"state version {version}; this release reads version {_VERSION}",
        path="v",
        remedy="Upgrade turnfold",
    )


def _runs(numbers: array[int]) -> tuple[tuple[int, int], ...]:
    """Ascending numbers as (first, last) of each run without a gap."""
    runs: list[tuple[int, int]] = []
    first = previous = 0
    for number in numbers:
        if number != previous + 1 or not first:
            if first:
                runs.append((first, previous))
            first = number
        previous = number
    return (*runs, (first, previous)) if first else ()


def _form(anchor: Anchor) -> _AnchorForm:
    return _AnchorForm(anchor.position, anchor.caps, anchor.summary, anchor.covered, anchor.reason)


def _anchor(form: _AnchorForm) -> Anchor:
    return Anchor(form.position, form.caps, form.summary, form.covered, form.reason)
