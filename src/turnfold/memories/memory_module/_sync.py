"""`MemoryModule` without an event loop; written by tools/faces.py, do not edit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from turnfold.budget import Budget
from turnfold.memories.memory_module.context_store import AsyncContextMemoryStore
from turnfold.memories.memory_module.module import (
    AsyncMemoryModule,
    ThinkingOptions,
    store_or_memory,
)
from turnfold.memories.memory_module.values import (
    ContextHit,
    ContextSnapshot,
    ImportedContexts,
    MemorySummary,
    ThinkingResult,
)
from turnfold.memory import make_config
from turnfold.models import SummaryModel
from turnfold.records import Snapshot
from turnfold.runtime import SyncRuntime, drive
from turnfold.stores import Scope, Store
from turnfold.tokens import TokenCounter
from turnfold.workspace_snapshots import RecalledContext, RecallRequest, SnapshotHead, Snapshots

__all__ = (
    "ContextMemoryStore",
    "MemoryModule",
)


class ContextMemoryStore:
    """Stores, searches, recalls, exports and imports the contexts and summaries of one conversation."""

    def __init__(self, awaiting: AsyncContextMemoryStore) -> None:
        self._awaiting = awaiting

    @property
    def awaiting(self) -> AsyncContextMemoryStore:
        """The asynchronous form of this object; its coroutines never suspend."""
        return self._awaiting

    @property
    def snapshots(self) -> Snapshots:
        """The stored workspace contexts as snapshots, to read single files, diffs or lines."""
        return Snapshots(self._awaiting.snapshots)

    def add_context(
        self, workspace: str | Snapshot, *, turn: int = 0, links: tuple[str, ...] = ()
    ) -> ContextSnapshot:
        """Store the context (rendered workspace) of a turn and return it; `turn=0` means the turn after the newest."""
        return drive(self._awaiting.add_context(workspace, turn=turn, links=links))

    def head_before(self, turn: int = 0) -> SnapshotHead | None:
        """Return id and turn of the newest stored context before `turn`; None if there is none.

        If `turn` is 0, the newest of all contexts is returned.
        """
        return drive(self._awaiting.head_before(turn))

    def add_summary(self, summary: MemorySummary) -> MemorySummary:
        """Store the summary of a context and return it; if the context has a summary already, return the stored one."""
        return drive(self._awaiting.add_summary(summary))

    def context(self, turn: int | str) -> ContextSnapshot | None:
        """Return the whole context of a turn, or of an id such as `ctx_2_4f1d09aa3b7c`; None if there is none."""
        return drive(self._awaiting.context(turn))

    def contexts(self, *, after: int = 0, limit: int = 20) -> list[ContextSnapshot]:
        """Return a page of whole contexts: those of the turns after `after`, oldest first, at most `limit`."""
        return drive(self._awaiting.contexts(after=after, limit=limit))

    def summary(self, turn: int | str) -> MemorySummary | None:
        """Return the summary of a turn, or of an id such as `sum_ctx_2_4f1d09aa3b7c`; None if there is none."""
        return drive(self._awaiting.summary(turn))

    def summaries(self, *, after: int = 0, limit: int = 100) -> list[MemorySummary]:
        """Return a page of summaries: those of the turns after `after`, oldest first, at most `limit`."""
        return drive(self._awaiting.summaries(after=after, limit=limit))

    def accumulated_summaries(self, *, tokens: int) -> str:
        """Return the summaries of all turns, one line each, in at most `tokens`; the oldest are folded (compacted)."""
        return drive(self._awaiting.accumulated_summaries(tokens=tokens))

    def search(self, keyword: str, *, limit: int = 10) -> list[ContextHit]:
        """Find contexts by keyword in their new content and summaries, best first."""
        return drive(self._awaiting.search(keyword, limit=limit))

    def recall(
        self, request: RecallRequest | Mapping[str, object], *, tokens: int
    ) -> RecalledContext:
        """Return content selected by turn numbers, context ids, path and lines, or keywords, in at most `tokens`."""
        return drive(self._awaiting.recall(request, tokens=tokens))

    def export(self) -> dict[str, object]:
        """Export all contexts and summaries of the conversation as JSON values, for `import_`."""
        return drive(self._awaiting.export())

    def import_(self, exported: Mapping[str, object]) -> ImportedContexts:
        """Import the result of `export`; contexts and summaries that are stored already are skipped.

        A faulty export raises `InvalidRecord` and nothing is imported. `Conflict` is raised if a turn has another
        context or summary here than in the export. A new conversation is written in one transaction; an existing one
        turn by turn, and repeating an interrupted import completes it.
        """
        return drive(self._awaiting.import_(exported))


class MemoryModule:
    """Remembers an agent's workspace (shared text, files, state) turn by turn, for applications without an event loop.

    It is the `MemoryModule` of design document 002.
    """

    def __init__(
        self,
        model: SummaryModel | None = None,
        store: str | Store | None = None,
        *,
        conversation: str = "",
        scope: Scope | str = "default",
        enable_reflective_thinking: bool = True,
        max_thinking_rounds: int = 5,
        budget: Budget | None = None,
        recall_tokens: int = 0,
        model_seconds: float = 60.0,
        counter: TokenCounter | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        options = ThinkingOptions(
            model=model,
            enable_reflective_thinking=enable_reflective_thinking,
            max_thinking_rounds=max_thinking_rounds,
            recall_tokens=recall_tokens,
            model_seconds=model_seconds,
        )
        config = make_config(
            store_or_memory(store),
            SyncRuntime(),
            blocking=True,
            scope=scope,
            budget=budget,
            counter=counter,
            clock=clock,
        )
        self._awaiting = AsyncMemoryModule.over(
            config, options, conversation, owns=isinstance(store, str)
        )

    @property
    def awaiting(self) -> AsyncMemoryModule:
        """The asynchronous form of this object; its coroutines never suspend."""
        return self._awaiting

    def attach(self, conversation: str) -> MemoryModule:
        """Return the module of a conversation that an agent runs.

        A module without a name takes that of the first conversation.
        """
        found = MemoryModule.__new__(MemoryModule)
        found._awaiting = drive(self._awaiting.attach(conversation))  # noqa: SLF001 (its own)
        return found

    @property
    def conversation(self) -> str:
        """Id of the conversation whose workspace (shared text, files, state) this object remembers."""
        return self._awaiting.conversation

    @property
    def memory_store(self) -> ContextMemoryStore:
        """The store of the conversation's contexts and summaries; raises `InvalidOption` if an agent ran several."""
        return ContextMemoryStore(self._awaiting.memory_store)

    def within(self, conversation: str) -> MemoryModule:
        """Return the module of another conversation; conversations share no contexts and no summaries."""
        found = MemoryModule.__new__(MemoryModule)
        found._awaiting = self._awaiting.within(conversation)  # noqa: SLF001 (its own)
        return found

    def perform_thinking_phase(
        self, workspace_context: str | Snapshot, *, turn: int = 0, client_id: str = ""
    ) -> ThinkingResult:
        """Store the full context of a turn, let the model think about it, store its summary; return all summaries.

        `turn` is by default the one after the newest. The stored result is returned if the turn was processed before,
        or if the newest turn has the same `client_id`. A model that fails, hangs or returns garbage is reported in
        `problems`, never in a summary. The context is linked to the context before it and to the contexts recalled
        since then.
        """
        return drive(
            self._awaiting.perform_thinking_phase(workspace_context, turn=turn, client_id=client_id)
        )

    def recall_context(
        self, request: RecallRequest | Mapping[str, object], *, tokens: int | None = None
    ) -> RecalledContext:
        """Recall contexts: `{"turn_numbers": [2]}`, `{"keywords": ["..."]}`, `{"context_ids": ["ctx_2_..."]}`.

        With `path` only that file is returned, with `lines` (first and last) only those lines. The result has at most
        `tokens`. The prompt of the next thinking phase shows it, and `notes` has it until the phase after that.
        """
        return drive(self._awaiting.recall_context(request, tokens=tokens))

    def look_up(
        self, request: RecallRequest | Mapping[str, object], *, tokens: int | None = None
    ) -> RecalledContext:
        """Recall contexts without adding the result to `notes`, for callers who put it into a prompt themselves."""
        return drive(self._awaiting.look_up(request, tokens=tokens))

    def answer_recall(self, request: RecallRequest | Mapping[str, object]) -> str:
        """Recall contexts for a model's tool call; return fenced text (marked as data) in at most `recall_tokens`."""
        return drive(self._awaiting.answer_recall(request))

    @property
    def recall_tokens(self) -> int:
        """Most tokens that a recall returns if the caller sets no limit."""
        return self._awaiting.recall_tokens

    def notes(self, *, budget: Budget | None = None) -> dict[str, str]:
        """Return the notes for `session.context(notes=...)`: the summaries of all turns, and the recalled context.

        `budget` is the budget of the model call; if its shares are smaller than the module's, the notes are shorter.
        """
        return drive(self._awaiting.notes(budget=budget))

    def search(self, keyword: str, *, limit: int = 10) -> list[ContextHit]:
        """Find the stored contexts of turns by keyword, best first."""
        return drive(self._awaiting.search(keyword, limit=limit))

    def export(self) -> dict[str, object]:
        """Export all contexts and summaries as JSON values, for `import_`."""
        return drive(self._awaiting.export())

    def import_(self, exported: Mapping[str, object]) -> ImportedContexts:
        """Import the export of another module (see `ContextMemoryStore.import_`); later turns get higher numbers."""
        return drive(self._awaiting.import_(exported))

    def recall_tool(self, provider: str = "openai") -> dict[str, object]:
        """Return the schema of the tool `recall_context` for `openai` (Chat), `openai_responses` or `anthropic`."""
        return self._awaiting.recall_tool(provider)

    def close(self) -> None:
        """Close the store if this module opened it. Closing twice is allowed."""
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
