"""A small complete agent: input, context, model, tools, answer, all of it through a session.

Everything is logged at once: the user's message before the model is called, the model's answer before its tools run,
each result as soon as it is there. A process that dies at any point leaves a log that can be continued, because a call
without a result is shown to the model as one that has none.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Protocol, cast

from turnfold.agent.events import (
    AgentReply,
    Answered,
    Event,
    Sending,
    TextCame,
    ToolDone,
    ToolStarted,
)
from turnfold.agent.results import ToolRun, failure
from turnfold.agent.tool_cache import ToolCache
from turnfold.agent.tools import Tool, as_tool
from turnfold.agent.workspace_memory import WorkspaceMemory
from turnfold.errors import (
    BudgetTooSmall,
    ContextOverflow,
    InvalidOption,
    ModelUnavailable,
    StepsExhausted,
)
from turnfold.findings import FindingRule
from turnfold.memories import AsyncMemoryModule
from turnfold.memory import AsyncMemory, AsyncSession, RecallMode
from turnfold.models import Answer, ChatModel, ToolSchemas
from turnfold.records import ToolCall
from turnfold.window import Context
from turnfold.wire import ToolOutcome, WireFormat

__all__ = (
    "AsyncAgent",
    "Workspace",
)


_SMALLER = 0.7
"""Share of the prompt that is sent again where the provider found it too long."""


class Workspace(Protocol):
    """What the agent works on, as text for the model; rendered before every call, never logged."""

    def render(self) -> str:
        """Return the workspace as it is now."""
        ...


class AsyncAgent:
    """Answers with the help of tools."""

    def __init__(
        self,
        memory: AsyncMemory,
        model: ChatModel,
        *,
        tools: Sequence[Tool | Callable[..., object]] = (),
        system: str = "",
        max_steps: int = 25,
        parallel: int = 8,
        tool_seconds: float = 120.0,
        model_seconds: float = 300.0,
        workspace: Workspace | None = None,
        recall: RecallMode | str = RecallMode.AUTOMATIC,
        findings: Sequence[FindingRule] = (),
        memory_module: AsyncMemoryModule | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        if max_steps < 1 or parallel < 1:
            raise InvalidOption(f"max_steps={max_steps} and parallel={parallel} must be at least 1")
        self._memory = memory
        self._model = model
        self._to = model if isinstance(model, WireFormat) else None
        self._tools = {tool.name: tool for tool in map(as_tool, tools)}
        if len(self._tools) != len(tools):
            raise InvalidOption("two tools have the same name")
        self._workspace_memory = WorkspaceMemory(
            memory_module, workspace.render if workspace else None
        )
        own = [tool.schema for tool in self._tools.values()]
        self._schemas: ToolSchemas = own + self._workspace_memory.schemas(self._tools)
        self._system = system
        self._max_steps = max_steps
        self._parallel = parallel
        self._tool_seconds = tool_seconds
        self._model_seconds = model_seconds
        self._workspace = workspace
        self._recall = RecallMode.named(recall)
        self._tool_cache = ToolCache(findings, self._tools.values())
        self._on_event = on_event

    async def run(self, conversation: str, content: object, *, client_id: str = "") -> AgentReply:
        """Answer the user. With `client_id` a retry does not log the same message twice."""
        session = self._memory.session(conversation)
        if self._system:
            await session.system(self._system)
        await session.user(content, client_id=client_id)
        return await self._loop(session)

    async def resume(self, conversation: str) -> AgentReply | None:
        """Continue where a process stopped; None when the last message was an answer of the agent."""
        session = self._memory.session(conversation)
        status = await session.status()
        newest = await session.history(after=max(status.entries - 1, 0), limit=1)
        if not newest or (newest[0].message.role == "assistant" and not newest[0].message.calls):
            return None
        return await self._loop(session)

    async def _loop(self, session: AsyncSession) -> AgentReply:
        self._tool_cache.begin(session)
        await self._workspace_memory.begin(session)
        limit = 0
        for step in range(1, self._max_steps + 1):
            context, answer, limit = await self._ask_model(session, step, limit)
            call_seq = (await session.add(answer.message)).last
            if answer.usage is not None:
                await session.record_usage(answer.usage)
            self._emit(Answered(step, answer))
            calls = answer.message.calls
            if not calls:
                return AgentReply(
                    text=answer.message.text, answer=answer, steps=step, context=context
                )
            jobs = [self._tool_job(session, call, call_seq) for call in calls]
            await self._memory.runtime.each(jobs, parallel=self._parallel)
        raise StepsExhausted(
            f"no answer after {self._max_steps} steps; resume({session.id!r}) goes on, or raise max_steps"
        )

    def _emit(self, event: Event) -> None:
        if self._on_event is not None:
            self._on_event(event)

    async def _ask_model(
        self, session: AsyncSession, step: int, limit: int
    ) -> tuple[Context, Answer, int]:
        """Return context, answer and the token limit of further steps: 0 until a prompt was too long."""
        context = await self._context(session, limit)
        self._emit(Sending(step, context))
        try:
            return context, await self._answer(context), limit
        except ContextOverflow as overflow:
            limit = int(context.tokens * _SMALLER)
            try:
                context = await self._context(session, limit)
            except BudgetTooSmall:
                raise overflow from None  # what is left cannot be made smaller
            self._emit(Sending(step, context))
            return context, await self._answer(context), limit

    async def _context(self, session: AsyncSession, max_tokens: int = 0) -> Context:
        workspace = self._workspace.render() if self._workspace else ""
        notes = await self._workspace_memory.notes(session, self._memory.budget, max_tokens)
        return await session.context(
            tools=self._schemas,
            recall=self._recall,
            notes=notes,
            workspace=workspace,
            to=self._to,
            max_tokens=max_tokens,
        )

    async def _answer(self, context: Context) -> Answer:
        model, tools = self._model, self._schemas

        async def call() -> Answer:
            if self._on_event is None:
                return await model.complete(context, tools=tools)
            return await model.stream(
                context, tools=tools, on_text=lambda text: self._emit(TextCame(text))
            )

        try:
            found = await self._memory.runtime.ask(call, seconds=self._model_seconds)
        except TimeoutError as error:
            raise ModelUnavailable(
                f"{model.name} gave no answer within {self._model_seconds:g} s; the messages are in the log: resume() "
                "calls it again, and a larger model_seconds waits longer"
            ) from error
        return cast("Answer", found)

    def _tool_job(
        self, session: AsyncSession, call: ToolCall, call_seq: int
    ) -> Callable[[], Coroutine[object, None, None]]:
        async def job() -> None:
            self._emit(ToolStarted(call))
            served = await self._tool_cache.answer(session, call)
            done = ToolOutcome(served) if served is not None else await self._result(session, call)
            text, failed = done.text, done.failed
            seq = (await session.tool(text, tool_call_id=call.id, name=call.name)).last
            if served is None:
                await self._tool_cache.done(
                    session, call, text, failed=failed, seq=seq, asked=call_seq
                )
            self._emit(ToolDone(call, text, failed, served=served is not None))

        return job

    async def _result(self, session: AsyncSession, call: ToolCall) -> ToolOutcome:
        """Run a tool. An error is a result too, so that the model can react to it."""
        if self._workspace_memory.answers(call):
            return await self._workspace_memory.result(session, call)
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(sorted(self._tools)) or "none"
            return ToolOutcome(
                f"error: there is no tool {call.name!r}; known: {known}", failed=True
            )
        run = ToolRun(tool, call.arguments)
        try:
            found = await self._memory.runtime.ask(run.as_function, seconds=self._tool_seconds)
        except TimeoutError:
            return ToolOutcome(f"error: no result within {self._tool_seconds:g} s", failed=True)
        except Exception as error:  # the tool could not be run at all
            return failure(error)
        finally:
            run.abandon()
        return cast("ToolOutcome", found)
