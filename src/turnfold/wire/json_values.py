"""Helpers to read JSON values of unknown shape safely, and to store values that JSON in UTF-8 cannot express.

Histories and responses are dictionaries or objects of three SDKs, and payloads to be linted may hold any values. All
modules of this package read such values with these functions.

A framework's message may hold NaN, infinities or lone surrogates: log probabilities are infinite, a tool reads bytes of
another encoding, a model is cut off in the middle of an emoji. Such values must not stop a run, and nothing may be
lost. The record of such a message has its content made `writable` for every store and provider; the original message is
stored with it, `packed` as base64.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias, cast

from turnfold.errors import InvalidRecord
from turnfold.records import MAX_DEPTH, as_fields, freeze

__all__ = (
    "JsonObject",
    "list_at",
    "list_of",
    "object_at",
    "object_of",
    "objects_of",
    "packed",
    "plain",
    "plain_object",
    "shown",
    "text_at",
    "texts_in",
    "unpacked",
    "with_numbers",
    "writable",
)


JsonObject: TypeAlias = dict[str, object]


def object_of(value: object) -> JsonObject | None:
    """Return the value if it is a JSON object (a dict); None if not."""
    return cast("JsonObject", value) if isinstance(value, dict) else None


def list_of(value: object) -> list[object] | None:
    """Return the value if it is a list; None if not."""
    return cast("list[object]", value) if isinstance(value, list) else None


def objects_of(value: object) -> list[JsonObject]:
    """Return the items of a list that are JSON objects; an empty list if the value is not a list."""
    return [fields for item in list_of(value) or () if (fields := object_of(item)) is not None]


def object_at(fields: JsonObject, key: str) -> JsonObject:
    """Return the JSON object under a key; an empty object if there is none or the value is not an object."""
    return object_of(fields.get(key)) or {}


def list_at(fields: JsonObject, key: str) -> list[object]:
    """Return the list under a key; an empty list if there is none or the value is not a list."""
    return list_of(fields.get(key)) or []


def text_at(fields: JsonObject, key: str) -> str:
    """Return the text under a key; empty if there is none or the value is not a text."""
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def texts_in(value: object) -> list[str]:
    """Return all strings inside a value, at any depth, without the keys of objects."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = list(cast("JsonObject", value).values())
    if isinstance(value, list):
        return [text for inner in cast("list[object]", value) for text in texts_in(inner)]
    return []


def shown(value: object) -> str:
    """Return a value as text (JSON unless it is a string), to show it in a `Change`."""
    return value if isinstance(value, str) else freeze(value, path="")


def plain(value: object, path: str = "", depth: int = 0) -> object:
    """Return a copy of `value` as plain JSON values; SDK objects become the JSON that the provider sent."""
    if depth > MAX_DEPTH:
        raise InvalidRecord(f"nested deeper than {MAX_DEPTH} levels", path=path)
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, bytes):  # signatures and media, in the SDKs that decode them
        return b64encode(value).decode("ascii")
    if isinstance(value, list | tuple):
        elements = enumerate(cast("list[object]", value))
        return [plain(item, f"{path}[{index}]", depth + 1) for index, item in elements]
    fields = cast("object", value) if isinstance(value, Mapping) else _dumped(value, path)
    members = cast("Mapping[str, object]", fields).items()
    return {key: plain(item, f"{path}.{key}" if path else key, depth + 1) for key, item in members}


def plain_object(value: object, path: str = "") -> JsonObject:
    """Return a copy of an object as plain JSON values; raises `InvalidRecord` if `value` is not an object."""
    found = object_of(plain(value, path))
    if found is None:
        raise InvalidRecord(
            f"a message must be a JSON object, not {type(value).__name__}",
            path=path,
            remedy="Give a dictionary",
        )
    return found


def _dumped(value: object, path: str) -> Mapping[str, object]:
    """Return the fields of a Pydantic model as the provider sent them: only those set, with their original names."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        try:
            found = dump(mode="json", by_alias=True, exclude_unset=True)
        except TypeError:  # not Pydantic's: takes no options
            found = dump()
        if isinstance(found, Mapping):
            return cast("Mapping[str, object]", found)
    return as_fields(value, path)


_Values: TypeAlias = "list[object] | tuple[object, ...] | AbstractSet[object]"
_NAMES: Final = {math.inf: "Infinity", -math.inf: "-Infinity"}


def with_numbers(written: object, given: object) -> object:
    """Return `written`, in which pydantic wrote NaN and infinities as null, with the numbers of `given` put back."""
    match written, given:
        case None, float():
            return given
        case dict(), Mapping():
            fields = cast("dict[str, object]", written)
            values = cast("Mapping[object, object]", given).values()
            if len(values) != len(fields):
                return fields
            pairs = zip(fields.items(), values, strict=True)
            return {key: with_numbers(inner, value) for (key, inner), value in pairs}
        case list(), list() | tuple() | AbstractSet():
            elements, values = cast("list[object]", written), cast("_Values", given)
            if len(values) != len(elements):
                return elements
            return [with_numbers(*pair) for pair in zip(elements, values, strict=True)]
        case _:
            return written


def writable(value: object) -> object:
    """Return the value as JSON can express it: NaN and infinities become their names, lone surrogates are escaped."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case float() if not math.isfinite(value):
            return _NAMES.get(value, "NaN")
        case Mapping():
            fields = cast("Mapping[str, object]", value)
            return {cast("str", writable(key)): writable(inner) for key, inner in fields.items()}
        case list():
            return [writable(inner) for inner in cast("list[object]", value)]
        case _:
            return value


def packed(value: object) -> str:
    """Return a value as base64 text, from which `unpacked` restores it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return b64encode(text.encode("utf-8", "surrogatepass")).decode()


def unpacked(text: str) -> dict[str, object]:
    """Restore an object from the text made by `packed`."""
    written = b64decode(text).decode("utf-8", "surrogatepass")
    return cast("dict[str, object]", json.loads(written))
