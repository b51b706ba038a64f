"""Memory for a PydanticAI agent in one line, as a capability.

It uses only hooks that change the request or observe the run, so `all_messages()` stays complete. Messages are in the
log before a model is called and before a tool runs, so those of a cancelled or failed run are kept.

A model is sent the session's context as PydanticAI messages. The system prompts and instructions of the run become the
session's system message, so that they are counted and shortened with everything else. Two runs on one conversation see
each other's messages; each has its own turn last, because a model continues the last turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, cast

import anyio
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestContext, ModelRequestParameters
from pydantic_ai.profiles import DEFAULT_PROMPTED_OUTPUT_TEMPLATE
from pydantic_ai.tools import RunContext, Tool, ToolDefinition
from pydantic_ai.toolsets import FunctionToolset

from turnfold.adapters._common import (
    ThreadBridge,
    added_messages,
    calling_session,
    context_with_system,
    count_for,
    function_schema,
    lost_from_window,
    nested_conversation,
    nested_session,
    own_groups_last,
    record_usage,
    refuse_redaction,
    remaining_tokens,
    running_tool,
    set_system,
    system_texts,
)
from turnfold.adapters.pydantic_ai.entries import Restorer, records_of
from turnfold.adapters.pydantic_ai.run_log import AgentRunLog
from turnfold.errors import Conflict, InvalidOption
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
from turnfold.records import Message, ToolCall, ToolResult, Usage
from turnfold.text import is_chinese
from turnfold.window import Context, Section

if TYPE_CHECKING:
    from pydantic_ai.capabilities import (
        AgentNode,
        NodeResult,
        ValidatedToolArgs,
        WrapRunHandler,
        WrapToolExecuteHandler,
    )
    from pydantic_ai.run import AgentRunResult

__all__ = (
    "RunView",
    "TurnfoldCapability",
    "tool_schemas",
    "turnfold_capability",
)


_OTHER = "another capability"
_NO_CONVERSATION = "turnfold: no conversation_id: "
"""Prefix of the ids of runs that were given neither a conversation nor a history that belongs to one."""


@dataclass(slots=True)
class RunView:
    """Replaces the history in one run's model requests by the session's context."""

    session: AsyncSession
    log: AgentRunLog
    restorer: Restorer
    recall: bool
    """True to show folded (compacted) content again if it matches the user's words."""
    run_id: str | None

    async def shape(
        self, request: ModelRequestContext, history: Sequence[ModelMessage]
    ) -> tuple[ModelRequestContext, str]:
        """Return a model request with the session's context instead of the run's history, and the id of the call."""
        history = _with_system_of(request.messages, history)
        added = added_messages(
            history,
            request.messages,
            other=_OTHER,
            remedy="let it work on RunContext.messages, or in prepare_model_request behind turnfold's capability",
        )
        async with self.session.system_lock:
            try:
                return await self._shape(request, history, added)
            except Conflict:
                if not await self.log.follow_again(history):
                    raise
            return await self._shape(request, history, added)

    async def _shape(
        self,
        request: ModelRequestContext,
        history: Sequence[ModelMessage],
        added: Sequence[ModelMessage],
    ) -> tuple[ModelRequestContext, str]:
        prompts = _system_prompts(history)
        parameters = request.model_request_parameters
        instructions = [part for part in parameters.instruction_parts or () if part.content.strip()]
        texts = [*prompts, *(part.content for part in instructions)]
        await count_for(self.session, request.model)
        await set_system(self.session, texts)
        await self.log.catch_up(history)
        context = await context_with_system(
            self.session,
            texts,
            _newest_prompt(history) if self.recall else None,
            tools=tool_schemas(parameters, request.model),
            max_tokens=remaining_tokens(self.session, added, self._cost, other=_OTHER),
        )
        call = self.session.last_call
        if self._shows_all(context, history, texts):
            return self._as_written(request, history), call
        fitted = _fitted_texts(context, texts)
        shown = self._messages(context, history, fitted[: len(prompts)] if texts else None)
        fitted_parameters = _with_texts(parameters, instructions, fitted[len(prompts) :])
        messages = [*shown, *added]
        return replace(request, messages=messages, model_request_parameters=fitted_parameters), call

    def _shows_all(
        self, context: Context, history: Sequence[ModelMessage], texts: Sequence[str]
    ) -> bool:
        """Return True if the context is the run's history, with nothing left out, added or shortened."""
        prompts = _all_system_prompts(history)
        if system_texts(context) != list(texts) or len(set(prompts)) < len(prompts):
            return False
        body = context.messages[context.ends[0] :]
        own = [record for message in history for record in self.log.records(message)]
        return len(body) == len(own) and all(map(_same_content, body, own))

    def _as_written(
        self, request: ModelRequestContext, history: Sequence[ModelMessage]
    ) -> ModelRequestContext:
        """Return the request with text for tool values that have no JSON form; everything else is unchanged."""
        written = {id(message): self.log.written(message) for message in history}
        messages = [written.get(id(message), message) for message in request.messages]
        return replace(request, messages=messages)

    def _cost(self, message: ModelMessage) -> int:
        return sum(map(self.session.counter.count_message, self.log.records(message)))

    def _messages(
        self, context: Context, history: Sequence[ModelMessage], prompts: Sequence[str] | None
    ) -> list[ModelMessage]:
        newest = history[-1]
        instructions = newest.instructions if isinstance(newest, ModelRequest) else None
        last = self.log.names(newest)
        body = self._own_last(context, self._own_names(history))
        missing = last - {self.restorer.name(record) for record in body}
        if missing:
            raise lost_from_window(
                f"{len(missing)} of the {len(last)} newest parts of this run", self.session.id
            )
        shown = self.restorer.view(body, instructions=instructions)
        if not newest.parts:
            shown.append(newest)  # a request without parts, which has only instructions
        system = _system(context, prompts)
        return [ModelRequest(system, instructions=instructions), *shown] if system else shown

    def _own_names(self, history: Sequence[ModelMessage]) -> set[str]:
        """Return the client ids under which the messages of this run are stored in the log."""
        mine = [message for message in history if message.run_id == self.run_id]
        return {name for message in mine or history[-1:] for name in self.log.names(message)}

    def _own_last(self, context: Context, own: set[str]) -> list[Message]:
        """Return a context's messages after the system message, those of this run after those of other runs.

        If the messages cannot be sorted like that, their order stays.
        """
        body = list(context.messages[context.ends[0] :])
        ordered = own_groups_last(
            body,
            is_result=lambda record: record.role == "tool",
            is_own=lambda group: group[0].role != "tool" and self.restorer.name(group[0]) in own,
        )
        return ordered if ordered is not None else body


def _same_content(one: Message, other: Message) -> bool:
    """Return True if two records differ in nothing but the request or response that they came in."""
    forms = [record.origin.form if record.origin else "" for record in (one, other)]
    return (one.role, one.parts, one.name, forms[0]) == (
        other.role,
        other.parts,
        other.name,
        forms[1],
    )


def _prompt_text(content: object) -> str:
    """Return the text of a prompt, without its images and files."""
    if isinstance(content, str):
        return content
    items = cast("Sequence[object]", content) if isinstance(content, Sequence) else ()
    return "\n".join(
        item if isinstance(item, str) else str(getattr(item, "content", "")) for item in items
    ).strip()


def tool_schemas(
    parameters: ModelRequestParameters, model: Model[Any] | None = None
) -> list[dict[str, object]]:
    """Return the tools and the output format of a request in the form of OpenAI's Chat API, to count their tokens."""
    mode: str = parameters.output_mode
    if mode == "auto":
        mode = model.profile.get("default_structured_output_mode", "tool") if model else "tool"
    structured = mode in ("native", "prompted")
    tools = [*parameters.function_tools, *(() if structured else parameters.output_tools)]
    schemas = [
        function_schema(tool.name, tool.description or "", tool.parameters_json_schema)
        for tool in tools
    ]
    output = parameters.output_object
    if structured and output is not None:
        about = [output.description or ""]
        if mode == "prompted":
            about.append(parameters.prompted_output_template or DEFAULT_PROMPTED_OUTPUT_TEMPLATE)
        schemas.append(function_schema(output.name or "", "\n".join(about), output.json_schema))
    return schemas


def _with_system_of(
    request: Sequence[ModelMessage], history: Sequence[ModelMessage]
) -> list[ModelMessage]:
    """Return the history, with messages replaced by those of the request if they differ only by system prompts.

    The front ends of PydanticAI put the agent's system prompt into the request and take out those of a client.
    """
    known, sent = set(map(id, history)), set(map(id, request))
    replaced = {
        _part_ids(message): message
        for message in request
        if id(message) not in known and isinstance(message, ModelRequest)
    }
    found: list[ModelMessage] = []
    for message in history:
        if id(message) in sent or not isinstance(message, ModelRequest) or not message.parts:
            found.append(message)
        elif ids := _part_ids(message):
            found.append(replaced.get(ids, message))
    return found


def _part_ids(message: ModelRequest) -> tuple[int, ...]:
    """Return the `id()` of each part of a request, system prompts aside.

    Two requests with the same ids contain the same objects.
    """
    return tuple(id(part) for part in message.parts if not isinstance(part, SystemPromptPart))


def _system_prompts(history: Sequence[ModelMessage]) -> list[str]:
    """Return the system prompts of a history that apply to the whole conversation, each text once."""
    return list(dict.fromkeys(_all_system_prompts(history)))


def _all_system_prompts(history: Sequence[ModelMessage]) -> list[str]:
    return [
        part.content
        for message in history
        if isinstance(message, ModelRequest) and len(message.parts) > 1
        for part in message.parts
        if isinstance(part, SystemPromptPart)
        and part.scope == "conversation"
        and part.context_id is None
        and part.content.strip()
    ]


def _newest_prompt(history: Sequence[ModelMessage]) -> str | None:
    for message in reversed(history):
        for part in reversed(message.parts):
            if isinstance(part, UserPromptPart):
                return _prompt_text(part.content) or None
    return None


def _fitted_texts(context: Context, texts: list[str]) -> list[str]:
    """Return the system texts as they are in the context, which may have shortened them."""
    shown = system_texts(context)
    return shown if len(shown) == len(texts) else texts


def _with_texts(
    parameters: ModelRequestParameters, instructions: list[InstructionPart], texts: list[str]
) -> ModelRequestParameters:
    if [part.content for part in instructions] == texts:
        return parameters
    shortened = [
        replace(part, content=text) for part, text in zip(instructions, texts, strict=True)
    ]
    return replace(parameters, instruction_parts=shortened)


def _system(context: Context, prompts: Sequence[str] | None) -> list[SystemPromptPart]:
    """Return the system prompt parts of a request: the run's own prompts, or the session's system message."""
    if prompts is None:
        prompts = [message.text for message in context.section(Section.SYSTEM)]
    return [SystemPromptPart(text) for text in prompts]


_INSTRUCTIONS = (
    "Earlier parts of this conversation may be summarised or left out. Nothing is lost: call recall_context to see "
    "them word for word before you guess or fetch again."
)
_INSTRUCTIONS_ZH = (
    "这段对话较早的部分可能已写成摘要或省略。内容没有丢失："
    "在猜测或重新获取之前，先调用 recall_context 查看原文。"
)
_FIRST_ENTRIES = 5
"""Number of log entries among which the first user message is looked for."""


async def _default_instructions(session: AsyncSession, ctx: RunContext[Any]) -> str:
    """Return the instructions in the language of the conversation's first user message."""
    stored = await session.history(limit=_FIRST_ENTRIES)
    said = (entry.message.text for entry in stored if entry.message.role == "user")
    prompts = (
        _prompt_text(part.content)
        for message in ctx.messages
        for part in message.parts
        if isinstance(part, UserPromptPart)
    )
    first = next((text for text in (*said, *prompts) if text), None) or _prompt_text(ctx.prompt)
    return _INSTRUCTIONS_ZH if is_chinese(first) else _INSTRUCTIONS


def turnfold_capability(
    memory: AsyncMemory | Memory | AsyncSession | Session,
    *,
    recall: bool = True,
    recall_tokens: int = 2000,
    instructions: str | None = None,
    findings: RuleSource | Sequence[FindingRule] = (),
) -> TurnfoldCapability:
    """Return the capability for `Agent(..., capabilities=[turnfold_capability(memory)])`.

    With a session, all runs use its conversation; with a memory, each run uses the conversation with its
    `conversation_id`. With `recall`, folded (compacted) content that matches the user's words is shown again, and the
    model gets the tool `recall_context`, whose answers have at most `recall_tokens`. `instructions` tell the model
    about the tool (None: a short default, in Chinese if the first user message is Chinese; empty: nothing). `findings`
    are the rules by which tool results are remembered, or an `AgentMemory`.
    """
    return TurnfoldCapability(
        memory,
        recall=recall,
        recall_tokens=recall_tokens,
        instructions=instructions,
        findings=findings,
    )


class TurnfoldCapability(AbstractCapability[Any]):
    """Stores a run's messages in a session's log, and sends the session's context to its model."""

    def __init__(
        self,
        memory: AsyncMemory | Memory | AsyncSession | Session,
        *,
        recall: bool = True,
        recall_tokens: int = 2000,
        instructions: str | None = None,
        findings: RuleSource | Sequence[FindingRule] = (),
    ) -> None:
        self.id = "turnfold"
        """Id of the capability. An agent has one capability per id, so one given to a run replaces the agent's."""
        self._memory_given = memory
        self._memory = memory.awaiting if isinstance(memory, Memory | Session) else memory
        refuse_redaction(self._memory, adapter="turnfold_capability")
        self._off_loop = ThreadBridge(memory)
        self._recall = recall
        self._recall_tokens = recall_tokens
        self._instructions = instructions
        self._findings = as_finding_rules(findings)
        self._run_state: _Run | None = None
        recall_parameters(max_tokens=recall_tokens)

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: the capability holds an open store, which cannot be serialized."""
        return None

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """Return the id for a run without a conversation id; None if the memory is one session.

        For an agent inside a tool it is the id of a nested conversation; for any other run it is an id that is refused
        later.

        PydanticAI would make up a new id for each run, and no run would remember anything.
        """
        if isinstance(self._memory, AsyncSession):
            return None
        return nested_conversation() or f"{_NO_CONVERSATION}{run_id}"

    def get_instructions(self) -> str | None:
        """Return the instructions about the memory; None if there are none.

        They are the same in all runs of a conversation: that keeps the provider's prompt cache valid.
        """
        if self._instructions is None and self._recall:
            return _INSTRUCTIONS
        return self._instructions or None

    def get_toolset(self) -> FunctionToolset[Any] | None:
        """Return a toolset with the tool `recall_context`; None if the model does not get it."""
        if not self._recall:
            return None

        async def recall_context(ctx: RunContext[Any], **arguments: object) -> str:
            session = calling_session(self._base_session(ctx))
            tool = RecallTool(session, max_tokens=self._recall_tokens)
            return await self._off_loop(tool.call(arguments))

        parameters = recall_parameters(max_tokens=self._recall_tokens)
        tool = Tool[Any].from_schema(
            recall_context, RECALL_CONTEXT, RecallTool.description, parameters, takes_ctx=True
        )
        return FunctionToolset[Any]([tool])

    async def for_run(self, ctx: RunContext[Any]) -> Self:
        """Return a copy of the capability for one run, which tracks that run's messages in the log."""
        session = self._session(ctx)
        if self._findings:
            session.findings.use(self._findings)
        instructions = self._instructions
        if instructions is None and self._recall:
            instructions = await self._off_loop(_default_instructions(session, ctx))
        bound = type(self)(
            self._memory_given,
            recall=self._recall,
            recall_tokens=self._recall_tokens,
            instructions=instructions,
            findings=self._findings,
        )
        bound._run_state = _Run(  # noqa: SLF001 (its own)
            session,
            bound._off_loop,  # noqa: SLF001
            recall=self._recall,
            run_id=ctx.run_id,
            given=bool(ctx.messages),
        )
        return bound

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Store new messages, and replace the request's messages by the session's context."""
        return await self._off_loop(self._active_run.prepare(ctx.messages, request_context))

    async def after_model_request(
        self,
        ctx: RunContext[Any],  # noqa: ARG002 (a hook's signature)
        *,
        request_context: ModelRequestContext,  # noqa: ARG002
        response: ModelResponse,
    ) -> ModelResponse:
        """Record the token usage; the response itself is stored once PydanticAI has accepted it."""
        await self._off_loop(self._active_run.record_usage(response))
        return response

    async def after_node_run(
        self, ctx: RunContext[Any], *, node: AgentNode[Any], result: NodeResult[Any]
    ) -> NodeResult[Any]:
        """Store the messages of a finished step of the run, before the next step acts on them."""
        del node
        await self._off_loop(self._active_run.catch_up(ctx.messages))
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
        """Run a tool and remember its result, or return a remembered result, as the finding rule of the tool says."""
        del tool_def
        run = self._active_run
        with run.running_tool(call):
            result = await (run.run_tool(call, args, handler) if self._findings else handler(args))
        run.returned[call.tool_call_id] = (call, result)
        return result

    async def wrap_run(
        self, ctx: RunContext[Any], *, handler: WrapRunHandler
    ) -> AgentRunResult[Any]:
        """Run the agent, and store its messages in the end, also if the run fails or is cancelled."""
        del ctx
        ended = False
        try:
            result = await handler()
            ended = True
        finally:
            with anyio.CancelScope(shield=True):
                await self._off_loop(self._active_run.finish(ended=ended))
        return result

    @property
    def _active_run(self) -> _Run:
        if self._run_state is None:
            raise InvalidOption(
                "this capability is not used in a run: give it to an Agent with capabilities=[...]"
            )
        return self._run_state

    def _session(self, ctx: RunContext[Any]) -> AsyncSession:
        return nested_session(self._base_session(ctx))

    def _base_session(self, ctx: RunContext[Any]) -> AsyncSession:
        if isinstance(self._memory, AsyncSession):
            return self._memory
        if not ctx.conversation_id or ctx.conversation_id.startswith(_NO_CONVERSATION):
            raise InvalidOption(
                "the run has no conversation_id, so it would remember nothing: call run(..., conversation_id=...), "
                "pass the message_history of an earlier run, or give turnfold_capability a session. For a new "
                "conversation make an id yourself, for example str(uuid4())"
            )
        return self._memory.session(ctx.conversation_id)


class _Run:
    """One run of an agent: stores its messages, fits its model requests, remembers tool results (findings)."""

    def __init__(
        self,
        session: AsyncSession,
        off_loop: ThreadBridge,
        *,
        recall: bool,
        run_id: str | None,
        given: bool,
    ) -> None:
        self._session = session
        self._off_loop = off_loop
        self._log = AgentRunLog(session, given=given)
        self._view = RunView(session, self._log, Restorer(), recall=recall, run_id=run_id)
        self._messages: Sequence[ModelMessage] = ()
        """The run's history: PydanticAI's own list, which keeps growing."""
        self._call = ""
        self.returned: dict[str, tuple[ToolCallPart, object]] = {}
        """Tool calls that have ended since the last model request, with what they returned, by call id."""
        self._pending: list[tuple[ToolCall, object, int]] = []
        """Calls with their results and the newest seq before them; they become findings (remembered tool results) once
        the results are logged."""

    async def prepare(
        self, messages: Sequence[ModelMessage], request: ModelRequestContext
    ) -> ModelRequestContext:
        self._messages = messages
        shaped, self._call = await self._view.shape(request, messages)
        self.returned.clear()
        await self._note_findings()
        return shaped

    async def catch_up(self, messages: Sequence[ModelMessage]) -> None:
        self._messages = messages
        # Before its first request, the history of a resumed run is incomplete.
        if not self._log.follows:
            await self._store(messages)

    async def _store(self, messages: Sequence[ModelMessage]) -> None:
        # Not while another run of the conversation stores its own history and builds its context.
        async with self._session.system_lock:
            await self._log.catch_up(messages)

    async def finish(self, *, ended: bool) -> None:
        """Store the messages of the run that are not stored yet; `ended` is False if it failed or was cancelled.

        A run with a given history that failed before its first request has shown none or a part of that history: the
        log must not be made to follow it.
        """
        if self._messages and (ended or not self._log.follows):
            await self._store(self._messages)
        if not ended:
            missing = {
                call_id: _request_of(*returned)
                for call_id, returned in self.returned.items()
                if self._log.result(call_id) is None
            }
            await self._log.add_results(missing)
        await self._note_findings()

    async def record_usage(self, response: ModelResponse) -> None:
        usage = response.usage
        reported = Usage(
            input=usage.input_tokens, output=usage.output_tokens, cached=usage.cache_read_tokens
        )
        await record_usage(self._session, reported, call=self._call)

    def running_tool(self, call: ToolCallPart) -> AbstractContextManager[None]:
        return running_tool(self._session.id, call.tool_call_id)

    async def run_tool(
        self, call: ToolCallPart, args: Mapping[str, object], handler: WrapToolExecuteHandler
    ) -> object:
        findings, off_loop = self._session.findings, self._off_loop
        seq_before = (await off_loop(self._session.status())).entries
        record = ToolCall(call.tool_call_id, call.tool_name, call.args_as_json_str())
        known = await off_loop(findings.serve(record))
        if known is not None:
            return served_text(known)
        # Findings that the tool may change are marked stale before it runs and after, however it ends.
        await off_loop(findings.ran(call.tool_name))
        try:
            result = await handler(dict(args))
        finally:
            await off_loop(findings.ran(call.tool_name))
        if rule_for(findings.rules, call.tool_name) is not None:
            self._pending.append((record, result, seq_before))
        return result

    async def _note_findings(self) -> None:
        """Remember the results of tool calls that have ended, each with the seq of its log entry (0 if not logged)."""
        while self._pending:
            call, result, seq_before = self._pending.pop(0)
            seq = await self._log.result_seq(call.id)
            shown = self._log.result(call.id) or _written_result(call, result)
            if not shown.is_error:
                await self._session.findings.note(call, shown.text, seq=seq, asked=seq_before)


def _request_of(call: ToolCallPart, result: object) -> ModelRequest:
    """Return what a tool returned as a request, for a run that ended before its history had the result."""
    if not issubclass(type(result), ToolReturn):
        return ModelRequest([ToolReturnPart(call.tool_name, result, call.tool_call_id)])
    returned = cast("ToolReturn[object]", result)
    part = ToolReturnPart(
        call.tool_name, returned.return_value, call.tool_call_id, metadata=returned.metadata
    )
    return ModelRequest([part, UserPromptPart(returned.content)] if returned.content else [part])


def _written_result(call: ToolCall, result: object) -> ToolResult:
    """Return a tool's return value as a tool result, for a run that ended before its history had the result."""
    request = _request_of(ToolCallPart(call.name, tool_call_id=call.id), result)
    [written] = records_of(request)[0].results
    return written
