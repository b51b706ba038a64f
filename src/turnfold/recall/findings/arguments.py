"""When two calls are the same call.

A result may only stand for a call that asks exactly the same, so arguments are compared as what they say, not as they
are spelled, and whatever is in doubt counts as different: that costs one more call, the other mistake a wrong answer.

- The order of keys, white space and escapes do not matter.
- Numbers are compared by value, as JSON schemas do: 1, 1.0 and 1e0 are the same, 1 and true are not, nor 1 and "1".
  Whole numbers keep all their digits.
- Text is compared character by character: no case folding and no Unicode normalisation, because a tool may well look up
  a file under the one spelling and not under the other.
- A name that is missing differs from one that is null. No arguments at all are the empty object.
- A name that occurs twice, NaN, infinities and lone surrogates have no single meaning and are refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import NoReturn, cast

from turnfold.errors import InvalidRecord
from turnfold.records.json_text import MAX_DEPTH, freeze, thaw

__all__ = ("canonical_arguments",)

_EXACT = 2.0**53
"""Whole numbers of a float beyond this may stand for another one."""


def canonical_arguments(arguments: str | Mapping[str, object] | None) -> str:
    """The one JSON text of a call's arguments; they come as JSON text or as a mapping."""
    if not arguments or (isinstance(arguments, str) and not arguments.strip()):
        return "{}"
    given = _parsed(arguments) if isinstance(arguments, str) else _copied(arguments)
    if not isinstance(given, dict):
        raise InvalidRecord(
            f"arguments that are a JSON {type(given).__name__}, not an object", path="arguments"
        )
    sound = _same_form(cast("object", given), 0)
    return json.dumps(sound, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _parsed(text: str) -> object:
    try:
        value = cast("object", json.loads(text, object_pairs_hook=_once, parse_constant=_no_number))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidRecord):
            raise
        raise InvalidRecord(f"not JSON: {error}", path="arguments") from None
    freeze(value, path="arguments")  # depth, surrogates, numbers without end
    return value


def _copied(arguments: Mapping[str, object]) -> object:
    return thaw(freeze(arguments, path="arguments"))


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise InvalidRecord(f"the name {name!r} occurs twice", path="arguments")
        found[name] = value
    return found


def _no_number(name: str) -> NoReturn:
    raise InvalidRecord(f"{name} is no JSON number", path="arguments")


def _same_form(value: object, depth: int) -> object:
    """The value with numbers that are equal written alike."""
    if depth > MAX_DEPTH:
        raise InvalidRecord(f"nested deeper than {MAX_DEPTH} levels", path="arguments")
    if isinstance(value, float):
        whole = math.isfinite(value) and value.is_integer() and abs(value) <= _EXACT
        return int(value) if whole else value
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return {name: _same_form(member, depth + 1) for name, member in members.items()}
    if isinstance(value, list):
        return [_same_form(member, depth + 1) for member in cast("list[object]", value)]
    return value
