"""Converts parts of PydanticAI messages to parts of records and back.

The code works on PydanticAI's own JSON form, so that everything it can store is kept. A record holds the content that
turnfold counts, searches and shortens: text and media. The residue, stored with the record, is JSON with the other
fields (timestamps, ids, provider details, whether arguments were an object or text). Both together restore the part
exactly; the record alone gives a part with the same content, which is used for a shortened message. An item without an
equivalent part is kept whole as an opaque part.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, cast

from turnfold.adapters._common import is_valid_part
from turnfold.errors import InvalidRecord
from turnfold.records import (
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

__all__ = (
    "PROVIDER",
    "JsonObject",
    "RequestPart",
    "present",
    "request_part_record",
    "response_part",
    "restored_request_part",
    "restored_response_part",
)


JsonObject: TypeAlias = dict[str, object]

PROVIDER = "pydantic_ai"
_FILE_KINDS = frozenset({"audio-url", "document-url", "video-url"})
_STANDARD = str.maketrans("-_", "+/")
"""Maps the URL-safe base64 alphabet, in which PydanticAI writes bytes, to the standard one of a `data:` URL."""
_FOR_ADDRESSES = str.maketrans("+/", "-_")
"""Maps the standard base64 alphabet to the URL-safe one."""
_UNKNOWN = "application/octet-stream"


def present(fields: JsonObject) -> JsonObject:
    """Return the fields that are not None; PydanticAI also writes fields that are None."""
    return {key: value for key, value in fields.items() if value is not None}


def _opaque(fields: JsonObject) -> OpaquePart:
    """Return an opaque part with a whole PydanticAI item for which there is no equivalent part."""
    return OpaquePart(freeze(fields, path="part"), PROVIDER)


def _part_of_item(item: object) -> tuple[ContentPart, object]:
    """Convert an item of a prompt or tool result to a part and its residue, which `_item_of` needs to restore it.

    The residue of an item with a part of its own is a dictionary of the fields that the part has no place for; of any
    other item it names the form in which the part holds the whole item ("json" or "opaque"); of plain text it is None.
    """
    if isinstance(item, str):
        return TextPart(item), None
    if not isinstance(item, dict) or not item:  # an opaque part may not be empty
        return TextPart(freeze(cast("object", item), path="item")), {"kind": "json"}
    fields = present(cast("JsonObject", item))
    part = _known_part(fields)
    if part is not None and is_valid_part(part):
        return part, {
            key: value for key, value in fields.items() if key not in _PART_FIELDS[type(part)]
        }
    return _opaque(cast("JsonObject", item)), {"kind": "opaque"}


def _item_of(part: ContentPart, residue: object) -> object:
    """Restore a PydanticAI item from a part and its residue, as `_part_of_item` returned them.

    Raises `InvalidRecord` for a part that PydanticAI has no item for.
    """
    if residue is None:
        return part.text if isinstance(part, TextPart) else ""
    rest = cast("JsonObject", residue)
    match part, rest.get("kind"):
        case TextPart(), "json":
            return cast("object", json.loads(part.text))
        case TextPart(), _:
            return {**rest, "content": part.text}
        case OpaquePart(), _:
            return thaw_object(part.json)
        case ((ImagePart() | FilePart()), "binary"):
            data = part.url.partition(",")[2].translate(_FOR_ADDRESSES)
            return {**rest, "data": data}
        case ((ImagePart() | FilePart()), _):
            return {**rest, "url": part.url}
        case _:
            raise InvalidRecord(
                f"a stored {type(part).__name__} cannot be part of a PydanticAI message: PydanticAI has no item for it"
            )


def _items_of(parts: Sequence[ContentPart], residues: Sequence[object]) -> list[object]:
    """Restore PydanticAI items from their parts and the residue of each (see `_part_of_item`)."""
    return [_item_of(part, residue) for part, residue in zip(parts, residues, strict=True)]


_PART_FIELDS: dict[type[object], frozenset[str]] = {
    TextPart: frozenset({"content"}),
    ImagePart: frozenset({"url", "data"}),
    FilePart: frozenset({"url", "data"}),
}
"""Type of part -> the fields of a stored item that the part holds."""


def _known_part(fields: JsonObject) -> ContentPart | None:
    kind, media_type = fields.get("kind"), str(fields.get("media_type") or _UNKNOWN)
    match kind:
        case "text-content" if isinstance(fields.get("content"), str):
            return TextPart(str(fields["content"]))
        case "image-url":
            return ImagePart(str(fields.get("url")))
        case "binary" if isinstance(fields.get("data"), str):
            url = f"data:{media_type};base64,{str(fields['data']).translate(_STANDARD)}"
            return ImagePart(url) if media_type.startswith("image/") else FilePart(url, media_type)
        case str() if kind in _FILE_KINDS:
            return FilePart(str(fields.get("url")), media_type)
        case _:
            return None


_ERRORS = frozenset({"failed", "retried"})
_WHOLE = "whole"
"""Key of a residue that holds the entire part, because the record could not restore it."""
_MEDIA = frozenset(
    {"image-url", "audio-url", "document-url", "video-url", "binary", "uploaded-file"}
)


class RequestPart(NamedTuple):
    """One part of a PydanticAI request, converted to a message."""

    role: Role
    parts: tuple[Part, ...]
    residue: JsonObject
    name: str | None = None


# ---------------------------------------------------------------------------------- requests


def request_part_record(fields: JsonObject, *, text: str = "", whole: bool = False) -> RequestPart:
    """Convert a part of a PydanticAI request to a record (stored message) and its residue (other fields).

    `text` is the text a model is shown for content that is not text. With `whole`, the residue has all fields.
    """
    read = _read_request_part(fields, text)
    return read._replace(residue={_WHOLE: fields}) if whole else read


def _read_request_part(given: JsonObject, text: str) -> RequestPart:
    fields = present(given)
    match fields.get("part_kind"):
        case "user-prompt":
            parts, rest = _content(fields, text)
            return RequestPart("user", parts, rest)
        case "tool-return" | "retry-prompt" if fields.get("tool_name"):
            parts, rest = _content(fields, text)
            result = ToolResult(
                str(rest.pop("tool_call_id", "")), parts, fields.get("outcome") in _ERRORS
            )
            return RequestPart("tool", (result,), rest, str(rest.pop("tool_name")))
        case "retry-feedback" | "retry-prompt" | "compaction" if text:
            return RequestPart("user", (TextPart(text),), {_WHOLE: given})
        case _:
            return RequestPart("user", (_opaque(given),), {_WHOLE: {}})


def _content(fields: JsonObject, text: str) -> tuple[tuple[ContentPart, ...], JsonObject]:
    rest = dict(fields)
    content: object = rest.pop("content", None)
    if isinstance(content, str):
        return (TextPart(content),), rest
    items = cast("list[object]", content) if isinstance(content, list) else [content]
    if fields.get("part_kind") != "user-prompt" and not any(map(_is_media, items)):
        return _value_content(cast("object", content), text, rest)
    pairs = [_part_of_item(item) for item in items]
    form = "items" if isinstance(content, list) else "item"
    rest["content"] = {form: [residue for _, residue in pairs]}
    return tuple(part for part, _ in pairs), rest


def _value_content(
    content: object, text: str, rest: JsonObject
) -> tuple[tuple[ContentPart, ...], JsonObject]:
    """Return the text that a model gets for a tool's return value, and the residue that restores the value."""
    shown = text or freeze(content, path="content")
    try:
        same = json.loads(shown) == content and freeze(json.loads(shown), path="") == freeze(
            content, path=""
        )
    except (ValueError, RecursionError):
        same = False
    rest["content"] = {"json": True} if same else {"value": content}
    return (TextPart(shown),), rest


def _is_media(item: object) -> bool:
    return isinstance(item, dict) and cast("JsonObject", item).get("kind") in _MEDIA


def restored_request_part(record: Message, residue: JsonObject) -> JsonObject:
    """Return a PydanticAI request part as JSON, restored from a stored message and its residue (other fields)."""
    if _WHOLE in residue:
        whole = cast("JsonObject", residue[_WHOLE])
        return whole or thaw_object(cast("OpaquePart", record.parts[0]).json)
    fields = dict(residue)
    parts = record.parts
    if parts and isinstance(parts[0], ToolResult):
        fields["tool_call_id"], fields["tool_name"] = parts[0].call_id, record.name
        parts = parts[0].content
    fields["content"] = _restored_content(
        cast("Sequence[ContentPart]", parts), fields.pop("content", None)
    )
    return fields


def _restored_content(parts: Sequence[ContentPart], form: object) -> object:
    if form is None:
        return cast("TextPart", parts[0]).text
    how = cast("JsonObject", form)
    if "value" in how:
        return how["value"]
    if "json" in how:
        return cast("object", json.loads(cast("TextPart", parts[0]).text))
    if "item" in how:
        return _items_of(parts, cast("list[object]", how["item"]))[0]
    return _items_of(parts, cast("list[object]", how["items"]))


# ---------------------------------------------------------------------------------- responses


def response_part(
    fields: JsonObject, *, model: str, whole: bool = False
) -> tuple[Part, JsonObject]:
    """Convert a part of a PydanticAI response to a message part and its residue (other fields).

    If `whole` is True, the residue has all fields.
    """
    part, rest = _read_response_part(fields, model)
    try:
        Message.of("assistant", (part,))
    except InvalidRecord:
        return _opaque(fields), {_WHOLE: {}}
    return part, ({_WHOLE: fields} if whole and not isinstance(part, OpaquePart) else rest)


def _read_response_part(fields: JsonObject, model: str) -> tuple[Part, JsonObject]:
    rest = present(fields)
    match rest.get("part_kind"):
        case "text":
            return TextPart(str(rest.pop("content", ""))), rest
        case "thinking":
            signature = str(rest.pop("signature", ""))
            provider = str(rest.pop("provider_name", ""))
            text = str(rest.pop("content", ""))
            return ThinkingPart(text, signature, provider=provider, model=model), rest
        case "tool-call":
            return _tool_call(rest), rest
        case "file":
            part, residue = _part_of_item(rest.pop("content", None))
            rest["content"] = residue
            return part, rest
        case _:
            return _opaque(fields), {_WHOLE: {}}


def _tool_call(rest: JsonObject) -> ToolCall:
    """Make a tool call from the fields in `rest`, and remove these fields from `rest`.

    If the arguments are not a text, the field `args` of `rest` then says what they were: "object", or "none" for no
    arguments.
    """
    args = rest.pop("args", None)
    if not isinstance(args, str):
        rest["args"] = "none" if args is None else "object"
    text = args if isinstance(args, str) else freeze(args or {}, path="args")
    return ToolCall(str(rest.pop("tool_call_id")), str(rest.pop("tool_name")), text)


def restored_response_part(part: Part, residue: JsonObject) -> JsonObject:
    """Return a PydanticAI response part as JSON, restored from a message part and its residue (other fields)."""
    if _WHOLE in residue:
        whole = cast("JsonObject", residue[_WHOLE])
        return whole or thaw_object(cast("OpaquePart", part).json)
    fields = dict(residue)
    match part:
        case TextPart() if fields.get("part_kind") == "text":
            fields["content"] = part.text
        case ThinkingPart():
            fields |= {"content": part.text, "signature": part.signature or None}
            fields["provider_name"] = part.provider or None
        case ToolCall():
            form = fields.pop("args", None)
            value = part.arguments if form is None else cast("object", json.loads(part.arguments))
            fields |= {"tool_name": part.name, "tool_call_id": part.id}
            fields["args"] = None if form == "none" else value
        case TextPart() | ImagePart() | FilePart() | OpaquePart():
            fields["content"] = _item_of(part, fields.get("content"))
        case _:
            raise InvalidRecord(
                f"a stored {type(part).__name__} cannot be part of a PydanticAI response: PydanticAI has no part for it"
            )
    return fields
