"""The visible entries of a log: those that were neither cleared nor retracted; retracting (hiding) the newest ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, TypeVar

from turnfold.errors import Conflict
from turnfold.memory import AsyncSession
from turnfold.records import (
    CLEARED,
    SESSION,
    TAKEN_BACK,
    ClearedNote,
    Entry,
    TakenBackNote,
    read_note,
    write_note,
)

__all__ = (
    "BEGINNING",
    "REPLACES",
    "TRIES",
    "Retraction",
    "VisibleEntry",
    "VisibleHistory",
)


_Result = TypeVar("_Result")
_PAGE = 500
TRIES = 16
"""Attempts to store a change of a conversation; an attempt fails if another writer stored something in between."""
REPLACES = ":again:instead:"
"""Mark in the client id of a message stored again to replace the log up to a seq:
`name:again:instead:seq.attempt.number`."""
BEGINNING = 0
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
        return max(self.cleared, last if first == BEGINNING else 0)

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
        for _ in range(TRIES):
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
            f"conversation {self._session.id!r}: other writers changed the list of hidden messages {TRIES} times, and "
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
        if joined and joined[-1][0] != BEGINNING and first <= joined[-1][1] + 1:
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
    replaced = entry.client_id.rpartition(REPLACES)[2].partition(".")[0]
    return int(replaced) if REPLACES in entry.client_id and replaced.isdecimal() else 0
