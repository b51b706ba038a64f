"""Differential test with random operations: a store must return the same results as the in-memory store.

Also the Hypothesis strategies for messages and operations. Arguments come from a small range, so that operations affect
one another.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Literal

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, rule, run_state_machine_as_test

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
    freeze,
    user,
)
from turnfold.runtime import drive
from turnfold.stores import Ability, MemoryStore, Scope, Store
from turnfold.testing.stores.case_runner import StoreCases, Trial
from turnfold.testing.stores.sample_values import (
    HOSTILE_TEXTS,
    character_counter,
    checkpoint,
    comparable,
    digest,
    document,
    note_now,
)

__all__ = (
    "MachineCases",
    "RandomOperation",
    "messages",
    "operations",
    "outcome",
    "settings_for",
    "storable_texts",
)


def settings_for(examples: int) -> settings:
    """Return the Hypothesis settings of a property test: no deadline, no example database, no line tracing."""
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
"""A strategy for any text that a record can contain, including texts that often cause faults."""

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
"""A strategy for any valid message."""


@dataclass(frozen=True, slots=True)
class RandomOperation:
    """One random call of a store method, with its arguments."""

    verb: Literal[
        "append",
        "add_checkpoint",
        "put_document",
        "note",
        "drop_document",
        "erase",
        "delete",
        "head",
        "read",
        "read_ranges",
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
    """Words for texts, client ids, keys and search terms."""
    number: int
    other: int
    expect: int | None
    with_ids: bool

    @property
    def word(self) -> str:
        """The first of `words`; it is never empty."""
        return self.words[0]

    def start(self, store: Store, scope: Scope) -> Coroutine[object, None, object]:
        """Return the coroutine of this call on a store, for the caller to await."""
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
            case "erase":
                speaker = user if self.with_ids else assistant
                return store.erase(scope, where, self.number, speaker("".join(self.words)))
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
            case "read_ranges":
                last = self.other + self.number
                return store.read_ranges(scope, where, [(self.other, last), (last + 2, last + 3)])
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
                within = where if self.with_ids else None
                return store.search(scope, self.words, conversation=within, limit=self.number)
            case _:
                return store.head(scope, where)

    def _entries(self) -> list[NewEntry]:
        speakers = (user, assistant)
        return [
            NewEntry(speakers[(self.number + index) % 2](word), word if self.with_ids else "")
            for index, word in enumerate(self.words)
        ]


def operations(*verbs: str) -> st.SearchStrategy[RandomOperation]:
    """Return a strategy for calls of these methods; they have few different arguments, so that conflicts happen."""
    words = st.lists(st.sampled_from(("a", "b", "c", "d", "北京", "e f")), min_size=1, max_size=3)
    small = st.integers(0, 6)
    return st.builds(
        RandomOperation,
        verb=st.sampled_from(verbs),
        conversation=st.sampled_from(("one", "two")),
        words=words.map(tuple),
        number=small,
        other=st.integers(0, 3),
        expect=st.none() | st.none() | small,
        with_ids=st.booleans(),
    )


async def outcome(operation: RandomOperation, store: Store, scope: Scope) -> object:
    """Return the result of a random call, or the error that turnfold raised; other exceptions fail the test."""
    try:
        return await operation.start(store, scope)
    except TurnfoldError as error:
        return error


# ruff: noqa: D102, S101 (cases are named by sentences, and consist of asserts)


STEPS = 30


class _Twins(RuleBasedStateMachine):
    """State machine that makes the same calls, with the same clock, on the store under test and the reference store."""

    sent = Bundle("sent")

    def __init__(self, trial: Trial, reference: MemoryStore) -> None:
        super().__init__()
        self._trial = trial
        self._reference = reference
        self._scopes = [Scope(trial.fresh("tenant")) for _ in range(2)]
        trial.clock.step = 0

    @rule(target=sent, call=operations("append"), who=st.integers(0, 1), aimed=st.booleans())
    def append(
        self, call: RandomOperation, who: int, *, aimed: bool
    ) -> tuple[RandomOperation, int]:
        return self._compare(call, who, aimed=aimed)

    @rule(earlier=sent)
    def retry(self, earlier: tuple[RandomOperation, int]) -> None:
        self._compare(*earlier)

    @rule(
        call=operations(
            "put_document", "note", "drop_document", "add_checkpoint", "add_checkpoint", "erase"
        ),
        who=st.integers(0, 1),
        aimed=st.booleans(),
    )
    def change(self, call: RandomOperation, who: int, *, aimed: bool) -> None:
        self._compare(call, who, aimed=aimed)

    @rule(
        call=operations("head", "read", "read", "read_ranges", "read_turn", "find", "tail"),
        who=st.integers(0, 1),
    )
    def read(self, call: RandomOperation, who: int) -> None:
        self._compare(call, who)

    @rule(
        call=operations("checkpoints", "documents", "conversations", "search"),
        who=st.integers(0, 1),
    )
    def look(self, call: RandomOperation, who: int) -> None:
        self._compare(call, who)

    @rule(call=operations("delete"), who=st.integers(0, 1), often=st.integers(0, 4))
    def delete(self, call: RandomOperation, who: int, often: int) -> None:
        if not often:  # deletions are final, so frequent ones would soon leave nothing to test
            self._compare(call, who)

    @rule()
    def reopen(self) -> None:
        if Ability.DURABLE in self._trial.store.abilities:
            self._trial.run(self._trial.reopen())

    def teardown(self) -> None:
        for scope in self._scopes:
            found = self._trial.run(digest(self._trial.store, scope))
            assert found == drive(digest(self._reference, scope))

    def _compare(
        self, call: RandomOperation, who: int, *, aimed: bool = False
    ) -> tuple[RandomOperation, int]:
        if aimed:
            call = self._aimed(call, self._scopes[who])
        self._trial.clock.now += 1
        found = self._trial.run(outcome(call, self._trial.store, self._scopes[who]))
        expected = drive(outcome(call, self._reference, self._scopes[who]))
        if isinstance(expected, TurnfoldError):
            assert type(found) is type(expected), f"{found!r} where {expected!r} is right"
        else:
            assert comparable(found) == comparable(expected)
        return call, who

    def _aimed(self, call: RandomOperation, scope: Scope) -> RandomOperation:
        """Return the random call with arguments that fit the current state, so that not every change is rejected."""
        store, where = self._reference, call.conversation
        if call.verb == "add_checkpoint":
            live = len(drive(store.checkpoints(scope, where)))
            return replace(call, number=drive(store.head(scope, where)).seq, other=live)
        if call.verb == "erase":
            entries = drive(store.read(scope, where))
            if not entries:
                return call
            chosen = entries[call.number % len(entries)]
            is_user = chosen.message.role == "user"
            return replace(call, number=chosen.seq, with_ids=is_user)
        if call.verb == "append":
            return replace(call, expect=drive(store.head(scope, where)).seq)
        known = drive(store.get_document(scope, where, "note", call.word))
        return replace(call, expect=known.version if known else 0)


class MachineCases(StoreCases):
    """Test that does the same random operations on the tested store and on the in-memory store.

    Both must return equal results.
    """

    def test_any_calls_give_the_answers_of_the_reference(self, trial: Trial) -> None:
        reference = MemoryStore(counter=character_counter(), clock=trial.clock)

        class Run(_Twins):
            def __init__(self) -> None:
                super().__init__(trial, reference)

        run_state_machine_as_test(
            Run, settings=settings(settings_for(self.examples), stateful_step_count=STEPS)
        )
