"""Replaces the messages of a model request by the session's context, in the versions that the graph's state has.

The state keeps everything; only the request is changed. Messages of the state are sent as the same objects, unless they
had to be shortened. The system messages become the session's system message, so that they are counted and shortened
with everything else.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from typing import Any, cast

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
    count_for,
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
from turnfold.adapters.langchain.state_log import GraphRunLog
from turnfold.memory import AsyncSession
from turnfold.records import TextPart
from turnfold.window import Context, Section
from turnfold.wire import writable

__all__ = (
    "GraphView",
    "history_of",
)


@dataclass(slots=True)
class GraphView:
    """Replaces the messages in the model requests of one conversation by the session's context."""

    session: AsyncSession
    log: GraphRunLog
    recall: bool
    """True to show folded content again if it matches the user's words."""

    async def shape(self, request: ModelRequest[Any]) -> tuple[ModelRequest[Any], str]:
        """Return a model request with the session's context instead of the state's messages, and the id of the call."""
        state = cast("list[BaseMessage]", request.state.get("messages", []))
        added = added_messages(
            state,
            request.messages,
            other="other middleware",
            remedy="let it change the state in before_model, or put it behind turnfold's middleware",
        )
        state, added = _with_answers(state, request.messages, added)
        history = history_of(state)
        leading = cast("list[SystemMessage]", state[: len(state) - len(history)])
        system = [request.system_message] if request.system_message is not None else []
        system_messages = [*system, *leading]
        texts = [text for message in system_messages for text in _texts(message)]
        await count_for(self.session, request.model)
        await set_system(self.session, texts)
        seqs = await self.log.catch_up(history)
        context, body = await self._context(
            request, dict(zip(seqs, history, strict=True)), added, texts
        )
        fitted = _fitted_system(system_messages, texts, context)
        shown = cast("list[AnyMessage]", [*fitted[len(system) :], *body, *added])
        leader = fitted[0] if system else None
        if not system_messages and context.section(Section.SYSTEM):
            own = "\n\n".join(message.text for message in context.section(Section.SYSTEM))
            leader = SystemMessage(own)
        return request.override(messages=shown, system_message=leader), self.session.last_call

    async def _context(
        self,
        request: ModelRequest[Any],
        state: dict[int, BaseMessage],
        added: Sequence[BaseMessage],
        texts: Sequence[str],
    ) -> tuple[Context, list[BaseMessage]]:
        """Build the context of a call; return it, and its messages after the system message.

        `state` has the messages of the graph's state by seq.
        """
        history = list(state.values())
        query = _newest_user_text(history) if self.recall else None
        tools = tool_schemas(request)
        room = remaining_tokens(self.session, added, self._cost, other="other middleware")
        for tries_left in (1, 0):
            context = await context_with_system(
                self.session, texts, query, tools=tools, max_tokens=room
            )
            if not state or max(state) in context.positions:
                break
            if not tries_left:
                raise lost_from_window("the newest message of this run is", self.session.id)
            # Another run changed the visible history, or moved the window forward.
            seqs = await self.log.catch_up(history, again=True)
            state = dict(zip(seqs, history, strict=True))
        return context, self._messages(context, state)

    def _cost(self, message: BaseMessage) -> int:
        return self.session.counter.count_message(self.log.record(message))

    def _messages(self, context: Context, state: Mapping[int, BaseMessage]) -> list[BaseMessage]:
        """Return a context's messages without those of other runs.

        Messages of the state are returned as the same objects.
        """
        begun = min(state, default=sys.maxsize)
        _, begin, end, newest = context.ends
        seqs = iter(context.positions)
        shown: list[BaseMessage] = []
        hidden_calls: set[str] = set()
        for at in range(context.ends[0], len(context.messages)):
            record = context.messages[at]
            seq = next(seqs) if begin <= at < end or at >= newest else 0
            calls = {call.id for call in record.calls}
            if seq > begun and seq not in state and origin_of(record) is not None:
                hidden_calls |= calls
                continue
            if seq < 0 and {result.call_id for result in record.results} <= hidden_calls:
                continue  # a placeholder for the missing result of a hidden call
            hidden_calls -= calls
            whole = record.origin is not None and bool(record.origin.form)
            message = state.get(seq) if whole else None
            shown += [self.log.shown(message)] if message is not None else messages_of(record)
        return shown


def _with_answers(
    state: list[BaseMessage], request: Sequence[BaseMessage], added: list[BaseMessage]
) -> tuple[list[BaseMessage], list[BaseMessage]]:
    """Return the state with the answers to its calls inserted after them, and the other messages of `added`.

    LangChain answers a malformed call in the request, and adds the answer to the state afterwards.
    """
    calls = {
        call["id"]
        for message in state
        if isinstance(message, AIMessage)
        for call in (*message.tool_calls, *message.invalid_tool_calls)
    }
    answers = [one for one in added if isinstance(one, ToolMessage) and one.tool_call_id in calls]
    if not answers:
        return state, added
    others = {id(one) for one in added} - {id(one) for one in answers}
    return (
        [one for one in request if id(one) not in others],
        [one for one in added if id(one) in others],
    )


def history_of(state: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages of a state without the system messages at its beginning, which are not part of a turn."""
    return list(dropwhile(lambda one: isinstance(one, SystemMessage), state))


def _texts(message: BaseMessage) -> list[str]:
    parts, _ = parts_of(cast("Content", writable(message.content)))
    return [part.text for part in parts if isinstance(part, TextPart) and part.text.strip()]


def _fitted_system(
    system_messages: Sequence[SystemMessage], texts: Sequence[str], context: Context
) -> list[SystemMessage]:
    """Return the system messages; if the context had to shorten their texts, with the shortened texts."""
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
