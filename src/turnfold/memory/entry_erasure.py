"""Erasure of a single message: replaces it by a placeholder, and removes everything that was made from it.

The store replaces the entry, drops the checkpoints (summaries) that cover it and corrects its index; from then on no
process can store anything made from the old text. Then the documents that were made from it are replaced or dropped. A
crash in between leaves documents behind, and the same call finishes the work.

Removed: vectors, findings (remembered tool results), rules and pins taken from the entry, temporary extracts and
dropped checkpoints that cover it, the windows' stored tails, and the tails in the manifests (stored context reports) of
later calls, which quote recalled entries, rules and findings. Kept: the figures of these manifests, and everything the
application wrote itself: its state, snapshots, pinned texts and documents of adapters. The result names those of them
that may contain the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from turnfold.errors import Conflict, InvalidOption, NotFound
from turnfold.memory.call_log import CALL, read_manifest, write_manifest
from turnfold.memory.dropped_checkpoints import DROPPED_CHECKPOINT, read_dropped
from turnfold.memory.embedding_index import has_vector_of
from turnfold.memory.session_rules import rules_without
from turnfold.records import (
    FINDING,
    PIN,
    RULES,
    SESSION,
    STAND_IN,
    WINDOW,
    Document,
    Entry,
    Message,
    PinNote,
    StandIn,
    StandInNote,
    ThinkingPart,
    decode_finding,
    erased_message,
    is_erased,
    read_note,
)
from turnfold.stores import Erasure, Scope, Store
from turnfold.workspace_snapshots import SNAPSHOT, SNAPSHOT_SUMMARY, turn_of

__all__ = ("erase_entry",)


_ERASED_TAIL = "[erased]"
_BATCH = 500
"""Most documents that one transaction changes or deletes; more are processed in several."""
_MAX_TRIES = 64
_LONGEST_REASON = 200
_LEAST_CHARACTERS = 6
"""Least characters of a line of the erased message that is searched for in other documents; shorter lines only if there
are no longer ones."""
_MAX_LINES = 50


@dataclass(slots=True)
class _Derived:
    """Collects the documents of a conversation that were made from the erased entry, or may contain its text."""

    entry: Entry
    replaced: list[Document] = field(default_factory=list[Document])
    dropped: list[Document] = field(default_factory=list[Document])
    mentions: list[str] = field(default_factory=list[str])
    """Names (`kind/key`) of the documents that are kept and may contain the text of the erased entry."""

    def take(self, document: Document) -> None:
        """Add a document to `replaced`, `dropped` or `mentions` if it has content of the entry."""
        new = _without(document, self.entry)
        if new is None:
            self.dropped.append(document)
        elif new is not document:
            self.replaced.append(new)
        elif _may_contain(document, self.entry):
            self.mentions.append(f"{document.kind}/{document.key}")


async def erase_entry(
    store: Store, scope: Scope, conversation: str, seq: int, *, reason: str
) -> tuple[Erasure, Message]:
    """Erase one log entry and everything made from it.

    Returns the counts of removed data, and the placeholder message.

    Raises `NotFound` if there is no such entry, `InvalidOption` if `reason` is too long.
    """
    if len(reason) > _LONGEST_REASON:
        raise InvalidOption(
            f"the reason has {len(reason)} characters; it is stored in the log and sent to models, so give at most "
            f"{_LONGEST_REASON}"
        )
    found = await store.read(scope, conversation, after=max(seq - 1, 0), upto=max(seq, 0), limit=1)
    if not found:
        raise NotFound(
            f"there is no entry {seq} in conversation {conversation!r}: session.history() lists the entries"
        )
    entry = found[0]
    already = is_erased(entry.message)
    message = entry.message if already else erased_message(entry.message, reason)
    log = await store.erase(scope, conversation, seq, message)
    documents, mentions = 0, tuple[str, ...]()
    for attempt in range(1, _MAX_TRIES + 1):
        derived = _Derived(entry)
        await store.capture(scope, conversation, derived.take)
        mentions = tuple(derived.mentions)
        try:
            for drop, new in _batches(derived):
                done = await store.erase(scope, conversation, seq, message, replace=new, drop=drop)
                documents += done.documents
            break
        except Conflict:  # a document was written meanwhile
            if attempt == _MAX_TRIES:
                raise
    return replace(log, documents=documents, mentions=mentions), message


def _batches(derived: _Derived) -> Iterable[tuple[Sequence[Document], Sequence[Document]]]:
    dropped, replaced = derived.dropped, derived.replaced
    for start in range(0, len(dropped), _BATCH):
        yield dropped[start : start + _BATCH], ()
    for start in range(0, len(replaced), _BATCH):
        yield (), replaced[start : start + _BATCH]


def _without(document: Document, entry: Entry) -> Document | None:
    """Return a document without data made from an entry: unchanged, as a changed copy, or None to delete it."""
    kind, place = document.kind, (document.kind, document.key)
    seq = entry.seq
    if kind == CALL:
        return _without_tail(document, seq)
    if place == (SESSION, RULES):
        body = rules_without(document, seq)
        return document if body is None else replace(document, body=body)
    gone = (
        kind == WINDOW
        or (kind == FINDING and _is_finding_of(document, entry.message, seq))
        or (kind == PIN and read_note(document, PinNote).seq == seq)
        or (kind == DROPPED_CHECKPOINT and read_dropped(document).upto >= seq)
        or (kind == STAND_IN and StandIn.read(document).upto >= seq)
        or (place == (SESSION, STAND_IN) and read_note(document, StandInNote).upto >= seq)
        or has_vector_of(document, seq)
    )
    return None if gone else document


def _without_tail(document: Document, seq: int) -> Document:
    """Return a call's manifest without its tail (pins, rules, recalled passages), which may quote the entry.

    The manifest is unchanged if the call was made before the entry.
    """
    manifest = read_manifest(document)
    if manifest.seq < seq or manifest.tail in ("", _ERASED_TAIL):
        return document
    new = write_manifest(msgspec.structs.replace(manifest, tail=_ERASED_TAIL))
    return replace(document, body=new.body)


def _is_finding_of(document: Document, message: Message, seq: int) -> bool:
    finding = decode_finding(document.body, path=document.key)
    ids = {call.id for call in message.calls} | {result.call_id for result in message.results}
    text = message.text.strip()
    same = bool(text) and not is_erased(message) and finding.content.strip() == text
    return finding.seq == seq or finding.call in ids or same


def _may_contain(document: Document, entry: Entry) -> bool:
    """Return True if a document that stays in the store may contain the text of an entry."""
    if document.kind in (SNAPSHOT, SNAPSHOT_SUMMARY):  # compressed: judged by its turn
        return turn_of(document.key) >= entry.turn
    if is_erased(entry.message):  # the text is not known any more
        return False
    return any(
        line in document.body or (document.text and line in document.text.encode())
        for line in _lines(entry.message)
    )


def _lines(message: Message) -> set[bytes]:
    """Return a message's lines as bytes in the forms in which other documents may quote them: plain, or as JSON."""
    texts = [message.text, *(call.arguments for call in message.calls)]
    texts += [part.text for part in message.parts if isinstance(part, ThinkingPart)]
    lines = {line.strip() for text in texts for line in text.splitlines()}
    long = sorted((line for line in lines if len(line) >= _LEAST_CHARACTERS), key=len)[-_MAX_LINES:]
    return {
        form.encode()
        for line in long or [text.strip() for text in texts if text.strip()]
        for form in (line, json.dumps(line)[1:-1], json.dumps(line, ensure_ascii=False)[1:-1])
    }
