from typing import TypedDict

class ToolSpec(TypedDict):
    name: str
    description: str
    inputSchema: dict[str, object]

class ToolUse(TypedDict):
    toolUseId: str
    name: str
    input: object

class ToolResult(TypedDict):
    toolUseId: str
    status: str
    content: list[dict[str, object]]
