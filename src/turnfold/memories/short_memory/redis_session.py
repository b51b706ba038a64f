"""The session of a conversation in Redis, under the documented key: JSON that any program may read with GET.

The value is a copy of the session in the store. It carries the state of the conversation (generation and epoch, a
random number of each write) that it was made of and is used only while the store has that state, so a stale or lost
copy changes no result. A value that another program writes is adopted if it is a valid session of this conversation and
not older than the stored one: the fields that an application may set are stored, and fields computed from the log are
ignored. An invalid value is logged as a warning and overwritten.

Next to it is a cached segment with a MAC (keyed digest): the notes, the current checkpoint and the newest entries that
a query reads, with the state they were read in. It is used only while the store has exactly that state.

Deleting the key starts the conversation over, as documented. A key that expired, was evicted or was lost with its
server does not; a second key, written with the first, tells these cases apart.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from turnfold.errors import TurnfoldError
from turnfold.memories.short_memory.changed_fields import as_read, settable_of
from turnfold.memories.short_memory.stored_state import (
    ConversationView,
    SessionNote,
    ShortNotes,
    bind_owner,
    with_settings,
)
from turnfold.memories.short_memory.values import SessionValue
from turnfold.memory import MemoryMode
from turnfold.records import Entry
from turnfold.stores import Scope, State, View

__all__ = ("FoundKey", "SessionKey", "SessionValues")


_log = logging.getLogger(__name__)
_SECOND = 1_000_000


class FoundKey(Protocol):
    """The data found in Redis for one session: its value, the version it was made from, the cached segment."""

    @property
    def value(self) -> bytes | None:
        """The session value (JSON object of document 003) in Redis; None if there is none."""
        ...

    @property
    def state(self) -> State | None:
        """The version of the conversation that the value was written for; None if another program wrote the value."""
        ...

    @property
    def known(self) -> bool:
        """True if this store wrote the value, or wrote one that another program has overwritten since."""
        ...

    @property
    def deleted(self) -> bool:
        """True if this store wrote a value, and another program deleted the value before it expired."""
        ...

    @property
    def segment(self) -> bytes | None:
        """The cached segment (notes, newest entries) with its keyed digest; None if there is none."""
        ...

    @property
    def read_at(self) -> float:
        """Time of the request to Redis, in seconds of the monotonic clock."""
        ...


@runtime_checkable
class SessionValues(Protocol):
    """Access of the store to the sessions in Redis, JSON objects of document 003 (`CachedStore.session_values`)."""

    async def read_session(
        self, scope: Scope, conversation: str, *, segment: bool = False
    ) -> FoundKey:
        """Return the session (JSON object) in Redis; with `segment`, the cached notes and newest entries too."""
        ...

    def now(self) -> float:
        """Return the current time of the monotonic clock, to compare with `FoundKey.read_at`."""
        ...

    def open_segment(
        self, scope: Scope, conversation: str, sealed: bytes
    ) -> tuple[View, list[Entry]] | None:
        """Decode a cached segment: a view of the conversation and its newest entries; None if its MAC is wrong."""
        ...

    async def write_segment(
        self, scope: Scope, conversation: str, view: View, entries: Sequence[Entry], *, since: float
    ) -> None:
        """Cache a segment (view and newest entries of a conversation) that was read after the time `since`."""
        ...

    async def write_session(
        self, scope: Scope, conversation: str, value: bytes, state: State
    ) -> None:
        """Write a session (JSON object), made from the version `state`, to Redis under its documented key."""
        ...


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Reads and writes the documented Redis key of each session; does nothing if the store has no Redis in front."""

    notes: ShortNotes
    values: SessionValues | None

    async def sync(self, conversation: str, *, segment: bool = False) -> FoundKey | None:
        """Apply changes that other programs made to the key (deleted, rewritten); return the values found in Redis.

        With `segment`, the cached segment is read too. Returns None if there is no Redis.
        """
        if self.values is None:
            return None
        found = await self.values.read_session(self.notes.scope, conversation, segment=segment)
        if found.deleted:
            await self.notes.start_over(conversation)
        elif found.value is not None and found.state is None:
            await self._take_over(conversation, found.value, known=found.known)
        return found

    async def read(self, conversation: str) -> SessionValue | None:
        """Apply changes of other programs like `sync`; return the session (JSON) in Redis; None if not current."""
        found = await self.sync(conversation)
        if found is None or found.state is None:
            return None
        head = await self.notes.store.head(self.notes.scope, conversation)
        if head.state != found.state:
            return None
        try:
            session = SessionValue.from_json(found.value or b"")
        except TurnfoldError:  # of a release that writes other values
            return None
        session.as_read = as_read(session)
        return session

    def segment(self, conversation: str, found: FoundKey | None) -> tuple[View, list[Entry]] | None:
        """Return the cached segment in `found`, decoded: a view of the conversation and its newest entries.

        Returns None if there is no valid segment.
        """
        if self.values is None or found is None or found.segment is None:
            return None
        return self.values.open_segment(self.notes.scope, conversation, found.segment)

    async def write_segment(
        self, view: ConversationView, entries: Sequence[Entry], *, since: float
    ) -> None:
        """Cache the view and the entries that a query needs; they were read from the store after the time `since`."""
        if self.values is not None:
            await self.values.write_segment(
                self.notes.scope, view.conversation, view.stored, entries, since=since
            )

    async def write(self, conversation: str, session: SessionValue, state: State) -> None:
        """Write a session (JSON object of document 003) to Redis; it was read from the store at this version."""
        if self.values is not None:
            value = session.to_json().encode()
            await self.values.write_session(self.notes.scope, conversation, value, state)

    async def _take_over(self, conversation: str, value: bytes, *, known: bool) -> None:
        """Store the fields of a session (JSON) that another program wrote to Redis, if it is valid and current."""
        try:
            session = SessionValue.from_json(value)
            named = session.meta.conversation_id
            view = await self.notes.read_view(conversation)
            newest = max(view.changed, await self._newest_entry(view)) // _SECOND
            # Times are whole seconds: within the same second a value is newer if it replaced one of this store.
            if named != conversation or session.meta.updated_at < newest + (not known):
                return
            await self.notes.change_session(
                conversation, lambda note: _adopted(note, view, session)
            )
        except TurnfoldError as error:
            kind = type(error).__name__
            fields = {"event": "session_value_refused", "error": kind}
            _log.warning(
                "a session value that another program wrote to Redis is not valid (%s); it is overwritten",
                kind,
                extra=fields,
            )

    async def _newest_entry(self, view: ConversationView) -> int:
        seq = view.head.seq
        if seq <= view.cleared:
            return 0
        notes = self.notes
        found = await notes.store.read(
            notes.scope, view.conversation, after=seq - 1, upto=seq, limit=1
        )
        return found[0].created if found else 0


def _adopted(note: SessionNote, view: ConversationView, session: SessionValue) -> SessionNote:
    owned = bind_owner(note, user_id=session.meta.user_id)
    context = session.message_context
    full_after: str | None = None
    if view.live is not None and context.checkpoint_message_id == view.live.id:
        full_after = view.live.id if context.mode is MemoryMode.FULL_HISTORY else ""
    return with_settings(owned, settable_of(session), full_after)
