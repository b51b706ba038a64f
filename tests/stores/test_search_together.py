"""Chinese questions: what stands as it was asked comes first, and single characters bring in no noise."""

from __future__ import annotations

import pytest

from turnfold.records import NewEntry, user
from turnfold.runtime import drive
from turnfold.search import Hit, ranking
from turnfold.stores import MemoryStore, Scope, SqliteStore, Store
from turnfold.stores import memory_store as memory_search
from turnfold.stores.sqlite import search as sqlite_search
from turnfold.text import search_terms

SCOPE = Scope("together")
STORES = {"memory": MemoryStore, "sqlite": lambda: SqliteStore(blocking=True)}
ASKED = {
    "中医科": ["可以到中医科看", "中医和西医科学，中医和外国医科，中医"],
    "X线": ["拍一张X线", "X光，X光，红外线，X光"],
    "CT检查": ["建议做CT检查", "检查过CT，检查，CT"],
}


def found(store: Store, said: list[str], question: str) -> list[Hit]:
    drive(store.append(SCOPE, "talk", [NewEntry(user(text)) for text in said]))
    hits = drive(store.search(SCOPE, search_terms(question), limit=100))
    drive(store.close())
    return hits


@pytest.mark.parametrize("made", STORES.values(), ids=list(STORES))
@pytest.mark.parametrize("question", ASKED)
def test_what_stands_together_comes_first(made: type[MemoryStore], question: str) -> None:
    filler = ["医生", "科目", "线", "检"] * 5
    assert found(made(), [*ASKED[question], *filler], question)[0].seq == 1


@pytest.mark.parametrize("question", ASKED)
def test_without_that_it_would_not(question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "_TOGETHER", 0.0)
    filler = ["医生", "科目", "线", "检"] * 5
    assert found(MemoryStore(), [*ASKED[question], *filler], question)[0].seq == 2


@pytest.mark.parametrize("made", STORES.values(), ids=list(STORES))
def test_of_many_places_those_with_one_character_are_left_out(
    made: type[MemoryStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (ranking, memory_search, sqlite_search):
        monkeypatch.setattr(module, "MOST_CANDIDATES", 12)
    few = found(made(), ["灯塔", "灯", "塔"], "灯塔")
    assert {hit.seq for hit in few} == {1, 2, 3}
    many = found(made(), ["灯塔", *["灯", "塔"] * 10], "灯塔")
    assert [hit.seq for hit in many] == [1]
    none = found(made(), ["灯", "塔"] * 10, "灯塔")
    assert len(none) == 12


def test_a_character_chooses_where_no_pair_of_it_does() -> None:
    holding = {"灯": 900, "塔": 500, "在": 999, "灯塔": 3, "塔在": 0, "x": 40, "ct": 7}
    chosen = ranking.choosing_terms(holding, total=1_000)
    assert set(chosen.rarities) == {"灯塔", "在", "x", "ct"}
    holding = dict.fromkeys(holding, 0) | {"灯": 300, "塔": 90, "灯塔": 3}
    assert set(ranking.choosing_terms(holding, total=1_000).rarities) == {"灯", "塔", "灯塔"}
