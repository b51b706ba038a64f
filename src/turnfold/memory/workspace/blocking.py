"""The memory module for programs without an event loop; written by tools/faces.py, do not edit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from turnfold.budget import Budget
from turnfold.memory.drive import drive
from turnfold.memory.front_door import make_setting
from turnfold.memory.snapshots.blocking import Snapshots
from turnfold.memory.snapshots.recalling import RecalledContext
from turnfold.memory.waiting import BlockingWay
from turnfold.memory.workspace.context_memory_store import AsyncContextMemoryStore
from turnfold.memory.workspace.memory_module import AsyncMemoryModule, ThinkingOptions, kept_in
from turnfold.memory.workspace.values import (
    ContextHit,
    ContextSnapshot,
    ImportedContexts,
    MemorySummary,
    ThinkingResult,
)
from turnfold.models import ChatModel
from turnfold.recall.snapshots import RecallRequest
from turnfold.records.snapshots import Snapshot
from turnfold.stores.protocol import Scope, Store
from turnfold.tokens import TokenCounter

__all__ = (
    "ContextMemoryStore",
    "MemoryModule",
)


class ContextMemoryStore:
    """The contexts and summaries of one conversation."""

    def __init__(self, awaiting: AsyncContextMemoryStore) -> None:
        self._awaiting = awaiting

    @property
    def awaiting(self) -> AsyncContextMemoryStore:
        """The same for code that awaits; its coroutines never suspend."""
        return self._awaiting

    @property
    def snapshots(self) -> Snapshots:
        """The snapshots behind the contexts: files, diffs, lines."""
        return Snapshots(self._awaiting.snapshots)

    def add_context(
        self, workspace: str | Snapshot, *, turn: int = 0, links: tuple[str, ...] = ()
    ) -> ContextSnapshot:
        """Keep the full context of a turn: the one after the newest where none is named."""
        return drive(self._awaiting.add_context(workspace, turn=turn, links=links))

    def add_summary(self, summary: MemorySummary) -> MemorySummary:
        """Keep what was made of a context; the stored one, where there is one already."""
        return drive(self._awaiting.add_summary(summary))

    def context(self, turn: int) -> ContextSnapshot | None:
        """The context of a turn, whole; None where none was kept."""
        return drive(self._awaiting.context(turn))

    def contexts(self, *, after: int = 0, limit: int = 20) -> list[ContextSnapshot]:
        """A page of contexts, whole, oldest first."""
        return drive(self._awaiting.contexts(after=after, limit=limit))

    def summary(self, turn: int) -> MemorySummary | None:
        """What was made of the context of a turn."""
        return drive(self._awaiting.summary(turn))

    def summaries(self, *, after: int = 0, limit: int = 100) -> list[MemorySummary]:
        """A page of summaries, oldest first."""
        return drive(self._awaiting.summaries(after=after, limit=limit))

    def accumulated_summaries(self, *, tokens: int) -> str:
        """A line per turn in at most `tokens`, the oldest folded where they outgrow them; empty before the first."""
        return drive(self._awaiting.accumulated_summaries(tokens=tokens))

    def search(self, keyword: str, *, limit: int = 10) -> list[ContextHit]:
        """The contexts that a keyword finds, best first: by what was new in them and what was made of them."""
        return drive(self._awaiting.search(keyword, limit=limit))

    def recall(
        self, request: RecallRequest | Mapping[str, object], *, tokens: int
    ) -> RecalledContext:
        """What was asked for by turn numbers, context ids, path and lines, or keywords, in at most `tokens`."""
        return drive(self._awaiting.recall(request, tokens=tokens))

    def export(self) -> dict[str, object]:
        """Everything, as values JSON can carry; `import_` makes the same of it anywhere."""
        return drive(self._awaiting.export())

    def import_(self, exported: Mapping[str, object]) -> ImportedContexts:
        """Take over what `export` gave, here or elsewhere. What is here and the same is left alone.

        An export with any fault is refused whole, and so is one with another context or summary of a turn that is
        here: a `Conflict`. Into a conversation that is new everything is written at once or not at all; into another
        one turn after the other, and the same import goes on where it was interrupted.
        """
        return drive(self._awaiting.import_(exported))


class MemoryModule:
    """Remembers the workspace of an agent, for programs without an event loop."""

    def __init__(
        self,
        model: ChatModel | None = None,
        store: str | Store | None = None,
        *,
        conversation: str = "memory",
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
        setting = make_setting(
            kept_in(store),
            BlockingWay(),
            blocking=True,
            scope=scope,
            budget=budget,
            counter=counter,
            clock=clock,
        )
        self._awaiting = AsyncMemoryModule.over(
            setting, options, conversation, owns=isinstance(store, str)
        )

    @property
    def awaiting(self) -> AsyncMemoryModule:
        """The same for code that awaits; its coroutines never suspend."""
        return self._awaiting

    @property
    def conversation(self) -> str:
        """The conversation it belongs to."""
        return self._awaiting.conversation

    @property
    def memory_store(self) -> ContextMemoryStore:
        """The contexts and summaries themselves."""
        return ContextMemoryStore(self._awaiting.memory_store)

    def within(self, conversation: str) -> MemoryModule:
        """The same module for another conversation: nothing of one is shown in another."""
        found = MemoryModule.__new__(MemoryModule)
        found._awaiting = self._awaiting.within(conversation)  # noqa: SLF001 (its own)
        return found

    def perform_thinking_phase(
        self, workspace_context: str | Snapshot, *, turn: int = 0
    ) -> ThinkingResult:
        """Keep the full context of a turn, think it through, keep its summary, and give the summaries of all turns.

        Without `turn` it is the one after the newest. A turn that was thought through before is not again: what was
        kept then is given. A model that fails, hangs or answers rubbish is told in `problems`, never in a summary.
        """
        return drive(self._awaiting.perform_thinking_phase(workspace_context, turn=turn))

    def recall_context(
        self, request: RecallRequest | Mapping[str, object], *, tokens: int | None = None
    ) -> RecalledContext:
        """Bring contexts back: `{"turn_numbers": [2]}`, `{"keywords": ["..."]}`, `{"context_ids": ["ctx_2_..."]}`.

        With `path` only that file of them, with `lines` (first and last) only those lines. What is given costs at most
        `tokens`, and stays among the `notes` of the next calls until the next thinking phase, which is shown it too.
        """
        return drive(self._awaiting.recall_context(request, tokens=tokens))

    def look_up(
        self, request: RecallRequest | Mapping[str, object], *, tokens: int | None = None
    ) -> RecalledContext:
        """The same for who shows the answer himself: it is not noted."""
        return drive(self._awaiting.look_up(request, tokens=tokens))

    def answer_recall(self, request: RecallRequest | Mapping[str, object]) -> str:
        """The same as the result of a tool call: fenced as data, within `recall_tokens`, not noted."""
        return drive(self._awaiting.answer_recall(request))

    @property
    def recall_tokens(self) -> int:
        """What a recall may show where it does not say otherwise."""
        return self._awaiting.recall_tokens

    def notes(self, *, budget: Budget | None = None) -> dict[str, str]:
        """What the next call should be shown, for `session.context(notes=...)`: the summaries, and what was recalled.

        `budget` is that call's: where its shares are smaller, less is shown.
        """
        return drive(self._awaiting.notes(budget=budget))

    def search(self, keyword: str, *, limit: int = 10) -> list[ContextHit]:
        """The contexts a keyword finds, best first."""
        return drive(self._awaiting.search(keyword, limit=limit))

    def export(self) -> dict[str, object]:
        """Everything that is kept, as values JSON can carry."""
        return drive(self._awaiting.export())

    def import_(self, exported: Mapping[str, object]) -> ImportedContexts:
        """Take over what another module exported; see `ContextMemoryStore.import_`."""
        return drive(self._awaiting.import_(exported))

    def recall_tool(self, provider: str = "openai") -> dict[str, object]:
        """`recall_context` as a tool: for `openai` (Chat), `openai_responses` or `anthropic`."""
        return self._awaiting.recall_tool(provider)

    def close(self) -> None:
        """Let go of the store, if this module opened it. Closing twice is allowed."""
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
