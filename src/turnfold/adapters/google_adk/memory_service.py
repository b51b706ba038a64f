"""ADK memory service: stores the texts of a user's sessions, and finds them again by search.

The texts of all sessions that were added are kept in one conversation of the user, `user/app/memory`. The id of an
event is the client id of its entry, so a session that grows can be added again and again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session as AdkSession
from google.genai import types

from turnfold.adapters._common import ThreadBridge, session_of
from turnfold.errors import NotFound
from turnfold.memory import AsyncMemory, AsyncSession, Memory
from turnfold.records import Message, NewEntry, is_erased
from turnfold.search import Recalled
from turnfold.stores import short_name
from turnfold.wire import writable

__all__ = ("TurnfoldMemoryService",)


_TIME = "adk_timestamp"
"""Metadata key of the time at which a text was said, in seconds since 1970."""
_BATCH = 500
"""Most events of one append to the log; more are appended in several batches."""


class TurnfoldMemoryService(BaseMemoryService):
    """A turnfold memory as ADK's memory service: `Runner(..., memory_service=TurnfoldMemoryService(memory))`.

    A search returns at most `limit` memories, best first.
    """

    def __init__(self, memory: AsyncMemory | Memory, *, limit: int = 10) -> None:
        self._memory = memory
        self._limit = limit
        self._bridge = ThreadBridge(memory, own_loops="Runner.run")

    async def add_session_to_memory(self, session: AdkSession) -> None:
        """Add the texts of a session; texts that were added before are not added again."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add the texts of some events to the user's memory; events that were added before are not added again."""
        del session_id, custom_metadata
        place = self._place(app_name, user_id)
        new = [entry for event in events if (entry := _entry_of(event)) is not None]
        for at in range(0, len(new), _BATCH):
            await self._bridge(_add(place, new[at : at + _BATCH]))

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Search the texts of a user's added sessions; return the best matches."""
        place = self._place(app_name, user_id)
        found = await self._bridge(place.recall(query, limit=self._limit)) if query.strip() else []
        seqs = [one.seq for one in found]
        names = {seq: await self._bridge(_name_at(place, seq)) for seq in seqs}
        memories = [
            MemoryEntry(
                id=names[one.seq],
                author=one.message.name,
                timestamp=_time_of(one),
                content=types.Content(
                    role="model" if one.message.role == "assistant" else "user",
                    parts=[types.Part(text=one.message.text)],
                ),
            )
            for one in found
            if not is_erased(one.message)
        ]
        return SearchMemoryResponse(memories=memories)

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Erase the text of one event, permanently; adding its session again does not bring it back."""
        place = self._place(app_name, user_id)
        found = await self._bridge(place.by_client_id(memory_id)) if memory_id else []
        if not found:
            raise NotFound(
                f"user {user_id!r} has no memory {memory_id!r} in app {app_name!r}: search_memory returns the ids"
            )
        await self._bridge(place.erase(found[0].seq, reason="deleted memory"))

    def _place(self, app_name: str, user_id: str) -> AsyncSession:
        return session_of(self._memory, short_name(f"{user_id}/{app_name}/memory"))


async def _add(place: AsyncSession, entries: Sequence[NewEntry]) -> None:
    known = {one.client_id for one in await place.by_client_id([one.client_id for one in entries])}
    new = [one for one in entries if one.client_id not in known]
    if new:
        await place.add(new)


async def _name_at(place: AsyncSession, seq: int) -> str:
    [entry] = await place.history(after=seq - 1, limit=1)
    return entry.client_id


def _entry_of(event: Event) -> NewEntry | None:
    """Return the text of an event as an entry for the log; None if the event has no text."""
    parts = event.content.parts if event.content is not None else None
    texts = [part.text for part in parts or () if part.text and not part.thought]
    text = str(writable("\n".join(texts)))
    if event.partial or not text.strip():
        return None
    role = "user" if event.author == "user" else "assistant"
    said = Message(role, text, name=event.author, metadata={_TIME: event.timestamp})
    return NewEntry(said, event.id)


def _time_of(found: Recalled) -> str:
    """Return the time at which a found text was said, in ISO format."""
    said = found.message.metadata.get(_TIME)
    seconds = said if isinstance(said, int | float) else found.created / 1e6
    return datetime.fromtimestamp(seconds, UTC).isoformat()
