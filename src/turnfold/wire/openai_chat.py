"""Write requests for OpenAI's Chat Completions API and compatible servers, and read their messages and completions.

Its messages are the most similar to turnfold's own. Three limits need conversions: a tool message has one result, only
user messages may hold media, and thinking is not accepted. Unmodelled fields (for example `reasoning_content` of a
local server) are sent back unchanged, because compatible servers differ in such fields.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

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
    thaw_object,
    write_block,
    write_call,
)
from turnfold.window import Context
from turnfold.wire.codec import (
    Recipient,
    as_items,
    bare_content,
    in_original_form,
    messages_of,
    tools_of,
    with_origin,
    with_provider,
)
from turnfold.wire.compaction import compaction_trigger, recipient_of
from turnfold.wire.json_values import (
    JsonObject,
    list_at,
    list_of,
    object_at,
    object_of,
    plain_object,
    text_at,
)
from turnfold.wire.lint_and_repair import finish_request
from turnfold.wire.request import Request, require_size
from turnfold.wire.tools import write_tools

__all__ = (
    "PROVIDER",
    "accept",
    "accept_all",
    "request",
)


PROVIDER = "openai_chat"


def request(
    context: Context | Sequence[Message],
    *,
    model: str = "",
    tools: Sequence[Mapping[str, object]] = (),
    cache: bool = True,
    repair: bool = True,
    max_bytes: int | None = None,
    refused: Collection[bytes] = (),
) -> Request:
    """Return the arguments of `client.chat.completions.create`.

    `tools` replaces the tool schemas with which the context was built. OpenAI caches prefixes by itself: `cache` is
    ignored. With `repair=False` a history is written unchanged, with its faults. Raises `BudgetTooSmall` if the body
    has more than `max_bytes`; None means the limit of the context's own budget, 0 means no limit. `refused` has the
    `item_key` of messages that the provider refused before: they are sent without their signed, encrypted and other
    opaque parts.
    """
    del cache
    recipient = recipient_of(context, PROVIDER, model, refused)
    compaction_trigger(
        context, recipient
    )  # raises if the memory requires compaction by the provider
    items: list[object] = []
    for index, message in enumerate(messages_of(context)):
        base = _write_message(message, recipient, f"messages[{index}]")
        items += list_of(in_original_form(message, base, recipient)) or []
    kwargs: JsonObject = {"model": model} if model else {}
    kwargs["messages"] = items
    if schemas := tools_of(context, tools):
        kwargs["tools"] = write_tools(schemas, PROVIDER, recipient)
    return require_size(finish_request(kwargs, recipient, repair=repair), context, max_bytes)


def accept(value: object, *, model: str = "") -> Message:
    """Convert a chat message or a completion of OpenAI, as a dictionary or an SDK object, to a `Message`."""
    fields = plain_object(value)
    envelope: JsonObject = {}
    choices = list_at(fields, "choices")
    if choices:
        choice = object_of(choices[0]) or {}
        envelope = {key: fields[key] for key in fields if key != "choices"}
        envelope |= {key: choice[key] for key in choice if key != "message"}
        model = text_at(fields, "model") or model
        fields = object_at(choice, "message")
    found = as_message(_without_retired_calls(fields))
    if found.role != "assistant":
        model = ""
    message = Message.of(
        found.role,
        with_provider(found.parts, PROVIDER, model),
        name=found.name,
        extra=found.extra,
        labels=found.labels,
    )
    origin = Origin(PROVIDER, model)
    return with_origin(message, [fields], _write_message, origin=origin, envelope=envelope)


def accept_all(history: object, *, model: str = "") -> list[Message]:
    """Convert a history in OpenAI's chat format: a list of messages, a call's arguments, or a completion."""
    return [accept(item, model=model) for item in as_items(history, "messages")]


def _without_retired_calls(raw: JsonObject) -> JsonObject:
    """Return a chat message whose old `function_call` and custom tool calls are written as function calls."""
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
        fields["tool_calls"] = [_as_function_call(object_of(call) or {}) for call in calls]
    return fields


def _retired_id(name: str) -> str:
    return f"function_call_{name}"


def _as_function_call(call: JsonObject) -> JsonObject:
    if call.get("type") != "custom":
        return call
    custom = object_at(call, "custom")
    function: JsonObject = {"name": custom.get("name"), "arguments": custom.get("input")}
    return {"id": call.get("id"), "type": "function", "function": function}


def _write_message(message: Message, recipient: Recipient, path: str) -> object:
    """Return a message in OpenAI's chat form; a list of messages if it holds several tool results."""
    extra_fields = recipient.extra_fields(message.extra, message=message, known=None, path=path)
    if message.role == "tool":
        return _write_results(message, extra_fields, recipient, path)
    fields: JsonObject = {"role": message.role}
    blocks, calls = _blocks_and_calls(message, recipient, path)
    fields["content"] = _content(blocks) if blocks else None
    if message.name is not None:
        fields["name"] = message.name
    if calls:
        fields["tool_calls"] = calls
    return [{**fields, **extra_fields}]


def _blocks_and_calls(
    message: Message, recipient: Recipient, path: str
) -> tuple[list[JsonObject], list[JsonObject]]:
    blocks: list[JsonObject] = []
    calls: list[JsonObject] = []
    for index, part in enumerate(message.parts):
        where = f"{path}.parts[{index}]"
        if isinstance(part, ToolCall):
            extra = recipient.extra_fields(part.extra, message=message, known=None, path=where)
            call = write_call(ToolCall(part.id, part.name, part.arguments))
            function = {**object_at(extra, "function"), **object_at(call, "function")}
            calls.append({**call, **extra, "function": function})
        else:
            block = _block(part, message, recipient, where, allow_media=message.role == "user")
            blocks += [block] if block is not None else []
    return blocks, calls


def _write_results(
    message: Message, extra_fields: JsonObject, recipient: Recipient, path: str
) -> list[JsonObject]:
    items: list[JsonObject] = []
    others: list[JsonObject] = []
    for index, part in enumerate(message.parts):
        where = f"{path}.parts[{index}]"
        if not isinstance(part, ToolResult):
            block = _block(part, message, recipient, where, allow_media=True)
            others += [block] if block is not None else []
            continue
        inner = (
            _block(each, message, recipient, where, allow_media=False) for each in part.content
        )
        content = _content([block for block in inner if block is not None])
        if part.is_error:
            recipient.converted(
                where, "a failed tool result: only its text is sent, there is no field for it"
            )
        recipient.extra_fields(part.extra, message=message, known=frozenset(), path=where)
        named: JsonObject = {} if message.name is None else {"name": message.name}
        items.append({"role": "tool", "content": content, **named, "tool_call_id": part.call_id})
    if len(items) == 1:
        items[0] |= extra_fields
    return [*items, {"role": "user", "content": _content(others)}] if others else items


def _content(blocks: list[JsonObject]) -> object:
    return bare_content(blocks) if blocks else ""


def _block(
    part: Part, message: Message, recipient: Recipient, path: str, *, allow_media: bool
) -> JsonObject | None:
    match part:
        case TextPart():
            extra_fields = recipient.extra_fields(
                part.extra, message=message, known=None, path=path
            )
            if extra_fields.get("type") != "text":
                extra_fields.pop("type", None)
            return {"type": "text", "text": part.text, **extra_fields}
        case ImagePart() | AudioPart() | FilePart():
            why = _unsendable(part, message, allow_media=allow_media or recipient.owns(message))
            if why:
                return {"type": "text", "text": recipient.media_note(part, why, path)}
            return _media(part, message, recipient, path)
        case ThinkingPart():
            recipient.left_out(path, "Chat Completions accepts no thinking", part.text)
            return None
        case OpaquePart():
            return _opaque(part, message, recipient, path)
        case _:
            raise TypeError(
                f"cannot write a {type(part).__name__} as content for OpenAI's Chat Completions"
            )


def _media(
    part: ImagePart | AudioPart | FilePart, message: Message, recipient: Recipient, path: str
) -> JsonObject:
    kept = recipient.extra_fields(part.extra, message=message, known=None, path=path)
    return write_block(part if kept else msgspec.structs.replace(part, extra=""))


def _unsendable(
    part: ImagePart | AudioPart | FilePart, message: Message, *, allow_media: bool
) -> str:
    """Return why an image, audio or file cannot be sent; empty if it can."""
    if not allow_media:
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


def _opaque(
    part: OpaquePart, message: Message, recipient: Recipient, path: str
) -> JsonObject | None:
    block = thaw_object(part.json)
    if recipient.may_receive(part, message) or recipient.has_no_owner(part, message):
        return block
    text = recipient.foreign_text(block, path)
    return {"type": "text", "text": text} if text else None
