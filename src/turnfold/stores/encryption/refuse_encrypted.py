"""Wrapper for a store that was opened without a key: raises `WrongKey` where the store is encrypted.

Without it, an application that lacks the key would show placeholders in place of messages, and write plain text into an
encrypted store. Conversations that are encrypted are neither shown nor written to; as soon as a store has one, nothing
is written to any other conversation either. What is plain there, from the time before the store got a key, can still be
read, to be exported, and deleted.

Everything that is read is checked for encrypted content. Before the first write of this process to a conversation, the
store is asked whether it is encrypted: whether it has the mark of the first write with a key, or, for a store of an
earlier release, any wrapped key of the tenant. The first entries of a conversation are appended only if it is still
empty. After the first write to a new conversation and before it is acknowledged, the mark is looked for once more:
either this process sees the mark of one that writes with a key for the first time, and takes its write back, or its own
write came before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from turnfold.errors import Conflict, WrongKey
from turnfold.records import Checkpoint, Document, Entry, Message, NewEntry, erased_message
from turnfold.search import ALL_ENTRIES, Hit, Within
from turnfold.stores.encryption.keys import (
    any_key_conversation,
    check_conversation,
    delete_key,
    encrypted_conversations,
    is_key_conversation,
    is_marked,
    key_id,
    list_conversations,
    mark_store,
)
from turnfold.stores.encryption.records import (
    TAKEN_BACK,
    checkpoint_is_sealed,
    document_is_sealed,
    message_is_sealed,
)
from turnfold.stores.log_semantics import log_mark
from turnfold.stores.protocol import (
    Ability,
    Appended,
    Captured,
    ConversationInfo,
    ConversationOpening,
    Erasure,
    Piece,
    Restored,
    Scope,
    State,
    Store,
    View,
    Written,
)

__all__ = ("refuse_encrypted",)


_MAX_PLAIN: Final = 10_000
_REMEDY: Final = (
    "Nothing was shown or written. Give the key: encryption_key=, or for commands and the service "
    "--encryption-key-file PATH or TURNFOLD_ENCRYPTION_KEY_FILE"
)


def refuse_encrypted(store: Store) -> Store:
    """Return a wrapper of `store` that raises `WrongKey` for encrypted data and for writes to an encrypted store.

    Deleting is allowed. An `EncryptedStore`, or a store that is already wrapped, is returned as it is.
    """
    if Ability.ENCRYPTED in store.abilities or getattr(store, "refuses_encrypted", False):
        return store
    return cast("Store", _KeylessStore(store))


class _Gate:
    """Lock for the first appends to a conversation: one caller appends, the others wait until that is allowed."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()  # wakes waiters in the order of their calls
        self.inside = 0


class _KeylessStore:
    """Passes calls on to a store; raises `WrongKey` for encrypted data and for writes to an encrypted store."""

    refuses_encrypted = True

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self._plain: set[tuple[str, str]] = set()
        """Tenant and id of conversations that are known not to be encrypted."""
        self._writable: set[tuple[str, str]] = set()
        """Tenant and id of conversations to which this process has written while the store was not encrypted."""
        self._gates: dict[tuple[object, tuple[str, str]], _Gate] = {}
        durable = cast("Store | None", getattr(inner, "durable", None))
        if durable is not None:
            self.durable = refuse_encrypted(durable)
            """The wrapped store behind a cache, which some callers use directly."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever the store has)
        return getattr(self._inner, name)

    async def append(
        self,
        scope: Scope,
        conversation: str,
        entries: Sequence[NewEntry],
        *,
        expect: int | None = None,
    ) -> Appended:
        place = (scope.tenant, conversation)
        if place not in self._writable or self._gates:
            async with self._first_in_order(scope, conversation) as first:
                if first:
                    return await self._append_first(scope, conversation, entries, expect)
                return await self._inner.append(scope, conversation, entries, expect=expect)
        return await self._inner.append(scope, conversation, entries, expect=expect)

    async def _append_first(
        self, scope: Scope, conversation: str, entries: Sequence[NewEntry], expect: int | None
    ) -> Appended:
        """Append for the first time in this process; to a conversation that is not known only if it is empty."""
        await self._check_write(scope, conversation)
        empty = expect is None and (scope.tenant, conversation) not in self._plain
        if empty and (await self._inner.head(scope, conversation)).seq:
            empty = False
            await self.read(scope, conversation, limit=1)  # raises `WrongKey` if it is encrypted
        try:
            done = await self._inner.append(
                scope, conversation, entries, expect=0 if empty else expect
            )
        except Conflict:
            if not empty:
                raise
            await self.read(scope, conversation, limit=1)
            done = await self._inner.append(scope, conversation, entries, expect=expect)
        if await self._is_late(scope, conversation):
            for seq, entry in enumerate(entries if not done.repeated else (), done.first):
                gone = erased_message(entry.message, TAKEN_BACK)
                await self._inner.erase(scope, conversation, seq, gone)
            raise _taken_back(scope, conversation)
        return done

    async def view(self, scope: Scope, conversation: str, kinds: Sequence[str]) -> View:
        view = await self._inner.view(scope, conversation, kinds)
        live = () if view.checkpoint is None else (view.checkpoint,)
        await self._check_read(scope, conversation, checkpoints=live, documents=view.documents)
        return view

    async def read(
        self,
        scope: Scope,
        conversation: str,
        *,
        after: int = 0,
        upto: int | None = None,
        limit: int = 1000,
    ) -> list[Entry]:
        found = await self._inner.read(scope, conversation, after=after, upto=upto, limit=limit)
        await self._check_entries(scope, conversation, found)
        return found

    async def read_ranges(
        self, scope: Scope, conversation: str, ranges: Sequence[tuple[int, int]]
    ) -> list[Entry]:
        found = await self._inner.read_ranges(scope, conversation, ranges)
        await self._check_entries(scope, conversation, found)
        return found

    async def read_turn(self, scope: Scope, conversation: str, turn: int) -> list[Entry]:
        found = await self._inner.read_turn(scope, conversation, turn)
        await self._check_entries(scope, conversation, found)
        return found

    async def find(self, scope: Scope, conversation: str, client_ids: Sequence[str]) -> list[Entry]:
        found = await self._inner.find(scope, conversation, client_ids)
        await self._check_entries(scope, conversation, found)
        return found

    async def tail(
        self, scope: Scope, conversation: str, *, tokens: int, messages: int = 0
    ) -> list[Entry]:
        await self._check(scope, conversation)  # a recount would count placeholders, and store that
        found = await self._inner.tail(scope, conversation, tokens=tokens, messages=messages)
        await self._check_entries(scope, conversation, found)
        return found

    async def add_checkpoint(
        self,
        scope: Scope,
        conversation: str,
        checkpoint: Checkpoint,
        *,
        seen: tuple[int, int] | None = None,
    ) -> Checkpoint:
        await self._check_write(scope, conversation)
        return await self._inner.add_checkpoint(scope, conversation, checkpoint, seen=seen)

    async def live_checkpoint(self, scope: Scope, conversation: str) -> Checkpoint | None:
        found = await self._inner.live_checkpoint(scope, conversation)
        if found is not None:
            await self._check_read(scope, conversation, checkpoints=(found,))
        return found

    async def checkpoints(self, scope: Scope, conversation: str) -> list[Checkpoint]:
        found = await self._inner.checkpoints(scope, conversation)
        await self._check_read(scope, conversation, checkpoints=found)
        return found

    async def drop_checkpoint(
        self,
        scope: Scope,
        conversation: str,
        checkpoint: str,
        *,
        put: Sequence[Document] = (),
        drop: Sequence[Document] = (),
        state: State | None = None,
    ) -> list[Checkpoint]:
        await self._check_write(scope, conversation)
        return await self._inner.drop_checkpoint(
            scope, conversation, checkpoint, put=put, drop=drop, state=state
        )

    async def put_document(
        self,
        scope: Scope,
        conversation: str,
        document: Document,
        *,
        expect: int | None = None,
        state: State | None = None,
        seen: tuple[int, int] | None = None,
    ) -> Written:
        await self._check_write(scope, conversation)
        done = await self._inner.put_document(
            scope, conversation, document, expect=expect, state=state, seen=seen
        )
        if await self._is_late(scope, conversation):
            await self._take_back(scope, conversation, done.document)
        return done

    async def note(
        self, scope: Scope, conversation: str, document: Document, *, state: State
    ) -> State:
        await self._check_write(scope, conversation)
        after = await self._inner.note(scope, conversation, document, state=state)
        if await self._is_late(scope, conversation):
            await self._take_back(scope, conversation, document)
        return after

    async def _take_back(self, scope: Scope, conversation: str, document: Document) -> None:
        """Remove a document that was written in plain text to an encrypted store, and raise `WrongKey`."""
        await self._inner.drop_document(scope, conversation, document.kind, document.key)
        raise _taken_back(scope, conversation)

    async def get_document(
        self, scope: Scope, conversation: str, kind: str, key: str
    ) -> Document | None:
        found = await self._inner.get_document(scope, conversation, kind, key)
        if found is not None:
            await self._check_read(scope, conversation, documents=(found,))
        return found

    async def documents(
        self, scope: Scope, conversation: str, kind: str, *, after: str = "", limit: int = 1000
    ) -> list[Document]:
        found = await self._inner.documents(scope, conversation, kind, after=after, limit=limit)
        await self._check_read(scope, conversation, documents=found)
        return found

    async def drop_document(
        self, scope: Scope, conversation: str, kind: str, key: str, *, expect: int | None = None
    ) -> bool:
        await self._check(scope, conversation)
        return await self._inner.drop_document(scope, conversation, kind, key, expect=expect)

    async def conversations(
        self, scope: Scope, *, after: str = "", limit: int = 100
    ) -> list[ConversationInfo]:
        return await list_conversations(self._inner, scope, after=after, limit=limit)

    async def search(
        self,
        scope: Scope,
        terms: Sequence[str],
        *,
        conversation: str | None = None,
        limit: int = 20,
        within: Within = ALL_ENTRIES,
    ) -> list[Hit]:
        if conversation is not None:
            await self._check(scope, conversation)
        found = await self._inner.search(
            scope, terms, conversation=conversation, limit=limit, within=within
        )
        if not found and conversation is None and await any_key_conversation(self._inner, scope):
            raise WrongKey(
                f"the store has encrypted conversations, which cannot be searched. {_REMEDY}, and search one "
                "conversation at a time"
            )
        return found

    async def capture(
        self, scope: Scope, conversation: str, take: Callable[[Document], None]
    ) -> Captured | None:
        sealed: list[Document] = []

        def take_plain(document: Document) -> None:
            if document_is_sealed(document):
                sealed.append(document)
            else:
                take(document)

        captured = await self._inner.capture(scope, conversation, take_plain)
        live = () if captured is None else captured.checkpoints
        await self._check_read(scope, conversation, checkpoints=live, documents=sealed)
        return captured

    async def restore(self, scope: Scope, pieces: Iterable[Piece]) -> Restored:
        """Restore conversations: encrypted data as it is, plain data only into a store that is not encrypted."""
        is_encrypted = await encrypted_conversations(self._inner, scope)
        refuses_plain = await self._is_encrypted(scope)
        plain, has_keys = "", False

        def checked() -> Iterator[Piece]:
            nonlocal plain, has_keys
            name = ""
            for piece in pieces:
                if isinstance(piece, ConversationOpening):
                    name = piece.conversation
                    has_keys = has_keys or is_key_conversation(name)
                elif not is_key_conversation(name) and not _is_sealed(piece):
                    if is_encrypted(name):
                        raise _refusal(scope, name, None)
                    if refuses_plain:
                        raise _store_refusal(scope, name)
                    plain = plain or name
                yield piece

        done = await self._inner.restore(scope, checked())
        if plain and not refuses_plain and await is_marked(self._inner):
            raise _plain_restored(scope, plain)
        if has_keys:
            await mark_store(self._inner)
        return done

    async def delete(self, scope: Scope, conversation: str) -> Erasure:
        """Delete a conversation and, if it is encrypted, its data key; this needs no key of the user."""
        check_conversation(conversation)
        erasure = await self._inner.delete(scope, conversation)
        await delete_key(self._inner, scope, conversation)
        self._plain.discard((scope.tenant, conversation))
        self._writable.discard((scope.tenant, conversation))
        return erasure

    async def erase(
        self,
        scope: Scope,
        conversation: str,
        seq: int,
        message: Message,
        *,
        replace: Sequence[Document] = (),
        drop: Sequence[Document] = (),
    ) -> Erasure:
        await self._check(scope, conversation)
        return await self._inner.erase(
            scope, conversation, seq, message, replace=replace, drop=drop
        )

    async def _check(self, scope: Scope, conversation: str) -> None:
        """Raise `WrongKey` if a conversation is encrypted; a conversation that was found plain is not checked again."""
        if (scope.tenant, conversation) in self._plain:
            return
        check_conversation(conversation)
        needed = await key_id(self._inner, scope, conversation)
        if needed is not None:
            raise _refusal(scope, conversation, needed)

    async def _check_write(self, scope: Scope, conversation: str) -> None:
        """Raise `WrongKey` if the store is encrypted, before anything is written to any of its conversations."""
        if (scope.tenant, conversation) in self._writable:
            return
        check_conversation(conversation)
        if await self._is_encrypted(scope):
            needed = await key_id(self._inner, scope, conversation)
            if needed is not None:
                raise _refusal(scope, conversation, needed)
            raise _store_refusal(scope, conversation)

    async def _is_late(self, scope: Scope, conversation: str) -> bool:
        """Return True after the first write to a conversation if the store was marked as encrypted meanwhile."""
        place = (scope.tenant, conversation)
        if place in self._writable:
            return False
        # In a conversation that was plain before, the write is no first one, and the check before it is enough.
        if place not in self._plain and await is_marked(self._inner):
            return True
        _add(self._writable, place)
        _add(self._plain, place)
        return False

    async def _is_encrypted(self, scope: Scope) -> bool:
        # Releases before the mark left only the keys of each tenant.
        return await is_marked(self._inner) or await any_key_conversation(self._inner, scope)

    @asynccontextmanager
    async def _first_in_order(self, scope: Scope, conversation: str) -> AsyncGenerator[bool]:
        """Context manager for an append: gives True to the first one of a conversation, for which the others wait.

        They are let in in the order of their calls.
        """
        place = (scope.tenant, conversation)
        if self.blocking:  # a blocking caller waits for every append
            yield place not in self._writable
            return
        where = (asyncio.get_running_loop(), place)
        gate = self._gates.get(where)
        if gate is None:
            if place in self._writable:
                yield False
                return
            gate = self._gates[where] = _Gate()
        gate.inside += 1
        try:
            async with gate.lock:
                if place not in self._writable:
                    yield True
                    return
            yield False
        finally:
            gate.inside -= 1
            if not gate.inside:
                self._gates.pop(where, None)

    async def _check_entries(
        self, scope: Scope, conversation: str, entries: Sequence[Entry]
    ) -> None:
        if any(message_is_sealed(each.message) for each in entries):
            await self._refuse(scope, conversation)
        if entries:
            _add(self._plain, (scope.tenant, conversation))

    async def _check_read(
        self,
        scope: Scope,
        conversation: str,
        *,
        checkpoints: Sequence[Checkpoint] = (),
        documents: Sequence[Document] = (),
    ) -> None:
        if any(map(document_is_sealed, documents)) or any(map(checkpoint_is_sealed, checkpoints)):
            await self._refuse(scope, conversation)
        if (documents or checkpoints) and not is_key_conversation(conversation):
            _add(self._plain, (scope.tenant, conversation))

    async def _refuse(self, scope: Scope, conversation: str) -> None:
        raise _refusal(scope, conversation, await key_id(self._inner, scope, conversation))


def _add(places: set[tuple[str, str]], place: tuple[str, str]) -> None:
    if place not in places:
        if len(places) >= _MAX_PLAIN:
            places.clear()
        places.add(place)


def _is_sealed(piece: Entry | Document | Checkpoint) -> bool:
    if isinstance(piece, Entry):
        return message_is_sealed(piece.message)
    if isinstance(piece, Document):
        return document_is_sealed(piece)
    return checkpoint_is_sealed(piece)


def _refusal(scope: Scope, conversation: str, needed: str | None) -> WrongKey:
    named = f" with the key {needed}" if needed else ""
    mark = log_mark(scope.tenant, conversation)
    return WrongKey(
        f"conversation {mark} is encrypted{named}, and no key was given. {_REMEDY}",
        conversation=conversation,
    )


def _store_refusal(scope: Scope, conversation: str) -> WrongKey:
    mark = log_mark(scope.tenant, conversation)
    return WrongKey(
        f"the store is encrypted, and no key was given to write to conversation {mark}. {_REMEDY}",
        conversation=conversation,
    )


def _taken_back(scope: Scope, conversation: str) -> WrongKey:
    mark = log_mark(scope.tenant, conversation)
    return WrongKey(
        f"conversation {mark} was written in plain text while another process encrypted the store; the text has been "
        "removed again: write it with the key, to a conversation with another id",
        conversation=conversation,
    )


def _plain_restored(scope: Scope, conversation: str) -> WrongKey:
    mark = log_mark(scope.tenant, conversation)
    return WrongKey(
        f"conversation {mark} was written in plain text while another process encrypted the store: delete it, and "
        "write it again with the key",
        conversation=conversation,
    )
