"""What a framework is shown of a log: everything since it was cleared, less what was taken back.

Frameworks take the newest message off their history, or empty it. A log only grows, so nothing is removed: what was
taken back is named in a note beside the log, which changes by compare-and-swap, and the entries stay for whoever reads
the log itself. A summary made later, or a recall, may still speak of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from turnfold.errors import Conflict
from turnfold.memory.notes import (
    CLEARED,
    SESSION,
    TAKEN_BACK,
    ClearedNote,
    TakenBackNote,
    read_note,
    write_note,
)
from turnfold.memory.session import AsyncSession
from turnfold.records import Entry

__all__ = ("Shown", "ShownLog", "TakenBack", "without")

_PAGE = 500
_TRIES = 16
"""Others who may take something back between our looking and our writing."""


class Shown(NamedTuple):
    """An entry that is shown, and how much of it."""

    entry: Entry
    kept: int | None
    """Pieces of it that are shown, from its beginning; None for all of it."""


class TakenBack(NamedTuple):
    """Where the shown log begins, and what of it was taken back."""

    cleared: int
    note: TakenBackNote
    version: int

    def kept(self, seq: int) -> int | None:
        """Pieces of an entry that are shown; 0 for none, None for all of it."""
        if any(first <= seq <= last for first, last in self.note.stretches):
            return 0
        return dict(self.note.shortened).get(seq)


class ShownLog:
    """The shown part of one conversation's log."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._where = session.store, session.scope, session.id

    async def taken_back(self) -> TakenBack:
        """What is not shown."""
        store, scope, conversation = self._where
        cleared = await store.get_document(scope, conversation, SESSION, CLEARED)
        taken = await store.get_document(scope, conversation, SESSION, TAKEN_BACK)
        return TakenBack(
            read_note(cleared, ClearedNote).upto,
            read_note(taken, TakenBackNote),
            taken.version if taken else 0,
        )

    async def entries(self) -> list[Shown]:
        """Every entry that is shown, oldest first."""
        taken = await self.taken_back()
        found: list[Shown] = []
        after = taken.cleared
        while page := await self._session.history(after=after, limit=_PAGE):
            found += _shown(page, taken)
            after = page[-1].seq
        return found

    async def newest(self, wanted: int, pieces: Callable[[Shown], int]) -> list[Shown]:
        """The newest entries that have `wanted` pieces together, oldest first; all of them where they have fewer.

        `pieces` is asked from the newest entry back.
        """
        return (await self._newest(wanted, pieces))[0]

    async def take_back(self, end: Callable[[Shown], int]) -> Shown | None:
        """Show the newest piece no longer; the entry it is in, as it was shown. None where there is none.

        `end` says behind which piece of an entry the shown ones end, 0 for none; asked from the newest entry back.
        """
        for _ in range(_TRIES):
            newest, taken = await self._newest(1, end)
            if not newest:
                return None
            shown = newest[-1]
            note = without(taken.note, shown.entry.seq, keep=end(shown) - 1)
            if await self._put(note, taken):
                return shown
        raise Conflict(
            f"conversation {self._session.id!r}: {_TRIES} others took something back first; do it again"
        )

    async def _newest(
        self, wanted: int, pieces: Callable[[Shown], int]
    ) -> tuple[list[Shown], TakenBack]:
        store, scope, conversation = self._where
        taken = await self.taken_back()
        upto = (await store.head(scope, conversation)).seq
        found: list[Shown] = []
        while wanted > 0 and upto > taken.cleared:
            after = max(taken.cleared, upto - min(_PAGE, wanted + 8))
            page = await store.read(scope, conversation, after=after, upto=upto, limit=_PAGE)
            for shown in reversed(_shown(page, taken)):
                number = pieces(shown)
                if number and wanted > 0:
                    found.append(shown)
                    wanted -= number
            upto = after
        found.reverse()
        return found, taken

    async def _put(self, note: TakenBackNote, taken: TakenBack) -> bool:
        store, scope, conversation = self._where
        document = write_note(SESSION, TAKEN_BACK, note)
        try:
            await store.put_document(scope, conversation, document, expect=taken.version)
        except Conflict:
            return False
        return True


def without(note: TakenBackNote, seq: int, *, keep: int) -> TakenBackNote:
    """The note with an entry taken back, all of it or all but its first `keep` pieces."""
    shortened = {place: kept for place, kept in note.shortened if place != seq}
    if keep > 0:
        shortened[seq] = keep
        return TakenBackNote(stretches=note.stretches, shortened=tuple(sorted(shortened.items())))
    joined: list[tuple[int, int]] = []
    for first, last in sorted({*note.stretches, (seq, seq)}):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return TakenBackNote(stretches=tuple(joined), shortened=tuple(sorted(shortened.items())))


def _shown(page: Iterable[Entry], taken: TakenBack) -> list[Shown]:
    pairs = ((entry, taken.kept(entry.seq)) for entry in page)
    return [Shown(entry, kept) for entry, kept in pairs if kept != 0]
