"""Document 003's short-term memory, with its names and without its losses.

A turn is in the log, question and answer together, before `write_turn` returns; a checkpoint is stored next to the log
and committed by compare-and-swap. Session, mode, summary and window are derived from these two, so a cache that expires
or is emptied changes no result, and a crash leaves nothing half written.

A restart is explicit: `reset_short_memory`, or `create_short_memory(..., restart=True)`. A plain create of an existing
conversation leaves it as it is, because programs create theirs each time they start. Messages before a restart stay in
the log.

The tenant is the memory's `scope`; two scopes share nothing. `enterprise_id`, `patient_id` and `user_id` are stored
when they are first given, and later ones must be the same.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from turnfold.errors import InvalidOption
from turnfold.fold import check_threshold, fold_due
from turnfold.memories.short_memory.merge import (
    apply_changes,
    as_read,
    changes_of,
    check_derived,
    to_parts,
)
from turnfold.memories.short_memory.notes import (
    ConversationView,
    ShortNotes,
    TurnNote,
    add_offer,
    bind_owner,
    chosen_mode,
    with_settings,
)
from turnfold.memories.short_memory.render import remove_label
from turnfold.memories.short_memory.summaries import LabelledWriter, ShortFold, check_summary
from turnfold.memories.short_memory.turns import (
    LogEnd,
    TurnWriter,
    WrittenTurn,
    read_history,
    with_query,
)
from turnfold.memories.short_memory.values import (
    MemoryContext,
    MemoryWriteResult,
    MessageContext,
    MetaInfo,
    SessionValue,
)
from turnfold.memory import Folder, MemoryConfig, MemoryMode, Summaries, make_config
from turnfold.records import Checkpoint, plain_text
from turnfold.runtime import AsyncRuntime
from turnfold.stores import Erasure, Scope, Store
from turnfold.telemetry import Meter
from turnfold.tokens import TokenCounter

__all__ = ("RECENT_TURNS", "AsyncShortMemory")


RECENT_TURNS: Final = 8
"""Newest turns that stay verbatim."""
_SECOND: Final = 1_000_000


class AsyncShortMemory:
    """Conversations in a store, as document 003 describes them, for programs with an event loop."""

    def __init__(
        self,
        url: str | Store = "sqlite://",
        *,
        cache: str | None = None,
        scope: Scope | str = "default",
        counter: TokenCounter | None = None,
        summarizer: Summaries | None = None,
        meter: Meter | None = None,
    ) -> None:
        config = make_config(
            url,
            AsyncRuntime(),
            blocking=False,
            cache=cache,
            scope=scope,
            counter=counter,
            summarizer=summarizer,
            meter=meter,
        )
        self._setup(config, owns=isinstance(url, str))

    @classmethod
    def over(cls, config: MemoryConfig, *, owns: bool) -> AsyncShortMemory:
        """Create a memory with a finished config; with `owns`, closing it closes the store."""
        memory = cls.__new__(cls)
        memory._setup(config, owns=owns)  # noqa: SLF001 (its own)
        return memory

    def _setup(self, config: MemoryConfig, *, owns: bool) -> None:
        self._config = config
        self._owns = owns
        self._notes = ShortNotes(config.store, config.scope)
        self._turns = TurnWriter(config.store, config.scope, self._notes, config.meter)

    @property
    def meter(self) -> Meter:
        """The metrics of this memory."""
        return self._config.meter

    async def create_short_memory(
        self,
        conversation_id: str,
        user_id: str = "",
        *,
        enterprise_id: str = "",
        patient_id: str = "",
        restart: bool = False,
    ) -> SessionValue:
        """Create a conversation. An existing one is left as it is, unless `restart` is set."""
        await self._notes.change_session(
            conversation_id,
            lambda note: bind_owner(
                note, user_id=user_id, enterprise_id=enterprise_id, patient_id=patient_id
            ),
        )
        if restart:
            await self._notes.start_over(conversation_id)
        return await self.get_short_memory(conversation_id)

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
        """Return the conversation for the next model call.

        `query` is stored until a write answers it, in this process or another; a newer query replaces it. Every turn
        that no summary covers is shown as far as it fits the window; `recent_turns` of them are in the session's
        `window_messages`.
        """
        _check_query(token_threshold_ratio, recent_turns, model_context_window)
        text = plain_text(query, path="query")
        if enterprise_id or patient_id:
            await self._notes.change_session(
                conversation_id,
                lambda note: bind_owner(note, enterprise_id=enterprise_id, patient_id=patient_id),
            )
        view = await self._notes.read_view(conversation_id)
        log = self._log(view)
        await log.open(model_context_window)
        history = await read_history(
            log,
            counter=self._config.counter,
            window=model_context_window,
            query=text,
        )
        due = history.upto > view.covered and fold_due(
            history.tokens, model_context_window, token_threshold_ratio
        )
        await self._note_query(view, text, seen=history.upto if due else 0)
        ratio = history.tokens / model_context_window
        self.meter.add("contexts")
        self.meter.observe("token_ratio", ratio)
        return MemoryContext(
            conversation_id=conversation_id,
            mode=view.mode,
            session=await self._session(log, recent_turns),
            history=history.text,
            full_history=history.full,
            estimated_tokens=history.tokens,
            token_ratio=ratio,
            should_checkpoint_summary=due,
            query=text,
            upto=history.upto,
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
        """Store a turn, question and answer together; durable on return.

        Without `user_query` it answers the query that waits for one. A retry stores nothing twice if it has a
        `client_id` or answers a query.
        """
        if user_id or agent_code:
            await self._notes.change_session(
                conversation_id,
                lambda note: bind_owner(note, user_id=user_id, agent_code=agent_code),
            )
        written = await self._turns.write(
            conversation_id,
            query=plain_text(user_query, path="user_query"),
            answer=plain_text(agent_response, path="agent_response"),
            labels={"user_id": user_id, "agent_code": agent_code},
            client_id=client_id,
        )
        return MemoryWriteResult(
            conversation_id=conversation_id,
            mode=await self._mode_after(conversation_id, written),
            updated_at=written.created // _SECOND,
        )

    async def checkpoint_short_memory(
        self,
        conversation_id: str,
        summary: str | None = None,
        recent_turns: int = RECENT_TURNS,
        *,
        upto: int | None = None,
    ) -> Checkpoint:
        """Replace everything but the newest turns by a summary; without one, the memory's summariser writes it.

        `upto` is the newest entry that the summary has seen (`MemoryContext.upto`). The default is what the first query
        had seen that requested a summary since the last one, or everything. Later entries stay verbatim. At least the
        oldest turn that no summary covers is folded (compacted). A summary that is live already, or has seen nothing
        new, changes nothing: the live checkpoint is returned.
        """
        check_summary(summary, recent_turns)
        config = self._config
        folder = Folder(
            config.store,
            config.scope,
            conversation_id,
            config.counter,
            LabelledWriter(config.policy.writer),
            config.runtime,
        )
        limit = config.budget.share("summary")
        short = ShortFold(self._notes, folder, limit, recent_turns, config.meter)
        return await short.fold(summary, upto)

    async def get_short_memory(self, conversation_id: str) -> SessionValue:
        """Return the current session; an empty one if the conversation does not exist."""
        log = self._log(await self._notes.read_view(conversation_id))
        await log.older()
        return await self._session(log, RECENT_TURNS)

    async def set_short_memory(self, conversation_id: str, session: SessionValue) -> SessionValue:
        """Store the changed fields of a session that was read; return the session after that.

        If somebody else changed one of them meanwhile to another value, `Conflict` is raised and nothing is written.
        Values derived from the log cannot be set, except for the mode: FULL_HISTORY shows everything again until the
        next checkpoint.
        """
        current = await self.get_short_memory(conversation_id)
        named = session.meta.conversation_id
        if named not in ("", conversation_id):
            raise InvalidOption(
                f"the session belongs to conversation {named!r}, not {conversation_id!r}"
            )
        mode = chosen_mode(session, check_derived(session, current), current)
        was, now = changes_of(session)
        await self._notes.change_session(
            conversation_id,
            lambda note: with_settings(note, apply_changes(note.places, was, now), mode),
        )
        session.as_read = as_read(session)
        return await self.get_short_memory(conversation_id)

    async def reset_short_memory(self, conversation_id: str) -> SessionValue:
        """Restart: hide all messages and settings so far. Messages stay in the log, and the owner stays."""
        await self._notes.start_over(conversation_id)
        return await self.get_short_memory(conversation_id)

    async def checkpoint_history(self, conversation_id: str) -> list[Checkpoint]:
        """Return all checkpoints, oldest first, including those before a restart."""
        return await self._config.store.checkpoints(self._config.scope, conversation_id)

    async def delete_short_memory(self, conversation_id: str) -> Erasure:
        """Erase a conversation and everything derived from it permanently."""
        return await self._config.store.delete(self._config.scope, conversation_id)

    async def close(self) -> None:
        """Close the store if it was opened here. Closing twice is allowed."""
        await self._config.runtime.finish()
        if self._owns:
            await self._config.store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _mode_after(self, conversation_id: str, written: WrittenTurn) -> MemoryMode:
        # Without any checkpoint there is no need to read the notes.
        if written.head is not None and not written.head.checkpoint:
            return MemoryMode.FULL_HISTORY
        return (await self._notes.read_view(conversation_id)).mode

    def _log(self, view: ConversationView) -> LogEnd:
        return LogEnd(self._config.store, self._config.scope, view)

    async def _note_query(self, view: ConversationView, query: str, *, seen: int) -> None:
        """Record a query for the write that answers it, and a request for a summary."""
        if not query and not seen:
            return

        def noted(note: TurnNote) -> TurnNote:
            changes = with_query(note, query)
            if seen:
                changes["offers"] = add_offer(
                    note.offers, live=view.head.checkpoint, seen=seen, covered=view.covered
                )
            return note.with_changes(changes)

        await self._notes.change_turn(view.conversation, noted)

    async def _session(self, log: LogEnd, recent_turns: int) -> SessionValue:
        view, live = log.view, log.view.live
        flow, state, profile = to_parts(view.note.places)
        flow.last_bot_message = await log.last_answer()
        flow.turn_count = view.head.turns - await log.turns_before()
        newest = log.entries[-1].created if log.entries else 0
        session = SessionValue(
            meta=MetaInfo(
                conversation_id=view.conversation,
                user_id=view.note.user_id,
                updated_at=max(newest, view.changed) // _SECOND,
            ),
            flow_context=flow,
            message_context=MessageContext(
                summary=remove_label(live.text) if live else "",
                window_messages=await log.window(recent_turns),
                mode=view.mode,
                checkpoint_message_id=live.id if live else "",
                cached_checkpoint=live.text if live else "",
            ),
            global_state=state,
            user_snapshot=profile,
        )
        session.as_read = as_read(session)
        return session


def _check_query(threshold: float, recent_turns: int, window: int) -> None:
    check_threshold(threshold, 0)
    if recent_turns < 0:
        raise InvalidOption(f"recent_turns={recent_turns} must not be negative")
    if window < 1:
        raise InvalidOption(f"model_context_window={window} must be at least 1")
