"""Random messages and operations for the store cases, small enough that they meet one another."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Literal

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from turnfold.errors import TurnfoldError
from turnfold.records import (
    AudioPart,
    ContentPart,
    FilePart,
    ImagePart,
    Message,
    NewEntry,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    assistant,
    user,
)
from turnfold.records.json_text import freeze
from turnfold.stores import Scope, Store
from turnfold.testing.store_conformance_values import (
    HOSTILE_TEXTS,
    checkpoint,
    document,
    note_now,
)

__all__ = ("Operation", "messages", "operations", "outcome", "settings_for", "storable_texts")


def settings_for(examples: int) -> settings:
    """How a property is tried: without deadlines, without files left behind, and without tracing every line."""
    return settings(
        max_examples=examples,
        phases=[phase for phase in settings().phases if phase is not Phase.explain],
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


storable_texts: st.SearchStrategy[str] = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=20),
    st.sampled_from(sorted(HOSTILE_TEXTS)).map(HOSTILE_TEXTS.__getitem__),
)
"""Any text a record can hold, with the known trouble makers among them."""

_extras = st.sampled_from(["", '{"b":1,"a":[null,"值"]}', '{"x":{"y":1.5e300}}', '{"":""}'])
_objects = st.dictionaries(storable_texts, storable_texts, max_size=2).map(
    lambda fields: freeze({"type": "new", **fields}, path="")
)
_contents: st.SearchStrategy[ContentPart] = st.one_of(
    st.builds(TextPart, storable_texts, _extras),
    st.builds(ImagePart, storable_texts, st.sampled_from((None, "low", "high", "auto")), _extras),
    st.builds(AudioPart, storable_texts, storable_texts, _extras),
    st.builds(FilePart, storable_texts.map("file:F-{}".format)),
    st.builds(OpaquePart, _objects, storable_texts),
)
_thoughts = st.builds(ThinkingPart, storable_texts, storable_texts)
_calls = st.builds(ToolCall, storable_texts, storable_texts, storable_texts, _extras)
_results = st.builds(
    ToolResult, storable_texts, st.lists(_contents, max_size=3).map(tuple), st.booleans(), _extras
)


def _spoken(role: str, parts: st.SearchStrategy[Part], fewest: int) -> st.SearchStrategy[Message]:
    return st.builds(
        Message.of,
        st.just(role),
        st.lists(parts, min_size=fewest, max_size=4),
        name=st.none() | storable_texts,
        extra=_extras,
        labels=_extras,
    )


messages: st.SearchStrategy[Message] = st.one_of(
    _spoken("system", _contents, 0),
    _spoken("user", _contents, 0),
    _spoken("assistant", st.one_of(_contents, _thoughts, _calls), 0),
    _spoken("tool", _results, 1),
)
"""Any message that can be made."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One call with its arguments, to be made on any store."""

    verb: Literal[
        "append",
        "add_checkpoint",
        "put_document",
        "note",
        "drop_document",
        "delete",
        "head",
        "read",
        "read_turn",
        "find",
        "tail",
        "checkpoints",
        "documents",
        "conversations",
        "search",
    ]
    conversation: str
    words: tuple[str, ...]
    """Texts, client ids, keys and terms alike."""
    number: int
    other: int
    expect: int | None
    named: bool

    @property
    def word(self) -> str:
        """The first of the words; there is always one."""
        return self.words[0]

    def start(self, store: Store, scope: Scope) -> Coroutine[object, None, object]:
        """The call, not yet awaited."""
        where, word, expect = self.conversation, self.word, self.expect
        match self.verb:
            case "append":
                return store.append(scope, where, self._entries(), expect=expect)
            case "add_checkpoint":
                previous = f"s{self.other}" if self.other else ""
                given = checkpoint(f"s{self.other + 1}", self.number, previous=previous)
                return store.add_checkpoint(scope, where, given)
            case "put_document":
                given = document(word, "".join(self.words).encode())
                return store.put_document(scope, where, given, expect=expect)
            case "note":
                given = document(word, "".join(self.words).encode())
                return note_now(store, scope, where, given)
            case "drop_document":
                return store.drop_document(scope, where, "note", word, expect=expect)
            case "delete":
                return store.delete(scope, where)
            case _:
                return self._reading(store, scope)

    def _reading(self, store: Store, scope: Scope) -> Coroutine[object, None, object]:
        where = self.conversation
        match self.verb:
            case "read":
                return store.read(
                    scope, where, after=self.other, upto=self.expect, limit=self.number
                )
            case "read_turn":
                return store.read_turn(scope, where, self.number)
            case "find":
                return store.find(scope, where, self.words)
            case "tail":
                return store.tail(scope, where, tokens=self.number, messages=self.other)
            case "checkpoints":
                return store.checkpoints(scope, where)
            case "documents":
                return store.documents(scope, where, "note", limit=self.number)
            case "conversations":
                return store.conversations(scope, limit=self.number)
            case "search":
                within = where if self.named else None
                return store.search(scope, self.words, conversation=within, limit=self.number)
            case _:
                return store.head(scope, where)

    def _entries(self) -> list[NewEntry]:
        speakers = (user, assistant)
        return [
            NewEntry(speakers[(self.number + index) % 2](word), word if self.named else "")
            for index, word in enumerate(self.words)
        ]


def operations(*verbs: str) -> st.SearchStrategy[Operation]:
    """Calls of these verbs with arguments from a small world, so that retries, conflicts and reuse happen."""
    words = st.lists(st.sampled_from(("a", "b", "c", "d", "北京", "e f")), min_size=1, max_size=3)
    small = st.integers(0, 6)
    return st.builds(
        Operation,
        verb=st.sampled_from(verbs),
        conversation=st.sampled_from(("one", "two")),
        words=words.map(tuple),
        number=small,
        other=st.integers(0, 3),
        expect=st.none() | st.none() | small,
        named=st.booleans(),
    )


async def outcome(operation: Operation, store: Store, scope: Scope) -> object:
    """What the call returned, or the error turnfold raised on purpose; any other error is a fault of the store."""
    try:
        return await operation.start(store, scope)
    except TurnfoldError as error:
        return error
