"""Deletes parts of threads: moves the remaining checkpoints to a new home (conversation), and erases the old one.

Moved checkpoints are stored as differences from one another only, so no byte of a deleted one is needed or remains. A
`DeltaChannel` of LangGraph has its value only in some checkpoints and is rebuilt from the writes after them. The
checkpoints that it is rebuilt from are kept too, otherwise the channel would be empty after the move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeAlias

from turnfold.adapters.langchain.checkpoints.documents import (
    StoredCheckpoint,
    Typed,
    ancestor_cycle,
)
from turnfold.adapters.langchain.checkpoints.serializer import Codec, mapping_of
from turnfold.adapters.langchain.checkpoints.storage import (
    CheckpointStorage,
    NewCheckpoint,
    ThreadPlace,
    Threads,
)
from turnfold.errors import Conflict, ConversationDeleted, InvalidOption, InvalidRecord

__all__ = (
    "ThreadMover",
    "newest_of_each",
    "without_runs",
)


_MOVE_TRIES = 4
"""Attempts to move a thread; an attempt fails if another process moves it first."""
_COUNTERS = "counters_since_delta_snapshot"
"""Metadata key under which LangGraph lists the `DeltaChannel`s of a checkpoint."""
_Name: TypeAlias = tuple[str, str]
"""Namespace and id of a checkpoint."""
_Choice = Callable[[Sequence[StoredCheckpoint]], Sequence[StoredCheckpoint]]
"""Function that takes all checkpoints of a thread and returns those to keep."""


@dataclass(frozen=True, slots=True)
class _Move:
    """The state of moving a thread to a new conversation (home): the checkpoints and writes copied so far."""

    storage: CheckpointStorage
    old: str
    """The conversation ("home") from which the thread is moved."""
    new: str
    decided: AbstractSet[_Name] = frozenset()
    """Checkpoints that were in the old conversation when it was decided which to keep. Checkpoints stored later are not
    in it, and are kept."""
    arrived: dict[_Name, StoredCheckpoint] = field(default_factory=dict[_Name, StoredCheckpoint])
    """Copied checkpoints, as the old conversation stores them."""
    newest: dict[str, StoredCheckpoint] = field(default_factory=dict[str, StoredCheckpoint])
    """The last copied checkpoint of each namespace, as it is stored in the new conversation."""
    writes: dict[tuple[_Name, str], object] = field(default_factory=dict[tuple[_Name, str], object])
    """Copied writes (results of tasks) by checkpoint and task."""

    async def bring(self, home: str, chosen: Sequence[StoredCheckpoint]) -> None:
        """Copy checkpoints and their writes from a conversation, oldest first.

        Those that were copied before are skipped.
        """
        names = {_name(stored) for stored in chosen} | self.arrived.keys()
        for stored in sorted(chosen, key=lambda one: one.id):
            name = _name(stored)
            if name not in self.arrived:
                values = await self.storage.values(home, stored)
                parent = stored.parent if (stored.namespace, stored.parent) in names else ""
                copy, before = _copy_of(stored, parent, values), self.newest.get(stored.namespace)
                self.newest[stored.namespace] = await self.storage.put(
                    self.new, copy, before=before
                )
                self.arrived[name] = stored
            for each in await self.storage.writes(home, *name):
                if self.writes.get((name, each.task)) != each.writes:
                    await self.storage.add_writes(self.new, *name, each.task, each.writes)
                    self.writes[name, each.task] = each.writes

    async def bring_late(self) -> None:
        """Copy checkpoints and writes that reached the old conversation after the ones to keep were chosen."""
        present = await self.storage.all(self.old)
        late = [stored for stored in present if _name(stored) not in self.decided]
        await self.bring(self.old, [*late, *self.arrived.values()])


@dataclass(frozen=True, slots=True)
class ThreadMover:
    """Deletes checkpoints of threads by moving the others to a new conversation (home); copies threads."""

    storage: CheckpointStorage
    threads: Threads

    async def keep(self, thread: str, choose: _Choice) -> None:
        """Keep the checkpoints of a thread that `choose` returns, and erase the others."""
        for tries_left in reversed(range(_MOVE_TRIES)):
            place, version = await self.threads.find(thread)
            if place is None:
                return
            present = await self.storage.all(place.home)
            chosen = choose(present)
            try:
                if len(chosen) < len(present):
                    await self._move(place, version, chosen, decided={*map(_name, present)})
                elif place.left:  # homes of an interrupted move
                    await self.threads.erase(*place.left)
                    await self.threads.put(ThreadPlace(thread, place.home), expect=version)
            except (Conflict, ConversationDeleted, InvalidRecord):
                if not tries_left:
                    raise
                continue  # another process moved or deleted it meanwhile: read it again
            return

    async def copy(self, source: str, target: str) -> None:
        """Copy a thread, with all checkpoints and writes, to a new thread; raise `Conflict` if that exists already."""
        threads = self.threads
        if (await threads.find(target))[0] is not None:
            raise Conflict(
                f"thread {target!r} exists already: delete it first, or copy to another name"
            )
        place, _ = await threads.find(source)
        present = await self.storage.all(place.home) if place is not None else []
        if place is None or not present:
            return
        await threads.refuse_erased(target)
        empty, full = threads.new_home(target), threads.new_home(target)
        version = await threads.put(ThreadPlace(target, empty, left=(full,)), expect=0)
        try:
            move = _Move(self.storage, empty, full)
            await move.bring(place.home, present)
            await self._finish_move(target, version, move)
            await threads.refuse_erased(target)
        except BaseException:
            await threads.delete(target)
            raise

    async def _move(
        self,
        place: ThreadPlace,
        version: int,
        chosen: Sequence[StoredCheckpoint],
        *,
        decided: AbstractSet[_Name],
    ) -> None:
        threads, thread = self.threads, place.thread
        await threads.erase(*place.left)
        move = _Move(self.storage, place.home, threads.new_home(thread), decided)
        version = await threads.put(ThreadPlace(thread, move.old, left=(move.new,)), expect=version)
        await move.bring(move.old, chosen)
        await self._finish_move(thread, version, move)

    async def _finish_move(self, thread: str, version: int, move: _Move) -> None:
        """Switch a thread to its new conversation, copy late writes from the old one, and erase the old one."""
        settled = ThreadPlace(thread, move.new, left=(move.old,))
        version = await self.threads.put(settled, expect=version)
        # From now on writers see that the thread moved; what they wrote before is in the old home.
        await move.bring_late()
        await self.threads.erase(move.old)
        await self.threads.put(ThreadPlace(thread, move.new), expect=version)


def _copy_of(stored: StoredCheckpoint, parent: str, values: Mapping[str, Typed]) -> NewCheckpoint:
    return NewCheckpoint(
        namespace=stored.namespace,
        id=stored.id,
        parent=parent,
        checkpoint=stored.checkpoint,
        metadata=stored.metadata,
        versions={channel: value.version for channel, value in stored.values.items()},
        changed=stored.values.keys(),
        typed=values.get,
    )


def newest_of_each(codec: Codec) -> _Choice:
    """Return a function that selects each namespace's newest checkpoint and those its channels are rebuilt from."""

    def choose(present: Sequence[StoredCheckpoint]) -> Sequence[StoredCheckpoint]:
        by_name = {_name(stored): stored for stored in present}
        newest: dict[str, StoredCheckpoint] = {}
        for stored in present:
            if stored.namespace not in newest or stored.id > newest[stored.namespace].id:
                newest[stored.namespace] = stored
        chosen = {_name(stored): stored for stored in newest.values()}
        for stored in newest.values():
            chosen |= {_name(one): one for one in _delta_ancestors(stored, by_name, codec)}
        return list(chosen.values())

    return choose


def without_runs(runs: set[str], codec: Codec) -> _Choice:
    """Return a function that selects all checkpoints except those of these runs."""

    def choose(present: Sequence[StoredCheckpoint]) -> Sequence[StoredCheckpoint]:
        by_name = {_name(stored): stored for stored in present}
        chosen = [stored for stored in present if codec.metadata(stored).get("run_id") not in runs]
        names = {_name(stored) for stored in chosen}
        for stored in chosen if len(chosen) < len(present) else ():
            lost = [
                one for one in _delta_ancestors(stored, by_name, codec) if _name(one) not in names
            ]
            if lost:
                raise InvalidOption(_kept_on_deleted(stored, lost, codec))
        return chosen

    return choose


def _kept_on_deleted(
    stored: StoredCheckpoint, lost: Sequence[StoredCheckpoint], codec: Codec
) -> str:
    """Return the error text for a checkpoint whose channels are rebuilt from checkpoints that are to be deleted."""
    needed = sorted({str(codec.metadata(one).get("run_id")) for one in lost})
    run = codec.metadata(stored).get("run_id")
    remedy = f"delete run {run} as well, or keep" if run else "keep"
    return (
        f"checkpoint {stored.id} would be kept, but its DeltaChannel needs {len(lost)} of the checkpoints to "
        f"delete: {remedy} {'runs' if needed[1:] else 'run'} {', '.join(needed)}"
    )


def _delta_ancestors(
    stored: StoredCheckpoint, by_name: Mapping[_Name, StoredCheckpoint], codec: Codec
) -> list[StoredCheckpoint]:
    """Return the earlier checkpoints that are needed to rebuild the `DeltaChannel`s of a checkpoint, nearest first.

    A `DeltaChannel` is a LangGraph channel that stores only what changed since the checkpoint before.
    """
    counters = mapping_of(codec.metadata(stored).get(_COUNTERS) or {}, _COUNTERS)
    wanted = {channel for channel in counters if channel not in stored.values}
    found: list[StoredCheckpoint] = []
    seen = {stored.id}
    at = by_name.get((stored.namespace, stored.parent))
    while wanted and at is not None:
        if at.id in seen:
            raise ancestor_cycle(at.id)
        seen.add(at.id)
        found.append(at)
        wanted -= at.values.keys()
        at = by_name.get((at.namespace, at.parent))
    return found


def _name(stored: StoredCheckpoint) -> _Name:
    return stored.namespace, stored.id
