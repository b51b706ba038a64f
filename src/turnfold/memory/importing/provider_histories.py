"""Histories in a provider's own format: message by message, or one conversation per value.

Both shapes occur in the wild: a log with one message per line, and a set of conversations with one request body per
line. Fields of a body that are no messages (tools, temperature) belong to a call and not to a conversation: they are
counted and told, not stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import cast

from turnfold.errors import TurnfoldError
from turnfold.memory.importing.json_stream import Value
from turnfold.memory.importing.pieces import Bad, Begin, Found, Ignored, Said
from turnfold.records import Message
from turnfold.wire import anthropic, gemini, openai_chat, openai_responses

__all__ = ("BODIES", "PROVIDERS", "provider_histories")

PROVIDERS: dict[str, ModuleType] = {
    "anthropic": anthropic,
    "gemini": gemini,
    "openai": openai_chat,
    "openai-responses": openai_responses,
}
BODIES = ("messages", "contents", "input")
"""Under which name a request body holds its history."""
_IDS = ("conversation_id", "conversation", "session_id", "thread_id", "trace_id", "custom_id", "id")
_OWN = frozenset(
    {*BODIES, *_IDS, "system", "systemInstruction", "system_instruction", "instructions", "model"}
)


def provider_histories(found: Iterator[Value | Bad], provider: str, name: str) -> Found:
    """The conversations in a stream of values; `name` is that of a conversation whose file does not say."""
    accept = PROVIDERS[provider]
    begun = False
    number = 0
    for each in found:
        if isinstance(each, Bad):
            yield each
            continue
        fields = _fields(each.value)
        if fields is None:
            kind = type(each.value).__name__
            yield Bad(each.line, f"a {kind}, neither a message nor a conversation")
        elif _is_body(fields):
            number += 1
            unnamed = name if number == 1 else f"{name}-{number}"
            yield from _conversation(accept, fields, each.line, unnamed)
            begun = False
        else:
            if not begun:
                yield Begin(name, each.line)
                begun = True
            yield _message(accept, fields, each.line)


def _fields(value: object) -> dict[str, object] | None:
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def _is_body(fields: dict[str, object]) -> bool:
    """Whether it holds a history, and is not itself a message or an item of one."""
    if "role" in fields or "call_id" in fields:
        return False
    return any(key in fields for key in BODIES)


def _conversation(accept: ModuleType, fields: dict[str, object], line: int, name: str) -> Found:
    named = (fields.get(key) for key in _IDS)
    conversation = next((value for value in named if isinstance(value, str) and value), name)
    model = fields.get("model")
    try:
        messages: list[Message] = accept.accept_all(
            fields, model=model if isinstance(model, str) else ""
        )
    except (TurnfoldError, RecursionError) as error:
        yield Bad(line, _told(error))
        return
    yield Begin(conversation, line)
    for key in fields:
        if key not in _OWN:
            yield Ignored(f"field {key}")
    for message in messages:
        yield Said(message, line)


def _message(accept: ModuleType, fields: dict[str, object], line: int) -> Said | Bad:
    try:
        return Said(accept.accept(fields), line)
    except (TurnfoldError, RecursionError) as error:
        return Bad(line, _told(error))


def _told(error: Exception) -> str:
    return "nested too deeply to be read" if isinstance(error, RecursionError) else str(error)
