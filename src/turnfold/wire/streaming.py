"""The JSON body of a request as bytes, piece by piece.

A long context is serialised on every call. Built as one text and then encoded, it exists three times at once; written
in pieces, the extra memory is that of one piece. The pieces joined are exactly the compact JSON that `json.dumps`
would have made, so signatures, sizes and caches see the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import cast

from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.records.json_text import MAX_DEPTH

__all__ = ("body_bytes", "chunks")

_SLICE = 4096
"""Characters of a text encoded at a time: at most six bytes each."""


def chunks(payload: object, *, size: int = 65536) -> Iterator[bytes]:
    """The compact JSON of `payload`, UTF-8, in pieces of `size` bytes; the last may be shorter."""
    if size < 1:
        raise InvalidOption(f"size is {size}: a piece holds at least one byte")
    return _sized(_encoded(payload), size)


def body_bytes(payload: object) -> int:
    """How many bytes the compact JSON of `payload` has, without building it."""
    return sum(map(len, _encoded(payload)))


def _sized(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    buffer = bytearray()
    for piece in pieces:
        buffer += piece
        while len(buffer) >= size:
            yield bytes(buffer[:size])
            del buffer[:size]
    if buffer:
        yield bytes(buffer)


def _encoded(payload: object) -> Iterator[bytes]:
    return (piece.encode("utf-8") for piece in _texts(payload, "", 0))


def _texts(value: object, path: str, depth: int) -> Iterator[str]:
    if depth > MAX_DEPTH:
        raise InvalidRecord(f"nested deeper than {MAX_DEPTH} levels", path=path)
    if isinstance(value, str):
        yield from _text(value, path)
    elif isinstance(value, Mapping):
        yield from _members(cast("Mapping[object, object]", value), path, depth)
    elif isinstance(value, list | tuple):
        opening = "["
        for index, item in enumerate(cast("list[object]", value)):
            yield opening
            yield from _texts(item, f"{path}[{index}]", depth + 1)
            opening = ","
        yield "]" if opening == "," else "[]"
    else:
        yield _leaf(value, path)


def _members(fields: Mapping[object, object], path: str, depth: int) -> Iterator[str]:
    opening = "{"
    for key, item in fields.items():
        if not isinstance(key, str):
            raise InvalidRecord(f"object key {key!r} is {type(key).__name__}, not text", path=path)
        yield opening
        yield from _text(key, path)
        yield ":"
        yield from _texts(item, f"{path}.{key}" if path else key, depth + 1)
        opening = ","
    yield "}" if opening == "," else "{}"


def _text(text: str, path: str) -> Iterator[str]:
    """A text in quotes. Escapes are made character by character, so a text may be cut between any two."""
    try:
        if len(text) <= _SLICE:
            yield _checked(json.dumps(text, ensure_ascii=False))
            return
        yield '"'
        for start in range(0, len(text), _SLICE):
            yield _checked(json.dumps(text[start : start + _SLICE], ensure_ascii=False)[1:-1])
        yield '"'
    except UnicodeEncodeError as error:
        raise InvalidRecord(f"lone surrogate near character {error.start}", path=path) from None


def _checked(encoded: str) -> str:
    if not encoded.isascii():
        encoded.encode("utf-8")
    return encoded


def _leaf(value: object, path: str) -> str:
    if value is not None and not isinstance(value, bool | int | float):
        raise InvalidRecord(f"{type(value).__name__} has no JSON form", path=path)
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError as error:
        raise InvalidRecord(str(error), path=path) from None
