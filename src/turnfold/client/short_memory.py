"""HTTP client with the methods of `AsyncShortMemory`: the same names, values and conflicts."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final, Self, cast

import msgspec

from turnfold import api
from turnfold.api import (
    CreateBody,
    QueryBody,
    SetBody,
    ShortCheckpointBody,
    TurnBody,
    as_read_form,
)
from turnfold.client.conversion import to_memory_context, to_session
from turnfold.client.transport import RequestSender, new_key, open_sender
from turnfold.memories import (
    AgentRequest,
    MemoryContext,
    MemoryQueryRequest,
    MemoryWriteRequest,
    MemoryWriteResult,
    SessionValue,
    as_read,
    request_options,
)
from turnfold.records import Checkpoint
from turnfold.stores import Erasure

__all__ = ("RECENT_TURNS", "AsyncRemoteShortMemory")


RECENT_TURNS: Final = 8
"""Default number of newest turns kept verbatim."""


class AsyncRemoteShortMemory:
    """HTTP client of a service's short-term memory, with the methods of `AsyncShortMemory`."""

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        timeout: float = 30.0,
        retries: int = 3,
        backoff: float = 0.2,
    ) -> None:
        self._sender = open_sender(
            url, token=token, timeout=timeout, retries=retries, backoff=backoff, blocking=False
        )

    @classmethod
    def over(cls, sender: RequestSender) -> AsyncRemoteShortMemory:
        """Return a memory that sends its requests through `sender`."""
        memory = cls.__new__(cls)
        memory._sender = sender  # noqa: SLF001 (its own)
        return memory

    async def create_short_memory(
        self,
        conversation_id: str | AgentRequest,
        user_id: str = "",
        *,
        enterprise_id: str = "",
        patient_id: str = "",
        restart: bool = True,
    ) -> SessionValue:
        """Create a conversation and return its session; if it exists, it starts over, unless `restart` is False."""
        if isinstance(conversation_id, AgentRequest):
            options = request_options(conversation_id, user_id, enterprise_id, patient_id)
            return await self.create_short_memory(**options, restart=restart)
        body = CreateBody(
            user_id=user_id, enterprise_id=enterprise_id, patient_id=patient_id, restart=restart
        )
        # Without `restart` a retry changes nothing, so it needs no idempotency key.
        key = new_key() if restart else ""
        return to_session(
            await self._sender.call(
                api.operations.CREATE_SHORT_MEMORY, conversation_id, body=body, key=key
            )
        )

    async def query_memory_context(
        self,
        conversation_id: str | MemoryQueryRequest,
        *,
        enterprise_id: str = "",
        patient_id: str = "",
        query: str = "",
        token_threshold_ratio: float | None = None,
        recent_turns: int | None = None,
        model_context_window: int | None = None,
    ) -> MemoryContext:
        """Return the context of the conversation for the next model call.

        `query` is stored until its answer is written, by this process or another; a newer query replaces it. Turns
        that no summary covers are included if they fit the window; the messages of the newest `recent_turns` turns are
        in the session's `window_messages`.
        """
        limits = {
            "token_threshold_ratio": token_threshold_ratio,
            "recent_turns": recent_turns,
            "model_context_window": model_context_window,
        }
        if isinstance(conversation_id, MemoryQueryRequest):
            texts = enterprise_id, patient_id, query
            options = request_options(conversation_id, *texts, *limits.values())
            return await self.query_memory_context(**options)
        given: dict[str, Any] = {name: each for name, each in limits.items() if each is not None}
        body = QueryBody(enterprise_id=enterprise_id, patient_id=patient_id, query=query, **given)
        return to_memory_context(
            await self._sender.call(api.operations.QUERY_MEMORY_CONTEXT, conversation_id, body=body)
        )

    async def write_turn(
        self,
        conversation_id: str | MemoryWriteRequest,
        *,
        user_id: str = "",
        agent_code: str = "",
        user_query: str = "",
        agent_response: str = "",
        client_id: str = "",
    ) -> MemoryWriteResult:
        """Write a question and its answer as one turn; durable on return.

        Without `user_query`, the turn answers the pending query. A repeated call stores nothing twice if it has a
        `client_id` or answers a pending query.
        """
        if isinstance(conversation_id, MemoryWriteRequest):
            texts = user_id, agent_code, user_query, agent_response
            options = request_options(conversation_id, *texts)
            return await self.write_turn(**options, client_id=client_id)
        body = TurnBody(
            user_id=user_id,
            agent_code=agent_code,
            user_query=user_query,
            agent_response=agent_response,
        )
        # The service recognises a retry of an answer by its pending query, so it needs no idempotency key.
        key = client_id or (new_key() if user_query else "")
        return await self._sender.call(
            api.operations.WRITE_TURN, conversation_id, body=body, key=key
        )

    async def checkpoint_short_memory(
        self,
        conversation_id: str,
        summary: str | None = None,
        recent_turns: int | None = None,
        *,
        upto: int | None = None,
    ) -> Checkpoint:
        """Replace all but the newest turns with a summary; if `summary` is None, the service's summarizer writes it.

        `upto` is the newest entry the summary covers: `MemoryContext.upto`. If the summary is already the current one
        or covers nothing new, nothing changes and the current checkpoint is returned.
        """
        turns = RECENT_TURNS if recent_turns is None else recent_turns
        body = ShortCheckpointBody(summary=summary, recent_turns=turns, upto=upto)
        return await self._sender.call(
            api.operations.CHECKPOINT_SHORT_MEMORY, conversation_id, body=body
        )

    async def get_short_memory(self, conversation_id: str) -> SessionValue:
        """Return the session of a conversation; an empty one if the conversation has never been used."""
        return to_session(await self._sender.call(api.operations.GET_SHORT_MEMORY, conversation_id))

    async def set_short_memory(self, conversation_id: str, session: SessionValue) -> SessionValue:
        """Store the changed fields of a session and return the new session.

        If another writer set one of these fields to another value meanwhile, `Conflict` is raised; nothing is written.
        Fields derived from the log cannot be set, except the mode: FULL_HISTORY shows everything again, until the next
        checkpoint.
        """
        json = cast("dict[str, dict[str, object] | None]", msgspec.Raw(session.to_json().encode()))
        body = SetBody(session=json, as_read=session.as_read and as_read_form(session.as_read))
        stored = await self._sender.call(
            api.operations.SET_SHORT_MEMORY, conversation_id, body=body
        )
        session.as_read = as_read(session)
        return to_session(stored)

    async def reset_short_memory(self, conversation_id: str) -> SessionValue:
        """Start a conversation over: later contexts leave out everything so far. The log and the owner are kept."""
        return to_session(
            await self._sender.call(api.operations.RESET_SHORT_MEMORY, conversation_id)
        )

    async def checkpoint_history(self, conversation_id: str) -> list[Checkpoint]:
        """Return all checkpoints (summaries) of a conversation, oldest first, including those before a restart."""
        found = await self._sender.call(api.operations.CHECKPOINT_HISTORY, conversation_id)
        return found.checkpoints

    async def delete_short_memory(self, conversation_id: str) -> Erasure:
        """Delete a conversation and everything derived from it, permanently."""
        return await self._sender.call(api.operations.DELETE_SHORT_MEMORY, conversation_id)

    async def close(self) -> None:
        """Close the connections to the service. Closing twice is allowed."""
        await self._sender.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
