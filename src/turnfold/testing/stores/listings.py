"""Test cases for listings: everything that exists, page by page and in the same order on every store."""

from __future__ import annotations

import pytest

from turnfold.errors import InvalidOption
from turnfold.stores import Head
from turnfold.testing.stores.case_runner import StoreCases, Trial, case
from turnfold.testing.stores.sample_values import (
    ALICE,
    BOB,
    TALK,
    VERBS,
    WRITING_VERBS,
    checkpoint,
    document,
    user_entries,
)

__all__ = (
    "DocumentListCases",
    "ListingCases",
)


# ruff: noqa: D102, S101 (cases are named by sentences, and consist of asserts)


READING_VERBS = sorted(set(VERBS) - set(WRITING_VERBS) - {"delete"})


async def _names(trial: Trial, *, after: str = "", limit: int = 100) -> list[str]:
    infos = await trial.store.conversations(ALICE, after=after, limit=limit)
    return [info.conversation for info in infos]


class ListingCases(StoreCases):
    """Test cases for listing the conversations of a tenant, page by page."""

    @case
    async def test_there_are_none_at_first(self, trial: Trial) -> None:
        assert await trial.store.conversations(ALICE) == []

    @case
    async def test_names_are_in_code_point_order(self, trial: Trial) -> None:
        names = ["b", "a", "B", "10", "9", "é", "e\u0301", "z", "中", "\uff5e", "😀", "a b", "a_b"]
        for name in names:
            await trial.store.append(ALICE, name, user_entries("x"))
        assert await _names(trial) == sorted(names)

    @pytest.mark.parametrize(
        ("after", "limit", "expected"),
        [
            ("", 100, "abcde"),
            ("", 2, "ab"),
            ("b", 100, "cde"),
            ("b", 2, "cd"),
            ("bb", 1, "c"),
            ("e", 10, ""),
            ("z", 10, ""),
            ("", 0, ""),
            ("A", 1, "a"),
        ],
    )
    @case
    async def test_a_page_is_what_comes_after_a_name(
        self, trial: Trial, after: str, limit: int, expected: str
    ) -> None:
        for name in "cabed":
            await trial.store.append(ALICE, name, user_entries("x"))
        assert await _names(trial, after=after, limit=limit) == list(expected)

    @pytest.mark.parametrize("limit", [-1, 1 << 63])
    @case
    async def test_a_listing_without_possible_length_is_refused(
        self, trial: Trial, limit: int
    ) -> None:
        await trial.store.append(ALICE, TALK, user_entries("x"))
        with pytest.raises(InvalidOption):
            await trial.store.conversations(ALICE, limit=limit)

    @case
    async def test_pages_show_every_conversation_once(self, trial: Trial) -> None:
        names = [f"talk {number * 37 % 61}" for number in range(30)]
        for name in names:
            await trial.store.append(ALICE, name, user_entries("x"))
        shown: list[str] = []
        while page := await _names(trial, after=shown[-1] if shown else "", limit=7):
            shown += page
        assert shown == sorted(names)

    @case
    async def test_a_listing_is_limited_to_a_hundred_unless_told(self, trial: Trial) -> None:
        for number in range(103):
            await trial.store.append(ALICE, f"{number:03}", user_entries("x"))
        assert await _names(trial) == [f"{number:03}" for number in range(100)]
        assert len(await _names(trial, limit=1000)) == 103

    @case
    async def test_a_line_holds_the_head(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a", "b"))
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s", 1))
        [info] = await trial.store.conversations(ALICE)
        assert info.head == await trial.store.head(ALICE, TALK)

    @pytest.mark.parametrize("verb", sorted(WRITING_VERBS))
    @case
    async def test_every_change_moves_the_time_of_change_alone(
        self, trial: Trial, verb: str
    ) -> None:
        await trial.store.append(ALICE, TALK, user_entries("a"))
        await trial.store.put_document(ALICE, TALK, document("key"))
        [before] = await trial.store.conversations(ALICE)
        await WRITING_VERBS[verb](trial.store, ALICE, TALK)
        [after] = await trial.store.conversations(ALICE)
        assert before.created <= before.updated < after.updated
        assert after.created == before.created

    @pytest.mark.parametrize("verb", READING_VERBS)
    @case
    async def test_asking_for_an_unknown_conversation_does_not_make_it(
        self, trial: Trial, verb: str
    ) -> None:
        await VERBS[verb](trial.store, ALICE, TALK)
        assert await trial.store.conversations(ALICE) == []
        assert await trial.store.head(ALICE, TALK) == Head()

    @case
    async def test_only_the_scope_is_listed(self, trial: Trial) -> None:
        await trial.store.append(BOB, "his", user_entries("x"))
        await trial.store.append(ALICE, "hers", user_entries("x"))
        assert await _names(trial) == ["hers"]


class DocumentListCases(StoreCases):
    """Test cases for listing the documents of a kind, page by page."""

    @case
    async def test_keys_are_in_code_point_order(self, trial: Trial) -> None:
        keys = ["b", "a", "B", "10", "9", "é", "e\u0301", "z", "中", "\uff5e", "😀", "a b", "a_b"]
        for key in keys:
            await trial.store.put_document(ALICE, TALK, document(key))
        assert [each.key for each in await trial.store.documents(ALICE, TALK, "note")] == sorted(
            keys
        )

    @case
    async def test_a_listing_holds_whole_documents_of_one_kind(self, trial: Trial) -> None:
        stored = [
            await trial.store.put_document(ALICE, TALK, document(key, key.encode()))
            for key in ("a", "b")
        ]
        await trial.store.put_document(ALICE, TALK, document("c", kind="state"))
        written = [each.document for each in stored]
        assert await trial.store.documents(ALICE, TALK, "note") == written
        assert await trial.store.documents(ALICE, TALK, "nothing") == []
        assert await trial.store.documents(ALICE, "unknown", "note") == []

    @pytest.mark.parametrize(
        ("after", "limit", "expected"),
        [
            ("", 1000, "abcde"),
            ("", 2, "ab"),
            ("b", 1000, "cde"),
            ("b", 2, "cd"),
            ("bb", 1, "c"),
            ("e", 10, ""),
            ("z", 10, ""),
            ("", 0, ""),
            ("A", 1, "a"),
        ],
    )
    @case
    async def test_a_page_is_what_comes_after_a_key(
        self, trial: Trial, after: str, limit: int, expected: str
    ) -> None:
        for key in "cabed":
            await trial.store.put_document(ALICE, TALK, document(key))
        page = await trial.store.documents(ALICE, TALK, "note", after=after, limit=limit)
        assert [each.key for each in page] == list(expected)

    @pytest.mark.parametrize("limit", [-1, 1 << 63])
    @case
    async def test_a_document_list_without_possible_length_is_refused(
        self, trial: Trial, limit: int
    ) -> None:
        await trial.store.put_document(ALICE, TALK, document("a"))
        with pytest.raises(InvalidOption):
            await trial.store.documents(ALICE, TALK, "note", limit=limit)

    @case
    async def test_pages_show_every_document_once(self, trial: Trial) -> None:
        keys = [f"key {number * 37 % 61}" for number in range(40)]
        for key in keys:
            await trial.store.put_document(ALICE, TALK, document(key))
        shown: list[str] = []
        after = ""
        while page := await trial.store.documents(ALICE, TALK, "note", after=after, limit=7):
            shown += [each.key for each in page]
            after = shown[-1]
        assert shown == sorted(keys)
