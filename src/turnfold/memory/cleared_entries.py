"""Entries that contexts no longer show: those before a `clear()`, and those that an adapter replaced by later entries.

An adapter replaces entries in one append: it notes first that everything so far is hidden once the first new entry is
in the log. So the append is the moment at which a reader goes from the old entries to the new ones.
"""

from __future__ import annotations

from turnfold.records import CLEARED, SESSION, ClearedNote, read_note
from turnfold.stores import Scope, Store

__all__ = ("cleared_as_of", "cleared_upto", "last_cleared")


async def cleared_upto(store: Store, scope: Scope, conversation: str) -> int:
    """Return the last log position that is cleared or replaced; 0 if none is."""
    document = await store.get_document(scope, conversation, SESSION, CLEARED)
    return await last_cleared(read_note(document, ClearedNote), store, scope, conversation)


async def last_cleared(
    note: ClearedNote, store: Store, scope: Scope, conversation: str, *, head: int | None = None
) -> int:
    """Return the last log position that is cleared or replaced as the note says; 0 if none is.

    Only entries up to the position `head` are considered.
    """
    found = note.upto
    for seq, client_id in note.replacing:
        if found < seq and (head is None or seq < head):
            entries = await store.read(scope, conversation, after=seq, upto=seq + 1, limit=1)
            if any(entry.client_id == client_id for entry in entries):
                found = seq
    return found


def cleared_as_of(note: ClearedNote, upto: int) -> ClearedNote:
    """Return the note as it was when `upto` was the newest entry, as far as that is known.

    Entries that were replaced after that were not hidden then. The note does not say when `clear()` was called, so the
    entries that it hid stay hidden.
    """
    cleared, replaced = note.upto, list(note.replaced)
    while replaced and upto <= replaced[-1][0]:
        seq, before = replaced.pop()
        cleared = before if cleared == seq else cleared
    return ClearedNote(
        upto=min(cleared, upto),
        replacing=tuple(one for one in note.replacing if one[0] < upto),
        replaced=tuple(replaced),
    )
