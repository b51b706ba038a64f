"""The session's state: JSON values by name, for the program and, in the tail, for the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from turnfold.errors import Conflict
from turnfold.memory.follower import Follower
from turnfold.memory.notes import SESSION, STATE, StateNote, read_note, write_note
from turnfold.records.json_text import freeze_object, thaw_object

__all__ = ("AsyncState",)

_TRIES = 64
"""Contests with other writers that one change may lose."""


class AsyncState:
    """Values all holders of a conversation share. Changes of different names never undo one another."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    async def all(self) -> dict[str, object]:
        """Every value."""
        return (await self._read())[0].values

    async def get(self, name: str, default: object = None) -> object:
        """One value."""
        return (await self.all()).get(name, default)

    async def set(self, name: str, value: object) -> None:
        """Set one value."""
        await self.update({name: value})

    async def update(self, values: Mapping[str, object]) -> None:
        """Set several values at once."""
        sound = thaw_object(freeze_object(values, path="state"))
        await self._change(lambda known: {**known, **sound})

    async def remove(self, name: str) -> bool:
        """Remove a value; whether it was there."""
        there = name in await self.all()
        await self._change(lambda known: {key: known[key] for key in known if key != name})
        return there

    async def _read(self) -> tuple[StateNote, int]:
        follower = self._follower
        document = await follower.store.get_document(
            follower.scope, follower.conversation, SESSION, STATE
        )
        return read_note(document, StateNote), document.version if document else 0

    async def _change(self, change: Callable[[dict[str, object]], dict[str, object]]) -> None:
        follower = self._follower
        for attempt in range(_TRIES):
            note, version = await self._read()
            head = await follower.store.head(follower.scope, follower.conversation)
            document = write_note(
                SESSION, STATE, StateNote(values=change(note.values), since=head.seq)
            )
            try:
                await follower.store.put_document(
                    follower.scope, follower.conversation, document, expect=version
                )
            except Conflict:
                if attempt == _TRIES - 1:
                    raise
            else:
                return
