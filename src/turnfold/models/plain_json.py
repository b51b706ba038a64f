"""JSON objects as the SDKs' answers are read here: plain dictionaries, whatever classes the SDK has this month."""

from __future__ import annotations

from typing import TypeAlias, cast

__all__ = ("Json", "in_order", "items_at", "object_at", "without_nulls", "word_at")

Json: TypeAlias = dict[str, object]


def object_at(fields: Json, key: str) -> Json:
    """The object under a key; an empty one where there is none."""
    value = fields.get(key)
    return cast("Json", value) if isinstance(value, dict) else {}


def items_at(fields: Json, key: str) -> list[Json]:
    """The objects in the list under a key."""
    value = fields.get(key)
    found = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Json", item) for item in found if isinstance(item, dict)]


def word_at(fields: Json, key: str) -> str:
    """The text under a key; empty where there is none."""
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def without_nulls(fields: Json) -> Json:
    """The fields that say something."""
    return {key: value for key, value in fields.items() if value is not None}


def in_order(fields: Json) -> Json:
    """The same fields sorted by name, all the way down to the lists: equal objects are then equal texts too."""
    return {
        key: in_order(cast("Json", value)) if isinstance(value, dict) else value
        for key, value in sorted(fields.items())
    }
