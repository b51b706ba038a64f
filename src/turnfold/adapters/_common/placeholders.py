"""Checks of message parts, and texts shown in place of parts that a framework cannot represent; for all adapters."""

from __future__ import annotations

from collections.abc import Callable

from turnfold.errors import InvalidRecord
from turnfold.records import (
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    ThinkingPart,
    thaw_object,
)
from turnfold.wire import ENDING, block_text, media_note

__all__ = ("can_run", "is_valid_part", "opaque_text", "provider_file_note")


def is_valid_part(part: Part) -> bool:
    """Return True if a message may hold the part: its content passes the checks."""
    try:
        Message.of("assistant" if isinstance(part, ThinkingPart) else "user", (part,))
    except InvalidRecord:
        return False
    return True


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
