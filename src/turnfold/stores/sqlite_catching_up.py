"""Bringing the search index of the SQLite store up to date, in steps that leave room for writers between them.

A search waits for what it asks about and no more: for its conversation, or for its scope. Each step is a commit, so a
process that is killed goes on where it was. Readers and writers of anything else never wait for more than a step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from turnfold.stores import sqlite_index as index
from turnfold.stores.sqlite_engine import Connection, SqliteEngine

__all__ = ("CatchingUp",)

_log = logging.getLogger(__name__)
_STEP = 2000
"""Places that are indexed in one go."""
_LONG = 20_000


class CatchingUp:
    """The index of a store, brought up to date when it is needed; `tell` hears how many of how many are done."""

    def __init__(self, engine: SqliteEngine, tell: Callable[[int, int], None] | None) -> None:
        self._engine = engine
        self._listener = tell

    async def for_search(self, tenant: str, conversation: str | None) -> None:
        """Index what was written since the last search, and take a step at removing what is retired."""
        await self._index(tenant, conversation)
        if await self._engine.read(index.has_retired):
            await self._engine.write(index.remove_retired)

    async def everything(self) -> int:
        """Index whatever waits, of whomever, and remove what is retired; how many places were indexed."""
        done = 0
        while (tenant := await self._engine.read(index.tenant_unindexed)) is not None:
            done += await self._index(tenant, None)
        await self.remove_retired()
        return done

    async def remove_retired(self) -> None:
        """Remove what is left of indexes that are no longer used."""
        while await self._engine.read(index.has_retired):
            await self._engine.write(index.remove_retired)

    async def _index(self, tenant: str, conversation: str | None) -> int:
        done, total = 0, 0

        def waits(connection: Connection) -> bool:
            return index.has_unindexed(connection, tenant, conversation)

        def step(connection: Connection) -> int:
            return index.index_some(connection, tenant, conversation, most=_STEP)

        while await self._engine.read(waits):
            if not done:
                total = await self._engine.read(
                    lambda connection: index.waiting(connection, tenant, conversation)
                )
                _log_long(total)
            self._tell(done, total)
            done += await self._engine.write(step)
        self._tell(done, total)
        return done

    def _tell(self, done: int, total: int) -> None:
        # What one step does is not worth a word; others may append meanwhile, so there may be more than was counted.
        if self._listener is not None and total > _STEP:
            self._listener(done, max(done, total))


def _log_long(total: int) -> None:
    if total >= _LONG:
        _log.info(
            "indexing %d entries for the first search since they came",
            total,
            extra={"event": "indexing", "entries": total},
        )
