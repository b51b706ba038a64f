"""The tail for a budget, to the token, and what happens to stored costs when the counter changes."""

# ruff: noqa: D102, S101 (the name of a case is its sentence, and assert is what a case is made of)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnfold.errors import InvalidOption
from turnfold.stores import Ability
from turnfold.testing.store_conformance_strategies import settings_for
from turnfold.testing.store_conformance_trial import StoreCases, Trial, case
from turnfold.testing.store_conformance_values import (
    ALICE,
    BOB,
    TALK,
    character_counter,
    exchange,
    said,
    seqs,
    texts,
)

__all__ = ("CounterCases", "TailCases")

WORDS = ("12345", "123", "1234567", "1", "1234")
"""From the newest: 4, 5, 12, 15, 20 tokens together."""


class TailCases(StoreCases):
    """The newest entries within a budget: never over it, and not one entry less than fits."""

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
        await trial.store.append(ALICE, TALK, said(*WORDS))
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
        await trial.store.append(ALICE, TALK, said(*WORDS))
        found = await trial.store.tail(ALICE, TALK, tokens=tokens, messages=messages)
        assert seqs(found) == list(range(6 - expected, 6))

    @case
    async def test_nothing_is_skipped_to_reach_older_entries(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said("1", "1" * 50, "1"))
        assert seqs(await trial.store.tail(ALICE, TALK, tokens=10)) == [3]

    @case
    async def test_an_entry_that_costs_nothing_fits_nothing(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said("12", "", ""))
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
        await trial.store.append(ALICE, TALK, said("a"))
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
            await trial.store.append(ALICE, TALK, said(word))
            assert texts(await trial.store.tail(ALICE, TALK, tokens=1)) == [word]

    def test_any_tail_is_exact(self, trial: Trial) -> None:
        @settings_for(self.examples)
        @given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=9), data=st.data())
        def check(lengths: list[int], data: st.DataObject) -> None:
            tokens = data.draw(st.integers(0, sum(lengths) + 1))
            messages = data.draw(st.integers(0, len(lengths) + 1))
            name = trial.fresh("talk")
            trial.run(trial.store.append(ALICE, name, said(*("x" * n for n in lengths))))
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
    """A log counted by one counter and opened with another: recounted when the costs are needed, and it says so."""

    @case
    async def test_the_head_names_the_counter(self, trial: Trial) -> None:
        done = await trial.store.append(ALICE, TALK, said("a"))
        assert done.head.counter == character_counter().name

    @case
    async def test_until_it_is_needed_the_old_count_stands_under_its_name(
        self, trial: Trial
    ) -> None:
        await trial.store.append(ALICE, TALK, said("12", "345"))
        before = await trial.store.head(ALICE, TALK)
        log = await trial.store.read(ALICE, TALK)
        store = await trial.reopen(counter=character_counter(3))
        assert await store.head(ALICE, TALK) == before
        assert await store.read(ALICE, TALK) == log

    @case
    async def test_a_tail_recounts(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said("12", "345", "6"))
        tripled = character_counter(3)
        store = await trial.reopen(counter=tripled)
        tail = await store.tail(ALICE, TALK, tokens=12)
        head = await store.head(ALICE, TALK)
        assert [(entry.tokens, entry.running) for entry in tail] == [(9, 15), (3, 18)]
        assert (head.tokens, head.counter) == (18, tripled.name)

    @case
    async def test_an_append_recounts(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said("12", "345"))
        tripled = character_counter(3)
        store = await trial.reopen(counter=tripled)
        done = await store.append(ALICE, TALK, said("6"))
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
        before = (await trial.store.append(ALICE, TALK, said("12"))).head
        store = await trial.reopen(counter=character_counter(3))
        await store.tail(ALICE, TALK, tokens=10)
        after = await store.head(ALICE, TALK)
        assert after.generation > before.generation
        assert after.epoch != before.epoch

    @case
    async def test_a_recount_happens_once(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said("12"))
        store = await trial.reopen(counter=character_counter(3))
        await store.tail(ALICE, TALK, tokens=10)
        head = await store.head(ALICE, TALK)
        await store.tail(ALICE, TALK, tokens=10)
        assert await store.head(ALICE, TALK) == head

    @case
    async def test_only_the_conversation_in_use_is_recounted(self, trial: Trial) -> None:
        for scope, name in ((ALICE, TALK), (ALICE, "other"), (BOB, TALK)):
            await trial.store.append(scope, name, said("12"))
        store = await trial.reopen(counter=character_counter(3))
        await store.tail(ALICE, TALK, tokens=10)
        assert (await store.head(ALICE, TALK)).tokens == 6
        assert (await store.head(ALICE, "other")).tokens == 2
        assert (await store.head(BOB, TALK)).tokens == 2

    @case
    async def test_the_first_counter_gives_the_first_costs_again(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said("12", "345"))
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
            await store.append(ALICE, TALK, said("12"))
        log = await single.tail(ALICE, TALK, tokens=1000)
        assert [(entry.tokens, entry.running) for entry in log] == [(2, 2), (2, 4), (2, 6), (2, 8)]
        assert (await triple.append(ALICE, TALK, said("12"))).head.tokens == 30
