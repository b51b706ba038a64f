"""PydanticAI's `ConversationStore` on any turnfold store.

Each PydanticAI conversation has a home (a conversation of the store) for its messages, so that deleting it erases every
byte of it and nothing else; a fork gets a copy of the history. One small document per conversation names the home; it
is changed by compare-and-swap, so two writers cannot overwrite each other.

This class stores PydanticAI's own conversations; the capability stores the log from which contexts are built. Each
works without the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from pydantic import ConfigDict, TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)

from turnfold._caches import SizedCache
from turnfold.adapters._common import is_home, new_home
from turnfold.errors import Conflict, ConversationDeleted, InvalidRecord
from turnfold.memory import AsyncMemory, Memory
from turnfold.records import Document
from turnfold.stores import PYDANTIC_AI_HOMES, all_documents, refuse_erased

__all__ = ("TurnfoldConversationStore",)


_RECORD: Final = PYDANTIC_AI_HOMES.kind
_ENTRY: Final = "pydantic-ai-entry"
_MOST_HOMES = 4096
_REMEDY: Final = "Restore the store from a backup, or erase the document"


@dataclass
class _Placed:
    """A PydanticAI record, and the conversation of the store (its home) that holds its messages."""

    home: str
    record: ConversationRecord


# Adapters of lists, because the config for bytes does not reach a data class on its own.
_bytes = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
_placed: TypeAdapter[list[_Placed]] = TypeAdapter(list[_Placed], config=_bytes)
_entry: TypeAdapter[list[ConversationEntry]] = TypeAdapter(list[ConversationEntry], config=_bytes)


_Stored = TypeVar("_Stored", _Placed, ConversationEntry)


def _decoded(adapter: TypeAdapter[list[_Stored]], document: Document) -> _Stored:
    """Decode the only value in a stored document; raise `InvalidRecord` if it is not valid."""
    try:
        [found] = adapter.validate_json(document.body)
    except (ValueError, RecursionError) as error:  # pydantic's ValidationError is a ValueError
        reason = " ".join(str(error).split())[:300]
        raise InvalidRecord(
            f"the document is not a valid {document.kind}: {reason}",
            path=document.key,
            remedy=_REMEDY,
        ) from None
    return found


class TurnfoldConversationStore(ConversationStore):
    """Stores the conversations of PydanticAI in the store of a memory. `delete` erases a conversation's messages."""

    def __init__(self, memory: AsyncMemory | Memory, *, name: str = PYDANTIC_AI_HOMES.name) -> None:
        self._documents = _Documents(
            memory.awaiting if isinstance(memory, Memory) else memory, name
        )

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the PydanticAI record of a conversation; None if there is none."""
        placed, _ = await self._documents.find(conversation_id)
        return placed.record if placed else None

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Return the PydanticAI records of one scope, or of all scopes, newest first, at most `limit`."""
        records = [placed.record for placed in await self._documents.all()]
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
        """Store new entries, then the record; raise `ConversationConflict` if the stored revision differs."""
        name, documents = record.conversation_id, self._documents
        placed, version = await documents.find(name)
        if (placed.record.revision if placed else None) != expected_revision:
            raise ConversationConflict(name)
        if placed is None:
            await documents.refuse_erased(name)
        home = placed.home if placed else documents.new_home(name)
        first = new_entries[0].parent_id if new_entries else record.head_id
        try:
            inherited = await self._inherited_entries(first, home)
            entries = (*inherited, *new_entries)
            await asyncio.gather(*(documents.put(home, entry) for entry in entries))
            await documents.place(_Placed(home, record), expect=version)
        except (Conflict, ConversationDeleted, LookupError):
            if placed is None:
                await documents.erase(home)
            raise ConversationConflict(name) from None
        if placed is None:
            await documents.refuse_erased(name, home)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Erase a conversation and its messages; raise `ConversationConflict` if its revision differs."""
        placed, version = await self._documents.find(conversation_id)
        if placed is None or placed.record.revision != expected_revision:
            raise ConversationConflict(conversation_id)
        # The messages go first: a process that dies in between leaves a record that can be deleted again.
        await self._documents.erase(placed.home)
        try:
            await self._documents.drop(conversation_id, expect=version)
        except Conflict:
            raise ConversationConflict(conversation_id) from None

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return one entry of a PydanticAI conversation; raise `LookupError` if it is unknown."""
        entry = await self._documents.get(await self._documents.home_of(entry_id), entry_id)
        if entry is None:
            raise KeyError(entry_id)
        return entry

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """Return the entries from the first to `head_id`, in order; with `limit`, only the last `limit` of them."""
        if head_id is None or limit == 0:
            return []
        entries = await self._documents.entries(await self._documents.home_of(head_id))
        found: list[ConversationEntry] = []
        at: str | None = head_id
        while at is not None and (limit is None or len(found) < limit):
            found.append(entries[at])
            if len(found) > len(entries):
                raise InvalidRecord(
                    f"the stored history is damaged: entry {at!r} is its own ancestor",
                    remedy=_REMEDY,
                )
            at = entries[at].parent_id
        found.reverse()
        return found

    async def _inherited_entries(self, first: str | None, home: str) -> list[ConversationEntry]:
        """Return the history to copy into the conversation of a fork; empty if it is there already."""
        if first is None or await self._documents.get(home, first) is not None:
            return []
        return await self.read_history(first)


class _Documents:
    """Reads and writes stored PydanticAI conversations: an index of records, and the entries of each."""

    def __init__(self, memory: AsyncMemory, name: str) -> None:
        self._store, self._scope = memory.store, memory.scope
        self._names = replace(PYDANTIC_AI_HOMES, name=name)
        self._index = f"{name}:{PYDANTIC_AI_HOMES.index}"
        self._homes: SizedCache[str, str] = SizedCache(limit=_MOST_HOMES)
        """Id of the store's conversation that holds an entry (its home), by entry id; entries never move."""

    def new_home(self, conversation_id: str) -> str:
        """Return a new unique id for the conversation that holds a PydanticAI conversation's messages."""
        return new_home(self._home_prefix(conversation_id))

    def _home_prefix(self, conversation_id: str) -> str:
        return self._names.prefix(conversation_id)

    async def find(self, conversation_id: str) -> tuple[_Placed | None, int]:
        """Return a conversation's stored record and the version of its document; (None, 0) if there is none."""
        document = await self._store.get_document(
            self._scope, self._index, _RECORD, conversation_id
        )
        if document is None:
            return None, 0
        placed = self._placed(document)
        self._remember_heads(placed)
        return placed, document.version

    async def all(self) -> list[_Placed]:
        documents = await all_documents(self._store, self._scope, self._index, _RECORD)
        return [self._placed(document) for document in documents]

    def _placed(self, document: Document) -> _Placed:
        """Decode a stored record; raise `InvalidRecord` if it names messages that are not its own."""
        placed = _decoded(_placed, document)
        conversation_id = placed.record.conversation_id
        if conversation_id != document.key or not is_home(
            placed.home, self._home_prefix(conversation_id)
        ):
            raise InvalidRecord(
                f"the stored document of this conversation names {placed.home[:200]!r} as the place of its messages, "
                "but that conversation does not belong to it",
                path=document.key,
                remedy=_REMEDY,
            )
        return placed

    async def place(self, placed: _Placed, *, expect: int) -> None:
        """Write the record of a PydanticAI conversation; raise `Conflict` if its document has another version."""
        body = _placed.dump_json([placed])
        document = Document(_RECORD, placed.record.conversation_id, body, 0)
        await self._store.put_document(self._scope, self._index, document, expect=expect)
        self._remember_heads(placed)

    async def drop(self, conversation_id: str, *, expect: int) -> None:
        await self._store.drop_document(
            self._scope, self._index, _RECORD, conversation_id, expect=expect
        )

    async def refuse_erased(self, conversation_id: str, home: str = "") -> None:
        """Raise `ConversationDeleted` if the session of this id was erased; first delete what is stored in `home`."""
        try:
            await refuse_erased(self._store, self._scope, conversation_id)
        except ConversationDeleted:
            if home:
                await self.erase(home)
                await self._store.drop_document(self._scope, self._index, _RECORD, conversation_id)
            raise

    async def erase(self, home: str) -> None:
        """Erase the conversation of the store that holds a PydanticAI conversation's messages."""
        await self._store.delete(self._scope, home)

    async def home_of(self, entry_id: str) -> str:
        """Return the conversation of the store that holds an entry; raise `KeyError` if there is none."""
        known = self._homes.get(entry_id)
        if known and await self.get(known, entry_id) is not None:
            return known
        for placed in await self.all():
            if await self.get(placed.home, entry_id) is not None:
                self._homes.put(entry_id, placed.home)
                return placed.home
        raise KeyError(entry_id)

    async def put(self, home: str, entry: ConversationEntry) -> None:
        document = Document(_ENTRY, entry.id, _entry.dump_json([entry]), 0)
        await self._store.put_document(self._scope, home, document)

    async def get(self, home: str, entry_id: str) -> ConversationEntry | None:
        document = await self._store.get_document(self._scope, home, _ENTRY, entry_id)
        return _decoded(_entry, document) if document else None

    async def entries(self, home: str) -> dict[str, ConversationEntry]:
        documents = await all_documents(self._store, self._scope, home, _ENTRY)
        return {document.key: _decoded(_entry, document) for document in documents}

    def _remember_heads(self, placed: _Placed) -> None:
        for entry_id in (placed.record.head_id, *placed.record.branches):
            if entry_id is not None:
                self._homes.put(entry_id, placed.home)
