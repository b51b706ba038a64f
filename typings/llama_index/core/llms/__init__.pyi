from enum import StrEnum
from typing import Any

from pydantic import BaseModel

class MessageRole(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"

class LLMMetadata:
    model_name: str

class LLM:
    @property
    def metadata(self) -> LLMMetadata: ...

class ChatMessage(BaseModel):
    role: Any
    additional_kwargs: dict[str, Any]
    blocks: list[Any]
    def __init__(self, /, content: object = ..., **data: object) -> None: ...
    @property
    def content(self) -> str | None: ...
