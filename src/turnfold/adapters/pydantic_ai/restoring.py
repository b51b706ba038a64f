"""Entries of a log as PydanticAI's messages again.

What PydanticAI wrote comes back as it was. What it did not write (the summary of what was folded, a message shortened
to fit, what another program logged in the same session) comes back as a message that says the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, cast

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
)

from turnfold.adapters.pydantic_ai.content import PROVIDER, JsonObject
from turnfold.adapters.pydantic_ai.parts import restored_answer, restored_request_part
from turnfold.adapters.pydantic_ai.plain import plain_answer, plain_request
from turnfold.records import Message
from turnfold.records.json_text import thaw_object
from turnfold.wire.residue import RESTORE_FAULTS, unreadable_form

__all__ = ("Restorer", "model_messages", "record_name")

_MOST = 4096
"""Records whose restored form is remembered."""


@dataclass(frozen=True, slots=True)
class _Restored:
    record: Message
    """Kept, so that nothing else can have its identity meanwhile."""
    parts: ModelResponse | list[ModelRequestPart]
    envelope: JsonObject


@dataclass(slots=True)
class Restorer:
    """Gives records back, and remembers the ones it has: a window holds the same records call after call."""

    made: dict[int, _Restored] = field(default_factory=dict[int, _Restored])

    def view(self, records: Sequence[Message], *, instructions: str | None) -> list[ModelMessage]:
        """Records as a model is to see them: system prompts aside, one text of instructions throughout."""
        return self._joined(
            records, lambda _, parts: ModelRequest(parts, instructions=instructions)
        )

    def history(self, records: Sequence[Message]) -> list[ModelMessage]:
        """Records as the messages they were made from."""
        return self._joined(records, _request)

    def _joined(
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
        """The name a record was given when it was made; empty for one that PydanticAI did not write."""
        known = self.made.get(id(record))
        return str(known.envelope.get("id", "")) if known else record_name(record)

    def _grouped(self, records: Sequence[Message]) -> list[tuple[bool, _Restored]]:
        """Each record restored, and whether it came in the same request as the one before it."""
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
        known = self.made.get(id(record))
        if known is not None:
            return known
        try:
            envelope = _envelope(record)
            made = _Restored(record, _parts(record, envelope, names), envelope)
        except RESTORE_FAULTS as error:
            raise unreadable_form("PydanticAI", error) from None
        if len(self.made) >= _MOST:
            self.made.clear()
        self.made[id(record)] = made
        return made


def model_messages(records: Sequence[Message]) -> list[ModelMessage]:
    """Records as the messages they were made from; other records as messages that say the same."""
    return Restorer().history(records)


def record_name(record: Message) -> str:
    """The name a record was given when it was made; empty for one that PydanticAI did not write."""
    return str(_envelope(record).get("id", ""))


_Parts: TypeAlias = "ModelResponse | list[ModelRequestPart]"


def _parts(record: Message, envelope: JsonObject, names: dict[str, str]) -> _Parts:
    form = _own(record, record.origin.form if record.origin else "")
    if record.role != "assistant":
        if not form:
            return plain_request(record, names)
        part = restored_request_part(record, cast("JsonObject", form["part"]))
        return list(cast("ModelRequest", _validated({"kind": "request", "parts": [part]})).parts)
    around = cast("JsonObject", envelope.get("message", {}))
    if not form:
        bare = cast("ModelResponse", _validated({**around, "kind": "response", "parts": []}))
        return replace(bare, parts=plain_answer(record))
    residues = cast("list[JsonObject]", form["parts"])
    parts = [restored_answer(*pair) for pair in zip(record.parts, residues, strict=True)]
    return cast("ModelResponse", _validated({**around, "kind": "response", "parts": parts}))


def _request(envelope: JsonObject, parts: list[ModelRequestPart]) -> ModelRequest:
    try:
        around = cast("JsonObject", envelope.get("message", {}))
        carried = envelope.get("carried", [])
        request = cast("ModelRequest", _validated({**around, "kind": "request", "parts": carried}))
    except RESTORE_FAULTS as error:
        raise unreadable_form("PydanticAI", error) from None
    return replace(request, parts=[*request.parts, *parts])


def _validated(fields: JsonObject) -> ModelMessage:
    [message] = ModelMessagesTypeAdapter.validate_json(json.dumps([fields]))
    return message


def _envelope(record: Message) -> JsonObject:
    return _own(record, record.origin.envelope if record.origin else "")


def _own(record: Message, text: str) -> JsonObject:
    origin = record.origin
    return thaw_object(text) if origin is not None and origin.provider == PROVIDER else {}
