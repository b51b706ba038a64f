"""PostgreSQL with Redis in front, as it is used at scale, against the suite every store passes.

The quick run takes the cases a cache could spoil, the slow one all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

from tests.stores.redis_server import PATIENCE, shared_url
from tests.stores.servers import Placed, postgres_places
from turnfold.stores import Store
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.redis.cache import CachedStore
from turnfold.testing import StoreConformance
from turnfold.testing.stores.checkpoints import CheckpointCases
from turnfold.testing.stores.concurrency import DeletionRaceCases, RaceCases
from turnfold.testing.stores.deletion import DeleteCases, TombstoneCases
from turnfold.testing.stores.documents import DocumentCases, VersionCases
from turnfold.testing.stores.generations import EpochCases, GenerationCases
from turnfold.testing.stores.lifecycle import CancellationCases, ReopenCases
from turnfold.testing.stores.random_operations import MachineCases
from turnfold.testing.stores.reads import CounterCases, TailCases
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


class WhatACacheCanSpoil(
    TailCases,
    CounterCases,
    CheckpointCases,
    DocumentCases,
    VersionCases,
    GenerationCases,
    EpochCases,
    DeleteCases,
    TombstoneCases,
    RaceCases,
    DeletionRaceCases,
    CancellationCases,
    ReopenCases,
    MachineCases,
):
    """The verbs that a cache answers or must forget, and what crosses them; the others only pass through it."""


class TestPostgresCached(Cached, WhatACacheCanSpoil):
    pass


class TestPostgresCachedBlocking(Cached, WhatACacheCanSpoil):
    blocking = True


@pytest.mark.slow
class TestPostgresCachedWhole(Cached, StoreConformance):
    pass


@pytest.mark.slow
class TestPostgresCachedWholeBlocking(Cached, StoreConformance):
    blocking = True
