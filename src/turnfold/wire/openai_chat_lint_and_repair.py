"""Lint (check) and repair request payloads of OpenAI's Chat Completions API, changing as little as possible."""

from __future__ import annotations

import re

from turnfold.wire.call_pairing import (
    NOT_SHOWN,
    Atom,
    AtomKind,
    Speaker,
    WireTurn,
    pair,
    sendable_name,
)
from turnfold.wire.json_values import (
    JsonObject,
    list_at,
    list_of,
    object_at,
    object_of,
    shown,
    text_at,
    texts_in,
)
from turnfold.wire.provider_rules import FaultCollector, OpenedPayload, id_rule
from turnfold.wire.request import ChangeNotes

__all__ = (
    "lint_openai_chat",
    "repair_openai_chat",
)


_AUTHOR = re.compile(r"[^\s<|\\/>]{1,64}")
"""Matches an author's name that OpenAI accepts."""
_OTHER_FORMATS = frozenset(
    "tool_use tool_result thinking redacted_thinking image document input_text output_text input_image "
    "input_file".split()
)
"""Block types of other providers. A type that is not listed may belong to a compatible server, so it is accepted."""
_IDS = id_rule("openai_chat")
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_MEDIA = {"image_url": ("url",), "input_audio": ("data", "format")}


def lint_openai_chat(payload: OpenedPayload, faults: FaultCollector) -> None:
    """Check a payload for OpenAI's Chat Completions: add every rule that it breaks to `faults`."""
    if payload.items is None:
        faults.add_fault("shape", "messages", "not a list")
        return
    if not payload.items:
        faults.add_fault("some-message", "messages", "empty")
    waiting: list[str] = []
    asked = ""
    for index, item in enumerate(payload.items):
        path = f"messages[{index}]"
        message = object_of(item)
        if message is None:
            faults.add_fault("shape", path, "not an object")
            continue
        _message(message, path, faults)
        if message.get("role") == "tool":
            call_id = message.get("tool_call_id")
            if isinstance(call_id, str) and call_id in waiting:
                waiting.remove(call_id)
            else:
                faults.add_fault("result-called", path, f"result for {call_id!r} without its call")
            continue
        _unanswered(waiting, asked, faults)
        waiting, asked = _called(message), path
        if len(set(waiting)) < len(waiting):
            faults.add_fault("call-unique", path, "two calls have the same id")
    _unanswered(waiting, asked, faults)


def _called(message: JsonObject) -> list[str]:
    if message.get("role") != "assistant":
        return []
    calls = (object_of(call) or {} for call in list_at(message, "tool_calls"))
    return [text_at(call, "id") for call in calls]


def _unanswered(waiting: list[str], path: str, faults: FaultCollector) -> None:
    for call_id in waiting:
        faults.add_fault("call-answered", path, f"no result for {call_id!r} follows")


def _message(message: JsonObject, path: str, faults: FaultCollector) -> None:
    role = message.get("role")
    if role not in _ROLES:
        faults.add_fault("role", path, f"the role {role!r} is not allowed")
    name = message.get("name")
    if name is not None and (not isinstance(name, str) or _AUTHOR.fullmatch(name) is None):
        faults.add_fault("name", path, f"the name {name!r} is not allowed")
    if role == "function" and not text_at(message, "name"):
        faults.add_fault("name", path, "a function message without the function's name")
    _content(message, path, faults)
    if message.get("tool_calls") is not None:
        calls = list_of(message["tool_calls"])
        if role != "assistant" or calls is None:
            faults.add_fault("shape", path, "tool_calls must be a list, in an assistant message")
        elif not calls:
            faults.add_fault("empty-calls", path, "an empty list of calls")
        for index, call in enumerate(calls or []):
            _lint_call(object_of(call) or {}, f"{path}.tool_calls[{index}]", faults)


def _content(message: JsonObject, path: str, faults: FaultCollector) -> None:
    content, role = message.get("content"), message.get("role")
    if content is None:
        said = ("tool_calls", "function_call", "refusal", "audio")
        if role != "assistant" or not any(message.get(key) for key in said):
            faults.add_fault("empty-content", path, "no content and no tool calls")
        return
    if isinstance(content, str):
        return
    blocks = list_of(content)
    if blocks is None:
        faults.add_fault("shape", path, "content is neither text nor a list")
        return
    if not blocks:
        faults.add_fault("empty-content", path, "an empty list")
    for index, value in enumerate(blocks):
        _lint_block(object_of(value) or {}, role, f"{path}.content[{index}]", faults)


def _lint_block(block: JsonObject, role: object, path: str, faults: FaultCollector) -> None:
    kind = text_at(block, "type")
    if kind in ("text", "refusal"):
        if not isinstance(block.get(kind), str) or (kind == "refusal" and role != "assistant"):
            faults.add_fault(
                "shape", path, f"a {kind} block without text, or not in an assistant message"
            )
    elif kind in ("image_url", "input_audio", "file"):
        if role != "user":
            faults.add_fault("media-place", path, f"{kind} in a message of the {role}")
        _source(block, kind, path, faults)
    elif not kind or kind in _OTHER_FORMATS:
        faults.add_fault("shape", path, f"a block of type {block.get('type')!r} is not allowed")


def _source(block: JsonObject, kind: str, path: str, faults: FaultCollector) -> None:
    if not _has_source(block, kind):
        faults.add_fault("media-source", path, f"{kind} without its data")


def _has_source(block: JsonObject, kind: str) -> bool:
    inner = object_at(block, kind)
    if kind == "file":
        return bool(text_at(inner, "file_id") or text_at(inner, "file_data"))
    return kind in _MEDIA and all(text_at(inner, key) for key in _MEDIA[kind])


def _lint_call(call: JsonObject, path: str, faults: FaultCollector) -> None:
    if not _IDS.allows(call.get("id")):
        faults.add_fault("call-id", path, f"the id {call.get('id')!r} is not allowed")
    kind = call.get("type")
    if kind not in ("function", "custom"):
        faults.add_fault("shape", path, f"a call of type {kind!r} is not allowed")
        return
    inner = object_at(call, str(kind))
    if _IDS.name.fullmatch(text_at(inner, "name")) is None:
        faults.add_fault("call-name", path, f"the name {inner.get('name')!r} is not allowed")
    if not isinstance(inner.get("input" if kind == "custom" else "arguments"), str):
        faults.add_fault("call-input", path, "arguments are not text")


_SPEAKERS = {
    "system": Speaker.SYSTEM,
    "developer": Speaker.SYSTEM,
    "user": Speaker.USER,
    "function": Speaker.USER,
    "assistant": Speaker.ASSISTANT,
    "tool": Speaker.RESULT,
}
_OWN = frozenset({"text", "refusal", "image_url", "input_audio", "file"})


class _Chat:
    adjacent = True
    together = False
    ids = _IDS

    def said(self, text: str, path: str) -> Atom:
        return Atom(AtomKind.SAID, {"role": "user", "content": text}, path)

    def result_for(self, call: Atom, text: str) -> Atom:
        value: JsonObject = {"role": "tool", "tool_call_id": call.id, "content": text}
        return Atom(AtomKind.RESULT, value, call.path, call.id)

    def result_text(self, result: Atom) -> str:
        return "\n".join(texts_in(result.value.get("content")))

    def with_id(self, atom: Atom, new_id: str) -> Atom:
        key = "id" if atom.kind is AtomKind.CALL else "tool_call_id"
        return Atom(atom.kind, {**atom.value, key: new_id}, atom.path, new_id)


_DIALECT = _Chat()


def repair_openai_chat(payload: OpenedPayload, notes: ChangeNotes) -> JsonObject:
    """Return the arguments of a Chat Completions call with every fault repaired; changes are recorded in `notes`."""
    if payload.items is None:
        notes.left_out("messages", "no list of messages", shown(payload.fields.get("messages")))
    turns: list[WireTurn] = []
    for index, item in enumerate(payload.items or []):
        message = object_of(item)
        path = f"messages[{index}]"
        if message is None:
            notes.left_out(path, "not a message", shown(item))
        else:
            turns.append(_read(message, index, path, notes))
    messages = [message for turn in pair(turns, _DIALECT, notes) for message in _written(turn)]
    if not messages:
        notes.added("messages", "a message, because there was none")
        messages = [_DIALECT.said(NOT_SHOWN, "").value]
    return {**payload.fields, "messages": messages}


def _read(raw: JsonObject, index: int, path: str, notes: ChangeNotes) -> WireTurn:
    message = _named(raw, path, notes)
    role = message.get("role")
    speaker = _SPEAKERS.get(role) if isinstance(role, str) else None
    if speaker is None or (role == "function" and not text_at(message, "name")):
        notes.converted(path, f"the role {role!r}, sent as user")
        message, speaker = {**message, "role": "user"}, Speaker.USER
    calls = _calls(message, speaker, path, notes)
    message = {key: message[key] for key in message if key != "tool_calls" or not message[key]}
    if message.get("tool_calls") is not None:
        del message["tool_calls"]
        notes.left_out(path, "an empty list of calls")
    message = _with_content(message, speaker, path, notes, calls=bool(calls))
    if speaker is Speaker.RESULT:
        result = Atom(AtomKind.RESULT, message, path, text_at(message, "tool_call_id"))
        return WireTurn(speaker, [result], index, path)
    return WireTurn(speaker, [Atom(AtomKind.SAID, message, path), *calls], index, path)


def _named(message: JsonObject, path: str, notes: ChangeNotes) -> JsonObject:
    name = message.get("name")
    if name is None or (isinstance(name, str) and _AUTHOR.fullmatch(name)):
        return message
    notes.left_out(path, "an author's name that cannot be sent", shown(name))
    return {key: message[key] for key in message if key != "name"}


def _calls(message: JsonObject, speaker: Speaker, path: str, notes: ChangeNotes) -> list[Atom]:
    given = message.get("tool_calls")
    if not given:
        return []
    calls = list_of(given)
    if calls is None or speaker is not Speaker.ASSISTANT:
        notes.left_out(
            path, "tool calls that are not a list, or not in an assistant message", shown(given)
        )
        return []
    found = (_call(call, f"{path}.tool_calls[{at}]", notes) for at, call in enumerate(calls))
    return [atom for atom in found if atom is not None]


def _call(value: object, path: str, notes: ChangeNotes) -> Atom | None:
    call = object_of(value) or {}
    kind = text_at(call, "type")
    inner = object_of(call.get(kind)) if kind in ("function", "custom") else None
    if inner is None:
        notes.left_out(path, "not a call", shown(value))
        return None
    key = "input" if kind == "custom" else "arguments"
    fixed = {**inner, "name": sendable_name(text_at(inner, "name"), _DIALECT.ids)}
    if fixed["name"] != inner.get("name"):
        notes.converted(path, f"the name {inner.get('name')!r}, which the provider refuses")
    if not isinstance(inner.get(key), str):
        fixed[key] = "{}" if inner.get(key) is None else shown(inner[key])
        notes.converted(path, "arguments that are not text, sent as JSON text")
    call_id = text_at(call, "id")
    return Atom(AtomKind.CALL, {**call, "id": call_id, kind: fixed}, path, call_id)


def _with_content(
    message: JsonObject, speaker: Speaker, path: str, notes: ChangeNotes, *, calls: bool
) -> JsonObject:
    content = message.get("content")
    if isinstance(content, str):
        return message
    if content is None:
        silent = ("function_call", "refusal", "audio")
        if message.get("role") == "assistant" and (calls or any(map(message.get, silent))):
            return message
        notes.converted(path, "no content, sent as empty text")
        return {**message, "content": ""}
    blocks = list_of(content)
    if blocks is None:
        notes.converted(path, "content that is neither text nor a list, sent as text")
        return {**message, "content": shown(content)}
    found = (
        _block(block, speaker, message, f"{path}.content[{at}]", notes)
        for at, block in enumerate(blocks)
    )
    kept = [block for block in found if block is not None]
    if not kept:
        notes.converted(path, "an empty list, sent as empty text")
        return {**message, "content": ""}
    return message if kept == blocks else {**message, "content": kept}


def _block(
    value: object, speaker: Speaker, message: JsonObject, path: str, notes: ChangeNotes
) -> JsonObject | None:
    block = object_of(value) or {}
    kind = text_at(block, "type")
    if kind == "text" and isinstance(block.get("text"), str):
        return block
    if kind == "refusal" and speaker is Speaker.ASSISTANT and isinstance(block.get(kind), str):
        return block
    if kind and kind not in _OTHER_FORMATS and kind not in _OWN:
        return block
    has_source = _has_source(block, kind)
    if has_source and message.get("role") == "user":
        return block
    if has_source:
        notes.left_out(path, f"{kind} in a message that may only hold text", shown(block))
        return {"type": "text", "text": f"[{kind} not shown: only user messages may hold it]"}
    notes.left_out(path, f"a block of type {kind!r} that cannot be sent", shown(value))
    return None


def _written(turn: WireTurn) -> list[JsonObject]:
    calls = [atom.value for atom in turn.atoms if atom.kind is AtomKind.CALL]
    messages = [atom.value for atom in turn.atoms if atom.kind is not AtomKind.CALL]
    if calls:
        messages[0] = {**messages[0], "tool_calls": calls}
    return messages
