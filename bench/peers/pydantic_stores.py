"""pydantic-ai-harness: the stores of its step persistence that write SQLite files, with its messages.

`SqliteConversationStore` keeps a conversation as one value with a revision: every save writes all of it, and a save on
an older revision is refused. `SqliteStepStore` keeps each message once and, for every snapshot, a row for each of its
messages. pydantic-ai's own `ConversationStore` comes with a store in memory only, so there is nothing of it to measure.
Neither store has a token budget; the window is the harness's sliding one over what was read.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic_ai.messages import ModelMessage
from pydantic_ai_harness.step_persistence import ContinuableSnapshot, SqliteStepStore
from pydantic_ai_harness.step_persistence.conversations import (
    ConversationConflict,
    ConversationSummary,
    SqliteConversationStore,
)

from bench.appenders import TaskAppender
from bench.contender import Appended, Item, Reopened, Settings, Stored, Turn
from bench.peers.pydantic_harness import CONTENDERS

__all__ = ("APPENDED", "REOPENED", "STORED")

NEEDS = ("pydantic-ai-harness==0.62.0", "pydantic-ai-slim==2.62.0")

_SLIDING = next(each for each in CONTENDERS if each.name.endswith("exact with a user's memo"))
_PLACE = "bench"


def _seed(path: Path, items: Sequence[Item]) -> None:
    store = SqliteConversationStore(database=path)
    summary = ConversationSummary(id="talk", workspace=_PLACE)
    asyncio.run(store.save(summary=summary, messages=_SLIDING.convert(items)))


def _reopen(path: Path) -> tuple[int, Callable[[], object]]:
    store = SqliteConversationStore(database=path)
    found = asyncio.run(store.get(conversation_id="talk"))
    return len(found.messages), lambda: None


REOPENED = (
    Reopened(
        name="pydantic-ai-harness SqliteConversationStore",
        package="pydantic-ai-harness",
        seed=_seed,
        reopen=_reopen,
        note="get(), which reads all messages; seeded with one save()",
    ),
)


class _Session:
    """Saved with every message, as a terminal session does after every turn; the history is read for every window."""

    def __init__(self, path: Path, budget: int) -> None:
        self._store = SqliteConversationStore(database=path)
        self._loop = asyncio.new_event_loop()
        self._sliding: Any = _SLIDING.open([], budget)

    def add(self, item: Item) -> None:
        self._run(self._add(item))

    def window(self) -> Sequence[ModelMessage]:
        found = self._run(self._store.get(conversation_id="talk"))
        self._sliding.messages = found.messages
        return self._sliding.window()

    def close(self) -> None:
        self._loop.close()

    async def _add(self, item: Item) -> None:
        found = await self._store.get(conversation_id="talk")
        messages = [*found.messages, *_SLIDING.convert([item])]
        await self._store.save(summary=found.summary, messages=messages)

    def _run(self, work: Any) -> Any:  # noqa: ANN401 (what the store's coroutine gives)
        return self._loop.run_until_complete(work)


STORED = (
    Stored(
        name="pydantic-ai-harness SqliteConversationStore + sliding, exact with a user's memo",
        package="pydantic-ai-harness",
        seed=_seed,
        open=_Session,
        read=_SLIDING.read,
        note="get() and save() of all messages for one more; get() and the sliding window for a call",
        largest=15_000,
    ),
)


class _Saved(TaskAppender):
    """Whole conversations, held by the program and saved with every turn; a user's lock per conversation."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._store = SqliteConversationStore(database=path)
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._held: dict[str, tuple[ConversationSummary, list[ModelMessage]]] = {}
        self._newest: dict[str, tuple[str, ConversationSummary]] = {}

    async def write(self, turn: Turn) -> None:
        async with self._locks[turn.talk]:
            if turn.talk not in self._held:
                self._held[turn.talk] = await self._loaded(turn.talk)
            summary, messages = self._held[turn.talk]
            name, before = self._newest.get(turn.talk, ("", summary))
            if name == turn.name:
                await self._again(turn.talk, before, messages)
                return
            messages.extend(_SLIDING.convert(turn.items))
            saved = await self._store.save(summary=summary, messages=messages)
            self._held[turn.talk] = (saved, messages)
            self._newest[turn.talk] = (turn.name, summary)

    async def _again(
        self, talk: str, summary: ConversationSummary, messages: list[ModelMessage]
    ) -> None:
        """The same save, as after an answer that was lost: it is refused, and the program reads what is there."""
        try:
            await self._store.save(summary=summary, messages=messages)
        except ConversationConflict:
            self._held[talk] = await self._loaded(talk)

    def texts(self, talk: str) -> list[str]:
        _, messages = self.run(self._loaded(talk))
        return [item.text for item in _SLIDING.read(messages)]

    def settings(self) -> Settings:
        with self._store._connection() as connection:  # noqa: SLF001 (its own settings)
            return _settings(connection)

    async def _loaded(self, talk: str) -> tuple[ConversationSummary, list[ModelMessage]]:
        try:
            found = await self._store.get(conversation_id=talk)
        except LookupError:
            return ConversationSummary(id=talk, workspace=_PLACE), []
        return found.summary, found.messages


class _Steps(TaskAppender):
    """A snapshot of the conversation with every turn, named by the turn; only the newest is kept."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._store = SqliteStepStore(database=path, max_snapshots_per_run=1)
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._held: dict[str, list[ModelMessage]] = {}
        self._newest: dict[str, str] = {}

    async def write(self, turn: Turn) -> None:
        async with self._locks[turn.talk]:
            if turn.talk not in self._held:
                self._held[turn.talk] = await self._loaded(turn.talk)
            messages = self._held[turn.talk]
            if self._newest.get(turn.talk) != turn.name:
                messages.extend(_SLIDING.convert(turn.items))
            self._newest[turn.talk] = turn.name
            snapshot = ContinuableSnapshot(
                run_id=turn.talk,
                step_index=len(messages),
                messages=messages,
                timestamp=datetime.now(UTC),
                idempotency_key=turn.name,
            )
            await self._store.save_snapshot(snapshot)

    def texts(self, talk: str) -> list[str]:
        return [item.text for item in _SLIDING.read(self.run(self._loaded(talk)))]

    def settings(self) -> Settings:
        connection = self._store._open()  # noqa: SLF001 (its own settings)
        try:
            return _settings(connection)
        finally:
            connection.close()

    async def _loaded(self, talk: str) -> list[ModelMessage]:
        found = await self._store.latest_snapshot(run_id=talk)
        return found.messages if found else []


def _settings(connection: Any) -> Settings:  # noqa: ANN401 (a sqlite3.Connection)
    [journal] = connection.execute("PRAGMA journal_mode").fetchone()
    [synchronous] = connection.execute("PRAGMA synchronous").fetchone()
    return Settings(journal, synchronous)


APPENDED = (
    Appended(
        name="pydantic-ai-harness SqliteConversationStore",
        package="pydantic-ai-harness",
        open=_Saved,
        note=(
            "save() of the whole conversation with every turn, as it is meant to be used; a user's lock per "
            "conversation. A save that is repeated is refused, because its revision is behind"
        ),
        largest=1_500,
    ),
    Appended(
        name="pydantic-ai-harness SqliteStepStore",
        package="pydantic-ai-harness",
        open=_Steps,
        note=(
            "save_snapshot() with every turn under its name, the newest kept (max_snapshots_per_run=1); each message "
            "is stored once, a reference to each with every snapshot. A user's lock per conversation"
        ),
        largest=1_500,
    ),
)
