"""Converts messages of Microsoft Agent Framework to records of a log and back.

A content item becomes a part; items without an equivalent part (hosted tools, citations of files, approvals) are kept
whole. The exact form of a message is kept with its record; its additional properties, which the framework never sends,
are not stored. A call that waits for an approval is stored as a call: once approved, the framework sends its result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from agent_framework import Content
from agent_framework import Message as FrameworkMessage

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
    Role,
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
    encodable,
    objects_of,
    outcome_of,
    text_at,
    unreadable_form,
    writable,
)

__all__ = ("fields_of", "framework_message", "framework_messages", "record_of", "record_of_fields")


PROVIDER: Final = "agent_framework"
_MARK: Final = "af-call-"
"""Prefix of ids that the framework gives to calls for its own use; they are never sent."""
_ROLES: Final[dict[str, Role]] = {"assistant": "assistant", "tool": "tool"}


def record_of(message: FrameworkMessage) -> Message:
    """Convert a framework's message to a record (turnfold's stored form); `framework_messages` restores it."""
    return record_of_fields(fields_of(message))


def framework_messages(records: Iterable[Message]) -> list[FrameworkMessage]:
    """Convert records (stored messages) to framework messages: the originals, or messages with the same content."""
    return [framework_message(record) for record in records]


def framework_message(record: Message) -> FrameworkMessage:
    """Convert one record (stored message) to a framework message; raise `InvalidRecord` if it is damaged."""
    fields = original_fields(
        record, _written(record), provider=PROVIDER, framework="Microsoft Agent Framework"
    )
    try:
        contents = [Content.from_dict(one) for one in cast("list[JsonObject]", fields["contents"])]
        role = fields["role"]
        if role not in ("system", "developer", "user", "assistant", "tool"):
            raise ValueError(f"the stored message has the unknown role {role!r}")
        return FrameworkMessage(
            str(role),
            contents,
            author_name=text_at(fields, "author_name") or None,
            message_id=text_at(fields, "message_id") or None,
        )
    except RESTORE_FAULTS as error:
        raise unreadable_form("Microsoft Agent Framework", error) from None


def fields_of(message: FrameworkMessage) -> JsonObject:
    """Return the role, contents, author and id of a message as JSON values."""
    calls = {one.call_id for one in message.contents if one.type == "function_call"}
    fields: JsonObject = {
        "role": str(message.role),
        "contents": [
            _content_fields(content)
            for content in message.contents
            if content.type != "function_approval_request" or _asked(content).call_id not in calls
        ],
    }
    if message.author_name:
        fields["author_name"] = message.author_name
    if message.message_id:
        fields["message_id"] = message.message_id
    return fields


def record_of_fields(fields: JsonObject) -> Message:
    """Convert the JSON fields of a framework's message to a record (turnfold's stored form)."""
    parts = [_part_of(content) for content in objects_of(fields["contents"])]
    role: Role = _ROLES.get(text_at(fields, "role"), "user")
    if any(isinstance(part, ToolResult) for part in parts):
        role = "tool"
    elif role == "tool":
        role = "user"  # a tool message without a result
    record = Message.of(role, [_allowed(part, role) for part in parts])
    return with_original_form(record, _written(record), fields, provider=PROVIDER)


def _asked(content: Content) -> Content:
    """Return the function call that a content item asks approval for; if it names no call, the item itself."""
    return content.function_call or content


def _content_fields(content: Content) -> JsonObject:
    """Return the JSON fields of a content item, without the marks that the framework sets on calls later."""
    asked = _asked(content) if content.type == "function_approval_request" else content
    written = cast("JsonObject", asked.to_dict())
    fields = {
        key: value
        for key, value in written.items()
        if not (key == "id" and str(value).startswith(_MARK)) and (key != "hosted" or value)
    }
    try:
        freeze(fields, path="content")
    except InvalidRecord:
        fields = cast("JsonObject", writable(_with_text_result(fields)))
    return fields


def _with_text_result(fields: JsonObject) -> JsonObject:
    """Return the fields of a tool result with its value as text, for a value that has no JSON form."""
    if fields.get("type") != "function_result":
        return fields
    text = outcome_of(fields.get("result")).text
    return {**fields, "result": text, "items": [{"type": "text", "text": text}]}


def _allowed(part: Part, role: Role) -> Part:
    """Return the part, or an opaque part with its content if a message of this role may not hold it."""
    if isinstance(part, ToolCall | ThinkingPart) and role != "assistant":
        return OpaquePart(freeze(_content_of(part), path="content"), PROVIDER)
    return part


def _part_of(fields: JsonObject) -> Part:
    """Convert a content item to a message part; an item without an equivalent becomes one opaque part."""
    return part_or_opaque(_known_part(fields), fields, PROVIDER)


def _known_part(fields: JsonObject) -> Part | None:
    call_id, media = text_at(fields, "call_id"), text_at(fields, "media_type")
    match text_at(fields, "type"):
        case "text":
            return TextPart(text_at(fields, "text"))
        case "text_reasoning":
            return ThinkingPart(
                text_at(fields, "text"), text_at(fields, "protected_data"), provider=PROVIDER
            )
        case "function_call" if call_id and text_at(fields, "name"):
            given = fields.get("arguments")
            text = given if isinstance(given, str) else freeze(given or {}, path="arguments")
            return ToolCall(call_id, text_at(fields, "name"), text)
        case "function_result" if call_id:
            items = [_part_of(one) for one in objects_of(fields.get("items"))]
            content = tuple(part for part in items if isinstance(part, ContentPart))
            if not content:
                content = (TextPart(outcome_of(fields.get("result") or "").text),)
            return ToolResult(call_id, content, is_error=fields.get("exception") is not None)
        case "data" | "uri" if text_at(fields, "uri"):
            return _media_part(text_at(fields, "uri"), media)
        case _:
            return None


def _media_part(uri: str, media: str) -> Part:
    return ImagePart(uri) if media.startswith("image/") else FilePart(uri, media)


def _written(record: Message) -> JsonObject:
    return {"role": record.role, "contents": [_content_of(part) for part in record.parts]}


def _content_of(part: Part) -> JsonObject:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ThinkingPart():
            signed = {"protected_data": part.signature} if part.signature else {}
            return {"type": "text_reasoning", "text": part.text, **signed}
        case ToolCall():
            call = {"call_id": part.id, "name": part.name, "arguments": part.arguments}
            return {"type": "function_call", **call}
        case ToolResult():
            items = [_content_of(one) for one in part.content]
            failed = {"exception": "error"} if part.is_error else {}
            result = {"call_id": part.call_id, "result": part.text, "items": items}
            return {"type": "function_result", **result, **failed}
        case ImagePart() | FilePart():
            return _media_content(part)
        case AudioPart():
            media = f"audio/{part.format}"
            return {"type": "data", "uri": f"data:{media};base64,{part.data}", "media_type": media}
        case OpaquePart():
            own = thaw_object(part.json) if part.provider == PROVIDER else None
            return own or {"type": "text", "text": opaque_text(part)}


def _media_content(part: ImagePart | FilePart) -> JsonObject:
    if part.url.startswith("file:"):
        return {"type": "text", "text": encodable(provider_file_note(part))}
    inline = part.url.startswith("data:")
    declared = part.url[5:].split(";", 1)[0].split(",", 1)[0] if inline else ""
    media = declared or ("image/*" if isinstance(part, ImagePart) else part.media_type)
    return {"type": "data" if inline else "uri", "uri": part.url, "media_type": media}
