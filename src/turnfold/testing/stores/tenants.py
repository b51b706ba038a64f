"""Test cases for tenants: no method shows, counts, changes or reveals another tenant's data."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnfold.errors import TurnfoldError
from turnfold.stores import Scope, Store
from turnfold.testing.stores.case_runner import StoreCases, Trial, case
from turnfold.testing.stores.random_operations import (
    RandomOperation,
    operations,
    outcome,
    settings_for,
)
from turnfold.testing.stores.sample_values import (
    ALICE,
    BOB,
    TALK,
    VERBS,
    checkpoint,
    comparable,
    digest,
    document,
    entries_with_ids,
    user_entries,
)

__all__ = ("TenantCases",)


# ruff: noqa: D102, S101 (cases are named by sentences, and consist of asserts)


EVERYTHING = (
    *("append", "append", "append", "put_document", "drop_document", "add_checkpoint", "delete"),
    *("head", "read", "read_ranges", "read_turn", "find", "tail", "checkpoints", "documents"),
    *("conversations", "search", "search"),
)
"""All operations; appends occur more often than others, so that there is data."""


async def _fill(store: Store, scope: Scope) -> None:
    for name in (TALK, "other"):
        await store.append(scope, name, entries_with_ids("one", "two", "three"))
        await store.add_checkpoint(scope, name, checkpoint("s", 2))
        await store.put_document(scope, name, document("key"))
        await store.put_document(scope, name, document("key"))


class TenantCases(StoreCases):
    """Test cases for two scopes: they share nothing."""

    @pytest.mark.parametrize("verb", VERBS)
    @case
    async def test_an_answer_is_the_same_as_if_one_were_alone(
        self, trial: Trial, verb: str
    ) -> None:
        trial.clock.step = 0
        alone = trial.open("alone")
        await _fill(trial.store, BOB)
        for store in (alone, trial.store):
            await store.append(ALICE, TALK, user_entries("mine"))
        answers = [await VERBS[verb](store, ALICE, TALK) for store in (alone, trial.store)]
        assert comparable(answers[0]) == comparable(answers[1])
        assert await digest(alone, ALICE) == await digest(trial.store, ALICE)

    @pytest.mark.parametrize("verb", VERBS)
    @case
    async def test_a_call_leaves_the_other_tenant_as_it_was(self, trial: Trial, verb: str) -> None:
        await _fill(trial.store, BOB)
        await trial.store.append(ALICE, TALK, user_entries("mine"))
        before = await digest(trial.store, BOB)
        await VERBS[verb](trial.store, ALICE, TALK)
        assert await digest(trial.store, BOB) == before

    @case
    async def test_a_new_tenant_sees_nothing(self, trial: Trial) -> None:
        await _fill(trial.store, BOB)
        empty = trial.open("empty")
        assert await digest(trial.store, ALICE) == await digest(empty, ALICE)
        assert await trial.store.find(ALICE, TALK, ["one"]) == []
        assert await trial.store.get_document(ALICE, TALK, "note", "key") is None

    @case
    async def test_versions_expectations_and_successions_are_ones_own(self, trial: Trial) -> None:
        await _fill(trial.store, BOB)
        assert (await trial.store.append(ALICE, TALK, entries_with_ids("one"), expect=0)).first == 1
        stored = await trial.store.put_document(ALICE, TALK, document("key"), expect=0)
        assert stored.document.version == 1
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s", 1))
        assert [each.upto for each in await trial.store.checkpoints(ALICE, TALK)] == [1]

    @case
    async def test_a_receipt_counts_only_ones_own(self, trial: Trial) -> None:
        await _fill(trial.store, BOB)
        await trial.store.append(ALICE, TALK, user_entries("mine"))
        receipt = await trial.store.delete(ALICE, TALK)
        assert (receipt.entries, receipt.checkpoints, receipt.documents) == (1, 0, 0)
        assert (await trial.store.delete(BOB, TALK)).entries == 3

    @case
    async def test_the_rank_of_a_hit_does_not_tell_what_others_wrote(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("alpha beta", "beta", "gamma"))
        before = await trial.store.search(ALICE, ["alpha", "beta"])
        await trial.store.append(BOB, TALK, user_entries(*["alpha"] * 50))
        assert await trial.store.search(ALICE, ["alpha", "beta"]) == before

    @pytest.mark.parametrize("tenants", [("a", "ab"), ("a", "A"), ("a", "a "), ("s61", "a")])
    @case
    async def test_tenants_that_look_alike_are_two(
        self, trial: Trial, tenants: tuple[str, str]
    ) -> None:
        first, second = map(Scope, tenants)
        await _fill(trial.store, first)
        before = await digest(trial.store, first)
        await trial.store.append(second, TALK, user_entries("alpha"))
        await trial.store.delete(second, "other")
        assert await digest(trial.store, first) == before
        assert [hit.seq for hit in await trial.store.search(second, ["alpha one two"])] == [1]

    def test_any_activity_of_others_changes_no_answer(self, trial: Trial) -> None:
        quiet = trial.open("quiet")
        trial.clock.step = 0

        @settings_for(self.examples)
        @given(st.lists(st.tuples(st.booleans(), operations(*EVERYTHING)), max_size=16))
        def check(calls: list[tuple[bool, RandomOperation]]) -> None:
            alice, bob = (Scope(trial.fresh(word)) for word in ("alice", "bob"))
            everybody = [(alice if mine else bob, call) for mine, call in calls]
            disturbed = trial.run(_answers(trial.store, everybody))
            alone = trial.run(_answers(quiet, [each for each in everybody if each[0] is alice]))
            mine = [answer for answer, (own, _) in zip(disturbed, calls, strict=True) if own]
            assert comparable(mine) == comparable(alone)
            assert trial.run(digest(trial.store, alice)) == trial.run(digest(quiet, alice))

        check()


async def _answers(store: Store, calls: Sequence[tuple[Scope, RandomOperation]]) -> list[object]:
    """Return the result of each random call; for an error, its type and text."""
    answers = [await outcome(call, store, scope) for scope, call in calls]
    return [
        (type(answer), str(answer)) if isinstance(answer, TurnfoldError) else answer
        for answer in answers
    ]
