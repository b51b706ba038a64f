"""`EncryptedStore`: a store in front of another one that encrypts everything it writes.

The store behind it, its index, its files and its cache contain no text: entries, checkpoints (summaries) and documents
are encrypted with a key of their conversation (see keys.py; records.py says what is authenticated with each).

The seq of an entry is authenticated, so it must be known before the entry is stored. `append` assumes the newest entry
that this process knows of, and tries again with a new seq if another writer was faster.

A search in one conversation uses an index in memory (see search.py). A search over all conversations is refused: it
would have to decrypt everything, or store hashes of words, whose frequencies reveal words.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace as changed
from typing import IO, Final, TypeVar

import msgspec

from turnfold.errors import Conflict, IdReused, InvalidOption, InvalidRecord
from turnfold.records import (
    Checkpoint,
    Document,
    Entry,
    Message,
    NewEntry,
    decode_message,
    encode_message,
)
from turnfold.search import ALL_ENTRIES, Hit, Within, query_terms
from turnfold.stores.encryption.keys import (
    ConversationKeys,
    DataKey,
    EncryptionKey,
    KeyRing,
    check_conversation,
    list_conversations,
    not_encrypted,
)
from turnfold.stores.encryption.records import (
    SealedCounter,
    document_is_sealed,
    is_taken_back,
    message_is_sealed,
    open_checkpoint,
    open_document,
    open_entry,
    seal_checkpoint,
    seal_document,
    seal_entries,
    seal_message,
)
from turnfold.stores.encryption.search import ConversationIndex, IndexCache, IndexUpdate
from turnfold.stores.log_semantics import check_batch, check_checkpoint, check_document
from turnfold.stores.protocol import (
    Ability,
    Appended,
    Captured,
    ConversationInfo,
    ConversationOpening,
    Erasure,
    Head,
    Health,
    Piece,
    Restored,
    Scope,
    State,
    Store,
    View,
    Written,
    check_name,
    check_page,
)
from turnfold.stores.restore_checks import PieceOrder
from turnfold.tokens import TokenCounter, cautious_counter

__all__ = ("EncryptedStore",)


_MAX_HEADS: Final = 10_000
_MAX_TRIES: Final = 256
_MAX_UPDATES: Final = 8
_PAGE: Final = 500
_MANY: Final = 64
"""Most entries that are decrypted on the event loop; more are decrypted in a thread."""
_SPOOLED: Final = 8 << 20
"""Most bytes of pieces to restore that are kept in memory; more are written to a temporary file, encrypted."""
_Result = TypeVar("_Result")


class EncryptedStore:
    """A store in front of another one that encrypts everything that is written.

    `open_inner` opens the store behind, with the token counter it is given, which can count encrypted messages:

        EncryptedStore(lambda counter: SqliteStore("chat.db", counter=counter), key)

    `key` is the user's key, 32 bytes or their hexadecimal or base64 form. Several may be given: the first one encrypts,
    the others still decrypt what they encrypted, until `rotate_keys` was called for every tenant.
    """

    def __init__(
        self,
        open_inner: Callable[[TokenCounter], Store],
        key: EncryptionKey | Sequence[EncryptionKey],
        *,
        counter: TokenCounter | None = None,
    ) -> None:
        ring = KeyRing(key)  # refused before anything is opened
        self._counter = SealedCounter(counter or cautious_counter())
        inner = self._inner = open_inner(self._counter)
        self._keys = self._counter.keys = ConversationKeys(inner, ring)
        self._ring = ring
        self._indexes = IndexCache()
        self._heads: dict[tuple[str, str], int] = {}
        """The newest seq that this process knows of, by tenant and conversation."""
        self.blocking = inner.blocking
        # The seq of an entry is chosen before it is stored: two appends that are not awaited could change places.
        self.abilities = inner.abilities - {Ability.IN_ORDER, Ability.BACKUP} | {Ability.ENCRYPTED}

    async def append(
        self,
        scope: Scope,
        conversation: str,
        entries: Sequence[NewEntry],
        *,
        expect: int | None = None,
    ) -> Appended:
        """Encrypt and append a batch of entries.

        If another writer appended first, try again, unless `expect` is set.
        """
        check_batch(entries)
        key, place = await self._keys.make(scope, conversation), (scope.tenant, conversation)
        after = self._heads.get(place) if expect is None else expect
        if after is None and self._keys.is_new(scope, conversation):
            after = 0
        for _ in range(_MAX_TRIES):
            if after is None:
                after = (await self._inner.head(scope, conversation)).seq
            sealed = seal_entries(key, list(entries), after)
            try:
                done = await self._append(scope, conversation, entries, sealed, after)
            except IdReused:
                known = await self._same_stored(scope, key, entries)
                if known is None:
                    raise
                done = await self._append(scope, conversation, entries, known, None)
            except Conflict:
                await self._check_encrypted(scope, conversation)
                if expect is not None:
                    raise
                after = None
                continue
            self._remember_head(place, done.head.seq)
            if not done.repeated:
                await self._keys.check_first_write(scope, key, done.before)
            return done
        raise Conflict(
            f"other writers appended to the conversation first, {_MAX_TRIES} times in a row; nothing was written: "
            "append again"
        )

    async def _check_encrypted(self, scope: Scope, conversation: str) -> None:
        """Raise `WrongKey` if the conversation is new and another process has written plain text to it."""
        if not self._keys.is_new(scope, conversation):
            return
        found: list[Document] = []
        await self._inner.capture(scope, conversation, found.append)
        first = await self._inner.read(scope, conversation, limit=1)
        sealed = [
            *map(document_is_sealed, found),
            *(message_is_sealed(one.message) for one in first),
        ]
        if not all(sealed):
            raise not_encrypted(scope, conversation)
        self._keys.mark_used(scope, conversation)

    async def _append(
        self,
        scope: Scope,
        conversation: str,
        plain: Sequence[NewEntry],
        sealed: Sequence[NewEntry],
        expect: int | None,
    ) -> Appended:
        with self._counted([(s.message, p.message) for s, p in zip(sealed, plain, strict=True)]):
            return await self._inner.append(scope, conversation, sealed, expect=expect)

    @contextmanager
    def _counted(self, pairs: Sequence[tuple[Message, Message]]) -> Generator[None]:
        """Context manager: while it is open, the token counter counts these encrypted messages by their plain form."""
        for sealed, plain in pairs:
            self._counter.remember(sealed, plain)
        try:
            yield
        finally:
            for sealed, _ in pairs:
                self._counter.forget(sealed)

    async def _same_stored(
        self, scope: Scope, key: DataKey, entries: Sequence[NewEntry]
    ) -> list[NewEntry] | None:
        """Return the stored entries of a batch, encrypted; None if any is missing or has other content."""
        ids = [one.client_id for one in entries]
        found = await self._inner.find(scope, key.conversation, ids)
        known = {entry.client_id: entry for entry in found}
        if known.keys() != set(ids):
            return None
        for one in entries:
            stored = open_entry(key, known[one.client_id], scope.tenant, key.conversation)
            if stored.message != one.message:
                return None
        return [NewEntry(known[one.client_id].message, one.client_id) for one in entries]

    async def content_digest(self, scope: Scope, conversation: str, data: bytes, size: int) -> str:
        """Return a digest of content for an id, which is stored in plain text: keyed with the conversation's key."""
        return (await self._keys.make(scope, conversation)).digest(data, size)

    def _remember_head(self, place: tuple[str, str], seq: int) -> None:
        if len(self._heads) >= _MAX_HEADS:
            self._heads.clear()
        self._heads[place] = seq

    async def head(self, scope: Scope, conversation: str) -> Head:
        """Return the head of a conversation (newest seq, totals, version); none of it is encrypted."""
        return await self._inner.head(scope, conversation)

    async def view(self, scope: Scope, conversation: str, kinds: Sequence[str]) -> View:
        """Return a conversation's head (newest seq, version), live checkpoint and documents at one moment, plain."""
        key = await self._keys.find(scope, conversation)
        view = await self._inner.view(scope, conversation, kinds)
        if key is None and (view.checkpoint is not None or view.documents):
            key = await self._keys.find(scope, conversation)  # made meanwhile
        place = (scope.tenant, conversation)
        live = view.checkpoint
        return View(
            view.head,
            None if live is None else open_checkpoint(key, live, place),
            tuple(open_document(key, each, place) for each in view.documents),
        )

    async def read(
        self,
        scope: Scope,
        conversation: str,
        *,
        after: int = 0,
        upto: int | None = None,
        limit: int = 1000,
    ) -> list[Entry]:
        """Return the entries with `after < seq <= upto`, oldest first, decrypted."""
        key = await self._keys.find(scope, conversation)
        found = await self._inner.read(scope, conversation, after=after, upto=upto, limit=limit)
        return await self._opened(scope, conversation, found, key)

    async def read_ranges(
        self, scope: Scope, conversation: str, ranges: Sequence[tuple[int, int]]
    ) -> list[Entry]:
        """Return the entries of these ranges (first seq, last seq), oldest first, decrypted."""
        key = await self._keys.find(scope, conversation)
        found = await self._inner.read_ranges(scope, conversation, ranges)
        return await self._opened(scope, conversation, found, key)

    async def read_turn(self, scope: Scope, conversation: str, turn: int) -> list[Entry]:
        """Return the entries of one turn (a user message and what follows it), decrypted."""
        key = await self._keys.find(scope, conversation)
        found = await self._inner.read_turn(scope, conversation, turn)
        return await self._opened(scope, conversation, found, key)

    async def find(self, scope: Scope, conversation: str, client_ids: Sequence[str]) -> list[Entry]:
        """Return the entries with these client ids, decrypted."""
        key = await self._keys.find(scope, conversation)
        found = await self._inner.find(scope, conversation, client_ids)
        return await self._opened(scope, conversation, found, key)

    async def tail(
        self, scope: Scope, conversation: str, *, tokens: int, messages: int = 0
    ) -> list[Entry]:
        """Return the newest entries that have at most `tokens` tokens together, oldest first, decrypted."""
        key = await self._keys.find(scope, conversation)  # a recount decrypts
        found = await self._inner.tail(scope, conversation, tokens=tokens, messages=messages)
        return await self._opened(scope, conversation, found, key)

    async def _opened(
        self, scope: Scope, conversation: str, entries: Sequence[Entry], key: DataKey | None
    ) -> list[Entry]:
        """Return the entries decrypted with `key`.

        If `key` is None, the conversation's key is looked up again, because it may have been created since.
        """
        if not entries:
            return []
        if key is None:
            key = await self._keys.find(scope, conversation)  # made meanwhile
        left = [each.seq for each in entries if is_taken_back(each.message)]
        plain = await self._taken_back(scope, conversation, left[-1]) if left else 0

        def work() -> list[Entry]:
            return [
                each if each.seq <= plain else open_entry(key, each, scope.tenant, conversation)
                for each in entries
            ]

        return await self._run(work, many=len(entries) > _MANY)

    async def _taken_back(self, scope: Scope, conversation: str, upto: int) -> int:
        """Return the seq of the last of the first entries that were written without the key and taken back.

        Only the first entries of a log can be: in place of a later one, such a placeholder hides what was there.
        """
        seq = 0
        while seq < upto:
            page = await self._inner.read(scope, conversation, after=seq, upto=upto, limit=_PAGE)
            for entry in page:
                if not is_taken_back(entry.message):
                    return seq
                seq = entry.seq
            if not page:
                return seq
        return seq

    async def _run(self, work: Callable[[], _Result], *, many: bool = True) -> _Result:
        """Return the result of `work`, which processes entries.

        With `many` entries it runs in a thread, unless the store itself blocks the caller.
        """
        return work() if self.blocking or not many else await asyncio.to_thread(work)

    async def add_checkpoint(
        self,
        scope: Scope,
        conversation: str,
        checkpoint: Checkpoint,
        *,
        seen: tuple[int, int] | None = None,
    ) -> Checkpoint:
        """Encrypt a checkpoint (summary of the log up to an entry) and add it to the conversation."""
        check_name(conversation, "conversation id")
        check_checkpoint(checkpoint)
        key = await self._keys.make(scope, conversation)
        sealed = seal_checkpoint(key, checkpoint)
        stored = await self._inner.add_checkpoint(scope, conversation, sealed, seen=seen)
        return changed(checkpoint, created=stored.created)

    async def live_checkpoint(self, scope: Scope, conversation: str) -> Checkpoint | None:
        """Return the newest checkpoint (summary) of a conversation decrypted; None if there is none yet."""
        found = await self._inner.live_checkpoint(scope, conversation)
        key = await self._keys.find(scope, conversation)
        return None if found is None else open_checkpoint(key, found, (scope.tenant, conversation))

    async def checkpoints(self, scope: Scope, conversation: str) -> list[Checkpoint]:
        """Return all checkpoints (summaries) of a conversation decrypted, oldest first."""
        found = await self._inner.checkpoints(scope, conversation)
        key = await self._keys.find(scope, conversation)
        return [open_checkpoint(key, each, (scope.tenant, conversation)) for each in found]

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
        """Remove a checkpoint (summary) and all later ones, and write or remove the documents passed.

        Returns the checkpoints decrypted.
        """
        for document in put:
            check_document(document)
        key = await self._keys.find(scope, conversation)
        gone = await self._inner.drop_checkpoint(
            scope,
            conversation,
            checkpoint,
            put=[seal_document(key, each) for each in put] if key else (),
            drop=drop,
            state=state,
        )
        return [open_checkpoint(key, each, (scope.tenant, conversation)) for each in gone]

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
        """Encrypt a document and write it; like `Store.put_document` otherwise."""
        check_name(conversation, "conversation id")
        check_document(document)
        key = await self._keys.make(scope, conversation)
        sealed = seal_document(key, document)
        if state is None and self._keys.is_new(scope, conversation):
            try:  # nobody has written to it before
                done = await self._inner.put_document(
                    scope, conversation, sealed, expect=expect, state=(0, 0), seen=seen
                )
            except Conflict:
                await self._check_encrypted(scope, conversation)
                return await self.put_document(
                    scope, conversation, document, expect=expect, seen=seen
                )
        else:
            done = await self._inner.put_document(
                scope, conversation, sealed, expect=expect, state=state, seen=seen
            )
        await self._keys.check_first_write(scope, key, done.before)
        stored = changed(document, version=done.document.version, created=done.document.created)
        return Written(stored, done.before, done.after)

    async def note(
        self, scope: Scope, conversation: str, document: Document, *, state: State
    ) -> State:
        """Encrypt a new document, write it if the conversation has the version `state`, and return the new version.

        Raises `Conflict` if the conversation has another version (generation and epoch).
        """
        check_name(conversation, "conversation id")
        check_document(document)
        key = await self._keys.make(scope, conversation)
        after = await self._inner.note(
            scope, conversation, seal_document(key, document), state=state
        )
        await self._keys.check_first_write(scope, key, state)
        return after

    async def get_document(
        self, scope: Scope, conversation: str, kind: str, key: str
    ) -> Document | None:
        """Return one document, decrypted; None if there is none."""
        found = await self._inner.get_document(scope, conversation, kind, key)
        data_key = await self._keys.find(scope, conversation)
        if found is None:
            return None
        return open_document(data_key, found, (scope.tenant, conversation))

    async def documents(
        self, scope: Scope, conversation: str, kind: str, *, after: str = "", limit: int = 1000
    ) -> list[Document]:
        """Return a page of the documents of a kind in key order, decrypted."""
        found = await self._inner.documents(scope, conversation, kind, after=after, limit=limit)
        key = await self._keys.find(scope, conversation)
        return [open_document(key, each, (scope.tenant, conversation)) for each in found]

    async def drop_document(
        self, scope: Scope, conversation: str, kind: str, key: str, *, expect: int | None = None
    ) -> bool:
        """Remove a document; return True if it existed. Raises `Conflict` if it has another version than `expect`."""
        await self._keys.find(scope, conversation)
        return await self._inner.drop_document(scope, conversation, kind, key, expect=expect)

    async def conversations(
        self, scope: Scope, *, after: str = "", limit: int = 100
    ) -> list[ConversationInfo]:
        """Return the conversations of a tenant, without those that only store encryption keys."""
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
        """Search one conversation; a search over all of them raises `InvalidOption`."""
        check_page("", limit)
        if conversation is None:
            raise InvalidOption(
                "an encrypted store searches one conversation at a time: give the conversation; a search over all of "
                "them would have to decrypt everything"
            )
        key = await self._keys.find(scope, conversation)
        if key is None or not query_terms(terms):
            await self._inner.head(scope, conversation)  # raises the errors of the store behind
            return []
        place = (scope.tenant, conversation)
        for attempt in range(_MAX_UPDATES):
            index = None if attempt else self._indexes.get(place)
            index, update = await self._index_update(scope, key, index)
            if update is None:
                self._indexes.drop(place)
                return []
            found = await self._search_index(index, update, terms, limit, within)
            if found is not None:
                self._indexes.put(place, index)
                return found
        raise Conflict(
            f"the conversation changed {_MAX_UPDATES} times while its search index was updated: search again"
        )

    async def _search_index(
        self,
        index: ConversationIndex,
        update: IndexUpdate,
        terms: Sequence[str],
        limit: int,
        within: Within,
    ) -> list[Hit] | None:
        return await self._run(lambda: index.search(update, terms, limit=limit, within=within))

    async def _index_update(
        self, scope: Scope, key: DataKey, index: ConversationIndex | None
    ) -> tuple[ConversationIndex, IndexUpdate | None]:
        """Return the search index of a conversation, and the changes that it needs.

        It is a new index if entries of the old one were replaced. The changes are None if the conversation does not
        exist, or is deleted meanwhile.
        """
        conversation = key.conversation
        if index is not None and index.seq:
            seq = index.seq
            found = await self._inner.read(scope, conversation, after=seq - 1, upto=seq, limit=1)
            if not found or found[0].epoch != index.epoch:
                index = None
        index = index or ConversationIndex()
        documents: dict[tuple[str, str], Document] = {}

        def take(sealed: Document) -> None:
            document = open_document(key, sealed, (scope.tenant, conversation))
            if document.text:
                documents[document.kind, document.key] = document

        captured = await self._inner.capture(scope, conversation, take)
        if captured is None:
            return index, None
        entries: list[Entry] = []
        after, upto = index.seq, captured.head.seq
        while after < upto:
            page = await self.read(scope, conversation, after=after, upto=upto, limit=_PAGE)
            if not page:
                return index, None  # deleted meanwhile
            entries += page
            after = page[-1].seq
        place = (scope.tenant, conversation)
        live = [open_checkpoint(key, each, place) for each in captured.checkpoints]
        return index, IndexUpdate(scope, captured.opening, entries, live, documents)

    async def capture(
        self, scope: Scope, conversation: str, take: Callable[[Document], None]
    ) -> Captured | None:
        """Return the opening, head (version) and checkpoints of a conversation, decrypted; None if it does not exist.

        `take` is called with each document.
        """
        key, place = await self._keys.find(scope, conversation), (scope.tenant, conversation)

        def take_opened(document: Document) -> None:
            take(open_document(key, document, place))

        captured = await self._inner.capture(scope, conversation, take_opened)
        if captured is None:
            return None
        live = tuple(open_checkpoint(key, each, place) for each in captured.checkpoints)
        return changed(captured, checkpoints=live)

    async def restore(self, scope: Scope, pieces: Iterable[Piece]) -> Restored:
        """Encrypt whole conversations and write them, all or none.

        All data keys must be stored before the one transaction that restores everything begins. So the pieces are read
        first and kept in memory or, encrypted, in a temporary file.
        """
        with tempfile.SpooledTemporaryFile(max_size=_SPOOLED) as file:
            spool = _Spool(file, self._ring)
            names = await self._run(lambda: spool.write(pieces))
            keys = {name: await self._keys.make(scope, name) for name in names}

            def sealed() -> Iterator[Piece]:
                key: DataKey | None = None
                for piece in spool.read():
                    if isinstance(piece, ConversationOpening):
                        key = keys[piece.conversation]
                    yield _seal_piece(key, piece)

            try:
                return await self._inner.restore(scope, sealed())
            except Conflict as error:  # a checkpoint has its whole content in one field
                told = str(error).replace(
                    "different digest", "different text, digest, model or trust"
                )
                raise type(error)(told) from None

    async def delete(self, scope: Scope, conversation: str) -> Erasure:
        """Delete a conversation, then its data key, so that copies in backups and old pages cannot be read any more.

        The user's key need not be the right one: a conversation that cannot be decrypted can still be deleted.
        """
        check_conversation(conversation)
        erasure = await self._inner.delete(scope, conversation)
        await self._keys.delete(scope, conversation)
        self._heads.pop((scope.tenant, conversation), None)
        self._indexes.drop((scope.tenant, conversation))
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
        """Erase an entry; the message that replaces it and the documents in `replace` are encrypted."""
        for document in replace:
            check_document(document)
        key = await self._keys.find(scope, conversation)
        found = await self._inner.read(
            scope, conversation, after=max(seq - 1, 0), upto=max(seq, 0), limit=1
        )
        if key is None or not found:
            return await self._inner.erase(scope, conversation, seq, message)  # raises its error
        sealed = seal_message(key, message, seq, found[0].client_id)
        with self._counted([(sealed, message)]):
            erasure = await self._inner.erase(
                scope,
                conversation,
                seq,
                sealed,
                replace=[seal_document(key, each) for each in replace],
                drop=drop,
            )
        self._indexes.drop((scope.tenant, conversation))
        return erasure

    async def rotate_keys(self, scope: Scope) -> int:
        """Wrap (encrypt) a tenant's data keys again with the first of the user's keys.

        Returns the number of data keys that had an older one.

        Before that, every process that uses the store must have both keys, the old and the new one. Data keys and the
        encrypted content do not change.
        """
        return await self._keys.rotate(scope)

    async def health(self) -> Health:
        """Report the health of the store behind this one, and the id of the user's key in use."""
        inner = await self._inner.health()
        details = {**inner.details, "encryption": f"AES-256-SIV, key {self._ring.current}"}
        return changed(inner, backend=f"{inner.backend}+encryption", details=details)

    async def close(self) -> None:
        """Close the store behind this one and the search indexes in memory."""
        self._indexes.clear()
        await self._inner.close()


def _seal_piece(key: DataKey | None, piece: Piece) -> Piece:
    if key is None or isinstance(piece, ConversationOpening):
        return piece
    if isinstance(piece, Entry):
        return changed(piece, message=seal_message(key, piece.message, piece.seq, piece.client_id))
    if isinstance(piece, Document):
        return seal_document(key, piece)
    return seal_checkpoint(key, piece)


class _Spooled(msgspec.Struct, array_like=True):
    """One line of a restore's temporary file: a document, entry, checkpoint or the opening of a conversation."""

    kind: int
    message: bytes
    piece: msgspec.Raw


_KINDS: Final = (ConversationOpening, Document, Entry, Checkpoint)
_LENGTH: Final = 8


class _EntryForm(msgspec.Struct, array_like=True):
    """The fields of an entry in the temporary file, without its message."""

    seq: int
    client_id: str
    created: int
    turn: int
    epoch: int


class _Spool:
    """Temporary file with the data of a restore, encrypted with a random key that only this process has."""

    def __init__(self, file: IO[bytes], ring: KeyRing) -> None:
        self._file = file
        self._key = ring.new_key("", "")
        self._count = 0

    def write(self, pieces: Iterable[Piece]) -> list[str]:
        """Write the data of a restore to the file, and return the ids of the conversations.

        Raises an error if data is invalid.
        """
        names: dict[str, None] = {}
        order = PieceOrder()
        for piece in pieces:
            order.take(piece)
            if isinstance(piece, ConversationOpening):
                names[piece.conversation] = None
            data = self._key.encrypt(_spooled(piece), self._count)
            self._file.write(len(data).to_bytes(_LENGTH) + data)
            self._count += 1
        return list(names)

    def read(self) -> Iterator[Piece]:
        """Yield the data of a restore from the file, in order; may be called several times."""
        self._file.seek(0)
        for number in range(self._count):
            data = self._file.read(int.from_bytes(self._file.read(_LENGTH)))
            plain = self._key.decrypt(data, number)
            if plain is None:
                raise InvalidRecord(
                    "the temporary file of a restore was changed by another program, and nothing was written: "
                    "restore again"
                )
            yield _unspooled(plain)


def _spooled(piece: Piece) -> bytes:
    message = b""
    form: object = piece
    if isinstance(piece, Entry):
        message = encode_message(piece.message)
        form = _EntryForm(piece.seq, piece.client_id, piece.created, piece.turn, piece.epoch)
    kind = _KINDS.index(type(piece))
    return msgspec.msgpack.encode(
        _Spooled(kind, message, msgspec.Raw(msgspec.msgpack.encode(form)))
    )


def _unspooled(data: bytes) -> Piece:
    found = msgspec.msgpack.decode(data, type=_Spooled)
    kind = _KINDS[found.kind]
    if kind is not Entry:
        return msgspec.msgpack.decode(found.piece, type=kind)
    form = msgspec.msgpack.decode(found.piece, type=_EntryForm)
    message = decode_message(found.message)
    return Entry(form.seq, message, form.client_id, form.created, form.turn, 0, 0, form.epoch)
