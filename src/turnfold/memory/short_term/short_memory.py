"""Document 003's short-term memory, with its names and without its losses.

A turn is in the log, question and answer together, before `write_turn` returns; a checkpoint stands beside the log and
is committed by compare-and-swap. Nothing else has to be kept in step: the session, its mode, its summary and its window
are read from these two, so a cache that expires or is emptied changes no answer, and a crash leaves no half of one.

Who starts over says so: `reset_short_memory`, or `create_short_memory(..., restart=True)`. A plain create of a
conversation that exists leaves it as it is, because programs create theirs each time they start; emptying the cache
forgets nothing. What was said before a restart stays in the log.

The tenant is the memory's `scope`; two scopes share nothing. `enterprise_id`, `patient_id` and `user_id` are kept with
the conversation when they are first given, and every later one must be the same.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from turnfold.errors import InvalidOption
from turnfold.memory.fold_keeper import MemoryMode
from turnfold.memory.folding import Folder
from turnfold.memory.front_door import make_setting
from turnfold.memory.metrics.meter import Meter
from turnfold.memory.setting import Setting
from turnfold.memory.short_term.folding import LabelledWriter, ShortFold, check_summary
from turnfold.memory.short_term.history import LogEnd, read_history
from turnfold.memory.short_term.merge import (
    apply_changes,
    as_read,
    changes_of,
    check_derived,
    to_parts,
)
from turnfold.memory.short_term.offers import offered
from turnfold.memory.short_term.rendering import unlabelled
from turnfold.memory.short_term.sessions import bound_to, chosen_mode, with_settings
from turnfold.memory.short_term.standing import ShortNotes, Standing, TurnNote
from turnfold.memory.short_term.turns import TurnWriter, Written, asked_note
from turnfold.memory.short_term.values import (
    MemoryContext,
    MemoryWriteResult,
    MessageContext,
    MetaInfo,
    SessionValue,
)
from turnfold.memory.waiting import AwaitingWay
from turnfold.memory.writers import Summaries
from turnfold.records import Checkpoint
from turnfold.records.json_text import plain_text
from turnfold.stores.protocol import Erasure, Scope, Store
from turnfold.summary.due import check_threshold, fold_due
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
        setting = make_setting(
            url,
            AwaitingWay(),
            blocking=False,
            cache=cache,
            scope=scope,
            counter=counter,
            summarizer=summarizer,
            meter=meter,
        )
        self._take(setting, owns=isinstance(url, str))

    @classmethod
    def over(cls, setting: Setting, *, owns: bool) -> AsyncShortMemory:
        """A memory over a setting that is made; `owns` says whether closing it closes the store."""
        memory = cls.__new__(cls)
        memory._take(setting, owns=owns)  # noqa: SLF001 (its own)
        return memory

    def _take(self, setting: Setting, *, owns: bool) -> None:
        self._setting = setting
        self._owns = owns
        self._notes = ShortNotes(setting.store, setting.scope)
        self._turns = TurnWriter(setting.store, setting.scope, self._notes, setting.meter)

    @property
    def meter(self) -> Meter:
        """What this memory did, in numbers."""
        return self._setting.meter

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
        await self._notes.change_session(
            conversation_id,
            lambda note: bound_to(
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
        """What the next model call is given of the conversation.

        `query` is kept until the write that answers it, in this process or another; of two queries without a write
        between them the newer one is. Every turn that no summary covers is shown as far as the window holds it;
        `recent_turns` of them are in the session's `window_messages`.
        """
        _check_query(token_threshold_ratio, recent_turns, model_context_window)
        asked = plain_text(query, path="query")
        if enterprise_id or patient_id:
            await self._notes.change_session(
                conversation_id,
                lambda note: bound_to(note, enterprise_id=enterprise_id, patient_id=patient_id),
            )
        standing = await self._notes.standing(conversation_id)
        log = self._log(standing)
        await log.open(model_context_window)
        history = await read_history(
            log,
            counter=self._setting.counter,
            window=model_context_window,
            query=asked,
        )
        due = history.upto > standing.covered and fold_due(
            history.tokens, model_context_window, token_threshold_ratio
        )
        await self._note_query(standing, asked, seen=history.upto if due else 0)
        ratio = history.tokens / model_context_window
        self.meter.add("contexts")
        self.meter.observe("token_ratio", ratio)
        return MemoryContext(
            conversation_id=conversation_id,
            mode=standing.mode,
            session=await self._session(log, recent_turns),
            history=history.text,
            full_history=history.full,
            estimated_tokens=history.tokens,
            token_ratio=ratio,
            should_checkpoint_summary=due,
            query=asked,
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
        """Write a turn, question and answer at once; durable on return.

        Without `user_query` it is the answer to the query that waits for one. A repeated call stores nothing twice
        where it has a `client_id`, or answers a query.
        """
        if user_id or agent_code:
            await self._notes.change_session(
                conversation_id,
                lambda note: bound_to(note, user_id=user_id, agent_code=agent_code),
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
        """Put a summary in place of everything but the newest turns; without one, the memory's summariser writes it.

        `upto` is the newest entry the summary has seen: `MemoryContext.upto`. Without it, that is what the first query
        had seen that asked for a summary since the last one; without such a query, everything. Later entries stay
        verbatim. At least the oldest turn that no summary covers is folded. A summary that is live already, or that
        has seen nothing new, changes nothing: the live checkpoint is returned.
        """
        check_summary(summary, recent_turns)
        setting = self._setting
        folder = Folder(
            setting.store,
            setting.scope,
            conversation_id,
            setting.counter,
            LabelledWriter(setting.policy.writer),
            setting.way,
        )
        limit = setting.budget.share("summary")
        short = ShortFold(self._notes, folder, limit, recent_turns, setting.meter)
        return await short.fold(summary, upto)

    async def get_short_memory(self, conversation_id: str) -> SessionValue:
        """The session as it is now; of a conversation nobody has used, an empty one."""
        log = self._log(await self._notes.standing(conversation_id))
        await log.older()
        return await self._session(log, RECENT_TURNS)

    async def set_short_memory(self, conversation_id: str, session: SessionValue) -> SessionValue:
        """Store what was changed in a session that was read, field by field; the session as it is then.

        A field that somebody else changed meanwhile to another value is a `Conflict`, and nothing is written. What
        follows from the log cannot be set, but for the mode: FULL_HISTORY shows everything again, until the next
        checkpoint.
        """
        current = await self.get_short_memory(conversation_id)
        named = session.meta.conversation_id
        if named not in ("", conversation_id):
            raise InvalidOption("this session is of another conversation_id than the one given")
        mode = chosen_mode(session, check_derived(session, current), current)
        was, now = changes_of(session)
        await self._notes.change_session(
            conversation_id,
            lambda note: with_settings(note, apply_changes(note.places, was, now), mode),
        )
        session.as_read = as_read(session)
        return await self.get_short_memory(conversation_id)

    async def reset_short_memory(self, conversation_id: str) -> SessionValue:
        """Start over: nothing said or set so far is shown again. It stays in the log; whose conversation it is, too."""
        await self._notes.start_over(conversation_id)
        return await self.get_short_memory(conversation_id)

    async def checkpoint_history(self, conversation_id: str) -> list[Checkpoint]:
        """All checkpoints, oldest first, with what was started over."""
        return await self._setting.store.checkpoints(self._setting.scope, conversation_id)

    async def delete_short_memory(self, conversation_id: str) -> Erasure:
        """Erase a conversation and everything derived from it, for good."""
        return await self._setting.store.delete(self._setting.scope, conversation_id)

    async def close(self) -> None:
        """Let go of the store. Closing twice is allowed."""
        await self._setting.way.finish()
        if self._owns:
            await self._setting.store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _mode_after(self, conversation_id: str, written: Written) -> MemoryMode:
        # Where no summary was ever made, nothing else needs to be asked.
        if written.head is not None and not written.head.checkpoint:
            return MemoryMode.FULL_HISTORY
        return (await self._notes.standing(conversation_id)).mode

    def _log(self, standing: Standing) -> LogEnd:
        return LogEnd(self._setting.store, self._setting.scope, standing)

    async def _note_query(self, standing: Standing, query: str, *, seen: int) -> None:
        """Leave word of a query for the write that answers it, and of an offer for the summary that takes it up."""
        if not query and not seen:
            return

        def left_word(note: TurnNote) -> TurnNote:
            changes = asked_note(note, query)
            if seen:
                changes["offers"] = offered(
                    note.offers, live=standing.head.checkpoint, seen=seen, covered=standing.covered
                )
            return note.with_changes(changes)

        await self._notes.change_turn(standing.conversation, left_word)

    async def _session(self, log: LogEnd, recent_turns: int) -> SessionValue:
        standing, live = log.standing, log.standing.live
        flow, state, profile = to_parts(standing.note.places)
        flow.last_bot_message = await log.last_answer()
        flow.turn_count = standing.head.turns - await log.turns_before()
        newest = log.entries[-1].created if log.entries else 0
        session = SessionValue(
            meta=MetaInfo(
                conversation_id=standing.conversation,
                user_id=standing.note.user_id,
                updated_at=max(newest, standing.changed) // _SECOND,
            ),
            flow_context=flow,
            message_context=MessageContext(
                summary=unlabelled(live.text) if live else "",
                window_messages=await log.window(recent_turns),
                mode=standing.mode,
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
