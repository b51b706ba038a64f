"""Convert what callers pass as messages, in any accepted shape, to `Message` values and entries to append.

Accepted are a `Message`, an OpenAI- or Anthropic-style dictionary, or an object with `role` and `content` attributes
(an SDK's response message, a Pydantic model). Fields turnfold does not model are kept. A message that cannot be kept
whole is rejected with its index, never skipped: a skipped tool result is how sessions break.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from turnfold.errors import InvalidRecord
from turnfold.records.blocks import accept_content, as_fields, is_modelled
from turnfold.records.entries import NewEntry
from turnfold.records.json_text import freeze_object, plain_text
from turnfold.records.messages import Message

__all__ = (
    "as_message",
    "as_messages",
    "entries_of",
)


_FIELDS = ("content", "name", "tool_calls", "tool_call_id", "metadata")


def as_message(value: object) -> Message:
    """Convert `value` to a `Message`; raises `InvalidRecord` for what cannot be kept whole."""
    if isinstance(value, Message):
        return value
    if isinstance(value, str):
        raise InvalidRecord(
            "a bare string has no role", remedy="Use user(...), assistant(...) or tool(...)"
        )
    fields = as_fields(value)
    role = fields.pop("role", None)
    if not isinstance(role, str):
        raise InvalidRecord("a message without a role", path="role", remedy='Add "role"')
    modelled = {
        key: fields.pop(key, None) for key in _FIELDS if is_modelled(role, key, fields.get(key))
    }
    found = accept_content(
        role,
        modelled.get("content"),
        tool_calls=modelled.get("tool_calls"),
        tool_call_id=cast("str | None", modelled.get("tool_call_id")),
    )
    if found.written_role:
        fields["role"] = found.written_role
    name = modelled.get("name")
    return Message.of(
        found.role,
        found.parts,
        name=None if name is None else plain_text(name, path="name"),
        extra=freeze_object(fields, path=""),
        labels=freeze_object(modelled.get("metadata"), path="metadata"),
    )


def as_messages(values: Iterable[object], *, path: str = "messages") -> list[Message]:
    """Convert each of `values` to a `Message`; an error names its index."""
    if isinstance(values, Mapping | str | Message):
        raise InvalidRecord(
            f"one {type(cast('object', values)).__name__} where a list is expected",
            remedy="Put it in a list",
        )
    messages: list[Message] = []
    for index, value in enumerate(values):
        try:
            messages.append(as_message(value))
        except InvalidRecord as error:
            raise error.within(f"{path}[{index}]") from None
    return messages


def entries_of(messages: object, client_id: str) -> list[NewEntry]:
    """Return one message or several as entries, each with a client id; `NewEntry` values are taken as they are."""
    if isinstance(messages, Message):  # by far the most common case
        return [NewEntry(messages, client_id)]
    if isinstance(messages, list | tuple) and messages:
        items = cast("Sequence[object]", messages)
        if all(isinstance(item, NewEntry) for item in items):
            return list(cast("Sequence[NewEntry]", items))
    if isinstance(messages, str | Mapping) or not isinstance(messages, Iterable):
        accepted = [as_message(cast("object", messages))]
    else:
        accepted = as_messages(cast("Iterable[object]", messages))
    numbered = client_id and len(accepted) > 1
    return [
        NewEntry(message, f"{client_id}.{at}" if numbered else client_id)
        for at, message in enumerate(accepted, 1)
    ]
