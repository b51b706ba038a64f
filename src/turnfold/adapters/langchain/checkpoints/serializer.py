"""Serializes checkpoint values, and reads them back without running code that the bytes name.

LangGraph's serializer writes an object as the name of its module and class with its fields, and reads it by importing
that module and calling that class. So anyone who can write to the store, or have a file imported, decides what is
called. Here a stored name is only a key of a table: types of Python and LangGraph that only hold values, and the
classes that the application lists in `allowed_types`. Bytes are written exactly as LangGraph writes them. A type that
could not be read back is refused when it is written. The sizes and shapes of data that is read are checked.
"""

from __future__ import annotations

import ipaddress
import math
import pathlib
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from importlib import import_module
from inspect import isclass
from typing import Any, Final, TypeAlias, cast
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
from langgraph.checkpoint.base import Checkpoint, PendingWrite, writes_sort_key
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import (
    _DeltaSnapshot,  # pyright: ignore[reportPrivateUsage] (LangGraph names it so and gives no other way to make one)
)

from turnfold.adapters.langchain.checkpoints.documents import (
    REMEDY,
    SizeLimit,
    StoredCheckpoint,
    Typed,
    Writes,
)
from turnfold.errors import InvalidOption, InvalidRecord

__all__ = (
    "DELTA_SNAPSHOT",
    "KEYWORDS",
    "METHOD",
    "NUMPY_ARRAY",
    "POSITIONAL",
    "PYDANTIC_V1",
    "PYDANTIC_V2",
    "SINGLE",
    "AllowedType",
    "Codec",
    "StrictSerializer",
    "array_of",
    "mapping_of",
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
        raise ValueError(
            f"a stored regular expression needs a pattern (text or bytes) and known flags, got "
            f"{type(pattern).__name__} and {flags!r:.100}"
        )
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
"""Pydantic models of LangChain, as (module, class name), that may be created from stored content."""

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
"""Data classes and named tuples of LangGraph, as (module, class name), that may be created from stored content."""


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
"""The builders used so far, by name. Only names from the tables are added, so stored data cannot fill this cache."""


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
        raise InvalidRecord(
            f"a stored numpy array is damaged: {error}", remedy="Restore the store from a backup"
        ) from None
    raise InvalidRecord(
        f"a stored numpy array is damaged: it should have {size:,} bytes, but has {len(data):,}",
        remedy="Restore the store from a backup, or delete the thread",
    )


AllowedType: TypeAlias = "type[Any] | tuple[str, ...]"
"""A class, or its module and name."""
_Name: TypeAlias = tuple[str, str]

_MAX_DEPTH = 100
"""Most levels of objects inside one another in a stored value; a value with more is refused with an error."""
_FROM_ISO = "fromisoformat"
_MOST_CHECKED = 1 << 16
"""Most hashes of checked objects that are remembered; beyond that all are forgotten, and objects are checked again."""
_SHAPES = {SINGLE: 3, POSITIONAL: 3, KEYWORDS: 3, METHOD: 4, PYDANTIC_V1: 3, PYDANTIC_V2: 4}
"""Number of elements in the stored form of an object, by msgpack extension code."""


class StrictSerializer(JsonPlusSerializer):
    """Writes values as LangGraph does, but reads only types known to be safe and those in `allowed_types`."""

    def __init__(self, *, allowed_types: Iterable[AllowedType] = ()) -> None:
        super().__init__(pickle_fallback=False, allowed_msgpack_modules=None)
        self._types = _table(allowed_types)
        self._checked: set[int] = set()
        """Hashes of objects that were checked before, because the same messages are written at every step."""

    def dumps_typed(self, obj: object) -> Typed:
        """Return the value's type and bytes; raise `InvalidRecord` if it could not be read back."""
        kind, data = super().dumps_typed(obj)
        if kind == "msgpack":
            if len(self._checked) > _MOST_CHECKED:
                self._checked.clear()
            checker = _Check(self._types, self._checked)
            checker.read(data)
            if checker.uses_listed:  # a listed class may refuse its own fields
                _Rebuild(self._types).read(data)
        return kind, bytes(data)

    def loads_typed(self, data: Typed) -> object:
        """Return the value in stored bytes; raise `InvalidRecord` if it contains a type that is not allowed."""
        kind, body = data
        match kind:
            case "null":
                return None
            case "bytes":
                return body
            case "bytearray":
                return bytearray(body)
            case "msgpack":
                return _Rebuild(self._types).read(body)
            case _:
                raise InvalidRecord(
                    f"a value is stored as {kind!r}; only null, bytes, bytearray and msgpack are read",
                    remedy="If your own serializer wrote it, pass that one: TurnfoldSaver(..., serde=...)",
                )

    def with_msgpack_allowlist(
        self, extra_allowlist: Iterable[tuple[str, ...] | type]
    ) -> StrictSerializer:
        """Return a copy that allows more types; LangGraph's strict mode calls it with the types of a graph's state."""
        clone = StrictSerializer()
        clone._types = self._types | _importable(extra_allowlist)
        return clone


def _table(allowed: Iterable[AllowedType]) -> dict[_Name, type[Any]]:
    """Return the classes in `allowed_types` by (module, name), under which their objects are stored."""
    if isinstance(allowed, str) or isclass(allowed):
        raise InvalidOption(f"allowed_types={allowed!r} must be a list: [{allowed!r}]")
    found: dict[_Name, type[Any]] = {}
    for one in allowed:
        listed = one if isclass(one) else _imported(one)
        name = listed.__module__, listed.__name__
        if found.setdefault(name, listed) is not listed:
            raise InvalidOption(
                f"allowed_types has two classes named {'.'.join(name)}: rename one, they are stored under this name"
            )
    return found


def _imported(given: object) -> type[Any]:
    """Return a class of `allowed_types`, which is a class or (module, name).

    Raises `InvalidOption` if it is not a class.
    """
    match given:
        case (str() as module, str() as name):
            pass
        case _:
            raise InvalidOption(
                f"allowed_types: {given!r} is neither a class nor (module, name), e.g. ('myapp.state', 'Plan')"
            )
    try:
        listed = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidOption(f"allowed_types: {module}.{name} cannot be imported: {error}") from None
    if not isclass(listed):
        raise InvalidOption(
            f"allowed_types: {module}.{name} is not a class; only classes are allowed"
        )
    return cast("type[Any]", listed)


def _importable(names: Iterable[tuple[str, ...] | type]) -> dict[_Name, type[Any]]:
    """Return the names that are classes: LangGraph also passes names of annotations that are not classes."""
    found: dict[_Name, type[Any]] = {}
    for one in names:
        try:
            found |= _table([one])
        except InvalidOption:
            continue  # not listed: storing one is an error that says so
    return found


class _Reader:
    """Decodes one stored value; subclasses decide what to do with each object in it."""

    def __init__(self, types: Mapping[_Name, type[Any]]) -> None:
        self._types = types
        self._decoder = msgspec.msgpack.Decoder(ext_hook=self._ext)
        self._depth = 0

    def read(self, data: bytes) -> object:
        try:
            return self._decoder.decode(data)
        except RecursionError:
            raise InvalidRecord(
                "a value of a checkpoint is nested too deeply to be decoded",
                remedy="Store values with fewer levels",
            ) from None
        except (msgspec.MsgspecError, UnicodeError, TypeError) as error:
            # TypeError: a mapping key that is not hashable
            raise InvalidRecord(
                f"a value of a stored checkpoint is damaged: {error}",
                remedy="Restore the store from a backup, or start a new thread",
            ) from None

    def _ext(self, code: int, data: memoryview) -> object:
        if self._depth >= _MAX_DEPTH:
            raise InvalidRecord(
                f"a value of a checkpoint has objects nested more than {_MAX_DEPTH} levels deep",
                remedy="Store values with fewer levels",
            )
        self._depth += 1
        try:
            inside = self._decoder.decode(data)
        finally:
            self._depth -= 1
        if code == DELTA_SNAPSHOT:
            return _DeltaSnapshot(inside)
        if code == NUMPY_ARRAY:
            return array_of(inside)
        return self._object(code, *_parts(code, inside))

    def _object(self, code: int, module: str, name: str, content: object) -> object:
        raise NotImplementedError


class _Rebuild(_Reader):
    """Decoder of stored values that creates the objects in them."""

    def _object(self, code: int, module: str, name: str, content: object) -> object:
        build = safe_builder(code, module, name) or _listed_builder(
            code, self._types.get((module, name))
        )
        if build is None:
            raise _not_allowed(module, name, "holds")
        try:
            return build(content)
        except InvalidRecord:
            raise
        except Exception as error:
            raise InvalidRecord(
                f"a stored {module}.{name} cannot be rebuilt: {type(error).__name__}: {error}",
                remedy="If its class was changed, let it accept the stored fields; otherwise restore a backup",
            ) from None


class _Check(_Reader):
    """Checks a value before it is stored: every object in it must be of an allowed class.

    Objects are not created, except NumPy arrays.
    """

    def __init__(self, types: Mapping[_Name, type[Any]], checked: set[int]) -> None:
        super().__init__(types)
        self._checked = checked
        self.uses_listed = False

    def _ext(self, code: int, data: memoryview) -> object:
        if self._depth:  # checked each time, because its depth may differ
            return super()._ext(code, data)
        mark = hash((code, data.tobytes()))
        if mark in self._checked:
            return None
        before, self.uses_listed = self.uses_listed, False
        found = super()._ext(code, data)
        if not self.uses_listed:
            self._checked.add(mark)
        self.uses_listed = self.uses_listed or before
        return found

    def _object(self, code: int, module: str, name: str, content: object) -> None:
        del content
        if safe_builder(code, module, name) is None:
            if _listed_builder(code, self._types.get((module, name))) is None:
                raise _not_allowed(module, name, "to be stored holds")
            self.uses_listed = True


def _parts(code: int, inside: object) -> tuple[str, str, object]:
    """Return module, class name and content of a stored object; raise `InvalidRecord` if its form is wrong."""
    size = _SHAPES.get(code)
    if size is None:
        raise InvalidRecord(
            f"a stored value holds an object of the unknown msgpack extension type {code}: a newer release, or another "
            "program, wrote it"
        )
    parts = cast("list[Any]", inside) if type(inside) is list else []
    if len(parts) != size or type(parts[0]) is not str or type(parts[1]) is not str:
        raise InvalidRecord(
            f"a stored object (msgpack extension type {code}) is damaged: it must be a list of {size} elements that "
            "begins with the names of a module and a class",
            remedy="Restore the store from a backup",
        )
    if code == METHOD and parts[3] != _FROM_ISO:
        called = f"{parts[0]}.{parts[1]}.{parts[3]}"[:200]
        raise InvalidRecord(
            f"a stored value would call {called}, but stored data may call only the method {_FROM_ISO}: it is damaged "
            "or forged",
            remedy="Restore the store from a backup",
        )
    return parts[0], parts[1], parts[2]


def _listed_builder(code: int, listed: type[Any] | None) -> _Build | None:
    """Return the function that creates an object of a class in `allowed_types`; None if there is no such class."""
    if listed is None:
        return None
    builders: dict[int, _Build | None] = {
        SINGLE: listed,
        POSITIONAL: lambda content: listed(*content),
        KEYWORDS: lambda content: listed(**content),
        METHOD: getattr(listed, _FROM_ISO, None),
        PYDANTIC_V1: lambda content: _validated(listed, content, "construct"),
        PYDANTIC_V2: lambda content: _validated(listed, content, "model_construct"),
    }
    return builders[code]


def _validated(model: type[Any], fields: dict[str, object], unchecked: str) -> object:
    """Create a pydantic model from stored fields; without validation if the constructor refuses them (aliases)."""
    try:
        return model(**fields)
    except Exception:
        return getattr(model, unchecked)(**fields)


def _not_allowed(module: str, name: str, what: str) -> InvalidRecord:
    known = f"{module}.{name}"[:200]
    return InvalidRecord(
        f"a value {what} an object of type {known}, which is not among the allowed types",
        remedy=f"If you trust that class with any arguments: TurnfoldSaver(..., allowed_types=[{name[:100]}])",
    )


@dataclass(frozen=True, slots=True)
class Codec:
    """Serializes the values of LangGraph, at most `max_bytes` together, and checks the shape of values it reads."""

    serde: SerializerProtocol
    max_bytes: int

    def dump(self, value: object, path: str, limit: SizeLimit | None = None) -> Typed:
        """Serialize a value; several values that share a `limit` are limited in size together."""
        try:
            kind, data = self.serde.dumps_typed(value)
        except InvalidRecord as fault:
            raise fault.within(path) from None
        self._check_size(kind, data, path, limit)
        return kind, data

    def load(self, typed: Typed, path: str, limit: SizeLimit | None = None) -> object:
        """Deserialize a stored value after a check of its size; values that share a `limit` are limited together."""
        self._check_size(*typed, path, limit)
        try:
            return self.serde.loads_typed(typed)
        except InvalidRecord as fault:
            raise fault.within(path) from None

    def values(self, typed: Mapping[str, Typed]) -> dict[str, object]:
        """Return the deserialized values of a checkpoint by channel, limited in size together."""
        limit = SizeLimit(self.max_bytes)
        return {
            channel: self.load(one, f"channel {channel!r}", limit) for channel, one in typed.items()
        }

    def bare(self, stored: StoredCheckpoint) -> Checkpoint:
        """Return a stored checkpoint deserialized, without the values of its channels."""
        path = f"checkpoint {stored.id}"
        bare = mapping_of(self.load(stored.checkpoint, path), path)
        if bare.get("id") != stored.id:
            raise InvalidRecord(
                f"the stored data is that of another checkpoint, {str(bare.get('id'))[:100]!r}",
                path=path,
                remedy=REMEDY,
            )
        for name in ("channel_versions", "versions_seen"):
            mapping_of(bare.get(name, {}), f"{path}, {name}")
        return cast("Checkpoint", bare)

    def metadata(self, stored: StoredCheckpoint) -> dict[str, Any]:
        """Return the deserialized metadata of a stored checkpoint."""
        path = f"metadata of checkpoint {stored.id}"
        return mapping_of(self.load(stored.metadata, path), path)

    def pending(self, tasks: Sequence[Writes]) -> list[PendingWrite]:
        """Return the deserialized values that tasks wrote after a checkpoint, in LangGraph's order."""
        writes = [(each.task, write) for each in tasks for write in each.writes]
        writes.sort(key=lambda one: writes_sort_key(one[1].path, one[0], one[1].index))
        limits = {each.task: SizeLimit(self.max_bytes) for each in tasks}
        return [
            (task, one.channel, self.load(one.value, f"write of task {task}", limits[task]))
            for task, one in writes
        ]

    def _check_size(self, kind: str, data: bytes, path: str, limit: SizeLimit | None) -> None:
        counted = limit or SizeLimit(self.max_bytes)
        if kind == "msgpack":
            counted.add(data, path)
        else:
            counted.add_size(len(data), path)


def mapping_of(value: object, path: str) -> dict[str, Any]:
    """Return a stored value that must be a mapping with text keys; raise `InvalidRecord` if it is not."""
    fields = cast("dict[object, object]", value) if isinstance(value, dict) else {None: None}
    if not all(isinstance(key, str) for key in fields):
        raise InvalidRecord(
            f"the stored value must be a mapping with text keys, got {type(cast('object', value)).__name__}",
            path=path,
            remedy=REMEDY,
        )
    return cast("dict[str, Any]", fields)
