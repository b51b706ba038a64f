from typing import Any

from google.adk.tools.tool_context import ToolContext
from google.genai.types import FunctionDeclaration

class BaseTool:
    name: str
    description: str
    def __init__(self, *, name: str, description: str) -> None: ...
    def _get_declaration(self) -> FunctionDeclaration | None: ...
    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> object: ...
