"""The visible part of a log (what was not cleared or retracted), and its alignment with a framework's history."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from turnfold.errors import Conflict
from turnfold.memory import AsyncSession
from turnfold.records import (
    CLEARED,
    SESSION,
    TAKEN_BACK,
    ClearedNote,
    Entry,
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
    "Retraction",
    "VisibleEntry",
    "VisibleHistory",
    "clear_upto",
    "first_name",
    "follow_history",
    "replace_history",
)


_Result = TypeVar("_Result")
_PAGE = 500
_TRIES = 16
"""Attempts to store a retraction; an attempt fails if another writer was first."""
_BEGINNING = 0
"""First seq of the stretch that later entries replace. Entries begin at 1: a stretch from 1 on was removed piece by
piece."""


class VisibleEntry(NamedTuple):
    """A log entry, and the number of its pieces (the framework's items in it) that are visible to a model."""

    entry: Entry
    kept: int | None
    """Number of pieces of the entry that are visible, counted from the first; None if all are."""


class Retraction(NamedTuple):
    """The hidden part of a log: everything up to `cleared`, and the later entries that were retracted."""

    cleared: int
    note: TakenBackNote
    version: int

    @property
    def hidden_upto(self) -> int:
        """Seq (log position) up to which everything is hidden: cleared, or replaced by later entries.

        It differs from `cleared` only if a replacement was interrupted before the clear.
        """
        first, last = self.note.stretches[0] if self.note.stretches else (1, 0)
        return max(self.cleared, last if first == _BEGINNING else 0)

    @property
    def hiding(self) -> list[tuple[int, int]]:
        """(seq, pieces kept) of each entry since the last clear of which pieces are hidden, in order."""
        start = self.hidden_upto + 1
        whole = {
            seq: 0
            for first, last in self.note.stretches
            for seq in range(max(first, start), last + 1)
        }
        noted = {**dict(self.note.shortened), **whole}
        return sorted((seq, kept) for seq, kept in noted.items() if seq >= start)

    def kept(self, seq: int) -> int | None:
        """Return how many pieces (framework items) of an entry are visible, counted from the first; None if all are."""
        if any(first <= seq <= last for first, last in self.note.stretches):
            return 0
        return dict(self.note.shortened).get(seq)


class VisibleHistory:
    """Reads the visible part of one conversation's log, and hides its newest messages (retraction)."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._where = session.store, session.scope, session.id

    async def retraction(self) -> Retraction:
        """Read from the store which entries of the log are hidden from the framework and the model."""
        store, scope, conversation = self._where
        cleared = await store.get_document(scope, conversation, SESSION, CLEARED)
        document = await store.get_document(scope, conversation, SESSION, TAKEN_BACK)
        return Retraction(
            read_note(cleared, ClearedNote).upto,
            read_note(document, TakenBackNote),
            document.version if document else 0,
        )

    async def entries(self, retraction: Retraction | None = None) -> list[VisibleEntry]:
        """Return every entry of the log that is not hidden, by default as the store says now, oldest first."""
        retraction = retraction or await self.retraction()
        return _visible(await self._session.history(after=retraction.hidden_upto), retraction)

    async def newest(
        self, wanted: int, pieces: Callable[[VisibleEntry], int]
    ) -> list[VisibleEntry]:
        """Return the newest visible entries that together have `wanted` pieces (framework items), oldest first.

        `pieces` counts the pieces of an entry; it is called from the newest entry back.
        """
        return (await self._newest(wanted, pieces))[0]

    async def take_back(self, end: Callable[[VisibleEntry], int]) -> VisibleEntry | None:
        """Hide the newest visible piece (framework item) of the log.

        Returns its entry as it was, None if there is no piece.

        A piece is an item of the framework; an entry may hold several. `end` is called with an entry, the newest first,
        and returns the position after its last visible piece, or 0 if it has none.
        """
        return await self._change(lambda: self._without_newest(end))

    async def keep_whole(self, seq: int, pieces: int) -> None:
        """Make all `pieces` (framework items) of an entry visible, including those that are hidden by default."""

        async def whole() -> tuple[TakenBackNote, int, None]:
            retraction = await self.retraction()
            shortened = dict(retraction.note.shortened)
            shortened[seq] = pieces
            note = TakenBackNote(
                stretches=retraction.note.stretches, shortened=tuple(sorted(shortened.items()))
            )
            return note, retraction.version, None

        await self._change(whole)

    async def _without_newest(
        self, end: Callable[[VisibleEntry], int]
    ) -> tuple[TakenBackNote, int, VisibleEntry] | None:
        newest, retraction = await self._newest(1, end)
        if not newest:
            return None
        shown = newest[-1]
        note = _without_piece(retraction.note, shown.entry.seq, keep=end(shown) - 1)
        return note, retraction.version, shown

    async def _change(
        self, change: Callable[[], Awaitable[tuple[TakenBackNote, int, _Result] | None]]
    ) -> _Result | None:
        """Store the new list of hidden entries that `change` makes, and return the result that comes with it.

        Retries if another writer was first. Returns None, and stores nothing, if `change` returns None.
        """
        store, scope, conversation = self._where
        for _ in range(_TRIES):
            changed = await change()
            if changed is None:
                return None
            note, version, result = changed
            document = write_note(SESSION, TAKEN_BACK, note)
            try:
                await store.put_document(scope, conversation, document, expect=version)
            except Conflict:
                continue
            return result
        raise Conflict(
            f"conversation {self._session.id!r}: other writers changed the list of hidden messages {_TRIES} times, and "
            "nothing was changed here; try again"
        )

    async def _newest(
        self, wanted: int, pieces: Callable[[VisibleEntry], int]
    ) -> tuple[list[VisibleEntry], Retraction]:
        store, scope, conversation = self._where
        retraction = await self.retraction()
        upto = (await store.head(scope, conversation)).seq
        found: list[VisibleEntry] = []
        while wanted > 0 and upto > retraction.hidden_upto:
            after = max(retraction.hidden_upto, upto - min(_PAGE, wanted + 8))
            page = await store.read(scope, conversation, after=after, upto=upto, limit=_PAGE)
            for shown in reversed(_visible(page, retraction)):
                number = pieces(shown)
                if number and wanted > 0:
                    found.append(shown)
                    wanted -= number
            upto = after
        found.reverse()
        return found, retraction


def _without_piece(note: TakenBackNote, seq: int, *, keep: int) -> TakenBackNote:
    """Return the list of hidden entries, extended by an entry that shows only its first `keep` pieces."""
    shortened = {place: kept for place, kept in note.shortened if place != seq}
    if keep > 0:
        shortened[seq] = keep
        return TakenBackNote(stretches=note.stretches, shortened=tuple(sorted(shortened.items())))
    joined: list[tuple[int, int]] = []
    for first, last in sorted({*note.stretches, (seq, seq)}):
        if joined and joined[-1][0] != _BEGINNING and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return TakenBackNote(stretches=tuple(joined), shortened=tuple(sorted(shortened.items())))


def _visible(page: Iterable[Entry], retraction: Retraction) -> list[VisibleEntry]:
    pairs = ((entry, retraction.kept(entry.seq)) for entry in page)
    return [
        VisibleEntry(entry, kept)
        for entry, kept in pairs
        if kept != 0 and _replaced_by(entry) <= retraction.hidden_upto
    ]


def _replaced_by(entry: Entry) -> int:
    """Return the seq up to which this entry, with others, replaces the log; 0 if it replaces nothing.

    Until everything up to that seq is cleared, the replacement is incomplete, and its entries are not visible.
    """
    replaced = entry.client_id.rpartition(_INSTEAD)[2].partition(".")[0]
    return int(replaced) if _INSTEAD in entry.client_id and replaced.isdecimal() else 0


_SLACK = 64
"""To recognise a history, twice its length plus this many entries of the log are read."""
_AGAIN = ":again:"
"""Separator between the name of a record and a number, for a record that is stored a second time."""
_INSTEAD = ":again:instead:"
"""Separator between the name of a record and a seq, if the record is stored again to replace the log up to that seq."""
_BATCH = 500
"""The most entries that one append may have."""


class GivenRecord(NamedTuple):
    """A message of a framework's history, converted to turnfold's form (a record), and its client id ("" for none)."""

    record: Message
    name: str


class LoggedRecord(NamedTuple):
    """A message of a framework's history as it is in the log, where it may have more content than the one passed."""

    seq: int
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

    Returns the log entry of each message.

    Records with the same `key` are the same message. `whole`: the records are the whole log, and not only its end.
    `system`: system messages are among the records; without it those of the log are left alone.
    """
    for tries_left in range(_TRIES, -1, -1):
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
    keys = _keys(entries, given, key)
    start, length = (0, _common_prefix(*keys)) if whole else longest_overlap(*keys)
    known = [LoggedRecord(one.entry.seq, one.entry.message) for one in entries[start:][:length]]
    if start + length == len(entries) and (length or not entries):
        return known + await _append(session, given[length:])
    before = entries[:start] if length else []
    if length and len(entries) >= reach:
        first = entries[start].entry.seq
        all_of_it = await visible.entries()
        before = [one for one in all_of_it if counts(one) and one.entry.seq < first]
    kept = [GivenRecord(one.entry.message, one.entry.client_id) for one in before]
    richer = [
        GivenRecord(old.record, new.name) for old, new in zip(known, given[:length], strict=True)
    ]
    placed = await replace_history(session, [*kept, *richer, *given[length:]], head=head)
    return placed[len(kept) :]


async def replace_history(
    session: AsyncSession,
    given: Sequence[GivenRecord],
    *,
    head: int,
    retraction: Retraction | None = None,
) -> list[LoggedRecord]:
    """Hide everything in the log from contexts, summaries and recall, and append `given` instead.

    The new entries come first, and are not visible before the rest is hidden: after a crash between the two, the old
    ones are still the visible history. `head` is the log's last seq, read before `given` was made, and `retraction` is
    what was hidden then. Raises `Conflict` if another writer has appended something since, or with `retraction` hidden
    something.
    """
    placed = await _append(session, given, instead=head)
    if retraction is not None:
        note = TakenBackNote(stretches=((_BEGINNING, head),))
        document = write_note(SESSION, TAKEN_BACK, note)
        place = session.scope, session.id
        await session.store.put_document(*place, document, expect=retraction.version)
    await clear_upto(session, head)
    return placed


async def clear_upto(session: AsyncSession, seq: int) -> None:
    """Hide all entries up to a seq (log position) from contexts, summaries and recall."""
    store, scope = session.store, session.scope
    while True:
        cleared = await store.get_document(scope, session.id, SESSION, CLEARED)
        note = ClearedNote(upto=max(seq, read_note(cleared, ClearedNote).upto))
        document = write_note(SESSION, CLEARED, note)
        try:
            await store.put_document(
                scope, session.id, document, expect=cleared.version if cleared else 0
            )
        except Conflict:
            continue
        return


def _common_prefix(log: Sequence[str], given: Sequence[str]) -> int:
    pairs = enumerate(zip(log, given, strict=False))
    return next((at for at, (old, new) in pairs if old != new), min(len(log), len(given)))


def _keys(
    entries: Sequence[VisibleEntry], given: Sequence[GivenRecord], key: Callable[[Message], str]
) -> tuple[list[str], list[str]]:
    """Return keys to compare log entries and messages by: client ids where both have one, else `key(message)`."""
    names = [first_name(shown.entry.client_id) for shown in entries]
    both = set(names) & {one.name for one in given} - {""}
    return (
        [
            name if name in both else key(shown.entry.message)
            for name, shown in zip(names, entries, strict=True)
        ],
        [one.name if one.name in both else key(one.record) for one in given],
    )


async def _append(
    session: AsyncSession, given: Sequence[GivenRecord], *, instead: int = 0
) -> list[LoggedRecord]:
    """Append messages to the log; a client id that a hidden entry already has is replaced by a new one.

    `instead`: they replace the log up to this seq, and are visible when it is cleared.
    """
    placed: list[LoggedRecord] = []
    expect = instead or None
    for at in range(0, len(given), _BATCH):
        batch = given[at : at + _BATCH]
        names = [one.name for one in batch if one.name]
        taken = (
            {entry.client_id for entry in await session.by_client_id(names)}
            if names
            else set[str]()
        )
        head = (await session.store.head(session.scope, session.id)).seq
        new: list[NewEntry] = []
        for number, one in enumerate(batch):
            if one.name and one.name not in taken:
                taken.add(one.name)
                new.append(NewEntry(one.record, one.name))
            else:
                name = first_name(one.name)
                again = f"{_INSTEAD}{instead}." if instead else _AGAIN
                new.append(NewEntry(one.record, f"{name}{again}{head + number}"))
        done = await session.add(new, expect=expect)
        expect = done.head.seq if instead else None
        placed += [LoggedRecord(done.first + n, entry.message) for n, entry in enumerate(new)]
    return placed


def first_name(client_id: str) -> str:
    """Return the client id under which a message was first stored, given the id of a later copy."""
    return client_id.partition(_AGAIN)[0]


def _is_message(shown: VisibleEntry) -> int:
    return int(shown.entry.message.role != "system")
