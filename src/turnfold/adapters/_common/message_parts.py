"""Parts of framework messages: checks, their exact original form, and texts for those a framework cannot represent."""

from __future__ import annotations

from collections.abc import Callable

from turnfold.errors import InvalidRecord
from turnfold.records import (
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    Origin,
    Part,
    ThinkingPart,
    ToolCall,
    ToolResult,
    freeze,
    freeze_object,
    thaw_object,
)
from turnfold.wire import (
    ENDING,
    RESTORE_FAULTS,
    JsonObject,
    block_text,
    difference,
    media_note,
    object_of,
    restored,
    unreadable_form,
)

__all__ = (
    "can_run",
    "is_valid_part",
    "opaque_text",
    "original_fields",
    "part_or_opaque",
    "provider_file_note",
    "with_original_form",
)


def is_valid_part(part: Part) -> bool:
    """Return True if a message may hold the part: its content passes the checks."""
    try:
        Message.of("assistant" if isinstance(part, ThinkingPart) else "user", (part,))
    except InvalidRecord:
        return False
    return True


def part_or_opaque(part: Part | None, item: JsonObject, provider: str) -> Part:
    """Return the part of a framework's content item; an opaque part with the item if there is none that is valid."""
    if part is not None and (isinstance(part, ToolCall | ToolResult) or is_valid_part(part)):
        return part
    return OpaquePart(freeze(item or {"": ""}, path="content"), provider)


def can_run(work: Callable[[], object]) -> bool:
    """Return True if `work` does not raise. Serializing the result of a tool may raise any exception."""
    try:
        work()
    except ENDING:
        raise
    except BaseException:
        return False
    return True


def opaque_text(part: OpaquePart) -> str:
    """Return the text of a provider's own content block; if it has no text, a note that replaces it."""
    block = thaw_object(part.json)
    return block_text(block) or f"[{block.get('type', 'block')} not shown: another provider's]"


def provider_file_note(part: ImagePart | FilePart) -> str:
    """Return the note for an image or file that is stored with its provider, where other providers cannot read it."""
    return media_note(part, "kept at its provider")


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
            raise ValueError("restoring it gives no JSON object")
    except RESTORE_FAULTS as error:
        raise unreadable_form(framework, error) from None
    return found
