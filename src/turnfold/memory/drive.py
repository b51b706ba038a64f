"""Coroutines run to their end without an event loop.

What talks to a store is written once, as coroutines. Over a blocking store such a coroutine never really waits, so one
step runs all of it: in a script, in a thread, in a notebook and inside a running loop, where `asyncio.run` refuses.

A signal handler (Ctrl-C, a time-out by `signal.alarm`) may raise at any line of it, also after a lock was taken and
before anything is there to release it. So a lock taken on the way is noted first, and whatever happens no lock outlives
the call it was taken in.
"""

from __future__ import annotations

import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Protocol, TypeVar, cast

from turnfold.errors import InvalidOption

__all__ = ("drive", "held_locks")

_Result = TypeVar("_Result")


class _OwnedLock(Protocol):
    """A lock that knows its owner: releasing it in a thread that does not hold it is a RuntimeError."""

    def release(self) -> None: ...


class _Held(threading.local):
    def __init__(self) -> None:
        self.locks: list[_OwnedLock] = []


_held = _Held()


def held_locks() -> list[_OwnedLock]:
    """The locks this thread has taken, or is about to take, in the calls it is driving."""
    return _held.locks


def drive(coroutine: Coroutine[object, None, _Result]) -> _Result:
    """Return the result of a coroutine that never suspends; one that does is closed and refused."""
    locks = _held.locks
    outer = len(locks)
    try:
        coroutine.send(None)
    except StopIteration as finished:
        return cast("_Result", finished.value)
    finally:
        while len(locks) > outer:  # interrupted: what would have released them was never reached
            with suppress(RuntimeError):
                locks[-1].release()
            del locks[-1]
    coroutine.close()
    name = getattr(coroutine, "__qualname__", type(coroutine).__name__)
    raise InvalidOption(
        f"{name} has to wait for something, which code without await cannot: open the store with blocking=True, or "
        "await the coroutine"
    )
