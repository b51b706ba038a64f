"""Encrypt entries, checkpoints and documents for the store behind an `EncryptedStore`, and decrypt them.

In names, to seal is to encrypt and to open is to decrypt. An entry becomes a message of the same role with an opaque
part. Tenant, conversation, seq, client id and role are authenticated with it, so an entry that was moved, renumbered or
given another role does not decrypt. With a checkpoint its id, predecessor, range and fidelity are authenticated, with a
document its kind and key. Token counts, times, versions, ids and lengths stay visible, and are not authenticated.

The encryption is deterministic (AES-SIV), so that the store behind recognises a repeated write without decrypting
anything. Equal texts at different places give different bytes, because the place is authenticated; a document that is
written again with the same content gives the same bytes.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import replace
from functools import partial
from typing import Final

import msgspec

from turnfold.errors import InvalidRecord, WrongKey
from turnfold.records import (
    Checkpoint,
    Document,
    Entry,
    Message,
    NewEntry,
    OpaquePart,
    TextPart,
    ToolResult,
    decode_message,
    encode_message,
    erased_message,
)
from turnfold.stores.checksums import damaged
from turnfold.stores.encryption.keys import ConversationKeys, DataKey
from turnfold.stores.log_semantics import log_mark
from turnfold.tokens import TokenCounter

__all__ = (
    "TAKEN_BACK",
    "SealedCounter",
    "checkpoint_is_sealed",
    "document_is_sealed",
    "is_taken_back",
    "message_is_sealed",
    "open_checkpoint",
    "open_document",
    "open_entry",
    "seal_checkpoint",
    "seal_document",
    "seal_entries",
    "seal_message",
)


TAKEN_BACK: Final = "written without the encryption key"
"""Reason in the placeholder of an entry that was written without the key and taken back."""
_SHOWN: Final = TextPart("[encrypted]")
"""Text that a program without the key shows in place of an encrypted message."""
_PROVIDER: Final = "turnfold"
_TYPE: Final = "encrypted"
_CALL: Final = "encrypted"
_MAGIC: Final = b"\x00turnfold-encrypted-1\x00"
_LENGTH: Final = 8
_SEALED_LAST: Final = (OpaquePart, ToolResult)
"""Types of the last part of an encrypted message."""


class _Sealed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The opaque part of an encrypted message, decoded: ids of key and entry, and the encrypted bytes."""

    type: str
    key: str
    """Id of the data key that encrypted the message."""
    seq: int
    data: str
    """The encrypted message in base64."""
    client_id: str = ""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Sealed)


class _CheckpointText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of a checkpoint (summary) that are encrypted."""

    text: str
    digest: str
    model: str
    trust: str


def seal_message(key: DataKey, message: Message, seq: int, client_id: str) -> Message:
    """Return a message encrypted for its seq and client id, in the form of a message of the same role."""
    role = message.role
    data = key.encrypt(encode_message(message), "entry", seq, client_id, role)
    form = _Sealed(_TYPE, key.id, seq, base64.b64encode(data).decode(), client_id)
    content = (_SHOWN, OpaquePart(_encoder.encode(form).decode(), provider=_PROVIDER))
    return Message.of(role, (ToolResult(_CALL, content),) if role == "tool" else content)


def seal_entries(key: DataKey, entries: list[NewEntry], after: int) -> list[NewEntry]:
    """Return new entries with encrypted messages; the first of them gets the seq `after + 1`."""
    return [
        NewEntry(seal_message(key, each.message, seq, each.client_id), each.client_id)
        for seq, each in enumerate(entries, after + 1)
    ]


def _form(message: Message) -> _Sealed | None:
    """Return the encrypted content of a message, decoded from its opaque part; None if the message is not encrypted."""
    parts: tuple[object, ...] = message.parts
    if len(parts) == 1 and isinstance(parts[0], ToolResult):
        parts = parts[0].content
    if len(parts) != 2 or not isinstance(parts[1], OpaquePart) or parts[1].provider != _PROVIDER:
        return None
    try:
        form = _decoder.decode(parts[1].json)
    except (msgspec.MsgspecError, UnicodeError):
        return None
    return form if form.type == _TYPE else None


def message_is_sealed(message: Message) -> bool:
    """Return True if a message is encrypted."""
    parts = message.parts
    if not parts or type(parts[-1]) not in _SEALED_LAST:  # most messages
        return False
    return _form(message) is not None


def checkpoint_is_sealed(checkpoint: Checkpoint) -> bool:
    """Return True if a checkpoint (summary) is encrypted."""
    return checkpoint.model == _TYPE and not checkpoint.text and not checkpoint.trust


def document_is_sealed(document: Document) -> bool:
    """Return True if a document is encrypted."""
    return document.body.startswith(_MAGIC)


def _open_message(key: DataKey, message: Message, seq: int, client_id: str) -> Message | None:
    form = _form(message)
    if form is None or (form.key, form.seq, form.client_id) != (key.id, seq, client_id):
        return None
    data = _from_base64(form.data)
    plain = key.decrypt(data, "entry", seq, client_id, message.role) if data is not None else None
    return None if plain is None else decode_message(plain)


def is_taken_back(message: Message) -> bool:
    """Return True if a message is what is left of one that was written without the key, and taken back."""
    return message == erased_message(message, TAKEN_BACK)


def open_entry(key: DataKey | None, entry: Entry, tenant: str, conversation: str) -> Entry:
    """Return an entry decrypted; raise `InvalidRecord` if it was not encrypted with this key, seq and conversation."""
    mark = partial(log_mark, tenant, conversation)
    if _form(entry.message) is None:
        raise _not_encrypted(f"entry {entry.seq}", mark())
    message = _open_message(key, entry.message, entry.seq, entry.client_id) if key else None
    if message is None:
        raise damaged(f"entry {entry.seq}", mark)
    return Entry(
        entry.seq,
        message,
        entry.client_id,
        entry.created,
        entry.turn,
        entry.tokens,
        entry.running,
        entry.epoch,
    )


def seal_checkpoint(key: DataKey, checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint (summary) with its text, digest, model and trust encrypted; no text of it is indexed."""
    text = _CheckpointText(checkpoint.text, checkpoint.digest, checkpoint.model, checkpoint.trust)
    data = key.encrypt(_encoder.encode(text), *_checkpoint_place(checkpoint))
    return replace(
        checkpoint, text="", digest=base64.b64encode(data).decode(), model=_TYPE, trust=""
    )


def open_checkpoint(
    key: DataKey | None, checkpoint: Checkpoint, place: tuple[str, str]
) -> Checkpoint:
    """Return a checkpoint decrypted; raise `InvalidRecord` if it was not encrypted with this key and conversation."""
    what, mark = f"checkpoint {checkpoint.id}", partial(log_mark, *place)
    if checkpoint.model != _TYPE or checkpoint.text:
        raise _not_encrypted(what, mark())
    data = _from_base64(checkpoint.digest)
    plain = key.decrypt(data, *_checkpoint_place(checkpoint)) if key and data is not None else None
    if plain is None:
        raise damaged(what, mark)
    text = msgspec.json.decode(plain, type=_CheckpointText)
    return replace(
        checkpoint, text=text.text, digest=text.digest, model=text.model, trust=text.trust
    )


def _checkpoint_place(checkpoint: Checkpoint) -> tuple[object, ...]:
    fidelity = float(checkpoint.fidelity)
    return "checkpoint", checkpoint.id, checkpoint.previous, checkpoint.upto, fidelity


def seal_document(key: DataKey, document: Document) -> Document:
    """Return a document with its body and its searchable text encrypted; no text of it is indexed."""
    text = document.text.encode()
    plain = len(text).to_bytes(_LENGTH) + text + document.body
    data = key.encrypt(plain, "document", document.kind, document.key)
    return replace(document, body=_MAGIC + data, text="")


def open_document(key: DataKey | None, document: Document, place: tuple[str, str]) -> Document:
    """Return a document decrypted; raise `InvalidRecord` if it was not encrypted with this data key, kind and name."""
    what, mark = f"document {document.kind}/{document.key}", partial(log_mark, *place)
    if not document.body.startswith(_MAGIC) or document.text:
        raise _not_encrypted(what, mark())
    data = document.body[len(_MAGIC) :]
    plain = key.decrypt(data, "document", document.kind, document.key) if key else None
    if plain is None:
        raise damaged(what, mark)
    end = _LENGTH + int.from_bytes(plain[:_LENGTH])
    return replace(document, body=plain[end:], text=plain[_LENGTH:end].decode())


def _from_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _not_encrypted(what: str, mark: str) -> InvalidRecord:
    return InvalidRecord(
        f"{what} of conversation {mark} is not encrypted",
        remedy="It was written by a program without the key, or by somebody else: export the conversation with a store "
        "that has no key, look at it, and import it into an encrypted one",
    )


class SealedCounter(TokenCounter):
    """Token counter for encrypted messages: counts the tokens of the decrypted message."""

    def __init__(self, counter: TokenCounter) -> None:
        super().__init__(counter.text, framing=counter.framing, images=counter.images)
        self._counter = counter
        self._plain: dict[int, Message] = {}
        self.keys: ConversationKeys | None = None
        """The keys to decrypt with; set by the store that encrypts."""

    def remember(self, sealed: Message, plain: Message) -> None:
        """Remember the plain form of an encrypted message, for `count_message`; call `forget` afterwards."""
        self._plain[id(sealed)] = plain

    def forget(self, sealed: Message) -> None:
        """Drop the plain form of an encrypted message that was passed to `remember`."""
        self._plain.pop(id(sealed), None)

    def count_message(self, message: Message) -> int:
        """Return the number of tokens of a message; an encrypted message is decrypted first."""
        known = self._plain.get(id(message))
        if known is not None:
            return self._counter.count_message(known)
        form = _form(message)
        if form is None:
            return self._counter.count_message(message)
        key = self.keys.by_id(form.key) if self.keys is not None else None
        plain = _open_message(key, message, form.seq, form.client_id) if key else None
        if plain is None:
            raise WrongKey(
                f"the tokens of entry {form.seq} cannot be counted: the data key {form.key} that encrypted it is not "
                "loaded, or the entry was changed. Read the conversation first; if that fails too, restore the store "
                "from a backup"
            )
        return self._counter.count_message(plain)
