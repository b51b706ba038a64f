"""The session value in Redis, under the documented key: JSON that any program may read with GET.

It is a copy of what the store says, written with the state of the conversation (generation and epoch) it was made of
and used only while the store has that state, so a stale or lost copy changes no result. What another program puts there
is taken over if it is a valid session of this conversation and not older than the stored one: the fields that an
application may set go into the store. Everything derived from the log stays the log's. A value that is not valid is
left out, with a warning, and written over.

Deleting the key starts the conversation over, as documented. A key that expired, was evicted or lost with its server
does not: these are told apart by the mark beside it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from turnfold.errors import TurnfoldError
from turnfold.memories.short_memory.session_changes import as_read, settable_of
from turnfold.memories.short_memory.stored_state import (
    ConversationView,
    SessionNote,
    ShortNotes,
    bind_owner,
    with_settings,
)
from turnfold.memories.short_memory.values import SessionValue
from turnfold.memory import MemoryMode
from turnfold.stores import Scope, State

__all__ = ("SessionKey", "SessionValues")


_log = logging.getLogger(__name__)
_SECOND = 1_000_000


class _Read(Protocol):
    @property
    def value(self) -> bytes | None: ...
    @property
    def state(self) -> State | None: ...
    @property
    def known(self) -> bool: ...
    @property
    def deleted(self) -> bool: ...


@runtime_checkable
class SessionValues(Protocol):
    """The documented session values in front of a store: `CachedStore.session_values`."""

    async def read_session(self, scope: Scope, conversation: str) -> _Read:
        """Return what Redis has under the documented key of a session."""
        ...

    async def write_session(
        self, scope: Scope, conversation: str, value: bytes, state: State
    ) -> None:
        """Put the session value of a state under the documented key."""
        ...


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The documented key of each session; does nothing if there is no Redis in front of the store."""

    notes: ShortNotes
    values: SessionValues | None

    async def sync(self, conversation: str) -> State | None:
        """Apply what others did to the key since; return the state of the value there if it was written here."""
        return (await self._found(conversation))[0]

    async def read(self, conversation: str) -> SessionValue | None:
        """Do the same; return the session if the value there is the store's current one."""
        state, value = await self._found(conversation)
        if state is None:
            return None
        head = await self.notes.store.head(self.notes.scope, conversation)
        if head.state != state:
            return None
        try:
            session = SessionValue.from_json(value)
        except TurnfoldError:  # of a release that writes other values
            return None
        session.as_read = as_read(session)
        return session

    async def _found(self, conversation: str) -> tuple[State | None, bytes]:
        if self.values is None:
            return None, b""
        found = await self.values.read_session(self.notes.scope, conversation)
        if found.deleted:
            await self.notes.start_over(conversation)
        elif found.value is not None and found.state is None:
            await self._take_over(conversation, found.value, known=found.known)
        return found.state, found.value or b""

    async def write(self, conversation: str, session: SessionValue, state: State) -> None:
        """Put a session there that was read from the store in this state."""
        if self.values is not None:
            value = session.to_json().encode()
            await self.values.write_session(self.notes.scope, conversation, value, state)

    async def _take_over(self, conversation: str, value: bytes, *, known: bool) -> None:
        """Store what another program set, if it is valid and not older than what is stored."""
        try:
            session = SessionValue.from_json(value)
            named = session.meta.conversation_id
            view = await self.notes.read_view(conversation)
            newest = max(view.changed, await self._newest_entry(view)) // _SECOND
            # Within one second it is newer if it replaced a value that was written here.
            if named != conversation or session.meta.updated_at < newest + (not known):
                return
            await self.notes.change_session(
                conversation, lambda note: _adopted(note, view, session)
            )
        except TurnfoldError as error:
            kind = type(error).__name__
            fields = {"event": "session_value_refused", "error": kind}
            _log.warning("session value of another program refused: %s", kind, extra=fields)

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
