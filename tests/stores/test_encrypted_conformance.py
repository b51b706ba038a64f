"""An encrypted store keeps every promise of a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.stores.conftest import CALLS_AND_CACHES
from tests.stores.redis_server import PATIENCE, shared_url
from tests.stores.servers import Placed, postgres_places
from turnfold.search import ALL_ENTRIES, Hit, Within
from turnfold.stores import EncryptedStore, Piece, Scope, SqliteStore
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.redis.cache import CachedStore
from turnfold.testing import StoreConformance
from turnfold.tokens import TokenCounter

__all__ = ("postgres_places",)

KEY = bytes(range(32))


class SearchableStore(EncryptedStore):
    """Searches over all conversations too, for the cases of the suite: in a copy of everything, made each time."""

    async def search(
        self,
        scope: Scope,
        terms: Sequence[str],
        *,
        conversation: str | None = None,
        limit: int = 20,
        within: Within = ALL_ENTRIES,
    ) -> list[Hit]:
        if conversation is not None:
            return await super().search(
                scope, terms, conversation=conversation, limit=limit, within=within
            )
        copy = SqliteStore(blocking=True)
        found = await self.conversations(scope, limit=1000)
        for info in sorted(found, key=lambda each: each.created):
            pieces: list[Piece] = []
            captured = await self.capture(scope, info.conversation, pieces.append)
            if captured is not None:
                log = await self.read(scope, info.conversation, limit=10_000)
                await copy.restore(scope, [captured.opening, *pieces, *log, *captured.checkpoints])
        hits = await copy.search(scope, terms, limit=limit, within=within)
        await copy.close()
        return hits


class TestEncryptedSqlite(StoreConformance):
    twin = CALLS_AND_CACHES
    examples = 4

    def open_store(
        self,
        place: Path,
        *,
        counter: TokenCounter | None = None,
        clock: Callable[[], int] | None = None,
    ) -> EncryptedStore:
        def inner(sealed: TokenCounter) -> SqliteStore:
            return SqliteStore(
                place.with_suffix(".db"), counter=sealed, clock=clock, blocking=self.blocking
            )

        return SearchableStore(inner, KEY, counter=counter)


@pytest.mark.slow
class TestBlockingEncryptedSqlite(TestEncryptedSqlite):
    blocking = True


@pytest.mark.slow
class TestEncryptedPostgres(Placed, TestEncryptedSqlite):
    def open_store(
        self,
        place: Path,
        *,
        counter: TokenCounter | None = None,
        clock: Callable[[], int] | None = None,
    ) -> EncryptedStore:
        def inner(sealed: TokenCounter) -> PostgresStore:
            return PostgresStore(self.places.url(place), counter=sealed, clock=clock)

        return SearchableStore(inner, KEY, counter=counter)


@pytest.mark.slow
class TestEncryptedBehindRedis(TestEncryptedSqlite):
    def open_store(
        self,
        place: Path,
        *,
        counter: TokenCounter | None = None,
        clock: Callable[[], int] | None = None,
    ) -> EncryptedStore:
        def inner(sealed: TokenCounter) -> CachedStore:
            durable = SqliteStore(place.with_suffix(".db"), counter=sealed, clock=clock)
            return CachedStore(durable, shared_url(), timeout_seconds=PATIENCE)

        return SearchableStore(inner, KEY, counter=counter)
