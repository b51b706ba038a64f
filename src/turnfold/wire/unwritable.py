"""What a framework's message may hold and JSON in UTF-8 cannot: NaN, infinities, half a surrogate pair.

A model's log probabilities are infinite, a tool reads bytes of another encoding, a model is cut off in the middle of an
emoji. None of that is a reason to stop a run, or to keep less than was said. The record of such a message says the same
in characters that every store and provider takes; the message itself is kept beside it, byte for byte.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias, cast

__all__ = ("packed", "unpacked", "with_numbers", "writable")

_Values: TypeAlias = "list[object] | tuple[object, ...] | AbstractSet[object]"
_NAMES: Final = {math.inf: "Infinity", -math.inf: "-Infinity"}


def with_numbers(written: object, given: object) -> object:
    """A value as pydantic writes it for JSON, but with the numbers for which it writes null."""
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
    """The same in what JSON can carry: numbers without a form by their names, half a pair as it is escaped."""
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
    """A value in plain letters, from which `unpacked` makes it again."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return b64encode(text.encode("utf-8", "surrogatepass")).decode()


def unpacked(text: str) -> dict[str, object]:
    """The object that was packed."""
    written = b64decode(text).decode("utf-8", "surrogatepass")
    return cast("dict[str, object]", json.loads(written))
