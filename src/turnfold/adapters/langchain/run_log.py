"""Stores the messages of a graph's state in the session's log, each one once.

A state contains all its messages at every step. Each message is recognised by its name and stored once, even if an
earlier run or another process has stored it. A history that a program builds by hand has new ids each time; it is
recognised by its content and order. Messages without ids are matched in order: the first one with some content is the
first one that was stored with that content, and so on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

import msgspec
from langchain_core.messages import BaseMessage, HumanMessage

from turnfold.adapters.langchain.messages import (
    PROVIDER,
    content_digest,
    numbered,
    origin_of,
    record_and_shown,
    repeated,
)
from turnfold.errors import Conflict, IdReused, InvalidRecord
from turnfold.memory import AsyncSession
from turnfold.records import Document, Entry, Message, NewEntry

__all__ = ("GraphRunLog", "turn_start")


_ABANDONED: Final = "left"
"""Key of the document with the names of abandoned messages: in the log, but no longer in the state."""
_TRIES = 4
"""Attempts of one write; an attempt fails if another run stored the same data first."""
_MOST = 4096
"""The most messages whose record is cached, and the most cached aliases of messages in histories built by hand."""
_SLACK = 64
"""To recognise a history built by hand, twice its length plus this many entries of the log are read."""


class _Prepared(NamedTuple):
    """A message with its record."""

    message: BaseMessage
    """The message; kept here so that no other object can get its id() meanwhile."""
    shown: BaseMessage
    """The message to show a model: the same one, unless a tool result could not be serialized."""
    record: Message
    name: str
    number: int = 1
    """The message's number among those without an id and with the same content."""


class GraphRunLog:
    """Stores the messages of one conversation."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._seqs: dict[str, int] = {}
        """Seqs by name, of entries known to be stored."""
        self._first: dict[str, int] = {}
        """The seq of the oldest known version of a message, by message id."""
        self.abandoned: set[str] = set()
        """Names of messages that the newest state no longer had; loaded only when needed."""
        self._abandoned_version: int | None = None
        """Version of the document that holds these names; None if it was not read."""
        self._prepared: dict[int, _Prepared] = {}
        self._aliases: dict[str, str] = {}
        """For messages of a history built by hand: the name of the entry with the same content, by name."""

    async def catch_up(self, messages: Sequence[BaseMessage]) -> None:
        """Store every message that is not in the log yet, in order, all of them or none."""
        prepared = self._prepare_all(messages)
        for tries_left in reversed(range(_TRIES)):
            unknown = [each for each in prepared if not self.seq(each.name)]
            await self._find_stored(unknown, prepared[: turn_start(messages)])
            new = {each.name: each for each in unknown if not self.seq(each.name)}
            if not new:
                return
            try:
                added = await self._session.add(
                    [NewEntry(each.record, each.name) for each in new.values()]
                )
            except (Conflict, IdReused):
                if not tries_left:
                    raise
                continue
            for at, each in enumerate(new.values()):
                self._remember(each.name, each.message.id, added.first + at)
            return

    async def repeat_turn(self, messages: Sequence[BaseMessage]) -> None:
        """Store the newest turn again at the end of the log, for a thread that continues from an earlier state."""
        head = (await self._session.status()).entries
        turn = [self._prepare(message) for message in messages[turn_start(messages) :]]
        await self._session.add(
            [NewEntry(repeated(each.record), f"{each.name}:again:{head}") for each in turn]
        )

    def name(self, message: BaseMessage) -> str:
        """Return the name of a message in the log."""
        name = self._prepare(message).name
        return self._aliases.get(name, name)

    def record(self, message: BaseMessage) -> Message:
        """Return the record of a message."""
        return self._prepare(message).record

    def shown(self, message: BaseMessage) -> BaseMessage:
        """Return the message to show a model: the same one, unless a tool result could not be serialized."""
        return self._prepare(message).shown

    def seq(self, name: str) -> int:
        """Return the seq of the entry with this name; 0 if none is known."""
        return self._seqs.get(self._aliases.get(name, name), 0)

    async def load_abandoned(self, messages: Sequence[BaseMessage]) -> None:
        """Load the abandoned names, if anything was stored before the first of these messages."""
        first = min((seq for seq in map(self.first_seq, messages) if seq), default=0)
        if first > 1 and self._abandoned_version is None:
            await self._load_abandoned()

    async def note_abandoned(
        self, abandoned: AbstractSet[str], messages: Sequence[BaseMessage]
    ) -> None:
        """Store the names of messages that a state has abandoned; names of messages in the state are removed."""
        in_state = {self.name(message) for message in messages}
        for _ in range(_TRIES):
            if self._abandoned_version is None and (abandoned or self.abandoned):
                await self._load_abandoned()
            wanted = (self.abandoned - in_state) | abandoned
            if wanted == self.abandoned:
                return
            session = self._session
            document = Document(PROVIDER, _ABANDONED, msgspec.json.encode(sorted(wanted)), 0)
            try:
                stored = await session.store.put_document(
                    session.scope, session.id, document, expect=self._abandoned_version or 0
                )
            except Conflict:
                self._abandoned_version = None  # another run noted something meanwhile
                continue
            self.abandoned, self._abandoned_version = wanted, stored.document.version
            return
        raise Conflict(
            f"conversation {self._session.id!r}: other runs changed the list of abandoned messages {_TRIES} times "
            "during this write; try again"
        )

    async def _load_abandoned(self) -> None:
        session = self._session
        document = await session.store.get_document(session.scope, session.id, PROVIDER, _ABANDONED)
        try:
            found = msgspec.json.decode(document.body, type=set[str]) if document else set[str]()
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise InvalidRecord(
                f"the document is not a list of names: {error}", path=f"{PROVIDER}/{_ABANDONED}"
            ) from None
        self.abandoned, self._abandoned_version = found, document.version if document else 0

    def first_of(self, message_id: str) -> int:
        """Return the seq of the oldest known version of the message with this id; 0 if none is known."""
        return self._first.get(message_id, 0)

    def first_seq(self, message: BaseMessage) -> int:
        """Return the seq of the oldest known version of a message; 0 if none is known."""
        found = (self.seq(self.name(message)), self.first_of(message.id or ""))
        return min((seq for seq in found if seq), default=0)

    def _prepare_all(self, messages: Sequence[BaseMessage]) -> list[_Prepared]:
        """Convert a history to records; messages without an id that have the same content are numbered."""
        if len(self._prepared) > _MOST + len(messages):
            self._prepared.clear()
        counts: Counter[str] = Counter()
        prepared: list[_Prepared] = []
        for at, message in enumerate(messages):
            try:
                each = self._prepare(message)
            except InvalidRecord as fault:
                raise fault.within(f"messages[{at}]") from None
            if not message.id:
                counts[base := each.name.partition(".")[0]] += 1
                if counts[base] != each.number:
                    each = self._prepare(message, counts[base])
            prepared.append(each)
        return prepared

    def _prepare(self, message: BaseMessage, number: int = 0) -> _Prepared:
        known = self._prepared.get(id(message))
        if known is not None and number in (0, known.number):
            return known
        record, shown = record_and_shown(message)
        if number > 1:
            record = numbered(record, number)
        own = origin_of(record)
        prepared = _Prepared(
            message, shown, record, own.name if own is not None else "", number or 1
        )
        self._prepared[id(message)] = prepared
        return prepared

    async def _find_stored(self, unknown: Sequence[_Prepared], before: Sequence[_Prepared]) -> None:
        """Find which messages are stored; `before` are those of earlier turns."""
        if not unknown:
            return
        self._remember_entries(await self._session.by_client_id([each.name for each in unknown]))
        if before and not any(self.seq(each.name) for each in before):
            await self._align(before)

    async def _align(self, history: Sequence[_Prepared]) -> None:
        """Recognise messages of earlier turns by content, from the newest back, because their ids are new."""
        head = (await self._session.status()).entries
        reach = 2 * len(history) + _SLACK
        entries = await self._session.history(after=max(0, head - reach), limit=reach)
        candidates = [entry for entry in entries if origin_of(entry.message) is not None]
        self._remember_entries(candidates)
        # Of runs before: such a history has other names every time.
        for old in list(self._aliases)[:-_MOST]:
            self._aliases.pop(old, None)
        for each in reversed(history):
            digest = content_digest(each.record)
            same = (one for one in reversed(candidates) if content_digest(one.message) == digest)
            if (match := next(same, None)) is not None:
                self._aliases[each.name] = match.client_id
                candidates = [entry for entry in candidates if entry.seq < match.seq]

    def _remember_entries(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            own = origin_of(entry.message)
            self._remember(entry.client_id, own.id if own is not None else None, entry.seq)

    def _remember(self, name: str, message_id: str | None, seq: int) -> None:
        self._seqs[name] = seq
        if message_id:
            self._first[message_id] = min(seq, self._first.get(message_id, seq))


def turn_start(messages: Sequence[BaseMessage]) -> int:
    """Return the index of the message that begins the newest turn."""
    at = range(len(messages))
    return next((one for one in reversed(at) if isinstance(messages[one], HumanMessage)), 0)
