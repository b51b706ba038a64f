"""A write happens whole or not at all, if its process is killed at any statement or its caller gives up waiting.

Like test_sqlite_atomic.py, whose verbs these are; there the statements fail, here nobody is left to undo anything, or
a scope around the caller ends it: a time limit, or a group whose other task failed.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Generator, Iterable
from pathlib import Path
from shutil import copy
from typing import Any

import pytest

from tests.house.source_tree import ROOT
from tests.stores.sqlite_file import dump
from tests.stores.test_sqlite_atomic import (
    VERBS,
    Verb,
    assert_no_lock_is_left,
    base,
    finished,
    opened,
)
from turnfold.records import NewEntry, user
from turnfold.stores import Scope

__all__ = ("base",)

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes are forked")


Deaths = dict[str, list[tuple[Path, str]]]


def deaths(base: Path, folder: Path, verbs: Iterable[str], *words: str) -> Deaths:
    """By verb: the file each killed process left, and the statement at which it was killed."""
    program = [sys.executable, "-m", "tests.stores.sqlite_kill_points"]
    finished = subprocess.run(
        [*program, base, folder, ",".join(verbs), *words],
        capture_output=True,
        check=True,
        cwd=ROOT,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYTHONUTF8": "1"},
    )
    found: Deaths = {verb: [] for verb in verbs}
    lived: list[str] = []
    for line in finished.stdout.splitlines():
        verb, file, statement = line.split("\t", 2)
        if file == "lived":
            lived.append(verb)
        else:
            found[verb].append((folder / verb / file, statement))
    assert lived == list(found)
    return found


@pytest.fixture(scope="module")
def killed(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Deaths:
    """What became of every verb: one process forks for all of them, since it takes longest to start."""
    return deaths(base, tmp_path_factory.mktemp("killed"), VERBS)


def assert_killed_whole(base: Path, folder: Path, verb: str, died: list[tuple[Path, str]]) -> None:
    after, before = finished(base, folder, VERBS[verb]), dump(base)
    seen: set[bool] = set()
    for path, statement in died:
        held = dump(path)
        assert held in (before, after), statement
        assert_no_lock_is_left(path)
        seen.add(held == after)
    assert len(died) > 6
    assert seen == {False, True}  # killed too early for it, and too late to stop it


@needs_fork
@pytest.mark.parametrize("verb", VERBS)
def test_killed_at_any_statement_leaves_before_or_after(
    base: Path, killed: Deaths, tmp_path: Path, verb: str
) -> None:
    assert_killed_whole(base, tmp_path, verb, killed[verb])


@needs_fork
@pytest.mark.slow  # shows that the tests above can fail
def test_without_transactions_half_a_write_is_seen(base: Path, tmp_path: Path) -> None:
    verb = "append to a new conversation"
    died = deaths(base, tmp_path, [verb], "torn")
    with pytest.raises(AssertionError, match="INSERT"):
        assert_killed_whole(base, tmp_path, verb, died[verb])


# -------------------------------------------------------------------------------------------- scopes


class Watched:
    """A verb that calls somebody each time it waits."""

    def __init__(
        self, verb: Coroutine[Any, Any, object], point: int, strike: Callable[[], None]
    ) -> None:
        self._verb, self._point, self._strike = verb, point, strike
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, object]:
        steps = self._verb.__await__()
        resume: Callable[[Any], Any] = steps.send
        value: Any = None
        while True:
            try:
                waited = resume(value)
            except StopIteration as done:
                return done.value
            self.waits += 1
            if self.waits == self._point:
                self._strike()
            try:
                value, resume = (yield waited), steps.send
            except BaseException as error:
                value, resume = error, steps.throw


async def in_time_limit(verb: Coroutine[Any, Any, object], point: int) -> tuple[bool, int]:
    """Whether a time limit that ran out at a wait ended the verb, and how often it had waited."""
    now = asyncio.get_running_loop().time()
    watched = Watched(verb, point, lambda: limit.reschedule(now - 1))
    try:
        async with asyncio.timeout(None) as limit:
            await watched
    except TimeoutError:
        return True, watched.waits
    return False, watched.waits


async def in_group(verb: Coroutine[Any, Any, object], point: int) -> tuple[bool, int]:
    """The same with a group of tasks, of which another fails at that wait."""
    failed = asyncio.Event()
    watched = Watched(verb, point, failed.set)

    async def wait_for_verb() -> None:
        await watched

    async def fail() -> None:
        await failed.wait()
        raise ValueError

    waiting: asyncio.Task[None] | None = None
    try:
        async with asyncio.TaskGroup() as group:
            other = group.create_task(fail())
            waiting = group.create_task(wait_for_verb())
            await asyncio.wait([waiting])
            other.cancel()
    except* ValueError:
        pass
    return waiting is not None and waiting.cancelled(), watched.waits


Way = Callable[[Coroutine[Any, Any, object], int], Coroutine[Any, Any, tuple[bool, int]]]


async def given_up(path: Path, verb: Verb, point: int, way: Way) -> tuple[bool, int]:
    store = opened(path, blocking=False)
    outcome = await way(verb(store), point)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    # Queued behind what is left of it; an index is written in several transactions, of which some may be left.
    await store.append(Scope("bob"), "talk", [NewEntry(user("next"))])
    assert_no_lock_is_left(path, milliseconds=10_000)
    await store.close()
    return outcome


@pytest.mark.parametrize("way", [in_time_limit, in_group], ids=["time limit", "group"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_scope_that_ends_at_any_wait_leaves_before_or_after(
    base: Path, tmp_path: Path, verb: str, way: Way
) -> None:
    after, before = finished(base, tmp_path, VERBS[verb]), dump(base)
    point, waits, ended = 0, 1, 0
    while point < waits + 1:
        point += 1
        path = Path(copy(base, tmp_path / f"{point}.db"))
        stopped, seen = asyncio.run(given_up(path, VERBS[verb], point, way))
        waits = max(waits, seen)
        held = dump(path)
        assert held in (before, after)
        if not stopped:
            assert held == after
        ended += stopped
    tries = 0
    while not ended and tries < 100:  # each time the write may have been quicker than who gave up
        tries += 1
        path = Path(copy(base, tmp_path / f"again {tries}.db"))
        ended += asyncio.run(given_up(path, VERBS[verb], 1, way))[0]
    assert ended
