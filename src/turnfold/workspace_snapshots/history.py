"""Takes, reads, compares and searches the workspace snapshots of a conversation.

Unchanged content is not written again, so a snapshot takes about as much space as was edited in its turn. Each snapshot
is one atomic write, and several processes may take snapshots at the same time without overwriting one another.
"""

from __future__ import annotations

import json
import threading
from collections import ChainMap, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias, cast

from turnfold.errors import Conflict, InvalidOption, InvalidRecord
from turnfold.records import Snapshot, SnapshotItem
from turnfold.stores import redaction_of
from turnfold.workspace_snapshots.diff import SnapshotDiff, compare_contents, state_changes
from turnfold.workspace_snapshots.recall import (
    RecalledContext,
    RecallRequest,
    SnapshotHit,
    WorkspaceRecall,
    parse_request,
    show_changes,
)
from turnfold.workspace_snapshots.storage import (
    ChunkRef,
    ListedItem,
    Packed,
    SnapshotHead,
    SnapshotStorage,
    StoredSnapshot,
    pack,
    rebuild_snapshot,
)

__all__ = (
    "AsyncSnapshots",
    "TakenSnapshot",
    "check_snapshot_page",
)


_TRIES = 64
"""Attempts to find a turn without a snapshot; an attempt fails if another writer takes the turn."""
_MAX_CHUNKS = 1 << 15
"""Most chunks of earlier snapshots for which the turns that have them are cached; the ones used least recently are
dropped."""
_STATE = ("state", "")
_Contents: TypeAlias = dict[tuple[str, str], str | bytes]
"""Contents of a snapshot by kind and path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenSnapshot:
    """The result of storing a snapshot: its id, its turn, and the number of bytes written."""

    id: str
    turn: int
    size: int
    """Bytes of the snapshot's content."""
    written: int
    """Bytes that were written for the snapshot."""
    repeated: bool
    """True if the same snapshot was stored already, so that nothing was written."""


class AsyncSnapshots:
    """Stores, compares, searches and recalls the workspace snapshots of one conversation.

    A snapshot has an agent's context, files and state at a turn.
    """

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
            packed = await self._packed(placed, items)
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

    async def _packed(self, snapshot: Snapshot, earlier: tuple[ListedItem, ...]) -> Packed:
        def make() -> Packed:
            last = {ref.digest: ref.turn for item in earlier for ref in item.chunks}
            return pack(snapshot, earlier=earlier, known=ChainMap(last, self._chunk_turns))

        texts = (snapshot.context, snapshot.summary, *snapshot.files.values())
        return await self._storage.compute(
            make, size=sum(map(len, texts)), items=len(snapshot.files) + len(snapshot.state)
        )

    async def get(self, turn: int) -> Snapshot | None:
        """Return the whole snapshot of a turn; None if the turn has no snapshot."""
        stored = await self._storage.stored(turn) if turn > 0 else None
        if stored is None:
            return None
        items = await self._storage.listing(stored)
        contents = await self._storage.contents(items)
        return await self._storage.compute(
            partial(_rebuild, stored.head, items, contents),
            size=sum(map(len, contents)),
            items=len(items),
        )

    async def before(self, turn: int) -> Snapshot | None:
        """Return the newest snapshot before a turn, with all its contents; None if there is none."""
        newest = await self._storage.newest(below=turn)
        return await self.get(newest) if newest else None

    async def heads(self, *, after: int = 0, limit: int = 100) -> list[SnapshotHead]:
        """Return a page of snapshot metadata, of turns after `after`, oldest first, at most `limit`."""
        check_snapshot_page(after, limit)
        return await self._storage.heads(after=after, limit=limit)

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
        changed = await self._storage.compute(
            partial(_changed_items, old, new, path), size=0, items=len(old) + len(new)
        )
        olds, news = [await self._read(items) for items in changed]
        size = sum(map(len, (*olds.values(), *news.values())))

        def compare() -> SnapshotDiff:
            return _compared((before, olds), (after, news), tokens=tokens, count=self._count)

        return await self._storage.compute(compare, size=size, items=len(olds) + len(news))

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

    async def _read(self, items: Sequence[ListedItem]) -> _Contents:
        """Read files, context and state of a snapshot; return them by (kind, path)."""
        contents = await self._storage.contents(items)
        return {
            (item.kind, item.path): data.decode() if item.text else data
            for item, data in zip(items, contents, strict=True)
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
    """Raise `InvalidOption` if a page of snapshots is to begin after a negative turn, or has a limit below 1."""
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


def _changed_items(
    old: Iterable[ListedItem], new: Iterable[ListedItem], path: str
) -> tuple[list[ListedItem], list[ListedItem]]:
    """Return the items of each snapshot that differ from the other one; with `path`, only that file."""
    old = [item for item in old if not path or item.place == ("file", path)]
    new = [item for item in new if not path or item.place == ("file", path)]
    same = {item.identity for item in old} & {item.identity for item in new}
    olds, news = ([item for item in items if item.identity not in same] for items in (old, new))
    return olds, news


def _compared(
    before: tuple[int, _Contents],
    after: tuple[int, _Contents],
    *,
    tokens: int,
    count: Callable[[str], int],
) -> SnapshotDiff:
    """Compare the contents that differ between the snapshots of two turns; `before` and `after` have the turns."""
    (first, olds), (second, news) = before, after
    places = sorted({*olds, *news} - {_STATE})
    found = [compare_contents(place[1], olds.get(place), news.get(place)) for place in places]
    changes = [change for change in found if change is not None]
    state = state_changes(_state_values(olds), _state_values(news))
    text, cut = show_changes(
        f"Turn {first:,} -> turn {second:,}",
        changes,
        [
            f"state {name}: {_state_text(was)} -> {_state_text(now)}"
            for name, (was, now) in state.items()
        ],
        tokens=tokens,
        count=count,
    )
    return SnapshotDiff(
        before=first,
        after=second,
        context=next((change for change in changes if not change.path), None),
        files=tuple(change for change in changes if change.path),
        state=state,
        text=text,
        cut=cut,
    )


def _state_values(items: _Contents) -> dict[str, object]:
    return cast("dict[str, object]", json.loads(items.get(_STATE, "{}")))


def _state_text(value: object) -> str:
    return "(none)" if value is ... else json.dumps(value, ensure_ascii=False)
