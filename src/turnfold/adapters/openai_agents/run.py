"""Memory for one run of the OpenAI Agents SDK, as keyword arguments of `Runner.run`.

Three of the SDK's own extension points are used, none of which touches the agent or the run's result: a session that
stores the items, a filter that shapes what a model is sent, and hooks that store a response before its tools run and
record the usage.

The tool `recall_context` holds no session, because tools belong to an agent and agents are shared by runs: it answers
from the memory of the run that calls it. Adding it in a run's hooks would change the agent under every other run, which
the SDK refuses.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any, TypedDict, cast

from agents import (
    Agent,
    AgentHookContext,
    FunctionTool,
    ModelResponse,
    RunConfig,
    RunContextWrapper,
    RunHooks,
    Tool,
    TResponseInputItem,
)
from agents.tool_context import ToolContext

from turnfold.adapters._common import record_usage
from turnfold.adapters.openai_agents.session import TurnfoldSession
from turnfold.adapters.openai_agents.view import ItemsView
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
from turnfold.records import Usage

__all__ = (
    "TurnfoldHooks",
    "TurnfoldRun",
    "recall_tool",
    "turnfold_run",
)


_NO_MEMORY = "error: this run has no turnfold memory: Runner.run(..., **turnfold_run(session))"


def recall_tool(*, max_tokens: int = 2000) -> FunctionTool:
    """Return the tool for `Agent(tools=[recall_tool()])`: folded (compacted) or omitted content in `max_tokens`."""

    async def recall_context(context: ToolContext[Any], text: str) -> str:
        config = context.run_config
        view = config.call_model_input_filter if config else None
        if not isinstance(view, ItemsView):
            return _NO_MEMORY
        try:
            arguments: object = json.loads(text or "{}")
        except ValueError as error:
            return f"error: the arguments are no JSON: {error}"
        if not isinstance(arguments, dict):
            return "error: the arguments are no object"
        tool = RecallTool(view.session.awaiting, max_tokens=max_tokens)
        return await view.session.off_loop(tool.call(cast("dict[str, object]", arguments)))

    return FunctionTool(
        name=RECALL_CONTEXT,
        description=RecallTool.description,
        params_json_schema=recall_parameters(max_tokens=max_tokens),
        on_invoke_tool=recall_context,
        strict_json_schema=False,
    )


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
) -> TurnfoldRun:
    """Memory for `Runner.run(agent, "...", **turnfold_run(memory.session("s1")))`; for one run at a time.

    `run_config` and `hooks` are the run's own, and are kept: a `call_model_input_filter` is called last, with what
    turnfold would send. What else cuts or rewrites the history (session_input_callback, handoff_input_filter,
    nest_handoff_history, a limit of items) is refused. `recall` brings back folded content that matches the user's
    words; the tool for it is `recall_tool()`, which belongs to the agent.
    """
    own_config = run_config or RunConfig()
    _refuse_rewriting(own_config)
    session = TurnfoldSession(memory, conversation, session_settings=own_config.session_settings)
    omit_ids = own_config.reasoning_item_id_policy == "omit"
    theirs = own_config.call_model_input_filter
    view = ItemsView(session, recall=recall, omit_ids=omit_ids, theirs=theirs)
    run_hooks = TurnfoldHooks(view, theirs=hooks, omit_ids=omit_ids)
    config = replace(own_config, call_model_input_filter=view)
    return TurnfoldRun(session=session, run_config=config, hooks=run_hooks)


class TurnfoldHooks(RunHooks[Any]):
    """The hooks of a run: those turnfold needs, then `theirs`."""

    def __init__(
        self, view: ItemsView, *, theirs: RunHooks[Any] | None = None, omit_ids: bool = False
    ) -> None:
        self._view = view
        self._theirs = theirs or RunHooks[Any]()
        self._omit_ids = omit_ids
        self._step = _Step(())

    async def on_llm_start(
        self,
        context: RunContextWrapper[Any],
        agent: Agent[Any],
        system_prompt: str | None,
        input_items: list[TResponseInputItem],
    ) -> None:
        """Call the run's own hook."""
        await self._theirs.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse
    ) -> None:
        """Record the usage, and remember what the model called."""
        items = [_as_added(item, self._omit_ids) for item in response.to_input_items()]
        self._step = _Step(tuple(items))
        self._view.running.clear()
        usage, session = response.usage, self._view.session
        cached = usage.input_tokens_details.cached_tokens or 0
        reported = Usage(input=usage.input_tokens, output=usage.output_tokens, cached=cached)
        await session.off_loop(record_usage(session.awaiting, reported, call=self._view.call))
        await self._theirs.on_llm_end(context, agent, response)

    async def on_tool_start(
        self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool
    ) -> None:
        """Store the response that calls the tool, before it runs."""
        await self._step.store(self._view.session)
        if call := _call_id(context):
            self._view.running.add(call)
        await self._theirs.on_tool_start(context, agent, tool)

    async def on_tool_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool, result: object
    ) -> None:
        """Note that the tool is done."""
        self._view.running.discard(_call_id(context))
        await self._theirs.on_tool_end(context, agent, tool, result)

    async def on_agent_start(self, context: AgentHookContext[Any], agent: Agent[Any]) -> None:
        """Call the run's own hook."""
        await self._theirs.on_agent_start(context, agent)

    async def on_agent_end(
        self, context: AgentHookContext[Any], agent: Agent[Any], output: object
    ) -> None:
        """Call the run's own hook."""
        await self._theirs.on_agent_end(context, agent, output)

    async def on_handoff(
        self, context: RunContextWrapper[Any], from_agent: Agent[Any], to_agent: Agent[Any]
    ) -> None:
        """Call the run's own hook."""
        await self._theirs.on_handoff(context, from_agent, to_agent)


class _Step:
    """A response whose tools may run side by side: stored once, before the first of them."""

    def __init__(self, items: tuple[TResponseInputItem, ...]) -> None:
        self._items = items
        self._storing: asyncio.Future[None] | None = None

    async def store(self, session: TurnfoldSession) -> None:
        if not self._items:
            return  # the response of a run that is resumed: it is in the log, or held back by the SDK
        if self._storing is None:
            self._storing = asyncio.ensure_future(session.add_response_ahead(self._items))
        # A tool that is cancelled must not cancel it for the others.
        await asyncio.shield(self._storing)


def _refuse_rewriting(config: RunConfig) -> None:
    rewriting = {
        "session_input_callback": config.session_input_callback is not None,
        "handoff_input_filter": config.handoff_input_filter is not None,
        "nest_handoff_history": config.nest_handoff_history,
        "session_settings.limit": config.session_settings is not None
        and config.session_settings.limit is not None,
    }
    rewriting_options = [name for name, used in rewriting.items() if used]
    if rewriting_options:
        raise InvalidOption(
            f"run_config has {', '.join(rewriting_options)}, which edits the history a model sees, as turnfold does. "
            "Only one component may: use a Budget, or call_model_input_filter, which is called last"
        )


def _call_id(context: RunContextWrapper[Any]) -> str:
    return str(getattr(context, "tool_call_id", ""))


def _as_added(item: TResponseInputItem, omit_ids: bool) -> TResponseInputItem:  # noqa: FBT001
    """Return an item of a response as the SDK adds it to a session."""
    fields = cast("dict[str, object]", item)
    left = {"status"} if fields.get("status", "") is None else set[str]()
    if omit_ids and fields.get("type") == "reasoning":
        left.add("id")
    kept = {key: value for key, value in fields.items() if key not in left}
    return cast("TResponseInputItem", kept)
