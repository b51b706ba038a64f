"""Lint (check) and repair request payloads of Google's Gemini API, changing as little as possible."""

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
    split_turns,
)
from turnfold.wire.codec import as_object
from turnfold.wire.gemini_parts import (
    SIGNATURE,
    camel,
    function_call,
    function_response,
    generated_id,
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
    "lint_gemini",
    "repair_gemini",
)


_DATA_FIELDS = frozenset(
    "text inlineData fileData functionCall functionResponse executableCode codeExecutionResult "
    "toolCall toolResponse".split()
)
"""Data fields of a part; a part has exactly one of them."""
_MEDIA_FIELDS = {"inlineData": "data", "fileData": "fileUri"}
_IDS = id_rule("gemini")
_STRICT = re.compile(r"gemini-(\d+)")


def lint_gemini(payload: OpenedPayload, faults: FaultCollector) -> None:
    """Check a payload for Gemini: add every rule that it breaks to `faults`."""
    if isinstance(payload.fields.get("contents"), str):
        return
    if payload.items is None:
        faults.add_fault("shape", "contents", "neither text nor a list")
        return
    if not payload.items:
        faults.add_fault("some-message", "contents", "empty")
    contents = [object_of(item) or {} for item in payload.items]
    for index, content in enumerate(contents):
        before = contents[index - 1] if index else {}
        after = contents[index + 1] if index + 1 < len(contents) else {}
        path = f"contents[{index}]"
        _content(content, path, faults)
        _pairing(content, before, after, path, faults)
    if contents and contents[0].get("role") == "model":
        faults.add_fault("first-role", "contents[0]", "the first content is the model's")
    if _needs_signatures(payload.fields):
        for index, place in _unsigned(contents):
            faults.add_fault(
                "signature",
                f"contents[{index}].parts[{place}]",
                "a tool call without its signature",
            )


def _needs_signatures(fields: JsonObject) -> bool:
    """Return True if the model refuses unsigned calls: Gemini 3 and later."""
    found = _STRICT.search(text_at(fields, "model"))
    return found is not None and int(found[1]) >= 3


def _unsigned(contents: list[JsonObject]) -> list[tuple[int, int]]:
    """Return the places of calls that lack a needed signature: the first call of each step of the current turn."""
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


def _content(content: JsonObject, path: str, faults: FaultCollector) -> None:
    if content.get("role") not in (None, "user", "model"):
        faults.add_fault("role", path, f"the role {content.get('role')!r} is not allowed")
    parts = list_of(content.get("parts"))
    if parts is None:
        faults.add_fault("shape", path, "parts is not a list")
        return
    if not parts:
        faults.add_fault("empty-content", path, "no parts")
    for index, part in enumerate(parts):
        _part(camel(object_of(part) or {}), f"{path}.parts[{index}]", faults)


def _part(part: JsonObject, path: str, faults: FaultCollector) -> None:
    data = [key for key in part if key in _DATA_FIELDS and part[key] is not None]
    if len(data) != 1:
        faults.add_fault(
            "part-data",
            path,
            f"a part must have one data field; it has {', '.join(data) or 'none'}",
        )
        return
    value = part[data[0]]
    if data[0] == "text":
        if not isinstance(value, str):
            faults.add_fault("shape", path, "the text field is not text")
    elif object_of(value) is None:
        faults.add_fault("shape", path, f"{data[0]} is not an object")
    elif data[0] in ("functionCall", "functionResponse"):
        _function(object_of(value) or {}, data[0], path, faults)
    elif (key := _MEDIA_FIELDS.get(data[0])) and not text_at(camel(object_of(value) or {}), key):
        faults.add_fault("media-source", path, f"{data[0]} without its data")


def _function(fields: JsonObject, kind: str, path: str, faults: FaultCollector) -> None:
    if _IDS.name.fullmatch(text_at(fields, "name")) is None:
        faults.add_fault("call-name", path, f"the name {fields.get('name')!r} is not allowed")
    if kind == "functionResponse":
        if object_of(fields.get("response")) is None:
            faults.add_fault("result-object", path, "response is not an object")
    elif fields.get("args") is not None and object_of(fields["args"]) is None:
        faults.add_fault("call-input", path, "args is not an object")


def _pairing(
    content: JsonObject, before: JsonObject, after: JsonObject, path: str, faults: FaultCollector
) -> None:
    calls = _names(content, "functionCall")
    answers = _names(content, "functionResponse")
    if calls:
        if content.get("role") != "model":
            faults.add_fault("call-place", path, "a tool call in a content that is not the model's")
        if before.get("role") == "model":
            faults.add_fault(
                "call-place", path, "a tool call directly after another content of the model"
            )
        if not _match(calls, _names(after, "functionResponse")):
            faults.add_fault(
                "call-answered", path, f"the {len(calls)} calls have no matching results after them"
            )
    if answers:
        if content.get("role") == "model":
            faults.add_fault("result-called", path, "a tool result in a content of the model")
        if not _match(_names(before, "functionCall"), answers):
            faults.add_fault(
                "result-called",
                path,
                f"the {len(answers)} results have no matching calls before them",
            )
        if any("text" in part for part in _parts(content)):
            faults.add_fault("result-alone", path, "text together with tool results")


def _match(calls: list[tuple[str, str]], answers: list[tuple[str, str]]) -> bool:
    """Return True if each call has a result with the same name, and with the same id if all of them have ids."""
    named = sorted(name for name, _ in calls) == sorted(name for name, _ in answers)
    if not named or not all(found for _, found in (*calls, *answers)):
        return named
    return sorted(calls) == sorted(answers)


def _names(content: JsonObject, kind: str) -> list[tuple[str, str]]:
    """Return name and id of each tool call or result in a content; the id is empty if there is none."""
    found = [object_at(part, kind) for part in map(camel, _parts(content)) if kind in part]
    return [(text_at(each, "name"), text_at(each, "id")) for each in found]


UNSIGNED = "skip_thought_signature_validator"
"""The placeholder signature that Google documents for calls made by another model."""
_CALL, _RESPONSE = "functionCall", "functionResponse"


class _Gemini:
    adjacent = True
    together = True
    ids = _IDS

    def said(self, text: str, path: str) -> Atom:
        return Atom(AtomKind.SAID, {"text": text}, path)

    def result_for(self, call: Atom, text: str) -> Atom:
        given = object_at(camel(call.value), _CALL)
        fields: JsonObject = {"name": given.get("name"), "response": {"output": text}}
        fields = {"id": given["id"], **fields} if given.get("id") else fields
        return Atom(AtomKind.RESULT, {_RESPONSE: fields}, call.path, call.id, call.name)

    def result_text(self, result: Atom) -> str:
        fields = object_at(camel(result.value), _RESPONSE)
        said = {key: fields[key] for key in fields if key not in ("id", "name")}
        return "\n".join(texts_in(said))

    def with_id(self, atom: Atom, new_id: str) -> Atom:
        return Atom(atom.kind, atom.value, atom.path, new_id, atom.name)


_DIALECT = _Gemini()


class _Reader:
    """Splits Gemini contents into turns of blocks.

    Contents must be read in order: a tool result without an id is matched to the first unanswered call with its name.
    """

    __slots__ = ("_notes", "_open", "_step")

    def __init__(self, notes: ChangeNotes) -> None:
        self._notes = notes
        self._open: list[Atom] = []
        """Tool calls without a result yet, of the last content that has calls."""
        self._step = 0

    def read(self, value: object, index: int) -> list[WireTurn]:
        path = f"contents[{index}]"
        content = object_of(value)
        if content is None:
            self._notes.left_out(path, "not a content", shown(value))
            return []
        role = content.get("role")
        if role not in (None, "user", "model"):
            self._notes.converted(path, f"the role {role!r}, sent as user")
        raw = list_of(content.get("parts"))
        speaker = Speaker.ASSISTANT if role == "model" else Speaker.USER
        atoms = [
            atom
            for place, part in enumerate(raw or [])
            for atom in self._atoms(part, speaker, f"{path}.parts[{place}]")
        ]
        if not atoms:
            self._notes.left_out(path, "a content without parts that can be sent", shown(content))
        calls = [atom for atom in atoms if atom.kind is AtomKind.CALL]
        if calls:
            self._open, self._step = calls, index
        results = [atom for atom in atoms if atom.kind is AtomKind.RESULT]
        others = [atom for atom in atoms if atom.kind is not AtomKind.RESULT]
        for result in results:
            self._match(result)
        if results and any("text" in atom.value for atom in others):
            self._notes.moved(path, "text together with tool results, into a separate content")
        return split_turns(speaker, others, results, home=index, path=path)

    def _atoms(self, value: object, speaker: Speaker, path: str) -> list[Atom]:
        part = object_of(value) or {}
        fields = camel(part)
        data = [key for key in fields if key in _DATA_FIELDS and fields[key] is not None]
        if len(data) > 1:
            self._notes.converted(
                path, f"one part with {len(data)} data fields, split: {', '.join(data)}"
            )
            others = {key: fields[key] for key in fields if key not in _DATA_FIELDS}
            split = [{**(others if key == data[0] else {}), key: fields[key]} for key in data]
            return [atom for each in split for atom in self._atoms(each, speaker, path)]
        if not data:
            self._notes.left_out(path, "a part without data", shown(value))
            return []
        atom = self._atom(part, fields, data[0], speaker, path)
        return [] if atom is None else [atom]

    def _atom(
        self, part: JsonObject, fields: JsonObject, kind: str, speaker: Speaker, path: str
    ) -> Atom | None:
        value = fields[kind]
        if kind == "text":
            if isinstance(value, str):
                return Atom(AtomKind.SAID, part, path)
            self._notes.converted(path, "the text field is not text")
            return Atom(AtomKind.SAID, {**part, "text": shown(value)}, path)
        inner = object_of(value)
        if inner is None:
            self._notes.left_out(path, f"{kind} that is not an object", shown(value))
            return None
        if kind in _MEDIA_FIELDS and not text_at(camel(inner), _MEDIA_FIELDS[kind]):
            self._notes.left_out(path, f"{kind} without its data", shown(part))
            return None
        if kind == _CALL and speaker is not Speaker.ASSISTANT:
            self._notes.converted(path, "a tool call in a content that is not the model's, as text")
            return _DIALECT.said("\n".join(texts_in(inner)) or "call", path)
        if kind not in (_CALL, _RESPONSE):
            return Atom(AtomKind.SAID, part, path)
        fixed = self._function(inner, kind, path)
        whole = part if fixed == inner else {**fields, kind: fixed}
        atom_kind = AtomKind.CALL if kind == _CALL else AtomKind.RESULT
        call_id, name = text_at(fixed, "id"), text_at(fixed, "name")
        return Atom(atom_kind, whole, path, call_id or self._unnamed(name, path), name)

    def _unnamed(self, name: str, path: str) -> str:
        """Return an id for a tool call without one; it is unique in the payload and never sent."""
        return f"{generated_id(name, self._step)} {path}"

    def _function(self, inner: JsonObject, kind: str, path: str) -> JsonObject:
        fixed = {**inner, "name": sendable_name(text_at(inner, "name"), _DIALECT.ids, 128)}
        if fixed["name"] != inner.get("name"):
            self._notes.converted(
                path, f"the name {inner.get('name')!r}, which the provider refuses"
            )
        key = "args" if kind == _CALL else "response"
        given = inner.get(key)
        if object_of(given) is None and (kind == _RESPONSE or given is not None):
            fixed[key] = as_object(given) if kind == _CALL else {"output": given}
            self._notes.converted(path, f"{key} that is not an object, wrapped in one")
        if "id" in inner and inner["id"] is not None and not isinstance(inner["id"], str):
            del fixed["id"]
            self._notes.left_out(path, "an id that is not text", shown(inner["id"]))
        return fixed

    def _match(self, result: Atom) -> None:
        """Give a tool result the id of the call it answers: the call with its id, otherwise the first with its name."""
        fields = object_at(camel(result.value), _RESPONSE)
        given = text_at(fields, "id")
        mine = [call for call in self._open if given and _own_id(call) == given]
        named = [call for call in self._open if call.name == result.name]
        free = [call for call in named if not given or not _own_id(call)]
        found = next(iter((*mine, *free)), None)
        if found is None:
            result.id = f"{result.path} answers nothing"
            return
        self._open = [each for each in self._open if each is not found]
        result.id = found.id
        if result.name != found.name:
            self._notes.converted(
                result.path, f"the name {result.name!r}, replaced by the name in its call"
            )
            result.name = found.name
            result.value = {**camel(result.value), _RESPONSE: {**fields, "name": found.name}}


def _own_id(call: Atom) -> str:
    return text_at(object_at(camel(call.value), _CALL), "id")


def repair_gemini(payload: OpenedPayload, notes: ChangeNotes) -> JsonObject:
    """Return the arguments of a call to Gemini with every fault repaired; changes are recorded in `notes`."""
    items = payload.items or []
    if payload.items is None:
        notes.left_out("contents", "no list of contents", shown(payload.fields.get("contents")))
    reader = _Reader(notes)
    turns: list[WireTurn] = []
    for index, item in enumerate(items):
        turns += reader.read(item, index)
    contents = _written(pair(turns, _DIALECT, notes), items, notes)
    if _needs_signatures(payload.fields):
        for index, place in _unsigned(contents):
            parts = list_at(contents[index], "parts")
            signed: JsonObject = {**camel(object_of(parts[place]) or {}), SIGNATURE: UNSIGNED}
            parts = [*parts[:place], signed, *parts[place + 1 :]]
            contents[index] = {**contents[index], "parts": parts}
            path = f"contents[{index}].parts[{place}]"
            notes.added(
                path,
                "the placeholder that Google documents for the signature of another model's call",
            )
    return {**payload.fields, "contents": contents}


def _written(turns: list[WireTurn], items: list[object], notes: ChangeNotes) -> list[JsonObject]:
    contents: list[JsonObject] = []
    homes: list[int] = []
    for turn in turns:
        role = "model" if turn.speaker is Speaker.ASSISTANT else "user"
        parts: list[object] = [atom.value for atom in turn.atoms]
        calls = any(atom.kind is AtomKind.CALL for atom in turn.atoms)
        same_message = bool(homes) and homes[-1] == turn.home >= 0 and role == "user"
        texts = any("text" in atom.value for atom in turn.atoms)
        if contents and contents[-1]["role"] == role == "model" and calls:
            notes.moved(turn.path, "a tool call, into the previous content of the model")
            while len(contents) > 1 and contents[-2]["role"] == "model":
                parts = [*list_at(contents.pop(), "parts"), *parts]
                homes.pop()
            contents[-1] = _with_parts(contents[-1], parts)
        elif same_message and not texts and contents[-1]["role"] == "user":
            contents[-1] = _with_parts(contents[-1], parts)
        else:
            if not contents and role == "model":
                notes.added(turn.path, "a user content before the first content of the model")
                contents.append({"role": "user", "parts": [{"text": NOT_SHOWN}]})
                homes.append(-1)
            raw = (object_of(items[turn.home]) or {}) if turn.home >= 0 else {}
            contents.append({**raw, "role": role, "parts": parts})
            homes.append(turn.home)
    if not contents:
        notes.added("contents", "a content, because there was none")
        contents.append({"role": "user", "parts": [{"text": NOT_SHOWN}]})
    return contents


def _with_parts(content: JsonObject, parts: list[object]) -> JsonObject:
    return {**content, "parts": [*list_at(content, "parts"), *parts]}
