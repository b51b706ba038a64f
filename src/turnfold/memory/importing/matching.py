"""What a file says beside what the store has of it already.

A transcript may be imported while an answer is still being written: the store then holds its beginning, and what is in
a log is never changed. So the rest of the answer becomes an entry of its own, under an id that is made of the answer's
and of where it goes on; a later import finds it there and knows the answer as whole.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from turnfold.memory.importing.pieces import Said
from turnfold.records import Entry, Message, NewEntry

__all__ = ("Completed", "Matching")


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """An answer that the store had the beginning of, and has the rest of now."""

    conversation: str
    seq: int
    """The entry that holds what the store had."""
    parts: int
    """How many parts of the answer were added, in an entry of their own."""


@dataclass(frozen=True, slots=True)
class _Rest:
    """What is to follow the beginning of an answer."""

    seq: int
    message: Message
    place: int
    """Parts of the answer that stand before it."""


@dataclass(slots=True)
class Matching:
    """Goes through the stored entries of one conversation, in step with what the file says."""

    read: Callable[[int], Awaitable[list[Entry]]]
    """Entries after a seq, some at a time."""
    matched: int = 0
    """Messages of the file that the store has, or has the beginning of."""
    differs: int = 0
    """The first seq that says something else; 0 where none does."""
    _rests: dict[str, _Rest] = field(default_factory=dict[str, _Rest])
    _page: list[Entry] = field(default_factory=list[Entry])
    _seq: int = 0
    _ended: bool = False

    async def take(self, said: Said) -> None:
        """The next message of the file."""
        while not self.differs and (entry := await self._next()) is not None:
            if entry.client_id and entry.client_id in self._rests:
                self._take_rest(entry, entry.client_id)
            elif self._agrees(entry, said.message, said.client_id, place=0):
                self.matched += 1
                return
            else:
                self.differs = entry.seq

    async def finish(self) -> None:
        """The file ends: what is left of the store may hold the rests of answers."""
        foreign = 0
        while self._rests and not self.differs and (entry := await self._next()) is not None:
            if entry.client_id and entry.client_id in self._rests:
                self._take_rest(entry, entry.client_id)
            else:
                foreign = foreign or entry.seq
        if (
            self._rests and foreign
        ):  # it went on otherwise: the rest of an answer has no place there
            self.differs = self.differs or foreign

    def rests(self) -> list[NewEntry]:
        """What is missing of answers whose beginnings the store has, to be written before all that is new."""
        return [NewEntry(rest.message, name) for name, rest in self._rests.items()]

    def completed(self, conversation: str) -> list[Completed]:
        """The same, as it is told."""
        return [
            Completed(conversation=conversation, seq=rest.seq, parts=len(rest.message.parts))
            for rest in self._rests.values()
        ]

    async def _next(self) -> Entry | None:
        if not self._page and not self._ended:
            self._page = list(reversed(await self.read(self._seq)))
            self._ended = not self._page
        if not self._page:
            return None
        entry = self._page.pop()
        self._seq = entry.seq
        return entry

    def _take_rest(self, entry: Entry, name: str) -> None:
        rest = self._rests.pop(name)
        own = name.rpartition("+")[0]
        if not self._agrees(entry, rest.message, own, place=rest.place):
            self.differs = entry.seq

    def _agrees(self, entry: Entry, said: Message, client_id: str, *, place: int) -> bool:
        """Whether an entry says the same, or the beginning of it; or, where the file is the older, more of it."""
        stored = entry.message
        if stored == said:
            return True
        own = client_id if not place else f"{client_id}+{place}"
        if not client_id or entry.client_id != own or not _one_answer(stored, said):
            return False
        have = len(stored.parts)
        if said.parts[:have] != stored.parts[: len(said.parts)]:
            return False
        if have < len(said.parts):
            rest = _Rest(entry.seq, _from_part(said, have), place + have)
            self._rests[f"{client_id}+{rest.place}"] = rest
        return True


def _one_answer(stored: Message, said: Message) -> bool:
    return stored.role == "assistant" and _from_part(stored, len(stored.parts)) == _from_part(
        said, len(said.parts)
    )


def _from_part(message: Message, place: int) -> Message:
    """The message without the parts before a place; how it was written is known of the whole of it alone."""
    return Message.of(
        message.role,
        message.parts[place:],
        name=message.name,
        extra=message.extra,
        labels=message.labels,
        origin=message.origin.without_form() if message.origin else None,
    )
