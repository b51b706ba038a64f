"""Bringing a workspace back: by turn, by id, by path and lines, by keywords, always within a number of tokens.

What is asked for decides what is read: one file is read for one file, and the files of a snapshot too large to show are
named instead of read. Found nothing is an answer too, with what there is.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from turnfold.memory.snapshots.keys import SNAPSHOT, SNAPSHOT_SUMMARY, turn_of
from turnfold.memory.snapshots.shelf import SnapshotShelf
from turnfold.recall import asked_terms, terms_of
from turnfold.recall.snapshots import (
    ListedItem,
    Part,
    RecallRequest,
    StoredSnapshot,
    focused,
    show_parts,
)
from turnfold.stores.within import Within
from turnfold.window import one_line

__all__ = ("RecalledContext", "SnapshotHit", "WorkspaceRecall")

_ID = re.compile(r"ctx_([1-9][0-9]{0,11})_[0-9a-f]{12}")
_MOST_FOUND = 5
"""Snapshots that keywords bring back at once."""
_MOST_NAMED = 40
"""Files named of a snapshot that has more than can be shown."""
_BYTES_A_TOKEN = 3


@dataclass(frozen=True, slots=True)
class SnapshotHit:
    """A snapshot that keywords find."""

    turn: int
    score: float
    """Higher is better; comparable within one answer only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledContext:
    """What was brought back."""

    text: str
    """For the model; it says what is missing and how to ask for it."""
    tokens: int
    turns: tuple[int, ...]
    """The snapshots it is from."""
    context_ids: tuple[str, ...]
    cut: bool
    """Whether something that was asked for did not fit."""


@dataclass(slots=True)
class _Found:
    parts: list[Part] = field(default_factory=list[Part])
    remarks: list[str] = field(default_factory=list[str])
    shown: list[StoredSnapshot] = field(default_factory=list[StoredSnapshot])


@dataclass(frozen=True, slots=True)
class WorkspaceRecall:
    """Brings back what the snapshots of one conversation hold."""

    shelf: SnapshotShelf
    count: Callable[[str], int]
    said_of: Callable[[StoredSnapshot], Awaitable[str]]
    """The summary of a snapshot."""

    async def search(self, words: Sequence[str], *, limit: int) -> list[SnapshotHit]:
        """The snapshots that hold any of the words, best first."""
        terms = asked_terms(" ".join(words))
        if not terms:
            return []
        shelf = self.shelf
        hits = await shelf.store.search(
            shelf.scope,
            terms,
            conversation=shelf.conversation,
            limit=2 * limit,
            within=Within(kinds=frozenset({SNAPSHOT, SNAPSHOT_SUMMARY})),
        )
        best: dict[int, float] = {}
        for hit in hits:
            turn = turn_of(hit.key)
            best[turn] = max(best.get(turn, 0.0), hit.score)
        ranked = sorted(best.items(), key=lambda each: (-each[1], -each[0]))
        return [SnapshotHit(turn, score) for turn, score in ranked[:limit]]

    async def recall(self, request: RecallRequest, *, tokens: int) -> RecalledContext:
        """What was asked for, in at most `tokens`."""
        found = _Found()
        terms = asked_terms(" ".join(request.keywords))
        for turn in await self._turns(request, found):
            stored = await self.shelf.stored(turn)
            if stored is None:
                continue
            found.shown.append(stored)
            found.parts += await self._parts(stored, request, terms, tokens, found)
        if not found.shown and not found.remarks:
            found.remarks.append(await self._nothing(request))
        text, cut = show_parts(found.parts, tokens=tokens, count=self.count, remarks=found.remarks)
        return RecalledContext(
            text=text,
            tokens=self.count(text),
            turns=tuple(stored.head.turn for stored in found.shown),
            context_ids=tuple(stored.head.id for stored in found.shown),
            cut=cut,
        )

    async def _turns(self, request: RecallRequest, found: _Found) -> list[int]:
        """The turns to show, each once, in the order they were asked for or found."""
        turns: dict[int, None] = {}
        for turn in request.turn_numbers:
            if await self.shelf.stored(turn) is None:
                found.remarks.append(
                    f"[no workspace was kept of turn {turn:,}; {await self._kept()}]"
                )
            else:
                turns[turn] = None
        for name in request.context_ids:
            referred = await self._referred(name)
            if not referred:
                found.remarks.append(
                    f"[there is no context {name!r}, and none refers to it; {await self._kept()}]"
                )
            turns.update(dict.fromkeys(referred))
        if not turns and not found.remarks:
            if request.keywords:
                hits = await self.search(request.keywords, limit=_MOST_FOUND)
                return [hit.turn for hit in hits]
            newest = await self.shelf.newest()
            return [newest] if newest else []
        return list(turns)

    async def _referred(self, name: str) -> list[int]:
        """The turn of a context, by its id; of another reference, the turns whose snapshots link to it."""
        named = _ID.fullmatch(name)
        stored = await self.shelf.stored(int(named[1])) if named else None
        if stored is not None and stored.head.id == name:
            return [stored.head.turn]
        found: list[int] = []
        for hit in await self.search([name], limit=_MOST_FOUND):
            linking = await self.shelf.stored(hit.turn)
            if linking is not None and name in linking.head.links:
                found.append(hit.turn)
        return found

    async def _parts(
        self,
        stored: StoredSnapshot,
        request: RecallRequest,
        terms: Sequence[str],
        tokens: int,
        found: _Found,
    ) -> list[Part]:
        items = await self.shelf.listing(stored)
        wanted = _wanted(items, request)
        turn = stored.head.turn
        if request.path and not wanted:
            found.remarks.append(f"[turn {turn:,} has no file {request.path!r}; {_names(items)}]")
            return []
        texts = [item for item in wanted if item.text]
        large = sum(item.size for item in texts if item.kind == "file") > tokens * _BYTES_A_TOKEN
        named = large and not request.path and not terms
        shown = [item for item in texts if not (named and item.kind == "file")]
        if terms:  # what was new then is why it was found
            shown.sort(key=lambda item: all(ref.turn != turn for ref in item.pieces))
        if terms and stored.head.unindexed:
            found.remarks.append(
                f"[{stored.head.unindexed:,} characters of turn {turn:,} are not indexed: name a path to look there]"
            )
        said = await self.said_of(stored)
        title = f"[Turn {turn}] {stored.head.id}{f': {said}' if said else ''}"
        parts: list[Part] = []
        for item, data in zip(shown, await self.shelf.contents(shown), strict=True):
            part = _part(item, data.decode(), turn, request, terms)
            if part is not None:
                parts.append(part)
        aside = [item for item in wanted if item not in shown]
        if (aside and not terms) or (wanted and not parts):
            parts.append(Part("Files", _named(aside or wanted, turn)))
        return [Part(title, ""), *parts]

    async def _kept(self) -> str:
        newest = await self.shelf.newest()
        return f"the newest is turn {newest:,}" if newest else "none was kept yet"

    async def _nothing(self, request: RecallRequest) -> str:
        words = ", ".join(map(repr, request.keywords))
        return f"[nothing was found{f' for {words}' if words else ''}; {await self._kept()}]"


def _wanted(items: Sequence[ListedItem], request: RecallRequest) -> list[ListedItem]:
    if request.path:
        return [item for item in items if item.place == ("file", request.path)]
    if request.lines:
        return [item for item in items if item.kind == "context"]
    return list(items)


def _part(
    item: ListedItem, text: str, turn: int, request: RecallRequest, terms: Sequence[str]
) -> Part | None:
    """What is shown of one text; None where it holds none of the words asked for."""
    lines = text.count("\n") + 1
    name = _file_heading(item.path) or item.kind.capitalize()
    ask: dict[str, object] = {"turn_numbers": [turn]}
    if item.path:
        ask["path"] = item.path
    numbered = 0 if item.kind == "state" else lines
    if request.lines:
        first, last = request.lines
        shown = "\n".join(text.split("\n")[first - 1 : last])
        heading = f"{name}, lines {first:,} to {min(last, lines):,} of {lines:,}"
        if first > lines:
            return Part(f"{name} has {lines:,} lines, none from {first:,} on", "")
        return Part(heading, shown, first, min(last, lines), tuple(ask.items()))
    if not terms:
        return Part(name, text, 1, numbered, tuple(ask.items()))
    first, held = focused(text, terms)
    if not held and not request.path and set(terms).isdisjoint(terms_of(item.path)):
        return None
    shown = "\n".join(text.split("\n")[first - 1 :])
    return Part(name, shown, first, numbered, tuple(ask.items()), begun=True)


def _file_heading(path: str) -> str:
    """A path as a heading: one that reads like another heading is written from the current folder."""
    other = path.startswith("[") or path in ("Context", "State", "Files")
    return f"./{path}" if other else path


def _named(items: Sequence[ListedItem], turn: int) -> str:
    lines = [
        f"{one_line(item.path)} ({item.size:,} bytes{'' if item.text else ', not text'})"
        for item in items
    ]
    more = len(lines) - _MOST_NAMED
    left = [f"and {more:,} more"] if more > 0 else []
    ask = f'[recall_context({{"turn_numbers": [{turn}], "path": "..."}}) shows one of them]'
    return "\n".join([ask, *lines[:_MOST_NAMED], *left])


def _names(items: Sequence[ListedItem]) -> str:
    paths = [item.path for item in items if item.path]
    more = len(paths) - _MOST_NAMED
    listed = ", ".join(paths[:_MOST_NAMED]) or "none"
    return f"it has {listed}{f' and {more:,} more' if more > 0 else ''}"
