"""The middleware an agent of LangChain is given: memory in one line.

It shapes the request and watches the run; the state of the graph keeps every message. What is said is in the log before
a model is asked and before a tool runs. A model's answer is stored when it is acted on, not when it arrives, because
other middleware (a human who edits a call, a filter) may change it until then.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.types import Command

from turnfold.adapters.langchain.talk import Talk
from turnfold.adapters.langchain.waiting import Waiting
from turnfold.errors import InvalidOption
from turnfold.memory import AsyncMemory, AsyncSession, Memory, Session
from turnfold.memory.recall_tool import RECALL_CONTEXT, RecallTool, recall_parameters
from turnfold.recall.findings import FindingRule

__all__ = ("TurnfoldMiddleware", "turnfold_middleware")

_MOST_TALKS = 256
"""Conversations whose place in the log is kept at hand."""
_State = AgentState[Any]
_Answer = ToolMessage | Command[Any]


def turnfold_middleware(
    memory: AsyncMemory | Memory | AsyncSession | Session,
    *,
    recall: bool = True,
    recall_tokens: int = 2000,
    findings: Sequence[FindingRule] = (),
) -> TurnfoldMiddleware:
    """Memory for `create_agent(model, tools, middleware=[turnfold_middleware(memory)])`.

    A session is the conversation of every run; a memory gives each run the conversation that the `thread_id` of its
    config names. `recall` brings back what was folded and matches the user's words, and offers the tool
    `recall_context` (`recall_tokens` at most). `findings` are the rules by which results of tools are remembered.

    A `Memory` or `Session` serves `invoke` and `ainvoke`, an `AsyncMemory` or `AsyncSession` `ainvoke`.
    """
    return TurnfoldMiddleware(memory, recall=recall, recall_tokens=recall_tokens, findings=findings)


class TurnfoldMiddleware(AgentMiddleware[_State, Any, Any]):
    """A run's messages in a session's log, and the session's context in front of its model."""

    def __init__(
        self,
        memory: AsyncMemory | Memory | AsyncSession | Session,
        *,
        recall: bool = True,
        recall_tokens: int = 2000,
        findings: Sequence[FindingRule] = (),
    ) -> None:
        super().__init__()
        blocking = isinstance(memory, Memory | Session)
        self._waiting = Waiting(blocking=blocking, what="turnfold_middleware")
        self._memory = memory.awaiting if isinstance(memory, Memory | Session) else memory
        self._recall = recall
        self._recall_tokens = recall_tokens
        self._findings = tuple(findings)
        self._talks: OrderedDict[str, Talk] = OrderedDict()
        parameters = recall_parameters(max_tokens=recall_tokens)
        self.tools: Sequence[BaseTool] = (self._recall_tool(parameters),) if recall else ()

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelCallResult[Any]:
        """Store what is new, show the model the session's context, and note what the provider counted."""
        talk = self._talk()
        shaped, call = self._waiting.now(talk.shape(request))
        response = handler(shaped)
        self._waiting.now(talk.used(_answers(response), call))
        return response

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelCallResult[Any]:
        """Store what is new, show the model the session's context, and note what the provider counted."""
        talk = self._talk()
        shaped, call = await self._waiting.soon(talk.shape(request))
        response = await handler(shaped)
        await self._waiting.soon(talk.used(_answers(response), call))
        return response

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], _Answer]
    ) -> _Answer:
        """Store the call before the tool runs; remember what it found, or give it again, as the rules say."""
        talk = self._talk()
        asked = self._waiting.now(talk.before_tool(request.tool_call, _messages(request.state)))
        if asked.served is not None:
            return asked.served
        try:
            result = handler(request)
        finally:
            self._waiting.now(talk.after_tool(request.tool_call))
        talk.found(asked, result)
        return result

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[_Answer]]
    ) -> _Answer:
        """Store the call before the tool runs; remember what it found, or give it again, as the rules say."""
        talk = self._talk()
        asked = await self._waiting.soon(
            talk.before_tool(request.tool_call, _messages(request.state))
        )
        if asked.served is not None:
            return asked.served
        try:
            result = await handler(request)
        finally:
            await self._waiting.soon(talk.after_tool(request.tool_call))
        talk.found(asked, result)
        return result

    def after_agent(self, state: _State, runtime: Runtime[Any]) -> None:
        """Store the answer."""
        del runtime
        self._waiting.now(self._talk().finish(_messages(state)))

    async def aafter_agent(self, state: _State, runtime: Runtime[Any]) -> None:
        """Store the answer."""
        del runtime
        await self._waiting.soon(self._talk().finish(_messages(state)))

    def _talk(self) -> Talk:
        session = self._session()
        known = self._talks.get(session.id)
        if known is None:
            known = Talk(session, recall=self._recall, findings=self._findings)
            self._talks[session.id] = known
            while len(self._talks) > _MOST_TALKS:
                self._talks.popitem(last=False)
        self._talks.move_to_end(session.id)
        return known

    def _session(self) -> AsyncSession:
        if isinstance(self._memory, AsyncSession):
            return self._memory
        try:
            thread = get_config().get("configurable", {}).get("thread_id")
        except RuntimeError:  # outside a run
            thread = None
        if thread is None:
            raise InvalidOption(
                "the run names no thread: invoke(..., {'configurable': {'thread_id': ...}}), or give the middleware a "
                "session"
            )
        return self._memory.session(str(thread))

    def _recall_tool(self, parameters: dict[str, object]) -> BaseTool:
        def recall_now(**arguments: object) -> str:
            tool = RecallTool(self._session(), max_tokens=self._recall_tokens)
            return self._waiting.now(tool.call(arguments))

        async def recall_soon(**arguments: object) -> str:
            tool = RecallTool(self._session(), max_tokens=self._recall_tokens)
            return await self._waiting.soon(tool.call(arguments))

        return StructuredTool(
            name=RECALL_CONTEXT,
            description=RecallTool.description,
            args_schema=parameters,
            func=recall_now,
            coroutine=recall_soon,
        )


def _messages(state: object) -> list[BaseMessage]:
    """The messages of a state; a tool may also be given the bare list."""
    found = (
        cast("Mapping[str, object]", state).get("messages", [])
        if isinstance(state, Mapping)
        else state
    )
    return cast("list[BaseMessage]", found) if isinstance(found, list) else []


def _answers(response: ModelCallResult[Any]) -> list[AIMessage]:
    if isinstance(response, AIMessage):
        return [response]
    inner = response.model_response if isinstance(response, ExtendedModelResponse) else response
    return [message for message in inner.result if isinstance(message, AIMessage)]
