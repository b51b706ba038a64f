"""LlamaIndex agents that store their running steps in their memory.

LlamaIndex's agents keep the steps of a run on a scratchpad, send all of it with every call, and put it into the memory
only at the end: a long tool loop outgrows any budget, and a run that fails stores nothing. These agents put each step
into the memory at once, before its tools run, and get the steps back within the budget. The tools and the system prompt
that they send are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.agent.react.types import (
    BaseReasoningStep,
    ObservationReasoningStep,
    ResponseReasoningStep,
)
from llama_index.core.agent.workflow import AgentOutput, FunctionAgent, ReActAgent, ToolCallResult
from llama_index.core.llms import LLM, ChatMessage, MessageRole
from llama_index.core.memory import BaseMemory
from llama_index.core.tools import AsyncBaseTool
from llama_index.core.workflow import Context

from turnfold.adapters._common import as_finding_text
from turnfold.adapters.llama_index.memory import AgentToolResult, TurnfoldMemory
from turnfold.errors import InvalidRecord
from turnfold.records import ToolCall, freeze

__all__ = ("TurnfoldFunctionAgent", "TurnfoldReActAgent")


class TurnfoldFunctionAgent(FunctionAgent):
    """A `FunctionAgent` for long tool loops: use it with `turnfold_memory`, alone or in an `AgentWorkflow`."""

    async def take_step(
        self,
        ctx: Context[Any],
        llm_input: list[ChatMessage],
        tools: Sequence[AsyncBaseTool],
        memory: BaseMemory,
    ) -> AgentOutput:
        """Call the model with a request that fits the budget, and put its answer into the memory at once."""
        schemas = [tool.metadata.to_openai_tool() for tool in tools]
        fitted = await _fitted(ctx, llm_input, memory, self.llm, schemas=schemas)
        output = await super().take_step(ctx, fitted, tools, memory)
        await _put_step(ctx, memory, await self._steps(ctx), output)
        await ctx.store.set(self.scratchpad_key, [])
        return output

    async def handle_tool_call_results(
        self, ctx: Context[Any], results: list[ToolCallResult], memory: BaseMemory
    ) -> None:
        """Put the tool results of a step into the memory at once."""
        await super().handle_tool_call_results(ctx, results, memory)
        await _put_results(ctx, memory, await self._steps(ctx), results)
        await ctx.store.set(self.scratchpad_key, [])

    async def _steps(self, ctx: Context[Any]) -> list[ChatMessage]:
        return await ctx.store.get(self.scratchpad_key, default=[])


class TurnfoldReActAgent(ReActAgent):
    """A `ReActAgent` for long tool loops: use it with `turnfold_memory`, alone or in an `AgentWorkflow`."""

    async def take_step(
        self,
        ctx: Context[Any],
        llm_input: list[ChatMessage],
        tools: Sequence[AsyncBaseTool],
        memory: BaseMemory,
    ) -> AgentOutput:
        """Call the model with a request that fits the budget, and put its thought into the memory at once."""
        header = self.formatter.format(tools, [])
        fitted = await _fitted(ctx, llm_input, memory, self.llm, header=header)
        output = await super().take_step(ctx, fitted, tools, memory)
        said, kept = await self._steps(ctx)
        await _put_step(ctx, memory, said, output)
        await ctx.store.set(self.reasoning_key, kept)
        return output

    async def handle_tool_call_results(
        self, ctx: Context[Any], results: list[ToolCallResult], memory: BaseMemory
    ) -> None:
        """Put the tool results of a step, as observations, into the memory at once."""
        await super().handle_tool_call_results(ctx, results, memory)
        said, kept = await self._steps(ctx)
        await _put_results(ctx, memory, said, results)
        await ctx.store.set(self.reasoning_key, kept)

    async def _steps(
        self, ctx: Context[Any]
    ) -> tuple[list[ChatMessage], list[ResponseReasoningStep]]:
        """Return the run's steps as messages to put into the memory, and the final answer, which is not put there."""
        steps: list[BaseReasoningStep] = await ctx.store.get(self.reasoning_key, default=[])
        # The last step of a run stays: the agent takes its answer from there, and puts it into the memory itself.
        kept = [step for step in steps if isinstance(step, ResponseReasoningStep)]
        said = [
            ChatMessage(
                role=self.formatter.observation_role
                if isinstance(step, ObservationReasoningStep)
                else MessageRole.ASSISTANT,
                content=step.get_content(),
            )
            for step in steps
            if not isinstance(step, ResponseReasoningStep)
        ]
        return said, kept


_ASKED = "turnfold_asked"
"""Key in the store of a run: the newest seq (log position) when the tools of the step were called."""


async def _put_step(
    ctx: Context[Any], memory: BaseMemory, said: list[ChatMessage], output: AgentOutput
) -> None:
    if not isinstance(memory, TurnfoldMemory) or not memory.has_findings:
        await memory.aput_messages(said)
        return
    asked = await memory.aput_step(said, [call.tool_name for call in output.tool_calls])
    await ctx.store.set(_ASKED, asked)


async def _put_results(
    ctx: Context[Any],
    memory: BaseMemory,
    said: list[ChatMessage],
    results: Sequence[ToolCallResult],
) -> None:
    if not isinstance(memory, TurnfoldMemory) or not memory.has_findings:
        await memory.aput_messages(said)
        return
    asked: int = await ctx.store.get(_ASKED, default=0)
    await memory.aput_results(said, [_tool_result(result) for result in results], asked=asked)


def _tool_result(result: ToolCallResult) -> AgentToolResult:
    output, failed = result.tool_output, result.tool_output.is_error
    try:
        arguments = freeze(result.tool_kwargs, path="tool_kwargs")
    except InvalidRecord:  # they cannot be compared with those of another call
        arguments, failed = "", True
    call = ToolCall(result.tool_id, result.tool_name, arguments)
    return AgentToolResult(call, as_finding_text(output.content, output.raw_output), failed)


async def _fitted(
    ctx: Context[Any],
    llm_input: list[ChatMessage],
    memory: BaseMemory,
    llm: LLM,
    *,
    schemas: Sequence[dict[str, Any]] = (),
    header: Sequence[ChatMessage] = (),
) -> list[ChatMessage]:
    """Return the messages for a model, cut to the budget together with `schemas` and `header`, which are sent too.

    LlamaIndex reads the memory without telling it what else it sends. A user message into which a workflow wrote its
    state is sent as the workflow made it.
    """
    if not isinstance(memory, TurnfoldMemory):
        return llm_input
    await memory.ause_model(llm)
    if memory.has_room(memory.count([*header, *llm_input], schemas)):
        return llm_input
    system = llm_input[:1] if llm_input and llm_input[0].role == MessageRole.SYSTEM else []
    own = await memory.aget_all()
    newest = next((one for one in reversed(own) if one.role == MessageRole.USER), None)
    words = (newest.content or "") if newest is not None else ""
    users = [one for one in llm_input if one.role == MessageRole.USER]
    made = [one for one in users if words in (one.content or "")]
    if not words or any(one.content == words for one in users):
        made = []
    query = await ctx.store.get("user_msg_str", default=None)
    beside = [*header, *system, *made[-1:]]
    fitted = await memory.aget_beside(query, beside, schemas)
    if made:
        fitted = [made[-1] if one.content == words else one for one in fitted]
    return [*system, *fitted]
