"""LangChain's messages as entries of a log.

One message is one record, whose parts are what was said; how LangChain wrote it (its ids, metadata, the fields of its
provider) is in the form beside it. Each message is read back the moment it is written: where the lean form would not
give it back exactly, all of it is kept; where JSON cannot carry it, it is packed. The artifact of a tool is not kept:
it is the program's, not the model's, and may be anything. What a tool returned and nothing can carry (an object without
a JSON form, a cycle) is told as text, to the log and to the model, and the run goes on.

A record's name is made of the message's id and of what it says, so that a message is stored once however often a run
shows it, and one that was changed under the same id is another. Messages without an id that say the same are told apart
by their number among those that a history shows.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TypeAlias, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, messages_from_dict
from langchain_core.messages import ToolCall as LangChainCall

from turnfold.adapters.langchain.content import PROVIDER, Content, JsonObject, parts_of
from turnfold.adapters.langchain.restoring import messages_of, own_of
from turnfold.errors import InvalidRecord
from turnfold.records import (
    ContentPart,
    Message,
    Origin,
    Part,
    Role,
    TextPart,
    ToolCall,
    ToolResult,
    encode_message,
)
from turnfold.records.json_text import freeze
from turnfold.wire.tool_text import ENDING, Outcome, encodable, outcome_of
from turnfold.wire.unwritable import packed, with_numbers, writable
from turnfold.wire.values import list_of, object_of

__all__ = ("call_of", "numbered", "record_of", "recorded", "said_again", "said_digest")

_Said: TypeAlias = tuple[Role, list[Part], str | None, JsonObject]
_NOT_FORM = {"content", "type", "artifact", "tool_calls", "tool_call_id"}


def record_of(message: BaseMessage) -> Message:
    """A message as a record; `langchain_messages` gives it back, with texts for what of a tool has no form at all."""
    return recorded(message)[0]


def recorded(message: BaseMessage) -> tuple[Message, BaseMessage]:
    """The record of a message, and what a model is shown: the message, or a text for a tool's answer without a form."""
    try:
        return _recorded(message), _sendable(message)
    except ENDING:
        raise
    except BaseException:  # a value of a tool may raise anything while it is written
        if not isinstance(message, ToolMessage):
            raise
    told = _told(message)
    return _recorded(told), told


def _sendable(message: BaseMessage) -> BaseMessage:
    """The message, or a text for a tool's answer that no provider takes (half a character, NaN in a block)."""
    content = cast("object", message.content)
    if not isinstance(message, ToolMessage) or writable(content) == content:
        return message
    return _with_content(message, outcome_of(content))


def _with_content(message: ToolMessage, told: Outcome) -> ToolMessage:
    status = "error" if told.failed else message.status
    return message.model_copy(update={"content": told.text, "status": status})


def _told(message: ToolMessage) -> ToolMessage:
    """The answer with texts for the values that nothing can carry; where that does not do, one text for all of it."""
    for field in ("additional_kwargs", "response_metadata"):
        given = cast("dict[str, object]", getattr(message, field))
        message = message.model_copy(update={field: _told_fields(given)})
    content = cast("object", message.content)
    blocks = list_of(content)
    if blocks is not None:
        told = [_told_fields(fields) if (fields := object_of(one)) else one for one in blocks]
        message = message.model_copy(update={"content": told})
    return message if _is_recordable(message) else _with_content(message, outcome_of(content))


def _told_fields(fields: dict[str, object]) -> dict[str, object]:
    return {encodable(key): _told_value(value) for key, value in fields.items()}


def _told_value(value: object) -> object:
    alone = ToolMessage("", tool_call_id="alone", additional_kwargs={"value": value})
    return value if _is_recordable(alone) else outcome_of(value).text


def _is_recordable(message: BaseMessage) -> bool:
    try:
        _recorded(message)
    except ENDING:
        raise
    except BaseException:
        return False
    return True


def _recorded(message: BaseMessage) -> Message:
    dumped = _dumped(message)
    try:
        return _written(message, dumped)
    except InvalidRecord as fault:
        plain = cast("JsonObject", writable(dumped))
        if plain == dumped:
            raise _named(message, fault) from None
    [stand_in] = messages_from_dict([{"type": message.type, "data": plain}])
    role, parts, name, _ = _said(stand_in, plain)
    return _record(stand_in, role, parts, name, {"packed": packed(_whole(message, dumped))})


def _written(message: BaseMessage, dumped: JsonObject) -> Message:
    """The lean form of a message, or all of it."""
    role, parts, name, form = _said(message, dumped)
    lean = _record(message, role, parts, name, form)
    if _leads_back(lean, dumped):
        return lean
    return _record(message, role, parts, name, {"whole": _whole(message, dumped)})


def _whole(message: BaseMessage, dumped: JsonObject) -> JsonObject:
    return {"type": message.type, "data": dumped}


def _named(message: BaseMessage, fault: InvalidRecord) -> InvalidRecord:
    """The fault, and which message has it."""
    which = f"id {message.id!r}" if message.id else "no id"
    return InvalidRecord(
        f"{fault.problem} (a message of type {message.type!r}, {which})",
        path=fault.path,
        remedy=fault.remedy,
    )


def numbered(record: Message, number: int) -> Message:
    """The record of a message without an id that says this for the second time, the third and so on."""
    own = own_of(record)
    return record if own is None else _with_envelope(record, {"name": f"{own.name}.{number}"})


def said_again(record: Message) -> Message:
    """The record of a message that is stored once more, with its whole turn."""
    own = own_of(record)
    if own is None:
        return record
    named = {"id": own.id} if own.id else {}
    return _with_envelope(record, {"name": own.name, **named, "again": True})


def _with_envelope(record: Message, envelope: JsonObject) -> Message:
    origin = cast("Origin", record.origin)
    new = Origin(PROVIDER, origin.model, origin.form, freeze(envelope, path="envelope"))
    return Message.of(record.role, record.parts, name=record.name, origin=new)


def call_of(call: LangChainCall) -> tuple[ToolCall, bool]:
    """A call as records have it, and whether it says just what was asked; else numbers or letters stand for others."""
    plain = writable(call)
    named = cast("LangChainCall", plain)
    arguments = freeze(named["args"], path="args")
    return ToolCall(named["id"] or "", named["name"], arguments), plain == call


def said_digest(record: Message) -> str:
    """A digest of what a record says, whoever wrote it and under which id."""
    said = encode_message(Message.of(record.role, record.parts, name=record.name))
    return blake2b(said, digest_size=16).hexdigest()


def _dumped(message: BaseMessage) -> JsonObject:
    try:
        written = message.model_dump(mode="json", exclude={"artifact"}, warnings="error")
    except ValueError as error:  # of pydantic, or of bytes that are no text
        fault = InvalidRecord(
            f"it cannot be written as JSON: {error}",
            remedy="Let tools return text or JSON values; what the model need not see goes into the artifact",
        )
        raise _named(message, fault) from None
    return cast("JsonObject", with_numbers(written, message.model_dump(exclude={"artifact"})))


def _said(message: BaseMessage, dumped: JsonObject) -> _Said:
    thoughts = isinstance(message, AIMessage)
    parts, residues = parts_of(cast("Content", dumped["content"]), thoughts=thoughts)
    fields = message.model_dump(mode="json", exclude=_NOT_FORM, exclude_defaults=True)
    form: JsonObject = {"type": message.type, "fields": fields}
    if residues is not None:
        form["content"] = residues
    if isinstance(message, ToolMessage):
        held = cast("tuple[ContentPart, ...]", tuple(parts or [TextPart("")]))
        fields.pop("name", None)
        result = ToolResult(message.tool_call_id, held, message.status == "error")
        return "tool", [result], message.name, form
    if isinstance(message, AIMessage):
        calls = [
            (ToolCall(call["id"] or "", call["name"], freeze(call["args"], path="args")), call)
            for call in message.tool_calls
        ]
        if calls:
            form["calls"] = [
                {key: value for key, value in call.items() if key not in ("id", "name", "args")}
                for _, call in calls
            ]
        broken = [
            ToolCall(call["id"] or "", call["name"] or "unknown", call["args"] or "")
            for call in message.invalid_tool_calls
        ]
        return "assistant", [*parts, *(part for part, _ in calls), *broken], None, form
    role: Role = "assistant" if getattr(message, "role", "") == "assistant" else "user"
    return role, parts or [TextPart("")], None, form


def _record(
    message: BaseMessage, role: Role, parts: list[Part], name: str | None, form: JsonObject
) -> Message:
    written = freeze(form, path="form")
    bare = Message.of(role, parts, name=name)
    digest = blake2b(f"{message.id or ''}\n{said_digest(bare)}\n{written}".encode(), digest_size=16)
    envelope: JsonObject = {"name": f"{PROVIDER}:{digest.hexdigest()}"}
    if message.id:
        envelope["id"] = message.id
    metadata = cast("JsonObject", message.response_metadata)
    model = str(metadata.get("model_name") or "") if role == "assistant" else ""
    origin = Origin(PROVIDER, model, written, freeze(envelope, path="envelope"))
    return Message.of(role, parts, name=name, origin=origin)


def _leads_back(record: Message, dumped: JsonObject) -> bool:
    try:
        [restored] = messages_of(record)
        again = restored.model_dump(mode="json", exclude={"artifact"})
    except (ValueError, KeyError, TypeError, IndexError, StopIteration):
        return False  # the lean form does not fit this message
    return again == dumped
