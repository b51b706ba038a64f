"""Document 003's protocol taken at its word: a table, a Redis key with an end, and the steps between them as written.

It is here to show, by failing, that the tests of the real one can fail. Every step that reads or writes a shared thing
yields, so that a test can put another caller's step in between.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from types import coroutine
from typing import Any

__all__ = ("MARKER", "NaiveContext", "NaiveServers", "NaiveShortMemory", "Row", "step")

MARKER = "[MEMORY_CHECKPOINT]"
TTL = 30 * 60


@coroutine
def step() -> Generator[None, None, None]:
    """A place where another caller may go first."""
    yield


@dataclass
class Row:
    message_id: str
    conversation_id: str
    query: str
    answer: str
    create_time: float


@dataclass
class NaiveServers:
    """What the processes of an application share."""

    clock: Callable[[], float] = lambda: 0.0
    table: list[Row] = field(default_factory=list)
    redis: dict[str, tuple[float, str]] = field(default_factory=dict)

    async def get(self, key: str) -> dict[str, Any] | None:
        await step()
        until, text = self.redis.get(key, (0.0, ""))
        return json.loads(text) if text and self.clock() < until else None

    async def set(self, key: str, value: dict[str, Any]) -> None:
        await step()
        self.redis[key] = (self.clock() + TTL, json.dumps(value))

    async def insert(self, conversation: str, query: str, answer: str) -> Row:
        await step()
        row = Row(f"m{len(self.table) + 1}", conversation, query, answer, self.clock())
        self.table.append(row)
        return row

    async def select(self, conversation: str) -> list[Row]:
        await step()
        rows = [row for row in self.table if row.conversation_id == conversation]
        return sorted(rows, key=lambda row: row.create_time)


@dataclass
class NaiveContext:
    history: str
    full_history: str
    token_ratio: float
    should_checkpoint_summary: bool
    mode: str


class NaiveShortMemory:
    """One process of the application."""

    def __init__(self, servers: NaiveServers, *, fail_after: str = "") -> None:
        self.servers = servers
        self.fail_after = fail_after
        self.query = ""

    async def create_short_memory(self, conversation: str, user_id: str = "") -> None:
        await self.servers.set(_key(conversation), _fresh(conversation, user_id))

    async def query_memory_context(
        self, conversation: str, *, query: str = "", model_context_window: int = 16000
    ) -> NaiveContext:
        session = await self.servers.get(_key(conversation)) or _fresh(conversation, "")
        self.query = query
        rows = await self.servers.select(conversation)
        full = "\n".join(_told(row) for row in _segment(session, rows))
        ratio = len(full) / 4 / model_context_window
        return NaiveContext(full, full, ratio, ratio >= 0.75, session["message_context"]["mode"])

    async def write_turn(
        self, conversation: str, *, agent_response: str, user_query: str = ""
    ) -> None:
        session = await self.servers.get(_key(conversation)) or _fresh(conversation, "")
        await self.servers.insert(conversation, user_query or self.query, agent_response)
        if self.fail_after == "insert":
            raise ConnectionError("the reply was lost")
        session["flow_context"]["turn_count"] += 1
        await self.servers.set(_key(conversation), session)

    async def checkpoint_short_memory(
        self, conversation: str, summary: str, recent: int = 8
    ) -> None:
        session = await self.servers.get(_key(conversation)) or _fresh(conversation, "")
        rows = [row for row in await self.servers.select(conversation) if row.query != MARKER]
        content = "\n".join([f"历史摘要: {summary}", *map(_told, rows[-recent:])])
        row = await self.servers.insert(conversation, MARKER, content)
        if self.fail_after == "insert":
            raise ConnectionError("the reply was lost")
        session["message_context"] |= {"mode": "SUMMARY_N", "checkpoint_message_id": row.message_id}
        await self.servers.set(_key(conversation), session)


def _key(conversation: str) -> str:
    return f"short_term_memory:session:{conversation}"


def _fresh(conversation: str, user_id: str) -> dict[str, Any]:
    return {
        "meta": {"conversation_id": conversation, "user_id": user_id},
        "flow_context": {"turn_count": 0},
        "message_context": {"mode": "FULL_HISTORY", "checkpoint_message_id": ""},
        "global_state": {},
    }


def _segment(session: dict[str, Any], rows: list[Row]) -> list[Row]:
    """The rows of the current segment; a checkpoint row stands for what came before it."""
    name = session["message_context"]["checkpoint_message_id"]
    mark = next((row for row in rows if row.message_id == name), None)
    if mark is None:
        return rows
    return [mark, *(row for row in rows if row.create_time > mark.create_time)]


def _told(row: Row) -> str:
    return row.answer if row.query == MARKER else f"用户: {row.query}\n助手: {row.answer}"
