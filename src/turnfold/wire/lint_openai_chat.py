"""What OpenAI's Chat Completions refuses, found in a payload before it is sent."""

from __future__ import annotations

import re

from turnfold.wire.rules import Faults, Listing, id_rule
from turnfold.wire.values import JsonObject, list_at, list_of, object_at, object_of, text_at

__all__ = ("AUTHOR", "OTHER_FORMATS", "lint_openai_chat")

AUTHOR = re.compile(r"[^\s<|\\/>]{1,64}")
"""What an author's name may look like."""
OTHER_FORMATS = frozenset(
    "tool_use tool_result thinking redacted_thinking image document input_text output_text input_image "
    "input_file".split()
)
"""Blocks of other providers. Any further type may be one that a compatible server knows."""
_IDS = id_rule("openai_chat")
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_MEDIA = {"image_url": ("url",), "input_audio": ("data", "format")}


def lint_openai_chat(listing: Listing, faults: Faults) -> None:
    """Every fault of a payload."""
    if listing.items is None:
        faults.add("shape", "messages", "not a list")
        return
    if not listing.items:
        faults.add("some-message", "messages", "empty")
    waiting: list[str] = []
    asked = ""
    for index, item in enumerate(listing.items):
        path = f"messages[{index}]"
        message = object_of(item)
        if message is None:
            faults.add("shape", path, "not an object")
            continue
        _message(message, path, faults)
        if message.get("role") == "tool":
            call_id = message.get("tool_call_id")
            if isinstance(call_id, str) and call_id in waiting:
                waiting.remove(call_id)
            else:
                faults.add("result-called", path, f"result for {call_id!r} without its call")
            continue
        _unanswered(waiting, asked, faults)
        waiting, asked = _called(message), path
        if len(set(waiting)) < len(waiting):
            faults.add("call-unique", path, "two calls with one id")
    _unanswered(waiting, asked, faults)


def _called(message: JsonObject) -> list[str]:
    if message.get("role") != "assistant":
        return []
    calls = (object_of(call) or {} for call in list_at(message, "tool_calls"))
    return [text_at(call, "id") for call in calls]


def _unanswered(waiting: list[str], path: str, faults: Faults) -> None:
    for call_id in waiting:
        faults.add("call-answered", path, f"no result for {call_id!r} behind it")


def _message(message: JsonObject, path: str, faults: Faults) -> None:
    role = message.get("role")
    if role not in _ROLES:
        faults.add("role", path, f"role {role!r}")
    name = message.get("name")
    if name is not None and (not isinstance(name, str) or AUTHOR.fullmatch(name) is None):
        faults.add("name", path, f"name {name!r}")
    if role == "function" and not text_at(message, "name"):
        faults.add("name", path, "the result of a function without its name")
    _content(message, path, faults)
    if message.get("tool_calls") is not None:
        calls = list_of(message["tool_calls"])
        if role != "assistant" or calls is None:
            faults.add("shape", path, "tool_calls is the assistant's, and a list")
        elif not calls:
            faults.add("empty-calls", path, "an empty list of calls")
        for index, call in enumerate(calls or []):
            _call(object_of(call) or {}, f"{path}.tool_calls[{index}]", faults)


def _content(message: JsonObject, path: str, faults: Faults) -> None:
    content, role = message.get("content"), message.get("role")
    if content is None:
        said = ("tool_calls", "function_call", "refusal", "audio")
        if role != "assistant" or not any(message.get(key) for key in said):
            faults.add("empty-content", path, "nothing is said")
        return
    if isinstance(content, str):
        return
    blocks = list_of(content)
    if blocks is None:
        faults.add("shape", path, "content is neither text nor a list")
        return
    if not blocks:
        faults.add("empty-content", path, "an empty list")
    for index, value in enumerate(blocks):
        _block(object_of(value) or {}, role, f"{path}.content[{index}]", faults)


def _block(block: JsonObject, role: object, path: str, faults: Faults) -> None:
    kind = text_at(block, "type")
    if kind in ("text", "refusal"):
        if not isinstance(block.get(kind), str) or (kind == "refusal" and role != "assistant"):
            faults.add("shape", path, f"a {kind} block without text, or not the assistant's")
    elif kind in ("image_url", "input_audio", "file"):
        if role != "user":
            faults.add("media-place", path, f"{kind} in a message of the {role}")
        _source(block, kind, path, faults)
    elif not kind or kind in OTHER_FORMATS:
        faults.add("shape", path, f"a block of type {block.get('type')!r}")


def _source(block: JsonObject, kind: str, path: str, faults: Faults) -> None:
    inner = object_at(block, kind)
    if kind == "file":
        sound = bool(text_at(inner, "file_id") or text_at(inner, "file_data"))
    else:
        sound = all(text_at(inner, key) for key in _MEDIA[kind])
    if not sound:
        faults.add("media-source", path, f"{kind} without what it shows")


def _call(call: JsonObject, path: str, faults: Faults) -> None:
    if not _IDS.allows(call.get("id")):
        faults.add("call-id", path, f"id {call.get('id')!r}")
    kind = call.get("type")
    if kind not in ("function", "custom"):
        faults.add("shape", path, f"a call of type {kind!r}")
        return
    inner = object_at(call, str(kind))
    if _IDS.name.fullmatch(text_at(inner, "name")) is None:
        faults.add("call-name", path, f"name {inner.get('name')!r}")
    if not isinstance(inner.get("input" if kind == "custom" else "arguments"), str):
        faults.add("call-input", path, "arguments are no text")
