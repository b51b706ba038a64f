"""Histories that a token memory loads and writes back by itself.

The caller goes on passing messages without ids, the whole history or only what is new, as often as they like; what of
it is in the log already is recognised by content and place. Each append says which entry it believes to be the newest,
so two processes that write at once find each other's messages: the second looks at them first, and appends only what
they do not hold. The running summary is a document beside the log, with how far it reaches; of two who fold at once
one wins, and the other's summary is not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, cast

import msgspec

from turnfold.errors import Conflict, InvalidOption, InvalidRecord
from turnfold.memory.in_process.watermark import Watermark, digest_of
from turnfold.memory.notes import SESSION, SYSTEM, SystemNote, read_note, write_note
from turnfold.memory.waiting import AwaitingWay
from turnfold.records import Document, Entry, Message, NewEntry, encode_message
from turnfold.records.json_text import plain_text
from turnfold.stores import open_store
from turnfold.stores.protocol import Scope, Store
from turnfold.tokens import TokenCounter

__all__ = ("KeptSummary", "Said", "StoredHistory", "already_stored", "open_history")

_KIND: Final = "token-memory"
_KEY: Final = "summary"
_PAGE: Final = 1000
_TRIES: Final = 64
"""Contests with other writers that one append may lose."""
_VERBS: Final = ("append", "read", "head", "get_document", "put_document", "close")


class _SummaryNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    v: int = 1
    summary: str = ""
    upto: int = 0


@dataclass(frozen=True, slots=True)
class Said:
    """A message with its place in the log."""

    seq: int
    message: Message


@dataclass(frozen=True, slots=True)
class KeptSummary:
    """A summary and how far it reaches, as it was read."""

    text: str = ""
    upto: int = 0
    """The last seq it speaks of."""
    version: int = 0


def open_history(storage: object, session: str, counter: TokenCounter) -> StoredHistory:
    """The history of a session in what was given as storage.

    The address of a store, or a store that is open; or a pair of one of these and the tenant whose session it is.
    """
    place, scope = storage, Scope("default")
    if isinstance(storage, tuple) and len(cast("tuple[object, ...]", storage)) == 2:
        place, tenant = cast("tuple[object, object]", storage)
        scope = tenant if isinstance(tenant, Scope) else Scope(plain_text(tenant, path="storage"))
    if isinstance(place, str):
        return StoredHistory(open_store(place, counter=counter), scope, session, owns=True)
    if all(callable(getattr(place, verb, None)) for verb in _VERBS):
        return StoredHistory(cast("Store", place), scope, session, owns=False)
    raise InvalidOption(
        f"storage={type(place).__name__} holds no conversations: give the address of a store "
        "(sqlite:///chat.db, postgresql://...) or what open_store returned, or leave it unset and pass raw_messages"
    )


def already_stored(stored: Sequence[bytes], passed: Sequence[bytes]) -> int:
    """How many messages at the beginning of `passed` are in the log, both given by their digests.

    A history that begins as the log does is followed along it; where another writer put messages in between, they are
    passed over. One that begins elsewhere is taken for the newer part of it, from the longest end of the log on.
    """
    if not stored or not passed:
        return 0
    if passed[0] != stored[0]:
        mark = Watermark()
        mark.rise(stored)
        return mark.reach(passed)
    return _found_in_order(stored, passed)


def _found_in_order(stored: Sequence[bytes], passed: Sequence[bytes]) -> int:
    at = 0
    for count, digest in enumerate(passed):
        try:
            at = stored.index(digest, at) + 1
        except ValueError:
            return count
    return len(passed)


class StoredHistory:
    """One conversation, read once and then followed."""

    def __init__(self, store: Store, scope: Scope, conversation: str, *, owns: bool) -> None:
        self._store, self._scope, self._conversation = store, scope, conversation
        self._owns = owns
        self._entries: list[Entry] = []
        self._turnstile = AwaitingWay().turnstile()

    async def merge(self, passed: Sequence[Message]) -> list[Said]:
        """Append what of `passed` is not in the log; everything that is in it then."""
        async with self._turnstile:
            await self._follow()
            system = [message for message in passed if message.role == "system"]
            current = await self._system()
            if system and [entry.message for entry in current] != system:
                await self._append_system(current, system)
            said = [message for message in passed if message.role != "system"]
            known = [digest_of(entry.message) for entry in self._spoken()]
            count = already_stored(known, [digest_of(message) for message in said])
            await self._append(said[count:])
            kept = {entry.seq for entry in await self._system()}
            return [
                Said(entry.seq, entry.message)
                for entry in self._entries
                if entry.message.role != "system" or entry.seq in kept
            ]

    async def add(self, messages: Sequence[Message], client_id: str) -> None:
        """Append exactly these, whatever the log holds; with a client id a repeated call appends nothing."""
        entries = [
            NewEntry(message, f"{client_id}.{at}" if client_id else "")
            for at, message in enumerate(messages, 1)
        ]
        await self._store.append(self._scope, self._conversation, entries)

    async def summary(self) -> KeptSummary:
        """The summary as it is kept."""
        document = await self._store.get_document(self._scope, self._conversation, _KIND, _KEY)
        if document is None:
            return KeptSummary()
        try:
            note = msgspec.json.decode(document.body, type=_SummaryNote)
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            raise InvalidRecord(f"not a kept summary: {error}", path=f"{_KIND}/{_KEY}") from None
        if note.v != 1:
            raise InvalidRecord(
                f"summary version {note.v}; this release reads version 1",
                path=f"{_KIND}/{_KEY}",
                remedy="Upgrade turnfold",
            )
        return KeptSummary(note.summary, note.upto, document.version)

    async def keep_summary(self, text: str, upto: int, *, version: int | None) -> bool:
        """Keep a summary if the one it goes on from is still kept (whatever is, for None); whether it was."""
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
        """Let go of a store that was opened here."""
        if self._owns:
            await self._store.close()

    def _spoken(self) -> list[Entry]:
        return [entry for entry in self._entries if entry.message.role != "system"]

    async def _follow(self) -> None:
        """Read what was written since."""
        head = await self._store.head(self._scope, self._conversation)
        if self._entries and head.seq < self._entries[-1].seq:
            self._entries = []  # erased
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
            await self._follow()
            # Another writer may have been given the same history.
            newer = [digest_of(each.message) for each in self._entries if each.seq > known]
            messages = messages[_found_in_order(newer, [digest_of(each) for each in messages]) :]

    async def _append_system(self, current: Sequence[Entry], system: Sequence[Message]) -> None:
        # The same texts after the same predecessor are the same change: a retry finds them under their names.
        after = current[-1].seq if current else 0
        entries = [
            NewEntry(message, f"system:{after}:{_digest(message)}" + (f":{at}" if at else ""))
            for at, message in enumerate(system)
        ]
        done = await self._store.append(self._scope, self._conversation, entries)
        note = SystemNote(seqs=tuple(range(done.first, done.last + 1)))
        document = write_note(SESSION, SYSTEM, note)
        await self._store.put_document(self._scope, self._conversation, document)
        await self._follow()

    async def _system(self) -> list[Entry]:
        """The entries that are the system messages now: those noted, else those the log begins with."""
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
