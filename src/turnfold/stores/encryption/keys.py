"""The keys of encrypted conversations: data keys, and the user's keys that encrypt (wrap) them.

Every conversation has its own data key: 64 random bytes, with which its entries, checkpoints (summaries) and documents
are encrypted (AES-256-SIV). The data key is stored encrypted (wrapped, AES-KW) with the user's key, together with the
id of that key. To rotate the user's key, the data keys are wrapped again; the data stays as it is. To erase a
conversation, its wrapped key is deleted.

A wrapped key is a document of a separate conversation, the key conversation: a document of the conversation itself
would change its generation before its first entry. The name of a key conversation is a digest, and listings leave it
out.

The first write with a key also marks the store as a whole, for all tenants, with a document of a reserved tenant: a
process without a key is then refused every write (see refuse_encrypted.py).
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from turnfold.errors import (
    Conflict,
    ConversationDeleted,
    InvalidOption,
    MissingExtra,
    UnsafeStore,
    WrongKey,
)
from turnfold.records import Document, decode_struct
from turnfold.stores.log_semantics import log_mark
from turnfold.stores.protocol import ConversationInfo, Scope, State, Store, check_name, check_page

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

__all__ = (
    "ConversationKeys",
    "DataKey",
    "EncryptionKey",
    "KeyRing",
    "any_key_conversation",
    "check_conversation",
    "delete_key",
    "encrypted_conversations",
    "is_key_conversation",
    "is_marked",
    "key_id",
    "list_conversations",
    "mark_store",
    "not_encrypted",
    "read_key_file",
)


EncryptionKey: TypeAlias = bytes | str
"""A key of the user: 32 bytes, or text with 64 hexadecimal digits or 44 characters of base64."""
_KEY_BYTES: Final = 32
_DATA_KEY_BYTES: Final = 64
_KIND: Final = "encryption-key"
_DOCUMENT_KEY: Final = "data"
_PREFIX: Final = "turnfold-key:"
_AFTER_KEYS: Final = f"{_PREFIX}~"
"""Text that sorts after the ids of all conversations with data keys: a listing continues after it."""
_STORE_SCOPE: Final = Scope(f"{_PREFIX}store")
_STORE_CONVERSATION: Final = f"{_PREFIX}store"
_STORE_MARK: Final = Document("encryption-store", "mark", b'{"v":1}', 0)
"""Marks a store as encrypted; the mark stays when all encrypted conversations are deleted."""
_PAGE: Final = 500
_MAX_KEYS: Final = 10_000
_MAX_TRIES: Final = 64
_REMEDY: Final = (
    "give 32 random bytes, or text that stands for them; `openssl rand -hex 32` makes one"
)


class _KeyNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The document in which a data key is stored, wrapped (encrypted) with a key of the user."""

    key: str
    """Id of the user's key that wraps (encrypts) the data key."""
    wrapped: str
    """The wrapped data key in base64."""
    v: int = 1


@dataclass(frozen=True, slots=True)
class DataKey:
    """The data key of one conversation: encrypts and decrypts its entries, checkpoints and documents."""

    id: str
    """Id of the data key: a hash, which reveals nothing about the key."""
    cipher: AESSIV
    secret: bytes
    tenant: str
    conversation: str

    def encrypt(self, data: bytes, *place: object) -> bytes:
        """Return `data` encrypted; it can be decrypted only with the same `place`, for example ("entry", seq).

        Equal data with equal places give equal bytes.
        """
        return self.cipher.encrypt(data, [self._associated(place)])

    def decrypt(self, data: bytes, *place: object) -> bytes | None:
        """Return `data` decrypted; None if it was changed, or not encrypted with this key and this `place`."""
        from cryptography.exceptions import InvalidTag

        try:
            return self.cipher.decrypt(data, [self._associated(place)])
        except (InvalidTag, ValueError):
            return None

    def digest(self, data: bytes, size: int) -> str:
        """Return a digest of `size` bytes that nobody can compute without this key."""
        key = blake2b(self.secret, person=b"turnfold digest").digest()
        return blake2b(data, key=key, digest_size=size).hexdigest()

    def _associated(self, place: Sequence[object]) -> bytes:
        return msgspec.json.encode((self.tenant, self.conversation, *place))


def read_key_file(path: str | Path) -> list[str]:
    """Return the user's keys from a file with one key per line: the first one encrypts, the others only decrypt."""
    try:
        lines = Path(path).read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOption(f"cannot read the encryption keys in {path}: {error}") from None
    keys = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not keys:
        raise InvalidOption(f"there is no encryption key in {path}: {_REMEDY}")
    return keys


def _key_bytes(given: EncryptionKey) -> bytes:
    """Return the 32 bytes of a user's key; errors never show any part of the key."""
    found = b""
    if isinstance(given, bytes):
        found = given
    elif isinstance(given, str):  # pyright: ignore[reportUnnecessaryIsInstance] (callers may not check types)
        text = given.strip()
        try:
            if re.fullmatch("[0-9a-fA-F]{64}", text):
                found = bytes.fromhex(text)
            else:
                found = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            found = b""
    else:
        raise InvalidOption(f"an encryption key must be bytes or text: {_REMEDY}")
    if len(found) != _KEY_BYTES:
        raise InvalidOption(f"an encryption key must have {_KEY_BYTES} bytes: {_REMEDY}")
    return found


def _digest(secret: bytes, purpose: bytes) -> str:
    return blake2b(secret, digest_size=8, person=purpose).hexdigest()


def _note(document: Document) -> _KeyNote:
    return decode_struct(document.body, _KeyNote, name="encryption key", path=_KIND)


class KeyRing:
    """The user's keys by id. The first one wraps data keys; the others only unwrap those wrapped before a rotation."""

    def __init__(self, keys: EncryptionKey | Sequence[EncryptionKey]) -> None:
        try:
            from cryptography.hazmat.primitives import keywrap
            from cryptography.hazmat.primitives.ciphers.aead import AESSIV
        except ImportError as missing:
            raise MissingExtra(
                package="cryptography", extra="encryption", purpose="encryption at rest"
            ) from missing
        given = [keys] if isinstance(keys, bytes | str) else list(keys)
        if not given:
            raise InvalidOption(f"no encryption key was given: {_REMEDY}")
        found = [_key_bytes(each) for each in given]
        self._by_id = {_digest(each, b"turnfold user"): each for each in found}
        self.current = _digest(found[0], b"turnfold user")
        """Id of the user's key that wraps data keys, the first one given."""
        self._wrapping, self._cipher = keywrap, AESSIV

    def new_key(self, tenant: str, conversation: str) -> DataKey:
        """Return a new random data key for a conversation; it is not stored here."""
        return self._data_key(secrets.token_bytes(_DATA_KEY_BYTES), tenant, conversation)

    def wrap(self, key: DataKey) -> Document:
        """Return a document that contains the data key, wrapped (encrypted) with the user's current key."""
        wrapped = self._wrapping.aes_key_wrap(self._by_id[self.current], key.secret)
        note = _KeyNote(self.current, base64.b64encode(wrapped).decode())
        return Document(_KIND, _DOCUMENT_KEY, msgspec.json.encode(note), 0)

    def unwrap(self, document: Document, tenant: str, conversation: str) -> DataKey:
        """Return the data key that a document contains, unwrapped (decrypted); raise `WrongKey` if that fails."""
        note, mark = self.note(document), log_mark(tenant, conversation)
        named = "" if is_key_conversation(conversation) else conversation  # in a rotation
        known = self._by_id.get(note.key)
        if known is None:
            raise WrongKey(
                f"conversation {mark} needs the encryption key with the id {note.key}; given: "
                f"{', '.join(self._by_id)}. Nothing was read. Give that key, after the current one if it is an old one",
                conversation=named,
            )
        try:
            secret = self._wrapping.aes_key_unwrap(known, base64.b64decode(note.wrapped))
        except (self._wrapping.InvalidUnwrap, binascii.Error, ValueError):
            secret = b""
        if len(secret) != _DATA_KEY_BYTES:
            raise WrongKey(
                f"the stored key of conversation {mark} is damaged: it cannot be unwrapped with the key {note.key}, "
                "which wrapped it. Restore the store from a backup",
                conversation=named,
            )
        return self._data_key(secret, tenant, conversation)

    def note(self, document: Document) -> _KeyNote:
        """Decode the document of a wrapped (encrypted) data key; the data key itself is not decrypted."""
        return _note(document)

    def _data_key(self, secret: bytes, tenant: str, conversation: str) -> DataKey:
        name = _digest(secret, b"turnfold data")
        return DataKey(name, self._cipher(secret), secret, tenant, conversation)


def is_key_conversation(name: str) -> bool:
    """Return True if a conversation id is that of a key conversation, which stores a wrapped key."""
    return name.startswith(_PREFIX)


def _key_conversation(tenant: str, conversation: str) -> str:
    text = f"{len(tenant)}:{tenant}{conversation}".encode()
    return f"{_PREFIX}{blake2b(text, digest_size=32).hexdigest()}"


async def _wrapped_key(store: Store, scope: Scope, conversation: str) -> Document | None:
    name = _key_conversation(scope.tenant, conversation)
    return await store.get_document(scope, name, _KIND, _DOCUMENT_KEY)


async def key_id(store: Store, scope: Scope, conversation: str) -> str | None:
    """Return the id of the user's key that a conversation needs; None if it is not encrypted."""
    stored = await _wrapped_key(store, scope, conversation)
    return None if stored is None else _note(stored).key


async def delete_key(store: Store, scope: Scope, conversation: str) -> None:
    """Delete the stored, wrapped data key of a conversation: an encrypted conversation can never be read again."""
    if await _wrapped_key(store, scope, conversation) is not None:
        await store.delete(scope, _key_conversation(scope.tenant, conversation))


async def mark_store(store: Store) -> None:
    """Mark a store as encrypted, for all tenants; does nothing if it is marked already."""
    if not await is_marked(store):
        with suppress(Conflict):  # another process marked it meanwhile
            await store.put_document(_STORE_SCOPE, _STORE_CONVERSATION, _STORE_MARK, expect=0)


async def is_marked(store: Store) -> bool:
    """Return True if a store is marked as encrypted; the first write with a key marks it before anything else."""
    # The head is never answered by a cache.
    return (await store.head(_STORE_SCOPE, _STORE_CONVERSATION)).generation > 0


async def any_key_conversation(store: Store, scope: Scope) -> bool:
    """Return True if any conversation of a tenant is encrypted."""
    page = await store.conversations(scope, after=_PREFIX, limit=1)
    return bool(page) and is_key_conversation(page[0].conversation)


async def encrypted_conversations(store: Store, scope: Scope) -> Callable[[str], bool]:
    """Return a function that tells if a conversation of this tenant was encrypted when this was called."""
    names: set[str] = set()
    after = _PREFIX
    while page := await store.conversations(scope, after=after, limit=_PAGE):
        names |= {each.conversation for each in page if is_key_conversation(each.conversation)}
        after = page[-1].conversation
        if len(page) < _PAGE or not is_key_conversation(after):
            break
    return lambda conversation: _key_conversation(scope.tenant, conversation) in names


async def list_conversations(
    store: Store, scope: Scope, *, after: str, limit: int
) -> list[ConversationInfo]:
    """Return a page of the conversations of a tenant, without those that only store encryption keys."""
    check_page(after, limit)
    found: list[ConversationInfo] = []
    while True:
        page = await store.conversations(scope, after=after, limit=limit)
        found += [each for each in page if not is_key_conversation(each.conversation)]
        if len(page) < limit or len(found) >= limit:
            return found[:limit]
        after = page[-1].conversation
        if is_key_conversation(after):
            after = _AFTER_KEYS


class ConversationKeys:
    """Reads, creates, rotates and deletes the data keys of conversations; caches those in use. Thread-safe."""

    def __init__(self, store: Store, ring: KeyRing) -> None:
        self._store, self._ring = store, ring
        self._lock = Lock()
        self._known: OrderedDict[tuple[str, str], DataKey] = OrderedDict()
        self._by_id: dict[str, DataKey] = {}
        self._new: set[tuple[str, str]] = set()
        """(tenant, id) of each conversation for which this process created a data key, but has not written anything
        yet."""
        self._is_marked = False
        """True if this process knows that the store is marked as encrypted."""

    async def find(self, scope: Scope, conversation: str) -> DataKey | None:
        """Return the data key of a conversation; None if nothing was written to the conversation, or it was deleted."""
        check_conversation(conversation)
        known = self._known.get((scope.tenant, conversation))
        if known is not None:
            return known
        stored = await self._stored(scope, conversation)
        if stored is None:
            return None
        return self._remember(self._ring.unwrap(stored, scope.tenant, conversation))

    async def make(self, scope: Scope, conversation: str) -> DataKey:
        """Return the data key of a conversation; create and store one if it has none.

        Marks the store as encrypted before this process writes to it for the first time. Raises `WrongKey` if the
        conversation has content that is not encrypted.
        """
        found = await self.find(scope, conversation)
        if not self._is_marked:  # here, because a store of an earlier release has keys and no mark
            await mark_store(self._store)
            self._is_marked = True
        if found is not None:
            return found
        if await self._exists(scope, conversation):
            found = await self.find(scope, conversation)
            if found is not None:
                return found  # another writer made it, and has written since
            raise not_encrypted(scope, conversation)
        made = self._ring.new_key(scope.tenant, conversation)
        if await self._put(scope, conversation, made):
            if len(self._new) >= _MAX_KEYS:
                self._new.clear()
            self._new.add((scope.tenant, conversation))
            return self._remember(made)
        found = await self.find(scope, conversation)
        if found is None:
            raise _erased(conversation)
        return found

    async def _exists(self, scope: Scope, conversation: str) -> bool:
        head = await self._store.head(scope, conversation)
        if head.seq or not head.generation:
            return bool(head.seq)
        # It has documents only, or was deleted.
        return await self._store.capture(scope, conversation, lambda _: None) is not None

    async def check_first_write(self, scope: Scope, key: DataKey, before: State) -> None:
        """After the first write with a data key, check that the store still has this key; store it again if not.

        `before` is the conversation's state before the write: (0, 0) for the first one. Other writes are not checked.
        Raises `UnsafeStore` if the store has another key by now.
        """
        self.mark_used(scope, key.conversation)
        if before != (0, 0):
            return
        stored = await self._stored(scope, key.conversation)
        if stored is None:
            await self._put(scope, key.conversation, key)
            stored = await self._stored(scope, key.conversation)
        if stored is not None:
            found = self._ring.unwrap(stored, scope.tenant, key.conversation)
            if found.secret != key.secret:
                self.forget(scope, key.conversation)
                raise UnsafeStore(
                    f"conversation {log_mark(scope.tenant, key.conversation)} has another data key by now: the store "
                    "was restored or failed over. Delete the conversation and start it again"
                )

    def is_new(self, scope: Scope, conversation: str) -> bool:
        """Return True if this process created the data key of a conversation and has written nothing with it yet."""
        return (scope.tenant, conversation) in self._new

    def mark_used(self, scope: Scope, conversation: str) -> None:
        """Record that something was written with the data key of a conversation; `is_new` is False from now on."""
        self._new.discard((scope.tenant, conversation))

    def by_id(self, name: str) -> DataKey | None:
        """Return the data key with this id from the cache; None if it is not cached."""
        return self._by_id.get(name)

    def forget(self, scope: Scope, conversation: str) -> None:
        """Drop the data key of a conversation from the cache; the stored key stays."""
        self.mark_used(scope, conversation)
        with self._lock:
            known = self._known.pop((scope.tenant, conversation), None)
            if known is not None:
                self._by_id.pop(known.id, None)

    async def delete(self, scope: Scope, conversation: str) -> None:
        """Delete the stored data key of a conversation: its content can never be decrypted again."""
        self.forget(scope, conversation)
        await self._store.delete(scope, _key_conversation(scope.tenant, conversation))

    async def rotate(self, scope: Scope) -> int:
        """Wrap (encrypt) a tenant's data keys again with the user's current key.

        Returns the number of data keys that were wrapped with an older one.

        Readers and writers can go on: data keys stay the same. After an interruption, call it again.
        """
        changed, after = 0, _PREFIX
        while True:
            page = await self._store.conversations(scope, after=after, limit=_PAGE)
            names = [each.conversation for each in page if is_key_conversation(each.conversation)]
            for name in names:
                changed += await self._rewrap(scope, name)
            if len(page) < _PAGE or len(names) < len(page):
                return changed
            after = names[-1]

    async def _rewrap(self, scope: Scope, name: str) -> bool:
        for _ in range(_MAX_TRIES):
            stored = await self._store.get_document(scope, name, _KIND, _DOCUMENT_KEY)
            if stored is None or self._ring.note(stored).key == self._ring.current:
                return False
            key = self._ring.unwrap(stored, scope.tenant, name)
            try:
                await self._store.put_document(
                    scope, name, self._ring.wrap(key), expect=stored.version
                )
            except Conflict:
                continue
            except ConversationDeleted:
                return False
            return True
        raise Conflict(
            f"other processes changed the wrapped key {name} {_MAX_TRIES} times in a row: try again"
        )

    async def _stored(self, scope: Scope, conversation: str) -> Document | None:
        return await _wrapped_key(self._store, scope, conversation)

    async def _put(self, scope: Scope, conversation: str, key: DataKey) -> bool:
        """Store the wrapped data key of a conversation; return False if it already has one."""
        name = _key_conversation(scope.tenant, conversation)
        try:
            await self._store.put_document(scope, name, self._ring.wrap(key), expect=0)
        except Conflict:
            return False
        except ConversationDeleted:
            raise _erased(conversation) from None
        return True

    def _remember(self, key: DataKey) -> DataKey:
        with self._lock:
            known = self._known.setdefault((key.tenant, key.conversation), key)
            self._known.move_to_end((key.tenant, key.conversation))
            self._by_id[known.id] = known
            while len(self._known) > _MAX_KEYS:
                _, gone = self._known.popitem(last=False)
                self._by_id.pop(gone.id, None)
            return known


def not_encrypted(scope: Scope, conversation: str) -> WrongKey:
    """Return the error for a write, by a store with a key, to a conversation that is not encrypted."""
    return WrongKey(
        f"conversation {log_mark(scope.tenant, conversation)} was written without encryption: export it with a "
        "store that has no key, and import it into an encrypted one",
        conversation=conversation,
    )


def _erased(conversation: str) -> ConversationDeleted:
    return ConversationDeleted(f"conversation {conversation!r} has been erased; use another id")


def check_conversation(name: str) -> None:
    """Raise `InvalidOption` for a conversation id that is invalid or reserved for key conversations."""
    check_name(name, "conversation id")
    if is_key_conversation(name):
        raise InvalidOption(
            f"conversation ids that begin with {_PREFIX!r} are reserved for keys: use another id"
        )
