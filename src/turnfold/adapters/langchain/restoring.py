"""Entries of a log as LangChain's messages again.

What LangChain wrote comes back as it was, but for the artifacts of its tools, which no model sees. What it did not
write (the summary of what was folded, a message shortened to fit, what another program logged in the same session)
comes back as a message that says the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
    messages_from_dict,
)

from turnfold import records
from turnfold.adapters.langchain.content import PROVIDER, Content, JsonObject, content_of
from turnfold.records.json_text import thaw_object
from turnfold.wire.foreign import media_note, words_of
from turnfold.wire.residue import RESTORE_FAULTS, unreadable_form
from turnfold.wire.unwritable import unpacked

__all__ = ("Own", "langchain_messages", "messages_of", "own_of")

_ELSEWHERE = "kept at its provider"


class Own(NamedTuple):
    """What a record says of the LangChain message it was made from."""

    name: str
    """The record's name in the log."""
    id: str
    """The message's own id; empty where it had none."""
    again: bool = False
    """Whether it was stored once more, with its whole turn."""


def own_of(record: records.Message) -> Own | None:
    """Which LangChain message a record was made from; None for one that LangChain did not write."""
    origin = record.origin
    if origin is None or origin.provider != PROVIDER:
        return None
    envelope = thaw_object(origin.envelope)
    again = envelope.get("again") is True
    return Own(str(envelope.get("name", "")), str(envelope.get("id", "")), again)


def langchain_messages(said: Sequence[records.Message]) -> list[BaseMessage]:
    """Records as the messages they were made from; other records as messages that say the same."""
    return [message for record in said for message in messages_of(record)]


def messages_of(record: records.Message) -> list[BaseMessage]:
    """One record as messages: one, or one for each result it brings."""
    try:
        return _messages(record)
    except RESTORE_FAULTS as error:
        raise unreadable_form("LangChain", error) from None


def _messages(record: records.Message) -> list[BaseMessage]:
    origin = record.origin
    if origin is None or origin.provider != PROVIDER or not origin.form:
        return _plain(record)
    form = thaw_object(origin.form)
    if "packed" in form:
        return list(messages_from_dict([unpacked(str(form["packed"]))]))
    if "whole" in form:
        return list(messages_from_dict([cast("JsonObject", form["whole"])]))
    fields = dict(cast("JsonObject", form["fields"]))
    parts = record.parts
    if parts and isinstance(parts[0], records.ToolResult):
        fields |= {"tool_call_id": parts[0].call_id, "name": record.name}
        parts = parts[0].content
    said = [part for part in parts if not isinstance(part, records.ToolCall)]
    fields["content"] = content_of(said, cast("list[object] | None", form.get("content")))
    calls = cast("list[JsonObject]", form.get("calls", []))
    if calls:
        pairs = zip(record.calls, calls, strict=False)
        fields["tool_calls"] = [_call(part, rest) for part, rest in pairs]
    return list(messages_from_dict([{"type": form["type"], "data": fields}]))


def _call(part: records.ToolCall, rest: JsonObject) -> JsonObject:
    return {**rest, "id": part.id, "name": part.name, "args": json.loads(part.arguments)}


# ---------------------------------------------------------------------------------- plain


def _plain(record: records.Message) -> list[BaseMessage]:
    own = own_of(record)
    named = (own.id or None) if own is not None else None
    match record.role:
        case "tool":
            return [_answered(result, record.name, named) for result in record.results]
        case "assistant":
            return [_assistant(record, named, own=own is not None)]
        case "system":
            return [SystemMessage(record.text, id=named)]
        case "user":
            parts = cast("Sequence[records.ContentPart]", record.parts)
            return [HumanMessage(_content(parts), name=record.name, id=named)]


def _assistant(record: records.Message, named: str | None, *, own: bool) -> AIMessage:
    calls: list[ToolCall] = []
    broken: list[InvalidToolCall] = []
    for part in record.calls:
        try:
            args: object = json.loads(part.arguments)
        except ValueError:
            args = None
        if isinstance(args, dict):
            calls.append(ToolCall(name=part.name, args=cast("JsonObject", args), id=part.id))
        else:
            broken.append(
                InvalidToolCall(
                    type="invalid_tool_call",
                    name=part.name,
                    args=part.arguments,
                    id=part.id,
                    error=None,
                )
            )
    kept = [part for part in record.parts if not isinstance(part, records.ToolCall)]
    said = [part for part in kept if own or not isinstance(part, records.ThinkingPart)]
    return AIMessage(
        _content(said), name=record.name, id=named, tool_calls=calls, invalid_tool_calls=broken
    )


def _answered(result: records.ToolResult, name: str | None, named: str | None) -> ToolMessage:
    status = "error" if result.is_error else "success"
    content = _content(result.content)
    return ToolMessage(content, tool_call_id=result.call_id, name=name, status=status, id=named)


def _content(parts: Sequence[records.Part]) -> Content:
    blocks = [_item(part) for part in parts]
    if all(isinstance(block, str) for block in blocks):
        return "".join(cast("list[str]", blocks))
    return [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]


def _item(part: records.Part) -> str | JsonObject:
    match part:
        case records.TextPart():
            return part.text
        case records.OpaquePart() if part.provider == PROVIDER:
            return thaw_object(part.json)
        case records.OpaquePart():
            block = thaw_object(part.json)
            return (
                words_of(block) or f"[{block.get('type', 'block')} not shown: another provider's]"
            )
        case records.AudioPart():
            return {"type": "audio", "base64": part.data, "mime_type": f"audio/{part.format}"}
        case records.ThinkingPart() if part.signature:
            return {"type": "thinking", "thinking": part.text, "signature": part.signature}
        case records.ThinkingPart():
            return {"type": "reasoning", "reasoning": part.text}
        case records.ImagePart() | records.FilePart():
            return _media(part)
        case _:
            return ""


def _media(part: records.ImagePart | records.FilePart) -> str | JsonObject:
    kind = "image" if isinstance(part, records.ImagePart) else "file"
    if part.url.startswith("data:"):
        head, _, data = part.url.partition(",")
        return {"type": kind, "base64": data, "mime_type": head[5:].split(";", 1)[0]}
    if part.url.startswith("file:"):
        return media_note(part, _ELSEWHERE)
    return {"type": kind, "url": part.url}
