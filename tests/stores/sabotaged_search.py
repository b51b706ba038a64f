"""Stores whose search has one fault each, and the cases of the conformance suite that must notice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.stores.sabotaged import Sabotaged
from turnfold.search import Hit, Within
from turnfold.stores import MemoryStore, Written


class TestRanksByWhatOthersWrote(Sabotaged):
    class Broken(MemoryStore):
        async def search(self, *values: Any, **options: Any) -> list[Hit]:
            hits = await super().search(*values, **options)
            everything = sum(held.head.seq for held in self._conversations.values())
            return [replace(hit, score=hit.score * everything) for hit in hits]

    bitten_by = ("test_the_rank_of_a_hit_does_not_tell_what_others_wrote",)


class TestSearchesWithoutFilters(Sabotaged):
    class Broken(MemoryStore):
        async def search(self, *values: Any, **options: Any) -> list[Hit]:
            kinds = options.pop("within", Within()).kinds
            return await super().search(*values, **options, within=Within(kinds=kinds))

    bitten_by = ("test_a_filter_leaves_out_the_others[None]",)


class TestCountsWhatStandsBeside(Sabotaged):
    class Broken(MemoryStore):
        async def search(self, *values: Any, **options: Any) -> list[Hit]:
            kinds = options.pop("within", Within()).kinds
            hits = await super().search(*values, **options, within=Within(kinds=None))
            return [hit for hit in hits if kinds is None or hit.kind in kinds]

    bitten_by = ("test_without_asking_nothing_beside_changes_an_answer",)


class TestForgetsWhatADocumentIsFoundBy(Sabotaged):
    class Broken(MemoryStore):
        async def put_document(self, *values: Any, **options: Any) -> Written:
            scope, name, document = values
            return await super().put_document(scope, name, replace(document, text=""), **options)

    bitten_by = (
        "test_a_text_comes_back_and_goes_with_its_document",
        "test_any_text_a_document_is_found_by_comes_back_exactly",
    )
