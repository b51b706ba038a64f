"""A short-term memory behind a service, for programs without an event loop; written by tools/faces.py, do not edit."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from turnfold.client.asking import open_asker
from turnfold.client.short_memory import RECENT_TURNS, AsyncRemoteShortMemory
from turnfold.memory.drive import drive
from turnfold.memory.short_term.values import MemoryContext, MemoryWriteResult, SessionValue
from turnfold.records import Checkpoint
from turnfold.stores.protocol import Erasure

__all__ = ("RemoteShortMemory",)


class RemoteShortMemory:
    """Conversations behind a service, as document 003 describes them, for programs without an event loop."""

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        timeout: float = 30.0,
        retries: int = 3,
        backoff: float = 0.2,
    ) -> None:
        asker = open_asker(
            url, blocking=True, token=token, timeout=timeout, retries=retries, backoff=backoff
        )
        self._awaiting = AsyncRemoteShortMemory.over(asker)

    @property
    def awaiting(self) -> AsyncRemoteShortMemory:
        """The same for code that awaits; its coroutines never suspend."""
        return self._awaiting

    def create_short_memory(
        self,
        conversation_id: str,
        user_id: str = "",
        *,
        enterprise_id: str = "",
        patient_id: str = "",
        restart: bool = False,
    ) -> SessionValue:
        """Begin a conversation. One that exists goes on as it was, unless `restart` says to start it over."""
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
        recent_turns: int = RECENT_TURNS,
        *,
        upto: int | None = None,
    ) -> Checkpoint:
        """Put a summary in place of everything but the newest turns; without one, the memory's summariser writes it.

        `upto` is the newest entry the summary has seen: `MemoryContext.upto`. A summary that is live already, or that
        has seen nothing new, changes nothing: the live checkpoint is returned.
        """
        return drive(
            self._awaiting.checkpoint_short_memory(
                conversation_id, summary, recent_turns, upto=upto
            )
        )

    def get_short_memory(self, conversation_id: str) -> SessionValue:
        """The session as it is now; of a conversation nobody has used, an empty one."""
        return drive(self._awaiting.get_short_memory(conversation_id))

    def set_short_memory(self, conversation_id: str, session: SessionValue) -> SessionValue:
        """Store what was changed in a session that was read, field by field; the session as it is then.

        A field that somebody else changed meanwhile to another value is a `Conflict`, and nothing is written. What
        follows from the log cannot be set, but for the mode: FULL_HISTORY shows everything again, until the next
        checkpoint.
        """
        return drive(self._awaiting.set_short_memory(conversation_id, session))

    def reset_short_memory(self, conversation_id: str) -> SessionValue:
        """Start over: nothing said or set so far is shown again. It stays in the log; whose conversation it is, too."""
        return drive(self._awaiting.reset_short_memory(conversation_id))

    def checkpoint_history(self, conversation_id: str) -> list[Checkpoint]:
        """All checkpoints, oldest first, with what was started over."""
        return drive(self._awaiting.checkpoint_history(conversation_id))

    def delete_short_memory(self, conversation_id: str) -> Erasure:
        """Erase a conversation and everything derived from it, for good."""
        return drive(self._awaiting.delete_short_memory(conversation_id))

    def close(self) -> None:
        """Let go of the connections. Closing twice is allowed."""
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
