# What turnfold uses of Microsoft Agent Framework: it needs other versions than the environment that checks types has.
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, Self

class Content:
    type: str
    call_id: str | None
    function_call: Content | None
    result: Any
    def to_dict(self) -> dict[str, Any]: ...
    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self: ...

class Message:
    role: str
    contents: list[Content]
    author_name: str | None
    message_id: str | None
    additional_properties: MutableMapping[str, Any]
    def __init__(
        self,
        role: str,
        contents: Sequence[Content | str] | None = ...,
        *,
        author_name: str | None = ...,
        message_id: str | None = ...,
    ) -> None: ...
    @property
    def text(self) -> str: ...

class SupportsAgentRun: ...
class AgentSession: ...

class FunctionTool:
    def __init__(
        self,
        *,
        name: str,
        description: str,
        func: Callable[..., Awaitable[str]],
        input_model: Mapping[str, Any],
    ) -> None: ...
    def to_json_schema_spec(self) -> dict[str, Any]: ...

class ChatResponse:
    messages: list[Message]
    usage_details: Mapping[str, Any] | None

class ResponseStream:
    def with_result_hook(
        self, hook: Callable[[ChatResponse], Awaitable[None]]
    ) -> ResponseStream: ...

class ChatContext:
    client: object
    messages: Sequence[Message]
    options: Mapping[str, Any] | None
    result: ChatResponse | ResponseStream | None

class ChatMiddleware:
    async def process(
        self, context: ChatContext, call_next: Callable[[], Awaitable[None]]
    ) -> None: ...

class SessionContext:
    session_id: str | None
    def extend_middleware(self, source_id: str, middleware: ChatMiddleware) -> None: ...
    def extend_tools(self, source_id: str, tools: Sequence[FunctionTool]) -> None: ...

class HistoryProvider:
    source_id: str
    def __init__(self, source_id: str) -> None: ...
    async def before_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None: ...
    async def after_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None: ...
    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = ..., **kwargs: object
    ) -> list[Message]: ...
    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = ...,
        **kwargs: object,
    ) -> None: ...
