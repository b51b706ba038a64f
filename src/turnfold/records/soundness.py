"""A message is checked once, when it is made, so that everything after it can trust it.

Parts may come from a constructor, from a store or from another program's hands, and neither Python nor the decoder
looks inside their texts. What is refused here is whatever would fail or change later: text that is no text, lone
surrogates, JSON text that is no JSON, fields kept beside a part that contradict the part itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias, cast

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.records.blocks_in import is_modelled, read_block, read_call
from turnfold.records.blocks_out import write_block, write_call
from turnfold.records.json_text import check_object, check_text, thaw_object
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

__all__ = ("check_extra", "check_parts")

_Modelled: TypeAlias = (
    TextPart | ImagePart | AudioPart | FilePart | ThinkingPart | ToolCall | ToolResult
)
_SPOKEN = frozenset(
    "type text image_url source input_audio file thinking signature data id name input function "
    "tool_use_id content is_error".split()
)
"""The fields parts are written in: one of them in `extra` may say something else than the part itself."""
_CHOICES = frozenset({"content", "detail", "is_error"})
"""The fields of parts that are not free text."""


def check_parts(role: str, parts: tuple[Part, ...]) -> None:
    """Refuse parts that cannot be stored and sent as they are, or that a message of this role cannot have."""
    calls = results = 0
    for index, part in enumerate(parts):
        if (
            type(part) is TextPart
            and not part.extra
            and type(part.text) is str
            and part.text.isascii()
        ):
            continue  # by far the most common part, and nothing can be wrong with it
        path = f"content[{index}]"
        if type(part) is ToolCall:
            path = f"tool_calls[{calls}]"
            calls += 1
            if role != "assistant":
                raise InvalidRecord(f"a message of role {role!r} cannot call tools", path=path)
        elif type(part) is ToolResult:
            results += 1
            if role != "tool":
                raise InvalidRecord(
                    f"a message of role {role!r} cannot bring tool results", path=path
                )
        _check_part(part, path)
    if role == "tool" and results == 0:
        raise InvalidRecord(
            "a tool message brings no tool result", path="tool_call_id", remedy="Give tool_call_id"
        )


def check_extra(role: str, extra: str, modelled: Mapping[str, object]) -> None:
    """Refuse fields beside a message that say again, or otherwise, what the message itself says."""
    fields = check_object(extra, path="extra")
    if fields.get("function_call") is not None:
        raise InvalidRecord(
            "function_call is OpenAI's retired form of a tool call and carries no id",
            path="function_call",
            remedy="Write it as tool_calls=[{id, type, function}] and answer with role 'tool'",
        )
    written = fields.pop("role", None)
    if written is not None and (role, written) != ("system", "developer"):
        raise InvalidRecord(f"role {written!r} beside role {role!r}", path="extra.role")
    for key, value in fields.items():
        if key in modelled or is_modelled(role, key, value):
            raise InvalidRecord(f"{key} is a field of the message itself", path=f"extra.{key}")


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
    kept = check_object(part.extra, path=f"{path}.extra") if part.extra else {}
    # Of these two, not all they can hold can be written.
    if isinstance(part, FilePart | ThinkingPart) or not _SPOKEN.isdisjoint(kept):
        _check_survives(part, path)


def _check_field(name: str, value: object, path: str) -> None:
    match name:
        case "detail":
            if value not in (None, "low", "high", "auto"):
                raise InvalidRecord(
                    f"image detail {value!r}", path=path, remedy="Use low, high or auto"
                )
        case "is_error":
            if not isinstance(value, bool):
                raise InvalidRecord(f"{type(value).__name__}, not true or false", path=path)
        case "content":
            if not isinstance(value, tuple):
                raise InvalidRecord(f"{type(value).__name__}, not a tuple", path=path)
            for inner in cast("tuple[object, ...]", value):
                if isinstance(inner, ToolCall | ToolResult | ThinkingPart):
                    raise InvalidRecord(
                        f"a tool result cannot hold a {type(inner).__name__}", path=path
                    )
        case _:
            check_text(value, path=path)


def _check_survives(part: _Modelled, path: str) -> None:
    """Writing the part and reading it again must give the part: nothing in it contradicts anything else."""
    if isinstance(part, ToolResult):  # its content is checked part by part
        part = msgspec.structs.replace(part, content=())
    for again in _read_again(part, path):
        if isinstance(again, OpaquePart) or _meaning(again) != _meaning(part):
            raise InvalidRecord(
                f"{type(part).__name__} that would read back differently: its fields contradict each other",
                path=path,
                remedy="Keep only fields the part does not have itself in extra",
            )


def _read_again(part: _Modelled, path: str) -> Iterator[Part]:
    if isinstance(part, ToolCall):
        yield read_call(write_call(part), path)
    yield read_block(write_block(part), path)


def _meaning(part: _Modelled) -> tuple[Part, dict[str, object]]:
    """The part and its JSON text as values: how that text is spaced and ordered makes no difference."""
    if isinstance(part, ThinkingPart):  # who thought it stands in no block
        part = msgspec.structs.replace(part, provider="", model="")
    return msgspec.structs.replace(part, extra=""), thaw_object(part.extra)
