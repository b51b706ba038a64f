"""Document 002's ContextMemoryStore: full workspace contexts, and what was made of each.

A context is stored before anybody thinks about it, its summary when there is one. Whoever dies in between leaves a
context without a summary, which is shown by its own sentences until it has one: the two never tell different stories.
A summary is written once; of two writers the first is kept and the other is given it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from turnfold.errors import Conflict, InvalidOption
from turnfold.memory.snapshots.history import AsyncSnapshots
from turnfold.memory.snapshots.keys import SNAPSHOT_SUMMARY, turn_key
from turnfold.memory.snapshots.recalling import RecalledContext, WorkspaceRecall
from turnfold.memory.snapshots.shelf import SnapshotShelf
from turnfold.memory.waiting import Way
from turnfold.memory.workspace.accumulating import Accumulated
from turnfold.memory.workspace.carrying import Carried, Carrier, read_carried
from turnfold.memory.workspace.picking import picked_summary, what_to_read
from turnfold.memory.workspace.values import (
    ContextHit,
    ContextSnapshot,
    ImportedContexts,
    MemorySummary,
    context_of,
    full_context,
    read_summary,
    write_summary,
)
from turnfold.recall.snapshots import RecallRequest, StoredSnapshot, as_request
from turnfold.records.snapshots import Snapshot
from turnfold.stores.protocol import Scope, Store

__all__ = ("AsyncContextMemoryStore",)

_PAGE = 200
_READ = 4000
"""Tokens of a context that are read for them."""
_PICKED = 120
"""Tokens of the sentences that stand for a summary that is not there."""


class AsyncContextMemoryStore:
    """The contexts and summaries of one conversation."""

    def __init__(
        self,
        store: Store,
        scope: Scope,
        conversation: str,
        *,
        count: Callable[[str], int],
        clock: Callable[[], int],
        way: Way,
    ) -> None:
        self._turnstile = way.turnstile()
        self._store, self._scope, self._conversation = store, scope, conversation
        self._count = count
        self._clock = clock
        self._shelf = SnapshotShelf(store, scope, conversation)
        self._snapshots = AsyncSnapshots(self._shelf, count=count, clock=clock)
        self._recall = WorkspaceRecall(self._shelf, count, self._said)
        self._accumulated = Accumulated(count)
        self._known: dict[int, str] = {}
        """Turn -> its summary, as far as they were read."""
        self._picked: dict[int, str] = {}
        """Turn without a summary -> sentences of its context."""
        self._read = 0
        """The turn up to which it is known which contexts there are."""

    @property
    def snapshots(self) -> AsyncSnapshots:
        """The snapshots behind the contexts: files, diffs, lines."""
        return self._snapshots

    async def add_context(
        self, workspace: str | Snapshot, *, turn: int = 0, links: tuple[str, ...] = ()
    ) -> ContextSnapshot:
        """Keep the full context of a turn: the one after the newest where none is named."""
        given = Snapshot(context=workspace) if isinstance(workspace, str) else workspace
        wanted = replace(
            given,
            turn=turn or given.turn,
            links=tuple(dict.fromkeys((*given.links, *links))),
            created=given.created or self._clock(),
        )
        taken = await self._snapshots.take(wanted)
        if taken.repeated and (there := await self.context(taken.turn)) is not None:
            return there
        return context_of(replace(wanted, turn=taken.turn), None)

    async def add_summary(self, summary: MemorySummary) -> MemorySummary:
        """Keep what was made of a context; the stored one, where there is one already."""
        stored = await self._shelf.stored(summary.turn_number)
        if stored is None or stored.head.id != summary.context_id:
            raise InvalidOption(
                f"{summary.context_id} is not the context of turn {summary.turn_number:,}"
            )
        try:
            await self._put(summary)
        except Conflict:
            there = await self.summary(summary.turn_number)
            if there is None:
                raise
            return there
        return summary

    async def context(self, turn: int) -> ContextSnapshot | None:
        """The context of a turn, whole; None where none was kept."""
        snapshot = await self._snapshots.get(turn)
        return context_of(snapshot, await self.summary(turn)) if snapshot else None

    async def contexts(self, *, after: int = 0, limit: int = 20) -> list[ContextSnapshot]:
        """A page of contexts, whole, oldest first."""
        heads = await self._snapshots.heads(after=after, limit=limit)
        found = [await self.context(head.turn) for head in heads]
        return [context for context in found if context is not None]

    async def summary(self, turn: int) -> MemorySummary | None:
        """What was made of the context of a turn."""
        if turn < 1:
            return None
        document = await self._store.get_document(
            self._scope, self._conversation, SNAPSHOT_SUMMARY, turn_key(turn)
        )
        return read_summary(document) if document else None

    async def summaries(self, *, after: int = 0, limit: int = 100) -> list[MemorySummary]:
        """A page of summaries, oldest first."""
        if after < 0 or limit < 1:
            raise InvalidOption(f"after={after} must not be negative, limit={limit} at least 1")
        documents = await self._store.documents(
            self._scope, self._conversation, SNAPSHOT_SUMMARY, after=turn_key(after), limit=limit
        )
        return [read_summary(document) for document in documents]

    async def accumulated_summaries(self, *, tokens: int) -> str:
        """A line per turn in at most `tokens`, the oldest folded where they outgrow them; empty before the first."""
        async with self._turnstile:
            await self._refresh()
            said = {**self._picked, **self._known}
            return self._accumulated.text(sorted(said.items()), tokens=tokens) if said else ""

    async def search(self, keyword: str, *, limit: int = 10) -> list[ContextHit]:
        """The contexts that a keyword finds, best first: by what was new in them and what was made of them."""
        if limit < 1:
            raise InvalidOption(f"limit={limit} must be at least 1")
        found: list[ContextHit] = []
        for hit in await self._recall.search([keyword], limit=limit):
            stored = await self._shelf.stored(hit.turn)
            if stored is not None:
                said = await self._said(stored)
                found.append(ContextHit(stored.head.id, hit.turn, said, hit.score))
        return found

    async def recall(
        self, request: RecallRequest | Mapping[str, object], *, tokens: int
    ) -> RecalledContext:
        """What was asked for by turn numbers, context ids, path and lines, or keywords, in at most `tokens`."""
        return await self._recall.recall(as_request(request), tokens=tokens)

    async def export(self) -> dict[str, object]:
        """Everything, as values JSON can carry; `import_` makes the same of it anywhere."""
        carrier = Carrier()
        after = 0
        while heads := await self._snapshots.heads(after=after, limit=_PAGE):
            for head in heads:
                snapshot = await self._snapshots.get(head.turn)
                summary = await self.summary(head.turn)
                if snapshot is not None:
                    carrier.add(snapshot, summary)
            after = heads[-1].turn
        return carrier.export()

    async def import_(self, exported: Mapping[str, object]) -> ImportedContexts:
        """Take over what `export` gave, here or elsewhere. What is here and the same is left alone.

        An export with any fault is refused whole, and so is one with another context or summary of a turn that is
        here: a `Conflict`. Into a conversation that is new everything is written at once or not at all; into another
        one turn after the other, and the same import goes on where it was interrupted.
        """
        carried = read_carried(exported)
        head = await self._store.head(self._scope, self._conversation)
        if not carried.turns:
            return ImportedContexts(contexts=0, summaries=0)
        if not head.generation:
            pieces = carried.pieces(self._conversation)
            await self._store.restore(self._scope, pieces)
            return ImportedContexts(contexts=len(carried.turns), summaries=len(carried.summaries))
        known = await self._already(carried)
        contexts = summaries = 0
        for snapshot in carried.snapshots():
            contexts += not (await self._snapshots.take(snapshot)).repeated
        for summary in carried.summaries:
            if summary.turn_number not in known:
                await self._put(summary)
                summaries += 1
        return ImportedContexts(contexts=contexts, summaries=summaries)

    async def _already(self, carried: Carried) -> set[int]:
        """The turns whose summary is here already; refuses what contradicts what is here."""
        for turn, context_id in carried.turns.items():
            there = await self._shelf.stored(turn)
            if there is not None and there.head.id != context_id:
                raise Conflict(
                    f"turn {turn:,} is {there.head.id} here and {context_id} in the export; nothing was imported: "
                    "import it under another conversation id"
                )
        known: set[int] = set()
        for summary in carried.summaries:
            found = await self.summary(summary.turn_number)
            if found is not None and found != summary:
                raise Conflict(
                    f"the summary of turn {summary.turn_number:,} is another here than in the export; nothing was "
                    "imported: import it under another conversation id"
                )
            if found is not None:
                known.add(summary.turn_number)
        return known

    async def _put(self, summary: MemorySummary) -> None:
        document = write_summary(summary)
        await self._store.put_document(self._scope, self._conversation, document, expect=0)

    async def _said(self, stored: StoredSnapshot) -> str:
        summary = await self.summary(stored.head.turn)
        return summary.summary if summary else stored.head.summary

    async def _refresh(self) -> None:
        """Read the summaries written since the last time, and see which contexts have none."""
        newest = await self._snapshots.newest()
        if newest and await self._shelf.stored(newest) is None:  # erased, here too
            self._known.clear()
            self._picked.clear()
            return
        after = max(self._known, default=0)
        while page := await self.summaries(after=after, limit=_PAGE):
            self._known.update((each.turn_number, each.summary) for each in page)
            after = page[-1].turn_number
        for turn in list(self._picked):
            late = await self.summary(turn)
            if late is not None:
                self._known[turn] = late.summary
                del self._picked[turn]
        expected = self._read + 1
        for turn in (*sorted(turn for turn in self._known if turn > self._read), newest + 1):
            if turn > expected:
                await self._pick_between(expected, turn)
            expected = turn + 1
        self._read = max(self._read, newest)

    async def _pick_between(self, first: int, stop: int) -> None:
        """Sentences for the contexts of [first, stop), which have no summary; turns without a context cost nothing."""
        after = first - 1
        while True:
            page = await self._shelf.page(after=after, limit=1)
            if not page or page[0].head.turn >= stop:
                return
            head = page[0].head
            after = head.turn
            snapshot = await self._snapshots.get(head.turn)
            if snapshot is not None:
                self._picked[head.turn] = head.summary or self._sentences(full_context(snapshot))

    def _sentences(self, text: str) -> str:
        read, _ = what_to_read(text, None, tokens=_READ, count=self._count)
        return picked_summary(read, tokens=_PICKED, count=self._count)
