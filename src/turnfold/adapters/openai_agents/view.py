"""What a model is shown of a run: the session's context, as items of the Responses API.

The SDK asks `call_model_input_filter` before every call of a model, and keeps its own list whole. Whatever of that list
is not in the log yet is stored first; then the session's context is sent instead of it. A run that another filter has
rewritten is refused: putting the log's version back would undo, for example, a redaction.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

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

from turnfold.adapters.openai_agents.items import as_sent, item_key, items_of, records_of, text_of
from turnfold.adapters.openai_agents.session import TurnfoldSession
from turnfold.errors import Conflict, InvalidOption
from turnfold.memory.told_context import told_context
from turnfold.records import Message
from turnfold.window import Context, Section
from turnfold.wire import openai_responses
from turnfold.wire.values import list_of

__all__ = ("RunView", "tool_schemas")

_Items = Sequence[TResponseInputItem]


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
        self._begun = 0
        self._before: list[TResponseInputItem] = []
        """What the SDK wanted to send last time."""
        self._seen: Counter[str] = Counter()
        """The keys of it."""
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
        if session.known is None:  # a run that is resumed does not ask for its items
            await session.get_items()
        if session.begun != self._begun:
            self._begun, self._before = session.begun, []
        if not self._before or items[: len(self._before)] != self._before:
            self._check_whole(items)
            self._before, self._seen = [], Counter()
        new = self._unknown(items)
        if new:
            await session.add_ahead(new)
        self._before = list(items)

    def _check_whole(self, items: _Items) -> None:
        missing = set(map(_key, self._before)) - set(map(_key, items))
        if missing:
            raise InvalidOption(
                f"{len(missing)} of the {len(self._before)} items of this run's last call are gone: a handoff's "
                "input_filter took them out. What a model sees can be decided in one place only: let "
                "call_model_input_filter do it, which turnfold_run(run_config=...) calls last"
            )

    def _unknown(self, items: _Items) -> list[TResponseInputItem]:
        """The items at the end that nobody has stored; those of the last call are not looked at again."""
        known = self.session.known or Counter[str]()
        flags: list[bool] = []
        first = len(self._before)
        for item in items[first:]:
            key = _key(item)
            self._seen[key] += 1
            flags.append(self._seen[key] > known[key])
        if True not in flags:
            return []
        new = flags.index(True)
        if not all(flags[new:]):
            raise InvalidOption(
                f"item {first + new + 1} of {len(items)} of this run is not in the log and is not new either: the run "
                "began without this session, or something rewrote its input before turnfold saw it"
            )
        return list(items[first + new :])

    async def _shape(self, data: CallModelData[Any]) -> ModelInputData:
        session, given = self.session.awaiting, data.model_data
        if given.instructions:
            await session.system(given.instructions)
        query = _newest_words(given.input) if self._recall else None
        context = await told_context(
            session,
            [given.instructions] if given.instructions else [],
            query or None,
            tools=await self._tools(data),
            to=openai_responses,
        )
        self.call = session.last_call
        system = list(context.section(Section.SYSTEM))
        body = self._own_last(await self._shown(context))
        sent = openai_responses.request([*system, *body]).kwargs
        items = [
            as_sent(item, omit_ids=self._omit_ids) for item in list_of(sent.get("input")) or []
        ]
        told = sent.get("instructions")
        return ModelInputData(items, told if isinstance(told, str) else given.instructions)

    async def _shown(self, context: Context) -> list[tuple[int, Message]]:
        """The messages behind the system message with their seqs (0 for none), without what was popped."""
        hidden = await self.session.hidden()
        positions = iter(context.positions)
        _, summary, window, tail = context.ends
        shown: list[tuple[int, Message]] = []
        for index in range(context.ends[0], len(context.messages)):
            message = context.messages[index]
            logged = summary <= index < window or index >= tail
            seq = next(positions) if logged else 0
            if seq in hidden:
                kept = records_of(items_of(message)[: hidden[seq]])
                shown += [(seq, record) for record in kept]
            else:
                shown.append((seq, message))
        return shown

    def _own_last(self, shown: list[tuple[int, Message]]) -> list[Message]:
        """This run's groups behind those of another run on the same conversation: it must go on with its own turn."""
        own = self.session.own
        if not own or not shown or _head(shown) in own:
            return [message for _, message in shown]
        if not any(seq in own for seq, _ in shown):
            raise Conflict(
                f"nothing of this run is in the window of {self.session.session_id!r} any more: another run moved on "
                "meanwhile. Give each run a conversation of its own, or a larger budget"
            )
        others: list[Message] = []
        mine: list[Message] = []
        into = others
        for seq, message in shown:
            if message.role != "tool":  # a tool's answer stays with its call
                into = mine if seq in own else others
            into.append(message)
        return others + mine

    async def _tools(self, data: CallModelData[Any]) -> list[dict[str, object]]:
        """The schemas of an agent, asked of its servers once per run."""
        known = self._schemas.get(id(data.agent))
        if known is None or known[0] is not data.agent:
            made = await tool_schemas(data.agent, RunContextWrapper(data.context))
            self._schemas[id(data.agent)] = known = (data.agent, made)
        return known[1]


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


def _head(shown: Sequence[tuple[int, Message]]) -> int:
    """The seq of the message that the last group begins with."""
    return next((seq for seq, message in reversed(shown) if message.role != "tool"), shown[-1][0])


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


def _key(item: TResponseInputItem) -> str:
    return item_key(cast("Mapping[str, object]", item))
