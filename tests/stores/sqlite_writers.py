"""Writers in processes of their own: one that is made to be killed, and crowds that write to the same file at once.

Run as a program. `nursery` forks a writer for every line it reads, so a writer costs a fork and not a start of
Python; the writer tells what was acknowledged, the nursery tells when it is dead, both through one pipe, in order.
`crowd PATH CLOCK ...` appends and reads with many tasks and prints what it saw, for the history checker.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from turnfold.records import NewEntry, user
from turnfold.stores import Scope
from turnfold.stores.sqlite_engine import SqliteEngine
from turnfold.stores.sqlite_store import SqliteStore

ALICE = Scope("alice")
CONVERSATIONS = ("甲", "b")
CLOCKS: dict[str, Callable[[], int]] = {
    "true": lambda: time.time_ns() // 1000,
    "frozen": lambda: 1_700_000_000_000_000,
    "backward": lambda: 1_700_000_000_000_000 - time.monotonic_ns() // 1000,
    "leaping": lambda: random.choice((0, 1, 4_000_000_000_000_000)),  # noqa: S311 (no secret)
}


def _say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def _append_forever(store: SqliteStore, writer: str) -> None:
    for number in itertools.count():
        size = 1 + number % 3
        label = f"{writer}-{number}"
        conversation = CONVERSATIONS[number % 2]
        batch = [
            NewEntry(user(f"{label} {part}/{size}"), f"{label}.{part}") for part in range(size)
        ]
        done = await store.append(ALICE, conversation, batch)
        _say("ack", conversation, done.first, size, label)


async def _append_together(store: SqliteStore, cycle: str) -> None:
    await asyncio.gather(*(_append_forever(store, f"{cycle}-{each}") for each in range(8)))


def _write_until_killed(path: str, cycle: str, *, together: bool) -> None:
    if together:
        asyncio.run(_append_together(SqliteStore(path), cycle))
    else:
        _append_forever(SqliteStore(path, blocking=True), cycle).send(None)


def _answer_before_commit(engine: SqliteEngine, group: list[Any]) -> None:
    engine._writer.execute("BEGIN IMMEDIATE")
    for job in group:
        job.future.set_result(job.work(engine._writer))
    time.sleep(0.005)
    engine._writer.execute("COMMIT")


def nursery(*, hasty: bool) -> None:
    """Fork a writer for each line `cycle path`; even cycles share commits, odd ones write in place."""
    if hasty:
        setattr(SqliteEngine, "_commit", _answer_before_commit)  # noqa: B010 (a method is replaced on purpose)
    for line in sys.stdin:
        cycle, path = line.rstrip("\n").split(" ", 1)
        child = os.fork()
        if not child:
            _say("born", os.getpid())
            try:
                _write_until_killed(path, cycle, together=int(cycle) % 2 == 0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        _say("dead", os.waitstatus_to_exitcode(status))


async def _take_part(
    store: SqliteStore, writer: str, appends: int, conversations: int, seen: list[list[object]]
) -> None:
    dice = random.Random(writer)  # noqa: S311 (a run that can be repeated)
    for number in range(appends):
        conversation = f"talk-{dice.randrange(conversations)}"
        value = f"{writer}.{number}"
        began = time.monotonic_ns()
        done = await store.append(ALICE, conversation, [NewEntry(user(value), value)])
        seen.append(["append", conversation, began, time.monotonic_ns(), done.first, value])
        if dice.random() < 0.2:
            began = time.monotonic_ns()
            after = max(0, done.first - 20)
            found = await store.read(ALICE, conversation, after=after, limit=100_000)
            values = [[entry.seq, entry.message.text] for entry in found]
            seen.append(["read", conversation, began, time.monotonic_ns(), after, values])


async def crowd(path: str, clock: str, writers: int, appends: int, conversations: int) -> None:
    """Append with many tasks at once; print the history as JSON."""
    store = SqliteStore(path, clock=CLOCKS[clock])
    seen: list[list[object]] = []
    await asyncio.gather(
        *(
            _take_part(store, f"{clock}-{writer}", appends, conversations, seen)
            for writer in range(writers)
        )
    )
    await store.close()
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    if sys.argv[1] == "nursery":
        nursery(hasty=sys.argv[2:] == ["hasty"])
    else:
        place, which, *sizes = sys.argv[2:]
        asyncio.run(crowd(place, which, *map(int, sizes)))
