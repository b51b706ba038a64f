"""What a model is shown of a run: the session's context, as items of the Responses API.

The SDK asks `call_model_input_filter` before every call of a model, and keeps its own list whole. Whatever of that list
is not in the log yet is stored first; then the session's context is sent instead of it. A run that another filter has
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

from turnfold.adapters.openai_agents.items import as_sent, items_of, records_of, text_of
from turnfold.adapters.openai_agents.session import TurnfoldSession
from turnfold.errors import Conflict
from turnfold.memory.told_context import told_context
from turnfold.records import Message
from turnfold.window import Context, Section
from turnfold.wire import openai_responses
from turnfold.wire.values import list_of

__all__ = ("Numbered", "RunView", "own_last", "tool_schemas")

_Items = Sequence[TResponseInputItem]


class Numbered(NamedTuple):
    """A message of a context and its entry."""

    seq: int
    """0 for what stands in no log: the summary, what was brought back."""
    message: Message


class RunView:
    """The `call_model_input_filter` of a run. `theirs`, where the run had one, has the last word."""

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
        """The call made last."""
        self.running: set[str] = set()
        """Calls of tools that are at work now: a model asked meanwhile is that of an agent used as a tool."""
        self._recall = recall
        self._omit_ids = omit_ids
        """Whether reasoning is sent without the id it was given."""
        self._theirs = theirs
        self._schemas: dict[int, tuple[object, list[dict[str, object]]]] = {}

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """The session's context instead of the whole history."""
        shaped = data.model_data
        if not self._of_a_tool(shaped.input):
            await self._catch_up(shaped.input)
            shaped = await self._shape(data)
        if self._theirs is None:
            return shaped
        told = self._theirs(CallModelData(shaped, data.agent, data.context))
        return await told if inspect.isawaitable(told) else told

    def _of_a_tool(self, items: _Items) -> bool:
        """Whether this is the call of an agent that works as a tool of this run: it inherits the filter."""
        return bool(self.running) and not self.running <= _answered(items)

    async def _catch_up(self, items: list[TResponseInputItem]) -> None:
        """Store what the log has not got yet; see that nothing was taken out of the run."""
        session = self.session
        if not session.run.begun:  # a run that is resumed does not ask for its items
            await session.get_items()
        new = session.run.unstored(items)
        if new:
            await session.add_ahead(new)
        session.run.sent(items)

    async def _shape(self, data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        query = _newest_words(given.input) if self._recall else ""
        tools = await self._tools(data)
        context, shown = await self.session.off_loop(
            self._context(given.instructions or "", query, tools)
        )
        body = own_last(shown, self.session.run.own, conversation=self.session.session_id)
        sent = openai_responses.request([*context.section(Section.SYSTEM), *body]).kwargs
        items = [
            as_sent(item, omit_ids=self._omit_ids) for item in list_of(sent.get("input")) or []
        ]
        told = sent.get("instructions")
        return ModelInputData(items, told if isinstance(told, str) else given.instructions)

    async def _context(
        self, instructions: str, query: str, tools: list[dict[str, object]]
    ) -> tuple[Context, list[Numbered]]:
        """The context under these instructions, and what is shown of it behind them."""
        session = self.session.awaiting
        told = [instructions] if instructions else []
        if instructions:
            await session.system(instructions)
        context = await told_context(session, told, query or None, tools=tools, to=openai_responses)
        self.call = session.last_call
        return context, _unhidden(context, await self.session.hidden())

    async def _tools(self, data: CallModelData[Any]) -> list[dict[str, object]]:
        """The schemas of an agent, asked of its servers once per run."""
        known = self._schemas.get(id(data.agent))
        if known is None or known[0] is not data.agent:
            made = await tool_schemas(data.agent, RunContextWrapper(data.context))
            self._schemas[id(data.agent)] = known = (data.agent, made)
        return known[1]


def own_last(
    shown: Sequence[Numbered], own: AbstractSet[int], *, conversation: str
) -> list[Message]:
    """The messages with this run's behind those of another run on the same conversation.

    A model goes on with what stands last, and each run must go on with its own turn. `own` are the seqs of what this
    run added; a tool's answer stays with its call.
    """
    groups: list[list[Numbered]] = []
    for one in shown:
        if one.message.role == "tool" and groups:
            groups[-1].append(one)
        else:
            groups.append([one])
    mine: list[list[Numbered]] = []
    others: list[list[Numbered]] = []
    for group in groups:
        (mine if any(one.seq in own for one in group) else others).append(group)
    if not own or not groups or (mine and mine[-1] is groups[-1]):
        return [one.message for one in shown]
    if not mine:
        raise Conflict(
            f"nothing of this run is in the window of {conversation!r} any more: another run moved on meanwhile. Give "
            "each run a conversation of its own, or a larger budget"
        )
    return [one.message for group in others + mine for one in group]


def _unhidden(context: Context, hidden: Mapping[int, int]) -> list[Numbered]:
    """The messages behind the system message, without what was popped; `hidden` says how many items of a seq stay."""
    _, summary, window, tail = context.ends
    positions = iter(context.positions)
    shown: list[Numbered] = []
    for index in range(context.ends[0], len(context.messages)):
        message = context.messages[index]
        logged = summary <= index < window or index >= tail
        seq = next(positions) if logged else 0
        if seq in hidden:
            kept = records_of(items_of(message)[: hidden[seq]])
            shown += [Numbered(seq, record) for record in kept]
        else:
            shown.append(Numbered(seq, message))
    return shown


async def tool_schemas(
    agent: Agent[Any], context: RunContextWrapper[Any]
) -> list[dict[str, object]]:
    """What an agent's tools, handoffs and output cost: all of them, also those switched off for now."""
    found: list[dict[str, object]] = []
    for tool in (*agent.tools, *await agent.get_mcp_tools(context)):
        if isinstance(tool, FunctionTool):
            found.append(_schema(tool.name, tool.description, tool.params_json_schema))
        else:
            found.append(_schema(tool.name, "", {}))
    for each in agent.handoffs:
        to = each if isinstance(each, Handoff) else handoff(each)
        found.append(_schema(to.tool_name, to.tool_description, to.input_json_schema))
    output = agent.output_type
    if output is not None and output is not str:
        form = output if isinstance(output, AgentOutputSchemaBase) else AgentOutputSchema(output)
        if not form.is_plain_text():
            found.append(_schema(form.name(), "", form.json_schema()))
    return found


def _schema(name: str, description: str, parameters: Mapping[str, object]) -> dict[str, object]:
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def _answered(items: _Items) -> set[str]:
    """The ids of the calls that have their outputs."""
    found: set[str] = set()
    for item in cast("Sequence[Mapping[str, object]]", items):
        if str(item.get("type", "")).endswith("_output"):
            found.add(str(item.get("call_id", "")))
    return found


def _newest_words(items: _Items) -> str:
    for item in reversed(cast("Sequence[Mapping[str, object]]", items)):
        if item.get("role") == "user":
            return text_of(item)
    return ""
