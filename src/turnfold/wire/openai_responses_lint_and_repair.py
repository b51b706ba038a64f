"""Lint (check) and repair request payloads of OpenAI's Responses API, changing as little as possible."""

from __future__ import annotations

from turnfold.wire.call_pairing import (
    NOT_SHOWN,
    Atom,
    AtomKind,
    Speaker,
    WireTurn,
    pair,
    sendable_name,
)
from turnfold.wire.json_values import JsonObject, list_of, object_of, shown, text_at, texts_in
from turnfold.wire.openai_responses_items import answered_call, called_id, speaker
from turnfold.wire.provider_rules import FaultCollector, OpenedPayload, id_rule
from turnfold.wire.request import ChangeNotes

__all__ = (
    "lint_openai_responses",
    "repair_openai_responses",
)


_ID_PREFIXES = {"function_call": "fc", "reasoning": "rs"}
"""Type of an item -> prefix of its id; OpenAI refuses an id with another prefix."""
_MEDIA = ("image_url", "file_id", "file_data", "file_url")
_IDS = id_rule("openai_responses")
_ROLES = ("user", "assistant", "system", "developer")


def lint_openai_responses(payload: OpenedPayload, faults: FaultCollector) -> None:
    """Check a payload for OpenAI's Responses API: add every rule that it breaks to `faults`."""
    if isinstance(payload.fields.get("input"), str):
        return
    if payload.items is None:
        faults.add_fault("shape", "input", "neither text nor a list")
        return
    if not payload.items:
        faults.add_fault("some-message", "input", "empty")
    items = [object_of(item) or {} for item in payload.items]
    for index, item in enumerate(items):
        _item(item, f"input[{index}]", faults)
        if item.get("type") == "reasoning" and not _followed(items[index + 1 :]):
            faults.add_fault(
                "reasoning-followed",
                f"input[{index}]",
                "no output of the model follows the reasoning",
            )
    _pairs(items, faults)


def _followed(rest: list[JsonObject]) -> bool:
    """Return True if the item that follows was produced by the model."""
    return bool(rest) and speaker(rest[0]) in ("", "assistant") and not answered_call(rest[0])


def _item(item: JsonObject, path: str, faults: FaultCollector) -> None:
    kind = item.get("type")
    if kind in (None, "message") and "role" in item:
        _lint_message(item, path, faults)
    elif kind is None and text_at(item, "id"):  # a reference to an item the provider keeps
        return
    elif not isinstance(kind, str) or not kind or kind == "message":
        faults.add_fault("shape", path, "an item without a type")
    elif kind in ("function_call", "custom_tool_call"):
        _lint_call(item, path, faults)
    elif kind in ("function_call_output", "custom_tool_call_output"):
        _lint_output(item, path, faults)
    elif kind == "reasoning" and list_of(item.get("summary")) is None:
        faults.add_fault("shape", path, "reasoning without a summary list")
    prefix = _ID_PREFIXES.get(kind) if isinstance(kind, str) else None
    given = item.get("id")
    if prefix and given is not None and not (isinstance(given, str) and given.startswith(prefix)):
        faults.add_fault("item-id", path, f"the id {given!r} does not begin with {prefix}")


def _lint_message(item: JsonObject, path: str, faults: FaultCollector) -> None:
    role, content = item.get("role"), item.get("content")
    if role not in _ROLES:
        faults.add_fault("role", path, f"the role {role!r} is not allowed")
    if isinstance(content, str):
        return
    blocks = list_of(content)
    if blocks is None:
        faults.add_fault("shape", path, "content is neither text nor a list")
        return
    if not blocks:
        faults.add_fault("empty-content", path, "an empty list")
    for index, value in enumerate(blocks):
        where = f"{path}.content[{index}]"
        _lint_block(object_of(value) or {}, where, faults, by_assistant=role == "assistant")


def _lint_block(
    block: JsonObject, path: str, faults: FaultCollector, *, by_assistant: bool
) -> None:
    kind = text_at(block, "type")
    if not kind:
        faults.add_fault("shape", path, "a block without a type")
    elif by_assistant != (kind in ("output_text", "refusal")):
        faults.add_fault("content-type", path, f"{kind} is not allowed in a message of this role")
    elif kind in ("input_text", "output_text") and not isinstance(block.get("text"), str):
        faults.add_fault("shape", path, "a text block without text")
    elif kind in ("input_image", "input_file") and not any(text_at(block, key) for key in _MEDIA):
        faults.add_fault("media-source", path, f"{kind} without its data")


def _lint_call(item: JsonObject, path: str, faults: FaultCollector) -> None:
    if not _IDS.allows(item.get("call_id")):
        faults.add_fault("call-id", path, f"the call_id {item.get('call_id')!r} is not allowed")
    if _IDS.name.fullmatch(text_at(item, "name")) is None:
        faults.add_fault("call-name", path, f"the name {item.get('name')!r} is not allowed")
    key = "input" if item.get("type") == "custom_tool_call" else "arguments"
    if not isinstance(item.get(key), str):
        faults.add_fault("call-input", path, f"{key} is not text")


def _lint_output(item: JsonObject, path: str, faults: FaultCollector) -> None:
    if not isinstance(item.get("output"), str) and list_of(item.get("output")) is None:
        faults.add_fault("shape", path, "output is neither text nor a list")
    if not _IDS.allows(item.get("call_id")):
        faults.add_fault("call-id", path, f"the call_id {item.get('call_id')!r} is not allowed")


def _pairs(items: list[JsonObject], faults: FaultCollector) -> None:
    called: dict[str, int] = {}
    answered: set[str] = set()
    for index, item in enumerate(items):
        path = f"input[{index}]"
        call_id, answers = called_id(item), answered_call(item)
        if call_id:
            if call_id in called:
                faults.add_fault("call-unique", path, f"the call_id {call_id!r} is used twice")
            called[call_id] = index
        elif answers:
            if answers not in called:
                faults.add_fault("result-called", path, f"output for {answers!r} without its call")
            elif answers in answered:
                faults.add_fault("result-once", path, f"two outputs for {answers!r}")
            answered.add(answers)
    for call_id, index in called.items():
        if call_id not in answered:
            faults.add_fault("call-answered", f"input[{index}]", f"no output for {call_id!r}")


_ANSWERABLE = {"function_call": "arguments", "custom_tool_call": "input"}
"""Type of a call that can be answered with a text -> the field that holds its arguments."""


class _Responses:
    adjacent = False
    together = False
    ids = _IDS

    def said(self, text: str, path: str) -> Atom:
        return Atom(AtomKind.SAID, {"role": "user", "content": text}, path)

    def result_for(self, call: Atom, text: str) -> Atom:
        kind = f"{call.value['type']}_output"
        value: JsonObject = {"type": kind, "call_id": call.id, "output": text}
        return Atom(AtomKind.RESULT, value, call.path, call.id)

    def result_text(self, result: Atom) -> str:
        kept = {key: value for key, value in result.value.items() if key not in ("type", "call_id")}
        return "\n".join(texts_in(kept))

    def with_id(self, atom: Atom, new_id: str) -> Atom:
        key = "call_id" if atom.value.get("call_id") == atom.id else "id"
        return Atom(atom.kind, {**atom.value, key: new_id}, atom.path, new_id)


_DIALECT = _Responses()


def repair_openai_responses(payload: OpenedPayload, notes: ChangeNotes) -> JsonObject:
    """Return the arguments of a Responses call with every fault repaired; changes are recorded in `notes`."""
    if payload.items is None:
        notes.left_out("input", "neither text nor a list", shown(payload.fields.get("input")))
    values = payload.items or []
    answered = {answered_call(object_of(value) or {}) for value in values}
    turns: list[WireTurn] = []
    for index, value in enumerate(values):
        atom = _atom(value, f"input[{index}]", answered, notes)
        if atom is not None:
            whose = Speaker.RESULT if atom.kind is AtomKind.RESULT else Speaker.ASSISTANT
            turns.append(WireTurn(whose, [atom], index, atom.path))
    paired = pair(turns, _DIALECT, notes)
    items = _without_idle_reasoning([atom for turn in paired for atom in turn.atoms], notes)
    if not items:
        notes.added("input", "a message, because there was none")
        items = [_DIALECT.said(NOT_SHOWN, "").value]
    return {**payload.fields, "input": items}


def _atom(value: object, path: str, answered: set[str], notes: ChangeNotes) -> Atom | None:
    item = object_of(value) or {}
    kind = item.get("type")
    if kind in (None, "message") and "role" in item:
        return Atom(AtomKind.SAID, _message(item, path, notes), path)
    if kind is None and text_at(item, "id"):
        return Atom(AtomKind.SAID, item, path)
    if not isinstance(kind, str) or not kind or kind == "message":
        notes.left_out(path, "not an item", shown(value))
        return None
    item = _with_valid_id(item, kind, path, notes)
    if kind in _ANSWERABLE:
        return _call(item, kind, path, notes)
    if kind in ("function_call_output", "custom_tool_call_output"):
        return _output(item, path, notes)
    if answered_call(item):
        return Atom(AtomKind.RESULT, item, path, answered_call(item))
    if called_id(item):
        if called_id(item) not in answered:
            notes.left_out(path, f"a {kind} whose output is missing", shown(item))
            return None
        return Atom(AtomKind.CALL, item, path, called_id(item))
    if kind == "reasoning" and list_of(item.get("summary")) is None:
        notes.left_out(path, "a summary that is not a list", shown(item.get("summary")))
        item = {**item, "summary": list[object]()}
    return Atom(AtomKind.SAID, item, path)


def _with_valid_id(item: JsonObject, kind: str, path: str, notes: ChangeNotes) -> JsonObject:
    prefix, given = _ID_PREFIXES.get(kind), item.get("id")
    if prefix is None or given is None:
        return item
    if isinstance(given, str) and given.startswith(prefix):
        return item
    notes.left_out(path, f"an id that does not begin with {prefix}", shown(given))
    return {key: item[key] for key in item if key != "id"}


def _call(item: JsonObject, kind: str, path: str, notes: ChangeNotes) -> Atom:
    key = _ANSWERABLE[kind]
    call_id = text_at(item, "call_id")
    fixed = {**item, "call_id": call_id, "name": sendable_name(text_at(item, "name"), _DIALECT.ids)}
    if fixed["name"] != item.get("name"):
        notes.converted(path, f"the name {item.get('name')!r}, which the provider refuses")
    if not isinstance(item.get(key), str):
        fixed[key] = "{}" if item.get(key) is None else shown(item[key])
        notes.converted(path, f"{key} that is not text, sent as JSON text")
    return Atom(AtomKind.CALL, fixed, path, call_id)


def _output(item: JsonObject, path: str, notes: ChangeNotes) -> Atom:
    call_id = text_at(item, "call_id")
    fixed = {**item, "call_id": call_id}
    if not isinstance(item.get("output"), str) and list_of(item.get("output")) is None:
        fixed["output"] = shown(item.get("output"))
        notes.converted(path, "output that is neither text nor a list, sent as text")
    return Atom(AtomKind.RESULT, fixed, path, call_id)


def _message(item: JsonObject, path: str, notes: ChangeNotes) -> JsonObject:
    if text_at(item, "role") not in _ROLES:
        notes.converted(path, f"the role {item.get('role')!r}, sent as user")
        item = {**item, "role": "user"}
    content = item.get("content")
    if isinstance(content, str):
        return item
    blocks = list_of(content)
    if blocks is None:
        notes.converted(path, "content that is neither text nor a list, sent as text")
        return {**item, "content": "" if content is None else shown(content)}
    by_assistant = item["role"] == "assistant"
    found = (
        _block(b, f"{path}.content[{at}]", notes, by_assistant=by_assistant)
        for at, b in enumerate(blocks)
    )
    kept = [block for block in found if block is not None]
    if not kept:
        notes.converted(path, "an empty list, sent as empty text")
        return {**item, "content": ""}
    return item if kept == blocks else {**item, "content": kept}


def _block(
    value: object, path: str, notes: ChangeNotes, *, by_assistant: bool
) -> JsonObject | None:
    block = object_of(value) or {}
    kind, wanted = text_at(block, "type"), "output_text" if by_assistant else "input_text"
    is_text = kind in ("input_text", "output_text", "text")
    if is_text and isinstance(block.get("text"), str):
        if kind != wanted:
            notes.converted(path, f"{kind}, as {wanted}")
            return {"type": wanted, "text": block["text"]}
        return block
    if by_assistant and kind == "refusal":
        return block
    has_media = kind not in ("input_image", "input_file") or any(
        text_at(block, key) for key in _MEDIA
    )
    if not by_assistant and kind and not is_text and has_media and kind != "refusal":
        return block
    refusal = text_at(block, "refusal") if kind == "refusal" else ""
    if refusal:
        notes.converted(path, f"{kind}, as {wanted}")
        return {"type": wanted, "text": refusal}
    notes.left_out(path, f"a block of type {kind!r} that this message cannot hold", shown(value))
    return None


def _without_idle_reasoning(atoms: list[Atom], notes: ChangeNotes) -> list[JsonObject]:
    """Return the items, except each reasoning item that no other output of the model follows: OpenAI refuses those."""
    kept: list[JsonObject] = []
    for atom in reversed(atoms):
        item = atom.value
        after = kept[-1] if kept else None
        produced = after is not None and speaker(after) in ("", "assistant")
        if item.get("type") == "reasoning" and (not produced or answered_call(after or {})):
            notes.left_out(
                atom.path, "reasoning without an output of the model after it", shown(item)
            )
            continue
        kept.append(item)
    return kept[::-1]
