"""Cases for deletion: no method and no file shows anything of a deleted conversation, then or later."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from turnfold.errors import ConversationDeleted
from turnfold.records import NewEntry, user
from turnfold.search import Within
from turnfold.stores import Ability, Erasure, Head
from turnfold.testing.stores.trial import StoreCases, Trial, case
from turnfold.testing.stores.values import (
    ALICE,
    BOB,
    TALK,
    VERBS,
    WRITING_VERBS,
    checkpoint,
    digest,
    document,
    entries_with_ids,
    texts,
    user_entries,
)

__all__ = (
    "DeleteCases",
    "ErasureCases",
    "TombstoneCases",
)


# ruff: noqa: D102, S101 (cases are named by sentences, and consist of asserts)


READING_VERBS = sorted(set(VERBS) - set(WRITING_VERBS) - {"delete", "head"})


async def _fill(trial: Trial) -> None:
    await trial.store.append(ALICE, TALK, entries_with_ids("one", "two", "three"))
    await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s1", 1))
    await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s2", 2, previous="s1"))
    for kind in ("note", "state"):
        await trial.store.put_document(ALICE, TALK, document("key", kind=kind))
    await trial.store.put_document(ALICE, TALK, document("other"))


class DeleteCases(StoreCases):
    """Cases for the data that a deletion removes, and for its result."""

    @case
    async def test_the_receipt_counts_what_went(self, trial: Trial) -> None:
        await _fill(trial)
        receipt = await trial.store.delete(ALICE, TALK)
        assert receipt == Erasure(TALK, entries=3, checkpoints=2, documents=3, already=False)

    @case
    async def test_deleting_twice_says_so(self, trial: Trial) -> None:
        await _fill(trial)
        await trial.store.delete(ALICE, TALK)
        receipt = await trial.store.delete(ALICE, TALK)
        assert receipt == Erasure(TALK, entries=0, checkpoints=0, documents=0, already=True)

    @case
    async def test_deleting_the_unknown_counts_nothing(self, trial: Trial) -> None:
        receipt = await trial.store.delete(ALICE, TALK)
        assert receipt == Erasure(TALK, entries=0, checkpoints=0, documents=0, already=False)
        assert await trial.store.conversations(ALICE) == []

    @pytest.mark.parametrize("verb", READING_VERBS)
    @case
    async def test_no_verb_shows_anything_of_it(self, trial: Trial, verb: str) -> None:
        await _fill(trial)
        assert await VERBS[verb](trial.store, ALICE, TALK)
        await trial.store.delete(ALICE, TALK)
        assert not await VERBS[verb](trial.store, ALICE, TALK)

    @case
    async def test_its_head_is_empty_but_for_the_generation(self, trial: Trial) -> None:
        await _fill(trial)
        before = await trial.store.head(ALICE, TALK)
        await trial.store.delete(ALICE, TALK)
        head = await trial.store.head(ALICE, TALK)
        assert head == replace(Head(), generation=head.generation, epoch=head.epoch)
        assert head.generation > before.generation

    @case
    async def test_it_is_not_listed(self, trial: Trial) -> None:
        await _fill(trial)
        await trial.store.append(ALICE, "kept", user_entries("x"))
        await trial.store.delete(ALICE, TALK)
        assert [info.conversation for info in await trial.store.conversations(ALICE)] == ["kept"]

    @case
    async def test_a_page_is_full_although_some_are_deleted(self, trial: Trial) -> None:
        for name in "abcdef":
            await trial.store.append(ALICE, name, user_entries("x"))
        for name in "ace":
            await trial.store.delete(ALICE, name)
        page = await trial.store.conversations(ALICE, limit=2)
        assert [info.conversation for info in page] == ["b", "d"]

    @case
    async def test_a_search_does_not_find_it_nor_count_it(self, trial: Trial) -> None:
        await trial.store.append(ALICE, "kept", user_entries("one two", "three"))
        before = await trial.store.search(ALICE, ["one", "three"])
        await _fill(trial)
        await trial.store.delete(ALICE, TALK)
        assert await trial.store.search(ALICE, ["one", "three"]) == before

    @case
    async def test_a_conversation_of_documents_alone_is_deleted(self, trial: Trial) -> None:
        await trial.store.put_document(ALICE, TALK, document("key"))
        receipt = await trial.store.delete(ALICE, TALK)
        assert (receipt.entries, receipt.documents) == (0, 1)
        assert await trial.store.get_document(ALICE, TALK, "note", "key") is None

    @case
    async def test_nothing_else_is_touched(self, trial: Trial) -> None:
        await _fill(trial)
        await trial.store.append(ALICE, "other", entries_with_ids("one"))
        await trial.store.append(BOB, TALK, entries_with_ids("one", "two"))
        await trial.store.put_document(BOB, TALK, document("key"))
        before = await digest(trial.store, BOB)
        await trial.store.delete(ALICE, TALK)
        assert await digest(trial.store, BOB) == before
        assert texts(await trial.store.read(ALICE, "other")) == ["one"]


class TombstoneCases(StoreCases):
    """Cases for late writers: they do not bring a deleted conversation back."""

    @pytest.mark.parametrize("known", [True, False], ids=["filled", "never written"])
    @pytest.mark.parametrize("verb", WRITING_VERBS)
    @case
    async def test_every_writing_verb_is_refused(
        self, trial: Trial, verb: str, *, known: bool
    ) -> None:
        if known:
            await _fill(trial)
        await trial.store.delete(ALICE, TALK)
        with pytest.raises(ConversationDeleted):
            await WRITING_VERBS[verb](trial.store, ALICE, TALK)
        assert await trial.store.conversations(ALICE) == []
        assert (await trial.store.head(ALICE, TALK)).seq == 0

    @case
    async def test_a_late_retry_is_refused(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids("one", "two"))
        await trial.store.delete(ALICE, TALK)
        with pytest.raises(ConversationDeleted):
            await trial.store.append(ALICE, TALK, entries_with_ids("one", "two"))
        with pytest.raises(ConversationDeleted):
            await trial.store.append(ALICE, TALK, entries_with_ids("one", "two"), expect=0)

    @case
    async def test_a_late_summary_is_refused(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a", "b"))
        late = checkpoint("s", 2)
        await trial.store.delete(ALICE, TALK)
        with pytest.raises(ConversationDeleted):
            await trial.store.add_checkpoint(ALICE, TALK, late)
        assert await trial.store.checkpoints(ALICE, TALK) == []

    @pytest.mark.parametrize("expect", [None, 0, 1])
    @case
    async def test_a_late_document_is_refused_whatever_it_expects(
        self, trial: Trial, expect: int | None
    ) -> None:
        await trial.store.put_document(ALICE, TALK, document("key"))
        await trial.store.delete(ALICE, TALK)
        with pytest.raises(ConversationDeleted):
            await trial.store.put_document(ALICE, TALK, document("key"), expect=expect)

    @case
    async def test_it_stays_deleted_after_reopening(self, trial: Trial) -> None:
        await _fill(trial)
        await trial.store.delete(ALICE, TALK)
        store = await trial.reopen()
        with pytest.raises(ConversationDeleted):
            await store.append(ALICE, TALK, entries_with_ids("one"))
        assert await store.read(ALICE, TALK) == []
        assert (await store.delete(ALICE, TALK)).already is True

    @case
    async def test_another_tenant_may_use_the_name(self, trial: Trial) -> None:
        await trial.store.delete(ALICE, TALK)
        assert (await trial.store.append(BOB, TALK, user_entries("his"))).first == 1

    @case
    async def test_other_names_are_free(self, trial: Trial) -> None:
        await _fill(trial)
        await trial.store.delete(ALICE, TALK)
        for name in (TALK + " ", TALK.upper(), "new"):
            assert (await trial.store.append(ALICE, name, entries_with_ids("one"))).first == 1


class ErasureCases(StoreCases):
    """Cases for erasure: a store with this ability keeps no byte of deleted text in its files."""

    @pytest.mark.parametrize("closed", [False, True], ids=["while open", "once closed"])
    @case
    async def test_no_file_holds_what_was_said(self, trial: Trial, *, closed: bool) -> None:
        trial.need(Ability.ERASES_BYTES)
        secret = b"zxqsecretzxq"
        word = secret.decode()
        await trial.store.append(ALICE, "kept", user_entries(*["ordinary words"] * 50))
        await trial.store.append(ALICE, TALK, [NewEntry(user(f"my {word} here"), f"id {word}")])
        await trial.store.append(ALICE, TALK, user_entries(*[f"{word} again {word}"] * 50))
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s", 1, text=f"a {word} b"))
        await trial.store.put_document(ALICE, TALK, document(f"key {word}", secret * 3000))
        found_by = replace(document(f"key {word}", secret), text=f"{word} is what it is found by")
        await trial.store.put_document(ALICE, TALK, found_by)
        assert (
            len(await trial.store.search(ALICE, [word], limit=99, within=Within(kinds=None))) == 53
        )
        if not _files_holding(trial.folder, secret):
            pytest.skip("the backend has no readable files in its folder")
        await trial.store.delete(ALICE, TALK)
        if closed:
            await trial.store.close()
        assert _files_holding(trial.folder, secret) == []


def _files_holding(folder: Path, secret: bytes) -> list[str]:
    return [
        path.name
        for path in sorted(folder.rglob("*"))
        if path.is_file() and secret in path.read_bytes()
    ]
