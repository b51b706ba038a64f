"""The calls of a session: stored as they are made, read back to explain and to compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from turnfold.errors import ConversationDeleted, NotFound
from turnfold.memory.follower import Follower
from turnfold.memory.live_window import Around, LiveWindow, Numbered
from turnfold.memory.manifests import (
    CALL,
    Explanation,
    Fingerprints,
    Manifest,
    budget_of,
    call_key,
    describe,
    read_manifest,
    write_manifest,
)
from turnfold.memory.notes import STAND_IN, StandIn, WindowNote
from turnfold.memory.tail import tail_message
from turnfold.records import Checkpoint, Usage
from turnfold.window import Choice, Context, Room, SpanView

__all__ = ("Calls",)

_PAGE = 512


@dataclass(slots=True)
class Calls:
    """Writes and reads the manifests of one conversation."""

    follower: Follower
    clock: Callable[[], int]
    last: str = ""
    """The call made last through this handle."""
    _numbers: dict[int, int] = field(default_factory=dict[int, int])
    _prints: Fingerprints = field(default_factory=Fingerprints)

    def forget(self) -> None:
        """Forget what saves work between two calls."""
        self._numbers, self._prints = {}, Fingerprints()

    async def write(self, context: Context, around: Around, *, fenced: bool) -> bool:
        """Store the account of a call under the next free name; not where the conversation was found to be another.

        Without `fenced` what was looked at for this call may have changed since: others write all the time.
        """
        follower = self.follower
        seq = follower.head.seq
        number = self._numbers.get(seq, 0)
        digest = self._prints.of(context.messages)
        while True:
            manifest = describe(
                context,
                call=call_key(seq, number),
                seq=seq,
                created=self.clock(),
                system=[entry.seq for entry in around.system],
                checkpoint=around.checkpoint.id if around.checkpoint else "",
                stand_in=around.stand_in.key if around.stand_in else "",
                cleared=around.cleared,
                tail=around.tail[0].text if around.tail else "",
                digest=digest,
                recalled=around.recalled,
            )
            number += 1
            self._numbers = {seq: number}
            if await follower.note(write_manifest(manifest), fenced=fenced):
                self.last = manifest.call
                return True
            if not follower.looked or not await self._is_taken(seq, number - 1):
                return False
            # Another process made a call at the same place, or an earlier handle of this one did.
            number = await self._next_free(seq, number - 1)

    async def _next_free(self, seq: int, taken: int) -> int:
        """The number after the last that is taken. By doubling and halving: many may ask before anything is said."""
        low, step = taken, 1
        while await self._is_taken(seq, low + step):
            low, step = low + step, 2 * step
        high = low + step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if await self._is_taken(seq, middle) else (low, middle)
        return high

    async def _is_taken(self, seq: int, number: int) -> bool:
        follower, name = self.follower, call_key(seq, number)
        where = (follower.scope, follower.conversation, CALL, name)
        return await follower.store.get_document(*where) is not None

    async def page(self, *, after: str, limit: int) -> list[Manifest]:
        """Calls in the order of the log."""
        follower = self.follower
        found = await follower.store.documents(
            follower.scope, follower.conversation, CALL, after=after, limit=limit
        )
        return [read_manifest(document) for document in found]

    async def read(self, call: str) -> tuple[Manifest, int]:
        """One call and the version of its document."""
        follower = self.follower
        document = await follower.store.get_document(
            follower.scope, follower.conversation, CALL, call
        )
        if document is None:
            raise NotFound(f"no call {call!r} in {follower.conversation!r}; calls() lists them")
        return read_manifest(document), document.version

    async def record(self, call: str, usage: Usage) -> Manifest:
        """Note what the provider reported about a call."""
        follower = self.follower
        manifest, version = await self.read(call)
        noted = msgspec.structs.replace(manifest, usage=usage)
        written = await follower.store.put_document(
            follower.scope, follower.conversation, write_manifest(noted), expect=version
        )
        follower.told(written)
        return noted

    async def explain(self, call: str) -> Explanation:
        """A call with its messages, built again from the log."""
        manifest, _ = await self.read(call)
        budget = budget_of(manifest)
        around = Around(
            system=tuple([await self._one(seq) for seq in manifest.system]),
            tail=tail_message(manifest.tail),
            checkpoint=await self._checkpoint(manifest.checkpoint),
            stand_in=await self._stand_in(manifest.stand_in),
            cleared=manifest.cleared,
        )
        head = await self._one(manifest.head) if manifest.head else None
        note = WindowNote(anchor=manifest.anchor, head=manifest.head, caps=manifest.caps)
        window = LiveWindow(self.follower.counter, note, head=head)
        while window.seq < manifest.seq:
            window.extend(await self._entries(window.seq, manifest.seq))
        context = window.build(budget, around, _as_it_was)
        exact = Fingerprints().of(context.messages) == manifest.digest
        return Explanation(
            manifest,
            context.messages,
            exact,
            costs=tuple(context.costs),
            seqs=tuple(context.positions),
            ends=context.ends,
        )

    async def _entries(self, after: int, upto: int) -> list[Numbered]:
        follower = self.follower
        entries = await follower.store.read(
            follower.scope, follower.conversation, after=after, upto=upto, limit=_PAGE
        )
        if not entries:  # a log only grows: they were erased with their conversation, since the manifest was read
            raise ConversationDeleted(
                f"conversation {follower.conversation!r} has been erased; use another id"
            )
        return [follower.numbered(entry) for entry in entries]

    async def _one(self, seq: int) -> Numbered:
        [entry] = await self._entries(seq - 1, seq)
        return entry

    async def _stand_in(self, key: str) -> StandIn | None:
        follower = self.follower
        place = (follower.scope, follower.conversation, STAND_IN, key)
        document = await follower.store.get_document(*place) if key else None
        return StandIn.read(document) if document else None

    async def _checkpoint(self, name: str) -> Checkpoint | None:
        if not name:
            return None
        follower = self.follower
        found = await follower.store.checkpoints(follower.scope, follower.conversation)
        return next((each for each in found if each.id == name), None)


def _as_it_was(view: SpanView, room: Room) -> Choice:  # noqa: ARG001 (whatever the room, it fitted then)
    return Choice(view.start, "", view.caps, view.summary, view.covered)
