"""Replaces the history in a framework's model requests by the session's context.

For frameworks that send their whole history, as a list of messages, with every request. New messages of the list are
appended to the log; if older messages were changed, the log is made to follow the list (see `follow_history`). Then the
session builds the context, and the adapter sends its messages instead of the list. The framework's own list is never
changed.

If the first list of a view has no answer of a model (only user messages, or results of calls that waited for an
approval), it is appended to the log: the application keeps no history and relies on turnfold to remember.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from turnfold.adapters._common.framework_history_in_log import GivenRecord, follow_history
from turnfold.adapters._common.sessions import count_for
from turnfold.adapters._common.visible_log_entries import VisibleHistory
from turnfold.errors import Conflict, InvalidOption
from turnfold.memory import AsyncMemory, AsyncSession
from turnfold.records import Message, NewEntry, TextPart, Usage, system
from turnfold.stores import redaction_of
from turnfold.window import Context, Section, may_be_shrunk_from
from turnfold.wire import JsonObject

if TYPE_CHECKING:
    from turnfold.wire import WireFormat

__all__ = (
    "FittedRequest",
    "HistoryView",
    "NumberedMessage",
    "added_messages",
    "context_with_system",
    "function_schema",
    "lost_from_window",
    "numbered_messages",
    "own_groups_last",
    "record_usage",
    "refuse_redaction",
    "remaining_tokens",
    "set_system",
    "system_texts",
    "without_others",
)


_SYSTEM_TRIES = 16
"""Attempts to build a context with a run's system message; an attempt fails if another run of the conversation has set
its own meanwhile."""


async def set_system(session: AsyncSession, texts: Sequence[str]) -> None:
    """Store these texts as the session's system message; without texts, the stored message is not changed."""
    if texts:
        await session.system([{"type": "text", "text": text} for text in texts])


async def context_with_system(
    session: AsyncSession,
    texts: Sequence[str],
    query: str | None,
    *,
    tools: Sequence[Mapping[str, object]] = (),
    max_tokens: int = 0,
    to: WireFormat | None = None,
) -> Context:
    """Build the context of the next call with `texts` as its system message; without texts, with the session's own.

    The caller holds `session.system_lock`, from before it stores the messages of its run: another run of this process
    that follows its own history in between would hide them. The texts are stored only if the session's current system
    message differs. To have them in the log before the first user message, call `set_system` first.
    """
    for _ in range(_SYSTEM_TRIES):
        context = await session.context(query, tools=tools, max_tokens=max_tokens, to=to)
        if not texts or _has_system(context, texts):
            return context
        await set_system(session, texts)
    raise Conflict(
        f"conversation {session.id!r}: another run replaced the system message {_SYSTEM_TRIES} times. Use separate "
        "conversations for agents that run at the same time"
    )


def system_texts(context: Context) -> list[str]:
    """Return the texts of a context's system message, which may have been shortened."""
    parts = [part for message in context.section(Section.SYSTEM) for part in message.parts]
    return [part.text for part in parts if isinstance(part, TextPart)]


def _has_system(context: Context, texts: Sequence[str]) -> bool:
    """Return True if the context was built with these texts as its system message, whole or shortened."""
    own = system([{"type": "text", "text": text} for text in texts])
    wanted = [part.text for part in own.parts if isinstance(part, TextPart)]
    found = system_texts(context)
    return len(found) == len(wanted) and all(map(may_be_shrunk_from, found, wanted))


_Message = TypeVar("_Message")


def refuse_redaction(memory: AsyncMemory | AsyncSession, *, adapter: str) -> None:
    """Raise `InvalidOption` for a memory with `redact=`: the adapter could not find its messages in the log."""
    if redaction_of(memory.store) is not None:
        raise InvalidOption(
            f"{adapter} cannot use a memory with redact=: it finds the messages of a run in the log by their content, "
            "and the framework's state holds them as they were. Use a memory without redact=, and redact before the run"
        )


def added_messages(
    history: Sequence[_Message], request: Sequence[_Message], *, other: str, remedy: str
) -> list[_Message]:
    """Return the request's messages that are not in `history`; raise `InvalidOption` if a message of it is missing.

    `other` names in the error who changed the request, and `remedy` what to do.
    """
    known = {id(message) for message in history}
    added = [message for message in request if id(message) not in known]
    changed = len(history) - (len(request) - len(added))
    if changed:
        raise InvalidOption(
            f"{other} removed or replaced {changed} of the {len(history)} history messages in a model request, which "
            f"only turnfold may do: {remedy}"
        )
    return added


def remaining_tokens(
    session: AsyncSession,
    added: Sequence[_Message],
    count: Callable[[_Message], int],
    *,
    other: str,
) -> int:
    """Return the tokens of the budget that `added` messages leave.

    Returns 0, which means no limit, if there are no such messages. Raises `InvalidOption` if they leave no tokens;
    `other` names in that error who added them. `count` returns the tokens of a message.
    """
    if not added:
        return 0
    cost, allowed = sum(map(count, added)), session.budget.tokens
    if cost >= allowed:
        raise InvalidOption(
            f"{other} adds {len(added)} messages with {cost:,} tokens, but a request may have only {allowed:,}: "
            "let it add less, or raise the budget"
        )
    return allowed - cost


def function_schema(
    name: str, description: str, parameters: Mapping[str, object]
) -> dict[str, object]:
    """Return a tool in the form of OpenAI's Chat API, so that its tokens can be counted."""
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def own_groups_last(
    messages: Sequence[_Message],
    *,
    is_result: Callable[[_Message], bool],
    is_own: Callable[[Sequence[_Message]], bool],
) -> list[_Message] | None:
    """Return the messages, with those of this run after those of other runs on the same conversation.

    Returns None if it has none.

    A model continues the last message, and each run must continue its own turn. A tool result stays in the group of its
    call. The order is unchanged if the last group is this run's.
    """
    groups: list[list[_Message]] = []
    for message in messages:
        if is_result(message) and groups:
            groups[-1].append(message)
        else:
            groups.append([message])
    if not groups or is_own(groups[-1]):
        return list(messages)
    mine = [group for group in groups if is_own(group)]
    others = [group for group in groups if not is_own(group)]
    return [message for group in others + mine for message in group] if mine else None


def lost_from_window(what: str, conversation: str) -> Conflict:
    """Return the error for messages of a run that are no longer in the window (the messages sent to the model)."""
    return Conflict(
        f"the window of conversation {conversation!r} no longer shows {what}: another run added messages and moved the "
        "window forward. Give each run a "
        "conversation of its own, or a larger budget"
    )


async def record_usage(session: AsyncSession, usage: Usage, *, call: str) -> None:
    """Store the token usage that a provider reported for a call; a report without input tokens is ignored."""
    if call and usage.input:
        await session.record_usage(usage, call=call)


class NumberedMessage(NamedTuple):
    """A message of a context, with the seq (number) of its entry in the log."""

    seq: int
    """Seq (log position) of the message's entry; 0 for a message that is not in the log (summary, recalled content),
    negative for a placeholder that stands for a missing tool result."""
    message: Message


def numbered_messages(context: Context) -> list[NumberedMessage]:
    """Return a context's messages after the system message, with the seq of each entry of the log."""
    _, summary, window, tail = context.ends
    positions = iter(context.positions)
    return [
        NumberedMessage(next(positions) if summary <= at < window or at >= tail else 0, message)
        for at, message in enumerate(context.messages[context.ends[0] :], context.ends[0])
    ]


def without_others(
    messages: Sequence[NumberedMessage], is_other: Callable[[NumberedMessage], bool]
) -> list[NumberedMessage]:
    """Return the messages without those of other runs, and without placeholders for results of the calls in these."""
    shown: list[NumberedMessage] = []
    hidden_calls: set[str] = set()
    for one in messages:
        calls = {call.id for call in one.message.calls}
        if is_other(one):
            hidden_calls |= calls
        elif one.seq < 0 and {result.call_id for result in one.message.results} <= hidden_calls:
            continue
        else:
            hidden_calls -= calls
            shown.append(one)
    return shown


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
    history is the whole conversation. `adapter` names the adapter in the error for a memory with `redact=`; without it
    such a memory is accepted, and the log is written anew whenever the history is not the one before with new messages
    at its end. The fields are compared to find changes, so they must be copies, not parts of the
    framework's messages.
    """

    def __init__(
        self,
        session: AsyncSession,
        record_of: Callable[[JsonObject], Message],
        *,
        recall: bool,
        adapter: str = "",
        continues: bool = True,
    ) -> None:
        if adapter:
            refuse_redaction(session, adapter=adapter)
        self.session = session
        self._record_of = record_of
        self._recall = recall
        self._continues = continues
        self._lock = session.config.runtime.lock()
        self._stored: list[_Stored] = []
        self._head = 0
        """Seq (log position) of the newest entry when the history was last stored."""

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
        """Store a framework's history, and return the request to send instead.

        `added` are messages that are sent too but are not part of the history. `to` is the wire format that writes the
        request; `model` is the model whose tokens are counted if the memory names none.
        """
        session = self.session
        await count_for(session, model)
        await set_system(session, system)
        count = session.counter.count_message
        room = remaining_tokens(session, added, count, other="another component")
        async with session.system_lock:
            own = await self.store(history)
            query = self._newest_user_text() if self._recall else None
            for tries_left in (1, 0):
                context = await context_with_system(
                    session, system, query, tools=tools, max_tokens=room, to=to
                )
                if not own or own[-1] in context.positions:
                    break
                if not tries_left:
                    raise lost_from_window("the newest message of this run", session.id)
                # Another run changed the visible history, or moved the window forward.
                own = await self.store(history, again=True)
        return FittedRequest(
            system_texts(context), _own_messages(context, own), context.tokens, session.last_call
        )

    def is_continued_by(self, history: Sequence[JsonObject]) -> bool:
        """Return True if a history begins with all messages of the history that was stored last."""
        return self._unchanged(history) == len(self._stored)

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
        placed = await follow_history(session, given, whole=not self._continues)
        self._head = (await session.store.head(session.scope, session.id)).seq
        return [one.seq for one in placed]

    def _newest_user_text(self) -> str | None:
        users = (one.record for one in reversed(self._stored) if one.record.role == "user")
        newest = next(users, None)
        return newest.text or None if newest is not None else None


def _own_messages(context: Context, own: Sequence[int]) -> list[Message]:
    """Return the context's messages after the system message, without those that other runs added meanwhile."""
    mine, begun = set(own), min(own, default=0)
    shown = without_others(
        numbered_messages(context), lambda one: one.seq > begun and one.seq not in mine
    )
    return [one.message for one in shown]
