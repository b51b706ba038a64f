"""Keeps JSON values as text, so that records with them are immutable, hashable and small; checks JSON and text.

Providers send objects that turnfold does not model. As dictionaries they could be changed inside an immutable message
and would take several times the memory; JSON text cannot be changed. The order of keys is kept, because some providers
sign the objects they send. Values that JSON cannot express (NaN, lone surrogates, bytes, nesting deep enough to
overflow a parser) are rejected here, with an error that names their place.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeVar, cast

import msgspec

from turnfold.errors import InvalidRecord

__all__ = (
    "MAX_DEPTH",
    "check_object",
    "check_text",
    "decode_struct",
    "freeze",
    "freeze_object",
    "object_of_pairs",
    "plain_text",
    "repeated_name",
    "thaw",
    "thaw_object",
)


MAX_DEPTH = 100
"""Most levels of nesting of a stored value: far above any real payload, far below what overflows a parser."""


def repeated_name(names: Iterable[str]) -> str | None:
    """Return the first name that was given before; None if all are different. Takes linear time."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def object_of_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object from its keys and values (`object_pairs_hook`); ValueError if a key is given twice.

    Parsers differ in which of the two values they take, so a check by one of them would not hold for another.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(
            f"the key {(repeated_name(name for name, _ in pairs) or '')[:40]!r} is given twice"
        )
    return found


def plain_text(value: object, *, path: str) -> str:
    """Return a text as a plain `str`, even if it is of a subclass; raises `InvalidRecord` if it is not a text."""
    if not isinstance(value, str):
        raise InvalidRecord(f"must be text, not {type(value).__name__}", path=path)
    return value if type(value) is str else str.__str__(value)


def check_text(text: object, *, path: str) -> str:
    """Return `text` if it is text that UTF-8 can encode; raises `InvalidRecord`, with the place of a lone surrogate."""
    if type(text) is not str:
        raise InvalidRecord(f"must be text, not {type(text).__name__}", path=path)
    _check_encodable(text, path)
    return text


def freeze(value: object, *, path: str) -> str:
    """Return the JSON text of `value`; raises `InvalidRecord` if JSON cannot express all of it."""
    _check(value, path)
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=dict)
    except ValueError as error:  # Python refuses to write an integer of more than 4,300 digits
        raise InvalidRecord(str(error), path=path, remedy="Send the number as text") from None


def freeze_object(value: object, *, path: str) -> str:
    """Return the JSON text of a mapping; "" if it is empty or None. Raises `InvalidRecord` for other values."""
    if not value:
        return ""
    if not isinstance(value, Mapping):
        raise InvalidRecord(f"must be a JSON object, not {type(value).__name__}", path=path)
    return freeze(cast("Mapping[object, object]", value), path=path)


def thaw(text: str) -> object:
    """Return the value of a text made by `freeze`: a new copy each time."""
    return cast("object", json.loads(text))


def thaw_object(text: str | None) -> dict[str, object]:
    """Return the object of a text made by `freeze_object`; an empty object for "" and None."""
    return cast("dict[str, object]", json.loads(text)) if text else {}


def check_object(text: str, *, path: str) -> dict[str, object]:
    """Parse a JSON object that this module may not have written; raises `InvalidRecord` if it is invalid or empty."""
    try:
        value = thaw(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRecord(f"not JSON: {error}", path=path) from None
    if not isinstance(value, dict) or not value:
        raise InvalidRecord(
            "must be the JSON text of an object with fields",
            path=path,
            remedy="If there are no fields, leave it empty",
        )
    fields = cast("dict[str, object]", value)
    _check(fields, path)
    return fields


class _Versioned(Protocol):
    @property
    def v(self) -> int: ...


_Struct = TypeVar("_Struct", bound=_Versioned)


def decode_struct(body: bytes, form: type[_Struct], *, name: str, path: str) -> _Struct:
    """Decode stored JSON to a struct of type `form`; raises `InvalidRecord` if it is damaged or of another version."""
    try:
        value = msgspec.json.decode(body, type=form)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InvalidRecord(f"not a {name}: {error}", path=path) from None
    if value.v != 1:
        raise InvalidRecord(
            f"the {name} has version {value.v}; this release reads version 1",
            path=path,
            remedy="Upgrade turnfold",
        )
    return value


def _check(value: object, path: str) -> None:
    pending: list[tuple[object, str, int]] = [(value, path, 0)]
    while pending:
        item, where, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise InvalidRecord(
                f"nested deeper than {MAX_DEPTH} levels",
                path=path,
                remedy="Store the value as text, or flatten it",
            )
        if isinstance(item, Mapping):
            members = cast("Mapping[object, object]", item)
            pending += ((inner, at, depth + 1) for inner, at in _members(members, where))
        elif isinstance(item, list | tuple):
            elements = enumerate(cast("list[object]", item))
            pending += ((inner, f"{where}[{index}]", depth + 1) for index, inner in elements)
        else:
            _check_leaf(item, where)


def _members(item: Mapping[object, object], path: str) -> Iterator[tuple[object, str]]:
    for key, inner in item.items():
        if not isinstance(key, str):
            raise InvalidRecord(f"object key {key!r} is {type(key).__name__}, not text", path=path)
        _check_encodable(key, path)
        yield inner, f"{path}.{key}" if path else key


def _check_leaf(item: object, path: str) -> None:
    if issubclass(type(item), str):  # isinstance trusts an object that lies about its class
        _check_encodable(cast("str", item), path)
        return
    match item:
        case bool() | int() | None:
            pass
        case float():
            if not math.isfinite(item):
                raise InvalidRecord(
                    f"{item!r} has no JSON form", path=path, remedy="Send null or a string instead"
                )
        case _:
            raise InvalidRecord(
                f"{type(item).__name__} has no JSON form",
                path=path,
                remedy="Convert it to text, numbers, lists or objects first",
            )


def _check_encodable(text: str, path: str) -> None:
    if str.isascii(text):  # the method of str itself: a subclass may have changed its own
        return
    try:
        str.encode(text, "utf-8")
    except UnicodeEncodeError as error:
        raise InvalidRecord(
            f"lone surrogate U+{ord(text[error.start]):04X} at character {error.start}",
            path=path,
            remedy="Decode the bytes with errors='replace', or replace the character, before recording the text",
        ) from None
