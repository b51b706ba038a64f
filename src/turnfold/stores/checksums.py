"""Checksums of stored rows, so that damage on the disk raises an error and damaged text is never returned.

A checksum covers the fields that a caller gets and the key of the row, but not token counts, which change with the
counter. Rows written by a release without checksums have none (NULL; 0 for an entry in SQLite) and are not verified. If
a damaged row has columns of a wrong type, the same error is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias, cast
from zlib import crc32

from turnfold.errors import InvalidRecord
from turnfold.records import Checkpoint, Document
from turnfold.stores.log_semantics import Columns, Row

__all__ = (
    "LogMark",
    "checked_checkpoint",
    "checked_columns",
    "checked_document",
    "checked_row",
    "checkpoint_checksum",
    "damaged",
    "document_checksum",
    "entry_checksum",
    "is_sound_entry",
    "is_sound_text",
    "record_checksum",
)


LogMark: TypeAlias = Callable[[], str]
"""A function that returns the pseudonym of the conversation (`log_mark`), for the error about a damaged row."""

_PRIME = 4294967291
_SPREAD = 961
_DOCUMENT = [str, str, bytes, int, int, str]
_CHECKPOINT = [str, str, int, str, str, str, str, float, int]


def damaged(what: str, mark: LogMark) -> InvalidRecord:
    """Return the error for a stored row that is missing or damaged; `what` names the row, for example "entry 7"."""
    return InvalidRecord(
        f"{what} of conversation {mark()} is missing or was changed after it was written: the storage is "
        "damaged",
        remedy="Restore the store from a backup; `turnfold doctor` finds other damage",
    )


# ------------------------------------------------------------------------------------------- entries


def entry_checksum(place: int, fields: tuple[str, int, int, bytes]) -> int:
    """Return the checksum of an entry's fields (client id, created, turn, body) and of its place.

    `place` is the entry's key in its table, so that a row that was moved to another key fails the check.
    """
    client_id, created, turn, body = fields
    # Arithmetic instead of text, for speed: this runs for every entry that is written.
    start = (place * _SPREAD + created + turn * 31) % _PRIME
    return crc32(body, crc32(client_id.encode(), start) if client_id else start)


def is_sound_entry(place: int, fields: tuple[str, int, int, bytes], checksum: int | None) -> bool:
    """Return True if an entry (stored message) matches its checksum, or was stored without one."""
    try:
        sound = entry_checksum(place, fields)
    except (TypeError, AttributeError):
        return False
    return sound == checksum or (not checksum and type(fields[3]) is bytes)


def checked_columns(
    found: Iterable[Sequence[object]], base: int, mark: LogMark, *, first: int = 0, step: int = 0
) -> Iterator[Columns]:
    """Yield rows of entries, each verified against its checksum; raise `InvalidRecord` for a damaged one.

    The key of each row is `base | seq`. With `step` (1 or -1), seqs must go up or down by one, without a gap; `first`
    is the seq of the first row, or 0 if any is accepted.
    """
    start = base * _SPREAD % _PRIME
    for columns in cast("Iterable[Columns]", found):
        seq, client_id, created, turn, tokens, running, body, epoch, checksum = columns
        try:
            _ = tokens - running - epoch  # raises unless all three are numbers
            # `entry_checksum` inlined: this runs for every entry that is read.
            placed = (start + seq * _SPREAD + created + turn * 31) % _PRIME
            if client_id:
                placed = crc32(client_id.encode(), placed)
            if crc32(body, placed) != checksum and (checksum or type(body) is not bytes):
                raise damaged(f"entry {seq}", mark)
        except (TypeError, AttributeError):
            raise damaged(f"entry {seq}", mark) from None
        if step:
            if seq != first and first:
                raise damaged(f"the entry before or after {seq}", mark)
            first = seq + step
        yield columns


def checked_row(found: Sequence[object], base: int, mark: LogMark) -> Row:
    """Return an entry from its database columns; raise `InvalidRecord` if it does not match its checksum."""
    [columns] = checked_columns((found,), base, mark)
    return Row(*columns[:8])


# ------------------------------------------------------------------------------- checkpoints and documents


def _text_checksum(text: str) -> int:
    """Return the checksum of an entry's text, which is the upper half of the checksum of its row.

    A search reads only the text, and checks it with this.
    """
    return crc32(text.encode()) & 0x7FFFFFFF


def is_sound_text(text: object, checksum: object) -> bool:
    """Return True if the text of a checkpoint or document matches its checksum, or was stored without one."""
    if type(text) is not str:
        return False
    return checksum is None or (type(checksum) is int and checksum >> 32 == _text_checksum(text))


def document_checksum(fields: tuple[str, str, bytes, int, int, str]) -> int:
    """Return the checksum of a document from its fields (kind, key, body, version, created, text)."""
    kind, key, body, version, created, text = fields
    start = crc32(f"{kind}:{key}".encode(), (version * 31 + created) % _PRIME)
    return (_text_checksum(text) << 32 if text else 0) | crc32(body, start)


def checked_document(found: Sequence[object], mark: LogMark) -> Document:
    """Return a document from its columns (kind, key, body, version, created, text, checksum)."""
    kind, key, body, version, created, text, checksum = cast(
        "tuple[str, str, bytes, int, int, str, int | None]", found
    )
    try:
        sound = document_checksum((kind, key, body, version, created, text))
    except (TypeError, AttributeError):
        sound = -1
    if sound != checksum and (checksum is not None or [*map(type, found[:6])] != _DOCUMENT):
        raise damaged(f"document {kind}/{key}", mark)
    return Document(kind, key, body, version, created, text)


def checkpoint_checksum(checkpoint: Checkpoint) -> int:
    """Return the checksum of a checkpoint's fields, to detect damage of its stored row."""
    fields = (
        f"{checkpoint.upto}:{checkpoint.created}:{float(checkpoint.fidelity)!r}:{checkpoint.id}:"
        f"{checkpoint.previous}:{checkpoint.digest}:{checkpoint.model}:{checkpoint.trust}"
    )
    return _text_checksum(checkpoint.text) << 32 | crc32(fields.encode())


def record_checksum(record: bytes) -> int:
    """Return the checksum of a checkpoint (summary) that is stored as bytes in one column (PostgreSQL)."""
    return crc32(record)


def checked_checkpoint(found: Sequence[object], mark: LogMark) -> Checkpoint:
    """Return a checkpoint (summary) from its columns, which are its fields and the checksum.

    Raises `InvalidRecord` if it is damaged.
    """
    *values, checksum = found
    if [*map(type, values)] != _CHECKPOINT:
        raise damaged(f"checkpoint {values[0]!r}", mark)
    checkpoint = Checkpoint(*cast("list[str]", values))  # pyright: ignore[reportArgumentType] (types checked above)
    if checksum is not None and checksum != checkpoint_checksum(checkpoint):
        raise damaged(f"checkpoint {checkpoint.id!r}", mark)
    return checkpoint
