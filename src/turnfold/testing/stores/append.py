"""Test cases for appends: dense seqs assigned by the store, atomic batches, `expect`, retries by client id, content."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnfold.errors import Conflict, IdReused, InvalidOption
from turnfold.records import (
    AudioPart,
    Entry,
    FilePart,
    ImagePart,
    Message,
    NewEntry,
    OpaquePart,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    assistant,
    encode_message,
    system,
    tool,
    user,
)
from turnfold.stores import Head
from turnfold.testing.stores.case_runner import StoreCases, Trial, case
from turnfold.testing.stores.random_operations import messages, settings_for
from turnfold.testing.stores.sample_values import (
    ALICE,
    BOB,
    HOSTILE_TEXTS,
    TALK,
    character_counter,
    checkpoint,
    entries_with_ids,
    exchange,
    seqs,
    texts,
    user_entries,
)

__all__ = (
    "AppendCases",
    "ExpectCases",
    "MessageCases",
    "RetryCases",
    "ReusedIdCases",
)


# ruff: noqa: D102, S101 (cases are named by sentences, and consist of asserts)


class AppendCases(StoreCases):
    """Test cases for the result of an append: seqs, turns, token sums, times and the head (newest seq, version)."""

    @case
    async def test_an_unknown_conversation_stands_at_zero(self, trial: Trial) -> None:
        assert await trial.store.head(ALICE, TALK) == Head()

    @case
    async def test_the_first_seq_is_one(self, trial: Trial) -> None:
        done = await trial.store.append(ALICE, TALK, user_entries("a"))
        assert (done.first, done.last, done.repeated) == (1, 1, False)

    @case
    async def test_seqs_are_dense_across_batches(self, trial: Trial) -> None:
        spans: list[tuple[int, int]] = []
        for size in (1, 3, 2, 1, 5):
            done = await trial.store.append(ALICE, TALK, user_entries(*"x" * size))
            spans.append((done.first, done.last))
        assert spans == [(1, 1), (2, 4), (5, 6), (7, 7), (8, 12)]
        assert seqs(await trial.store.read(ALICE, TALK)) == list(range(1, 13))

    @case
    async def test_a_batch_keeps_its_order(self, trial: Trial) -> None:
        words = [f"word {number * 7919 % 101}" for number in range(100)]
        await trial.store.append(ALICE, TALK, user_entries(*words))
        assert texts(await trial.store.read(ALICE, TALK)) == words

    @case
    async def test_a_batch_may_be_any_sequence(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, tuple(user_entries("a", "b")))
        assert texts(await trial.store.read(ALICE, TALK)) == ["a", "b"]

    @case
    async def test_every_field_of_an_entry_is_kept(self, trial: Trial) -> None:
        trial.clock.now, trial.clock.step = 5_000_000, 0
        greeting, question = system("be kind"), user("你好", name="Ana")
        entries = [NewEntry(greeting, "first"), NewEntry(question, "second")]
        await trial.store.append(ALICE, TALK, entries)
        assert await trial.store.read(ALICE, TALK) == [
            Entry(1, greeting, "first", 5_000_000, turn=0, tokens=7, running=7),
            Entry(2, question, "second", 5_000_000, turn=1, tokens=5, running=12),
        ]

    @case
    async def test_a_user_message_starts_a_turn_and_no_other_does(self, trial: Trial) -> None:
        call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        in_turns = [
            system("rules"),
            user("question"),
            assistant(tool_calls=[call]),
            tool("result", tool_call_id="c1"),
            assistant("answer"),
            user("again"),
            user("and again"),
        ]
        await trial.store.append(ALICE, TALK, [NewEntry(message) for message in in_turns])
        turns = [entry.turn for entry in await trial.store.read(ALICE, TALK)]
        assert turns == [0, 1, 1, 1, 1, 2, 3]
        assert (await trial.store.head(ALICE, TALK)).turns == 3

    @case
    async def test_the_head_follows_every_append(self, trial: Trial) -> None:
        counter = character_counter().name
        await trial.store.append(ALICE, TALK, exchange("12345", "123"))
        first = await trial.store.head(ALICE, TALK)
        await trial.store.append(ALICE, TALK, user_entries("1"))
        second = await trial.store.head(ALICE, TALK)
        assert (first.seq, first.tokens, first.turns, first.counter) == (2, 8, 1, counter)
        assert (second.seq, second.tokens, second.turns, second.counter) == (3, 9, 2, counter)

    @case
    async def test_an_append_returns_the_head_it_made(self, trial: Trial) -> None:
        for words in ("a", "bc", "def"):
            done = await trial.store.append(ALICE, TALK, user_entries(*words))
            assert done.head == await trial.store.head(ALICE, TALK)

    @case
    async def test_running_sums_add_up(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("123", "1"))
        await trial.store.append(ALICE, TALK, user_entries("", "12345"))
        entries = await trial.store.read(ALICE, TALK)
        assert [(entry.tokens, entry.running) for entry in entries] == [
            (3, 3),
            (1, 4),
            (0, 4),
            (5, 9),
        ]

    @case
    async def test_a_batch_is_stamped_by_the_clock(self, trial: Trial) -> None:
        before = trial.clock.now
        await trial.store.append(ALICE, TALK, user_entries("a", "b"))
        first, second = await trial.store.read(ALICE, TALK)
        assert before < first.created == second.created <= trial.clock.now

    @pytest.mark.parametrize("step", [0, -1_000_000], ids=["frozen", "running backwards"])
    @case
    async def test_the_clock_takes_no_part_in_the_order(self, trial: Trial, step: int) -> None:
        trial.clock.step = step
        for word in "abcde":
            await trial.store.append(ALICE, TALK, user_entries(word))
        assert texts(await trial.store.read(ALICE, TALK)) == list("abcde")
        assert texts(await trial.store.tail(ALICE, TALK, tokens=2)) == ["d", "e"]

    @case
    async def test_equal_messages_without_ids_are_all_stored(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("same", "same"))
        done = await trial.store.append(ALICE, TALK, user_entries("same", "same"))
        assert (done.first, done.last, done.repeated) == (3, 4, False)
        assert texts(await trial.store.read(ALICE, TALK)) == ["same"] * 4

    @case
    async def test_a_large_batch_is_one_batch(self, trial: Trial) -> None:
        done = await trial.store.append(ALICE, TALK, entries_with_ids(*map(str, range(700))))
        assert (done.first, done.last) == (1, 700)
        assert texts(await trial.store.read(ALICE, TALK)) == list(map(str, range(700)))

    @case
    async def test_a_large_message_is_kept_whole(self, trial: Trial) -> None:
        text = "记录 of 2 MB " * 130_000
        await trial.store.append(ALICE, TALK, user_entries(text))
        assert texts(await trial.store.read(ALICE, TALK)) == [text]

    @case
    async def test_conversations_are_numbered_apart(self, trial: Trial) -> None:
        await trial.store.append(ALICE, "one", user_entries("a", "b"))
        done = await trial.store.append(ALICE, "two", user_entries("c"))
        assert (done.first, done.head.tokens) == (1, 1)
        assert texts(await trial.store.read(ALICE, "one")) == ["a", "b"]


class ExpectCases(StoreCases):
    """Test cases for appends with `expect`, and for batches that are rejected and change nothing."""

    @case
    async def test_an_empty_batch_is_refused(self, trial: Trial) -> None:
        with pytest.raises(InvalidOption):
            await trial.store.append(ALICE, TALK, [])
        assert await trial.store.conversations(ALICE) == []

    @case
    async def test_two_equal_ids_in_a_batch_are_refused(self, trial: Trial) -> None:
        with pytest.raises(InvalidOption):
            await trial.store.append(ALICE, TALK, entries_with_ids("a", "b", "a"))
        assert await trial.store.head(ALICE, TALK) == Head()

    @pytest.mark.parametrize("order", [1, -1], ids=["id first", "id last"])
    @case
    async def test_a_batch_with_ids_on_some_entries_is_refused(
        self, trial: Trial, order: int
    ) -> None:
        # A retry would be recognised in part only: entries without an id would be lost or doubled.
        batch = [*entries_with_ids("a"), *user_entries("b")][::order]
        with pytest.raises(InvalidOption):
            await trial.store.append(ALICE, TALK, batch)
        assert await trial.store.head(ALICE, TALK) == Head()

    @case
    async def test_the_right_expectation_appends(self, trial: Trial) -> None:
        assert (await trial.store.append(ALICE, TALK, user_entries("a", "b"), expect=0)).last == 2
        assert (await trial.store.append(ALICE, TALK, user_entries("c"), expect=2)).last == 3

    @pytest.mark.parametrize("expect", [0, 1, 3, 4, -1, 10**30])
    @case
    async def test_any_other_expectation_is_a_conflict(self, trial: Trial, expect: int) -> None:
        done = await trial.store.append(ALICE, TALK, user_entries("a", "b"))
        with pytest.raises(Conflict):
            await trial.store.append(ALICE, TALK, user_entries("c"), expect=expect)
        assert await trial.store.head(ALICE, TALK) == done.head
        assert texts(await trial.store.read(ALICE, TALK)) == ["a", "b"]

    @case
    async def test_a_conflict_leaves_no_trace_of_an_unknown_conversation(
        self, trial: Trial
    ) -> None:
        with pytest.raises(Conflict):
            await trial.store.append(ALICE, TALK, entries_with_ids("a"), expect=1)
        assert await trial.store.conversations(ALICE) == []
        assert (
            await trial.store.append(ALICE, TALK, entries_with_ids("a"), expect=0)
        ).repeated is False

    @case
    async def test_a_refused_batch_can_be_sent_again(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a"))
        with pytest.raises(Conflict):
            await trial.store.append(ALICE, TALK, entries_with_ids("b", "c"), expect=0)
        done = await trial.store.append(ALICE, TALK, entries_with_ids("b", "c"), expect=1)
        assert (done.first, done.last, done.repeated) == (2, 3, False)

    @case
    async def test_without_expectation_an_append_never_conflicts(self, trial: Trial) -> None:
        for word in "abc":
            await trial.store.append(ALICE, TALK, user_entries(word), expect=None)
        assert texts(await trial.store.read(ALICE, TALK)) == ["a", "b", "c"]


class RetryCases(StoreCases):
    """Test cases for retries with the same ids and bodies: they return the first result and write nothing."""

    @case
    async def test_a_retry_returns_the_first_result(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("before"))
        first = await trial.store.append(ALICE, TALK, entries_with_ids("a", "b"))
        again = await trial.store.append(ALICE, TALK, entries_with_ids("a", "b"))
        assert (again.first, again.last) == (first.first, first.last) == (2, 3)
        assert (first.repeated, again.repeated) == (False, True)
        assert texts(await trial.store.read(ALICE, TALK)) == ["before", "a", "b"]

    @case
    async def test_a_retry_changes_nothing_at_all(self, trial: Trial) -> None:
        first = await trial.store.append(ALICE, TALK, entries_with_ids("a", "b"))
        before = await trial.store.conversations(ALICE)
        again = await trial.store.append(ALICE, TALK, entries_with_ids("a", "b"))
        assert again.head == first.head == await trial.store.head(ALICE, TALK)
        assert await trial.store.conversations(ALICE) == before

    @case
    async def test_a_retry_after_more_appends_returns_the_first_result(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids("a", "b"))
        await trial.store.append(ALICE, TALK, entries_with_ids("c"))
        newest = await trial.store.append(ALICE, TALK, user_entries("d"))
        again = await trial.store.append(ALICE, TALK, entries_with_ids("a", "b"))
        assert (again.first, again.last, again.repeated) == (1, 2, True)
        assert again.head == newest.head

    @case
    async def test_ten_retries_store_one_batch(self, trial: Trial) -> None:
        done = [
            await trial.store.append(ALICE, TALK, entries_with_ids("a", "b")) for _ in range(10)
        ]
        assert {(each.first, each.last) for each in done} == {(1, 2)}
        assert [each.repeated for each in done] == [False] + [True] * 9
        assert texts(await trial.store.read(ALICE, TALK)) == ["a", "b"]

    @case
    async def test_a_retry_after_reopening_returns_the_first_result(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids("a", "b"))
        await trial.store.append(ALICE, TALK, user_entries("c"))
        store = await trial.reopen()
        again = await store.append(ALICE, TALK, entries_with_ids("a", "b"))
        assert (again.first, again.last, again.repeated) == (1, 2, True)
        assert texts(await store.read(ALICE, TALK)) == ["a", "b", "c"]

    @pytest.mark.parametrize("expect", [0, 1, 2, 3, 99])
    @case
    async def test_a_retry_is_answered_whatever_it_expects(self, trial: Trial, expect: int) -> None:
        # The retried entries themselves made the expectation stale.
        await trial.store.append(ALICE, TALK, entries_with_ids("a", "b"), expect=0)
        await trial.store.append(ALICE, TALK, user_entries("c"))
        again = await trial.store.append(ALICE, TALK, entries_with_ids("a", "b"), expect=expect)
        assert (again.first, again.last, again.repeated) == (1, 2, True)

    @case
    async def test_a_retry_after_a_checkpoint_returns_the_first_result(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids("a", "b"))
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s", 2))
        again = await trial.store.append(ALICE, TALK, entries_with_ids("a", "b"))
        assert (again.first, again.last, again.repeated) == (1, 2, True)
        assert again.head.checkpoint == "s"

    @pytest.mark.parametrize(
        ("words", "first", "last"), [("a", 1, 1), ("bc", 2, 3), ("d", 4, 4), ("abcd", 1, 4)]
    )
    @case
    async def test_a_stretch_of_a_batch_is_known_too(
        self, trial: Trial, words: str, first: int, last: int
    ) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids(*"abcd"))
        again = await trial.store.append(ALICE, TALK, entries_with_ids(*words))
        assert (again.first, again.last, again.repeated) == (first, last, True)

    @case
    async def test_ids_of_one_conversation_mean_nothing_in_another(self, trial: Trial) -> None:
        await trial.store.append(ALICE, "one", entries_with_ids("a", "b"))
        done = await trial.store.append(ALICE, "two", [NewEntry(user("other"), "a")])
        assert (done.first, done.repeated) == (1, False)
        assert texts(await trial.store.read(ALICE, "two")) == ["other"]

    @case
    async def test_ids_of_one_tenant_mean_nothing_to_another(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids("a", "b"))
        done = await trial.store.append(BOB, TALK, [NewEntry(user("other"), "a")])
        assert (done.first, done.repeated) == (1, False)
        assert texts(await trial.store.read(ALICE, TALK)) == ["a", "b"]

    @case
    async def test_an_entry_without_id_is_never_taken_for_a_retry(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids("a"))
        done = await trial.store.append(ALICE, TALK, user_entries("a"))
        assert (done.first, done.repeated) == (2, False)


async def _refused(trial: Trial, batch: list[NewEntry]) -> None:
    """Check that appending a batch raises an error and changes neither the log nor the head (newest seq, version)."""
    head = await trial.store.head(ALICE, TALK)
    log = await trial.store.read(ALICE, TALK)
    with pytest.raises(IdReused):
        await trial.store.append(ALICE, TALK, batch)
    assert await trial.store.head(ALICE, TALK) == head
    assert await trial.store.read(ALICE, TALK) == log


class ReusedIdCases(StoreCases):
    """Test cases for a known id with another entry: `IdReused` is raised, and nothing is written."""

    @pytest.mark.parametrize(
        "message",
        [
            user("other"),
            user("a "),
            assistant("a"),
            user("a", name="Ana"),
            Message("user", "a", metadata={"k": 1}),
        ],
        ids=["other text", "one space more", "other role", "other name", "other metadata"],
    )
    @case
    async def test_an_id_with_another_body_is_refused(self, trial: Trial, message: Message) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids("a"))
        await _refused(trial, [NewEntry(message, "a")])

    @pytest.mark.parametrize("words", ["ax", "xa", "abx", "axb", "xab"])
    @case
    async def test_a_batch_known_in_part_is_refused(self, trial: Trial, words: str) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids(*"ab"))
        await _refused(trial, entries_with_ids(*words))
        assert await trial.store.find(ALICE, TALK, ["x"]) == []

    @pytest.mark.parametrize("words", ["ba", "cab", "ac", "cb"])
    @case
    async def test_known_ids_in_another_order_are_refused(self, trial: Trial, words: str) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids(*"abc"))
        await _refused(trial, entries_with_ids(*words))

    @case
    async def test_an_expectation_does_not_excuse_another_body(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids("a"))
        with pytest.raises(IdReused):
            await trial.store.append(ALICE, TALK, [NewEntry(user("other"), "a")], expect=1)

    @case
    async def test_another_body_is_refused_after_reopening(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids("a"))
        await trial.reopen()
        await _refused(trial, [NewEntry(user("other"), "a")])

    @case
    async def test_a_refused_batch_reserves_no_id(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids("a"))
        await _refused(trial, entries_with_ids("new", "a"))
        done = await trial.store.append(ALICE, TALK, [NewEntry(user("something else"), "new")])
        assert (done.first, done.repeated) == (2, False)

    @pytest.mark.parametrize("other", ["A", "a ", "a\u0301", "\uff41"])
    @case
    async def test_ids_that_only_look_alike_are_different(self, trial: Trial, other: str) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids("a"))
        done = await trial.store.append(ALICE, TALK, entries_with_ids(other))
        assert (done.first, done.repeated) == (2, False)
        assert texts(await trial.store.find(ALICE, TALK, ["a"])) == ["a"]


IMAGE = ImagePart("data:image/png;base64,iVBORw0KGgo=", "high", '{"cache":true}')
MESSAGES = {
    "no parts": Message.of("assistant", ()),
    "empty text": Message.of("user", (TextPart(""),)),
    "several texts": Message.of("user", (TextPart("a"), TextPart(""), TextPart("b", '{"x":1}'))),
    "image": Message.of("user", (TextPart("look"), IMAGE)),
    "audio": Message.of("user", (AudioPart("UklGRg==", "wav"),)),
    "file": Message.of("user", (FilePart("file:F-1", "application/pdf", "报告.pdf"),)),
    "thinking": Message.of("assistant", (ThinkingPart("let me see", "sig=="), TextPart("42"))),
    "redacted thinking": Message.of("assistant", (ThinkingPart("", redacted="ENCRYPTED=="),)),
    "opaque": Message.of("assistant", (OpaquePart('{"type":"new","n":1.0}', "someone"),)),
    "tool calls": Message.of(
        "assistant", (ToolCall("c1", "f", '{"a": 1}'), ToolCall("c2", "g", "not json {"))
    ),
    "tool result": Message.of("tool", (ToolResult("c1", (TextPart("ok"), IMAGE)),)),
    "failed results": Message.of(
        "tool", (ToolResult("c1", (), is_error=True), ToolResult("c2", (), extra='{"k":[]}'))
    ),
    "author": Message.of("user", (TextPart("hi"),), name="Ana 安娜"),
    "beside": Message.of("system", (TextPart("s"),), extra='{"z":1,"a":2}', labels='{"b":{}}'),
}


class MessageCases(StoreCases):
    """Test cases for content: every kind of part is returned exactly, byte for byte in its canonical form."""

    @pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES.keys())
    @case
    async def test_every_kind_of_part_comes_back_equal(
        self, trial: Trial, message: Message
    ) -> None:
        await trial.store.append(ALICE, TALK, [NewEntry(message, "id")])
        [entry] = await trial.store.read(ALICE, TALK)
        assert entry.message == message
        assert encode_message(entry.message) == encode_message(message)
        assert (await trial.store.append(ALICE, TALK, [NewEntry(message, "id")])).repeated

    @pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS.keys())
    @case
    async def test_any_text_comes_back_exactly(self, trial: Trial, text: str) -> None:
        written = [
            Message.of("user", (TextPart(text),), name=text),
            Message.of("assistant", (ToolCall(text, text, text), ThinkingPart(text, text))),
            Message.of("tool", (ToolResult(text, (TextPart(text),)),)),
            Message("user", [{"type": "new", "said": text}], metadata={text: text}),
        ]
        await trial.store.append(ALICE, TALK, [NewEntry(message) for message in written])
        assert [entry.message for entry in await trial.store.read(ALICE, TALK)] == written

    def test_any_message_comes_back_equal(self, trial: Trial) -> None:
        @settings_for(self.examples * 2)
        @given(written=st.lists(messages, min_size=1, max_size=3))
        def check(written: list[Message]) -> None:
            name = trial.fresh("talk")
            trial.run(trial.store.append(ALICE, name, [NewEntry(message) for message in written]))
            found = trial.run(trial.store.read(ALICE, name))
            assert [entry.message for entry in found] == written

        check()
