"""Words of real Chinese dialogues are found where they stand, on either database."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

from bench.conversations import data_folder
from bench.probes import found_share, joined, probes
from tests.stores.servers import PostgresPlaces, postgres_places
from turnfold.records import NewEntry
from turnfold.runtime import drive
from turnfold.stores import Scope, SqliteStore, Store
from turnfold.stores.postgres.store import PostgresStore
from turnfold.text import search_terms

__all__ = ("postgres_places",)

pytestmark = pytest.mark.skipif(
    not (data_folder() / "conversations").is_dir(),
    reason="needs real conversations: set TURNFOLD_DATA to their folder",
)
SCOPE = Scope("probes")
SETS = ("cmtmedqa_zh", "kdconv_zh")
Find = Callable[[str], list[int]]


def filled(store: Store, name: str, entries: int) -> tuple[Find, list[str]]:
    """A set's dialogues in a store: how to search them, and their texts."""
    messages = joined(name).messages[:entries]
    drive(store.append(SCOPE, name, [NewEntry(message) for message in messages]))

    def find(word: str) -> list[int]:
        hits = drive(store.search(SCOPE, search_terms(word), conversation=name, limit=5))
        return [hit.seq for hit in hits]

    return find, [message.text for message in messages]


def by_spaces(texts: list[str], word: str) -> list[int]:
    return [seq for seq, text in enumerate(texts, 1) if word in text.split()]


@pytest.mark.parametrize("name", SETS)
def test_words_are_found_on_sqlite(name: str) -> None:
    store = SqliteStore(blocking=True)
    find, texts = filled(store, name, 1_000)
    drawn = list(chain.from_iterable(probes(texts, many=10).values()))
    assert found_share(drawn, find) >= 0.95
    # A search by a single character does not pass, and neither does one that knows words by spaces.
    assert found_share(drawn, lambda word: find(word[0])) < 0.7
    assert found_share(drawn, lambda word: by_spaces(texts, word)) < 0.3
    drive(store.close())


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SETS)
def test_words_are_found_alike_on_both_databases(
    name: str, tmp_path: Path, postgres_places: PostgresPlaces
) -> None:
    stores = (
        PostgresStore(postgres_places.url(tmp_path), blocking=True),
        SqliteStore(blocking=True),
    )
    finders = [filled(store, name, 10_000) for store in stores]
    drawn = list(chain.from_iterable(probes(finders[0][1], many=50).values()))
    assert [finders[0][0](each.word) for each in drawn] == [
        finders[1][0](each.word) for each in drawn
    ]
    assert found_share(drawn, finders[0][0]) >= 0.95
    for store in stores:
        drive(store.close())
    postgres_places.sweep()
