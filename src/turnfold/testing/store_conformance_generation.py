"""Generations: caches are fenced by a number that grows with every change of a conversation and with nothing else."""

# ruff: noqa: D102, S101 (the name of a case is its sentence, and assert is what a case is made of)

from __future__ import annotations

from functools import partial

import pytest

from turnfold.errors import ConversationDeleted, StoreError
from turnfold.testing.store_conformance_trial import StoreCases, Trial, case
from turnfold.testing.store_conformance_values import (
    ALICE,
    BOB,
    TALK,
    VERBS,
    WRITING_VERBS,
    checkpoint,
    document,
    named,
    said,
)

__all__ = ("GenerationCases",)

READING_VERBS = sorted(set(VERBS) - set(WRITING_VERBS) - {"delete"})


async def _prepared(trial: Trial) -> int:
    await trial.store.append(ALICE, TALK, named("one", "two"))
    await trial.store.put_document(ALICE, TALK, document("key"))
    return (await trial.store.head(ALICE, TALK)).generation


class GenerationCases(StoreCases):
    """Caches are fenced by the generation: it grows with every change of any kind, and with nothing else."""

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
            partial(trial.store.append, ALICE, TALK, said("x"), expect=9),
            partial(trial.store.append, ALICE, TALK, named("two", "one")),
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
        await trial.store.append(ALICE, TALK, named("one", "two"))
        await trial.store.drop_document(ALICE, TALK, "note", "absent")
        assert (await trial.store.head(ALICE, TALK)).generation == before

    @case
    async def test_it_does_not_grow_with_changes_elsewhere(self, trial: Trial) -> None:
        before = await _prepared(trial)
        await trial.store.append(ALICE, "other", said("x"))
        await trial.store.append(BOB, TALK, said("x"))
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
            await trial.store.append(ALICE, TALK, said("x"))
        assert seen == sorted(set(seen))
