"""Where a conversation stands: the log, the live checkpoint and two notes beside them, as of one instant.

What follows from the log is never stored a second time, so it can neither differ from the log nor expire. Stored beside
it are what the application set (`SessionNote`) and what is under way between two calls (`TurnNote`). Both carry the
version of the note that says up to where the conversation was started over: a later start empties them in one write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from turnfold.errors import Conflict, InvalidRecord
from turnfold.memory.fold_keeper import MemoryMode
from turnfold.memory.notes import CLEARED, SESSION, ClearedNote, read_note, write_note
from turnfold.memory.short_term.merge import Places
from turnfold.memory.short_term.offers import Offer
from turnfold.records import Checkpoint, Document
from turnfold.stores.protocol import Head, Scope, Store

__all__ = ("Noted", "SessionNote", "ShortNotes", "Standing", "TurnNote")

_KIND: Final = "short-memory"
_TRIES: Final = 64
"""Contests with other writers that one change may lose."""


class _Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    v: int = 1
    start: int = 0
    """Version of the note of where the conversation was started over; 0 where it never was."""


class SessionNote(_Note, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the application said of a conversation."""

    user_id: str = ""
    enterprise_id: str = ""
    patient_id: str = ""
    settings: tuple[tuple[tuple[str, ...], object], ...] = ()
    full_after: str | None = None
    """The checkpoint in whose place the whole history is to be shown, until another one; None for none."""

    @property
    def places(self) -> Places:
        """What it set, by place."""
        return dict(self.settings)


class TurnNote(_Note, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is under way between a query and its answer, and between an offer to summarise and the summary."""

    ask: str = ""
    """Names the query that waits for its answer."""
    query: str = ""
    taken: str = ""
    """Client id of the write that is using it."""
    used: str = ""
    """The query that was answered last."""
    offers: tuple[Offer, ...] = ()
    landed: str = ""
    """The checkpoint made last through this protocol."""
    landed_bound: int = 0
    """The newest entry its summary can have seen."""

    def with_changes(self, changes: Mapping[str, object]) -> TurnNote:
        """The note with some fields changed."""
        return msgspec.structs.replace(self, **changes) if changes else self


_Form = TypeVar("_Form", bound=_Note)
_KEYS: Final[dict[type[_Note], str]] = {SessionNote: "session", TurnNote: "turn"}
_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Noted:
    """A document as it was read."""

    document: Document | None

    @property
    def version(self) -> int:
        """0 where there is none."""
        return self.document.version if self.document else 0

    @property
    def changed(self) -> int:
        """Microseconds since 1970; 0 where there is none."""
        return self.document.created if self.document else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A conversation at one instant."""

    conversation: str
    head: Head
    cleared: int
    """Up to where it was started over."""
    start: int
    """Which start that was."""
    latest: Checkpoint | None
    """The live checkpoint, whatever was started over since."""
    note: SessionNote
    changed: int
    """Microseconds since 1970 of the newest change beside the log."""

    @property
    def live(self) -> Checkpoint | None:
        """The checkpoint that stands for something still shown."""
        return self.latest if self.latest and self.latest.upto > self.cleared else None

    @property
    def covered(self) -> int:
        """The last entry that is behind a summary or a start."""
        return max(self.cleared, self.latest.upto if self.latest else 0)

    @property
    def mode(self) -> MemoryMode:
        """What is shown of the past."""
        live = self.live
        if live is None or self.note.full_after == live.id:
            return MemoryMode.FULL_HISTORY
        return MemoryMode.SUMMARY_N


@dataclass(frozen=True, slots=True)
class ShortNotes:
    """Reads and changes what stands beside the log."""

    store: Store
    scope: Scope

    async def standing(self, conversation: str) -> Standing:
        """Where the conversation stands. The head is read last: what is written meanwhile is simply newer."""
        for _ in range(_TRIES):
            latest = await self.store.live_checkpoint(self.scope, conversation)
            cleared = await self._get(conversation, SESSION, CLEARED)
            noted = await self._get(conversation, _KIND, _KEYS[SessionNote])
            head = await self.store.head(self.scope, conversation)
            again = await self._get(conversation, SESSION, CLEARED)
            # A checkpoint or a start in between would give parts of two instants; both are rare.
            if (
                head.checkpoint == (latest.id if latest else "")
                and again.version == cleared.version
            ):
                return Standing(
                    conversation=conversation,
                    head=head,
                    cleared=read_note(cleared.document, ClearedNote).upto,
                    start=cleared.version,
                    latest=latest,
                    note=_current(_read(noted.document, SessionNote), cleared.version),
                    changed=max(noted.changed, cleared.changed, latest.created if latest else 0),
                )
        raise Conflict(
            f"conversation {conversation!r} was folded or started over {_TRIES} times while it was read: read it again"
        )

    async def change_session(
        self, conversation: str, change: Callable[[SessionNote], SessionNote]
    ) -> None:
        """Change what the application set; `change` is asked again where another was faster."""
        await self._change(conversation, SessionNote, change)

    async def change_turn(
        self, conversation: str, change: Callable[[TurnNote], TurnNote]
    ) -> TurnNote:
        """Change what is under way; the note as it is then."""
        return await self._change(conversation, TurnNote, change)

    async def turn(self, standing: Standing) -> TurnNote:
        """What is under way."""
        noted = await self._get(standing.conversation, _KIND, _KEYS[TurnNote])
        return _current(_read(noted.document, TurnNote), standing.start)

    async def start_over(self, conversation: str) -> None:
        """Everything said, set and under way so far is past: one write, and it stays in the log."""
        for attempt in range(_TRIES):
            noted = await self._get(conversation, SESSION, CLEARED)
            head = await self.store.head(self.scope, conversation)
            document = write_note(SESSION, CLEARED, ClearedNote(upto=head.seq))
            if await self._put(conversation, document, noted.version, last=attempt == _TRIES - 1):
                return

    async def _change(
        self, conversation: str, form: type[_Form], change: Callable[[_Form], _Form]
    ) -> _Form:
        key = _KEYS[form]
        for attempt in range(_TRIES):
            noted = await self._get(conversation, _KIND, key)
            nothing = form()
            if noted.document is None and key == _KEYS[TurnNote] and change(nothing) == nothing:
                return nothing  # of which start matters only once something is under way
            # Read after the note, so the note is never of a later start than the one it is held against.
            start = (await self._get(conversation, SESSION, CLEARED)).version
            note = _current(_read(noted.document, form), start)
            changed = change(note)
            if changed == note and (noted.document is not None or form is TurnNote):
                return note
            document = Document(_KIND, key, _encoder.encode(changed), 0)
            if await self._put(conversation, document, noted.version, last=attempt == _TRIES - 1):
                return changed
        raise AssertionError("the last try either wrote or raised")

    async def _put(
        self, conversation: str, document: Document, version: int, *, last: bool
    ) -> bool:
        try:
            await self.store.put_document(self.scope, conversation, document, expect=version)
        except Conflict:
            if last:
                raise
            return False
        return True

    async def _get(self, conversation: str, kind: str, key: str) -> Noted:
        return Noted(await self.store.get_document(self.scope, conversation, kind, key))


def _read(document: Document | None, form: type[_Form]) -> _Form:
    if document is None:
        return form()
    path = f"{document.kind}/{document.key}"
    try:
        note = msgspec.json.decode(document.body, type=form)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InvalidRecord(f"not a note of a short memory: {error}", path=path) from None
    if note.v != 1:
        raise InvalidRecord(
            f"note version {note.v}; this release reads version 1",
            path=path,
            remedy="Upgrade turnfold",
        )
    return note


def _current(note: _Form, start: int) -> _Form:
    """The note, or what a new start leaves of it: whose conversation it is."""
    if note.start == start:
        return note
    if isinstance(note, SessionNote):
        return msgspec.structs.replace(note, start=start, settings=(), full_after=None)
    if isinstance(note, TurnNote):
        # A summary of what was said before may still come: it must not be taken for one of what is said now.
        return type(note)(start=start, offers=note.offers)
    return note
