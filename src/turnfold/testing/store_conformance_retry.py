"""Retrying: a client id names its entry for as long as the entry exists, so a lost answer can be asked for again."""

# ruff: noqa: D102, S101 (the name of a case is its sentence, and assert is what a case is made of)

from __future__ import annotations

import pytest

from turnfold.errors import IdReused
from turnfold.records import Message, NewEntry, assistant, user
from turnfold.testing.store_conformance_trial import StoreCases, Trial, case
from turnfold.testing.store_conformance_values import (
    ALICE,
    BOB,
    TALK,
    checkpoint,
    named,
    said,
    texts,
)

__all__ = ("RetryCases", "ReusedIdCases")


class RetryCases(StoreCases):
    """The same ids with the same bodies: the first result, and nothing written."""

    @case
    async def test_a_retry_returns_the_first_result(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said("before"))
        first = await trial.store.append(ALICE, TALK, named("a", "b"))
        again = await trial.store.append(ALICE, TALK, named("a", "b"))
        assert (again.first, again.last) == (first.first, first.last) == (2, 3)
        assert (first.repeated, again.repeated) == (False, True)
        assert texts(await trial.store.read(ALICE, TALK)) == ["before", "a", "b"]

    @case
    async def test_a_retry_changes_nothing_at_all(self, trial: Trial) -> None:
        first = await trial.store.append(ALICE, TALK, named("a", "b"))
        before = await trial.store.conversations(ALICE)
        again = await trial.store.append(ALICE, TALK, named("a", "b"))
        assert again.head == first.head == await trial.store.head(ALICE, TALK)
        assert await trial.store.conversations(ALICE) == before

    @case
    async def test_a_retry_after_more_appends_returns_the_first_result(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, named("a", "b"))
        await trial.store.append(ALICE, TALK, named("c"))
        newest = await trial.store.append(ALICE, TALK, said("d"))
        again = await trial.store.append(ALICE, TALK, named("a", "b"))
        assert (again.first, again.last, again.repeated) == (1, 2, True)
        assert again.head == newest.head

    @case
    async def test_ten_retries_store_one_batch(self, trial: Trial) -> None:
        done = [await trial.store.append(ALICE, TALK, named("a", "b")) for _ in range(10)]
        assert {(each.first, each.last) for each in done} == {(1, 2)}
        assert [each.repeated for each in done] == [False] + [True] * 9
        assert texts(await trial.store.read(ALICE, TALK)) == ["a", "b"]

    @case
    async def test_a_retry_after_reopening_returns_the_first_result(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, named("a", "b"))
        await trial.store.append(ALICE, TALK, said("c"))
        store = await trial.reopen()
        again = await store.append(ALICE, TALK, named("a", "b"))
        assert (again.first, again.last, again.repeated) == (1, 2, True)
        assert texts(await store.read(ALICE, TALK)) == ["a", "b", "c"]

    @pytest.mark.parametrize("expect", [0, 1, 2, 3, 99])
    @case
    async def test_a_retry_is_answered_whatever_it_expects(self, trial: Trial, expect: int) -> None:
        # Its own entries are what made the expectation stale.
        await trial.store.append(ALICE, TALK, named("a", "b"), expect=0)
        await trial.store.append(ALICE, TALK, said("c"))
        again = await trial.store.append(ALICE, TALK, named("a", "b"), expect=expect)
        assert (again.first, again.last, again.repeated) == (1, 2, True)

    @case
    async def test_a_retry_after_a_checkpoint_returns_the_first_result(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, named("a", "b"))
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s", 2))
        again = await trial.store.append(ALICE, TALK, named("a", "b"))
        assert (again.first, again.last, again.repeated) == (1, 2, True)
        assert again.head.checkpoint == "s"

    @pytest.mark.parametrize(
        ("words", "first", "last"), [("a", 1, 1), ("bc", 2, 3), ("d", 4, 4), ("abcd", 1, 4)]
    )
    @case
    async def test_a_stretch_of_a_batch_is_known_too(
        self, trial: Trial, words: str, first: int, last: int
    ) -> None:
        await trial.store.append(ALICE, TALK, named(*"abcd"))
        again = await trial.store.append(ALICE, TALK, named(*words))
        assert (again.first, again.last, again.repeated) == (first, last, True)

    @case
    async def test_ids_of_one_conversation_mean_nothing_in_another(self, trial: Trial) -> None:
        await trial.store.append(ALICE, "one", named("a", "b"))
        done = await trial.store.append(ALICE, "two", [NewEntry(user("other"), "a")])
        assert (done.first, done.repeated) == (1, False)
        assert texts(await trial.store.read(ALICE, "two")) == ["other"]

    @case
    async def test_ids_of_one_tenant_mean_nothing_to_another(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, named("a", "b"))
        done = await trial.store.append(BOB, TALK, [NewEntry(user("other"), "a")])
        assert (done.first, done.repeated) == (1, False)
        assert texts(await trial.store.read(ALICE, TALK)) == ["a", "b"]

    @case
    async def test_an_entry_without_id_is_never_taken_for_a_retry(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, named("a"))
        done = await trial.store.append(ALICE, TALK, said("a"))
        assert (done.first, done.repeated) == (2, False)


async def _refused(trial: Trial, batch: list[NewEntry]) -> None:
    """The batch is refused, and neither the log nor the head shows that it was tried."""
    head = await trial.store.head(ALICE, TALK)
    log = await trial.store.read(ALICE, TALK)
    with pytest.raises(IdReused):
        await trial.store.append(ALICE, TALK, batch)
    assert await trial.store.head(ALICE, TALK) == head
    assert await trial.store.read(ALICE, TALK) == log


class ReusedIdCases(StoreCases):
    """A known id with anything else than its own entry: a typed refusal, and nothing written."""

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
        await trial.store.append(ALICE, TALK, named("a"))
        await _refused(trial, [NewEntry(message, "a")])

    @pytest.mark.parametrize("words", ["ax", "xa", "abx", "axb", "xab"])
    @case
    async def test_a_batch_known_in_part_is_refused(self, trial: Trial, words: str) -> None:
        await trial.store.append(ALICE, TALK, named(*"ab"))
        await _refused(trial, named(*words))
        assert await trial.store.find(ALICE, TALK, ["x"]) == []

    @pytest.mark.parametrize("words", ["ba", "cab", "ac", "cb"])
    @case
    async def test_known_ids_in_another_order_are_refused(self, trial: Trial, words: str) -> None:
        await trial.store.append(ALICE, TALK, named(*"abc"))
        await _refused(trial, named(*words))

    @case
    async def test_an_expectation_does_not_excuse_another_body(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, named("a"))
        with pytest.raises(IdReused):
            await trial.store.append(ALICE, TALK, [NewEntry(user("other"), "a")], expect=1)

    @case
    async def test_another_body_is_refused_after_reopening(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, named("a"))
        await trial.reopen()
        await _refused(trial, [NewEntry(user("other"), "a")])

    @case
    async def test_a_refused_batch_reserves_no_id(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, named("a"))
        await _refused(trial, named("new", "a"))
        done = await trial.store.append(ALICE, TALK, [NewEntry(user("something else"), "new")])
        assert (done.first, done.repeated) == (2, False)

    @pytest.mark.parametrize("other", ["A", "a ", "a\u0301", "\uff41"])
    @case
    async def test_ids_that_only_look_alike_are_different(self, trial: Trial, other: str) -> None:
        await trial.store.append(ALICE, TALK, named("a"))
        done = await trial.store.append(ALICE, TALK, named(other))
        assert (done.first, done.repeated) == (2, False)
        assert texts(await trial.store.find(ALICE, TALK, ["a"])) == ["a"]
