"""OpenAI's Chat Completions, and the many servers that speak it.

Its messages are the nearest to turnfold's own. What it lacks decides the conversions: one result per tool message,
text only outside user messages, no thoughts. Fields nobody models (`reasoning_content` of a local server, say) go
back as they came, because these servers differ in exactly such fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from turnfold.records import (
    AudioPart,
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
    as_message,
)
from turnfold.records.blocks_out import write_block, write_call
from turnfold.records.json_text import thaw_object
from turnfold.window import Context
from turnfold.wire.foreign import media_note, words_of
from turnfold.wire.ownership import Writing
from turnfold.wire.reading import as_items, messages_of, rewritten, stamped, with_origin
from turnfold.wire.repairing import finished
from turnfold.wire.request import Request
from turnfold.wire.size_guard import require_size
from turnfold.wire.tool_schemas import write_tools
from turnfold.wire.values import (
    JsonObject,
    list_at,
    list_of,
    object_at,
    object_of,
    plain_object,
    text_at,
)

__all__ = ("PROVIDER", "accept", "accept_all", "request")

PROVIDER = "openai_chat"


def request(
    context: Context | Sequence[Message],
    *,
    model: str = "",
    tools: Sequence[Mapping[str, object]] = (),
    cache: bool = True,
    repair: bool = True,
    max_bytes: int | None = None,
) -> Request:
    """The arguments of `client.chat.completions.create`. OpenAI caches prefixes by itself: `cache` changes nothing.

    With `repair=False` a history comes out as it went in, faults and all. A body of more than `max_bytes` is a
    `BudgetTooSmall`; None takes the limit of the context's own budget, 0 none.
    """
    del cache
    writing = Writing(PROVIDER, model)
    items: list[object] = []
    for index, message in enumerate(messages_of(context)):
        base = _write_message(message, writing, f"messages[{index}]")
        items += list_of(rewritten(message, base, writing)) or []
    kwargs: JsonObject = {"model": model} if model else {}
    kwargs["messages"] = items
    if tools:
        kwargs["tools"] = write_tools(tools, PROVIDER, writing)
    return require_size(finished(kwargs, writing, repair=repair), context, max_bytes)


def accept(value: object, *, model: str = "") -> Message:
    """One message or completion as a `Message`: a dictionary or an SDK object."""
    fields = plain_object(value)
    envelope: JsonObject = {}
    choices = list_at(fields, "choices")
    if choices:
        choice = object_of(choices[0]) or {}
        envelope = {key: fields[key] for key in fields if key != "choices"}
        envelope |= {key: choice[key] for key in choice if key != "message"}
        model = text_at(fields, "model") or model
        fields = object_at(choice, "message")
    found = as_message(_modern(fields))
    if found.role != "assistant":
        model = ""
    message = Message.of(
        found.role,
        stamped(found.parts, PROVIDER, model),
        name=found.name,
        extra=found.extra,
        labels=found.labels,
    )
    origin = Origin(PROVIDER, model)
    return with_origin(message, [fields], _write_message, origin=origin, envelope=envelope)


def accept_all(history: object, *, model: str = "") -> list[Message]:
    """A whole history: a list of messages, the arguments of a call, or a completion."""
    return [accept(item, model=model) for item in as_items(history, "messages")]


def _modern(raw: JsonObject) -> JsonObject:
    """The message with retired and custom calls written as function calls; how they were written is kept beside it."""
    fields = dict(raw)
    if fields.get("role") == "function":
        fields["role"] = "tool"
        fields["tool_call_id"] = _retired_id(text_at(fields, "name"))
    retired = object_of(fields.get("function_call"))
    if retired is not None:
        del fields["function_call"]
        function: JsonObject = {"name": retired.get("name"), "arguments": retired.get("arguments")}
        call: JsonObject = {"id": _retired_id(text_at(retired, "name")), "type": "function"}
        fields["tool_calls"] = [*list_at(fields, "tool_calls"), {**call, "function": function}]
    calls = list_of(fields.get("tool_calls"))
    if calls:
        fields["tool_calls"] = [_modern_call(object_of(call) or {}) for call in calls]
    return fields


def _retired_id(name: str) -> str:
    return f"function_call_{name}"


def _modern_call(call: JsonObject) -> JsonObject:
    if call.get("type") != "custom":
        return call
    custom = object_at(call, "custom")
    function: JsonObject = {"name": custom.get("name"), "arguments": custom.get("input")}
    return {"id": call.get("id"), "type": "function", "function": function}


def _write_message(message: Message, writing: Writing, path: str) -> object:
    """The wire messages of one message: more than one where it brings several results."""
    beside = writing.beside(message.extra, message=message, known=None, path=path)
    if message.role == "tool":
        return _write_results(message, beside, writing, path)
    fields: JsonObject = {"role": message.role}
    said, calls = _said(message, writing, path)
    fields["content"] = _content(said) if said else None
    if message.name is not None:
        fields["name"] = message.name
    if calls:
        fields["tool_calls"] = calls
    return [{**fields, **beside}]


def _said(
    message: Message, writing: Writing, path: str
) -> tuple[list[JsonObject], list[JsonObject]]:
    said: list[JsonObject] = []
    calls: list[JsonObject] = []
    for index, part in enumerate(message.parts):
        where = f"{path}.parts[{index}]"
        if isinstance(part, ToolCall):
            extra = writing.beside(part.extra, message=message, known=None, path=where)
            call = write_call(ToolCall(part.id, part.name, part.arguments))
            function = {**object_at(extra, "function"), **object_at(call, "function")}
            calls.append({**call, **extra, "function": function})
        else:
            block = _block(part, message, writing, where, pictures=message.role == "user")
            said += [block] if block is not None else []
    return said, calls


def _write_results(
    message: Message, beside: JsonObject, writing: Writing, path: str
) -> list[JsonObject]:
    items: list[JsonObject] = []
    others: list[JsonObject] = []
    for index, part in enumerate(message.parts):
        where = f"{path}.parts[{index}]"
        if not isinstance(part, ToolResult):
            block = _block(part, message, writing, where, pictures=True)
            others += [block] if block is not None else []
            continue
        inner = (_block(each, message, writing, where, pictures=False) for each in part.content)
        content = _content([block for block in inner if block is not None])
        if part.is_error:
            writing.converted(where, "a failed result: there is no mark for it, its text stands")
        writing.beside(part.extra, message=message, known=frozenset(), path=where)
        named: JsonObject = {} if message.name is None else {"name": message.name}
        items.append({"role": "tool", "content": content, **named, "tool_call_id": part.call_id})
    if len(items) == 1:
        items[0] |= beside
    return [*items, {"role": "user", "content": _content(others)}] if others else items


def _content(blocks: list[JsonObject]) -> object:
    if not blocks:
        return ""
    if len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
        return blocks[0]["text"]
    return blocks


def _block(
    part: Part, message: Message, writing: Writing, path: str, *, pictures: bool
) -> JsonObject | None:
    match part:
        case TextPart():
            beside = writing.beside(part.extra, message=message, known=None, path=path)
            if beside.get("type") != "text":
                beside.pop("type", None)
            return {"type": "text", "text": part.text, **beside}
        case ImagePart() | AudioPart() | FilePart():
            why = _unsendable(part, message, pictures=pictures or writing.owns(message))
            if why:
                writing.converted(path, f"not sent, a note stands for it: {why}")
                return {"type": "text", "text": media_note(part, why)}
            return _media(part, message, writing, path)
        case ThinkingPart():
            writing.left_out(path, "Chat Completions takes no thoughts back", part.text)
            return None
        case OpaquePart():
            return _opaque(part, message, writing, path)
        case _:
            raise TypeError(f"{type(part).__name__} is not content")


def _media(
    part: ImagePart | AudioPart | FilePart, message: Message, writing: Writing, path: str
) -> JsonObject:
    kept = writing.beside(part.extra, message=message, known=None, path=path)
    return write_block(part if kept else msgspec.structs.replace(part, extra=""))


def _unsendable(part: ImagePart | AudioPart | FilePart, message: Message, *, pictures: bool) -> str:
    """Why a picture, sound or file cannot go here; empty when it can."""
    if not pictures:
        return "only user messages may hold it"
    url = "" if isinstance(part, AudioPart) else part.url
    origin = message.origin
    if url.startswith("file:"):
        if origin is not None and not origin.provider.startswith("openai"):
            return f"it is a file kept at {origin.provider}"
        return "" if isinstance(part, FilePart) else "an image must be sent by address or as data"
    if isinstance(part, FilePart) and origin is not None and origin.provider != PROVIDER:
        return "" if url.startswith("data:") else "Chat Completions takes no file by address"
    return ""


def _opaque(part: OpaquePart, message: Message, writing: Writing, path: str) -> JsonObject | None:
    block = thaw_object(part.json)
    if writing.may_have(part, message) or writing.unclaimed(part, message):
        return block
    words = words_of(block)
    if words:
        writing.converted(path, f"a {block.get('type')} block of another provider, as text")
        return {"type": "text", "text": words}
    writing.left_out(path, f"a {block.get('type')} block only its own provider understands")
    return None
