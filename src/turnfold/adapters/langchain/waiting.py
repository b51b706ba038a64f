"""How hooks of LangChain, which come in a blocking and an awaiting form, wait for what is written once as coroutines.

Over a blocking memory both forms work: the blocking one in place, the awaiting one in a thread, because the memory may
wait for the disk, or for a model that folds. Over a memory that awaits, the awaiting form works, and the blocking form
from other threads than the loop's: LangGraph runs a blocking node or tool of an awaited run in such a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from turnfold.errors import InvalidOption
from turnfold.memory.drive import drive

__all__ = ("Waiting",)

_Result = TypeVar("_Result")


class Waiting:
    """Waits for the coroutines of one memory; `what` is who was given it."""

    def __init__(self, *, blocking: bool, what: str) -> None:
        self._blocking = blocking
        self._what = what
        self._loop = _running_loop()
        """The loop that the memory was last awaited in, or made in."""

    def now(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """What the coroutine gives, for code that does not await."""
        if self._blocking:
            return drive(work)
        loop = self._loop
        if loop is None or not loop.is_running() or loop is _running_loop():
            work.close()
            raise InvalidOption(
                f"invoke() cannot wait for a memory that awaits: give {self._what} a Memory, or use ainvoke()"
            )
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    async def soon(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """What the coroutine gives, for code that awaits."""
        if self._blocking:
            return await asyncio.to_thread(drive, work)
        self._loop = asyncio.get_running_loop()
        return await work


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
