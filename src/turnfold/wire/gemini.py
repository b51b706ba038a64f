"""Google's Gemini API: contents made of parts, a system instruction beside them, signatures on calls.

Newer Gemini models refuse a call of the current turn without the signature they put on it. A call that another model
made has none; for such histories Google documents a placeholder that the repair puts there, listed like every change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

from turnfold.errors import InvalidRecord
from turnfold.records import Message, Origin
from turnfold.records.json_text import thaw_object
from turnfold.window import Context
from turnfold.wire.gemini_parts import function_response, read_parts, recased, write_parts
from turnfold.wire.ownership import Writing
from turnfold.wire.reading import as_items, messages_of, rewritten, stamped, with_form, with_origin
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
    plain,
    plain_object,
    text_at,
)

__all__ = ("PROVIDER", "accept", "accept_all", "request")

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
) -> Request:
    """The arguments of `client.models.generate_content`. Gemini caches prefixes by itself: `cache` changes nothing.

    With `repair=False` a history comes out as it went in, faults and all. A body of more than `max_bytes` is a
    `BudgetTooSmall`; None takes the limit of the context's own budget, 0 none.
    """
    del cache
    writing = Writing(PROVIDER, model)
    messages = messages_of(context)
    lead = next((i for i, each in enumerate(messages) if each.role != "system"), len(messages))
    names: dict[str, str] = {}
    contents: list[object] = []
    joinable = False
    for index, message in enumerate(messages[lead:], start=lead):
        path = f"messages[{index}]"
        if message.name is not None and message.role != "tool":
            writing.left_out(path, f"Gemini knows no author's name: {message.name}")
        if message.extra:
            writing.beside(message.extra, message=message, known=frozenset(), path=path)
        names |= {call.id: call.name for call in message.calls}
        content = _restored(message, _write_message(message, writing, path, names), writing)
        results = message.role == "tool" and not writing.owns(message)
        if results and joinable:  # as many results in one content as there were calls
            last = cast("JsonObject", contents[-1])
            contents[-1] = {**last, "parts": [*list_at(last, "parts"), *list_at(content, "parts")]}
        else:
            contents.append(content)
        joinable = results
    config: JsonObject = {}
    if lead:
        config["systemInstruction"] = _write_system(messages[:lead], writing)
    if tools:
        config["tools"] = write_tools(tools, PROVIDER, writing)
    kwargs: JsonObject = {"model": model} if model else {}
    kwargs["contents"] = contents
    if config:
        kwargs["config"] = config
    return require_size(finished(kwargs, writing, repair=repair), context, max_bytes)


def accept(value: object, *, model: str = "") -> Message:
    """One content or response as a `Message`: a dictionary or an SDK object."""
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
    message = Message.of(role, stamped(read_parts(raw), PROVIDER, model))
    origin = Origin(PROVIDER, model)
    write = partial(_write_message, names=_names(raw))
    plainly = recased(fields, snake=False)
    if plainly == fields or recased(plainly, snake=True) != fields:
        return with_origin(message, fields, write, origin=origin, envelope=envelope)
    # The SDK's spelling of the keys is one mark, not a second copy of everything under them.
    found = with_origin(message, plainly, write, origin=origin, envelope=envelope)
    form = thaw_object(found.origin.form if found.origin else "")
    return with_form(found, {**form, _SNAKE: True})


def accept_all(history: object, *, model: str = "") -> list[Message]:
    """A whole history: a list of contents, the arguments of a call with its system instruction, or a response."""
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


def _restored(message: Message, base: object, writing: Writing) -> JsonObject:
    content = cast("JsonObject", rewritten(message, base, writing))
    if message.origin is None or not writing.owns(message):
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


def _names(raw: list[object]) -> dict[str, str]:
    """The functions that results with an id of their own answer."""
    found = (function_response(object_of(part) or {}) or {} for part in raw)
    return {text_at(each, "id"): text_at(each, "name") for each in found if text_at(each, "id")}


def _accept_system(value: object) -> Message:
    if isinstance(value, str):
        parts: list[object] = [{"text": value}]
    else:
        parts = list_of(value) or list_at(object_of(value) or {}, "parts")
    message = Message.of("system", stamped(read_parts(parts), PROVIDER, ""))
    return with_origin(message, value, _write_instruction, origin=Origin(PROVIDER), envelope={})


def _write_instruction(message: Message, writing: Writing, path: str) -> object:
    return {"parts": write_parts(message, writing, path, {})}


def _write_system(messages: Sequence[Message], writing: Writing) -> object:
    if len(messages) == 1:
        [message] = messages
        return rewritten(message, _write_instruction(message, writing, "messages[0]"), writing)
    return {
        "parts": [
            part
            for index, message in enumerate(messages)
            for part in write_parts(message, writing, f"messages[{index}]", {})
        ]
    }


def _write_message(message: Message, writing: Writing, path: str, names: dict[str, str]) -> object:
    if message.role == "system":
        writing.converted(path, "a system message inside the conversation, as a user message")
    role = "model" if message.role == "assistant" else "user"
    return {"role": role, "parts": write_parts(message, writing, path, names)}
