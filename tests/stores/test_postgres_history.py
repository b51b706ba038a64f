"""Crowds in several processes write to the same conversations of a database, without and with a cache in front.

There is one order, and everybody sees it; what is judged, and how, is said in history.py. Through the cache every
process reads by `tail`, which the cache answers: no answer may be older than what anybody was told before.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

from tests.sizes import POSTGRES_APPENDS, POSTGRES_APPENDS_CACHED
from tests.stores.history import WRITERS, History, crowded
from tests.stores.redis_server import shared_url
from tests.stores.servers import PostgresPlaces, postgres_places
from tests.stores.writers import ALICE
from turnfold.runtime import drive
from turnfold.stores.postgres.store import PostgresStore

__all__ = ("postgres_places",)


@pytest.fixture
def url(postgres_places: PostgresPlaces, tmp_path: Path) -> Iterator[str]:
    yield postgres_places.url(tmp_path)
    postgres_places.sweep()


def judged(url: str, *words: str, appends: int) -> list[History]:
    """What the crowds noted, with what the conversations hold in the end."""
    notes = crowded("postgres_writers.py", url, *words, appends=appends)
    store = PostgresStore(url, blocking=True)
    for talk, history in notes.items():
        entries = drive(store.read(ALICE, talk, limit=1_000_000))
        history.truth = [(entry.seq, entry.message.text) for entry in entries]
    drive(store.close())
    assert sum(len(history.appends) for history in notes.values()) == WRITERS * appends
    assert sum(len(history.reads) for history in notes.values()) > WRITERS * appends // 10
    return list(notes.values())


@pytest.mark.parametrize("appends", POSTGRES_APPENDS.values())
def test_two_hundred_writers_in_four_processes_agree_on_one_order(url: str, appends: int) -> None:
    assert [history.anomalies() for history in judged(url, appends=appends)] == [{}] * 5


@pytest.mark.parametrize("appends", POSTGRES_APPENDS_CACHED.values())
def test_so_do_they_when_everybody_reads_through_a_cache(url: str, appends: int) -> None:
    histories = judged(url, shared_url(), appends=appends)
    assert [history.anomalies() for history in histories] == [{}] * 5


@pytest.mark.slow  # shows that the tests above can fail
def test_without_the_fence_the_cache_gives_answers_that_are_too_old(url: str) -> None:
    histories = judged(url, shared_url(), "unfenced", appends=15)
    assert sum(history.anomalies()["stale"] for history in histories) > 0
