"""LlamaIndex: `Memory` on a SQLite file, which archives what is over its token limit whenever a message is put.

It is set up as its documentation shows, with an exact tokenizer and the whole limit for the chat history. What it gives
may begin inside a turn, so a user who needs valid pairs drops what comes before the first user's message; the system
message is the agent's and stands before it. `ChatMemoryBuffer`, which it replaces, is measured too: it joins all texts
and tokenizes them anew for every message it drops, so that no memo helps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, CompletionResponse, LLMMetadata
from llama_index.core.llms.custom import CustomLLM
from llama_index.core.memory import ChatMemoryBuffer, ChatSummaryMemoryBuffer, Memory
from llama_index.core.storage.chat_store.sql import MessageStatus, SQLAlchemyChatStore
from llama_index.core.utils import get_tokenizer
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from bench.appenders import TaskAppender
from bench.contender import (
    Appended,
    Ask,
    Call,
    Contender,
    Counted,
    Item,
    Reopened,
    Settings,
    Stored,
    Summarised,
    Turn,
)
from bench.judge import PER_ANSWER, item_tokens
from bench.raw_tiktoken import encoder

__all__ = ("APPENDED", "CONTENDERS", "COUNTED", "REOPENED", "STORED", "SUMMARISED")

NEEDS = ("llama-index-core==0.14.25", "aiosqlite==0.22.1")

_BUDGET = 8_000
_SUMMARY_TOKENS = 256
"""Left for a summary."""
_MARGIN = 0.85
"""Of the limit, where room is left for what it does not count: framing and tool calls."""
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
    while first and tokens + item_tokens(talk[first - 1]) <= _BUDGET * _SEEDED_SHARE:
        first -= 1
        tokens += item_tokens(talk[first])

    async def write() -> None:
        store = _memory(path, _BUDGET).sql_store
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
        _MARGIN,
        "the same with a margin for what it does not count: framing and tool calls",
    ),
)


def _reopen(path: Path) -> tuple[int, Callable[[], object]]:
    loop = asyncio.new_event_loop()
    found = loop.run_until_complete(_memory(path, _BUDGET).aget())
    return len(found), loop.close


REOPENED = (
    Reopened(
        name="LlamaIndex Memory",
        package="llama-index-core",
        seed=_seed,
        reopen=_reopen,
        note="opened, aget(); seeded with all but the newest messages archived",
    ),
)


class _Buffer:
    """`ChatMemoryBuffer` in the process; the system message is counted first, as its engines do."""

    def __init__(self, messages: Sequence[ChatMessage], budget: int) -> None:
        self._system: list[ChatMessage] = []
        self._room = budget - PER_ANSWER
        self._buffer = self._made()
        for message in messages:
            self.add(message)

    def add(self, message: ChatMessage) -> None:
        if message.role == "system" and not self._system:
            self._system = [message]
            self._room -= item_tokens(_as_item(message))
            self._buffer = self._made()
        else:
            self._buffer.put(message)

    def window(self) -> Sequence[ChatMessage]:
        return [*self._system, *self._buffer.get()]

    def _made(self) -> ChatMemoryBuffer:
        return ChatMemoryBuffer.from_defaults(
            token_limit=int(self._room * _MARGIN), tokenizer_fn=encoder()
        )


CONTENDERS = (
    Contender(
        name="LlamaIndex ChatMemoryBuffer, 85 % of the limit",
        package="llama-index-core",
        convert=lambda items: [_as_llama(item) for item in items],
        open=_Buffer,
        read=lambda messages: [_as_item(message) for message in messages],
        growth=2.0,
    ),
)


class _Appender(TaskAppender):
    """Tasks of one loop; a `Memory` per conversation, all of them on one store whose table is made beforehand."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        self._store = SQLAlchemyChatStore("llama_index_memory", async_engine=self._engine)
        self._memories: dict[str, Memory] = {}
        self.run(self._store.get_messages("talk"))

    async def write(self, turn: Turn) -> None:
        if turn.talk not in self._memories:
            self._memories[turn.talk] = Memory.from_defaults(
                session_id=turn.talk,
                token_limit=_BUDGET,
                token_flush_size=_BUDGET // 10,
                chat_history_token_ratio=1.0,
                tokenizer_fn=_encode,
                chat_store=self._store,
            )
        memory = self._memories[turn.talk]
        await memory.aput_messages([_as_llama(item) for item in turn.items])

    def texts(self, talk: str) -> list[str]:
        found = self.run(self._store.get_messages(talk, status=None))
        return [str(message.content) for message in found]

    def settings(self) -> Settings:
        async def ask() -> Settings:
            async with self._engine.connect() as connection:
                journal = (await connection.execute(text("PRAGMA journal_mode"))).scalar_one()
                synchronous = (await connection.execute(text("PRAGMA synchronous"))).scalar_one()
                return Settings(journal, synchronous)

        return self.run(ask())

    def close(self) -> None:
        self.run(self._engine.dispose())
        super().close()


APPENDED = (
    Appended(
        name="LlamaIndex Memory",
        package="llama-index-core",
        open=_Appender,
        note=(
            "aput_messages() of a turn, which also archives what is over the limit of 8,000 tokens; a message has no "
            "name, so that a repetition cannot be known"
        ),
    ),
)


class _Model(CustomLLM):
    """A model that hands its prompt to the model of the benchmark."""

    answer: Callable[[str], str]

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_chat_model=True)

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:  # noqa: ANN401, ARG002, FBT001, FBT002 (the signature of the base class)
        return CompletionResponse(text=self.answer(prompt))

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:  # noqa: ANN401, FBT001, FBT002
        raise NotImplementedError("nothing here is streamed")


class _SummaryBuffer:
    """`ChatSummaryMemoryBuffer`, with a margin for what it does not count: framing and tool calls."""

    def __init__(self, budget: int, ask: Ask) -> None:
        self._budget = budget
        self._model = _Model(answer=ask)
        self._system: list[ChatMessage] = []
        self._buffer: ChatSummaryMemoryBuffer | None = None

    def add(self, message: ChatMessage) -> None:
        if self._buffer is None:
            self._system = [message]
            room = self._budget - item_tokens(_as_item(message)) - PER_ANSWER - _SUMMARY_TOKENS
            self._buffer = ChatSummaryMemoryBuffer.from_defaults(
                llm=self._model, token_limit=int(room * 0.85), tokenizer_fn=_encode
            )
        else:
            self._buffer.put(message)

    def window(self) -> Sequence[ChatMessage]:
        assert self._buffer is not None
        return [*self._system, *self._buffer.get()]


SUMMARISED = (
    Summarised(
        name="LlamaIndex ChatSummaryMemoryBuffer",
        package="llama-index-core",
        convert=lambda items: [_as_llama(item) for item in items],
        open=_SummaryBuffer,
        read=lambda messages: [_as_item(message) for message in messages],
        note="an exact tokenizer; token_limit at 85 % of what the system message and a summary of 256 tokens leave",
    ),
)

COUNTED = (
    Counted(
        name="LlamaIndex get_tokenizer()",
        package="llama-index-core",
        count=lambda text: len(get_tokenizer()(text)),
        claims="exact",
        encoding="cl100k_base",
        note="the tokenizer it uses where none is given",
    ),
)
