"""Document 002's MemoryModule: an optional second layer beside the conversation.

The conversation says what was said. This keeps what the agent was looking at: the full workspace context of each turn,
thought over and summarised, the summaries of all turns in a text that stays within its share, and any context brought
back whole when it is asked for. Without it nothing else changes.

`store` is an address or an open store; without one everything is kept in the process. What is kept lies beside the log
of `conversation` and is erased with it. A module without a `model` picks its summaries from the workspace.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from turnfold.budget import Budget
from turnfold.errors import InvalidOption
from turnfold.memory.front_door import make_setting
from turnfold.memory.setting import Setting
from turnfold.memory.snapshots.recalling import RecalledContext
from turnfold.memory.waiting import AwaitingWay
from turnfold.memory.workspace.accumulating import FEWEST_SUMMARY_TOKENS
from turnfold.memory.workspace.context_memory_store import AsyncContextMemoryStore
from turnfold.memory.workspace.phase import Phase
from turnfold.memory.workspace.recall_schema import FENCE_TOKENS, recall_result, recall_tool
from turnfold.memory.workspace.thinking import Thinker
from turnfold.memory.workspace.values import ContextHit, ImportedContexts, ThinkingResult
from turnfold.models import ChatModel
from turnfold.recall.snapshots import FEWEST_TOKENS, RecallRequest, as_request
from turnfold.records.snapshots import Snapshot
from turnfold.stores.memory_store import MemoryStore
from turnfold.stores.protocol import Scope, Store
from turnfold.tokens import TokenCounter

__all__ = ("RECALLED", "SUMMARIES", "AsyncMemoryModule", "ThinkingOptions", "kept_in")

SUMMARIES: Final = "memory_summaries"
"""The note that holds the summaries of all turns."""
RECALLED: Final = "recalled_context"
"""The note that holds what was recalled since the last thinking phase."""
_HANDLES: Final = 256
"""Conversations whose summaries are kept at hand."""
_SUMMARY_TOKENS: Final = 300
_READ_PART: Final = 2
"""One in so many tokens of a thinking prompt is the workspace itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingOptions:
    """How a module thinks."""

    model: ChatModel | None = None
    enable_reflective_thinking: bool = True
    max_thinking_rounds: int = 5
    recall_tokens: int = 0
    """What a recall may show; 0 for the tail's share of the budget."""
    model_seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.max_thinking_rounds < 1 or self.model_seconds <= 0:
            raise InvalidOption(
                f"max_thinking_rounds={self.max_thinking_rounds} must be at least 1 and "
                f"model_seconds={self.model_seconds:g} above 0; enable_reflective_thinking=False asks for no rounds"
            )
        if self.recall_tokens and self.recall_tokens < FEWEST_TOKENS:
            raise InvalidOption(
                f"recall_tokens={self.recall_tokens} shows nothing; give at least {FEWEST_TOKENS}, or 0"
            )


def kept_in(store: str | Store | None) -> str | Store:
    """Where a module keeps what it is given: in the process, unless a store is named."""
    return MemoryStore() if store is None else store


class AsyncMemoryModule:
    """Remembers the workspace of an agent, for programs with an event loop."""

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
            AwaitingWay(),
            blocking=False,
            scope=scope,
            budget=budget,
            counter=counter,
            clock=clock,
        )
        self._take(setting, options, conversation, owns=isinstance(store, str))

    @classmethod
    def over(
        cls, setting: Setting, options: ThinkingOptions, conversation: str, *, owns: bool
    ) -> AsyncMemoryModule:
        """A module over a setting that is made; `owns` says whether closing it closes the store."""
        module = cls.__new__(cls)
        module._take(setting, options, conversation, owns=owns)  # noqa: SLF001 (its own)
        return module

    def _take(
        self, setting: Setting, options: ThinkingOptions, conversation: str, *, owns: bool
    ) -> None:
        self._setting, self._options, self._conversation = setting, options, conversation
        self._owns = owns
        self._root = self
        self._handles: OrderedDict[str, AsyncMemoryModule] = OrderedDict({conversation: self})
        self._pending: tuple[RecallRequest, RecalledContext] | None = None
        self._store = AsyncContextMemoryStore(
            setting.store,
            setting.scope,
            conversation,
            count=setting.counter.count_text,
            clock=setting.clock,
            way=setting.way,
        )
        self._phase = self._made_phase()

    def _made_phase(self) -> Phase:
        setting, options = self._setting, self._options
        budget, count = setting.budget, setting.counter.count_text
        share = budget.share("summary")
        if share < FEWEST_SUMMARY_TOKENS:
            raise InvalidOption(
                f"the summaries' share of the budget is {share} of {budget.tokens:,} tokens; they need "
                f"{FEWEST_SUMMARY_TOKENS}: give a larger budget, or a larger share"
            )
        thinker = None
        if options.model is not None:
            thinker = Thinker(
                options.model, setting.way, count, budget.tokens, options.model_seconds
            )
        return Phase(
            store=self._store,
            thinker=thinker,
            rounds=options.max_thinking_rounds if options.enable_reflective_thinking else 0,
            reads=budget.tokens // _READ_PART,
            summary_tokens=min(_SUMMARY_TOKENS, share // 2),
            share=share,
            count=count,
            clock=setting.clock,
        )

    @property
    def conversation(self) -> str:
        """The conversation it belongs to."""
        return self._conversation

    @property
    def memory_store(self) -> AsyncContextMemoryStore:
        """The contexts and summaries themselves."""
        return self._store

    def within(self, conversation: str) -> AsyncMemoryModule:
        """The same module for another conversation: nothing of one is shown in another."""
        handles = self._root._handles  # noqa: SLF001 (its own)
        known = handles.get(conversation)
        if known is None:
            known = AsyncMemoryModule.over(self._setting, self._options, conversation, owns=False)
            known._root = self._root  # noqa: SLF001 (its own)
            handles[conversation] = known
            while len(handles) > _HANDLES:
                handles.popitem(last=False)
        handles.move_to_end(conversation)
        return known

    async def perform_thinking_phase(
        self, workspace_context: str | Snapshot, *, turn: int = 0
    ) -> ThinkingResult:
        """Keep the full context of a turn, think it through, keep its summary, and give the summaries of all turns.

        Without `turn` it is the one after the newest. A turn that was thought through before is not again: what was
        kept then is given. A model that fails, hangs or answers rubbish is told in `problems`, never in a summary.
        """
        pending, self._pending = self._pending, None
        return await self._phase.perform(
            workspace_context, turn=turn, pending=pending[1] if pending else None
        )

    async def recall_context(
        self, request: RecallRequest | Mapping[str, object], *, tokens: int | None = None
    ) -> RecalledContext:
        """Bring contexts back: `{"turn_numbers": [2]}`, `{"keywords": ["..."]}`, `{"context_ids": ["ctx_2_..."]}`.

        With `path` only that file of them, with `lines` (first and last) only those lines. What is given costs at most
        `tokens`, and stays among the `notes` of the next calls until the next thinking phase, which is shown it too.
        """
        asked = as_request(request)
        recalled = await self.look_up(asked, tokens=tokens)
        self._pending = asked, recalled
        return recalled

    async def look_up(
        self, request: RecallRequest | Mapping[str, object], *, tokens: int | None = None
    ) -> RecalledContext:
        """The same for who shows the answer himself: it is not noted."""
        return await self._store.recall(request, tokens=tokens or self.recall_tokens)

    async def answer_recall(self, request: RecallRequest | Mapping[str, object]) -> str:
        """The same as the result of a tool call: fenced as data, within `recall_tokens`, not noted."""
        room = max(self.recall_tokens - FENCE_TOKENS, FEWEST_TOKENS)
        return recall_result(await self.look_up(request, tokens=room))

    @property
    def recall_tokens(self) -> int:
        """What a recall may show where it does not say otherwise."""
        return self._options.recall_tokens or max(self._setting.budget.share("tail"), FEWEST_TOKENS)

    async def notes(self, *, budget: Budget | None = None) -> dict[str, str]:
        """What the next call should be shown, for `session.context(notes=...)`: the summaries, and what was recalled.

        `budget` is that call's: where its shares are smaller, less is shown.
        """
        share = self._setting.budget.share("summary")
        if budget is not None:
            share = min(share, budget.share("summary"))
        notes: dict[str, str] = {}
        if share >= FEWEST_SUMMARY_TOKENS:
            notes[SUMMARIES] = await self._store.accumulated_summaries(tokens=share)
        if self._pending is not None:
            asked, recalled = self._pending
            tail = budget.share("tail") if budget is not None else recalled.tokens
            if recalled.tokens > max(tail, FEWEST_TOKENS):
                recalled = await self.look_up(asked, tokens=max(tail, FEWEST_TOKENS))
            notes[RECALLED] = recalled.text
        return {name: text for name, text in notes.items() if text}

    async def search(self, keyword: str, *, limit: int = 10) -> list[ContextHit]:
        """The contexts a keyword finds, best first."""
        return await self._store.search(keyword, limit=limit)

    async def export(self) -> dict[str, object]:
        """Everything that is kept, as values JSON can carry."""
        return await self._store.export()

    async def import_(self, exported: Mapping[str, object]) -> ImportedContexts:
        """Take over what another module exported; see `ContextMemoryStore.import_`."""
        return await self._store.import_(exported)

    def recall_tool(self, provider: str = "openai") -> dict[str, object]:
        """`recall_context` as a tool: for `openai` (Chat), `openai_responses` or `anthropic`."""
        return recall_tool(provider)

    async def close(self) -> None:
        """Let go of the store, if this module opened it. Closing twice is allowed."""
        if self._root is not self:
            return  # the store and the way of waiting are the root's to close
        await self._setting.way.finish(cancel=True)
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
