"""The front door: a memory opens the store, knows the budget, and hands out sessions."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from turnfold.budget import Budget
from turnfold.errors import InvalidOption
from turnfold.memory.fold_keeper import FoldMode, FoldPolicy
from turnfold.memory.handles import Handles
from turnfold.memory.metrics.meter import Meter
from turnfold.memory.metrics.metered_store import MeteredStore, redis_listener
from turnfold.memory.searching import Found, search_memory
from turnfold.memory.session import AsyncSession
from turnfold.memory.setting import RecallMode, Setting
from turnfold.memory.waiting import AwaitingWay, Way
from turnfold.memory.writers import ExtractiveWriter, Summaries, SummaryWriter, writer_for
from turnfold.models.embedding import Embedder
from turnfold.stores.opening import open_store, with_cache
from turnfold.stores.protocol import ConversationInfo, Erasure, Health, Scope, Store
from turnfold.stores.within import ALL_ENTRIES, Within
from turnfold.tokens import (
    Calibration,
    TokenCounter,
    cautious_counter,
    context_window_for,
    counter_for,
)
from turnfold.window import Strategy, oldest_first

__all__ = ("AsyncMemory", "make_setting")

_WINDOW = 16_000
"""Context window where neither a budget nor a model is named."""


def make_setting(
    store: str | Store,
    way: Way,
    *,
    blocking: bool,
    cache: str | None = None,
    scope: Scope | str = "default",
    model: str = "",
    budget: Budget | None = None,
    counter: TokenCounter | None = None,
    summarizer: Summaries | None = None,
    checkpoint: FoldMode | str | None = None,
    threshold: float = 0.75,
    keep_turns: int = 8,
    retries: int = 3,
    backoff: float = 1.0,
    stand_in: bool = True,
    fold_lease: float = 120.0,
    recall: RecallMode | str = RecallMode.OFF,
    embedder: Embedder | None = None,
    strategy: Strategy = oldest_first,
    meter: Meter | None = None,
    clock: Callable[[], int] | None = None,
) -> Setting:
    """What the sessions of a memory share, from what its maker was given."""
    # Everything that can be refused is, before anything is opened.
    recall_mode = RecallMode.named(recall)
    writer = writer_for(summarizer)
    policy = FoldPolicy(
        mode=_mode(checkpoint, writer),
        writer=writer,
        threshold=threshold,
        keep_turns=keep_turns,
        retries=retries,
        backoff=backoff,
        stand_in=stand_in,
        lease=fold_lease,
    )
    counted = counter or (counter_for(model) if model else cautious_counter())
    kept = meter or Meter()
    if isinstance(store, str):
        durable = open_store(store, counter=counted, blocking=blocking, clock=clock)
        opened = _in_front_of(durable, cache, kept, blocking=blocking)
    elif cache is None:
        opened = MeteredStore(store, kept)
    else:
        raise InvalidOption("cache= goes with the address of a store, not with an open store")
    return Setting(
        store=opened,
        scope=Scope(scope) if isinstance(scope, str) else scope,
        budget=budget or Budget(context_window=context_window_for(model) if model else _WINDOW),
        counter=counted,
        strategy=strategy,
        recall=recall_mode,
        embedder=embedder,
        policy=policy,
        way=way,
        clock=clock or (lambda: time.time_ns() // 1000),
        meter=kept,
    )


def _in_front_of(durable: Store, cache: str | None, meter: Meter, *, blocking: bool) -> Store:
    """The store, timed where it touches the database, and the cache where it is asked."""
    timed = MeteredStore(durable, meter)
    if cache is None:
        return timed
    return with_cache(timed, cache, blocking=blocking, on_answer=redis_listener(meter))


def _mode(name: FoldMode | str | None, writer: SummaryWriter) -> FoldMode:
    if name is None:  # a model takes seconds: nobody waits for one who did not ask to
        extractive = isinstance(writer, ExtractiveWriter)
        return FoldMode.INLINE if extractive else FoldMode.BACKGROUND
    try:
        return FoldMode(name)
    except ValueError:
        known = ", ".join(repr(str(mode)) for mode in FoldMode)
        raise InvalidOption(f"checkpoint={name!r} is none of {known}") from None


class AsyncMemory:
    """Conversations in a store, for programs with an event loop."""

    def __init__(
        self,
        store: str | Store = "sqlite://",
        *,
        cache: str | None = None,
        scope: Scope | str = "default",
        model: str = "",
        budget: Budget | None = None,
        counter: TokenCounter | None = None,
        summarizer: Summaries | None = None,
        checkpoint: FoldMode | str | None = None,
        threshold: float = 0.75,
        keep_turns: int = 8,
        retries: int = 3,
        backoff: float = 1.0,
        stand_in: bool = True,
        fold_lease: float = 120.0,
        recall: RecallMode | str = RecallMode.OFF,
        embedder: Embedder | None = None,
        strategy: Strategy = oldest_first,
        meter: Meter | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._take(
            make_setting(
                store,
                AwaitingWay(),
                blocking=False,
                cache=cache,
                scope=scope,
                model=model,
                budget=budget,
                counter=counter,
                summarizer=summarizer,
                checkpoint=checkpoint,
                threshold=threshold,
                keep_turns=keep_turns,
                retries=retries,
                backoff=backoff,
                stand_in=stand_in,
                fold_lease=fold_lease,
                recall=recall,
                embedder=embedder,
                strategy=strategy,
                meter=meter,
                clock=clock,
            ),
            owns=isinstance(store, str),
        )

    @classmethod
    def over(cls, setting: Setting, *, owns: bool, handles: Handles | None = None) -> AsyncMemory:
        """A memory over a setting that is made; `owns` says whether closing it closes the store.

        `handles` is where sessions are kept, where several memories share one cache of them.
        """
        memory = cls.__new__(cls)
        memory._take(setting, owns=owns, handles=handles)  # noqa: SLF001 (its own)
        return memory

    def _take(self, setting: Setting, *, owns: bool, handles: Handles | None = None) -> None:
        self._setting = setting
        self._owns = owns
        self._handles = Handles() if handles is None else handles

    @property
    def store(self) -> Store:
        """Where it keeps everything; for what is kept beside sessions."""
        return self._setting.store

    @property
    def scope(self) -> Scope:
        """Whose data it may touch."""
        return self._setting.scope

    @property
    def meter(self) -> Meter:
        """What this memory did, in numbers."""
        return self._setting.meter

    @property
    def calibration(self) -> Calibration:
        """How far the counts are from what providers reported; see `turnfold.tokens.calibrated`."""
        return self._setting.calibrating.value

    @property
    def way(self) -> Way:
        """How this memory waits; what is built on it waits the same way."""
        return self._setting.way

    @property
    def budget(self) -> Budget:
        """What a call may spend where it does not say otherwise."""
        return self._setting.budget

    def session(self, conversation: str) -> AsyncSession:
        """The handle on a conversation, new or not."""
        return self._handles.get(conversation, self._setting)

    async def conversations(self, *, after: str = "", limit: int = 100) -> list[ConversationInfo]:
        """A page of the conversations of this scope, in id order."""
        setting = self._setting
        return await setting.store.conversations(setting.scope, after=after, limit=limit)

    async def search(
        self,
        query: str,
        *,
        conversation: str | None = None,
        within: Within = ALL_ENTRIES,
        limit: int = 20,
    ) -> list[Found]:
        """The best of what was said in this scope, or in one conversation, and whatever else `within` names."""
        return await search_memory(
            self._setting, query, conversation=conversation, within=within, limit=limit
        )

    async def delete(self, conversation: str) -> Erasure:
        """Erase a conversation and everything derived from it, for good."""
        self._handles.drop(conversation, self._setting)
        return await self._setting.store.delete(self._setting.scope, conversation)

    async def health(self) -> Health:
        """Whether the store can serve."""
        return await self._setting.store.health()

    async def drain(self) -> None:
        """Wait for the folds under way; nothing new is begun in the background after it."""
        await self._setting.way.finish()

    async def close(self, *, cancel: bool = False) -> None:
        """Wait for the folds under way, or cancel them, and let go of the store. Closing twice is allowed."""
        await self._setting.way.finish(cancel=cancel)
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
        await self.close(cancel=error is not None)
