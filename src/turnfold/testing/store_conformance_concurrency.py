"""Many at once, as threads or as tasks: nothing is lost, doubled or torn, and each writer's order is kept."""

# ruff: noqa: D102, S101 (the name of a case is its sentence, and assert is what a case is made of)

from __future__ import annotations

from functools import partial

import pytest

from turnfold.errors import Conflict, ConversationDeleted
from turnfold.records import Checkpoint
from turnfold.stores import Ability, Store
from turnfold.testing.store_conformance_trial import StoreCases, Trial, case
from turnfold.testing.store_conformance_values import (
    ALICE,
    TALK,
    checkpoint,
    named,
    said,
    seqs,
    texts,
)

__all__ = ("ConcurrencyCases", "SharedCases")

WRITERS = 8
BATCHES = 6


async def _write(store: Store, name: str, writer: int) -> None:
    """One writer's batches of two, one after the other."""
    for number in range(BATCHES):
        word = f"{writer}:{number}"
        await store.append(ALICE, name, named(f"{word}:first", f"{word}:second"))


async def _check_log(store: Store, name: str, writers: range) -> None:
    """Dense, every batch once and unbroken, each writer's batches in order, and sums that add up."""
    log = await store.read(ALICE, name)
    words = texts(log)
    assert seqs(log) == list(range(1, 2 * BATCHES * len(writers) + 1))
    batches = [word.removesuffix(":first") for word in words[::2]]
    assert [f"{batch}:second" for batch in batches] == words[1::2]
    for writer in writers:
        own = [batch for batch in batches if batch.startswith(f"{writer}:")]
        assert own == [f"{writer}:{number}" for number in range(BATCHES)]
    head = await store.head(ALICE, name)
    assert head.tokens == log[-1].running == sum(entry.tokens for entry in log)
    assert head.turns == log[-1].turn == len(log)


class ConcurrencyCases(StoreCases):
    """Writers and readers who do not wait for one another."""

    @case
    async def test_many_writers_of_one_conversation(self, trial: Trial) -> None:
        jobs = [partial(_write, trial.store, TALK, writer) for writer in range(WRITERS)]
        assert await trial.together(jobs) == [None] * WRITERS
        await _check_log(trial.store, TALK, range(WRITERS))

    @case
    async def test_many_writers_of_many_conversations(self, trial: Trial) -> None:
        jobs = [
            partial(_write, trial.store, f"talk {writer % 4}", writer) for writer in range(WRITERS)
        ]
        assert await trial.together(jobs) == [None] * WRITERS
        for number in range(4):
            await _check_log(trial.store, f"talk {number}", range(number, WRITERS, 4))

    @case
    async def test_appends_that_nobody_waits_for_are_stored_as_asked(self, trial: Trial) -> None:
        trial.need(Ability.IN_ORDER)
        if trial.blocking:
            pytest.skip("who blocks waits for every append")
        words = [str(number) for number in range(40)]
        jobs = [partial(trial.store.append, ALICE, TALK, named(word)) for word in words]
        await trial.together(jobs)
        assert texts(await trial.store.read(ALICE, TALK)) == words

    @case
    async def test_readers_see_whole_batches_only(self, trial: Trial) -> None:
        views: list[list[str]] = []

        async def look() -> None:
            for _ in range(12):
                log = await trial.store.read(ALICE, TALK)
                tail = await trial.store.tail(ALICE, TALK, tokens=10**6)
                head = await trial.store.head(ALICE, TALK)
                assert len(log) <= len(tail) <= head.seq
                assert len(log) % 2 == len(tail) % 2 == head.seq % 2 == 0
                views.extend((texts(log), texts(tail)))

        writing = [partial(_write, trial.store, TALK, writer) for writer in range(3)]
        assert await trial.together([*writing, look, look]) == [None] * 5
        final = texts(await trial.store.read(ALICE, TALK))
        assert len(views) == 48
        assert all(view == final[: len(view)] for view in views)
        await _check_log(trial.store, TALK, range(3))

    @case
    async def test_searching_and_listing_while_others_write(self, trial: Trial) -> None:
        async def look() -> None:
            for _ in range(8):
                hits = await trial.store.search(ALICE, ["first second"], limit=1000)
                infos = await trial.store.conversations(ALICE)
                total = sum(info.head.seq for info in infos)
                assert len({(hit.conversation, hit.seq) for hit in hits}) == len(hits) <= total

        writing = [partial(_write, trial.store, f"talk {writer}", writer) for writer in range(4)]
        assert await trial.together([*writing, look, look]) == [None] * 6

    @case
    async def test_erasing_some_while_others_write(self, trial: Trial) -> None:
        async def erase(which: str) -> None:
            for number in range(6):
                await trial.store.append(ALICE, f"{which} {number}", said("x"))
                await trial.store.delete(ALICE, f"{which} {number}")

        writing = [partial(_write, trial.store, TALK, writer) for writer in range(4)]
        erasing = [partial(erase, which) for which in ("gone", "lost")]
        assert await trial.together([*writing, *erasing]) == [None] * 6
        await _check_log(trial.store, TALK, range(4))


class SharedCases(StoreCases):
    """Two handles on one place, as two processes have them."""

    @case
    async def test_what_one_writes_the_other_sees(self, trial: Trial) -> None:
        trial.need(Ability.SHARED)
        other = trial.open()
        await trial.store.append(ALICE, TALK, named("a"))
        assert texts(await other.read(ALICE, TALK)) == ["a"]
        assert (await other.append(ALICE, TALK, named("a"))).repeated
        assert (await other.append(ALICE, TALK, named("b"), expect=1)).first == 2
        with pytest.raises(Conflict):
            await trial.store.append(ALICE, TALK, said("c"), expect=1)

    @case
    async def test_what_one_erases_the_other_cannot_write(self, trial: Trial) -> None:
        trial.need(Ability.SHARED)
        other = trial.open()
        await trial.store.append(ALICE, TALK, named("a"))
        await other.delete(ALICE, TALK)
        with pytest.raises(ConversationDeleted):
            await trial.store.append(ALICE, TALK, named("a"))

    @case
    async def test_many_writers_on_two_handles(self, trial: Trial) -> None:
        trial.need(Ability.SHARED)
        handles = (trial.store, trial.open())
        jobs = [partial(_write, handles[writer % 2], TALK, writer) for writer in range(4)]
        assert await trial.together(jobs) == [None] * 4
        await _check_log(trial.store, TALK, range(4))

    @case
    async def test_of_checkpoints_on_two_handles_one_wins(self, trial: Trial) -> None:
        trial.need(Ability.SHARED)
        handles = (trial.store, trial.open())
        await trial.store.append(ALICE, TALK, said(*"abcdefgh"))
        jobs = [
            partial(
                handles[number % 2].add_checkpoint, ALICE, TALK, checkpoint(f"s{number}", number)
            )
            for number in range(1, 7)
        ]
        done = await trial.together(jobs)
        assert sum(isinstance(each, Checkpoint) for each in done) == 1
        assert sum(type(each) is Conflict for each in done) == 5
