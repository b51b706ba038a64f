"""Snapshots of the workspace of one conversation: taken, read, compared, found.

What did not change since the last one is not written again, so a snapshot per turn costs about what was edited in it.
Each is one write: there whole, or not at all. Several processes may take them at once; none overwrites another's.
"""

from __future__ import annotations

import json
import threading
from collections import ChainMap, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

from turnfold.errors import Conflict, InvalidOption, InvalidRecord
from turnfold.memory.snapshots.recalling import RecalledContext, SnapshotHit, WorkspaceRecall
from turnfold.memory.snapshots.shelf import SnapshotShelf
from turnfold.recall.snapshots import (
    KeptItem,
    ListedItem,
    Packed,
    RecallRequest,
    Ref,
    SnapshotDiff,
    SnapshotHead,
    StoredSnapshot,
    as_request,
    compare_contents,
    pack,
    rebuilt,
    show_changes,
    state_changes,
)
from turnfold.records.snapshots import Snapshot

__all__ = ("AsyncSnapshots", "TakenSnapshot", "snapshot_of")

_TRIES = 64
"""Contests with other writers that one snapshot may lose."""
_MOST_KNOWN = 1 << 15
"""Pieces of earlier snapshots remembered beside those of the newest one."""
_STATE = ("state", "")
_Content: TypeAlias = tuple[str, str, bool, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenSnapshot:
    """The receipt of a snapshot."""

    id: str
    turn: int
    size: int
    """Bytes of everything it holds."""
    written: int
    """Bytes that had to be stored for it."""
    repeated: bool
    """Whether it had been taken before and nothing was written."""


class AsyncSnapshots:
    """The workspace of one conversation, turn by turn."""

    def __init__(
        self, shelf: SnapshotShelf, *, count: Callable[[str], int], clock: Callable[[], int]
    ) -> None:
        self._shelf = shelf
        self._count = count
        self._clock = clock
        self._recall = WorkspaceRecall(self._shelf, count, _said)
        self._known: OrderedDict[bytes, int] = OrderedDict()
        self._remembering = threading.Lock()
        self._last: tuple[int, tuple[ListedItem, ...]] = (0, ())

    @property
    def held_bytes(self) -> int:
        """Bytes of snapshots kept in memory."""
        return self._shelf.held_bytes

    async def take(self, snapshot: Snapshot) -> TakenSnapshot:
        """Keep a snapshot, durable on return. Without a turn it gets the one after the newest.

        Of a turn that has one already, the same is a repetition and another is a `Conflict`.
        """
        for _ in range(_TRIES):
            before, items = await self._base(snapshot.turn)
            turn = snapshot.turn or before + 1
            placed = replace(snapshot, turn=turn, created=snapshot.created or self._clock())
            packed = self._packed(placed, items)
            try:
                await self._shelf.put(turn, packed)
            except Conflict:
                if not snapshot.turn:
                    continue  # another process was first: the next turn is free
                return await self._repeated(turn, packed)
            self._learn(turn, packed)
            return TakenSnapshot(
                id=packed.id, turn=turn, size=packed.size, written=len(packed.body), repeated=False
            )
        raise Conflict(
            f"other writers took {_TRIES} turns in a row; nothing was written: try again"
        )

    async def get(self, turn: int) -> Snapshot | None:
        """The snapshot of a turn, whole; None where none was taken."""
        stored = await self._shelf.stored(turn) if turn > 0 else None
        if stored is None:
            return None
        items = await self._shelf.listing(stored)
        return snapshot_of(stored.head, items, await self._shelf.contents(items))

    async def before(self, turn: int) -> Snapshot | None:
        """The newest snapshot of the turns before one, whole."""
        newest = await self._shelf.newest(below=turn)
        return await self.get(newest) if newest else None

    async def heads(self, *, after: int = 0, limit: int = 100) -> list[SnapshotHead]:
        """What is said of the snapshots of a page of turns, oldest first."""
        if after < 0 or limit < 1:
            raise InvalidOption(f"after={after} must not be negative, limit={limit} at least 1")
        return [stored.head for stored in await self._shelf.page(after=after, limit=limit)]

    async def newest(self) -> int:
        """The newest turn that has a snapshot; 0 before the first."""
        return await self._shelf.newest()

    async def files(self, turn: int) -> dict[str, int]:
        """The files of a snapshot, path -> bytes, without reading them."""
        items = await self._shelf.listing(await self._there(turn))
        return {item.path: item.size for item in items if item.kind == "file"}

    async def read(self, turn: int, path: str) -> str | bytes:
        """One file as it was at a turn; no other is read."""
        for item in await self._shelf.listing(await self._there(turn)):
            if item.place == ("file", path):
                [data] = await self._shelf.contents([item])
                return data.decode() if item.text else data
        raise InvalidOption(f"turn {turn:,} has no file {path!r}; see files({turn})")

    async def diff(
        self, before: int, after: int, *, path: str = "", tokens: int = 2000
    ) -> SnapshotDiff:
        """What changed from one turn to another, in one file if `path` names it; `text` costs at most `tokens`.

        What did not change is not read.
        """
        old, new = [await self._shelf.listing(await self._there(turn)) for turn in (before, after)]
        same = {_content(item) for item in old} & {_content(item) for item in new}
        olds = await self._others(_only(old, path), same)
        news = await self._others(_only(new, path), same)
        places = sorted({*olds, *news} - {_STATE})
        found = [compare_contents(place[1], olds.get(place), news.get(place)) for place in places]
        changes = [change for change in found if change is not None]
        state = state_changes(_values(olds), _values(news))
        text, cut = show_changes(
            f"Turn {before:,} -> turn {after:,}",
            changes,
            [f"state {name}: {_shown(was)} -> {_shown(now)}" for name, (was, now) in state.items()],
            tokens=tokens,
            count=self._count,
        )
        return SnapshotDiff(
            before=before,
            after=after,
            context=next((change for change in changes if not change.path), None),
            files=tuple(change for change in changes if change.path),
            state=state,
            text=text,
            cut=cut,
        )

    async def search(self, keyword: str, *, limit: int = 10) -> list[SnapshotHit]:
        """The turns whose snapshot brought the words, best first: what was new in it, and what was said of it."""
        if limit < 1:
            raise InvalidOption(f"limit={limit} must be at least 1")
        return await self._recall.search([keyword], limit=limit)

    async def recall(
        self, request: RecallRequest | Mapping[str, object], *, tokens: int = 4000
    ) -> RecalledContext:
        """What was asked for by turn, id, path and lines, or keywords, as text of at most `tokens`."""
        return await self._recall.recall(as_request(request), tokens=tokens)

    async def _there(self, turn: int) -> StoredSnapshot:
        stored = await self._shelf.stored(turn) if turn > 0 else None
        if stored is None:
            newest = await self._shelf.newest()
            kept = f"the newest is of turn {newest:,}" if newest else "there is none yet"
            raise InvalidOption(f"no snapshot of turn {turn:,}; {kept}")
        return stored

    async def _others(
        self, items: Iterable[ListedItem], same: set[_Content]
    ) -> dict[tuple[str, str], str | bytes]:
        wanted = [item for item in items if _content(item) not in same]
        contents = await self._shelf.contents(wanted)
        return {
            (item.kind, item.path): data.decode() if item.text else data
            for item, data in zip(wanted, contents, strict=True)
        }

    async def _base(self, turn: int) -> tuple[int, tuple[ListedItem, ...]]:
        """The newest snapshot before `turn`, or of all: its turn and what it holds."""
        newest = await (self._shelf.newest(below=turn) if turn else self._shelf.newest())
        if newest != self._last[0]:
            stored = await self._shelf.stored(newest) if newest else None
            items = await self._shelf.listing(stored) if stored else ()
            self._remember(ref for item in items for ref in item.pieces)
            self._remember(stored.head.listing if stored else ())
            self._last = newest, items
        return self._last

    def _packed(self, snapshot: Snapshot, items: tuple[ListedItem, ...]) -> Packed:
        of_last = {ref.digest: ref.turn for item in items for ref in item.pieces}
        return pack(snapshot, earlier=items, known=ChainMap(of_last, self._known))

    def _learn(self, turn: int, packed: Packed) -> None:
        self._last = turn, packed.items
        self._remember(packed.learned)

    def _remember(self, refs: Iterable[Ref]) -> None:
        with self._remembering:
            for ref in refs:
                self._known[ref.digest] = ref.turn
                self._known.move_to_end(ref.digest)
            while len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)

    async def _repeated(self, turn: int, packed: Packed) -> TakenSnapshot:
        """The receipt of a snapshot that is there already, if it is the same."""
        stored = await self._there(turn)
        if stored.head.id != packed.id:
            raise Conflict(
                f"turn {turn:,} has a snapshot already, {stored.head.id}, which is another: a snapshot is never "
                "changed; take one of the next turn"
            )
        return TakenSnapshot(id=packed.id, turn=turn, size=packed.size, written=0, repeated=True)


async def _said(stored: StoredSnapshot) -> str:
    return stored.head.summary


def snapshot_of(
    head: SnapshotHead, items: Iterable[ListedItem], contents: Iterable[bytes]
) -> Snapshot:
    """The snapshot of a document, proved against its id."""
    snapshot = rebuilt(
        (
            KeptItem(item.kind, item.path, item.text, data)
            for item, data in zip(items, contents, strict=True)
        ),
        turn=head.turn,
        summary=head.summary,
        insights=head.insights,
        links=head.links,
        created=head.created,
        where=f"turn {head.turn}",
    )
    if snapshot.id != head.id:
        raise InvalidRecord(
            f"it is {snapshot.id}, not the {head.id} it says it is",
            path=f"turn {head.turn}",
            remedy="Restore the store from a backup",
        )
    return snapshot


def _only(items: Iterable[ListedItem], path: str) -> list[ListedItem]:
    return [item for item in items if not path or item.place == ("file", path)]


def _content(item: ListedItem) -> _Content:
    return item.kind, item.path, item.text, item.digest


def _values(items: dict[tuple[str, str], str | bytes]) -> dict[str, object]:
    return cast("dict[str, object]", json.loads(items.get(_STATE, "{}")))


def _shown(value: object) -> str:
    return "(none)" if value is ... else json.dumps(value, ensure_ascii=False)
