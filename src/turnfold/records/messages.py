"""`Message`: an immutable value of role and parts, checked when it is made; and `Origin`, the provider it came from.

Messages are equal if their content is equal; they have no id and no time. Id and time belong to the stored entry, so
two processes, a cache and a test can compare messages, and windows share them without copying.

Parts may come from a constructor, from a store or from another program, and neither Python nor the decoder checks their
texts. So a message is checked once, when it is made, and values that could not be stored or sent are rejected: values
that are no text, lone surrogates, invalid JSON text, extra fields that contradict the part.

Providers verify messages that they sent before: thinking is signed, an item refers to another by id, a prompt cache
compares bytes. The parts hold the content of a message. Its origin holds the provider and model that wrote it, and how
the original differed from what turnfold writes for the same parts. The origin is stored and never sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

import msgspec

from turnfold._argument_hints import hinted_names
from turnfold.errors import InvalidRecord
from turnfold.records.block_conversion import (
    accept_content,
    content_value,
    is_modelled,
    message_fields,
    read_block,
    read_call,
    write_block,
    write_call,
)
from turnfold.records.frozen_json import (
    check_object,
    check_text,
    freeze,
    freeze_object,
    plain_text,
    thaw_object,
)
from turnfold.records.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
)

__all__ = (
    "ROLES",
    "Message",
    "Origin",
    "Role",
    "assistant",
    "erased_message",
    "has_compaction",
    "is_compaction",
    "is_erased",
    "system",
    "tool",
    "user",
)


Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
ROLES: frozenset[str] = frozenset(get_args(Role))


_OTHER_ROLES = {"human": "user", "ai": "assistant", "bot": "assistant", "model": "assistant"}
"""Roles of other libraries and providers -> the role here."""


@hinted_names(
    {
        **dict.fromkeys(("to_dict", "dict", "to_openai", "as_dict"), "use model_dump()"),
        "get": "use .content, or model_dump() for a dictionary",
        "tool_calls": "use .calls",
        "type": "use .role",
    },
    items="use .content, or model_dump() for a dictionary",
)
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
    """JSON text of fields of the provider that turnfold does not model; empty if there are none."""
    labels: str
    """JSON text of `metadata`: the caller's own notes, stored but never sent."""
    origin: Origin | None
    """Where the message came from (see `Origin`), if a wire format read it; stored but never sent."""

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
        """Make a message from parts; raises `InvalidRecord` if they cannot be stored and sent as they are."""
        message = cls.__new__(cls)
        parts = tuple(parts)
        _fill(message, role=role, parts=parts, name=name, extra=extra, labels=labels, origin=origin)
        return message

    @property
    def content(self) -> str | list[dict[str, object]] | None:
        """The content as providers write it: text, a list of blocks, or None if there is none."""
        return content_value(self.parts)

    @property
    def text(self) -> str:
        """All text of the message and of its tool results, joined; each tool result begins on a new line."""
        if len(self.parts) == 1 and type(self.parts[0]) is TextPart:
            return self.parts[0].text
        texts: list[str] = []
        ended = False
        for part in self.parts:
            if isinstance(part, TextPart | ToolResult) and (text := part.text):
                is_result = isinstance(part, ToolResult)
                # "0 failures" and "3 files changed" would read as one word, and a hash as another hash.
                texts.append(f"\n{text}" if is_result and ended else text)
                ended = is_result and not text.endswith("\n")
        return "".join(texts)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls this message makes."""
        return tuple(part for part in self.parts if type(part) is ToolCall)

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results in this message."""
        return tuple(part for part in self.parts if type(part) is ToolResult)

    @property
    def metadata(self) -> dict[str, object]:
        """A copy of the caller's own labels on the message, which are stored and never sent."""
        return thaw_object(self.labels)

    def model_dump(self) -> dict[str, object]:
        """Return the message as an OpenAI-style dictionary, from which an equal message can be made.

        Only `origin` and the providers of parts are left out, because they are never sent.
        """
        return message_fields(
            self.role, self.parts, name=self.name, extra=self.extra, labels=self.labels
        )

    def __repr__(self) -> str:
        shown = self.text if len(self.text) <= 60 else f"{self.text[:57]}..."
        calls = f", calls={[call.name for call in self.calls]}" if self.calls else ""
        return f"Message({self.role!r}, {shown!r}{calls})"


def system(content: object, *, name: str | None = None) -> Message:
    """Make a system message: instructions to the model."""
    _check_given(content, 'system("...")')
    return Message("system", content, name=name)


def user(content: object, *, name: str | None = None) -> Message:
    """Make a user message; it starts a turn."""
    _check_given(content, 'user("...")')
    return Message("user", content, name=name)


def _check_given(content: object, right: str) -> None:
    if content is None:
        raise InvalidRecord(
            "content is None", path="content", remedy=f"Give text or blocks: {right}"
        )


def assistant(
    content: object = None,
    *,
    tool_calls: Iterable[object] | None = None,
    name: str | None = None,
) -> Message:
    """Make an assistant message: the model's answer, with its tool calls."""
    return Message("assistant", content, tool_calls=tool_calls, name=name)


def tool(content: object, *, tool_call_id: str, name: str | None = None) -> Message:
    """Make a tool message: the result of the call `tool_call_id`."""
    return Message("tool", content, tool_call_id=tool_call_id, name=name)


_ERASED = "erased"
"""Metadata key in the placeholder of an erased message; its value is the reason of the erasure."""


def erased_message(message: Message, reason: str = "") -> Message:
    """Return the placeholder of an erased message, with its role, call ids, tool names and the reason, but no content.

    Ids and names of tool calls stay, because a provider refuses a call without a result and a result without a call.
    """
    reason = check_text(plain_text(reason, path="reason"), path="reason").strip()
    text = TextPart(f"[{_ERASED}: {reason}]" if reason else f"[{_ERASED}]")
    parts: list[Part] = [] if message.results else [text]
    for part in message.parts:
        if isinstance(part, ToolCall):
            parts.append(ToolCall(part.id, part.name))
        elif isinstance(part, ToolResult):
            parts.append(ToolResult(part.call_id, (text,), is_error=part.is_error))
    name = message.name if message.role == "tool" else None
    labels = freeze_object({_ERASED: reason}, path="metadata")
    return Message.of(message.role, parts, name=name, labels=labels)


def is_erased(message: Message) -> bool:
    """Return True if a message is the placeholder of an erased message."""
    reason = message.metadata.get(_ERASED) if message.labels else None
    return isinstance(reason, str) and message == erased_message(message, reason)


def is_compaction(part: Part) -> bool:
    """Return True if a part is a provider's compaction of the messages before it; False if it is empty."""
    if not isinstance(part, OpaquePart) or "compaction" not in part.json:
        return False
    block = thaw_object(part.json)
    filled = block.get("encrypted_content") or block.get("content")
    return block.get("type") == "compaction" and isinstance(filled, str)


def has_compaction(message: Message) -> bool:
    """Return True if the message holds a provider's compaction of the messages before it."""
    return any(map(is_compaction, message.parts))


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
        known = f"Use one of {', '.join(sorted(ROLES))}"
        hint = ": a function's result has the role tool" if role == "function" else ""
        if right := _OTHER_ROLES.get(role):
            hint = f": use {right} for it"
        raise InvalidRecord(f"unknown role {role!r}", path="role", remedy=f"{known}{hint}")
    _check_parts(role, parts)
    if name is not None:
        check_text(name, path="name")
    if labels:
        check_object(labels, path="metadata")
    if extra:
        modelled = message_fields(role, parts, name=name, extra="", labels=labels)
        _check_extra(role, extra, modelled)
    _check_origin(origin)
    put = object.__setattr__
    put(message, "role", cast("Role", role))
    put(message, "parts", parts)
    put(message, "name", name)
    put(message, "extra", extra)
    put(message, "labels", labels)
    put(message, "origin", origin)


_Modelled: TypeAlias = (
    TextPart | ImagePart | AudioPart | FilePart | ThinkingPart | ToolCall | ToolResult
)
_BLOCK_FIELDS = frozenset(
    "type text image_url source input_audio file thinking signature data id name input function "
    "tool_use_id content is_error".split()
)
"""Names of the fields that parts are written to. If `extra` has a field with one of these names, it may contradict the
part."""
_CHOICES = frozenset({"content", "detail", "is_error"})
"""Field of a part that is not free text -> the values that it may have."""


def _check_parts(role: str, parts: tuple[Part, ...]) -> None:
    """Raise `InvalidRecord` for parts that cannot be stored and sent, or that this role cannot have."""
    calls = results = 0
    for index, part in enumerate(parts):
        if (
            type(part) is TextPart
            and not part.extra
            and type(part.text) is str
            and part.text.isascii()
        ):
            continue  # plain ASCII text needs no check, and is by far the most common part
        path = f"content[{index}]"
        if type(part) is ToolCall:
            path = f"tool_calls[{calls}]"
            calls += 1
            if role != "assistant":
                raise InvalidRecord(
                    f"a message of role {role!r} cannot call tools",
                    path=path,
                    remedy="Use role 'assistant'",
                )
        elif type(part) is ToolResult:
            results += 1
            if role != "tool":
                raise InvalidRecord(
                    f"a message of role {role!r} cannot have tool results",
                    path=path,
                    remedy="Use role 'tool'",
                )
        _check_part(part, path)
    if role == "tool" and results == 0:
        raise InvalidRecord(
            "the tool message has no tool result", path="tool_call_id", remedy="Add tool_call_id"
        )


def _check_extra(role: str, extra: str, modelled: Mapping[str, object]) -> None:
    """Raise `InvalidRecord` if `extra` has fields that repeat or contradict the message itself."""
    fields = check_object(extra, path="extra")
    if fields.get("function_call") is not None:
        raise InvalidRecord(
            "function_call is OpenAI's retired form of a tool call and has no id",
            path="function_call",
            remedy="Write it as tool_calls=[{id, type, function}] and answer with role 'tool'",
        )
    written = fields.pop("role", None)
    if written is not None and (role, written) != ("system", "developer"):
        raise InvalidRecord(
            f"role {written!r} contradicts role {role!r}",
            path="extra.role",
            remedy="Remove it from extra",
        )
    for key, value in fields.items():
        if key in modelled or is_modelled(role, key, value):
            raise InvalidRecord(
                f"{key} is a field of the message itself",
                path=f"extra.{key}",
                remedy="Remove it from extra",
            )


def _check_part(part: Part, path: str) -> None:
    if not isinstance(cast("object", part), Part):
        raise InvalidRecord(
            f"{type(part).__name__} is not a part", path=path, remedy="Use Message(role, content)"
        )
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if name in _CHOICES or type(value) is not str or not value.isascii():
            _check_field(name, value, f"{path}.{name}")
    if isinstance(part, OpaquePart):
        check_object(part.json, path=f"{path}.json")
        return
    if isinstance(part, ToolResult):
        for index, inner in enumerate(part.content):
            _check_part(inner, f"{path}.content[{index}]")
    extra = check_object(part.extra, path=f"{path}.extra") if part.extra else {}
    # Files and thinking have combinations of fields that no block can express.
    if isinstance(part, FilePart | ThinkingPart) or not _BLOCK_FIELDS.isdisjoint(extra):
        _check_round_trip(part, path)


def _check_field(name: str, value: object, path: str) -> None:
    match name:
        case "detail":
            if value not in (None, "low", "high", "auto"):
                raise InvalidRecord(
                    f"unknown image detail {value!r}", path=path, remedy="Use low, high or auto"
                )
        case "is_error":
            if not isinstance(value, bool):
                raise InvalidRecord(f"must be true or false, not {type(value).__name__}", path=path)
        case "content":
            if not isinstance(value, tuple):
                raise InvalidRecord(
                    f"must be a tuple of parts, not {type(value).__name__}",
                    path=path,
                    remedy="Give text as (TextPart(...),)",
                )
            for inner in cast("tuple[object, ...]", value):
                if isinstance(inner, ToolCall | ToolResult | ThinkingPart):
                    raise InvalidRecord(
                        f"a tool result cannot hold a {type(inner).__name__}",
                        path=path,
                        remedy="Give text, images, audio or files",
                    )
        case _:
            check_text(value, path=path)


def _check_round_trip(part: _Modelled, path: str) -> None:
    """Raise `InvalidRecord` if a part changes when it is encoded and decoded, as its fields contradict."""
    if isinstance(part, ToolResult):  # its content is checked part by part
        part = msgspec.structs.replace(part, content=())
    for again in _read_again(part, path):
        if isinstance(again, OpaquePart) or _meaning(again) != _meaning(part):
            raise InvalidRecord(
                f"the {type(part).__name__} would be read back differently: its fields contradict each other",
                path=path,
                remedy="Remove from extra the fields that the part itself has",
            )


def _read_again(part: _Modelled, path: str) -> Iterator[Part]:
    if isinstance(part, ToolCall):
        yield read_call(write_call(part), path)
    yield read_block(write_block(part), path)


def _meaning(part: _Modelled) -> tuple[Part, dict[str, object]]:
    """Return a part without its extra fields, and these as a dictionary, to compare parts by meaning."""
    if isinstance(part, ThinkingPart):  # no block holds its provider and model
        part = msgspec.structs.replace(part, provider="", model="")
    return msgspec.structs.replace(part, extra=""), thaw_object(part.extra)


class Origin(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """The provider and model that wrote a message, and details of its original form."""

    provider: str
    """Name of the wire format (provider's API) that the message was read from."""
    model: str = ""
    """The model that wrote the message; empty if unknown or if no model wrote it."""
    form: str = ""
    """JSON text with details of the original that the message's parts do not hold. It is valid only together with those
    parts."""
    envelope: str = ""
    """JSON text of the fields of the provider's response around the message (id, stop reason, usage)."""

    def without_form(self) -> Origin:
        """Return the origin without `form`, for a message whose parts have been changed."""
        return msgspec.structs.replace(self, form="") if self.form else self


def _check_origin(origin: object) -> None:
    """Raise `InvalidRecord` for an origin that could not be stored or read back."""
    if origin is None:
        return
    if not isinstance(origin, Origin):
        raise InvalidRecord(f"{type(origin).__name__} is not an Origin", path="origin")
    for name in ("provider", "model"):
        check_text(getattr(origin, name), path=f"origin.{name}")
    for name in ("form", "envelope"):
        text = check_text(getattr(origin, name), path=f"origin.{name}")
        if text:
            check_object(text, path=f"origin.{name}")
