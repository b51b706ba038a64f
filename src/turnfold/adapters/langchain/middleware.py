"""Memory for a LangChain agent in one line, as a middleware.

It changes only the request to the model; the graph's state keeps every message. Messages are in the log before a model
is called and before a tool runs. A model's answer is stored before its tools run or when the run ends, not when it
arrives, because other middleware (a human who edits a call, a filter) may change it until then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
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
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages import ToolCall as LangChainCall
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.types import Command

from turnfold._caches import SizedCache
from turnfold.adapters._common import (
    HookRunner,
    calling_session,
    nested_session,
    record_usage,
    refuse_redaction,
    running_tool,
)
from turnfold.adapters.langchain.messages import call_of, record_and_shown
from turnfold.adapters.langchain.model_requests import GraphView, history_of
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
from turnfold.records import ToolCall, Usage
from turnfold.wire import writable

__all__ = (
    "ConversationState",
    "ToolRequest",
    "TurnfoldMiddleware",
    "turnfold_middleware",
)


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A tool call, and the newest seq of the log when it was made."""

    call: ToolCall
    seq: int = 0
    """The newest seq before the call; 0 if its result cannot become a finding."""
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
        """Findings whose results are not in the log yet; they are stored once the seq of the result is known."""

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
"""The most conversations whose state is cached."""
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
