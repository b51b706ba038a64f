"""Recognises messages by their content, and finds a history in a log.

Clients and frameworks send the same message again with other ids, times and metadata, so messages are compared by a
digest of their content.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b

from turnfold.records.entries import encode_message
from turnfold.records.messages import Message
from turnfold.records.parts import (
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
)

__all__ = ("content_key", "longest_overlap", "message_digest")


def message_digest(message: Message, *, size: int) -> bytes:
    """Return a digest, of `size` bytes, of a message as it is stored, without its place in the log."""
    return blake2b(encode_message(message), digest_size=size).digest()


def content_key(message: Message) -> str:
    """Return a digest that is equal for messages of the same content: role, text, tool calls, results and media.

    Thinking, provider blocks and metadata do not count.
    """
    found: list[object] = [message.role]
    text: list[str] = []
    for part in message.parts:
        match part:
            case TextPart():
                text.append(part.text)
            case ThinkingPart() | OpaquePart():
                pass
            case ToolCall():
                found.append(["call", part.id, part.name, _canonical(part.arguments)])
            case ToolResult():
                found.append(["result", part.call_id, *map(_part_key, part.content)])
            case _:
                found.append(_part_key(part))
    found.append("".join(text))
    if len(found) == 2 and not text:  # only thinking and blocks of a provider
        found += map(_part_key, message.parts)
    return blake2b(json.dumps(found).encode(), digest_size=16).hexdigest()


def longest_overlap(log: Sequence[str], given: Sequence[str]) -> tuple[int, int]:
    """Return (start, length) of the longest run of the log that `given` begins with.

    If several are equally long, the newest is returned.
    """
    best = len(log), 0
    for start in reversed(range(len(log))):
        length = 0
        for old, new in zip(log[start:], given, strict=False):
            if old != new:
                break
            length += 1
        if length > best[1]:
            best = start, length
    return best


def _part_key(part: Part) -> str:
    if isinstance(part, TextPart):
        return part.text
    role = "assistant" if isinstance(part, ThinkingPart) else "user"
    return encode_message(Message.of(role, (part,))).decode()


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
