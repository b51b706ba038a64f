"""Test cases for search: the same words find the same entries, checkpoints and documents on every backend.

Filters have the same effect on every backend, and deleted content is not found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.records import Document, NewEntry, assistant, system, tool, user
from turnfold.search import CHECKPOINT, ENTRY, Hit, Within
from turnfold.testing.stores.case_runner import StoreCases, Trial, case
from turnfold.testing.stores.random_operations import settings_for, storable_texts
from turnfold.testing.stores.sample_values import (
    ALICE,
    BOB,
    HOSTILE_NAMES,
    HOSTILE_TEXTS,
    TALK,
    checkpoint,
    entries_with_ids,
    user_entries,
)
from turnfold.text import terms_of

__all__ = (
    "BesideCases",
    "SearchCases",
    "SearchScopeCases",
    "WithinCases",
)


# ruff: noqa: D102, S101 (cases are named by sentences, and consist of asserts)


def _places(hits: list[Hit]) -> list[tuple[str, int]]:
    return [(hit.conversation, hit.seq) for hit in hits]


async def _found(trial: Trial, query: str, *logged: str) -> list[int]:
    await trial.store.append(ALICE, TALK, user_entries(*logged))
    return sorted(hit.seq for hit in await trial.store.search(ALICE, [query]))


class SearchCases(StoreCases):
    """Test cases for the entries that are found, and their order."""

    @pytest.mark.parametrize(
        ("query", "text"),
        [
            ("budget", "The budget is tight."),
            ("BUDGET", "the budget"),
            ("budget", "The BUDGET"),
            ("budget", "ｂｕｄｇｅｔ full width"),
            ("ＢＵＤＧＥＴ", "budget"),
            ("straße", "STRASSE"),
            ("café", "cafe\u0301"),
            ("4711", "order A-4711/b"),
            ("don't", "don’t, you don't"),
            ("src/app/main.py", "see main.py"),
            ("北京", "我住在北京市。"),
            ("机器人", "这个机器人很好"),
            ("人工智能", "他研究人工智能多年"),
            ("京", "北京"),
            ("GPT模型", "我们用GPT模型回答"),
            ("模型", "用GPT-4模型"),
            ("gpt", "我们用GPT模型"),
            ("東京", "東京タワー"),
            ("タワー", "東京ﾀﾜｰ"),
            ("한국", "한국어 문장"),
            ("مرحبا", "قال مرحبا"),
            ("привет", "Привет, мир"),
            ("٤٢", "الرقم ٤٢"),
            ("\u19b0\u19b1", "a \u19b0\u19b1 b"),
            ("a\u19b0b", "A\u19b0B"),
            ("𞤀𞤁", "𞤢𞤣"),
            ("𰀀", "𰀀"),
            ("x" * 70, "y " + "x" * 70),
        ],
    )
    @case
    async def test_a_text_is_found_by_its_words(self, trial: Trial, query: str, text: str) -> None:
        assert await _found(trial, query, "decoy 诱饵", text, "other") == [2]

    @pytest.mark.parametrize(
        ("query", "text"),
        [
            ("cat", "concatenate"),
            ("cafe", "café"),
            ("上海", "北京市"),
            ("AND", "alpha beta"),
            ("", "alpha"),
            ("。，！？", "你好。再见！"),
            ("a", "a\u19b0b"),
        ],
    )
    @case
    async def test_a_text_is_not_found_by_other_words(
        self, trial: Trial, query: str, text: str
    ) -> None:
        assert await _found(trial, query, text) == []

    @case
    async def test_any_of_the_terms_is_enough_and_more_are_better(self, trial: Trial) -> None:
        await trial.store.append(
            ALICE, TALK, user_entries("alpha", "beta", "gamma", "alpha beta", "alpha beta gamma")
        )
        hits = await trial.store.search(ALICE, ["gamma", "alpha"])
        assert {hit.seq for hit in hits} == {1, 3, 4, 5}
        assert hits[0].seq == 5
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    @case
    async def test_a_rare_word_weighs_more_than_a_common_one(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries(*["common word"] * 8, "rare word"))
        hits = await trial.store.search(ALICE, ["common rare"])
        assert hits[0].seq == 9

    @case
    async def test_of_equals_the_newest_is_first(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("same", "same", "same"))
        assert [hit.seq for hit in await trial.store.search(ALICE, ["same"])] == [3, 2, 1]

    @pytest.mark.parametrize("limit", [0, 1, 2, 5, 6, 1000])
    @case
    async def test_a_limit_keeps_the_best(self, trial: Trial, limit: int) -> None:
        await trial.store.append(
            ALICE, TALK, user_entries(*("alpha " * n + "x" for n in range(1, 6)))
        )
        best = await trial.store.search(ALICE, ["alpha"])
        assert await trial.store.search(ALICE, ["alpha"], limit=limit) == best[:limit]

    @pytest.mark.parametrize("limit", [-1, 1 << 63])
    @case
    async def test_a_search_without_possible_length_is_refused(
        self, trial: Trial, limit: int
    ) -> None:
        with pytest.raises(InvalidOption):
            await trial.store.search(ALICE, ["alpha"], limit=limit)

    @case
    async def test_no_terms_find_nothing(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("alpha"))
        assert await trial.store.search(ALICE, []) == []

    @case
    async def test_what_a_tool_answered_is_found(self, trial: Trial) -> None:
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        await trial.store.append(
            ALICE,
            TALK,
            [
                NewEntry(assistant(tool_calls=[call])),
                NewEntry(tool("temperature 21 度", tool_call_id="c")),
            ],
        )
        assert _places(await trial.store.search(ALICE, ["temperature"])) == [(TALK, 2)]

    @case
    async def test_a_retry_does_not_index_twice(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, entries_with_ids("alpha", "beta"))
        hits = await trial.store.search(ALICE, ["alpha"])
        await trial.store.append(ALICE, TALK, entries_with_ids("alpha", "beta"))
        assert await trial.store.search(ALICE, ["alpha"]) == hits

    def test_any_text_is_found_by_exactly_its_terms(self, trial: Trial) -> None:

        @settings_for(self.examples)
        @given(logged=st.lists(storable_texts, min_size=1, max_size=4), query=storable_texts)
        def check(logged: list[str], query: str) -> None:
            name = trial.fresh("talk")
            trial.run(trial.store.append(ALICE, name, user_entries(*logged)))
            for text_query in (query, *logged):
                wanted = set(terms_of(text_query))
                hits = trial.run(trial.store.search(ALICE, [text_query], conversation=name))
                assert {hit.seq for hit in hits} == {
                    seq for seq, text in enumerate(logged, 1) if wanted & set(terms_of(text))
                }

        check()


class SearchScopeCases(StoreCases):
    """Test cases for the scope of a search: all conversations of a tenant, or one."""

    @case
    async def test_a_search_covers_all_conversations_of_the_scope(self, trial: Trial) -> None:
        for name in ("one", "two"):
            await trial.store.append(ALICE, name, user_entries("alpha", "beta"))
        await trial.store.append(BOB, "one", user_entries("alpha"))
        hits = await trial.store.search(ALICE, ["alpha"])
        assert sorted(_places(hits)) == [("one", 1), ("two", 1)]

    @case
    async def test_a_search_may_name_one_conversation(self, trial: Trial) -> None:
        for name in ("one", "two"):
            await trial.store.append(ALICE, name, user_entries("alpha", "beta"))
        hits = await trial.store.search(ALICE, ["alpha"], conversation="two")
        assert _places(hits) == [("two", 1)]
        assert await trial.store.search(ALICE, ["alpha"], conversation="unknown") == []

    @case
    async def test_the_best_of_a_crowd_is_found_in_a_quiet_conversation(self, trial: Trial) -> None:
        await trial.store.append(ALICE, "quiet", user_entries("alpha"))
        await trial.store.append(ALICE, "crowd", user_entries(*["alpha alpha"] * 300))
        hits = await trial.store.search(ALICE, ["alpha"], conversation="quiet", limit=1)
        assert _places(hits) == [("quiet", 1)]

    @case
    async def test_an_entry_is_found_at_once_and_after_reopening(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("alpha", "北京"))
        hits = await trial.store.search(ALICE, ["alpha 北京"])
        assert {hit.seq for hit in hits} == {1, 2}
        store = await trial.reopen()
        assert await store.search(ALICE, ["alpha 北京"]) == hits


_ANY = Within(kinds=None)


def _call(name: str, call_id: str) -> dict[str, object]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


_LOG = (
    system("alpha rules"),
    user("alpha in src/app/main.py"),
    assistant("alpha", tool_calls=[_call("weather", "c1"), _call("天气", "c2")]),
    tool("alpha sun", tool_call_id="c1"),
    tool("alpha 雨", tool_call_id="c2"),
    user("看docs/说明.md文件 alpha"),
    assistant("alpha, see .\\src\\app\\other.py:7."),
    tool("alpha orphan", tool_call_id="c9"),
    tool("alpha named", tool_call_id="c9", name="clock"),
)

_FILTERS: Mapping[str, tuple[Within, set[int]]] = {
    "one role": (Within(roles=frozenset({"user"})), {2, 6}),
    "two roles": (Within(roles=frozenset({"user", "system"})), {1, 2, 6}),
    "a tool": (Within(tools=frozenset({"weather"})), {3, 4}),
    "a chinese tool": (Within(tools=frozenset({"天气"})), {3, 5}),
    "a named answer": (Within(tools=frozenset({"clock"})), {9}),
    "a tool and a role": (
        Within(tools=frozenset({"weather"}), roles=frozenset({"tool"})),
        {4},
    ),
    "an unknown tool": (Within(tools=frozenset({"nothing"})), set()),
    "a file": (Within(paths=frozenset({"src/app/main.py"})), {2}),
    "a folder": (Within(paths=frozenset({"src/app/"})), {2, 7}),
    "a folder above": (Within(paths=frozenset({"./src"})), {2, 7}),
    "half a name is no folder": (Within(paths=frozenset({"src/ap"})), set()),
    "a path in chinese text": (Within(paths=frozenset({"docs"})), {6}),
    "two paths": (Within(paths=frozenset({"docs", "src/app/other.py"})), {6, 7}),
    "one turn": (Within(turns=(1, 1)), {2, 3, 4, 5}),
    "before the first turn": (Within(turns=(0, 0)), {1}),
    "turns": (Within(turns=(0, 1)), {1, 2, 3, 4, 5}),
    "no such turn": (Within(turns=(7, 9)), set()),
    "since": (Within(since=6), {6, 7, 8, 9}),
    "until": (Within(until=3), {1, 2}),
    "between": (Within(since=2, until=4), {2, 3}),
    "everything": (_ANY, set(range(1, 10))),
}

_IMPOSSIBLE: Mapping[str, Callable[[], Within]] = {
    "an unknown role": lambda: Within(roles=frozenset({"narrator"})),
    "roles that are a text": lambda: Within(roles=cast("frozenset[str]", "user")),
    "an empty tool": lambda: Within(tools=frozenset({""})),
    "a path that is none": lambda: Within(paths=frozenset({"./"})),
    "turns backwards": lambda: Within(turns=(3, 2)),
    "a turn below none": lambda: Within(turns=(-1, 2)),
    "times backwards": lambda: Within(since=5, until=5),
    "a time beyond all": lambda: Within(since=1 << 63),
    "no kind": lambda: Within(kinds=frozenset[str]()),
    "documents of a role": lambda: Within(kinds=frozenset({"note"}), roles=frozenset({"user"})),
}


class WithinCases(StoreCases):
    """Test cases for the filters of a search (`Within`)."""

    @pytest.mark.parametrize("conversation", [None, TALK])
    @case
    async def test_a_filter_leaves_out_the_others(
        self, trial: Trial, conversation: str | None
    ) -> None:
        trial.clock.step = 0
        for at, message in enumerate(_LOG, 1):
            trial.clock.now = at
            await trial.store.append(ALICE, TALK, [NewEntry(message)])
        await trial.store.append(BOB, TALK, [NewEntry(user("alpha src/app/main.py docs"))])
        everything = await trial.store.search(ALICE, ["alpha"], conversation=conversation)
        for name, (within, expected) in _FILTERS.items():
            hits = await trial.store.search(
                ALICE, ["alpha"], conversation=conversation, within=within
            )
            assert hits == [hit for hit in everything if hit.seq in expected], name
            assert len(hits) == len(expected), name

    @pytest.mark.parametrize("name", _IMPOSSIBLE)
    def test_what_nothing_could_pass_is_refused(self, name: str) -> None:
        with pytest.raises(InvalidOption):
            _IMPOSSIBLE[name]()

    @case
    async def test_a_hostile_filter_is_a_value_and_no_syntax(self, trial: Trial) -> None:
        for hostile in HOSTILE_NAMES.values():
            talk = trial.fresh("talk")
            call = assistant("alpha", tool_calls=[_call(hostile, "c1")])
            await trial.store.append(ALICE, talk, [NewEntry(call), *user_entries("alpha")])
            for within, expected in (
                (Within(tools=frozenset({hostile})), [1]),
                (Within(tools=frozenset({f"{hostile}x"})), []),
                (Within(kinds=frozenset({hostile})), []),
            ):
                hits = await trial.store.search(ALICE, ["alpha"], conversation=talk, within=within)
                assert [hit.seq for hit in hits] == expected


def _found_within(hits: list[Hit]) -> set[tuple[str, str, int]]:
    return {(hit.kind, hit.key, hit.seq) for hit in hits}


def _note(text: str, *, key: str = "n", kind: str = "note") -> Document:
    return Document(kind, key, b"body", 0, text=text)


class BesideCases(StoreCases):
    """Test cases for searching checkpoints and documents, which are next to the log: they are found if requested."""

    @case
    async def test_what_stands_beside_the_log_is_found_when_it_is_asked_for(
        self, trial: Trial
    ) -> None:
        await trial.store.append(ALICE, TALK, user_entries("alpha one", "two"))
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s1", 1, text="alpha 摘要"))
        await trial.store.put_document(ALICE, TALK, _note("alpha note"))
        await trial.store.put_document(ALICE, TALK, _note("", key="silent"))
        entry, folded, note = (ENTRY, "", 1), (CHECKPOINT, "s1", 0), ("note", "n", 0)
        for kinds, expected in (
            (None, {entry, folded, note}),
            (frozenset({ENTRY}), {entry}),
            (frozenset({CHECKPOINT}), {folded}),
            (frozenset({"note", ENTRY}), {entry, note}),
            (frozenset({"other"}), set[tuple[str, str, int]]()),
        ):
            hits = await trial.store.search(ALICE, ["alpha"], within=Within(kinds=kinds))
            assert _found_within(hits) == expected
        assert _found_within(await trial.store.search(ALICE, ["摘要"], within=_ANY)) == {folded}
        assert _found_within(await trial.store.search(BOB, ["alpha"], within=_ANY)) == set()

    @case
    async def test_without_asking_nothing_beside_changes_an_answer(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("alpha one", "alpha alpha", "two"))
        hits = await trial.store.search(ALICE, ["alpha two"])
        await trial.store.put_document(ALICE, TALK, _note("alpha " * 20))
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s1", 1, text="alpha"))
        assert await trial.store.search(ALICE, ["alpha two"]) == hits
        assert await trial.store.search(ALICE, ["alpha two"], conversation=TALK) == hits

    @case
    async def test_a_text_comes_back_and_goes_with_its_document(self, trial: Trial) -> None:
        store = trial.store
        await store.put_document(ALICE, TALK, _note("alpha"))
        changed = (await store.put_document(ALICE, TALK, _note("beta 北京"))).document
        assert (changed.text, changed.version) == ("beta 北京", 2)
        assert await store.get_document(ALICE, TALK, "note", "n") == changed
        assert await store.documents(ALICE, TALK, "note") == [changed]
        assert _found_within(await store.search(ALICE, ["alpha"], within=_ANY)) == set()
        assert _found_within(await store.search(ALICE, ["北京"], within=_ANY)) == {("note", "n", 0)}
        await store.put_document(ALICE, TALK, _note(""))
        assert _found_within(await store.search(ALICE, ["北京"], within=_ANY)) == set()
        await store.put_document(ALICE, TALK, _note("gamma"))
        await store.drop_document(ALICE, TALK, "note", "n")
        assert _found_within(await store.search(ALICE, ["gamma"], within=_ANY)) == set()

    @case
    async def test_what_is_deleted_is_found_no_more(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, user_entries("alpha"))
        await trial.store.append(ALICE, "kept", user_entries("alpha"))
        await trial.store.put_document(ALICE, TALK, _note("alpha"))
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s1", 1, text="alpha"))
        assert len(await trial.store.search(ALICE, ["alpha"], within=_ANY)) == 4
        await trial.store.delete(ALICE, TALK)
        [left] = await trial.store.search(ALICE, ["alpha"], within=_ANY)
        assert left.conversation == "kept"

    @case
    async def test_any_text_a_document_is_found_by_comes_back_exactly(self, trial: Trial) -> None:
        written = {key: f"{text} alpha" for key, text in HOSTILE_TEXTS.items()}
        for key, text in written.items():
            await trial.store.put_document(ALICE, TALK, _note(text, key=key))
        found = await trial.store.documents(ALICE, TALK, "note")
        assert {each.key: each.text for each in found} == written
        hits = await trial.store.search(ALICE, ["alpha"], limit=100, within=_ANY)
        assert {hit.key for hit in hits} == set(written)

    @case
    async def test_a_text_no_backend_could_hold_is_refused(self, trial: Trial) -> None:
        with pytest.raises(InvalidRecord):
            await trial.store.put_document(ALICE, TALK, _note("a\ud800"))
        with pytest.raises(InvalidOption):
            await trial.store.put_document(ALICE, TALK, _note("a", kind=CHECKPOINT))
        put = await trial.store.put_document(ALICE, TALK, _note("", kind=CHECKPOINT))
        stored = put.document
        assert stored == replace(_note("", kind=CHECKPOINT), version=1, created=stored.created)
