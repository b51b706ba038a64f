"""One run's messages, kept in the session's log as they come.

PydanticAI shows a run's whole history again at every step. Each message is recognised by name and stored once, whether
it was said in this run, in one before it, or by another process meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pydantic_ai.messages import ModelMessage

from turnfold.adapters.pydantic_ai.recording import Named, Namer, records_of
from turnfold.adapters.pydantic_ai.restoring import record_name
from turnfold.errors import Conflict, IdReused
from turnfold.memory.session import AsyncSession
from turnfold.records import Message, NewEntry, ToolResult

__all__ = ("RunLog",)

_TRIES = 4
"""Times another run may store the same messages between our looking and our writing."""


class RunLog:
    """Stores what a run says."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._stored: set[str] = set()
        self._made: dict[int, _Made] = {}
        self._done: list[_Made] = []
        """The beginning of the history that is stored: it is not looked at again while it stays as it is."""
        self._namer = Namer()
        self._results: dict[str, tuple[str, ToolResult]] = {}
        """Call id -> name of the record that holds its result, and the result."""

    async def catch_up(self, messages: Sequence[ModelMessage]) -> None:
        """Store every message that is not in the log yet, in order, all of them or none."""
        if not self._goes_on(messages):
            self._done, self._namer = [], Namer()
        new = [self._make(message) for message in messages[len(self._done) :]]
        named = [each for made in new for each in self._namer.named(made.message, made.records)]
        self._done += new
        try:
            await self._store(named)
        except BaseException:
            self._done, self._namer = [], Namer()
            raise

    def records(self, message: ModelMessage) -> list[Message]:
        """The records of a message."""
        return self._make(message).records

    def names(self, message: ModelMessage) -> frozenset[str]:
        """What the records of a message are called."""
        return self._make(message).names

    async def result_seq(self, call_id: str) -> int:
        """The entry that holds the result of a call; 0 where none does yet."""
        known = self._results.get(call_id)
        found = await self._session.find([known[0]]) if known else []
        return found[-1].seq if found else 0

    def result(self, call_id: str) -> ToolResult | None:
        """The result of a call as the log has it; None where the run has shown none yet."""
        known = self._results.get(call_id)
        return known[1] if known else None

    def _make(self, message: ModelMessage) -> _Made:
        """The records of a message, made once; a request that got another part is made anew."""
        known = self._made.get(id(message))
        if known is not None and known.parts == len(message.parts):
            return known
        records = records_of(message)
        names = frozenset(map(record_name, records))
        for record in records:
            named = record_name(record)
            self._results.update((one.call_id, (named, one)) for one in record.results)
        self._made[id(message)] = made = _Made(message, len(message.parts), records, names)
        return made

    def _goes_on(self, messages: Sequence[ModelMessage]) -> bool:
        if len(messages) < len(self._done):
            return False
        pairs = zip(self._done, messages, strict=False)
        return all(made.message is one and made.parts == len(one.parts) for made, one in pairs)

    async def _store(self, named: Sequence[Named]) -> None:
        tries = 0
        while unstored := [each for each in named if not self._is_stored(each)]:
            await self._look_for(unstored)
            new = [each for each in unstored if not self._is_stored(each)]
            if not new:
                break
            try:
                await self._session.add([NewEntry(each.record, _client_id(each)) for each in new])
            except (Conflict, IdReused):
                tries += 1
                if tries == _TRIES:
                    raise
            else:
                self._stored.update(map(_client_id, new))

    def _is_stored(self, each: Named) -> bool:
        return each.name in self._stored or (bool(each.undated) and each.undated in self._stored)

    async def _look_for(self, unstored: Sequence[Named]) -> None:
        names = [name for each in unstored for name in (each.name, each.undated) if name]
        self._stored.update(entry.client_id for entry in await self._session.find(names))


class _Made(NamedTuple):
    message: ModelMessage
    parts: int
    """How many it had."""
    records: list[Message]
    names: frozenset[str]


def _client_id(each: Named) -> str:
    return each.undated or each.name
