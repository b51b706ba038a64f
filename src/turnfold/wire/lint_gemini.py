"""What the Gemini API refuses, found in a payload before it is sent."""

from __future__ import annotations

import re

from turnfold.wire.gemini_parts import SIGNATURE, camel, function_call, function_response
from turnfold.wire.rules import Faults, Listing, id_rule
from turnfold.wire.values import JsonObject, list_at, list_of, object_at, object_of, text_at

__all__ = ("DATA_FIELDS", "lint_gemini", "needs_signatures", "unsigned")

DATA_FIELDS = frozenset(
    "text inlineData fileData functionCall functionResponse executableCode codeExecutionResult "
    "toolCall toolResponse".split()
)
"""The fields of a part of which it holds exactly one."""
_IDS = id_rule("gemini")
_STRICT = re.compile(r"gemini-(\d+)")


def lint_gemini(listing: Listing, faults: Faults) -> None:
    """Every fault of a payload."""
    if isinstance(listing.fields.get("contents"), str):
        return
    if listing.items is None:
        faults.add("shape", "contents", "neither text nor a list")
        return
    if not listing.items:
        faults.add("some-message", "contents", "empty")
    contents = [object_of(item) or {} for item in listing.items]
    for index, content in enumerate(contents):
        before = contents[index - 1] if index else {}
        after = contents[index + 1] if index + 1 < len(contents) else {}
        path = f"contents[{index}]"
        _content(content, path, faults)
        _pairing(content, before, after, path, faults)
    if contents and contents[0].get("role") == "model":
        faults.add("first-role", "contents[0]", "the first content is the model's")
    if needs_signatures(listing.fields):
        for index, place in unsigned(contents):
            faults.add("signature", f"contents[{index}].parts[{place}]", "a call without it")


def needs_signatures(fields: JsonObject) -> bool:
    """Whether the model asked refuses unsigned calls: Gemini 3 and later."""
    found = _STRICT.search(text_at(fields, "model"))
    return found is not None and int(found[1]) >= 3


def unsigned(contents: list[JsonObject]) -> list[tuple[int, int]]:
    """The calls of the current turn that need a signature and have none: the first of each step."""
    start = 0
    for index, content in enumerate(contents):
        parts = _parts(content)
        asks = content.get("role") != "model" and any("text" in part for part in parts)
        start = index if asks and not any(map(function_response, parts)) else start
    found: list[tuple[int, int]] = []
    for index in range(start, len(contents)):
        raw = list_at(contents[index], "parts")
        calls = [place for place, part in enumerate(raw) if function_call(object_of(part) or {})]
        if calls and not text_at(camel(object_of(raw[calls[0]]) or {}), SIGNATURE):
            found.append((index, calls[0]))
    return found


def _parts(content: JsonObject) -> list[JsonObject]:
    return [object_of(part) or {} for part in list_at(content, "parts")]


def _content(content: JsonObject, path: str, faults: Faults) -> None:
    if content.get("role") not in (None, "user", "model"):
        faults.add("role", path, f"role {content.get('role')!r}")
    parts = list_of(content.get("parts"))
    if parts is None:
        faults.add("shape", path, "parts is no list")
        return
    if not parts:
        faults.add("empty-content", path, "no parts")
    for index, part in enumerate(parts):
        _part(camel(object_of(part) or {}), f"{path}.parts[{index}]", faults)


def _part(part: JsonObject, path: str, faults: Faults) -> None:
    data = [key for key in part if key in DATA_FIELDS and part[key] is not None]
    if len(data) != 1:
        faults.add("part-data", path, f"fields of data: {', '.join(data) or 'none'}")
        return
    value = part[data[0]]
    if data[0] == "text":
        if not isinstance(value, str):
            faults.add("shape", path, "text that is no text")
    elif object_of(value) is None:
        faults.add("shape", path, f"{data[0]} is no object")
    elif data[0] in ("functionCall", "functionResponse"):
        _function(object_of(value) or {}, data[0], path, faults)
    elif data[0] in ("inlineData", "fileData"):
        fields = camel(object_of(value) or {})
        if not text_at(fields, "data" if data[0] == "inlineData" else "fileUri"):
            faults.add("media-source", path, f"{data[0]} without what it shows")


def _function(fields: JsonObject, kind: str, path: str, faults: Faults) -> None:
    if _IDS.name.fullmatch(text_at(fields, "name")) is None:
        faults.add("call-name", path, f"name {fields.get('name')!r}")
    if kind == "functionResponse":
        if object_of(fields.get("response")) is None:
            faults.add("result-object", path, "response is no object")
    elif fields.get("args") is not None and object_of(fields["args"]) is None:
        faults.add("call-input", path, "args is no object")


def _pairing(
    content: JsonObject, before: JsonObject, after: JsonObject, path: str, faults: Faults
) -> None:
    calls = _names(content, "functionCall")
    answers = _names(content, "functionResponse")
    if calls:
        if content.get("role") != "model":
            faults.add("call-place", path, "a call that is not the model's")
        if before.get("role") == "model":
            faults.add("call-place", path, "a call behind another content of the model")
        if not _match(calls, _names(after, "functionResponse")):
            faults.add(
                "call-answered", path, f"{len(calls)} calls, not as many results behind them"
            )
    if answers:
        if content.get("role") == "model":
            faults.add("result-called", path, "a result from the model")
        if not _match(_names(before, "functionCall"), answers):
            faults.add("result-called", path, f"{len(answers)} results without as many calls")
        if any("text" in part for part in _parts(content)):
            faults.add("result-alone", path, "text beside results")


def _match(calls: list[tuple[str, str]], answers: list[tuple[str, str]]) -> bool:
    """Whether each call has its result: by name, and by id where every one has an id."""
    named = sorted(name for name, _ in calls) == sorted(name for name, _ in answers)
    if not named or not all(found for _, found in (*calls, *answers)):
        return named
    return sorted(calls) == sorted(answers)


def _names(content: JsonObject, kind: str) -> list[tuple[str, str]]:
    """The name, and the id where there is one, of each call or result."""
    found = [object_at(part, kind) for part in map(camel, _parts(content)) if kind in part]
    return [(text_at(each, "name"), text_at(each, "id")) for each in found]
