"""One thinking phase, from a rendered workspace to the summaries of all turns.

The order is what makes it safe to die in: the context is kept before any model is asked, and its summary is kept as
soon as there is one. A turn that was thought through before, by whichever process, is not thought through again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from turnfold.errors import Conflict
from turnfold.memory.snapshots.recalling import RecalledContext
from turnfold.memory.workspace.context_memory_store import AsyncContextMemoryStore
from turnfold.memory.workspace.picking import picked_summary, what_to_read
from turnfold.memory.workspace.thinking import Thinker, Thought, Written
from turnfold.memory.workspace.values import (
    ContextSnapshot,
    MemorySummary,
    Reading,
    ThinkingResult,
    full_context,
    summary_id,
)
from turnfold.records.snapshots import Snapshot

__all__ = ("Phase",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """How a workspace is thought through."""

    store: AsyncContextMemoryStore
    thinker: Thinker | None
    """None where no model is at hand: the summary is then picked from the workspace."""
    rounds: int
    """Reflective rounds, at most."""
    reads: int
    """Tokens of a workspace that are read at once."""
    summary_tokens: int
    """Tokens of one summary."""
    share: int
    """Tokens the summaries of all turns may take."""
    count: Callable[[str], int]
    clock: Callable[[], int]

    async def perform(
        self, workspace: str | Snapshot, *, turn: int, pending: RecalledContext | None
    ) -> ThinkingResult:
        """Keep the context of a turn, think it through, keep what was made of it."""
        earlier = await self.store.accumulated_summaries(tokens=self.share)
        links = pending.context_ids if pending else ()
        context = await self._kept(workspace, turn, links)
        known = await self.store.summary(context.turn_number)
        if known is not None:
            return await self._result(
                known, Thought(stopped="thought through before"), repeated=True
            )
        read, reading = await self._read(context)
        thought = await self._thought(read, reading, earlier, pending)
        written = await self._written(read, reading, thought)
        summary = MemorySummary(
            id=summary_id(context.id),
            context_id=context.id,
            turn_number=context.turn_number,
            summary=written.summary
            or picked_summary(read, tokens=self.summary_tokens, count=self.count),
            insights=written.insights,
            timestamp=self.clock(),
            thoughts=thought.thoughts,
            links=tuple(dict.fromkeys((*links, *thought.recalled))),
            model=self.thinker.model.name if self.thinker and written.summary else "",
            problem=written.problem,
            reading=reading,
            tokens_used=thought.tokens + written.tokens,
        )
        if written.problem:
            thought.problems.append(f"summary: {written.problem}")
        return await self._result(await self.store.add_summary(summary), thought)

    async def _kept(
        self, workspace: str | Snapshot, turn: int, links: tuple[str, ...]
    ) -> ContextSnapshot:
        """The context of the turn: the first one kept stands, whatever the workspace is now."""
        wanted = turn or (workspace.turn if isinstance(workspace, Snapshot) else 0)
        known = await self.store.context(wanted) if wanted else None
        if known is not None:
            return known
        try:
            return await self.store.add_context(workspace, turn=wanted, links=links)
        except Conflict:
            there = await self.store.context(wanted) if wanted else None
            if there is None:
                raise
            return there

    async def _read(self, context: ContextSnapshot) -> tuple[str, Reading]:
        text = context.full_context
        whole = what_to_read(text, None, tokens=self.reads, count=self.count)
        if whole[1] == "whole":
            return whole
        before = await self.store.snapshots.before(context.turn_number)
        if before is None:
            return whole
        return what_to_read(text, full_context(before), tokens=self.reads, count=self.count)

    async def _thought(
        self, read: str, reading: Reading, earlier: str, pending: RecalledContext | None
    ) -> Thought:
        if self.thinker is None or not self.rounds:
            return Thought(stopped="reflective thinking is off")

        async def recall(asked: Mapping[str, object], tokens: int) -> RecalledContext:
            return await self.store.recall(asked, tokens=tokens)

        return await self.thinker.rounds(
            read,
            reading,
            earlier,
            pending=pending.text if pending else "",
            most=self.rounds,
            recall=recall,
        )

    async def _written(self, read: str, reading: Reading, thought: Thought) -> Written:
        if self.thinker is None:
            return Written(problem="")
        return await self.thinker.summary(read, reading, thought.thoughts, most=self.summary_tokens)

    async def _result(
        self, summary: MemorySummary, thought: Thought, *, repeated: bool = False
    ) -> ThinkingResult:
        return ThinkingResult(
            thoughts=summary.thoughts,
            tokens_used=0 if repeated else summary.tokens_used,
            accumulated_summaries=await self.store.accumulated_summaries(tokens=self.share),
            context_id=summary.context_id,
            turn=summary.turn_number,
            summary=summary,
            rounds=tuple(thought.rounds),
            stopped=thought.stopped,
            problems=tuple(thought.problems),
            repeated=repeated,
        )
