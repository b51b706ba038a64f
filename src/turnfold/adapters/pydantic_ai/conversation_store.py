"""PydanticAI's `ConversationStore` on any turnfold store.

What `load` and `save` of PydanticAI need, in the database the sessions are in. Each conversation has a home of its own
for its messages, so that deleting it erases every byte of them and nothing of another; a fork takes copies along. What
points at a home is one small document that changes by compare-and-swap, which is what makes two writers safe.

It keeps PydanticAI's conversations; the capability keeps the log a model's view is made of. Either works without the
other.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import uuid4

from pydantic import ConfigDict, TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)

from turnfold.errors import Conflict, ConversationDeleted, InvalidRecord
from turnfold.memory import AsyncMemory, Memory
from turnfold.records import Document

__all__ = ("TurnfoldConversationStore",)

_RECORD: Final = "pydantic-ai-conversation"
_ENTRY: Final = "pydantic-ai-entry"
_PAGE = 500
_MOST_KNOWN = 4096
_UNIQUE = re.compile("[0-9a-f]{32}")
_REMEDY: Final = "Restore the store from a backup, or erase the document"


@dataclass
class _Placed:
    """A record, and the conversation of the store that holds its messages."""

    home: str
    record: ConversationRecord


# Of lists, because the setting for bytes does not reach a data class on its own.
_bytes = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
_placed: TypeAdapter[list[_Placed]] = TypeAdapter(list[_Placed], config=_bytes)
_entry: TypeAdapter[list[ConversationEntry]] = TypeAdapter(list[ConversationEntry], config=_bytes)


_Kept = TypeVar("_Kept", _Placed, ConversationEntry)


def _only(adapter: TypeAdapter[list[_Kept]], document: Document) -> _Kept:
    """The one value that a document holds."""
    try:
        [found] = adapter.validate_json(document.body)
    except (ValueError, RecursionError) as error:  # pydantic's ValidationError is a ValueError
        told = " ".join(str(error).split())[:300]
        raise InvalidRecord(
            f"not a stored {document.kind}: {told}", path=document.key, remedy=_REMEDY
        ) from None
    return found


class TurnfoldConversationStore(ConversationStore):
    """Conversations of PydanticAI in the store of a memory. `delete` erases the messages of a conversation."""

    def __init__(self, memory: AsyncMemory | Memory, *, name: str = "pydantic-ai") -> None:
        self._shelf = _Shelf(memory.awaiting if isinstance(memory, Memory) else memory, name)

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation, or None."""
        placed, _ = await self._shelf.find(conversation_id)
        return placed.record if placed else None

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """The records, those of one scope or all, newest first."""
        records = [placed.record for placed in await self._shelf.all()]
        found = [record for record in records if scope is None or record.scope == scope]
        found.sort(key=lambda record: record.updated_at, reverse=True)
        return found[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store the new entries, then the record if it is still the one expected."""
        name, shelf = record.conversation_id, self._shelf
        placed, version = await shelf.find(name)
        if (placed.record.revision if placed else None) != expected_revision:
            raise ConversationConflict(name)
        home = placed.home if placed else shelf.new_home(name)
        first = new_entries[0].parent_id if new_entries else record.head_id
        try:
            begun = await self._begun_elsewhere(first, home)
            await asyncio.gather(*(shelf.put(home, entry) for entry in (*begun, *new_entries)))
            await shelf.place(_Placed(home, record), expect=version)
        except (Conflict, ConversationDeleted, LookupError):
            if placed is None:
                await shelf.erase(home)
            raise ConversationConflict(name) from None

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Erase a conversation and its messages."""
        placed, version = await self._shelf.find(conversation_id)
        if placed is None or placed.record.revision != expected_revision:
            raise ConversationConflict(conversation_id)
        # The messages go first: a process that dies in between leaves a record that can be deleted again.
        await self._shelf.erase(placed.home)
        try:
            await self._shelf.drop(conversation_id, expect=version)
        except Conflict:
            raise ConversationConflict(conversation_id) from None

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """One entry; an unknown one is a `LookupError`."""
        entry = await self._shelf.get(await self._shelf.home_of(entry_id), entry_id)
        if entry is None:
            raise KeyError(entry_id)
        return entry

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """The entries up to `head_id`, in order, or the last `limit` of them; read together, not one by one."""
        if head_id is None or limit == 0:
            return []
        entries = await self._shelf.entries(await self._shelf.home_of(head_id))
        found: list[ConversationEntry] = []
        at: str | None = head_id
        while at is not None and (limit is None or len(found) < limit):
            found.append(entries[at])
            if len(found) > len(entries):
                raise InvalidRecord(f"entry {at!r} is stored as its own ancestor", remedy=_REMEDY)
            at = entries[at].parent_id
        found.reverse()
        return found

    async def _begun_elsewhere(self, first: str | None, home: str) -> list[ConversationEntry]:
        """The history a fork begins with, to be kept in its own home too; nothing where it is there already."""
        if first is None or await self._shelf.get(home, first) is not None:
            return []
        return await self.read_history(first)


class _Shelf:
    """The documents: one record per conversation together in one place, the entries of each in its home."""

    def __init__(self, memory: AsyncMemory, name: str) -> None:
        self._store, self._scope = memory.store, memory.scope
        self._name = name
        self._place = f"{name}:conversations"
        self._homes: OrderedDict[str, str] = OrderedDict()
        """Entry id -> home, of the newest entries seen: entries never move."""

    def new_home(self, conversation_id: str) -> str:
        """A place that never was another conversation's, even one of the same name that was deleted."""
        return f"{self._home_prefix(conversation_id)}{uuid4().hex}"

    def _home_prefix(self, conversation_id: str) -> str:
        return f"{self._name}:{conversation_id}:"

    async def find(self, conversation_id: str) -> tuple[_Placed | None, int]:
        document = await self._store.get_document(
            self._scope, self._place, _RECORD, conversation_id
        )
        if document is None:
            return None, 0
        placed = self._placed(document)
        self._know(placed)
        return placed, document.version

    async def all(self) -> list[_Placed]:
        documents = await self._documents(self._place, _RECORD)
        return [self._placed(document) for document in documents]

    def _placed(self, document: Document) -> _Placed:
        """A record, if it speaks of a home of its own conversation: that is erased on its word."""
        placed = _only(_placed, document)
        home = self._home_prefix(placed.record.conversation_id)
        if placed.record.conversation_id != document.key or not (
            placed.home.startswith(home) and _UNIQUE.fullmatch(placed.home, len(home))
        ):
            raise InvalidRecord(
                f"it is said to be kept in {placed.home[:200]!r}, which is no home of this conversation",
                path=document.key,
                remedy=_REMEDY,
            )
        return placed

    async def place(self, placed: _Placed, *, expect: int) -> None:
        body = _placed.dump_json([placed])
        document = Document(_RECORD, placed.record.conversation_id, body, 0)
        await self._store.put_document(self._scope, self._place, document, expect=expect)
        self._know(placed)

    async def drop(self, conversation_id: str, *, expect: int) -> None:
        await self._store.drop_document(
            self._scope, self._place, _RECORD, conversation_id, expect=expect
        )

    async def erase(self, home: str) -> None:
        await self._store.delete(self._scope, home)

    async def home_of(self, entry_id: str) -> str:
        known = self._homes.get(entry_id)
        if known and await self.get(known, entry_id) is not None:
            return known
        for placed in await self.all():
            if await self.get(placed.home, entry_id) is not None:
                self._remember(entry_id, placed.home)
                return placed.home
        raise KeyError(entry_id)

    async def put(self, home: str, entry: ConversationEntry) -> None:
        document = Document(_ENTRY, entry.id, _entry.dump_json([entry]), 0)
        await self._store.put_document(self._scope, home, document)

    async def get(self, home: str, entry_id: str) -> ConversationEntry | None:
        document = await self._store.get_document(self._scope, home, _ENTRY, entry_id)
        return _only(_entry, document) if document else None

    async def entries(self, home: str) -> dict[str, ConversationEntry]:
        documents = await self._documents(home, _ENTRY)
        return {document.key: _only(_entry, document) for document in documents}

    async def _documents(self, conversation: str, kind: str) -> list[Document]:
        found: list[Document] = []
        after = ""
        while page := await self._store.documents(
            self._scope, conversation, kind, after=after, limit=_PAGE
        ):
            found += page
            after = page[-1].key
        return found

    def _know(self, placed: _Placed) -> None:
        for entry_id in (placed.record.head_id, *placed.record.branches):
            if entry_id is not None:
                self._remember(entry_id, placed.home)

    def _remember(self, entry_id: str, home: str) -> None:
        self._homes[entry_id] = home
        self._homes.move_to_end(entry_id)
        while len(self._homes) > _MOST_KNOWN:
            self._homes.popitem(last=False)
