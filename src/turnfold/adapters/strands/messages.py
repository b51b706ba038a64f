"""Converts Strands messages to records of a log and back.

Strands uses the messages of Amazon Bedrock: dictionaries of a role and content blocks. Tool results are blocks of a
user message; their record has the role "tool". The exact form of a message is kept with its record. A block without an
equivalent part (a video, a cache point, citations, a file in a bucket) is kept whole. Bytes are stored as base64 text,
as Strands' own sessions store them. The metadata and tracking id of a message are never sent, and are not stored.
"""

from __future__ import annotations

import mimetypes
from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Final, cast

from strands.types.content import Message as StrandsMessage
from strands.types.session import decode_bytes_values, encode_bytes_values

from turnfold.adapters._common import (
    opaque_text,
    original_fields,
    part_or_opaque,
    provider_file_note,
    with_original_form,
)
from turnfold.errors import InvalidRecord
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
    freeze,
    thaw_object,
)
from turnfold.wire import (
    RESTORE_FAULTS,
    JsonObject,
    arguments_object,
    data_of,
    list_of,
    object_at,
    object_of,
    objects_of,
    outcome_of,
    text_at,
    unreadable_form,
    writable,
)

__all__ = (
    "fields_of",
    "record_of",
    "record_of_fields",
    "strands_messages",
)


PROVIDER: Final = "strands"
_BYTES: Final = "__bytes_encoded__"
"""Strands' mark of bytes that are stored as base64 text."""


def record_of(message: StrandsMessage) -> Message:
    """Convert a Strands message to a record (turnfold's stored form); `strands_messages` restores it."""
    return record_of_fields(fields_of(message))


def strands_messages(records: Iterable[Message]) -> list[StrandsMessage]:
    """Convert stored messages to Strands messages; consecutive messages of one role are joined, as Bedrock requires."""
    messages: list[StrandsMessage] = []
    for record in records:
        message = _message_of(record)
        if messages and messages[-1]["role"] == message["role"]:
            content = [*messages[-1]["content"], *message["content"]]
            messages[-1] = {"role": message["role"], "content": content}
        else:
            messages.append(message)
    return messages


def fields_of(message: StrandsMessage) -> JsonObject:
    """Return a copy of a Strands message's role and content, with bytes as base64 text."""
    given = cast("Mapping[str, object]", message)
    fields = {"role": given.get("role"), "content": given.get("content")}
    return cast("JsonObject", encode_bytes_values(fields))


def record_of_fields(fields: JsonObject) -> Message:
    """Convert the fields of a Strands message to its stored form; tool results that are not JSON become text."""
    try:
        freeze(fields, path="message")
    except InvalidRecord:
        fields = cast("JsonObject", writable(_with_text_results(fields)))
    parts = [_part_of(block) for block in objects_of(fields.get("content"))]
    role = text_at(fields, "role")
    if any(isinstance(part, ToolResult) for part in parts):
        role = "tool"
    record = Message.of(role, parts)
    return with_original_form(record, _written(record), fields, provider=PROVIDER)


def _message_of(record: Message) -> StrandsMessage:
    fields = original_fields(record, _written(record), provider=PROVIDER, framework="Strands")
    try:
        blocks = list_of(decode_bytes_values(fields.get("content")))
        if fields.get("role") not in ("user", "assistant") or not blocks:
            raise ValueError("the stored message must have the role user or assistant, and content")
        content = [dict(cast("JsonObject", block)) for block in blocks]
    except RESTORE_FAULTS as error:
        raise unreadable_form("Strands", error) from None
    return cast("StrandsMessage", {"role": fields["role"], "content": content})


def _written(record: Message) -> JsonObject:
    role = "assistant" if record.role == "assistant" else "user"
    return {"role": role, "content": [_block_of(part) for part in record.parts] or [{"text": ""}]}


def _with_text_results(fields: JsonObject) -> JsonObject:
    """Return a message's fields with text in place of each tool result that JSON cannot express."""
    blocks = objects_of(fields.get("content"))
    return {**fields, "content": [_with_text_result(block) for block in blocks]}


def _with_text_result(block: JsonObject) -> JsonObject:
    result = object_of(block.get("toolResult"))
    if result is None:
        return block
    blocks = objects_of(result.get("content"))
    try:
        freeze(blocks, path="content")
    except InvalidRecord:
        only = blocks[0] if len(blocks) == 1 else {}
        outcome = outcome_of(only.get("text", only.get("json", blocks)))
        status = {"status": "error"} if outcome.failed else {}
        return {"toolResult": {**result, "content": [{"text": outcome.text}], **status}}
    return block


def _part_of(block: JsonObject) -> Part:
    """Convert a block to a part; a block without an equivalent part becomes one opaque part."""
    return part_or_opaque(_known_part(block), block, PROVIDER)


def _known_part(block: JsonObject) -> Part | None:
    kind = next(iter(block), "")
    fields = object_at(block, kind)
    match kind:
        case "text" if isinstance(block["text"], str):
            return TextPart(block["text"])
        case "toolUse" if text_at(fields, "toolUseId") and text_at(fields, "name"):
            given = fields.get("input")
            arguments = given if isinstance(given, str) else freeze(given, path="input")
            return ToolCall(text_at(fields, "toolUseId"), text_at(fields, "name"), arguments)
        case "toolResult" if text_at(fields, "toolUseId"):
            content = [_part_of(_result_block(one)) for one in objects_of(fields.get("content"))]
            known = tuple(part for part in content if isinstance(part, ContentPart))
            failed = fields.get("status") == "error"
            return ToolResult(text_at(fields, "toolUseId"), known, is_error=failed)
        case "reasoningContent" if text := object_of(fields.get("reasoningText")):
            return ThinkingPart(
                text_at(text, "text"), text_at(text, "signature"), provider=PROVIDER
            )
        case "image" | "document" | "audio" if data := _data(fields):
            return _media_part(kind, fields, data)
        case _:
            return None


def _media_part(kind: str, fields: JsonObject, data: str) -> Part:
    form = text_at(fields, "format")
    if kind == "audio":
        return AudioPart(data, form)
    if kind == "image":
        return ImagePart(f"data:image/{form};base64,{data}")
    media = mimetypes.types_map.get(f".{form}", "text/plain")
    return FilePart(f"data:{media};base64,{data}", media, text_at(fields, "name"))


def _result_block(block: JsonObject) -> JsonObject:
    """Return a content block of a tool result; JSON values become text."""
    return {"text": freeze(block["json"], path="json")} if set(block) == {"json"} else block


def _block_of(part: Part) -> JsonObject:
    match part:
        case TextPart():
            return {"text": part.text}
        case ToolCall():
            given, _ = arguments_object(part.arguments)
            return {"toolUse": {"toolUseId": part.id, "name": part.name, "input": given}}
        case ToolResult():
            content = [_block_of(one) for one in part.content] or [{"text": ""}]
            status = "error" if part.is_error else "success"
            return {"toolResult": {"toolUseId": part.call_id, "status": status, "content": content}}
        case ThinkingPart():
            signed = {"signature": part.signature} if part.signature else {}
            return {"reasoningContent": {"reasoningText": {"text": part.text, **signed}}}
        case ImagePart() | FilePart():
            return _media_block(part)
        case AudioPart():
            return {"audio": {"format": part.format, "source": _source(part.data)}}
        case OpaquePart():
            block = thaw_object(part.json)
            return block if part.provider == PROVIDER else {"text": opaque_text(part)}


def _media_block(part: ImagePart | FilePart) -> JsonObject:
    data = data_of(part.url)
    if data is None:
        return {"text": provider_file_note(part) if part.url.startswith("file:") else part.url}
    if isinstance(part, ImagePart):
        kind = data.media_type.rpartition("/")[2]
        return {"image": {"format": kind, "source": _source(data.base64)}}
    kind = (mimetypes.guess_extension(data.media_type) or ".txt")[1:]
    document = {"format": kind, "name": part.filename or "document", "source": _source(data.base64)}
    return {"document": document}


def _data(fields: JsonObject) -> str:
    """Return the bytes of an image, document or audio as base64 text; empty if it names a location instead."""
    return text_at(object_at(object_at(fields, "source"), "bytes"), "data")


def _source(data: str) -> JsonObject:
    b64decode(data)  # raises ValueError if it is not base64
    return {"bytes": {_BYTES: True, "data": data}}
