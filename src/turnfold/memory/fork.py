"""Fork: copies a conversation up to an entry into a new one.

The copy is stored atomically, with a note that names the original as a digest, so that erasing the original finds its
forks. The manifests (context reports) of calls are not copied, because the fork did not make these calls.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import replace
from hashlib import blake2b

import msgspec

from turnfold.errors import Conflict, WrongKey
from turnfold.memory.cached_conversation import erased
from turnfold.memory.cleared_entries import cleared_as_of
from turnfold.memory.session_rules import rules_as_of
from turnfold.records import (
    CALIBRATION,
    CLEARED,
    ORIGIN,
    PIN,
    RULES,
    SESSION,
    STATE,
    SYSTEM,
    TAKEN_BACK,
    ClearedNote,
    Document,
    Entry,
    OriginNote,
    PinNote,
    SystemNote,
    TakenBackNote,
    read_note,
    write_note,
)
from turnfold.stores import ConversationOpening, Scope, Store
from turnfold.workspace_snapshots import SNAPSHOT, SNAPSHOT_SUMMARY, turn_of

__all__ = ("copy_conversation", "forks_among", "id_digest")


_PAGE = 500


async def copy_conversation(
    store: Store, scope: Scope, source: str, target: str, *, upto: int
) -> None:
    """Copy entries, their checkpoints, system messages, pins, rules, state and snapshots into a new conversation."""
    exists = Conflict(f"conversation {target!r} exists already: fork into a new one")
    if (await store.head(scope, target)).generation:
        raise exists
    notes: list[Document] = []
    captured = await store.capture(scope, source, notes.append)
    if captured is None:
        raise erased(source)
    entries: list[Entry] = []
    while len(entries) < upto:
        page = await store.read(scope, source, after=len(entries), upto=upto, limit=_PAGE)
        if not page:  # a log only grows: the conversation was erased meanwhile
            raise erased(source)
        entries += page
    turn = entries[-1].turn
    copied = [copy for note in notes if (copy := _as_of(note, upto, turn)) is not None]
    copied.append(_origin(notes, scope, source))
    copied.sort(key=lambda note: (note.kind, note.key))
    checkpoints = [each for each in captured.checkpoints if each.upto <= upto]
    opening = ConversationOpening(target, captured.opening.created, captured.opening.updated)
    done = await store.restore(scope, [opening, *copied, *entries, *checkpoints])
    if done.already:
        raise exists


def id_digest(salt: str, scope: Scope, conversation: str) -> str:
    """Return the salted digest of a conversation's id, by which only someone who knows the id can find it."""
    name = f"{len(scope.tenant)}:{scope.tenant}{conversation}".encode("utf-8", "surrogatepass")
    return blake2b(name, key=bytes.fromhex(salt), digest_size=16).hexdigest()


def _origin(notes: list[Document], scope: Scope, source: str) -> Document:
    """Return the origin note of a fork: digests of the ids of `source` and of the conversations before it."""
    known = next((note for note in notes if (note.kind, note.key) == (SESSION, ORIGIN)), None)
    before = read_note(known, OriginNote).ancestors if known else ()
    salt = secrets.token_hex(16)
    ancestors = (*before, (salt, id_digest(salt, scope, source)))
    return replace(write_note(SESSION, ORIGIN, OriginNote(ancestors=ancestors)), version=1)


async def forks_among(
    store: Store, scope: Scope, conversations: Collection[str], *, of: Collection[str]
) -> list[str]:
    """Return the conversations that are forks, or forks of forks, of a conversation in `of`.

    A fork of an encrypted conversation is not known without its key.
    """
    found: list[str] = []
    for name in conversations:
        try:
            document = await store.get_document(scope, name, SESSION, ORIGIN)
        except WrongKey:
            continue
        ancestors = read_note(document, OriginNote).ancestors if document else ()
        if any(id_digest(salt, scope, each) == digest for salt, digest in ancestors for each in of):
            found.append(name)
    return found


def _as_of(note: Document, upto: int, turn: int) -> Document | None:
    """Return a session note as it was when `upto` was the newest entry, in turn `turn`.

    Returns None if a fork does not copy the note.
    """
    place = note.kind, note.key
    body = note.body
    if note.kind in (SNAPSHOT, SNAPSHOT_SUMMARY):
        return replace(note, version=1) if turn_of(note.key) <= turn else None
    if note.kind == PIN:
        pin = read_note(note, PinNote)
        if pin.since > upto:
            return None
        until = pin.until if pin.until <= upto else 0
        body = write_note(*place, msgspec.structs.replace(pin, until=until)).body
    elif place == (SESSION, SYSTEM):
        seqs = tuple(seq for seq in read_note(note, SystemNote).seqs if seq <= upto)
        body = write_note(*place, SystemNote(seqs=seqs)).body
    elif place == (SESSION, CLEARED):
        body = write_note(*place, cleared_as_of(read_note(note, ClearedNote), upto)).body
    elif place == (SESSION, TAKEN_BACK):
        body = write_note(*place, _taken_back_upto(read_note(note, TakenBackNote), upto)).body
    elif place == (SESSION, RULES):
        body = rules_as_of(note, upto)
    elif place not in ((SESSION, STATE), (SESSION, CALIBRATION)):
        return None
    return Document(*place, body, 1, note.created)


def _taken_back_upto(note: TakenBackNote, upto: int) -> TakenBackNote:
    stretches = [
        (first, min(last, upto))
        for first, last in note.stretches
        if (first <= upto if first else last < upto)  # from 0 on: replaced by the entries after it
    ]
    shortened = [(seq, kept) for seq, kept in note.shortened if seq <= upto]
    return TakenBackNote(stretches=tuple(stretches), shortened=tuple(shortened))
