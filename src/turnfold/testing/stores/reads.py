"""Test cases for reads by range, turn, client id or budget: exactly what was requested is returned, nothing changes.

Also cases for the stored token counts of a log that is opened with another token counter.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnfold.errors import InvalidOption
from turnfold.records import NewEntry, assistant, system, user
from turnfold.stores import Ability
from turnfold.testing.stores.case_runner import StoreCases, Trial, case
from turnfold.testing.stores.random_operations import settings_for
from turnfold.testing.stores.sample_values import (
    ALICE,
    BOB,
    TALK,
    character_counter,
    entries_with_ids,
    exchange,
    seqs,
    texts,
    user_entries,
)

__all__ = (
    "CounterCases",
    "FindCases",
    "RangeCases",
    "ReadCases",
    "TailCases",
    "TurnCases",
)


# ruff: noqa: D102, S101 (cases are named by sentences, and consist of asserts)


TOO_LARGE = 1 << 63
"""The first number that does not fit a 64-bit column."""


class ReadCases(StoreCases):
    """Test cases for reading a range of the log by seq."""

    @pytest.mark.parametrize(
        ("after", "upto", "limit", "expected"),
        [
            (0, None, 1000, range(1, 11)),
            (0, 10, 10, range(1, 11)),
            (3, None, 1000, range(4, 11)),
            (3, 7, 1000, range(4, 8)),
            (3, 4, 1000, [4]),
            (3, 3, 1000, []),
            (7, 3, 1000, []),
            (0, 0, 1000, []),
            (9, None, 1000, [10]),
            (10, None, 1000, []),
            (11, None, 1000, []),
            (5, 99, 1000, range(6, 11)),
            (0, None, 0, []),
            (0, None, 1, [1]),
            (2, 8, 3, range(3, 6)),
            (7, None, 99, range(8, 11)),
            (0, TOO_LARGE - 1, TOO_LARGE - 1, range(1, 11)),
            (TOO_LARGE - 1, None, 1, []),
        ],
    )
    @case
    async def test_a_range_is_what_lies_after_and_up_to(
        self, trial: Trial, after: int, upto: int | None, limit: int, expected: list[int]
    ) -> None:
        await trial.store.append(ALICE, TALK, user_entries(*"abcdefghij"))
        found = await trial.store.read(ALICE, TALK, after=after, upto=upto, limit=limit)
        assert seqs(found) == list(expected)

    @pytest.mark.parametrize("wrong", [-1, -1000, TOO_LARGE])
    @pytest.mark.parametrize("option", ["after", "upto", "limit"])
    @case
    async def test_a_number_outside_its_range_is_refused(
        self, trial: Trial, option: str, wrong: int
    ) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a", "b"))
        with pytest.raises(InvalidOption):
            await trial.store.read(ALICE, TALK, **{option: wrong})

    @case
    async def test_an_unknown_conversation_reads_as_nothing(self, trial: Trial) -> None:
        assert await trial.store.read(ALICE, TALK) == []

    @case
    async def test_a_read_is_limited_to_a_thousand_unless_told(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries(*"x" * 1005))
        assert seqs(await trial.store.read(ALICE, TALK)) == list(range(1, 1001))
        assert len(await trial.store.read(ALICE, TALK, limit=2000)) == 1005

    @pytest.mark.parametrize("size", [1, 3, 7, 50])
    @case
    async def test_pages_show_every_entry_once(self, trial: Trial, size: int) -> None:
        await trial.store.append(ALICE, TALK, user_entries(*map(str, range(21))))
        pages: list[str] = []
        after = 0
        while page := await trial.store.read(ALICE, TALK, after=after, limit=size):
            pages += texts(page)
            after = page[-1].seq
        assert pages == list(map(str, range(21)))

    @case
    async def test_the_same_question_has_the_same_answer(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, exchange("a", "b"))
        first = await trial.store.read(ALICE, TALK)
        assert await trial.store.read(ALICE, TALK) == first

    @case
    async def test_an_answer_belongs_to_the_caller(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a", "b"))
        (await trial.store.read(ALICE, TALK)).clear()
        assert texts(await trial.store.read(ALICE, TALK)) == ["a", "b"]


class RangeCases(StoreCases):
    """Test cases for reading several ranges of the log with one request."""

    @pytest.mark.parametrize(
        ("ranges", "expected"),
        [
            ([], []),
            ([(1, 1)], [1]),
            ([(2, 4), (6, 6), (8, 9)], [2, 3, 4, 6, 8, 9]),
            ([(1, 3), (4, 12)], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
            ([(11, 40), (50, TOO_LARGE - 1)], [11, 12]),
            ([(13, 99)], []),
        ],
    )
    @case
    async def test_ranges_are_read_in_the_order_of_the_log(
        self, trial: Trial, ranges: list[tuple[int, int]], expected: list[int]
    ) -> None:
        await trial.store.append(ALICE, TALK, user_entries(*map(str, range(1, 13))))
        await trial.store.append(ALICE, "other", user_entries(*"abc"))
        found = await trial.store.read_ranges(ALICE, TALK, ranges)
        assert seqs(found) == expected
        assert texts(found) == list(map(str, expected))

    @case
    async def test_an_entry_of_a_range_is_the_same_as_that_of_a_read(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, [*exchange("q1", "a1"), *exchange("q2", "a2")])
        found = await trial.store.read_ranges(ALICE, TALK, [(1, 2), (4, 4)])
        whole = await trial.store.read(ALICE, TALK)
        assert found == [whole[0], whole[1], whole[3]]

    @case
    async def test_more_than_a_thousand_entries_of_ranges_are_read(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries(*"x" * 1_200))
        odd = [(seq, seq) for seq in range(1, 1_201, 2)]
        assert seqs(await trial.store.read_ranges(ALICE, TALK, odd)) == list(range(1, 1_201, 2))
        assert len(await trial.store.read_ranges(ALICE, TALK, [(1, 1_200)])) == 1_200

    @case
    async def test_ranges_of_an_unknown_conversation_are_empty(self, trial: Trial) -> None:
        assert await trial.store.read_ranges(ALICE, TALK, [(1, 3), (5, 5)]) == []

    @pytest.mark.parametrize(
        "ranges",
        [[(0, 2)], [(-3, -1)], [(3, 2)], [(1, 3), (3, 4)], [(4, 5), (1, 2)], [(1, TOO_LARGE)]],
    )
    @case
    async def test_ranges_out_of_order_are_refused(
        self, trial: Trial, ranges: list[tuple[int, int]]
    ) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a", "b"))
        with pytest.raises(InvalidOption):
            await trial.store.read_ranges(ALICE, TALK, ranges)


class TurnCases(StoreCases):
    """Test cases for reading one turn of the log."""

    @pytest.mark.parametrize(
        ("turn", "expected"),
        [(0, ["s"]), (1, ["q1", "a1"]), (2, ["q2"]), (3, ["q3", "a3", "b3"]), (4, []), (99, [])],
    )
    @case
    async def test_a_turn_is_read_whole(self, trial: Trial, turn: int, expected: list[str]) -> None:
        await trial.store.append(ALICE, TALK, [NewEntry(system("s")), *exchange("q1", "a1")])
        await trial.store.append(ALICE, TALK, user_entries("q2"))
        await trial.store.append(ALICE, TALK, exchange("q3", "a3"))
        await trial.store.append(ALICE, TALK, [NewEntry(assistant("b3"))])
        assert texts(await trial.store.read_turn(ALICE, TALK, turn)) == expected

    @case
    async def test_turn_zero_is_empty_when_the_user_spoke_first(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, exchange("q", "a"))
        assert await trial.store.read_turn(ALICE, TALK, 0) == []

    @case
    async def test_a_log_without_user_messages_is_turn_zero(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, [NewEntry(assistant(word)) for word in "abc"])
        assert texts(await trial.store.read_turn(ALICE, TALK, 0)) == ["a", "b", "c"]
        assert await trial.store.read_turn(ALICE, TALK, 1) == []

    @pytest.mark.parametrize("turn", [0, 1])
    @case
    async def test_an_unknown_conversation_has_no_turns(self, trial: Trial, turn: int) -> None:
        assert await trial.store.read_turn(ALICE, TALK, turn) == []

    @pytest.mark.parametrize("turn", [-1, TOO_LARGE])
    @case
    async def test_a_turn_outside_its_range_is_refused(self, trial: Trial, turn: int) -> None:
        await trial.store.append(ALICE, TALK, exchange("q", "a"))
        with pytest.raises(InvalidOption):
            await trial.store.read_turn(ALICE, TALK, turn)

    @case
    async def test_the_turns_together_are_the_log(self, trial: Trial) -> None:
        for number in range(9):
            await trial.store.append(ALICE, TALK, exchange(f"q{number}", "a")[: 1 + number % 2])
        turns = [await trial.store.read_turn(ALICE, TALK, turn) for turn in range(11)]
        assert [entry for turn in turns for entry in turn] == await trial.store.read(ALICE, TALK)


class FindCases(StoreCases):
    """Test cases for finding entries by client id."""

    @case
    async def test_ids_are_found_oldest_first(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids(*"abcd"))
        found = await trial.store.find(ALICE, TALK, ["d", "a", "c"])
        assert found == [entry for entry in await trial.store.read(ALICE, TALK) if entry.seq != 2]

    @case
    async def test_unknown_ids_are_not_among_them(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids("a", "b"))
        await trial.store.append(ALICE, TALK, user_entries("c"))
        assert texts(await trial.store.find(ALICE, TALK, ["c", "b", "nothing"])) == ["b"]

    @case
    async def test_an_id_asked_for_twice_is_found_once(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids("a", "b"))
        assert texts(await trial.store.find(ALICE, TALK, ["a", "a", "a"])) == ["a"]

    @case
    async def test_no_ids_find_nothing(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids("a"))
        await trial.store.append(ALICE, TALK, user_entries("b"))
        assert await trial.store.find(ALICE, TALK, []) == []

    @case
    async def test_ids_are_found_in_their_own_conversation_only(self, trial: Trial) -> None:
        await trial.store.append(ALICE, "one", entries_with_ids("a"))
        await trial.store.append(BOB, TALK, entries_with_ids("a"))
        await trial.store.append(ALICE, TALK, [NewEntry(user("mine"), "m")])
        assert await trial.store.find(ALICE, TALK, ["a"]) == []
        assert await trial.store.find(ALICE, "unknown", ["a", "m"]) == []

    @case
    async def test_many_ids_are_found_at_once(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids(*map(str, range(1200))))
        wanted = [str(number) for number in range(0, 2400, 2)]
        found = await trial.store.find(ALICE, TALK, wanted)
        assert seqs(found) == list(range(1, 1201, 2))


WORDS = ("12345", "123", "1234567", "1", "1234")
"""Texts whose total tokens, from the newest back, are 4, 5, 12, 15, 20."""


class TailCases(StoreCases):
    """Test cases for the newest entries within a budget: as many as fit, and never more."""

    @pytest.mark.parametrize(
        ("tokens", "expected"),
        [
            (0, 0),
            (1, 0),
            (3, 0),
            (4, 1),
            (5, 2),
            (6, 2),
            (11, 2),
            (12, 3),
            (14, 3),
            (15, 4),
            (19, 4),
            (20, 5),
            (21, 5),
            (1 << 62, 5),
        ],
    )
    @case
    async def test_the_tail_is_the_longest_that_fits(
        self, trial: Trial, tokens: int, expected: int
    ) -> None:
        await trial.store.append(ALICE, TALK, user_entries(*WORDS))
        found = await trial.store.tail(ALICE, TALK, tokens=tokens)
        assert seqs(found) == list(range(6 - expected, 6))
        assert sum(entry.tokens for entry in found) <= tokens

    @pytest.mark.parametrize(
        ("tokens", "messages", "expected"),
        [
            (100, 1, 1),
            (100, 3, 3),
            (100, 5, 5),
            (100, 99, 5),
            (12, 2, 2),
            (12, 4, 3),
            (3, 2, 0),
            (100, 0, 5),
            (0, 3, 0),
        ],
    )
    @case
    async def test_both_limits_hold(
        self, trial: Trial, tokens: int, messages: int, expected: int
    ) -> None:
        await trial.store.append(ALICE, TALK, user_entries(*WORDS))
        found = await trial.store.tail(ALICE, TALK, tokens=tokens, messages=messages)
        assert seqs(found) == list(range(6 - expected, 6))

    @case
    async def test_nothing_is_skipped_to_reach_older_entries(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("1", "1" * 50, "1"))
        assert seqs(await trial.store.tail(ALICE, TALK, tokens=10)) == [3]

    @case
    async def test_an_entry_that_costs_nothing_fits_nothing(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("12", "", ""))
        assert seqs(await trial.store.tail(ALICE, TALK, tokens=0)) == [2, 3]

    @case
    async def test_an_unknown_conversation_has_no_tail(self, trial: Trial) -> None:
        assert await trial.store.tail(ALICE, TALK, tokens=10) == []
        assert await trial.store.conversations(ALICE) == []

    @pytest.mark.parametrize(("tokens", "messages"), [(-1, 0), (10, -1), (1 << 63, 0)])
    @case
    async def test_a_budget_outside_its_range_is_refused(
        self, trial: Trial, tokens: int, messages: int
    ) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a"))
        with pytest.raises(InvalidOption):
            await trial.store.tail(ALICE, TALK, tokens=tokens, messages=messages)

    @case
    async def test_the_tail_is_the_end_of_the_log(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, exchange("question", "answer"))
        await trial.store.append(ALICE, TALK, exchange("and", "then"))
        log = await trial.store.read(ALICE, TALK)
        assert await trial.store.tail(ALICE, TALK, tokens=1000) == log
        assert await trial.store.tail(ALICE, TALK, tokens=1000, messages=2) == log[2:]

    @case
    async def test_a_new_entry_is_in_the_tail_at_once(self, trial: Trial) -> None:
        for word in ("a", "b", "c"):
            await trial.store.append(ALICE, TALK, user_entries(word))
            assert texts(await trial.store.tail(ALICE, TALK, tokens=1)) == [word]

    def test_any_tail_is_exact(self, trial: Trial) -> None:
        @settings_for(self.examples)
        @given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=9), data=st.data())
        def check(lengths: list[int], data: st.DataObject) -> None:
            tokens = data.draw(st.integers(0, sum(lengths) + 1))
            messages = data.draw(st.integers(0, len(lengths) + 1))
            name = trial.fresh("talk")
            trial.run(trial.store.append(ALICE, name, user_entries(*("x" * n for n in lengths))))
            found = trial.run(trial.store.tail(ALICE, name, tokens=tokens, messages=messages))
            fits = [
                count
                for count in range(len(lengths) + 1)
                if sum(lengths[len(lengths) - count :]) <= tokens
                and (not messages or count <= messages)
            ]
            assert seqs(found) == list(range(len(lengths) - max(fits) + 1, len(lengths) + 1))

        check()


class CounterCases(StoreCases):
    """Test cases for a log that is opened with another token counter: tokens are counted again when they are needed."""

    @case
    async def test_the_head_names_the_counter(self, trial: Trial) -> None:
        done = await trial.store.append(ALICE, TALK, user_entries("a"))
        assert done.head.counter == character_counter().name

    @case
    async def test_until_it_is_needed_the_old_count_stands_under_its_name(
        self, trial: Trial
    ) -> None:
        await trial.store.append(ALICE, TALK, user_entries("12", "345"))
        before = await trial.store.head(ALICE, TALK)
        log = await trial.store.read(ALICE, TALK)
        store = await trial.reopen(counter=character_counter(3))
        assert await store.head(ALICE, TALK) == before
        assert await store.read(ALICE, TALK) == log

    @case
    async def test_a_tail_recounts(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("12", "345", "6"))
        tripled = character_counter(3)
        store = await trial.reopen(counter=tripled)
        tail = await store.tail(ALICE, TALK, tokens=12)
        head = await store.head(ALICE, TALK)
        assert [(entry.tokens, entry.running) for entry in tail] == [(9, 15), (3, 18)]
        assert (head.tokens, head.counter) == (18, tripled.name)

    @case
    async def test_an_append_recounts(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("12", "345"))
        tripled = character_counter(3)
        store = await trial.reopen(counter=tripled)
        done = await store.append(ALICE, TALK, user_entries("6"))
        costs = [(entry.tokens, entry.running) for entry in await store.read(ALICE, TALK)]
        assert costs == [(6, 6), (9, 15), (3, 18)]
        assert (done.head.tokens, done.head.counter) == (18, tripled.name)

    @case
    async def test_a_recount_changes_costs_and_nothing_else(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, exchange("question", "answer"))
        before = await trial.store.read(ALICE, TALK)
        store = await trial.reopen(counter=character_counter(3))
        after = await store.tail(ALICE, TALK, tokens=1000)
        assert [(e.seq, e.message, e.client_id, e.created, e.turn) for e in after] == [
            (e.seq, e.message, e.client_id, e.created, e.turn) for e in before
        ]

    @case
    async def test_a_recount_is_a_change_that_caches_can_see(self, trial: Trial) -> None:
        before = (await trial.store.append(ALICE, TALK, user_entries("12"))).head
        store = await trial.reopen(counter=character_counter(3))
        await store.tail(ALICE, TALK, tokens=10)
        after = await store.head(ALICE, TALK)
        assert after.generation > before.generation
        assert after.epoch != before.epoch

    @case
    async def test_a_recount_happens_once(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("12"))
        store = await trial.reopen(counter=character_counter(3))
        await store.tail(ALICE, TALK, tokens=10)
        head = await store.head(ALICE, TALK)
        await store.tail(ALICE, TALK, tokens=10)
        assert await store.head(ALICE, TALK) == head

    @case
    async def test_only_the_conversation_in_use_is_recounted(self, trial: Trial) -> None:
        for scope, name in ((ALICE, TALK), (ALICE, "other"), (BOB, TALK)):
            await trial.store.append(scope, name, user_entries("12"))
        store = await trial.reopen(counter=character_counter(3))
        await store.tail(ALICE, TALK, tokens=10)
        assert (await store.head(ALICE, TALK)).tokens == 6
        assert (await store.head(ALICE, "other")).tokens == 2
        assert (await store.head(BOB, TALK)).tokens == 2

    @case
    async def test_the_first_counter_gives_the_first_costs_again(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("12", "345"))
        log = await trial.store.read(ALICE, TALK)
        store = await trial.reopen(counter=character_counter(3))
        await store.tail(ALICE, TALK, tokens=1000)
        store = await trial.reopen()
        assert await store.tail(ALICE, TALK, tokens=1000) == log

    @case
    async def test_two_handles_with_two_counters_never_mix_their_costs(self, trial: Trial) -> None:
        trial.need(Ability.SHARED)
        single, triple = trial.store, trial.open(counter=character_counter(3))
        for store in (single, triple, single, triple):
            await store.append(ALICE, TALK, user_entries("12"))
        log = await single.tail(ALICE, TALK, tokens=1000)
        assert [(entry.tokens, entry.running) for entry in log] == [(2, 2), (2, 4), (2, 6), (2, 8)]
        assert (await triple.append(ALICE, TALK, user_entries("12"))).head.tokens == 30
