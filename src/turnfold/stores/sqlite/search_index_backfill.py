"""Fill the search index of the SQLite store: each search indexes what was written since, in steps.

The terms of a step are made from a copy of the texts, without a lock. The writer only inserts them, in batches of a
bounded number of terms, and checks that the texts have not changed meanwhile. A text (of an entry, a checkpoint or a
document; "place" in names) with more terms than fit into a batch is indexed over several batches. Each batch is a
commit, so if the process is killed, the next one continues after the last batch, and other writers wait for one batch
at most.

A search indexes only the conversation or tenant that it searches. With an event loop, each tenant that searches has a
thread that indexes, so that no tenant waits for the texts of another. If very many texts wait (an imported log, or one
that was never searched), a search indexes some of them and returns; later searches and a background thread, which
sleeps half of the time, index the rest.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple, cast
from weakref import WeakValueDictionary

import msgspec

from turnfold.errors import StoreError
from turnfold.stores.sqlite import search_index as tables
from turnfold.stores.sqlite import statements as sql
from turnfold.stores.sqlite.engine import SqliteEngine
from turnfold.stores.sqlite.search_index import (
    JOIN_TEXTS,
    MIXED,
    IndexRows,
    IndexTables,
    Place,
    add_rows,
    beside_texts,
    entry_texts,
    live_index,
    oldest_retired,
    partly_indexed,
    remove_retired,
    set_parts_indexed,
)
from turnfold.stores.sqlite.search_index_batches import (
    IndexPlan,
    IndexStep,
    WaitingTexts,
    rows_to_add,
)
from turnfold.stores.sqlite.search_index_process import IndexProcess
from turnfold.stores.sqlite.write_queue import Connection

__all__ = (
    "IndexBackfill",
    "IndexTarget",
    "count_unindexed",
    "index_some",
    "log_incomplete",
    "waiting_texts",
    "write_batch",
)


_log = logging.getLogger(__name__)
_STEP = 2000
"""Most texts that are added to the search index in one step; further texts are added in the next."""
_STEP_CHARACTERS = 1_000_000
"""Characters of texts after which a step ends; a single text may be longer."""
_LONG = tables.MANY_WAITING
_LONG_TEXTS = 20_000
"""If the texts of a step have more characters than this, they are split into terms in another process, if the store has
one for that."""
_LONGEST_PAUSE = 0.2
"""Most seconds that indexing pauses after a batch for which other writers had to wait."""
_AT_ONCE = 2 * _STEP
"""Number of texts that a search adds to the index before it returns, if more than `MANY_WAITING` are waiting."""
_BACKGROUND_STEP = 250
"""Most texts that the background thread adds to the search index in one step."""
_WAITING = "tenant = ?1 AND (?2 IS NULL OR name = ?2) AND unindexed"


def count_unindexed(connection: Connection, tenant: str, conversation: str | None) -> int:
    """Return the number of entries of a tenant, or of one conversation, that are not indexed yet."""
    return sql.scalar(
        connection,
        f"SELECT coalesce(sum(coalesce(last.seq, 0) - indexed), 0) FROM {sql.CONVERSATIONS_WITH_HEAD} WHERE {_WAITING}",  # noqa: S608 (constants)
        (tenant, conversation),
    )


def _has_unindexed(connection: Connection, tenant: str, conversation: str | None) -> bool:
    found = sql.scalar(
        connection,
        f"SELECT 1 FROM conversation WHERE {_WAITING} LIMIT 1",  # noqa: S608 (constants)
        (tenant, conversation),
    )
    return found is not None


def _tenant_unindexed(connection: Connection) -> str | None:
    """Return a tenant with texts that are not indexed yet; None if there is none."""
    return sql.scalar(connection, "SELECT tenant FROM conversation WHERE unindexed LIMIT 1")


def waiting_texts(
    connection: Connection, tenant: str, conversation: str | None, *, most: int
) -> tuple[IndexTables, list[WaitingTexts]]:
    """Return the live index and at most `most` texts that are not indexed yet; fewer if they are long."""
    index = live_index(connection)
    pending = connection.execute(
        f"SELECT key, indexed FROM conversation WHERE {_WAITING} LIMIT ?3",  # noqa: S608 (constants)
        (tenant, conversation, most),
    ).fetchall()
    found: list[WaitingTexts] = []
    left, characters = most, 0
    for key, indexed in cast("list[tuple[int, int]]", pending):
        places: list[Place] = []
        # Texts first: meanwhile a search can scan the newest entries, but not the texts.
        texts = beside_texts(connection, key, "AND NOT beside.indexed LIMIT ?", left)
        last = True
        for place in chain(texts, entry_texts(connection, key, after=indexed, limit=left)):
            if len(places) >= left or characters >= _STEP_CHARACTERS:
                last = False
                break
            places.append(place)
            characters += len(place[1].text) if place[1] is not None else 0
        left -= len(places)
        versions = _versions(connection, [place for place, _ in places])
        # A text that is indexed in part has more terms than a batch, and a text of n characters fewer than 2n.
        longest = max((len(text.text) for _, text in places if text is not None), default=0)
        partly = partly_indexed(connection, index, key) if 2 * longest > tables.BATCH_TERMS else {}
        found.append(WaitingTexts(key, indexed, places, versions, partly, last))
        if not last or not left:
            break
    return index, found


def _versions(connection: Connection, places: Collection[int]) -> dict[int, tuple[object, ...]]:
    """Return the versions of the stored texts with these ids, by id; a text that was deleted is left out."""
    entries = [place for place in places if place > 0]
    texts = [place for place in places if place < 0]
    found: list[tuple[object, ...]] = []
    if entries:
        found += connection.execute(
            "SELECT id, revision, checksum FROM entry WHERE id BETWEEN ? AND ?",
            (min(entries), max(entries)),
        )
    if texts:
        found += connection.execute(
            "SELECT beside.id, document.version, "  # noqa: S608 (constants)
            f"iif(document.text IS NULL, checkpoint.checksum, document.checksum) FROM beside {JOIN_TEXTS} "
            "WHERE beside.id IN (SELECT value FROM json_each(?)) AND NOT beside.indexed",
            (msgspec.json.encode(texts).decode(),),
        )
    return {cast("int", row[0]): row[1:] for row in found}


class IndexTarget(NamedTuple):
    """The index and the tenant whose texts are added to it."""

    live: IndexTables
    tenant: str


def write_batch(
    connection: Connection,
    target: IndexTarget,
    steps: Sequence[IndexStep],
    rows: IndexRows,
    *,
    has_terms: bool,
) -> int:
    """Write a batch of a plan, without texts that have changed meanwhile; return the number of texts indexed.

    If the steps have no terms, only ready rows, nothing is written where a text has changed; the next step reads it
    again.
    """
    if live_index(connection) != target.live:
        return 0
    valid = [step for step in steps if _is_valid(connection, target, step)]
    if len(valid) < len(steps):
        if not has_terms:
            return 0
        rows = rows_to_add(valid, target.tenant)
    add_rows(connection, target.live, rows)
    done = 0
    for step in valid:
        for part in step.parts:
            if part.of > 1:
                left = part.number + 1 < part.of
                set_parts_indexed(
                    connection, target.live, part.place, part.number + 1 if left else 0
                )
        connection.executemany(
            "UPDATE beside SET indexed = 1 WHERE id = ?", [(place,) for place in step.texts]
        )
        connection.execute(
            "UPDATE conversation SET indexed = ?, unindexed = ?, "
            "indexed_by = iif(indexed_by IN ('', ?), ?, ?) WHERE key = ?",
            (
                step.upto,
                int(not step.last or _is_waiting(connection, step)),
                tables.TERMS_MADE_BY,
                tables.TERMS_MADE_BY,
                MIXED,
                step.key,
            ),
        )
        done += step.upto - step.after + len(step.texts)
    return done


def _is_valid(connection: Connection, target: IndexTarget, step: IndexStep) -> bool:
    """Return True if the search index and the texts have not changed since the step was planned."""
    indexed = sql.scalar(
        connection,
        "SELECT indexed FROM conversation WHERE key = ? AND tenant = ? AND unindexed",
        (step.key, target.tenant),
    )
    if indexed != step.after:
        return False
    if step.versions != _versions(connection, {part.place for part in step.parts}):
        return False
    first = {part.place: part.number for part in reversed(step.parts) if part.of > 1}
    if not first:
        return True
    partly = partly_indexed(connection, target.live, step.key)
    return all(partly.get(place, 0) == number for place, number in first.items())


def _is_waiting(connection: Connection, step: IndexStep) -> bool:
    """Return True if other texts of the step's conversation wait to be indexed."""
    found = sql.scalar(
        connection,
        "SELECT EXISTS (SELECT 1 FROM entry WHERE id > ?1 AND id <= ?2) "
        "OR EXISTS (SELECT 1 FROM beside WHERE conversation = ?3 AND NOT indexed)",
        (sql.row_id(step.key, step.upto), sql.row_id(step.key, sql.LAST_SEQ), step.key),
    )
    return bool(found)


def index_some(
    engine: SqliteEngine,
    tenant: str,
    conversation: str | None,
    *,
    most: int,
    process: IndexProcess | None = None,
) -> int:
    """Index at most `most` waiting texts, and return their number; `process` makes the terms of long texts.

    Blocks the calling thread. A result of 0 may mean that another process has indexed them meanwhile.
    """
    index, waiting = engine.read_here(
        lambda connection: waiting_texts(connection, tenant, conversation, most=most)
    )
    target, done = IndexTarget(index, tenant), 0
    made = None
    if process is not None and _characters(waiting) > _LONG_TEXTS:
        made = process.batches(tenant, waiting)
    for steps, rows in made or _batches(tenant, waiting):
        has_terms = made is None
        write = partial(write_batch, target=target, steps=steps, rows=rows, has_terms=has_terms)
        begun, others = time.monotonic(), engine.jobs_done + 1
        done += engine.write_here(write, background=True)
        if engine.jobs_done > others and not engine.blocking:
            # Requests are writing too: leave the writer to them for as long as this took.
            time.sleep(min(time.monotonic() - begun, _LONGEST_PAUSE))
    return done


def _characters(waiting: Iterable[WaitingTexts]) -> int:
    return sum(len(text.text) for each in waiting for _, text in each.places if text is not None)


def _batches(
    tenant: str, waiting: Iterable[WaitingTexts]
) -> Iterator[tuple[Sequence[IndexStep], IndexRows]]:
    plan = IndexPlan(tenant)
    for each in waiting:
        plan.add(each)
    for steps in plan.batches:
        yield steps, rows_to_add(steps, tenant)


class _TenantLock:
    """Lock that lets one search of a tenant fill the index at a time: two would make the same terms twice."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class IndexBackfill:
    """Brings the index up to date before a search; `on_progress` is called with the texts done and in total."""

    def __init__(
        self,
        engine: SqliteEngine,
        on_progress: Callable[[int, int], None] | None,
        *,
        in_process: bool = False,
    ) -> None:
        self._engine = engine
        self._process = IndexProcess() if in_process and sys.platform != "win32" else None
        self._on_progress = on_progress
        self._backlog: list[tuple[str, str | None]] = []  # scopes and conversations for the worker
        self._worker: threading.Thread | None = None
        self._locks: WeakValueDictionary[str, _TenantLock] = WeakValueDictionary()

    async def for_search(self, tenant: str, conversation: str | None) -> int:
        """Index the entries written since the last search, or some if there are very many; return how many are left.

        The others are indexed in the background. Also removes a part of a replaced index.
        """
        _, left = await self._index(tenant, conversation, bounded=True)
        if await self._engine.read(oldest_retired, short=True) is not None:
            await self._engine.write(remove_retired)
        if left:
            self._continue_in_background((tenant, conversation))
        return left

    async def everything(self) -> int:
        """Index all waiting texts of all tenants, and delete old indexes; return the number of texts indexed."""
        done = 0
        while (tenant := await self._engine.read(_tenant_unindexed)) is not None:
            done += (await self._index(tenant, None, bounded=False))[0]
        await self.remove_retired()
        return done

    async def remove_retired(self) -> None:
        """Delete all retired search indexes, which a newer index has replaced."""
        while await self._engine.read(oldest_retired) is not None:
            await self._engine.write(remove_retired)

    async def _index(
        self, tenant: str, conversation: str | None, *, bounded: bool
    ) -> tuple[int, int]:
        """Index the waiting texts, with `bounded` only some of very many; return (texts indexed, texts waiting)."""
        done, total, begun = 0, 0, False
        one_at_a_time = self._locks.setdefault(tenant, _TenantLock())

        def has_more(connection: Connection) -> bool:
            return _has_unindexed(connection, tenant, conversation)

        def count(connection: Connection) -> int:
            return count_unindexed(connection, tenant, conversation)

        def step() -> int:
            if self._engine.blocking:  # an interrupt could leave a lock locked
                return index_some(self._engine, tenant, conversation, most=_STEP)
            with one_at_a_time.lock:
                return index_some(
                    self._engine, tenant, conversation, most=_STEP, process=self._process
                )

        while await self._engine.read(has_more, short=True):
            if not begun:
                begun, total = True, await self._engine.read(count)
                _log_long(total)
            elif bounded and done >= _AT_ONCE and total > _LONG:
                self._report(done, total)
                return done, await self._engine.read(count)
            self._report(done, total)
            done += await self._engine.run(step)
        self._report(done, total)
        return done, 0

    def close(self) -> None:
        """End the process that makes the terms of long texts, if there is one."""
        if self._process is not None:
            self._process.close()

    def _report(self, done: int, total: int) -> None:
        # A single step is not reported. Others may append meanwhile, so there may be more than was counted.
        if self._on_progress is not None and total > _STEP:
            self._on_progress(done, max(done, total))

    def _continue_in_background(self, waiting: tuple[str, str | None]) -> None:
        if waiting not in self._backlog:
            self._backlog.append(waiting)
        if self._worker is None or not self._worker.is_alive():
            # A daemon: each step is a commit, so the program may end between any two.
            self._worker = threading.Thread(
                target=self._work, name="turnfold-sqlite-index", daemon=True
            )
            self._worker.start()

    def _work(self) -> None:
        try:
            while self._backlog:
                tenant, conversation = self._backlog[0]
                while self._work_some(tenant, conversation):
                    pass
                self._backlog.pop(0)
        except StoreError as error:  # most likely closed; a later search continues
            kind = type(error).__name__
            _log.info(
                "indexing in the background stopped (%s); the next search continues it",
                kind,
                extra={"event": "indexing"},
            )

    def _work_some(self, tenant: str, conversation: str | None) -> bool:
        """Index some texts, then sleep as long as that took; return False if there was nothing to index."""
        started = time.monotonic()
        if not self._engine.read_here(
            lambda connection: _has_unindexed(connection, tenant, conversation)
        ):
            return False
        index_some(self._engine, tenant, conversation, most=_BACKGROUND_STEP, process=self._process)
        time.sleep(time.monotonic() - started)
        return True


def log_incomplete(unsearched: int) -> None:
    """Log that a search left out entries that are not indexed yet."""
    _log.warning(
        "a search left out %d entries that are not indexed yet; reindex() indexes them now",
        unsearched,
        extra={"event": "search_incomplete", "entries": unsearched},
    )


def _log_long(total: int) -> None:
    if total >= _LONG:
        _log.info(
            "indexing %d entries for the first search since they were written",
            total,
            extra={"event": "indexing", "entries": total},
        )
