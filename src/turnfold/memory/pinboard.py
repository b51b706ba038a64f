"""What is pinned in a conversation: texts that every call shows word for word.

A pin is shown from the next user turn on and taken down in the same way, so that the prompt of a turn that is under way
stays as it is; one that was never shown leaves no trace. One that would not fit with the others is refused when it is
written: it would make every later context an error.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from hashlib import blake2b

from turnfold.budget import Budget
from turnfold.errors import InvalidOption
from turnfold.memory.follower import Follower
from turnfold.memory.notes import PIN, PinNote, write_note
from turnfold.memory.tail import check_pins
from turnfold.records.json_text import check_text, plain_text

__all__ = ("Pinboard",)


@dataclass(frozen=True, slots=True)
class Pinboard:
    """The pins of one conversation."""

    follower: Follower
    turnstile: AbstractAsyncContextManager[None]
    """The session's: one at a time reads what is pinned and changes it."""
    budget: Budget
    """The memory's: its tail must hold all pins together."""

    async def pin(self, content: str, key: str) -> str:
        """Put a text up under a key, or under one made of it."""
        text = check_text(plain_text(content, path="content"), path="content")
        if not text.strip():
            raise InvalidOption("nothing to pin: the text is empty")
        name = key or blake2b(text.encode(), digest_size=6).hexdigest()
        follower = self.follower
        async with self.turnstile:
            await follower.refresh()
            up = [pin.text for each, pin in follower.pins if each != name and not pin.until]
            check_pins(up, self.budget, follower.counter, new=text)
            head = follower.head
            await self._put(name, PinNote(text=text, since=head.seq, order=head.generation))
        return name

    async def unpin(self, key: str) -> bool:
        """Take it down; whether it was up."""
        follower = self.follower
        async with self.turnstile:
            await follower.refresh()
            pin = dict(follower.pins).get(key)
            if pin is None or pin.until:
                return False
            until = follower.head.seq
            if pin.since >= until:
                await follower.store.drop_document(follower.scope, follower.conversation, PIN, key)
            else:
                note = PinNote(text=pin.text, since=pin.since, until=until, order=pin.order)
                await self._put(key, note)
            return True

    async def shown(self) -> dict[str, str]:
        """What is up, by key, oldest first."""
        async with self.turnstile:
            await self.follower.refresh()
            return {key: pin.text for key, pin in self.follower.pins if not pin.until}

    async def _put(self, key: str, note: PinNote) -> None:
        follower = self.follower
        document = write_note(PIN, key, note)
        await follower.store.put_document(follower.scope, follower.conversation, document)
