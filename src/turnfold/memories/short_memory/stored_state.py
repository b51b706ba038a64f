"""The state of a conversation beside its log: two notes, and a consistent view of them with the log.

What is derived from the log is never stored twice, so it can neither differ from the log nor expire. Stored are what
the application set (`SessionNote`) and what is in progress between two calls (`TurnNote`). Both carry the version of
the note that says up to where the conversation was restarted, so that one write of that note empties them.

A conversation belongs to one enterprise, one patient and one user. The first who names them is believed; one who names
others is refused without being told whose it is.

A summary comes without information on what it covers, perhaps long after it was requested and after another one was
stored. So each query that requests a summary records how far it had read, as an `Offer` per checkpoint that was live
then. Until as many summaries have come, none is taken to have seen more than the first reader of its group. Readers who
never bring a summary are forgotten after a few checkpoints, or they would hold up everybody.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from turnfold.errors import Conflict, InvalidOption, InvalidRecord
from turnfold.memories.short_memory.session_changes import Places
from turnfold.memories.short_memory.values import SessionValue
from turnfold.memory import MemoryMode
from turnfold.records import (
    CLEARED,
    SESSION,
    Checkpoint,
    ClearedNote,
    Document,
    check_text,
    read_note,
    write_note,
)
from turnfold.stores import Head, Scope, State, Store, Written

__all__ = (
    "ConversationView",
    "Offer",
    "SessionNote",
    "ShortNotes",
    "TurnNote",
    "add_offer",
    "bind_owner",
    "chosen_mode",
    "count_landing",
    "has_offer",
    "newest_seen",
    "with_settings",
)


_MAX_GROUPS: Final = 2
_MAX_READERS: Final = 4
"""Pending summaries per group."""
_MAX_LANDINGS: Final = 3
"""Checkpoints after which a group is dropped."""


class Offer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Queries that requested a summary while the same checkpoint was live."""

    live: str
    seen: int
    """The newest entry that all of them had read."""
    readers: int = 1
    landings: int = 0
    """Checkpoints stored since."""


Offers = tuple[Offer, ...]
"""Newest group first."""


def add_offer(offers: Offers, *, live: str, seen: int, covered: int) -> Offers:
    """Add a query that has read up to `seen` and requested a summary."""
    for group in offers:
        if group.live == live and group.seen > covered:
            readers, least = min(group.readers + 1, _MAX_READERS), min(group.seen, seen)
            joined = msgspec.structs.replace(group, readers=readers, seen=least)
            return tuple(joined if each is group else each for each in offers)
    return Offer(live, seen), *offers[: _MAX_GROUPS - 1]


def count_landing(offers: Offers) -> Offers:
    """Update the offers after a summary came: one reader less in the newest group, whoever brought it."""
    left = [
        msgspec.structs.replace(
            group, readers=group.readers - (at == 0), landings=group.landings + 1
        )
        for at, group in enumerate(offers)
    ]
    return tuple(group for group in left if group.readers and group.landings < _MAX_LANDINGS)


def newest_seen(offers: Offers, *, covered: int, newest: int) -> int:
    """Return the newest entry that a summary of an unknown reader can cover; `covered` for nothing new."""
    waiting = [group.seen for group in offers if group.seen > covered]
    if waiting:
        return min(waiting)
    return covered if offers else newest


def has_offer(offers: Offers, live: str) -> bool:
    """Return True if a query requested a summary since this checkpoint."""
    return any(group.live == live for group in offers)


_KIND: Final = "short-memory"
_TRIES: Final = 64
"""Attempts of one change that keeps conflicting with other writers."""


class _Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    v: int = 1
    start: int = 0
    """Version of the note on the last restart of the conversation; 0 without one."""


class SessionNote(_Note, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Owner and settings of a conversation, as the application set them."""

    user_id: str = ""
    enterprise_id: str = ""
    patient_id: str = ""
    settings: tuple[tuple[tuple[str, ...], object], ...] = ()
    full_after: str | None = None
    """Show the whole history instead of this checkpoint, until the next one; None for no checkpoint."""

    @property
    def places(self) -> Places:
        """The settings by path."""
        return dict(self.settings)


class TurnNote(_Note, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Work in progress: a query without an answer, requests for a summary."""

    ask: str = ""
    """Id of the query that waits for its answer."""
    query: str = ""
    taken: str = ""
    """Client id of the write that answers it."""
    used: str = ""
    """Id of the query that was answered last."""
    offers: tuple[Offer, ...] = ()
    landed: str = ""
    """The last checkpoint made by `checkpoint_short_memory`."""
    landed_bound: int = 0
    """The newest entry that its summary can cover."""

    def with_changes(self, changes: Mapping[str, object]) -> TurnNote:
        """Return the note with some fields changed."""
        return msgspec.structs.replace(self, **changes) if changes else self


_AnyNote = TypeVar("_AnyNote", bound=_Note)
_KEYS: Final[dict[type[_Note], str]] = {SessionNote: "session", TurnNote: "turn"}
_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationView:
    """The state of a conversation at one instant."""

    conversation: str
    head: Head
    cleared: int
    """The last entry before the last restart."""
    start: int
    """Version of the note on that restart."""
    latest: Checkpoint | None
    """The newest checkpoint, even if the conversation was restarted since."""
    note: SessionNote
    turn: TurnNote
    """What is in progress."""
    turn_version: int
    """Version of its document; 0 if there is none."""
    changed: int
    """Time of the newest change of notes and checkpoint, in microseconds since 1970."""

    @property
    def live(self) -> Checkpoint | None:
        """The newest checkpoint, unless everything it covers lies before a restart."""
        return self.latest if self.latest and self.latest.upto > self.cleared else None

    @property
    def covered(self) -> int:
        """The last entry covered by a summary or a restart."""
        return max(self.cleared, self.latest.upto if self.latest else 0)

    @property
    def mode(self) -> MemoryMode:
        """Full history, or a summary and the newest turns."""
        live = self.live
        if live is None or self.note.full_after == live.id:
            return MemoryMode.FULL_HISTORY
        return MemoryMode.SUMMARY_N


@dataclass(frozen=True, slots=True)
class ShortNotes:
    """Reads and changes the notes of conversations."""

    store: Store
    scope: Scope

    async def read_view(self, conversation: str) -> ConversationView:
        """Read a conversation at one instant, with one call of the store."""
        view = await self.store.view(self.scope, conversation, (SESSION, _KIND))
        found = {(each.kind, each.key): each for each in view.documents}
        cleared, settings = found.get((SESSION, CLEARED)), found.get((_KIND, _KEYS[SessionNote]))
        turn = found.get((_KIND, _KEYS[TurnNote]))
        start = _version(cleared)
        changes = [each.created for each in (settings, cleared, view.checkpoint) if each]
        return ConversationView(
            conversation=conversation,
            head=view.head,
            cleared=read_note(cleared, ClearedNote).upto,
            start=start,
            latest=view.checkpoint,
            note=_current(_read(settings, SessionNote), start),
            turn=_current(_read(turn, TurnNote), start),
            turn_version=_version(turn),
            changed=max(changes, default=0),
        )

    async def change_session(
        self, conversation: str, change: Callable[[SessionNote], SessionNote]
    ) -> None:
        """Change the settings; `change` is called again after a conflict."""
        await self._change(conversation, SessionNote, change)

    async def change_turn(
        self, conversation: str, change: Callable[[TurnNote], TurnNote]
    ) -> TurnNote:
        """Change what is in progress; return the new note."""
        return (await self._change(conversation, TurnNote, change))[0]

    async def change_turn_since(
        self, view: ConversationView, change: Callable[[TurnNote], TurnNote]
    ) -> State | None:
        """Change what is in progress; return the state after that if nothing else changed since the view, else None."""
        changed = change(view.turn)
        if changed == view.turn:
            return view.head.state
        document = Document(_KIND, _KEYS[TurnNote], _encoder.encode(changed), 0)
        try:
            written = await self.store.put_document(
                self.scope, view.conversation, document, expect=view.turn_version
            )
        except Conflict:  # another call changed it since: change what is there now
            await self._change(view.conversation, TurnNote, change)
            return None
        return written.after if written.before == view.head.state else None

    async def start_over(self, conversation: str) -> None:
        """Restart a conversation: hide all messages, settings and what is in progress; the log stays."""

        async def cleared(_: Document | None) -> Document:
            head = await self.store.head(self.scope, conversation)
            return write_note(SESSION, CLEARED, ClearedNote(upto=head.seq))

        await self._update(conversation, SESSION, CLEARED, cleared)

    async def _change(
        self, conversation: str, note_type: type[_AnyNote], change: Callable[[_AnyNote], _AnyNote]
    ) -> tuple[_AnyNote, Written | None]:
        """Change a note and return it, with the write if there was one; a `TurnNote` is written only if it changes."""
        key, result = _KEYS[note_type], note_type()

        async def changed(stored: Document | None) -> Document | None:
            nonlocal result
            result = note_type()
            if stored is None and note_type is TurnNote and change(result) == result:
                return None  # the restart matters only once something is in progress
            # The restart is read after the note, so the note is never of a later one.
            start = _version(await self._get(conversation, SESSION, CLEARED))
            note = _current(_read(stored, note_type), start)
            result = change(note)
            if result == note and (stored is not None or note_type is TurnNote):
                return None
            return Document(_KIND, key, _encoder.encode(result), 0)

        written = await self._update(conversation, _KIND, key, changed)
        return result, written

    async def _update(
        self,
        conversation: str,
        kind: str,
        key: str,
        change: Callable[[Document | None], Awaitable[Document | None]],
    ) -> Written | None:
        """Replace a document with compare-and-swap; after a conflict `change` is called again. None writes nothing."""
        for attempt in range(_TRIES):
            stored = await self._get(conversation, kind, key)
            document = await change(stored)
            if document is None:
                return None
            try:
                return await self.store.put_document(
                    self.scope, conversation, document, expect=_version(stored)
                )
            except Conflict:
                if attempt == _TRIES - 1:
                    raise
        return None

    async def _get(self, conversation: str, kind: str, key: str) -> Document | None:
        return await self.store.get_document(self.scope, conversation, kind, key)


def _version(document: Document | None) -> int:
    return document.version if document else 0


def _read(document: Document | None, note_type: type[_AnyNote]) -> _AnyNote:
    if document is None:
        return note_type()
    path = f"{document.kind}/{document.key}"
    try:
        note = msgspec.json.decode(document.body, type=note_type)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InvalidRecord(f"not a short memory note: {error}", path=path) from None
    if note.v != 1:
        raise InvalidRecord(
            f"note version {note.v}; this release reads version 1",
            path=path,
            remedy="Upgrade turnfold",
        )
    return note


def _current(note: _AnyNote, start: int) -> _AnyNote:
    """Return the note; if it is older than the restart `start`, only the owner (session) or offers (turn) remain."""
    if note.start == start:
        return note
    if isinstance(note, SessionNote):
        return msgspec.structs.replace(note, start=start, settings=(), full_after=None)
    if isinstance(note, TurnNote):
        # A summary of the old messages may still come: it must not be taken for one of the new messages.
        return type(note)(start=start, offers=note.offers)
    return note


_AGENT_PATH = ("flow_context", "current_agent_key")


def bind_owner(
    note: SessionNote,
    *,
    user_id: str = "",
    enterprise_id: str = "",
    patient_id: str = "",
    agent_code: str = "",
) -> SessionNote:
    """Add what was not known yet to a note; raises `InvalidOption` if it contradicts."""
    known = {
        "user_id": (note.user_id, user_id),
        "enterprise_id": (note.enterprise_id, enterprise_id),
        "patient_id": (note.patient_id, patient_id),
    }
    for name, (stored, given) in known.items():
        if stored and given and stored != given:
            raise InvalidOption(
                f"this conversation belongs to another {name} than the one given: use another conversation_id, or "
                "a scope per tenant"
            )
        check_text(given, path=name)
    fresh = {name: given for name, (stored, given) in known.items() if given and not stored}
    changed = msgspec.structs.replace(note, **fresh) if fresh else note
    if not agent_code or changed.places.get(_AGENT_PATH) == agent_code:
        return changed
    check_text(agent_code, path="agent_code")
    return with_settings(changed, {**changed.places, _AGENT_PATH: agent_code}, None)


def with_settings(note: SessionNote, places: Places, full_after: str | None) -> SessionNote:
    """Return the note with other settings; `full_after` "" ends showing everything, None leaves it unchanged."""
    settings = tuple(sorted(places.items(), key=lambda item: item[0]))
    chosen = note.full_after if full_after is None else full_after or None
    return msgspec.structs.replace(note, settings=settings, full_after=chosen)


def chosen_mode(
    session: SessionValue, mode: MemoryMode | None, current: SessionValue
) -> str | None:
    """Return the checkpoint to replace by the whole history; "" for none any more, None for no choice."""
    if mode is None:
        return None
    read_at = session.message_context.checkpoint_message_id
    if mode is MemoryMode.SUMMARY_N:
        if not current.message_context.checkpoint_message_id:
            raise InvalidOption(
                "mode SUMMARY_N needs a checkpoint and there is none: make one with checkpoint_short_memory"
            )
        return ""
    return read_at or None
