"""Makes a payload one that Anthropic's Messages API takes, changing as little as it can."""

from __future__ import annotations

from turnfold.wire.foreign import arguments_object
from turnfold.wire.lint_anthropic import MOST_CACHE_MARKS, marked, unopened
from turnfold.wire.request import Notes
from turnfold.wire.rules import Listing, id_rule
from turnfold.wire.turns import (
    NOT_SHOWN,
    Atom,
    Kind,
    Speaker,
    Turn,
    pair,
    sendable_name,
)
from turnfold.wire.values import (
    JsonObject,
    list_at,
    list_of,
    object_at,
    object_of,
    shown,
    text_at,
    texts_in,
)

__all__ = ("repair_anthropic",)

_THOUGHTS = ("thinking", "redacted_thinking")
_SOURCES = {
    "base64": ("media_type", "data"),
    "url": ("url",),
    "file": ("file_id",),
    "text": ("data",),
    "content": (),
}


class _Anthropic:
    adjacent = True
    together = True
    ids = id_rule("anthropic")

    def said(self, text: str, path: str) -> Atom:
        return Atom(Kind.SAID, {"type": "text", "text": text}, path)

    def answer(self, call: Atom, text: str) -> Atom:
        value: JsonObject = {"type": "tool_result", "tool_use_id": call.id, "content": text}
        return Atom(Kind.RESULT, value, call.path, call.id)

    def words(self, result: Atom) -> str:
        return "\n".join(texts_in(result.value.get("content")))

    def renamed(self, atom: Atom, new_id: str) -> Atom:
        key = "id" if atom.kind is Kind.CALL else "tool_use_id"
        return Atom(atom.kind, {**atom.value, key: new_id}, atom.path, new_id)


_DIALECT = _Anthropic()


def repair_anthropic(listing: Listing, notes: Notes) -> JsonObject:
    """The arguments with every fault repaired."""
    items = listing.items or []
    if listing.items is None:
        notes.left_out("messages", "no list of messages", shown(listing.fields.get("messages")))
    turns: list[Turn] = []
    for index, item in enumerate(items):
        turns += _read(item, index, notes)
    turns = pair(turns, _DIALECT, notes)
    messages = _written(turns, items, notes)
    fields = {**listing.fields, "messages": messages}
    _repair_system(fields, notes)
    if object_at(fields, "thinking").get("type") == "enabled" and unopened(messages):
        fields["thinking"] = {"type": "disabled"}
        notes.converted("thinking", "off: the running turn does not begin with a thought")
    return _repair_marks(fields, notes)


def _read(item: object, index: int, notes: Notes) -> list[Turn]:
    path = f"messages[{index}]"
    message = object_of(item)
    if message is None:
        notes.left_out(path, "not a message", shown(item))
        return []
    role = message.get("role")
    if role not in ("user", "assistant", "system"):
        notes.converted(path, f"the role {role!r}, as the user's")
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list_of(content)
    speaker = Speaker(str(role)) if role in ("assistant", "system") else Speaker.USER
    atoms = [
        atom
        for place, block in enumerate(blocks or [])
        if (atom := _atom(block, speaker, f"{path}.content[{place}]", notes)) is not None
    ]
    if not atoms:
        notes.left_out(path, "a message without content that can be sent", shown(message))
    results = [atom for atom in atoms if atom.kind is Kind.RESULT]
    others = [atom for atom in atoms if atom.kind is not Kind.RESULT]
    if speaker is Speaker.ASSISTANT:
        others = _ordered(others, notes)
    if results and others and atoms[: len(results)] != results:
        notes.moved(path, "its results, to its beginning")
    said = [Turn(speaker, others, index, path)] if others else []
    answered = [Turn(Speaker.RESULT, results, index, path)] if results else []
    return [*said, *answered] if speaker is Speaker.ASSISTANT else [*answered, *said]


def _ordered(atoms: list[Atom], notes: Notes) -> list[Atom]:
    """Thoughts before calls, and none at the end."""
    first = next((i for i, atom in enumerate(atoms) if atom.kind is Kind.CALL), len(atoms))
    late = [atom for atom in atoms[first:] if atom.value.get("type") in _THOUGHTS]
    if late:
        notes.moved(late[0].path, "a thought, to before the calls")
        rest = [atom for atom in atoms[first:] if atom.value.get("type") not in _THOUGHTS]
        atoms = [*atoms[:first], *late, *rest]
    while atoms and atoms[-1].value.get("type") in _THOUGHTS:
        last = atoms.pop()
        notes.left_out(last.path, "a thought nothing follows", text_at(last.value, "thinking"))
    return atoms


def _atom(value: object, speaker: Speaker, path: str, notes: Notes) -> Atom | None:
    block = object_of(value)
    kind = text_at(block or {}, "type")
    if block is None or not kind:
        notes.left_out(path, "not a block", shown(value))
        return None
    if kind == "text":
        text = block.get("text")
        if isinstance(text, str) and text.strip():
            return Atom(Kind.SAID, block, path)
        notes.left_out(path, "a text block without words", shown(block))
        return None
    if speaker is Speaker.SYSTEM:
        return _as_text(block, "a system message holds text only", path, notes)
    if kind in _THOUGHTS:
        return _thought(block, speaker, path, notes)
    if kind == "tool_use":
        return _call(block, speaker, path, notes)
    if kind == "tool_result":
        return Atom(Kind.RESULT, _result(block, path, notes), path, text_at(block, "tool_use_id"))
    if kind in ("image", "document"):
        source = object_at(block, "source")
        keys = _SOURCES.get(text_at(source, "type"))
        if keys is None or not all(text_at(source, key) for key in keys):
            notes.left_out(path, f"{kind} without what it shows", shown(block))
            return None
    return Atom(Kind.SAID, block, path)


def _as_text(block: JsonObject, why: str, path: str, notes: Notes) -> Atom | None:
    words = "\n".join(texts_in(block))
    notes.converted(path, f"as text: {why}")
    return _DIALECT.said(words, path) if words.strip() else None


def _thought(block: JsonObject, speaker: Speaker, path: str, notes: Notes) -> Atom | None:
    redacted = block.get("type") == "redacted_thinking"
    signed = text_at(block, "data" if redacted else "signature")
    worded = redacted or isinstance(block.get("thinking"), str)
    if speaker is not Speaker.ASSISTANT or not signed or not worded:
        notes.left_out(path, "a thought that is not signed, or not the assistant's", shown(block))
        return None
    if "cache_control" in block:
        notes.left_out(path, "a cache mark on a thought")
        block = {key: block[key] for key in block if key != "cache_control"}
    return Atom(Kind.SAID, block, path)


def _call(block: JsonObject, speaker: Speaker, path: str, notes: Notes) -> Atom | None:
    if speaker is not Speaker.ASSISTANT:
        return _as_text(block, f"a call by the {speaker}", path, notes)
    name, given = text_at(block, "name"), block.get("input")
    fixed = {**block, "id": text_at(block, "id"), "name": sendable_name(name, _DIALECT.ids, 128)}
    if fixed["name"] != block.get("name"):
        notes.converted(path, f"the name {block.get('name')!r}, which cannot be sent")
    if object_of(given) is None:
        fixed["input"] = _as_input(given)
        notes.converted(path, "input that is no object, put into one")
    return Atom(Kind.CALL, block if fixed == block else fixed, path, text_at(block, "id"))


def _as_input(given: object) -> JsonObject:
    if isinstance(given, str):
        found, sound = arguments_object(given)
        if sound and given:
            return found
    return {} if given is None else {"input": given}


def _result(block: JsonObject, path: str, notes: Notes) -> JsonObject:
    content = block.get("content")
    fixed = block
    if not isinstance(block.get("tool_use_id"), str):
        fixed = {**block, "tool_use_id": ""}
        notes.converted(path, "a result that names no call")
    if content is None or isinstance(content, str):
        return fixed
    inner = list_of(content)
    if inner is not None and all(text_at(object_of(each) or {}, "type") for each in inner):
        return fixed
    notes.converted(path, "content that is no list of blocks, as text")
    return {**fixed, "content": shown(content)}


def _written(turns: list[Turn], items: list[object], notes: Notes) -> list[JsonObject]:
    """The messages: turns that came from one message, and still stand together, make one again."""
    groups: list[list[Turn]] = []
    for turn in turns:
        last = groups[-1][-1] if groups else None
        joined = (
            last is not None and last.speaker is Speaker.RESULT and turn.speaker is Speaker.USER
        )
        if joined and last is not None and last.home == turn.home >= 0:
            groups[-1].append(turn)
        else:
            groups.append([turn])
    messages: list[JsonObject] = []
    for group in groups:
        message = _message(group, items)
        before = messages[-1].get("role") if messages else None
        if message["role"] == "system" and before != "user":
            notes.converted(group[0].path, "a system message that follows no user message")
            message = {**message, "role": "user"}
        if message["role"] == "assistant" and before is None:
            notes.added(group[0].path, "a user message before the assistant's first")
            messages.append({"role": "user", "content": NOT_SHOWN})
        messages.append(message)
    if not messages:
        notes.added("messages", "a message, where there was none")
        messages.append({"role": "user", "content": NOT_SHOWN})
    return messages


def _message(group: list[Turn], items: list[object]) -> JsonObject:
    atoms = [atom for turn in group for atom in turn.atoms]
    speaker, home = group[0].speaker, group[0].home
    role = "user" if speaker is Speaker.RESULT else str(speaker)
    raw = (object_of(items[home]) or {}) if home >= 0 else {}
    content = raw.get("content")
    blocks: list[object] = [atom.value for atom in atoms]
    same = [{"type": "text", "text": content}] == blocks if isinstance(content, str) else False
    if raw.get("role") == role and (same or content == blocks):
        return raw
    return {**raw, "role": role, "content": blocks}


def _repair_system(fields: JsonObject, notes: Notes) -> None:
    system = fields.get("system")
    if system is None or isinstance(system, str):
        return
    blocks = list_of(system)
    if blocks is None:
        fields["system"] = shown(system)
        notes.converted("system", "neither text nor a list, as text")
        return
    kept: list[object] = []
    for index, value in enumerate(blocks):
        atom = _atom(value, Speaker.SYSTEM, f"system[{index}]", notes)
        kept += [atom.value] if atom is not None else []
    fields["system"] = kept


def _repair_marks(fields: JsonObject, notes: Notes) -> JsonObject:
    """At most four cache marks: the last ones, which cover the most."""
    messages = [object_of(message) or {} for message in list_at(fields, "messages")]
    extra = list(marked(fields, messages))[:-MOST_CACHE_MARKS]
    if not extra:
        return fields
    notes.left_out("messages", f"{len(extra)} cache marks more than {MOST_CACHE_MARKS}")
    unwanted = {id(block) for block in extra}
    return {key: _unmarked(value, unwanted) for key, value in fields.items()}


def _unmarked(value: object, unwanted: set[int]) -> object:
    fields = object_of(value)
    if fields is not None:
        found = {key: _unmarked(inner, unwanted) for key, inner in fields.items()}
        if id(value) in unwanted:
            del found["cache_control"]
        return found
    items = list_of(value)
    return [_unmarked(item, unwanted) for item in items] if items is not None else value
