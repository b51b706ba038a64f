"""What is left of a wire message when its meaning is taken out.

A message is read into parts and can be written again from them. Where the original was written differently (content
as text or as a list of one block, an id beside a call, a field nobody models), only the difference is kept, so the
original can be restored to the last field without storing everything twice. The text of a message is in its parts:
the two usual ways to write a single text differ by a mark, not by a copy.

A residue is an object with one or more of:

    {"=": value}            written as this value instead
    {"text": true}          written as the bare text of the only block
    {"wrap": {fields}}      written as a list of one block with these fields beside its text
    {"at": {key: residue}}  differs under these keys, or at these indexes of a list
    {"add": {key: value}}   has these fields too
    {"del": [keys]}         lacks these fields
"""

from __future__ import annotations

from typing import Final, cast

from turnfold.errors import InvalidRecord
from turnfold.wire.values import JsonObject, list_at, list_of, object_at, object_of

__all__ = ("RESTORE_FAULTS", "difference", "restored", "unreadable_form")

RESTORE_FAULTS: Final = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    StopIteration,
    RecursionError,
)
"""What a framework or Python raises over a stored form that nobody of ours wrote."""


def unreadable_form(framework: str, error: BaseException) -> InvalidRecord:
    """The fault of a record whose form does not lead back to a message of the framework that it names."""
    if isinstance(error, InvalidRecord):
        return error
    told = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return InvalidRecord(
        f"the form stored beside a message is none of {framework}: {told}",
        path="origin.form",
        remedy="It was damaged or forged; the parts of the message can still be read with session.history()",
    )


def difference(base: object, raw: object) -> JsonObject:
    """What turns `base` into `raw`; empty when they are the same."""
    if _same(base, raw):
        return {}
    if isinstance(raw, str) and _only_text(base) == raw:
        return {"text": True}
    if isinstance(base, str):
        block = _only_block(raw)
        if block.get("text") == base:
            return {"wrap": {key: value for key, value in block.items() if key != "text"}}
    ours, theirs = object_of(base), object_of(raw)
    if ours is not None and theirs is not None:
        return _object_difference(ours, theirs)
    mine, other = list_of(base), list_of(raw)
    if mine is not None and other is not None and len(mine) == len(other):
        pairs = enumerate(zip(mine, other, strict=True))
        found = {str(index): difference(a, b) for index, (a, b) in pairs}
        return {"at": {index: residue for index, residue in found.items() if residue}}
    return {"=": raw}


def restored(base: object, residue: JsonObject) -> object:
    """The value that `residue` was taken from; ValueError when it does not fit `base`."""
    if not residue:
        return base
    if "=" in residue:
        return residue["="]
    if "text" in residue:
        text = _only_text(base)
        if text is None:
            raise ValueError("no single text to unwrap")
        return text
    if "wrap" in residue:
        return [{**object_at(residue, "wrap"), "text": base}]
    mine = list_of(base)
    if mine is not None:
        return _restored_list(mine, object_at(residue, "at"))
    ours = object_of(base)
    if ours is None:
        raise ValueError("neither list nor object")
    inner = object_at(residue, "at")
    if not inner.keys() <= ours.keys():
        raise ValueError("a field is not there")
    gone = list_at(residue, "del")
    kept = {
        key: restored(value, object_at(inner, key)) if key in inner else value
        for key, value in ours.items()
        if key not in gone
    }
    return {**kept, **object_at(residue, "add")}


def _object_difference(base: JsonObject, raw: JsonObject) -> JsonObject:
    inner = {key: difference(base[key], raw[key]) for key in base if key in raw}
    found: JsonObject = {
        "at": {key: residue for key, residue in inner.items() if residue},
        "add": {key: value for key, value in raw.items() if key not in base},
        "del": [key for key in base if key not in raw],
    }
    return {key: value for key, value in found.items() if value}


def _restored_list(base: list[object], inner: JsonObject) -> list[object]:
    result = list(base)
    for key in inner:
        index = int(key)
        if index >= len(result):
            raise ValueError("an element is not there")
        result[index] = restored(result[index], object_at(inner, key))
    return result


def _same(one: object, other: object) -> bool:
    """Equal as JSON: Python takes 1, 1.0 and True for the same."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        ours, theirs = cast("JsonObject", one), cast("JsonObject", other)
        return ours.keys() == theirs.keys() and all(_same(ours[key], theirs[key]) for key in ours)
    if isinstance(one, list):
        mine, others = cast("list[object]", one), cast("list[object]", other)
        return len(mine) == len(others) and all(map(_same, mine, others))
    return one == other


def _only_block(value: object) -> JsonObject:
    blocks = list_of(value)
    return (object_of(blocks[0]) or {}) if blocks is not None and len(blocks) == 1 else {}


def _only_text(value: object) -> object:
    """The text of the only block in a list, or in the parts of an object."""
    fields = object_of(value)
    return _only_block(fields.get("parts") if fields is not None else value).get("text")
