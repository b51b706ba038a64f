"""One block of a LlamaIndex message as a part of a record, and back, in LlamaIndex's own JSON form.

Text and media go where turnfold counts, searches and shortens them. A block that has no counterpart (a citation, a
cache point, a video) is kept whole.

A block may name a file of this machine instead of holding its bytes, and LlamaIndex reads that file when the block is
sent. A live message is the program's own, so its file is read when the message is recorded. What comes out of a store
may have been written by anybody: it names no file that is read.
"""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Final, Literal, cast

from turnfold.errors import InvalidRecord
from turnfold.records import (
    AudioPart,
    FilePart,
    ImagePart,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
)
from turnfold.records.json_text import freeze, thaw_object
from turnfold.wire.foreign import data_of, media_note, words_of
from turnfold.wire.values import JsonObject, list_of, object_of, text_at

__all__ = ("PROVIDER", "block_of", "part_of", "with_files_read", "without_local_files")

PROVIDER: Final = "llama_index"
_UNKNOWN: Final = "application/octet-stream"
_ELSEWHERE: Final = "kept at its provider"
_DATA_KEYS: Final = {"image": "image", "audio": "audio", "video": "video", "document": "data"}
"""Type of a block -> the field that holds its bytes."""
_REMOTE: Final = frozenset({"http", "https", "data", "gs", "s3"})
"""Schemes of addresses that name no file of this machine."""


def part_of(block: JsonObject) -> Part:
    """A block as a part; kept whole where none says the same."""
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


def block_of(part: Part) -> JsonObject | None:
    """A part as a block; None for what no message of LlamaIndex holds."""
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
            return {"block_type": "text", "text": media_note(part, _ELSEWHERE)}
        case ImagePart():
            return {"block_type": "image", **_sourced(part.url, "image", "image_mimetype")}
        case FilePart():
            found = _sourced(part.url, "data", "document_mimetype")
            return {"block_type": "document", **found, "title": part.filename or "input_document"}
        case AudioPart():
            return {"block_type": "audio", "audio": part.data, "format": part.format}
        case OpaquePart():
            return _opaque(part)
        case ToolResult():
            return None


def _call(block: JsonObject) -> ToolCall:
    given = block.get("tool_kwargs")
    text = given if isinstance(given, str) else freeze(given or {}, path="tool_kwargs")
    return ToolCall(text_at(block, "tool_call_id"), text_at(block, "tool_name"), text)


def _detail(block: JsonObject) -> Literal["low", "high", "auto"] | None:
    match block.get("detail"):
        case "low":
            return "low"
        case "high":
            return "high"
        case "auto":
            return "auto"
        case _:
            return None


def _arguments(text: str) -> object:
    try:
        found = cast("object", json.loads(text or "{}"))
    except ValueError:
        return text
    return cast("object", found) if isinstance(found, dict) else text


def _source(block: JsonObject, key: str, media_type: str) -> str:
    """The address of what a block shows; empty where it names a file of this machine."""
    data = text_at(block, key)
    if data:
        return f"data:{media_type or _UNKNOWN};base64,{data}"
    return text_at(block, "url")


def _sourced(url: str, key: str, media_type: str) -> JsonObject:
    data = data_of(url)
    if data is None:
        return {"url": url}
    return {key: data.base64, media_type: data.media_type}


def _opaque(part: OpaquePart) -> JsonObject:
    block = thaw_object(part.json)
    if part.provider == PROVIDER and "block_type" in block:
        return block
    words = words_of(block) or f"[{block.get('type', 'block')} not shown: another provider's]"
    return {"block_type": "text", "text": words}


# ---------------------------------------------------------------------------------- files of this machine


def with_files_read(value: object) -> object:
    """The fields of a live message with the bytes of every file that its blocks name, instead of the names."""
    block = object_of(value)
    if block is None:
        found = list_of(value)
        return value if found is None else [with_files_read(inner) for inner in found]
    key, path = _DATA_KEYS.get(text_at(block, "block_type")), block.get("path")
    if key is not None and path and not block.get(key):
        return {**block, key: _bytes_of(str(path)), "path": None}
    return {name: with_files_read(inner) for name, inner in block.items()}


def without_local_files(value: object) -> object:
    """The fields of a stored message with a note for every block that would have a file of this machine read."""
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
    if block.get(key):  # the bytes are there: nothing is read
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
    """Whether an address may name a file of this machine: anything without a scheme that is known to be remote."""
    return bool(url) and str(url).strip().partition(":")[0].lower() not in _REMOTE
