"""Write messages that PydanticAI did not write in PydanticAI's form.

The summary of a fold (compaction), the tail of a turn, a shortened message, an entry of another framework in the same
session: none has a PydanticAI form to restore, so an equivalent one is made from its parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from pydantic_ai.messages import (
    BinaryContent,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from turnfold import records
from turnfold.adapters._common import opaque_text, provider_file_note
from turnfold.adapters.pydantic_ai.parts import PROVIDER
from turnfold.records import thaw_object

__all__ = ("plain_request", "plain_response")


def plain_request(message: records.Message, names: Mapping[str, str]) -> list[ModelRequestPart]:
    """Return request parts with the content of a user or tool message; `names` are the tools by call id."""
    results = message.results
    if results:
        return [_tool_return(result, message.name, names) for result in results]
    requests = [_restored_own(part) for part in message.parts if _is_own(part)]
    if requests:
        return [part for request in requests for part in cast("ModelRequest", request).parts]
    return [UserPromptPart(_plain_content(cast("Sequence[records.ContentPart]", message.parts)))]


def plain_response(message: records.Message) -> list[ModelResponsePart]:
    """Return response parts with the content of an assistant message."""
    return [answer for part in message.parts for answer in _response_parts(part)]


def _tool_return(
    result: records.ToolResult, name: str | None, names: Mapping[str, str]
) -> ToolReturnPart:
    content = _plain_content(result.content)
    outcome = "failed" if result.is_error else "success"
    tool = name or names.get(result.call_id) or "tool"
    return ToolReturnPart(tool, content, result.call_id, outcome=outcome)


def _plain_content(parts: Sequence[records.ContentPart]) -> str | list[UserContent]:
    items = [_content_item(part) for part in parts]
    if all(isinstance(item, str) for item in items):
        return "".join(cast("list[str]", items))
    return items


def _content_item(part: records.ContentPart) -> UserContent:
    match part:
        case records.TextPart():
            return part.text
        case records.OpaquePart():
            return opaque_text(part)
        case records.AudioPart():
            return BinaryContent.from_data_uri(f"data:audio/{part.format};base64,{part.data}")
        case records.ImagePart() | records.FilePart() if part.url.startswith("data:"):
            return BinaryContent.from_data_uri(part.url)
        case records.ImagePart() | records.FilePart() if part.url.startswith("file:"):
            return provider_file_note(part)
        case records.ImagePart():
            return ImageUrl(part.url)
        case records.FilePart():
            return DocumentUrl(part.url, media_type=part.media_type)


def _response_parts(part: records.Part) -> Sequence[ModelResponsePart]:
    match part:
        case records.TextPart():
            return (TextPart(part.text),)
        case records.ThinkingPart():
            signature = (part.signature or None) if part.provider else None
            provider = part.provider or None
            return (ThinkingPart(part.text, signature=signature, provider_name=provider),)
        case records.ToolCall():
            return (ToolCallPart(part.name, part.arguments, part.id),)
        case records.OpaquePart() if _is_own(part):
            return cast("ModelResponse", _restored_own(part)).parts
        case records.ToolResult():
            return ()  # no message of an assistant holds one
        case _:
            item = _content_item(part)
            return (FilePart(item),) if isinstance(item, BinaryContent) else (TextPart(str(item)),)


def _is_own(part: records.Part) -> bool:
    return isinstance(part, records.OpaquePart) and part.provider == PROVIDER


def _restored_own(part: records.Part) -> ModelRequest | ModelResponse:
    """Return the message around a part that was kept whole."""
    fields = thaw_object(cast("records.OpaquePart", part).json)
    kind = "response" if fields.get("part_kind") in _RESPONSE_PARTS else "request"
    [message] = ModelMessagesTypeAdapter.validate_python([{"kind": kind, "parts": [fields]}])
    return message


_RESPONSE_PARTS = frozenset(
    {"text", "thinking", "file", "speech", "tool-call", "builtin-tool-call", "builtin-tool-return"}
)
