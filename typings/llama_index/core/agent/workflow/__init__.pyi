from collections.abc import Sequence
from typing import Any

from llama_index.core.agent.react.formatter import ReActChatFormatter
from llama_index.core.llms import LLM, ChatMessage
from llama_index.core.memory import BaseMemory
from llama_index.core.tools import AsyncBaseTool, ToolOutput
from llama_index.core.workflow import Context

class ToolCall:
    tool_name: str

class AgentOutput:
    tool_calls: list[ToolCall]

class ToolCallResult:
    tool_name: str
    tool_kwargs: dict[str, Any]
    tool_id: str
    tool_output: ToolOutput

class FunctionAgent:
    llm: LLM
    scratchpad_key: str
    async def take_step(
        self,
        ctx: Context[Any],
        llm_input: list[ChatMessage],
        tools: Sequence[AsyncBaseTool],
        memory: BaseMemory,
    ) -> AgentOutput: ...
    async def handle_tool_call_results(
        self, ctx: Context[Any], results: list[ToolCallResult], memory: BaseMemory
    ) -> None: ...

class ReActAgent:
    llm: LLM
    reasoning_key: str
    formatter: ReActChatFormatter
    async def take_step(
        self,
        ctx: Context[Any],
        llm_input: list[ChatMessage],
        tools: Sequence[AsyncBaseTool],
        memory: BaseMemory,
    ) -> AgentOutput: ...
    async def handle_tool_call_results(
        self, ctx: Context[Any], results: list[ToolCallResult], memory: BaseMemory
    ) -> None: ...
