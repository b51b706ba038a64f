"""A short-term memory behind a service, for use without an event loop; written by tools/faces.py, do not edit."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from turnfold.client.short_memory import AsyncRemoteShortMemory
from turnfold.client.transport import open_sender
from turnfold.memories import (
    AgentRequest,
    MemoryContext,
    MemoryQueryRequest,
    MemoryWriteRequest,
    MemoryWriteResult,
    SessionValue,
)
from turnfold.records import Checkpoint
from turnfold.runtime import drive
from turnfold.stores import Erasure

__all__ = ("RemoteShortMemory",)


class RemoteShortMemory:
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
        sender = open_sender(
            url, blocking=True, token=token, timeout=timeout, retries=retries, backoff=backoff
        )
        self._awaiting = AsyncRemoteShortMemory.over(sender)

    @property
    def awaiting(self) -> AsyncRemoteShortMemory:
        """The asynchronous form of this object; its coroutines never suspend."""
        return self._awaiting

    def create_short_memory(
        self,
        conversation_id: str | AgentRequest,
        user_id: str = "",
        *,
        enterprise_id: str = "",
        patient_id: str = "",
        restart: bool = True,
    ) -> SessionValue:
        """Create a conversation and return its session; if it exists, it starts over, unless `restart` is False."""
        return drive(
            self._awaiting.create_short_memory(
                conversation_id,
                user_id,
                enterprise_id=enterprise_id,
                patient_id=patient_id,
                restart=restart,
            )
        )

    def query_memory_context(
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
        return drive(
            self._awaiting.query_memory_context(
                conversation_id,
                enterprise_id=enterprise_id,
                patient_id=patient_id,
                query=query,
                token_threshold_ratio=token_threshold_ratio,
                recent_turns=recent_turns,
                model_context_window=model_context_window,
            )
        )

    def write_turn(
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
        return drive(
            self._awaiting.write_turn(
                conversation_id,
                user_id=user_id,
                agent_code=agent_code,
                user_query=user_query,
                agent_response=agent_response,
                client_id=client_id,
            )
        )

    def checkpoint_short_memory(
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
        return drive(
            self._awaiting.checkpoint_short_memory(
                conversation_id, summary, recent_turns, upto=upto
            )
        )

    def get_short_memory(self, conversation_id: str) -> SessionValue:
        """Return the session of a conversation; an empty one if the conversation has never been used."""
        return drive(self._awaiting.get_short_memory(conversation_id))

    def set_short_memory(self, conversation_id: str, session: SessionValue) -> SessionValue:
        """Store the changed fields of a session and return the new session.

        If another writer set one of these fields to another value meanwhile, `Conflict` is raised; nothing is written.
        Fields derived from the log cannot be set, except the mode: FULL_HISTORY shows everything again, until the next
        checkpoint.
        """
        return drive(self._awaiting.set_short_memory(conversation_id, session))

    def reset_short_memory(self, conversation_id: str) -> SessionValue:
        """Start a conversation over: later contexts leave out everything so far. The log and the owner are kept."""
        return drive(self._awaiting.reset_short_memory(conversation_id))

    def checkpoint_history(self, conversation_id: str) -> list[Checkpoint]:
        """Return all checkpoints (summaries) of a conversation, oldest first, including those before a restart."""
        return drive(self._awaiting.checkpoint_history(conversation_id))

    def delete_short_memory(self, conversation_id: str) -> Erasure:
        """Delete a conversation and everything derived from it, permanently."""
        return drive(self._awaiting.delete_short_memory(conversation_id))

    def close(self) -> None:
        """Close the connections to the service. Closing twice is allowed."""
        drive(self._awaiting.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        drive(self._awaiting.__aexit__(kind, error, trace))
