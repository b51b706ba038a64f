"""What a caller says as entries to append: one message or several, in any shape, each under its client id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from turnfold.records import Message, NewEntry, as_message, as_messages

__all__ = ("entries_of",)


def entries_of(messages: object, client_id: str) -> list[NewEntry]:
    """One message or several, each under its client id; entries that bring their own are taken as they are."""
    if isinstance(messages, Message):  # what nearly every call brings
        return [NewEntry(messages, client_id)]
    if isinstance(messages, list | tuple) and messages:
        given = cast("Sequence[object]", messages)
        if all(isinstance(one, NewEntry) for one in given):
            return list(cast("Sequence[NewEntry]", given))
    said = _said(cast("object", messages))
    numbered = client_id and len(said) > 1
    return [
        NewEntry(message, f"{client_id}.{at}" if numbered else client_id)
        for at, message in enumerate(said, 1)
    ]


def _said(messages: object) -> list[Message]:
    if isinstance(messages, str | Mapping) or not isinstance(messages, Iterable):
        return [as_message(cast("object", messages))]
    return as_messages(cast("Iterable[object]", messages))
