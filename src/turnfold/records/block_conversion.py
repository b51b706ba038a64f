"""Converts content blocks of OpenAI and Anthropic to message parts, and parts to blocks.

Reading: content is text, a list of block dictionaries, or a list of objects with the same attributes, in the shapes of
OpenAI (`image_url`, `input_audio`, `file`, `tool_calls`) or Anthropic (`image`, `document`, `tool_use`, `tool_result`,
`thinking`). No type name has two meanings, so one reader handles both. An unknown field is kept in the part's `extra`,
an unknown block is kept whole, a broken block is rejected. Message and block objects of SDKs and frameworks are read by
the names of their fields, which are the same in all of them.

Writing: OpenAI's shape if it can express all parts, otherwise Anthropic's blocks. OpenAI's message has one list of
calls after the content and one result per tool message, so a message whose calls are interleaved with text, or that has
several results, is written as Anthropic's blocks. Both are read back to the same parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias, assert_never, cast

from turnfold.errors import InvalidRecord
from turnfold.records.frozen_json import freeze, plain_text, thaw, thaw_object
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

__all__ = (
    "AcceptedContent",
    "accept_content",
    "as_fields",
    "content_value",
    "get_field",
    "is_modelled",
    "message_fields",
    "read_block",
    "read_call",
    "write_block",
    "write_call",
)


_IN_RESULT = "Give text, images, audio or files"


def get_field(value: object, name: str) -> object:
    """Return a field of a mapping or an attribute of an object; None if it does not exist."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value).get(name)
    return cast("object", getattr(value, name, None))


def as_fields(value: object, path: str = "") -> dict[str, object]:
    """Return the fields of a mapping, or the attributes of an object, as a dictionary.

    Raises `InvalidRecord` if it has none.
    """
    if isinstance(value, Mapping):
        fields = dict(cast("Mapping[str, object]", value))
    else:
        found = _dumped(value) or _attributes(value)
        # An object has an attribute for every possible field; those that are None were not set.
        fields = {key: item for key, item in found.items() if item is not None and key[:1] != "_"}
        if not fields:
            raise InvalidRecord(
                f"{type(value).__name__} has no fields", path=path, remedy="Pass a dictionary"
            )
    for key in cast("Iterable[object]", fields):
        if not isinstance(key, str):
            raise InvalidRecord(f"field name {key!r} is {type(key).__name__}, not text", path=path)
    return fields


def _dumped(value: object) -> Mapping[str, object] | None:
    """Return the fields of a Pydantic model; None for any other value."""
    dump = getattr(value, "model_dump", None)
    found = dump() if callable(dump) and not isinstance(value, type) else None
    return cast("Mapping[str, object]", found) if isinstance(found, Mapping) else None


def _attributes(value: object) -> dict[str, object]:
    kind = type(value)
    names = [name for base in reversed(kind.__mro__) for name in _slots(base)]
    found: dict[str, object] = {name: getattr(value, name, None) for name in names}
    found.update(getattr(value, "__dict__", {}))
    config = getattr(kind, "__struct_config__", None)
    if config is not None and config.tag_field:  # a msgspec struct names its type in its class
        found[config.tag_field] = config.tag
    for name in _class_fields(value, found):
        if found.get(name) is None:
            found[name] = getattr(value, name, None)
    return found


def _slots(base: type) -> Iterable[str]:
    names: object = base.__dict__.get("__slots__", ())
    return (names,) if isinstance(names, str) else cast("Iterable[str]", names)


def _class_fields(value: object, found: dict[str, object]) -> tuple[str, ...]:
    """Return the names of the fields that an object may define as attributes of its class.

    These are role and content, or type and the field that the type names.
    """
    if getattr(value, "role", None) is not None:
        return ("role", "content")
    kind = found.get("type") or getattr(value, "type", None)
    if not isinstance(kind, str):
        return ()
    return ("type", "text" if kind.endswith("text") else kind)


Block: TypeAlias = dict[str, object]


class AcceptedContent(NamedTuple):
    """A message's content converted to parts, with the message's role."""

    role: str
    parts: tuple[Part, ...]
    written_role: str
    """The role that the caller gave, if the stored role is another ("developer"); otherwise empty."""


def accept_content(
    role: str,
    content: object,
    *,
    tool_calls: object = None,
    tool_call_id: str | None = None,
) -> AcceptedContent:
    """Convert the content of a message to parts; `tool_calls` and `tool_call_id` are OpenAI's fields next to it."""
    role = plain_text(role, path="role")
    parts = [*_parts(content, "content"), *_calls(tool_calls)]
    if role == "tool" and not any(type(part) is ToolResult for part in parts):
        if tool_call_id is None:
            raise InvalidRecord(
                "the tool message has no tool_call_id",
                path="tool_call_id",
                remedy="Set it to the id of the call that it answers",
            )
        call_id = plain_text(tool_call_id, path="tool_call_id")
        return AcceptedContent(role, (ToolResult(call_id, _result_content(parts, "content")),), "")
    if tool_call_id is not None:
        raise InvalidRecord(
            "the tool results in the content already have the ids of their calls"
            if role == "tool"
            else f"a message of role {role!r} cannot have a tool_call_id",
            path="tool_call_id",
            remedy="Leave it out",
        )
    if role == "user" and any(type(part) is ToolResult for part in parts):
        return AcceptedContent(
            "tool", tuple(parts), ""
        )  # Anthropic brings results in user messages
    if role == "developer":
        return AcceptedContent("system", tuple(parts), role)
    return AcceptedContent(role, tuple(parts), "")


def is_modelled(role: str, key: str, value: object) -> bool:
    """Return True if `Message` has its own field for a provider's key and value; other keys are stored in `extra`."""
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
    """Convert one content block of OpenAI or Anthropic to a message part; raises `InvalidRecord` if it is broken."""
    if isinstance(block, str):
        return TextPart(plain_text(block, path=path))
    if isinstance(block, Part):
        return block
    fields = as_fields(block, path)
    kind = fields.get("type")
    if not isinstance(kind, str):
        raise InvalidRecord("the content block has no type", path=path, remedy='Add "type"')
    if in_result and kind == "tool_result":  # deeply nested results would overflow the stack
        raise InvalidRecord("a tool result cannot hold a ToolResult", path=path, remedy=_IN_RESULT)
    read = _READERS.get(kind)
    if read is None:
        return OpaquePart(freeze(fields, path=path))
    return read(fields, path)


def read_call(call: object, path: str) -> ToolCall:
    """Convert one item of OpenAI's `tool_calls` to a `ToolCall`; raises `InvalidRecord` if it is broken."""
    if isinstance(call, ToolCall):
        return call
    fields = as_fields(call, path)
    kind = fields.pop("type", None)
    if kind not in (None, "function"):
        raise InvalidRecord(
            f"a tool call of type {kind!r} cannot be stored",
            path=path,
            remedy='Use type "function"',
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
            f"tool_calls is {type(cast('object', calls)).__name__}, not a list",
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
        f"content is {type(content).__name__}, not text or a list",
        path=path,
        remedy="Give text or a list of blocks",
    )


def _text(block: Block, path: str) -> Part:
    text = _take(block, "text", path)
    if (
        block["type"] == "text"
    ):  # input_text and output_text of the Responses API are kept as they are
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
        raise InvalidRecord(
            f"unknown image detail {detail!r}", path=path, remedy="Use low, high or auto"
        )
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
    raise InvalidRecord(
        f"unknown source type {kind!r}", path=path, remedy="Use base64, url or file"
    )


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
        raise InvalidRecord(
            "the file has neither file_id nor file_data", path=where, remedy="Add one of them"
        )
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
    if not isinstance(arguments, str):  # text is kept exactly as the model wrote it
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
    elif is_error not in (None, False):  # an explicit False is kept in `extra`
        raise InvalidRecord(f"is_error is {is_error!r}", path=path, remedy="Use true or false")
    return ToolResult(call_id, content, is_error is True, _rest(block, path))


def _result_content(parts: Iterable[Part], path: str) -> tuple[ContentPart, ...]:
    content: list[ContentPart] = []
    for index, part in enumerate(parts):
        if isinstance(part, ToolCall | ToolResult | ThinkingPart):
            raise InvalidRecord(
                f"a tool result cannot hold a {type(part).__name__}",
                path=f"{path}[{index}]",
                remedy=_IN_RESULT,
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
    """Return the fields of a block, and of the object under its `key`, that turnfold does not model, as JSON text."""
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


Content: TypeAlias = str | list[Block] | None


def content_value(parts: tuple[Part, ...]) -> Content:
    """Return message parts as an OpenAI-style `content` field, without the tool calls that go into `tool_calls`."""
    result = _one_plain_result(parts)
    if result is not None:
        return _plain_content(result.content)
    return _plain_content(parts[: len(parts) - len(_trailing_calls(parts))])


def message_fields(
    role: str, parts: tuple[Part, ...], *, name: str | None, extra: str, labels: str
) -> Block:
    """Return role, parts and other fields of a message as an OpenAI-style dictionary."""
    fields: Block = {"role": role, "content": content_value(parts)}
    if name is not None:
        fields["name"] = name
    if calls := _trailing_calls(parts):
        fields["tool_calls"] = [write_call(call) for call in calls]
    result = _one_plain_result(parts)
    if result is not None:
        fields["tool_call_id"] = result.call_id
    if labels:
        fields["metadata"] = thaw_object(labels)
    fields.update(thaw_object(extra))
    return fields


def write_call(call: ToolCall) -> Block:
    """Return a tool call as an item of OpenAI's `tool_calls`."""
    fields: Block = {"id": call.id, "type": "function"}
    fields["function"] = {"name": call.name, "arguments": call.arguments}
    return _with_extra(fields, call.extra)


def write_block(part: Part) -> Block:
    """Return a message part as a content block, in OpenAI's form or, for thinking and tools, Anthropic's."""
    match part:
        case TextPart():
            fields: Block = {"type": "text", "text": part.text}
        case ImagePart() | AudioPart() | FilePart():
            fields = _media(part)
        case ThinkingPart():
            fields = _thinking_block(part)
        case OpaquePart():
            return thaw_object(part.json)
        case ToolCall():
            fields = {"type": "tool_use", "id": part.id, "name": part.name}
            fields["input"] = _arguments(part.arguments)
        case ToolResult():
            fields = {"type": "tool_result", "tool_use_id": part.call_id}
            fields["content"] = _plain_content(part.content)
            if part.is_error:
                fields["is_error"] = True
        case _:
            assert_never(part)
    return _with_extra(fields, part.extra)


def _plain_content(parts: tuple[Part, ...]) -> Content:
    if not parts:
        return None
    if len(parts) == 1 and isinstance(parts[0], TextPart) and not parts[0].extra:
        return parts[0].text
    return [write_block(part) for part in parts]


def _one_plain_result(parts: tuple[Part, ...]) -> ToolResult | None:
    only = parts[0] if len(parts) == 1 else None
    if isinstance(only, ToolResult) and not only.is_error and not only.extra:
        return only
    return None


def _trailing_calls(parts: tuple[Part, ...]) -> list[ToolCall]:
    """Return the tool calls of a message if all of them come after its other parts; otherwise an empty list."""
    calls = [part for part in parts if isinstance(part, ToolCall)]
    return calls if calls == list(parts[len(parts) - len(calls) :]) else []


def _with_extra(fields: Block, extra: str) -> Block:
    """Add a part's unmodelled fields (`extra`, as JSON text) to its block, also inside an object of the block."""
    for key, value in thaw_object(extra).items():
        inner = fields.get(key)
        if isinstance(inner, dict) and isinstance(value, dict):
            fields[key] = {**cast("Block", value), **cast("Block", inner)}
        else:
            fields[key] = value
    return fields


def _media(part: ImagePart | AudioPart | FilePart) -> Block:
    match part:
        case ImagePart():
            detail: Block = {} if part.detail is None else {"detail": part.detail}
            return {"type": "image_url", "image_url": {"url": part.url, **detail}}
        case AudioPart():
            sound: Block = {"data": part.data, "format": part.format}
            return {"type": "input_audio", "input_audio": sound}
        case FilePart():
            return {"type": "file", "file": _file_block(part)}


def _file_block(part: FilePart) -> Block:
    fields: Block = {"filename": part.filename} if part.filename else {}
    if part.media_type != declared_media_type(part.url):
        fields["media_type"] = part.media_type
    if part.url.startswith("file:"):
        return {**fields, "file_id": part.url.removeprefix("file:")}
    return {**fields, "file_data": part.url}


def _thinking_block(part: ThinkingPart) -> Block:
    if part.redacted:
        return {"type": "redacted_thinking", "data": part.redacted}
    fields: Block = {"type": "thinking", "thinking": part.text}
    return {**fields, "signature": part.signature} if part.signature else fields


def _arguments(text: str) -> object:
    """Return tool arguments as a JSON value, or as text if encoding the value again would not give the same text."""
    try:
        value = thaw(text)
        same = not isinstance(value, str) and freeze(value, path="") == text
    except (ValueError, RecursionError):  # a model may write invalid JSON, or nest it without end
        return text
    return value if same else text
