"""Notes: new documents by someone who has seen the newest change, and is told if there is a newer one."""

# ruff: noqa: D102, S101 (the name of a case is its sentence, and assert is what a case is made of)

from __future__ import annotations

from functools import partial

import pytest

from turnfold.errors import Conflict, ConversationDeleted
from turnfold.stores import State
from turnfold.testing.store_conformance_trial import StoreCases, Trial, case
from turnfold.testing.store_conformance_values import (
    ALICE,
    BOB,
    TALK,
    WRITING_VERBS,
    checkpoint,
    document,
    note_now,
    said,
    texts,
)

__all__ = ("NoteCases",)

RACERS = 8


async def _state(trial: Trial) -> State:
    return (await trial.store.head(ALICE, TALK)).state


class NoteCases(StoreCases):
    """What a note is, and when there is none."""

    @case
    async def test_a_note_is_a_document(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said("a"))
        trial.clock.now, trial.clock.step = 9_000_000, 0
        given = document("key", b"body")
        await trial.store.note(ALICE, TALK, given, state=await _state(trial))
        found = await trial.store.get_document(ALICE, TALK, "note", "key")
        assert found is not None
        assert (found.body, found.version, found.created) == (b"body", 1, 9_000_000)
        assert await trial.store.documents(ALICE, TALK, "note") == [found]
        stored = await trial.store.put_document(ALICE, TALK, document("key", b"new"), expect=1)
        assert stored.document.version == 2

    @case
    async def test_it_raises_the_generation_by_one_and_moves_nothing_else(
        self, trial: Trial
    ) -> None:
        await trial.store.append(ALICE, TALK, said("a", "b"))
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s", 1))
        for number in range(3):
            before = await trial.store.head(ALICE, TALK)
            given = document(f"key {number}")
            state = await trial.store.note(ALICE, TALK, given, state=before.state)
            after = await trial.store.head(ALICE, TALK)
            assert after.state == state
            assert after.generation == before.generation + 1
            assert (after.seq, after.tokens, after.turns) == (
                before.seq,
                before.tokens,
                before.turns,
            )
            assert (after.checkpoint, after.counter) == (before.checkpoint, before.counter)

    @pytest.mark.parametrize("verb", sorted(WRITING_VERBS))
    @case
    async def test_after_any_change_by_another_it_is_a_conflict(
        self, trial: Trial, verb: str
    ) -> None:
        await trial.store.append(ALICE, TALK, said("a"))
        await trial.store.put_document(ALICE, TALK, document("key"))
        seen = await _state(trial)
        await WRITING_VERBS[verb](trial.store, ALICE, TALK)
        before = await trial.store.head(ALICE, TALK)
        with pytest.raises(Conflict, match="generation"):
            await trial.store.note(ALICE, TALK, document("mine"), state=seen)
        assert await trial.store.get_document(ALICE, TALK, "note", "mine") is None
        assert await trial.store.head(ALICE, TALK) == before

    @case
    async def test_a_generation_that_is_yet_to_come_is_a_conflict(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said("a"))
        generation, epoch = await _state(trial)
        with pytest.raises(Conflict, match="generation"):
            await trial.store.note(ALICE, TALK, document("key"), state=(generation + 1, epoch))

    @case
    async def test_the_same_generation_of_another_history_is_a_conflict(self, trial: Trial) -> None:
        done = await trial.store.append(ALICE, TALK, said("a"))
        await note_now(trial.store, ALICE, TALK, document("first"))
        before = await trial.store.head(ALICE, TALK)
        for epoch in (before.epoch ^ 1, 0, done.head.epoch):
            with pytest.raises(Conflict, match="restored"):
                await trial.store.note(
                    ALICE, TALK, document("key"), state=(before.generation, epoch)
                )
        assert await trial.store.head(ALICE, TALK) == before
        assert await trial.store.get_document(ALICE, TALK, "note", "key") is None

    @case
    async def test_one_that_is_there_is_not_written_over(self, trial: Trial) -> None:
        await trial.store.put_document(ALICE, TALK, document("key", b"old"))
        before = await trial.store.head(ALICE, TALK)
        with pytest.raises(Conflict):
            await trial.store.note(ALICE, TALK, document("key", b"new"), state=before.state)
        found = await trial.store.get_document(ALICE, TALK, "note", "key")
        assert found is not None
        assert found.body == b"old"
        assert await trial.store.head(ALICE, TALK) == before

    @case
    async def test_versions_go_on_after_a_drop(self, trial: Trial) -> None:
        for _ in range(2):
            await trial.store.put_document(ALICE, TALK, document("key"))
        await trial.store.drop_document(ALICE, TALK, "note", "key")
        await trial.store.note(ALICE, TALK, document("key", b"new"), state=await _state(trial))
        found = await trial.store.get_document(ALICE, TALK, "note", "key")
        assert found is not None
        assert found.version == 3

    @case
    async def test_the_first_of_a_conversation_makes_it(self, trial: Trial) -> None:
        await trial.store.note(ALICE, TALK, document("key"), state=(0, 0))
        assert [info.conversation for info in await trial.store.conversations(ALICE)] == [TALK]
        assert await trial.store.get_document(BOB, TALK, "note", "key") is None

    @case
    async def test_an_erased_conversation_takes_none(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said("a"))
        await trial.store.delete(ALICE, TALK)
        with pytest.raises(ConversationDeleted):
            await trial.store.note(ALICE, TALK, document("key"), state=await _state(trial))

    @case
    async def test_appends_and_notes_follow_one_another(self, trial: Trial) -> None:
        for number in range(6):
            done = await trial.store.append(ALICE, TALK, said(f"text {number}"))
            given = document(f"key {number}")
            await trial.store.note(ALICE, TALK, given, state=done.head.state)
            assert (await trial.store.head(ALICE, TALK)).generation == done.head.generation + 1
        assert texts(await trial.store.read(ALICE, TALK)) == [f"text {n}" for n in range(6)]
        assert len(await trial.store.documents(ALICE, TALK, "note")) == 6

    @case
    async def test_of_many_who_saw_the_same_one_writes(self, trial: Trial) -> None:
        done = await trial.store.append(ALICE, TALK, said("a"))
        seen = done.head.state
        jobs = [
            partial(trial.store.note, ALICE, TALK, document(f"key {racer}"), state=seen)
            for racer in range(RACERS)
        ]
        answers = await trial.together(jobs)
        [state] = [answer for answer in answers if isinstance(answer, tuple)]
        assert sum(type(answer) is Conflict for answer in answers) == RACERS - 1
        assert len(await trial.store.documents(ALICE, TALK, "note")) == 1
        assert await _state(trial) == state
        assert state[0] == seen[0] + 1
