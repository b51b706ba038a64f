"""Stores the messages of a graph's state in the session's log, and makes the log follow the state.

A state contains all its messages at every step. The state that a run begins with says what the conversation is now: a
thread may have gone back in time, a message may have been removed or changed. The log is made to follow it (see
`follow_history`), so that a context never shows messages that the state no longer has. A state that holds only a new
turn is appended to the log, because it is that of a run without a checkpointer. While a run goes on, new messages are
appended, and other runs may append to the same log; if the run changes its state in another way, the log follows again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from langchain_core.messages import BaseMessage, HumanMessage

from turnfold._caches import SizedCache
from turnfold.adapters._common import GivenRecord, VisibleHistory, follow_history
from turnfold.adapters.langchain.messages import (
    content_digest,
    numbered,
    origin_of,
    record_and_shown,
)
from turnfold.errors import Conflict, IdReused, InvalidRecord
from turnfold.memory import AsyncSession
from turnfold.records import Message, NewEntry

__all__ = ("GraphRunLog", "turn_start")


_MOST = 4096
"""Most messages whose converted form is cached; beyond that the cache is emptied."""
_MOST_RUNS = 64
"""Most runs of a graph whose stored state is cached; the least recently used one is dropped first."""
_TRIES = 4
"""Attempts to store a state; an attempt fails if another run stored something at the same time."""


class _Prepared(NamedTuple):
    """A LangChain message with its record (stored form)."""

    message: BaseMessage
    """The message itself; kept here so that no other object can get its id() while the record is cached."""
    shown: BaseMessage
    """The message to show a model: the message itself, unless a tool result in it could not be serialized."""
    record: Message
    name: str
    number: int = 1
    """Number of the message among those without an id and with the same content."""


class _Stored(NamedTuple):
    """The messages of a run's state as they were last stored, with their seqs."""

    names: list[str]
    seqs: list[int]
    head: int
    """Seq (log position) of the newest entry after the state was stored."""


class GraphRunLog:
    """Stores the messages in the states of one conversation's runs in its log."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._lock = session.config.runtime.lock()
        self._runs: SizedCache[str, _Stored] = SizedCache(limit=_MOST_RUNS)
        """Cached states of runs, by the id or name of the message that began the newest turn of the state."""
        self._prepared: dict[int, _Prepared] = {}

    async def catch_up(self, messages: Sequence[BaseMessage], *, again: bool = False) -> list[int]:
        """Store the messages of a graph's state in the log, in order, and return their seqs.

        `again` ignores the cache.
        """
        if not messages:
            return []
        prepared = self._prepare_all(messages)
        names = [each.name for each in prepared]
        turn = turn_start(messages)
        run = messages[turn].id or names[turn]
        async with self._lock:
            known = None if again else self._runs.get(run)
            if known is not None and names[: len(known.names)] != known.names:
                known = None
            stored = await self._continue(known, prepared) if known else None
            if stored is None:
                stored = await self._follow(prepared, turn)
            self._runs.put(run, stored)
            return stored.seqs

    def record(self, message: BaseMessage) -> Message:
        """Return the record (stored form) of a LangChain message, cached or converted."""
        return self._prepare(message).record

    def shown(self, message: BaseMessage) -> BaseMessage:
        """Return the message that a model gets: the same message, unless a tool result could not be serialized."""
        return self._prepare(message).shown

    async def _continue(self, known: _Stored, prepared: Sequence[_Prepared]) -> _Stored | None:
        """Append the new messages and return the stored state; None if appending is not enough (see `_follow`)."""
        new = [NewEntry(each.record, each.name) for each in prepared[len(known.names) :]]
        if not new:
            return known
        try:
            try:
                added = await self._session.add(new, expect=known.head)
            except Conflict:  # another run has stored something
                if (await VisibleHistory(self._session).retraction()).cleared >= min(known.seqs):
                    return None
                added = await self._session.add(new)
        except (Conflict, IdReused):
            return None
        if added.repeated:
            return None
        seqs = [*known.seqs, *range(added.first, added.first + len(new))]
        return _Stored([each.name for each in prepared], seqs, added.head.seq)

    async def _follow(self, prepared: Sequence[_Prepared], turn: int) -> _Stored:
        session = self._session
        names = [each.name for each in prepared]
        tries = 0
        while True:
            try:
                if turn or await session.by_client_id(names):
                    given = [GivenRecord(each.record, each.name) for each in prepared]
                    placed = await follow_history(session, given, key=content_digest)
                    seqs = [one.seq for one in placed]
                else:
                    new = [NewEntry(each.record, each.name) for each in prepared]
                    first = (await session.add(new)).first
                    seqs = list(range(first, first + len(new)))
            except (Conflict, IdReused):
                tries += 1
                if tries == _TRIES:
                    raise
            else:
                head = (await session.store.head(session.scope, session.id)).seq
                return _Stored(names, seqs, head)

    def _prepare_all(self, messages: Sequence[BaseMessage]) -> list[_Prepared]:
        """Convert the messages of a state to stored messages; equal messages without an id get numbers."""
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


def turn_start(messages: Sequence[BaseMessage]) -> int:
    """Return the index of the message that begins the newest turn."""
    at = range(len(messages))
    return next((one for one in reversed(at) if isinstance(messages[one], HumanMessage)), 0)
