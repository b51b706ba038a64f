"""Takes, reads, compares and searches the workspace snapshots of a conversation.

Unchanged content is not written again, so a snapshot takes about as much space as was edited in its turn. Each snapshot
is one atomic write, and several processes may take snapshots at the same time without overwriting one another.
"""

from __future__ import annotations

import json
import threading
from collections import ChainMap, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import cast

from turnfold.errors import Conflict, InvalidOption, InvalidRecord
from turnfold.records import ItemKind, Snapshot, SnapshotItem
from turnfold.snapshots.diff import SnapshotDiff, compare_contents, state_changes
from turnfold.snapshots.recall import (
    RecalledContext,
    RecallRequest,
    SnapshotHit,
    WorkspaceRecall,
    parse_request,
    show_changes,
)
from turnfold.snapshots.storage import (
    ChunkRef,
    ListedItem,
    Packed,
    SnapshotHead,
    SnapshotStorage,
    StoredSnapshot,
    pack,
    rebuild_snapshot,
)
from turnfold.stores import redaction_of

__all__ = (
    "AsyncSnapshots",
    "TakenSnapshot",
    "check_snapshot_page",
)


_TRIES = 64
"""Attempts to find a free turn, while other writers take turns too."""
_MAX_CHUNKS = 1 << 15
"""The most chunks of earlier snapshots whose turns are cached, in addition to those of the newest snapshot."""
_STATE = ("state", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenSnapshot:
    """The result of storing a snapshot: its id, its turn, and the number of bytes written."""

    id: str
    turn: int
    size: int
    """Bytes of its content."""
    written: int
    """Bytes that were written for it."""
    repeated: bool
    """True if the same snapshot was stored already, so that nothing was written."""


class AsyncSnapshots:
    """The workspace snapshots of one conversation, turn by turn."""

    def __init__(
        self, storage: SnapshotStorage, *, count: Callable[[str], int], clock: Callable[[], int]
    ) -> None:
        self._storage = storage
        self._count = count
        self._clock = clock
        self._recall = WorkspaceRecall(self._storage, count, _own_summary)
        self._chunk_turns: OrderedDict[bytes, int] = OrderedDict()
        self._chunk_lock = threading.Lock()
        self._last: tuple[int, tuple[ListedItem, ...]] = (0, ())

    @property
    def held_bytes(self) -> int:
        """Bytes of stored snapshots that are cached in this process."""
        return self._storage.held_bytes

    async def take(self, snapshot: Snapshot) -> TakenSnapshot:
        """Store a snapshot of the workspace; a snapshot without a turn gets the turn after the newest snapshot.

        If the turn already has an equal snapshot, nothing is written; a different one raises `Conflict`.
        """
        storage = self._storage
        if redaction := redaction_of(storage.store):
            snapshot = await redaction.snapshot(storage.scope, storage.conversation, snapshot)
        for _ in range(_TRIES):
            before, items = await self._previous(snapshot.turn)
            turn = snapshot.turn or before + 1
            placed = replace(snapshot, turn=turn, created=snapshot.created or self._clock())
            last = {ref.digest: ref.turn for item in items for ref in item.chunks}
            packed = pack(placed, earlier=items, known=ChainMap(last, self._chunk_turns))
            try:
                await self._storage.put(turn, packed)
            except Conflict:
                if not snapshot.turn:
                    continue  # another process took this turn: try the next one
                return await self._same_as_stored(turn, packed)
            self._last = turn, packed.items
            self._remember_chunks(packed.new_chunks)
            return TakenSnapshot(
                id=packed.id, turn=turn, size=packed.size, written=len(packed.body), repeated=False
            )
        raise Conflict(
            f"other writers stored a snapshot of the next turn first, {_TRIES} times in a row; nothing was written: "
            "try again"
        )

    async def get(self, turn: int) -> Snapshot | None:
        """Return the whole snapshot of a turn; None if the turn has no snapshot."""
        stored = await self._storage.stored(turn) if turn > 0 else None
        if stored is None:
            return None
        items = await self._storage.listing(stored)
        return _rebuild(stored.head, items, await self._storage.contents(items))

    async def before(self, turn: int) -> Snapshot | None:
        """Return the newest snapshot before a turn, with all its contents; None if there is none."""
        newest = await self._storage.newest(below=turn)
        return await self.get(newest) if newest else None

    async def heads(self, *, after: int = 0, limit: int = 100) -> list[SnapshotHead]:
        """Return a page of snapshot metadata, of turns after `after`, oldest first, at most `limit`."""
        check_snapshot_page(after, limit)
        return [stored.head for stored in await self._storage.page(after=after, limit=limit)]

    async def newest(self) -> int:
        """Return the newest turn with a snapshot; 0 if there is none."""
        return await self._storage.newest()

    async def files(self, turn: int) -> dict[str, int]:
        """Return {path: size in bytes} of a snapshot's files, without reading the files."""
        items = await self._storage.listing(await self._require(turn))
        return {item.path: item.size for item in items if item.kind == "file"}

    async def read(self, turn: int, path: str) -> str | bytes:
        """Return one file of the snapshot of a turn; raise `InvalidOption` if there is no such turn or file."""
        for item in await self._storage.listing(await self._require(turn)):
            if item.place == ("file", path):
                [data] = await self._storage.contents([item])
                return data.decode() if item.text else data
        raise InvalidOption(f"turn {turn:,} has no file {path!r}: files({turn}) lists its files")

    async def diff(
        self, before: int, after: int, *, path: str = "", tokens: int = 2000
    ) -> SnapshotDiff:
        """Compare the snapshots of two turns, or one file of them; `text` of the result has at most `tokens`.

        Unchanged content is not read.
        """
        old, new = [
            await self._storage.listing(await self._require(turn)) for turn in (before, after)
        ]
        same = {item.identity for item in old} & {item.identity for item in new}
        olds = await self._read_changed(_with_path(old, path), same)
        news = await self._read_changed(_with_path(new, path), same)
        places = sorted({*olds, *news} - {_STATE})
        found = [compare_contents(place[1], olds.get(place), news.get(place)) for place in places]
        changes = [change for change in found if change is not None]
        state = state_changes(_state_values(olds), _state_values(news))
        text, cut = show_changes(
            f"Turn {before:,} -> turn {after:,}",
            changes,
            [
                f"state {name}: {_state_text(was)} -> {_state_text(now)}"
                for name, (was, now) in state.items()
            ],
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
        """Find the turns whose new content or summary contains the keywords, best first."""
        if limit < 1:
            raise InvalidOption(f"limit={limit} must be at least 1")
        return await self._recall.search([keyword], limit=limit)

    async def recall(
        self, request: RecallRequest | Mapping[str, object], *, tokens: int = 4000
    ) -> RecalledContext:
        """Return content of snapshots by turn, id, path and lines, or keywords, as text of at most `tokens`."""
        return await self._recall.recall(parse_request(request), tokens=tokens)

    async def _require(self, turn: int) -> StoredSnapshot:
        stored = await self._storage.stored(turn) if turn > 0 else None
        if stored is None:
            newest = await self._storage.newest()
            hint = f"the newest is of turn {newest:,}" if newest else "there is none yet"
            raise InvalidOption(f"no snapshot of turn {turn:,}; {hint}")
        return stored

    async def _read_changed(
        self, items: Iterable[ListedItem], same: set[tuple[ItemKind, str, bool, bytes]]
    ) -> dict[tuple[str, str], str | bytes]:
        """Read the files, context and state that differ between two snapshots; return them by (kind, path)."""
        wanted = [item for item in items if item.identity not in same]
        contents = await self._storage.contents(wanted)
        return {
            (item.kind, item.path): data.decode() if item.text else data
            for item, data in zip(wanted, contents, strict=True)
        }

    async def _previous(self, turn: int) -> tuple[int, tuple[ListedItem, ...]]:
        """Return the newest turn before `turn` that has a snapshot, and the listing of that snapshot.

        If `turn` is 0, all turns count. Returns 0 and () if there is no snapshot.
        """
        newest = await (self._storage.newest(below=turn) if turn else self._storage.newest())
        if newest != self._last[0]:
            stored = await self._storage.stored(newest) if newest else None
            items = await self._storage.listing(stored) if stored else ()
            self._remember_chunks(ref for item in items for ref in item.chunks)
            self._remember_chunks(stored.head.listing if stored else ())
            self._last = newest, items
        return self._last

    def _remember_chunks(self, refs: Iterable[ChunkRef]) -> None:
        with self._chunk_lock:
            for ref in refs:
                self._chunk_turns[ref.digest] = ref.turn
                self._chunk_turns.move_to_end(ref.digest)
            while len(self._chunk_turns) > _MAX_CHUNKS:
                self._chunk_turns.popitem(last=False)

    async def _same_as_stored(self, turn: int, packed: Packed) -> TakenSnapshot:
        """Return the result for a snapshot that the turn already has; raise `Conflict` if the stored one differs."""
        stored = await self._require(turn)
        if stored.head.id != packed.id:
            raise Conflict(
                f"turn {turn:,} already has a different snapshot, {stored.head.id}; snapshots are never changed: "
                "take one of the next turn"
            )
        return TakenSnapshot(id=packed.id, turn=turn, size=packed.size, written=0, repeated=True)


async def _own_summary(stored: StoredSnapshot) -> str:
    return stored.head.summary


def check_snapshot_page(after: int, limit: int) -> None:
    """Raise `InvalidOption` if a list of snapshots is to begin after a negative turn, or to have no item."""
    if after < 0:
        raise InvalidOption(f"after={after} must not be negative")
    if limit < 1:
        raise InvalidOption(f"limit={limit} must be at least 1")


def _rebuild(
    head: SnapshotHead, items: Iterable[ListedItem], contents: Iterable[bytes]
) -> Snapshot:
    """Rebuild a stored snapshot from its contents; raise `InvalidRecord` if they do not match its id."""
    snapshot = rebuild_snapshot(
        (
            SnapshotItem(item.kind, item.path, item.text, data)
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
            f"the stored snapshot is damaged: its content gives the id {snapshot.id}, but it was stored as {head.id}",
            path=f"turn {head.turn}",
            remedy="Restore the store from a backup",
        )
    return snapshot


def _with_path(items: Iterable[ListedItem], path: str) -> list[ListedItem]:
    return [item for item in items if not path or item.place == ("file", path)]


def _state_values(items: dict[tuple[str, str], str | bytes]) -> dict[str, object]:
    return cast("dict[str, object]", json.loads(items.get(_STATE, "{}")))


def _state_text(value: object) -> str:
    return "(none)" if value is ... else json.dumps(value, ensure_ascii=False)
