"""Memory for one run, as the keyword arguments of `Runner.run`.

Three of the SDK's own places are used, none of which touches the agent or the run's result: a session that keeps the
items, a filter that shapes what a model is sent, and hooks that store a response before its tools run and note what
the provider counted.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, TypedDict, cast

from agents import (
    Agent,
    AgentHookContext,
    ModelResponse,
    RunConfig,
    RunContextWrapper,
    RunHooks,
    Tool,
    TResponseInputItem,
)

from turnfold.adapters.openai_agents.session import TurnfoldSession
from turnfold.adapters.openai_agents.view import RunView
from turnfold.errors import InvalidOption
from turnfold.memory import AsyncMemory, AsyncSession, Memory, Session
from turnfold.records import Usage

__all__ = ("TurnfoldHooks", "TurnfoldRun", "turnfold_run")


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
    nest_handoff_history, a limit of items) is refused. `recall` brings back what was folded and matches the user's
    words; the tool for it is `recall_tool()`, which belongs to the agent.
    """
    given = run_config or RunConfig()
    _refuse_rewriting(given)
    session = TurnfoldSession(memory, conversation, session_settings=given.session_settings)
    omit_ids = given.reasoning_item_id_policy == "omit"
    theirs = given.call_model_input_filter
    view = RunView(session, recall=recall, omit_ids=omit_ids, theirs=theirs)
    watching = TurnfoldHooks(view, theirs=hooks, omit_ids=omit_ids)
    config = replace(given, call_model_input_filter=view)
    return TurnfoldRun(session=session, run_config=config, hooks=watching)


class TurnfoldHooks(RunHooks[Any]):
    """The hooks of a run: what turnfold needs, then what `theirs` do."""

    def __init__(
        self, view: RunView, *, theirs: RunHooks[Any] | None = None, omit_ids: bool = False
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
        """Nothing of turnfold's."""
        await self._theirs.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse
    ) -> None:
        """Note what the provider counted, and what the model asked for."""
        items = [_as_saved(item, self._omit_ids) for item in response.to_input_items()]
        self._step = _Step(tuple(items))
        self._view.running.clear()
        usage = response.usage
        if self._view.call and usage.input_tokens:
            cached = usage.input_tokens_details.cached_tokens or 0
            reported = Usage(input=usage.input_tokens, output=usage.output_tokens, cached=cached)
            session = self._view.session
            await session.off_loop(session.awaiting.record_usage(reported, call=self._view.call))
        await self._theirs.on_llm_end(context, agent, response)

    async def on_tool_start(
        self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool
    ) -> None:
        """Store the response that calls the tool, before it runs."""
        await self._step.store(self._view.session)
        if call := _call_of(context):
            self._view.running.add(call)
        await self._theirs.on_tool_start(context, agent, tool)

    async def on_tool_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool, result: object
    ) -> None:
        """The tool is done."""
        self._view.running.discard(_call_of(context))
        await self._theirs.on_tool_end(context, agent, tool, result)

    async def on_agent_start(self, context: AgentHookContext[Any], agent: Agent[Any]) -> None:
        """Nothing of turnfold's."""
        await self._theirs.on_agent_start(context, agent)

    async def on_agent_end(
        self, context: AgentHookContext[Any], agent: Agent[Any], output: object
    ) -> None:
        """Nothing of turnfold's."""
        await self._theirs.on_agent_end(context, agent, output)

    async def on_handoff(
        self, context: RunContextWrapper[Any], from_agent: Agent[Any], to_agent: Agent[Any]
    ) -> None:
        """Nothing of turnfold's."""
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
        await asyncio.shield(
            self._storing
        )  # one tool that is cancelled must not cancel it for the others


def _refuse_rewriting(config: RunConfig) -> None:
    rewriting = {
        "session_input_callback": config.session_input_callback is not None,
        "handoff_input_filter": config.handoff_input_filter is not None,
        "nest_handoff_history": config.nest_handoff_history,
        "session_settings.limit": config.session_settings is not None
        and config.session_settings.limit is not None,
    }
    named = [name for name, used in rewriting.items() if used]
    if named:
        raise InvalidOption(
            f"run_config has {', '.join(named)}, which decides what a model sees of the history, as turnfold does. "
            "That can be decided in one place only: use a Budget, or call_model_input_filter, which is called last"
        )


def _call_of(context: RunContextWrapper[Any]) -> str:
    return str(getattr(context, "tool_call_id", ""))


def _as_saved(item: TResponseInputItem, omit_ids: bool) -> TResponseInputItem:  # noqa: FBT001
    """An item of a response as the SDK adds it to a session."""
    fields = cast("dict[str, object]", item)
    left = {"status"} if fields.get("status", "") is None else set[str]()
    if omit_ids and fields.get("type") == "reasoning":
        left.add("id")
    kept = {key: value for key, value in fields.items() if key not in left}
    return cast("TResponseInputItem", kept)
