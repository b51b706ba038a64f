"""Convert tool schemas from any provider's form to the form that one provider requires.

Every provider describes a function by name, description and JSON Schema, but under different keys. A tool that is not a
function (a provider's own search, shell or browser) is sent only to its own provider.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from turnfold.wire.json_values import JsonObject, list_of, object_at, object_of, plain_object
from turnfold.wire.request import ChangeNotes

__all__ = (
    "Provider",
    "write_tools",
)


Provider: TypeAlias = Literal["openai_chat", "openai_responses", "anthropic", "gemini"]

_DATED = re.compile(r"_\d{8}$")
_NO_PARAMETERS: JsonObject = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class _Function:
    name: object
    description: object
    schema: JsonObject
    strict: object
    form: str
    raw: JsonObject


def write_tools(
    tools: Sequence[Mapping[str, object]], provider: Provider, notes: ChangeNotes
) -> list[JsonObject]:
    """Return tool schemas of any provider's form in the form of `provider`; left-out tools are recorded in `notes`."""
    written: list[JsonObject] = []
    declarations: list[JsonObject] = []
    for index, given in enumerate(tools):
        path = f"tools[{index}]"
        raw = plain_object(given, path)
        functions = list(_functions(raw))
        if not functions:
            owner = _owner(raw)
            if owner == provider or (owner == "openai" and provider.startswith("openai")):
                written.append(raw)
            else:
                notes.left_out(path, f"a tool of {owner}, which {provider} does not have")
        for function in functions:
            if provider == "gemini":
                declarations.append(_declaration(function))
            else:
                written.append(_write(function, provider))
    if declarations:
        written.insert(0, {"functionDeclarations": declarations})
    return written


def _functions(raw: JsonObject) -> Iterator[_Function]:
    declared = list_of(raw.get("functionDeclarations") or raw.get("function_declarations"))
    if declared is not None:
        for each in declared:
            yield from _functions(object_of(each) or {})
    elif raw.get("type") == "function" and isinstance(raw.get("function"), dict):
        function = object_at(raw, "function")
        yield _function(function, "parameters", "openai_chat", raw)
    elif raw.get("type") == "function":
        yield _function(raw, "parameters", "openai_responses", raw)
    elif "name" in raw and raw.get("type") in (None, "custom") and "format" not in raw:
        for key, form in (
            ("input_schema", "anthropic"),
            ("inputSchema", "mcp"),
            ("parametersJsonSchema", "gemini"),
            ("parameters_json_schema", "gemini"),
            ("parameters", "gemini"),
        ):
            if key in raw:
                yield _function(raw, key, form, raw)
                return
        if raw.get("type") is None:
            yield _function(raw, "parameters", "gemini", raw)


def _function(fields: JsonObject, key: str, form: str, raw: JsonObject) -> _Function:
    schema = object_of(fields.get(key))
    if form == "gemini" and key == "parameters" and schema is not None:
        schema = object_of(_lower_types(schema))
    return _Function(
        fields.get("name"),
        fields.get("description"),
        schema or dict(_NO_PARAMETERS),
        fields.get("strict"),
        form,
        raw,
    )


def _write(function: _Function, provider: Provider) -> JsonObject:
    if function.form == provider:
        return function.raw
    about = _about(function)
    if provider == "anthropic":
        return {**about, "input_schema": function.schema}
    about["parameters"] = function.schema
    if provider == "openai_responses":  # strict is on by default there, off by default elsewhere
        return {"type": "function", **about, "strict": function.strict or False}
    if function.strict:
        about["strict"] = function.strict
    return {"type": "function", "function": about}


def _declaration(function: _Function) -> JsonObject:
    if function.form == "gemini":
        return function.raw
    return {**_about(function), "parametersJsonSchema": function.schema}


def _about(function: _Function) -> JsonObject:
    if function.description is None:
        return {"name": function.name}
    return {"name": function.name, "description": function.description}


def _lower_types(schema: object) -> object:
    """Return a schema with its types in lower case; Gemini writes them in capitals."""
    fields = object_of(schema)
    if fields is not None:
        return {
            key: value.lower() if key == "type" and isinstance(value, str) else _lower_types(value)
            for key, value in fields.items()
        }
    items = list_of(schema)
    return [_lower_types(item) for item in items] if items is not None else schema


def _owner(raw: JsonObject) -> str:
    kind = raw.get("type")
    if not isinstance(kind, str):
        return "gemini"
    return "anthropic" if _DATED.search(kind) else "openai"
