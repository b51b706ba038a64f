"""Convert the return value of a tool to one text for the model.

A tool is foreign code: it may return values that cannot be written as text (cycles, lone surrogates, objects that
cannot be printed). Such a value must not end a run or leave a call without a result, in turnfold's own agent or in
another framework. It becomes a text that begins with "error: " and gives the reason.
"""

from __future__ import annotations

import json
from collections.abc import Coroutine
from dataclasses import dataclass
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Final, cast

from turnfold.wire.json_values import list_of, object_of

__all__ = (
    "ENDING",
    "ToolOutcome",
    "described",
    "encodable",
    "outcome_of",
    "outcome_of_blocks",
)


ENDING: Final = (KeyboardInterrupt, SystemExit)
"""Exceptions that end a run even when a tool, or a value it returned, raises them."""


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
    """Convert a tool result that may be a list of content blocks, as of MCP, to their text; else like `outcome_of`."""
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
    """Return type and message of an exception as text, even if its own methods raise."""
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
