"""The fields of whatever carries them: a dictionary, an SDK's model, a data class, any object with attributes.

SDKs and frameworks each have their own message and block classes. What they share is the names of the fields, so
those are read, wherever a class keeps them, and nothing else of the class matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from turnfold.errors import InvalidRecord

__all__ = ("as_fields",)


def as_fields(value: object, path: str = "") -> dict[str, object]:
    """The fields of a mapping, or of an object that carries them as attributes, as a new dictionary."""
    if isinstance(value, Mapping):
        fields = dict(cast("Mapping[str, object]", value))
    else:
        found = _dumped(value) or _attributes(value)
        # An object spells out every field it could have; the ones left empty say nothing.
        fields = {key: item for key, item in found.items() if item is not None and key[:1] != "_"}
        if not fields:
            raise InvalidRecord(
                f"{type(value).__name__} carries no fields", path=path, remedy="Give a dictionary"
            )
    for key in cast("Iterable[object]", fields):
        if not isinstance(key, str):
            raise InvalidRecord(f"field name {key!r} is {type(key).__name__}, not text", path=path)
    return fields


def _dumped(value: object) -> Mapping[str, object] | None:
    """What a Pydantic model says of itself."""
    dump = getattr(value, "model_dump", None)
    found = dump() if callable(dump) and not isinstance(value, type) else None
    return cast("Mapping[str, object]", found) if isinstance(found, Mapping) else None


def _attributes(value: object) -> dict[str, object]:
    kind = type(value)
    names = [name for base in reversed(kind.__mro__) for name in _slots(base)]
    found: dict[str, object] = {name: getattr(value, name, None) for name in names}
    found.update(getattr(value, "__dict__", {}))
    config = getattr(kind, "__struct_config__", None)
    if config is not None and config.tag_field:  # a msgspec struct names its type in its class
        found[config.tag_field] = config.tag
    for name in _written_on_the_class(value, found):
        if found.get(name) is None:
            found[name] = getattr(value, name, None)
    return found


def _slots(base: type) -> Iterable[str]:
    names: object = base.__dict__.get("__slots__", ())
    return (names,) if isinstance(names, str) else cast("Iterable[str]", names)


def _written_on_the_class(value: object, found: dict[str, object]) -> tuple[str, ...]:
    """Fields every instance shares, or computes, stand on the class: the role, the type and what the type speaks of."""
    if getattr(value, "role", None) is not None:
        return ("role", "content")
    kind = found.get("type") or getattr(value, "type", None)
    if not isinstance(kind, str):
        return ()
    return ("type", "text" if kind.endswith("text") else kind)
