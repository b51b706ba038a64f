"""What OpenAI's Responses API refuses, found in a payload before it is sent."""

from __future__ import annotations

from turnfold.wire.responses_items import answered_call, called_id, speaker
from turnfold.wire.rules import Faults, Listing, id_rule
from turnfold.wire.values import JsonObject, list_of, object_of, text_at

__all__ = ("ID_PREFIXES", "lint_openai_responses")

ID_PREFIXES = {"function_call": "fc", "reasoning": "rs"}
"""How the ids of items begin: an id of another kind there is refused."""
_IDS = id_rule("openai_responses")
_ROLES = ("user", "assistant", "system", "developer")


def lint_openai_responses(listing: Listing, faults: Faults) -> None:
    """Every fault of a payload."""
    if isinstance(listing.fields.get("input"), str):
        return
    if listing.items is None:
        faults.add("shape", "input", "neither text nor a list")
        return
    if not listing.items:
        faults.add("some-message", "input", "empty")
    items = [object_of(item) or {} for item in listing.items]
    for index, item in enumerate(items):
        _item(item, f"input[{index}]", faults)
        if item.get("type") == "reasoning" and not _followed(items[index + 1 :]):
            faults.add("reasoning-followed", f"input[{index}]", "nothing it led to follows")
    _pairs(items, faults)


def _followed(rest: list[JsonObject]) -> bool:
    """Whether what comes next was produced by the model."""
    return bool(rest) and speaker(rest[0]) in ("", "assistant") and not answered_call(rest[0])


def _item(item: JsonObject, path: str, faults: Faults) -> None:
    kind = item.get("type")
    if kind in (None, "message") and "role" in item:
        _message(item, path, faults)
    elif kind is None and text_at(item, "id"):  # a reference to an item the provider keeps
        return
    elif not isinstance(kind, str) or not kind or kind == "message":
        faults.add("shape", path, "an item without a type")
    elif kind in ("function_call", "custom_tool_call"):
        _call(item, path, faults)
    elif kind in ("function_call_output", "custom_tool_call_output"):
        _output(item, path, faults)
    elif kind == "reasoning" and list_of(item.get("summary")) is None:
        faults.add("shape", path, "reasoning without a summary list")
    prefix = ID_PREFIXES.get(kind) if isinstance(kind, str) else None
    given = item.get("id")
    if prefix and given is not None and not (isinstance(given, str) and given.startswith(prefix)):
        faults.add("item-id", path, f"the id {given!r} does not begin with {prefix}")


def _message(item: JsonObject, path: str, faults: Faults) -> None:
    role, content = item.get("role"), item.get("content")
    if role not in _ROLES:
        faults.add("role", path, f"role {role!r}")
    if isinstance(content, str):
        return
    blocks = list_of(content)
    if blocks is None:
        faults.add("shape", path, "content is neither text nor a list")
        return
    if not blocks:
        faults.add("empty-content", path, "an empty list")
    for index, value in enumerate(blocks):
        where = f"{path}.content[{index}]"
        _block(object_of(value) or {}, where, faults, said=role == "assistant")


def _block(block: JsonObject, path: str, faults: Faults, *, said: bool) -> None:
    kind = text_at(block, "type")
    if not kind:
        faults.add("shape", path, "a block without a type")
    elif said != (kind in ("output_text", "refusal")):
        faults.add("content-type", path, f"{kind} in a message of this role")
    elif kind in ("input_text", "output_text") and not isinstance(block.get("text"), str):
        faults.add("shape", path, "a text block without text")
    elif kind in ("input_image", "input_file"):
        keys = ("image_url", "file_id", "file_data", "file_url")
        if not any(text_at(block, key) for key in keys):
            faults.add("media-source", path, f"{kind} without what it shows")


def _call(item: JsonObject, path: str, faults: Faults) -> None:
    if not _IDS.allows(item.get("call_id")):
        faults.add("call-id", path, f"call_id {item.get('call_id')!r}")
    if _IDS.name.fullmatch(text_at(item, "name")) is None:
        faults.add("call-name", path, f"name {item.get('name')!r}")
    key = "input" if item.get("type") == "custom_tool_call" else "arguments"
    if not isinstance(item.get(key), str):
        faults.add("call-input", path, f"{key} is no text")


def _output(item: JsonObject, path: str, faults: Faults) -> None:
    if not isinstance(item.get("output"), str) and list_of(item.get("output")) is None:
        faults.add("shape", path, "output is neither text nor a list")
    if not _IDS.allows(item.get("call_id")):
        faults.add("call-id", path, f"call_id {item.get('call_id')!r}")


def _pairs(items: list[JsonObject], faults: Faults) -> None:
    called: dict[str, int] = {}
    answered: set[str] = set()
    for index, item in enumerate(items):
        path = f"input[{index}]"
        call_id, answers = called_id(item), answered_call(item)
        if call_id:
            if call_id in called:
                faults.add("call-unique", path, f"the call_id {call_id!r} is used twice")
            called[call_id] = index
        elif answers:
            if answers not in called:
                faults.add("result-called", path, f"output for {answers!r} without its call")
            elif answers in answered:
                faults.add("result-once", path, f"two outputs for {answers!r}")
            answered.add(answers)
    for call_id, index in called.items():
        if call_id not in answered:
            faults.add("call-answered", f"input[{index}]", f"no output for {call_id!r}")
