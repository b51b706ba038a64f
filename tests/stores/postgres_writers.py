"""Writers of a PostgreSQL database in processes of their own; what they do is in writers.py.

`nursery [hasty|trusting]` makes writers to be killed, `crowds URL SIZES [REDIS [unfenced]]` crowds; the last
words are sabotages, which the tests must notice.
"""

from __future__ import annotations

import asyncio
import re
import sys
from functools import partial

from tests.stores.writers import CLOCKS, crowd, crowds, nursery
from turnfold.stores import Store
from turnfold.stores.postgres import transactions as postgres_engine
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.postgres.transactions import Rows, Statement, _Transaction
from turnfold.stores.redis import cache as redis_cache
from turnfold.stores.redis.cache import CachedStore

PATIENCE = 60.0


def _opened(place: str, *, blocking: bool) -> Store:
    return PostgresStore(place, blocking=blocking)


def _be_hasty() -> None:
    """Answer before the commit, which is put off for as long as the connection is in use."""

    async def hasty(self: _Transaction, *statements: Statement) -> list[Rows]:
        self.finished = True
        return await self.ask(*statements) if statements else []

    setattr(_Transaction, "finish", hasty)  # noqa: B010 (a method is replaced on purpose)


def _trust_the_server() -> None:
    """Leave it to the server whether it answers before it has written."""
    text = postgres_engine._SETTINGS
    lax = re.sub(r"set_config\('synchronous_commit'.*?END, true\), ", "", text)
    assert lax != text
    setattr(postgres_engine, "_SETTINGS", lax)  # noqa: B010 (a constant is replaced on purpose)


def _part(url: str, sizes: list[int], caches: list[str], clock: str) -> list[list[object]]:
    # Few connections: the crowds of all test processes share what one server has.
    stores: list[Store] = [PostgresStore(url, clock=CLOCKS[clock], pool_size=3) for _ in range(2)]
    for cache in caches:
        stores = [CachedStore(store, cache, timeout_seconds=PATIENCE) for store in stores]
    return asyncio.run(crowd(stores, clock, sizes, by_tail=bool(caches)))


def _without_the_fence() -> None:
    setattr(redis_cache, "is_fresh", lambda _kept, _now: True)  # noqa: B010 (a function is replaced on purpose)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["nursery", *faults]:
            if "hasty" in faults:
                _be_hasty()
            if "trusting" in faults:
                _trust_the_server()
            nursery(_opened, together=not faults, patient=True)
        case ["crowds", url, writers, appends, conversations, *rest]:
            if "unfenced" in rest:
                rest.remove("unfenced")
                _without_the_fence()
            sizes = [int(writers), int(appends), int(conversations)]
            crowds(partial(_part, url, sizes, rest))
        case _:
            raise SystemExit(f"unknown: {sys.argv[1:]}")
