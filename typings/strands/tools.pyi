from collections.abc import Awaitable, Callable

from strands.types.tools import ToolResult, ToolSpec

class PythonAgentTool:
    def __init__(
        self, tool_name: str, tool_spec: ToolSpec, tool_func: Callable[..., Awaitable[ToolResult]]
    ) -> None: ...
