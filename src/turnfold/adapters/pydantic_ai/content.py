"""What stands inside a prompt or a tool's answer, as parts of a record and back.

Works on PydanticAI's own JSON form of a message, so that whatever it can store is kept. The text and the media go where
turnfold counts, searches and shortens them; the rest of each item (its identifiers, its vendor's metadata) is its
residue, kept beside the record and never sent by turnfold. An item that has no counterpart is kept whole as an opaque
part.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeAlias, cast

from turnfold.errors import InvalidRecord
from turnfold.records import ContentPart, FilePart, ImagePart, Message, OpaquePart, TextPart
from turnfold.records.json_text import freeze, thaw_object

__all__ = ("PROVIDER", "JsonObject", "item_of", "items_of", "opaque", "part_of_item", "present")

JsonObject: TypeAlias = dict[str, object]

PROVIDER = "pydantic_ai"
_FILE_KINDS = frozenset({"audio-url", "document-url", "video-url"})
_STANDARD = str.maketrans("-_", "+/")
"""PydanticAI writes bytes in the alphabet for addresses; a `data:` address wants the standard one."""
_FOR_ADDRESSES = str.maketrans("+/", "-_")
_UNKNOWN = "application/octet-stream"


def present(fields: JsonObject) -> JsonObject:
    """The fields that say something: PydanticAI writes every field it has, most of them null."""
    return {key: value for key, value in fields.items() if value is not None}


def opaque(fields: JsonObject) -> OpaquePart:
    """What has no counterpart, kept whole."""
    return OpaquePart(freeze(fields, path="part"), PROVIDER)


def part_of_item(item: object) -> tuple[ContentPart, object]:
    """An item of a prompt or of a tool's answer as a part, and what the part does not hold of it."""
    if isinstance(item, str):
        return TextPart(item), None
    if not isinstance(item, dict):
        return TextPart(freeze(item, path="item")), {"kind": "json"}
    fields = present(cast("JsonObject", item))
    part = _modelled(fields)
    if part is not None and _sound(part):
        return part, {
            key: value for key, value in fields.items() if key not in _HELD_BY[type(part)]
        }
    return opaque(cast("JsonObject", item)), {"kind": "opaque"}


def item_of(part: ContentPart, residue: object) -> object:
    """The item a part was made from."""
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
            raise InvalidRecord(f"{type(part).__name__} is no part of a PydanticAI message")


def items_of(parts: Sequence[ContentPart], residues: Sequence[object]) -> list[object]:
    """The items that several parts were made from."""
    return [item_of(part, residue) for part, residue in zip(parts, residues, strict=True)]


_HELD_BY: dict[type[object], frozenset[str]] = {
    TextPart: frozenset({"content"}),
    ImagePart: frozenset({"url", "data"}),
    FilePart: frozenset({"url", "data"}),
}
"""The fields of an item that its part holds."""


def _modelled(fields: JsonObject) -> ContentPart | None:
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


def _sound(part: ContentPart) -> bool:
    try:
        Message.of("user", (part,))
    except InvalidRecord:
        return False
    return True
