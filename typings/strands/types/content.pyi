from typing import Any, NotRequired, TypeAlias, TypedDict

class Usage(TypedDict):
    inputTokens: int
    outputTokens: int
    totalTokens: int
    cacheReadInputTokens: NotRequired[int]
    cacheWriteInputTokens: NotRequired[int]

class MessageMetadata(TypedDict, total=False):
    usage: Usage

class Message(TypedDict):
    role: str
    content: list[dict[str, Any]]
    tracking_id: NotRequired[str]
    metadata: NotRequired[MessageMetadata]

class SystemContentBlock(TypedDict, total=False):
    cachePoint: dict[str, str]
    text: str

SystemPrompt: TypeAlias = str | list[SystemContentBlock] | None
