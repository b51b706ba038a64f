"""Makes tools of Python functions: a schema for the model, checked arguments, errors reported to the model.

The schema comes from the signature and the docstring, so that it is written once. Arguments that do not fit it never
reach the function: the model gets the reason as the result of its call and can try again.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_type_hints

import msgspec

from turnfold.errors import InvalidOption
from turnfold.findings import FindingRule

__all__ = (
    "Tool",
    "ToolRefused",
    "as_tool",
)


class ToolRefused(Exception):
    """Raised if a tool call has arguments that do not fit the tool; the model gets the text as the result."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function the model may call."""

    name: str
    description: str
    parameters: Mapping[str, object]
    """JSON schema of the tool's arguments."""
    call: Callable[..., object]
    """The function of the tool, called with the arguments by name; it may be a coroutine function."""
    form: type[msgspec.Struct] | None = None
    """Type that the arguments are checked against; None to pass them unchecked."""
    remember: FindingRule | None = None
    """Rule by which results of the tool become findings (remembered tool results); None to remember none."""
    native: Mapping[str, object] | None = None
    """The form of the tool that one provider defines; that provider gets it instead of the schema, other providers do
    not."""

    @property
    def schema(self) -> dict[str, object]:
        """The tool in OpenAI's Chat format, or its `native` form; `turnfold.wire` converts it for the provider."""
        if self.native is not None:
            return dict(self.native)
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }
        return {"type": "function", "function": function}

    def arguments(self, text: str) -> dict[str, object]:
        """Parse and check the arguments of a call, which are JSON text; raises `ToolRefused` if they do not fit."""
        try:
            given = msgspec.json.decode(text or "{}", type=dict[str, object])
            if self.form is None:
                return given
            checked = msgspec.convert(given, self.form)
        except (msgspec.MsgspecError, RecursionError) as error:
            problem = _lone_surrogate(text) or error
            raise ToolRefused(f"the arguments do not fit {self.name}: {problem}") from None
        return msgspec.structs.asdict(checked)


def as_tool(given: Tool | Callable[..., object], *, remember: FindingRule | None = None) -> Tool:
    """Return a tool from a function with annotated parameters and a docstring, or the tool itself.

    `remember` is the rule by which its results are remembered, and identical calls answered from memory.
    """
    if isinstance(given, Tool):
        return replace(given, remember=remember) if remember else given
    if not callable(given):
        raise InvalidOption(
            f"tools has {given!r}, which is neither a function nor a Tool: give the function itself, tools=[weather]"
        )
    name = getattr(given, "__name__", type(given).__name__)
    hints = get_type_hints(given)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in inspect.signature(given).parameters.values():
        if parameter.kind in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
            parameter.POSITIONAL_ONLY,
        ):
            raise InvalidOption(
                f"tool {name!r}: models pass arguments by name, but parameter {parameter.name!r} cannot be passed by "
                "name: make it an ordinary parameter"
            )
        kind: Any = hints.get(parameter.name, Any)
        if parameter.default is parameter.empty:
            fields.append((parameter.name, kind))
        else:
            fields.append((parameter.name, kind, parameter.default))
    form = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
    try:
        parameters = _schema(form)
    except TypeError as error:
        raise InvalidOption(
            f"tool {name!r}: {error}; annotate its parameters with JSON types"
        ) from None
    return Tool(name, inspect.getdoc(given) or "", parameters, given, form, remember)


def _lone_surrogate(text: str) -> str:
    """Return an error text if JSON text has a lone surrogate, whose place the decoder reports wrongly; else ""."""
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ord(error.object[error.start])
        return f"\\u{half:04x} is half a character; escape both halves or write the character"
    except (ValueError, RecursionError):
        pass
    return ""


def _schema(form: type[msgspec.Struct]) -> dict[str, object]:
    [schema], components = msgspec.json.schema_components([form], ref_template="#/$defs/{name}")
    own = dict(components.pop(form.__name__, schema))
    own.pop("title", None)
    if components:
        own["$defs"] = components
    return own
