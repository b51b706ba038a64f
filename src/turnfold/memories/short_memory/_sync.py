"""The short-term memory without an event loop; written by tools/faces.py, do not edit."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from turnfold.memories.short_memory.ai_message_rows import AIMessage, ImportedMessages
from turnfold.memories.short_memory.memory import RECENT_TURNS, AsyncShortMemory, QueryDefaults
from turnfold.memories.short_memory.values import (
    AgentRequest,
    MemoryContext,
    MemoryQueryRequest,
    MemoryWriteRequest,
    MemoryWriteResult,
    SessionValue,
)
from turnfold.memory import Summaries, make_config
from turnfold.records import Checkpoint
from turnfold.runtime import SyncRuntime, drive
from turnfold.stores import Erasure, Scope, Store
from turnfold.telemetry import Meter
from turnfold.tokens import TokenCounter

__all__ = ("ShortMemory",)


class ShortMemory:
    """Short-term memory of many conversations in a store, for applications without an event loop.

    It is the `ShortMemory` of design document 003.
    """

    def __init__(
        self,
        url: str | Store = "sqlite://",
        *,
        cache: str | None = None,
        scope: Scope | str = "default",
        counter: TokenCounter | None = None,
        summarizer: Summaries | None = None,
        meter: Meter | None = None,
        token_threshold_ratio: float = 0.75,
        recent_turns: int = RECENT_TURNS,
        model_context_window: int = 16000,
    ) -> None:
        defaults = QueryDefaults(token_threshold_ratio, recent_turns, model_context_window)
        config = make_config(
            url,
            SyncRuntime(),
            blocking=True,
            cache=cache,
            scope=scope,
            counter=counter,
            summarizer=summarizer,
            meter=meter,
        )
        self._awaiting = AsyncShortMemory.over(config, defaults, owns=isinstance(url, str))

    @property
    def awaiting(self) -> AsyncShortMemory:
        """The asynchronous form of this object; its coroutines never suspend."""
        return self._awaiting

    @property
    def meter(self) -> Meter:
        """The metrics (counters, durations) of this memory."""
        return self._awaiting.meter

    def create_short_memory(
        self,
        conversation_id: str | AgentRequest,
        user_id: str = "",
        *,
        enterprise_id: str = "",
        patient_id: str = "",
        restart: bool = True,
    ) -> SessionValue:
        """Create a conversation and return its session.

        A conversation that exists is started over; if `restart` is False, it is continued.
        """
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
        """Return the conversation for the next model call; options that are not set have the memory's defaults.

        `query` is stored until a `write_turn` answers it, in this process or another; a newer query replaces it. The
        history has the user's rules from the turns that the summary covers, then the turns that no summary covers, as
        many as fit the window; the newest `recent_turns` turns are in the session's `window_messages`.
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
        """Store a turn, question and answer together, and wait until it is stored.

        Without `user_query` the turn answers the stored query that has no answer yet. A retry stores nothing again if
        it has a `client_id` or answers a stored query.
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
        """Replace all but the newest turns by a summary; without `summary`, the memory's summariser writes one.

        `upto` is the newest entry that the summary was made from (`MemoryContext.upto`). The default is the newest
        entry of the first query that requested a summary since the last one, or else of the log. Later entries stay
        verbatim. At least the oldest turn that no summary covers is folded (compacted). A summary that is stored
        already, or was made from no new entry, changes nothing: the current checkpoint is returned.
        """
        return drive(
            self._awaiting.checkpoint_short_memory(
                conversation_id, summary, recent_turns, upto=upto
            )
        )

    def get_short_memory(self, conversation_id: str) -> SessionValue:
        """Return the current session of a conversation; an empty one if the conversation does not exist."""
        return drive(self._awaiting.get_short_memory(conversation_id))

    def set_short_memory(self, conversation_id: str, session: SessionValue) -> SessionValue:
        """Store the fields of a session that the caller changed since it was read; return the session after that.

        If another writer set one of these fields to another value meanwhile, `Conflict` is raised and nothing is
        written. Fields computed from the log cannot be set, except for the mode: FULL_HISTORY shows all turns again
        until the next checkpoint.
        """
        return drive(self._awaiting.set_short_memory(conversation_id, session))

    def reset_short_memory(self, conversation_id: str) -> SessionValue:
        """Start the conversation over: hide all messages and settings. The log keeps the messages; the owner stays."""
        return drive(self._awaiting.reset_short_memory(conversation_id))

    def query_message_by_conversation_id_asc_with_limit(
        self, conversation_id: str, limit: int = 100
    ) -> list[AIMessage]:
        """Return the oldest rows of a conversation, at most `limit`, as rows of the documented table `ai_message`."""
        return drive(
            self._awaiting.query_message_by_conversation_id_asc_with_limit(conversation_id, limit)
        )

    def query_message_by_conversation_id_asc_from_checkpoint(
        self, conversation_id: str, checkpoint_message_id: str
    ) -> list[AIMessage]:
        """Return the rows after a checkpoint: turns that it does not cover completely, and later checkpoints."""
        return drive(
            self._awaiting.query_message_by_conversation_id_asc_from_checkpoint(
                conversation_id, checkpoint_message_id
            )
        )

    def import_messages(self, rows: Iterable[object]) -> ImportedMessages:
        """Import the rows of an `ai_message` table that another program wrote: dicts by column name, or `AIMessage`.

        Every conversation is imported whole or not at all, with its times and checkpoints; one that exists here is left
        as it is and counted in `already`. A row that cannot be read raises `InvalidRecord` before anything is written.
        """
        return drive(self._awaiting.import_messages(rows))

    def import_session_value(self, value: str | bytes) -> SessionValue:
        """Import a session value (the JSON object of design document 003) that another program stored in Redis.

        Its owner is taken over, and so are the fields that are not set here yet.
        """
        return drive(self._awaiting.import_session_value(value))

    def checkpoint_history(self, conversation_id: str) -> list[Checkpoint]:
        """Return all checkpoints (summaries), oldest first, including those before a restart."""
        return drive(self._awaiting.checkpoint_history(conversation_id))

    def delete_short_memory(self, conversation_id: str) -> Erasure:
        """Erase a conversation permanently, with its checkpoints (summaries), notes and cached values."""
        return drive(self._awaiting.delete_short_memory(conversation_id))

    def close(self) -> None:
        """Close the store if this memory opened it. Closing twice is allowed."""
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
