"""The state of a conversation next to its log: two JSON documents (notes), and a consistent view of both with the log.

Values computed from the log are not stored, so they can neither differ from the log nor expire. Stored are the fields
that the application set (`SessionNote`) and the work in progress between two calls (`TurnNote`). A restart of the
conversation writes a third note; the other two carry its version, and a note with an older version counts as empty.

A conversation belongs to one enterprise, one patient and one user. The first ids that are given are stored; a call with
other ids raises `InvalidOption`, which does not tell the stored ones.

A caller passes a summary without saying which entries it covers, perhaps long after a query requested it and after
another summary was stored. So each query that requests a summary records the newest entry it returned, in an `Offer`
(one per checkpoint that was current at that time). Until one summary per request has come, a summary is assumed to
cover no more than the shortest of these reads. Requests that are never answered by a summary are dropped after a few
checkpoints, because they would limit all later summaries.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import msgspec

from turnfold.errors import Conflict, InvalidOption, InvalidRecord
from turnfold.memories.short_memory.changed_fields import Places
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
from turnfold.stores import Head, Scope, Store, View, Written

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
    "make_view",
    "newest_seen",
    "with_settings",
)


_MAX_GROUPS: Final = 2
"""Most offers that are kept for a conversation: groups of queries that asked for a summary at the same checkpoint, none
of which is stored yet."""
_MAX_READERS: Final = 4
"""Most queries that are counted in one offer (group of queries that asked for a summary at the same checkpoint)."""
_MAX_LANDINGS: Final = 3
"""An offer (group of queries that asked for a summary at the same checkpoint) is dropped after this many summaries were
stored."""


class Offer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The summaries that queries requested at one checkpoint and that are not stored yet, with the entries read."""

    live: str
    seen: int
    """Seq (log position) of the newest entry that all queries of this offer returned."""
    readers: int = 1
    landings: int = 0
    """Number of summaries that were stored since this offer was made."""


Offers = tuple[Offer, ...]
"""All offers (requested summaries that are not stored yet) of a conversation, newest first."""


def add_offer(offers: Offers, *, live: str, seen: int, covered: int) -> Offers:
    """Return the offers (pending requests for summaries) after a query that read up to `seen` requested one."""
    for group in offers:
        if group.live == live and group.seen > covered:
            readers, least = min(group.readers + 1, _MAX_READERS), min(group.seen, seen)
            joined = msgspec.structs.replace(group, readers=readers, seen=least)
            return tuple(joined if each is group else each for each in offers)
    return Offer(live, seen), *offers[: _MAX_GROUPS - 1]


def count_landing(offers: Offers) -> Offers:
    """Return the pending requests for summaries (offers) that remain after a summary answered one of them."""
    left = [
        msgspec.structs.replace(
            group, readers=group.readers - (at == 0), landings=group.landings + 1
        )
        for at, group in enumerate(offers)
    ]
    return tuple(group for group in left if group.readers and group.landings < _MAX_LANDINGS)


def newest_seen(offers: Offers, *, covered: int, newest: int) -> int:
    """Return the seq of the newest entry that a summary may cover if its caller does not say it (`upto`).

    Returns `covered` if no newer entry may be covered.
    """
    waiting = [group.seen for group in offers if group.seen > covered]
    if waiting:
        return min(waiting)
    return covered if offers else newest


def has_offer(offers: Offers, live: str) -> bool:
    """Return True if a query requested a summary while the checkpoint `live` was the current one."""
    return any(group.live == live for group in offers)


_KIND: Final = "short-memory"
_TRIES: Final = 64
"""Attempts to make one change; an attempt fails if another writer was first."""


class _Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    v: int = 1
    start: int = 0
    """Version of the document that records the last restart of the conversation; 0 if it was never restarted."""


class SessionNote(_Note, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Stored note (document): the owner of a conversation (user, enterprise, patient), and fields of applications."""

    user_id: str = ""
    enterprise_id: str = ""
    patient_id: str = ""
    settings: tuple[tuple[tuple[str, ...], object], ...] = ()
    full_after: str | None = None
    """Id of a checkpoint (summary) in whose place the whole history is shown, until the next checkpoint; None for
    none."""

    @property
    def places(self) -> Places:
        """The fields that applications set, by their path in the session (the JSON object of document 003)."""
        return dict(self.settings)


class TurnNote(_Note, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Stored note (document) of the work in progress: a query without an answer, pending requests for a summary."""

    ask: str = ""
    """Id of the stored query that has no answer yet."""
    query: str = ""
    taken: str = ""
    """Client id of the write that is answering this query; empty if none is."""
    used: str = ""
    """Id of the query that was answered last."""
    offers: tuple[Offer, ...] = ()
    landed: str = ""
    """Id of the last checkpoint (summary) that `checkpoint_short_memory` stored."""
    landed_bound: int = 0
    """Seq (log position) of the newest entry that the summary of the last checkpoint can cover."""

    def with_changes(self, changes: Mapping[str, object]) -> TurnNote:
        """Return a copy of the note with some fields changed."""
        return msgspec.structs.replace(self, **changes) if changes else self


_AnyNote = TypeVar("_AnyNote", bound=_Note)
_KEYS: Final[dict[type[_Note], str]] = {SessionNote: "session", TurnNote: "turn"}
_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationView:
    """The notes, head (newest seq, version) and newest checkpoint (summary) of a conversation, read at one instant."""

    conversation: str
    head: Head
    cleared: int
    """Seq (log position) of the last entry before the last restart; 0 without a restart."""
    start: int
    """Version of the document that records the last restart of the conversation."""
    latest: Checkpoint | None
    """The newest checkpoint (summary), even if the conversation was restarted since."""
    note: SessionNote
    turn: TurnNote
    """The query in progress (a `TurnNote`): asked and not answered yet."""
    turn_version: int
    """Version of the document that stores `turn`; 0 if there is none."""
    changed: int
    """Time of the newest change of settings, restart or checkpoint, in microseconds since 1970."""
    stored: View
    """The stored records of which this view was made."""

    @property
    def live(self) -> Checkpoint | None:
        """The newest checkpoint (summary); None if there is none, or if it covers only what was before a restart."""
        return self.latest if self.latest and self.latest.upto > self.cleared else None

    @property
    def covered(self) -> int:
        """Seq of the last entry that a summary covers, or that was written before a restart."""
        return max(self.cleared, self.latest.upto if self.latest else 0)

    @property
    def mode(self) -> MemoryMode:
        """FULL_HISTORY, or SUMMARY_N: a summary and the newest turns."""
        live = self.live
        if live is None or self.note.full_after == live.id:
            return MemoryMode.FULL_HISTORY
        return MemoryMode.SUMMARY_N


def make_view(conversation: str, view: View) -> ConversationView:
    """Return the state of a conversation, decoded from the data that a store read at one instant."""
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
        stored=view,
    )


@dataclass(frozen=True, slots=True)
class ShortNotes:
    """Reads and changes the notes (documents) of conversations in the store, by compare-and-swap."""

    store: Store
    scope: Scope

    async def read_view(self, conversation: str) -> ConversationView:
        """Return the notes, head (newest seq, version) and newest checkpoint of a conversation, read at one instant."""
        return make_view(
            conversation, await self.store.view(self.scope, conversation, (SESSION, _KIND))
        )

    async def change_session(
        self, conversation: str, change: Callable[[SessionNote], SessionNote]
    ) -> None:
        """Change the stored session note by compare-and-swap; `change` is called again after a conflict."""
        await self._change(conversation, SessionNote, change)

    async def change_turn(
        self, conversation: str, change: Callable[[TurnNote], TurnNote]
    ) -> TurnNote:
        """Change the stored turn note (work in progress) by compare-and-swap; return the new note."""
        return (await self._change(conversation, TurnNote, change))[0]

    async def change_turn_since(
        self, view: ConversationView, change: Callable[[TurnNote], TurnNote]
    ) -> ConversationView | None:
        """Change the stored turn note (the query in progress) and return the conversation's state after the change.

        If anything else was written since `view` was read, the change is stored all the same, but None is returned:
        read the state again.
        """
        changed = change(view.turn)
        if changed == view.turn:
            return view
        document = Document(_KIND, _KEYS[TurnNote], _encoder.encode(changed), 0)
        try:
            written = await self.store.put_document(
                self.scope, view.conversation, document, expect=view.turn_version
            )
        except Conflict:  # another call changed it since: change what is there now
            await self._change(view.conversation, TurnNote, change)
            return None
        if written.before != view.head.state:
            return None
        made, stored = written.document, view.stored
        others = [each for each in stored.documents if (each.kind, each.key) != (_KIND, made.key)]
        generation, epoch = written.after
        head = replace(stored.head, generation=generation, epoch=epoch)
        return make_view(view.conversation, View(head, stored.checkpoint, (*others, made)))

    async def start_over(self, conversation: str) -> None:
        """Restart a conversation: hide all messages, settings and work in progress; the log keeps the messages."""

        async def cleared(_: Document | None) -> Document:
            head = await self.store.head(self.scope, conversation)
            return write_note(SESSION, CLEARED, ClearedNote(upto=head.seq))

        await self._update(conversation, SESSION, CLEARED, cleared)

    async def _change(
        self, conversation: str, note_type: type[_AnyNote], change: Callable[[_AnyNote], _AnyNote]
    ) -> tuple[_AnyNote, Written | None]:
        """Change a stored note; return the note and the write, which is None if the stored note was the same."""
        key, result = _KEYS[note_type], note_type()

        async def changed(stored: Document | None) -> Document | None:
            nonlocal result
            result = note_type()
            if stored is None and note_type is TurnNote and change(result) == result:
                return None  # nothing to write, so the restart need not be read
            # The restart is read after the note, so the note cannot belong to a later restart.
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
        """Replace a document by compare-and-swap; after a conflict `change` is called again.

        If it returns None, nothing is written.
        """
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
        raise InvalidRecord(
            f"the stored note of a short-term memory cannot be decoded: {error}", path=path
        ) from None
    if note.v != 1:
        raise InvalidRecord(
            f"the stored note of a short-term memory has version {note.v}; this release reads version 1",
            path=path,
            remedy="Upgrade turnfold",
        )
    return note


def _current(note: _AnyNote, start: int) -> _AnyNote:
    """Return the note as a later restart (version `start`) left it: only the owner, or only the pending requests."""
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
    """Return the note with the ids that it did not have yet.

    Raises `InvalidOption` if an id differs from the stored one.
    """
    known = {
        "user_id": (note.user_id, user_id),
        "enterprise_id": (note.enterprise_id, enterprise_id),
        "patient_id": (note.patient_id, patient_id),
    }
    for name, (stored, given) in known.items():
        if stored and given and stored != given:
            raise InvalidOption(
                f"this conversation belongs to another {name} than the {name} that was passed: use another "
                "conversation_id, or one scope per tenant"
            )
        check_text(given, path=name)
    fresh = {name: given for name, (stored, given) in known.items() if given and not stored}
    changed = msgspec.structs.replace(note, **fresh) if fresh else note
    if not agent_code or changed.places.get(_AGENT_PATH) == agent_code:
        return changed
    check_text(agent_code, path="agent_code")
    return with_settings(changed, {**changed.places, _AGENT_PATH: agent_code}, None)


def with_settings(note: SessionNote, places: Places, full_after: str | None) -> SessionNote:
    """Return the note with these application fields; `full_after` "" clears that field, None leaves it unchanged."""
    settings = tuple(sorted(places.items(), key=lambda item: item[0]))
    chosen = note.full_after if full_after is None else full_after or None
    return msgspec.structs.replace(note, settings=settings, full_after=chosen)


def chosen_mode(
    session: SessionValue, mode: MemoryMode | None, current: SessionValue
) -> str | None:
    """Return the new value of the field `full_after` for a mode that the caller set: "" clears it, None keeps it."""
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
