"""A real store that is slow: whoever appends waits until he is let go on, in whichever thread he is."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from turnfold import Memory
from turnfold.adapters._common import ThreadBridge


class SlowDisk:
    """Holds up the first append to a memory; to be made in the loop that must not be held up with it."""

    def __init__(self, memory: Memory) -> None:
        self.reached = asyncio.Event()
        """Somebody waits for the disk."""
        self._go_on = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        store: Any = memory.session("any").awaiting.store
        self._append = store.append
        store.append = self._slowly

    def let_go_on(self) -> None:
        self._go_on.set()

    async def wait(self, *work: asyncio.Task[Any]) -> None:
        """Until somebody waits for the disk. That this task can go on is the point: the loop runs meanwhile."""
        reached = asyncio.create_task(self.reached.wait())
        await asyncio.wait({reached, *work}, return_when=asyncio.FIRST_COMPLETED)
        reached.cancel()
        for each in work:
            if each.done():
                each.result()

    async def _slowly(self, *args: Any, **options: Any) -> Any:
        if threading.get_ident() == self._thread:
            raise AssertionError("the loop waits for the disk, and nobody can let it go on")
        if not self._go_on.is_set() and not self.reached.is_set():
            self._loop.call_soon_threadsafe(self.reached.set)
            self._go_on.wait()
        return await self._append(*args, **options)


def watch_threads(memory: Memory) -> set[int]:
    """The threads in which a memory's store is asked for something, from now on."""
    store: Any = memory.session("any").awaiting.store
    threads: set[int] = set()

    def watched(work: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def noted(*args: Any, **options: Any) -> Any:
            threads.add(threading.get_ident())
            return await work(*args, **options)

        return noted

    for name, member in inspect.getmembers(store, inspect.iscoroutinefunction):
        if not name.startswith("_"):
            setattr(store, name, watched(member))
    return threads


def check_that_in_place_the_loop_is_held_up(
    monkeypatch: pytest.MonkeyPatch, run: Callable[[], None]
) -> None:
    """The sabotage of a test with a slow disk: what should leave the loop alone is done in it."""

    async def in_place(_: ThreadBridge, work: Coroutine[Any, Any, Any]) -> Any:
        return await work

    monkeypatch.setattr(ThreadBridge, "__call__", in_place)
    with pytest.raises(AssertionError, match="the loop waits"):
        run()
