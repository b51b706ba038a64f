"""Races: of several who want the same exactly one wins, and the others are told so in a way they can act on."""

# ruff: noqa: D102, S101 (the name of a case is its sentence, and assert is what a case is made of)

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial

from turnfold.errors import Conflict, ConversationDeleted
from turnfold.records import Checkpoint
from turnfold.stores import Appended, Erasure, Written
from turnfold.testing.store_conformance_trial import StoreCases, Trial, case
from turnfold.testing.store_conformance_values import (
    ALICE,
    BOB,
    TALK,
    checkpoint,
    document,
    named,
    said,
    texts,
)

__all__ = ("DeletionRaceCases", "RaceCases")

RACERS = 8


async def _put_together(trial: Trial, expect: int | None) -> list[Written | Exception]:
    bodies = [document("key", bytes([racer])) for racer in range(RACERS)]
    return await trial.together(
        [partial(trial.store.put_document, ALICE, TALK, given, expect=expect) for given in bodies]
    )


class RaceCases(StoreCases):
    """Writers of one log, summarisers of one range, owners of one document."""

    @case
    async def test_concurrent_retries_store_one_batch(self, trial: Trial) -> None:
        job = partial(trial.store.append, ALICE, TALK, named("a", "b", "c"))
        done = await trial.together([job] * RACERS)
        results = [each for each in done if isinstance(each, Appended)]
        assert {(each.first, each.last) for each in results} == {(1, 3)}
        assert sorted(each.repeated for each in results) == [False] + [True] * (RACERS - 1)
        assert texts(await trial.store.read(ALICE, TALK)) == ["a", "b", "c"]

    @case
    async def test_of_writers_who_expect_the_same_one_wins(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said("start"))
        jobs = [
            partial(trial.store.append, ALICE, TALK, named(f"w{racer}"), expect=1)
            for racer in range(RACERS)
        ]
        done = await trial.together(jobs)
        [winner] = [racer for racer, each in enumerate(done) if isinstance(each, Appended)]
        assert sum(type(each) is Conflict for each in done) == RACERS - 1
        assert texts(await trial.store.read(ALICE, TALK)) == ["start", f"w{winner}"]

    @case
    async def test_writers_who_read_again_all_get_their_turn(self, trial: Trial) -> None:
        async def persist(racer: int) -> None:
            while True:
                head = await trial.store.head(ALICE, TALK)
                try:
                    await trial.store.append(ALICE, TALK, named(f"w{racer}"), expect=head.seq)
                except Conflict:
                    continue
                return

        done = await trial.together([partial(persist, racer) for racer in range(RACERS)])
        assert done == [None] * RACERS
        words = texts(await trial.store.read(ALICE, TALK))
        assert sorted(words) == [f"w{racer}" for racer in range(RACERS)]

    @case
    async def test_of_racing_checkpoints_one_wins(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said(*"abcdefghij"))
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("start", 1))
        candidates = [checkpoint(f"s{n}", 2 + n, previous="start") for n in range(RACERS)]
        done = await trial.together(
            [partial(trial.store.add_checkpoint, ALICE, TALK, given) for given in candidates]
        )
        [winner] = [each for each in done if isinstance(each, Checkpoint)]
        assert sum(type(each) is Conflict for each in done) == RACERS - 1
        listed = await trial.store.checkpoints(ALICE, TALK)
        assert [each.id for each in listed] == ["start", winner.id]
        assert (await trial.store.head(ALICE, TALK)).checkpoint == winner.id

    @case
    async def test_of_racing_documents_one_wins_each_version(self, trial: Trial) -> None:
        for version in range(3):
            done = await _put_together(trial, version)
            [winner] = [each.document for each in done if isinstance(each, Written)]
            assert sum(type(each) is Conflict for each in done) == RACERS - 1
            assert winner.version == version + 1
            assert await trial.store.get_document(ALICE, TALK, "note", "key") == winner

    @case
    async def test_documents_written_anyway_are_numbered_densely(self, trial: Trial) -> None:
        done = await _put_together(trial, None)
        written = [each.document for each in done if isinstance(each, Written)]
        versions = {each.version: each for each in written}
        assert sorted(versions) == list(range(1, RACERS + 1))
        assert await trial.store.get_document(ALICE, TALK, "note", "key") == versions[RACERS]

    @case
    async def test_of_racing_drops_one_finds_it(self, trial: Trial) -> None:
        await trial.store.put_document(ALICE, TALK, document("key"))
        job = partial(trial.store.drop_document, ALICE, TALK, "note", "key")
        done = await trial.together([job] * RACERS)
        assert sorted(map(str, done)) == ["False"] * (RACERS - 1) + ["True"]


class DeletionRaceCases(StoreCases):
    """Writers and summarisers who come while a conversation is erased."""

    @case
    async def test_of_racing_deletions_one_is_first(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said("a", "b"))
        done = await trial.together([partial(trial.store.delete, ALICE, TALK)] * RACERS)
        receipts = [each for each in done if isinstance(each, Erasure)]
        assert sorted(each.already for each in receipts) == [False] + [True] * (RACERS - 1)
        assert sum(each.entries for each in receipts) == 2

    @case
    async def test_a_racing_writer_never_brings_it_back(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said("start"))
        await trial.store.append(BOB, TALK, said("bystander"))
        jobs: list[Callable[[], Coroutine[object, None, object]]] = [
            partial(trial.store.append, ALICE, TALK, named(f"late {n}", f"later {n}"))
            for n in range(RACERS)
        ]
        jobs.insert(RACERS // 2, partial(trial.store.delete, ALICE, TALK))
        done = await trial.together(jobs)
        [receipt] = [each for each in done if isinstance(each, Erasure)]
        kept = sum(isinstance(each, Appended) for each in done)
        assert sum(type(each) is ConversationDeleted for each in done) == RACERS - kept
        assert receipt.entries == 1 + 2 * kept
        assert await trial.store.read(ALICE, TALK) == []
        assert await trial.store.search(ALICE, ["late"]) == []
        assert texts(await trial.store.read(BOB, TALK)) == ["bystander"]

    @case
    async def test_racing_summaries_and_documents_are_gone_too(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said(*"abcdefgh"))
        jobs: list[Callable[[], Coroutine[object, None, object]]] = []
        for number in range(4):
            given = document(f"key {number}")
            jobs.append(partial(trial.store.put_document, ALICE, TALK, given))
            summary = checkpoint(f"s{number}", 1 + number)
            jobs.append(partial(trial.store.add_checkpoint, ALICE, TALK, summary))
        jobs.insert(3, partial(trial.store.delete, ALICE, TALK))
        done = await trial.together(jobs)
        [receipt] = [each for each in done if isinstance(each, Erasure)]
        assert receipt.documents == sum(isinstance(each, Written) for each in done)
        assert receipt.checkpoints == sum(isinstance(each, Checkpoint) for each in done)
        assert await trial.store.documents(ALICE, TALK, "note") == []
        assert await trial.store.checkpoints(ALICE, TALK) == []

    @case
    async def test_an_erasure_strands_nobody_who_comes_meanwhile(self, trial: Trial) -> None:
        async def write_later(steps: int) -> None:
            for _ in range(steps):
                await trial.store.read(ALICE, TALK)
            await trial.store.append(ALICE, TALK, said("x"))

        async def erase(name: str) -> None:
            await trial.store.delete(ALICE, name)

        for number in range(8):
            names = [f"gone {number} {each}" for each in range(3)]
            for name in names:
                await trial.store.append(ALICE, name, said(*["some words"] * 20))
            jobs = [partial(erase, name) for name in names]
            jobs += [partial(write_later, steps) for steps in (0, 1, 2, 4)]
            assert await trial.together(jobs) == [None] * 7
        assert (await trial.store.head(ALICE, TALK)).seq == 32
