"""What stands inside a LangChain message, as parts of a record and back.

LangChain's content is text, or a list of blocks whose forms are the providers' own. Text, pictures, files and thoughts
go where turnfold counts, searches and shortens them; the rest of a block is its residue, kept beside the record. A tool
call that is written among the blocks as well is kept only there: the message says it once more. A block that has no
counterpart is kept whole as an opaque part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias, cast

from turnfold.errors import InvalidRecord
from turnfold.records import (
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
)
from turnfold.records.json_text import freeze, thaw_object

__all__ = ("PROVIDER", "Content", "JsonObject", "content_of", "parts_of")

JsonObject: TypeAlias = dict[str, object]
Content: TypeAlias = str | list[str | JsonObject]

PROVIDER: Final = "langchain"
_CALLS = frozenset(
    {"tool_use", "tool_call", "function_call", "tool_call_chunk", "input_json_delta"}
)
_TEXT: Final = "text"
_WHOLE: Final = "whole"
"""Key of a residue that is the entire block."""


def parts_of(content: Content, *, thoughts: bool = False) -> tuple[list[Part], list[object] | None]:
    """The parts of a content, and how it was written: None for text, else the residue of each block.

    `thoughts` says whether it is an assistant's, who alone may have some.
    """
    if isinstance(content, str):
        return ([TextPart(content)] if content else []), None
    pairs = [_part_of(item, thoughts=thoughts) for item in content]
    return [part for part, _ in pairs if part is not None], [residue for _, residue in pairs]


def content_of(parts: Sequence[Part], residues: Sequence[object] | None) -> Content:
    """The content that parts and residues were made from."""
    if residues is None:
        return "".join(part.text for part in parts if isinstance(part, TextPart))
    left = iter(parts)
    return [_block(left, residue) for residue in residues]


def _part_of(item: str | JsonObject, *, thoughts: bool) -> tuple[Part | None, object]:
    """A block as a part, and what the part does not hold of it; no part for a call that the message says again."""
    if isinstance(item, str):
        return TextPart(item), None
    if item.get("type") in _CALLS:
        return None, {_WHOLE: item}
    part, residue = _modelled(dict(item))
    if part is not None and _sound(part) and (thoughts or not isinstance(part, ThinkingPart)):
        return part, residue
    return OpaquePart(freeze(item, path="content"), PROVIDER), {"kind": "opaque"}


def _modelled(rest: JsonObject) -> tuple[Part | None, JsonObject]:
    """A part, and what is left of the block. What the part holds leaves its place, so that the order stays."""
    match rest.get("type"):
        case "text" if isinstance(rest.get("text"), str):
            return TextPart(_taken(rest, "text")), {"kind": _TEXT, "rest": rest}
        case "thinking" if isinstance(rest.get("thinking"), str):
            if not isinstance(rest.get("signature", ""), str):
                return None, rest
            text = _taken(rest, "thinking")
            signature = _taken(rest, "signature") if "signature" in rest else ""
            held = ThinkingPart(text, signature, provider="anthropic" if signature else "")
            return held, {"kind": "thinking", "rest": rest}
        case "reasoning" if isinstance(rest.get("reasoning"), str):
            return ThinkingPart(_taken(rest, "reasoning")), {"kind": "reasoning", "rest": rest}
        case "image_url":
            return _image_url(rest)
        case "image" | "file":
            return _media(rest)
        case _:
            return None, rest


def _image_url(rest: JsonObject) -> tuple[Part | None, JsonObject]:
    said = rest.get("image_url")
    if isinstance(said, str):
        return ImagePart(_taken(rest, "image_url")), {"kind": "image_url", "rest": rest}
    if not isinstance(said, dict):
        return None, rest
    inner = dict(cast("JsonObject", said))
    if not isinstance(inner.get("url"), str):
        return None, rest
    url = _taken(inner, "url")
    rest["image_url"] = None
    return ImagePart(url), {"kind": "image_url", "rest": rest, "inner": inner}


def _media(rest: JsonObject) -> tuple[Part | None, JsonObject]:
    picture = rest.get("type") == "image"
    media_type = str(rest.get("mime_type") or ("image/png" if picture else "application/pdf"))
    if isinstance(rest.get("base64"), str):
        url, key = f"data:{media_type};base64,{_taken(rest, 'base64')}", "base64"
    elif isinstance(rest.get("url"), str):
        url, key = _taken(rest, "url"), "url"
    else:
        return None, rest
    part = ImagePart(url) if picture else FilePart(url, media_type)
    return part, {"kind": key, "rest": rest}


def _taken(fields: JsonObject, key: str) -> str:
    value, fields[key] = str(fields[key]), None
    return value


def _block(left: Iterator[Part], residue: object) -> str | JsonObject:
    """The next block; takes the part it needs."""
    if residue is None:
        return cast("TextPart", next(left)).text
    how = cast("JsonObject", residue)
    return cast("JsonObject", how[_WHOLE]) if _WHOLE in how else _restored(next(left), how)


def _restored(part: Part, residue: JsonObject) -> JsonObject:
    rest = cast("JsonObject", residue.get("rest", {}))
    match part, residue["kind"]:
        case TextPart(), _:
            return {**rest, "text": part.text}
        case ThinkingPart(), "thinking":
            signed = {"signature": part.signature} if "signature" in rest else {}
            return {**rest, "thinking": part.text, **signed}
        case ThinkingPart(), _:
            return {**rest, "reasoning": part.text}
        case ImagePart(), "image_url":
            inner = residue.get("inner")
            url = part.url if inner is None else {**cast("JsonObject", inner), "url": part.url}
            return {**rest, "image_url": url}
        case ((ImagePart() | FilePart()), "base64"):
            return {**rest, "base64": part.url.partition(",")[2]}
        case ((ImagePart() | FilePart()), _):
            return {**rest, "url": part.url}
        case OpaquePart(), _:
            return thaw_object(part.json)
        case _:
            raise InvalidRecord(f"{type(part).__name__} is no part of a LangChain message")


def _sound(part: Part) -> bool:
    try:
        Message.of("assistant" if isinstance(part, ThinkingPart) else "user", (part,))
    except InvalidRecord:
        return False
    return True
