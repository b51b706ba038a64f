"""Values of checkpoints as bytes and back, without running code that the bytes name.

LangGraph's serializer writes an object as the name of its module and class with its fields, and reads it by importing
that module and calling that class: whoever can write to the store, or have a file imported, decides what is called.
Here a stored name is only a key into a table: types of Python and LangGraph that hold values and do nothing else, and
the classes the program lists in `allowed_types`. Bytes are written exactly as LangGraph writes them. A type that could
not be read back is refused when it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from inspect import isclass
from typing import Any, TypeAlias, cast

import msgspec
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import (
    _DeltaSnapshot,  # pyright: ignore[reportPrivateUsage] (LangGraph names it so and gives no other way to make one)
)

from turnfold.adapters.langchain.checkpoints.documents import Typed
from turnfold.adapters.langchain.checkpoints.safe_types import (
    DELTA_SNAPSHOT,
    KEYWORDS,
    METHOD,
    NUMPY_ARRAY,
    POSITIONAL,
    PYDANTIC_V1,
    PYDANTIC_V2,
    SINGLE,
    array_of,
    safe_builder,
)
from turnfold.errors import InvalidOption, InvalidRecord

__all__ = ("AllowedType", "StrictSerializer")

AllowedType: TypeAlias = "type[Any] | tuple[str, ...]"
"""A class, or its module and name."""
_Name: TypeAlias = tuple[str, str]
_Build: TypeAlias = Callable[[Any], object]

_DEEPEST = 100
"""Objects that may stand inside one another."""
_FROM_ISO = "fromisoformat"
_MOST_SOUND = 1 << 16
_SHAPES = {SINGLE: 3, POSITIONAL: 3, KEYWORDS: 3, METHOD: 4, PYDANTIC_V1: 3, PYDANTIC_V2: 4}
"""By extension code: how many elements name an object and its content."""


class StrictSerializer(JsonPlusSerializer):
    """Writes as LangGraph does; reads only types that are known to be safe, and those listed."""

    def __init__(self, *, allowed_types: Iterable[AllowedType] = ()) -> None:
        super().__init__(pickle_fallback=False, allowed_msgpack_modules=None)
        self._types = _table(allowed_types)
        self._sound: set[int] = set()
        """Hashes of objects that were written and can be read back: a list of messages is written at every step."""

    def dumps_typed(self, obj: object) -> Typed:
        """The value as bytes; refused where it could not be read back."""
        kind, data = super().dumps_typed(obj)
        if kind == "msgpack":
            if len(self._sound) > _MOST_SOUND:
                self._sound.clear()
            found = _Check(self._types, self._sound)
            found.read(data)
            if found.uses_listed:  # a listed class may refuse its own fields
                _Rebuild(self._types).read(data)
        return kind, bytes(data)

    def loads_typed(self, data: Typed) -> object:
        """The value behind the bytes."""
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
        """The same with more types; LangGraph calls it with the types of a graph's state in its own strict mode."""
        clone = StrictSerializer()
        clone._types = self._types | _importable(extra_allowlist)
        return clone


def _table(allowed: Iterable[AllowedType]) -> dict[_Name, type[Any]]:
    """The listed classes by the name they are stored under."""
    if isinstance(allowed, str) or isclass(allowed):
        raise InvalidOption(f"allowed_types={allowed!r} must be several: [{allowed!r}]")
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
    """The class that the program names by module and name."""
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
        raise InvalidOption(f"allowed_types: {module}.{name} is no class; only classes are rebuilt")
    return cast("type[Any]", listed)


def _importable(names: Iterable[tuple[str, ...] | type]) -> dict[_Name, type[Any]]:
    """Those that are classes: LangGraph also names what it found in annotations and cannot be imported."""
    found: dict[_Name, type[Any]] = {}
    for one in names:
        try:
            found |= _table([one])
        except InvalidOption:
            continue  # it stays off the list; storing one says so
    return found


class _Reader:
    """Reads one value; what becomes of an object in it is for the subclass to say."""

    def __init__(self, types: Mapping[_Name, type[Any]]) -> None:
        self._types = types
        self._decoder = msgspec.msgpack.Decoder(ext_hook=self._ext)
        self._depth = 0

    def read(self, data: bytes) -> object:
        try:
            return self._decoder.decode(data)
        except RecursionError:
            raise InvalidRecord("a stored value is nested too deeply to be read") from None
        except (msgspec.MsgspecError, UnicodeError, TypeError) as error:
            # TypeError: a key of a mapping that cannot be one
            raise InvalidRecord(f"a stored value is damaged: {error}") from None

    def _ext(self, code: int, data: memoryview) -> object:
        if self._depth >= _DEEPEST:
            raise InvalidRecord(f"a stored value has objects nested deeper than {_DEEPEST}")
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
    """Makes the objects again."""

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
                f"a stored {module}.{name} cannot be made again: {type(error).__name__}: {error}",
                remedy="Its class has changed since, or the store was tampered with",
            ) from None


class _Check(_Reader):
    """Makes nothing; sees whether everything could be made."""

    def __init__(self, types: Mapping[_Name, type[Any]], sound: set[int]) -> None:
        super().__init__(types)
        self._sound = sound
        self.uses_listed = False

    def _ext(self, code: int, data: memoryview) -> object:
        if self._depth:  # how deep a known one lies matters too
            return super()._ext(code, data)
        mark = hash((code, data.tobytes()))
        if mark in self._sound:
            return None
        before, self.uses_listed = self.uses_listed, False
        found = super()._ext(code, data)
        if not self.uses_listed:
            self._sound.add(mark)
        self.uses_listed = self.uses_listed or before
        return found

    def _object(self, code: int, module: str, name: str, content: object) -> None:
        del content
        if safe_builder(code, module, name) is None:
            if _listed_builder(code, self._types.get((module, name))) is None:
                raise _not_allowed(module, name, "to be stored holds")
            self.uses_listed = True


def _parts(code: int, inside: object) -> tuple[str, str, object]:
    """Module, name and content of an object."""
    size = _SHAPES.get(code)
    if size is None:
        raise InvalidRecord(f"a stored value has an extension of unknown kind {code}")
    parts = cast("list[Any]", inside) if type(inside) is list else []
    if len(parts) != size or type(parts[0]) is not str or type(parts[1]) is not str:
        raise InvalidRecord(f"a stored object of kind {code} is damaged")
    if code == METHOD and parts[3] != _FROM_ISO:
        called = f"{parts[0]}.{parts[1]}.{parts[3]}"[:200]
        raise InvalidRecord(
            f"a stored value calls {called}; stored data may call no method but {_FROM_ISO}"
        )
    return parts[0], parts[1], parts[2]


def _listed_builder(code: int, listed: type[Any] | None) -> _Build | None:
    """How an object of a listed class is made of its content."""
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
    """A pydantic model. LangGraph stores what a model holds, not what its constructor takes (aliases, for one)."""
    try:
        return model(**fields)
    except Exception:
        return getattr(model, unchecked)(**fields)


def _not_allowed(module: str, name: str, what: str) -> InvalidRecord:
    known = f"{module}.{name}"[:200]
    return InvalidRecord(
        f"a value {what} an object of type {known}, which is not among the types stored data may be made into",
        remedy=f"If you trust that class with any arguments: TurnfoldSaver(..., allowed_types=[{name[:100]}])",
    )
