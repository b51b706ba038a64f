"""Coroutines run to their end without an event loop.

What talks to a store is written once, as coroutines. Over a blocking store such a coroutine never really waits, so one
step runs all of it: in a script, in a thread, in a notebook and inside a running loop, where `asyncio.run` refuses.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TypeVar, cast

from turnfold.errors import InvalidOption

__all__ = ("drive",)

_Result = TypeVar("_Result")


def drive(coroutine: Coroutine[object, None, _Result]) -> _Result:
    """The result of a coroutine that never suspends; one that does is closed and refused."""
    try:
        coroutine.send(None)
    except StopIteration as finished:
        return cast("_Result", finished.value)
    coroutine.close()
    name = getattr(coroutine, "__qualname__", type(coroutine).__name__)
    raise InvalidOption(
        f"{name} has to wait for something, which code without await cannot: open the store with blocking=True, or "
        "await the coroutine"
    )
