"""PostgreSQL, in each way it can be used, against the suite that ships; as a role that row-level security stops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

from tests.stores.conftest import CALLS_AND_CACHES, EVERY_CASE
from tests.stores.servers import Placed, postgres_places
from turnfold.stores import Store
from turnfold.stores.postgres.store import PostgresStore
from turnfold.testing import StoreConformance
from turnfold.tokens import TokenCounter

__all__ = ("postgres_places",)


class TestPostgres(Placed, StoreConformance):
    twin = EVERY_CASE
    examples = 10

    def open_store(
        self,
        place: Path,
        *,
        counter: TokenCounter | None = None,
        clock: Callable[[], int] | None = None,
    ) -> Store:
        return PostgresStore(
            self.places.url(place), counter=counter, clock=clock, blocking=self.blocking
        )


class TestPostgresBlocking(TestPostgres):
    twin = CALLS_AND_CACHES
    blocking = True
