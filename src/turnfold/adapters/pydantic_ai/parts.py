"""One part of a PydanticAI message as what turnfold records, and back.

A record holds what was said; the residue, JSON beside it, holds how PydanticAI wrote it (timestamps, ids, provider
details, whether arguments were an object or text). Both together give the part back; the record alone still gives one
that means the same, which is what a model sees of a message that had to be shortened.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple, cast

from turnfold.adapters.pydantic_ai.content import (
    PROVIDER,
    JsonObject,
    items_of,
    opaque,
    part_of_item,
    present,
)
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
)
from turnfold.records.json_text import freeze, thaw_object

__all__ = ("Spoken", "answered", "restored_answer", "restored_request_part", "spoken")

_ERRORS = frozenset({"failed", "retried"})
_WHOLE = "whole"
"""Key of a residue that holds the entire part, where the parts of the record could not give it back."""
_MEDIA = frozenset(
    {"image-url", "audio-url", "document-url", "video-url", "binary", "uploaded-file"}
)


class Spoken(NamedTuple):
    """One part of a request as a message of its own."""

    role: Role
    parts: tuple[Part, ...]
    residue: JsonObject
    name: str | None = None


# ---------------------------------------------------------------------------------- requests


def spoken(fields: JsonObject, *, text: str = "", whole: bool = False) -> Spoken:
    """A part of a request; `text` is what a model is shown where the fields do not say it, `whole` keeps them all."""
    said = _spoken(fields, text)
    return said._replace(residue={_WHOLE: fields}) if whole else said


def _spoken(given: JsonObject, text: str) -> Spoken:
    fields = present(given)
    match fields.get("part_kind"):
        case "user-prompt":
            parts, rest = _content(fields, text)
            return Spoken("user", parts, rest)
        case "tool-return" | "retry-prompt" if fields.get("tool_name"):
            parts, rest = _content(fields, text)
            result = ToolResult(
                str(rest.pop("tool_call_id", "")), parts, fields.get("outcome") in _ERRORS
            )
            return Spoken("tool", (result,), rest, str(rest.pop("tool_name")))
        case "retry-feedback" | "retry-prompt" | "compaction" if text:
            return Spoken("user", (TextPart(text),), {_WHOLE: given})
        case _:
            return Spoken("user", (opaque(given),), {_WHOLE: {}})


def _content(fields: JsonObject, text: str) -> tuple[tuple[ContentPart, ...], JsonObject]:
    rest = dict(fields)
    content: object = rest.pop("content", None)
    if isinstance(content, str):
        return (TextPart(content),), rest
    items = cast("list[object]", content) if isinstance(content, list) else [content]
    if fields.get("part_kind") != "user-prompt" and not any(map(_is_media, items)):
        return _value(cast("object", content), text, rest)
    pairs = [part_of_item(item) for item in items]
    form = "items" if isinstance(content, list) else "item"
    rest["content"] = {form: [residue for _, residue in pairs]}
    return tuple(part for part, _ in pairs), rest


def _value(
    content: object, text: str, rest: JsonObject
) -> tuple[tuple[ContentPart, ...], JsonObject]:
    """A tool's answer that is no text: what the model is shown of it, and how to get the value back."""
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
    """The JSON form of the part of a request that a record and its residue were made from."""
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
        return items_of(parts, cast("list[object]", how["item"]))[0]
    return items_of(parts, cast("list[object]", how["items"]))


# ---------------------------------------------------------------------------------- responses


def answered(fields: JsonObject, *, model: str, whole: bool = False) -> tuple[Part, JsonObject]:
    """A part of a response, and its residue; `whole` keeps all of it in the residue."""
    part, rest = _answered(fields, model)
    try:
        Message.of("assistant", (part,))
    except InvalidRecord:
        return opaque(fields), {_WHOLE: {}}
    return part, ({_WHOLE: fields} if whole and not isinstance(part, OpaquePart) else rest)


def _answered(fields: JsonObject, model: str) -> tuple[Part, JsonObject]:
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
            return _call(rest), rest
        case "file":
            part, residue = part_of_item(rest.pop("content", None))
            rest["content"] = residue
            return part, rest
        case _:
            return opaque(fields), {_WHOLE: {}}


def _call(rest: JsonObject) -> ToolCall:
    """A tool call; takes what it holds out of `rest` and leaves how the arguments were written."""
    args = rest.pop("args", None)
    if not isinstance(args, str):
        rest["args"] = "none" if args is None else "object"
    text = args if isinstance(args, str) else freeze(args or {}, path="args")
    return ToolCall(str(rest.pop("tool_call_id")), str(rest.pop("tool_name")), text)


def restored_answer(part: Part, residue: JsonObject) -> JsonObject:
    """The JSON form of the part of a response that a part and its residue were made from."""
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
            how = fields.pop("args", None)
            value = part.arguments if how is None else cast("object", json.loads(part.arguments))
            fields |= {"tool_name": part.name, "tool_call_id": part.id}
            fields["args"] = None if how == "none" else value
        case TextPart() | ImagePart() | FilePart() | OpaquePart():
            [fields["content"]] = items_of([part], [fields.get("content")])
        case _:
            raise InvalidRecord(f"{type(part).__name__} is no part of an answer of {PROVIDER}")
    return fields
