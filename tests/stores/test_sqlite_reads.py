"""Short reads share a hand-over and a state of the file; none sees an older one than when it was asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import apsw
import pytest

from turnfold.errors import ConversationDeleted, StoreUnavailable, UnsafeStore
from turnfold.stores.sqlite.engine import SqliteEngine
from turnfold.stores.sqlite.write_queue import Connection
from turnfold.stores.sqlite.writer_and_readers import GroupedReads

Read = Callable[[Callable[[Connection], None]], None]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as made:
        yield made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    plain = apsw.Connection(str(tmp_path / "numbers.db"))
    plain.execute("PRAGMA journal_mode=WAL; CREATE TABLE number (value)").fetchall()
    plain.close()
    return tmp_path / "numbers.db"


def _count(connection: Connection) -> int:
    [(many,)] = connection.execute("SELECT count(*) FROM number").fetchall()
    return cast("int", many)


class _Gate:
    """A read that is under way until it is let go."""

    def __init__(self) -> None:
        self.entered, self.go = threading.Event(), threading.Event()

    def __call__(self, connection: Connection) -> int:
        self.entered.set()
        assert self.go.wait(60)
        return _count(connection)


def _alone(pool: ThreadPoolExecutor) -> Callable[[Callable[[], None]], object]:
    """A caller of threads that lets one after the other in, so that a test knows who serves whom."""
    turn = threading.Lock()

    def serve(work: Callable[[], None]) -> None:
        with turn:
            work()

    return lambda work: pool.submit(serve, work)


async def _entered(gate: _Gate) -> None:
    assert await asyncio.get_running_loop().run_in_executor(None, gate.entered.wait, 60)


@contextmanager
def _states(path: Path, seen: list[int]) -> Iterator[Read]:
    """Does each group in a transaction, as the engine does."""
    plain = apsw.Connection(str(path))

    def read(work: Callable[[Connection], None]) -> None:
        seen.append(1)
        plain.execute("BEGIN")
        try:
            work(cast("Connection", plain))
        finally:
            plain.execute("COMMIT")

    yield read
    plain.close()


@contextmanager
def _one_state(path: Path, seen: list[int]) -> Iterator[Read]:
    """What must not be: every group sees what the first saw."""
    plain = apsw.Connection(str(path))
    plain.execute("BEGIN; SELECT count(*) FROM number").fetchall()

    def read(work: Callable[[Connection], None]) -> None:
        seen.append(1)
        work(cast("Connection", plain))

    yield read
    plain.close()


def test_those_who_ask_meanwhile_are_served_in_one_go(path: Path, pool: ThreadPoolExecutor) -> None:
    groups: list[int] = []

    async def ask(read: Read) -> list[int]:
        reads, gate = GroupedReads(_alone(pool), read), _Gate()
        first = asyncio.ensure_future(reads.run(gate))
        await _entered(gate)
        others = [asyncio.ensure_future(reads.run(_count)) for _ in range(20)]
        await asyncio.sleep(0)  # each has asked
        gate.go.set()
        return await asyncio.gather(first, *others)

    with _states(path, groups) as read:
        assert asyncio.run(ask(read)) == [0] * 21
    assert len(groups) == 2


async def _count_after_a_commit(path: Path, pool: ThreadPoolExecutor, read: Read) -> int:
    """What is found by who asks after a commit, while a read from before it is still under way."""
    reads, gate = GroupedReads(_alone(pool), read), _Gate()
    first = asyncio.ensure_future(reads.run(gate))
    await _entered(gate)
    plain = apsw.Connection(str(path))
    plain.execute("INSERT INTO number VALUES (1)")
    plain.close()
    second = asyncio.ensure_future(reads.run(_count))
    await asyncio.sleep(0)
    gate.go.set()
    await first
    return await second


def test_a_read_sees_what_was_committed_before_it_was_asked(
    path: Path, pool: ThreadPoolExecutor
) -> None:
    with _states(path, []) as read:
        assert asyncio.run(_count_after_a_commit(path, pool, read)) == 1


def test_a_state_kept_from_group_to_group_would_be_seen(
    path: Path, pool: ThreadPoolExecutor
) -> None:
    with _one_state(path, []) as read:
        assert asyncio.run(_count_after_a_commit(path, pool, read)) == 0


def test_one_that_fails_fails_alone(tmp_path: Path) -> None:
    def fail(_: Connection) -> int:
        raise ConversationDeleted("gone")

    def one(connection: Connection) -> int:
        [(value,)] = connection.execute("SELECT 1").fetchall()
        return cast("int", value)

    async def ask() -> list[object]:
        engine, gate = SqliteEngine(str(tmp_path / "chat.db"), blocking=False), _Gate()
        first = asyncio.ensure_future(engine.read(gate, short=True))
        await _entered(gate)
        works = [one, fail, one, fail, one]
        others = [asyncio.ensure_future(engine.read(work, short=True)) for work in works]
        cancelled = asyncio.ensure_future(engine.read(one, short=True))
        await asyncio.sleep(0)
        cancelled.cancel()
        gate.go.set()
        found = await asyncio.gather(first, *others, cancelled, return_exceptions=True)
        again = await engine.read(one, short=True)
        await engine.close()
        return [*found, again]

    unread, *found = [each if isinstance(each, int) else type(each) for each in asyncio.run(ask())]
    gone = ConversationDeleted
    assert unread is UnsafeStore  # it asked for a table that there is not, as another release would
    assert found == [1, gone, 1, gone, 1, asyncio.CancelledError, 1]


def test_a_file_that_cannot_be_opened_is_tried_once_for_all(pool: ThreadPoolExecutor) -> None:
    tries: list[int] = []
    gate = _Gate()

    def closed(_: Callable[[Connection], None]) -> None:
        tries.append(1)
        if len(tries) == 1:
            gate.entered.set()
            assert gate.go.wait(60)
        raise StoreUnavailable("no file")

    async def ask() -> list[object]:
        reads = GroupedReads(_alone(pool), closed)
        first = asyncio.ensure_future(reads.run(_count))
        await _entered(gate)
        others = [asyncio.ensure_future(reads.run(_count)) for _ in range(20)]
        await asyncio.sleep(0)
        gate.go.set()
        return list(await asyncio.gather(first, *others, return_exceptions=True))

    found = asyncio.run(ask())
    assert [type(each) for each in found] == [StoreUnavailable] * 21
    assert len(tries) == 2


def test_nobody_waits_for_one_that_is_slow(path: Path, pool: ThreadPoolExecutor) -> None:
    async def ask(read: Read) -> int:
        reads, gate = GroupedReads(pool.submit, read), _Gate()
        first = asyncio.ensure_future(reads.run(gate))
        await _entered(gate)
        found = await reads.run(lambda _: 7)
        assert not first.done()
        gate.go.set()
        return found + await first

    def apart(work: Callable[[Connection], None]) -> None:
        plain = apsw.Connection(str(path))
        work(cast("Connection", plain))
        plain.close()

    assert asyncio.run(ask(apart)) == 7
