"""Store wrapper that measures how long each call of a durable store takes.

It wraps the durable store, not the cache in front of it, so that database times are measured. Calls that copy whole
conversations, and calls without database access, are not measured: their times would distort the others.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import cast

from turnfold.errors import Conflict, ConversationDeleted, IdReused, InvalidOption, WrongProcess
from turnfold.stores import Store
from turnfold.telemetry.metrics import Meter

__all__ = (
    "redis_listener",
    "time_store_calls",
)


_READ = "database_read_seconds"
_WRITE = "database_write_seconds"
_METHODS = {
    _READ: "head view read read_turn find tail live_checkpoint checkpoints get_document documents "
    "conversations search",
    _WRITE: "append add_checkpoint drop_checkpoint put_document note drop_document erase delete",
}
_REFUSALS = (Conflict, ConversationDeleted, IdReused, InvalidOption)
"""Errors with which a working store refuses a request; they do not count as database errors."""


class _TimedStore:
    def __init__(self, inner: Store, meter: Meter) -> None:
        self._inner = inner
        for metric, methods in _METHODS.items():
            for name in methods.split():
                setattr(self, name, _timed(inner, name, metric, meter))

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def time_store_calls(store: Store, meter: Meter) -> Store:
    """Return `store` with the time of each read and write, and each error, recorded in `meter`."""
    return cast("Store", _TimedStore(store, meter))


def redis_listener(meter: Meter) -> Callable[[float, bool], None]:
    """Return a callback for a Redis cache that records the time and the failure of each request in `meter`."""

    def listen(seconds: float, answered: bool) -> None:  # noqa: FBT001 (the signature of the callback)
        meter.observe("redis_seconds", seconds)
        if not answered:
            meter.add("redis_failures")

    return listen


def _timed(
    store: Store, name: str, metric: str, meter: Meter
) -> Callable[..., Coroutine[object, None, object]]:
    async def call(*args: object, **options: object) -> object:
        began = perf_counter()
        try:
            answer = await getattr(store, name)(*args, **options)
        except WrongProcess:
            raise  # nothing was done; in a forked process the meter's lock may never be released
        except BaseException as error:
            if isinstance(error, Exception) and not isinstance(error, _REFUSALS):
                meter.add("database_errors")
            meter.observe(metric, perf_counter() - began)
            raise
        meter.observe(metric, perf_counter() - began)
        return answer

    return call
