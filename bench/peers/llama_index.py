"""LlamaIndex: `Memory` on a SQLite file, which archives what is over its token limit whenever a message is put.

It is set up as its documentation shows, with an exact tokenizer and the whole limit for the chat history. What it gives
may begin inside a turn, so a user who needs valid pairs drops what comes before the first user's message; the system
message is the agent's and stands before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store.sql import MessageStatus

from bench.contender import Call, Item, Stored
from bench.judge import PER_ANSWER, item_tokens
from bench.raw_tiktoken import encoder

__all__ = ("STORED",)

NEEDS = ("llama-index-core==0.14.25", "aiosqlite==0.22.1")

_SEEDED_SHARE = 0.9
"""Of the limit that the active messages take after seeding."""


def _as_llama(item: Item) -> ChatMessage:
    extra: dict[str, Any] = {}
    if item.calls:
        extra["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in item.calls
        ]
    if item.answers:
        extra["tool_call_id"] = item.answers
    return ChatMessage(role=item.role, content=item.text, additional_kwargs=extra)


def _as_item(message: ChatMessage) -> Item:
    extra = message.additional_kwargs
    calls = tuple(
        Call(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in extra.get("tool_calls", ())
    )
    role = str(message.role.value)
    return Item(role, str(message.content or ""), calls, extra.get("tool_call_id", ""))


@lru_cache(maxsize=20_000)
def _encode(text: str) -> list[int]:
    return encoder()(text)


def _memory(path: Path, budget: int) -> Memory:
    return Memory.from_defaults(
        session_id="talk",
        token_limit=budget,
        token_flush_size=budget // 10,
        chat_history_token_ratio=1.0,
        tokenizer_fn=_encode,
        async_database_uri=f"sqlite+aiosqlite:///{path}",
    )


def _seed(path: Path, items: Sequence[Item]) -> None:
    """Put straight into its table: putting them one by one would take hours."""
    system = path.with_suffix(".system")
    system.write_text(items[0].text, encoding="utf-8")
    talk = items[1:]
    first, tokens = len(talk), 0
    while first and tokens + item_tokens(talk[first - 1]) <= 8_000 * _SEEDED_SHARE:
        first -= 1
        tokens += item_tokens(talk[first])

    async def write() -> None:
        store = _memory(path, 8_000).sql_store
        for start in range(0, first, 5_000):
            batch = [_as_llama(item) for item in talk[start : min(start + 5_000, first)]]
            await store.add_messages("talk", batch, status=MessageStatus.ARCHIVED)
        await store.add_messages("talk", [_as_llama(item) for item in talk[first:]])

    asyncio.run(write())


class _Session:
    def __init__(self, path: Path, budget: int, share: float) -> None:
        system = Item("system", path.with_suffix(".system").read_text(encoding="utf-8"))
        self._system = _as_llama(system)
        self._loop = asyncio.new_event_loop()
        room = budget - item_tokens(system) - PER_ANSWER
        self._memory = _memory(path, int(room * share))

    def add(self, item: Item) -> None:
        self._loop.run_until_complete(self._memory.aput(_as_llama(item)))

    def window(self) -> Sequence[ChatMessage]:
        found = self._loop.run_until_complete(self._memory.aget())
        first = next((at for at, each in enumerate(found) if each.role == "user"), len(found))
        return [self._system, *found[first:]]

    def close(self) -> None:
        self._loop.close()


def _stored(name: str, share: float, note: str) -> Stored:
    return Stored(
        name=f"LlamaIndex Memory{name}",
        package="llama-index-core",
        seed=_seed,
        open=lambda path, budget: _Session(path, budget, share),
        read=lambda messages: [_as_item(message) for message in messages],
        note=note,
        largest=100_000,
    )


STORED = (
    _stored("", 1.0, "aput and aget; seeded with all but the newest messages archived"),
    _stored(
        ", 85 % of the limit",
        0.85,
        "the same with a margin for what it does not count: framing and tool calls",
    ),
)
