"""The types that stored checkpoint values may have without being listed in `allowed_types`.

Each of these types only holds values; creating one does nothing else. The table says how each is created: a stored name
only selects a row. The names are a copy of LangGraph's own list (`SAFE_MSGPACK_TYPES` of langgraph-checkpoint 4.3), so
that a later release of LangGraph cannot extend it unnoticed.
"""

from __future__ import annotations

import ipaddress
import math
import pathlib
import re
from collections import deque
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from importlib import import_module
from typing import Any, Final, TypeAlias, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from turnfold.errors import InvalidRecord

__all__ = (
    "DELTA_SNAPSHOT",
    "KEYWORDS",
    "METHOD",
    "NUMPY_ARRAY",
    "POSITIONAL",
    "PYDANTIC_V1",
    "PYDANTIC_V2",
    "SINGLE",
    "array_of",
    "safe_builder",
    "safe_names",
)


# Extension codes of LangGraph: how the content of an object was given to its class.
SINGLE: Final = 0
POSITIONAL: Final = 1
KEYWORDS: Final = 2
METHOD: Final = 3
PYDANTIC_V1: Final = 4
PYDANTIC_V2: Final = 5
NUMPY_ARRAY: Final = 6
DELTA_SNAPSHOT: Final = 7

_Build: TypeAlias = Callable[[Any], object]

_FLAGS = re.ASCII | re.IGNORECASE | re.LOCALE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.UNICODE
"""All flags of a regular expression except DEBUG, which prints."""
_ZONE = re.compile(r"[A-Za-z0-9_+-]{1,40}(/[A-Za-z0-9_+-]{1,40}){0,3}")
_DTYPE = re.compile(r"[<>|=]?[biufcSUmM][0-9]{1,9}(\[[0-9]{0,9}[A-Za-zμ]{1,10}\])?")
_ARRAY_FIELDS = 4
_MOST_SIDES = 64


def _text(content: object) -> str:
    if not isinstance(content, str):
        raise TypeError(f"the stored content must be text, not {type(content).__name__}")
    return content


def _from_text(kind: Callable[[str], object]) -> _Build:
    return lambda content: kind(_text(content))


def _from_elements(kind: Callable[[Iterable[object]], object]) -> _Build:
    """Return a function that builds a set from stored elements; lists in it become tuples, as msgpack has no tuples."""
    return lambda content: kind([_hashable(one) for one in cast("list[object]", content)])


def _hashable(value: object) -> object:
    if isinstance(value, list):
        return tuple(_hashable(one) for one in cast("list[object]", value))
    return value


def _path(kind: type[pathlib.PurePath]) -> _Build:
    return lambda content: kind(*map(_text, content))


def _zone(content: object) -> ZoneInfo:
    key = _text(content)
    if not _ZONE.fullmatch(key):
        raise ValueError(f"{key[:100]!r} is not the name of a time zone")
    return ZoneInfo(key)


def _pattern(content: tuple[object, object]) -> re.Pattern[Any]:
    pattern, flags = content
    if not isinstance(pattern, str | bytes) or not isinstance(flags, int) or flags & ~int(_FLAGS):
        raise ValueError("the stored content is not a regular expression with valid flags")
    return re.compile(pattern, flags)


_ADDRESSES = (
    "IPv4Address",
    "IPv4Interface",
    "IPv4Network",
    "IPv6Address",
    "IPv6Interface",
    "IPv6Network",
)
_PATHS = ("Path", "PosixPath", "WindowsPath")

_VALUES: Final[dict[tuple[int, str, str], _Build]] = {
    (SINGLE, "uuid", "UUID"): _from_text(UUID),
    (SINGLE, "decimal", "Decimal"): _from_text(Decimal),
    (SINGLE, "builtins", "set"): _from_elements(set),
    (SINGLE, "builtins", "frozenset"): _from_elements(frozenset),
    (SINGLE, "collections", "deque"): deque,
    (SINGLE, "zoneinfo", "ZoneInfo"): _zone,
    (POSITIONAL, "re", "compile"): _pattern,
    (METHOD, "datetime", "datetime"): _from_text(datetime.fromisoformat),
    (POSITIONAL, "datetime", "timedelta"): lambda content: timedelta(*content),
    (POSITIONAL, "datetime", "date"): lambda content: date(*content),
    (POSITIONAL, "datetime", "timezone"): lambda content: timezone(*content),
    (KEYWORDS, "datetime", "time"): lambda content: time(**content),
    **{(SINGLE, "ipaddress", name): _from_text(getattr(ipaddress, name)) for name in _ADDRESSES},
    **{
        (POSITIONAL, module, name): _path(getattr(pathlib, name))
        for module in ("pathlib", "pathlib._local")  # the second in Python 3.13 and later
        for name in _PATHS
    },
}

_MODELS: Final = frozenset(
    {
        ("langchain_core.messages.base", "BaseMessage"),
        ("langchain_core.messages.base", "BaseMessageChunk"),
        ("langchain_core.messages.human", "HumanMessage"),
        ("langchain_core.messages.human", "HumanMessageChunk"),
        ("langchain_core.messages.ai", "AIMessage"),
        ("langchain_core.messages.ai", "AIMessageChunk"),
        ("langchain_core.messages.system", "SystemMessage"),
        ("langchain_core.messages.system", "SystemMessageChunk"),
        ("langchain_core.messages.chat", "ChatMessage"),
        ("langchain_core.messages.chat", "ChatMessageChunk"),
        ("langchain_core.messages.tool", "ToolMessage"),
        ("langchain_core.messages.tool", "ToolMessageChunk"),
        ("langchain_core.messages.function", "FunctionMessage"),
        ("langchain_core.messages.function", "FunctionMessageChunk"),
        ("langchain_core.messages.modifier", "RemoveMessage"),
        ("langchain_core.documents.base", "Document"),
    }
)
"""Pydantic models of LangChain."""

_FIELDS: Final = frozenset(
    {
        ("langgraph.types", "TimeoutPolicy"),
        ("langgraph.types", "Interrupt"),
        ("langgraph.types", "Command"),
        ("langgraph.types", "StateSnapshot"),
        ("langgraph.types", "PregelTask"),
        ("langgraph.types", "Overwrite"),
        ("langgraph.store.base", "Item"),
        ("langgraph.store.base", "GetOp"),
    }
)
"""Data classes and named tuples of LangGraph."""


_SEND: Final = ("langgraph.types", "Send")


def _is_framework(code: int, name: tuple[str, str]) -> bool:
    if code == PYDANTIC_V2:
        return name in _MODELS
    return (
        name == _SEND if code == POSITIONAL else code in (KEYWORDS, PYDANTIC_V1) and name in _FIELDS
    )


def _framework_builder(name: tuple[str, str]) -> _Build:
    """Return the function that creates an object of a LangChain or LangGraph type from its stored content."""
    kind = getattr(import_module(name[0]), name[1])
    if name in _MODELS:
        return lambda content: _message(kind, content)
    if name == _SEND:
        return lambda content: _send(kind, *content)
    return lambda content: kind(**content)


_ready: dict[tuple[int, str, str], _Build] = dict(_VALUES)
"""The builders used so far. Only names of the tables are added, so stored data cannot fill it."""


def _message(model: type[Any], fields: dict[str, object]) -> object:
    """Create a LangChain message; if its stored fields are not valid, without validation, as LangGraph does."""
    try:
        return model(**fields)
    except ValueError:
        return model.model_construct(**fields)


def _send(kind: type[Any], node: object, value: object, timeout: object = None) -> object:
    return kind(node, value) if timeout is None else kind(node, value, timeout=timeout)


def safe_builder(code: int, module: str, name: str) -> _Build | None:
    """Return the function that creates a safe type from its stored content; None for any other type."""
    key = (code, module, name)
    found = _ready.get(key)
    if found is None and _is_framework(code, (module, name)):
        found = _ready[key] = _framework_builder((module, name))
    return found


def safe_names() -> list[tuple[int, str, str]]:
    """Return the types that may be restored from a checkpoint, each as msgpack extension code, module and name."""
    return [
        *_VALUES,
        *((PYDANTIC_V2, *name) for name in _MODELS),
        *((code, *name) for code in (KEYWORDS, PYDANTIC_V1) for name in _FIELDS),
        (POSITIONAL, *_SEND),
    ]


def array_of(inside: object) -> object:
    """Create a numpy array of numbers, booleans, times or text; its size must be that of the stored bytes."""
    parts = cast("list[object]", inside) if isinstance(inside, list) else []
    if len(parts) != _ARRAY_FIELDS:
        raise InvalidRecord(
            "a stored numpy array is damaged: its type, shape, order or data is missing or not valid",
            remedy="Restore the store from a backup, or delete the thread",
        )
    dtype, shape, order, data = parts
    if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
        raise InvalidRecord(
            f"a numpy array of type {dtype!s:.100} cannot be stored and read back; numbers, text and times can",
            remedy="Store a list instead, or one array for each field",
        )
    sides = cast("list[int]", shape) if isinstance(shape, list) else [-1]
    if (
        not isinstance(data, bytes)
        or order not in ("C", "F")
        or len(sides) > _MOST_SIDES
        or not all(type(side) is int and side >= 0 for side in sides)
    ):
        raise InvalidRecord(
            "a stored numpy array is damaged: its type, shape, order or data is missing or not valid",
            remedy="Restore the store from a backup, or delete the thread",
        )
    try:
        numpy = import_module("numpy")
        kind = numpy.dtype(dtype)
        size = kind.itemsize * math.prod(sides)
        if size == len(data):
            return numpy.ndarray(sides, kind, data, order=order)
    except ImportError:
        raise InvalidRecord(
            "a stored value is a numpy array, and numpy is not installed",
            remedy="Install numpy to read it",
        ) from None
    except (TypeError, ValueError) as error:
        raise InvalidRecord(f"a stored numpy array is damaged: {error}") from None
    raise InvalidRecord(
        f"a stored numpy array is damaged: it should have {size:,} bytes, but has {len(data):,}",
        remedy="Restore the store from a backup, or delete the thread",
    )
