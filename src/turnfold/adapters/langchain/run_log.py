"""A conversation's messages, kept in the session's log as a graph's state shows them.

A state shows all its messages again at every step. Each is recognised by name and stored once, whether it was said in
this run, in one before it, or is stored by another process meanwhile. A history that a program builds by hand has other
ids each time; it is recognised by what it says, in the order it says it. Where messages have no ids at all, the first
that says something is the first that said it before, the second the second, and so on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

import msgspec
from langchain_core.messages import BaseMessage, HumanMessage

from turnfold.adapters.langchain.content import PROVIDER
from turnfold.adapters.langchain.recording import numbered, recorded, said_again, said_digest
from turnfold.adapters.langchain.restoring import own_of
from turnfold.errors import Conflict, IdReused, InvalidRecord
from turnfold.memory import AsyncSession
from turnfold.records import Document, Entry, Message, NewEntry

__all__ = ("RunLog", "newest_question")

_LEFT: Final = "left"
_TRIES = 4
"""Times another run may store the same messages between our looking and our writing."""
_MOST = 4096
"""Messages whose record, or whose name in a history built by hand, is remembered."""
_SLACK = 64
"""Entries beyond twice its length in which a history built by hand is looked for."""


class _Made(NamedTuple):
    message: BaseMessage
    """Kept, so that nothing else can have its identity meanwhile."""
    shown: BaseMessage
    """What a model is shown for it: the message, unless a tool's answer could not be written."""
    record: Message
    name: str
    number: int = 1
    """Which of the messages without an id that say the same it is."""


class RunLog:
    """Stores what is said in one conversation."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._seqs: dict[str, int] = {}
        """Name -> entry, of what is known to be stored."""
        self._first: dict[str, int] = {}
        """Message id -> entry of the oldest version of that message that is known."""
        self.left: set[str] = set()
        """Names of what the newest state that was shown had left behind; read when something may depend on it."""
        self._left_version: int | None = None
        """Of the document that says so; None where it was not read."""
        self._made: dict[int, _Made] = {}
        self._same: dict[str, str] = {}
        """Name -> name of the entry that says the same, for a history built by hand."""

    async def catch_up(self, messages: Sequence[BaseMessage]) -> None:
        """Store every message that is not in the log yet, in order, all of them or none."""
        made = self._make_all(messages)
        for left in reversed(range(_TRIES)):
            unknown = [each for each in made if not self.seq(each.name)]
            await self._look_for(unknown, made[: newest_question(messages)])
            new = {each.name: each for each in unknown if not self.seq(each.name)}
            if not new:
                return
            try:
                done = await self._session.add(
                    [NewEntry(each.record, each.name) for each in new.values()]
                )
            except (Conflict, IdReused):
                if not left:
                    raise
                continue
            for at, each in enumerate(new.values()):
                self._stored(each.name, each.message.id, done.first + at)
            return

    async def say_again(self, messages: Sequence[BaseMessage]) -> None:
        """Store the newest turn once more, at the end of the log: a thread that went back goes on from it."""
        head = (await self._session.status()).entries
        turn = [self._make(message) for message in messages[newest_question(messages) :]]
        await self._session.add(
            [NewEntry(said_again(each.record), f"{each.name}:again:{head}") for each in turn]
        )

    def name(self, message: BaseMessage) -> str:
        """What a message is called in the log."""
        name = self._make(message).name
        return self._same.get(name, name)

    def record(self, message: BaseMessage) -> Message:
        """The record of a message."""
        return self._make(message).record

    def shown(self, message: BaseMessage) -> BaseMessage:
        """What a model is shown for a message."""
        return self._make(message).shown

    def seq(self, name: str) -> int:
        """The entry of this name; 0 where none is known."""
        return self._seqs.get(self._same.get(name, name), 0)

    async def find_left(self, messages: Sequence[BaseMessage]) -> None:
        """Read what was left behind, if anything was stored before the first of these messages."""
        begun = min((seq for seq in map(self.first_seq, messages) if seq), default=0)
        if begun > 1 and self._left_version is None:
            await self._read_left()

    async def note_left(self, left: AbstractSet[str], messages: Sequence[BaseMessage]) -> None:
        """Note what a state has left behind, and that what it has is none of it."""
        alive = {self.name(message) for message in messages}
        for _ in range(_TRIES):
            if self._left_version is None and (left or self.left):
                await self._read_left()
            wanted = (self.left - alive) | left
            if wanted == self.left:
                return
            session = self._session
            document = Document(PROVIDER, _LEFT, msgspec.json.encode(sorted(wanted)), 0)
            try:
                stored = await session.store.put_document(
                    session.scope, session.id, document, expect=self._left_version or 0
                )
            except Conflict:
                self._left_version = None  # another run noted something meanwhile
                continue
            self.left, self._left_version = wanted, stored.document.version
            return
        raise Conflict(f"what {self._session.id!r} left behind: {_TRIES} other runs were first")

    async def _read_left(self) -> None:
        session = self._session
        document = await session.store.get_document(session.scope, session.id, PROVIDER, _LEFT)
        try:
            found = msgspec.json.decode(document.body, type=set[str]) if document else set[str]()
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise InvalidRecord(
                f"not a list of names: {error}", path=f"{PROVIDER}/{_LEFT}"
            ) from None
        self.left, self._left_version = found, document.version if document else 0

    def first_of(self, message_id: str) -> int:
        """The entry of the oldest known version of the message with this id; 0 where none is known."""
        return self._first.get(message_id, 0)

    def first_seq(self, message: BaseMessage) -> int:
        """The entry of the oldest known version of a message; 0 where none is known."""
        found = (self.seq(self.name(message)), self.first_of(message.id or ""))
        return min((seq for seq in found if seq), default=0)

    def _make_all(self, messages: Sequence[BaseMessage]) -> list[_Made]:
        """The records of a history. What its messages are called is kept until it is shown again."""
        if len(self._made) > _MOST + len(messages):
            self._made.clear()
        said: Counter[str] = Counter()
        made: list[_Made] = []
        for at, message in enumerate(messages):
            try:
                each = self._make(message)
            except InvalidRecord as fault:
                raise fault.within(f"messages[{at}]") from None
            if not message.id:
                said[words := each.name.partition(".")[0]] += 1
                if said[words] != each.number:
                    each = self._make(message, said[words])
            made.append(each)
        return made

    def _make(self, message: BaseMessage, number: int = 0) -> _Made:
        known = self._made.get(id(message))
        if known is not None and number in (0, known.number):
            return known
        record, shown = recorded(message)
        if number > 1:
            record = numbered(record, number)
        own = own_of(record)
        made = _Made(message, shown, record, own.name if own is not None else "", number or 1)
        self._made[id(message)] = made
        return made

    async def _look_for(self, unknown: Sequence[_Made], before: Sequence[_Made]) -> None:
        """Look which messages are stored; `before` are those of earlier turns."""
        if not unknown:
            return
        self._know(await self._session.find([each.name for each in unknown]))
        if before and not any(self.seq(each.name) for each in before):
            await self._align(before)

    async def _align(self, history: Sequence[_Made]) -> None:
        """Recognise what was said in earlier turns by its words, from the newest on, where its ids are new."""
        head = (await self._session.status()).entries
        reach = 2 * len(history) + _SLACK
        entries = await self._session.history(after=max(0, head - reach), limit=reach)
        said = [entry for entry in entries if own_of(entry.message) is not None]
        self._know(said)
        for old in list(self._same)[
            :-_MOST
        ]:  # of runs before: such a history has other names every time
            self._same.pop(old, None)
        for each in reversed(history):
            digest = said_digest(each.record)
            at = next((one for one in reversed(said) if said_digest(one.message) == digest), None)
            if at is not None:
                self._same[each.name] = at.client_id
                said = [entry for entry in said if entry.seq < at.seq]

    def _know(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            own = own_of(entry.message)
            self._stored(entry.client_id, own.id if own is not None else None, entry.seq)

    def _stored(self, name: str, message_id: str | None, seq: int) -> None:
        self._seqs[name] = seq
        if message_id:
            self._first[message_id] = min(seq, self._first.get(message_id, seq))


def newest_question(messages: Sequence[BaseMessage]) -> int:
    """Where the newest turn begins."""
    at = range(len(messages))
    return next((one for one in reversed(at) if isinstance(messages[one], HumanMessage)), 0)
