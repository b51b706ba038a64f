"""What the cache keeps and when it may be used: pure, because this is where a stale answer would come from.

Every value carries the head it was read under. It answers only for a caller who has just read the same head from the
durable store, all of it: seq, checkpoint, generation with its epoch, and the costs with their counter. A window of an
older head is never an answer, but its entries are still what the log says, because a log only grows: entries read now
are joined to it, from the newest it has, which must be the same in both. A log does not only grow where a backup is
restored or a standby takes over; there an entry has the same seq and perhaps the same text, but another epoch.

A value is sealed with a secret that lives in the durable store. Bytes that were damaged, forged, moved from another
key or made by another store do not open.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar
from urllib.parse import quote

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.records import Checkpoint, Document, Entry
from turnfold.stores.ledger import Row, entry_row, row_entry
from turnfold.stores.protocol import Head, Scope

__all__ = (
    "SECRET_BYTES",
    "KeptCheckpoints",
    "KeptDocument",
    "Window",
    "document_field",
    "entries_of",
    "is_fresh",
    "joined",
    "open_sealed",
    "seal",
    "session_key",
    "store_mark",
    "tail_of",
    "window_of",
)

SECRET_BYTES = 32
_SEAL_BYTES = 16
_FORMAT = b"2"
"""Part of every seal: a release that keeps other shapes cannot open these."""
_PREFIX = "short_term_memory:session:"
_UNKNOWN = -1

Kept = TypeVar("Kept", bound=msgspec.Struct)


class Window(msgspec.Struct, frozen=True, array_like=True):
    """The newest rows of a conversation."""

    head: Head
    budget: int
    """The row before the first is known not to fit this many tokens; -1 when that is not known."""
    rows: tuple[Row, ...]


class KeptDocument(msgspec.Struct, frozen=True, array_like=True):
    """A document, or that there is none."""

    head: Head
    document: Document | None


class KeptCheckpoints(msgspec.Struct, frozen=True, array_like=True):
    """All checkpoints of a conversation."""

    head: Head
    checkpoints: tuple[Checkpoint, ...]


def session_key(scope: Scope, conversation: str, *, default_tenant: str) -> str:
    """The key of a conversation: `short_term_memory:session:<id>`, other tenants' `...:{<tenant>/<id>}`.

    No two conversations share a key: a quoted tenant holds no `/`, and an id that begins with `{` is written in the
    second form for every tenant. The braces are the part a cluster places the key by.
    """
    if scope.tenant == default_tenant and not conversation.startswith("{"):
        return _PREFIX + conversation
    return f"{_PREFIX}{{{quote(scope.tenant, safe='')}/{conversation}}}"


def document_field(kind: str, key: str) -> bytes:
    """Where a document is kept; its length separates the kind from the key, whatever they hold."""
    return f"document:{len(kind)}:{kind}:{key}".encode("utf-8", "surrogatepass")


def is_fresh(kept: Head, now: Head) -> bool:
    """Whether what was read under one head is still so under the other."""
    return kept == now


def seal(value: msgspec.Struct, secret: bytes, key: str, field: bytes) -> bytes | None:
    """The bytes to keep; None when the value has no such form."""
    try:
        body = msgspec.msgpack.encode(value)
    except (msgspec.MsgspecError, UnicodeError, OverflowError):
        return None
    return _mark(body, secret, key, field) + body


def open_sealed(
    sealed: bytes, kind: type[Kept], secret: bytes, *, key: str, field: bytes
) -> Kept | None:
    """The value that was sealed for this place; None for anything else."""
    mark, body = sealed[:_SEAL_BYTES], sealed[_SEAL_BYTES:]
    if not hmac.compare_digest(mark, _mark(body, secret, key, field)):
        return None
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def store_mark(secret: bytes) -> str:
    """Tells the values of one durable store from another's, and tells nothing about the secret."""
    return hashlib.blake2b(b"store", key=secret, digest_size=8).hexdigest()


def _mark(body: bytes, secret: bytes, key: str, field: bytes) -> bytes:
    mark = hashlib.blake2b(key=secret, digest_size=_SEAL_BYTES)
    for part in (_FORMAT, key.encode(), field, body):
        mark.update(len(part).to_bytes(8, "big"))
        mark.update(part)
    return mark.digest()


def entries_of(rows: Sequence[Row]) -> list[Entry] | None:
    """The entries behind the rows; None when one cannot be read."""
    try:
        return [row_entry(row) for row in rows]
    except InvalidRecord:
        return None


def window_of(head: Head, entries: Sequence[Entry], *, tokens: int, messages: int) -> Window | None:
    """What a tail that was read after `head` can answer under it; None when the two do not belong together."""
    kept = [entry for entry in entries if entry.seq <= head.seq]
    if not kept or not _ends_at(head, kept[-1]):
        return None
    spent_later = entries[-1].running - head.tokens
    cut_by_count = messages and len(entries) >= messages
    rows = tuple(entry_row(entry) for entry in kept)
    return Window(head, _UNKNOWN if cut_by_count else tokens - spent_later, rows)


def tail_of(window: Window, *, tokens: int, messages: int) -> Sequence[Row] | None:
    """The newest rows that cost at most `tokens` together; None when the window does not reach back far enough."""
    rows, total = window.rows, window.head.tokens
    first = len(rows)
    while first:
        row = rows[first - 1]
        if total - row.running + row.tokens > tokens or 0 < messages <= len(rows) - first:
            return rows[first:]
        first -= 1
    if not rows:
        return None
    reaches = rows[0].seq == 1 or tokens <= window.budget or messages == len(rows)
    return rows if reaches else None


def joined(window: Window, head: Head, newer: Sequence[Entry]) -> Window | None:
    """The window under a later head: `newer` are the entries from the window's newest on, as the log has them now."""
    rows = tuple(entry_row(entry) for entry in newer)
    if not rows or not window.rows or rows[0] != window.rows[-1] or not _ends_at(head, rows[-1]):
        return None
    if not rows[0].epoch:
        return None  # written before there were epochs: equal rows may still follow another history
    for earlier, later in pairwise(rows):
        if later.seq != earlier.seq + 1 or later.running != earlier.running + later.tokens:
            return None
    return _trimmed(Window(head, window.budget, window.rows + rows[1:]), len(window.rows))


def _trimmed(window: Window, count: int) -> Window | None:
    """No more than the window was meant to hold, so that it does not grow with the conversation."""
    if window.budget == _UNKNOWN:
        return Window(window.head, _UNKNOWN, window.rows[-count:])
    rows = tail_of(window, tokens=window.budget, messages=0)
    return Window(window.head, window.budget, tuple(rows)) if rows else None


def _ends_at(head: Head, row: Row | Entry) -> bool:
    return row.seq == head.seq and row.running == head.tokens
