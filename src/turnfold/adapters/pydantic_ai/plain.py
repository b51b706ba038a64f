"""Messages that PydanticAI did not write, as PydanticAI writes them.

The summary of what was folded, the tail of a turn, a message shortened to fit, what another framework logged in the
same session: none has a PydanticAI form to go back to, so one that means the same is made from its parts.
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
from turnfold.adapters.pydantic_ai.content import PROVIDER
from turnfold.records.json_text import thaw_object
from turnfold.wire.foreign import media_note, words_of

__all__ = ("plain_answer", "plain_request")

_ELSEWHERE = "kept at its provider"


def plain_request(message: records.Message, names: Mapping[str, str]) -> list[ModelRequestPart]:
    """The parts of a request that say what a user or tool message says; `names` are the tools by call id."""
    results = message.results
    if results:
        return [_returned(result, message.name, names) for result in results]
    own = [_own(part) for part in message.parts if _is_own(part)]
    if own:
        return [part for request in own for part in cast("ModelRequest", request).parts]
    return [UserPromptPart(_content(cast("Sequence[records.ContentPart]", message.parts)))]


def plain_answer(message: records.Message) -> list[ModelResponsePart]:
    """The parts of a response that say what an assistant message says."""
    return [answer for part in message.parts for answer in _answer(part)]


def _returned(
    result: records.ToolResult, name: str | None, names: Mapping[str, str]
) -> ToolReturnPart:
    content = _content(result.content)
    outcome = "failed" if result.is_error else "success"
    tool = name or names.get(result.call_id) or "tool"
    return ToolReturnPart(tool, content, result.call_id, outcome=outcome)


def _content(parts: Sequence[records.ContentPart]) -> str | list[UserContent]:
    items = [_item(part) for part in parts]
    if all(isinstance(item, str) for item in items):
        return "".join(cast("list[str]", items))
    return items


def _item(part: records.ContentPart) -> UserContent:
    match part:
        case records.TextPart():
            return part.text
        case records.OpaquePart():
            return _words(part)
        case records.AudioPart():
            return BinaryContent.from_data_uri(f"data:audio/{part.format};base64,{part.data}")
        case records.ImagePart() | records.FilePart() if part.url.startswith("data:"):
            return BinaryContent.from_data_uri(part.url)
        case records.ImagePart() | records.FilePart() if part.url.startswith("file:"):
            return media_note(part, _ELSEWHERE)
        case records.ImagePart():
            return ImageUrl(part.url)
        case records.FilePart():
            return DocumentUrl(part.url, media_type=part.media_type)


def _answer(part: records.Part) -> Sequence[ModelResponsePart]:
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
            return cast("ModelResponse", _own(part)).parts
        case records.ToolResult():
            return ()  # no message of an assistant holds one
        case _:
            item = _item(part)
            return (FilePart(item),) if isinstance(item, BinaryContent) else (TextPart(str(item)),)


def _is_own(part: records.Part) -> bool:
    return isinstance(part, records.OpaquePart) and part.provider == PROVIDER


def _own(part: records.Part) -> ModelRequest | ModelResponse:
    """The message around a part that was kept whole."""
    fields = thaw_object(cast("records.OpaquePart", part).json)
    kind = "response" if fields.get("part_kind") in _ANSWERS else "request"
    [message] = ModelMessagesTypeAdapter.validate_python([{"kind": kind, "parts": [fields]}])
    return message


def _words(part: records.OpaquePart) -> str:
    block = thaw_object(part.json)
    return words_of(block) or f"[{block.get('type', 'block')} not shown: another provider's]"


_ANSWERS = frozenset(
    {"text", "thinking", "file", "speech", "tool-call", "builtin-tool-call", "builtin-tool-return"}
)
