"""One JSON form for a stored message, with a schema version.

`decode_message(encode_message(m)) == m` for every message. Old versions are upgraded in `_upgrade`, the one place
that knows how records used to look. Decoding builds only the structs named here: stored data never runs code.
"""

from __future__ import annotations

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.records.messages import Message, Role
from turnfold.records.origin import Origin
from turnfold.records.parts import Part

__all__ = ("SCHEMA_VERSION", "decode_message", "encode_message")

SCHEMA_VERSION = 1


class _Form(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    v: int
    role: Role
    parts: tuple[Part, ...]
    name: str | None = None
    extra: str = ""
    labels: str = ""
    origin: Origin | None = None


class _Version(msgspec.Struct):
    v: int


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Form)
_version_decoder = msgspec.json.Decoder(_Version)


def encode_message(message: Message) -> bytes:
    """The canonical JSON of a message: equal messages give equal bytes."""
    return _encoder.encode(
        _Form(
            SCHEMA_VERSION,
            message.role,
            message.parts,
            message.name,
            message.extra,
            message.labels,
            message.origin,
        )
    )


def decode_message(data: bytes | str) -> Message:
    """The message behind its canonical JSON; anything else is refused."""
    try:
        form = _decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        form = _upgrade(data, error)
    if form.v != SCHEMA_VERSION:
        form = _upgrade(data, None)
    return Message.of(
        form.role,
        form.parts,
        name=form.name,
        extra=form.extra,
        labels=form.labels,
        origin=form.origin,
    )


def _upgrade(data: bytes | str, error: Exception | None) -> _Form:
    """Read a record of another version. Version 1 is the first, so there is nothing older to read yet."""
    try:
        version = _version_decoder.decode(data).v
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        version = SCHEMA_VERSION
    if version <= SCHEMA_VERSION:
        raise InvalidRecord(f"not a stored message: {error or f'version {version}'}") from None
    raise InvalidRecord(
        f"schema version {version}; this release reads version {SCHEMA_VERSION}",
        path="v",
        remedy="Upgrade turnfold",
    )
