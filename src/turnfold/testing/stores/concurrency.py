"""Test cases for concurrency: with threads or tasks nothing is lost, doubled or torn, and each writer's order is kept.

In a race for the same thing exactly one caller wins, and the others get a typed error.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial

import pytest

from turnfold.errors import Conflict, ConversationDeleted
from turnfold.records import Checkpoint
from turnfold.stores import Ability, Appended, Erasure, Store, Written
from turnfold.testing.stores.case_runner import StoreCases, Trial, case
from turnfold.testing.stores.sample_values import (
    ALICE,
    BOB,
    TALK,
    checkpoint,
    document,
    entries_with_ids,
    seqs,
    texts,
    user_entries,
)

__all__ = (
    "ConcurrencyCases",
    "DeletionRaceCases",
    "RaceCases",
    "SharedCases",
)


# ruff: noqa: D102, S101 (cases are named by sentences, and consist of asserts)


WRITERS = 8
BATCHES = 6


async def _write(store: Store, name: str, writer: int) -> None:
    """Append the batches of one concurrent writer, two entries each, one after the other."""
    for number in range(BATCHES):
        word = f"{writer}:{number}"
        await store.append(ALICE, name, entries_with_ids(f"{word}:first", f"{word}:second"))


async def _check_log(store: Store, name: str, writers: range) -> None:
    """Check that seqs have no gaps, each batch is stored once and in its writer's order, and token sums are right."""
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
    """Test cases for writers and readers that run at the same time."""

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
            pytest.skip("a blocking caller waits for every append")
        words = [str(number) for number in range(40)]
        jobs = [partial(trial.store.append, ALICE, TALK, entries_with_ids(word)) for word in words]
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
                await trial.store.append(ALICE, f"{which} {number}", user_entries("x"))
                await trial.store.delete(ALICE, f"{which} {number}")

        writing = [partial(_write, trial.store, TALK, writer) for writer in range(4)]
        erasing = [partial(erase, which) for which in ("gone", "lost")]
        assert await trial.together([*writing, *erasing]) == [None] * 6
        await _check_log(trial.store, TALK, range(4))


class SharedCases(StoreCases):
    """Test cases for two store objects on one store, as in two processes."""

    @case
    async def test_what_one_writes_the_other_sees(self, trial: Trial) -> None:
        trial.need(Ability.SHARED)
        other = trial.open()
        await trial.store.append(ALICE, TALK, entries_with_ids("a"))
        assert texts(await other.read(ALICE, TALK)) == ["a"]
        assert (await other.append(ALICE, TALK, entries_with_ids("a"))).repeated
        assert (await other.append(ALICE, TALK, entries_with_ids("b"), expect=1)).first == 2
        with pytest.raises(Conflict):
            await trial.store.append(ALICE, TALK, user_entries("c"), expect=1)

    @case
    async def test_what_one_erases_the_other_cannot_write(self, trial: Trial) -> None:
        trial.need(Ability.SHARED)
        other = trial.open()
        await trial.store.append(ALICE, TALK, entries_with_ids("a"))
        await other.delete(ALICE, TALK)
        with pytest.raises(ConversationDeleted):
            await trial.store.append(ALICE, TALK, entries_with_ids("a"))

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
        await trial.store.append(ALICE, TALK, user_entries(*"abcdefgh"))
        jobs = [
            partial(
                handles[number % 2].add_checkpoint, ALICE, TALK, checkpoint(f"s{number}", number)
            )
            for number in range(1, 7)
        ]
        done = await trial.together(jobs)
        assert sum(isinstance(each, Checkpoint) for each in done) == 1
        assert sum(type(each) is Conflict for each in done) == 5


RACERS = 8


async def _put_together(trial: Trial, expect: int | None) -> list[Written | Exception]:
    bodies = [document("key", bytes([racer])) for racer in range(RACERS)]
    return await trial.together(
        [partial(trial.store.put_document, ALICE, TALK, given, expect=expect) for given in bodies]
    )


class RaceCases(StoreCases):
    """Test cases for races: writers of one log, summarizers of one range, writers of one document."""

    @case
    async def test_concurrent_retries_store_one_batch(self, trial: Trial) -> None:
        job = partial(trial.store.append, ALICE, TALK, entries_with_ids("a", "b", "c"))
        done = await trial.together([job] * RACERS)
        results = [each for each in done if isinstance(each, Appended)]
        assert {(each.first, each.last) for each in results} == {(1, 3)}
        assert sorted(each.repeated for each in results) == [False] + [True] * (RACERS - 1)
        assert texts(await trial.store.read(ALICE, TALK)) == ["a", "b", "c"]

    @case
    async def test_of_writers_who_expect_the_same_one_wins(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("start"))
        jobs = [
            partial(trial.store.append, ALICE, TALK, entries_with_ids(f"w{racer}"), expect=1)
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
                    await trial.store.append(
                        ALICE, TALK, entries_with_ids(f"w{racer}"), expect=head.seq
                    )
                except Conflict:
                    continue
                return

        done = await trial.together([partial(persist, racer) for racer in range(RACERS)])
        assert done == [None] * RACERS
        words = texts(await trial.store.read(ALICE, TALK))
        assert sorted(words) == [f"w{racer}" for racer in range(RACERS)]

    @case
    async def test_of_racing_checkpoints_one_wins(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries(*"abcdefghij"))
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
    """Test cases for writers and summarizers of a conversation that is being deleted."""

    @case
    async def test_of_racing_deletions_one_is_first(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a", "b"))
        done = await trial.together([partial(trial.store.delete, ALICE, TALK)] * RACERS)
        receipts = [each for each in done if isinstance(each, Erasure)]
        assert len(receipts) == RACERS, done
        assert sorted(each.already for each in receipts) == [False] + [True] * (RACERS - 1)
        assert sum(each.entries for each in receipts) == 2

    @case
    async def test_a_racing_writer_never_brings_it_back(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("start"))
        await trial.store.append(BOB, TALK, user_entries("bystander"))
        jobs: list[Callable[[], Coroutine[object, None, object]]] = [
            partial(trial.store.append, ALICE, TALK, entries_with_ids(f"late {n}", f"later {n}"))
            for n in range(RACERS)
        ]
        jobs.insert(RACERS // 2, partial(trial.store.delete, ALICE, TALK))
        done = await trial.together(jobs)
        [receipt] = [each for each in done if isinstance(each, Erasure)]
        stored = sum(isinstance(each, Appended) for each in done)
        assert sum(type(each) is ConversationDeleted for each in done) == RACERS - stored
        assert receipt.entries == 1 + 2 * stored
        assert await trial.store.read(ALICE, TALK) == []
        assert await trial.store.search(ALICE, ["late"]) == []
        assert texts(await trial.store.read(BOB, TALK)) == ["bystander"]

    @case
    async def test_racing_summaries_and_documents_are_gone_too(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries(*"abcdefgh"))
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
            await trial.store.append(ALICE, TALK, user_entries("x"))

        async def erase(name: str) -> None:
            await trial.store.delete(ALICE, name)

        for number in range(8):
            names = [f"gone {number} {each}" for each in range(3)]
            for name in names:
                await trial.store.append(ALICE, name, user_entries(*["some words"] * 20))
            jobs = [partial(erase, name) for name in names]
            jobs += [partial(write_later, steps) for steps in (0, 1, 2, 4)]
            assert await trial.together(jobs) == [None] * 7
        assert (await trial.store.head(ALICE, TALK)).seq == 32
