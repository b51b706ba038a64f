from collections.abc import Awaitable, Callable
from typing import Any

class ToolMetadata:
    def to_openai_tool(self, skip_length_check: bool = ...) -> dict[str, Any]: ...

class BaseTool:
    @property
    def metadata(self) -> ToolMetadata: ...

class AsyncBaseTool(BaseTool): ...

class ToolOutput:
    @property
    def content(self) -> str: ...
    raw_output: Any
    is_error: bool

class FunctionTool(AsyncBaseTool):
    @classmethod
    def from_defaults(
        cls,
        fn: Callable[..., Any] | None = ...,
        name: str | None = ...,
        description: str | None = ...,
        *,
        async_fn: Callable[..., Awaitable[Any]] | None = ...,
    ) -> FunctionTool: ...
