"""Where the snapshots of a conversation lie in its store.

One document per snapshot, under its turn, written once and never changed: two writers who want the same turn are told
apart by compare-and-swap, and a reader needs no lock. There is no list of them to keep in step: the newest is found
in a few questions, because keys are in the order of turns. Documents are asked for in pages even where one is wanted:
a cache keeps small hot values, and these are neither.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable

from turnfold.errors import InvalidRecord
from turnfold.memory.snapshots.keys import SNAPSHOT, turn_key, turn_of
from turnfold.recall.snapshots import ListedItem, Packed, Ref, StoredSnapshot, read_listing, unpack
from turnfold.records import Document
from turnfold.records.snapshots import LATEST_TURN, content_digest
from turnfold.stores.protocol import Scope, Store

__all__ = ("SnapshotShelf",)

_MOST_HELD = 16 << 20
"""Bytes of pieces kept at hand."""


class SnapshotShelf:
    """The snapshot documents of one conversation."""

    def __init__(self, store: Store, scope: Scope, conversation: str) -> None:
        self.store = store
        self.scope = scope
        self.conversation = conversation
        self._held: OrderedDict[int, StoredSnapshot] = OrderedDict()
        self._held_bytes = 0
        self._holding = threading.Lock()
        self._newest = 0

    @property
    def held_bytes(self) -> int:
        """Bytes of pieces kept in memory."""
        return self._held_bytes

    async def put(self, turn: int, packed: Packed) -> None:
        """Write a new snapshot; a `Conflict` if there is one of this turn."""
        document = Document(SNAPSHOT, turn_key(turn), packed.body, 0, text=packed.text)
        await self.store.put_document(self.scope, self.conversation, document, expect=0)
        self._newest = max(self._newest, turn)

    async def stored(self, turn: int) -> StoredSnapshot | None:
        """The snapshot of a turn as the store has it now."""
        page = await self.page(after=turn - 1, limit=1)
        return page[0] if page and page[0].head.turn == turn else None

    async def page(self, *, after: int, limit: int) -> list[StoredSnapshot]:
        """The snapshots of the turns after one, oldest first."""
        key = turn_key(min(max(after, 0), LATEST_TURN))
        documents = await self.store.documents(
            self.scope, self.conversation, SNAPSHOT, after=key, limit=limit
        )
        found = [unpack(document.body, turn=turn_of(document.key)) for document in documents]
        for stored in found:
            self._hold(stored)
        return found

    async def newest(self, *, below: int = LATEST_TURN + 1) -> int:
        """The highest turn below one that has a snapshot; 0 where none has.

        Ever further on until there is nothing more, then halves: turns need not be without gaps.
        """
        low = self._newest if self._newest < below else 0
        probe, high, step = low, below - 1, 1
        while low < high:
            page = await self.page(after=probe, limit=1)
            if page and page[0].head.turn < below:
                low = page[0].head.turn
                probe, step = min(low + step, high), step * 2
            else:
                high = probe
                probe = (low + high) // 2
        self._newest = max(self._newest, low)
        return low

    async def listing(self, stored: StoredSnapshot) -> tuple[ListedItem, ...]:
        """What a snapshot holds."""
        pieces = await self._pieces(stored.head.listing)
        data = b"".join(pieces[ref.digest] for ref in stored.head.listing)
        return read_listing(data, turn=stored.head.turn)

    async def contents(self, items: Iterable[ListedItem]) -> list[bytes]:
        """What these items hold, proved against their digests."""
        wanted = list(items)
        pieces = await self._pieces(ref for item in wanted for ref in item.pieces)
        found = [b"".join(pieces[ref.digest] for ref in item.pieces) for item in wanted]
        for item, data in zip(wanted, found, strict=True):
            if len(data) != item.size or content_digest(data) != item.digest:
                raise InvalidRecord(
                    f"{len(data):,} bytes that are not the {item.size:,} that were stored",
                    path=f"{item.kind} {item.path}".rstrip(),
                    remedy="Restore the store from a backup",
                )
        return found

    async def _pieces(self, refs: Iterable[Ref]) -> dict[bytes, bytes]:
        by_turn: defaultdict[int, set[bytes]] = defaultdict(set)
        for ref in refs:
            by_turn[ref.turn].add(ref.digest)
        pieces: dict[bytes, bytes] = {}
        for turn, digests in sorted(by_turn.items()):
            stored = self._held.get(turn) or await self.stored(turn)
            missing = digests - stored.pieces.keys() if stored else digests
            if stored is None or missing:
                raise InvalidRecord(
                    f"{len(missing)} of its pieces should lie in the document of turn {turn:,} and do not",
                    path=f"{SNAPSHOT}/{turn}",
                    remedy="Restore the store from a backup",
                )
            pieces.update((digest, stored.pieces[digest]) for digest in digests)
        return pieces

    def _hold(self, stored: StoredSnapshot) -> None:
        """Keep the pieces at hand. They are reached through a document that was just read: erased is erased."""
        turn = stored.head.turn
        with self._holding:
            if turn in self._held or stored.size > _MOST_HELD:
                return
            self._held[turn] = stored
            self._held_bytes += stored.size
            while self._held_bytes > _MOST_HELD:
                self._held_bytes -= self._held.popitem(last=False)[1].size
