"""The capability a PydanticAI agent is given: memory in one line.

It only uses hooks that shape the request and watch the run, so `all_messages()` keeps everything. What is said is in
the log before a model is asked and before a tool runs; a run that is cancelled or fails leaves what it said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import anyio
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import RunContext, Tool, ToolDefinition
from pydantic_ai.toolsets import FunctionToolset

from turnfold.adapters.pydantic_ai.recording import records_of
from turnfold.adapters.pydantic_ai.restoring import Restorer
from turnfold.adapters.pydantic_ai.run_log import RunLog
from turnfold.adapters.pydantic_ai.view import View
from turnfold.errors import InvalidOption
from turnfold.memory import AsyncMemory, AsyncSession, Memory, Session
from turnfold.memory.off_loop import OffLoop
from turnfold.memory.recall_tool import RECALL_CONTEXT, RecallTool, recall_parameters
from turnfold.recall.findings import FindingRule, served_text
from turnfold.records import ToolCall, ToolResult, Usage

if TYPE_CHECKING:
    from pydantic_ai.capabilities import (
        AgentNode,
        NodeResult,
        ValidatedToolArgs,
        WrapRunHandler,
        WrapToolExecuteHandler,
    )
    from pydantic_ai.run import AgentRunResult

__all__ = ("TurnfoldCapability", "turnfold_capability")

_INSTRUCTIONS = (
    "Earlier parts of this conversation may be summarised or left out. Nothing is lost: call recall_context to see "
    "them word for word before you guess or fetch again."
)


def turnfold_capability(
    memory: AsyncMemory | Memory | AsyncSession | Session,
    *,
    recall: bool = True,
    recall_tokens: int = 2000,
    instructions: str | None = None,
    findings: Sequence[FindingRule] = (),
) -> TurnfoldCapability:
    """Memory for `Agent(..., capabilities=[turnfold_capability(memory)])`.

    A session is the conversation of every run; a memory gives each run the conversation that its `conversation_id`
    names. `recall` brings back what was folded and matches the user's words, and offers the tool `recall_context`
    (`recall_tokens` at most); `instructions` tell the model about it (None: a short default; empty: none). `findings`
    are the rules by which results of tools are remembered.
    """
    return TurnfoldCapability(
        memory,
        recall=recall,
        recall_tokens=recall_tokens,
        instructions=instructions,
        findings=findings,
    )


class TurnfoldCapability(AbstractCapability[Any]):
    """A run's messages in a session's log, and the session's context in front of its model."""

    def __init__(
        self,
        memory: AsyncMemory | Memory | AsyncSession | Session,
        *,
        recall: bool = True,
        recall_tokens: int = 2000,
        instructions: str | None = None,
        findings: Sequence[FindingRule] = (),
    ) -> None:
        self.id = "turnfold"
        """An agent has one of them: one given to a run takes the place of the agent's."""
        self._given = memory
        self._memory = memory.awaiting if isinstance(memory, Memory | Session) else memory
        self._off_loop = OffLoop(memory)
        self._recall = recall
        self._recall_tokens = recall_tokens
        default = _INSTRUCTIONS if recall else ""
        self._instructions = default if instructions is None else instructions
        self._findings = tuple(findings)
        self._bound: _Run | None = None
        recall_parameters(max_tokens=recall_tokens)

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """None: it holds an open store, which no specification can name."""
        return None

    def get_instructions(self) -> str | None:
        """What the model is told about its memory; never changes, so that the prompt cache holds."""
        return self._instructions or None

    def get_toolset(self) -> FunctionToolset[Any] | None:
        """The tool `recall_context`."""
        if not self._recall:
            return None

        async def recall_context(ctx: RunContext[Any], **arguments: object) -> str:
            tool = RecallTool(self._session(ctx), max_tokens=self._recall_tokens)
            return await self._off_loop(tool.call(arguments))

        parameters = recall_parameters(max_tokens=self._recall_tokens)
        tool = Tool[Any].from_schema(
            recall_context, RECALL_CONTEXT, RecallTool.description, parameters, takes_ctx=True
        )
        return FunctionToolset[Any]([tool])

    async def for_run(self, ctx: RunContext[Any]) -> Self:
        """The capability of one run, with its own place in the log."""
        session = self._session(ctx)
        if self._findings:
            session.findings.use(self._findings)
        bound = type(self)(
            self._given,
            recall=self._recall,
            recall_tokens=self._recall_tokens,
            instructions=self._instructions,
            findings=self._findings,
        )
        bound._bound = _Run(  # noqa: SLF001 (its own)
            session,
            bound._off_loop,  # noqa: SLF001
            recall=self._recall,
            run_id=ctx.run_id,
        )
        return bound

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Store what is new, and show the model the session's context."""
        return await self._off_loop(self._run.prepare(ctx.messages, request_context))

    async def after_model_request(
        self,
        ctx: RunContext[Any],  # noqa: ARG002 (a hook's signature)
        *,
        request_context: ModelRequestContext,  # noqa: ARG002
        response: ModelResponse,
    ) -> ModelResponse:
        """Note what the provider counted; the response itself is stored once PydanticAI has taken it."""
        await self._off_loop(self._run.used(response))
        return response

    async def after_node_run(
        self, ctx: RunContext[Any], *, node: AgentNode[Any], result: NodeResult[Any]
    ) -> NodeResult[Any]:
        """Store what a step said before the next step acts on it."""
        del node
        await self._off_loop(self._run.catch_up(ctx.messages))
        return result

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],  # noqa: ARG002
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: ValidatedToolArgs,
        handler: WrapToolExecuteHandler,
    ) -> Any:  # noqa: ANN401 (whatever the tool returns)
        """Remember what a tool found, or give it again, as the rules say."""
        del tool_def
        if not self._findings:
            return await handler(args)
        return await self._run.found(call, args, handler)

    async def wrap_run(
        self, ctx: RunContext[Any], *, handler: WrapRunHandler
    ) -> AgentRunResult[Any]:
        """Store what a run said, however it ends."""
        del ctx
        try:
            return await handler()
        finally:
            with anyio.CancelScope(shield=True):
                await self._off_loop(self._run.finish())

    @property
    def _run(self) -> _Run:
        if self._bound is None:
            raise InvalidOption("a capability works within a run: give it to an Agent")
        return self._bound

    def _session(self, ctx: RunContext[Any]) -> AsyncSession:
        if isinstance(self._memory, AsyncSession):
            return self._memory
        if not ctx.conversation_id:
            raise InvalidOption("the run names no conversation: give run(conversation_id=...)")
        return self._memory.session(ctx.conversation_id)


class _Run:
    """What one run has of its session."""

    def __init__(
        self, session: AsyncSession, off_loop: OffLoop, *, recall: bool, run_id: str | None
    ) -> None:
        self._session = session
        self._off_loop = off_loop
        self._log = RunLog(session)
        self._view = View(session, self._log, Restorer(), recall=recall, run_id=run_id)
        self._messages: Sequence[ModelMessage] = ()
        """The run's history: PydanticAI's own list, which goes on growing."""
        self._call = ""
        self._unnoted: list[tuple[ToolCall, object, int]] = []
        """Calls with what they returned and the newest seq before them; noted once the log holds the results."""

    async def prepare(
        self, messages: Sequence[ModelMessage], request: ModelRequestContext
    ) -> ModelRequestContext:
        self._messages = messages
        shaped, self._call = await self._view.shape(request, messages)
        await self._note()
        return shaped

    async def catch_up(self, messages: Sequence[ModelMessage]) -> None:
        self._messages = messages
        await self._log.catch_up(messages)

    async def finish(self) -> None:
        await self._log.catch_up(self._messages)
        await self._note()

    async def used(self, response: ModelResponse) -> None:
        usage = response.usage
        if self._call and usage.input_tokens:
            reported = Usage(
                input=usage.input_tokens, output=usage.output_tokens, cached=usage.cache_read_tokens
            )
            await self._session.record_usage(reported, call=self._call)

    async def found(
        self, call: ToolCallPart, args: Mapping[str, object], handler: WrapToolExecuteHandler
    ) -> object:
        findings, off_loop = self._session.findings, self._off_loop
        asked = (await off_loop(self._session.status())).entries
        named = ToolCall(call.tool_call_id, call.tool_name, call.args_as_json_str())
        known = await off_loop(findings.serve(named))
        if known is not None:
            return served_text(known)
        # Told before it runs and after, however it ends: what it may have changed is not trusted meanwhile.
        await off_loop(findings.ran(call.tool_name))
        try:
            result = await handler(dict(args))
        finally:
            await off_loop(findings.ran(call.tool_name))
        if call.tool_name in findings.rules:
            self._unnoted.append((named, result, asked))
        return result

    async def _note(self) -> None:
        """Remember what was found, with the entry that shows it: nothing is then shown twice."""
        while self._unnoted:
            call, result, asked = self._unnoted.pop(0)
            seq = await self._log.result_seq(call.id)
            shown = self._log.result(call.id) or _written_result(call, result)
            if not shown.is_error:
                await self._session.findings.note(call, shown.text, seq=seq, asked=asked)


def _written_result(call: ToolCall, result: object) -> ToolResult:
    """A result that the run ended too early to show."""
    value = result
    if issubclass(type(result), ToolReturn):
        value = cast("ToolReturn[object]", result).return_value
    [record] = records_of(ModelRequest([ToolReturnPart(call.name, value, call.id)]))
    [written] = record.results
    return written
