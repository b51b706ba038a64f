"""Makes a payload one that the Gemini API takes, changing as little as it can."""

from __future__ import annotations

from turnfold.wire.foreign import arguments_object
from turnfold.wire.gemini_parts import SIGNATURE, camel, made_up_id
from turnfold.wire.lint_gemini import DATA_FIELDS, needs_signatures, unsigned
from turnfold.wire.request import Notes
from turnfold.wire.rules import Listing, id_rule
from turnfold.wire.turns import NOT_SHOWN, Atom, Kind, Speaker, Turn, pair, sendable_name
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

__all__ = ("repair_gemini",)

UNSIGNED = "skip_thought_signature_validator"
"""What Google documents for calls that another model made."""
_CALL, _RESPONSE = "functionCall", "functionResponse"


class _Gemini:
    adjacent = True
    together = True
    ids = id_rule("gemini")

    def said(self, text: str, path: str) -> Atom:
        return Atom(Kind.SAID, {"text": text}, path)

    def answer(self, call: Atom, text: str) -> Atom:
        given = object_at(camel(call.value), _CALL)
        fields: JsonObject = {"name": given.get("name"), "response": {"output": text}}
        fields = {"id": given["id"], **fields} if given.get("id") else fields
        return Atom(Kind.RESULT, {_RESPONSE: fields}, call.path, call.id, call.name)

    def words(self, result: Atom) -> str:
        fields = object_at(camel(result.value), _RESPONSE)
        said = {key: fields[key] for key in fields if key not in ("id", "name")}
        return "\n".join(texts_in(said))

    def renamed(self, atom: Atom, new_id: str) -> Atom:
        return Atom(atom.kind, atom.value, atom.path, new_id, atom.name)


_DIALECT = _Gemini()


class _Reader:
    """Reads contents in order, because a result without an id is known by the calls before it."""

    __slots__ = ("_notes", "_open", "_step")

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._open: list[Atom] = []
        """Calls of the last content that made any, not yet answered."""
        self._step = 0

    def read(self, value: object, index: int) -> list[Turn]:
        path = f"contents[{index}]"
        content = object_of(value)
        if content is None:
            self._notes.left_out(path, "not a content", shown(value))
            return []
        role = content.get("role")
        if role not in (None, "user", "model"):
            self._notes.converted(path, f"the role {role!r}, as the user's")
        raw = list_of(content.get("parts"))
        speaker = Speaker.ASSISTANT if role == "model" else Speaker.USER
        atoms = [
            atom
            for place, part in enumerate(raw or [])
            for atom in self._atoms(part, speaker, f"{path}.parts[{place}]")
        ]
        if not atoms:
            self._notes.left_out(path, "a content without parts that can be sent", shown(content))
        calls = [atom for atom in atoms if atom.kind is Kind.CALL]
        if calls:
            self._open, self._step = calls, index
        results = [atom for atom in atoms if atom.kind is Kind.RESULT]
        others = [atom for atom in atoms if atom.kind is not Kind.RESULT]
        for result in results:
            self._match(result)
        if results and any("text" in atom.value for atom in others):
            self._notes.moved(path, "what is said beside results, into a content of its own")
        said = [Turn(speaker, others, index, path)] if others else []
        answered = [Turn(Speaker.RESULT, results, index, path)] if results else []
        return [*said, *answered] if speaker is Speaker.ASSISTANT else [*answered, *said]

    def _atoms(self, value: object, speaker: Speaker, path: str) -> list[Atom]:
        part = object_of(value) or {}
        fields = camel(part)
        data = [key for key in fields if key in DATA_FIELDS and fields[key] is not None]
        if len(data) > 1:
            self._notes.converted(path, f"{len(data)} parts in one: {', '.join(data)}")
            others = {key: fields[key] for key in fields if key not in DATA_FIELDS}
            split = [{**(others if key == data[0] else {}), key: fields[key]} for key in data]
            return [atom for each in split for atom in self._atoms(each, speaker, path)]
        if not data:
            self._notes.left_out(path, "a part that holds nothing", shown(value))
            return []
        atom = self._atom(part, fields, data[0], speaker, path)
        return [] if atom is None else [atom]

    def _atom(
        self, part: JsonObject, fields: JsonObject, kind: str, speaker: Speaker, path: str
    ) -> Atom | None:
        value = fields[kind]
        if kind == "text":
            if isinstance(value, str):
                return Atom(Kind.SAID, part, path)
            self._notes.converted(path, "text that is no text")
            return Atom(Kind.SAID, {**part, "text": shown(value)}, path)
        inner = object_of(value)
        if inner is None:
            self._notes.left_out(path, f"{kind} that is no object", shown(value))
            return None
        if kind in ("inlineData", "fileData"):
            source = text_at(camel(inner), "data" if kind == "inlineData" else "fileUri")
            if not source:
                self._notes.left_out(path, f"{kind} without what it shows", shown(part))
                return None
        if kind == _CALL and speaker is not Speaker.ASSISTANT:
            self._notes.converted(path, "a call that is not the model's, as text")
            return _DIALECT.said("\n".join(texts_in(inner)) or "call", path)
        if kind not in (_CALL, _RESPONSE):
            return Atom(Kind.SAID, part, path)
        fixed = self._function(inner, kind, path)
        whole = part if fixed == inner else {**fields, kind: fixed}
        atom_kind = Kind.CALL if kind == _CALL else Kind.RESULT
        call_id, name = text_at(fixed, "id"), text_at(fixed, "name")
        return Atom(atom_kind, whole, path, call_id or self._unnamed(name, path), name)

    def _unnamed(self, name: str, path: str) -> str:
        """The id of a call without one: no other atom has it, and no caller ever sees it."""
        return f"{made_up_id(name, self._step)} {path}"

    def _function(self, inner: JsonObject, kind: str, path: str) -> JsonObject:
        fixed = {**inner, "name": sendable_name(text_at(inner, "name"), _DIALECT.ids, 128)}
        if fixed["name"] != inner.get("name"):
            self._notes.converted(path, f"the name {inner.get('name')!r}, which cannot be sent")
        key = "args" if kind == _CALL else "response"
        given = inner.get(key)
        if object_of(given) is None and (kind == _RESPONSE or given is not None):
            fixed[key] = _as_arguments(given) if kind == _CALL else {"output": given}
            self._notes.converted(path, f"{key} that is no object, put into one")
        if "id" in inner and inner["id"] is not None and not isinstance(inner["id"], str):
            del fixed["id"]
            self._notes.left_out(path, "an id that is no text", shown(inner["id"]))
        return fixed

    def _match(self, result: Atom) -> None:
        """Give a result the id of the call it answers: the one it names by id, else the first of its name."""
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
            self._notes.converted(result.path, f"the name {result.name!r}, as that of its call")
            result.name = found.name
            result.value = {**camel(result.value), _RESPONSE: {**fields, "name": found.name}}


def _own_id(call: Atom) -> str:
    return text_at(object_at(camel(call.value), _CALL), "id")


def _as_arguments(given: object) -> JsonObject:
    if isinstance(given, str):
        found, sound = arguments_object(given)
        if sound and given:
            return found
    return {"input": given}


def repair_gemini(listing: Listing, notes: Notes) -> JsonObject:
    """The arguments with every fault repaired."""
    items = listing.items or []
    if listing.items is None:
        notes.left_out("contents", "no list of contents", shown(listing.fields.get("contents")))
    reader = _Reader(notes)
    turns: list[Turn] = []
    for index, item in enumerate(items):
        turns += reader.read(item, index)
    contents = _written(pair(turns, _DIALECT, notes), items, notes)
    if needs_signatures(listing.fields):
        for index, place in unsigned(contents):
            parts = list_at(contents[index], "parts")
            signed: JsonObject = {**camel(object_of(parts[place]) or {}), SIGNATURE: UNSIGNED}
            parts = [*parts[:place], signed, *parts[place + 1 :]]
            contents[index] = {**contents[index], "parts": parts}
            path = f"contents[{index}].parts[{place}]"
            notes.added(path, "the documented stand-in for the signature of a call made elsewhere")
    return {**listing.fields, "contents": contents}


def _written(turns: list[Turn], items: list[object], notes: Notes) -> list[JsonObject]:
    contents: list[JsonObject] = []
    homes: list[int] = []
    for turn in turns:
        role = "model" if turn.speaker is Speaker.ASSISTANT else "user"
        parts: list[object] = [atom.value for atom in turn.atoms]
        calls = any(atom.kind is Kind.CALL for atom in turn.atoms)
        beside = bool(homes) and homes[-1] == turn.home >= 0 and role == "user"
        texts = any("text" in atom.value for atom in turn.atoms)
        if contents and contents[-1]["role"] == role == "model" and calls:
            notes.moved(turn.path, "a call, into the content of the model before it")
            while len(contents) > 1 and contents[-2]["role"] == "model":
                parts = [*list_at(contents.pop(), "parts"), *parts]
                homes.pop()
            contents[-1] = _with_parts(contents[-1], parts)
        elif beside and not texts and contents[-1]["role"] == "user":
            contents[-1] = _with_parts(contents[-1], parts)
        else:
            if not contents and role == "model":
                notes.added(turn.path, "a user content before the model's first")
                contents.append({"role": "user", "parts": [{"text": NOT_SHOWN}]})
                homes.append(-1)
            raw = (object_of(items[turn.home]) or {}) if turn.home >= 0 else {}
            contents.append({**raw, "role": role, "parts": parts})
            homes.append(turn.home)
    if not contents:
        notes.added("contents", "a content, where there was none")
        contents.append({"role": "user", "parts": [{"text": NOT_SHOWN}]})
    return contents


def _with_parts(content: JsonObject, parts: list[object]) -> JsonObject:
    return {**content, "parts": [*list_at(content, "parts"), *parts]}
