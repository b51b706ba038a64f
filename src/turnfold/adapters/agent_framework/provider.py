"""Memory for an agent of Microsoft Agent Framework, as its history provider.

The framework's own providers load the history once, before a run, and a long tool loop outgrows it. This one adds a
chat middleware to each run: it is called for every request to the model, stores new messages, and sends the session's
context instead of the messages. Each response is stored before its tools run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from agent_framework import (
    AgentSession,
    ChatContext,
    ChatMiddleware,
    ChatResponse,
    FunctionTool,
    HistoryProvider,
    ResponseStream,
    SessionContext,
    SupportsAgentRun,
)
from agent_framework import Message as FrameworkMessage

from turnfold.adapters._common import (
    HistoryView,
    ThreadBridge,
    VisibleHistory,
    function_schema,
    session_of,
)
from turnfold.adapters.agent_framework.messages import (
    fields_of,
    framework_message,
    framework_messages,
    record_of,
    record_of_fields,
)
from turnfold.errors import InvalidOption
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
from turnfold.wire import JsonObject, object_of

__all__ = ("TurnfoldHistoryProvider", "TurnfoldRequests")


_SYSTEM = ("system", "developer")


class TurnfoldHistoryProvider(HistoryProvider):
    """A memory as the history of an agent: `Agent(client, context_providers=[TurnfoldHistoryProvider(memory)])`.

    With a memory, the conversation of a run has the id of its `AgentSession`; with a turnfold session, all runs use
    that one. With `recall`, folded (compacted) content that matches the user's words is shown again, and the model gets
    the tool `recall_context`, whose answers have at most `recall_tokens`.
    """

    def __init__(
        self,
        memory: AsyncMemory | Memory | AsyncSession | Session,
        *,
        source_id: str = "turnfold",
        recall: bool = True,
        recall_tokens: int = 2000,
    ) -> None:
        super().__init__(source_id)
        recall_parameters(max_tokens=recall_tokens)
        self._memory = memory
        self._recall = recall
        self._recall_tokens = recall_tokens
        self._bridge = ThreadBridge(memory)

    async def before_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Add to a run the middleware that fits its requests to the budget, and the tool `recall_context`."""
        del session, state
        if getattr(agent, "require_per_service_call_history_persistence", False):
            raise InvalidOption(
                "turnfold stores every model call by itself: leave out require_per_service_call_history_persistence"
            )
        own = self._session(context.session_id)
        view = HistoryView(own, record_of_fields, adapter=type(self).__name__, recall=self._recall)
        context.extend_middleware(
            self.source_id, TurnfoldRequests(view, self._bridge, self.source_id)
        )
        if self._recall:
            context.extend_tools(self.source_id, [self._recall_tool(own)])

    async def after_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Do nothing: every message was stored when it was sent or received."""

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: object
    ) -> list[FrameworkMessage]:
        """Return every message of a session in the framework's form, including those already folded (compacted)."""
        del state, kwargs
        visible = VisibleHistory(self._session(session_id))
        shown = await self._bridge(visible.entries())
        records = [one.entry.message for one in shown]
        return framework_messages(record for record in records if record.role != "system")

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[FrameworkMessage],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: object,
    ) -> None:
        """Append messages to the log, all of them or none, and wait until they are stored."""
        del state, kwargs
        records = [record_of(message) for message in messages]
        if records:
            await self._bridge(self._session(session_id).add(records))

    def _session(self, session_id: str | None) -> AsyncSession:
        if isinstance(self._memory, AsyncSession | Session):
            return session_of(self._memory)
        return session_of(self._memory, session_id or "")

    def _recall_tool(self, session: AsyncSession) -> FunctionTool:
        tool = RecallTool(session, max_tokens=self._recall_tokens)

        async def recall_context(**arguments: object) -> str:
            return await self._bridge(tool.call(arguments))

        return FunctionTool(
            name=RECALL_CONTEXT,
            description=tool.description,
            func=recall_context,
            input_model=tool.parameters,
        )


class TurnfoldRequests(ChatMiddleware):
    """Chat middleware of one run: replaces the messages of its model requests by the session's context."""

    def __init__(self, view: HistoryView, bridge: ThreadBridge, source_id: str) -> None:
        self._view = view
        self._bridge = bridge
        self._source_id = source_id
        self._history: list[JsonObject] = []
        self._call = ""

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Store a request's new messages, replace its conversation by the session's context, and store the response."""
        _refuse_service_history(context)
        messages = list(context.messages)
        leading = next(
            (at for at, one in enumerate(messages) if one.role not in _SYSTEM), len(messages)
        )
        added = [one for one in messages[leading:] if self._is_added(one)]
        own = [one for one in messages[leading:] if not self._is_added(one)]
        instructions = _instructions(context.options)
        texts = [text for text in (instructions, *(one.text for one in messages[:leading])) if text]
        self._history = [fields_of(message) for message in own]
        fitted = await self._bridge(
            self._view.fit(
                self._history,
                system=texts,
                tools=_schemas(context.options),
                added=[record_of(message) for message in added],
                model=(context.options or {}).get("model") or context.client,
            )
        )
        self._call = fitted.call
        originals = dict(zip(self._view.records, own, strict=True))
        shown = [originals.get(record) or framework_message(record) for record in fitted.messages]
        at = _newest_user(fitted.messages)
        system = messages[:leading]
        if fitted.system != texts:
            context.options = {
                **(context.options or {}),
                "instructions": "\n\n".join(fitted.system),
            }
            system = []
        context.messages = [*system, *shown[:at], *added, *shown[at:]]
        await call_next()
        result = context.result
        if isinstance(result, ResponseStream):
            context.result = result.with_result_hook(self._store_response)
        elif result is not None:
            await self._store_response(result)

    async def _store_response(self, response: ChatResponse) -> None:
        self._history = [*self._history, *(fields_of(message) for message in response.messages)]
        await self._bridge(self._view.store(self._history))
        used = cast("Mapping[str, int | None]", response.usage_details or {})
        reported = Usage(
            input=used.get("input_token_count") or 0,
            output=used.get("output_token_count") or 0,
            cached=used.get("cache_read_input_token_count") or 0,
        )
        await self._bridge(self._view.record_usage(reported, call=self._call))

    def _is_added(self, message: FrameworkMessage) -> bool:
        """Return True for a message that another context provider has added to the request."""
        source = object_of(message.additional_properties.get("_attribution")) or {}
        return source.get("source_id", self._source_id) != self._source_id


def _refuse_service_history(context: ChatContext) -> None:
    """Raise `InvalidOption` if the model's service stores the history itself and is sent only new messages."""
    options = context.options or {}
    stores = options.get("store")
    if stores is None:
        stores = getattr(context.client, "STORES_BY_DEFAULT", False)
    if stores or options.get("conversation_id"):
        raise InvalidOption(
            f"{type(context.client).__name__} keeps the history on its server, where no budget applies: give the agent "
            'default_options={"store": False} and no conversation_id'
        )


def _instructions(options: Mapping[str, Any] | None) -> str:
    given: object = (options or {}).get("instructions")
    if given is None or isinstance(given, str):
        return (given or "").strip() and str(given)
    raise InvalidOption(
        f"instructions are of type {type(given).__name__}, which turnfold cannot count: give text"
    )


def _newest_user(messages: Sequence[Message]) -> int:
    """Return the index of the newest user message; 0 if there is none."""
    found = (at for at in reversed(range(len(messages))) if messages[at].role == "user")
    return next(found, 0)


def _schemas(options: Mapping[str, Any] | None) -> list[dict[str, object]]:
    """Return the tools and the format of the answer in the form of OpenAI's Chat API, to count their tokens."""
    given: object = (options or {}).get("tools") or ()
    tools = cast("Sequence[object]", given if isinstance(given, list | tuple) else [given])
    found = [_schema(tool) for tool in tools]
    answer = (options or {}).get("response_format")
    if answer is not None:
        described = getattr(answer, "model_json_schema", None)
        schema: object = described() if described else answer
        found.append(function_schema("answer", "", {"schema": str(schema)}))
    return found


def _schema(tool: object) -> dict[str, object]:
    if isinstance(tool, FunctionTool):
        return cast("dict[str, object]", tool.to_json_schema_spec())
    return function_schema(type(tool).__name__, "", object_of(tool) or {})
