"""Bringing the search index of the SQLite store up to date, in steps that leave room for writers between them.

A search waits for what it asks about and no more: for its conversation, or for its scope. Each step is a commit, so a
process that is killed goes on where it was. Readers and writers of anything else never wait for more than a step. Where
very much waits (a log that was imported, or never searched), a search indexes some of it and answers; the rest is
indexed by later searches, and by a thread that works half of the time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from turnfold.errors import StoreError
from turnfold.stores import sqlite_index as index
from turnfold.stores.sqlite_engine import Connection, SqliteEngine

__all__ = ("CatchingUp", "log_incomplete")

_log = logging.getLogger(__name__)
_STEP = 2000
"""Places that are indexed in one go."""
_LONG = index.MANY_WAITING
_AT_ONCE = 2 * _STEP
"""Places that a search indexes before it answers, where more than `_LONG` wait."""
_BACKGROUND_STEP = 250
"""Places that are indexed in one go in the background: whoever writes meanwhile waits for them."""


class CatchingUp:
    """The index of a store, brought up to date when it is needed; `tell` hears how many of how many are done."""

    def __init__(self, engine: SqliteEngine, tell: Callable[[int, int], None] | None) -> None:
        self._engine = engine
        self._listener = tell
        self._behind: list[tuple[str, str | None]] = []  # scopes and conversations to go on with
        self._worker: threading.Thread | None = None

    async def for_search(self, tenant: str, conversation: str | None) -> int:
        """Index what was written since the last search, or some of it where that is much; how many entries still wait.

        Takes a step at removing what is retired as well.
        """
        _, left = await self._index(tenant, conversation, bounded=True)
        if await self._engine.read(index.has_retired):
            await self._engine.write(index.remove_retired)
        if left:
            self._go_on((tenant, conversation))
        return left

    async def everything(self) -> int:
        """Index whatever waits, of whomever, and remove what is retired; how many places were indexed."""
        done = 0
        while (tenant := await self._engine.read(index.tenant_unindexed)) is not None:
            done += (await self._index(tenant, None, bounded=False))[0]
        await self.remove_retired()
        return done

    async def remove_retired(self) -> None:
        """Remove what is left of indexes that are no longer used."""
        while await self._engine.read(index.has_retired):
            await self._engine.write(index.remove_retired)

    async def _index(
        self, tenant: str, conversation: str | None, *, bounded: bool
    ) -> tuple[int, int]:
        """Index what waits, all of it unless `bounded`; how many places were, and how many entries still wait."""
        done, total = 0, 0

        def waits(connection: Connection) -> bool:
            return index.has_unindexed(connection, tenant, conversation)

        def waiting(connection: Connection) -> int:
            return index.waiting(connection, tenant, conversation)

        def step(connection: Connection) -> int:
            return index.index_some(connection, tenant, conversation, most=_STEP)

        while await self._engine.read(waits):
            if not done:
                total = await self._engine.read(waiting)
                _log_long(total)
            elif bounded and done >= _AT_ONCE and total > _LONG:
                self._tell(done, total)
                return done, await self._engine.read(waiting)
            self._tell(done, total)
            done += await self._engine.write(step)
        self._tell(done, total)
        return done, 0

    def _tell(self, done: int, total: int) -> None:
        # What one step does is not worth a word; others may append meanwhile, so there may be more than was counted.
        if self._listener is not None and total > _STEP:
            self._listener(done, max(done, total))

    def _go_on(self, behind: tuple[str, str | None]) -> None:
        """Index the rest in the background."""
        if behind not in self._behind:
            self._behind.append(behind)
        if self._worker is None or not self._worker.is_alive():
            # A daemon: each step is a commit, so a program may end between any two.
            self._worker = threading.Thread(
                target=self._work, name="turnfold-sqlite-index", daemon=True
            )
            self._worker.start()

    def _work(self) -> None:
        try:
            while self._behind:
                tenant, conversation = self._behind[0]
                while self._work_some(tenant, conversation):
                    pass
                self._behind.pop(0)
        except StoreError as error:  # closed, most likely; a later search goes on
            kind = type(error).__name__
            _log.info("indexing in the background ended: %s", kind, extra={"event": "indexing"})

    def _work_some(self, tenant: str, conversation: str | None) -> bool:
        """Take a step, and a rest of the same length; whether there was anything to do."""
        begun = time.monotonic()
        if not self._engine.read_here(
            lambda connection: index.has_unindexed(connection, tenant, conversation)
        ):
            return False
        self._engine.write_here(
            lambda connection: index.index_some(
                connection, tenant, conversation, most=_BACKGROUND_STEP
            )
        )
        time.sleep(time.monotonic() - begun)
        return True


def log_incomplete(unsearched: int) -> None:
    """Say that a search did not cover everything."""
    _log.warning(
        "a search does not cover %d entries that are not indexed yet; reindex() does it now",
        unsearched,
        extra={"event": "search_incomplete", "entries": unsearched},
    )


def _log_long(total: int) -> None:
    if total >= _LONG:
        _log.info(
            "indexing %d entries for the first search since they came",
            total,
            extra={"event": "indexing", "entries": total},
        )
