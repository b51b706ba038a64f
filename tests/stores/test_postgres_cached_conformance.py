"""PostgreSQL with Redis in front, as it is used at scale, against the suite every store passes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

from tests.stores.conftest import CALLS_AND_CACHES
from tests.stores.redis_server import PATIENCE, shared_url
from tests.stores.servers import Placed, postgres_places
from turnfold.stores import Store
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.redis.cache import CachedStore
from turnfold.testing import StoreConformance
from turnfold.tokens import TokenCounter

__all__ = ("postgres_places",)


class Cached(Placed):
    examples = 3
    blocking = False

    def open_store(
        self,
        place: Path,
        *,
        counter: TokenCounter | None = None,
        clock: Callable[[], int] | None = None,
    ) -> Store:
        url = self.places.url(place)
        inner = PostgresStore(url, counter=counter, clock=clock, blocking=self.blocking)
        return CachedStore(inner, shared_url(), blocking=self.blocking, timeout_seconds=PATIENCE)


class TestPostgresCached(Cached, StoreConformance):
    twin = CALLS_AND_CACHES


@pytest.mark.slow
class TestPostgresCachedBlocking(Cached, StoreConformance):
    twin = CALLS_AND_CACHES
    blocking = True
