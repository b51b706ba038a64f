"""Fork: copies a conversation up to an entry into a new one.

The copy is stored atomically. The manifests of calls are not copied: they describe what the original sent.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from turnfold.errors import Conflict
from turnfold.memory.conversation_cache import erased
from turnfold.memory.rules import rules_as_of
from turnfold.records import (
    CALIBRATION,
    CLEARED,
    PIN,
    RULES,
    SESSION,
    STATE,
    SYSTEM,
    TAKEN_BACK,
    ClearedNote,
    Document,
    Entry,
    PinNote,
    SystemNote,
    TakenBackNote,
    read_note,
    write_note,
)
from turnfold.snapshots import SNAPSHOT, SNAPSHOT_SUMMARY, turn_of
from turnfold.stores import ConversationOpening, Scope, Store

__all__ = ("copy_conversation",)


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
    checkpoints = [each for each in captured.checkpoints if each.upto <= upto]
    opening = ConversationOpening(target, captured.opening.created, captured.opening.updated)
    done = await store.restore(scope, [opening, *copied, *entries, *checkpoints])
    if done.already:
        raise exists


def _as_of(note: Document, upto: int, turn: int) -> Document | None:
    """Return a note as it was when `upto`, in `turn`, was the newest entry; None if it is not copied."""
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
        cleared = min(read_note(note, ClearedNote).upto, upto)
        body = write_note(*place, ClearedNote(upto=cleared)).body
    elif place == (SESSION, TAKEN_BACK):
        body = write_note(*place, _taken_back_upto(read_note(note, TakenBackNote), upto)).body
    elif place == (SESSION, RULES):
        body = rules_as_of(note, upto)
    elif place not in ((SESSION, STATE), (SESSION, CALIBRATION)):
        return None
    return Document(*place, body, 1, note.created)


def _taken_back_upto(note: TakenBackNote, upto: int) -> TakenBackNote:
    stretches = [(first, min(last, upto)) for first, last in note.stretches if first <= upto]
    shortened = [(seq, kept) for seq, kept in note.shortened if seq <= upto]
    return TakenBackNote(stretches=tuple(stretches), shortened=tuple(shortened))
