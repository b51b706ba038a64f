"""Appending: seqs are dense and assigned by the store, a batch is whole or absent, a stale writer is refused."""

# ruff: noqa: D102, S101 (the name of a case is its sentence, and assert is what a case is made of)

from __future__ import annotations

import pytest

from turnfold.errors import Conflict, InvalidOption
from turnfold.records import Entry, NewEntry, assistant, system, tool, user
from turnfold.stores import Head
from turnfold.testing.store_conformance_trial import StoreCases, Trial, case
from turnfold.testing.store_conformance_values import (
    ALICE,
    TALK,
    character_counter,
    exchange,
    named,
    said,
    seqs,
    texts,
)

__all__ = ("AppendCases", "ExpectCases")


class AppendCases(StoreCases):
    """What an append writes."""

    @case
    async def test_an_unknown_conversation_stands_at_zero(self, trial: Trial) -> None:
        assert await trial.store.head(ALICE, TALK) == Head()

    @case
    async def test_the_first_seq_is_one(self, trial: Trial) -> None:
        done = await trial.store.append(ALICE, TALK, said("a"))
        assert (done.first, done.last, done.repeated) == (1, 1, False)

    @case
    async def test_seqs_are_dense_across_batches(self, trial: Trial) -> None:
        spans: list[tuple[int, int]] = []
        for size in (1, 3, 2, 1, 5):
            done = await trial.store.append(ALICE, TALK, said(*"x" * size))
            spans.append((done.first, done.last))
        assert spans == [(1, 1), (2, 4), (5, 6), (7, 7), (8, 12)]
        assert seqs(await trial.store.read(ALICE, TALK)) == list(range(1, 13))

    @case
    async def test_a_batch_keeps_its_order(self, trial: Trial) -> None:
        words = [f"word {number * 7919 % 101}" for number in range(100)]
        await trial.store.append(ALICE, TALK, said(*words))
        assert texts(await trial.store.read(ALICE, TALK)) == words

    @case
    async def test_a_batch_may_be_any_sequence(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, tuple(said("a", "b")))
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
        said_in_turns = [
            system("rules"),
            user("question"),
            assistant(tool_calls=[call]),
            tool("result", tool_call_id="c1"),
            assistant("answer"),
            user("again"),
            user("and again"),
        ]
        await trial.store.append(ALICE, TALK, [NewEntry(message) for message in said_in_turns])
        turns = [entry.turn for entry in await trial.store.read(ALICE, TALK)]
        assert turns == [0, 1, 1, 1, 1, 2, 3]
        assert (await trial.store.head(ALICE, TALK)).turns == 3

    @case
    async def test_the_head_follows_every_append(self, trial: Trial) -> None:
        counter = character_counter().name
        await trial.store.append(ALICE, TALK, exchange("12345", "123"))
        first = await trial.store.head(ALICE, TALK)
        await trial.store.append(ALICE, TALK, said("1"))
        second = await trial.store.head(ALICE, TALK)
        assert (first.seq, first.tokens, first.turns, first.counter) == (2, 8, 1, counter)
        assert (second.seq, second.tokens, second.turns, second.counter) == (3, 9, 2, counter)

    @case
    async def test_an_append_returns_the_head_it_made(self, trial: Trial) -> None:
        for words in ("a", "bc", "def"):
            done = await trial.store.append(ALICE, TALK, said(*words))
            assert done.head == await trial.store.head(ALICE, TALK)

    @case
    async def test_running_sums_add_up(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said("123", "1"))
        await trial.store.append(ALICE, TALK, said("", "12345"))
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
        await trial.store.append(ALICE, TALK, said("a", "b"))
        first, second = await trial.store.read(ALICE, TALK)
        assert before < first.created == second.created <= trial.clock.now

    @pytest.mark.parametrize("step", [0, -1_000_000], ids=["frozen", "running backwards"])
    @case
    async def test_the_clock_takes_no_part_in_the_order(self, trial: Trial, step: int) -> None:
        trial.clock.step = step
        for word in "abcde":
            await trial.store.append(ALICE, TALK, said(word))
        assert texts(await trial.store.read(ALICE, TALK)) == list("abcde")
        assert texts(await trial.store.tail(ALICE, TALK, tokens=2)) == ["d", "e"]

    @case
    async def test_equal_messages_without_ids_are_all_stored(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said("same", "same"))
        done = await trial.store.append(ALICE, TALK, said("same", "same"))
        assert (done.first, done.last, done.repeated) == (3, 4, False)
        assert texts(await trial.store.read(ALICE, TALK)) == ["same"] * 4

    @case
    async def test_a_large_batch_is_one_batch(self, trial: Trial) -> None:
        done = await trial.store.append(ALICE, TALK, named(*map(str, range(700))))
        assert (done.first, done.last) == (1, 700)
        assert texts(await trial.store.read(ALICE, TALK)) == list(map(str, range(700)))

    @case
    async def test_a_large_message_is_kept_whole(self, trial: Trial) -> None:
        text = "记录 of 2 MB " * 130_000
        await trial.store.append(ALICE, TALK, said(text))
        assert texts(await trial.store.read(ALICE, TALK)) == [text]

    @case
    async def test_conversations_are_numbered_apart(self, trial: Trial) -> None:
        await trial.store.append(ALICE, "one", said("a", "b"))
        done = await trial.store.append(ALICE, "two", said("c"))
        assert (done.first, done.head.tokens) == (1, 1)
        assert texts(await trial.store.read(ALICE, "one")) == ["a", "b"]


class ExpectCases(StoreCases):
    """What an append refuses, leaving no trace."""

    @case
    async def test_an_empty_batch_is_refused(self, trial: Trial) -> None:
        with pytest.raises(InvalidOption):
            await trial.store.append(ALICE, TALK, [])
        assert await trial.store.conversations(ALICE) == []

    @case
    async def test_two_equal_ids_in_a_batch_are_refused(self, trial: Trial) -> None:
        with pytest.raises(InvalidOption):
            await trial.store.append(ALICE, TALK, named("a", "b", "a"))
        assert await trial.store.head(ALICE, TALK) == Head()

    @pytest.mark.parametrize("order", [1, -1], ids=["id first", "id last"])
    @case
    async def test_a_batch_with_ids_on_some_entries_is_refused(
        self, trial: Trial, order: int
    ) -> None:
        # A retry could only be recognised in part: what has no id would be lost or doubled.
        batch = [*named("a"), *said("b")][::order]
        with pytest.raises(InvalidOption):
            await trial.store.append(ALICE, TALK, batch)
        assert await trial.store.head(ALICE, TALK) == Head()

    @case
    async def test_the_right_expectation_appends(self, trial: Trial) -> None:
        assert (await trial.store.append(ALICE, TALK, said("a", "b"), expect=0)).last == 2
        assert (await trial.store.append(ALICE, TALK, said("c"), expect=2)).last == 3

    @pytest.mark.parametrize("expect", [0, 1, 3, 4, -1, 10**30])
    @case
    async def test_any_other_expectation_is_a_conflict(self, trial: Trial, expect: int) -> None:
        done = await trial.store.append(ALICE, TALK, said("a", "b"))
        with pytest.raises(Conflict):
            await trial.store.append(ALICE, TALK, said("c"), expect=expect)
        assert await trial.store.head(ALICE, TALK) == done.head
        assert texts(await trial.store.read(ALICE, TALK)) == ["a", "b"]

    @case
    async def test_a_conflict_leaves_no_trace_of_an_unknown_conversation(
        self, trial: Trial
    ) -> None:
        with pytest.raises(Conflict):
            await trial.store.append(ALICE, TALK, named("a"), expect=1)
        assert await trial.store.conversations(ALICE) == []
        assert (await trial.store.append(ALICE, TALK, named("a"), expect=0)).repeated is False

    @case
    async def test_a_refused_batch_can_be_sent_again(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said("a"))
        with pytest.raises(Conflict):
            await trial.store.append(ALICE, TALK, named("b", "c"), expect=0)
        done = await trial.store.append(ALICE, TALK, named("b", "c"), expect=1)
        assert (done.first, done.last, done.repeated) == (2, 3, False)

    @case
    async def test_without_expectation_an_append_never_conflicts(self, trial: Trial) -> None:
        for word in "abc":
            await trial.store.append(ALICE, TALK, said(word), expect=None)
        assert texts(await trial.store.read(ALICE, TALK)) == ["a", "b", "c"]
