"""Lint (check) and repair request payloads of Anthropic's Messages API, changing as little as possible."""

from __future__ import annotations

from collections.abc import Iterator

from turnfold.wire.call_pairing import (
    NOT_SHOWN,
    Atom,
    AtomKind,
    Speaker,
    WireTurn,
    pair,
    sendable_name,
    split_turns,
)
from turnfold.wire.codec import as_object
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
    "lint_anthropic",
    "repair_anthropic",
)


_MOST_CACHE_MARKS = 4
_IDS = id_rule("anthropic")
_THOUGHTS = ("thinking", "redacted_thinking")
_SOURCE_FIELDS = {
    "base64": ("media_type", "data"),
    "url": ("url",),
    "file": ("file_id",),
    "text": ("data",),
    "content": (),
}
"""Type of a media source -> the fields it must have."""


def lint_anthropic(payload: OpenedPayload, faults: FaultCollector) -> None:
    """Check a payload for Anthropic: add every rule that its messages or other arguments break to `faults`."""
    if payload.items is None:
        faults.add_fault("shape", "messages", "not a list")
        return
    if not payload.items:
        faults.add_fault("some-message", "messages", "empty")
    messages = [object_of(item) for item in payload.items]
    used: set[str] = set()
    for index, message in enumerate(messages):
        path = f"messages[{index}]"
        if message is None:
            faults.add_fault("shape", path, "not an object")
            continue
        before = messages[index - 1] if index else None
        _lint_message(message, path, faults, last=index == len(messages) - 1)
        _place(message, before, path, faults)
        _calls(message, messages[index + 1] if index + 1 < len(messages) else None, path, faults)
        _results(message, before, path, faults)
        for block in _blocks(message, "tool_use"):
            if text_at(block, "id") in used:
                faults.add_fault("call-unique", path, f"the id {block.get('id')!r} is used twice")
            used.add(text_at(block, "id"))
    _system(payload.fields.get("system"), faults)
    _arguments(payload, [message for message in messages if message], faults)


def _blocks(message: JsonObject | None, *kinds: str) -> list[JsonObject]:
    content = list_at(message or {}, "content")
    found = [block for block in map(object_of, content) if block is not None]
    return [block for block in found if not kinds or block.get("type") in kinds]


def _begins_with_compaction(message: JsonObject) -> bool:
    """Return True if the message begins with a compaction block, which replaces all messages before it."""
    return [block.get("type") for block in _blocks(message)[:1]] == ["compaction"]


def _lint_message(message: JsonObject, path: str, faults: FaultCollector, *, last: bool) -> None:
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant", "system"):
        faults.add_fault("role", path, f"the role {role!r} is not allowed")
    if isinstance(content, str):
        if content and not content.strip():
            faults.add_fault("blank-text", path, "only white space")
        elif not content and not (last and role == "assistant"):
            faults.add_fault("empty-content", path, "empty text")
        return
    blocks = list_of(content)
    if blocks is None:
        faults.add_fault("shape", path, "content is neither text nor a list")
        return
    if not blocks and not (last and role == "assistant"):
        faults.add_fault("empty-content", path, "no content")
    called = False
    for index, value in enumerate(blocks):
        block = object_of(value) or {}
        where = f"{path}.content[{index}]"
        _block(block, role, where, faults)
        called = called or block.get("type") == "tool_use"
        if called and block.get("type") in _THOUGHTS:
            faults.add_fault("thinking-order", where, "thinking after a tool call")
    if role == "assistant" and blocks and (object_of(blocks[-1]) or {}).get("type") in _THOUGHTS:
        faults.add_fault("thinking-last", path, "the last block is thinking")


def _block(block: JsonObject, role: object, path: str, faults: FaultCollector) -> None:
    match block.get("type"):
        case "text":
            if not isinstance(block.get("text"), str):
                faults.add_fault("shape", path, "a text block without text")
            elif not text_at(block, "text").strip():
                faults.add_fault("blank-text", path, "empty, or only white space")
        case "thinking" | "redacted_thinking":
            _lint_thought(block, role, path, faults)
        case "tool_use":
            _lint_call(block, role, path, faults)
        case "tool_result":
            _lint_result(block, role, path, faults)
        case "image" | "document":
            _source(block, path, faults)
        case str(kind) if kind:
            pass
        case _:
            faults.add_fault("shape", path, "a block without a type")


def _lint_thought(block: JsonObject, role: object, path: str, faults: FaultCollector) -> None:
    if role != "assistant":
        faults.add_fault("shape", path, f"thinking in a message of role {role!r}")
    needed = "signature" if block["type"] == "thinking" else "data"
    if not text_at(block, needed):
        faults.add_fault("thinking-signed", path, f"no {needed}")
    if block["type"] == "thinking" and not isinstance(block.get("thinking"), str):
        faults.add_fault("shape", path, "a thinking block without text")
    if "cache_control" in block:
        faults.add_fault("cache-place", path, "a cache mark on a thinking block")


def _lint_call(block: JsonObject, role: object, path: str, faults: FaultCollector) -> None:
    if role != "assistant":
        faults.add_fault("shape", path, f"a tool call in a message of role {role!r}")
    if not _IDS.allows(block.get("id")):
        faults.add_fault("call-id", path, f"the id {block.get('id')!r} is not allowed")
    if _IDS.name.fullmatch(text_at(block, "name")) is None:
        faults.add_fault("call-name", path, f"the name {block.get('name')!r} is not allowed")
    if object_of(block.get("input")) is None:
        faults.add_fault("call-input", path, "input is not an object")


def _lint_result(block: JsonObject, role: object, path: str, faults: FaultCollector) -> None:
    if role != "user":
        faults.add_fault("shape", path, f"a tool result in a message of role {role!r}")
    content = block.get("content")
    if content is None or isinstance(content, str):
        return
    inner = list_of(content)
    if inner is None or not all(text_at(object_of(each) or {}, "type") for each in inner):
        faults.add_fault("shape", path, "content is neither text nor a list of blocks")


def _source(block: JsonObject, path: str, faults: FaultCollector) -> None:
    if not _has_source(block):
        kind = object_at(block, "source").get("type")
        faults.add_fault(
            "media-source", path, f"a source of type {kind!r} is not allowed, or lacks a field"
        )


def _has_source(block: JsonObject) -> bool:
    source = object_at(block, "source")
    keys = _SOURCE_FIELDS.get(text_at(source, "type"))
    return keys is not None and all(text_at(source, key) for key in keys)


def _place(
    message: JsonObject, before: JsonObject | None, path: str, faults: FaultCollector
) -> None:
    role = message.get("role")
    if role == "assistant" and path == "messages[0]" and not _begins_with_compaction(message):
        faults.add_fault("first-role", path, "the first message is the assistant's")
    if role != "system":
        return
    if before is None or before.get("role") != "user":
        faults.add_fault("system-place", path, "a system message must follow a user message")
    if any(block.get("type") != "text" for block in _blocks(message)):
        faults.add_fault("shape", path, "a system message may only hold text")


def _calls(
    message: JsonObject, after: JsonObject | None, path: str, faults: FaultCollector
) -> None:
    answered = [text_at(block, "tool_use_id") for block in _blocks(after, "tool_result")]
    for block in _blocks(message, "tool_use"):
        if text_at(block, "id") not in answered:
            faults.add_fault("call-answered", path, f"no result for {block.get('id')!r} follows")


def _results(
    message: JsonObject, before: JsonObject | None, path: str, faults: FaultCollector
) -> None:
    called = {text_at(block, "id") for block in _blocks(before, "tool_use")}
    seen: set[str] = set()
    for call_id in (text_at(block, "tool_use_id") for block in _blocks(message, "tool_result")):
        if call_id not in called:
            faults.add_fault("result-called", path, f"result for {call_id!r} without its call")
        if call_id in seen:
            faults.add_fault("result-once", path, f"two results for {call_id!r}")
        seen.add(call_id)
    kinds = [block.get("type") for block in _blocks(message)]
    if "tool_result" in kinds[kinds.count("tool_result") :]:
        faults.add_fault("results-first", path, "other content comes before a tool result")


def _system(system: object, faults: FaultCollector) -> None:
    if system is None or isinstance(system, str):
        return
    blocks = list_of(system)
    if blocks is None:
        faults.add_fault("shape", "system", "neither text nor a list")
        return
    for index, value in enumerate(blocks):
        block = object_of(value) or {}
        if block.get("type") != "text" or not isinstance(block.get("text"), str):
            faults.add_fault("shape", f"system[{index}]", "not a text block")
        elif not text_at(block, "text").strip():
            faults.add_fault("blank-text", f"system[{index}]", "empty, or only white space")


def _arguments(payload: OpenedPayload, messages: list[JsonObject], faults: FaultCollector) -> None:
    marks = sum(1 for _ in _cache_marked_blocks(payload.fields, messages))
    if marks > _MOST_CACHE_MARKS:
        faults.add_fault(
            "cache-marks",
            "messages",
            f"{marks} cache marks; at most {_MOST_CACHE_MARKS} are allowed",
        )
    if object_at(payload.fields, "thinking").get("type") == "enabled" and _loop_lacks_thinking(
        messages
    ):
        faults.add_fault(
            "thinking-first", "thinking", "the current turn does not begin with thinking"
        )


def _cache_marked_blocks(fields: JsonObject, messages: list[JsonObject]) -> Iterator[JsonObject]:
    """Yield the blocks with a cache mark (`cache_control`), in the order of the prompt: tools, system, messages."""
    for values in (list_at(fields, "tools"), list_at(fields, "system")):
        yield from _marked(values)
    for message in messages:
        for block in _blocks(message):
            yield from _marked(list_at(block, "content"))
            yield from _marked([block])


def _marked(values: list[object]) -> Iterator[JsonObject]:
    for block in map(object_of, values):
        if block is not None and block.get("cache_control") is not None:
            yield block


def _loop_lacks_thinking(messages: list[JsonObject]) -> bool:
    """Return True if the prompt ends inside a tool loop and its last assistant message does not begin with thinking."""
    if not messages or not _blocks(messages[-1], "tool_result"):
        return False
    asked = next((each for each in reversed(messages) if each.get("role") == "assistant"), None)
    kinds = [block.get("type") for block in _blocks(asked)]
    return "tool_use" in kinds and kinds[0] not in _THOUGHTS


class _Anthropic:
    adjacent = True
    together = True
    ids = _IDS

    def said(self, text: str, path: str) -> Atom:
        return Atom(AtomKind.SAID, {"type": "text", "text": text}, path)

    def result_for(self, call: Atom, text: str) -> Atom:
        value: JsonObject = {"type": "tool_result", "tool_use_id": call.id, "content": text}
        return Atom(AtomKind.RESULT, value, call.path, call.id)

    def result_text(self, result: Atom) -> str:
        return "\n".join(texts_in(result.value.get("content")))

    def with_id(self, atom: Atom, new_id: str) -> Atom:
        key = "id" if atom.kind is AtomKind.CALL else "tool_use_id"
        return Atom(atom.kind, {**atom.value, key: new_id}, atom.path, new_id)


_DIALECT = _Anthropic()


def repair_anthropic(payload: OpenedPayload, notes: ChangeNotes) -> JsonObject:
    """Return the arguments of a call to Anthropic with every fault repaired; changes are recorded in `notes`."""
    items = payload.items or []
    if payload.items is None:
        notes.left_out("messages", "no list of messages", shown(payload.fields.get("messages")))
    turns: list[WireTurn] = []
    for index, item in enumerate(items):
        turns += _read(item, index, notes)
    turns = pair(turns, _DIALECT, notes)
    messages = _written(turns, items, notes)
    fields = {**payload.fields, "messages": messages}
    _repair_system(fields, notes)
    if object_at(fields, "thinking").get("type") == "enabled" and _loop_lacks_thinking(messages):
        fields["thinking"] = {"type": "disabled"}
        notes.converted("thinking", "switched off: the current turn does not begin with thinking")
    return _repair_marks(fields, notes)


def _read(item: object, index: int, notes: ChangeNotes) -> list[WireTurn]:
    path = f"messages[{index}]"
    message = object_of(item)
    if message is None:
        notes.left_out(path, "not a message", shown(item))
        return []
    role = message.get("role")
    if role not in ("user", "assistant", "system"):
        notes.converted(path, f"the role {role!r}, sent as user")
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
    results = [atom for atom in atoms if atom.kind is AtomKind.RESULT]
    others = [atom for atom in atoms if atom.kind is not AtomKind.RESULT]
    if speaker is Speaker.ASSISTANT:
        others = _ordered(others, notes)
    if results and others and atoms[: len(results)] != results:
        notes.moved(path, "the tool results, to the beginning of the message")
    return split_turns(speaker, others, results, home=index, path=path)


def _ordered(atoms: list[Atom], notes: ChangeNotes) -> list[Atom]:
    """Return a message's blocks with all thinking before the tool calls, and no thinking at the end."""
    first = next((i for i, atom in enumerate(atoms) if atom.kind is AtomKind.CALL), len(atoms))
    late = [atom for atom in atoms[first:] if atom.value.get("type") in _THOUGHTS]
    if late:
        notes.moved(late[0].path, "thinking, to before the tool calls")
        rest = [atom for atom in atoms[first:] if atom.value.get("type") not in _THOUGHTS]
        atoms = [*atoms[:first], *late, *rest]
    while atoms and atoms[-1].value.get("type") in _THOUGHTS:
        last = atoms.pop()
        thinking = text_at(last.value, "thinking")
        notes.left_out(last.path, "thinking at the end of a message", thinking)
    return atoms


def _atom(value: object, speaker: Speaker, path: str, notes: ChangeNotes) -> Atom | None:
    block = object_of(value)
    kind = text_at(block or {}, "type")
    if block is None or not kind:
        notes.left_out(path, "not a block", shown(value))
        return None
    if kind == "text":
        text = block.get("text")
        if isinstance(text, str) and text.strip():
            return Atom(AtomKind.SAID, block, path)
        notes.left_out(path, "a text block without text", shown(block))
        return None
    if speaker is Speaker.SYSTEM:
        return _as_text(block, "a system message may only hold text", path, notes)
    if kind in _THOUGHTS:
        return _thought(block, speaker, path, notes)
    if kind == "tool_use":
        return _call(block, speaker, path, notes)
    if kind == "tool_result":
        return Atom(
            AtomKind.RESULT, _result(block, path, notes), path, text_at(block, "tool_use_id")
        )
    if kind in ("image", "document") and not _has_source(block):
        notes.left_out(path, f"{kind} without its data", shown(block))
        return None
    return Atom(AtomKind.SAID, block, path)


def _as_text(block: JsonObject, why: str, path: str, notes: ChangeNotes) -> Atom | None:
    text = "\n".join(texts_in(block))
    notes.converted(path, f"sent as text: {why}")
    return _DIALECT.said(text, path) if text.strip() else None


def _thought(block: JsonObject, speaker: Speaker, path: str, notes: ChangeNotes) -> Atom | None:
    redacted = block.get("type") == "redacted_thinking"
    signed = text_at(block, "data" if redacted else "signature")
    worded = redacted or isinstance(block.get("thinking"), str)
    if speaker is not Speaker.ASSISTANT or not signed or not worded:
        notes.left_out(
            path, "thinking that is not signed, or not in an assistant message", shown(block)
        )
        return None
    if "cache_control" in block:
        notes.left_out(path, "a cache mark on a thinking block")
        block = {key: block[key] for key in block if key != "cache_control"}
    return Atom(AtomKind.SAID, block, path)


def _call(block: JsonObject, speaker: Speaker, path: str, notes: ChangeNotes) -> Atom | None:
    if speaker is not Speaker.ASSISTANT:
        return _as_text(block, f"a tool call in a message of the {speaker}", path, notes)
    name, given = text_at(block, "name"), block.get("input")
    fixed = {**block, "id": text_at(block, "id"), "name": sendable_name(name, _DIALECT.ids, 128)}
    if fixed["name"] != block.get("name"):
        notes.converted(path, f"the name {block.get('name')!r}, which the provider refuses")
    if object_of(given) is None:
        fixed["input"] = as_object(given) or {}
        notes.converted(path, "input that is not an object, wrapped in one")
    return Atom(AtomKind.CALL, block if fixed == block else fixed, path, text_at(block, "id"))


def _result(block: JsonObject, path: str, notes: ChangeNotes) -> JsonObject:
    content = block.get("content")
    fixed = block
    if not isinstance(block.get("tool_use_id"), str):
        fixed = {**block, "tool_use_id": ""}
        notes.converted(path, "a tool result whose tool_use_id is not text")
    if content is None or isinstance(content, str):
        return fixed
    inner = list_of(content)
    if inner is not None and all(text_at(object_of(each) or {}, "type") for each in inner):
        return fixed
    notes.converted(path, "content that is not a list of blocks, sent as text")
    return {**fixed, "content": shown(content)}


def _written(turns: list[WireTurn], items: list[object], notes: ChangeNotes) -> list[JsonObject]:
    """Return repaired turns as messages.

    Tool results and the user text after them are joined if they were one message before.
    """
    groups: list[list[WireTurn]] = []
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
            notes.converted(
                group[0].path,
                "a system message that does not follow a user message, sent as a user message",
            )
            message = {**message, "role": "user"}
        if (
            message["role"] == "assistant"
            and before is None
            and not _begins_with_compaction(message)
        ):
            notes.added(group[0].path, "a user message before the first assistant message")
            messages.append({"role": "user", "content": NOT_SHOWN})
        messages.append(message)
    if not messages:
        notes.added("messages", "a message, because there was none")
        messages.append({"role": "user", "content": NOT_SHOWN})
    return messages


def _message(group: list[WireTurn], items: list[object]) -> JsonObject:
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


def _repair_system(fields: JsonObject, notes: ChangeNotes) -> None:
    system = fields.get("system")
    if system is None or isinstance(system, str):
        return
    blocks = list_of(system)
    if blocks is None:
        fields["system"] = shown(system)
        notes.converted("system", "neither text nor a list, sent as text")
        return
    kept: list[object] = []
    for index, value in enumerate(blocks):
        atom = _atom(value, Speaker.SYSTEM, f"system[{index}]", notes)
        kept += [atom.value] if atom is not None else []
    fields["system"] = kept


def _repair_marks(fields: JsonObject, notes: ChangeNotes) -> JsonObject:
    """Remove cache marks until at most four are left: the last four, which cover the longest part of the prompt."""
    messages = [object_of(message) or {} for message in list_at(fields, "messages")]
    extra = list(_cache_marked_blocks(fields, messages))[:-_MOST_CACHE_MARKS]
    if not extra:
        return fields
    notes.left_out(
        "messages", f"the {len(extra)} cache marks above the limit of {_MOST_CACHE_MARKS}"
    )
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
