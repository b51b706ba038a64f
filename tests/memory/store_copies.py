"""Memory stores as values: copied, compared, told apart, so that what they hold can be remembered and returned to."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import cast

from turnfold.errors import TurnfoldError
from turnfold.records import Message, encode_message
from turnfold.stores import MemoryStore

__all__ = ("content", "copied", "fingerprint")


def fingerprint(value: object) -> Hashable:
    """What tells two arguments, outcomes or contents of a store apart."""
    if isinstance(value, Message):
        return encode_message(value)
    if isinstance(value, TurnfoldError):
        return type(value).__name__, str(value)
    if isinstance(value, list | tuple):
        return tuple(fingerprint(one) for one in cast("Sequence[object]", value))
    if is_dataclass(value) and not isinstance(value, type):
        return tuple(fingerprint(getattr(value, each.name)) for each in fields(value))
    return cast("Hashable", value)


def copied(store: MemoryStore) -> MemoryStore:
    """The same content, on its own."""
    other = type(store)(counter=store._counter, clock=store._clock)
    other._conversations = {
        name: replace(
            held,
            rows=list(held.rows),
            by_id=dict(held.by_id),
            checkpoints=list(held.checkpoints),
            documents=dict(held.documents),
        )
        for name, held in store._conversations.items()
    }
    return other


def content(store: MemoryStore) -> Hashable:
    """What tells two stores apart."""
    return tuple(
        (
            name,
            (held.head, held.deleted, held.dropped),
            tuple((row.client_id, row.body) for row in held.rows),
            tuple(map(fingerprint, held.checkpoints)),
            tuple(sorted((place, fingerprint(each)) for place, each in held.documents.items())),
        )
        for name, held in sorted(store._conversations.items())
    )
