"""Test cases for checkpoints (stored summaries): one is live, only its successor replaces it, the log stays."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from turnfold.errors import Conflict, ConversationDeleted, InvalidOption, InvalidRecord, NotFound
from turnfold.records import Checkpoint
from turnfold.search import Within
from turnfold.testing.stores.case_runner import StoreCases, Trial, case
from turnfold.testing.stores.sample_values import (
    ALICE,
    BAD_NAMES,
    BOB,
    HOSTILE_TEXTS,
    TALK,
    checkpoint,
    digest,
    document,
    texts,
    user_entries,
)

__all__ = (
    "CheckpointCases",
    "DroppedCheckpointCases",
    "SuccessionCases",
)


# ruff: noqa: D102, S101 (cases are named by sentences, and consist of asserts)


class CheckpointCases(StoreCases):
    """Test cases for a stored checkpoint (summary): it is returned exactly, survives, and bad ones are refused."""

    @case
    async def test_there_is_none_at_first(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a"))
        assert await trial.store.checkpoints(ALICE, TALK) == []
        assert (await trial.store.head(ALICE, TALK)).checkpoint == ""
        assert await trial.store.live_checkpoint(ALICE, TALK) is None

    @case
    async def test_an_unknown_conversation_has_none(self, trial: Trial) -> None:
        assert await trial.store.checkpoints(ALICE, TALK) == []

    @case
    async def test_the_first_becomes_live(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a", "b"))
        stored = await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s1", 1))
        assert await trial.store.checkpoints(ALICE, TALK) == [stored]
        assert (await trial.store.head(ALICE, TALK)).checkpoint == "s1"
        assert await trial.store.live_checkpoint(ALICE, TALK) == stored

    @case
    async def test_the_newest_is_live(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a", "b", "c"))
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s1", 1))
        newest = await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s2", 2, previous="s1"))
        assert await trial.store.live_checkpoint(ALICE, TALK) == newest
        await trial.store.delete(ALICE, TALK)
        assert await trial.store.live_checkpoint(ALICE, TALK) is None

    @case
    async def test_an_unknown_conversation_has_no_live_one(self, trial: Trial) -> None:
        assert await trial.store.live_checkpoint(ALICE, TALK) is None

    @case
    async def test_every_field_is_kept_and_the_store_stamps_the_time(self, trial: Trial) -> None:
        trial.clock.now, trial.clock.step = 9_000_000, 0
        await trial.store.append(ALICE, TALK, user_entries("a", "b"))
        given = Checkpoint("s1", "", 2, "text", "digest", "model-x", "low", 1 / 3, created=17)
        stored = await trial.store.add_checkpoint(ALICE, TALK, given)
        assert stored == replace(given, created=9_000_000)
        assert await trial.store.checkpoints(ALICE, TALK) == [stored]

    @pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS.keys())
    @case
    async def test_any_summary_comes_back_exactly(self, trial: Trial, text: str) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a"))
        given = replace(checkpoint("s", 1, text=text), digest=text, model=text, trust=text)
        stored = await trial.store.add_checkpoint(ALICE, TALK, given)
        [found] = await trial.store.checkpoints(ALICE, TALK)
        assert found == stored == replace(given, created=stored.created)

    @case
    async def test_a_long_summary_comes_back_exactly(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a"))
        text = "摘要 summary " * 100_000
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s", 1, text=text))
        assert (await trial.store.checkpoints(ALICE, TALK))[0].text == text

    @case
    async def test_they_are_listed_oldest_first(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries(*"x" * 30))
        previous = ""
        for upto in range(1, 31):
            name = f"s{97 * upto % 31}"  # ids are not in order
            given = checkpoint(name, upto, previous=previous)
            await trial.store.add_checkpoint(ALICE, TALK, given)
            previous = name
        listed = await trial.store.checkpoints(ALICE, TALK)
        assert [each.upto for each in listed] == list(range(1, 31))
        assert (await trial.store.head(ALICE, TALK)).checkpoint == listed[-1].id

    @case
    async def test_checkpoints_do_not_touch_the_log(self, trial: Trial) -> None:
        done = await trial.store.append(ALICE, TALK, user_entries("a", "b"))
        log = await trial.store.read(ALICE, TALK)
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s", 2))
        head = await trial.store.head(ALICE, TALK)
        assert await trial.store.read(ALICE, TALK) == log
        moved = {"generation": head.generation, "epoch": head.epoch}
        assert head == replace(done.head, checkpoint="s", **moved)

    @case
    async def test_it_stays_live_while_the_log_grows(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a"))
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s", 1))
        done = await trial.store.append(ALICE, TALK, user_entries("b"))
        assert done.head.checkpoint == "s"
        assert [each.id for each in await trial.store.checkpoints(ALICE, TALK)] == ["s"]

    @case
    async def test_equal_ids_elsewhere_are_other_checkpoints(self, trial: Trial) -> None:
        places = ((ALICE, TALK), (ALICE, "other"), (BOB, TALK))
        for index, (scope, name) in enumerate(places):
            await trial.store.append(scope, name, user_entries("a"))
            await trial.store.add_checkpoint(scope, name, checkpoint("s", 1, text=str(index)))
        for index, (scope, name) in enumerate(places):
            [found] = await trial.store.checkpoints(scope, name)
            assert found.text == str(index)

    @pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES.keys())
    @case
    async def test_a_bad_id_is_refused(self, trial: Trial, name: str) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a"))
        with pytest.raises(InvalidOption):
            await trial.store.add_checkpoint(ALICE, TALK, checkpoint(name, 1))
        assert await trial.store.checkpoints(ALICE, TALK) == []

    @pytest.mark.parametrize("part", ["text", "digest", "model", "trust"])
    @case
    async def test_text_that_is_not_unicode_is_refused(self, trial: Trial, part: str) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a"))
        broken = replace(checkpoint("s", 1), **{part: "a\udc00"})
        with pytest.raises((InvalidOption, InvalidRecord)):
            await trial.store.add_checkpoint(ALICE, TALK, broken)
        assert await trial.store.checkpoints(ALICE, TALK) == []

    @pytest.mark.parametrize("fidelity", [math.nan, math.inf, -0.1, 1.1])
    @case
    async def test_a_fidelity_that_is_no_share_is_refused(
        self, trial: Trial, fidelity: float
    ) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a"))
        with pytest.raises((InvalidOption, InvalidRecord)):
            await trial.store.add_checkpoint(
                ALICE, TALK, replace(checkpoint("s", 1), fidelity=fidelity)
            )
        assert await trial.store.checkpoints(ALICE, TALK) == []


async def _refused(trial: Trial, given: Checkpoint) -> None:
    """Check that storing a checkpoint raises `Conflict` and changes nothing."""
    head = await trial.store.head(ALICE, TALK)
    listed = await trial.store.checkpoints(ALICE, TALK)
    with pytest.raises(Conflict):
        await trial.store.add_checkpoint(ALICE, TALK, given)
    assert await trial.store.head(ALICE, TALK) == head
    assert await trial.store.checkpoints(ALICE, TALK) == listed


async def _two(trial: Trial) -> None:
    """Write ten entries, with checkpoint s1 over the first four and s2 over the first six."""
    await trial.store.append(ALICE, TALK, user_entries(*"abcdefghij"))
    await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s1", 4))
    await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s2", 6, previous="s1"))


class SuccessionCases(StoreCases):
    """Test cases for compare-and-swap: a checkpoint replaces the live one that it names, or raises `Conflict`."""

    @pytest.mark.parametrize("upto", [7, 10])
    @case
    async def test_the_successor_of_the_live_one_becomes_live(
        self, trial: Trial, upto: int
    ) -> None:
        await _two(trial)
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s3", upto, previous="s2"))
        listed = await trial.store.checkpoints(ALICE, TALK)
        assert [(each.id, each.previous) for each in listed] == [
            ("s1", ""),
            ("s2", "s1"),
            ("s3", "s2"),
        ]

    @pytest.mark.parametrize("previous", ["", "s1", "s3", "S2", "s2 ", "unknown"])
    @case
    async def test_any_other_predecessor_is_a_conflict(self, trial: Trial, previous: str) -> None:
        await _two(trial)
        await _refused(trial, checkpoint("s3", 8, previous=previous))

    @case
    async def test_the_first_has_no_predecessor(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a"))
        await _refused(trial, checkpoint("s1", 1, previous="s0"))

    @pytest.mark.parametrize("upto", [11, 99, 10**30, 6, 5, 4, 1, 0, -1])
    @case
    async def test_it_must_cover_something_new_that_is_written(
        self, trial: Trial, upto: int
    ) -> None:
        await _two(trial)
        await _refused(trial, checkpoint("s3", upto, previous="s2"))

    @pytest.mark.parametrize("upto", [-1, 0, 2])
    @case
    async def test_the_first_must_cover_something_that_is_written(
        self, trial: Trial, upto: int
    ) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a"))
        await _refused(trial, checkpoint("s1", upto))

    @pytest.mark.parametrize("name", ["s1", "s2"])
    @case
    async def test_an_id_names_one_checkpoint_forever(self, trial: Trial, name: str) -> None:
        await _two(trial)
        await _refused(trial, checkpoint(name, 8, previous="s2"))

    @pytest.mark.parametrize("upto", [2, 5, 4])
    @pytest.mark.parametrize("name", ["s1", "s2"])
    @case
    async def test_an_id_with_another_content_is_a_conflict(
        self, trial: Trial, name: str, upto: int
    ) -> None:
        await _two(trial)
        await _refused(trial, checkpoint(name, upto, previous="s1", text="another"))

    @case
    async def test_a_repetition_returns_the_stored_one(self, trial: Trial) -> None:
        await _two(trial)
        head = await trial.store.head(ALICE, TALK)
        listed = await trial.store.conversations(ALICE)
        stored = await trial.store.checkpoints(ALICE, TALK)
        for known in stored:  # the first of them is no longer live
            for created in (0, known.created, 17):
                again = replace(known, created=created)
                assert await trial.store.add_checkpoint(ALICE, TALK, again) == known
        assert await trial.store.checkpoints(ALICE, TALK) == stored
        assert await trial.store.head(ALICE, TALK) == head
        assert await trial.store.conversations(ALICE) == listed

    @case
    async def test_of_those_who_add_the_same_all_get_the_stored_one(self, trial: Trial) -> None:
        await _two(trial)
        given = checkpoint("s3", 8, previous="s2")
        done = await trial.together([lambda: trial.store.add_checkpoint(ALICE, TALK, given)] * 6)
        assert done == [(await trial.store.checkpoints(ALICE, TALK))[-1]] * 6

    @case
    async def test_an_unknown_conversation_has_nothing_to_cover(self, trial: Trial) -> None:
        await _refused(trial, checkpoint("s1", 1))
        assert await trial.store.conversations(ALICE) == []

    @case
    async def test_a_refused_id_can_be_used_later(self, trial: Trial) -> None:
        await _two(trial)
        await _refused(trial, checkpoint("s3", 8, previous="s1"))
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s3", 8, previous="s2"))
        assert (await trial.store.head(ALICE, TALK)).checkpoint == "s3"

    @case
    async def test_the_succession_goes_on_after_reopening(self, trial: Trial) -> None:
        await _two(trial)
        listed = await trial.store.checkpoints(ALICE, TALK)
        store = await trial.reopen()
        assert await store.checkpoints(ALICE, TALK) == listed
        await _refused(trial, checkpoint("s3", 8, previous="s1"))
        await store.add_checkpoint(ALICE, TALK, checkpoint("s3", 8, previous="s2"))
        assert (await store.head(ALICE, TALK)).checkpoint == "s3"


class DroppedCheckpointCases(StoreCases):
    """Test cases for dropping a checkpoint: it and its successors are removed for good, and the log stays."""

    @case
    async def test_the_one_before_it_is_live_again(self, trial: Trial) -> None:
        await _two(trial)
        first, second = await trial.store.checkpoints(ALICE, TALK)
        log, before = await trial.store.read(ALICE, TALK), await trial.store.head(ALICE, TALK)
        assert await trial.store.drop_checkpoint(ALICE, TALK, "s2") == [second]
        head = await trial.store.head(ALICE, TALK)
        moved = {"generation": head.generation, "epoch": head.epoch}
        assert head == replace(before, checkpoint="s1", **moved)
        assert head.generation == before.generation + 1
        assert await trial.store.live_checkpoint(ALICE, TALK) == first
        view = await trial.store.view(ALICE, TALK, ())
        assert (view.checkpoint, view.head) == (first, head)
        assert await trial.store.checkpoints(ALICE, TALK) == [first]
        assert await trial.store.read(ALICE, TALK) == log

    @case
    async def test_those_made_from_it_go_with_it(self, trial: Trial) -> None:
        await _two(trial)
        listed = await trial.store.checkpoints(ALICE, TALK)
        assert await trial.store.drop_checkpoint(ALICE, TALK, "s1") == listed
        assert await trial.store.checkpoints(ALICE, TALK) == []
        assert await trial.store.live_checkpoint(ALICE, TALK) is None
        assert (await trial.store.head(ALICE, TALK)).checkpoint == ""

    @case
    async def test_no_search_finds_it(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a", "b"))
        given = checkpoint("s", 1, text="zebra 斑马")
        await trial.store.add_checkpoint(ALICE, TALK, given)
        for word in ("zebra", "斑马"):
            assert await _found(trial, word) == ["s"]
        await trial.store.drop_checkpoint(ALICE, TALK, "s")
        for word in ("zebra", "斑马"):
            assert await _found(trial, word) == []

    @case
    async def test_a_successor_of_it_is_refused(self, trial: Trial) -> None:
        await _two(trial)
        await trial.store.drop_checkpoint(ALICE, TALK, "s2")
        await _refused(trial, checkpoint("s3", 8, previous="s2"))
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s3", 8, previous="s1"))
        assert (await trial.store.head(ALICE, TALK)).checkpoint == "s3"

    @pytest.mark.parametrize("seq", [5, 6, 10])
    @case
    async def test_nothing_made_before_the_drop_comes_after_it(
        self, trial: Trial, seq: int
    ) -> None:
        await _two(trial)
        [read] = await trial.store.read(ALICE, TALK, after=seq - 1, upto=seq)
        seen = (read.seq, read.epoch)
        given = (await trial.store.checkpoints(ALICE, TALK))[1]
        await trial.store.drop_checkpoint(ALICE, TALK, "s2")
        for late in (given, checkpoint("s4", 9, previous="s1")):
            with pytest.raises(Conflict):
                await trial.store.add_checkpoint(ALICE, TALK, late, seen=seen)
        with pytest.raises(Conflict):
            await trial.store.put_document(ALICE, TALK, document("late"), seen=seen)
        [read] = await trial.store.read(ALICE, TALK, after=seq - 1, upto=seq)
        await trial.store.add_checkpoint(ALICE, TALK, given, seen=(read.seq, read.epoch))

    @case
    async def test_entries_that_stay_covered_keep_their_epoch(self, trial: Trial) -> None:
        await _two(trial)
        before = await trial.store.read(ALICE, TALK)
        await trial.store.drop_checkpoint(ALICE, TALK, "s2")
        after = await trial.store.read(ALICE, TALK)
        same = [old.epoch == new.epoch for old, new in zip(before, after, strict=True)]
        assert same == [True] * 4 + [False] * 6

    @case
    async def test_documents_change_with_the_drop_or_nothing_does(self, trial: Trial) -> None:
        await _two(trial)
        await trial.store.put_document(ALICE, TALK, document("gone"))
        await trial.store.drop_document(ALICE, TALK, "note", "gone")
        await trial.store.put_document(ALICE, TALK, document("dropped"))
        dropped = await trial.store.get_document(ALICE, TALK, "note", "dropped")
        assert dropped is not None
        new, before = document("new", b"kept"), await digest(trial.store, ALICE)
        state = (await trial.store.head(ALICE, TALK)).state
        for put, drop, at in (
            (replace(new, version=1), dropped, state),
            (new, replace(dropped, version=9), state),
            (new, dropped, (state[0] - 1, state[1])),
            (new, dropped, (state[0], state[1] + 1)),
        ):
            with pytest.raises(Conflict):
                await trial.store.drop_checkpoint(
                    ALICE, TALK, "s2", put=[put], drop=[drop], state=at
                )
        assert await digest(trial.store, ALICE) == before
        await trial.store.drop_checkpoint(ALICE, TALK, "s2", put=[new], drop=[dropped], state=state)
        assert await trial.store.get_document(ALICE, TALK, "note", "dropped") is None
        found = await trial.store.get_document(ALICE, TALK, "note", "new")
        assert found is not None
        assert (found.body, found.version) == (b"kept", 2)  # no version is used twice

    @pytest.mark.parametrize("name", ["s3", "", "S2"])
    @case
    async def test_one_that_is_not_there_is_an_error(self, trial: Trial, name: str) -> None:
        await _two(trial)
        before, head = await digest(trial.store, ALICE), await trial.store.head(ALICE, TALK)
        for talk in (TALK, "unknown"):
            with pytest.raises(NotFound):
                await trial.store.drop_checkpoint(ALICE, talk, name)
        with pytest.raises(NotFound):
            await trial.store.drop_checkpoint(BOB, TALK, "s2")
        assert await digest(trial.store, ALICE) == before
        assert await trial.store.head(ALICE, TALK) == head

    @case
    async def test_of_those_who_drop_the_same_one_does(self, trial: Trial) -> None:
        await _two(trial)
        done = await trial.together(
            [lambda: trial.store.drop_checkpoint(ALICE, TALK, "s2") for _ in range(4)]
        )
        assert sum(isinstance(each, list) for each in done) == 1
        assert sum(isinstance(each, NotFound) for each in done) == 3
        assert [each.id for each in await trial.store.checkpoints(ALICE, TALK)] == ["s1"]

    @case
    async def test_nothing_is_dropped_of_a_deleted_conversation(self, trial: Trial) -> None:
        await _two(trial)
        await trial.store.delete(ALICE, TALK)
        with pytest.raises(ConversationDeleted):
            await trial.store.drop_checkpoint(ALICE, TALK, "s2")

    @case
    async def test_a_drop_lasts(self, trial: Trial) -> None:
        await _two(trial)
        await trial.store.drop_checkpoint(ALICE, TALK, "s2")
        store = await trial.reopen()
        assert [each.id for each in await store.checkpoints(ALICE, TALK)] == ["s1"]
        await store.append(ALICE, TALK, user_entries("k"))
        assert texts(await store.read(ALICE, TALK)) == list("abcdefghijk")
        assert (await store.head(ALICE, TALK)).checkpoint == "s1"


async def _found(trial: Trial, word: str) -> list[str]:
    within = Within(kinds=None)
    found = await trial.store.search(ALICE, [word], conversation=TALK, within=within)
    return [hit.key for hit in found]
