"""LlamaIndex's chat messages as entries of a log, and back.

A record holds what was said: text, media, thoughts, calls and results, wherever LlamaIndex wrote them (blocks, or
`additional_kwargs`). How it was written is kept beside it as the difference from how the record alone would be written,
so that what comes back is what was put, and a message that had to be shortened still says the same. Two things come
back otherwise: a file that a block named is its bytes, and what a tool gave and nothing can carry is told as text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, cast

from llama_index.core.llms import ChatMessage

from turnfold.adapters.llama_index.blocks import (
    PROVIDER,
    block_of,
    part_of,
    with_files_read,
    without_local_files,
)
from turnfold.errors import InvalidRecord
from turnfold.records import ContentPart, Message, Origin, Part, TextPart, ToolCall, ToolResult
from turnfold.records.json_text import freeze, thaw_object
from turnfold.wire.residue import RESTORE_FAULTS, difference, restored, unreadable_form
from turnfold.wire.tool_text import ENDING, described, encodable, outcome_of
from turnfold.wire.unwritable import packed, unpacked, with_numbers, writable
from turnfold.wire.values import JsonObject, list_at, object_at, object_of, text_at

__all__ = ("chat_messages", "record_of", "sendable")

_ROLES: Final = {
    "user": "user",
    "assistant": "assistant",
    "chatbot": "assistant",
    "model": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}


def record_of(message: ChatMessage) -> Message:
    """A message as a record; `chat_messages` gives it back."""
    fields = _dumped(message)
    try:
        record = _spoken(fields)
        [base] = _written(record)
        form = difference(base, fields)
        if restored(base, form) == fields:
            return _with_form(record, {"difference": form})
    except (InvalidRecord, ValueError):
        pass  # no counterpart: all of it is kept
    return _kept_whole(fields, cast("JsonObject", writable(fields)))


def sendable(message: ChatMessage) -> ChatMessage:
    """The message, or for a tool's answer that holds half a character one that says so: no provider takes it."""
    if _ROLES[str(message.role.value)] != "tool":
        return message
    text = message.content or ""
    told = outcome_of(text)
    if told.text == text:
        return message
    return ChatMessage(
        role=message.role, content=told.text, additional_kwargs=message.additional_kwargs
    )


def _dumped(message: ChatMessage) -> JsonObject:
    try:
        return _fields_of(message)
    except InvalidRecord:
        raise
    except ENDING:
        raise
    except BaseException as error:  # a value inside may raise anything while it is written
        fault = described(error)
    if _ROLES[str(message.role.value)] == "tool":
        beside = {
            encodable(key): _told_value(value) for key, value in message.additional_kwargs.items()
        }
        return _fields_of(message.model_copy(update={"additional_kwargs": beside}))
    raise InvalidRecord(
        f"a message of role {message.role.value!r} that LlamaIndex cannot write as JSON: {fault}",
        remedy="Let additional_kwargs and the arguments of calls hold JSON values",
    )


def _fields_of(message: ChatMessage) -> JsonObject:
    written = message.model_dump(mode="json")
    fields = cast("JsonObject", with_numbers(written, message.model_dump()))
    json.dumps(fields)  # refuses an integer of more digits than Python writes
    return {**fields, "blocks": with_files_read(fields["blocks"])}


def _told_value(value: object) -> object:
    try:
        _fields_of(ChatMessage(role="tool", additional_kwargs={"value": value}))
    except ENDING:
        raise
    except BaseException:
        return outcome_of(value).text
    return value


def chat_messages(records: Sequence[Message]) -> list[ChatMessage]:
    """Records as the messages they were made from; other records as messages that say the same."""
    return [message for record in records for message in _restored(record)]


def _restored(record: Message) -> list[ChatMessage]:
    try:
        written = _written(record)
        form = _form(record)
        if form is not None and len(written) == 1:
            written = [object_of(restored(written[0], form)) or {}]
        return [ChatMessage.model_validate(without_local_files(fields)) for fields in written]
    except RESTORE_FAULTS as error:
        raise unreadable_form("LlamaIndex", error) from None


def _form(record: Message) -> JsonObject | None:
    """How LlamaIndex wrote the record; None for one it did not write, or that was shortened since."""
    origin = record.origin
    if origin is None or origin.provider != PROVIDER or not origin.form:
        return None
    form = thaw_object(origin.form)
    if "packed" in form:
        return {"=": unpacked(text_at(form, "packed"))}
    if "whole" in form:
        return {"=": cast("object", json.loads(text_at(form, "whole")))}
    return object_at(form, "difference")


def _with_form(record: Message, form: JsonObject) -> Message:
    origin = Origin(PROVIDER, form=freeze(form, path="form"))
    return Message.of(record.role, record.parts, name=record.name, origin=origin)


def _spoken(fields: JsonObject) -> Message:
    role = _ROLES[text_at(fields, "role")]
    beside = object_at(fields, "additional_kwargs")
    parts = [part_of(object_of(block) or {}) for block in list_at(fields, "blocks")]
    if role == "assistant":
        known = {part.id for part in parts if isinstance(part, ToolCall)}
        parts += [call for call in _calls_beside(beside) if call.id not in known]
    if role == "tool":
        content = tuple(part for part in parts if isinstance(part, ContentPart))
        parts = [ToolResult(text_at(beside, "tool_call_id"), content)]
        return Message.of(role, parts, name=text_at(beside, "name") or None)
    return Message.of(role, parts)


def _calls_beside(beside: JsonObject) -> list[ToolCall]:
    """Calls as older integrations carry them: OpenAI's own form in `additional_kwargs`."""
    found: list[ToolCall] = []
    for value in list_at(beside, "tool_calls"):
        call = object_of(value) or {}
        function = object_at(call, "function")
        name = text_at(function, "name")
        if text_at(call, "id") and name:
            found.append(ToolCall(text_at(call, "id"), name, text_at(function, "arguments")))
    return found


def _kept_whole(fields: JsonObject, plain: JsonObject) -> Message:
    """A message that the lean form would not give back, with all of it beside; `plain` is what JSON can carry of it."""
    if plain == fields:
        return _with_form(_words(plain), {"whole": json.dumps(fields)})
    try:
        said = _spoken(plain)
    except (InvalidRecord, ValueError):
        said = _words(plain)
    return _with_form(said, {"packed": packed(fields)})


def _words(fields: JsonObject) -> Message:
    blocks = [object_of(block) or {} for block in list_at(fields, "blocks")]
    words = "\n".join(text for block in blocks if (text := text_at(block, "text")))
    return Message.of("user", (TextPart(words),))


def _written(record: Message) -> list[JsonObject]:
    """A record the way LlamaIndex would write it: one message, or one per result."""
    if not record.results:
        return [_fields(record.role, record.parts, {})]
    return [
        _fields("tool", result.content, {"tool_call_id": result.call_id, **_named(record)})
        for result in record.results
    ]


def _named(record: Message) -> JsonObject:
    return {"name": record.name} if record.name else {}


def _fields(role: str, parts: Sequence[Part], beside: JsonObject) -> JsonObject:
    blocks = [block for part in parts if (block := block_of(part)) is not None]
    return {"role": role, "additional_kwargs": beside, "blocks": blocks}
