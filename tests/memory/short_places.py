"""Where short-term memories live in tests: SQLite, and PostgreSQL with Redis in front of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from turnfold import ShortMemory
from turnfold.memories import AsyncShortMemory

__all__ = ("Place", "as_url", "opener", "short", "talk")


class Place:
    """One store, opened as often as a test has processes."""

    def __init__(self, url: str, cache: str | None) -> None:
        self.url = url
        self.cache = cache
        self._open = ExitStack()

    def __call__(self, **options: Any) -> ShortMemory:
        return self._open.enter_context(ShortMemory(self.url, cache=self.cache, **options))

    def awaiting(self, **options: Any) -> AsyncShortMemory:
        return AsyncShortMemory(self.url, cache=self.cache, **options)

    def close(self) -> None:
        self._open.close()


@pytest.fixture(params=["sqlite", "postgres+redis"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Opens memories on one store, new for each test."""
    if request.param == "sqlite":
        place = Place(f"sqlite:///{tmp_path}/short.db", None)
        yield place
        place.close()
        return
    pytest.importorskip("psycopg", reason="needs psycopg")
    from tests.stores.redis_server import shared_url
    from tests.stores.servers import PostgresPlaces

    places = PostgresPlaces()
    place = Place(as_url(places.url(tmp_path)), shared_url())
    yield place
    place.close()
    places.sweep()
    places.close()


@pytest.fixture
def short(opener: Place) -> ShortMemory:
    """One memory on a new store."""
    return opener()


def talk(memory: ShortMemory, conversation: str, turns: range, *, pad: str = "") -> None:
    """Write turns whose texts carry their number."""
    for number in turns:
        memory.write_turn(
            conversation, user_query=f"<q{number}>{pad}", agent_response=f"<a{number}>{pad}"
        )


def as_url(conninfo: str) -> str:
    """A libpq connection string as an address."""
    from urllib.parse import quote

    from psycopg.conninfo import conninfo_to_dict

    parts = {name: str(value) for name, value in conninfo_to_dict(conninfo).items()}
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in parts.items())
    return f"postgresql://?{query}"
