"""The four formats by name, and what two histories must have in common to say the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from turnfold.records import Message, TextPart, ToolResult
from turnfold.wire import anthropic, gemini, openai_chat, openai_responses

__all__ = ("FORMATS", "KEYS", "calls_and_results", "canonical", "spoken")

FORMATS: dict[str, Any] = {
    "anthropic": anthropic,
    "gemini": gemini,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
}
KEYS = {
    "anthropic": "messages",
    "gemini": "contents",
    "openai_chat": "messages",
    "openai_responses": "input",
}


def canonical(value: Any) -> str:
    """JSON in which only the order of keys does not count."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)


def spoken(messages: Sequence[Message]) -> list[str]:
    """Every text somebody said, in order, those of tool results included."""
    found: list[str] = []
    for message in messages:
        for part in message.parts:
            inner = part.content if isinstance(part, ToolResult) else (part,)
            found += [
                each.text for each in inner if isinstance(each, TextPart) and each.text.strip()
            ]
    return found


def calls_and_results(messages: Sequence[Message]) -> list[tuple[str, int]]:
    """The name of every call, and how many results stand behind it before the next message that is none."""
    found: list[tuple[str, int]] = []
    for index, message in enumerate(messages):
        answers: list[str] = []
        for follower in messages[index + 1 :]:
            if follower.role != "tool":
                break
            answers += [result.call_id for result in follower.results]
        found += [(call.name, answers.count(call.id)) for call in message.calls]
    return found
