"""Whose format a history is in, by what only that provider writes.

For files whose writer is not known: a list of messages, or the arguments of a call.
"""

from __future__ import annotations

from typing import cast

from turnfold.wire.values import JsonObject

__all__ = ("guess_provider",)


def guess_provider(payload: object) -> str:
    """Whose format a payload is in; OpenAI's chat format where nothing tells."""
    if isinstance(payload, dict):
        fields = cast("JsonObject", payload)
        if "contents" in fields:
            return "gemini"
        if "input" in fields:
            return "openai_responses"
        if "system" in fields:
            return "anthropic"
        payload = fields.get("messages", ())
    items = cast("list[object]", payload) if isinstance(payload, list) else []
    kinds = {str(item.get("type", "")) for item in _objects(items)}
    if kinds & {"function_call", "function_call_output", "reasoning", "message"}:
        return "openai_responses"
    if any("parts" in item for item in _objects(items)):
        return "gemini"
    blocks = [b for item in _objects(items) for b in _objects(item.get("content"))]
    if {str(block.get("type", "")) for block in blocks} & {"tool_use", "tool_result", "thinking"}:
        return "anthropic"
    return "openai_chat"


def _objects(value: object) -> list[JsonObject]:
    if not isinstance(value, list):
        return []
    found = cast("list[object]", value)
    return [cast("JsonObject", item) for item in found if isinstance(item, dict)]
