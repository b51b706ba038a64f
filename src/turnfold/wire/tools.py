"""Tools on the wire: schemas in the form that each provider requires, and the return value of a tool as one text."""

from __future__ import annotations

import json
import re
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Final, Literal, TypeAlias, cast

from turnfold.wire.json_values import JsonObject, list_of, object_at, object_of, plain_object
from turnfold.wire.request import ChangeNotes

__all__ = (
    "ENDING",
    "Provider",
    "ToolOutcome",
    "described",
    "encodable",
    "outcome_of",
    "outcome_of_blocks",
    "write_tools",
)


ENDING: Final = (KeyboardInterrupt, SystemExit)
"""Exceptions that end a run even if a tool raises them, or a value that it returned."""


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The result of one tool call, as it is stored in the log."""

    text: str
    failed: bool = False


def outcome_of(found: object) -> ToolOutcome:
    """Convert a tool's return value to text: a string stays, other values become JSON or, if that fails, `str()`."""
    try:
        text = _text(found)
    except ENDING:
        raise
    except BaseException as error:
        return ToolOutcome(
            f"error: the tool returned a value of type {_type_name(found)}, which cannot be written as text: "
            f"{described(error)}",
            failed=True,
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        where = f"U+{ord(text[error.start]):04X} at character {error.start}"
        return ToolOutcome(
            f"error: the result holds a lone surrogate ({where}), which no provider accepts; "
            f"with such characters escaped it is:\n{encodable(text)}",
            failed=True,
        )
    return ToolOutcome(text)


def outcome_of_blocks(found: object) -> ToolOutcome:
    """Convert a tool result to text: a list of content blocks (as of MCP) to their text, others like `outcome_of`."""
    try:
        texts = _block_texts(found)
        return outcome_of(found if texts is None else "\n".join(texts))
    except ENDING:
        raise
    except BaseException:
        return outcome_of(found)


def _block_texts(found: object) -> list[str] | None:
    """Return the texts of a result that consists of text blocks only; None for any other result."""
    fields = object_of(found) or {}
    blocks = [object_of(block) or {} for block in list_of(fields.get("content", found)) or ()]
    texts = [block.get("text") for block in blocks if block.get("type") == "text"]
    if not texts or len(texts) < len(blocks) or not all(isinstance(text, str) for text in texts):
        return None
    return cast("list[str]", texts)


def described(error: BaseException) -> str:
    """Return the type and the message of an exception as text, even if methods of the exception raise."""
    try:
        message = encodable(str.__str__(str(error)))
    except ENDING:
        raise
    except BaseException:
        message = "(its message cannot be read)"
    return f"{_type_name(error)}: {message}" if message else _type_name(error)


def encodable(text: str) -> str:
    """Return the text with lone surrogates escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def _text(found: object) -> str:
    if issubclass(type(found), str):  # isinstance trusts `__class__`, which an object can fake
        return str.__str__(cast("str", found))
    if type(found) is GeneratorType or type(found) is AsyncGeneratorType:
        raise TypeError("the tool returned a generator: return its items as a list")
    if type(found) is CoroutineType:
        cast("Coroutine[object, object, object]", found).close()
        raise TypeError(
            "the tool returned something to be awaited: await it, and return its result"
        )
    try:
        return json.dumps(found, ensure_ascii=False, default=str)
    except ENDING:
        raise
    except (
        BaseException
    ):  # a cycle, a key that is not text, an object without str(): str() of the whole may work
        return str.__str__(str(found))


def _type_name(value: object) -> str:
    """Return the real name of a value's type, even if its metaclass reports another one."""
    name = cast("object", type.__dict__["__name__"].__get__(type(value)))
    return encodable(str.__str__(cast("str", name)))


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
