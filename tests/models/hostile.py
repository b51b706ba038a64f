"""Answers no provider should give, in each provider's form: bodies to be sent as they are."""

from __future__ import annotations

import json
from typing import Any

from tests.models.strict_server import Raw

__all__ = ("EMPTY", "USAGES", "calls_body", "raw")

Body = dict[str, Any]


def raw(body: Body, *, status: int = 200) -> Raw:
    """A body as the server sends it."""
    return Raw(json.dumps(body).encode(), media="application/json", status=status)


def answer(provider: str, content: Any, *, stop: str = "", **more: Any) -> Body:
    """A whole answer around what it says."""
    if provider == "openai_chat":
        choice = {"index": 0, "message": content, "finish_reason": stop or "stop"}
        return {
            "id": "1",
            "object": "chat.completion",
            "model": "model-1",
            "choices": [choice],
        } | more
    if provider == "openai_responses":
        shell = {"id": "1", "object": "response", "model": "model-1", "status": "completed"}
        return shell | {"output": content} | more
    shell = {"id": "1", "type": "message", "role": "assistant", "model": "model-1"}
    return shell | {"content": content, "stop_reason": stop or "end_turn"} | more


def calls_body(provider: str, calls: list[tuple[str, str, Any]], **more: Any) -> Body:
    """An answer that makes these calls: (id, tool, arguments as the server writes them)."""
    if provider == "openai_chat":
        made = [
            {"id": at, "type": "function", "function": {"name": name, "arguments": given}}
            for at, name, given in calls
        ]
        content: Any = {"role": "assistant", "content": None, "tool_calls": made}
    elif provider == "openai_responses":
        content = [
            {"type": "function_call", "call_id": at, "name": name, "arguments": given}
            for at, name, given in calls
        ]
    else:
        content = [
            {"type": "tool_use", "id": at, "name": name, "input": given}
            for at, name, given in calls
        ]
    return answer(provider, content, stop="tool_calls", **more)


EMPTY: dict[str, list[Body]] = {
    "openai_chat": [
        answer("openai_chat", {"role": "assistant", "content": None}),
        answer("openai_chat", {"role": "assistant", "content": ""}),
        answer("openai_chat", {"role": "assistant", "content": "", "tool_calls": []}),
        answer("openai_chat", {"role": "assistant"}),
    ],
    "openai_responses": [
        answer("openai_responses", []),
        answer("openai_responses", [{"type": "message", "role": "assistant", "content": []}]),
    ],
    "anthropic": [
        answer("anthropic", []),
        answer("anthropic", [{"type": "text", "text": ""}]),
    ],
}
USAGES: list[Any] = [None, {}, "much", {"prompt_tokens": "many", "input_tokens": -3}, [1, 2]]
