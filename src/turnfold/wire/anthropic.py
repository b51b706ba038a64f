"""Anthropic's Messages API: a system prompt beside the messages, results inside user messages, cache breakpoints.

The context arrives most stable first, so breakpoints at the ends of its sections (system, summary, window) let Claude
read everything before them from its prompt cache. A fourth one follows a running tool loop, where the same prompt is
sent again and again with a little more at its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from turnfold.records import Message, Origin
from turnfold.records.blocks_in import accept_content
from turnfold.window import Context
from turnfold.wire.anthropic_blocks import content_of, write_blocks
from turnfold.wire.ownership import Writing
from turnfold.wire.reading import as_items, messages_of, rewritten, stamped, with_origin
from turnfold.wire.repairing import finished
from turnfold.wire.request import Request
from turnfold.wire.size_guard import require_size
from turnfold.wire.tool_schemas import write_tools
from turnfold.wire.values import JsonObject, list_of, object_of, plain, plain_object, text_at

__all__ = ("PROVIDER", "accept", "accept_all", "request")

PROVIDER = "anthropic"
_UNCACHED = frozenset({"thinking", "redacted_thinking"})
_EPHEMERAL: JsonObject = {"type": "ephemeral"}


def request(
    context: Context | Sequence[Message],
    *,
    model: str = "",
    tools: Sequence[Mapping[str, object]] = (),
    cache: bool = True,
    repair: bool = True,
    max_bytes: int | None = None,
) -> Request:
    """The arguments of `client.messages.create`, without `max_tokens`, which is the caller's to choose.

    With `repair=False` a history comes out as it went in, faults and all. A body of more than `max_bytes` is a
    `BudgetTooSmall`; None takes the limit of the context's own budget, 0 none.
    """
    messages = messages_of(context)
    writing = Writing(PROVIDER, model)
    lead = _leading(messages)
    kwargs: JsonObject = {"model": model} if model else {}
    system = _write_system(messages[:lead], writing)
    if system is not None:
        kwargs["system"] = system
    items, ends = _write_all(messages[lead:], writing, lead)
    kwargs["messages"] = items
    if tools:
        kwargs["tools"] = write_tools(tools, PROVIDER, writing)
    if cache and not _marked(kwargs):
        _mark_system(kwargs)
        for index in _breakpoints(context, lead, len(messages)):
            _mark(items, ends, index - lead)
    return require_size(finished(kwargs, writing, repair=repair), context, max_bytes)


def accept(value: object, *, model: str = "") -> Message:
    """One message or response as a `Message`: a dictionary or an SDK object."""
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
    message = Message.of(found.role, stamped(found.parts, PROVIDER, model))
    origin = Origin(PROVIDER, model)
    return with_origin(message, fields, _write_message, origin=origin, envelope=envelope)


def accept_all(history: object, *, model: str = "") -> list[Message]:
    """A whole history: a list of messages, the arguments of a call with its `system`, or a response."""
    arguments = object_of(history) or {}
    messages: list[Message] = []
    if arguments.get("system") is not None:
        messages.append(_accept_system(plain(arguments["system"], "system")))
    items = as_items(history, "messages")
    return [*messages, *(accept(item, model=model) for item in items)]


def _accept_system(value: object) -> Message:
    message = Message.of("system", stamped(accept_content("system", value).parts, PROVIDER, ""))
    return with_origin(message, value, _write_prompt, origin=Origin(PROVIDER), envelope={})


def _leading(messages: Sequence[Message]) -> int:
    """How many system messages stand before the conversation."""
    others = (index for index, message in enumerate(messages) if message.role != "system")
    return next(others, len(messages))


def _write_system(messages: Sequence[Message], writing: Writing) -> object:
    if len(messages) == 1:
        [message] = messages
        return rewritten(message, _write_prompt(message, writing, "messages[0]"), writing)
    blocks = [
        block
        for index, message in enumerate(messages)
        for block in write_blocks(message, writing, f"messages[{index}]")
    ]
    return blocks or None


def _write_prompt(message: Message, writing: Writing, path: str) -> object:
    return content_of(write_blocks(message, writing, path))


def _write_message(message: Message, writing: Writing, path: str) -> object:
    role = "user" if message.role == "tool" else message.role
    if role == "system" and not writing.owns(message):
        writing.converted(path, "a system message inside the conversation, as a user message")
        role = "user"
    return {"role": role, "content": content_of(write_blocks(message, writing, path))}


def _write_all(
    messages: Sequence[Message], writing: Writing, lead: int
) -> tuple[list[JsonObject], list[tuple[int, int]]]:
    """The wire messages, and for each message which wire message it ended in, after how many blocks."""
    items: list[JsonObject] = []
    ends: list[tuple[int, int]] = []
    joinable = False
    for index, message in enumerate(messages):
        path = f"messages[{index + lead}]"
        if message.name is not None and message.role != "tool":
            writing.left_out(path, f"Anthropic knows no author's name: {message.name}")
        if message.extra:
            writing.beside(message.extra, message=message, known=frozenset(), path=path)
        written = rewritten(message, _write_message(message, writing, path), writing)
        item = cast("JsonObject", written)
        results = message.role == "tool" and not writing.owns(message)
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
    """Messages after which the prompt is worth caching: the end of each section that stays."""
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
    """Put a breakpoint on the last of the first `count` blocks that can have one."""
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
    """Whether the caller placed breakpoints already: then they are the caller's to place."""
    items = [kwargs.get("system"), *(list_of(kwargs["messages"]) or [])]
    holders = [{"content": items[0]}, *(object_of(item) or {} for item in items[1:])]
    blocks = (object_of(block) or {} for holder in holders for block in _as_blocks(holder))
    return any("cache_control" in block for block in blocks)
