"""Convert items of OpenAI's Responses API to turnfold's message parts and back.

The Responses API has one flat list of items: messages, reasoning, calls, outputs and some thirty other kinds. All items
that the model produced between two inputs become one assistant message. A call that the caller must answer (a function,
a shell, a computer) and its output become a tool call and its result, so that no window shows one without the other.
Any other item is kept as one opaque part.
"""

from __future__ import annotations

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
from turnfold.wire.codec import Recipient, bare_content
from turnfold.wire.json_values import JsonObject, list_at, list_of, object_of, text_at

__all__ = (
    "answered_call",
    "called_id",
    "is_output",
    "is_produced",
    "read_item",
    "speaker",
    "write_content",
    "write_parts",
)


PROVIDER = "openai_responses"
_CONTENT_ONLY = frozenset({"refusal"})
"""Types of unmodelled blocks that belong inside a message; all other unmodelled blocks are items."""


def speaker(item: JsonObject) -> str:
    """Return the role of a Responses item that is a message; empty for other items."""
    return text_at(item, "role") if item.get("type") in (None, "message") else ""


def called_id(item: JsonObject) -> str:
    """Return the id of the tool call in a Responses item; empty if the item has no call that the caller must answer."""
    kind = text_at(item, "type")
    return text_at(item, "call_id") if kind.endswith("_call") or kind == "program" else ""


def answered_call(item: JsonObject) -> str:
    """Return the id of the tool call that an output item answers; empty if the item is not an output."""
    kind = text_at(item, "type")
    if kind == "local_shell_call_output":  # the oldest of them names its call by `id`
        return text_at(item, "call_id") or text_at(item, "id")
    return text_at(item, "call_id") if kind.endswith("_output") else ""


def is_output(item: JsonObject) -> bool:
    """Return True if the Responses item is the output of a tool call."""
    return bool(answered_call(item))


def is_produced(item: JsonObject) -> bool:
    """Return True if the model produced the Responses item, and not the caller."""
    return speaker(item) in ("", "assistant") and not is_output(item)


def read_item(item: JsonObject, *, whole: bool = False) -> list[Part]:
    """Convert one Responses item to message parts; with `whole`, a call or output becomes one unmodelled part."""
    if speaker(item):
        return _read_content(item.get("content"))
    if item.get("type") == "reasoning":
        return [_thought(item)]
    if is_output(item) and not whole:
        return [_read_output(item)]
    return [_read_call(item)] if called_id(item) and not whole else [_opaque(item)]


def write_parts(message: Message, recipient: Recipient, path: str) -> list[JsonObject]:
    """Return an assistant or tool message as Responses items; parts that cannot be items follow as messages."""
    items: list[JsonObject] = []
    aside: list[JsonObject] = []
    for index, part in enumerate(message.parts):
        where = f"{path}.parts[{index}]"
        match part:
            case ToolCall():
                items.append(_write_call(part, message, recipient, where))
            case ToolResult():
                items.append(_write_output(part, message, recipient, where))
            case ThinkingPart():
                items += _write_thought(part, message, recipient, where)
            case TextPart() if message.role == "assistant":
                recipient.extra_fields(part.extra, message=message, known=frozenset(), path=where)
                items.append({"role": "assistant", "content": part.text})
            case OpaquePart() if _is_item(part) and recipient.may_receive(part, message):
                items.append(thaw_object(part.json))
            case _:
                block = _block(part, message, recipient, where)
                aside += [block] if block is not None else []
    speaks = "assistant" if message.role == "assistant" else "user"
    return [*items, *({"role": speaks, "content": bare_content([block])} for block in aside)]


def write_content(
    parts: tuple[Part, ...], message: Message, recipient: Recipient, path: str
) -> list[JsonObject]:
    """Return message parts as the content blocks of an input message, or of a tool call's output."""
    found = (
        _block(part, message, recipient, f"{path}[{index}]") for index, part in enumerate(parts)
    )
    return [block for block in found if block is not None]


def _read_content(content: object) -> list[Part]:
    if isinstance(content, str):
        return [TextPart(content)]
    return [_read_block(object_of(block) or {}) for block in list_of(content) or []]


def _read_block(block: JsonObject) -> Part:
    match block.get("type"), block.get("image_url"), block.get("file_id"):
        case (("input_text" | "output_text" | "text"), _, _) if isinstance(block.get("text"), str):
            return TextPart(text_at(block, "text"))
        case "input_image", str(url), _:
            return ImagePart(url)
        case "input_image", _, str(file_id):
            return ImagePart(f"file:{file_id}")
        case "input_file", _, _:
            return _read_file(block)
        case _:
            return _opaque(block)


def _read_file(block: JsonObject) -> Part:
    name = text_at(block, "filename")
    if text_at(block, "file_id"):
        return FilePart(f"file:{block['file_id']}", filename=name)
    url = text_at(block, "file_data") or text_at(block, "file_url")
    return FilePart(url, filename=name) if url else _opaque(block)


def _is_item(part: OpaquePart) -> bool:
    return text_at(thaw_object(part.json), "type") not in _CONTENT_ONLY


def _opaque(item: JsonObject) -> OpaquePart:
    return OpaquePart(freeze(item, path="") if item else '{"type":""}', PROVIDER)


def _thought(item: JsonObject) -> Part:
    summary = [object_of(each) or {} for each in list_at(item, "summary")]
    text = "\n\n".join(text_at(each, "text") for each in summary)
    return ThinkingPart(text, text_at(item, "encrypted_content"))


def _read_call(item: JsonObject) -> ToolCall:
    kind, call_id = text_at(item, "type"), text_at(item, "call_id")
    name, arguments = text_at(item, "name"), item.get("arguments")
    if kind == "function_call" and name and isinstance(arguments, str):
        return ToolCall(call_id, name, arguments)
    if kind == "function_call" and name and object_of(arguments) is not None:
        # The API has the JSON text of an object here; some servers send the object.
        return ToolCall(call_id, name, freeze(arguments, path="arguments"))
    if kind == "custom_tool_call" and name and isinstance(item.get("input"), str):
        return ToolCall(call_id, name, text_at(item, "input"))
    rest = {key: item[key] for key in item if key not in ("type", "call_id", "id", "status")}
    return ToolCall(call_id, kind, freeze(rest, path=""))


def _read_output(item: JsonObject) -> ToolResult:
    output = item.get("output")
    call_id, kind = answered_call(item), text_at(item, "type")
    if kind in ("function_call_output", "custom_tool_call_output") and isinstance(output, str):
        return ToolResult(call_id, (TextPart(output),))
    blocks = list_of(output) if kind == "function_call_output" else None
    if blocks is None:
        return ToolResult(call_id, (_opaque(item),))
    parts = (_read_block(object_of(block) or {}) for block in blocks)
    return ToolResult(call_id, tuple(part for part in parts if isinstance(part, ContentPart)))


def _write_call(part: ToolCall, message: Message, recipient: Recipient, path: str) -> JsonObject:
    recipient.extra_fields(part.extra, message=message, known=frozenset(), path=path)
    fields: JsonObject = {"type": "function_call", "call_id": part.id, "name": part.name}
    return {**fields, "arguments": part.arguments}


def _write_output(
    part: ToolResult, message: Message, recipient: Recipient, path: str
) -> JsonObject:
    if part.is_error:
        recipient.converted(
            path, "a failed tool result: only its text is sent, there is no field for it"
        )
    recipient.extra_fields(part.extra, message=message, known=frozenset(), path=path)
    only = part.content[0] if len(part.content) == 1 else None
    if isinstance(only, OpaquePart) and recipient.owns(message):
        item = thaw_object(only.json)
        if answered_call(item) == part.call_id:
            return item
    fields: JsonObject = {"type": "function_call_output", "call_id": part.call_id}
    blocks = write_content(part.content, message, recipient, f"{path}.content")
    return {**fields, "output": bare_content(blocks) if blocks else ""}


def _write_thought(
    part: ThinkingPart, message: Message, recipient: Recipient, path: str
) -> list[JsonObject]:
    if not recipient.may_receive(part, message):
        recipient.left_out(path, "thinking is only sent to the model that wrote it", part.text)
        return []
    summary = [{"type": "summary_text", "text": part.text}] if part.text else []
    item: JsonObject = {"type": "reasoning", "summary": summary}
    return [{**item, "encrypted_content": part.signature} if part.signature else item]


def _text_block(text: str, message: Message) -> JsonObject:
    return {"type": "output_text" if message.role == "assistant" else "input_text", "text": text}


def _block(part: Part, message: Message, recipient: Recipient, path: str) -> JsonObject | None:
    match part:
        case TextPart():
            recipient.extra_fields(part.extra, message=message, known=frozenset(), path=path)
            return _text_block(part.text, message)
        case ImagePart() | AudioPart() | FilePart():
            return _media(part, message, recipient, path)
        case OpaquePart():
            block = thaw_object(part.json)
            if recipient.may_receive(part, message) and not is_output(block):
                return block
            text = recipient.foreign_text(block, path)
            return _text_block(text, message) if text else None
        case ThinkingPart():
            recipient.left_out(path, "thinking in a message that cannot hold it", part.text)
            return None
        case ToolCall() | ToolResult():
            raise TypeError(
                f"cannot write a {type(part).__name__} as content for OpenAI's Responses"
            )
        case _:
            assert_never(part)


def _media(
    part: ImagePart | AudioPart | FilePart, message: Message, recipient: Recipient, path: str
) -> JsonObject:
    why = ""
    url = "" if isinstance(part, AudioPart) else part.url
    if message.role == "assistant":
        why = "an assistant message may only hold text"
    elif isinstance(part, AudioPart):
        why = "the Responses API accepts no audio"
    elif url.startswith("file:") and not _kept_at_openai(message):
        why = "it is a file kept at another provider"
    if why or isinstance(part, AudioPart):
        return _text_block(recipient.media_note(part, why, path), message)
    recipient.extra_fields(part.extra, message=message, known=frozenset(), path=path)
    match part:
        case ImagePart():
            image: JsonObject = {"type": "input_image", "detail": part.detail or "auto"}
            key = "file_id" if url.startswith("file:") else "image_url"
            return {**image, key: url.removeprefix("file:") if key == "file_id" else url}
        case FilePart():
            file: JsonObject = {"type": "input_file"}
            if url.startswith("file:"):
                return {**file, "file_id": url.removeprefix("file:")}
            if not url.startswith("data:"):
                return {**file, "file_url": url}
            return {**file, "filename": part.filename or "file", "file_data": url}


def _kept_at_openai(message: Message) -> bool:
    return message.origin is None or message.origin.provider.startswith("openai")
