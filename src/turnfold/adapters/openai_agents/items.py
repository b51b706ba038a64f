"""Items of the OpenAI Agents SDK as entries of a log, and back.

The SDK speaks in items of the Responses API, and the wire format for it reads and writes every kind, so that the same
log can be sent by any other client. What a model produced in one go is one record, because reasoning must stay with
what it led to and a call with its result; every item is read back the moment it is recorded, and where the lean form
would not give it back, all of it is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from itertools import groupby
from typing import Final, cast

from agents import TResponseInputItem

from turnfold.errors import InvalidRecord
from turnfold.records import (
    Message,
    OpaquePart,
    Origin,
    Part,
    TextPart,
    ToolResult,
    encode_message,
)
from turnfold.records.json_text import freeze
from turnfold.wire import openai_responses
from turnfold.wire.residue import RESTORE_FAULTS, unreadable_form
from turnfold.wire.tool_text import ENDING, outcome_of
from turnfold.wire.unwritable import writable
from turnfold.wire.values import JsonObject, list_of, object_of, plain_object, text_at

__all__ = ("as_sent", "item_key", "items_of", "name_of", "records_of", "text_of")

PROVIDER: Final = openai_responses.PROVIDER
_ESCAPED: Final = "escaped"
"""Type of the block that holds an item turnfold's JSON cannot carry (a lone surrogate), as its text."""
_PLACEHOLDER_ID: Final = "__fake_id__"
"""The SDK's own id for items of providers that give none."""
_PRIVATE: Final = "_agents_"
"""How the SDK's own marks on a stored item begin: they are never sent."""


def records_of(items: Iterable[object]) -> list[Message]:
    """Items as records; `items_of` of each gives them back, in order."""
    given = [_told(plain_object(item)) for item in items]
    return _split(given, _speaks_as_system, _together)


def items_of(record: Message) -> list[TResponseInputItem]:
    """The items a record was made from; of any other record, items that say the same. None of a system message."""
    if record.role == "system":
        return []
    try:
        written = openai_responses.request([record], repair=False).kwargs["input"]
        return [cast("TResponseInputItem", _unescaped(item)) for item in list_of(written) or []]
    except RESTORE_FAULTS as error:
        raise unreadable_form("the OpenAI Agents SDK", error) from None


def as_sent(item: object, *, omit_ids: bool = False) -> TResponseInputItem:
    """An item as it goes to a model: without what only the SDK's stores need, and reasoning ids if so wanted."""
    given = object_of(item) or {}
    fields = _unescaped(given)
    if given.get("type") == _ESCAPED and text_at(fields, "type").endswith("_output"):
        fields = {**fields, "output": _told_output(fields.get("output"))}
    left = (
        {"created_by", "id"} if omit_ids and fields.get("type") == "reasoning" else {"created_by"}
    )
    kept = {
        key: value
        for key, value in fields.items()
        if not key.startswith(_PRIVATE) and key not in left
    }
    return cast("TResponseInputItem", kept)


def text_of(item: Mapping[str, object]) -> str:
    """The words of a message."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    blocks = [object_of(block) or {} for block in list_of(content) or []]
    return "\n".join(text for block in blocks if (text := text_at(block, "text")))


def item_key(item: Mapping[str, object]) -> str:
    """What an item is recognised by, whichever way the SDK has tidied it meanwhile."""
    fields = cast("JsonObject", as_sent(item))
    kind, call_id, own_id = (text_at(fields, name) for name in ("type", "call_id", "id"))
    if "role" not in fields and kind != "message":
        if call_id:
            return f"{kind}\x1f{call_id}"
        if kind != "reasoning" and own_id and own_id != _PLACEHOLDER_ID:
            return f"{kind}\x1f{own_id}"
    ignored = {"id"} if kind == "reasoning" else set[str]()
    told = {
        key: value
        for key, value in fields.items()
        if key not in ignored and (key != "status" or value is not None)
    }
    return _digest(json.dumps(told, sort_keys=True, default=str))


def name_of(record: Message) -> str:
    """What a record is called in the log: a digest of what it says and how it was written."""
    return _digest(encode_message(record).decode())


def _told(item: JsonObject) -> JsonObject:
    """The item, with a text for a tool's output that nothing can carry: the run goes on and the model is told."""
    output = item.get("output")
    if output is None or type(output) is str or not text_at(item, "type").endswith("_output"):
        return item
    return item if _is_json(output) else {**item, "output": _told_output(output)}


def _is_json(output: object) -> bool:
    if issubclass(type(output), str):  # a subclass, whose methods may be anything
        return False
    try:
        json.dumps(output)
    except ENDING:
        raise
    except BaseException:  # a value of a tool may raise anything while it is written
        return False
    return True


def _split(
    items: list[JsonObject],
    alone: Callable[[JsonObject], bool],
    together: Callable[[list[JsonObject]], list[Message]],
) -> list[Message]:
    """The records of items in order: some are kept whole, alone; the stretches between them are read together."""
    found: list[Message] = []
    for by_itself, stretch in groupby(items, key=alone):
        listed = list(stretch)
        found += [_kept_whole(item) for item in listed] if by_itself else together(listed)
    return found


def _together(items: list[JsonObject]) -> list[Message]:
    """Items that a model produced in one go as one record; what nobody can read is kept whole."""
    found = _read_back(items)
    if found is not None:
        return found
    return _split(items, lambda item: _read_back([item]) is None, _readable)


def _readable(items: list[JsonObject]) -> list[Message]:
    found = _read_back(items)
    if found is not None:
        return found
    return [record for item in items for record in _read_back([item]) or [_kept_whole(item)]]


def _read_back(items: list[JsonObject]) -> list[Message] | None:
    """The records of items; None where they would not give every item back."""
    try:
        found = openai_responses.accept_all(items)
        back = [item for record in found for item in items_of(record)]
    except (InvalidRecord, TypeError):  # one of them is no item that anybody knows
        return None
    return found if back == items else None


def _speaks_as_system(item: JsonObject) -> bool:
    """Whether it is a message with a standing above the user's: it keeps its place, unlike the instructions."""
    return text_at(item, "role") in ("system", "developer") and item.get("type") in (
        None,
        "message",
    )


def _kept_whole(item: JsonObject) -> Message:
    """An item as one record that holds all of it beside its words."""
    try:
        form = freeze({"=": [item]}, path="form")
    except InvalidRecord:
        block = {"type": _ESCAPED, "text": json.dumps(item)}
        form = freeze({"=": [block]}, path="form")
        if item.get("type") == "function_call_output" and text_at(item, "call_id"):
            return _escaped_result(item, form)
        return Message.of(
            "user", (OpaquePart(freeze(block, path="item"), PROVIDER),), origin=_origin(form)
        )
    words = text_of(item) if _speaks_as_system(item) else ""
    whole = freeze(item or {"type": ""}, path="item")
    said: Part = TextPart(words) if words else OpaquePart(whole, PROVIDER)
    return Message.of("user", (said,), origin=_origin(form))


def _escaped_result(item: JsonObject, form: str) -> Message:
    """A tool's output with half a character in it, as the result of its call."""
    said = cast("JsonObject", writable(item))
    told = TextPart(_told_output(item.get("output")))
    result = ToolResult(text_at(said, "call_id"), (told,), is_error=True)
    return Message.of("tool", (result,), origin=_origin(form))


def _told_output(output: object) -> str:
    """What a model is told in place of an output that no provider takes."""
    return outcome_of(output).text


def _origin(form: str) -> Origin:
    return Origin(PROVIDER, form=form)


def _unescaped(item: object) -> JsonObject:
    fields = object_of(item) or {}
    if fields.get("type") != _ESCAPED:
        return fields
    found = object_of(json.loads(text_at(fields, "text")))
    if found is None:
        raise InvalidRecord("an escaped item that is no object", path="origin.form")
    return found


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
