"""PydanticAI's messages as entries of a log.

A response becomes one record. A request becomes one record per part, because turnfold keeps a tool's answer with its
call and a user's words as the start of a turn; which request they came in, and everything PydanticAI wrote around
them, is in the envelope beside the record. Each message is read back the moment it is written: where the lean form
would not give it back exactly, all of it is kept. A tool may return what no JSON can carry: the model and the log are
then told so in the result's place, and the run goes on.

A record's name is made of what was said and when. A history handed to a second run is therefore recognised, whichever
part of it is handed over, and stored once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from types import AsyncGeneratorType, GeneratorType
from typing import NamedTuple, cast

from pydantic_ai.messages import (
    BaseToolReturnPart,
    CompactionPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    RetryFeedbackPart,
    UserPromptPart,
)
from pydantic_core import PydanticSerializationError

from turnfold.adapters.pydantic_ai.content import PROVIDER, JsonObject, present
from turnfold.adapters.pydantic_ai.parts import answered, spoken
from turnfold.adapters.pydantic_ai.restoring import model_messages, record_name
from turnfold.errors import InvalidRecord
from turnfold.records import Message, Origin, Part, Role, encode_message
from turnfold.records.json_text import freeze
from turnfold.wire.tool_text import ENDING, outcome_of
from turnfold.wire.unwritable import writable

__all__ = ("Named", "Namer", "records_of")

_WHEN = frozenset({"timestamp"})


class Named(NamedTuple):
    """A record, and the names it may be in the log under."""

    record: Message
    name: str
    """Of what was said and when."""
    undated: str
    """Of what was said alone, for a history that was built by hand; empty for what a run wrote."""


class Namer:
    """Names the records of a history in order; a repetition is numbered."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def named(self, message: ModelMessage, records: Sequence[Message]) -> list[Named]:
        """The records of the next message, each with its names."""
        by_hand = message.run_id is None
        return [
            Named(
                record,
                self._numbered(record_name(record)),
                self._numbered(_undated_name(record)) if by_hand else "",
            )
            for record in records
        ]

    def _numbered(self, name: str) -> str:
        self._times[name] = times = self._times.get(name, 0) + 1
        return name if times == 1 else f"{name}:{times}"


def records_of(message: ModelMessage) -> list[Message]:
    """A message as records; `model_messages` gives it back, with a text for what of a tool's answer has no JSON."""
    try:
        if not any(map(_is_read_once, message.parts)):
            return _written(message)
    except ENDING:
        raise
    except BaseException:  # a value of a tool may raise anything while it is written
        told = _told(message)
        if told is None:
            raise
    else:
        told = _told(message) or message
    return _written(told)


def _written(message: ModelMessage) -> list[Message]:
    fields = _fields(message)
    lean = _records(message, fields, whole=False)
    return lean if _leads_back(lean, fields) else _records(message, fields, whole=True)


def _fields(message: ModelMessage) -> JsonObject:
    try:
        return ModelMessagesTypeAdapter.dump_python([message], mode="json")[0]
    except PydanticSerializationError as error:
        raise InvalidRecord(
            f"a {message.kind} that PydanticAI cannot write as JSON: {error}",
            remedy="Let the tool return text, JSON values or a Pydantic model",
        ) from None


def _records(message: ModelMessage, fields: JsonObject, *, whole: bool) -> list[Message]:
    around = {key: value for key, value in present(fields).items() if key != "parts"}
    parts = cast("list[JsonObject]", fields["parts"])
    if isinstance(message, ModelResponse):
        return [_answer(parts, around, whole=whole)]
    return _request(message, parts, around, whole=whole)


def _answer(parts: list[JsonObject], around: JsonObject, *, whole: bool) -> Message:
    model = str(around.get("model_name", ""))
    pairs = [answered(part, model=model, whole=whole) for part in parts]
    form: JsonObject = {"parts": [residue for _, residue in pairs]}
    said = [part for part, _ in pairs]
    name = _name("assistant", said, None, form, around.get("timestamp"))
    return _record("assistant", said, None, form, {"id": name, "message": around}, model=model)


def _request(
    message: ModelRequest, parts: list[JsonObject], around: JsonObject, *, whole: bool
) -> list[Message]:
    carried = _leading_prompts(parts)
    of = _digest([present(part) for part in parts])
    made: list[Message] = []
    for index in range(len(carried), len(parts)):
        said = spoken(parts[index], text=_shown(message.parts[index]), whole=whole)
        form: JsonObject = {"part": said.residue}
        envelope: JsonObject = {"id": _name(said.role, said.parts, said.name, form), "of": of}
        if not made:
            envelope["message"] = around
        if not made and carried:
            envelope["carried"] = carried
        made.append(_record(said.role, said.parts, said.name, form, envelope))
    return made


def _leading_prompts(parts: list[JsonObject]) -> list[JsonObject]:
    """The system prompts a request opens with: they belong to the session's system message, not to the turn."""
    carried: list[JsonObject] = []
    for part in parts[:-1]:
        lasting = part.get("scope", "conversation") == "conversation"
        if part["part_kind"] != "system-prompt" or part.get("context_id") or not lasting:
            break
        carried.append(present(part))
    return carried


def _shown(part: ModelRequestPart) -> str:
    """What a model is shown of a part whose content is no text."""
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


# ---------------------------------------------------------------------------------- what cannot be written


def _told(message: ModelMessage) -> ModelMessage | None:
    """The message with texts for what cannot be written; None for a caller's own request, who is told instead."""
    if isinstance(message, ModelResponse):
        fields = cast("JsonObject", writable(_fields(message)))
        [escaped] = ModelMessagesTypeAdapter.validate_python([fields])
        return escaped
    if not any(isinstance(part, BaseToolReturnPart) for part in message.parts):
        return None
    return replace(message, parts=[_told_part(part) for part in message.parts])


def _told_part(part: ModelRequestPart) -> ModelRequestPart:
    match part:
        case BaseToolReturnPart():
            if not _is_writable(replace(part, metadata=None)):
                told = outcome_of(part.content)
                failed = told.failed and part.outcome == "success"
                outcome = "failed" if failed else part.outcome
                part = replace(part, content=told.text, outcome=outcome)
            if not _is_writable(replace(part, content="")):
                part = replace(part, metadata=outcome_of(part.metadata).text)
            return part
        case UserPromptPart():  # beside a tool's return: what the tool gave for the model to read
            return replace(part, content=writable(part.content))
        case _:
            return part


def _is_writable(part: ModelRequestPart) -> bool:
    if _is_read_once(part):
        return False
    try:
        _written(ModelRequest([part]))
    except ENDING:
        raise
    except BaseException:
        return False
    return True


def _is_read_once(part: object) -> bool:
    """Whether a tool returned a generator: whoever writes it first takes its items from everybody else."""
    content = part.content if isinstance(part, BaseToolReturnPart) else None
    return type(content) is GeneratorType or type(content) is AsyncGeneratorType


# ---------------------------------------------------------------------------------- names


def _name(
    role: Role, parts: Sequence[Part], name: str | None, form: JsonObject, when: object = None
) -> str:
    said = encode_message(Message.of(role, parts, name=name)).decode()
    return f"{PROVIDER}:{_digest([said, form, when])}"


def _undated_name(record: Message) -> str:
    form = cast("object", json.loads(record.origin.form)) if record.origin else None
    said = encode_message(Message.of(record.role, record.parts, name=record.name)).decode()
    return f"{PROVIDER}:undated:{_digest([said, _undated(form)])}"


def _undated(value: object) -> object:
    if isinstance(value, dict):
        fields = cast("JsonObject", value)
        return {key: _undated(inner) for key, inner in fields.items() if key not in _WHEN}
    if isinstance(value, list):
        return [_undated(inner) for inner in cast("list[object]", value)]
    return value


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True)
    return blake2b(text.encode(), digest_size=16).hexdigest()


# ---------------------------------------------------------------------------------- reading back


def _leads_back(records: list[Message], fields: JsonObject) -> bool:
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
