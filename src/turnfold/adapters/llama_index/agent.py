"""A LlamaIndex agent that stores its running steps in its memory.

`FunctionAgent` keeps the steps of a run on a scratchpad, sends all of it with every call, and puts it into the memory
only at the end: a long tool loop outgrows any budget, and a run that fails stores nothing. This agent puts each step
into the memory at once, before its tools run, and gets the steps back within the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.agent.workflow import AgentOutput, FunctionAgent, ToolCallResult
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import BaseMemory
from llama_index.core.tools import AsyncBaseTool
from llama_index.core.workflow import Context

__all__ = ("TurnfoldFunctionAgent",)


class TurnfoldFunctionAgent(FunctionAgent):
    """A `FunctionAgent` for long tool loops: use it with `turnfold_memory`, alone or in an `AgentWorkflow`."""

    async def take_step(
        self,
        ctx: Context[Any],
        llm_input: list[ChatMessage],
        tools: Sequence[AsyncBaseTool],
        memory: BaseMemory,
    ) -> AgentOutput:
        """Call the model, and put its answer into the memory."""
        output = await super().take_step(ctx, llm_input, tools, memory)
        await self._store_steps(ctx, memory)
        return output

    async def handle_tool_call_results(
        self, ctx: Context[Any], results: list[ToolCallResult], memory: BaseMemory
    ) -> None:
        """Put the tool results into the memory."""
        await super().handle_tool_call_results(ctx, results, memory)
        await self._store_steps(ctx, memory)

    async def _store_steps(self, ctx: Context[Any], memory: BaseMemory) -> None:
        steps: list[ChatMessage] = await ctx.store.get(self.scratchpad_key, default=[])
        await memory.aput_messages(steps)
        await ctx.store.set(self.scratchpad_key, [])
