"""Memory for a Strands agent in one line, as its conversation manager.

Strands' own managers shorten `agent.messages` in place, after a turn or when a model has refused a request. This one
leaves the list alone: a middleware replaces the messages of each request by the session's context. Every message is in
the log when Strands adds it, so before a model is called and before a tool runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast
from weakref import ReferenceType, ref

from strands import Agent
from strands.agent.conversation_manager import ConversationManager
from strands.hooks import (
    AfterModelCallEvent,
    AgentInitializedEvent,
    HookRegistry,
    MessageAddedEvent,
)
from strands.middleware import InvokeModelContext, InvokeModelStage
from strands.models import Model
from strands.tools import PythonAgentTool
from strands.types.content import SystemContentBlock, SystemPrompt
from strands.types.tools import ToolResult as StrandsResult
from strands.types.tools import ToolSpec, ToolUse

from turnfold.adapters._common import HistoryView, ThreadBridge, function_schema, session_of
from turnfold.adapters.strands.messages import (
    fields_of,
    record_of_fields,
    strands_messages,
)
from turnfold.errors import InvalidOption
from turnfold.memory import (
    RECALL_CONTEXT,
    AsyncMemory,
    AsyncSession,
    Memory,
    RecallTool,
    Session,
)
from turnfold.records import Usage
from turnfold.wire import JsonObject, list_at, object_of

__all__ = ("TurnfoldConversationManager",)


_OTHER = "another middleware"


class TurnfoldConversationManager(ConversationManager):
    """A session as the conversation manager of one agent: `Agent(conversation_manager=...)`.

    With `recall`, folded (compacted) content that matches the user's words is shown again, and the model gets the tool
    `recall_context`, whose answers have at most `recall_tokens`. An agent that starts without messages continues the
    session; one that starts with messages makes the session follow them.
    """

    def __init__(
        self,
        memory: AsyncMemory | Memory | AsyncSession | Session,
        conversation: str = "",
        *,
        recall: bool = True,
        recall_tokens: int = 2000,
    ) -> None:
        super().__init__()
        session = session_of(memory, conversation)
        self._view = HistoryView(
            session, record_of_fields, adapter=type(self).__name__, recall=recall
        )
        self._recall = RecallTool(session, max_tokens=recall_tokens) if recall else None
        self._bridge = ThreadBridge(memory, own_loops="agent(...)")
        self._agent: ReferenceType[Agent] | None = None
        self._call = ""
        """Id of the last model call."""

    def register_hooks(self, registry: HookRegistry, **kwargs: object) -> None:
        """Register the callbacks that attach to the agent, store its messages and record token usage."""
        super().register_hooks(registry, **kwargs)
        registry.add_callback(AgentInitializedEvent, self._attach)
        registry.add_callback(MessageAddedEvent, self._store)
        registry.add_callback(AfterModelCallEvent, self._record_usage)

    def apply_management(self, agent: Agent, **kwargs: object) -> None:
        """Do nothing: requests are fitted when they are made, and `agent.messages` stays complete."""

    def reduce_context(self, agent: Agent, e: Exception | None = None, **kwargs: object) -> None:
        """Raise the error `e` again, with a note that names the remedy: a smaller `Budget`. Nothing is shortened here.

        Strands calls this method when the model has refused a request as too long. Every request was fitted to the
        budget already, so the budget is larger than what the model accepts. Without an error, nothing happens.
        """
        del agent, kwargs
        if e is not None:
            e.add_note(
                f"turnfold fitted the request to its budget of {self._view.session.budget.tokens:,} tokens, but the "
                "model accepts fewer: give the memory a smaller Budget"
            )
            raise e

    def _attach(self, event: AgentInitializedEvent) -> None:
        agent = event.agent
        if self._agent is not None and self._agent() is not agent:
            raise InvalidOption(
                f"this conversation manager of {self._view.session.id!r} belongs to another agent: use a separate "
                "conversation for each agent"
            )
        self._agent = ref(agent)
        agent.add_middleware(InvokeModelStage.Input, self._fit)
        if self._recall is not None:
            agent.tool_registry.register_tool(self._recall_tool(self._recall))

    async def _store(self, event: MessageAddedEvent) -> None:
        history = [fields_of(message) for message in event.agent.messages]
        await self._bridge(self._view.store(history))

    async def _fit(self, context: InvokeModelContext) -> InvokeModelContext:
        """Return a model request with the session's context instead of the agent's messages."""
        history = [fields_of(message) for message in cast("Agent", context.agent).messages]
        added = _added_blocks(history, [fields_of(message) for message in context.messages])
        blocks = _system_blocks(context.system_prompt)
        texts = [text for block in blocks if (text := block.get("text", "")).strip()]
        fitted = await self._bridge(
            self._view.fit(
                history,
                system=texts,
                tools=[_schema(spec) for spec in context.tool_specs],
                added=[record_of_fields({"role": "user", "content": added})] if added else (),
                model=_model_id(cast("Agent", context.agent).model),
            )
        )
        self._call = fitted.call
        messages = strands_messages(fitted.messages)
        if added:
            extra = context.messages[-1]["content"][-len(added) :]
            messages[-1] = {
                "role": messages[-1]["role"],
                "content": [*messages[-1]["content"], *extra],
            }
        return context.replace(
            messages=messages,
            system_prompt=_fitted_system(context.system_prompt, texts, fitted.system),
            projected_input_tokens=fitted.tokens,
        )

    async def _record_usage(self, event: AfterModelCallEvent) -> None:
        response, call = event.stop_response, self._call
        usage = response.message.get("metadata", {}).get("usage") if response is not None else None
        if usage is None:
            return
        cached = usage.get("cacheReadInputTokens", 0)
        given, produced = usage["inputTokens"], usage["outputTokens"]
        if given + produced != usage["totalTokens"]:  # a provider that counts cached tokens apart
            given += cached + usage.get("cacheWriteInputTokens", 0)
        reported = Usage(input=given, output=produced, cached=cached)
        await self._bridge(self._view.record_usage(reported, call=call))

    def _recall_tool(self, tool: RecallTool) -> PythonAgentTool:
        async def recall_context(tool_use: ToolUse, **_: object) -> StrandsResult:
            text = await self._bridge(tool.call(object_of(tool_use["input"]) or {}))
            return {
                "toolUseId": tool_use["toolUseId"],
                "status": "success",
                "content": [{"text": text}],
            }

        spec: ToolSpec = {
            "name": RECALL_CONTEXT,
            "description": tool.description,
            "inputSchema": {"json": tool.parameters},
        }
        return PythonAgentTool(RECALL_CONTEXT, spec, recall_context)


def _added_blocks(history: Sequence[JsonObject], sent: Sequence[JsonObject]) -> list[object]:
    """Return the content blocks that a middleware added to the newest message.

    Raises `InvalidOption` if the middleware changed anything else, because turnfold could not keep that.
    """
    if len(sent) == len(history) and list(sent[:-1]) == list(history[:-1]):
        if not sent:
            return []
        old, new = list_at(history[-1], "content"), list_at(sent[-1], "content")
        if new[: len(old)] == old:
            return new[len(old) :]
    changed = sum(one not in history for one in sent)
    raise InvalidOption(
        f"{_OTHER} changed the request ({len(sent)} messages, {changed} of them not among the {len(history)} of the "
        "agent); only one component may edit the history: let it change agent.messages, or add it to the agent after "
        "the agent was made, so that it gets the messages that turnfold sends"
    )


def _system_blocks(prompt: SystemPrompt) -> list[SystemContentBlock]:
    return [{"text": prompt}] if isinstance(prompt, str) else list(prompt or ())


def _fitted_system(
    prompt: SystemPrompt, texts: Sequence[str], fitted: Sequence[str]
) -> SystemPrompt:
    """Return the system prompt; if the context had to shorten its texts, with the shortened texts."""
    if list(fitted) == list(texts):
        return prompt
    if len(fitted) != len(texts):
        return [{"text": text} for text in fitted]
    left = iter(fitted)
    return [
        {**block, "text": next(left)} if block.get("text", "").strip() else block
        for block in _system_blocks(prompt)
    ]


def _schema(spec: ToolSpec) -> dict[str, object]:
    schema = spec["inputSchema"]
    parameters = object_of(schema.get("json")) or schema
    return function_schema(spec["name"], spec.get("description", ""), parameters)


def _model_id(model: Model) -> object:
    """Return the name of an agent's model; empty if it has none."""
    config = model.get_config()
    return cast("dict[str, object]", config).get("model_id", "") if isinstance(config, dict) else ""
