"""Parts as Anthropic's content blocks.

`records` reads these blocks already; here they are written, with media in Anthropic's own shape, thoughts only for
the model that signed them, and everything another provider left behind turned into something Claude accepts.
"""

from __future__ import annotations

from typing import assert_never

from turnfold.records import (
    AudioPart,
    ContentPart,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
)
from turnfold.records.blocks_out import write_block
from turnfold.records.json_text import thaw_object
from turnfold.wire.foreign import arguments_object, data_of, media_note, words_of
from turnfold.wire.ownership import Writing
from turnfold.wire.values import JsonObject, object_at

__all__ = ("content_of", "write_blocks")

_KNOWN = frozenset({"cache_control", "caller", "citations", "context", "title", "toolset_name"})
"""Fields Anthropic has beside a block: sent even when nobody said where the block came from."""
_IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def content_of(blocks: list[JsonObject]) -> object:
    """The `content` field: bare text where a single plain text is all there is."""
    if len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
        return blocks[0]["text"]
    return blocks


def write_blocks(message: Message, writing: Writing, path: str) -> list[JsonObject]:
    """Every part of a message that can be said here, in order."""
    parts = enumerate(message.parts)
    found = [_block(part, message, writing, f"{path}.parts[{index}]") for index, part in parts]
    return [block for block in found if block is not None]


def _block(part: Part, message: Message, writing: Writing, path: str) -> JsonObject | None:
    match part:
        case TextPart() | ImagePart() | AudioPart() | FilePart() | OpaquePart():
            return _content(part, message, writing, path)
        case ThinkingPart():
            if writing.may_have(part, message):
                return write_block(part)
            writing.left_out(path, "a thought belongs to the model that had it", part.text)
            return None
        case ToolCall():
            found, sound = arguments_object(part.arguments)
            if not sound:
                writing.converted(path, "arguments that are no JSON object, put into one")
            fields: JsonObject = {"type": "tool_use", "id": part.id, "name": part.name}
            return {**fields, "input": found, **_beside(part.extra, message, writing, path)}
        case ToolResult():
            inner = [_content(each, message, writing, path) for each in part.content]
            fields = {"type": "tool_result", "tool_use_id": part.call_id}
            fields["content"] = content_of([block for block in inner if block is not None])
            if part.is_error:
                fields["is_error"] = True
            return {**fields, **_beside(part.extra, message, writing, path)}
        case _:
            assert_never(part)


def _content(part: ContentPart, message: Message, writing: Writing, path: str) -> JsonObject | None:
    match part:
        case TextPart():
            beside = _beside(part.extra, message, writing, path)
            beside.pop("type", None)
            return {"type": "text", "text": part.text, **beside}
        case ImagePart() | FilePart():
            return _media(part, message, writing, path)
        case AudioPart():
            return _noted(part, "no sound can be sent to Anthropic", writing, path)
        case OpaquePart():
            block = thaw_object(part.json)
            if writing.may_have(part, message):
                return block
            words = words_of(block)
            if words:
                writing.converted(path, f"a {block.get('type')} block of another provider, as text")
                return {"type": "text", "text": words}
            writing.left_out(path, f"a {block.get('type')} block only its own provider understands")
            return None


def _media(part: ImagePart | FilePart, message: Message, writing: Writing, path: str) -> JsonObject:
    beside = _beside(part.extra, message, writing, path)
    source = _source(part, message, writing)
    if isinstance(source, str):
        return _noted(part, source, writing, path)
    kind = "image" if isinstance(part, ImagePart) else "document"
    fields: JsonObject = {"type": kind, "source": {**object_at(beside, "source"), **source}}
    beside = {key: value for key, value in beside.items() if key not in ("source", "image_url")}
    if isinstance(part, FilePart) and part.filename and "title" not in beside:
        fields["title"] = part.filename
    return {**fields, **beside}


def _source(part: ImagePart | FilePart, message: Message, writing: Writing) -> JsonObject | str:
    """Where the bytes are; or why they cannot be sent."""
    if part.url.startswith("file:"):
        if message.origin is not None and message.origin.provider != "anthropic":
            return f"it is a file kept at {message.origin.provider}"
        return {"type": "file", "file_id": part.url.removeprefix("file:")}
    if not part.url.startswith("data:"):
        return {"type": "url", "url": part.url}
    data = data_of(part.url)
    if data is None:
        return "its data is not in base64"
    allowed = _IMAGE_TYPES if isinstance(part, ImagePart) else {"application/pdf"}
    if data.media_type not in allowed and not writing.owns(message):
        return f"Anthropic does not read {data.media_type or 'an unknown type'}"
    return {"type": "base64", "media_type": data.media_type, "data": data.base64}


def _noted(
    part: ImagePart | AudioPart | FilePart, why: str, writing: Writing, path: str
) -> JsonObject:
    writing.converted(path, f"not sent, a note stands for it: {why}")
    return {"type": "text", "text": media_note(part, why)}


def _beside(extra: str, message: Message, writing: Writing, path: str) -> JsonObject:
    return writing.beside(extra, message=message, known=_KNOWN, path=path) if extra else {}
