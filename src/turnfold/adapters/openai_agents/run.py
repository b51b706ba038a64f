"""Memory for one run of the OpenAI Agents SDK, as keyword arguments of `Runner.run`.

Three extension points of the SDK are used, and none of them changes the agent or the run's result: a session that
stores the items, a filter that replaces the input of a model call, and hooks that store a response before its tools run
and each output when its tool has ended, and record the usage.

The tool `recall_context` holds no session, because tools belong to an agent and agents are shared by runs: it answers
from the memory of the run that calls it. Adding it in a run's hooks would change the agent under every other run, which
the SDK refuses.

The SDK calls the filter (`call_model_input_filter`) before every model call, and keeps its own list of items. Items of
that list that are not in the log yet are stored first; then the session's context is sent instead of the list, as items
of the Responses API.

The list says what the model is to see. If it is not the session's items with new ones at the end (the filter of a
handoff, a callback or a limit has changed it), or that of an agent used as a tool, it is followed in a conversation of
its own (see `HistoryView`): what was left out reaches the model neither word for word nor in a summary or by recall,
while the session keeps every item.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from itertools import chain, count
from typing import Any, Final, TypedDict, cast

from agents import (
    Agent,
    AgentHookContext,
    AgentOutputSchema,
    FunctionTool,
    Handoff,
    ItemHelpers,
    ModelResponse,
    RunConfig,
    RunContextWrapper,
    RunHooks,
    Tool,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    TResponseInputItem,
    handoff,
)
from agents.agent_output import AgentOutputSchemaBase
from agents.run_config import (
    CallModelData,
    CallModelInputFilter,
    ModelInputData,
    ToolErrorFormatter,
    ToolErrorFormatterArgs,
)
from agents.tool import default_tool_timeout_error_message
from agents.tool_context import ToolContext

from turnfold import wire
from turnfold.adapters._common import (
    FittedRequest,
    HistoryView,
    NumberedMessage,
    context_with_system,
    count_for,
    function_schema,
    lost_from_window,
    numbered_messages,
    own_groups_last,
    record_usage,
    system_texts,
)
from turnfold.adapters.openai_agents.items import (
    answered_calls,
    as_sent,
    calls_before_outputs,
    content_key,
    items_of,
    records_of,
    text_of,
)
from turnfold.adapters.openai_agents.session import TurnfoldSession
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
from turnfold.records import Message, ToolCall, Usage
from turnfold.records import system as system_message
from turnfold.window import Context
from turnfold.wire import JsonObject, list_of, object_of, text_at

__all__ = (
    "ItemsView",
    "TurnfoldHooks",
    "TurnfoldRun",
    "own_last",
    "recall_tool",
    "serve_findings",
    "tool_schemas",
    "turnfold_run",
)


_Items = Sequence[TResponseInputItem]


_EDITED = "edited"
"""Suffix for the id of the conversation that follows a list of items which was changed by another component."""


class ItemsView:
    """The `call_model_input_filter` of a run: sends the session's context; calls `theirs`, the run's own filter, last.

    An agent that works as a tool inherits the filter. Its model calls are given to a view of their own, with a
    conversation of its own, so that they are held to the budget too and never mixed with the calls of the run.
    """

    def __init__(
        self,
        session: TurnfoldSession,
        *,
        recall: bool,
        omit_ids: bool = False,
        theirs: CallModelInputFilter | None = None,
        outer: ItemsView | None = None,
        model: object = None,
        rewrites: bool = False,
    ) -> None:
        self.session = session
        self.call = ""
        """Id of the last model call."""
        self.last = self
        """The filter that made the last request of the run: this one, or that of a changed list of items."""
        self._recall = recall
        self._omit_ids = omit_ids
        """True to send reasoning without its id."""
        self._theirs = theirs
        self._model = model
        """The model of all agents of the run; None if each has its own."""
        self._rewrites = rewrites
        """True if a callback of the application makes the list of items that is sent: then its additions cannot be told
        from the run's own input."""
        self._outer = outer
        """The view (history and context) of the run whose tool makes these model calls, or whose list of items was
        changed by another component."""
        self._list = FollowedItems(session, recall=recall) if outer is not None else None
        self._inner: dict[str, ItemsView] = {}
        self._schemas: dict[int, tuple[object, list[dict[str, object]]]] = {}

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the session's context as the model's input, instead of the whole history."""
        view = await self._view_of(data.model_data.input)
        shaped = await view.shape(data)
        if self._theirs is None:
            return shaped
        edited = self._theirs(CallModelData(shaped, data.agent, data.context))
        return await edited if inspect.isawaitable(edited) else edited

    @property
    def searched(self) -> TurnfoldSession:
        """The session that `recall_context` searches; an agent that is a tool searches its own conversation."""
        if self.last is not self:
            return self.last.searched
        return self.session if self.call or self._outer is None else self._outer.searched

    def of_tool(self, name: str) -> ItemsView:
        """Return a filter for the model calls of an agent that is a tool of this run; `name` is the tool call's id."""
        found = self._inner.get(name)
        if found is None:
            found = ItemsView(
                self.session.of_tool(name),
                recall=self._recall,
                omit_ids=self._omit_ids,
                theirs=self._theirs,
                outer=self,
                model=self._model,
            )
            self._inner[name] = found
        return found

    async def _view_of(self, items: _Items) -> ItemsView:
        """Return the filter of the run that makes a model call with these items: this filter, or a nested agent's."""
        if self._list is not None:
            if self._list.is_continued_by(items):
                return self
            names = iter(())
        else:
            run = self.session.run
            if not run.begun:  # a resumed run does not call get_items
                await self.session.resume()
            if run.open_calls <= answered_calls(items):
                self.last = self if await self._catch_up(items) else self.of_tool(_EDITED)
                return self.last
            names = iter(sorted(run.open_calls))
        for name in chain(names, map(str, count(1))):
            view = self.of_tool(name)
            if view.accepts(items):
                return view
        raise AssertionError("unreachable: a new input filter accepts any items")

    def accepts(self, items: _Items) -> bool:
        """Return True if a model call of a nested agent with these items continues the calls of this filter."""
        return self._list is not None and self._list.is_continued_by(items)

    async def _catch_up(self, items: _Items) -> bool:
        """Store the new items of a request; return False if the request does not continue the session's items."""
        session = self.session
        await session.settle()
        new = None if self._rewrites else session.run.new_in(items)
        if new is None:
            return False
        if new:
            await session.add_ahead(new)
        session.run.sent(items)
        return True

    async def shape(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the context to send instead of the whole history, whose items are in the log."""
        tools, model = await self._tools(data), self._model or data.agent.model
        instructions = data.model_data.instructions or ""
        if self._list is not None:
            fitted = await self._list.fit(
                data.model_data.input, instructions, tools=tools, model=model
            )
            self.call, system, body = fitted.call, fitted.system, fitted.messages
        else:
            query = _newest_user_text(data.model_data.input) if self._recall else ""
            context, shown = await self.session.off_loop(
                self._context(instructions, query, tools, model)
            )
            system = system_texts(context)
            body = own_last(shown, self.session.run.own, conversation=self.session.session_id)
        before = (
            [system_message([{"type": "text", "text": text} for text in system])] if system else []
        )
        sent = wire.openai_responses.request([*before, *body]).kwargs
        items = [
            as_sent(item, omit_ids=self._omit_ids) for item in list_of(sent.get("input")) or []
        ]
        sent_instructions = sent.get("instructions")
        return ModelInputData(
            items,
            sent_instructions
            if isinstance(sent_instructions, str)
            else data.model_data.instructions,
        )

    async def _context(
        self, instructions: str, query: str, tools: list[dict[str, object]], model: object
    ) -> tuple[Context, list[NumberedMessage]]:
        """Return the context with these instructions, and the messages to send after them."""
        session = self.session.awaiting
        await count_for(session, model)
        if instructions:
            await session.system(instructions)
        texts = [instructions] if instructions else []
        async with session.system_lock:
            context = await context_with_system(
                session, texts, query or None, tools=tools, to=wire.openai_responses
            )
        self.call = session.last_call
        return context, numbered_messages(context)

    async def _tools(self, data: CallModelData[Any]) -> list[dict[str, object]]:
        """Return the tool schemas of an agent; they are read from its MCP servers once per run."""
        known = self._schemas.get(id(data.agent))
        if known is None or known[0] is not data.agent:
            made = await tool_schemas(
                data.agent, RunContextWrapper(data.context), check=self._check_served
            )
            self._schemas[id(data.agent)] = known = (data.agent, made)
        return known[1]

    def _check_served(self, tool: FunctionTool) -> None:
        """Raise `InvalidOption` for a tool whose repeated calls cannot be answered with the remembered result.

        A finding rule with `serve` asks for that; it needs a guardrail that can answer the tool's calls.
        """
        if not self.session.pending.has_rules:
            return
        rule = rule_for(self.session.awaiting.findings.rules, tool.name)
        given = tool.tool_input_guardrails or ()
        if rule and rule.serve and all(one.guardrail_function is not _serve for one in given):
            raise InvalidOption(
                f"the rule of the tool {tool.name!r} has serve=True, but the SDK lets only a guardrail of the tool "
                "answer a call: give the tool tool_input_guardrails=[serve_findings], or the rule serve=False"
            )


def own_last(
    shown: Sequence[NumberedMessage], own: AbstractSet[int], *, conversation: str
) -> list[Message]:
    """Return the messages, with those of this run after those of other runs on the same conversation.

    `own` has the seqs of the entries that this run added. If no message of this run is left, an error is raised.
    """
    ordered = own_groups_last(
        shown,
        is_result=lambda one: one.message.role == "tool",
        is_own=lambda group: not own or any(one.seq in own for one in group),
    )
    if ordered is None:
        raise lost_from_window("any message of this run", conversation)
    return [one.message for one in ordered]


class FollowedItems:
    """Follows a list of items that is a whole conversation, in a separate session."""

    def __init__(self, session: TurnfoldSession, *, recall: bool) -> None:
        self._off_loop = session.off_loop
        self._records: dict[str, Message] = {}
        self._view = HistoryView(
            session.awaiting,
            lambda fields: self._records[str(fields["name"])],
            recall=recall,
            continues=False,
        )
        self._items: list[TResponseInputItem] = []
        self._history: list[JsonObject] = []

    def is_continued_by(self, items: _Items) -> bool:
        """Return True if a list begins with the whole list that was followed last."""
        return self._view.is_continued_by(self._converted(items))

    async def fit(
        self,
        items: _Items,
        instructions: str,
        *,
        tools: Sequence[Mapping[str, object]],
        model: object,
    ) -> FittedRequest:
        """Make the session's log follow the list, and return the request to send instead."""
        history = self._converted(items)
        texts = [instructions] if instructions else []
        to = wire.openai_responses
        return await self._off_loop(
            self._view.fit(history, system=texts, tools=tools, to=to, model=model)
        )

    def _converted(self, items: _Items) -> list[JsonObject]:
        """Convert items to the fields by which `HistoryView` compares stored messages: a name of the content."""
        items = calls_before_outputs(items)
        first = len(self._items)
        # Only after an output or a user message it is certain that no record goes on.
        last = cast("JsonObject", self._items[-1]) if self._items else {}
        ended = text_at(last, "type").endswith("_output") or last.get("role") == "user"
        if not ended or items[:first] != self._items:
            first, self._history, self._records = 0, [], {}
        for record in records_of(items[first:]):
            keys = (content_key(cast("Mapping[str, object]", item)) for item in items_of(record))
            name = "\x1e".join(keys)
            self._records[name] = record
            self._history.append({"name": name})
        self._items = items
        return list(self._history)


async def tool_schemas(
    agent: Agent[Any],
    context: RunContextWrapper[Any],
    *,
    check: Callable[[FunctionTool], None] | None = None,
) -> list[dict[str, object]]:
    """Return the schemas of an agent's tools, handoffs and output, including disabled ones.

    `check` is called with every function tool.
    """
    found: list[dict[str, object]] = []
    for tool in (*agent.tools, *await agent.get_mcp_tools(context)):
        if isinstance(tool, FunctionTool):
            if check is not None:
                check(tool)
            found.append(function_schema(tool.name, tool.description, tool.params_json_schema))
        else:
            found.append(function_schema(tool.name, "", {}))
    for each in agent.handoffs:
        to = each if isinstance(each, Handoff) else handoff(each)
        found.append(function_schema(to.tool_name, to.tool_description, to.input_json_schema))
    output = agent.output_type
    if output is not None and output is not str:
        form = output if isinstance(output, AgentOutputSchemaBase) else AgentOutputSchema(output)
        if not form.is_plain_text():
            found.append(function_schema(form.name(), "", form.json_schema()))
    return found


def _newest_user_text(items: _Items) -> str:
    for item in reversed(cast("Sequence[Mapping[str, object]]", items)):
        if item.get("role") == "user":
            return text_of(item)
    return ""


_NO_MEMORY = "error: this run has no turnfold memory: Runner.run(..., **turnfold_run(session))"


def recall_tool(*, max_tokens: int = 2000) -> FunctionTool:
    """Return the tool `recall_context` for `Agent(tools=[recall_tool()])`: it finds earlier content of a run."""

    async def recall_context(context: ToolContext[Any], text: str) -> str:
        config = context.run_config
        view = config.call_model_input_filter if config else None
        if not isinstance(view, ItemsView):
            return _NO_MEMORY
        try:
            arguments: object = json.loads(text or "{}")
        except ValueError as error:
            return f"error: the arguments are not JSON: {error}"
        if not isinstance(arguments, dict):
            return "error: the arguments are not a JSON object"
        session = view.searched
        tool = RecallTool(session.awaiting, max_tokens=max_tokens)
        return await session.off_loop(tool.call(cast("dict[str, object]", arguments)))

    return FunctionTool(
        name=RECALL_CONTEXT,
        description=RecallTool.description,
        params_json_schema=recall_parameters(max_tokens=max_tokens),
        on_invoke_tool=recall_context,
        strict_json_schema=False,
    )


async def _serve(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
    """Guardrail of a tool: reject the call with its remembered result as content, if there is one.

    Otherwise the call is allowed.
    """
    context = data.context
    view = context.run_config.call_model_input_filter if context.run_config else None
    if not isinstance(view, ItemsView):
        return ToolGuardrailFunctionOutput.allow()
    session = view.session
    found = await session.off_loop(session.awaiting.findings.serve(_call_of(context)))
    if found is None:
        return ToolGuardrailFunctionOutput.allow()
    return ToolGuardrailFunctionOutput.reject_content(served_text(found))


serve_findings: ToolInputGuardrail[Any] = ToolInputGuardrail(_serve, name="serve_findings")
"""Guardrail for tools whose rule has `serve`: answers a repeated call from the findings (remembered results) of the
calling run."""


class TurnfoldRun(TypedDict):
    """Keyword arguments of `Runner.run`, `run_sync` and `run_streamed`."""

    session: TurnfoldSession
    run_config: RunConfig
    hooks: RunHooks[Any]


def turnfold_run(
    memory: AsyncMemory | Memory | AsyncSession | Session,
    conversation: str = "",
    *,
    run_config: RunConfig | None = None,
    hooks: RunHooks[Any] | None = None,
    recall: bool = True,
    findings: RuleSource | Sequence[FindingRule] = (),
) -> TurnfoldRun:
    """Return the arguments for `Runner.run(agent, "...", **turnfold_run(memory.session("s1")))`; for one run at a time.

    `run_config` and `hooks` are the run's own and stay in use: your `call_model_input_filter` is called last, with the
    input that turnfold would send. Options that cut or rewrite the history of a run (session_input_callback,
    handoff_input_filter, nest_handoff_history, a limit of items) are followed: a model is not shown what they leave
    out, and the session keeps it. With `recall`, folded (compacted) content that matches the user's words is shown
    again. To let the model ask for earlier content, give the agent the tool `recall_tool()`. `findings` are the rules
    by which tool results are remembered, or an `AgentMemory`; a tool whose rule has `serve` needs the guardrail
    `serve_findings`.
    """
    own_config = run_config or RunConfig()
    session = TurnfoldSession(
        memory,
        conversation,
        session_settings=own_config.session_settings,
        findings=as_finding_rules(findings),
    )
    omit_ids = own_config.reasoning_item_id_policy == "omit"
    theirs = own_config.call_model_input_filter
    view = ItemsView(
        session,
        recall=recall,
        omit_ids=omit_ids,
        theirs=theirs,
        model=own_config.model,
        rewrites=own_config.session_input_callback is not None,
    )
    guarded = bool(own_config.output_guardrails)
    run_hooks = TurnfoldHooks(view, theirs=hooks, omit_ids=omit_ids, guarded=guarded)
    config = replace(own_config, call_model_input_filter=view)
    if session.pending.has_rules:
        formatter = _noting_failures(session, own_config.tool_error_formatter)
        config = replace(config, tool_error_formatter=formatter)
    return TurnfoldRun(session=session, run_config=config, hooks=run_hooks)


class TurnfoldHooks(RunHooks[Any]):
    """The hooks of a run: each does turnfold's work, then calls the same hook of `theirs`, the user's own hooks."""

    def __init__(
        self,
        view: ItemsView,
        *,
        theirs: RunHooks[Any] | None = None,
        omit_ids: bool = False,
        guarded: bool = False,
    ) -> None:
        self._view = view
        self._theirs = theirs or RunHooks[Any]()
        self._omit_ids = omit_ids
        self._guarded = guarded
        """True if the run, and not only an agent, has output guardrails."""
        self._step = _Step(view.session, ())

    async def on_llm_start(
        self,
        context: RunContextWrapper[Any],
        agent: Agent[Any],
        system_prompt: str | None,
        input_items: list[TResponseInputItem],
    ) -> None:
        """Call the same hook of the user's own hooks; turnfold does nothing here."""
        await self._theirs.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse
    ) -> None:
        """Record the token usage, and keep the response in memory, to store it before its tools run."""
        items = [_as_added(item, self._omit_ids) for item in response.to_input_items()]
        self._step = _Step(self._view.session, tuple(items))
        self._view.session.run.open_calls.clear()
        usage, session = response.usage, self._view.last.session
        cached = usage.input_tokens_details.cached_tokens or 0
        reported = Usage(input=usage.input_tokens, output=usage.output_tokens, cached=cached)
        await session.off_loop(record_usage(session.awaiting, reported, call=self._view.last.call))
        await self._theirs.on_llm_end(context, agent, response)

    async def on_tool_start(
        self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool
    ) -> None:
        """Store the response that calls the tool before the tool runs, unless a guardrail may still reject it."""
        if not self._may_reject(agent):
            await self._step.store()
        if call := _call_id(context):
            self._view.session.run.open_calls.add(call)
            self._step.tool_started(call)
            self._give_own_view(context, call)
        session = self._view.session
        if session.pending.has_rules and isinstance(context, ToolContext):
            await session.off_loop(session.pending.started(_call_of(context)))
        await self._theirs.on_tool_start(context, agent, tool)

    async def on_tool_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool, result: object
    ) -> None:
        """Remove the tool call from the running calls, and store its result.

        The SDK adds results only when all tools of the response have ended, and none if the run is cancelled before.
        """
        session, call = self._view.session, _call_id(context)
        session.run.open_calls.discard(call)
        if session.pending.has_rules:
            if _timed_out(tool, result):
                session.pending.failed(call)
            withheld = self._may_reject(agent)
            await session.off_loop(session.pending.ended(call, result, may_be_withheld=withheld))
        item = None if self._may_reject(agent) else _output_item(context, tool, result)
        if item is not None:
            await self._step.store_output(call, item)
        self._step.tool_ended(call)
        await self._theirs.on_tool_end(context, agent, tool, result)

    def _may_reject(self, agent: Agent[Any]) -> bool:
        """Return True if tool results may be the agent's output, which guardrails check only after the tools ran."""
        guarded = self._guarded or bool(agent.output_guardrails)
        return guarded and agent.tool_use_behavior != "run_llm_again"

    def _give_own_view(self, context: RunContextWrapper[Any], call: str) -> None:
        """Give a running tool an input filter of its own, in case the tool is an agent that calls a model."""
        config = context.run_config if isinstance(context, ToolContext) else None
        if config is not None and config.call_model_input_filter is self._view:
            own = replace(config, call_model_input_filter=self._view.of_tool(call))
            cast("ToolContext[Any]", context).run_config = own

    async def on_agent_start(self, context: AgentHookContext[Any], agent: Agent[Any]) -> None:
        """Call the same hook of the user's own hooks; turnfold does nothing here."""
        await self._theirs.on_agent_start(context, agent)

    async def on_agent_end(
        self, context: AgentHookContext[Any], agent: Agent[Any], output: object
    ) -> None:
        """Call the same hook of the user's own hooks; turnfold does nothing here."""
        await self._theirs.on_agent_end(context, agent, output)

    async def on_handoff(
        self, context: RunContextWrapper[Any], from_agent: Agent[Any], to_agent: Agent[Any]
    ) -> None:
        """Call the same hook of the user's own hooks; turnfold does nothing here."""
        await self._theirs.on_handoff(context, from_agent, to_agent)


_WAIT_FOR_EARLIER: Final = 0.1
"""Seconds that the output of a tool waits for those of earlier calls, to be stored after them."""


class _Step:
    """A model response with tool calls, stored once before the first tool runs; the tools may run in parallel.

    The output of each tool is stored when the tool has ended.
    """

    def __init__(self, session: TurnfoldSession, items: tuple[TResponseInputItem, ...]) -> None:
        self._session = session
        self._items = items
        self._stored_before = session.run.times_stored(items)
        self._storing: asyncio.Future[None] | None = None
        self._running: dict[str, asyncio.Event] = {}
        """Id of each tool call that has started -> event that is set when its output is stored."""

    async def store(self) -> None:
        session = self._session
        if self._storing is None:
            # The response of a resumed run is already in the log, or held back by the SDK.
            if session.run.times_stored(self._items) > self._stored_before or not self._items:
                return
            self._storing = asyncio.ensure_future(session.add_response_ahead(self._items))
        # The cancellation of one tool must not cancel the write, for which other tools wait.
        await asyncio.shield(self._storing)

    def tool_started(self, call: str) -> None:
        self._running[call] = asyncio.Event()

    def tool_ended(self, call: str) -> None:
        if call in self._running:
            self._running[call].set()

    async def store_output(self, call: str, item: TResponseInputItem) -> None:
        """Store a tool's output; also if the run is cancelled meanwhile, because the tool has done its work."""
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_WAIT_FOR_EARLIER):
                    for event in self._before(call):
                        await event.wait()
        finally:
            await asyncio.shield(asyncio.ensure_future(self._session.add_output_ahead(item)))

    def _before(self, call: str) -> list[asyncio.Event]:
        """Return the events of the calls that come before a call in the response."""
        fields = map(object_of, self._items)
        order = [text_at(one, "call_id") for one in fields if one]
        earlier = order[: order.index(call)] if call in order else []
        return [self._running[one] for one in earlier if one in self._running]


def _output_item(
    context: RunContextWrapper[Any], tool: Tool, result: object
) -> TResponseInputItem | None:
    """Return a function tool's output as the item that the SDK will add; None if only the SDK can make the item."""
    if not isinstance(context, ToolContext) or not isinstance(tool, FunctionTool):
        return None
    call = context.tool_call
    if call is None or tool.output_json_schema is not None:
        return None
    return cast("TResponseInputItem", ItemHelpers.tool_call_output_item(call, result))


def _call_id(context: RunContextWrapper[Any]) -> str:
    return str(getattr(context, "tool_call_id", ""))


def _call_of(context: ToolContext[Any]) -> ToolCall:
    return ToolCall(context.tool_call_id, context.tool_name, context.tool_arguments)


def _noting_failures(
    session: TurnfoldSession, theirs: ToolErrorFormatter | None
) -> ToolErrorFormatter:
    """Return a function that formats tool errors for the SDK, and records which tool calls failed.

    The SDK's hooks cannot tell an error text from a result.
    """

    async def formatted(args: ToolErrorFormatterArgs[Any]) -> str | None:
        session.pending.failed(args.call_id)
        text = theirs(args) if theirs is not None else None
        return await text if inspect.isawaitable(text) else text

    return formatted


def _timed_out(tool: Tool, result: object) -> bool:
    """Return True if a result is the SDK's own text for a tool that took too long."""
    if not isinstance(tool, FunctionTool) or tool.timeout_seconds is None:
        return False
    return result == default_tool_timeout_error_message(
        tool_name=tool.name, timeout_seconds=tool.timeout_seconds
    )


def _as_added(item: TResponseInputItem, omit_ids: bool) -> TResponseInputItem:  # noqa: FBT001
    """Return an item of a model response in the form in which the SDK adds it to a session."""
    fields = cast("dict[str, object]", item)
    left = {"status"} if fields.get("status", "") is None else set[str]()
    if omit_ids and fields.get("type") == "reasoning":
        left.add("id")
    kept = {key: value for key, value in fields.items() if key not in left}
    return cast("TResponseInputItem", kept)
