"""Test cases for documents: versioned bytes under a kind and key, changed by compare-and-swap; and for notes.

A note is a new document that is written only if the conversation has not changed since its writer read it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from turnfold.errors import Conflict, ConversationDeleted
from turnfold.records import Document
from turnfold.stores import ConversationOpening, State, View
from turnfold.testing.stores.case_runner import StoreCases, Trial, case
from turnfold.testing.stores.sample_values import (
    ALICE,
    BOB,
    TALK,
    WRITING_VERBS,
    checkpoint,
    document,
    note_now,
    texts,
    user_entries,
)

__all__ = (
    "DocumentCases",
    "NoteCases",
    "VersionCases",
    "ViewCases",
)


# ruff: noqa: D102, S101 (cases are named by sentences, and consist of asserts)


BODIES = {
    "empty": b"",
    "every byte": bytes(range(256)),
    "zeros": bytes(1000),
    "not text": b"\xff\xfe\xc0\x80\xed\xa0\x80",
    "text": "会话 state".encode(),
    "five megabytes": bytes(range(251)) * (5_000_000 // 251),
}


class DocumentCases(StoreCases):
    """Test cases for a stored document: it is returned exactly, replaced and removed."""

    @case
    async def test_an_absent_one_is_none(self, trial: Trial) -> None:
        assert await trial.store.get_document(ALICE, TALK, "note", "key") is None
        await trial.store.append(ALICE, TALK, user_entries("a"))
        assert await trial.store.get_document(ALICE, TALK, "note", "key") is None

    @case
    async def test_the_store_says_version_and_time(self, trial: Trial) -> None:
        trial.clock.now, trial.clock.step = 9_000_000, 0
        given = Document("note", "key", b"body", version=41, created=17)
        stored = (await trial.store.put_document(ALICE, TALK, given)).document
        assert stored == Document("note", "key", b"body", version=1, created=9_000_000)
        assert await trial.store.get_document(ALICE, TALK, "note", "key") == stored

    @pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
    @case
    async def test_any_body_comes_back_exactly(self, trial: Trial, body: bytes) -> None:
        await trial.store.put_document(ALICE, TALK, document("key", body))
        found = await trial.store.get_document(ALICE, TALK, "note", "key")
        assert found is not None
        assert type(found.body) is bytes
        assert found.body == body

    @case
    async def test_the_last_body_stands(self, trial: Trial) -> None:
        for body in (b"long first body", b"", b"last"):
            await trial.store.put_document(ALICE, TALK, document("key", body))
        found = await trial.store.get_document(ALICE, TALK, "note", "key")
        assert found is not None
        assert (found.body, found.version) == (b"last", 3)

    @case
    async def test_one_key_in_many_places_is_many_documents(self, trial: Trial) -> None:
        places = [
            (ALICE, TALK, "note", "key"),
            (ALICE, TALK, "notek", "ey"),
            (ALICE, TALK, "key", "note"),
            (ALICE, TALK, "Note", "key"),
            (ALICE, TALK, "note", "key "),
            (ALICE, "other", "note", "key"),
            (BOB, TALK, "note", "key"),
        ]
        for index, (scope, name, kind, key) in enumerate(places):
            given = document(key, bytes([index]), kind=kind)
            assert (await trial.store.put_document(scope, name, given)).document.version == 1
        for index, (scope, name, kind, key) in enumerate(places):
            found = await trial.store.get_document(scope, name, kind, key)
            assert found is not None
            assert (found.kind, found.key, found.body) == (kind, key, bytes([index]))

    @case
    async def test_a_document_may_come_before_the_first_entry(self, trial: Trial) -> None:
        await trial.store.put_document(ALICE, TALK, document("key"))
        [info] = await trial.store.conversations(ALICE)
        assert (info.conversation, info.head.seq, info.head.tokens) == (TALK, 0, 0)
        assert (await trial.store.append(ALICE, TALK, user_entries("a"), expect=0)).first == 1
        assert await trial.store.get_document(ALICE, TALK, "note", "key") is not None

    @case
    async def test_documents_do_not_touch_the_log(self, trial: Trial) -> None:
        done = await trial.store.append(ALICE, TALK, user_entries("a", "b"))
        log = await trial.store.read(ALICE, TALK)
        await trial.store.put_document(ALICE, TALK, document("key"))
        await trial.store.drop_document(ALICE, TALK, "note", "key")
        head = await trial.store.head(ALICE, TALK)
        assert await trial.store.read(ALICE, TALK) == log
        assert head == replace(done.head, generation=head.generation, epoch=head.epoch)

    @case
    async def test_documents_and_versions_survive_reopening(self, trial: Trial) -> None:
        await trial.store.put_document(ALICE, TALK, document("key", b"one"))
        stored = (await trial.store.put_document(ALICE, TALK, document("key", b"two"))).document
        store = await trial.reopen()
        assert await store.get_document(ALICE, TALK, "note", "key") == stored
        with pytest.raises(Conflict):
            await store.put_document(ALICE, TALK, document("key"), expect=1)
        put = await store.put_document(ALICE, TALK, document("key"), expect=2)
        assert put.document.version == 3


async def _written(trial: Trial, times: int) -> Document | None:
    for _ in range(times):
        await trial.store.put_document(ALICE, TALK, document("key", b"old"))
    return await trial.store.get_document(ALICE, TALK, "note", "key")


class VersionCases(StoreCases):
    """Test cases for compare-and-swap of documents by their version."""

    @pytest.mark.parametrize(
        ("version", "expect"), [(0, None), (0, 0), (1, None), (1, 1), (3, None), (3, 3)]
    )
    @case
    async def test_the_right_version_is_replaced(
        self, trial: Trial, version: int, expect: int | None
    ) -> None:
        await _written(trial, version)
        put = await trial.store.put_document(ALICE, TALK, document("key", b"new"), expect=expect)
        stored = put.document
        assert (stored.version, stored.body) == (version + 1, b"new")
        assert await trial.store.get_document(ALICE, TALK, "note", "key") == stored

    @pytest.mark.parametrize(
        ("version", "expect"),
        [(0, 1), (0, 2), (1, 0), (1, 2), (3, 0), (3, 1), (3, 4), (3, -1), (3, 10**30)],
    )
    @case
    async def test_any_other_version_is_a_conflict(
        self, trial: Trial, version: int, expect: int
    ) -> None:
        before = await _written(trial, version)
        listed = await trial.store.conversations(ALICE)
        with pytest.raises(Conflict):
            await trial.store.put_document(ALICE, TALK, document("key", b"new"), expect=expect)
        assert await trial.store.get_document(ALICE, TALK, "note", "key") == before
        assert await trial.store.conversations(ALICE) == listed

    @pytest.mark.parametrize("expect", [None, 2])
    @case
    async def test_a_drop_removes_it(self, trial: Trial, expect: int | None) -> None:
        await _written(trial, 2)
        assert await trial.store.drop_document(ALICE, TALK, "note", "key", expect=expect) is True
        assert await trial.store.get_document(ALICE, TALK, "note", "key") is None
        assert await trial.store.documents(ALICE, TALK, "note") == []

    @pytest.mark.parametrize("expect", [0, 1, 3, -1])
    @case
    async def test_a_drop_of_another_version_is_a_conflict(self, trial: Trial, expect: int) -> None:
        before = await _written(trial, 2)
        with pytest.raises(Conflict):
            await trial.store.drop_document(ALICE, TALK, "note", "key", expect=expect)
        assert await trial.store.get_document(ALICE, TALK, "note", "key") == before

    @pytest.mark.parametrize("expect", [None, 0])
    @case
    async def test_dropping_what_is_not_there_says_so(
        self, trial: Trial, expect: int | None
    ) -> None:
        assert await trial.store.drop_document(ALICE, TALK, "note", "key", expect=expect) is False
        assert await trial.store.conversations(ALICE) == []

    @case
    async def test_dropping_an_absent_version_is_a_conflict(self, trial: Trial) -> None:
        with pytest.raises(Conflict):
            await trial.store.drop_document(ALICE, TALK, "note", "key", expect=1)

    @case
    async def test_a_drop_leaves_its_neighbours(self, trial: Trial) -> None:
        for kind in ("note", "state"):
            for key in ("key", "other"):
                await trial.store.put_document(ALICE, TALK, document(key, kind=kind))
        await trial.store.put_document(ALICE, "other", document("key"))
        await trial.store.put_document(BOB, TALK, document("key"))
        await trial.store.drop_document(ALICE, TALK, "note", "key")
        assert [each.key for each in await trial.store.documents(ALICE, TALK, "note")] == ["other"]
        assert len(await trial.store.documents(ALICE, TALK, "state")) == 2
        assert len(await trial.store.documents(ALICE, "other", "note")) == 1
        assert len(await trial.store.documents(BOB, TALK, "note")) == 1

    @case
    async def test_what_was_dropped_can_be_written_again(self, trial: Trial) -> None:
        await _written(trial, 3)
        await trial.store.drop_document(ALICE, TALK, "note", "key")
        put = await trial.store.put_document(ALICE, TALK, document("key", b"new"), expect=0)
        assert await trial.store.get_document(ALICE, TALK, "note", "key") == put.document

    @pytest.mark.parametrize("rounds", [1, 3])
    @case
    async def test_no_version_returns(self, trial: Trial, rounds: int) -> None:
        seen: list[int] = []
        for _ in range(rounds):
            for _ in range(2):
                put = await trial.store.put_document(ALICE, TALK, document("key", b"same"))
                seen.append(put.document.version)
            await trial.store.drop_document(ALICE, TALK, "note", "key")
            assert await trial.store.get_document(ALICE, TALK, "note", "key") is None
        put = await trial.store.put_document(ALICE, TALK, document("key", b"same"))
        assert put.document.version > max(seen)
        assert len(set(seen)) == len(seen)
        for version in (0, *seen):  # a writer with an old version is rejected
            with pytest.raises(Conflict):
                await trial.store.put_document(ALICE, TALK, document("key"), expect=version)
            with pytest.raises(Conflict):
                await trial.store.drop_document(ALICE, TALK, "note", "key", expect=version)

    @case
    async def test_a_dropped_one_is_expected_as_absent(self, trial: Trial) -> None:
        await _written(trial, 3)
        await trial.store.drop_document(ALICE, TALK, "note", "key")
        for version in (1, 2, 3, 4):
            with pytest.raises(Conflict):
                await trial.store.put_document(ALICE, TALK, document("key"), expect=version)
            with pytest.raises(Conflict):
                await trial.store.drop_document(ALICE, TALK, "note", "key", expect=version)
        assert await trial.store.drop_document(ALICE, TALK, "note", "key", expect=0) is False

    @case
    async def test_versions_go_on_after_reopening(self, trial: Trial) -> None:
        await _written(trial, 3)
        await trial.store.drop_document(ALICE, TALK, "note", "key")
        store = await trial.reopen()
        assert await store.documents(ALICE, TALK, "note") == []
        put = await store.put_document(ALICE, TALK, document("key"), expect=0)
        assert put.document.version > 3

    @case
    async def test_a_drop_elsewhere_changes_no_version(self, trial: Trial) -> None:
        await _written(trial, 3)
        await trial.store.drop_document(ALICE, TALK, "note", "key")
        for scope, name in ((ALICE, "other"), (BOB, TALK)):
            put = await trial.store.put_document(scope, name, document("key"))
            assert put.document.version == 1


RACERS = 8


async def _state(trial: Trial) -> State:
    return (await trial.store.head(ALICE, TALK)).state


class NoteCases(StoreCases):
    """Test cases for notes: a note is written if the conversation is unchanged, and rejected otherwise."""

    @case
    async def test_a_note_is_a_document(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a"))
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
        await trial.store.append(ALICE, TALK, user_entries("a", "b"))
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
        await trial.store.append(ALICE, TALK, user_entries("a"))
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
        await trial.store.append(ALICE, TALK, user_entries("a"))
        generation, epoch = await _state(trial)
        with pytest.raises(Conflict, match="generation"):
            await trial.store.note(ALICE, TALK, document("key"), state=(generation + 1, epoch))

    @case
    async def test_the_same_generation_of_another_history_is_a_conflict(self, trial: Trial) -> None:
        done = await trial.store.append(ALICE, TALK, user_entries("a"))
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
        await trial.store.append(ALICE, TALK, user_entries("a"))
        await trial.store.delete(ALICE, TALK)
        with pytest.raises(ConversationDeleted):
            await trial.store.note(ALICE, TALK, document("key"), state=await _state(trial))

    @case
    async def test_appends_and_notes_follow_one_another(self, trial: Trial) -> None:
        for number in range(6):
            done = await trial.store.append(ALICE, TALK, user_entries(f"text {number}"))
            given = document(f"key {number}")
            await trial.store.note(ALICE, TALK, given, state=done.head.state)
            assert (await trial.store.head(ALICE, TALK)).generation == done.head.generation + 1
        assert texts(await trial.store.read(ALICE, TALK)) == [f"text {n}" for n in range(6)]
        assert len(await trial.store.documents(ALICE, TALK, "note")) == 6

    @case
    async def test_of_many_who_saw_the_same_one_writes(self, trial: Trial) -> None:
        done = await trial.store.append(ALICE, TALK, user_entries("a"))
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


VIEWERS = 4
CHANGES = 40


class ViewCases(StoreCases):
    """Test cases for views: the head (version), the live checkpoint and documents of some kinds, read at one moment."""

    @case
    async def test_a_view_of_nothing_is_empty(self, trial: Trial) -> None:
        assert await trial.store.view(ALICE, TALK, ["note"]) == View()

    @case
    async def test_a_view_is_what_each_method_returns(self, trial: Trial) -> None:
        store = trial.store
        await store.append(ALICE, TALK, user_entries("a", "b"))
        await store.add_checkpoint(ALICE, TALK, checkpoint("s1", 1))
        newest = await store.add_checkpoint(ALICE, TALK, checkpoint("s2", 2, previous="s1"))
        for kind, key in (("note", "b"), ("note", "a"), ("会话", "键"), ("state", "x"), ("n", "y")):
            await store.put_document(
                ALICE, TALK, Document(kind, key, key.encode(), 0, text="文本 text")
            )
        found = await store.view(ALICE, TALK, ["会话", "note", "absent", "note"])
        assert found.head == await store.head(ALICE, TALK)
        assert found.checkpoint == newest
        expected = [
            *await store.documents(ALICE, TALK, "note"),
            *await store.documents(ALICE, TALK, "会话"),
        ]
        assert list(found.documents) == expected
        assert [each.key for each in expected] == ["a", "b", "键"]
        assert (await store.view(ALICE, TALK, [])).documents == ()
        assert await store.view(BOB, TALK, ["note"]) == View()

    @case
    async def test_a_view_has_more_documents_than_a_page(self, trial: Trial) -> None:
        keys = [f"{number:04}" for number in range(1050)]
        documents = [replace(document(key), version=1) for key in keys]
        opening = ConversationOpening(TALK, created=1, updated=2)
        await trial.store.restore(ALICE, [opening, *documents])
        found = await trial.store.view(ALICE, TALK, ["note"])
        assert list(found.documents) == documents

    @case
    async def test_a_deleted_conversation_has_a_view_without_content(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a"))
        await trial.store.put_document(ALICE, TALK, document("key"))
        await trial.store.delete(ALICE, TALK)
        assert await trial.store.view(ALICE, TALK, ["note"]) == View(
            await trial.store.head(ALICE, TALK)
        )

    @case
    async def test_a_view_is_of_one_moment(self, trial: Trial) -> None:
        """Every change writes its generation into a document, so a view that mixes two moments is detected."""
        store = trial.store

        async def change() -> None:
            for _ in range(CHANGES):
                generation = (await store.head(ALICE, TALK)).generation
                body = str(generation + 1).encode()
                key = "even" if generation % 2 else "odd"
                await store.put_document(ALICE, TALK, document(key, body))

        async def look() -> None:
            for _ in range(CHANGES):
                view = await store.view(ALICE, TALK, ["note"])
                newest = max((int(each.body) for each in view.documents), default=0)
                assert newest == view.head.generation

        assert await trial.together([*[look] * VIEWERS, change]) == [None] * (VIEWERS + 1)
