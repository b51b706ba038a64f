"""Convert the parts of Gemini's contents to turnfold's message parts and back.

A Gemini part is an object with one key for its data (`text`, `functionCall`, `inlineData` ...) and perhaps a thought
signature. Keys are in camelCase in the HTTP API and in snake_case in the SDK; both are read, camelCase is written.
Tool calls often have no id; such a call gets an id made of its name and position, the same at every reading.
"""

from __future__ import annotations

from collections import Counter
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
    freeze,
    thaw_object,
)
from turnfold.wire.codec import Recipient, arguments_object, data_of
from turnfold.wire.json_values import JsonObject, list_at, list_of, object_at, object_of, text_at

__all__ = (
    "SIGNATURE",
    "camel",
    "function_call",
    "function_response",
    "generated_id",
    "read_parts",
    "recased",
    "write_parts",
)


PROVIDER = "gemini"
SIGNATURE = "thoughtSignature"
_CAMEL = {
    "function_call": "functionCall",
    "function_response": "functionResponse",
    "inline_data": "inlineData",
    "file_data": "fileData",
    "thought_signature": SIGNATURE,
    "mime_type": "mimeType",
    "file_uri": "fileUri",
    "display_name": "displayName",
    "executable_code": "executableCode",
    "code_execution_result": "codeExecutionResult",
    "tool_call": "toolCall",
    "tool_response": "toolResponse",
}
_DECIDING_KEYS = ("functionCall", "functionResponse", "inlineData", "fileData", "text")


def camel(fields: JsonObject) -> JsonObject:
    """Return an object with its keys in camelCase, as in Gemini's HTTP API."""
    return {_CAMEL.get(key, key): value for key, value in fields.items()}


def recased(content: JsonObject, *, snake: bool) -> JsonObject:
    """Return a content with the keys of its parts in snake_case or camelCase.

    The keys one level below are converted too, deeper ones not.
    """
    names = {value: key for key, value in _CAMEL.items()} if snake else _CAMEL

    def renamed(value: object) -> object:
        fields = object_of(value)
        return value if fields is None else {names.get(key, key): fields[key] for key in fields}

    def part(value: object) -> object:
        fields = object_of(renamed(value))
        return value if fields is None else {key: renamed(fields[key]) for key in fields}

    parts = list_of(content.get("parts"))
    return content if parts is None else {**content, "parts": [part(each) for each in parts]}


def function_call(part: JsonObject) -> JsonObject | None:
    """Return the tool call in a Gemini part; None if there is none."""
    return object_of(part.get("functionCall", part.get("function_call")))


def function_response(part: JsonObject) -> JsonObject | None:
    """Return the tool result in a Gemini part; None if there is none."""
    return object_of(part.get("functionResponse", part.get("function_response")))


def read_parts(raw: list[object]) -> list[Part]:
    """Convert Gemini's parts to turnfold's message parts."""
    seen: Counter[str] = Counter()
    return [_read(object_of(part) or {}, seen) for part in raw]


def generated_id(name: str, nth: int) -> str:
    """Return an id for a tool call without one: its name, and its number among the calls with that name."""
    return f"{name}-{nth}"


def _read(part: JsonObject, seen: Counter[str]) -> Part:
    fields = camel(part)
    deciding = [key for key in _DECIDING_KEYS if fields.get(key) is not None]
    signature = text_at(fields, SIGNATURE)
    extra = freeze({SIGNATURE: signature}, path="") if signature else ""
    match deciding:
        case ["text"] if isinstance(fields["text"], str):
            if fields.get("thought") is True:
                return ThinkingPart(fields["text"], signature)
            return TextPart(fields["text"], extra)
        case ["functionCall"]:
            call = camel(object_at(fields, "functionCall"))
            name, args = text_at(call, "name"), object_of(call.get("args"))
            found = _numbered(call, name, seen)
            return ToolCall(found, name, freeze(args, path="") if args else "{}", extra)
        case ["functionResponse"]:
            return _read_response(camel(object_at(fields, "functionResponse")), seen)
        case ["inlineData"] | ["fileData"]:
            return _read_media(camel(object_at(fields, deciding[0]))) or _opaque(part)
        case _:
            return _opaque(part)


def _numbered(call: JsonObject, name: str, seen: Counter[str]) -> str:
    given = text_at(call, "id")
    if given:
        return given
    seen[name] += 1
    return generated_id(name, seen[name])


def _read_response(fields: JsonObject, seen: Counter[str]) -> ToolResult:
    name = text_at(fields, "name")
    call_id = _numbered(fields, name, seen)
    response = object_at(fields, "response")
    media = (_read_media_part(object_of(each) or {}) for each in list_at(fields, "parts"))
    found = [part for part in media if part is not None]
    for key, failed in (("output", False), ("error", True)):
        if response.keys() == {key} and isinstance(response[key], str):
            return ToolResult(call_id, (TextPart(text_at(response, key)), *found), failed)
    if not response:
        return ToolResult(call_id, tuple(found))
    return ToolResult(call_id, (TextPart(freeze(response, path="")), *found))


def _read_media_part(part: JsonObject) -> ContentPart | None:
    fields = camel(part)
    return _read_media(camel(object_at(fields, "inlineData") or object_at(fields, "fileData")))


def _read_media(fields: JsonObject) -> ContentPart | None:
    media_type, data, uri = (text_at(fields, key) for key in ("mimeType", "data", "fileUri"))
    if uri:
        image = media_type.startswith("image/")
        return ImagePart(uri) if image else FilePart(uri, media_type or "application/octet-stream")
    if not data or not media_type:
        return None
    if media_type.startswith("audio/"):
        return AudioPart(data, media_type.removeprefix("audio/"))
    url = f"data:{media_type};base64,{data}"
    return ImagePart(url) if media_type.startswith("image/") else FilePart(url, media_type)


def _opaque(part: JsonObject) -> OpaquePart:
    return OpaquePart(freeze({"type": "gemini", "part": part}, path=""), PROVIDER)


def write_parts(
    message: Message, recipient: Recipient, path: str, names: dict[str, str]
) -> list[JsonObject]:
    """Return the Gemini parts of a message, without those that cannot be sent.

    `names` maps call ids to function names.
    """
    seen: Counter[str] = Counter()
    found: list[JsonObject] = []
    for index, part in enumerate(message.parts):
        where = f"{path}.parts[{index}]"
        match part:
            case ToolCall():
                found.append(_write_call(part, message, recipient, where, seen))
            case ToolResult():
                name = names.get(part.call_id) or message.name or _name_in(part.call_id)
                found.append(_write_response(part, message, recipient, where, (name, seen)))
            case _:
                block = _write_content(part, message, recipient, where)
                found += [block] if block is not None else []
    return found


def _name_in(call_id: str) -> str:
    """Return the function name that a generated call id contains, for a result whose call is not known."""
    return call_id.rpartition("-")[0] or call_id or "unknown"


def _extra_fields(extra: str, message: Message, recipient: Recipient, path: str) -> JsonObject:
    return (
        recipient.extra_fields(extra, message=message, known=frozenset(), path=path)
        if extra
        else {}
    )


def _identified(fields: JsonObject, call_id: str, name: str, seen: Counter[str]) -> JsonObject:
    seen[name] += 1
    if call_id == generated_id(name, seen[name]):
        return fields
    seen[name] -= 1
    return {"id": call_id, **fields} if call_id else fields


def _write_call(
    part: ToolCall, message: Message, recipient: Recipient, path: str, seen: Counter[str]
) -> JsonObject:
    found, sound = arguments_object(part.arguments)
    if not sound:
        recipient.converted(path, "arguments that are not a JSON object, wrapped in one")
    call = _identified({"name": part.name, "args": found}, part.id, part.name, seen)
    return {"functionCall": call, **_extra_fields(part.extra, message, recipient, path)}


def _write_response(
    part: ToolResult,
    message: Message,
    recipient: Recipient,
    path: str,
    called: tuple[str, Counter[str]],
) -> JsonObject:
    name, seen = called
    _extra_fields(part.extra, message, recipient, path)
    written = [_write_content(each, message, recipient, path) for each in part.content]
    media = [each for each in written if each is not None and "text" not in each]
    texts = [text_at(each, "text") for each in written if each is not None and "text" in each]
    response: JsonObject = {"error" if part.is_error else "output": "".join(texts)}
    fields = _identified({"name": name, "response": response}, part.call_id, name, seen)
    return {"functionResponse": {**fields, "parts": media} if media else fields}


def _write_content(
    part: Part, message: Message, recipient: Recipient, path: str
) -> JsonObject | None:
    match part:
        case TextPart():
            return {"text": part.text, **_extra_fields(part.extra, message, recipient, path)}
        case ThinkingPart():
            if not recipient.may_receive(part, message):
                recipient.left_out(
                    path, "thinking is only sent to the model that wrote it", part.text
                )
                return None
            signed: JsonObject = {SIGNATURE: part.signature} if part.signature else {}
            return {"text": part.text, "thought": True, **signed}
        case ImagePart() | AudioPart() | FilePart():
            return _write_media(part, message, recipient, path)
        case OpaquePart():
            block = thaw_object(part.json)
            if recipient.may_receive(part, message):
                return object_at(block, "part") or block
            text = recipient.foreign_text(block, path)
            return {"text": text} if text else None
        case ToolCall() | ToolResult():
            raise TypeError(f"cannot write a {type(part).__name__} as content for Gemini")
        case _:
            assert_never(part)


def _write_media(
    part: ImagePart | AudioPart | FilePart, message: Message, recipient: Recipient, path: str
) -> JsonObject:
    _extra_fields(part.extra, message, recipient, path)
    if isinstance(part, AudioPart):
        return {"inlineData": {"mimeType": f"audio/{part.format}", "data": part.data}}
    data = data_of(part.url)
    if data is not None and data.media_type:
        return {"inlineData": {"mimeType": data.media_type, "data": data.base64}}
    if part.url.startswith(("file:", "data:")):
        why = (
            "it is a file kept at another provider" if data is None else "its media type is unknown"
        )
        return {"text": recipient.media_note(part, why, path)}
    media_type = part.media_type if isinstance(part, FilePart) else _image_type(part.url)
    return {"fileData": {"mimeType": media_type, "fileUri": part.url}}


def _image_type(url: str) -> str:
    ending = url.partition("?")[0].rpartition(".")[2].lower()
    return f"image/{ending}" if ending in ("png", "gif", "webp", "heic", "heif") else "image/jpeg"
