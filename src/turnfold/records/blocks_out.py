"""From parts back to what providers write: OpenAI's shape where it can say everything, blocks where it cannot.

OpenAI's message has one list of calls after the content and one result per tool message. A message whose calls are
interleaved with text, or that brings several results, is written with Anthropic's blocks instead, which
`blocks_in` reads back to the same parts.
"""

from __future__ import annotations

from typing import TypeAlias, assert_never, cast

from turnfold.records.json_text import freeze, thaw, thaw_object
from turnfold.records.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    declared_media_type,
)

__all__ = ("content_value", "message_fields", "write_block", "write_call")

Block: TypeAlias = dict[str, object]
Content: TypeAlias = str | list[Block] | None


def content_value(parts: tuple[Part, ...]) -> Content:
    """The `content` field for these parts, tool calls left out where they have a field of their own."""
    result = _one_plain_result(parts)
    if result is not None:
        return _plain_content(result.content)
    return _plain_content(parts[: len(parts) - len(_trailing_calls(parts))])


def message_fields(
    role: str, parts: tuple[Part, ...], *, name: str | None, extra: str, labels: str
) -> Block:
    """The whole message as a dictionary."""
    fields: Block = {"role": role, "content": content_value(parts)}
    if name is not None:
        fields["name"] = name
    if calls := _trailing_calls(parts):
        fields["tool_calls"] = [write_call(call) for call in calls]
    result = _one_plain_result(parts)
    if result is not None:
        fields["tool_call_id"] = result.call_id
    if labels:
        fields["metadata"] = thaw_object(labels)
    fields.update(thaw_object(extra))
    return fields


def write_call(call: ToolCall) -> Block:
    """A call as a member of OpenAI's `tool_calls`."""
    fields: Block = {"id": call.id, "type": "function"}
    fields["function"] = {"name": call.name, "arguments": call.arguments}
    return _with_extra(fields, call.extra)


def write_block(part: Part) -> Block:
    """A part as a content block."""
    match part:
        case TextPart():
            fields: Block = {"type": "text", "text": part.text}
        case ImagePart() | AudioPart() | FilePart():
            fields = _media(part)
        case ThinkingPart():
            fields = _thinking(part)
        case OpaquePart():
            return thaw_object(part.json)
        case ToolCall():
            fields = {"type": "tool_use", "id": part.id, "name": part.name}
            fields["input"] = _arguments(part.arguments)
        case ToolResult():
            fields = {"type": "tool_result", "tool_use_id": part.call_id}
            fields["content"] = _plain_content(part.content)
            if part.is_error:
                fields["is_error"] = True
        case _:
            assert_never(part)
    return _with_extra(fields, part.extra)


def _plain_content(parts: tuple[Part, ...]) -> Content:
    if not parts:
        return None
    if len(parts) == 1 and isinstance(parts[0], TextPart) and not parts[0].extra:
        return parts[0].text
    return [write_block(part) for part in parts]


def _one_plain_result(parts: tuple[Part, ...]) -> ToolResult | None:
    only = parts[0] if len(parts) == 1 else None
    if isinstance(only, ToolResult) and not only.is_error and not only.extra:
        return only
    return None


def _trailing_calls(parts: tuple[Part, ...]) -> list[ToolCall]:
    """The calls, if all of them come after everything else; otherwise none."""
    calls = [part for part in parts if isinstance(part, ToolCall)]
    return calls if calls == list(parts[len(parts) - len(calls) :]) else []


def _with_extra(fields: Block, extra: str) -> Block:
    """The modelled fields with those kept as they came: beside them, or inside the object they came in."""
    for key, kept in thaw_object(extra).items():
        inner = fields.get(key)
        if isinstance(inner, dict) and isinstance(kept, dict):
            fields[key] = {**cast("Block", kept), **cast("Block", inner)}
        else:
            fields[key] = kept
    return fields


def _media(part: ImagePart | AudioPart | FilePart) -> Block:
    match part:
        case ImagePart():
            detail: Block = {} if part.detail is None else {"detail": part.detail}
            return {"type": "image_url", "image_url": {"url": part.url, **detail}}
        case AudioPart():
            sound: Block = {"data": part.data, "format": part.format}
            return {"type": "input_audio", "input_audio": sound}
        case FilePart():
            return {"type": "file", "file": _file(part)}


def _file(part: FilePart) -> Block:
    fields: Block = {"filename": part.filename} if part.filename else {}
    if part.media_type != declared_media_type(part.url):
        fields["media_type"] = part.media_type
    if part.url.startswith("file:"):
        return {**fields, "file_id": part.url.removeprefix("file:")}
    return {**fields, "file_data": part.url}


def _thinking(part: ThinkingPart) -> Block:
    if part.redacted:
        return {"type": "redacted_thinking", "data": part.redacted}
    fields: Block = {"type": "thinking", "thinking": part.text}
    return {**fields, "signature": part.signature} if part.signature else fields


def _arguments(text: str) -> object:
    """The value the arguments spell, if it can only be spelt this way; otherwise the spelling itself."""
    try:
        value = thaw(text)
        same = not isinstance(value, str) and freeze(value, path="") == text
    except (ValueError, RecursionError):  # a model may write invalid JSON, or nest it without end
        return text
    return value if same else text
