"""Token-exact memory: document 001's `TokenMemory`.

The documented constructor and methods. `get_history` fills backwards from the newest message and stops at the first
span that does not fit, so what it returns is contiguous (but for the question that a running tool loop answers, shown
before it), whole and within `max_tokens`; the newest span always survives, shortened if it must be, or the error says
why it cannot. With `storage` the history is loaded from a store and written back to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import repeat
from types import TracebackType
from typing import Self

from turnfold.budget import Budget, Shares, WaterMarks
from turnfold.errors import InvalidOption
from turnfold.memory.in_process.token_storage import StoredHistory, open_history
from turnfold.records import Message, Part, TextPart, ToolResult, as_message, as_messages
from turnfold.tokens import CountCache, DriverCounter, TokenCounter, counter_for, token_executor
from turnfold.window import Context, Receipt, Transcript, assemble

__all__ = ("TokenMemory",)

_CUT_NOTE = "\n[…]\n"
_FILL = WaterMarks(low=1.0, snap=1.0)
# Documented: the system message gives way only when it would not leave room for the conversation.
_SHARES = Shares(system=0.8, summary=0.05, tail=0.05)


class TokenMemory:
    """Counts messages for one model and trims histories to `max_tokens`."""

    def __init__(  # noqa: PLR0917 (documented signature: nine parameters, each allowed by position)
        self,
        session_id: str,
        storage: object | None = None,
        max_tokens: int = 4000,
        model_name: str = "gpt-3.5-turbo",
        cache_size: int = 2000,
        max_message_length: int = 20000,
        enable_cache_for_batch: bool = True,  # noqa: FBT001, FBT002 (documented signature)
        model_driver: object | None = None,
        enable_async_counting: bool = True,  # noqa: FBT001, FBT002 (documented signature)
    ) -> None:
        for name, value in (("max_tokens", max_tokens), ("max_message_length", max_message_length)):
            if value <= 0:
                raise InvalidOption(f"{name} must be positive, got {value}")
        self.session_id = session_id
        self.storage = storage
        self.max_tokens = max_tokens
        self.model_name = model_name
        self.cache_size = cache_size
        self.max_message_length = max_message_length
        self.enable_cache_for_batch = enable_cache_for_batch
        self.model_driver = model_driver
        self.enable_async_counting = enable_async_counting
        self._local = counter_for(model_name)
        self._cache = CountCache(cache_size)
        self._driver: DriverCounter | None = None
        if model_driver is not None and callable(getattr(model_driver, "count_tokens", None)):
            self._driver = DriverCounter(model_driver, self._local, cache_size=cache_size)
        self._last: Context | None = None
        self._stored: StoredHistory | None = None
        if storage is not None:
            self._stored = open_history(storage, session_id, self._local)

    @property
    def counter(self) -> TokenCounter:
        """What single messages are counted with: the driver where it can, the model's tokenizer otherwise."""
        return self._driver or self._local

    @property
    def receipt(self) -> Receipt | None:
        """The account of the last history handed out; None before the first."""
        return None if self._last is None else self._last.receipt

    def count_message_tokens(self, message: object) -> int:
        """Tokens of one message, framing included; by the driver if there is one."""
        return self._count(as_message(message), use_cache=True)

    def count_messages_batch(
        self,
        messages: Sequence[object],
        use_cache: bool | None = None,  # noqa: FBT001 (documented signature)
    ) -> list[int]:
        """Tokens of each message; `use_cache=None` follows `enable_cache_for_batch`."""
        cached = self.enable_cache_for_batch if use_cache is None else use_cache
        accepted = as_messages(messages)
        if self._driver is not None or not cached:
            return [self._count(message, use_cache=cached) for message in accepted]
        known = self._cache.get_many(accepted)
        return [
            self._counted_anew(message) if count is None else count
            for message, count in zip(accepted, known, strict=True)
        ]

    async def count_messages_batch_async(
        self,
        messages: Sequence[object],
        use_cache: bool | None = None,  # noqa: FBT001 (documented signature)
    ) -> list[int]:
        """Tokens of each message, counted off the event loop by the model's tokenizer, never by the driver."""
        cached = self.enable_cache_for_batch if use_cache is None else use_cache
        return await self._count_locally(as_messages(messages), use_cache=cached)

    async def get_history(
        self,
        raw_messages: Sequence[object] = (),
        preserve_system: bool = True,  # noqa: FBT001, FBT002 (documented signature)
    ) -> list[Message]:
        """The newest messages that fit `max_tokens`, system first, oldest left out, tool pairs whole.

        With `storage` they are of the stored session, after what is new in `raw_messages` has been written to it: the
        whole history as the caller knows it, or its newer part. What is stored is recognised by content and place; to
        store a message that might be taken for one of those, use `add_messages`.
        """
        transcript = await self._load(raw_messages, preserve_system=preserve_system)
        self._last = assemble(transcript, self._budget(), previous=self._last)
        return list(self._last.messages)

    async def add_messages(self, messages: Sequence[object], *, client_id: str = "") -> None:
        """Write messages to the stored session; durable on return. With `client_id` a repeated call stores nothing."""
        if self._stored is None:
            raise InvalidOption("there is nowhere to write to: give storage= to the constructor")
        await self._stored.add(as_messages(messages), client_id)

    async def close(self) -> None:
        """Let go of a storage that was given by its address. Closing twice is allowed."""
        if self._stored is not None:
            await self._stored.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def count_total_tokens(self, messages: Sequence[object]) -> int:
        """Tokens of all the messages together."""
        return sum(self.count_messages_batch(messages))

    def estimate_tokens(self, text: str) -> int:
        """Tokens of a bare text: exact where the model's vocabulary is public, an upward estimate otherwise."""
        return self._local.count_text(text)

    def clear_cache(self) -> None:
        """Forget all counts and start the statistics anew."""
        self._cache.clear()
        if self._driver is not None:
            self._driver.cache.clear()

    def get_cache_stats(self) -> dict[str, float]:
        """Statistics of the count cache, of all counters together."""
        caches = [self._cache] if self._driver is None else [self._cache, self._driver.cache]
        stats = [cache.stats() for cache in caches]
        hits, misses = sum(each.hits for each in stats), sum(each.misses for each in stats)
        size = sum(each.size for each in stats)
        room = sum(each.max_size for each in stats)
        return {
            "cache_size": size,
            "max_cache_size": room,
            "cache_utilization": size / room,
            "hits": hits,
            "misses": misses,
            "evictions": sum(each.evictions for each in stats),
            "total_requests": hits + misses,
            "hit_rate": hits / (hits + misses) if hits + misses else 0.0,
        }

    def print_cache_stats(self) -> None:
        """Write the statistics to standard output."""
        for name, value in self.get_cache_stats().items():
            shown = f"{value:.1%}" if name in ("cache_utilization", "hit_rate") else f"{value:,}"
            print(f"{name:18} {shown}")  # noqa: T201 (documented: it prints)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.session_id!r}, max_tokens={self.max_tokens})"

    def _budget(self) -> Budget:
        return Budget(max_tokens=self.max_tokens, marks=_FILL, shares=_SHARES)

    def _count(self, message: Message, *, use_cache: bool) -> int:
        if self._driver is not None:
            count = self._driver.count_message if use_cache else self._driver.count_anew
            return count(message)
        if not use_cache:
            return self._local.count_message(message)
        known = self._cache.get(message)
        return self._counted_anew(message) if known is None else known

    def _counted_anew(self, message: Message) -> int:
        count = self._local.count_message(message)
        self._cache.put(message, count)
        return count

    async def _count_locally(self, messages: list[Message], *, use_cache: bool) -> list[int]:
        counts: list[int | None] = [None] * len(messages)
        if use_cache:
            counts = self._cache.get_many(messages)
        missing = [index for index, count in enumerate(counts) if count is None]
        wanted = [messages[index] for index in missing]
        if missing and self.enable_async_counting:
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(token_executor(), self._local.count_messages, wanted)
        else:
            found = self._local.count_messages(wanted)
        for index, count in zip(missing, found, strict=True):
            counts[index] = count
            if use_cache:
                self._cache.put(messages[index], count)
        return [count for count in counts if count is not None]

    async def _load(self, raw_messages: Sequence[object], *, preserve_system: bool) -> Transcript:
        passed = as_messages(raw_messages, path="raw_messages")
        said = None if self._stored is None else await self._stored.merge(passed)
        whole = passed if said is None else [each.message for each in said]
        messages = [self._defended(message) for message in whole]
        if self._driver is None:
            counts = await self._count_locally(messages, use_cache=True)
        else:
            counts = [self._count(message, use_cache=True) for message in messages]
        transcript = Transcript(self.counter, system_apart=preserve_system)
        numbers = repeat(None) if said is None else [each.seq for each in said]
        for message, count, number in zip(messages, counts, numbers, strict=False):
            transcript.add(message, count, number=number)
        return transcript

    def _defended(self, message: Message) -> Message:
        """The message with no single text longer than `max_message_length` characters: head and tail kept."""
        parts = tuple(_shortened(part, self.max_message_length) for part in message.parts)
        if parts == message.parts:
            return message
        return Message.of(
            message.role,
            parts,
            name=message.name,
            extra=message.extra,
            labels=message.labels,
            origin=message.origin and message.origin.without_form(),
        )


def _shortened(part: Part, length: int) -> Part:
    match part:
        case TextPart() if len(part.text) > length:
            return TextPart(_head_and_tail(part.text, length), part.extra)
        case ToolResult():
            content = tuple(
                TextPart(_head_and_tail(block.text, length), block.extra)
                if isinstance(block, TextPart) and len(block.text) > length
                else block
                for block in part.content
            )
            return ToolResult(part.call_id, content, part.is_error, part.extra)
        case _:
            return part


def _head_and_tail(text: str, length: int) -> str:
    if length <= 2 * len(_CUT_NOTE):
        return text[:length]
    head = (length - len(_CUT_NOTE)) * 2 // 3
    tail = length - len(_CUT_NOTE) - head
    return f"{text[:head]}{_CUT_NOTE}{text[len(text) - tail :]}"
