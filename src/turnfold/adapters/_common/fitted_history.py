"""Replaces the history in a framework's model requests by the session's context.

For frameworks that send their whole history, as a list of messages, with every request. New messages of the list are
appended to the log; if older messages were changed, the log is made to follow the list (see `follow_history`). Then the
session builds the context, and the adapter sends its messages instead of the list. The framework's own list is never
changed.

If the first list of a view has no answer of a model (only user messages, or results of calls that waited for an
approval), it is appended to the log: its program keeps no history and relies on turnfold to remember.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from turnfold.adapters._common.history_alignment import GivenRecord, follow_history
from turnfold.adapters._common.request_checks import (
    lost_from_window,
    record_usage,
    refuse_redaction,
    remaining_tokens,
)
from turnfold.adapters._common.sessions import count_for
from turnfold.adapters._common.system_prompt import context_with_system, set_system, system_texts
from turnfold.adapters._common.visible_history import VisibleHistory
from turnfold.errors import Conflict
from turnfold.memory import AsyncSession
from turnfold.records import Message, NewEntry, Usage
from turnfold.window import Context
from turnfold.wire import JsonObject

__all__ = ("FittedRequest", "HistoryView")


if TYPE_CHECKING:
    from turnfold.wire import WireFormat


_TRIES = 4
"""Attempts to store a history; an attempt fails if another run stored something at the same time."""


class FittedRequest(NamedTuple):
    """A framework's model request whose messages were replaced by those that fit the budget."""

    system: list[str]
    """Texts of the system message; they may have been shortened."""
    messages: list[Message]
    """The messages to send after the system message."""
    tokens: int
    call: str
    """Id of the call, for `record_usage`."""


class _Stored(NamedTuple):
    """A message of a framework's history that is stored in the log."""

    fields: JsonObject
    record: Message
    seq: int


class HistoryView:
    """Stores the histories that a framework sends for one conversation, and builds requests that fit the budget.

    `record_of` converts the fields of a framework's message to a record. With `continues`, a first history without an
    answer of a model is appended to the log, and other histories may lack the beginning of the log; without it, every
    history is the whole conversation. The fields are compared to find changes, so they must be copies, not parts of the
    framework's messages.
    """

    def __init__(
        self,
        session: AsyncSession,
        record_of: Callable[[JsonObject], Message],
        *,
        adapter: str,
        recall: bool,
        continues: bool = True,
    ) -> None:
        refuse_redaction(session, adapter=adapter)
        self.session = session
        self._record_of = record_of
        self._recall = recall
        self._continues = continues
        self._lock = session.config.runtime.lock()
        self._stored: list[_Stored] = []
        self._head = 0
        """Seq of the newest entry when the history was last stored."""

    async def store(self, history: Sequence[JsonObject], *, again: bool = False) -> list[int]:
        """Store a framework's history in the log and return the seqs of its messages.

        `again` ignores the cached state.
        """
        async with self._lock:
            if again:
                self._stored = []
            same = self._unchanged(history)
            new = [(fields, self._record_of(fields)) for fields in history[same:]]
            if not new and same == len(self._stored):
                return [one.seq for one in self._stored]
            seqs = None
            if same == len(self._stored) and not again:
                seqs = await self._continue([record for _, record in new])
            if seqs is None:
                known = [(one.fields, one.record) for one in self._stored[:same]]
                new = [*known, *new]
                seqs = await self._follow([record for _, record in new])
                self._stored = []
            self._stored += [_Stored(*pair, seq) for pair, seq in zip(new, seqs, strict=True)]
            return [one.seq for one in self._stored]

    async def fit(
        self,
        history: Sequence[JsonObject],
        *,
        system: Sequence[str],
        tools: Sequence[Mapping[str, object]] = (),
        added: Sequence[Message] = (),
        to: WireFormat | None = None,
        model: object = "",
    ) -> FittedRequest:
        """Store a framework's history, and return the request to send instead; `added` are other messages to send."""
        session = self.session
        await count_for(session, model)
        await set_system(session, system)
        own = await self.store(history)
        query = self._newest_user_text() if self._recall else None
        count = session.counter.count_message
        room = remaining_tokens(session, added, count, other="another component")
        for tries_left in (1, 0):
            context = await context_with_system(
                session, system, query, tools=tools, max_tokens=room, to=to
            )
            if not own or own[-1] in context.positions:
                break
            if not tries_left:
                raise lost_from_window("the newest message of this run is", session.id)
            # Another run changed the visible history, or moved the window forward.
            own = await self.store(history, again=True)
        return FittedRequest(
            system_texts(context), _own_messages(context, own), context.tokens, session.last_call
        )

    @property
    def records(self) -> list[Message]:
        """Messages of the history that was stored last, in turnfold's form, in order."""
        return [one.record for one in self._stored]

    async def record_usage(self, usage: Usage, *, call: str) -> None:
        """Store the token usage that the provider reported for a call."""
        await record_usage(self.session, usage, call=call)

    def _unchanged(self, history: Sequence[JsonObject]) -> int:
        """Return how many messages at the beginning of the history are the same as when it was last stored."""
        pairs = enumerate(zip(self._stored, history, strict=False))
        changed = (at for at, (one, fields) in pairs if one.fields != fields)
        return next(changed, min(len(self._stored), len(history)))

    async def _continue(self, records: Sequence[Message]) -> list[int] | None:
        """Append the new messages to the log; return None if the log must be changed to follow the history."""
        new = [NewEntry(record) for record in records]
        if not self._stored:
            if not self._continues or any(record.role == "assistant" for record in records):
                return None
            added = await self.session.add(new)
        else:
            try:
                added = await self.session.add(new, expect=self._head)
            except Conflict:  # another run has stored something
                retraction = await VisibleHistory(self.session).retraction()
                if retraction.cleared >= self._stored[0].seq:
                    return None
                added = await self.session.add(new)
        self._head = added.head.seq
        return list(range(added.first, added.first + len(new)))

    async def _follow(self, records: Sequence[Message]) -> list[int]:
        session = self.session
        given = [GivenRecord(record, "") for record in records]
        tries = 0
        while True:
            try:
                placed = await follow_history(session, given, whole=not self._continues)
            except Conflict:
                tries += 1
                if tries == _TRIES:
                    raise
            else:
                self._head = (await session.store.head(session.scope, session.id)).seq
                return [one.seq for one in placed]

    def _newest_user_text(self) -> str | None:
        users = (one.record for one in reversed(self._stored) if one.record.role == "user")
        newest = next(users, None)
        return newest.text or None if newest is not None else None


def _own_messages(context: Context, own: Sequence[int]) -> list[Message]:
    """Return the context's messages after the system message, without those that other runs added meanwhile."""
    mine, begun = set(own), min(own, default=0)
    _, summary, window, tail = context.ends
    seqs = iter(context.positions)
    shown: list[Message] = []
    hidden_calls: set[str] = set()
    for at in range(context.ends[0], len(context.messages)):
        message = context.messages[at]
        seq = next(seqs) if summary <= at < window or at >= tail else 0
        calls = {call.id for call in message.calls}
        if seq > begun and seq not in mine:
            hidden_calls |= calls
        elif seq < 0 and {result.call_id for result in message.results} <= hidden_calls:
            continue  # a placeholder for the missing result of a hidden call
        else:
            hidden_calls -= calls
            shown.append(message)
    return shown
