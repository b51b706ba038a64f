"""Write requests for Anthropic's Messages API, and read its messages and responses.

The API has a separate system prompt, tool results inside user messages, and cache breakpoints. `turnfold.records` reads
its content blocks; this module writes them: media in Anthropic's own form, thinking only for the model that signed it,
and other providers' blocks converted to blocks that Claude accepts.

The most stable parts of a context come first, so breakpoints at the ends of its sections (system, summary, window) let
Claude read everything before them from its prompt cache. A fourth one is put at the end of the prompt during a tool
loop, in which each call repeats the previous prompt and adds a little.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import assert_never, cast

from turnfold.records import (
    AudioPart,
    ContentPart,
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
    accept_content,
    thaw_object,
    write_block,
)
from turnfold.window import Context
from turnfold.wire.codec import (
    Recipient,
    arguments_object,
    as_items,
    bare_content,
    data_of,
    in_original_form,
    leading_system,
    messages_of,
    tools_of,
    with_origin,
    with_provider,
)
from turnfold.wire.compaction import (
    COMPACTION_REFUSED,
    anthropic_fields,
    compaction_trigger,
    context_edits,
    recipient_of,
    without_covered,
)
from turnfold.wire.json_values import (
    JsonObject,
    list_of,
    object_at,
    object_of,
    plain,
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


_KNOWN = frozenset({"cache_control", "caller", "citations", "context", "title", "toolset_name"})
"""Fields of Anthropic's blocks that turnfold's parts cannot express; they are sent even if the block's origin is
unknown."""
_IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def _write_blocks(message: Message, recipient: Recipient, path: str) -> list[JsonObject]:
    """Return a message's content as Anthropic's blocks, in order, without parts that cannot be sent."""
    parts = enumerate(message.parts)
    found = [_block(part, message, recipient, f"{path}.parts[{index}]") for index, part in parts]
    return [block for block in found if block is not None]


def _block(part: Part, message: Message, recipient: Recipient, path: str) -> JsonObject | None:
    match part:
        case TextPart() | ImagePart() | AudioPart() | FilePart() | OpaquePart():
            return _content(part, message, recipient, path)
        case ThinkingPart():
            if recipient.may_receive(part, message):
                return write_block(part)
            recipient.left_out(path, "thinking is only sent to the model that wrote it", part.text)
            return None
        case ToolCall():
            found, sound = arguments_object(part.arguments)
            if not sound:
                recipient.converted(path, "arguments that are not a JSON object, wrapped in one")
            fields: JsonObject = {"type": "tool_use", "id": part.id, "name": part.name}
            return {**fields, "input": found, **_extra_fields(part.extra, message, recipient, path)}
        case ToolResult():
            inner = [_content(each, message, recipient, path) for each in part.content]
            fields = {"type": "tool_result", "tool_use_id": part.call_id}
            fields["content"] = bare_content([block for block in inner if block is not None])
            if part.is_error:
                fields["is_error"] = True
            return {**fields, **_extra_fields(part.extra, message, recipient, path)}
        case _:
            assert_never(part)


def _content(
    part: ContentPart, message: Message, recipient: Recipient, path: str
) -> JsonObject | None:
    match part:
        case TextPart():
            extra_fields = _extra_fields(part.extra, message, recipient, path)
            extra_fields.pop("type", None)
            return {"type": "text", "text": part.text, **extra_fields}
        case ImagePart() | FilePart():
            return _media(part, message, recipient, path)
        case AudioPart():
            note = recipient.media_note(part, "Anthropic accepts no audio", path)
            return {"type": "text", "text": note}
        case OpaquePart():
            block = thaw_object(part.json)
            if recipient.may_receive(part, message):
                return block
            text = recipient.foreign_text(block, path)
            return {"type": "text", "text": text} if text else None


def _media(
    part: ImagePart | FilePart, message: Message, recipient: Recipient, path: str
) -> JsonObject:
    extra_fields = _extra_fields(part.extra, message, recipient, path)
    source = _source(part, message, recipient)
    if isinstance(source, str):
        return {"type": "text", "text": recipient.media_note(part, source, path)}
    kind = "image" if isinstance(part, ImagePart) else "document"
    fields: JsonObject = {"type": kind, "source": {**object_at(extra_fields, "source"), **source}}
    extra_fields = {
        key: value for key, value in extra_fields.items() if key not in ("source", "image_url")
    }
    if isinstance(part, FilePart) and part.filename and "title" not in extra_fields:
        fields["title"] = part.filename
    return {**fields, **extra_fields}


def _source(part: ImagePart | FilePart, message: Message, recipient: Recipient) -> JsonObject | str:
    """Return the `source` object of an image or file, or a text that says why it cannot be sent."""
    if part.url.startswith("file:"):
        if message.origin is not None and message.origin.provider != "anthropic":
            return f"it is a file kept at {message.origin.provider}"
        return {"type": "file", "file_id": part.url.removeprefix("file:")}
    if not part.url.startswith("data:"):
        return {"type": "url", "url": part.url}
    data = data_of(part.url)
    if data is None:
        return "its data is not in base64"
    allowed = _IMAGE_TYPES if isinstance(part, ImagePart) else {"application/pdf"}
    if data.media_type not in allowed and not recipient.owns(message):
        return f"Anthropic does not read {data.media_type or 'an unknown type'}"
    return {"type": "base64", "media_type": data.media_type, "data": data.base64}


def _extra_fields(extra: str, message: Message, recipient: Recipient, path: str) -> JsonObject:
    return recipient.extra_fields(extra, message=message, known=_KNOWN, path=path) if extra else {}


PROVIDER = "anthropic"
_UNCACHED = frozenset({"compaction", "thinking", "redacted_thinking"})
_EPHEMERAL: JsonObject = {"type": "ephemeral"}


def request(
    context: Context | Sequence[Message],
    *,
    model: str = "",
    tools: Sequence[Mapping[str, object]] = (),
    cache: bool = True,
    repair: bool = True,
    max_bytes: int | None = None,
    refused: Collection[bytes] = (),
    edits: Sequence[str | Mapping[str, object]] = (),
) -> Request:
    """Return the arguments of `client.messages.create`, except `max_tokens`, which the caller adds.

    `tools` replaces the tool schemas with which the context was built. With `cache`, the ends of the stable sections
    are marked for Anthropic's prompt cache, unless the caller has marked any place. With `repair=False` a history is
    written unchanged, with its faults. Raises `BudgetTooSmall` if the body has more than `max_bytes`; None means the
    limit of the context's own budget, 0 means no limit. `refused` has the `item_key` of messages that the provider
    refused before: they are sent without their signed, encrypted and other opaque parts. `edits` are context edits that
    the request asks for: "clear_tool_uses", "clear_thinking", or objects of the interface.
    """
    messages = messages_of(context)
    recipient = recipient_of(context, PROVIDER, model, refused)
    lead = leading_system(messages)
    kwargs: JsonObject = {"model": model} if model else {}
    system = _write_system(messages[:lead], recipient)
    if system is not None:
        kwargs["system"] = system
    sent, start = without_covered(context, recipient, lead)
    items, ends = _write_all(sent, recipient, start)
    kwargs["messages"] = items
    if schemas := tools_of(context, tools):
        kwargs["tools"] = write_tools(schemas, PROVIDER, recipient)
    if cache and not _marked(kwargs):
        _mark_system(kwargs)
        for index in _breakpoints(context, start, len(messages)):
            _mark(items, ends, index - start)
    wanted = () if COMPACTION_REFUSED in refused else context_edits(edits)
    if isinstance(context, Context) or wanted:
        kwargs |= anthropic_fields(items, compaction_trigger(context, recipient), wanted)
    return require_size(finish_request(kwargs, recipient, repair=repair), context, max_bytes)


def accept(value: object, *, model: str = "") -> Message:
    """Convert a message or a response of Anthropic, as a dictionary or an SDK object, to a `Message`."""
    fields = plain_object(value)
    envelope: JsonObject = {}
    if fields.get("type") == "message":
        envelope = {key: fields[key] for key in fields if key not in ("role", "content", "type")}
        model = text_at(envelope, "model") or model
        fields = {"role": fields.get("role"), "content": fields.get("content")}
    role = text_at(fields, "role")
    if role != "assistant":
        model = ""
    found = accept_content(role, fields.get("content"))
    message = Message.of(found.role, with_provider(found.parts, PROVIDER, model))
    origin = Origin(PROVIDER, model)
    return with_origin(message, fields, _write_message, origin=origin, envelope=envelope)


def accept_all(history: object, *, model: str = "") -> list[Message]:
    """Convert a history in Anthropic's format: a list of messages, a call's arguments with `system`, or a response."""
    arguments = object_of(history) or {}
    messages: list[Message] = []
    if arguments.get("system") is not None:
        messages.append(_accept_system(plain(arguments["system"], "system")))
    items = as_items(history, "messages")
    return [*messages, *(accept(item, model=model) for item in items)]


def _accept_system(value: object) -> Message:
    message = Message.of(
        "system", with_provider(accept_content("system", value).parts, PROVIDER, "")
    )
    return with_origin(message, value, _write_prompt, origin=Origin(PROVIDER), envelope={})


def _write_system(messages: Sequence[Message], recipient: Recipient) -> object:
    if len(messages) == 1:
        [message] = messages
        return in_original_form(
            message, _write_prompt(message, recipient, "messages[0]"), recipient
        )
    blocks = [
        block
        for index, message in enumerate(messages)
        for block in _write_blocks(message, recipient, f"messages[{index}]")
    ]
    return blocks or None


def _write_prompt(message: Message, recipient: Recipient, path: str) -> object:
    return bare_content(_write_blocks(message, recipient, path))


def _write_message(message: Message, recipient: Recipient, path: str) -> object:
    role = "user" if message.role == "tool" else message.role
    if role == "system" and not recipient.owns(message):
        recipient.converted(
            path, "a system message inside the conversation, sent as a user message"
        )
        role = "user"
    return {"role": role, "content": bare_content(_write_blocks(message, recipient, path))}


def _write_all(
    messages: Sequence[Message], recipient: Recipient, lead: int
) -> tuple[list[JsonObject], list[tuple[int, int]]]:
    """Return the messages in Anthropic's form, and where each input message ends: (message index, number of blocks)."""
    items: list[JsonObject] = []
    ends: list[tuple[int, int]] = []
    joinable = False
    for index, message in enumerate(messages):
        path = f"messages[{index + lead}]"
        if message.name is not None and message.role != "tool":
            recipient.left_out(path, f"Anthropic has no field for an author's name: {message.name}")
        if message.extra:
            recipient.extra_fields(message.extra, message=message, known=frozenset(), path=path)
        written = in_original_form(message, _write_message(message, recipient, path), recipient)
        item = cast("JsonObject", written)
        results = message.role == "tool" and not recipient.owns(message)
        if results and joinable:  # all results of a batch belong into one user message
            items[-1]["content"] = [*_as_blocks(items[-1]), *_as_blocks(item)]
        else:
            items.append(item)
        joinable = results
        ends.append((len(items) - 1, len(_as_blocks(items[-1]))))
    return items, ends


def _as_blocks(item: JsonObject) -> list[object]:
    content = item.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list_of(content) or []


def _breakpoints(context: Context | Sequence[Message], lead: int, length: int) -> list[int]:
    """Return the indexes of the messages that get a cache breakpoint: the last message of each stable section."""
    if not isinstance(context, Context):
        return [length - 1] if length > lead else []
    _, summary, window, tail = context.ends
    found = {end - 1 for end in (summary, window) if end > lead}
    if any(message.role == "tool" for message in context.messages[tail:]):
        found.add(length - 1)
    return sorted(found)


def _mark_system(kwargs: JsonObject) -> None:
    system = kwargs.get("system")
    blocks = _as_blocks({"content": system})
    if system and _mark_last(blocks, len(blocks)):
        kwargs["system"] = blocks


def _mark(items: list[JsonObject], ends: list[tuple[int, int]], index: int) -> None:
    where, count = ends[index]
    blocks = _as_blocks(items[where])
    if _mark_last(blocks, count):
        items[where] = {**items[where], "content": blocks}


def _mark_last(blocks: list[object], count: int) -> bool:
    """Put a cache breakpoint on the last of the first `count` blocks that may have one; return False if none may."""
    for place in range(count - 1, -1, -1):
        block = object_of(blocks[place])
        if block is None or text_at(block, "type") in _UNCACHED:
            continue
        if block.get("type") == "text" and not text_at(block, "text").strip():
            continue
        blocks[place] = {**block, "cache_control": dict(_EPHEMERAL)}
        return True
    return False


def _marked(kwargs: JsonObject) -> bool:
    """Return True if the caller has set cache breakpoints in the arguments, so that no others are added."""
    items = [kwargs.get("system"), *(list_of(kwargs["messages"]) or [])]
    holders = [{"content": items[0]}, *(object_of(item) or {} for item in items[1:])]
    blocks = (object_of(block) or {} for holder in holders for block in _as_blocks(holder))
    return any("cache_control" in block for block in blocks)
