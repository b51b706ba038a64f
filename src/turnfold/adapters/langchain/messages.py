"""Converts LangChain messages to records of a log and back.

One message becomes one record. The parts of the record hold the content that turnfold counts, searches and shortens:
text, images, files and thinking. The form of the record holds the other fields (ids, metadata, provider fields) and,
for each block, its residue: the fields that no part holds. A tool call that is also among the blocks is kept only in
the residue, because the message repeats it. A block without an equivalent part is kept whole as an opaque part. Each
message is converted back as a test: if the record would not restore it exactly, the whole message is stored in the
record; if it has no JSON form, it is packed as base64 text. A tool's artifact is not stored, because it is for the
application, not for the model. A tool result that cannot be serialized (an object without a JSON form, a cycle) becomes
text for the log and the model, and the run continues.

A record's name is made of the message's id and content: a message is stored once even if a run passes it many times,
and a message that was changed under the same id is another one. Messages without an id and with the same content are
numbered.

Records that LangChain did not write (the summary of a fold (compaction), a shortened message, a message of another
program) become messages with the same content.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolMessage,
    messages_from_dict,
)
from langchain_core.messages import ToolCall as LangChainCall

from turnfold.adapters._common import can_run, is_valid_part, opaque_text, provider_file_note
from turnfold.errors import InvalidRecord
from turnfold.records import (
    AudioPart,
    ContentPart,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    Origin,
    Part,
    Role,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    encode_message,
    freeze,
    thaw_object,
)
from turnfold.wire import (
    ENDING,
    RESTORE_FAULTS,
    ToolOutcome,
    encodable,
    list_of,
    object_of,
    outcome_of,
    packed,
    unpacked,
    unreadable_form,
    with_numbers,
    writable,
)

__all__ = (
    "PROVIDER",
    "Content",
    "JsonObject",
    "MessageOrigin",
    "call_of",
    "content_digest",
    "langchain_messages",
    "messages_of",
    "numbered",
    "origin_of",
    "parts_of",
    "record_and_shown",
    "record_of",
)


JsonObject: TypeAlias = dict[str, object]
Content: TypeAlias = str | list[str | JsonObject]

PROVIDER: Final = "langchain"
_CALL_TYPES = frozenset(
    {"tool_use", "tool_call", "function_call", "tool_call_chunk", "input_json_delta"}
)
_TEXT: Final = "text"
_WHOLE: Final = "whole"
"""Key in a residue (fields that a record cannot express) under which the entire block is stored."""


def parts_of(
    content: Content, *, allow_thinking: bool = False
) -> tuple[list[Part], list[object] | None]:
    """Return the parts of a message's content, and the residue (other fields) of each block; None for plain text.

    `allow_thinking` is True for assistant messages; no other message may have thinking.
    """
    if isinstance(content, str):
        return ([TextPart(content)] if content else []), None
    pairs = [_read_block(item, allow_thinking=allow_thinking) for item in content]
    return [part for part, _ in pairs if part is not None], [residue for _, residue in pairs]


def content_of(parts: Sequence[Part], residues: Sequence[object] | None) -> Content:
    """Restore the content of a LangChain message from its parts and residues (the other fields of each block)."""
    if residues is None:
        return "".join(part.text for part in parts if isinstance(part, TextPart))
    left = iter(parts)
    return [_write_block(left, residue) for residue in residues]


def _read_block(item: str | JsonObject, *, allow_thinking: bool) -> tuple[Part | None, object]:
    """Convert a content block to a part, and return it with the block's other fields (the residue).

    The part is None for a tool call, because the message has the same call in `tool_calls`.
    """
    if isinstance(item, str):
        return TextPart(item), None
    if item.get("type") in _CALL_TYPES:
        return None, {_WHOLE: item}
    part, residue = _known_part(dict(item))
    if (
        part is not None
        and is_valid_part(part)
        and (allow_thinking or not isinstance(part, ThinkingPart))
    ):
        return part, residue
    return OpaquePart(freeze(item, path="content"), PROVIDER), {"kind": "opaque"}


def _known_part(rest: JsonObject) -> tuple[Part | None, JsonObject]:
    """Return the message part that a block equals, and its other fields; None for a block without an equivalent."""
    match rest.get("type"):
        case "text" if isinstance(rest.get("text"), str):
            return TextPart(_take(rest, "text")), {"kind": _TEXT, "rest": rest}
        case "thinking" if isinstance(rest.get("thinking"), str):
            if not isinstance(rest.get("signature", ""), str):
                return None, rest
            text = _take(rest, "thinking")
            signature = _take(rest, "signature") if "signature" in rest else ""
            part = ThinkingPart(text, signature, provider="anthropic" if signature else "")
            return part, {"kind": "thinking", "rest": rest}
        case "reasoning" if isinstance(rest.get("reasoning"), str):
            return ThinkingPart(_take(rest, "reasoning")), {"kind": "reasoning", "rest": rest}
        case "image_url":
            return _image_url(rest)
        case "image" | "file":
            return _media(rest)
        case _:
            return None, rest


def _image_url(rest: JsonObject) -> tuple[Part | None, JsonObject]:
    source = rest.get("image_url")
    if isinstance(source, str):
        return ImagePart(_take(rest, "image_url")), {"kind": "image_url", "rest": rest}
    if not isinstance(source, dict):
        return None, rest
    inner = dict(cast("JsonObject", source))
    if not isinstance(inner.get("url"), str):
        return None, rest
    url = _take(inner, "url")
    rest["image_url"] = None
    return ImagePart(url), {"kind": "image_url", "rest": rest, "inner": inner}


def _media(rest: JsonObject) -> tuple[Part | None, JsonObject]:
    picture = rest.get("type") == "image"
    media_type = str(rest.get("mime_type") or ("image/png" if picture else "application/pdf"))
    if isinstance(rest.get("base64"), str):
        url, key = f"data:{media_type};base64,{_take(rest, 'base64')}", "base64"
    elif isinstance(rest.get("url"), str):
        url, key = _take(rest, "url"), "url"
    else:
        return None, rest
    part = ImagePart(url) if picture else FilePart(url, media_type)
    return part, {"kind": key, "rest": rest}


def _take(fields: JsonObject, key: str) -> str:
    value, fields[key] = str(fields[key]), None
    return value


def _write_block(left: Iterator[Part], residue: object) -> str | JsonObject:
    """Return the block made of a residue (other fields) and, if it needs one, the next part of `left`."""
    if residue is None:
        return cast("TextPart", next(left)).text
    how = cast("JsonObject", residue)
    return cast("JsonObject", how[_WHOLE]) if _WHOLE in how else _write_part(next(left), how)


def _write_part(part: Part, residue: JsonObject) -> JsonObject:
    rest = cast("JsonObject", residue.get("rest", {}))
    match part, residue["kind"]:
        case TextPart(), _:
            return {**rest, "text": part.text}
        case ThinkingPart(), "thinking":
            signed = {"signature": part.signature} if "signature" in rest else {}
            return {**rest, "thinking": part.text, **signed}
        case ThinkingPart(), _:
            return {**rest, "reasoning": part.text}
        case ImagePart(), "image_url":
            inner = residue.get("inner")
            url = part.url if inner is None else {**cast("JsonObject", inner), "url": part.url}
            return {**rest, "image_url": url}
        case ((ImagePart() | FilePart()), "base64"):
            return {**rest, "base64": part.url.partition(",")[2]}
        case ((ImagePart() | FilePart()), _):
            return {**rest, "url": part.url}
        case OpaquePart(), _:
            return thaw_object(part.json)
        case _:
            raise InvalidRecord(
                f"a stored {type(part).__name__} cannot be part of a LangChain message: LangChain has no block for it"
            )


_SplitMessage: TypeAlias = tuple[Role, list[Part], str | None, JsonObject]
_NOT_FORM = {"content", "type", "artifact", "tool_calls", "tool_call_id"}


def record_of(message: BaseMessage) -> Message:
    """Convert a LangChain message to a record (turnfold's stored form); `langchain_messages` restores it."""
    return record_and_shown(message)[0]


def record_and_shown(message: BaseMessage) -> tuple[Message, BaseMessage]:
    """Return the record (stored form) of a LangChain message, and the message to show a model.

    It is the same message, unless it is a tool result that cannot be serialized, which becomes text.
    """
    try:
        return _record_of(message), _sendable(message)
    except ENDING:
        raise
    except BaseException:  # a value of a tool may raise anything while it is written
        if not isinstance(message, ToolMessage):
            raise
    shown = _as_text(message)
    return _record_of(shown), shown


def _sendable(message: BaseMessage) -> BaseMessage:
    """Return the message; a tool result that no provider accepts (a lone surrogate, NaN in a block) becomes text."""
    content = cast("object", message.content)
    if not isinstance(message, ToolMessage) or writable(content) == content:
        return message
    return _with_content(message, outcome_of(content))


def _with_content(message: ToolMessage, outcome: ToolOutcome) -> ToolMessage:
    status = "error" if outcome.failed else message.status
    return message.model_copy(update={"content": outcome.text, "status": status})


def _as_text(message: ToolMessage) -> ToolMessage:
    """Return the tool message with values that cannot be serialized as text.

    If that fails, its whole content becomes text.
    """
    for field in ("additional_kwargs", "response_metadata"):
        given = cast("dict[str, object]", getattr(message, field))
        message = message.model_copy(update={field: _fields_as_text(given)})
    content = cast("object", message.content)
    blocks = list_of(content)
    if blocks is not None:
        texts = [_fields_as_text(fields) if (fields := object_of(one)) else one for one in blocks]
        message = message.model_copy(update={"content": texts})
    recordable = can_run(lambda: _record_of(message))
    return message if recordable else _with_content(message, outcome_of(content))


def _fields_as_text(fields: dict[str, object]) -> dict[str, object]:
    return {encodable(key): _value_as_text(value) for key, value in fields.items()}


def _value_as_text(value: object) -> object:
    alone = ToolMessage("", tool_call_id="alone", additional_kwargs={"value": value})
    return value if can_run(lambda: _record_of(alone)) else outcome_of(value).text


def _record_of(message: BaseMessage) -> Message:
    dumped = _dump(message)
    try:
        return _lean_or_whole(message, dumped)
    except InvalidRecord as fault:
        plain = cast("JsonObject", writable(dumped))
        if plain == dumped:
            raise _locate_fault(message, fault) from None
    [stand_in] = messages_from_dict([{"type": message.type, "data": plain}])
    role, parts, name, _ = _split(stand_in, plain)
    return _record(stand_in, role, parts, name, {"packed": packed(_tagged(message, dumped))})


def _lean_or_whole(message: BaseMessage, dumped: JsonObject) -> Message:
    """Return the record (stored form) of a message.

    It has all fields if the parts alone would not restore the message.
    """
    role, parts, name, form = _split(message, dumped)
    lean = _record(message, role, parts, name, form)
    if _round_trips(lean, dumped):
        return lean
    return _record(message, role, parts, name, {"whole": _tagged(message, dumped)})


def _tagged(message: BaseMessage, dumped: JsonObject) -> JsonObject:
    return {"type": message.type, "data": dumped}


def _locate_fault(message: BaseMessage, fault: InvalidRecord) -> InvalidRecord:
    """Return the error with the type and the id of the message that it is about."""
    which = f"id {message.id!r}" if message.id else "no id"
    return InvalidRecord(
        f"{fault.problem} (a message of type {message.type!r}, {which})",
        path=fault.path,
        remedy=fault.remedy,
    )


def numbered(record: Message, number: int) -> Message:
    """Return the stored message with a number in its client id, to tell equal messages without an id apart."""
    own = origin_of(record)
    return record if own is None else _with_envelope(record, {"name": f"{own.name}.{number}"})


def _with_envelope(record: Message, envelope: JsonObject) -> Message:
    origin = cast("Origin", record.origin)
    new = Origin(PROVIDER, origin.model, origin.form, freeze(envelope, path="envelope"))
    return Message.of(record.role, record.parts, name=record.name, origin=new)


def call_of(call: LangChainCall) -> tuple[ToolCall, bool]:
    """Convert a tool call; the second value is False if some arguments had to be replaced, so that it is not exact."""
    plain = cast("LangChainCall", writable(call))
    arguments = freeze(plain["args"], path="args")
    return ToolCall(plain["id"] or "", plain["name"], arguments), plain == call


def content_digest(record: Message) -> str:
    """Return a digest of a stored message's content, without its origin and id."""
    content = encode_message(Message.of(record.role, record.parts, name=record.name))
    return blake2b(content, digest_size=16).hexdigest()


def _dump(message: BaseMessage) -> JsonObject:
    try:
        written = message.model_dump(mode="json", exclude={"artifact"}, warnings="error")
    except ValueError as error:  # of pydantic, or of bytes that are no text
        fault = InvalidRecord(
            f"the message cannot be written as JSON: {error}",
            remedy="Let tools return text or JSON values; what the model need not see goes into the artifact",
        )
        raise _locate_fault(message, fault) from None
    return cast("JsonObject", with_numbers(written, message.model_dump(exclude={"artifact"})))


def _split(message: BaseMessage, dumped: JsonObject) -> _SplitMessage:
    allow_thinking = isinstance(message, AIMessage)
    parts, residues = parts_of(cast("Content", dumped["content"]), allow_thinking=allow_thinking)
    fields = message.model_dump(mode="json", exclude=_NOT_FORM, exclude_defaults=True)
    form: JsonObject = {"type": message.type, "fields": fields}
    if residues is not None:
        form["content"] = residues
    if isinstance(message, ToolMessage):
        content = cast("tuple[ContentPart, ...]", tuple(parts or [TextPart("")]))
        fields.pop("name", None)
        result = ToolResult(message.tool_call_id, content, message.status == "error")
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
    digest = blake2b(
        f"{message.id or ''}\n{content_digest(bare)}\n{written}".encode(), digest_size=16
    )
    envelope: JsonObject = {"name": f"{PROVIDER}:{digest.hexdigest()}"}
    if message.id:
        envelope["id"] = message.id
    metadata = cast("JsonObject", message.response_metadata)
    model = str(metadata.get("model_name") or "") if role == "assistant" else ""
    origin = Origin(PROVIDER, model, written, freeze(envelope, path="envelope"))
    return Message.of(role, parts, name=name, origin=origin)


def _round_trips(record: Message, dumped: JsonObject) -> bool:
    try:
        [restored] = messages_of(record)
        written = restored.model_dump(mode="json", exclude={"artifact"})
    except (ValueError, KeyError, TypeError, IndexError, StopIteration):
        return False  # the lean form does not fit this message
    return written == dumped


class MessageOrigin(NamedTuple):
    """Client id and LangChain id of the message that a record (stored message) was made from."""

    name: str
    """Name under which the message's record is in the log."""
    id: str
    """Id that the message itself has; empty if it had none."""


def origin_of(record: Message) -> MessageOrigin | None:
    """Return the ids of the LangChain message that a stored one was made from; None if LangChain did not write it."""
    origin = record.origin
    if origin is None or origin.provider != PROVIDER:
        return None
    envelope = thaw_object(origin.envelope)
    return MessageOrigin(str(envelope.get("name", "")), str(envelope.get("id", "")))


def langchain_messages(records: Sequence[Message]) -> list[BaseMessage]:
    """Convert records (stored messages) to LangChain messages: the originals, or messages with the same content."""
    return [message for record in records for message in messages_of(record)]


def messages_of(record: Message) -> list[BaseMessage]:
    """Convert one record (stored message) to LangChain messages: one message, or one for each tool result in it."""
    try:
        return _restored(record)
    except RESTORE_FAULTS as error:
        raise unreadable_form("LangChain", error) from None


def _restored(record: Message) -> list[BaseMessage]:
    origin = record.origin
    if origin is None or origin.provider != PROVIDER or not origin.form:
        return _plain_messages(record)
    form = thaw_object(origin.form)
    if "packed" in form:
        return list(messages_from_dict([unpacked(str(form["packed"]))]))
    if "whole" in form:
        return list(messages_from_dict([cast("JsonObject", form["whole"])]))
    fields = dict(cast("JsonObject", form["fields"]))
    parts = record.parts
    if parts and isinstance(parts[0], ToolResult):
        fields |= {"tool_call_id": parts[0].call_id, "name": record.name}
        parts = parts[0].content
    content = [part for part in parts if not isinstance(part, ToolCall)]
    fields["content"] = content_of(content, cast("list[object] | None", form.get("content")))
    calls = cast("list[JsonObject]", form.get("calls", []))
    if calls:
        pairs = zip(record.calls, calls, strict=False)
        fields["tool_calls"] = [_restored_call(part, rest) for part, rest in pairs]
    return list(messages_from_dict([{"type": form["type"], "data": fields}]))


def _restored_call(part: ToolCall, rest: JsonObject) -> JsonObject:
    return {**rest, "id": part.id, "name": part.name, "args": json.loads(part.arguments)}


def _plain_messages(record: Message) -> list[BaseMessage]:
    own = origin_of(record)
    message_id = (own.id or None) if own is not None else None
    match record.role:
        case "tool":
            return [_tool_message(result, record.name, message_id) for result in record.results]
        case "assistant":
            return [_assistant_message(record, message_id, own=own is not None)]
        case "system":
            return [SystemMessage(record.text, id=message_id)]
        case "user":
            parts = cast("Sequence[ContentPart]", record.parts)
            return [HumanMessage(_plain_content(parts), name=record.name, id=message_id)]


def _assistant_message(record: Message, message_id: str | None, *, own: bool) -> AIMessage:
    calls: list[LangChainCall] = []
    broken: list[InvalidToolCall] = []
    for part in record.calls:
        try:
            args: object = json.loads(part.arguments)
        except ValueError:
            args = None
        if isinstance(args, dict):
            calls.append(LangChainCall(name=part.name, args=cast("JsonObject", args), id=part.id))
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
    dropped = ToolCall if own else ToolCall | ThinkingPart
    content = [part for part in record.parts if not isinstance(part, dropped)]
    return AIMessage(
        _plain_content(content),
        name=record.name,
        id=message_id,
        tool_calls=calls,
        invalid_tool_calls=broken,
    )


def _tool_message(result: ToolResult, name: str | None, message_id: str | None) -> ToolMessage:
    status = "error" if result.is_error else "success"
    content = _plain_content(result.content)
    return ToolMessage(
        content, tool_call_id=result.call_id, name=name, status=status, id=message_id
    )


def _plain_content(parts: Sequence[Part]) -> Content:
    blocks = [_content_block(part) for part in parts]
    if all(isinstance(block, str) for block in blocks):
        return "".join(cast("list[str]", blocks))
    return [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]


def _content_block(part: Part) -> str | JsonObject:
    match part:
        case TextPart():
            return part.text
        case OpaquePart() if part.provider == PROVIDER:
            return thaw_object(part.json)
        case OpaquePart():
            return opaque_text(part)
        case AudioPart():
            return {"type": "audio", "base64": part.data, "mime_type": f"audio/{part.format}"}
        case ThinkingPart() if part.signature:
            return {"type": "thinking", "thinking": part.text, "signature": part.signature}
        case ThinkingPart():
            return {"type": "reasoning", "reasoning": part.text}
        case ImagePart() | FilePart():
            return _media_block(part)
        case _:
            return ""


def _media_block(part: ImagePart | FilePart) -> str | JsonObject:
    kind = "image" if isinstance(part, ImagePart) else "file"
    if part.url.startswith("data:"):
        head, _, data = part.url.partition(",")
        return {"type": kind, "base64": data, "mime_type": head[5:].split(";", 1)[0]}
    if part.url.startswith("file:"):
        return provider_file_note(part)
    return {"type": kind, "url": part.url}
