"""JSON values of unknown make, read without trusting them.

Histories and responses come as dictionaries or as objects of three SDKs, and payloads to be judged may hold anything
at all. Everything in this folder looks at such values through these few functions.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import TypeAlias, cast

from turnfold.errors import InvalidRecord
from turnfold.records.attributes import as_fields
from turnfold.records.json_text import MAX_DEPTH, freeze

__all__ = (
    "JsonObject",
    "list_at",
    "list_of",
    "object_at",
    "object_of",
    "plain",
    "plain_object",
    "shown",
    "text_at",
    "texts_in",
)

JsonObject: TypeAlias = dict[str, object]


def object_of(value: object) -> JsonObject | None:
    """The value if it is an object."""
    return cast("JsonObject", value) if isinstance(value, dict) else None


def list_of(value: object) -> list[object] | None:
    """The value if it is a list."""
    return cast("list[object]", value) if isinstance(value, list) else None


def object_at(fields: JsonObject, key: str) -> JsonObject:
    """The object under a key; an empty one if there is none."""
    return object_of(fields.get(key)) or {}


def list_at(fields: JsonObject, key: str) -> list[object]:
    """The list under a key; an empty one if there is none."""
    return list_of(fields.get(key)) or []


def text_at(fields: JsonObject, key: str) -> str:
    """The text under a key; an empty one if there is none."""
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def texts_in(value: object) -> list[str]:
    """Every text inside a value, keys left out."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = list(cast("JsonObject", value).values())
    if isinstance(value, list):
        return [text for inner in cast("list[object]", value) for text in texts_in(inner)]
    return []


def shown(value: object) -> str:
    """A value as text, to say what was left out."""
    return value if isinstance(value, str) else freeze(value, path="")


def plain(value: object, path: str = "", depth: int = 0) -> object:
    """A copy of `value` as JSON values; SDK objects become what they were read from."""
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
    """`plain` for what must be an object."""
    found = object_of(plain(value, path))
    if found is None:
        raise InvalidRecord(
            f"{type(value).__name__}, not a message", path=path, remedy="Give a dictionary"
        )
    return found


def _dumped(value: object, path: str) -> Mapping[str, object]:
    """What a Pydantic model was read from: the fields that were set, under the names the provider gave them."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        try:
            found = dump(mode="json", by_alias=True, exclude_unset=True)
        except TypeError:  # not Pydantic's: takes no options
            found = dump()
        if isinstance(found, Mapping):
            return cast("Mapping[str, object]", found)
    return as_fields(value, path)
