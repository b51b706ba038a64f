"""Test cases for generations and epochs: every change increments the generation and sets a new random epoch.

Caches compare both: if a store was restored from a backup, two different logs of a conversation may have the same
generation, but not the same epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnfold.errors import ConversationDeleted, StoreError
from turnfold.stores import Appended, Scope, State, Store, Written
from turnfold.testing.stores.case_runner import StoreCases, Trial, case
from turnfold.testing.stores.random_operations import settings_for
from turnfold.testing.stores.sample_values import (
    ALICE,
    BOB,
    TALK,
    VERBS,
    WRITING_VERBS,
    checkpoint,
    document,
    entries_with_ids,
    pieces_of,
    user_entries,
)

__all__ = (
    "EpochCases",
    "GenerationCases",
)


# ruff: noqa: D102, S101 (cases are named by sentences, and consist of asserts)


READING_VERBS = sorted(set(VERBS) - set(WRITING_VERBS) - {"delete"})


async def _prepared(trial: Trial) -> int:
    await trial.store.append(ALICE, TALK, entries_with_ids("one", "two"))
    await trial.store.put_document(ALICE, TALK, document("key"))
    return (await trial.store.head(ALICE, TALK)).generation


class GenerationCases(StoreCases):
    """Test cases for generations: the generation grows with every change, and only then."""

    @pytest.mark.parametrize("verb", [*WRITING_VERBS, "delete"])
    @case
    async def test_it_grows_with_every_change(self, trial: Trial, verb: str) -> None:
        before = await _prepared(trial)
        await VERBS[verb](trial.store, ALICE, TALK)
        assert (await trial.store.head(ALICE, TALK)).generation > before

    @pytest.mark.parametrize("verb", READING_VERBS)
    @case
    async def test_it_does_not_grow_with_reading(self, trial: Trial, verb: str) -> None:
        before = await _prepared(trial)
        await VERBS[verb](trial.store, ALICE, TALK)
        assert (await trial.store.head(ALICE, TALK)).generation == before

    @case
    async def test_it_does_not_grow_with_what_is_refused(self, trial: Trial) -> None:
        before = await _prepared(trial)
        for refused in (
            partial(trial.store.append, ALICE, TALK, user_entries("x"), expect=9),
            partial(trial.store.append, ALICE, TALK, entries_with_ids("two", "one")),
            partial(trial.store.add_checkpoint, ALICE, TALK, checkpoint("s", 9)),
            partial(trial.store.put_document, ALICE, TALK, document("key"), expect=9),
            partial(trial.store.drop_document, ALICE, TALK, "note", "key", expect=9),
        ):
            with pytest.raises(StoreError):
                await refused()
        assert (await trial.store.head(ALICE, TALK)).generation == before

    @case
    async def test_it_does_not_grow_with_what_changes_nothing(self, trial: Trial) -> None:
        before = await _prepared(trial)
        await trial.store.append(ALICE, TALK, entries_with_ids("one", "two"))
        await trial.store.drop_document(ALICE, TALK, "note", "absent")
        assert (await trial.store.head(ALICE, TALK)).generation == before

    @case
    async def test_it_does_not_grow_with_changes_elsewhere(self, trial: Trial) -> None:
        before = await _prepared(trial)
        await trial.store.append(ALICE, "other", user_entries("x"))
        await trial.store.append(BOB, TALK, user_entries("x"))
        await trial.store.delete(BOB, TALK)
        assert (await trial.store.head(ALICE, TALK)).generation == before

    @case
    async def test_it_never_returns_to_an_earlier_value(self, trial: Trial) -> None:
        seen = [await _prepared(trial)]
        for body in (b"1", b"2", b"1"):
            await trial.store.put_document(ALICE, TALK, document("key", body))
            seen.append((await trial.store.head(ALICE, TALK)).generation)
        await trial.store.delete(ALICE, TALK)
        seen.append((await trial.store.head(ALICE, TALK)).generation)
        with pytest.raises(ConversationDeleted):
            await trial.store.append(ALICE, TALK, user_entries("x"))
        assert seen == sorted(set(seen))


RACERS = 8
_Change: TypeAlias = Callable[[Store, Scope, int], Coroutine[object, None, "tuple[State, State]"]]


async def _append(store: Store, scope: Scope, number: int) -> tuple[State, State]:
    done = await store.append(scope, TALK, entries_with_ids(f"id {number}"))
    return done.before, done.head.state


async def _repeat(store: Store, scope: Scope, number: int) -> tuple[State, State]:
    await store.append(scope, TALK, entries_with_ids(f"id {number}"))
    known = (await store.head(scope, TALK)).state
    again = await store.append(scope, TALK, entries_with_ids(f"id {number}"))
    assert (again.repeated, again.before, again.head.state) == (True, known, known)
    return await _looked(store, scope, store.append(scope, TALK, user_entries("more")))


async def _put(store: Store, scope: Scope, number: int) -> tuple[State, State]:
    put = await store.put_document(scope, TALK, document(f"key {number % 3}"))
    return put.before, put.after


async def _note(store: Store, scope: Scope, number: int) -> tuple[State, State]:
    before = (await store.head(scope, TALK)).state
    return before, await store.note(scope, TALK, document(f"note {number}"), state=before)


async def _drop(store: Store, scope: Scope, number: int) -> tuple[State, State]:
    await store.put_document(scope, TALK, document(f"gone {number}"))
    return await _looked(store, scope, store.drop_document(scope, TALK, "note", f"gone {number}"))


async def _summarise(store: Store, scope: Scope, number: int) -> tuple[State, State]:
    seq = (await store.append(scope, TALK, user_entries("more"))).last
    live = (await store.head(scope, TALK)).checkpoint
    given = checkpoint(f"s{number}", seq, previous=live)
    return await _looked(store, scope, store.add_checkpoint(scope, TALK, given))


async def _looked(
    store: Store, scope: Scope, change: Coroutine[object, None, object]
) -> tuple[State, State]:
    """Make a change, and return the conversation's version (generation and epoch) before and after it."""
    before = (await store.head(scope, TALK)).state
    await change
    return before, (await store.head(scope, TALK)).state


CHANGES: dict[str, _Change] = {
    "append": _append,
    "repeat": _repeat,
    "put_document": _put,
    "note": _note,
    "drop_document": _drop,
    "add_checkpoint": _summarise,
}


class EpochCases(StoreCases):
    """Test cases for versions (a generation and its epoch): every write returns a new one, which no other log has."""

    @case
    async def test_nothing_has_been_drawn_before_the_first_change(self, trial: Trial) -> None:
        assert (await trial.store.head(ALICE, TALK)).state == (0, 0)

    @pytest.mark.parametrize("verb", [*WRITING_VERBS, "delete"])
    @case
    async def test_every_change_draws_an_epoch(self, trial: Trial, verb: str) -> None:
        await _prepared(trial)
        before = await trial.store.head(ALICE, TALK)
        await VERBS[verb](trial.store, ALICE, TALK)
        after = await trial.store.head(ALICE, TALK)
        assert after.epoch not in (0, before.epoch)
        assert 0 < after.epoch < 1 << 63

    @case
    async def test_a_restored_conversation_has_one_of_its_own(self, trial: Trial) -> None:
        await _prepared(trial)
        await trial.store.restore(BOB, await pieces_of(trial.store, ALICE))
        mine, restored = [await trial.store.head(scope, TALK) for scope in (ALICE, BOB)]
        assert restored.epoch not in (0, mine.epoch)

    @pytest.mark.parametrize("verb", READING_VERBS)
    @case
    async def test_reading_draws_none(self, trial: Trial, verb: str) -> None:
        await _prepared(trial)
        before = await trial.store.head(ALICE, TALK)
        await VERBS[verb](trial.store, ALICE, TALK)
        assert await trial.store.head(ALICE, TALK) == before

    @pytest.mark.parametrize("verb", WRITING_VERBS)
    @case
    async def test_the_same_calls_elsewhere_draw_others(self, trial: Trial, verb: str) -> None:
        trial.clock.step = 0
        histories = (trial.store, trial.open("other history"))
        for store in histories:
            await store.append(ALICE, TALK, entries_with_ids("one", "two"))
            await store.put_document(ALICE, TALK, document("key"))
            await VERBS[verb](store, ALICE, TALK)
        one, two = [await store.head(ALICE, TALK) for store in histories]
        assert one.generation == two.generation
        assert one.epoch != two.epoch

    @case
    async def test_a_listing_tells_the_same_state(self, trial: Trial) -> None:
        for number, change in enumerate(CHANGES.values()):
            await change(trial.store, ALICE, number)
            [info] = await trial.store.conversations(ALICE)
            assert info.head == await trial.store.head(ALICE, TALK)

    @case
    async def test_states_survive_reopening(self, trial: Trial) -> None:
        for number, change in enumerate(CHANGES.values()):
            _, after = await change(trial.store, ALICE, number)
            store = await trial.reopen()
            assert (await store.head(ALICE, TALK)).state == after

    def test_every_write_follows_the_one_before(self, trial: Trial) -> None:
        @settings_for(self.examples)
        @given(st.lists(st.sampled_from(sorted(CHANGES)), min_size=1, max_size=12))
        def check(verbs: list[str]) -> None:
            scope = Scope(trial.fresh("tenant"))
            trial.run(self._chain(trial.store, scope, verbs))

        check()

    async def _chain(self, store: Store, scope: Scope, verbs: list[str]) -> None:
        known, epochs = (await store.head(scope, TALK)).state, set[int]()
        assert known == (0, 0)
        for number, verb in enumerate(verbs):
            if verb in ("append", "put_document", "note"):
                before, after = await CHANGES[verb](store, scope, number)
                assert before == known
                assert after[0] == before[0] + 1
            else:
                before, after = await CHANGES[verb](store, scope, number)
                assert after[0] == before[0] + 1 > known[0]
            known = after
            assert (await store.head(scope, TALK)).state == known
            assert known[1] not in epochs
            epochs.add(known[1])

    @case
    async def test_racing_writers_follow_one_another(self, trial: Trial) -> None:
        jobs: list[Callable[[], Coroutine[object, None, object]]] = []
        for racer in range(RACERS):
            jobs.append(partial(trial.store.append, ALICE, TALK, user_entries(f"text {racer}")))
            jobs.append(partial(trial.store.put_document, ALICE, TALK, document(f"key {racer}")))
        answers = await trial.together(jobs)
        links = [(each.before, each.head.state) for each in answers if isinstance(each, Appended)]
        links += [(each.before, each.after) for each in answers if isinstance(each, Written)]
        links.sort(key=lambda link: link[1])
        assert [after[0] for _, after in links] == list(range(1, 2 * RACERS + 1))
        assert [before for before, _ in links] == [(0, 0), *(after for _, after in links[:-1])]
        assert (await trial.store.head(ALICE, TALK)).state == links[-1][1]
