"""The stored history of a token memory: a session in a store, or a value in an object with `get`, `set` and `delete`.

Callers pass messages without ids, the whole history or only the newer part, as often as they like, so messages that are
in the log already are recognised by content and place. Each append names the newest entry it knows (compare-and-swap):
of two processes that write at once, the second reads the other's messages first and appends only the missing ones.

The running summary is a document next to the log, with the seq of the last entry it covers; of two processes that fold
(compact) at once, one wins. It is not a checkpoint of the session: `clear_summary()` removes it, and checkpoints stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from inspect import isawaitable
from typing import Any, Final, cast

import msgspec

from turnfold.errors import Conflict, InvalidOption, InvalidRecord
from turnfold.memories.history_overlap import count_known, count_known_in_order, digest_of
from turnfold.memory import AsyncMemory, ConversationCache
from turnfold.records import (
    SESSION,
    SYSTEM,
    Document,
    Entry,
    Message,
    NewEntry,
    SystemNote,
    as_messages,
    decode_struct,
    message_digest,
    plain_text,
    write_note,
)
from turnfold.runtime import AsyncRuntime
from turnfold.stores import Scope, Store, redaction_of
from turnfold.tokens import TokenCounter

__all__ = ("KeyValueHistory", "StoredHistory", "StoredSummary", "open_history")


_KIND: Final = "token-memory"
_KEY: Final = "summary"
_PAGE: Final = 1000
_TRIES: Final = 64
"""Attempts to make one append; an attempt fails if another writer was first."""
_STORE_METHODS: Final = ("append", "read", "head", "get_document", "put_document", "close")
_VALUE_METHODS: Final = ("get", "set", "delete")


class StoredSummary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The running summary of a stored session, and the last entry that it covers."""

    v: int = 1
    summary: str = ""
    upto: int = 0
    """Seq (log position) of the last entry that the summary covers."""


def _name(message: Message) -> str:
    return message_digest(message, size=8).hex()


def _digests(messages: Iterable[Message]) -> list[bytes]:
    return [digest_of(message) for message in messages]


class StoredHistory:
    """The stored history of a token memory: its log of messages and its running summary."""

    def __init__(self, memory: AsyncMemory, conversation: str) -> None:
        self._memory = memory
        self._session = memory.session(conversation)
        self._store, self._place = memory.store, (memory.scope, conversation)
        self._cache = ConversationCache(
            self._store, *self._place, memory.session(conversation).counter
        )
        self._entries: list[Entry] = []
        self._version = 0
        self._lock = memory.runtime.lock()

    async def merge(self, passed: Sequence[Message]) -> list[Entry]:
        """Append the messages of `passed` that are not in the log; return all entries but replaced system messages."""
        async with self._lock:
            if redaction := redaction_of(self._store):  # compared with what is stored
                passed, _ = await redaction.messages(*self._place, passed)
            await self._refresh()
            system = [message for message in passed if message.role == "system"]
            others = [message for message in passed if message.role != "system"]
            if system and [entry.message for entry in self._cache.system] != system:
                await self._append_system(system)
            stored = [each.message for each in self._entries if each.message.role != "system"]
            await self._append(others[count_known(_digests(stored), _digests(others)) :])
            current = {entry.seq for entry in self._cache.system}
            return [
                entry
                for entry in self._entries
                if entry.message.role != "system" or entry.seq in current
            ]

    async def add(self, messages: Sequence[Message], client_id: str) -> None:
        """Append these messages, even if the log has equal ones.

        A repeated call with the same client id appends nothing.
        """
        numbered = [
            NewEntry(message, f"{client_id}.{at}" if client_id else "")
            for at, message in enumerate(messages, 1)
        ]
        await self._session.add(numbered)

    async def summary(self) -> StoredSummary:
        """Read the stored running summary; empty if there is none."""
        document = await self._store.get_document(*self._place, _KIND, _KEY)
        self._version = document.version if document else 0
        if document is None:
            return StoredSummary()
        path = f"{_KIND}/{_KEY}"
        return decode_struct(document.body, StoredSummary, name="stored summary", path=path)

    async def put_summary(self, text: str, upto: int, *, anyway: bool = False) -> None:
        """Store the running summary, unless another process has stored one since it was read.

        With `anyway`, it is stored in any case.
        """
        body = msgspec.json.encode(StoredSummary(1, text, upto))
        expect = None if anyway else self._version
        with suppress(Conflict):
            document = Document(_KIND, _KEY, body, 0)
            await self._store.put_document(*self._place, document, expect=expect)

    async def close(self) -> None:
        """Close the store if it was opened here, from an address."""
        await self._memory.close()

    async def _refresh(self) -> None:
        """Read the entries that were written to the log since the last time."""
        await self._cache.refresh()
        newest = self._cache.head.seq
        if newest < self._newest():
            self._entries = []  # the conversation was erased
        while (known := self._newest()) < newest:
            self._entries += await self._session.history(after=known, limit=_PAGE)

    def _newest(self) -> int:
        return self._entries[-1].seq if self._entries else 0

    async def _append(self, messages: Sequence[Message]) -> None:
        for attempt in range(_TRIES):
            if not messages:
                return
            known = self._newest()
            try:
                await self._session.add(messages, expect=known)
            except Conflict:
                if attempt == _TRIES - 1:
                    raise
            await self._refresh()
            # Another writer may have appended the same history.
            newer = [each.message for each in self._entries if each.seq > known]
            messages = messages[count_known_in_order(_digests(newer), _digests(messages)) :]

    async def _append_system(self, system: Sequence[Message]) -> None:
        # The client ids name the same texts after the same predecessor, so that a retry appends nothing.
        after = max((entry.seq for entry in self._cache.system), default=0)
        entries = [
            NewEntry(message, f"system:{after}:{_name(message)}" + (f":{at}" if at else ""))
            for at, message in enumerate(system)
        ]
        done = await self._store.append(*self._place, entries)
        note = SystemNote(seqs=tuple(range(done.first, done.last + 1)))
        await self._store.put_document(*self._place, write_note(SESSION, SYSTEM, note))
        await self._refresh()


class KeyValueHistory:
    """History in an object of the caller with `get`, `set` and `delete`, sync or async: one JSON value per session.

    The value is an object with the `messages` (system messages first), the `summary`, and `upto`, the number of
    messages, system messages not counted, that the summary covers; other keys in it are left alone. There is no
    compare-and-swap: of two processes that write at once, the later one wins.
    """

    def __init__(self, values: object, conversation: str) -> None:
        self._values, self._conversation = cast("Any", values), conversation
        self._lock = AsyncRuntime().lock()

    async def merge(self, passed: Sequence[Message]) -> list[Entry]:
        """Append the messages of `passed` that are not stored; return all messages of the session as entries."""
        passed = as_messages(each.model_dump() for each in passed)  # as they will be read back
        async with self._lock:
            value, stored = await self._read()
            system = [each for each in passed if each.role == "system"]
            system = system or [each for each in stored if each.role == "system"]
            others = [each for each in stored if each.role != "system"]
            said = [each for each in passed if each.role != "system"]
            others += said[count_known(_digests(others), _digests(said)) :]
            if [*system, *others] != stored:
                await self._write(value, messages=[*system, *others])
        return [
            Entry(max(seq, 0), message, "", 0, 0, 0, 0)
            for seq, message in enumerate([*system, *others], 1 - len(system))
        ]

    async def add(self, messages: Sequence[Message], client_id: str) -> None:
        """Append these messages, even if equal ones are stored.

        A repeated call with the same client id appends nothing.
        """
        async with self._lock:
            value, stored = await self._read()
            known = cast("list[str]", value.get("client_ids", []))
            if client_id not in known:
                ids = [*known, client_id] if client_id else known
                await self._write(value | {"client_ids": ids}, messages=[*stored, *messages])

    async def summary(self) -> StoredSummary:
        """Read the stored running summary; empty if there is none."""
        value, _ = await self._read()
        fields = {name: value[name] for name in ("summary", "upto") if name in value}
        try:
            return msgspec.convert(fields, StoredSummary)
        except msgspec.ValidationError as error:
            raise self._unreadable(str(error)) from None

    async def put_summary(self, text: str, upto: int, *, anyway: bool = False) -> None:  # noqa: ARG002 (always)
        """Store the running summary in the caller's object; whatever is stored there is replaced."""
        async with self._lock:
            value, stored = await self._read()
            await self._write(value | {"summary": text, "upto": upto}, messages=stored)

    async def close(self) -> None:
        """Do nothing: the caller owns the object and closes it."""

    async def _read(self) -> tuple[dict[str, object], list[Message]]:
        found = self._values.get(self._conversation)
        value = cast("object", (await found if isawaitable(found) else found) or {})
        if not isinstance(value, dict):
            raise self._unreadable(f"got {type(value).__name__}, expected a dict")
        fields = cast("dict[str, object]", value)
        return fields, as_messages(cast("Iterable[object]", fields.get("messages", ())))

    def _unreadable(self, problem: str) -> InvalidRecord:
        return InvalidRecord(
            f"the value that the storage has for session {self._conversation!r} cannot be read: {problem}",
            remedy="get() must return the dict that set() was given, or None",
        )

    async def _write(self, value: dict[str, object], *, messages: Sequence[Message]) -> None:
        dumped = [message.model_dump() for message in messages]
        done = self._values.set(self._conversation, value | {"messages": dumped})
        if isawaitable(done):
            await done


def open_history(
    storage: object, session: str, counter: TokenCounter
) -> StoredHistory | KeyValueHistory:
    """Open the stored history of a session for a token memory.

    `storage` is the address of a store or an open store, or a pair of one of these and the tenant; or an object with
    `get`, `set` and `delete`.
    """
    place, scope = storage, Scope("default")
    if isinstance(storage, tuple) and len(cast("tuple[object, ...]", storage)) == 2:
        place, tenant = cast("tuple[object, object]", storage)
        scope = tenant if isinstance(tenant, Scope) else Scope(plain_text(tenant, path="storage"))
    if isinstance(place, str) or _has(place, _STORE_METHODS):
        memory = AsyncMemory(cast("str | Store", place), scope=scope, counter=counter)
        return StoredHistory(memory, session)
    if _has(place, _VALUE_METHODS):
        return KeyValueHistory(place, session)
    raise InvalidOption(
        f"storage={type(place).__name__} is not a store: give the address of a store (sqlite:///chat.db, "
        "postgresql://...), an open store, or an object with get, set and delete; or leave it unset and pass "
        "raw_messages"
    )


def _has(place: object, methods: Sequence[str]) -> bool:
    return all(callable(getattr(place, name, None)) for name in methods)
