from collections.abc import Mapping, Sequence

from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from pydantic import BaseModel

class SearchMemoryResponse(BaseModel):
    memories: list[MemoryEntry]

class BaseMemoryService:
    async def add_session_to_memory(self, session: Session) -> None: ...
    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = ...,
        custom_metadata: Mapping[str, object] | None = ...,
    ) -> None: ...
    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse: ...
    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = ...
    ) -> None: ...
