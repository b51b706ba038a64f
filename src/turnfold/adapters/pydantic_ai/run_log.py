"""Stores the messages of one run in the session's log, step by step, and reads the history back.

PydanticAI passes a run's whole history at every step. The history that a run begins with says what the conversation is
now: the log is made to follow it (see `follow_history`). After that, each message is recognised by its name and stored
once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic_ai.messages import ModelMessage, ModelRequest

from turnfold.adapters._common import GivenRecord, VisibleHistory, follow_history
from turnfold.adapters.pydantic_ai.entries import (
    NamedRecord,
    RecordNamer,
    is_filled_in,
    model_messages,
    record_name,
    records_of,
    written,
)
from turnfold.errors import Conflict, IdReused
from turnfold.memory import AsyncSession, Session
from turnfold.records import Message, NewEntry, ToolResult

__all__ = ("AgentRunLog", "message_history")


_NEWEST_ENTRIES = 256
"""Entries of the log that are searched for the calls of a cancelled run."""
_TRIES = 4
"""Attempts to store messages; an attempt fails if another run stored the same messages first."""


async def message_history(session: AsyncSession | Session) -> list[ModelMessage]:
    """Return the `message_history` of a session: all its messages, except those that were edited away or cleared.

    A later process passes it on with the `deferred_tool_results` of a run that waits for approval.
    """
    if isinstance(session, Session):
        session = session.awaiting
    entries = [shown.entry for shown in await VisibleHistory(session).entries()]
    return model_messages([entry.message for entry in entries if entry.message.role != "system"])


class AgentRunLog:
    """Stores the messages of one PydanticAI run in the log; `given` is True if the run begins with a history."""

    def __init__(self, session: AsyncSession, *, given: bool) -> None:
        self._session = session
        self.follows = given
        """True until the log was changed to agree with the history that the run was given."""
        self._given = given
        self._stored: set[str] = set()
        self._log_names: dict[str, str] = {}
        """Name (client id) of a message -> the client id under which the log has it, for messages where the two differ.
        """
        self._seqs: dict[str, int] = {}
        """Seqs (log positions) of the records in the given history, by the name of the record."""
        self._left_out: set[str] = set()
        """Names of the records in the given history that the log lacks: filled-in results of open calls."""
        self._prepared: dict[int, _Prepared] = {}
        self._stored_prefix: list[_Prepared] = []
        """The beginning of the given history that is stored; while it stays unchanged, it is not checked again."""
        self._namer = RecordNamer()
        self._results: dict[str, tuple[str, ToolResult]] = {}
        """Id of a tool call -> its result, with the name of the record that has the result."""

    async def catch_up(self, messages: Sequence[ModelMessage]) -> None:
        """Store every message of the run that is not in the log yet, in order, all or none."""
        if not self._continues(messages):
            self._stored_prefix, self._namer = [], RecordNamer()
        new = [self._prepare(message) for message in messages[len(self._stored_prefix) :]]
        named = [each for one in new for each in self._namer.named(one.records)]
        self._stored_prefix += new
        try:
            await (self._follow(named) if self.follows else self._store(named))
        except BaseException:
            self._stored_prefix, self._namer = [], RecordNamer()
            raise

    async def follow_again(self, messages: Sequence[ModelMessage]) -> bool:
        """Make the log follow the run's history again after another run changed it.

        Returns False if the run began without a history.
        """
        if not self._given:
            return False
        self.follows, self._stored_prefix, self._namer = True, [], RecordNamer()
        await self.catch_up(messages)
        return True

    async def add_results(self, returned: Mapping[str, ModelRequest]) -> None:
        """Store the results of tool calls, by call id, for which the log's newest calls have none.

        For a run that was cancelled: PydanticAI writes its history only after the run's hooks have ended.
        """
        if not returned:
            return
        newest = await VisibleHistory(self._session).newest(_NEWEST_ENTRIES, lambda _: 1)
        messages = [shown.entry.message for shown in newest]
        answered = {result.call_id for message in messages for result in message.results}
        waiting = {call.id for message in messages for call in message.calls} - answered
        records = [
            record
            for call_id, request in returned.items()
            if call_id in waiting
            for record in records_of(request)
        ]
        await self._store(RecordNamer().named(records))

    def records(self, message: ModelMessage) -> list[Message]:
        """Return the records (stored form) of a PydanticAI message."""
        return self._prepare(message).records

    def written(self, message: ModelMessage) -> ModelMessage:
        """Return a message as it is stored: with text for values of tools that have no JSON form."""
        return self._prepare(message).written

    def names(self, message: ModelMessage) -> frozenset[str]:
        """Return the client ids in the log of the stored messages that a PydanticAI message was converted to."""
        names = self._prepare(message).names - self._left_out
        return frozenset(self._log_names.get(name, name) for name in names)

    async def result_seq(self, call_id: str) -> int:
        """Return the seq of the log entry with the result of a tool call; 0 if it is not in the log yet."""
        known = self._results.get(call_id)
        if known and known[0] in self._seqs:
            return self._seqs[known[0]]
        found = await self._session.by_client_id([known[0]]) if known else []
        return found[-1].seq if found else 0

    def result(self, call_id: str) -> ToolResult | None:
        """Return the result of a tool call as it is in the log; None if the run's history has no result yet."""
        known = self._results.get(call_id)
        return known[1] if known else None

    def _prepare(self, message: ModelMessage) -> _Prepared:
        """Return the stored form of a message, cached or converted; converted again if it has got more parts."""
        known = self._prepared.get(id(message))
        if known is not None and known.parts == len(message.parts):
            return known
        stored, records = written(message)
        names = frozenset(map(record_name, records))
        for record in records:
            name = record_name(record)
            self._results.update((one.call_id, (name, one)) for one in record.results)
        self._prepared[id(message)] = prepared = _Prepared(
            message, len(message.parts), stored, records, names
        )
        return prepared

    def _continues(self, messages: Sequence[ModelMessage]) -> bool:
        if len(messages) < len(self._stored_prefix):
            return False
        pairs = zip(self._stored_prefix, messages, strict=False)
        return all(
            prepared.message is one and prepared.parts == len(one.parts) for prepared, one in pairs
        )

    async def _follow(self, named: Sequence[NamedRecord]) -> None:
        given = [GivenRecord(*each, filled_in=is_filled_in(each.record)) for each in named]
        placed = await follow_history(self._session, given)
        for each, logged in zip(named, placed, strict=True):
            own, name = record_name(each.record), record_name(logged.record)
            self._stored.add(each.name)
            self._seqs[own] = logged.seq
            if not logged.seq:
                self._left_out.add(own)
            if name != own:
                self._log_names[own] = name
        self.follows = False

    async def _store(self, named: Sequence[NamedRecord]) -> None:
        tries = 0
        while unstored := [each for each in named if each.name not in self._stored]:
            found = await self._session.by_client_id([each.name for each in unstored])
            self._stored.update(entry.client_id for entry in found)
            new = [each for each in unstored if each.name not in self._stored]
            if not new:
                break
            try:
                await self._session.add([NewEntry(each.record, each.name) for each in new])
            except (Conflict, IdReused):
                tries += 1
                if tries == _TRIES:
                    raise
            else:
                self._stored.update(each.name for each in new)


class _Prepared(NamedTuple):
    """A PydanticAI message and the records (stored form) it was converted to."""

    message: ModelMessage
    parts: int
    """Number of parts that the message had when it was converted."""
    written: ModelMessage
    records: list[Message]
    names: frozenset[str]
