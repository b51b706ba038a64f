"""What a model is shown of a conversation: the session's context, in LangChain's messages.

The state keeps everything; only the request is shaped. What the state shows is shown as the state has it, the very
objects, unless it had to be shortened. The system messages are the session's system message, so that they are counted
and shortened with everything else. What a thread has left behind (it went back in time, or a message was removed or
changed) stays in the log and is not shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile
from typing import Any, NamedTuple, cast

from langchain.agents.middleware.types import ModelRequest
from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from turnfold.adapters.langchain.content import Content, JsonObject, parts_of
from turnfold.adapters.langchain.placing import Placed
from turnfold.adapters.langchain.restoring import messages_of, own_of
from turnfold.adapters.langchain.run_log import RunLog
from turnfold.errors import Conflict, InvalidOption
from turnfold.memory import AsyncSession
from turnfold.memory.one_place import added_to
from turnfold.memory.told_context import told_context
from turnfold.records import TextPart
from turnfold.window import Context, Section
from turnfold.wire.unwritable import writable

__all__ = ("View", "history_of", "tool_schemas")


class _Body(NamedTuple):
    """What is shown of a context."""

    messages: list[BaseMessage]
    grown: int
    """Tokens more than the context has, because the state has other versions of it."""
    left: set[str]
    """Names of what the context has and the state has left behind."""
    lost: bool
    """Whether the newest question of the state is behind the window, which shows one that was left instead."""


@dataclass(slots=True)
class View:
    """Shapes the requests of one conversation."""

    session: AsyncSession
    log: RunLog
    recall: bool
    """Whether what was folded and matches the user's words is brought back."""

    async def shape(self, request: ModelRequest[Any]) -> tuple[ModelRequest[Any], str]:
        """The request with the session's context instead of the state's messages, and the name of the call."""
        state = cast("list[BaseMessage]", request.state.get("messages", []))
        history = history_of(state)
        leading = cast("list[SystemMessage]", state[: len(state) - len(history)])
        system = [request.system_message] if request.system_message is not None else []
        told = [*system, *leading]
        texts = [text for message in told for text in _texts(message)]
        if texts:
            await self.session.system([{"type": "text", "text": text} for text in texts])
        await self.log.catch_up(history)
        await self.log.find_left(history)
        added = added_to(
            state,
            request.messages,
            other="other middleware",
            remedy="let it change the state in before_model, or put it behind turnfold's middleware",
        )
        room = self._room_beside(added)
        context, body = await self._fitting_turn(request, history, texts, room=room)
        await self.log.note_left(body.left, history)
        told_now = _as_told(told, texts, context)
        shown = cast("list[AnyMessage]", [*told_now[len(system) :], *body.messages, *added])
        if not told and context.section(Section.SYSTEM):
            begun = "\n\n".join(message.text for message in context.section(Section.SYSTEM))
            shaped = request.override(messages=shown, system_message=SystemMessage(begun))
        else:
            kept = told_now[0] if system else None
            shaped = request.override(messages=shown, system_message=kept)
        return shaped, self.session.last_call

    async def _fitting_turn(
        self,
        request: ModelRequest[Any],
        history: Sequence[BaseMessage],
        told: Sequence[str],
        *,
        room: int,
    ) -> tuple[Context, _Body]:
        """The context, and what is shown of it, with the newest turn of the state."""
        try:
            context, body = await self._fitting(request, history, told, room=room)
        except Conflict:
            pass
        else:
            if not body.lost:
                return context, body
        # The log has moved on from where this thread is, because it went back in time, or by another run.
        await self.log.say_again(history)
        return await self._fitting(request, history, told, room=room)

    async def _fitting(
        self,
        request: ModelRequest[Any],
        history: Sequence[BaseMessage],
        told: Sequence[str],
        *,
        room: int,
    ) -> tuple[Context, _Body]:
        """The context, and what is shown of it; made again with less where changed messages outgrew theirs."""
        query = _newest_words(history) if self.recall else None
        tools = tool_schemas(request)
        limit = room or self.session.budget.tokens
        context = await told_context(self.session, told, query, tools=tools, max_tokens=room)
        body = self._messages(context, history)
        grown = body.grown
        if context.tokens + grown > limit:
            if grown >= limit:
                raise InvalidOption(
                    f"messages that were changed in the state grew by {grown:,} tokens; a request may have {limit:,}"
                )
            less = limit - grown
            context = await told_context(self.session, told, query, tools=tools, max_tokens=less)
            body = self._messages(context, history)
        return context, body

    def _room_beside(self, added: Sequence[BaseMessage]) -> int:
        """Tokens left beside the messages that other middleware adds to this request; 0 for all of them."""
        if not added:
            return 0
        cost = sum(self._cost(message) for message in added)
        allowed = self.session.budget.tokens
        if cost >= allowed:
            raise InvalidOption(
                f"other middleware adds {len(added)} messages, {cost:,} tokens, to a request that may have {allowed:,}"
            )
        return allowed - cost

    def _cost(self, message: BaseMessage) -> int:
        return self.session.counter.count_message(self.log.record(message))

    def _messages(self, context: Context, history: Sequence[BaseMessage]) -> _Body:
        """What is shown of a context."""
        placed = Placed.of(context, history, self.log)
        if history and history[-1] not in placed:
            raise Conflict(
                f"the newest message of this run is no longer in the window of {self.session.id!r}: another run moved "
                "on meanwhile. Give each run a conversation of its own, or a larger budget"
            )
        shown: list[BaseMessage] = []
        grown = 0
        for at in range(context.ends[0], len(context.messages)):
            record, current = context.messages[at], placed.current.get(at)
            if at in placed.hidden:
                continue
            if at in placed.moved:
                newer = placed.moved[at]
                shown += messages_of(context.messages[newer])
                grown += context.costs[newer] - context.costs[at]
                continue
            own = own_of(record)
            if own is None or current is None:
                shown += messages_of(record)
            elif own.name == self.log.name(current):
                as_it_is = record.origin is not None and bool(record.origin.form)
                shown += [self.log.shown(current)] if as_it_is else messages_of(record)
            else:
                shown.append(self.log.shown(current))
                grown += self._cost(current) - context.costs[at]
        return _Body(shown, grown, placed.left, lost=placed.has_lost_question(context, history))


def history_of(state: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages of a state behind the system messages it begins with, which belong to no turn.

    Messages without an id are told apart by identity from here on: one that a program put there twice is two.
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


def _as_told(
    told: Sequence[SystemMessage], texts: Sequence[str], context: Context
) -> list[SystemMessage]:
    """The system messages as they fit: as they are, or with the shortened texts."""
    parts = [part for message in context.section(Section.SYSTEM) for part in message.parts]
    fitting = [part.text for part in parts if isinstance(part, TextPart)]
    if fitting == list(texts) or len(fitting) != len(texts):
        return list(told)
    left = iter(fitting)
    return [
        SystemMessage("\n\n".join([next(left) for _ in _texts(message)]), id=message.id)
        for message in told
    ]


def _newest_words(history: Sequence[BaseMessage]) -> str | None:
    asked = next((one for one in reversed(history) if isinstance(one, HumanMessage)), None)
    return "\n".join(_texts(asked)) or None if asked is not None else None


def tool_schemas(request: ModelRequest[Any]) -> list[JsonObject]:
    """The tools of a request as OpenAI's Chat interface writes them, to be counted; the form of its answer too."""
    schemas = [
        tool if isinstance(tool, dict) else convert_to_openai_tool(tool) for tool in request.tools
    ]
    wanted = cast("object", request.response_format)
    if isinstance(wanted, ProviderStrategy | AutoStrategy):
        wanted = cast("object", wanted.schema)  # pyright: ignore[reportUnknownMemberType]
    if wanted is not None and not isinstance(wanted, ToolStrategy):
        wanted = ToolStrategy(cast("type[object]", wanted))
    for spec in wanted.schema_specs if wanted is not None else ():
        described = {
            "name": spec.name,
            "description": spec.description,
            "parameters": spec.json_schema,
        }
        schemas.append({"type": "function", "function": described})
    return schemas
