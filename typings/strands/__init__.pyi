# What turnfold uses of Strands Agents: it needs other versions of packages than the environment that checks types has.
from collections.abc import Awaitable, Callable
from typing import Any

from strands.agent.conversation_manager import ConversationManager
from strands.models import Model
from strands.tools import PythonAgentTool
from strands.types.content import Message

class ToolRegistry:
    def register_tool(self, tool: PythonAgentTool) -> None: ...

class Agent:
    model: Model
    messages: list[Message]
    tool_registry: ToolRegistry
    def __init__(
        self,
        model: object = ...,
        messages: list[Message] | None = ...,
        *,
        conversation_manager: ConversationManager | None = ...,
        **options: object,
    ) -> None: ...
    def __call__(self, prompt: str) -> object: ...
    async def invoke_async(self, prompt: str) -> object: ...
    def add_middleware(
        self, stage_or_phase: object, handler: Callable[[Any], Awaitable[object]]
    ) -> None: ...

class DecoratedFunctionTool:
    tool_spec: dict[str, Any]

def tool(function: Callable[..., object]) -> DecoratedFunctionTool: ...
