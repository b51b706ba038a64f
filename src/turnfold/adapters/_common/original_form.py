"""Stores the exact form of a framework's message with its record, as the difference from the form the record restores.

A record holds the content that turnfold counts, searches and shortens. An adapter writes the fields of a message for a
record; what the original had besides (ids, marks, another spelling of the same content) is stored as the form of the
record. A record that turnfold shortened has no form, and is written without it.
"""

from __future__ import annotations

from turnfold.records import Message, Origin, freeze_object, thaw_object
from turnfold.wire import (
    RESTORE_FAULTS,
    JsonObject,
    difference,
    object_of,
    restored,
    unreadable_form,
)

__all__ = ("original_fields", "with_original_form")


def with_original_form(
    record: Message, written: JsonObject, fields: JsonObject, *, provider: str
) -> Message:
    """Return the record (stored message) with the data that restores the framework's original message from it.

    `written` are the fields that the adapter writes for the record.
    """
    form = freeze_object(difference(written, fields), path="form")
    origin = Origin(provider, form=form)
    return Message.of(record.role, record.parts, name=record.name, origin=origin)


def original_fields(
    record: Message, written: JsonObject, *, provider: str, framework: str
) -> JsonObject:
    """Return the fields of the framework's message that was stored; `written` if its original form is not stored."""
    origin = record.origin
    if origin is None or origin.provider != provider or not origin.form:
        return written
    try:
        found = object_of(restored(written, thaw_object(origin.form)))
        if found is None:
            raise ValueError(
                "the original message cannot be restored from its stored form: the result is not a JSON object"
            )
    except RESTORE_FAULTS as error:
        raise unreadable_form(framework, error) from None
    return found
