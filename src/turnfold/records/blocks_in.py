"""From what users and providers write to parts.

Content arrives as text, as a list of block dictionaries, or as a list of objects with the same attributes; in the
shapes of OpenAI (`image_url`, `input_audio`, `file`, `tool_calls`) and of Anthropic (`image`, `document`, `tool_use`,
`tool_result`, `thinking`). The block types do not collide, so one reader takes both. The rule for what it does not
know: an unknown field is kept beside the part, an unknown block is kept whole, a block that is broken is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias, cast

from turnfold.errors import InvalidRecord
from turnfold.records.attributes import as_fields
from turnfold.records.json_text import freeze, plain_text
from turnfold.records.parts import (
    AudioPart,
    ContentPart,
    FilePart,
    ImagePart,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    declared_media_type,
)

__all__ = ("Accepted", "accept_content", "is_modelled", "read_block", "read_call")

Block: TypeAlias = dict[str, object]


class Accepted(NamedTuple):
    """Content as modelled, with the role it turned out to have."""

    role: str
    parts: tuple[Part, ...]
    written_role: str
    """The role as it was written, where the modelled one differs ("developer"); otherwise empty."""


def accept_content(
    role: str,
    content: object,
    *,
    tool_calls: object = None,
    tool_call_id: str | None = None,
) -> Accepted:
    """Model one message's content; `tool_calls` and `tool_call_id` are OpenAI's fields beside it."""
    role = plain_text(role, path="role")
    parts = [*_parts(content, "content"), *_calls(tool_calls)]
    if role == "tool" and not any(type(part) is ToolResult for part in parts):
        if tool_call_id is None:
            raise InvalidRecord(
                "a tool message without tool_call_id",
                path="tool_call_id",
                remedy="Name the call it answers",
            )
        call_id = plain_text(tool_call_id, path="tool_call_id")
        return Accepted(role, (ToolResult(call_id, _result_content(parts, "content")),), "")
    if tool_call_id is not None:
        raise InvalidRecord(
            "each tool result in the content names its call already"
            if role == "tool"
            else f"a message of role {role!r} cannot have a tool_call_id",
            path="tool_call_id",
        )
    if role == "user" and any(type(part) is ToolResult for part in parts):
        return Accepted("tool", tuple(parts), "")  # Anthropic brings results in user messages
    if role == "developer":
        return Accepted("system", tuple(parts), role)
    return Accepted(role, tuple(parts), "")


def is_modelled(role: str, key: str, value: object) -> bool:
    """Whether a message has a place of its own for this field; an empty one stays beside it, as it came."""
    match key:
        case "content":
            return True
        case "name":
            return value is not None
        case "tool_call_id":
            return bool(value) or (role == "tool" and value == "")
        case "tool_calls" | "metadata":
            return bool(value)
        case _:
            return False


def read_block(block: object, path: str, *, in_result: bool = False) -> Part:
    """One content block as a part."""
    if isinstance(block, str):
        return TextPart(plain_text(block, path=path))
    if isinstance(block, Part):
        return block
    fields = as_fields(block, path)
    kind = fields.get("type")
    if not isinstance(kind, str):
        raise InvalidRecord("a content block without a type", path=path, remedy='Add "type"')
    if in_result and kind == "tool_result":  # a chain of them, once read, would overflow the stack
        raise InvalidRecord("a tool result cannot hold a ToolResult", path=path)
    read = _READERS.get(kind)
    if read is None:
        return OpaquePart(freeze(fields, path=path))
    return read(fields, path)


def read_call(call: object, path: str) -> ToolCall:
    """One member of OpenAI's `tool_calls` as a part."""
    if isinstance(call, ToolCall):
        return call
    fields = as_fields(call, path)
    kind = fields.pop("type", None)
    if kind not in (None, "function"):
        raise InvalidRecord(
            f"a tool call of type {kind!r}", path=path, remedy='Only "function" calls can be kept'
        )
    call_id = _take(fields, "id", path)
    function = _inner(fields, "function", path)
    name = _take(function, "name", f"{path}.function")
    arguments = function.pop("arguments", "{}")
    if not isinstance(arguments, str):
        arguments = freeze(arguments, path=f"{path}.function.arguments")
    extra = _rest(fields, path, "function", function)
    return ToolCall(call_id, name, plain_text(arguments, path=path), extra)


def _calls(calls: object) -> Iterable[ToolCall]:
    if not calls:
        return ()
    if isinstance(calls, str | bytes | Mapping) or not isinstance(calls, Iterable):
        raise InvalidRecord(
            f"tool_calls is {type(cast('object', calls)).__name__}",
            path="tool_calls",
            remedy="Give a list of calls",
        )
    listed = enumerate(cast("Iterable[object]", calls))
    return [read_call(call, f"tool_calls[{index}]") for index, call in listed]


def _parts(content: object, path: str, *, in_result: bool = False) -> Iterable[Part]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextPart(plain_text(content, path=path)),)
    if isinstance(content, list | tuple):
        blocks = enumerate(cast("list[object]", content))
        return [
            read_block(block, f"{path}[{index}]", in_result=in_result) for index, block in blocks
        ]
    raise InvalidRecord(
        f"content is {type(content).__name__}", path=path, remedy="Give text or a list of blocks"
    )


def _text(block: Block, path: str) -> Part:
    text = _take(block, "text", path)
    if (
        block["type"] == "text"
    ):  # the Responses API says input_text and output_text: kept, to be said again
        del block["type"]
    return TextPart(text, _rest(block, path))


def _image_url(block: Block, path: str) -> Part:
    del block["type"]
    if isinstance(block.get("image_url"), str):
        return ImagePart(_take(block, "image_url", path), None, _rest(block, path))
    image = _inner(block, "image_url", path)
    url = _take(image, "url", f"{path}.image_url")
    detail = _optional(image, "detail", f"{path}.image_url") or None
    if detail not in (None, "low", "high", "auto"):
        raise InvalidRecord(f"image detail {detail!r}", path=path, remedy="Use low, high or auto")
    return ImagePart(url, detail, _rest(block, path, "image_url", image))


def _image(block: Block, path: str) -> Part:
    del block["type"]
    source = _inner(block, "source", path)
    url = _source_url(source, f"{path}.source")
    return ImagePart(url, None, _rest(block, path, "source", source))


def _document(block: Block, path: str) -> Part:
    source = as_fields(block.get("source") or {}, path)
    if source.get("type") not in ("base64", "url", "file"):
        return OpaquePart(freeze(block, path=path))
    del block["type"], block["source"]
    url = _source_url(source, f"{path}.source")
    media_type = declared_media_type(url) if url.startswith("data:") else "application/pdf"
    return FilePart(url, media_type, extra=_rest(block, path, "source", source))


def _source_url(source: Block, path: str) -> str:
    kind = source.pop("type", None)
    if kind == "base64":
        return f"data:{_take(source, 'media_type', path)};base64,{_take(source, 'data', path)}"
    if kind == "url":
        return _take(source, "url", path)
    if kind == "file":
        return f"file:{_take(source, 'file_id', path)}"
    raise InvalidRecord(f"unknown source type {kind!r}", path=path)


def _input_audio(block: Block, path: str) -> Part:
    del block["type"]
    audio = _inner(block, "input_audio", path)
    where = f"{path}.input_audio"
    data, form = _take(audio, "data", where), _take(audio, "format", where)
    return AudioPart(data, form, _rest(block, path, "input_audio", audio))


def _file(block: Block, path: str) -> Part:
    del block["type"]
    file = _inner(block, "file", path)
    where = f"{path}.file"
    file_id = _optional(file, "file_id", where)
    url = f"file:{file_id}" if file_id else _optional(file, "file_data", where)
    if not url:
        raise InvalidRecord("a file without file_id or file_data", path=where)
    media_type = _optional(file, "media_type", where) or declared_media_type(url)
    filename = _optional(file, "filename", where)
    return FilePart(url, media_type, filename, _rest(block, path, "file", file))


def _thinking(block: Block, path: str) -> Part:
    del block["type"]
    text, signature = _take(block, "thinking", path), _optional(block, "signature", path)
    return ThinkingPart(text, signature, extra=_rest(block, path))


def _redacted(block: Block, path: str) -> Part:
    del block["type"]
    return ThinkingPart("", redacted=_take(block, "data", path), extra=_rest(block, path))


def _tool_use(block: Block, path: str) -> Part:
    del block["type"]
    call_id, name = _take(block, "id", path), _take(block, "name", path)
    arguments = block.pop("input", {})
    if not isinstance(
        arguments, str
    ):  # text is a model's own spelling of its arguments, kept verbatim
        arguments = freeze(arguments, path=f"{path}.input")
    return ToolCall(call_id, name, plain_text(arguments, path=path), _rest(block, path))


def _tool_result(block: Block, path: str) -> Part:
    del block["type"]
    call_id = _take(block, "tool_use_id", path)
    where = f"{path}.content"
    content = _result_content(_parts(block.pop("content", None), where, in_result=True), where)
    is_error = block.get("is_error")
    if is_error is True:
        del block["is_error"]
    elif is_error not in (None, False):  # False said aloud is kept, so that it can be said again
        raise InvalidRecord(f"is_error is {is_error!r}", path=path, remedy="Use true or false")
    return ToolResult(call_id, content, is_error is True, _rest(block, path))


def _result_content(parts: Iterable[Part], path: str) -> tuple[ContentPart, ...]:
    content: list[ContentPart] = []
    for index, part in enumerate(parts):
        if isinstance(part, ToolCall | ToolResult | ThinkingPart):
            raise InvalidRecord(
                f"a tool result cannot hold a {type(part).__name__}", path=f"{path}[{index}]"
            )
        content.append(part)
    return tuple(content)


def _inner(block: Block, key: str, path: str) -> Block:
    return as_fields(block.pop(key, None) or {}, f"{path}.{key}")


def _take(block: Block, key: str, path: str) -> str:
    if block.get(key) is None:
        raise InvalidRecord(f"{key} is missing", path=path)
    return plain_text(block.pop(key), path=f"{path}.{key}")


def _optional(block: Block, key: str, path: str) -> str:
    return _take(block, key, path) if block.get(key) not in (None, "") else ""


def _rest(block: Block, path: str, key: str = "", inner: Block | None = None) -> str:
    """JSON text of what was not modelled, in the block and in the object under `key`, each where it stood."""
    left = {**block, key: inner} if inner else block
    return freeze(left, path=path) if left else ""


_READERS: dict[str, Callable[[Block, str], Part]] = {
    "text": _text,
    "input_text": _text,
    "output_text": _text,
    "image_url": _image_url,
    "image": _image,
    "document": _document,
    "input_audio": _input_audio,
    "file": _file,
    "thinking": _thinking,
    "redacted_thinking": _redacted,
    "tool_use": _tool_use,
    "tool_result": _tool_result,
}
