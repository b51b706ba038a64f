"""Write requests for Google's Gemini API, and read its contents and responses.

The API has contents made of parts, a separate system instruction, and signatures on tool calls. Newer Gemini models
refuse a tool call of the current turn without the signature they gave it. A call that another model made has none; for
such histories Google documents a placeholder, which `repair` adds and lists like every change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import cast

from turnfold.errors import InvalidRecord
from turnfold.records import Message, Origin, thaw_object
from turnfold.window import Context
from turnfold.wire.codec import (
    Recipient,
    as_items,
    in_original_form,
    leading_system,
    messages_of,
    tools_of,
    with_form,
    with_origin,
    with_provider,
)
from turnfold.wire.compaction import compaction_trigger, recipient_of
from turnfold.wire.gemini_parts import function_response, read_parts, recased, write_parts
from turnfold.wire.json_values import (
    JsonObject,
    list_at,
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


PROVIDER = "gemini"
_SNAKE = "snake"


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
    """Return the arguments of `client.models.generate_content`.

    `tools` replaces the tool schemas with which the context was built. Gemini caches prefixes by itself: `cache` is
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
    messages = messages_of(context)
    lead = leading_system(messages)
    names: dict[str, str] = {}
    contents: list[object] = []
    joinable = False
    for index, message in enumerate(messages[lead:], start=lead):
        path = f"messages[{index}]"
        if message.name is not None and message.role != "tool":
            recipient.left_out(path, f"Gemini has no field for an author's name: {message.name}")
        if message.extra:
            recipient.extra_fields(message.extra, message=message, known=frozenset(), path=path)
        names |= {call.id: call.name for call in message.calls}
        content = _restored(message, _write_message(message, recipient, path, names), recipient)
        results = message.role == "tool" and not recipient.owns(message)
        if results and joinable:  # all results of one batch of calls belong into one content
            last = cast("JsonObject", contents[-1])
            contents[-1] = {**last, "parts": [*list_at(last, "parts"), *list_at(content, "parts")]}
        else:
            contents.append(content)
        joinable = results
    config: JsonObject = {}
    if lead:
        config["systemInstruction"] = _write_system(messages[:lead], recipient)
    if schemas := tools_of(context, tools):
        config["tools"] = write_tools(schemas, PROVIDER, recipient)
    kwargs: JsonObject = {"model": model} if model else {}
    kwargs["contents"] = contents
    if config:
        kwargs["config"] = config
    return require_size(finish_request(kwargs, recipient, repair=repair), context, max_bytes)


def accept(value: object, *, model: str = "") -> Message:
    """Convert a content or a response of Gemini, as a dictionary or an SDK object, to a `Message`."""
    fields = plain_object(value)
    envelope: JsonObject = {}
    candidates = list_at(fields, "candidates")
    if candidates:
        candidate = object_of(candidates[0]) or {}
        envelope = {key: fields[key] for key in fields if key != "candidates"}
        envelope |= {key: candidate[key] for key in candidate if key != "content"}
        model = text_at(fields, "modelVersion") or text_at(fields, "model_version") or model
        fields = object_at(candidate, "content") or {"role": "model", "parts": []}
    raw = list_at(fields, "parts")
    role = _role(fields, raw)
    if role != "assistant":
        model = ""
    message = Message.of(role, with_provider(read_parts(raw), PROVIDER, model))
    origin = Origin(PROVIDER, model)
    # Without the names of calls: they may not be known when the message is sent, so a name that its id does not
    # contain is stored as a difference.
    write = partial(_write_message, names={})
    plainly = recased(fields, snake=False)
    if plainly == fields or recased(plainly, snake=True) != fields:
        return with_origin(message, fields, write, origin=origin, envelope=envelope)
    # The SDK spells keys in snake_case: one flag records that, instead of a residue that repeats every value.
    found = with_origin(message, plainly, write, origin=origin, envelope=envelope)
    form = thaw_object(found.origin.form if found.origin else "")
    return with_form(found, {**form, _SNAKE: True})


def accept_all(history: object, *, model: str = "") -> list[Message]:
    """Convert a history in Gemini's format: a list of contents, a call's arguments, or a response."""
    arguments = object_of(history) or {}
    config = object_of(plain(arguments.get("config"))) or {}
    system = next(
        (
            place[key]
            for place in (config, arguments)
            for key in ("systemInstruction", "system_instruction")
            if place.get(key) is not None
        ),
        None,
    )
    messages = [] if system is None else [_accept_system(plain(system))]
    if isinstance(arguments.get("contents"), str):
        text: JsonObject = {"role": "user", "parts": [{"text": arguments["contents"]}]}
        return [*messages, accept(text)]
    return [*messages, *(accept(item, model=model) for item in as_items(history, "contents"))]


def _restored(message: Message, base: object, recipient: Recipient) -> JsonObject:
    content = cast("JsonObject", in_original_form(message, base, recipient))
    if message.origin is None or not recipient.owns(message):
        return content
    return recased(content, snake=True) if _SNAKE in thaw_object(message.origin.form) else content


def _role(fields: JsonObject, raw: list[object]) -> str:
    role = fields.get("role") or "user"
    if role not in ("user", "model", "function", "tool"):
        raise InvalidRecord(f"unknown role {role!r}", path="role", remedy="Use user or model")
    if role == "model":
        return "assistant"
    answers = any(function_response(object_of(part) or {}) is not None for part in raw)
    return "tool" if answers else "user"


def _accept_system(value: object) -> Message:
    if isinstance(value, str):
        parts: list[object] = [{"text": value}]
    else:
        parts = list_of(value) or list_at(object_of(value) or {}, "parts")
    message = Message.of("system", with_provider(read_parts(parts), PROVIDER, ""))
    return with_origin(message, value, _write_instruction, origin=Origin(PROVIDER), envelope={})


def _write_instruction(message: Message, recipient: Recipient, path: str) -> object:
    return {"parts": write_parts(message, recipient, path, {})}


def _write_system(messages: Sequence[Message], recipient: Recipient) -> object:
    if len(messages) == 1:
        [message] = messages
        return in_original_form(
            message, _write_instruction(message, recipient, "messages[0]"), recipient
        )
    return {
        "parts": [
            part
            for index, message in enumerate(messages)
            for part in write_parts(message, recipient, f"messages[{index}]", {})
        ]
    }


def _write_message(
    message: Message, recipient: Recipient, path: str, names: dict[str, str]
) -> object:
    if message.role == "system":
        recipient.converted(
            path, "a system message inside the conversation, sent as a user message"
        )
    role = "model" if message.role == "assistant" else "user"
    return {"role": role, "parts": write_parts(message, recipient, path, names)}
