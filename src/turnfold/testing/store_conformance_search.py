"""Search: the same words find the same entries on every backend and in any script."""

# ruff: noqa: D102, S101 (the name of a case is its sentence, and assert is what a case is made of)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnfold.errors import InvalidOption
from turnfold.recall import terms_of
from turnfold.records import NewEntry, assistant, tool
from turnfold.stores import Hit
from turnfold.testing.store_conformance_strategies import settings_for, storable_texts
from turnfold.testing.store_conformance_trial import StoreCases, Trial, case
from turnfold.testing.store_conformance_values import ALICE, BOB, TALK, named, said

__all__ = ("SearchCases", "SearchScopeCases")


def _places(hits: list[Hit]) -> list[tuple[str, int]]:
    return [(hit.conversation, hit.seq) for hit in hits]


async def _found(trial: Trial, query: str, *logged: str) -> list[int]:
    await trial.store.append(ALICE, TALK, said(*logged))
    return sorted(hit.seq for hit in await trial.store.search(ALICE, [query]))


class SearchCases(StoreCases):
    """Which entries are found, and in which order."""

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
            ALICE, TALK, said("alpha", "beta", "gamma", "alpha beta", "alpha beta gamma")
        )
        hits = await trial.store.search(ALICE, ["gamma", "alpha"])
        assert {hit.seq for hit in hits} == {1, 3, 4, 5}
        assert hits[0].seq == 5
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    @case
    async def test_a_rare_word_weighs_more_than_a_common_one(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said(*["common word"] * 8, "rare word"))
        hits = await trial.store.search(ALICE, ["common rare"])
        assert hits[0].seq == 9

    @case
    async def test_of_equals_the_newest_is_first(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said("same", "same", "same"))
        assert [hit.seq for hit in await trial.store.search(ALICE, ["same"])] == [3, 2, 1]

    @pytest.mark.parametrize("limit", [0, 1, 2, 5, 6, 1000])
    @case
    async def test_a_limit_keeps_the_best(self, trial: Trial, limit: int) -> None:
        await trial.store.append(ALICE, TALK, said(*("alpha " * n + "x" for n in range(1, 6))))
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
        await trial.store.append(ALICE, TALK, said("alpha"))
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
        await trial.store.append(ALICE, TALK, named("alpha", "beta"))
        hits = await trial.store.search(ALICE, ["alpha"])
        await trial.store.append(ALICE, TALK, named("alpha", "beta"))
        assert await trial.store.search(ALICE, ["alpha"]) == hits

    def test_any_text_is_found_by_exactly_its_terms(self, trial: Trial) -> None:

        @settings_for(self.examples)
        @given(logged=st.lists(storable_texts, min_size=1, max_size=4), query=storable_texts)
        def check(logged: list[str], query: str) -> None:
            name = trial.fresh("talk")
            trial.run(trial.store.append(ALICE, name, said(*logged)))
            for asked in (query, *logged):
                wanted = set(terms_of(asked))
                hits = trial.run(trial.store.search(ALICE, [asked], conversation=name))
                assert {hit.seq for hit in hits} == {
                    seq for seq, text in enumerate(logged, 1) if wanted & set(terms_of(text))
                }

        check()


class SearchScopeCases(StoreCases):
    """Where a search looks."""

    @case
    async def test_a_search_covers_all_conversations_of_the_scope(self, trial: Trial) -> None:
        for name in ("one", "two"):
            await trial.store.append(ALICE, name, said("alpha", "beta"))
        await trial.store.append(BOB, "one", said("alpha"))
        hits = await trial.store.search(ALICE, ["alpha"])
        assert sorted(_places(hits)) == [("one", 1), ("two", 1)]

    @case
    async def test_a_search_may_name_one_conversation(self, trial: Trial) -> None:
        for name in ("one", "two"):
            await trial.store.append(ALICE, name, said("alpha", "beta"))
        hits = await trial.store.search(ALICE, ["alpha"], conversation="two")
        assert _places(hits) == [("two", 1)]
        assert await trial.store.search(ALICE, ["alpha"], conversation="unknown") == []

    @case
    async def test_the_best_of_a_crowd_is_found_in_a_quiet_conversation(self, trial: Trial) -> None:
        await trial.store.append(ALICE, "quiet", said("alpha"))
        await trial.store.append(ALICE, "crowd", said(*["alpha alpha"] * 300))
        hits = await trial.store.search(ALICE, ["alpha"], conversation="quiet", limit=1)
        assert _places(hits) == [("quiet", 1)]

    @case
    async def test_an_entry_is_found_at_once_and_after_reopening(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said("alpha", "北京"))
        hits = await trial.store.search(ALICE, ["alpha 北京"])
        assert {hit.seq for hit in hits} == {1, 2}
        store = await trial.reopen()
        assert await store.search(ALICE, ["alpha 北京"]) == hits
