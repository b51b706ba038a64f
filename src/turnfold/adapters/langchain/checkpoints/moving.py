"""Threads with something left out: what stays moves to a new home, and the old one is erased.

Moved checkpoints stand on one another anew, so nothing of what was left out is needed or remains. A `DeltaChannel` of
LangGraph has its value only in some checkpoints and is made again from the writes of the ones after it; what it is made
from stays too, or the channel would come back empty without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeAlias

from turnfold.adapters.langchain.checkpoints.codec import Codec, mapping_of
from turnfold.adapters.langchain.checkpoints.documents import Kept, Typed
from turnfold.adapters.langchain.checkpoints.shelf import NewCheckpoint, Shelf
from turnfold.adapters.langchain.checkpoints.threads import Place, Threads
from turnfold.errors import Conflict, ConversationDeleted, InvalidOption, InvalidRecord

__all__ = (
    "Mover",
    "ancestors_in_a_circle",
    "newest_of_each",
    "without_runs",
)

_TRIES = 4
"""Times another process may move the same thread first."""
_COUNTERS = "counters_since_delta_snapshot"
_Name: TypeAlias = tuple[str, str]
"""Of a checkpoint: its namespace and its id."""
_Choice = Callable[[Sequence[Kept]], Sequence[Kept]]


@dataclass(frozen=True, slots=True)
class _Move:
    """A thread on its way to a new home, and what has arrived there."""

    shelf: Shelf
    old: str
    """The home it leaves."""
    new: str
    decided: AbstractSet[_Name] = frozenset()
    """Checkpoints of the old home that were chosen to stay or to go; any other came there since."""
    arrived: dict[_Name, Kept] = field(default_factory=dict[_Name, Kept])
    """As they were in the home they came from."""
    newest: dict[str, Kept] = field(default_factory=dict[str, Kept])
    """By namespace, the last that arrived, as it is in the new home."""
    writes: dict[tuple[_Name, str], object] = field(default_factory=dict[tuple[_Name, str], object])
    """By checkpoint and task."""

    async def bring(self, home: str, chosen: Sequence[Kept]) -> None:
        """Bring checkpoints of a home and their writes, oldest first; what has arrived is not brought again."""
        names = {_name(kept) for kept in chosen} | self.arrived.keys()
        for kept in sorted(chosen, key=lambda one: one.id):
            name = _name(kept)
            if name not in self.arrived:
                values = await self.shelf.values(home, kept)
                parent = kept.parent if (kept.namespace, kept.parent) in names else ""
                fresh, before = _fresh(kept, parent, values), self.newest.get(kept.namespace)
                self.newest[kept.namespace] = await self.shelf.put(self.new, fresh, before=before)
                self.arrived[name] = kept
            for each in await self.shelf.writes(home, *name):
                if self.writes.get((name, each.task)) != each.writes:
                    await self.shelf.add_writes(self.new, *name, each.task, each.writes)
                    self.writes[name, each.task] = each.writes

    async def bring_late(self) -> None:
        """Bring what came to the old home since it was decided what stays: checkpoints, and writes of any of them."""
        there = await self.shelf.all(self.old)
        late = [kept for kept in there if _name(kept) not in self.decided]
        await self.bring(self.old, [*late, *self.arrived.values()])


@dataclass(frozen=True, slots=True)
class Mover:
    """Moves threads."""

    shelf: Shelf
    threads: Threads

    async def keep(self, thread: str, choose: _Choice) -> None:
        """Keep what is chosen of the checkpoints of a thread, and erase the rest."""
        for left in reversed(range(_TRIES)):
            place, version = await self.threads.find(thread)
            if place is None:
                return
            there = await self.shelf.all(place.home)
            chosen = choose(there)
            try:
                if len(chosen) < len(there):
                    await self._move(place, version, chosen, decided={*map(_name, there)})
                elif place.left:  # of a move that was broken off
                    await self.threads.erase(*place.left)
                    await self.threads.put(Place(thread, place.home), expect=version)
            except (Conflict, ConversationDeleted, InvalidRecord):
                if not left:
                    raise
                continue  # somebody else moved or deleted it meanwhile: look again
            return

    async def copy(self, source: str, target: str) -> None:
        """Give another thread everything this one has, all of it or nothing."""
        threads = self.threads
        if (await threads.find(target))[0] is not None:
            raise Conflict(
                f"thread {target!r} is there already: delete it first, or copy to another name"
            )
        place, _ = await threads.find(source)
        there = await self.shelf.all(place.home) if place is not None else []
        if place is None or not there:
            return
        empty, full = threads.new_home(target), threads.new_home(target)
        version = await threads.put(Place(target, empty, left=(full,)), expect=0)
        try:
            move = _Move(self.shelf, empty, full)
            await move.bring(place.home, there)
            await self._settle(target, version, move)
        except BaseException:
            await threads.delete(target)
            raise

    async def _move(
        self, place: Place, version: int, chosen: Sequence[Kept], *, decided: AbstractSet[_Name]
    ) -> None:
        threads, thread = self.threads, place.thread
        await threads.erase(*place.left)
        move = _Move(self.shelf, place.home, threads.new_home(thread), decided)
        version = await threads.put(Place(thread, move.old, left=(move.new,)), expect=version)
        await move.bring(move.old, chosen)
        await self._settle(thread, version, move)

    async def _settle(self, thread: str, version: int, move: _Move) -> None:
        """Let a thread live in its new home, and erase the one it left."""
        settled = Place(thread, move.new, left=(move.old,))
        version = await self.threads.put(settled, expect=version)
        # From here on whoever writes sees that the thread moved; what was written before is in the old home.
        await move.bring_late()
        await self.threads.erase(move.old)
        await self.threads.put(Place(thread, move.new), expect=version)


def _fresh(kept: Kept, parent: str, values: Mapping[str, Typed]) -> NewCheckpoint:
    return NewCheckpoint(
        namespace=kept.namespace,
        id=kept.id,
        parent=parent,
        checkpoint=kept.checkpoint,
        metadata=kept.metadata,
        versions={channel: held.version for channel, held in kept.values.items()},
        changed=kept.values.keys(),
        typed=values.get,
    )


def newest_of_each(codec: Codec) -> _Choice:
    """The newest checkpoint of each namespace, with those its `DeltaChannel`s are made from."""

    def choose(there: Sequence[Kept]) -> Sequence[Kept]:
        by_name = {_name(kept): kept for kept in there}
        newest: dict[str, Kept] = {}
        for kept in there:
            if kept.namespace not in newest or kept.id > newest[kept.namespace].id:
                newest[kept.namespace] = kept
        chosen = {_name(kept): kept for kept in newest.values()}
        for kept in newest.values():
            chosen |= {_name(one): one for one in _made_from(kept, by_name, codec)}
        return list(chosen.values())

    return choose


def without_runs(runs: set[str], codec: Codec) -> _Choice:
    """Everything but the checkpoints of these runs."""

    def choose(there: Sequence[Kept]) -> Sequence[Kept]:
        by_name = {_name(kept): kept for kept in there}
        chosen = [kept for kept in there if codec.metadata(kept).get("run_id") not in runs]
        names = {_name(kept) for kept in chosen}
        for kept in chosen if len(chosen) < len(there) else ():
            lost = [one for one in _made_from(kept, by_name, codec) if _name(one) not in names]
            if lost:
                raise InvalidOption(
                    f"checkpoint {kept.id} has a DeltaChannel that is made from {len(lost)} checkpoints of the runs to "
                    "be deleted: delete the runs after it as well, or keep these"
                )
        return chosen

    return choose


def _made_from(kept: Kept, by_name: Mapping[_Name, Kept], codec: Codec) -> list[Kept]:
    """The ancestors that the `DeltaChannel`s of a checkpoint are made from, nearest first."""
    counters = mapping_of(codec.metadata(kept).get(_COUNTERS) or {}, _COUNTERS)
    wanted = {channel for channel in counters if channel not in kept.values}
    found: list[Kept] = []
    seen = {kept.id}
    at = by_name.get((kept.namespace, kept.parent))
    while wanted and at is not None:
        if at.id in seen:
            raise ancestors_in_a_circle(at.id)
        seen.add(at.id)
        found.append(at)
        wanted -= at.values.keys()
        at = by_name.get((at.namespace, at.parent))
    return found


def ancestors_in_a_circle(checkpoint: str) -> InvalidRecord:
    """The fault of a checkpoint that is stored as an ancestor of itself."""
    return InvalidRecord(
        f"checkpoint {checkpoint} is stored as its own ancestor",
        remedy="Restore the store from a backup, or delete the thread",
    )


def _name(kept: Kept) -> _Name:
    return kept.namespace, kept.id
