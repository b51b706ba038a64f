"""Makes a payload one that OpenAI's Responses API takes, changing as little as it can."""

from __future__ import annotations

from turnfold.wire.lint_openai_responses import ID_PREFIXES
from turnfold.wire.request import Notes
from turnfold.wire.responses_items import answered_call, called_id, speaker
from turnfold.wire.rules import Listing, id_rule
from turnfold.wire.turns import NOT_SHOWN, Atom, Kind, Speaker, Turn, pair, sendable_name
from turnfold.wire.values import JsonObject, list_of, object_of, shown, text_at, texts_in

__all__ = ("repair_openai_responses",)

_ROLES = {
    "user": Speaker.USER,
    "assistant": Speaker.ASSISTANT,
    "system": Speaker.SYSTEM,
    "developer": Speaker.SYSTEM,
}
_ANSWERABLE = {"function_call": "arguments", "custom_tool_call": "input"}
"""Calls that can be given a result in words, and the field their arguments stand in."""
_MEDIA = ("image_url", "file_id", "file_data", "file_url")


class _Responses:
    adjacent = False
    together = False
    ids = id_rule("openai_responses")

    def said(self, text: str, path: str) -> Atom:
        return Atom(Kind.SAID, {"role": "user", "content": text}, path)

    def answer(self, call: Atom, text: str) -> Atom:
        kind = f"{call.value['type']}_output"
        value: JsonObject = {"type": kind, "call_id": call.id, "output": text}
        return Atom(Kind.RESULT, value, call.path, call.id)

    def words(self, result: Atom) -> str:
        kept = {key: value for key, value in result.value.items() if key not in ("type", "call_id")}
        return "\n".join(texts_in(kept))

    def renamed(self, atom: Atom, new_id: str) -> Atom:
        key = "call_id" if atom.value.get("call_id") == atom.id else "id"
        return Atom(atom.kind, {**atom.value, key: new_id}, atom.path, new_id)


_DIALECT = _Responses()


def repair_openai_responses(listing: Listing, notes: Notes) -> JsonObject:
    """The arguments with every fault repaired."""
    if listing.items is None:
        notes.left_out("input", "neither text nor a list", shown(listing.fields.get("input")))
    values = listing.items or []
    answered = {answered_call(object_of(value) or {}) for value in values}
    turns: list[Turn] = []
    for index, value in enumerate(values):
        atom = _atom(value, f"input[{index}]", answered, notes)
        if atom is not None:
            whose = Speaker.RESULT if atom.kind is Kind.RESULT else Speaker.ASSISTANT
            turns.append(Turn(whose, [atom], index, atom.path))
    paired = pair(turns, _DIALECT, notes)
    items = _led_somewhere([atom for turn in paired for atom in turn.atoms], notes)
    if not items:
        notes.added("input", "a message, where there was none")
        items = [_DIALECT.said(NOT_SHOWN, "").value]
    return {**listing.fields, "input": items}


def _atom(value: object, path: str, answered: set[str], notes: Notes) -> Atom | None:
    item = object_of(value) or {}
    kind = item.get("type")
    if kind in (None, "message") and "role" in item:
        return Atom(Kind.SAID, _message(item, path, notes), path)
    if kind is None and text_at(item, "id"):
        return Atom(Kind.SAID, item, path)
    if not isinstance(kind, str) or not kind or kind == "message":
        notes.left_out(path, "not an item", shown(value))
        return None
    item = _with_sound_id(item, kind, path, notes)
    if kind in _ANSWERABLE:
        return _call(item, kind, path, notes)
    if kind in ("function_call_output", "custom_tool_call_output"):
        return _output(item, path, notes)
    if answered_call(item):
        return Atom(Kind.RESULT, item, path, answered_call(item))
    if called_id(item):
        if called_id(item) not in answered:
            notes.left_out(path, f"a {kind} whose output is missing", shown(item))
            return None
        return Atom(Kind.CALL, item, path, called_id(item))
    if kind == "reasoning" and list_of(item.get("summary")) is None:
        notes.left_out(path, "a summary that is no list", shown(item.get("summary")))
        item = {**item, "summary": list[object]()}
    return Atom(Kind.SAID, item, path)


def _with_sound_id(item: JsonObject, kind: str, path: str, notes: Notes) -> JsonObject:
    prefix, given = ID_PREFIXES.get(kind), item.get("id")
    if prefix is None or given is None:
        return item
    if isinstance(given, str) and given.startswith(prefix):
        return item
    notes.left_out(path, f"an id that does not begin with {prefix}", shown(given))
    return {key: item[key] for key in item if key != "id"}


def _call(item: JsonObject, kind: str, path: str, notes: Notes) -> Atom:
    key = _ANSWERABLE[kind]
    call_id = text_at(item, "call_id")
    fixed = {**item, "call_id": call_id, "name": sendable_name(text_at(item, "name"), _DIALECT.ids)}
    if fixed["name"] != item.get("name"):
        notes.converted(path, f"the name {item.get('name')!r}, which cannot be sent")
    if not isinstance(item.get(key), str):
        fixed[key] = "{}" if item.get(key) is None else shown(item[key])
        notes.converted(path, f"{key} that is no text, as text")
    return Atom(Kind.CALL, fixed, path, call_id)


def _output(item: JsonObject, path: str, notes: Notes) -> Atom:
    call_id = text_at(item, "call_id")
    fixed = {**item, "call_id": call_id}
    if not isinstance(item.get("output"), str) and list_of(item.get("output")) is None:
        fixed["output"] = shown(item.get("output"))
        notes.converted(path, "output that is neither text nor a list, as text")
    return Atom(Kind.RESULT, fixed, path, call_id)


def _message(item: JsonObject, path: str, notes: Notes) -> JsonObject:
    if text_at(item, "role") not in _ROLES:
        notes.converted(path, f"the role {item.get('role')!r}, as the user's")
        item = {**item, "role": "user"}
    content = item.get("content")
    if isinstance(content, str):
        return item
    blocks = list_of(content)
    if blocks is None:
        notes.converted(path, "content that is neither text nor a list, as text")
        return {**item, "content": "" if content is None else shown(content)}
    said = item["role"] == "assistant"
    found = (_block(b, f"{path}.content[{at}]", notes, said=said) for at, b in enumerate(blocks))
    kept = [block for block in found if block is not None]
    if not kept:
        notes.converted(path, "an empty list, as empty text")
        return {**item, "content": ""}
    return item if kept == blocks else {**item, "content": kept}


def _block(value: object, path: str, notes: Notes, *, said: bool) -> JsonObject | None:
    block = object_of(value) or {}
    kind, wanted = text_at(block, "type"), "output_text" if said else "input_text"
    spoken = kind in ("input_text", "output_text", "text")
    if spoken and isinstance(block.get("text"), str):
        if kind != wanted:
            notes.converted(path, f"{kind}, as {wanted}")
            return {"type": wanted, "text": block["text"]}
        return block
    if said and kind == "refusal":
        return block
    shows = kind not in ("input_image", "input_file") or any(text_at(block, key) for key in _MEDIA)
    if not said and kind and not spoken and shows and kind != "refusal":
        return block
    words = text_at(block, "refusal") if kind == "refusal" else ""
    if words:
        notes.converted(path, f"{kind}, as {wanted}")
        return {"type": wanted, "text": words}
    notes.left_out(path, f"a block of type {kind!r} that cannot stand here", shown(value))
    return None


def _led_somewhere(atoms: list[Atom], notes: Notes) -> list[JsonObject]:
    """The items without reasoning that led to nothing."""
    kept: list[JsonObject] = []
    for atom in reversed(atoms):
        item = atom.value
        after = kept[-1] if kept else None
        produced = after is not None and speaker(after) in ("", "assistant")
        if item.get("type") == "reasoning" and (not produced or answered_call(after or {})):
            notes.left_out(atom.path, "reasoning that nothing follows", shown(item))
            continue
        kept.append(item)
    return kept[::-1]
