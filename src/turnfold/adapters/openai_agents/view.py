"""Show a model the session's context as items of the Responses API.

The SDK calls `call_model_input_filter` before every model call, and keeps its own list whole. Items of that list that
are not in the log yet are stored first; then the session's context is sent instead of it. A run that another filter has
rewritten is refused: putting the log's version back would undo, for example, a redaction.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, cast

from agents import (
    Agent,
    AgentOutputSchema,
    FunctionTool,
    Handoff,
    RunContextWrapper,
    TResponseInputItem,
    handoff,
)
from agents.agent_output import AgentOutputSchemaBase
from agents.run_config import CallModelData, CallModelInputFilter, ModelInputData

from turnfold import wire
from turnfold.adapters._common import (
    context_with_system,
    function_schema,
    lost_from_window,
    own_groups_last,
)
from turnfold.adapters.openai_agents.items import as_sent, items_of, records_of, text_of
from turnfold.adapters.openai_agents.session import TurnfoldSession
from turnfold.records import Message
from turnfold.window import Context, Section
from turnfold.wire import list_of

__all__ = (
    "ItemsView",
    "NumberedItem",
    "own_last",
    "tool_schemas",
)


_Items = Sequence[TResponseInputItem]


class NumberedItem(NamedTuple):
    """A message of a context with the seq of its entry."""

    seq: int
    """0 for what is in no log: the summary, recalled content."""
    message: Message


class ItemsView:
    """The `call_model_input_filter` of a run. `theirs`, where the run had one, is called last."""

    def __init__(
        self,
        session: TurnfoldSession,
        *,
        recall: bool,
        omit_ids: bool = False,
        theirs: CallModelInputFilter | None = None,
    ) -> None:
        self.session = session
        self.call = ""
        """Id of the last call."""
        self.running: set[str] = set()
        """Tool calls that are running now: a model called meanwhile is that of an agent used as a tool."""
        self._recall = recall
        self._omit_ids = omit_ids
        """True to send reasoning without its id."""
        self._theirs = theirs
        self._schemas: dict[int, tuple[object, list[dict[str, object]]]] = {}

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the session's context instead of the whole history."""
        shaped = data.model_data
        if not self._is_tool_agent(shaped.input):
            await self._catch_up(shaped.input)
            shaped = await self._shape(data)
        if self._theirs is None:
            return shaped
        edited = self._theirs(CallModelData(shaped, data.agent, data.context))
        return await edited if inspect.isawaitable(edited) else edited

    def _is_tool_agent(self, items: _Items) -> bool:
        """Return True for the call of an agent that works as a tool of this run: it inherits the filter."""
        return bool(self.running) and not self.running <= _answered_calls(items)

    async def _catch_up(self, items: list[TResponseInputItem]) -> None:
        """Store items that are not in the log yet; check that none were removed from the run."""
        session = self.session
        if not session.run.begun:  # a run that is resumed does not ask for its items
            await session.get_items()
        new = session.run.unstored(items)
        if new:
            await session.add_ahead(new)
        session.run.sent(items)

    async def _shape(self, data: CallModelData[Any]) -> ModelInputData:
        model_data = data.model_data
        query = _newest_user_text(model_data.input) if self._recall else ""
        tools = await self._tools(data)
        context, shown = await self.session.off_loop(
            self._context(model_data.instructions or "", query, tools)
        )
        body = own_last(shown, self.session.run.own, conversation=self.session.session_id)
        sent = wire.openai_responses.request([*context.section(Section.SYSTEM), *body]).kwargs
        items = [
            as_sent(item, omit_ids=self._omit_ids) for item in list_of(sent.get("input")) or []
        ]
        instructions = sent.get("instructions")
        return ModelInputData(
            items, instructions if isinstance(instructions, str) else model_data.instructions
        )

    async def _context(
        self, instructions: str, query: str, tools: list[dict[str, object]]
    ) -> tuple[Context, list[NumberedItem]]:
        """Return the context under these instructions, and what is shown of it behind them."""
        session = self.session.awaiting
        if instructions:
            await session.system(instructions)
        texts = [instructions] if instructions else []
        context = await context_with_system(
            session, texts, query or None, tools=tools, to=wire.openai_responses
        )
        self.call = session.last_call
        return context, _visible_items(context, await self.session.hidden())

    async def _tools(self, data: CallModelData[Any]) -> list[dict[str, object]]:
        """Return the schemas of an agent, read from its servers once per run."""
        known = self._schemas.get(id(data.agent))
        if known is None or known[0] is not data.agent:
            made = await tool_schemas(data.agent, RunContextWrapper(data.context))
            self._schemas[id(data.agent)] = known = (data.agent, made)
        return known[1]


def own_last(
    shown: Sequence[NumberedItem], own: AbstractSet[int], *, conversation: str
) -> list[Message]:
    """Return the messages with this run's behind those of other runs on the same conversation.

    `own` are the seqs of what this run added.
    """
    ordered = own_groups_last(
        shown,
        is_result=lambda one: one.message.role == "tool",
        is_own=lambda group: not own or any(one.seq in own for one in group),
    )
    if ordered is None:
        raise lost_from_window("all messages of this run are", conversation)
    return [one.message for one in ordered]


def _visible_items(context: Context, hidden: Mapping[int, int]) -> list[NumberedItem]:
    """Return the messages behind the system message, without popped ones; `hidden` has how many items of a seq stay."""
    _, summary, window, tail = context.ends
    positions = iter(context.positions)
    shown: list[NumberedItem] = []
    for index in range(context.ends[0], len(context.messages)):
        message = context.messages[index]
        logged = summary <= index < window or index >= tail
        seq = next(positions) if logged else 0
        if seq in hidden:
            kept = records_of(items_of(message)[: hidden[seq]])
            shown += [NumberedItem(seq, record) for record in kept]
        else:
            shown.append(NumberedItem(seq, message))
    return shown


async def tool_schemas(
    agent: Agent[Any], context: RunContextWrapper[Any]
) -> list[dict[str, object]]:
    """Return the schemas of an agent's tools, handoffs and output, also of those switched off for now."""
    found: list[dict[str, object]] = []
    for tool in (*agent.tools, *await agent.get_mcp_tools(context)):
        if isinstance(tool, FunctionTool):
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


def _answered_calls(items: _Items) -> set[str]:
    """Return the ids of the calls that have their outputs."""
    found: set[str] = set()
    for item in cast("Sequence[Mapping[str, object]]", items):
        if str(item.get("type", "")).endswith("_output"):
            found.add(str(item.get("call_id", "")))
    return found


def _newest_user_text(items: _Items) -> str:
    for item in reversed(cast("Sequence[Mapping[str, object]]", items)):
        if item.get("role") == "user":
            return text_of(item)
    return ""
