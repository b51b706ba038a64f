"""Converts items of the OpenAI Agents SDK to records of a log and back, and tracks which items of a run are stored.

The SDK uses items of the Responses API, and turnfold's wire format for it reads and writes every kind, so any other
client can send the same log. The items of one model response become one record, because reasoning must stay with the
items it led to and a call with its result. Every item is converted back as a test when it is recorded; if the record
would not restore it exactly, the item is kept whole.

A run gets the items of its session, sends them to a model followed by its own input, and adds new items to the session
later than turnfold needs them in the log. So turnfold stores an item when it first sees it, and notes a claim: when the
SDK adds the item later, the claim is removed and nothing is stored twice. Items of some providers have no ids: they are
counted by content, so that the same words a second time are another item.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from typing import Final, Literal, NamedTuple, TypeAlias, cast

from agents import TResponseInputItem

from turnfold import wire
from turnfold.adapters._common import can_run
from turnfold.errors import InvalidRecord
from turnfold.records import (
    Message,
    OpaquePart,
    Origin,
    Part,
    TextPart,
    ToolResult,
    encode_message,
    freeze,
)
from turnfold.wire import (
    RESTORE_FAULTS,
    JsonObject,
    list_of,
    object_of,
    outcome_of,
    plain_object,
    text_at,
    unreadable_form,
    writable,
)

__all__ = (
    "RunItems",
    "answered_calls",
    "as_sent",
    "calls_before_outputs",
    "content_key",
    "item_key",
    "items_of",
    "name_of",
    "open_calls",
    "records_of",
    "text_of",
)


PROVIDER: Final = wire.openai_responses.PROVIDER
_ESCAPED: Final = "escaped"
"""Type of the block that holds an item as escaped JSON text, because the item has a lone surrogate."""
_PLACEHOLDER_ID: Final = "__fake_id__"
"""The id that the SDK gives to items of providers that give none."""
_CONTENT: Final = ("name", "arguments", "input", "output", "action", "queries", "results")
"""Names of the fields of a tool call or its output that a model reads."""
_PRIVATE: Final = "_agents_"
"""Prefix of the fields that the SDK adds to stored items for its own use; they are never sent."""


def records_of(items: Iterable[object]) -> list[Message]:
    """Convert items of the SDK to records (turnfold's stored form); `items_of(record)` restores them."""
    read = [_with_text_output(plain_object(item)) for item in items]
    return _split(read, _speaks_as_system, _grouped_records)


def items_of(record: Message) -> list[TResponseInputItem]:
    """Return the SDK items that a stored message was made from, or equal ones; an empty list for a system message."""
    if record.role == "system":
        return []
    try:
        written = wire.openai_responses.request([record], repair=False).kwargs["input"]
        return [cast("TResponseInputItem", _unescaped(item)) for item in list_of(written) or []]
    except RESTORE_FAULTS as error:
        raise unreadable_form("the OpenAI Agents SDK", error) from None


def as_sent(item: object, *, omit_ids: bool = False) -> TResponseInputItem:
    """Return an item as it is sent to a model: without the SDK's own fields; with `omit_ids`, without reasoning ids."""
    stored = object_of(item) or {}
    fields = _unescaped(stored)
    if stored.get("type") == _ESCAPED and text_at(fields, "type").endswith("_output"):
        fields = {**fields, "output": outcome_of(fields.get("output")).text}
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
    """Return the text of a message item."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    blocks = [object_of(block) or {} for block in list_of(content) or []]
    return "\n".join(text for block in blocks if (text := text_at(block, "text")))


def item_key(item: Mapping[str, object]) -> str:
    """Return a key for an item that stays the same when the SDK normalizes the item."""
    fields = cast("JsonObject", as_sent(item))
    kind, call_id, own_id = (text_at(fields, name) for name in ("type", "call_id", "id"))
    if "role" not in fields and kind != "message":
        if call_id:
            return f"{kind}\x1f{call_id}"
        if kind != "reasoning" and own_id and own_id != _PLACEHOLDER_ID:
            return f"{kind}\x1f{own_id}"
    ignored = {"id"} if kind == "reasoning" else set[str]()
    content = {
        key: value
        for key, value in fields.items()
        if key not in ignored and (key != "status" or value is not None)
    }
    return _digest(json.dumps(content, sort_keys=True, default=str))


def name_of(record: Message) -> str:
    """Return the name of a stored message, for its client id: a digest of its content and form."""
    return _digest(encode_message(record).decode())


def content_key(item: Mapping[str, object]) -> str:
    """Return a key like `item_key` that also changes with the content of a tool call or its output."""
    fields = _unescaped(item)
    content = {name: fields[name] for name in _CONTENT if fields.get(name) is not None}
    return f"{item_key(item)}{_digest(json.dumps(content, sort_keys=True, default=str))}"


def _with_text_output(item: JsonObject) -> JsonObject:
    """Return the item; a tool output that cannot be serialized is replaced by text, so that the run continues."""
    output = item.get("output")
    if output is None or type(output) is str or not text_at(item, "type").endswith("_output"):
        return item
    # A subclass of str has methods that may do anything.
    writable_output = not issubclass(type(output), str) and can_run(lambda: json.dumps(output))
    return item if writable_output else {**item, "output": outcome_of(output).text}


def _split(
    items: list[JsonObject],
    alone: Callable[[JsonObject], bool],
    together: Callable[[list[JsonObject]], list[Message]],
) -> list[Message]:
    """Convert items to stored messages.

    Each item for which the function `alone` returns True becomes messages by itself. The other items, as many as follow
    each other, are converted by the function `together`.
    """
    found: list[Message] = []
    for by_itself, stretch in groupby(items, key=alone):
        listed = list(stretch)
        found += [_kept_whole(item) for item in listed] if by_itself else together(listed)
    return found


def _grouped_records(items: list[JsonObject]) -> list[Message]:
    """Convert items to stored messages, one per model response.

    An item that cannot be converted is stored unchanged.
    """
    found = _read_back(items)
    if found is not None:
        return found
    return _split(items, lambda item: _read_back([item]) is None, _grouped_or_single)


def _grouped_or_single(items: list[JsonObject]) -> list[Message]:
    found = _read_back(items)
    if found is not None:
        return found
    return [record for item in items for record in _read_back([item]) or [_kept_whole(item)]]


def _read_back(items: list[JsonObject]) -> list[Message] | None:
    """Convert items to stored messages; None if these would not restore every item exactly."""
    try:
        found = wire.openai_responses.accept_all(items)
        back = [item for record in found for item in items_of(record)]
    except (InvalidRecord, TypeError):  # one of them is of an unknown kind
        return None
    return found if back == items else None


def _speaks_as_system(item: JsonObject) -> bool:
    """Return True for a system or developer message; unlike the instructions, it stays at its place in the history."""
    return text_at(item, "role") in ("system", "developer") and item.get("type") in (
        None,
        "message",
    )


def _kept_whole(item: JsonObject) -> Message:
    """Return an item without an equivalent as a stored message with its text and the whole item."""
    try:
        form = freeze({"=": [item]}, path="form")
    except InvalidRecord:
        block = {"type": _ESCAPED, "text": json.dumps(item)}
        form = freeze({"=": [block]}, path="form")
        if item.get("type") == "function_call_output" and text_at(item, "call_id"):
            return _escaped_result(item, form)
        part = OpaquePart(freeze(block, path="item"), PROVIDER)
        return Message.of("user", (part,), origin=Origin(PROVIDER, form=form))
    words = text_of(item) if _speaks_as_system(item) else ""
    whole = freeze(item or {"type": ""}, path="item")
    part: Part = TextPart(words) if words else OpaquePart(whole, PROVIDER)
    return Message.of("user", (part,), origin=Origin(PROVIDER, form=form))


def _escaped_result(item: JsonObject, form: str) -> Message:
    """Return a tool output that has a lone surrogate as a stored tool result with an error text."""
    call_id = text_at(cast("JsonObject", writable(item)), "call_id")
    result = ToolResult(call_id, (TextPart(outcome_of(item.get("output")).text),), is_error=True)
    return Message.of("tool", (result,), origin=Origin(PROVIDER, form=form))


def _unescaped(item: object) -> JsonObject:
    fields = object_of(item) or {}
    if fields.get("type") != _ESCAPED:
        return fields
    found = object_of(json.loads(text_at(fields, "text")))
    if found is None:
        raise InvalidRecord(
            "a stored message is damaged or forged: the text of its original item is not a JSON object",
            path="origin.form",
            remedy="Restore the store from a backup, or erase the message",
        )
    return found


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


_Items: TypeAlias = Sequence[TResponseInputItem]


class _KnownItem(NamedTuple):
    """An item of a run, in the form in which it is compared with items of a later request."""

    content: str
    """Digest of the item, including the content of a call or an output."""
    call: str
    """Id of the tool call; empty for other items."""
    kind: Literal["call", "output", "reasoning", "other"]


class RunItems:
    """Tracks which items of the current run of a session are in the log."""

    def __init__(self) -> None:
        self.begun = False
        """True if the run was given the items (messages and calls) of the session."""
        self.own: set[int] = set()
        """Seqs (log positions) of the entries that the run added."""
        self.open_calls: set[str] = set()
        """Ids of the tool calls without a result yet. A model call made before these results is made by an agent used
        as a tool."""
        self._partial = False
        self._stored: Counter[str] = Counter()
        """Number of times that the run has each item, by key of the item: items passed to the run, and items of the run
        that are in the log."""
        self._known: list[_KnownItem] = []
        """Items that the run was given, and items of the run that are in the log, in order."""
        self._claims_on_input: Counter[str] = Counter()
        """Keys of the user's input items that turnfold stored before the SDK asked to store them. The SDK's copy is
        then skipped."""
        self._claims_on_response: Counter[str] = Counter()
        """Keys of items of the last response, and of outputs of its tools, that turnfold stored before the SDK asked to
        store them. The SDK's copy is then skipped."""
        self._sent: list[TResponseInputItem] = []
        """The items that the SDK last sent to a model; all of them are stored."""
        self._sent_known: list[_KnownItem] = []

    def begin(self, items: _Items, *, resumed: bool = False, partial: bool = False) -> None:
        """Start to track a run that begins with `items`; for a resumed run, remember its calls without a result.

        `partial`: the session has older items that the run was not given.
        """
        self.begun = True
        self.own = set()
        self.open_calls = open_calls(items) if resumed else set()
        self._partial = partial
        self._stored.clear()
        self._known = []
        self._store(items)
        self._claims_on_input.clear()
        self._sent, self._sent_known = [], []

    def times_stored(self, items: _Items) -> int:
        """Return how many items equal to these the run began with or has stored."""
        return sum(self._stored[key] for key in _counted(items))

    def stored_input(self, items: _Items) -> None:
        """Record that input items are in the log before the SDK adds them, so that they are not stored again."""
        self._forget_failed(items)
        self._claims_on_input.update(_counted(items))
        self._store(items)

    def stored_response(self, items: _Items) -> None:
        """Record that a response's items are in the log before the SDK adds them, so that they are not stored again."""
        self._claims_on_response = _counted(items)

    def stored_output(self, item: TResponseInputItem) -> None:
        """Record that a tool's output is in the log before the SDK adds it, so that it is not stored again."""
        self._claims_on_response[_key(item)] += 1

    def unclaimed(self, items: _Items) -> list[TResponseInputItem]:
        """Return the items that the SDK adds and that are not stored yet; each item stored ahead is skipped once."""
        self._forget_failed(items)
        found: list[TResponseInputItem] = []
        for item in items:
            if not _redeem(self._claims_on_input, item):
                self._store([item])
                if not _redeem(self._claims_on_response, item):
                    found.append(item)
        return found

    def new_in(self, items: _Items) -> list[TResponseInputItem] | None:
        """Return the items of a request that are not in the log; they come last in it.

        Returns None if the request is not the run's items so far with new ones at the end: another component (a filter
        of a handoff, a callback, a limit) has removed, changed, moved or added items. Only the first request of a run
        has new items: the SDK adds the others before it sends them.
        """
        first = self._unchanged_prefix(items)
        known = [*self._sent_known[:first], *map(_known_item, items[first:])]
        if self._partial or not self._continued_by(known):
            return None
        left = Counter(one.content for one in self._known)
        new = 0
        while new < len(known) and left[known[new].content] > 0:
            left[known[new].content] -= 1
            new += 1
        if any(left[one.content] > 0 for one in known[new:]) or (self._sent and new < len(known)):
            return None
        return list(items[new:])

    def sent(self, items: _Items) -> None:
        """Remember the items of a request, which are all in the log, to recognise the next request by them."""
        first = self._unchanged_prefix(items)
        self._sent_known = [*self._sent_known[:first], *map(_known_item, items[first:])]
        self._sent = list(items)

    def _store(self, items: _Items) -> None:
        self._stored.update(_counted(items))
        self._known += map(_known_item, items)

    def _unchanged_prefix(self, items: _Items) -> int:
        """Return the number of items in the last request if the new request begins with all of them; otherwise 0."""
        first = len(self._sent)
        return first if items[:first] == self._sent else 0

    def _continued_by(self, given: Sequence[_KnownItem]) -> bool:
        """Return True if `given` begins with the run's items so far.

        Outputs may be at other places behind their calls. The SDK leaves out calls that have no output, and reasoning
        before them.
        """
        outputs = [one for one in given if one.kind == "output"]
        answered = {one.call for one in outputs}
        others = iter([one.content for one in given if one.kind != "output"])
        dropped = False
        """True if the last item was left out, and was reasoning, after which a call must be left out as well."""
        expected = next(others, "")
        for one in self._known:
            if one.kind == "output":
                continue
            if one.content == expected and not dropped:
                expected = next(others, "")
            elif one.kind == "reasoning":
                dropped = True
            elif one.kind == "call" and one.call not in answered:
                dropped = False
            else:
                return False
        stored = Counter(one.content for one in self._known if one.kind == "output")
        return not dropped and stored <= Counter(one.content for one in outputs)

    def _forget_failed(self, items: _Items) -> None:
        """Forget the response that a failed run stored early, if a user message begins another run."""
        if any((object_of(item) or {}).get("role") == "user" for item in items):
            self._claims_on_response.clear()


def _redeem(claims: Counter[str], item: TResponseInputItem) -> bool:
    """Remove one key of `claims` that equals this item, and return True: the item was stored before the SDK added it.

    Returns False if there is none.
    """
    key = _key(item)
    claimed = claims[key] > 0
    claims[key] -= claimed
    return claimed


def answered_calls(items: _Items) -> set[str]:
    """Return the ids of the tool calls whose outputs are among the items."""
    found: set[str] = set()
    for item in cast("Sequence[Mapping[str, object]]", items):
        if str(item.get("type", "")).endswith("_output"):
            found.add(str(item.get("call_id", "")))
    return found


def calls_before_outputs(items: _Items) -> list[TResponseInputItem]:
    """Return the items with every output that comes before its tool call moved behind it."""
    calls = {one.call: at for at, one in enumerate(map(_known_item, items)) if one.kind == "call"}
    early: dict[str, list[TResponseInputItem]] = {}
    found: list[TResponseInputItem] = []
    for at, item in enumerate(items):
        known = _known_item(item)
        if known.kind == "output" and calls.get(known.call, at) > at:
            early.setdefault(known.call, []).append(item)
        else:
            found += [item, *(early.pop(known.call, ()) if known.kind == "call" else ())]
    return found


def open_calls(items: _Items) -> set[str]:
    """Return the ids of the calls after the newest user message that have no output."""
    found: set[str] = set()
    for item in cast("Sequence[Mapping[str, object]]", items):
        if item.get("role") == "user":
            found.clear()
        elif str(item.get("type", "")).endswith("_call") and item.get("call_id"):
            found.add(str(item["call_id"]))
    return found - answered_calls(items)


def _counted(items: Iterable[TResponseInputItem]) -> Counter[str]:
    return Counter(map(_key, items))


def _key(item: TResponseInputItem) -> str:
    return item_key(cast("Mapping[str, object]", item))


def _known_item(item: TResponseInputItem) -> _KnownItem:
    fields = cast("JsonObject", item)
    kind, call = text_at(fields, "type"), text_at(fields, "call_id")
    content = content_key(fields)
    if kind.endswith("_output"):
        return _KnownItem(content, call, "output")
    if kind == "reasoning":
        return _KnownItem(content, "", "reasoning")
    return _KnownItem(content, call, "call" if call else "other")
