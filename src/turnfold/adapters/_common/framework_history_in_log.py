"""Makes the log of a conversation equal to the message history that a framework passes.

Finds the messages that are already stored and appends the others. If the framework changed earlier messages, the log is
replaced: a log is never edited, so the new messages are appended and all older ones are hidden.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import uuid4

from turnfold.adapters._common.visible_log_entries import (
    BEGINNING,
    REPLACES,
    TRIES,
    Retraction,
    VisibleEntry,
    VisibleHistory,
)
from turnfold.errors import Conflict
from turnfold.memory import AsyncSession
from turnfold.records import (
    CLEARED,
    SESSION,
    TAKEN_BACK,
    ClearedNote,
    Message,
    NewEntry,
    TakenBackNote,
    content_key,
    longest_overlap,
    read_note,
    write_note,
)

__all__ = (
    "GivenRecord",
    "LoggedRecord",
    "clear_replaced",
    "first_name",
    "follow_history",
    "replace_history",
)


_SLACK = 64
"""Number of extra entries of the log that are read to find a framework's history in it: twice the length of the
history, and this many more."""
_AGAIN = ":again:"
"""Mark in the client id of a message that is stored again: `name:again:number`. A client id may be used only once per
log."""
_MOST_NOTED = 1_000
"""Most replacements of which the note of cleared entries keeps what was hidden before, for forks from before them."""
_BATCH = 500
"""Most entries of one append; more are appended in several batches."""


class GivenRecord(NamedTuple):
    """A message of a framework's history, converted to turnfold's form (a record), and its client id ("" for none)."""

    record: Message
    name: str
    filled_in: bool = False
    """True for a tool result that the framework made up for a call without one; the log may lack it."""


class LoggedRecord(NamedTuple):
    """A message of a framework's history as it is in the log, where it may have more content than the one passed."""

    seq: int
    """Position in the log; 0 for a filled-in result that the log lacks."""
    record: Message


async def follow_history(
    session: AsyncSession,
    given: Sequence[GivenRecord],
    *,
    key: Callable[[Message], str] = content_key,
    whole: bool = False,
    system: bool = False,
) -> list[LoggedRecord]:
    """Make the visible part of the log end with the framework's messages `given`.

    Returns the log entry of each message. A filled-in tool result among known messages is not stored if the log lacks
    it: the whole log would have to be stored again, and a context fills in the results of open calls by itself.

    Records with the same `key` are the same message. `whole`: the records are the whole log, and not only its end.
    `system`: system messages are among the records; without it those of the log are left alone.
    """
    for tries_left in range(TRIES, -1, -1):
        try:
            return await _follow(session, given, key, whole=whole, system=system)
        except Conflict:
            if not tries_left:
                raise
    raise AssertionError("unreachable: the last attempt returns or raises")


async def _follow(
    session: AsyncSession,
    given: Sequence[GivenRecord],
    key: Callable[[Message], str],
    *,
    whole: bool,
    system: bool,
) -> list[LoggedRecord]:
    visible = VisibleHistory(session)
    head = (await session.store.head(session.scope, session.id)).seq
    reach = sys.maxsize if whole else 2 * len(given) + _SLACK
    counts: Callable[[VisibleEntry], int] = (lambda _: 1) if system else _is_message
    entries = await visible.newest(reach, counts)
    log_keys, given_keys = _keys(entries, given, key)
    keys = log_keys, list(given_keys.values())
    start, length = (0, _common_prefix(*keys)) if whole else longest_overlap(*keys)
    matched = list(given_keys)[:length]
    new = given[matched[-1] + 1 :] if matched else given
    known = [LoggedRecord(one.entry.seq, one.entry.message) for one in entries[start:][:length]]
    if start + length == len(entries) and (length or not entries):
        added = await _append(session, new, head=head)
    else:
        before = entries[:start] if length else []
        if length and len(entries) >= reach:
            first = entries[start].entry.seq
            all_of_it = await visible.entries()
            before = [one for one in all_of_it if counts(one) and one.entry.seq < first]
        kept = [GivenRecord(one.entry.message, one.entry.client_id) for one in before]
        richer = [
            GivenRecord(old.record, given[at].name) for old, at in zip(known, matched, strict=True)
        ]
        placed = await replace_history(session, [*kept, *richer, *new], head=head)
        known, added = placed[len(kept) :][:length], placed[len(kept) + length :]
    found = dict(zip(matched, known, strict=True))
    before_new = given[: len(given) - len(new)]
    return [found.get(at, LoggedRecord(0, one.record)) for at, one in enumerate(before_new)] + added


async def replace_history(
    session: AsyncSession,
    given: Sequence[GivenRecord],
    *,
    head: int,
    retraction: Retraction | None = None,
) -> list[LoggedRecord]:
    """Hide everything in the log from contexts, summaries and recall, and append `given` instead.

    First it is noted that the old entries are hidden once the new ones are in the log; then the new ones are appended,
    all at once. For contexts and recall the history changes with that append. For `VisibleHistory` it does with the
    next note: until then the new entries are not visible. So a crash at any moment leaves the one or the other.

    `head` is the log's last seq, read before `given` was made, and `retraction` is what was hidden then. Raises
    `Conflict` if another writer has appended something since, or with `retraction` hidden something.
    """
    attempt = f"{REPLACES}{head}.{uuid4().hex[:12]}."
    new = [
        NewEntry(one.record, f"{first_name(one.name)}{attempt}{number}")
        for number, one in enumerate(given)
    ]
    first = head + 1
    if new:
        await _change_cleared(session, lambda note: _with_replacement(note, head, new[0].client_id))
        first = (await session.add(new, expect=head)).first
    if retraction is not None:
        note = TakenBackNote(stretches=((BEGINNING, head),))
        document = write_note(SESSION, TAKEN_BACK, note)
        place = session.scope, session.id
        await session.store.put_document(*place, document, expect=retraction.version)
    await clear_replaced(session, head)
    return [LoggedRecord(seq, one.record) for seq, one in enumerate(given, first)]


async def clear_replaced(session: AsyncSession, seq: int) -> None:
    """Hide all entries up to a seq (log position), which later entries replace, from contexts, summaries and recall."""

    def cleared(note: ClearedNote) -> ClearedNote:
        if seq <= note.upto:
            return note
        replaced = (*note.replaced, (seq, note.upto))[-_MOST_NOTED:]
        return ClearedNote(upto=seq, replaced=replaced)

    await _change_cleared(session, cleared)


def _with_replacement(note: ClearedNote, head: int, client_id: str) -> ClearedNote:
    return ClearedNote(
        upto=note.upto,
        replacing=(*note.replacing, (head, client_id))[-_MOST_NOTED:],
        replaced=note.replaced,
    )


async def _change_cleared(
    session: AsyncSession, change: Callable[[ClearedNote], ClearedNote]
) -> None:
    store, scope = session.store, session.scope
    while True:
        stored = await store.get_document(scope, session.id, SESSION, CLEARED)
        document = write_note(SESSION, CLEARED, change(read_note(stored, ClearedNote)))
        try:
            await store.put_document(
                scope, session.id, document, expect=stored.version if stored else 0
            )
        except Conflict:
            continue
        return


def _common_prefix(log: Sequence[str], given: Sequence[str]) -> int:
    pairs = enumerate(zip(log, given, strict=False))
    return next((at for at, (old, new) in pairs if old != new), min(len(log), len(given)))


def _keys(
    entries: Sequence[VisibleEntry], given: Sequence[GivenRecord], key: Callable[[Message], str]
) -> tuple[list[str], dict[int, str]]:
    """Return the keys by which log entries and a framework's messages, at their positions, are compared.

    The key is the client id if the entry and the message have one, else `key(message)`. Filled-in results that the log
    lacks are left out.
    """
    names = [first_name(shown.entry.client_id) for shown in entries]
    both = set(names) & {one.name for one in given} - {""}
    log = [
        name if name in both else key(shown.entry.message)
        for name, shown in zip(names, entries, strict=True)
    ]
    keys = [one.name if one.name in both else key(one.record) for one in given]
    in_log = set(log)
    compared = [at for at, one in enumerate(given) if not one.filled_in or keys[at] in in_log]
    return log, {at: keys[at] for at in compared}


async def _append(
    session: AsyncSession, given: Sequence[GivenRecord], *, head: int
) -> list[LoggedRecord]:
    """Append messages to the log. A client id that the log already has is replaced by a new one.

    Raises `Conflict` if `head` is not the log's last seq: what another writer appended may be among the messages.
    """
    placed: list[LoggedRecord] = []
    for at in range(0, len(given), _BATCH):
        batch = given[at : at + _BATCH]
        names = [one.name for one in batch if one.name]
        taken = (
            {entry.client_id for entry in await session.by_client_id(names)}
            if names
            else set[str]()
        )
        new: list[NewEntry] = []
        for number, one in enumerate(batch):
            if one.name and one.name not in taken:
                taken.add(one.name)
                new.append(NewEntry(one.record, one.name))
            else:
                new.append(NewEntry(one.record, f"{first_name(one.name)}{_AGAIN}{head + number}"))
        first = (await session.add(new, expect=head)).first
        head = first + len(new) - 1
        placed += [LoggedRecord(seq, entry.message) for seq, entry in enumerate(new, first)]
    return placed


def first_name(client_id: str) -> str:
    """Return the client id under which a message was first stored, given the id of a later copy."""
    return client_id.partition(_AGAIN)[0]


def _is_message(shown: VisibleEntry) -> int:
    return int(shown.entry.message.role != "system")
