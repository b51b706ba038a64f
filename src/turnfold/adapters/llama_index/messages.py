"""Converts LlamaIndex chat messages to records of a log and back.

A record holds the content that turnfold counts, searches and shortens: text, media, thinking, calls and results, from
the blocks of a message or its `additional_kwargs`. The form of the message is stored with it, as the difference from
the message that the record alone would give, so that the original message can be restored. A shortened record is
converted without its form. A block without an equivalent part (a citation, a cache point, a video) is kept whole. Two
things are restored in another form: a file that a block named becomes its bytes, and tool values that cannot be
serialized become text.

A block may name a file of this machine instead of holding its bytes, and LlamaIndex reads that file when the block is
sent. A message that the application stores is trusted, so its file is read when the message is recorded. Stored
messages may have been written by anybody, so no file that they name is read.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, cast

from llama_index.core.llms import ChatMessage

from turnfold.adapters._common import can_run, opaque_text, provider_file_note
from turnfold.errors import InvalidRecord
from turnfold.records import (
    AudioPart,
    ContentPart,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    Origin,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    freeze,
    thaw_object,
)
from turnfold.wire import (
    ENDING,
    RESTORE_FAULTS,
    JsonObject,
    data_of,
    described,
    difference,
    encodable,
    list_at,
    list_of,
    object_at,
    object_of,
    outcome_of,
    packed,
    restored,
    text_at,
    unpacked,
    unreadable_form,
    with_numbers,
    writable,
)

__all__ = (
    "chat_messages",
    "record_of",
    "sendable",
    "without_local_files",
)


PROVIDER: Final = "llama_index"
_UNKNOWN: Final = "application/octet-stream"

_DATA_KEYS: Final = {"image": "image", "audio": "audio", "video": "video", "document": "data"}
"""Type of block -> the field that holds its bytes."""
_REMOTE: Final = frozenset({"http", "https", "data", "gs", "s3"})
"""URL schemes that name no file of this machine."""


def _part_of(block: JsonObject) -> Part:
    """Convert a block of a LlamaIndex message to a part; a block without an equivalent becomes one opaque part."""
    match block.get("block_type"):
        case "text":
            return TextPart(text_at(block, "text"))
        case "thinking":
            return ThinkingPart(text_at(block, "content"), provider=PROVIDER)
        case "tool_call" if text_at(block, "tool_call_id") and text_at(block, "tool_name"):
            return _call(block)
        case "image" if source := _source(block, "image", text_at(block, "image_mimetype")):
            return ImagePart(source, detail=_detail(block))
        case "audio" if text_at(block, "audio") and text_at(block, "format"):
            return AudioPart(text_at(block, "audio"), text_at(block, "format"))
        case "document" if source := _source(block, "data", text_at(block, "document_mimetype")):
            return FilePart(source, filename=text_at(block, "title"))
        case _:
            return OpaquePart(freeze(block or {"block_type": ""}, path="block"), PROVIDER)


def _block_of(part: Part) -> JsonObject | None:
    """Convert a message part to a LlamaIndex block; None for a part that no LlamaIndex message can hold."""
    match part:
        case TextPart():
            return {"block_type": "text", "text": part.text}
        case ThinkingPart():
            return {"block_type": "thinking", "content": part.text}
        case ToolCall():
            return {
                "block_type": "tool_call",
                "tool_call_id": part.id,
                "tool_name": part.name,
                "tool_kwargs": _arguments(part.arguments),
            }
        case ImagePart() | FilePart() if part.url.startswith("file:"):
            return {"block_type": "text", "text": provider_file_note(part)}
        case ImagePart():
            return {"block_type": "image", **_media_fields(part.url, "image", "image_mimetype")}
        case FilePart():
            found = _media_fields(part.url, "data", "document_mimetype")
            return {"block_type": "document", **found, "title": part.filename or "input_document"}
        case AudioPart():
            return {"block_type": "audio", "audio": part.data, "format": part.format}
        case OpaquePart():
            return _opaque_block(part)
        case ToolResult():
            return None


def _call(block: JsonObject) -> ToolCall:
    given = block.get("tool_kwargs")
    text = given if isinstance(given, str) else freeze(given or {}, path="tool_kwargs")
    return ToolCall(text_at(block, "tool_call_id"), text_at(block, "tool_name"), text)


def _detail(block: JsonObject) -> Literal["low", "high", "auto"] | None:
    detail = text_at(block, "detail")
    return detail if detail in ("low", "high", "auto") else None


def _arguments(text: str) -> object:
    try:
        found = cast("object", json.loads(text or "{}"))
    except ValueError:
        return text
    return cast("object", found) if isinstance(found, dict) else text


def _source(block: JsonObject, key: str, media_type: str) -> str:
    """Return the URL (or `data:` URL) of the media in a block; empty if it only names a file of this machine."""
    data = text_at(block, key)
    if data:
        return f"data:{media_type or _UNKNOWN};base64,{data}"
    return text_at(block, "url")


def _media_fields(url: str, key: str, media_type: str) -> JsonObject:
    data = data_of(url)
    if data is None:
        return {"url": url}
    return {key: data.base64, media_type: data.media_type}


def _opaque_block(part: OpaquePart) -> JsonObject:
    block = thaw_object(part.json)
    if part.provider == PROVIDER and "block_type" in block:
        return block
    return {"block_type": "text", "text": opaque_text(part)}


# ---------------------------------------------------------------------------------- files of this machine


def _with_files_read(value: object) -> object:
    """Return a message's fields with the bytes of every file that its blocks name; never used for stored messages."""
    block = object_of(value)
    if block is None:
        found = list_of(value)
        return value if found is None else [_with_files_read(inner) for inner in found]
    key, path = _DATA_KEYS.get(text_at(block, "block_type")), block.get("path")
    if key is not None and path and not block.get(key):
        return {**block, key: _bytes_of(str(path)), "path": None}
    return {name: _with_files_read(inner) for name, inner in block.items()}


def without_local_files(value: object) -> object:
    """Return the fields of a stored message, with a note in place of every block that would read a local file."""
    block = object_of(value)
    if block is None:
        found = list_of(value)
        return value if found is None else [without_local_files(inner) for inner in found]
    if "block_type" not in block or not ("path" in block or "url" in block):
        return {name: without_local_files(inner) for name, inner in block.items()}
    key = _DATA_KEYS.get(text_at(block, "block_type"), "")
    local = block.get("path") or (block.get("url") if _is_local(block.get("url")) else None)
    if local is None:
        return {**block, "path": None} if "path" in block else block
    if block.get(key):  # the block has the bytes, so that no file is read
        return {name: inner for name, inner in block.items() if name not in ("path", "url")}
    kind = text_at(block, "block_type") or "block"
    note = f"[{kind} {local} not shown: a stored message may not have local files read]"
    return {"block_type": "text", "text": note}


def _bytes_of(path: str) -> str:
    try:
        return b64encode(Path(path).read_bytes()).decode()
    except (OSError, ValueError) as error:
        raise InvalidRecord(
            f"the file {path!r} of a block cannot be read: {error}",
            path="blocks",
            remedy="Give a path that can be read, or the bytes themselves",
        ) from None


def _is_local(url: object) -> bool:
    """Return True if a URL may name a file of this machine: its scheme is not known to be remote."""
    return bool(url) and str(url).strip().partition(":")[0].lower() not in _REMOTE


_ROLES: Final = {
    "user": "user",
    "assistant": "assistant",
    "chatbot": "assistant",
    "model": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}


def record_of(message: ChatMessage) -> Message:
    """Convert a LlamaIndex message to a record (turnfold's stored form); `chat_messages` restores it."""
    fields = _dump(message)
    try:
        record = _record_from(fields)
        [base] = _plain_fields(record)
        form = difference(base, fields)
        if restored(base, form) == fields:
            return _with_form(record, {"difference": form})
    except (InvalidRecord, ValueError):
        pass  # no equivalent record: the message is kept whole
    return _kept_whole(fields, cast("JsonObject", writable(fields)))


def sendable(message: ChatMessage) -> ChatMessage:
    """Return the message to send; a tool result with a lone surrogate becomes an error text: no provider takes it."""
    if _ROLES[str(message.role.value)] != "tool":
        return message
    text = message.content or ""
    shown = outcome_of(text).text
    if shown == text:
        return message
    return ChatMessage(
        role=message.role, content=shown, additional_kwargs=message.additional_kwargs
    )


def _dump(message: ChatMessage) -> JsonObject:
    try:
        return _fields_of(message)
    except (InvalidRecord, *ENDING):
        raise
    except BaseException as error:  # a value inside may raise anything while it is written
        fault = described(error)
    if _ROLES[str(message.role.value)] == "tool":
        extra = {
            encodable(key): _value_as_text(value)
            for key, value in message.additional_kwargs.items()
        }
        return _fields_of(message.model_copy(update={"additional_kwargs": extra}))
    raise InvalidRecord(
        f"LlamaIndex cannot write a message of role {message.role.value!r} as JSON: {fault}",
        remedy="Let additional_kwargs and the arguments of calls hold JSON values",
    )


def _fields_of(message: ChatMessage) -> JsonObject:
    written = message.model_dump(mode="json")
    fields = cast("JsonObject", with_numbers(written, message.model_dump()))
    json.dumps(fields)  # refuses an integer of more digits than Python writes
    return {**fields, "blocks": _with_files_read(fields["blocks"])}


def _value_as_text(value: object) -> object:
    alone = ChatMessage(role="tool", additional_kwargs={"value": value})
    return value if can_run(lambda: _fields_of(alone)) else outcome_of(value).text


def chat_messages(records: Sequence[Message]) -> list[ChatMessage]:
    """Convert records (stored messages) to LlamaIndex messages: the originals, or messages with the same content."""
    return [message for record in records for message in _restored(record)]


def _restored(record: Message) -> list[ChatMessage]:
    try:
        written = _plain_fields(record)
        form = _form(record)
        if form is not None and len(written) == 1:
            written = [object_of(restored(written[0], form)) or {}]
        return [ChatMessage.model_validate(without_local_files(fields)) for fields in written]
    except RESTORE_FAULTS as error:
        raise unreadable_form("LlamaIndex", error) from None


def _form(record: Message) -> JsonObject | None:
    """Return the data that restores LlamaIndex's own message from a stored message; None if there is none."""
    origin = record.origin
    if origin is None or origin.provider != PROVIDER or not origin.form:
        return None
    form = thaw_object(origin.form)
    if "packed" in form:
        return {"=": unpacked(text_at(form, "packed"))}
    if "whole" in form:
        return {"=": cast("object", json.loads(text_at(form, "whole")))}
    return object_at(form, "difference")


def _with_form(record: Message, form: JsonObject) -> Message:
    origin = Origin(PROVIDER, form=freeze(form, path="form"))
    return Message.of(record.role, record.parts, name=record.name, origin=origin)


def _record_from(fields: JsonObject) -> Message:
    role = _ROLES[text_at(fields, "role")]
    extra = object_at(fields, "additional_kwargs")
    parts = [_part_of(object_of(block) or {}) for block in list_at(fields, "blocks")]
    if role == "assistant":
        known = {part.id for part in parts if isinstance(part, ToolCall)}
        parts += [call for call in _older_calls(extra) if call.id not in known]
    if role == "tool":
        content = tuple(part for part in parts if isinstance(part, ContentPart))
        parts = [ToolResult(text_at(extra, "tool_call_id"), content)]
        return Message.of(role, parts, name=text_at(extra, "name") or None)
    return Message.of(role, parts)


def _older_calls(extra: JsonObject) -> list[ToolCall]:
    """Return the calls in `additional_kwargs`, where older integrations put them in OpenAI's form."""
    found: list[ToolCall] = []
    for value in list_at(extra, "tool_calls"):
        call = object_of(value) or {}
        function = object_at(call, "function")
        name = text_at(function, "name")
        if text_at(call, "id") and name:
            found.append(ToolCall(text_at(call, "id"), name, text_at(function, "arguments")))
    return found


def _kept_whole(fields: JsonObject, plain: JsonObject) -> Message:
    """Return a stored message with the whole original in addition to its content; `plain` has only JSON values."""
    if plain == fields:
        return _with_form(_text_only(plain), {"whole": json.dumps(fields)})
    try:
        record = _record_from(plain)
    except (InvalidRecord, ValueError):
        record = _text_only(plain)
    return _with_form(record, {"packed": packed(fields)})


def _text_only(fields: JsonObject) -> Message:
    blocks = [object_of(block) or {} for block in list_at(fields, "blocks")]
    words = "\n".join(text for block in blocks if (text := text_at(block, "text")))
    return Message.of("user", (TextPart(words),))


def _plain_fields(record: Message) -> list[JsonObject]:
    """Convert a record (stored message) to fields of LlamaIndex messages: one message, or one per tool result."""
    if not record.results:
        return [_fields(record.role, record.parts, {})]
    name = {"name": record.name} if record.name else {}
    return [
        _fields("tool", result.content, {"tool_call_id": result.call_id, **name})
        for result in record.results
    ]


def _fields(role: str, parts: Sequence[Part], extra: JsonObject) -> JsonObject:
    blocks = [block for part in parts if (block := _block_of(part)) is not None]
    return {"role": role, "additional_kwargs": extra, "blocks": blocks}
