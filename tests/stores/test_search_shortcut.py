"""Leaving out the long lists of common words changes no answer."""

from __future__ import annotations

import pytest

from turnfold.records import NewEntry, user
from turnfold.stores import Hit, MemoryStore, Scope, Store, memory_store, sqlite_index
from turnfold.stores.sqlite_store import SqliteStore
from turnfold.testing import drive

MOST = 5
SCOPE = Scope("shortcut")
LOGS = {
    "two common words outweigh a rare one": ["rare"] * 5 + ["common usual"] * 6,
    "the rare word is too rare to fill the list": ["rare"] * 3 + ["common"] * 9,
    "a rare word leads": ["rare common", *["rare"] * 5, *["common"] * 40],
    "a rare word and what stands beside it": [*["rare"] * 6, *["rare usual common"] * 3]
    + ["common"] * 60,
}


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (memory_store, sqlite_index):
        monkeypatch.setattr(module, "MOST_CANDIDATES", MOST)


def found(store: Store, log: list[str]) -> list[Hit]:
    drive(store.append(SCOPE, "talk", [NewEntry(user(text)) for text in log]))
    hits = drive(store.search(SCOPE, ["rare", "common", "usual"], limit=100))
    drive(store.close())
    return hits


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)
def test_the_same_entries_are_weighed(log: list[str]) -> None:
    hits = found(SqliteStore(blocking=True), log)
    assert hits == found(MemoryStore(), log)
    assert len(hits) == MOST


def test_many_words_make_no_endless_question() -> None:
    words = [f"word{number}" for number in range(400)]
    rarities = {word: 1 << (400 - at) for at, word in enumerate(words)}
    holding = {word: MOST if at >= 200 else 1 for at, word in enumerate(words)}
    asked = sqlite_index._asked("t", holding, rarities)
    assert len(asked) < 400 * 500
