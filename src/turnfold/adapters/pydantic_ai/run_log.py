"""Stores the messages of one run in the session's log, step by step.

PydanticAI passes a run's whole history at every step. Each message is recognised by its name and stored once, even if
an earlier run or another process has stored it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pydantic_ai.messages import ModelMessage

from turnfold.adapters.pydantic_ai.entries import NamedRecord, RecordNamer, record_name, records_of
from turnfold.errors import Conflict, IdReused
from turnfold.memory import AsyncSession
from turnfold.records import Message, NewEntry, ToolResult

__all__ = ("AgentRunLog",)


_TRIES = 4
"""Attempts to store messages; an attempt fails if another run stored the same messages first."""


class AgentRunLog:
    """Stores the messages of one run."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._stored: set[str] = set()
        self._prepared: dict[int, _Prepared] = {}
        self._stored_prefix: list[_Prepared] = []
        """The beginning of the history that is stored; it is not checked again while it stays unchanged."""
        self._namer = RecordNamer()
        self._results: dict[str, tuple[str, ToolResult]] = {}
        """By call id: the name of the record that holds the call's result, and the result."""

    async def catch_up(self, messages: Sequence[ModelMessage]) -> None:
        """Store every message that is not in the log yet, in order, all of them or none."""
        if not self._continues(messages):
            self._stored_prefix, self._namer = [], RecordNamer()
        new = [self._prepare(message) for message in messages[len(self._stored_prefix) :]]
        named = [each for one in new for each in self._namer.named(one.message, one.records)]
        self._stored_prefix += new
        try:
            await self._store(named)
        except BaseException:
            self._stored_prefix, self._namer = [], RecordNamer()
            raise

    def records(self, message: ModelMessage) -> list[Message]:
        """Return the records of a message."""
        return self._prepare(message).records

    def names(self, message: ModelMessage) -> frozenset[str]:
        """Return the names of the records of a message."""
        return self._prepare(message).names

    async def result_seq(self, call_id: str) -> int:
        """Return the seq of the entry that holds the result of a call; 0 if there is none yet."""
        known = self._results.get(call_id)
        found = await self._session.by_client_id([known[0]]) if known else []
        return found[-1].seq if found else 0

    def result(self, call_id: str) -> ToolResult | None:
        """Return the result of a call as it is in the log; None if the history has none yet."""
        known = self._results.get(call_id)
        return known[1] if known else None

    def _prepare(self, message: ModelMessage) -> _Prepared:
        """Return the records of a message, from a cache; made again if the message has got more parts."""
        known = self._prepared.get(id(message))
        if known is not None and known.parts == len(message.parts):
            return known
        records = records_of(message)
        names = frozenset(map(record_name, records))
        for record in records:
            name = record_name(record)
            self._results.update((one.call_id, (name, one)) for one in record.results)
        self._prepared[id(message)] = prepared = _Prepared(
            message, len(message.parts), records, names
        )
        return prepared

    def _continues(self, messages: Sequence[ModelMessage]) -> bool:
        if len(messages) < len(self._stored_prefix):
            return False
        pairs = zip(self._stored_prefix, messages, strict=False)
        return all(
            prepared.message is one and prepared.parts == len(one.parts) for prepared, one in pairs
        )

    async def _store(self, named: Sequence[NamedRecord]) -> None:
        tries = 0
        while unstored := [each for each in named if not self._is_stored(each)]:
            await self._find_stored(unstored)
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

    def _is_stored(self, each: NamedRecord) -> bool:
        return each.name in self._stored or (bool(each.undated) and each.undated in self._stored)

    async def _find_stored(self, unstored: Sequence[NamedRecord]) -> None:
        names = [name for each in unstored for name in (each.name, each.undated) if name]
        self._stored.update(entry.client_id for entry in await self._session.by_client_id(names))


class _Prepared(NamedTuple):
    message: ModelMessage
    parts: int
    """Number of parts that the message had."""
    records: list[Message]
    names: frozenset[str]


def _client_id(each: NamedRecord) -> str:
    return each.undated or each.name
