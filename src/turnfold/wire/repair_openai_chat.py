"""Makes a payload one that OpenAI's Chat Completions takes, changing as little as it can."""

from __future__ import annotations

from turnfold.wire.lint_openai_chat import AUTHOR, OTHER_FORMATS
from turnfold.wire.request import Notes
from turnfold.wire.rules import Listing, id_rule
from turnfold.wire.turns import NOT_SHOWN, Atom, Kind, Speaker, Turn, pair, sendable_name
from turnfold.wire.values import (
    JsonObject,
    list_of,
    object_at,
    object_of,
    shown,
    text_at,
    texts_in,
)

__all__ = ("repair_openai_chat",)

_SPEAKERS = {
    "system": Speaker.SYSTEM,
    "developer": Speaker.SYSTEM,
    "user": Speaker.USER,
    "function": Speaker.USER,
    "assistant": Speaker.ASSISTANT,
    "tool": Speaker.RESULT,
}
_OWN = frozenset({"text", "refusal", "image_url", "input_audio", "file"})
_MEDIA = {"image_url": ("url",), "input_audio": ("data", "format")}


class _Chat:
    adjacent = True
    together = False
    ids = id_rule("openai_chat")

    def said(self, text: str, path: str) -> Atom:
        return Atom(Kind.SAID, {"role": "user", "content": text}, path)

    def answer(self, call: Atom, text: str) -> Atom:
        value: JsonObject = {"role": "tool", "tool_call_id": call.id, "content": text}
        return Atom(Kind.RESULT, value, call.path, call.id)

    def words(self, result: Atom) -> str:
        return "\n".join(texts_in(result.value.get("content")))

    def renamed(self, atom: Atom, new_id: str) -> Atom:
        key = "id" if atom.kind is Kind.CALL else "tool_call_id"
        return Atom(atom.kind, {**atom.value, key: new_id}, atom.path, new_id)


_DIALECT = _Chat()


def repair_openai_chat(listing: Listing, notes: Notes) -> JsonObject:
    """The arguments with every fault repaired."""
    if listing.items is None:
        notes.left_out("messages", "no list of messages", shown(listing.fields.get("messages")))
    turns: list[Turn] = []
    for index, item in enumerate(listing.items or []):
        message = object_of(item)
        path = f"messages[{index}]"
        if message is None:
            notes.left_out(path, "not a message", shown(item))
        else:
            turns.append(_read(message, index, path, notes))
    messages = [message for turn in pair(turns, _DIALECT, notes) for message in _written(turn)]
    if not messages:
        notes.added("messages", "a message, where there was none")
        messages = [_DIALECT.said(NOT_SHOWN, "").value]
    return {**listing.fields, "messages": messages}


def _read(raw: JsonObject, index: int, path: str, notes: Notes) -> Turn:
    message = _named(raw, path, notes)
    role = message.get("role")
    speaker = _SPEAKERS.get(role) if isinstance(role, str) else None
    if speaker is None or (role == "function" and not text_at(message, "name")):
        notes.converted(path, f"the role {role!r}, as the user's")
        message, speaker = {**message, "role": "user"}, Speaker.USER
    calls = _calls(message, speaker, path, notes)
    message = {key: message[key] for key in message if key != "tool_calls" or not message[key]}
    if message.get("tool_calls") is not None:
        del message["tool_calls"]
        notes.left_out(path, "an empty list of calls")
    message = _with_content(message, speaker, path, notes, calls=bool(calls))
    if speaker is Speaker.RESULT:
        result = Atom(Kind.RESULT, message, path, text_at(message, "tool_call_id"))
        return Turn(speaker, [result], index, path)
    return Turn(speaker, [Atom(Kind.SAID, message, path), *calls], index, path)


def _named(message: JsonObject, path: str, notes: Notes) -> JsonObject:
    name = message.get("name")
    if name is None or (isinstance(name, str) and AUTHOR.fullmatch(name)):
        return message
    notes.left_out(path, "an author's name that cannot be sent", shown(name))
    return {key: message[key] for key in message if key != "name"}


def _calls(message: JsonObject, speaker: Speaker, path: str, notes: Notes) -> list[Atom]:
    given = message.get("tool_calls")
    if not given:
        return []
    calls = list_of(given)
    if calls is None or speaker is not Speaker.ASSISTANT:
        notes.left_out(path, "calls that are no list, or not the assistant's", shown(given))
        return []
    found = (_call(call, f"{path}.tool_calls[{at}]", notes) for at, call in enumerate(calls))
    return [atom for atom in found if atom is not None]


def _call(value: object, path: str, notes: Notes) -> Atom | None:
    call = object_of(value) or {}
    kind = text_at(call, "type")
    inner = object_of(call.get(kind)) if kind in ("function", "custom") else None
    if inner is None:
        notes.left_out(path, "not a call", shown(value))
        return None
    key = "input" if kind == "custom" else "arguments"
    fixed = {**inner, "name": sendable_name(text_at(inner, "name"), _DIALECT.ids)}
    if fixed["name"] != inner.get("name"):
        notes.converted(path, f"the name {inner.get('name')!r}, which cannot be sent")
    if not isinstance(inner.get(key), str):
        fixed[key] = "{}" if inner.get(key) is None else shown(inner[key])
        notes.converted(path, "arguments that are no text, as text")
    call_id = text_at(call, "id")
    return Atom(Kind.CALL, {**call, "id": call_id, kind: fixed}, path, call_id)


def _with_content(
    message: JsonObject, speaker: Speaker, path: str, notes: Notes, *, calls: bool
) -> JsonObject:
    content = message.get("content")
    if isinstance(content, str):
        return message
    if content is None:
        silent = ("function_call", "refusal", "audio")
        if message.get("role") == "assistant" and (calls or any(map(message.get, silent))):
            return message
        notes.converted(path, "no content, as empty text")
        return {**message, "content": ""}
    blocks = list_of(content)
    if blocks is None:
        notes.converted(path, "content that is neither text nor a list, as text")
        return {**message, "content": shown(content)}
    found = (
        _block(block, speaker, message, f"{path}.content[{at}]", notes)
        for at, block in enumerate(blocks)
    )
    kept = [block for block in found if block is not None]
    if not kept:
        notes.converted(path, "an empty list, as empty text")
        return {**message, "content": ""}
    return message if kept == blocks else {**message, "content": kept}


def _block(
    value: object, speaker: Speaker, message: JsonObject, path: str, notes: Notes
) -> JsonObject | None:
    block = object_of(value) or {}
    kind = text_at(block, "type")
    if kind == "text" and isinstance(block.get("text"), str):
        return block
    if kind == "refusal" and speaker is Speaker.ASSISTANT and isinstance(block.get(kind), str):
        return block
    if kind and kind not in OTHER_FORMATS and kind not in _OWN:
        return block
    inner = object_at(block, kind)
    if kind == "file":
        sound = bool(text_at(inner, "file_id") or text_at(inner, "file_data"))
    else:
        sound = kind in _MEDIA and all(text_at(inner, key) for key in _MEDIA[kind])
    if sound and message.get("role") == "user":
        return block
    if sound:
        notes.left_out(path, f"{kind} where only text may stand", shown(block))
        return {"type": "text", "text": f"[{kind} not shown: only user messages may hold it]"}
    notes.left_out(path, f"a block of type {kind!r} that cannot be sent", shown(value))
    return None


def _written(turn: Turn) -> list[JsonObject]:
    calls = [atom.value for atom in turn.atoms if atom.kind is Kind.CALL]
    messages = [atom.value for atom in turn.atoms if atom.kind is not Kind.CALL]
    if calls:
        messages[0] = {**messages[0], "tool_calls": calls}
    return messages
