"""Leaving out the long lists of common words changes no answer but the one it is said to change."""

from __future__ import annotations

import pytest

from turnfold.records import NewEntry, user
from turnfold.runtime import drive
from turnfold.search import Hit, ranking
from turnfold.stores import MemoryStore, Scope, SqliteStore, Store
from turnfold.stores import memory_store as memory_search
from turnfold.stores.sqlite import search as sqlite_search

MOST = 5
SCOPE = Scope("shortcut")
LOGS = {
    "two common words outweigh a rare one": ["rare"] * 5 + ["common usual"] * 6,
    "the rare word is too rare to fill the list": ["rare"] * 3 + ["common"] * 9,
    "a rare word leads": ["rare common", *["rare"] * 5, *["common"] * 40],
    "a rare word and what stands beside it": [*["rare"] * 6, *["rare usual common"] * 3]
    + ["common"] * 60,
    "the best is the oldest": ["common usual rare", *["common", "usual"] * 40],
    "all of them are common": ["common usual rare"] * 3 + ["common usual", "rare"] * 30,
}


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "MOST_WALKED", 8)
    for module in (memory_search, sqlite_search):
        monkeypatch.setattr(module, "MOST_CANDIDATES", MOST)


def found(store: Store, log: list[str], *, limit: int = 100) -> list[Hit]:
    drive(store.append(SCOPE, "talk", [NewEntry(user(text)) for text in log]))
    hits = drive(store.search(SCOPE, ["rare", "common", "usual"], limit=limit))
    drive(store.close())
    return hits


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)
def test_the_same_entries_are_weighed(log: list[str]) -> None:
    hits = found(SqliteStore(blocking=True), log)
    assert hits == found(MemoryStore(), log)
    assert len(hits) == MOST


def test_what_holds_every_common_word_is_found_however_old() -> None:
    log = LOGS["the best is the oldest"]
    assert found(SqliteStore(blocking=True), log, limit=1)[0].seq == 1


def test_a_search_that_looks_at_one_list_alone_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sqlite_search, "combinations", lambda terms, many: [(term,) for term in terms][: 2 - many]
    )
    log = ["common usual", *["common"] * 40, *["usual"] * 20]
    assert found(SqliteStore(blocking=True), log) != found(MemoryStore(), log)


def test_many_common_words_make_no_endless_question() -> None:
    words = {f"word{number}": 9_000 + number for number in range(400)}
    choosing = ranking.choosing_terms(words, total=1_000_000)
    assert len(choosing.walked) + len(choosing.common) <= 1 + ranking.COMMON_CHOOSING
