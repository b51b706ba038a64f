"""The boundary: every public call that takes messages takes them in any of these shapes.

A `Message`, an OpenAI- or Anthropic-style dictionary, or an object with `role` and `content` attributes (an SDK's
response message, a Pydantic model). Fields turnfold does not model are kept. A message that cannot be kept whole is
refused with its index, never skipped: a skipped tool result is how sessions break.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from turnfold.errors import InvalidRecord
from turnfold.records.attributes import as_fields
from turnfold.records.blocks_in import accept_content, is_modelled
from turnfold.records.json_text import freeze_object, plain_text
from turnfold.records.messages import Message

__all__ = ("as_message", "as_messages")

_FIELDS = ("content", "name", "tool_calls", "tool_call_id", "metadata")


def as_message(value: object) -> Message:
    """`value` as a `Message`; refuses what it cannot keep whole."""
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
    said = {
        key: fields.pop(key, None) for key in _FIELDS if is_modelled(role, key, fields.get(key))
    }
    found = accept_content(
        role,
        said.get("content"),
        tool_calls=said.get("tool_calls"),
        tool_call_id=cast("str | None", said.get("tool_call_id")),
    )
    if found.written_role:
        fields["role"] = found.written_role
    name = said.get("name")
    return Message.of(
        found.role,
        found.parts,
        name=None if name is None else plain_text(name, path="name"),
        extra=freeze_object(fields, path=""),
        labels=freeze_object(said.get("metadata"), path="metadata"),
    )


def as_messages(values: Iterable[object], *, path: str = "messages") -> list[Message]:
    """Each of `values` as a `Message`; a fault names its index."""
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
