"""A small complete agent: input, context, model, tools, answer, all of it through a session.

Nothing is held back: what the user said is in the log before the model is asked, the model's answer before its tools
run, each result the moment it is there. A process that dies at any point leaves a log that can be continued, because a
call without a result is shown to the model as one that has none.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Protocol, cast

from turnfold.agent.events import Answered, Event, Reply, Sending, TextCame, ToolDone, ToolStarted
from turnfold.agent.results import Outcome, ToolRun, failure
from turnfold.agent.second_layer import SecondLayer
from turnfold.agent.serving import Serving
from turnfold.agent.tools import Tool, as_tool
from turnfold.errors import (
    BudgetTooSmall,
    ContextOverflow,
    InvalidOption,
    ModelUnavailable,
    StepsExhausted,
)
from turnfold.memory import AsyncMemory, AsyncMemoryModule, AsyncSession, RecallMode
from turnfold.models import Answer, ChatModel, ToolSchemas
from turnfold.recall.findings import FindingRule
from turnfold.records import ToolCall
from turnfold.window import Context
from turnfold.wire import WireFormat

__all__ = ("AsyncAgent", "Workspace")

_SMALLER = 0.7
"""Part of a prompt that is sent again where the provider found it too long."""


class Workspace(Protocol):
    """What the agent works on, as text for the model; asked before every call, never logged."""

    def render(self) -> str:
        """The workspace as it is now."""
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
        self._second = SecondLayer(memory_module, workspace.render if workspace else None)
        own = [tool.schema for tool in self._tools.values()]
        self._schemas: ToolSchemas = own + self._second.schemas(self._tools)
        self._system = system
        self._max_steps = max_steps
        self._parallel = parallel
        self._tool_seconds = tool_seconds
        self._model_seconds = model_seconds
        self._workspace = workspace
        self._recall = RecallMode.named(recall)
        self._serving = Serving(findings, self._tools.values())
        self._on_event = on_event

    async def run(self, conversation: str, content: object, *, client_id: str = "") -> Reply:
        """Answer the user. With `client_id` a retry does not say the same thing twice."""
        session = self._memory.session(conversation)
        if self._system:
            await session.system(self._system)
        await session.user(content, client_id=client_id)
        return await self._loop(session)

    async def resume(self, conversation: str) -> Reply | None:
        """Go on where a process stopped; None when the last word was the agent's."""
        session = self._memory.session(conversation)
        status = await session.status()
        newest = await session.history(after=max(status.entries - 1, 0), limit=1)
        if not newest or (newest[0].message.role == "assistant" and not newest[0].message.calls):
            return None
        return await self._loop(session)

    async def _loop(self, session: AsyncSession) -> Reply:
        self._serving.begin(session)
        await self._second.begin(session)
        for step in range(1, self._max_steps + 1):
            context, answer = await self._asked(session, step)
            asked = (await session.add(answer.message)).last
            if answer.usage is not None:
                await session.record_usage(answer.usage)
            self._tell(Answered(step, answer))
            calls = answer.message.calls
            if not calls:
                return Reply(text=answer.message.text, answer=answer, steps=step, context=context)
            jobs = [self._job(session, call, asked) for call in calls]
            await self._memory.way.each(jobs, parallel=self._parallel)
        raise StepsExhausted(
            f"no answer after {self._max_steps} steps; resume({session.id!r}) goes on, or raise max_steps"
        )

    def _tell(self, event: Event) -> None:
        if self._on_event is not None:
            self._on_event(event)

    def _text_came(self, text: str) -> None:
        self._tell(TextCame(text))

    async def _asked(self, session: AsyncSession, step: int) -> tuple[Context, Answer]:
        context = await self._context(session)
        self._tell(Sending(step, context))
        try:
            return context, await self._answer(context)
        except ContextOverflow as overflow:
            try:
                context = await self._context(session, int(context.tokens * _SMALLER))
            except BudgetTooSmall:
                raise overflow from None  # what is left cannot be made smaller
            self._tell(Sending(step, context))
            return context, await self._answer(context)

    async def _context(self, session: AsyncSession, max_tokens: int = 0) -> Context:
        workspace = self._workspace.render() if self._workspace else ""
        notes = await self._second.notes(session, self._memory.budget, max_tokens)
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
        on_text = self._text_came if self._on_event is not None else None

        async def question() -> Answer:
            if on_text is None:
                return await model.complete(context, tools=tools)
            return await model.stream(context, tools=tools, on_text=on_text)

        try:
            found = await self._memory.way.ask(question, seconds=self._model_seconds)
        except TimeoutError as error:
            raise ModelUnavailable(
                f"{model.name} gave no answer within {self._model_seconds:g} s; what was said is in the log: "
                "resume() asks again, and a larger model_seconds waits longer"
            ) from error
        return cast("Answer", found)

    def _job(
        self, session: AsyncSession, call: ToolCall, asked: int
    ) -> Callable[[], Coroutine[object, None, None]]:
        async def job() -> None:
            self._tell(ToolStarted(call))
            kept = await self._serving.answer(session, call)
            done = Outcome(kept) if kept is not None else await self._result(session, call)
            text, failed = done.text, done.failed
            seq = (await session.tool(text, tool_call_id=call.id, name=call.name)).last
            if kept is None:
                await self._serving.done(session, call, text, failed=failed, seq=seq, asked=asked)
            self._tell(ToolDone(call, text, failed, served=kept is not None))

        return job

    async def _result(self, session: AsyncSession, call: ToolCall) -> Outcome:
        """Run a tool. A fault is a result too, so that the model can do something about it."""
        if self._second.answers(call):
            return await self._second.result(session, call)
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(sorted(self._tools)) or "none"
            return Outcome(f"error: there is no tool {call.name!r}; known: {known}", failed=True)
        run = ToolRun(tool, call.arguments)
        try:
            found = await self._memory.way.ask(run.question, seconds=self._tool_seconds)
        except TimeoutError:
            return Outcome(f"error: no result within {self._tool_seconds:g} s", failed=True)
        except Exception as error:  # the tool could not be run at all
            return failure(error)
        finally:
            run.abandon()
        return cast("Outcome", found)
