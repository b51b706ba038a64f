"""Memory for the agents of an ADK app, as a plugin.

ADK builds the contents of every request from the events of its session. The plugin makes the log of a conversation hold
these contents, and sends the session's context instead. ADK's session keeps every event.

Each agent of a session has a conversation of its own, because ADK shows an agent the words of the others as context of
the user. ADK inserts contents that are not of the session (instructions of tools, preloaded memories) at the newest
turn of a request: they are sent and counted, and not stored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from turnfold import wire
from turnfold._caches import SizedCache
from turnfold.adapters._common import HistoryView, ThreadBridge, function_schema, session_of
from turnfold.memory import (
    RECALL_CONTEXT,
    AsyncMemory,
    AsyncSession,
    Memory,
    RecallTool,
    Session,
    recall_parameters,
)
from turnfold.records import Message, Usage
from turnfold.stores import short_name
from turnfold.wire import RESTORE_FAULTS, JsonObject, list_of, unreadable_form, writable

__all__ = ("TurnfoldPlugin", "adk_contents", "record_of")


_MOST = 256
"""Most conversations whose state is cached; the least recently used one is dropped first."""
_FENCE: Final = "For context:"
"""First part of an ADK content (message) in which ADK repeats to an agent what another agent said."""


def record_of(content: types.Content) -> Message:
    """Convert a content (ADK's message) to a record (turnfold's stored form); `adk_contents` restores it."""
    return _record_of_fields(_fields_of(content))


def adk_contents(records: Iterable[Message]) -> list[types.Content]:
    """Convert records (stored messages) to ADK contents: the originals, or contents with the same parts."""
    written = wire.gemini.request(list(records), repair=False).kwargs.get("contents")
    try:
        return [
            types.Content.model_validate_json(json.dumps(one)) for one in list_of(written) or []
        ]
    except RESTORE_FAULTS as error:
        raise unreadable_form("Google ADK", error) from None


def _fields_of(content: types.Content) -> JsonObject:
    """Return a copy of a content (ADK's message) as JSON values, with bytes as base64 text."""
    dumped = content.model_dump(mode="json", by_alias=True, exclude_none=True)
    return cast("JsonObject", writable(dumped))


def _record_of_fields(fields: JsonObject) -> Message:
    return wire.gemini.accept(fields)


@dataclass(slots=True)
class _AgentView:
    """State of one agent's conversation: its history view, last history and last response."""

    view: HistoryView
    history: list[JsonObject] = field(default_factory=list[JsonObject])
    response: JsonObject | None = None
    call: str = ""

    async def store_response(self) -> None:
        """Store the model's last response in the log, if it is not stored yet."""
        if self.response is not None:
            self.history, self.response = [*self.history, self.response], None
            await self.view.store(self.history)


class TurnfoldPlugin(BasePlugin):
    """Stores the contents of all agents of an app, and sends the session's context to their models.

    With a memory, the conversation of a session is `user/app/session`, so that `memory.erase_user(user)` finds it; with
    a turnfold session, it is the conversation of that session. Agents other than the root have `/agent` behind it. With
    `recall`, folded (compacted) content that matches the user's words is shown again, and models get the tool
    `recall_context`, whose answers have at most `recall_tokens`.
    """

    def __init__(
        self,
        memory: AsyncMemory | Memory | AsyncSession | Session,
        *,
        name: str = "turnfold",
        recall: bool = True,
        recall_tokens: int = 2000,
    ) -> None:
        super().__init__(name)
        recall_parameters(max_tokens=recall_tokens)
        self._memory = memory
        self._recall = recall
        self.recall_tokens = recall_tokens
        self._bridge = ThreadBridge(memory, own_loops="Runner.run")
        self._views: SizedCache[str, _AgentView] = SizedCache(limit=_MOST)
        self._running: SizedCache[str, dict[str, _AgentView]] = SizedCache(limit=_MOST)
        """Views of the agents of each invocation, by the id of the invocation; abandoned ones are evicted."""
        self._roots: SizedCache[str, str] = SizedCache(limit=_MOST)
        """Name of the root agent of each invocation, by the id of the invocation."""

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Remember which agent is the root of this invocation: its conversation has no agent name in its id."""
        invocation = invocation_context.invocation_id
        self._roots.put(invocation, invocation_context.agent.root_agent.name)
        self._running.put(invocation, {})

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Store the contents of a model request in the log, and replace them by the session's context."""
        own = self._view(callback_context)
        if self._recall and _takes_functions(llm_request):
            llm_request.append_tools([_RecallContext(self)])
        history, inserted, leading = _split(llm_request, callback_context)
        system = _system_text(llm_request)
        own.history = [_fields_of(content) for content in history]
        own.response = None
        fitted = await self._bridge(
            own.view.fit(
                own.history,
                system=[system] if system else [],
                tools=_schemas(llm_request),
                added=[record_of(content) for content in (*leading, *inserted)],
                model=llm_request.model or "",
            )
        )
        own.call = fitted.call
        shown = adk_contents(fitted.messages)
        at = len(shown) - 1 if shown and not _answers(shown[-1]) else len(shown)
        llm_request.contents = [*leading, *shown[:at], *inserted, *shown[at:]]
        if fitted.system != ([system] if system else []):
            llm_request.config.system_instruction = "\n\n".join(fitted.system)

    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> None:
        """Keep a model's response in memory, to store it before its tools run, and record its token usage."""
        if llm_response.partial:
            return
        own = self._view(callback_context)
        if llm_response.content is not None and llm_response.content.parts:
            own.response = _fields_of(llm_response.content)
        usage = llm_response.usage_metadata
        if usage is not None and usage.prompt_token_count:
            reported = Usage(
                input=usage.prompt_token_count,
                output=usage.candidates_token_count or 0,
                cached=usage.cached_content_token_count or 0,
            )
            await self._bridge(own.view.record_usage(reported, call=own.call))

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> None:
        """Store the model's response that calls this tool, before the tool runs."""
        del tool, tool_args
        await self._bridge(self._view(tool_context).store_response())

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Store the last response of each agent of the run, and drop the cached state of the run."""
        invocation = invocation_context.invocation_id
        for own in (self._running.get(invocation) or {}).values():
            await self._bridge(own.store_response())
        self._roots.drop(invocation)
        self._running.drop(invocation)

    async def recall(self, context: ToolContext, arguments: Mapping[str, object]) -> str:
        """Return the result of the tool `recall_context` for the agent that calls it."""
        session = self._view(context).view.session
        tool = RecallTool(session, max_tokens=self.recall_tokens)
        return await self._bridge(tool.call(arguments))

    def _view(self, context: CallbackContext | ToolContext) -> _AgentView:
        conversation = self._conversation(context)
        known = self._views.get(conversation.id)
        if known is None:
            view = HistoryView(
                conversation, _record_of_fields, adapter=type(self).__name__, recall=self._recall
            )
            known = _AgentView(view)
            self._views.put(conversation.id, known)
        views = self._running.get(context.invocation_id)
        if views is not None:
            views[conversation.id] = known
        return known

    def _conversation(self, context: CallbackContext | ToolContext) -> AsyncSession:
        root = self._roots.get(context.invocation_id) or context.agent_name
        agent = "" if context.agent_name == root else f"/{context.agent_name}"
        if isinstance(self._memory, AsyncSession | Session):
            base = session_of(self._memory)
            return AsyncSession(short_name(f"{base.id}{agent}"), base.config) if agent else base
        theirs = context.session
        place = f"{theirs.user_id}/{theirs.app_name}/{theirs.id}{agent}"
        return session_of(self._memory, short_name(place))


class _RecallContext(BaseTool):
    """The tool `recall_context`: searches the conversation of the agent that calls it."""

    def __init__(self, plugin: TurnfoldPlugin) -> None:
        super().__init__(name=RECALL_CONTEXT, description=RecallTool.description)
        self._plugin = plugin

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=recall_parameters(max_tokens=self._plugin.recall_tokens),
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> object:
        """Return earlier content that matches the arguments of the tool call, as text."""
        return {"result": await self._plugin.recall(tool_context, args)}


def _split(
    request: LlmRequest, context: CallbackContext
) -> tuple[list[types.Content], list[types.Content], list[types.Content]]:
    """Split a request: the session's contents, those that ADK inserted at the newest turn, and those it put first."""
    said = [event.content for event in context.session.events if event.content is not None]
    if context.user_content is not None:
        said.append(context.user_content)
    known = [_fields_of(one) for one in said if one.role != "model" and not _answers(one)]
    history: list[types.Content] = []
    inserted: list[types.Content] = []
    leading: list[types.Content] = []
    for content in request.contents:
        if _is_of_session(content, known):
            history.append(content)
        elif history:
            inserted.append(content)
        else:
            leading.append(content)
    if not any(content.role == "model" for content in request.contents):
        inserted, leading = [*leading, *inserted], []  # the newest turn is the first
    return history, inserted, leading


def _is_of_session(content: types.Content, known: Sequence[JsonObject]) -> bool:
    """Return True if a content is part of the session: it is from a model, a tool, the user or another agent."""
    if content.role != "user" or _answers(content) or not content.parts:
        return True
    return content.parts[0].text == _FENCE or _fields_of(content) in known


def _answers(content: types.Content) -> bool:
    return any(part.function_response is not None for part in content.parts or ())


def _takes_functions(request: LlmRequest) -> bool:
    """Return True if a function tool may be added to a request: it has no built-in tools and no answer schema."""
    config = request.config
    if config.response_schema is not None or config.response_json_schema is not None:
        return False
    return all(_declarations(tool) for tool in config.tools or ())


def _declarations(tool: object) -> list[types.FunctionDeclaration]:
    return (tool.function_declarations or []) if isinstance(tool, types.Tool) else []


def _schemas(request: LlmRequest) -> list[dict[str, object]]:
    """Return the tools and the schema of the answer in the form of OpenAI's Chat API, to count their tokens."""
    config = request.config
    found: list[dict[str, object]] = []
    for tool in config.tools or ():
        for one in _declarations(tool):
            schema: object = one.parameters_json_schema
            if one.parameters is not None:
                schema = one.parameters.model_dump(mode="json", exclude_none=True)
            parameters = cast("Mapping[str, object]", schema or {})
            found.append(function_schema(one.name or "", one.description or "", parameters))
    schema = config.response_json_schema or config.response_schema
    if schema is not None:
        dump = getattr(schema, "model_json_schema", None)
        found.append(function_schema("answer", "", {"schema": dump() if dump else str(schema)}))
    return found


def _system_text(request: LlmRequest) -> str:
    given = request.config.system_instruction
    if given is None or isinstance(given, str):
        return (given or "").strip() and str(given)
    [record] = wire.gemini.accept_all({"contents": [], "config": {"system_instruction": given}})
    return record.text
