"""Trims histories to an exact number of tokens (`TokenMemory`).

It is a memory of design document 001.

`get_history` fills backwards from the newest message and stops at the first span that does not fit. The result is
contiguous (except for the question of a running tool loop, which is shown before it) and within `max_tokens`; the
newest span (a message, or a tool call with its results) is always included, shortened if needed, or an error says why
it cannot be.

With `storage` the history is loaded from a stored session and written back; `Memory` on the same store sees it too.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from itertools import repeat
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from turnfold.budget import Budget, Shares, WaterMarks
from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.records import Message, Part, TextPart, ToolResult, as_message, as_messages
from turnfold.tokens import CountCache, DriverCounter, TokenCounter, counter_for, token_executor
from turnfold.window import Context, Receipt, Transcript, assemble

if TYPE_CHECKING:
    from turnfold.memories.token_memory_history import KeyValueHistory, StoredHistory

__all__ = ("TokenMemory", "counting_driver")


_Result = TypeVar("_Result")
_CUT_NOTE = "\n[…]\n"
_FILL = WaterMarks(low=1.0, snap=1.0)
# Documented: the system message is shortened only if it leaves no room for the conversation.
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
            if counting_driver(model_driver) is None:
                raise InvalidOption(
                    f"model_driver={type(model_driver).__name__}: its count_tokens is a coroutine function; give a "
                    "driver that returns a number, or None to count with the tokenizer of model_name"
                )
            self._driver = DriverCounter(model_driver, self._local, cache_size=cache_size)
        self._last: Context | None = None
        self._stored: StoredHistory | KeyValueHistory | None = None
        if storage is not None:
            from turnfold.memories.token_memory_history import open_history  # loads the stores

            self._stored = open_history(storage, session_id, self._local)

    @property
    def counter(self) -> TokenCounter:
        """Counter of single messages: the `model_driver` (a model's client) if it can count, else a tokenizer."""
        return self._driver or self._local

    @property
    def receipt(self) -> Receipt | None:
        """The receipt (context report) of the last history; None before the first."""
        return None if self._last is None else self._last.receipt

    def count_message_tokens(self, message: object) -> int:
        """Return the tokens of one message, framing included, as counted by `counter`.

        Inside an event loop a `model_driver` is called in the thread pool, and this call blocks until it returns.
        """
        if self._driver is None:
            return self.count_messages_batch([message], use_cache=True)[0]
        count, accepted = self._driver.count_message, as_message(message)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return count(accepted)
        return token_executor().submit(count, accepted).result()

    def count_messages_batch(
        self,
        messages: Sequence[object],
        use_cache: bool | None = None,  # noqa: FBT001 (documented signature)
    ) -> list[int]:
        """Return the tokens of each message, by the model's tokenizer; `use_cache=None` means `enable_cache_for_batch`.

        The driver, which may be remote, is used for single messages only, as documented. The async variant returns the
        same counts.
        """
        counts, uncounted = self._known_counts(messages, use_cache)
        found = self._local.count_messages(uncounted)
        return self._all_counts(counts, uncounted, found, use_cache)

    async def count_messages_batch_async(
        self,
        messages: Sequence[object],
        use_cache: bool | None = None,  # noqa: FBT001 (documented signature)
    ) -> list[int]:
        """Like `count_messages_batch`, counted in a thread so that the event loop is not blocked."""
        counts, uncounted = self._known_counts(messages, use_cache)
        if uncounted and self.enable_async_counting:
            count, loop = self._local.count_messages, asyncio.get_running_loop()
            found = await loop.run_in_executor(token_executor(), count, uncounted)
        else:
            found = self._local.count_messages(uncounted)
        return self._all_counts(counts, uncounted, found, use_cache)

    async def get_history(
        self,
        raw_messages: Sequence[object] = (),
        preserve_system: bool = True,  # noqa: FBT001, FBT002 (documented signature)
        *,
        on_unreadable: Callable[[InvalidRecord], None] | None = None,
    ) -> list[Message]:
        """Return the newest messages that fit `max_tokens`, system first, with tool calls and results together.

        With `storage` the new messages of `raw_messages` (the whole history as the caller knows it, or its newer part)
        are first written to the stored session. Stored messages are recognised by content and place; use
        `add_messages` to store a message that could be mistaken for one of them.

        An item that cannot be read raises `InvalidRecord`, which names its index; with `on_unreadable` it is left out,
        and the function gets the error.
        """
        transcript = await self._load(
            raw_messages, preserve_system=preserve_system, on_unreadable=on_unreadable
        )
        last, budget = self._last, self._budget()
        self._last = await self._counted(lambda: assemble(transcript, budget, previous=last))
        return list(self._last.messages)

    async def add_messages(self, messages: Sequence[object], *, client_id: str = "") -> None:
        """Write messages to the stored session; durable on return. With `client_id` a repeated call stores nothing."""
        if self._stored is None:
            raise InvalidOption("this memory has no storage: pass storage= to the constructor")
        await self._stored.add(as_messages(messages), client_id)

    async def close(self) -> None:
        """Close the storage if this memory opened it (if it was passed as an address). Closing twice is allowed."""
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
        """Return the tokens of all messages together."""
        return sum(self.count_messages_batch(messages))

    def estimate_tokens(self, text: str | None) -> int:
        """Return the tokens of a text: exact if the model's vocabulary is public, else a cautious estimate."""
        return self._local.count_text(text) if text else 0

    def clear_cache(self) -> None:
        """Clear this memory's cached token counts (of the tokenizer and of the driver), and their statistics."""
        self._cache.clear()
        if self._driver is not None:
            self._driver.cache.clear()

    def get_cache_stats(self) -> dict[str, float]:
        """Return the statistics of this memory's caches of token counts: the tokenizer's and the driver's together."""
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
        """Print the statistics of this memory's caches of token counts to standard output."""
        for name, value in self.get_cache_stats().items():
            shown = f"{value:.1%}" if name in ("cache_utilization", "hit_rate") else f"{value:,}"
            print(f"{name:18} {shown}")  # noqa: T201 (documented: it prints)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.session_id!r}, max_tokens={self.max_tokens})"

    def _budget(self) -> Budget:
        return Budget(max_tokens=self.max_tokens, marks=_FILL, shares=_SHARES)

    def _uses_cache(self, use_cache: bool | None) -> bool:  # noqa: FBT001 (as documented)
        return self.enable_cache_for_batch if use_cache is None else use_cache

    def _known_counts(
        self,
        messages: Sequence[object],
        use_cache: bool | None,  # noqa: FBT001 (as documented)
    ) -> tuple[list[int | None], list[Message]]:
        """Return the cached token count of each message (None if not cached), and the messages that must be counted."""
        accepted = as_messages(messages)
        if not self._uses_cache(use_cache):
            return [None] * len(accepted), accepted
        counts = self._cache.get_many(accepted)
        uncounted = [each for each, count in zip(accepted, counts, strict=True) if count is None]
        return counts, uncounted

    def _all_counts(
        self,
        counts: list[int | None],
        uncounted: list[Message],
        found: list[int],
        use_cache: bool | None,  # noqa: FBT001 (as documented)
    ) -> list[int]:
        """Cache the new counts `found`, and return the counts of all messages in order."""
        if self._uses_cache(use_cache):
            for message, count in zip(uncounted, found, strict=True):
                self._cache.put(message, count)
        new = iter(found)
        return [next(new) if count is None else count for count in counts]

    async def _load(
        self,
        raw_messages: Sequence[object],
        *,
        preserve_system: bool,
        on_unreadable: Callable[[InvalidRecord], None] | None,
    ) -> Transcript:
        passed = as_messages(raw_messages, path="raw_messages", on_unreadable=on_unreadable)
        entries = None if self._stored is None else await self._stored.merge(passed)
        whole = passed if entries is None else [entry.message for entry in entries]
        messages = [self._limit_length(message) for message in whole]
        driver = self._driver
        if driver is None:
            counts = await self.count_messages_batch_async(messages, use_cache=True)
        else:
            counts = await self._counted(lambda: driver.count_messages(messages))
        transcript = Transcript(self.counter, system_apart=preserve_system)
        seqs = repeat(None) if entries is None else [entry.seq for entry in entries]
        for message, count, seq in zip(messages, counts, seqs, strict=False):
            transcript.add(message, count, number=seq)
        return transcript

    async def _counted(self, work: Callable[[], _Result]) -> _Result:
        """Return the result of `work`, which counts tokens; run in the thread pool if it may call a remote driver."""
        if self._driver is None:
            return work()
        return await asyncio.get_running_loop().run_in_executor(token_executor(), work)

    def _limit_length(self, message: Message) -> Message:
        """Return the message with texts longer than `max_message_length` characters cut to their beginning and end."""
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


def counting_driver(model: object) -> object | None:
    """Return the model if it has a `count_tokens` that is a plain (not async) function; otherwise None."""
    count = getattr(model, "count_tokens", None)
    return model if callable(count) and not inspect.iscoroutinefunction(count) else None


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
