"""Reader of histories in a provider's format: each JSON value is a message, or a request body with a conversation.

Fields of a request body that are not messages (tools, temperature) belong to a call and not to the conversation: they
are counted and reported, not stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from turnfold import wire
from turnfold.errors import TurnfoldError
from turnfold.importers.json_stream import Fields, Value, read_fields
from turnfold.importers.reader_events import (
    ConversationStart,
    HistoryEvents,
    IgnoredItem,
    ImportedMessage,
    UnreadableItem,
)
from turnfold.records import Message

__all__ = (
    "BODIES",
    "CONVERSATION_IDS",
    "PROVIDERS",
    "provider_histories",
)


PROVIDERS: dict[str, ModuleType] = {
    "anthropic": wire.anthropic,
    "gemini": wire.gemini,
    "openai": wire.openai_chat,
    "openai-responses": wire.openai_responses,
}
BODIES = ("messages", "contents", "input")
"""Fields of a request body that may hold the messages."""
CONVERSATION_IDS = (
    "conversation_id",
    "conversation",
    "session_id",
    "thread_id",
    "trace_id",
    "custom_id",
    "id",
)
"""Fields that may have the id of the conversation; the first one present is used."""
_KNOWN_FIELDS = frozenset(
    {
        *BODIES,
        *CONVERSATION_IDS,
        "system",
        "systemInstruction",
        "system_instruction",
        "instructions",
        "model",
    }
)


def provider_histories(
    found: Iterator[Value | UnreadableItem], provider: str, name: str
) -> HistoryEvents:
    """Yield the conversations in a provider's messages or request bodies; `name` is the id of those without an id."""
    accept = PROVIDERS[provider]
    is_started = False
    number = 0
    for each in found:
        if isinstance(each, UnreadableItem):
            yield each
            continue
        fields = read_fields(each.value)
        if not isinstance(each.value, dict):
            kind = type(each.value).__name__
            yield UnreadableItem(each.line, f"expected a message or a conversation, got {kind}")
        elif _is_body(fields):
            number += 1
            unnamed = name if number == 1 else f"{name}-{number}"
            yield from _conversation(accept, fields, each.line, unnamed)
            is_started = False
        else:
            if not is_started:
                yield ConversationStart(name, each.line)
                is_started = True
            yield _message(accept, fields, each.line)


def _is_body(fields: Fields) -> bool:
    """Return True for a request body with a list of messages, False for a single message or item."""
    if "role" in fields or "call_id" in fields:
        return False
    return any(key in fields for key in BODIES)


def _conversation(accept: ModuleType, fields: Fields, line: int, name: str) -> HistoryEvents:
    named = (fields.get(key) for key in CONVERSATION_IDS)
    conversation = next((value for value in named if isinstance(value, str) and value), name)
    model = fields.get("model")
    try:
        messages: list[Message] = accept.accept_all(
            fields, model=model if isinstance(model, str) else ""
        )
    except (TurnfoldError, RecursionError) as error:
        yield UnreadableItem(line, _problem(error))
        return
    yield ConversationStart(conversation, line)
    for key in fields:
        if key not in _KNOWN_FIELDS:
            yield IgnoredItem(f"field {key}")
    for message in messages:
        yield ImportedMessage(message, line)


def _message(accept: ModuleType, fields: Fields, line: int) -> ImportedMessage | UnreadableItem:
    try:
        return ImportedMessage(accept.accept(fields), line)
    except (TurnfoldError, RecursionError) as error:
        return UnreadableItem(line, _problem(error))


def _problem(error: Exception) -> str:
    return "nested too deeply to be read" if isinstance(error, RecursionError) else str(error)
