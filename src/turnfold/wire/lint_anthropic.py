"""What Anthropic's Messages API refuses, found in a payload before it is sent."""

from __future__ import annotations

from collections.abc import Iterator

from turnfold.wire.rules import Faults, Listing, id_rule
from turnfold.wire.values import JsonObject, list_at, list_of, object_at, object_of, text_at

__all__ = ("MOST_CACHE_MARKS", "lint_anthropic", "marked", "unopened")

MOST_CACHE_MARKS = 4
_IDS = id_rule("anthropic")
_THOUGHTS = ("thinking", "redacted_thinking")
_SOURCES = {
    "base64": ("media_type", "data"),
    "url": ("url",),
    "file": ("file_id",),
    "text": ("data",),
}


def lint_anthropic(listing: Listing, faults: Faults) -> None:
    """Every fault of a payload, the arguments around the messages included."""
    if listing.items is None:
        faults.add("shape", "messages", "not a list")
        return
    if not listing.items:
        faults.add("some-message", "messages", "empty")
    messages = [object_of(item) for item in listing.items]
    used: set[str] = set()
    for index, message in enumerate(messages):
        path = f"messages[{index}]"
        if message is None:
            faults.add("shape", path, "not an object")
            continue
        before = messages[index - 1] if index else None
        _message(message, path, faults, last=index == len(messages) - 1)
        _place(message, before, path, faults)
        _calls(message, messages[index + 1] if index + 1 < len(messages) else None, path, faults)
        _results(message, before, path, faults)
        for block in _blocks(message, "tool_use"):
            if text_at(block, "id") in used:
                faults.add("call-unique", path, f"the id {block.get('id')!r} is used twice")
            used.add(text_at(block, "id"))
    _system(listing.fields.get("system"), faults)
    _arguments(listing, [message for message in messages if message], faults)


def _blocks(message: JsonObject | None, *kinds: str) -> list[JsonObject]:
    content = list_at(message or {}, "content")
    found = [block for block in map(object_of, content) if block is not None]
    return [block for block in found if not kinds or block.get("type") in kinds]


def _message(message: JsonObject, path: str, faults: Faults, *, last: bool) -> None:
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant", "system"):
        faults.add("role", path, f"role {role!r}")
    if isinstance(content, str):
        if content and not content.strip():
            faults.add("blank-text", path, "nothing but white space")
        elif not content and not (last and role == "assistant"):
            faults.add("empty-content", path, "empty text")
        return
    blocks = list_of(content)
    if blocks is None:
        faults.add("shape", path, "content is neither text nor a list")
        return
    if not blocks and not (last and role == "assistant"):
        faults.add("empty-content", path, "no content")
    called = False
    for index, value in enumerate(blocks):
        block = object_of(value) or {}
        where = f"{path}.content[{index}]"
        _block(block, role, where, faults)
        called = called or block.get("type") == "tool_use"
        if called and block.get("type") in _THOUGHTS:
            faults.add("thinking-order", where, "a thought after a call")
    if role == "assistant" and blocks and (object_of(blocks[-1]) or {}).get("type") in _THOUGHTS:
        faults.add("thinking-last", path, "the last block is a thought")


def _block(block: JsonObject, role: object, path: str, faults: Faults) -> None:
    match block.get("type"):
        case "text":
            if not isinstance(block.get("text"), str):
                faults.add("shape", path, "a text block without text")
            elif not text_at(block, "text").strip():
                faults.add("blank-text", path, "empty, or nothing but white space")
        case "thinking" | "redacted_thinking":
            _thought(block, role, path, faults)
        case "tool_use":
            _call(block, role, path, faults)
        case "tool_result":
            _result(block, role, path, faults)
        case "image" | "document":
            _source(block, path, faults)
        case str(kind) if kind:
            pass
        case _:
            faults.add("shape", path, "a block without a type")


def _thought(block: JsonObject, role: object, path: str, faults: Faults) -> None:
    if role != "assistant":
        faults.add("shape", path, f"a thought of the {role}")
    needed = "signature" if block["type"] == "thinking" else "data"
    if not text_at(block, needed):
        faults.add("thinking-signed", path, f"no {needed}")
    if block["type"] == "thinking" and not isinstance(block.get("thinking"), str):
        faults.add("shape", path, "a thought without words")
    if "cache_control" in block:
        faults.add("cache-place", path, "a cache mark on a thought")


def _call(block: JsonObject, role: object, path: str, faults: Faults) -> None:
    if role != "assistant":
        faults.add("shape", path, f"a call by the {role}")
    if not _IDS.allows(block.get("id")):
        faults.add("call-id", path, f"id {block.get('id')!r}")
    if _IDS.name.fullmatch(text_at(block, "name")) is None:
        faults.add("call-name", path, f"name {block.get('name')!r}")
    if object_of(block.get("input")) is None:
        faults.add("call-input", path, "input is no object")


def _result(block: JsonObject, role: object, path: str, faults: Faults) -> None:
    if role != "user":
        faults.add("shape", path, f"a result from the {role}")
    content = block.get("content")
    if content is None or isinstance(content, str):
        return
    inner = list_of(content)
    if inner is None or not all(text_at(object_of(each) or {}, "type") for each in inner):
        faults.add("shape", path, "content is neither text nor a list of blocks")


def _source(block: JsonObject, path: str, faults: Faults) -> None:
    source = object_at(block, "source")
    kind = source.get("type")
    if kind == "content":
        return
    keys = _SOURCES.get(kind) if isinstance(kind, str) else None
    if keys is None or not all(text_at(source, key) for key in keys):
        faults.add("media-source", path, f"source of type {kind!r}")


def _place(message: JsonObject, before: JsonObject | None, path: str, faults: Faults) -> None:
    role = message.get("role")
    if role == "assistant" and path == "messages[0]":
        faults.add("first-role", path, "the first message is the assistant's")
    if role != "system":
        return
    if before is None or before.get("role") != "user":
        faults.add("system-place", path, "a system message stands only behind a user message")
    if any(block.get("type") != "text" for block in _blocks(message)):
        faults.add("shape", path, "a system message holds text only")


def _calls(message: JsonObject, after: JsonObject | None, path: str, faults: Faults) -> None:
    answered = [text_at(block, "tool_use_id") for block in _blocks(after, "tool_result")]
    for block in _blocks(message, "tool_use"):
        if text_at(block, "id") not in answered:
            faults.add("call-answered", path, f"no result for {block.get('id')!r} behind it")


def _results(message: JsonObject, before: JsonObject | None, path: str, faults: Faults) -> None:
    called = {text_at(block, "id") for block in _blocks(before, "tool_use")}
    seen: set[str] = set()
    for call_id in (text_at(block, "tool_use_id") for block in _blocks(message, "tool_result")):
        if call_id not in called:
            faults.add("result-called", path, f"result for {call_id!r} without its call")
        if call_id in seen:
            faults.add("result-once", path, f"two results for {call_id!r}")
        seen.add(call_id)
    kinds = [block.get("type") for block in _blocks(message)]
    if "tool_result" in kinds[kinds.count("tool_result") :]:
        faults.add("results-first", path, "something stands before a result")


def _system(system: object, faults: Faults) -> None:
    if system is None or isinstance(system, str):
        return
    blocks = list_of(system)
    if blocks is None:
        faults.add("shape", "system", "neither text nor a list")
        return
    for index, value in enumerate(blocks):
        block = object_of(value) or {}
        if block.get("type") != "text" or not isinstance(block.get("text"), str):
            faults.add("shape", f"system[{index}]", "not a text block")
        elif not text_at(block, "text").strip():
            faults.add("blank-text", f"system[{index}]", "empty, or nothing but white space")


def _arguments(listing: Listing, messages: list[JsonObject], faults: Faults) -> None:
    marks = sum(1 for _ in marked(listing.fields, messages))
    if marks > MOST_CACHE_MARKS:
        faults.add("cache-marks", "messages", f"{marks} cache marks, at most {MOST_CACHE_MARKS}")
    if object_at(listing.fields, "thinking").get("type") == "enabled" and unopened(messages):
        faults.add("thinking-first", "thinking", "the running turn does not begin with a thought")


def marked(fields: JsonObject, messages: list[JsonObject]) -> Iterator[JsonObject]:
    """The blocks that carry a cache mark, in the order of the prompt: tools, system, messages."""
    for values in (list_at(fields, "tools"), list_at(fields, "system")):
        yield from _marks(values)
    for message in messages:
        for block in _blocks(message):
            yield from _marks(list_at(block, "content"))
            yield from _marks([block])


def _marks(values: list[object]) -> Iterator[JsonObject]:
    for block in map(object_of, values):
        if block is not None and block.get("cache_control") is not None:
            yield block


def unopened(messages: list[JsonObject]) -> bool:
    """Whether the prompt ends inside a tool loop whose last step has no thought in front of its call."""
    if not messages or not _blocks(messages[-1], "tool_result"):
        return False
    asked = next((each for each in reversed(messages) if each.get("role") == "assistant"), None)
    kinds = [block.get("type") for block in _blocks(asked)]
    return "tool_use" in kinds and kinds[0] not in _THOUGHTS
