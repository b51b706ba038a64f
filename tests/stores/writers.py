"""What writers in processes of their own do, whatever store they write to.

A `nursery` forks a writer for every line it reads, so a writer costs a fork and not a start of Python; the writer
tells what was acknowledged, the nursery tells when it is dead, both through one pipe, in order. A patient writer
whose store cannot be reached asks again, with the same ids, until it is answered or killed. A `crowd` appends and
reads with many tasks and notes what it saw, for the history checker. The programs of the stores are built from these.
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
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Protocol

from turnfold.errors import StoreUnavailable
from turnfold.records import Entry, NewEntry, user
from turnfold.stores import Appended, Scope, Store

__all__ = ("ALICE", "CLOCKS", "Opened", "crowd", "crowds", "nursery")

ALICE = Scope("alice")
CONVERSATIONS = ("甲", "b")
PATIENCE = 90.0
"""Seconds for a killed server to come back, on a machine that hardly moves."""
CLOCKS: dict[str, Callable[[], int]] = {
    "true": lambda: time.time_ns() // 1000,
    "frozen": lambda: 1_700_000_000_000_000,
    "backward": lambda: 1_700_000_000_000_000 - time.monotonic_ns() // 1000,
    "leaping": lambda: random.choice((0, 1, 4_000_000_000_000_000)),  # noqa: S311 (no secret)
}


class Opened(Protocol):
    """How a program opens its store."""

    def __call__(self, place: str, *, blocking: bool) -> Store: ...


def _say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def _append_forever(store: Store, writer: str, *, patient: bool) -> None:
    for number in itertools.count():
        size = 1 + number % 3
        label = f"{writer}-{number}"
        conversation = CONVERSATIONS[number % 2]
        batch = [
            NewEntry(user(f"{label} {part}/{size}"), f"{label}.{part}") for part in range(size)
        ]
        done = await _appended(store, conversation, batch, patient=patient)
        _say("ack", conversation, done.first, size, label, time.monotonic_ns())


async def _appended(
    store: Store, conversation: str, batch: list[NewEntry], *, patient: bool
) -> Appended:
    started = time.monotonic()
    while True:
        try:
            return await store.append(ALICE, conversation, batch)
        except StoreUnavailable:
            if not patient or time.monotonic() - started > PATIENCE:
                raise
            time.sleep(0.01)  # noqa: ASYNC251 (a blocking writer has no loop; the others wait for the same server)


async def _append_together(store: Store, cycle: str, *, patient: bool) -> None:
    writers = (_append_forever(store, f"{cycle}-{each}", patient=patient) for each in range(8))
    await asyncio.gather(*writers)


def nursery(opened: Opened, *, together: bool = True, patient: bool = False) -> None:
    """Fork a writer for each line `cycle place`; even cycles write with many tasks, odd ones in place."""
    for line in sys.stdin:
        cycle, place = line.rstrip("\n").split(" ", 1)
        child = os.fork()
        if not child:
            _say("born", os.getpid())
            try:
                if together and int(cycle) % 2 == 0:
                    store = opened(place, blocking=False)
                    asyncio.run(_append_together(store, cycle, patient=patient))
                else:
                    store = opened(place, blocking=True)
                    _append_forever(store, cycle, patient=patient).send(None)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        _say("dead", os.waitstatus_to_exitcode(status))


async def _take_part(
    store: Store, writer: str, appends: int, conversations: int, *, by_tail: bool
) -> list[list[object]]:
    dice = random.Random(writer)  # noqa: S311 (a run that can be repeated)
    seen: list[list[object]] = []
    for number in range(appends):
        conversation = f"talk-{dice.randrange(conversations)}"
        value = f"{writer}.{number}"
        began = time.monotonic_ns()
        done = await store.append(ALICE, conversation, [NewEntry(user(value), value)])
        seen.append(["append", conversation, began, time.monotonic_ns(), done.first, value])
        if dice.random() < (0.5 if by_tail else 0.2):
            began = time.monotonic_ns()
            after = max(0, done.first - 20)
            if by_tail:
                found = await store.tail(ALICE, conversation, tokens=200)
                after = found[0].seq - 1 if found else 0
            else:
                found = await store.read(ALICE, conversation, after=after, limit=100_000)
            seen.append(["read", conversation, began, time.monotonic_ns(), after, _values(found)])
    return seen


def _values(found: list[Entry]) -> list[list[object]]:
    return [[entry.seq, entry.message.text] for entry in found]


async def crowd(
    stores: list[Store], name: str, sizes: list[int], *, by_tail: bool = False
) -> list[list[object]]:
    """Append with many tasks at once, spread over the stores; what they noted."""
    writers, appends, conversations = sizes
    notes = await asyncio.gather(
        *(
            _take_part(
                stores[number % len(stores)],
                f"{name}-{number}",
                appends,
                conversations,
                by_tail=by_tail,
            )
            for number in range(writers)
        )
    )
    for store in stores:
        await store.close()
    return list(itertools.chain.from_iterable(notes))


def crowds(part: Callable[[str], list[list[object]]]) -> None:
    """Run a crowd in a process of its own for each clock, all at once; print what they noted as JSON."""
    context = get_context("fork" if hasattr(os, "fork") else "spawn")
    with ProcessPoolExecutor(len(CLOCKS), mp_context=context) as processes:
        notes = processes.map(part, CLOCKS)
        json.dump(list(itertools.chain.from_iterable(notes)), sys.stdout)
