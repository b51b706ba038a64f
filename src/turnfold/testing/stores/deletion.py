"""Test cases for deletion: no method and no file shows anything of a deleted conversation or entry, then or later."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from turnfold.errors import Conflict, ConversationDeleted, IdReused, InvalidOption, NotFound
from turnfold.records import NewEntry, assistant, tool, user
from turnfold.search import Within
from turnfold.stores import Ability, Erasure, Head
from turnfold.testing.stores.case_runner import StoreCases, Trial, case
from turnfold.testing.stores.sample_values import (
    ALICE,
    BOB,
    HOSTILE_NAMES,
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
    "EntryErasureCases",
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
    """Test cases for the data that a deletion removes, and for its result."""

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
    """Test cases for late writers: they do not bring a deleted conversation back."""

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

    @pytest.mark.parametrize("name", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES.keys())
    @case
    async def test_whatever_its_name_it_alone_is_refused(self, trial: Trial, name: str) -> None:
        others = {TALK, name[:-1] or "x", f"{name[:-1]}x"} - {name}
        for each in (name, *others):
            await trial.store.append(ALICE, each, user_entries("a"))
        await trial.store.append(BOB, name, user_entries("a"))
        await trial.store.delete(ALICE, name)
        generation = (await trial.store.head(ALICE, name)).generation
        for store in (
            trial.store,
            trial.open() if Ability.SHARED in trial.store.abilities else trial.store,
        ):
            assert (await store.head(ALICE, name)).generation == generation > 1
            for verb in WRITING_VERBS.values():
                with pytest.raises(ConversationDeleted):
                    await verb(store, ALICE, name)
            assert (await store.delete(ALICE, name)).already
            generation += 1
        assert (await trial.store.append(BOB, name, user_entries("b"))).last == 2
        for each in others:
            assert (await trial.store.append(ALICE, each, user_entries("b"))).last == 2

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
    """Test cases for erasure: a store with this ability keeps no byte of deleted text in its files."""

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


_GONE = user("gone")


class EntryErasureCases(StoreCases):
    """Test cases for the erasure of one entry: its text is gone everywhere, and the log stays valid."""

    @case
    async def test_the_message_is_replaced_and_nothing_else_of_the_entry(
        self, trial: Trial
    ) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids("one", "two 二", "three"))
        before = await trial.store.read(ALICE, TALK)
        receipt = await trial.store.erase(ALICE, TALK, 2, _GONE)
        assert receipt == Erasure(TALK, entries=1, checkpoints=0, documents=0, already=False)
        after = await trial.store.read(ALICE, TALK)
        assert texts(after) == ["one", "gone", "three"]
        for old, new in zip(before, after, strict=True):
            kept = (new.seq, new.client_id, new.created, new.turn)
            assert kept == (old.seq, old.client_id, old.created, old.turn)
        assert texts(await trial.store.read_turn(ALICE, TALK, 2)) == ["gone"]
        assert texts(await trial.store.find(ALICE, TALK, ["two 二"])) == ["gone"]

    @case
    async def test_costs_are_those_of_the_new_message(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("1", "22222222", "333"))
        await trial.store.erase(ALICE, TALK, 2, _GONE)
        found = await trial.store.read(ALICE, TALK)
        assert [(each.tokens, each.running) for each in found] == [(1, 1), (4, 5), (3, 8)]
        assert (await trial.store.head(ALICE, TALK)).tokens == 8
        assert texts(await trial.store.tail(ALICE, TALK, tokens=7)) == ["gone", "333"]
        await trial.store.append(ALICE, TALK, user_entries("55555"))
        assert (await trial.store.read(ALICE, TALK))[-1].running == 13

    @pytest.mark.parametrize("searched", [True, False], ids=["indexed", "not indexed"])
    @case
    async def test_a_search_finds_the_new_message_only(
        self, trial: Trial, *, searched: bool
    ) -> None:
        other = user_entries("alpha one", "beta two", "gamma three")
        await trial.store.append(ALICE, TALK, other)
        if searched:
            assert [hit.seq for hit in await trial.store.search(ALICE, ["beta"])] == [2]
        await trial.store.erase(ALICE, TALK, 2, user("delta 北京"))
        assert await trial.store.search(ALICE, ["beta"]) == []
        assert [hit.seq for hit in await trial.store.search(ALICE, ["delta"])] == [2]
        assert [hit.seq for hit in await trial.store.search(ALICE, ["北京"])] == [2]
        assert [hit.seq for hit in await trial.store.search(ALICE, ["alpha", "gamma"])] == [3, 1]
        await trial.store.delete(ALICE, TALK)
        assert await trial.store.search(ALICE, ["delta"]) == []

    @case
    async def test_a_tool_result_is_still_found_by_its_tool(self, trial: Trial) -> None:
        call = {"id": "c", "function": {"name": "weather", "arguments": "{}"}}
        talk = [user("q"), assistant(tool_calls=[call]), tool("sunny", tool_call_id="c")]
        await trial.store.append(ALICE, TALK, [NewEntry(each) for each in talk])
        within = Within(tools=frozenset({"weather"}))
        assert [hit.seq for hit in await trial.store.search(ALICE, ["sunny"], within=within)] == [3]
        await trial.store.erase(ALICE, TALK, 3, tool("gone", tool_call_id="c"))
        assert [hit.seq for hit in await trial.store.search(ALICE, ["gone"], within=within)] == [3]

    @case
    async def test_checkpoints_that_cover_it_go_and_earlier_ones_stay(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries(*"abcdef"))
        first = checkpoint("s1", 2, text="early words")
        await trial.store.add_checkpoint(ALICE, TALK, first)
        await trial.store.add_checkpoint(
            ALICE, TALK, checkpoint("s2", 3, previous="s1", text="late words")
        )
        await trial.store.add_checkpoint(
            ALICE, TALK, checkpoint("s3", 5, previous="s2", text="later words")
        )
        texts_too = Within(kinds=None)
        assert len(await trial.store.search(ALICE, ["words"], within=texts_too)) == 3
        assert (await trial.store.erase(ALICE, TALK, 3, _GONE)).checkpoints == 2
        assert [each.id for each in await trial.store.checkpoints(ALICE, TALK)] == ["s1"]
        assert (await trial.store.head(ALICE, TALK)).checkpoint == "s1"
        live = await trial.store.live_checkpoint(ALICE, TALK)
        assert live is not None
        assert live.id == "s1"
        found = await trial.store.search(ALICE, ["words"], within=texts_too)
        assert [hit.key for hit in found] == ["s1"]
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s2", 4, previous="s1"))
        assert (await trial.store.head(ALICE, TALK)).checkpoint == "s2"

    @pytest.mark.parametrize("seen", [3, 4], ids=["the entry", "a later entry"])
    @case
    async def test_a_summary_of_the_old_text_is_refused(self, trial: Trial, seen: int) -> None:
        await trial.store.append(ALICE, TALK, user_entries(*"abcd"))
        read = (await trial.store.read(ALICE, TALK))[seen - 1]
        await trial.store.erase(ALICE, TALK, 3, _GONE)
        with pytest.raises(Conflict):
            await trial.store.add_checkpoint(
                ALICE, TALK, checkpoint("s", 3), seen=(read.seq, read.epoch)
            )
        with pytest.raises(Conflict):
            await trial.store.put_document(
                ALICE, TALK, document("key"), seen=(read.seq, read.epoch)
            )

    @case
    async def test_what_saw_only_earlier_entries_is_accepted(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a", "b"))
        await trial.store.append(ALICE, TALK, user_entries("c", "d"))
        read = (await trial.store.read(ALICE, TALK))[1]
        await trial.store.erase(ALICE, TALK, 3, _GONE)
        stored = await trial.store.add_checkpoint(
            ALICE, TALK, checkpoint("s", 2), seen=(read.seq, read.epoch)
        )
        assert stored.id == "s"

    @case
    async def test_documents_change_with_it_or_nothing_does(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a", "b"))
        for key in ("kept", "replaced", "dropped"):
            given = replace(document(key, b"old"), text=f"{key} words")
            await trial.store.put_document(ALICE, TALK, given)
        kept, replaced, dropped = [
            found
            for key in ("kept", "replaced", "dropped")
            if (found := await trial.store.get_document(ALICE, TALK, "note", key))
        ]
        new = replace(replaced, body=b"new", text="other")
        for stale in (replace(new, version=9), replace(new, key="absent")):
            with pytest.raises(Conflict):
                await trial.store.erase(ALICE, TALK, 1, _GONE, replace=[stale], drop=[dropped])
        assert texts(await trial.store.read(ALICE, TALK)) == ["a", "b"]
        receipt = await trial.store.erase(ALICE, TALK, 1, _GONE, replace=[new], drop=[dropped])
        assert receipt == Erasure(TALK, entries=1, checkpoints=0, documents=2, already=False)
        assert await trial.store.get_document(ALICE, TALK, "note", "kept") == kept
        assert await trial.store.get_document(ALICE, TALK, "note", "dropped") is None
        found = await trial.store.get_document(ALICE, TALK, "note", "replaced")
        assert found is not None
        assert (found.body, found.text, found.version) == (b"new", "other", replaced.version + 1)
        hits = await trial.store.search(ALICE, ["words", "other"], within=Within(kinds=None))
        assert sorted(hit.key for hit in hits) == ["kept", "replaced"]

    @case
    async def test_once_more_changes_nothing(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a", "b"))
        await trial.store.erase(ALICE, TALK, 1, _GONE)
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s", 2))
        before, head = await digest(trial.store, ALICE), await trial.store.head(ALICE, TALK)
        receipt = await trial.store.erase(ALICE, TALK, 1, _GONE)
        assert receipt == Erasure(TALK, entries=0, checkpoints=0, documents=0, already=True)
        assert await digest(trial.store, ALICE) == before
        assert await trial.store.head(ALICE, TALK) == head

    @case
    async def test_every_reader_can_tell(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries(*"abc"))
        before, head = await trial.store.read(ALICE, TALK), await trial.store.head(ALICE, TALK)
        await trial.store.erase(ALICE, TALK, 2, _GONE)
        after = await trial.store.read(ALICE, TALK)
        same = [old.epoch == new.epoch for old, new in zip(before, after, strict=True)]
        assert same == [True, False, False]
        assert (await trial.store.head(ALICE, TALK)).generation > head.generation

    @case
    async def test_a_retry_does_not_bring_the_text_back(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids("one", "two"))
        await trial.store.erase(ALICE, TALK, 2, _GONE)
        with pytest.raises(IdReused):
            await trial.store.append(ALICE, TALK, entries_with_ids("one", "two"))
        assert texts(await trial.store.read(ALICE, TALK)) == ["one", "gone"]

    @pytest.mark.parametrize("seq", [0, 3])
    @case
    async def test_an_entry_that_is_not_there_is_an_error(self, trial: Trial, seq: int) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a", "b"))
        before = await digest(trial.store, ALICE)
        for name in (TALK, "unknown"):
            with pytest.raises(NotFound):
                await trial.store.erase(ALICE, name, seq, _GONE)
        assert await digest(trial.store, ALICE) == before

    @case
    async def test_another_role_is_an_error(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a"))
        with pytest.raises(InvalidOption, match="role"):
            await trial.store.erase(ALICE, TALK, 1, assistant("gone"))
        assert texts(await trial.store.read(ALICE, TALK)) == ["a"]

    @case
    async def test_a_deleted_conversation_stays_deleted(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a"))
        await trial.store.delete(ALICE, TALK)
        with pytest.raises(ConversationDeleted):
            await trial.store.erase(ALICE, TALK, 1, _GONE)

    @case
    async def test_other_conversations_and_tenants_are_untouched(self, trial: Trial) -> None:
        for scope in (ALICE, BOB):
            for name in (TALK, "other"):
                await trial.store.append(scope, name, entries_with_ids("one", "two"))
                await trial.store.add_checkpoint(scope, name, checkpoint("s", 2))
        before = await digest(trial.store, BOB)
        await trial.store.erase(ALICE, TALK, 1, _GONE)
        assert await digest(trial.store, BOB) == before
        assert texts(await trial.store.read(ALICE, "other")) == ["one", "two"]
        assert len(await trial.store.checkpoints(ALICE, "other")) == 1

    @case
    async def test_it_lasts(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a", "b"))
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s", 1))
        await trial.store.erase(ALICE, TALK, 1, _GONE)
        store = await trial.reopen()
        assert texts(await store.read(ALICE, TALK)) == ["gone", "b"]
        assert await store.checkpoints(ALICE, TALK) == []

    @pytest.mark.parametrize("closed", [False, True], ids=["while open", "once closed"])
    @case
    async def test_no_file_holds_the_text_of_the_entry(self, trial: Trial, *, closed: bool) -> None:
        trial.need(Ability.ERASES_BYTES)
        secret = b"zxqsecretzxq"
        word = secret.decode()
        await trial.store.append(ALICE, TALK, user_entries(*["ordinary words"] * 50))
        await trial.store.append(ALICE, TALK, user_entries(f"{word} once " + word * 3000))
        await trial.store.append(ALICE, TALK, user_entries(*["ordinary words"] * 50))
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s", 60, text=f"a {word} b"))
        for key in ("replaced", "dropped"):
            given = replace(document(key, secret * 300), text=f"{word} found by")
            await trial.store.put_document(ALICE, TALK, given)
        found = await trial.store.documents(ALICE, TALK, "note")
        assert len(await trial.store.search(ALICE, [word], within=Within(kinds=None))) == 4
        if not _files_holding(trial.folder, secret):
            pytest.skip("the backend has no readable files in its folder")
        new = [replace(found[1], body=b"", text="")]
        await trial.store.erase(ALICE, TALK, 51, _GONE, replace=new, drop=[found[0]])
        if closed:
            await trial.store.close()
        assert _files_holding(trial.folder, secret) == []


def _files_holding(folder: Path, secret: bytes) -> list[str]:
    return [
        path.name
        for path in sorted(folder.rglob("*"))
        if path.is_file() and secret in path.read_bytes()
    ]
