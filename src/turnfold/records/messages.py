"""A message is a value: equal when its content is equal, with no id and no time of its own.

Identity (which conversation, which place in it, when) belongs to the stored entry. That is what lets two processes,
a cache and a test agree on what was said by comparing messages, and lets a window share them without copying.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

from turnfold.errors import InvalidRecord
from turnfold.records.blocks_in import accept_content
from turnfold.records.blocks_out import content_value, message_fields
from turnfold.records.json_text import (
    check_object,
    check_text,
    freeze,
    freeze_object,
    plain_text,
    thaw_object,
)
from turnfold.records.origin import Origin, check_origin
from turnfold.records.parts import Part, TextPart, ToolCall, ToolResult
from turnfold.records.soundness import check_extra, check_parts

__all__ = ("ROLES", "Message", "Role", "assistant", "system", "tool", "user")

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
ROLES: frozenset[str] = frozenset(get_args(Role))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Message:
    """One message: a role and its parts.

    `Message(role="user", content="hi")` takes content in any shape users and providers write it: text, a list of
    block dictionaries, or a list of objects with the same attributes. `parts` is the modelled form of it.
    """

    role: Role
    parts: tuple[Part, ...]
    name: str | None
    extra: str
    """JSON text of the provider's fields turnfold does not model; empty when there are none."""
    labels: str
    """JSON text of `metadata`: the caller's own notes, stored but never sent."""
    origin: Origin | None
    """Where the message was read from, if a wire format read it: stored but never sent."""

    def __init__(
        self,
        role: str,
        content: object = None,
        *,
        name: str | None = None,
        tool_calls: Iterable[object] | None = None,
        tool_call_id: str | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> None:
        found = accept_content(role, content, tool_calls=tool_calls, tool_call_id=tool_call_id)
        _fill(
            self,
            role=found.role,
            parts=found.parts,
            name=None if name is None else plain_text(name, path="name"),
            extra=freeze({"role": found.written_role}, path="role") if found.written_role else "",
            labels=freeze_object(metadata, path="metadata"),
        )

    @classmethod
    def of(
        cls,
        role: str,
        parts: Iterable[Part],
        *,
        name: str | None = None,
        extra: str = "",
        labels: str = "",
        origin: Origin | None = None,
    ) -> Message:
        """A message from parts that are already modelled."""
        message = cls.__new__(cls)
        parts = tuple(parts)
        _fill(message, role=role, parts=parts, name=name, extra=extra, labels=labels, origin=origin)
        return message

    @property
    def content(self) -> str | list[dict[str, object]] | None:
        """The content as providers write it: text, a list of blocks, or None when there is none."""
        return content_value(self.parts)

    @property
    def text(self) -> str:
        """All the text of the message and of the tool results in it, joined."""
        if len(self.parts) == 1 and type(self.parts[0]) is TextPart:
            return self.parts[0].text
        return "".join(part.text for part in self.parts if isinstance(part, TextPart | ToolResult))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls this message makes."""
        return tuple(part for part in self.parts if type(part) is ToolCall)

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results this message brings."""
        return tuple(part for part in self.parts if type(part) is ToolResult)

    @property
    def metadata(self) -> dict[str, object]:
        """A copy of the caller's own notes on the message."""
        return thaw_object(self.labels)

    def model_dump(self) -> dict[str, object]:
        """The message as an OpenAI-style dictionary; `Message`-accepting calls take it back unchanged.

        Only who wrote it is not in it (`origin`, the provider of a part): what was said is what is sent.
        """
        return message_fields(
            self.role, self.parts, name=self.name, extra=self.extra, labels=self.labels
        )

    def __repr__(self) -> str:
        shown = self.text if len(self.text) <= 60 else f"{self.text[:57]}..."
        calls = f", calls={[call.name for call in self.calls]}" if self.calls else ""
        return f"Message({self.role!r}, {shown!r}{calls})"


def system(content: object, *, name: str | None = None) -> Message:
    """Instructions to the model."""
    return Message("system", content, name=name)


def user(content: object, *, name: str | None = None) -> Message:
    """What the user said; starts a turn."""
    return Message("user", content, name=name)


def assistant(
    content: object = None,
    *,
    tool_calls: Iterable[object] | None = None,
    name: str | None = None,
) -> Message:
    """What the model answered, with the tool calls it made."""
    return Message("assistant", content, tool_calls=tool_calls, name=name)


def tool(content: object, *, tool_call_id: str, name: str | None = None) -> Message:
    """What a tool answered to the call `tool_call_id`."""
    return Message("tool", content, tool_call_id=tool_call_id, name=name)


def _fill(
    message: Message,
    *,
    role: str,
    parts: tuple[Part, ...],
    name: str | None,
    extra: str,
    labels: str,
    origin: Origin | None = None,
) -> None:
    if role not in ROLES:
        raise InvalidRecord(
            f"unknown role {role!r}", path="role", remedy=f"Use one of {', '.join(sorted(ROLES))}"
        )
    check_parts(role, parts)
    if name is not None:
        check_text(name, path="name")
    if labels:
        check_object(labels, path="metadata")
    if extra:
        modelled = message_fields(role, parts, name=name, extra="", labels=labels)
        check_extra(role, extra, modelled)
    check_origin(origin)
    put = object.__setattr__
    put(message, "role", cast("Role", role))
    put(message, "parts", parts)
    put(message, "name", name)
    put(message, "extra", extra)
    put(message, "labels", labels)
    put(message, "origin", origin)
