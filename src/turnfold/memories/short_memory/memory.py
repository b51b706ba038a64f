"""Document 003's short-term memory, with its names and without its losses.

A turn is in the log, question and answer together, before `write_turn` returns; a checkpoint is stored next to the log
and committed by compare-and-swap. Session, mode, summary and window are derived from these two, so a cache that expires
or is emptied changes no result, and a crash leaves nothing half written. With Redis in front (`cache=`) the session is
also JSON under the documented key: see `session_key`.

A conversation starts over when it is created again, when its key in Redis is deleted, or by `reset_short_memory`;
`create_short_memory(..., restart=False)` continues an existing one. Messages before a restart stay in the log.

The tenant is the memory's `scope`; two scopes share nothing. `enterprise_id`, `patient_id` and `user_id` are stored
when they are first given, and later ones must be the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Self, cast

from turnfold.errors import InvalidOption, InvalidRecord, NotFound, TurnfoldError
from turnfold.fold import check_threshold, fold_due
from turnfold.memories.short_memory.redis_session import SessionKey, SessionValues
from turnfold.memories.short_memory.render import remove_label
from turnfold.memories.short_memory.rows import (
    AIMessage,
    ImportedMessages,
    conversation_pieces,
    make_rows,
)
from turnfold.memories.short_memory.session_changes import (
    apply_changes,
    as_read,
    changes_of,
    check_derived,
    settable_of,
    to_parts,
)
from turnfold.memories.short_memory.stored_state import (
    ConversationView,
    SessionNote,
    ShortNotes,
    TurnNote,
    add_offer,
    bind_owner,
    chosen_mode,
    with_settings,
)
from turnfold.memories.short_memory.summaries import LabelledWriter, ShortFold, check_summary
from turnfold.memories.short_memory.turns import (
    LogEnd,
    TurnWriter,
    WrittenTurn,
    read_history,
    with_query,
)
from turnfold.memories.short_memory.values import (
    AgentRequest,
    MemoryContext,
    MemoryQueryRequest,
    MemoryWriteRequest,
    MemoryWriteResult,
    MessageContext,
    MetaInfo,
    SessionValue,
    request_options,
)
from turnfold.memories.standing_rules import rules_text
from turnfold.memory import AsyncMemory, Folder, MemoryConfig, MemoryMode, Summaries, make_config
from turnfold.records import Checkpoint, Entry, plain_text
from turnfold.runtime import AsyncRuntime
from turnfold.stores import Erasure, Scope, State, Store
from turnfold.telemetry import Meter
from turnfold.tokens import TokenCounter

__all__ = ("RECENT_TURNS", "AsyncShortMemory", "QueryDefaults")


RECENT_TURNS: Final = 8
"""Newest turns that stay verbatim."""
_SECOND: Final = 1_000_000
_PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class QueryDefaults:
    """What a query uses where it says nothing else."""

    token_threshold_ratio: float = 0.75
    recent_turns: int = RECENT_TURNS
    model_context_window: int = 16000

    def __post_init__(self) -> None:
        check_threshold(self.token_threshold_ratio, 0)
        if self.recent_turns < 0:
            raise InvalidOption(f"recent_turns={self.recent_turns} must not be negative")
        if self.model_context_window < 1:
            raise InvalidOption(
                f"model_context_window={self.model_context_window} must be at least 1"
            )

    def with_changes(
        self, ratio: float | None, turns: int | None, window: int | None
    ) -> QueryDefaults:
        """Return these with the options of one query."""
        return QueryDefaults(
            self.token_threshold_ratio if ratio is None else ratio,
            self.recent_turns if turns is None else turns,
            self.model_context_window if window is None else window,
        )


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
        token_threshold_ratio: float = 0.75,
        recent_turns: int = RECENT_TURNS,
        model_context_window: int = 16000,
    ) -> None:
        defaults = QueryDefaults(token_threshold_ratio, recent_turns, model_context_window)
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
        self._setup(config, defaults, owns=isinstance(url, str))

    @classmethod
    def over(
        cls, config: MemoryConfig, defaults: QueryDefaults | None = None, *, owns: bool
    ) -> AsyncShortMemory:
        """Create a memory with a finished config; with `owns`, closing it closes the store."""
        memory = cls.__new__(cls)
        memory._setup(config, defaults or QueryDefaults(), owns=owns)  # noqa: SLF001 (its own)
        return memory

    def _setup(self, config: MemoryConfig, defaults: QueryDefaults, *, owns: bool) -> None:
        self._config = config
        self._defaults = defaults
        self._owns = owns
        # As documented, Redis has the session; what a query reads beside it comes from the database in two calls.
        values: object = getattr(config.store, "session_values", None)
        known = values if isinstance(values, SessionValues) else None
        durable: object = getattr(config.store, "durable", None)
        self._store = cast("Store", durable) if known else config.store
        self._notes = ShortNotes(self._store, config.scope)
        self._key = SessionKey(self._notes, known)
        self._turns = TurnWriter(self._store, config.scope, self._notes, config.meter)
        self._sessions = AsyncMemory.over(replace(config, store=self._store), owns=False)

    @property
    def meter(self) -> Meter:
        """The metrics of this memory."""
        return self._config.meter

    async def create_short_memory(
        self,
        conversation_id: str | AgentRequest,
        user_id: str = "",
        *,
        enterprise_id: str = "",
        patient_id: str = "",
        restart: bool = True,
    ) -> SessionValue:
        """Create a conversation; an existing one starts over, or goes on without `restart`."""
        if isinstance(conversation_id, AgentRequest):
            options = request_options(conversation_id, user_id, enterprise_id, patient_id)
            return await self.create_short_memory(**options, restart=restart)
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
        conversation_id: str | MemoryQueryRequest,
        *,
        enterprise_id: str = "",
        patient_id: str = "",
        query: str = "",
        token_threshold_ratio: float | None = None,
        recent_turns: int | None = None,
        model_context_window: int | None = None,
    ) -> MemoryContext:
        """Return the conversation for the next model call; what is not given has the default of the memory.

        `query` is stored until a write answers it, in this process or another; a newer query replaces it. Every turn
        that no summary covers is shown as far as it fits the window, after what the user laid down in those it covers;
        `recent_turns` of them are in the session's `window_messages`.
        """
        if isinstance(conversation_id, MemoryQueryRequest):
            texts, options = (
                (enterprise_id, patient_id, query),
                (token_threshold_ratio, recent_turns),
            )
            given = request_options(conversation_id, *texts, *options, model_context_window)
            return await self.query_memory_context(**given)
        limits = self._defaults.with_changes(
            token_threshold_ratio, recent_turns, model_context_window
        )
        text = plain_text(query, path="query")
        written = await self._key.sync(conversation_id)
        if enterprise_id or patient_id:
            await self._notes.change_session(
                conversation_id,
                lambda note: bind_owner(note, enterprise_id=enterprise_id, patient_id=patient_id),
            )
        return await self._query(conversation_id, text, limits, written)

    async def _query(
        self, conversation_id: str, text: str, limits: QueryDefaults, written: State | None
    ) -> MemoryContext:
        view = await self._notes.read_view(conversation_id)
        log = self._log(view)
        window = limits.model_context_window
        await log.open(window)
        rules = ""
        if view.live is not None:
            rules = await rules_text(
                self._sessions.session(conversation_id),
                upto=view.covered,
                window=window,
                count=self._config.counter.count_text,
            )
        history = await read_history(
            log, counter=self._config.counter, window=window, query=text, rules=rules
        )
        due = history.upto > view.covered and fold_due(
            history.tokens, window, limits.token_threshold_ratio
        )
        state = await self._note_query(view, text, seen=history.upto if due else 0)
        session = await self._session(log, limits.recent_turns)
        usual = limits.recent_turns == self._defaults.recent_turns
        if usual and state is not None and state != written:
            await self._key.write(conversation_id, session, state)
        ratio = history.tokens / window
        self.meter.add("contexts")
        self.meter.observe("token_ratio", ratio)
        return MemoryContext(
            conversation_id=conversation_id,
            mode=view.mode,
            session=session,
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
        conversation_id: str | MemoryWriteRequest,
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
        if isinstance(conversation_id, MemoryWriteRequest):
            texts = user_id, agent_code, user_query, agent_response
            options = request_options(conversation_id, *texts)
            return await self.write_turn(**options, client_id=client_id)
        await self._key.sync(conversation_id)
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
        await self._write_key(conversation_id)
        return MemoryWriteResult(
            conversation_id=conversation_id,
            mode=await self._mode_after(conversation_id, written),
            updated_at=written.created // _SECOND,
        )

    async def checkpoint_short_memory(
        self,
        conversation_id: str,
        summary: str | None = None,
        recent_turns: int | None = None,
        *,
        upto: int | None = None,
    ) -> Checkpoint:
        """Replace everything but the newest turns by a summary; without one, the memory's summariser writes it.

        `upto` is the newest entry that the summary has seen (`MemoryContext.upto`). The default is what the first query
        had seen that requested a summary since the last one, or everything. Later entries stay verbatim. At least the
        oldest turn that no summary covers is folded (compacted). A summary that is live already, or has seen nothing
        new, changes nothing: the live checkpoint is returned.
        """
        turns = self._defaults.recent_turns if recent_turns is None else recent_turns
        check_summary(summary, turns)
        config = self._config
        folder = Folder(
            self._store,
            config.scope,
            conversation_id,
            config.counter,
            LabelledWriter(config.policy.writer),
            config.runtime,
        )
        limit = config.budget.share("summary")
        short = ShortFold(self._notes, folder, limit, turns, config.meter)
        made = await short.fold(summary, upto)
        await self._write_key(conversation_id)
        return made

    async def get_short_memory(self, conversation_id: str) -> SessionValue:
        """Return the current session; an empty one if the conversation does not exist."""
        return await self._key.read(conversation_id) or await self._read_session(conversation_id)

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

    async def query_message_by_conversation_id_asc_with_limit(
        self, conversation_id: str, limit: int = 100
    ) -> list[AIMessage]:
        """Return the oldest rows of a conversation as `ai_message` has them, at most `limit`."""
        if limit < 1:
            raise InvalidOption(f"limit={limit} must be at least 1")
        return (await self._rows(conversation_id, 0, limit))[:limit]

    async def query_message_by_conversation_id_asc_from_checkpoint(
        self, conversation_id: str, checkpoint_message_id: str
    ) -> list[AIMessage]:
        """Return the rows after a checkpoint: the turns that it does not cover wholly, and later checkpoints."""
        checkpoints = await self.checkpoint_history(conversation_id)
        found = next((each for each in checkpoints if each.id == checkpoint_message_id), None)
        if found is None:
            raise NotFound(
                f"conversation {conversation_id!r} has no checkpoint {checkpoint_message_id!r}; checkpoint_history "
                "lists them"
            )
        return await self._rows(conversation_id, found.upto)

    async def import_messages(self, rows: Iterable[object]) -> ImportedMessages:
        """Import the rows of an `ai_message` table that another program wrote: mappings by column, or `AIMessage`.

        Every conversation is imported whole or not at all, with its times and checkpoints; one that exists here is left
        as it is and counted in `already`. Rows that cannot be read refuse the import before anything is written.
        """
        found = conversation_pieces(rows)
        done = [0, 0, 0, 0]
        for pieces, turns, checkpoints in found:
            made = await self._store.restore(self._config.scope, pieces)
            new = made.conversations
            for at, number in enumerate((new, new * turns, new * checkpoints, made.already)):
                done[at] += number
        conversations, turns, checkpoints, already = done
        return ImportedMessages(
            conversations=conversations, turns=turns, checkpoints=checkpoints, already=already
        )

    async def import_session_value(self, value: str | bytes) -> SessionValue:
        """Import a session value that another program kept in Redis: the owner, and fields that are not set here."""
        session = SessionValue.from_json(value)
        conversation = session.meta.conversation_id
        if not conversation:
            raise InvalidRecord("the session names no conversation", path="meta.conversation_id")
        places = settable_of(session)

        def imported(note: SessionNote) -> SessionNote:
            owned = bind_owner(note, user_id=session.meta.user_id)
            return with_settings(owned, {**places, **owned.places}, None)

        await self._notes.change_session(conversation, imported)
        return await self._read_session(conversation)

    async def checkpoint_history(self, conversation_id: str) -> list[Checkpoint]:
        """Return all checkpoints, oldest first, including those before a restart."""
        return await self._store.checkpoints(self._config.scope, conversation_id)

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
        return LogEnd(self._store, self._config.scope, view)

    async def _read_session(self, conversation_id: str) -> SessionValue:
        """Return the session from the store, and put it under its key."""
        log = self._log(await self._notes.read_view(conversation_id))
        log.page = 2 * self._defaults.recent_turns + 2  # a question and an answer each
        await log.older()
        session = await self._session(log, self._defaults.recent_turns)
        await self._key.write(conversation_id, session, log.view.head.state)
        return session

    async def _write_key(self, conversation_id: str) -> None:
        """Put the session under its key after a change, which is durable whatever happens now."""
        if self._key.values is not None:
            with suppress(TurnfoldError):  # the next read writes it
                await self._read_session(conversation_id)

    async def _rows(self, conversation_id: str, after: int, limit: int = 0) -> list[AIMessage]:
        """Return the rows of the turns that end after an entry; about `limit` of them, if it is not 0."""
        store, scope = self._store, self._config.scope
        entries: list[Entry] = []
        if after:
            [last] = await store.read(scope, conversation_id, after=after - 1, upto=after, limit=1)
            turn = await store.read_turn(scope, conversation_id, last.turn)
            after = turn[0].seq - 1 if turn[-1].seq > after else after
        while page := await store.read(
            scope, conversation_id, after=entries[-1].seq if entries else after, limit=_PAGE
        ):
            entries += page
            if limit and entries[-1].turn > limit:
                break
        checkpoints = await store.checkpoints(scope, conversation_id)
        upto = entries[-1].seq if entries else after
        shown = [each for each in checkpoints if after < each.upto <= upto]
        return list(make_rows(conversation_id, entries, shown))

    async def _note_query(self, view: ConversationView, query: str, *, seen: int) -> State | None:
        """Record a query for the write that answers it, and a request for a summary.

        Returns the state of the conversation if nothing else changed since the view; the note is no part of a session.
        """
        if not query and not seen:
            return view.head.state

        def noted(note: TurnNote) -> TurnNote:
            changes = with_query(note, query)
            if seen:
                changes["offers"] = add_offer(
                    note.offers, live=view.head.checkpoint, seen=seen, covered=view.covered
                )
            return note.with_changes(changes)

        return await self._notes.change_turn_since(view, noted)

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
