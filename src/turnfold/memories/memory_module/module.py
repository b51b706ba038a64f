"""Remembers an agent's workspace (shared text, files, state), next to the conversation (`MemoryModule`).

It is the memory of design document 002, and optional.

It stores the full workspace context of each turn with its summary, renders the summaries of all turns as a text of
bounded size, and recalls any context whole. A conversation works without it.

`store` is an address or an open store; without one everything is kept in the process. The data is stored next to the
log of `conversation` and erased with it. Without a `model` the summaries are extracts of the workspace.

A module that was made without a `conversation` takes the name of the first conversation that an agent runs with it, and
contexts imported before belong to that conversation. If the agent runs several conversations, each has contexts of its
own, and `within(conversation)` returns the module of one of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

from turnfold.budget import Budget
from turnfold.errors import InvalidOption
from turnfold.memories.memory_module.context_store import (
    MIN_SUMMARY_TOKENS,
    AsyncContextMemoryStore,
)
from turnfold.memories.memory_module.thinker import Phase, Thinker
from turnfold.memories.memory_module.values import (
    FENCE_TOKENS,
    ContextHit,
    ImportedContexts,
    ThinkingResult,
    fence_recalled,
    recall_tool,
)
from turnfold.memories.rules_text import rules_text
from turnfold.memory import AsyncSession, MemoryConfig, make_config
from turnfold.models import SummaryModel, as_chat_model
from turnfold.records import Snapshot
from turnfold.runtime import AsyncRuntime
from turnfold.stores import MemoryStore, Scope, Store
from turnfold.tokens import TokenCounter
from turnfold.workspace_snapshots import MIN_TOKENS, RecalledContext, RecallRequest, parse_request

__all__ = (
    "AsyncMemoryModule",
    "ThinkingOptions",
    "store_or_memory",
)


_Naming: TypeAlias = Literal["given", "open", "run", "several"]
"""What gave a module its conversation id: the constructor, nothing yet, one run of an agent, or several runs."""
_UNNAMED: Final = "memory"
"""Id of the module's conversation while none is given."""
_SUMMARIES: Final = "memory_summaries"
"""Name of the prompt note (text for one call) with the summaries of all turns."""
_RECALLED: Final = "recalled_context"
"""Name of the prompt note (text for one call) with the context that was recalled last."""
_MAX_HANDLES: Final = 256
"""Most conversations for which `within` keeps a module object; the least recently used object is dropped."""
_SUMMARY_TOKENS: Final = 300
_READ_SHARE: Final = 2
"""Divisor: 1/2 of the tokens of a thinking prompt are for the workspace (shared text and files)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingOptions:
    """Options of a thinking phase: a model comments on a workspace (shared text and files), then summarises it."""

    model: SummaryModel | None = None
    enable_reflective_thinking: bool = True
    max_thinking_rounds: int = 5
    recall_tokens: int = 0
    """Most tokens of one recall; 0 for the tokens that a context gives its tail (text before the newest turn)."""
    model_seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.max_thinking_rounds < 1:
            raise InvalidOption(
                f"max_thinking_rounds={self.max_thinking_rounds} must be at least 1; to turn the rounds off, set "
                "enable_reflective_thinking=False"
            )
        if self.model_seconds <= 0:
            raise InvalidOption(f"model_seconds={self.model_seconds:g} must be above 0")
        if self.recall_tokens and self.recall_tokens < MIN_TOKENS:
            raise InvalidOption(
                f"recall_tokens={self.recall_tokens} is too small; give at least {MIN_TOKENS}, or 0"
            )


def store_or_memory(store: str | Store | None) -> str | Store:
    """Return the store or address that was passed; a new store in memory for None."""
    return MemoryStore() if store is None else store


class AsyncMemoryModule:
    """Remembers an agent's workspace (shared text, files, state) turn by turn, for applications with an event loop.

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
            AsyncRuntime(),
            blocking=False,
            scope=scope,
            budget=budget,
            counter=counter,
            clock=clock,
        )
        self._setup(config, options, conversation, owns=isinstance(store, str))

    @classmethod
    def over(
        cls, config: MemoryConfig, options: ThinkingOptions, conversation: str, *, owns: bool
    ) -> AsyncMemoryModule:
        """Return a module that uses this config; with `owns`, closing the module closes the store."""
        module = cls.__new__(cls)
        module._setup(config, options, conversation, owns=owns)  # noqa: SLF001 (its own)
        return module

    def _setup(
        self, config: MemoryConfig, options: ThinkingOptions, conversation: str, *, owns: bool
    ) -> None:
        self._config, self._options = config, options
        self._owns = owns
        self._root = self
        self._naming: _Naming = "given" if conversation else "open"
        self._has_written = False
        """True if contexts were stored before a conversation was named; they are moved to the first one that runs."""
        self._attaching = config.runtime.lock()
        self._handles: OrderedDict[str, AsyncMemoryModule] = OrderedDict()
        self._pending: tuple[RecallRequest, RecalledContext] | None = None
        """Request and result of the last recall since the last thinking phase; None if there was no recall."""
        self._shown: tuple[RecallRequest, RecalledContext] | None = None
        """The recall that the last thinking phase used; `notes` shows it until the next phase or recall."""
        self._recalled: list[str] = []
        """Ids of contexts recalled by tool calls since the last thinking phase; the next context links to them."""
        self._open(conversation or _UNNAMED)

    def _open(self, conversation: str) -> None:
        config = self._config
        self._conversation = conversation
        self._handles[conversation] = self
        self._store = AsyncContextMemoryStore(
            config.store,
            config.scope,
            conversation,
            count=config.counter.count_text,
            clock=config.clock,
            runtime=config.runtime,
        )
        self._phase = self._make_phase()

    async def attach(self, conversation: str) -> AsyncMemoryModule:
        """Return the module of a conversation that an agent runs.

        A module without a name takes that of the first conversation.
        """
        async with self._attaching:
            if self._naming == "open":
                await self._move_to(conversation)
                self._naming = "run"
            elif self._conversation != conversation and self._naming == "given":
                raise InvalidOption(
                    f"this module belongs to conversation {self._conversation!r}: run that one, or make the module "
                    f"without conversation= to run {conversation!r}"
                )
            elif self._conversation != conversation and self._naming == "run":
                del self._handles[self._conversation]
                first = self.within(self._conversation)
                first._pending, first._recalled = self._pending, self._recalled  # noqa: SLF001 (its own)
                self._naming = "several"
        return self.within(conversation)

    async def _move_to(self, conversation: str) -> None:
        """Make this the module of `conversation`, and move contexts there that were stored before it had a name."""
        config, unnamed = self._config, self._conversation
        if conversation == unnamed:
            return
        there = self.within(conversation)
        if self._has_written:
            await there.import_(await self.export())
            if not (await config.store.head(config.scope, unnamed)).seq:
                await config.store.delete(config.scope, unnamed)
        del self._handles[unnamed]
        self._open(conversation)
        self._pending = self._pending or there._pending  # noqa: SLF001 (its own)

    def _make_phase(self) -> Phase:
        config, options = self._config, self._options
        budget, count = config.budget, config.counter.count_text
        share = budget.share("summary")
        if share < MIN_SUMMARY_TOKENS:
            raise InvalidOption(
                f"the summaries' share of the budget is {share} of {budget.tokens:,} tokens, but they need at least "
                f"{MIN_SUMMARY_TOKENS}: give a larger budget, or a larger share"
            )
        thinker = None
        if options.model is not None:
            model = as_chat_model(options.model, option="model")
            thinker = Thinker(model, config.runtime, count, budget.tokens, options.model_seconds)
        return Phase(
            store=self._store,
            thinker=thinker,
            rounds=options.max_thinking_rounds if options.enable_reflective_thinking else 0,
            reads=budget.tokens // _READ_SHARE,
            summary_tokens=min(_SUMMARY_TOKENS, share // 2),
            share=share,
            count=count,
            clock=config.clock,
            rules=self._rules,
        )

    async def _rules(self) -> str:
        config = self._config
        head = await config.store.head(config.scope, self._conversation)
        if not head.seq:
            return ""  # the log is in another store, or there is none
        session = AsyncSession(self._conversation, config)
        return await rules_text(
            session,
            upto=head.seq,
            window=config.budget.tokens,
            count=config.counter.count_text,
        )

    @property
    def conversation(self) -> str:
        """Id of the conversation whose workspace (shared text, files, state) this object remembers."""
        return self._conversation

    @property
    def memory_store(self) -> AsyncContextMemoryStore:
        """The store of the conversation's contexts and summaries; raises `InvalidOption` if an agent ran several."""
        if self._naming == "several":
            raise InvalidOption(
                "this module holds several conversations of an agent: choose one of them with within(conversation)"
            )
        return self._store

    def within(self, conversation: str) -> AsyncMemoryModule:
        """Return the module of another conversation; conversations share no contexts and no summaries."""
        handles = self._root._handles  # noqa: SLF001 (its own)
        known = handles.get(conversation)
        if known is None:
            known = AsyncMemoryModule.over(self._config, self._options, conversation, owns=False)
            known._root = self._root  # noqa: SLF001 (its own)
            handles[conversation] = known
            while len(handles) > _MAX_HANDLES:
                handles.popitem(last=False)
        handles.move_to_end(conversation)
        return known

    async def perform_thinking_phase(
        self, workspace_context: str | Snapshot, *, turn: int = 0, client_id: str = ""
    ) -> ThinkingResult:
        """Store the full context of a turn, let the model think about it, store its summary; return all summaries.

        `turn` is by default the one after the newest. The stored result is returned if the turn was processed before,
        or if the newest turn has the same `client_id`. A model that fails, hangs or returns garbage is reported in
        `problems`, never in a summary. The context is linked to the context before it and to the contexts recalled
        since then.
        """
        pending, self._pending = self._pending, None
        self._shown = pending
        recalled, self._recalled = self._recalled, []
        self._has_written = bool(
            self.memory_store
        )  # raises if it is not clear which conversation is meant
        return await self._phase.perform(
            workspace_context,
            turn=turn,
            client_id=client_id,
            pending=pending[1] if pending else None,
            recalled=recalled,
        )

    async def recall_context(
        self, request: RecallRequest | Mapping[str, object], *, tokens: int | None = None
    ) -> RecalledContext:
        """Recall contexts: `{"turn_numbers": [2]}`, `{"keywords": ["..."]}`, `{"context_ids": ["ctx_2_..."]}`.

        With `path` only that file is returned, with `lines` (first and last) only those lines. The result has at most
        `tokens`. The prompt of the next thinking phase shows it, and `notes` has it until the phase after that.
        """
        parsed = parse_request(request)
        recalled = await self.look_up(parsed, tokens=tokens)
        self._pending = parsed, recalled
        return recalled

    async def look_up(
        self, request: RecallRequest | Mapping[str, object], *, tokens: int | None = None
    ) -> RecalledContext:
        """Recall contexts without adding the result to `notes`, for callers who put it into a prompt themselves."""
        return await self.memory_store.recall(request, tokens=tokens or self.recall_tokens)

    async def answer_recall(self, request: RecallRequest | Mapping[str, object]) -> str:
        """Recall contexts for a model's tool call; return fenced text (marked as data) in at most `recall_tokens`."""
        room = max(self.recall_tokens - FENCE_TOKENS, MIN_TOKENS)
        recalled = await self.look_up(request, tokens=room)
        self._recalled += recalled.context_ids
        return fence_recalled(recalled.text)

    @property
    def recall_tokens(self) -> int:
        """Most tokens that a recall returns if the caller sets no limit."""
        return self._options.recall_tokens or max(self._config.budget.share("tail"), MIN_TOKENS)

    async def notes(self, *, budget: Budget | None = None) -> dict[str, str]:
        """Return the notes for `session.context(notes=...)`: the summaries of all turns, and the recalled context.

        `budget` is the budget of the model call; if its shares are smaller than the module's, the notes are shorter.
        """
        share = self._config.budget.share("summary")
        if budget is not None:
            share = min(share, budget.share("summary"))
        notes: dict[str, str] = {}
        if share >= MIN_SUMMARY_TOKENS:
            notes[_SUMMARIES] = await self.memory_store.accumulated_summaries(tokens=share)
        if (pending := self._pending or self._shown) is not None:
            request, recalled = pending
            tail = budget.share("tail") if budget is not None else recalled.tokens
            if recalled.tokens > max(tail, MIN_TOKENS):
                recalled = await self.look_up(request, tokens=max(tail, MIN_TOKENS))
            notes[_RECALLED] = recalled.text
        return {name: text for name, text in notes.items() if text}

    async def search(self, keyword: str, *, limit: int = 10) -> list[ContextHit]:
        """Find the stored contexts of turns by keyword, best first."""
        return await self.memory_store.search(keyword, limit=limit)

    async def export(self) -> dict[str, object]:
        """Export all contexts and summaries as JSON values, for `import_`."""
        return await self.memory_store.export()

    async def import_(self, exported: Mapping[str, object]) -> ImportedContexts:
        """Import the export of another module (see `ContextMemoryStore.import_`); later turns get higher numbers."""
        self._has_written = True
        return await self.memory_store.import_(exported)

    def recall_tool(self, provider: str = "openai") -> dict[str, object]:
        """Return the schema of the tool `recall_context` for `openai` (Chat), `openai_responses` or `anthropic`."""
        return recall_tool(provider)

    async def close(self) -> None:
        """Close the store if this module opened it. Closing twice is allowed."""
        if self._root is not self:
            return  # only the root closes the store and the runtime
        await self._config.runtime.finish(cancel=True)
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
