"""Memory for a LangChain agent in one line, as a middleware.

It changes only the request to the model; the graph's state keeps every message. Messages are in the log before a model
is called and before a tool runs. A model's answer is stored before its tools run or when the run ends, not when it
arrives, because other middleware (a human who edits a call, a filter) may change it until then.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import dropwhile
from typing import Any, cast

from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelCallResult,
    ModelRequest,
    ModelResponse,
    ToolCallRequest,
)
from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages import ToolCall as LangChainCall
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.types import Command

from turnfold._caches import SizedCache
from turnfold.adapters._common import (
    HookRunner,
    NumberedMessage,
    added_messages,
    calling_session,
    context_with_system,
    count_for,
    function_schema,
    lost_from_window,
    nested_session,
    numbered_messages,
    record_usage,
    refuse_redaction,
    remaining_tokens,
    running_tool,
    set_system,
    system_texts,
    without_others,
)
from turnfold.adapters.langchain.messages import (
    Content,
    JsonObject,
    call_of,
    messages_of,
    origin_of,
    parts_of,
    record_and_shown,
)
from turnfold.adapters.langchain.state_log import GraphRunLog
from turnfold.errors import InvalidOption
from turnfold.findings import FindingRule, RuleSource, as_finding_rules, rule_for, served_text
from turnfold.memory import (
    RECALL_CONTEXT,
    AsyncMemory,
    AsyncSession,
    Memory,
    RecallTool,
    Session,
    recall_parameters,
)
from turnfold.records import TextPart, ToolCall, Usage
from turnfold.window import Context, Section
from turnfold.wire import writable

__all__ = (
    "ConversationState",
    "GraphView",
    "ToolRequest",
    "TurnfoldMiddleware",
    "history_of",
    "turnfold_middleware",
)


@dataclass(slots=True)
class GraphView:
    """Replaces the messages in the model requests of one conversation by the session's context."""

    session: AsyncSession
    log: GraphRunLog
    recall: bool
    """True to show folded (compacted) content again if it matches the user's words."""

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
        async with self.session.system_lock:
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
                raise lost_from_window("the newest message of this run", self.session.id)
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

        def is_other(one: NumberedMessage) -> bool:
            added = one.seq > begun and one.seq not in state
            return added and origin_of(one.message) is not None

        shown: list[BaseMessage] = []
        for seq, record in without_others(numbered_messages(context), is_other):
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


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A tool call, and the newest seq of the log when it was made."""

    call: ToolCall
    seq: int = 0
    """Seq (log position) of the newest entry before the call; 0 if the result of the call cannot become a finding
    (remembered result)."""
    served: ToolMessage | None = None
    """The remembered result as a message, if the call is answered from memory."""


class ConversationState:
    """One conversation's part of a run: stores its messages, fits its model requests, remembers tool results."""

    def __init__(
        self, session: AsyncSession, *, recall: bool, findings: Sequence[FindingRule]
    ) -> None:
        self._session = session
        self._log = GraphRunLog(session)
        self._view = GraphView(session, self._log, recall)
        self._has_rules = bool(findings)
        if findings:
            session.findings.use(findings)
        self._pending: list[tuple[ToolRequest, str]] = []
        """Findings (remembered tool results) whose results are not in the log yet; they are stored once the results
        have a seq (log position)."""

    async def shape(self, request: ModelRequest[Any]) -> tuple[ModelRequest[Any], str]:
        """Return a model request with the session's context as its messages, and the id of the call."""
        shaped = await self._view.shape(request)
        if self._pending:
            await self._note_findings(_messages(request.state))
        return shaped

    async def record_usage(self, answers: Sequence[AIMessage], call: str) -> None:
        """Record the tokens that the provider counted for a call."""
        for answer in answers:
            if (usage := answer.usage_metadata) is not None:
                cached = usage.get("input_token_details", {}).get("cache_read", 0)
                reported = Usage(
                    input=usage["input_tokens"], output=usage["output_tokens"], cached=cached
                )
                await record_usage(self._session, reported, call=call)

    async def before_tool(
        self, call: LangChainCall, messages: Sequence[BaseMessage]
    ) -> ToolRequest:
        """Store the messages up to a tool call, and look for a remembered result of the same call."""
        await self._log.catch_up(history_of(messages))
        named, exact = call_of(call)
        if not self._has_rules or not exact:
            return ToolRequest(named)
        findings = self._session.findings
        seq = (await self._session.status()).entries
        known = await findings.serve(named)
        if known is None:
            # Findings that the tool may change are marked stale before it runs and after, however it ends.
            await findings.ran(named.name)
            return ToolRequest(named, seq)
        answer = ToolMessage(served_text(known), tool_call_id=named.id, name=named.name)
        return ToolRequest(named, seq, answer)

    def running_tool(self, call: LangChainCall) -> AbstractContextManager[None]:
        """Mark the tool call as running, so that an agent inside the tool gets a conversation of its own."""
        return running_tool(self._session.id, call["id"] or call["name"])

    async def after_tool(self, call: LangChainCall) -> None:
        """Mark findings (remembered results) as stale that the tool may have changed."""
        if self._has_rules:
            await self._session.findings.ran(call["name"])

    def add_finding(self, tool_request: ToolRequest, result: object) -> None:
        """Keep a tool's result; it becomes a finding (remembered result) once its message is in the log."""
        if not self._has_rules or not tool_request.seq or not isinstance(result, ToolMessage):
            return
        if rule_for(self._session.findings.rules, tool_request.call.name) is not None:
            _, shown = record_and_shown(result)
            if shown.content is result.content:  # otherwise it was replaced by other text
                self._pending.append((tool_request, str(writable(str(shown.text)))))

    async def finish(self, messages: Sequence[BaseMessage]) -> None:
        """Store the last messages of a run in the log."""
        await self._log.catch_up(history_of(messages))
        await self._note_findings(messages)

    async def _note_findings(self, messages: Sequence[BaseMessage]) -> None:
        if not self._pending:
            return
        history = history_of(messages)
        seqs = await self._log.catch_up(history)
        shown = {
            message.tool_call_id: seq
            for message, seq in zip(history, seqs, strict=True)
            if isinstance(message, ToolMessage)
        }
        while self._pending:
            tool_request, text = self._pending.pop(0)
            seq = shown.get(tool_request.call.id, 0)
            await self._session.findings.note(
                tool_request.call, text, seq=seq, asked=tool_request.seq
            )


_MOST_CONVERSATIONS = 256
"""Most conversations whose state is cached; the least recently used one is dropped first."""
_State = AgentState[Any]
_ToolAnswer = ToolMessage | Command[Any]


def turnfold_middleware(
    memory: AsyncMemory | Memory | AsyncSession | Session,
    *,
    recall: bool = True,
    recall_tokens: int = 2000,
    findings: RuleSource | Sequence[FindingRule] = (),
) -> TurnfoldMiddleware:
    """Return the middleware for `create_agent(model, tools, middleware=[turnfold_middleware(memory)])`.

    With a session, all runs use its conversation; with a memory, each run uses the conversation named by the
    `thread_id` of its config. With `recall`, folded (compacted) content that matches the user's words is shown again,
    and the model gets the tool `recall_context`, whose answers have at most `recall_tokens`. `findings` are the rules
    by which tool results are remembered, or an `AgentMemory`.

    A `Memory` or `Session` works with `invoke` and `ainvoke`, an `AsyncMemory` or `AsyncSession` only with `ainvoke`.
    """
    return TurnfoldMiddleware(memory, recall=recall, recall_tokens=recall_tokens, findings=findings)


class TurnfoldMiddleware(AgentMiddleware[_State, Any, Any]):
    """Stores a run's messages in a session's log, and sends the session's context to its model."""

    def __init__(
        self,
        memory: AsyncMemory | Memory | AsyncSession | Session,
        *,
        recall: bool = True,
        recall_tokens: int = 2000,
        findings: RuleSource | Sequence[FindingRule] = (),
    ) -> None:
        super().__init__()
        blocking = isinstance(memory, Memory | Session)
        self._runner = HookRunner(blocking=blocking, owner="turnfold_middleware")
        self._memory = memory.awaiting if isinstance(memory, Memory | Session) else memory
        refuse_redaction(self._memory, adapter="turnfold_middleware")
        self._recall = recall
        self._recall_tokens = recall_tokens
        self._findings = as_finding_rules(findings)
        self._conversations: SizedCache[str, ConversationState] = SizedCache(
            limit=_MOST_CONVERSATIONS
        )
        parameters = recall_parameters(max_tokens=recall_tokens)
        self.tools: Sequence[BaseTool] = (self._recall_tool(parameters),) if recall else ()

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelCallResult[Any]:
        """Store new messages, call the model with the session's context, and record the usage."""
        conversation = self._conversation()
        shaped, call = self._runner.block_on(conversation.shape(request))
        response = handler(shaped)
        self._runner.block_on(conversation.record_usage(_answers(response), call))
        return response

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelCallResult[Any]:
        """Store new messages, call the model with the session's context, and record the usage."""
        conversation = self._conversation()
        shaped, call = await self._runner.run(conversation.shape(request))
        response = await handler(shaped)
        await self._runner.run(conversation.record_usage(_answers(response), call))
        return response

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], _ToolAnswer]
    ) -> _ToolAnswer:
        """Store the call; then run the tool, or return its remembered result if the tool's finding rule allows it."""
        conversation = self._conversation()
        tool_request = self._runner.block_on(
            conversation.before_tool(request.tool_call, _messages(request.state))
        )
        if tool_request.served is not None:
            return tool_request.served
        try:
            with conversation.running_tool(request.tool_call):
                result = handler(request)
        finally:
            self._runner.block_on(conversation.after_tool(request.tool_call))
        conversation.add_finding(tool_request, result)
        return result

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[_ToolAnswer]]
    ) -> _ToolAnswer:
        """Store the call; then run the tool, or return its remembered result if the tool's finding rule allows it."""
        conversation = self._conversation()
        tool_request = await self._runner.run(
            conversation.before_tool(request.tool_call, _messages(request.state))
        )
        if tool_request.served is not None:
            return tool_request.served
        try:
            with conversation.running_tool(request.tool_call):
                result = await handler(request)
        finally:
            await self._runner.run(conversation.after_tool(request.tool_call))
        conversation.add_finding(tool_request, result)
        return result

    def after_agent(self, state: _State, runtime: Runtime[Any]) -> None:
        """Store the last messages of the run in the log."""
        del runtime
        self._runner.block_on(self._conversation().finish(_messages(state)))

    async def aafter_agent(self, state: _State, runtime: Runtime[Any]) -> None:
        """Store the last messages of the run in the log."""
        del runtime
        await self._runner.run(self._conversation().finish(_messages(state)))

    def _conversation(self) -> ConversationState:
        session = self._session()
        known = self._conversations.get(session.id)
        if known is None:
            known = ConversationState(session, recall=self._recall, findings=self._findings)
            self._conversations.put(session.id, known)
        return known

    def _session(self) -> AsyncSession:
        return nested_session(self._base_session())

    def _base_session(self) -> AsyncSession:
        if isinstance(self._memory, AsyncSession):
            return self._memory
        try:
            thread = get_config().get("configurable", {}).get("thread_id")
        except RuntimeError:  # outside a run
            thread = None
        if thread is None:
            raise InvalidOption(
                "the run has no thread_id: call invoke(..., {'configurable': {'thread_id': ...}}), or give the "
                "middleware a session"
            )
        return self._memory.session(str(thread))

    def _recall_tool(self, parameters: dict[str, object]) -> BaseTool:
        def recall_blocking(**arguments: object) -> str:
            tool = RecallTool(calling_session(self._base_session()), max_tokens=self._recall_tokens)
            return self._runner.block_on(tool.call(arguments))

        async def recall_awaiting(**arguments: object) -> str:
            tool = RecallTool(calling_session(self._base_session()), max_tokens=self._recall_tokens)
            return await self._runner.run(tool.call(arguments))

        return StructuredTool(
            name=RECALL_CONTEXT,
            description=RecallTool.description,
            args_schema=parameters,
            func=recall_blocking,
            coroutine=recall_awaiting,
        )


def _messages(state: object) -> list[BaseMessage]:
    """Return the messages of a graph's state; a tool may get a list of messages instead of a state."""
    found: object = state
    if isinstance(state, Mapping):
        found = cast("Mapping[str, object]", state).get("messages")
    return cast("list[BaseMessage]", found) if isinstance(found, list) else []


def _answers(response: ModelCallResult[Any]) -> list[AIMessage]:
    if isinstance(response, AIMessage):
        return [response]
    inner = response.model_response if isinstance(response, ExtendedModelResponse) else response
    return [message for message in inner.result if isinstance(message, AIMessage)]
