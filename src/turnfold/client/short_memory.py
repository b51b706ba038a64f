"""Document 003's short-term memory, served elsewhere: the same names, the same values, the same conflicts."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

import msgspec

from turnfold.client.asking import Asker, new_key, open_asker
from turnfold.client.forms import to_memory_context, to_session
from turnfold.memory.short_term.merge import as_read
from turnfold.memory.short_term.values import MemoryContext, MemoryWriteResult, SessionValue
from turnfold.records import Checkpoint
from turnfold.service.answers import CheckpointsAnswer
from turnfold.service.short_bodies import MemoryContextForm, SessionForm, as_read_form
from turnfold.stores.protocol import Erasure

__all__ = ("RECENT_TURNS", "AsyncRemoteShortMemory")

RECENT_TURNS: Final = 8
"""Newest turns that stay verbatim."""
_PATH: Final = "short-memories"


class AsyncRemoteShortMemory:
    """Conversations behind a service, as document 003 describes them, for programs with an event loop."""

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        timeout: float = 30.0,
        retries: int = 3,
        backoff: float = 0.2,
    ) -> None:
        self._take(
            open_asker(
                url, token=token, timeout=timeout, retries=retries, backoff=backoff, blocking=False
            )
        )

    @classmethod
    def over(cls, asker: Asker) -> AsyncRemoteShortMemory:
        """A memory that asks its questions through `asker`."""
        memory = cls.__new__(cls)
        memory._take(asker)  # noqa: SLF001 (its own)
        return memory

    def _take(self, asker: Asker) -> None:
        self._asker = asker

    async def create_short_memory(
        self,
        conversation_id: str,
        user_id: str = "",
        *,
        enterprise_id: str = "",
        patient_id: str = "",
        restart: bool = False,
    ) -> SessionValue:
        """Begin a conversation. One that exists goes on as it was, unless `restart` says to start it over."""
        body = {
            "user_id": user_id,
            "enterprise_id": enterprise_id,
            "patient_id": patient_id,
            "restart": restart,
        }
        # Only starting over would do more the second time.
        key = new_key() if restart else ""
        return await self._session("POST", conversation_id, body=body, key=key)

    async def query_memory_context(
        self,
        conversation_id: str,
        *,
        enterprise_id: str = "",
        patient_id: str = "",
        query: str = "",
        token_threshold_ratio: float = 0.75,
        recent_turns: int = RECENT_TURNS,
        model_context_window: int = 16000,
    ) -> MemoryContext:
        """What the next model call is given of the conversation.

        `query` is kept until the write that answers it, in this process or another; of two queries without a write
        between them the newer one is. Every turn that no summary covers is shown as far as the window holds it;
        `recent_turns` of them are in the session's `window_messages`.
        """
        body = {
            "enterprise_id": enterprise_id,
            "patient_id": patient_id,
            "query": query,
            "token_threshold_ratio": token_threshold_ratio,
            "recent_turns": recent_turns,
            "model_context_window": model_context_window,
        }
        path = _PATH, conversation_id, "context"
        return to_memory_context(
            await self._asker.ask("POST", *path, answer=MemoryContextForm, body=body)
        )

    async def write_turn(
        self,
        conversation_id: str,
        *,
        user_id: str = "",
        agent_code: str = "",
        user_query: str = "",
        agent_response: str = "",
        client_id: str = "",
    ) -> MemoryWriteResult:
        """Write a turn, question and answer at once; durable on return.

        Without `user_query` it is the answer to the query that waits for one. A repeated call stores nothing twice
        where it has a `client_id`, or answers a query.
        """
        body = {
            "user_id": user_id,
            "agent_code": agent_code,
            "user_query": user_query,
            "agent_response": agent_response,
        }
        # An answer to a query that waits has a name already: the query's.
        key = client_id or (new_key() if user_query else "")
        path = _PATH, conversation_id, "turns"
        return await self._asker.ask("POST", *path, answer=MemoryWriteResult, body=body, key=key)

    async def checkpoint_short_memory(
        self,
        conversation_id: str,
        summary: str | None = None,
        recent_turns: int = RECENT_TURNS,
        *,
        upto: int | None = None,
    ) -> Checkpoint:
        """Put a summary in place of everything but the newest turns; without one, the memory's summariser writes it.

        `upto` is the newest entry the summary has seen: `MemoryContext.upto`. A summary that is live already, or that
        has seen nothing new, changes nothing: the live checkpoint is returned.
        """
        body = {"summary": summary, "recent_turns": recent_turns, "upto": upto}
        path = _PATH, conversation_id, "checkpoints"
        return await self._asker.ask("POST", *path, answer=Checkpoint, body=body, key=new_key())

    async def get_short_memory(self, conversation_id: str) -> SessionValue:
        """The session as it is now; of a conversation nobody has used, an empty one."""
        return await self._session("GET", conversation_id)

    async def set_short_memory(self, conversation_id: str, session: SessionValue) -> SessionValue:
        """Store what was changed in a session that was read, field by field; the session as it is then.

        A field that somebody else changed meanwhile to another value is a `Conflict`, and nothing is written. What
        follows from the log cannot be set, but for the mode: FULL_HISTORY shows everything again, until the next
        checkpoint.
        """
        body = {
            "session": msgspec.Raw(session.to_json().encode()),
            "as_read": session.as_read and as_read_form(session.as_read),
        }
        stored = await self._session("PUT", conversation_id, body=body)
        session.as_read = as_read(session)
        return stored

    async def reset_short_memory(self, conversation_id: str) -> SessionValue:
        """Start over: nothing said or set so far is shown again. It stays in the log; whose conversation it is, too."""
        return await self._session("POST", conversation_id, "reset", key=new_key())

    async def checkpoint_history(self, conversation_id: str) -> list[Checkpoint]:
        """All checkpoints, oldest first, with what was started over."""
        path = _PATH, conversation_id, "checkpoints"
        return (await self._asker.ask("GET", *path, answer=CheckpointsAnswer)).checkpoints

    async def delete_short_memory(self, conversation_id: str) -> Erasure:
        """Erase a conversation and everything derived from it, for good."""
        return await self._asker.ask("DELETE", _PATH, conversation_id, answer=Erasure)

    async def close(self) -> None:
        """Let go of the connections. Closing twice is allowed."""
        await self._asker.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _session(
        self, method: str, *path: str, body: object = None, key: str = ""
    ) -> SessionValue:
        form = await self._asker.ask(method, _PATH, *path, answer=SessionForm, body=body, key=key)
        return to_session(form)
