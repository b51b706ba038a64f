"""Short-term memory of conversations with a summary and the newest turns (`ShortMemory`).

It has the names of design document 003; unlike the protocol described there, it loses no messages.

A turn is in the log, question and answer together, before `write_turn` returns; a checkpoint (stored summary) is next
to the log and committed by compare-and-swap. Session, mode, summary and window are computed from log and checkpoint, so
a cache that expires or is emptied changes no result, and a crash leaves nothing half written. With Redis in front
(`cache=`) the session is also JSON under the documented key: see `redis_session`.

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
from turnfold.memories.rules_text import RulesTexts, rules_text
from turnfold.memories.short_memory.ai_message_rows import (
    AIMessage,
    ImportedMessages,
    conversation_pieces,
    make_rows,
)
from turnfold.memories.short_memory.changed_fields import (
    apply_changes,
    as_read,
    changes_of,
    check_derived,
    settable_of,
    to_parts,
)
from turnfold.memories.short_memory.redis_session import FoundKey, SessionKey, SessionValues
from turnfold.memories.short_memory.render import remove_label
from turnfold.memories.short_memory.stored_state import (
    ConversationView,
    SessionNote,
    ShortNotes,
    TurnNote,
    add_offer,
    bind_owner,
    chosen_mode,
    make_view,
    with_settings,
)
from turnfold.memories.short_memory.summaries import LabelledWriter, ShortFold, check_summary
from turnfold.memories.short_memory.turns import (
    LogEnd,
    TurnWriter,
    WrittenTurn,
    cached_count,
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
from turnfold.memory import AsyncMemory, Folder, MemoryConfig, MemoryMode, Summaries, make_config
from turnfold.records import Checkpoint, Entry, plain_text
from turnfold.runtime import AsyncRuntime
from turnfold.stores import Erasure, Scope, Store
from turnfold.telemetry import Meter
from turnfold.tokens import TokenCounter

__all__ = ("RECENT_TURNS", "AsyncShortMemory", "QueryDefaults")


RECENT_TURNS: Final = 8
"""Default number of newest turns that stay verbatim."""
_SECOND: Final = 1_000_000
_PAGE: Final = 500
_MANY_NEW: Final = 16
"""A query that is stored caches the entries it read only if at least this many were not cached: the answer will soon
change the conversation."""


@dataclass(frozen=True, slots=True)
class QueryDefaults:
    """Options of `query_memory_context` that are used if a query does not set them."""

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
        """Return these defaults, changed by the options that one query sets; an option that is None is not changed."""
        return QueryDefaults(
            self.token_threshold_ratio if ratio is None else ratio,
            self.recent_turns if turns is None else turns,
            self.model_context_window if window is None else window,
        )


@dataclass(frozen=True, slots=True)
class _Query:
    """A query to a memory with its result, from which the Redis cache is filled afterwards."""

    log: LogEnd
    limits: QueryDefaults
    found: FoundKey
    """The data of the session that Redis had when the query began."""
    session: SessionValue
    rules: str
    cached: bool
    """True if notes and newest entries were taken from the cache in Redis."""


class AsyncShortMemory:
    """Short-term memory of many conversations in a store, for applications with an event loop.

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
        """Return a short-term memory that uses this config; with `owns`, closing the memory closes the store."""
        memory = cls.__new__(cls)
        memory._setup(config, defaults or QueryDefaults(), owns=owns)  # noqa: SLF001 (its own)
        return memory

    def _setup(self, config: MemoryConfig, defaults: QueryDefaults, *, owns: bool) -> None:
        self._config = config
        self._defaults = defaults
        self._owns = owns
        # Redis is used through `session_values` only; everything else is read from the durable store.
        values: object = getattr(config.store, "session_values", None)
        known = values if isinstance(values, SessionValues) else None
        durable: object = getattr(config.store, "durable", None)
        self._store = cast("Store", durable) if known else config.store
        self._notes = ShortNotes(self._store, config.scope)
        self._key = SessionKey(self._notes, known)
        self._count = cached_count(config.counter.count_text)
        self._rules = RulesTexts()
        self._counter = ""
        """Name of the token counter by which the store counted the tokens of the cached entries."""
        self._turns = TurnWriter(self._store, config.scope, self._notes, config.meter)
        self._sessions = AsyncMemory.over(replace(config, store=self._store), owns=False)

    @property
    def meter(self) -> Meter:
        """The metrics (counters, durations) of this memory."""
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
        """Create a conversation and return its session.

        A conversation that exists is started over; if `restart` is False, it is continued.
        """
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
        """Return the conversation for the next model call; options that are not set have the memory's defaults.

        `query` is stored until a `write_turn` answers it, in this process or another; a newer query replaces it. The
        history has the user's rules from the turns that the summary covers, then the turns that no summary covers, as
        many as fit the window; the newest `recent_turns` turns are in the session's `window_messages`.
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
        found = await self._key.sync(conversation_id, segment=True)
        if enterprise_id or patient_id:
            await self._notes.change_session(
                conversation_id,
                lambda note: bind_owner(note, enterprise_id=enterprise_id, patient_id=patient_id),
            )
        return await self._query(conversation_id, text, limits, found)

    async def _query(
        self, conversation_id: str, text: str, limits: QueryDefaults, found: FoundKey | None
    ) -> MemoryContext:
        window = limits.model_context_window
        log, cached = await self._open_log(conversation_id, window, found)
        view = log.view
        rules = await self._rules_text(view, window)
        history = await read_history(log, count=self._count, window=window, query=text, rules=rules)
        due = history.upto > view.covered and fold_due(
            history.tokens, window, limits.token_threshold_ratio
        )
        after = await self._note_query(view, text, seen=history.upto if due else 0)
        session = await self._session(log, limits.recent_turns)
        if found is not None and after is not None:
            query = _Query(log, limits, found, session=session, rules=rules, cached=cached)
            await self._fill_cache(query, after)
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
        """Store a turn, question and answer together, and wait until it is stored.

        Without `user_query` the turn answers the stored query that has no answer yet. A retry stores nothing again if
        it has a `client_id` or answers a stored query.
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
        if written.head is not None:
            self._counter = written.head.counter
        session = await self._write_key(conversation_id)
        return MemoryWriteResult(
            conversation_id=conversation_id,
            mode=session.message_context.mode
            if session
            else await self._mode_after(conversation_id, written),
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
        """Replace all but the newest turns by a summary; without `summary`, the memory's summariser writes one.

        `upto` is the newest entry that the summary was made from (`MemoryContext.upto`). The default is the newest
        entry of the first query that requested a summary since the last one, or else of the log. Later entries stay
        verbatim. At least the oldest turn that no summary covers is folded (compacted). A summary that is stored
        already, or was made from no new entry, changes nothing: the current checkpoint is returned.
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
            zone=config.zone,
        )
        limit = config.budget.share("summary")
        short = ShortFold(self._notes, folder, limit, turns, config.meter)
        made = await short.fold(summary, upto)
        await self._write_key(conversation_id)
        return made

    async def get_short_memory(self, conversation_id: str) -> SessionValue:
        """Return the current session of a conversation; an empty one if the conversation does not exist."""
        return await self._key.read(conversation_id) or await self._read_session(conversation_id)

    async def set_short_memory(self, conversation_id: str, session: SessionValue) -> SessionValue:
        """Store the fields of a session that the caller changed since it was read; return the session after that.

        If another writer set one of these fields to another value meanwhile, `Conflict` is raised and nothing is
        written. Fields computed from the log cannot be set, except for the mode: FULL_HISTORY shows all turns again
        until the next checkpoint.
        """
        current = await self.get_short_memory(conversation_id)
        named = session.meta.conversation_id
        if named not in ("", conversation_id):
            raise InvalidOption(
                f"the session belongs to conversation {named!r}; pass a session of {conversation_id!r}"
            )
        mode = chosen_mode(session, check_derived(session, current), current)
        was, now = changes_of(session)
        was_read = session.as_read is not None
        await self._notes.change_session(
            conversation_id,
            lambda note: with_settings(
                note, apply_changes(note.places, was, now, was_read=was_read), mode
            ),
        )
        session.as_read = as_read(session)
        return await self.get_short_memory(conversation_id)

    async def reset_short_memory(self, conversation_id: str) -> SessionValue:
        """Start the conversation over: hide all messages and settings. The log keeps the messages; the owner stays."""
        await self._notes.start_over(conversation_id)
        return await self.get_short_memory(conversation_id)

    async def query_message_by_conversation_id_asc_with_limit(
        self, conversation_id: str, limit: int = 100
    ) -> list[AIMessage]:
        """Return the oldest rows of a conversation, at most `limit`, as rows of the documented table `ai_message`."""
        if limit < 1:
            raise InvalidOption(f"limit={limit} must be at least 1")
        return (await self._rows(conversation_id, 0, limit))[:limit]

    async def query_message_by_conversation_id_asc_from_checkpoint(
        self, conversation_id: str, checkpoint_message_id: str
    ) -> list[AIMessage]:
        """Return the rows after a checkpoint: turns that it does not cover completely, and later checkpoints."""
        checkpoints = await self.checkpoint_history(conversation_id)
        found = next((each for each in checkpoints if each.id == checkpoint_message_id), None)
        if found is None:
            raise NotFound(
                f"conversation {conversation_id!r} has no checkpoint {checkpoint_message_id!r}: checkpoint_history "
                "lists its checkpoints"
            )
        return await self._rows(conversation_id, found.upto)

    async def import_messages(self, rows: Iterable[object]) -> ImportedMessages:
        """Import the rows of an `ai_message` table that another program wrote: dicts by column name, or `AIMessage`.

        Every conversation is imported whole or not at all, with its times and checkpoints; one that exists here is left
        as it is and counted in `already`. A row that cannot be read raises `InvalidRecord` before anything is written.
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
        """Import a session value (the JSON object of design document 003) that another program stored in Redis.

        Its owner is taken over, and so are the fields that are not set here yet.
        """
        session = SessionValue.from_json(value)
        conversation = session.meta.conversation_id
        if not conversation:
            raise InvalidRecord(
                "the imported session has no conversation_id, so nothing was imported",
                path="meta.conversation_id",
                remedy="Add the id of the conversation",
            )
        places = settable_of(session)

        def imported(note: SessionNote) -> SessionNote:
            owned = bind_owner(note, user_id=session.meta.user_id)
            return with_settings(owned, {**places, **owned.places}, None)

        await self._notes.change_session(conversation, imported)
        return await self._read_session(conversation)

    async def checkpoint_history(self, conversation_id: str) -> list[Checkpoint]:
        """Return all checkpoints (summaries), oldest first, including those before a restart."""
        return await self._store.checkpoints(self._config.scope, conversation_id)

    async def delete_short_memory(self, conversation_id: str) -> Erasure:
        """Erase a conversation permanently, with its checkpoints (summaries), notes and cached values."""
        return await self._config.store.delete(self._config.scope, conversation_id)

    async def close(self) -> None:
        """Close the store if this memory opened it. Closing twice is allowed."""
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
        """Return a conversation's session (JSON object of document 003) from the store; write it to Redis."""
        log = self._log(await self._notes.read_view(conversation_id))
        log.page = 2 * self._defaults.recent_turns + 2  # a question and an answer each
        await log.older()
        return await self._put_session(log)

    async def _put_session(self, log: LogEnd) -> SessionValue:
        session = await self._session(log, self._defaults.recent_turns)
        await self._key.write(log.view.conversation, session, log.view.head.state)
        return session

    async def _write_key(self, conversation_id: str) -> SessionValue | None:
        """Write the session value (JSON object of document 003) to Redis after a change in the store.

        Errors are ignored, because the next read tries again. If few entries are unread, they are cached for the next
        query too. Returns None without Redis or after an error.
        """
        if self._key.values is None:
            return None
        with suppress(TurnfoldError):  # the next read writes it
            began = self._key.values.now()
            log = self._log(await self._notes.read_view(conversation_id))
            unread = log.view.head.seq - log.shown_after
            fits = unread <= log.page and log.view.head.counter == self._counter
            log.page = max(2 * self._defaults.recent_turns + 2, unread if fits else 0)
            await log.older()
            session = await self._put_session(log)
            if fits:
                await self._key.write_segment(log.view, log.entries, since=began)
            return session
        return None

    async def _rows(self, conversation_id: str, after: int, limit: int = 0) -> list[AIMessage]:
        """Return the turns that end after entry `after`, and the checkpoints after it, as `ai_message` rows.

        With `limit`, reading stops soon after that many turns, counted from the first of the log.
        """
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

    async def _rules_text(self, view: ConversationView, window: int) -> str:
        """Return, as text, the user's rules that still apply and come from entries covered by the summary.

        Those entries are not shown any more. The text is limited to a share of `window` tokens.
        """
        if view.live is None:
            return ""
        known = self._rules.get(view.conversation, view.head.state, window)
        if known is not None:
            return known
        return await rules_text(
            self._sessions.session(view.conversation),
            upto=view.covered,
            window=window,
            count=self._config.counter.count_text,
        )

    async def _open_log(
        self, conversation_id: str, window: int, found: FoundKey | None
    ) -> tuple[LogEnd, bool]:
        """Read the newest entries of a conversation for a query; also return True if they all came from the cache.

        The segment (notes and newest entries in Redis) is used unchanged only if the database has exactly the state in
        which it was cached. Otherwise the notes are read from the database, and the entries added since.
        """
        segment = self._key.segment(conversation_id, found)
        # Entries counted by another counter have other costs: then they are read from the store, as without a cache.
        if found is None or segment is None or segment[0].head.counter != self._counter:
            log = self._log(await self._notes.read_view(conversation_id))
            await log.open(window)
            return log, False
        known, entries = segment
        if found.state is None or found.state[0] <= known.head.generation:
            head = await self._store.head(self._config.scope, conversation_id)
            if head == known.head:
                log = self._log(make_view(conversation_id, known))
                log.entries = entries
                return log, True
        log = self._log(await self._notes.read_view(conversation_id))
        if log.view.head.counter != self._counter or not await log.extend(entries):
            await log.open(window)
        return log, False

    async def _fill_cache(self, query: _Query, after: ConversationView) -> None:
        """Write the results of a query (session as JSON, notes, entries) to Redis, unless Redis has them already."""
        log, limits, found = query.log, query.limits, query.found
        view, window = log.view, limits.model_context_window
        usual = limits.recent_turns == self._defaults.recent_turns
        # A session does not contain the note of a query: if Redis has the session, it is not written again.
        if usual and found.state not in (view.head.state, after.head.state):
            await self._key.write(view.conversation, query.session, after.head.state)
        if after is view:
            known = (
                view.live is None
                or self._rules.get(view.conversation, view.head.state, window) is not None
            )
            if query.cached and known:
                return
            # Entries and rules were read after the view: they belong to its state only if nothing has changed since.
            if await self._store.head(self._config.scope, view.conversation) != view.head:
                return
        self._rules.put(after.conversation, after.head.state, window, text=query.rules)
        # A stored query is followed by the write that answers it, so a few entries are not worth caching now.
        if query.cached or (after is not view and log.added < _MANY_NEW):
            return
        self._counter = view.head.counter if log.entries else self._counter
        entries = log.newest_within(window, limits.recent_turns)
        await self._key.write_segment(after, entries, since=found.read_at)

    async def _note_query(
        self, view: ConversationView, query: str, *, seen: int
    ) -> ConversationView | None:
        """Store a query until its answer is written.

        If it requests a summary, `seen`, the newest entry, is stored too. Returns the view after this change, or None
        if anything else changed since `view`.
        """
        if not query and not seen:
            return view

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
