"""The frame all four readers share: read the meaning, write it again, keep the difference.

A reader takes what it understands out of a provider's message. Writing the result back and comparing it with the
original finds whatever was not understood, so that losing nothing does not depend on having thought of every field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.records import Message, OpaquePart, Origin, Part, ThinkingPart
from turnfold.records.json_text import freeze_object, thaw_object
from turnfold.window import Context
from turnfold.wire.ownership import Writing
from turnfold.wire.residue import difference, restored
from turnfold.wire.values import JsonObject, plain, plain_object

__all__ = ("as_items", "messages_of", "rewritten", "stamped", "with_form", "with_origin")

Write = Callable[[Message, Writing, str], object]


def stamped(parts: Iterable[Part], provider: str, model: str) -> tuple[Part, ...]:
    """The parts with who wrote the ones that only their writer understands."""
    return tuple(
        msgspec.structs.replace(part, provider=provider, model=model)
        if isinstance(part, ThinkingPart | OpaquePart)
        else part
        for part in parts
    )


def with_origin(
    message: Message, raw: object, write: Write, *, origin: Origin, envelope: JsonObject
) -> Message:
    """The message with the memory of how `raw` was written; `write` writes it as usual."""
    base = write(message, Writing(origin.provider, origin.model, own=True), "")
    form = freeze_object(difference(base, raw), path="origin.form")
    whole = freeze_object(envelope, path="origin.envelope")
    return _replaced(message, msgspec.structs.replace(origin, form=form, envelope=whole))


def with_form(message: Message, form: JsonObject) -> Message:
    """The message with another memory of how it was written."""
    if message.origin is None:
        return message
    text = freeze_object(form, path="origin.form")
    return _replaced(message, msgspec.structs.replace(message.origin, form=text))


def rewritten(message: Message, base: object, writing: Writing) -> object:
    """What was written for the message, in the form it originally had, if it may have it."""
    origin = message.origin
    if origin is None or not origin.form or not writing.owns(message):
        return base
    try:
        return restored(base, thaw_object(origin.form))
    except (
        ValueError
    ):  # the parts were changed since: their meaning stands, their old form does not
        return base


def as_items(history: object, *keys: str) -> list[object]:
    """The messages in a history: a list of them, or the arguments or the response that hold one."""
    if isinstance(history, list | tuple):
        elements = enumerate(cast("Sequence[object]", history))
        return [plain(item, f"[{index}]") for index, item in elements]
    if isinstance(history, str):
        raise InvalidRecord("text, not a history", remedy="Give a list of messages")
    found = plain_object(history)
    for key in keys:
        if key in found:
            return as_items(found[key])
    return [found]


def messages_of(context: Context | Sequence[Message]) -> Sequence[Message]:
    """The messages of a context, or the messages themselves."""
    messages = context.messages if isinstance(context, Context) else context
    for index, message in enumerate(cast("Sequence[object]", messages)):
        if not isinstance(message, Message):
            raise InvalidRecord(
                f"{type(message).__name__}, not a Message",
                path=f"messages[{index}]",
                remedy="Use accept_all(...) or as_messages(...) first",
            )
    return messages


def _replaced(message: Message, origin: Origin) -> Message:
    return Message.of(
        message.role,
        message.parts,
        name=message.name,
        extra=message.extra,
        labels=message.labels,
        origin=origin,
    )
