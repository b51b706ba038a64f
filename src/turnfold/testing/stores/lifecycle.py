"""Test cases for opening and closing a store: health, closing, cancellation during a call, reopening."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial

import pytest

from turnfold.errors import StoreUnavailable
from turnfold.stores import Ability, Appended, Erasure, Health
from turnfold.testing.stores.case_runner import StoreCases, Trial, case
from turnfold.testing.stores.sample_values import (
    ALICE,
    BOB,
    TALK,
    VERBS,
    checkpoint,
    digest,
    document,
    entries_with_ids,
    exchange,
    seqs,
    texts,
    user_entries,
)

__all__ = (
    "CancellationCases",
    "ClosingCases",
    "ReopenCases",
)


# ruff: noqa: D102, S101 (cases are named by sentences, and consist of asserts)


class ClosingCases(StoreCases):
    """Test cases for the health report of a store, and for closing it."""

    @case
    async def test_an_open_store_is_well_and_says_what_it_is(self, trial: Trial) -> None:
        health = await trial.store.health()
        assert isinstance(health, Health)
        assert health.ok
        assert health.backend
        assert all(isinstance(value, str) for value in health.details.values())

    @case
    async def test_its_abilities_are_known_ones(self, trial: Trial) -> None:
        assert isinstance(trial.store.abilities, frozenset)
        assert all(isinstance(ability, Ability) for ability in trial.store.abilities)

    @case
    async def test_closing_twice_is_allowed(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a"))
        await trial.store.close()
        await trial.store.close()

    @case
    async def test_closing_an_unused_store_is_allowed(self, trial: Trial) -> None:
        await trial.store.close()

    @case
    async def test_a_closed_store_says_that_it_is_not_well(self, trial: Trial) -> None:
        await trial.store.close()
        assert (await trial.store.health()).ok is False

    @pytest.mark.parametrize("verb", VERBS)
    @case
    async def test_a_closed_store_is_unavailable(self, trial: Trial, verb: str) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids("one"))
        await trial.store.close()
        with pytest.raises(StoreUnavailable):
            await VERBS[verb](trial.store, ALICE, TALK)

    @case
    async def test_a_closed_store_lists_and_searches_nothing(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids("one"))
        await trial.store.close()
        with pytest.raises(StoreUnavailable):
            await trial.store.conversations(ALICE)
        with pytest.raises(StoreUnavailable):
            await trial.store.search(ALICE, ["one"])

    @case
    async def test_closing_among_writers_and_readers_strands_nobody(self, trial: Trial) -> None:
        jobs: list[Callable[[], Coroutine[object, None, object]]] = []
        for number in range(8):
            jobs.append(partial(trial.store.append, ALICE, TALK, entries_with_ids(f"{number}")))
            jobs.append(partial(trial.store.read, ALICE, TALK))
            jobs.append(partial(trial.store.delete, ALICE, f"other {number}"))
        jobs.insert(12, trial.store.close)
        done = await trial.together(jobs)
        strange = [
            each
            for each in done
            if not isinstance(each, Appended | list | Erasure | StoreUnavailable | None)
        ]
        assert strange == []
        if Ability.DURABLE in trial.store.abilities:
            stored = seqs(await (await trial.reopen()).read(ALICE, TALK))
            assert {each.first for each in done if isinstance(each, Appended)} <= set(stored)


def _need_a_loop(trial: Trial) -> None:
    if trial.blocking:
        pytest.skip("a blocking call cannot be cancelled")


class CancellationCases(StoreCases):
    """Test cases for a cancelled caller: its batch is stored whole or not at all; other callers are unaffected."""

    @pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8])
    @case
    async def test_a_cancelled_append_is_whole_or_absent(self, trial: Trial, steps: int) -> None:
        _need_a_loop(trial)
        await trial.store.append(ALICE, TALK, user_entries("start"))
        await _cancel_after(trial.store.append(ALICE, TALK, entries_with_ids("a", "b", "c")), steps)
        assert texts(await trial.store.read(ALICE, TALK))[1:] in ([], ["a", "b", "c"])
        again = await trial.store.append(ALICE, TALK, entries_with_ids("a", "b", "c"))
        assert (again.first, again.last) == (2, 4)
        assert texts(await trial.store.read(ALICE, TALK)) == ["start", "a", "b", "c"]

    @pytest.mark.parametrize("steps", [0, 1, 3])
    @case
    async def test_the_cancelled_do_not_disturb_the_others(self, trial: Trial, steps: int) -> None:
        _need_a_loop(trial)
        tasks = [
            asyncio.ensure_future(
                trial.store.append(ALICE, TALK, entries_with_ids(f"{n}a", f"{n}b"))
            )
            for n in range(20)
        ]
        for _ in range(steps):
            await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, Appended) for each in done[1::2])
        words = texts(await trial.store.read(ALICE, TALK))
        assert len(set(words)) == len(words)
        assert [word[:-1] for word in words[::2]] == [word[:-1] for word in words[1::2]]
        stored = [each for each in done if isinstance(each, Appended)]
        assert {each.first for each in stored} <= set(range(1, len(words), 2))

    @pytest.mark.parametrize("steps", [0, 1, 2, 4])
    @case
    async def test_other_cancelled_calls_leave_a_usable_store(
        self, trial: Trial, steps: int
    ) -> None:
        _need_a_loop(trial)
        await trial.store.append(ALICE, TALK, entries_with_ids("one", "two"))
        for verb in sorted(VERBS):
            await _cancel_after(VERBS[verb](trial.store, BOB, "x"), steps)
        assert texts(await trial.store.read(ALICE, TALK)) == ["one", "two"]
        assert (await trial.store.append(ALICE, TALK, user_entries("three"))).first == 3


async def _cancel_after(call: Awaitable[object], steps: int) -> None:
    """Start a call, let the loop run a few steps, and cancel the call."""
    task = asyncio.ensure_future(call)
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _fill(trial: Trial) -> None:
    store = trial.store
    for scope in (ALICE, BOB):
        await store.append(scope, TALK, exchange("one 北京", "two"))
        await store.append(scope, TALK, entries_with_ids("three", "four"))
        await store.append(scope, "other", user_entries("alpha"))
        await store.add_checkpoint(scope, TALK, checkpoint("s1", 1))
        await store.add_checkpoint(scope, TALK, checkpoint("s2", 3, previous="s1"))
        for kind in ("note", "state"):
            await store.put_document(scope, TALK, document("key", b"1", kind=kind))
            await store.put_document(scope, TALK, document("key", b"2", kind=kind))
    await store.drop_document(BOB, TALK, "note", "key")
    await store.append(ALICE, "gone", user_entries("x"))
    await store.delete(ALICE, "gone")


class ReopenCases(StoreCases):
    """Test cases for the data of a durable store that is opened again."""

    @case
    async def test_the_answers_are_the_same(self, trial: Trial) -> None:
        await _fill(trial)
        before = [await digest(trial.store, scope) for scope in (ALICE, BOB)]
        store = await trial.reopen()
        assert [await digest(store, scope) for scope in (ALICE, BOB)] == before
        store = await trial.reopen()
        assert [await digest(store, scope) for scope in (ALICE, BOB)] == before

    @case
    async def test_the_log_goes_on_where_it_stood(self, trial: Trial) -> None:
        await _fill(trial)
        before = await trial.store.head(ALICE, TALK)
        store = await trial.reopen()
        done = await store.append(ALICE, TALK, user_entries("five"), expect=before.seq)
        assert (done.first, done.head.tokens) == (before.seq + 1, before.tokens + 4)
        assert done.head.turns == before.turns + 1
        assert done.head.generation > before.generation

    @case
    async def test_a_second_handle_sees_what_was_acknowledged(self, trial: Trial) -> None:
        trial.need(Ability.DURABLE)
        trial.need(Ability.SHARED)
        await _fill(trial)
        other = trial.open()
        assert await digest(other, ALICE) == await digest(trial.store, ALICE)

    @case
    async def test_two_places_share_nothing(self, trial: Trial) -> None:
        other = trial.open("elsewhere")
        await _fill(trial)
        assert await other.conversations(ALICE) == []
        assert (await other.append(ALICE, "gone", user_entries("x"))).first == 1
