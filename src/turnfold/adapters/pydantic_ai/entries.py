"""Converts PydanticAI messages to records of a log and back.

A response becomes one record. A request becomes one record per part, because turnfold keeps a tool result with its call
and begins a turn with a user message. The envelope of a record says which request the part came in, and holds the other
fields of that request. Each message is converted back as a test: if the record would not restore it exactly, the whole
message is stored in the record. If a tool returns a value without a JSON form, the model and the log get a text
instead, and the run continues.

A record's name (its client id in the log) is a digest of its content and time.

Records that PydanticAI did not write (the summary of a fold (compaction), a shortened message, a message of another
program) become messages with the same content.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from types import AsyncGeneratorType, GeneratorType
from typing import NamedTuple, TypeAlias, cast

from pydantic_ai.messages import (
    INTERRUPTED_TOOL_RETURN_CONTENT,
    BaseToolReturnPart,
    BinaryContent,
    CompactionPart,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    RetryFeedbackPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_core import PydanticSerializationError

from turnfold import records
from turnfold.adapters._common import can_run, opaque_text, provider_file_note
from turnfold.adapters.pydantic_ai.parts import (
    PROVIDER,
    JsonObject,
    present,
    request_part_record,
    response_part,
    restored_request_part,
    restored_response_part,
)
from turnfold.errors import InvalidRecord
from turnfold.records import Message, Origin, Part, Role, encode_message, freeze, thaw_object
from turnfold.wire import ENDING, RESTORE_FAULTS, outcome_of, unreadable_form, writable

__all__ = (
    "NamedRecord",
    "RecordNamer",
    "Restorer",
    "is_filled_in",
    "model_messages",
    "plain_request",
    "plain_response",
    "record_name",
    "records_of",
    "written",
)


def plain_request(message: records.Message, names: Mapping[str, str]) -> list[ModelRequestPart]:
    """Return PydanticAI request parts with the content of a stored user or tool message.

    `names` maps call ids to tool names.
    """
    results = message.results
    if results:
        return [_tool_return(result, message.name, names) for result in results]
    requests = [_restored_own(part) for part in message.parts if _is_own(part)]
    if requests:
        return [part for request in requests for part in cast("ModelRequest", request).parts]
    return [UserPromptPart(_plain_content(cast("Sequence[records.ContentPart]", message.parts)))]


def plain_response(message: records.Message) -> list[ModelResponsePart]:
    """Return PydanticAI response parts with the content of a stored assistant message; tool results are left out."""
    return [answer for part in message.parts for answer in _response_parts(part)]


def _tool_return(
    result: records.ToolResult, name: str | None, names: Mapping[str, str]
) -> ToolReturnPart:
    content = _plain_content(result.content)
    outcome = "failed" if result.is_error else "success"
    tool = name or names.get(result.call_id) or "tool"
    return ToolReturnPart(tool, content, result.call_id, outcome=outcome)


def _plain_content(parts: Sequence[records.ContentPart]) -> str | list[UserContent]:
    items = [_content_item(part) for part in parts]
    if all(isinstance(item, str) for item in items):
        return "".join(cast("list[str]", items))
    return items


def _content_item(part: records.ContentPart) -> UserContent:
    match part:
        case records.TextPart():
            return part.text
        case records.OpaquePart():
            return opaque_text(part)
        case records.AudioPart():
            return BinaryContent.from_data_uri(f"data:audio/{part.format};base64,{part.data}")
        case records.ImagePart() | records.FilePart() if part.url.startswith("data:"):
            return BinaryContent.from_data_uri(part.url)
        case records.ImagePart() | records.FilePart() if part.url.startswith("file:"):
            return provider_file_note(part)
        case records.ImagePart():
            return ImageUrl(part.url)
        case records.FilePart():
            return DocumentUrl(part.url, media_type=part.media_type)


def _response_parts(part: records.Part) -> Sequence[ModelResponsePart]:
    match part:
        case records.TextPart():
            return (TextPart(part.text),)
        case records.ThinkingPart():
            signature = (part.signature or None) if part.provider else None
            provider = part.provider or None
            return (ThinkingPart(part.text, signature=signature, provider_name=provider),)
        case records.ToolCall():
            return (ToolCallPart(part.name, part.arguments, part.id),)
        case records.OpaquePart() if _is_own(part):
            return cast("ModelResponse", _restored_own(part)).parts
        case records.ToolResult():
            return ()  # an assistant message has no tool results
        case _:
            item = _content_item(part)
            return (FilePart(item),) if isinstance(item, BinaryContent) else (TextPart(str(item)),)


def _is_own(part: records.Part) -> bool:
    return isinstance(part, records.OpaquePart) and part.provider == PROVIDER


def _restored_own(part: records.Part) -> ModelRequest | ModelResponse:
    """Return the PydanticAI message with one part that a stored message contains unchanged."""
    fields = thaw_object(cast("records.OpaquePart", part).json)
    kind = "response" if fields.get("part_kind") in _RESPONSE_PARTS else "request"
    [message] = ModelMessagesTypeAdapter.validate_python([{"kind": kind, "parts": [fields]}])
    return message


_RESPONSE_PARTS = frozenset(
    {"text", "thinking", "file", "speech", "tool-call", "builtin-tool-call", "builtin-tool-return"}
)


class NamedRecord(NamedTuple):
    """A record (stored message) and its name, the client id in the log."""

    record: Message
    name: str
    """Digest of the record's content and time, with a number added if the same digest occurs again."""


class RecordNamer:
    """Sets the client ids of the stored messages of a history, in order; a repeated message gets a number."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def named(self, records: Sequence[Message]) -> list[NamedRecord]:
        """Return the stored messages made of the next message of a history, each with its client id."""
        return [NamedRecord(record, self._numbered(record_name(record))) for record in records]

    def _numbered(self, name: str) -> str:
        self._times[name] = times = self._times.get(name, 0) + 1
        return name if times == 1 else f"{name}:{times}"


def records_of(message: ModelMessage) -> list[Message]:
    """Convert a message to records; `model_messages` restores it. Tool values without a JSON form become text."""
    return written(message)[1]


def written(message: ModelMessage) -> tuple[ModelMessage, list[Message]]:
    """Return a message as its records restore it, and the records.

    It is the message itself, unless a tool returned an object that is not JSON: code of that object, which may fail,
    would run each time a request is made.
    """
    try:
        if not any(map(_is_read_once, message.parts)):
            made = _lean_or_whole(message)
            return message if all(map(_is_json, message.parts)) else model_messages(made)[0], made
    except ENDING:
        raise
    except BaseException:  # a value of a tool may raise anything while it is written
        text_form = _as_text(message)
        if text_form is None:
            raise
    else:
        text_form = _as_text(message) or message
    made = _lean_or_whole(text_form)
    return model_messages(made)[0], made


def _lean_or_whole(message: ModelMessage) -> list[Message]:
    """Return stored messages that restore a PydanticAI message exactly, with as few extra fields as possible."""
    fields = _fields(message)
    lean = _records(message, fields, whole=False)
    return lean if _round_trips(lean, fields) else _records(message, fields, whole=True)


def _fields(message: ModelMessage) -> JsonObject:
    try:
        return ModelMessagesTypeAdapter.dump_python([message], mode="json")[0]
    except PydanticSerializationError as error:
        raise InvalidRecord(
            f"PydanticAI cannot write this {message.kind} as JSON: {error}",
            remedy="Let the tool return text, JSON values or a Pydantic model",
        ) from None


def _records(message: ModelMessage, fields: JsonObject, *, whole: bool) -> list[Message]:
    fields_around = {key: value for key, value in present(fields).items() if key != "parts"}
    parts = cast("list[JsonObject]", fields["parts"])
    if isinstance(message, ModelResponse):
        return [_response_record(parts, fields_around, whole=whole)]
    return _request_records(message, parts, fields_around, whole=whole)


def _response_record(parts: list[JsonObject], fields_around: JsonObject, *, whole: bool) -> Message:
    model = str(fields_around.get("model_name", ""))
    pairs = [response_part(part, model=model, whole=whole) for part in parts]
    form: JsonObject = {"parts": [residue for _, residue in pairs]}
    content = [part for part, _ in pairs]
    name = _record_name("assistant", content, None, form, fields_around.get("timestamp"))
    return _record(
        "assistant", content, None, form, {"id": name, "message": fields_around}, model=model
    )


def _request_records(
    message: ModelRequest, parts: list[JsonObject], fields_around: JsonObject, *, whole: bool
) -> list[Message]:
    system_prompts = _leading_prompts(parts)
    of = _digest([present(part) for part in parts])
    made: list[Message] = []
    for index in range(len(system_prompts), len(parts)):
        read = request_part_record(
            parts[index], text=_shown_text(message.parts[index]), whole=whole
        )
        form: JsonObject = {"part": read.residue}
        envelope: JsonObject = {
            "id": _record_name(read.role, read.parts, read.name, form),
            "of": of,
        }
        if not made:
            envelope["message"] = fields_around
        if not made and system_prompts:
            envelope["carried"] = system_prompts
        made.append(_record(read.role, read.parts, read.name, form, envelope))
    return made


def _leading_prompts(parts: list[JsonObject]) -> list[JsonObject]:
    """Return the system prompts at the beginning of a request, which belong to the session's system message."""
    system_prompts: list[JsonObject] = []
    for part in parts[:-1]:
        lasting = part.get("scope", "conversation") == "conversation"
        if part["part_kind"] != "system-prompt" or part.get("context_id") or not lasting:
            break
        system_prompts.append(present(part))
    return system_prompts


def _shown_text(part: ModelRequestPart) -> str:
    """Return the text shown to a model for a part whose content is not text."""
    match part:
        case BaseToolReturnPart() if not isinstance(part.content, str) and not part.files:
            return part.model_response_str(wrap_if_error=False)
        case RetryFeedbackPart():
            return part.model_response()
        case CompactionPart():
            return part.content or ""
        case _:
            return ""


def _record(
    role: Role,
    parts: Sequence[Part],
    name: str | None,
    form: JsonObject,
    envelope: JsonObject,
    *,
    model: str = "",
) -> Message:
    origin = Origin(PROVIDER, model, freeze(form, path="form"), freeze(envelope, path="envelope"))
    return Message.of(role, parts, name=name, origin=origin)


# ---------------------------------------------------------------------------------- values without JSON


def _as_text(message: ModelMessage) -> ModelMessage | None:
    """Return the message with text for tool values that have no JSON form; None for a request without tool results."""
    if isinstance(message, ModelResponse):
        fields = cast("JsonObject", writable(_fields(message)))
        [escaped] = ModelMessagesTypeAdapter.validate_python([fields])
        return escaped
    if not any(isinstance(part, BaseToolReturnPart) for part in message.parts):
        return None
    return replace(message, parts=[_part_as_text(part) for part in message.parts])


def _part_as_text(part: ModelRequestPart) -> ModelRequestPart:
    match part:
        case BaseToolReturnPart():
            if not _is_writable(replace(part, metadata=None)):
                shown = outcome_of(part.content)
                failed = shown.failed and part.outcome == "success"
                outcome = "failed" if failed else part.outcome
                part = replace(part, content=shown.text, outcome=outcome)
            if not _is_writable(replace(part, content="")):
                part = replace(part, metadata=outcome_of(part.metadata).text)
            return part
        case UserPromptPart():  # beside a tool return: content the tool gave for the model to read
            return replace(part, content=writable(part.content))
        case _:
            return part


def _is_writable(part: ModelRequestPart) -> bool:
    return not _is_read_once(part) and can_run(lambda: _lean_or_whole(ModelRequest([part])))


def _is_json(part: object) -> bool:
    """Return True if the tool values of a part, if it has any, are JSON values."""
    return not isinstance(part, BaseToolReturnPart) or (
        _is_json_value(part.content) and _is_json_value(part.metadata)
    )


def _is_json_value(value: object) -> bool:
    if type(value) is dict:
        pairs = cast("dict[object, object]", value)
        return all(type(key) is str and _is_json_value(one) for key, one in pairs.items())
    if type(value) is list:
        return all(map(_is_json_value, cast("list[object]", value)))
    return value is None or type(value) in (str, int, float, bool)


def _is_read_once(part: object) -> bool:
    """Return True if a tool returned a generator, whose items can be read only once."""
    content = part.content if isinstance(part, BaseToolReturnPart) else None
    return type(content) is GeneratorType or type(content) is AsyncGeneratorType


# ---------------------------------------------------------------------------------- names


def _record_name(
    role: Role, parts: Sequence[Part], name: str | None, form: JsonObject, when: object = None
) -> str:
    content = encode_message(Message.of(role, parts, name=name)).decode()
    return f"{PROVIDER}:{_digest([content, form, when])}"


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True)
    return blake2b(text.encode(), digest_size=16).hexdigest()


# ---------------------------------------------------------------------------------- reading back


def _round_trips(records: list[Message], fields: JsonObject) -> bool:
    try:
        restored = model_messages(records)
        dumped = ModelMessagesTypeAdapter.dump_python(restored, mode="json")
    except (ValueError, KeyError, TypeError, IndexError):  # the lean form does not fit this part
        return False
    if not cast("list[object]", fields["parts"]):
        return True
    return len(dumped) == 1 and _comparable(dumped[0]) == _comparable(fields)


def _comparable(fields: JsonObject) -> JsonObject:
    parts = cast("list[JsonObject]", fields["parts"])
    return {**present(fields), "parts": [present(part) for part in parts]}


_MOST = 4096
"""Most stored messages whose PydanticAI form is cached; beyond that the cache is emptied."""


@dataclass(frozen=True, slots=True)
class _Restored:
    """A record (stored message) converted to PydanticAI's request parts or response."""

    record: Message
    """The record itself; kept here so that no other object can get its id() while the message is cached."""
    parts: ModelResponse | list[ModelRequestPart]
    envelope: JsonObject


@dataclass(slots=True)
class Restorer:
    """Converts stored messages to PydanticAI messages; caches them, because most are needed for the next call too."""

    cache: dict[int, _Restored] = field(default_factory=dict[int, _Restored])

    def view(self, records: Sequence[Message], *, instructions: str | None) -> list[ModelMessage]:
        """Convert stored messages to PydanticAI's for a model: no system prompts, `instructions` in each request."""
        return self._messages(
            records, lambda _, parts: ModelRequest(parts, instructions=instructions)
        )

    def history(self, records: Sequence[Message]) -> list[ModelMessage]:
        """Convert stored messages to the PydanticAI messages they were made from, or to messages with equal content."""
        return self._messages(records, _restored_request)

    def _messages(
        self,
        records: Sequence[Message],
        request: Callable[[JsonObject, list[ModelRequestPart]], ModelRequest],
    ) -> list[ModelMessage]:
        found: list[ModelMessage] = []
        for joins, restored in self._grouped(records):
            if isinstance(restored.parts, ModelResponse):
                found.append(restored.parts)
            elif joins and isinstance(last := found[-1], ModelRequest):
                found[-1] = replace(last, parts=[*last.parts, *restored.parts])
            else:
                found.append(request(restored.envelope, restored.parts[:]))
        return found

    def name(self, record: Message) -> str:
        """Return the client id of a stored message that PydanticAI wrote; empty for any other message."""
        known = self.cache.get(id(record))
        return str(known.envelope.get("id", "")) if known else record_name(record)

    def _grouped(self, records: Sequence[Message]) -> list[tuple[bool, _Restored]]:
        """Return each stored message converted, and True if it was in the same request as the one before it."""
        names: dict[str, str] = {}
        found: list[tuple[bool, _Restored]] = []
        last: object = None
        for record in records:
            names.update((call.id, call.name) for call in record.calls)
            restored = self._restored(record, names)
            of = restored.envelope.get("of")
            found.append((of is not None and of == last, restored))
            last = of
        return found

    def _restored(self, record: Message, names: dict[str, str]) -> _Restored:
        known = self.cache.get(id(record))
        if known is not None:
            return known
        try:
            envelope = _envelope(record)
            restored = _Restored(record, _parts(record, envelope, names), envelope)
        except RESTORE_FAULTS as error:
            raise unreadable_form("PydanticAI", error) from None
        if len(self.cache) >= _MOST:
            self.cache.clear()
        self.cache[id(record)] = restored
        return restored


def model_messages(records: Sequence[Message]) -> list[ModelMessage]:
    """Convert records (stored messages) to PydanticAI messages: the originals, or messages with the same content."""
    return Restorer().history(records)


def record_name(record: Message) -> str:
    """Return the client id of a stored message that PydanticAI wrote; empty for any other message."""
    return str(_envelope(record).get("id", ""))


def is_filled_in(record: Message) -> bool:
    """Return True for the tool result that PydanticAI makes up for a call without one, such as an ignored approval.

    It is told by its text: front ends lose the other marks.
    """
    return any(result.text == INTERRUPTED_TOOL_RETURN_CONTENT for result in record.results)


_Parts: TypeAlias = "ModelResponse | list[ModelRequestPart]"


def _parts(record: Message, envelope: JsonObject, names: dict[str, str]) -> _Parts:
    form = _own_json(record, record.origin.form if record.origin else "")
    if record.role != "assistant":
        if not form:
            return plain_request(record, names)
        part = restored_request_part(record, cast("JsonObject", form["part"]))
        return list(cast("ModelRequest", _validated({"kind": "request", "parts": [part]})).parts)
    fields_around = cast("JsonObject", envelope.get("message", {}))
    if not form:
        bare = cast("ModelResponse", _validated({**fields_around, "kind": "response", "parts": []}))
        return replace(bare, parts=plain_response(record))
    residues = cast("list[JsonObject]", form["parts"])
    parts = [restored_response_part(*pair) for pair in zip(record.parts, residues, strict=True)]
    return cast("ModelResponse", _validated({**fields_around, "kind": "response", "parts": parts}))


def _restored_request(envelope: JsonObject, parts: list[ModelRequestPart]) -> ModelRequest:
    try:
        fields_around = cast("JsonObject", envelope.get("message", {}))
        system_prompts = envelope.get("carried", [])
        request = cast(
            "ModelRequest",
            _validated({**fields_around, "kind": "request", "parts": system_prompts}),
        )
    except RESTORE_FAULTS as error:
        raise unreadable_form("PydanticAI", error) from None
    return replace(request, parts=[*request.parts, *parts])


def _validated(fields: JsonObject) -> ModelMessage:
    [message] = ModelMessagesTypeAdapter.validate_json(json.dumps([fields]))
    return message


def _envelope(record: Message) -> JsonObject:
    return _own_json(record, record.origin.envelope if record.origin else "")


def _own_json(record: Message, text: str) -> JsonObject:
    origin = record.origin
    return thaw_object(text) if origin is not None and origin.provider == PROVIDER else {}
