"""Replaces the messages of a model request by the session's context, in the versions that the graph's state has.

The state keeps everything; only the request is changed. Messages of the state are sent as the same objects, unless they
had to be shortened. The system messages become the session's system message, so that they are counted and shortened
with everything else.

The log keeps every version of every message; the state has one. A thread may go back in time, a message may be removed
or changed, a step may be repeated: then the log has messages that the state has abandoned. The model must see the
messages of the state, each at the position of its first version, and each call with its answer. A state may also start
over (a thread that went back to its start, a run whose state was not kept): messages from before it are shown in the
version of the newest earlier state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import Any, NamedTuple, cast

from langchain.agents.middleware.types import ModelRequest
from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.utils.function_calling import convert_to_openai_tool

from turnfold.adapters._common import (
    added_messages,
    context_with_system,
    function_schema,
    lost_from_window,
    remaining_tokens,
    set_system,
    system_texts,
)
from turnfold.adapters.langchain.messages import (
    Content,
    JsonObject,
    messages_of,
    origin_of,
    parts_of,
)
from turnfold.adapters.langchain.run_log import GraphRunLog, turn_start
from turnfold.errors import Conflict, InvalidOption
from turnfold.memory import AsyncSession
from turnfold.records import TextPart
from turnfold.window import Context, Section
from turnfold.wire import writable

__all__ = (
    "GraphView",
    "StatePlacement",
    "history_of",
)


@dataclass(slots=True)
class StatePlacement:
    """The positions of a state's messages in a context, and the messages of the context to hide."""

    current: dict[int, BaseMessage] = field(default_factory=dict[int, BaseMessage])
    """By index in the context: the message as the state has it now; the context may have an older version there."""
    hidden: set[int] = field(default_factory=set[int])
    """Indexes of messages that are not shown."""
    moved: dict[int, int] = field(default_factory=dict[int, int])
    """For messages from before the state began: the index of the newer version to show instead, by index."""
    abandoned: set[str] = field(default_factory=set[str])
    """Names of messages that were logged after the state's first message but are not in the state."""
    _shown: set[int] = field(default_factory=set[int])
    _repeated: dict[int, int] = field(default_factory=dict[int, int])
    """By id() of a message: the last index at which it was stored again. A turn is stored again whole, in order."""

    @classmethod
    def of(
        cls, context: Context, history: Sequence[BaseMessage], log: GraphRunLog
    ) -> StatePlacement:
        """Find the messages of a state in a context."""
        placed = cls()
        placed._find_versions(context, history, log)
        placed._find_answers(context, history)
        placed._hide_repetitions(context, history)
        start = placed._state_start(context, history, log)
        placed._hide_abandoned(context, start)
        placed._hide_abandoned_before(context, start, log)
        placed._hide_stand_ins(context)
        return placed

    def __contains__(self, message: BaseMessage) -> bool:
        return id(message) in self._shown

    def has_lost_question(self, context: Context, history: Sequence[BaseMessage]) -> bool:
        """Return True if the window shows an abandoned turn instead of the newest user message."""
        question = history[turn_start(history)] if history else None
        if not isinstance(question, HumanMessage) or question in self:
            return False
        return any(context.messages[at].role == "user" for at in self.hidden)

    def _find_versions(
        self, context: Context, history: Sequence[BaseMessage], log: GraphRunLog
    ) -> None:
        by_name = {log.name(message): message for message in history}
        by_id = {message.id: message for message in history if message.id}
        for at, _ in _places(context):
            own = origin_of(context.messages[at])
            found = (by_name.get(own.name) or by_id.get(own.id)) if own is not None else None
            if own is not None and found is not None:
                self.current[at] = found
                self._shown.add(id(found))
                if own.repeated:
                    self._repeated[id(found)] = at
                if own.name not in by_name:
                    self.abandoned.add(own.name)

    def _find_answers(self, context: Context, history: Sequence[BaseMessage]) -> None:
        """Match the new answers of tools that ran again with the first answers, which the log shows with the calls."""
        answers = _answers(history)
        caller: BaseMessage | None = None
        for at, _ in _places(context) if answers else ():
            record = context.messages[at]
            if record.calls:
                caller = self.current.get(at)
            for result in record.results if at not in self.current else ():
                answer = answers.get((id(caller), result.call_id))
                if answer is not None:
                    self.current[at] = answer
                    self._shown.add(id(answer))

    def _hide_repetitions(self, context: Context, history: Sequence[BaseMessage]) -> None:
        """Show only the first version of each message, or the last one if its turn was stored again.

        An assistant or tool message whose first version was folded (compacted) is covered by the summary. A later
        version, stored after newer messages, is hidden, because it would be separated from its question, answer or
        call. A user message is not hidden.
        """
        order = {id(message): number for number, message in enumerate(history)}
        placed: set[int] = set()
        latest = 0
        for at, _ in _places(context):
            current = self.current.get(at)
            if current is None:
                continue
            if self._repeated.get(id(current), at) != at:
                self.hidden.add(at)
                continue
            record, number = context.messages[at], order[id(current)]
            out_of_order = record.role != "user" and number < latest
            if id(current) in placed or out_of_order:
                self.hidden.add(at)
            placed.add(id(current))
            latest = max(latest, number)

    def _state_start(
        self, context: Context, history: Sequence[BaseMessage], log: GraphRunLog
    ) -> int:
        """Return the lowest seq of any version of the state's messages; 0 if none is stored.

        If the first message was changed, its newest version was stored late, but the state began with the oldest
        version; abandoned messages are between the two.
        """
        stored = [log.first_seq(message) for message in history]
        shown = [seq for at, seq in _places(context) if at in self.current]
        return min((seq for seq in (*stored, *shown) if seq > 0), default=0)

    def _hide_abandoned(self, context: Context, start: int) -> None:
        """Hide messages that were stored after `start`, the seq of the state's first message, and are not in the state.

        Messages from before `start` stay: they may be of a run whose state was not kept.
        """
        if not start:
            return
        for at, seq in _places(context):
            own = origin_of(context.messages[at]) if at not in self.current else None
            if own is not None and seq > start:
                self.hidden.add(at)
                self.abandoned.add(own.name)

    def _hide_abandoned_before(self, context: Context, start: int, log: GraphRunLog) -> None:
        """Of messages from before the state began, show one version each, and none that was abandoned."""
        versions: dict[str, list[int]] = {}
        newest_kept: dict[str, int] = {}
        folded: set[str] = set()
        for at, seq in _places(context):
            own = origin_of(context.messages[at]) if 0 < seq < start else None
            if own is None or at in self.current:
                continue
            message = own.id or own.name
            if message not in versions and 0 < log.first_of(own.id) < seq:
                # Its place is in the summary: here it would stand behind what came after it.
                folded.add(message)
            versions.setdefault(message, []).append(at)
            if own.name not in log.abandoned:
                newest_kept[message] = at
        for message, places in versions.items():
            self.hidden.update(places)
            if message in newest_kept and message not in folded:
                self.hidden.discard(places[0])
                if newest_kept[message] != places[0]:
                    self.moved[places[0]] = newest_kept[message]
        if versions:
            self._keep_pairs(context, start)

    def _keep_pairs(self, context: Context, start: int) -> None:
        """Of messages from before the state began, show no answer without its call and no call without an answer."""
        calls: set[str] = set()
        answers: dict[str, int] = {}
        for at, seq in _places(context):
            if seq >= start:
                continue
            record = context.messages[self.moved.get(at, at)]
            if at not in self.hidden:
                calls |= {call.id for call in record.calls}
            for result in record.results:
                if at in self.hidden:
                    answers.setdefault(result.call_id, at)
                elif result.call_id not in calls:
                    self.hidden.add(at)
                else:
                    calls.discard(result.call_id)
        self.hidden -= {answers[call] for call in calls if call in answers}

    def _hide_stand_ins(self, context: Context) -> None:
        """If a call is hidden, also hide the placeholder for its missing result."""
        gone: set[str] = set()
        for at, seq in _places(context):
            record = context.messages[at]
            calls = {call.id for call in record.calls}
            gone = gone | calls if at in self.hidden else gone - calls
            stands_in = seq < 0 and at not in self.current and origin_of(record) is None
            if stands_in and {result.call_id for result in record.results} <= gone:
                self.hidden.add(at)


def _answers(history: Sequence[BaseMessage]) -> dict[tuple[int, str], ToolMessage]:
    """Return a state's tool results by (id() of the calling message, call id), because call ids may be used twice."""
    found: dict[tuple[int, str], ToolMessage] = {}
    callers: dict[str, BaseMessage] = {}
    for message in history:
        if isinstance(message, AIMessage):
            callers |= {call["id"] or "": message for call in message.tool_calls}
        elif isinstance(message, ToolMessage) and message.tool_call_id in callers:
            found[id(callers[message.tool_call_id]), message.tool_call_id] = message
    return found


def _places(context: Context) -> Iterator[tuple[int, int]]:
    """Yield the index and seq of each message in the window and the newest turn; the seq of a placeholder is -1."""
    _, begin, end, newest = context.ends
    at = [*range(begin, end), *range(newest, len(context.messages))]
    return zip(at, context.positions, strict=True)


class _Shown(NamedTuple):
    """The messages of a context that are shown."""

    messages: list[BaseMessage]
    extra: int
    """Tokens to add to those of the context, because the state has other versions of its messages."""
    abandoned: set[str]
    """Names of messages in the context that the state has abandoned."""
    question_lost: bool
    """True if the window shows an abandoned user message instead of the state's newest one."""


@dataclass(slots=True)
class GraphView:
    """Replaces the messages in the model requests of one conversation by the session's context."""

    session: AsyncSession
    log: GraphRunLog
    recall: bool
    """True to show folded content again if it matches the user's words."""

    async def shape(self, request: ModelRequest[Any]) -> tuple[ModelRequest[Any], str]:
        """Return the request with the session's context instead of the state's messages, and the id of the call."""
        state = cast("list[BaseMessage]", request.state.get("messages", []))
        history = history_of(state)
        leading = cast("list[SystemMessage]", state[: len(state) - len(history)])
        system = [request.system_message] if request.system_message is not None else []
        system_messages = [*system, *leading]
        texts = [text for message in system_messages for text in _texts(message)]
        await set_system(self.session, texts)
        await self.log.catch_up(history)
        await self.log.load_abandoned(history)
        added = added_messages(
            state,
            request.messages,
            other="other middleware",
            remedy="let it change the state in before_model, or put it behind turnfold's middleware",
        )
        room = remaining_tokens(self.session, added, self._cost, other="other middleware")
        context, body = await self._context_for_turn(request, history, texts, room=room)
        await self.log.note_abandoned(body.abandoned, history)
        fitted = _fitted_system(system_messages, texts, context)
        shown = cast("list[AnyMessage]", [*fitted[len(system) :], *body.messages, *added])
        leader = fitted[0] if system else None
        if not system_messages and context.section(Section.SYSTEM):
            own = "\n\n".join(message.text for message in context.section(Section.SYSTEM))
            leader = SystemMessage(own)
        return request.override(messages=shown, system_message=leader), self.session.last_call

    async def _context_for_turn(
        self,
        request: ModelRequest[Any],
        history: Sequence[BaseMessage],
        texts: Sequence[str],
        *,
        room: int,
    ) -> tuple[Context, _Shown]:
        """Return the context and its shown messages; the newest turn of the state is stored again if it is missing."""
        try:
            context, body = await self._fitted_context(request, history, texts, room=room)
        except Conflict:
            pass
        else:
            if not body.question_lost:
                return context, body
        # The log has moved on from where this thread is, because it went back in time, or by another run.
        await self.log.repeat_turn(history)
        return await self._fitted_context(request, history, texts, room=room)

    async def _fitted_context(
        self,
        request: ModelRequest[Any],
        history: Sequence[BaseMessage],
        texts: Sequence[str],
        *,
        room: int,
    ) -> tuple[Context, _Shown]:
        """Return the context and its shown messages; the context is rebuilt smaller if changed messages are longer."""
        query = _newest_user_text(history) if self.recall else None
        tools = tool_schemas(request)
        limit = room or self.session.budget.tokens

        async def build(max_tokens: int) -> tuple[Context, _Shown]:
            context = await context_with_system(
                self.session, texts, query, tools=tools, max_tokens=max_tokens
            )
            return context, self._messages(context, history)

        context, body = await build(room)
        if context.tokens + body.extra <= limit:
            return context, body
        if body.extra >= limit:
            raise InvalidOption(
                f"messages that were changed in the state grew by {body.extra:,} tokens, but a request may have only "
                f"{limit:,}: shorten them or raise the budget"
            )
        return await build(limit - body.extra)

    def _cost(self, message: BaseMessage) -> int:
        return self.session.counter.count_message(self.log.record(message))

    def _messages(self, context: Context, history: Sequence[BaseMessage]) -> _Shown:
        """Return the messages of a context that are shown."""
        placed = StatePlacement.of(context, history, self.log)
        if history and history[-1] not in placed:
            raise lost_from_window("the newest message of this run is", self.session.id)
        shown: list[BaseMessage] = []
        extra = 0
        for at in range(context.ends[0], len(context.messages)):
            record, current = context.messages[at], placed.current.get(at)
            if at in placed.hidden:
                continue
            if at in placed.moved:
                newer = placed.moved[at]
                shown += messages_of(context.messages[newer])
                extra += context.costs[newer] - context.costs[at]
                continue
            own = origin_of(record)
            if own is None or current is None:
                shown += messages_of(record)
            elif own.name == self.log.name(current):
                as_it_is = record.origin is not None and bool(record.origin.form)
                shown += [self.log.shown(current)] if as_it_is else messages_of(record)
            else:
                shown.append(self.log.shown(current))
                extra += self._cost(current) - context.costs[at]
        return _Shown(
            shown, extra, placed.abandoned, question_lost=placed.has_lost_question(context, history)
        )


def history_of(state: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages of a state without the system messages at its beginning, which are not part of a turn.

    From here on, messages without an id are distinguished by object identity, so an object that occurs twice is copied.
    """
    history: list[BaseMessage] = []
    seen: set[int] = set()
    for message in dropwhile(lambda one: isinstance(one, SystemMessage), state):
        twice = not message.id and id(message) in seen
        history.append(message.model_copy() if twice else message)
        seen.add(id(message))
    return history


def _texts(message: BaseMessage) -> list[str]:
    parts, _ = parts_of(cast("Content", writable(message.content)))
    return [part.text for part in parts if isinstance(part, TextPart) and part.text.strip()]


def _fitted_system(
    system_messages: Sequence[SystemMessage], texts: Sequence[str], context: Context
) -> list[SystemMessage]:
    """Return the system messages, with the texts of the context if it had to shorten them."""
    fitting = system_texts(context)
    if fitting == list(texts) or len(fitting) != len(texts):
        return list(system_messages)
    remaining = iter(fitting)
    return [
        SystemMessage("\n\n".join([next(remaining) for _ in _texts(message)]), id=message.id)
        for message in system_messages
    ]


def _newest_user_text(history: Sequence[BaseMessage]) -> str | None:
    newest = next((one for one in reversed(history) if isinstance(one, HumanMessage)), None)
    return "\n".join(_texts(newest)) or None if newest is not None else None


def tool_schemas(request: ModelRequest[Any]) -> list[JsonObject]:
    """Return the tools and output format of a request in the form of OpenAI's Chat API, to count their tokens."""
    schemas = [
        tool if isinstance(tool, dict) else convert_to_openai_tool(tool) for tool in request.tools
    ]
    output = cast("object", request.response_format)
    if isinstance(output, ProviderStrategy | AutoStrategy):
        output = cast("object", output.schema)  # pyright: ignore[reportUnknownMemberType]
    if output is not None and not isinstance(output, ToolStrategy):
        output = ToolStrategy(cast("type[object]", output))
    specs = output.schema_specs if output is not None else ()
    described = [function_schema(spec.name, spec.description, spec.json_schema) for spec in specs]
    return schemas + described
