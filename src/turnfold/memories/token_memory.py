"""Token-exact memory: document 001's `TokenMemory`, with the documented constructor and methods.

`get_history` fills backwards from the newest message and stops at the first span that does not fit. The result is
contiguous (except for the question of a running tool loop, which is shown before it) and within `max_tokens`; the
newest span is always included, shortened if needed, or an error says why it cannot be.

With `storage` the history is loaded from a store and written back. Callers pass messages without ids, the whole history
or only the newer part, as often as they like, so messages that are in the log already are recognised by content and
place. Each append names the entry it believes to be the newest: of two processes that write at once, the second reads
the other's messages first and appends only those that are missing. The running summary is a document next to the log
that says how far it reaches; of two processes that fold (compact) at once, one wins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import repeat
from types import TracebackType
from typing import Final, Self, cast

import msgspec

from turnfold.budget import Budget, Shares, WaterMarks
from turnfold.errors import Conflict, InvalidOption, InvalidRecord
from turnfold.records import (
    SESSION,
    SYSTEM,
    Document,
    Entry,
    Message,
    NewEntry,
    Part,
    SystemNote,
    TextPart,
    ToolResult,
    as_message,
    as_messages,
    encode_message,
    plain_text,
    read_note,
    write_note,
)
from turnfold.runtime import AsyncRuntime
from turnfold.stores import Scope, Store, open_store
from turnfold.tokens import CountCache, DriverCounter, TokenCounter, counter_for, token_executor
from turnfold.window import Context, Receipt, Transcript, assemble

__all__ = (
    "StoredHistory",
    "StoredSummary",
    "TokenMemory",
    "Watermark",
    "already_stored",
    "digest_of",
)


def digest_of(message: Message) -> bytes:
    """Return the digest by which a message is recognised."""
    return blake2b(encode_message(message), digest_size=12).digest()


class Watermark:
    """Digests of the messages that a summary covers, in order."""

    __slots__ = ("_covered",)

    def __init__(self) -> None:
        self._covered: list[bytes] = []

    def extend(self, digests: Iterable[bytes]) -> None:
        """Add the messages that follow those covered so far."""
        self._covered.extend(digests)

    def reach(self, history: Sequence[bytes]) -> int:
        """Return how many messages at the beginning of `history` are covered.

        Usually the whole history is passed: it begins with the covered messages or, in an older state, is the beginning
        of them. If only a newer part is passed, the longest overlap with the end of the covered messages counts.
        """
        shared = min(len(self._covered), len(history))
        if list(history[:shared]) == self._covered[:shared]:
            return shared
        return _longest_overlap(self._covered, history)


def _longest_overlap(text: Sequence[bytes], pattern: Sequence[bytes]) -> int:
    """Return the length of the longest suffix of `text` that is a prefix of `pattern` (Knuth-Morris-Pratt)."""
    borders = [0] * len(pattern)
    matched = 0
    for index in range(1, len(pattern)):
        while matched and pattern[index] != pattern[matched]:
            matched = borders[matched - 1]
        matched += pattern[index] == pattern[matched]
        borders[index] = matched
    matched = 0
    for item in text:
        while matched and (matched == len(pattern) or item != pattern[matched]):
            matched = borders[matched - 1]
        matched += item == pattern[matched]
    return matched


_KIND: Final = "token-memory"
_KEY: Final = "summary"
_PAGE: Final = 1000
_TRIES: Final = 64
"""Attempts of one append that keeps conflicting with other writers."""
_STORE_METHODS: Final = ("append", "read", "head", "get_document", "put_document", "close")


class _SummaryNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    v: int = 1
    summary: str = ""
    upto: int = 0


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """The stored summary as it was read."""

    text: str = ""
    upto: int = 0
    """The last seq it covers."""
    version: int = 0


def _open_history(storage: object, session: str, counter: TokenCounter) -> StoredHistory:
    """Open the history of a session.

    `storage` is the address of a store or an open store, or a pair of one of these and the tenant.
    """
    place, scope = storage, Scope("default")
    if isinstance(storage, tuple) and len(cast("tuple[object, ...]", storage)) == 2:
        place, tenant = cast("tuple[object, object]", storage)
        scope = tenant if isinstance(tenant, Scope) else Scope(plain_text(tenant, path="storage"))
    if isinstance(place, str):
        return StoredHistory(open_store(place, counter=counter), scope, session, owns=True)
    if all(callable(getattr(place, verb, None)) for verb in _STORE_METHODS):
        return StoredHistory(cast("Store", place), scope, session, owns=False)
    raise InvalidOption(
        f"storage={type(place).__name__} is not a store: give the address of a store "
        "(sqlite:///chat.db, postgresql://...) or what open_store returned, or leave it unset and pass raw_messages"
    )


def already_stored(stored: Sequence[bytes], passed: Sequence[bytes]) -> int:
    """Return how many messages at the beginning of `passed` are in the log; both are digests.

    A history that begins like the log is matched along it, skipping messages of other writers. One that begins
    elsewhere is taken for the newer part of the history and matched by its longest overlap with the end of the log.
    """
    if not stored or not passed:
        return 0
    if passed[0] != stored[0]:
        mark = Watermark()
        mark.extend(stored)
        return mark.reach(passed)
    return _stored_in_order(stored, passed)


def _stored_in_order(stored: Sequence[bytes], passed: Sequence[bytes]) -> int:
    at = 0
    for count, digest in enumerate(passed):
        try:
            at = stored.index(digest, at) + 1
        except ValueError:
            return count
    return len(passed)


class StoredHistory:
    """The log of one conversation, read once and then kept up to date."""

    def __init__(self, store: Store, scope: Scope, conversation: str, *, owns: bool) -> None:
        self._store, self._scope, self._conversation = store, scope, conversation
        self._owns = owns
        self._entries: list[Entry] = []
        self._lock = AsyncRuntime().lock()

    async def merge(self, passed: Sequence[Message]) -> list[Entry]:
        """Append the messages of `passed` that are not in the log; return the log without old system messages."""
        async with self._lock:
            await self._refresh()
            system = [message for message in passed if message.role == "system"]
            current = await self._system()
            if system and [entry.message for entry in current] != system:
                await self._append_system(current, system)
            others = [message for message in passed if message.role != "system"]
            stored = [
                digest_of(entry.message)
                for entry in self._entries
                if entry.message.role != "system"
            ]
            count = already_stored(stored, [digest_of(message) for message in others])
            await self._append(others[count:])
            seqs = {entry.seq for entry in await self._system()}
            return [
                entry
                for entry in self._entries
                if entry.message.role != "system" or entry.seq in seqs
            ]

    async def add(self, messages: Sequence[Message], client_id: str) -> None:
        """Append these messages whatever the log contains; with a client id a repeated call appends nothing."""
        entries = [
            NewEntry(message, f"{client_id}.{at}" if client_id else "")
            for at, message in enumerate(messages, 1)
        ]
        await self._store.append(self._scope, self._conversation, entries)

    async def summary(self) -> StoredSummary:
        """Read the stored summary."""
        document = await self._store.get_document(self._scope, self._conversation, _KIND, _KEY)
        if document is None:
            return StoredSummary()
        try:
            note = msgspec.json.decode(document.body, type=_SummaryNote)
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            raise InvalidRecord(f"not a stored summary: {error}", path=f"{_KIND}/{_KEY}") from None
        if note.v != 1:
            raise InvalidRecord(
                f"summary version {note.v}; this release reads version 1",
                path=f"{_KIND}/{_KEY}",
                remedy="Upgrade turnfold",
            )
        return StoredSummary(note.summary, note.upto, document.version)

    async def put_summary(self, text: str, upto: int, *, version: int | None) -> bool:
        """Store a summary if the stored one still has this version (None: any); return True if it was stored."""
        body = msgspec.json.encode(_SummaryNote(1, text, upto))
        document = Document(_KIND, _KEY, body, 0)
        try:
            await self._store.put_document(
                self._scope, self._conversation, document, expect=version
            )
        except Conflict:
            return False
        return True

    async def close(self) -> None:
        """Close the store if it was opened here."""
        if self._owns:
            await self._store.close()

    async def _refresh(self) -> None:
        """Read the entries written since the last time."""
        head = await self._store.head(self._scope, self._conversation)
        if self._entries and head.seq < self._entries[-1].seq:
            self._entries = []  # the conversation was erased
        while (known := self._entries[-1].seq if self._entries else 0) < head.seq:
            self._entries += await self._store.read(
                self._scope, self._conversation, after=known, upto=head.seq, limit=_PAGE
            )

    async def _append(self, messages: Sequence[Message]) -> None:
        for attempt in range(_TRIES):
            if not messages:
                return
            known = self._entries[-1].seq if self._entries else 0
            entries = [NewEntry(message) for message in messages]
            try:
                await self._store.append(self._scope, self._conversation, entries, expect=known)
            except Conflict:
                if attempt == _TRIES - 1:
                    raise
            await self._refresh()
            # Another writer may have appended the same history.
            newer = [digest_of(each.message) for each in self._entries if each.seq > known]
            messages = messages[_stored_in_order(newer, [digest_of(each) for each in messages]) :]

    async def _append_system(self, current: Sequence[Entry], system: Sequence[Message]) -> None:
        # The client ids name the same texts after the same predecessor, so that a retry appends nothing.
        after = current[-1].seq if current else 0
        entries = [
            NewEntry(message, f"system:{after}:{_digest(message)}" + (f":{at}" if at else ""))
            for at, message in enumerate(system)
        ]
        done = await self._store.append(self._scope, self._conversation, entries)
        note = SystemNote(seqs=tuple(range(done.first, done.last + 1)))
        document = write_note(SESSION, SYSTEM, note)
        await self._store.put_document(self._scope, self._conversation, document)
        await self._refresh()

    async def _system(self) -> list[Entry]:
        """Return the current system messages: those of the system note, else those at the start of the log."""
        document = await self._store.get_document(self._scope, self._conversation, SESSION, SYSTEM)
        if document is not None:
            seqs = set(read_note(document, SystemNote).seqs)
            return [entry for entry in self._entries if entry.seq in seqs]
        leading: list[Entry] = []
        for entry in self._entries:
            if entry.message.role != "system":
                break
            leading.append(entry)
        return leading


def _digest(message: Message) -> str:
    return blake2b(encode_message(message), digest_size=8).hexdigest()


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
            self._driver = DriverCounter(model_driver, self._local, cache_size=cache_size)
        self._last: Context | None = None
        self._stored: StoredHistory | None = None
        if storage is not None:
            self._stored = _open_history(storage, session_id, self._local)

    @property
    def counter(self) -> TokenCounter:
        """The counter of single messages: the driver if it can count, else the model's tokenizer."""
        return self._driver or self._local

    @property
    def receipt(self) -> Receipt | None:
        """The receipt (context report) of the last history; None before the first."""
        return None if self._last is None else self._last.receipt

    def count_message_tokens(self, message: object) -> int:
        """Return the tokens of one message, framing included; by the driver if there is one."""
        return self._count(as_message(message), use_cache=True)

    def count_messages_batch(
        self,
        messages: Sequence[object],
        use_cache: bool | None = None,  # noqa: FBT001 (documented signature)
    ) -> list[int]:
        """Return the tokens of each message; `use_cache=None` means `enable_cache_for_batch`."""
        cached = self.enable_cache_for_batch if use_cache is None else use_cache
        accepted = as_messages(messages)
        if self._driver is not None or not cached:
            return [self._count(message, use_cache=cached) for message in accepted]
        known = self._cache.get_many(accepted)
        return [
            self._count_and_cache(message) if count is None else count
            for message, count in zip(accepted, known, strict=True)
        ]

    async def count_messages_batch_async(
        self,
        messages: Sequence[object],
        use_cache: bool | None = None,  # noqa: FBT001 (documented signature)
    ) -> list[int]:
        """Return the tokens of each message, counted in a thread by the model's tokenizer, never by the driver."""
        cached = self.enable_cache_for_batch if use_cache is None else use_cache
        return await self._count_locally(as_messages(messages), use_cache=cached)

    async def get_history(
        self,
        raw_messages: Sequence[object] = (),
        preserve_system: bool = True,  # noqa: FBT001, FBT002 (documented signature)
    ) -> list[Message]:
        """Return the newest messages that fit `max_tokens`, system first, with tool calls and results together.

        With `storage` the new messages of `raw_messages` (the whole history as the caller knows it, or its newer part)
        are first written to the stored session. Stored messages are recognised by content and place; use
        `add_messages` to store a message that could be mistaken for one of them.
        """
        transcript = await self._load(raw_messages, preserve_system=preserve_system)
        self._last = assemble(transcript, self._budget(), previous=self._last)
        return list(self._last.messages)

    async def add_messages(self, messages: Sequence[object], *, client_id: str = "") -> None:
        """Write messages to the stored session; durable on return. With `client_id` a repeated call stores nothing."""
        if self._stored is None:
            raise InvalidOption("this memory has no storage: pass storage= to the constructor")
        await self._stored.add(as_messages(messages), client_id)

    async def close(self) -> None:
        """Close a storage that was given by its address. Closing twice is allowed."""
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

    def estimate_tokens(self, text: str) -> int:
        """Return the tokens of a text: exact if the model's vocabulary is public, else a cautious estimate."""
        return self._local.count_text(text)

    def clear_cache(self) -> None:
        """Clear the cached counts and the statistics."""
        self._cache.clear()
        if self._driver is not None:
            self._driver.cache.clear()

    def get_cache_stats(self) -> dict[str, float]:
        """Return the statistics of the count caches of all counters together."""
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
        """Print the statistics to standard output."""
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
        return self._count_and_cache(message) if known is None else known

    def _count_and_cache(self, message: Message) -> int:
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
        entries = None if self._stored is None else await self._stored.merge(passed)
        whole = passed if entries is None else [entry.message for entry in entries]
        messages = [self._limit_length(message) for message in whole]
        if self._driver is None:
            counts = await self._count_locally(messages, use_cache=True)
        else:
            counts = [self._count(message, use_cache=True) for message in messages]
        transcript = Transcript(self.counter, system_apart=preserve_system)
        seqs = repeat(None) if entries is None else [entry.seq for entry in entries]
        for message, count, seq in zip(messages, counts, seqs, strict=False):
            transcript.add(message, count, number=seq)
        return transcript

    def _limit_length(self, message: Message) -> Message:
        """Shorten texts longer than `max_message_length` characters to their head and tail."""
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
