"""A store from an address.

`sqlite:///chat.db` (relative), `sqlite:////var/lib/chat.db` (absolute), `sqlite://` (in memory), `postgresql://...`,
each with `cache="redis://..."` (or `redis+cluster://...`) in front of it if wanted. Backends are imported when they
are opened, so nobody needs the driver of a database they do not use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import unquote

from turnfold.errors import InvalidOption, MissingExtra
from turnfold.stores.addresses import divided, shown_address
from turnfold.stores.protocol import Store
from turnfold.tokens import TokenCounter

__all__ = ("open_store", "with_cache")

_KNOWN: Final = "sqlite:///PATH, sqlite:// (in memory), postgresql://..."
_REDIS: Final = ("redis", "rediss", "redis+cluster", "rediss+cluster", "unix")


def open_store(
    url: str,
    *,
    cache: str | None = None,
    counter: TokenCounter | None = None,
    blocking: bool = False,
    clock: Callable[[], int] | None = None,
) -> Store:
    """The store behind `url`, with a Redis cache in front of it if `cache` names one.

    `counter` counts what is stored. `blocking` is for programs without an event loop: every verb then finishes before
    its coroutine suspends. `clock` tells the microseconds since 1970 that entries are stamped with.
    """
    scheme = divided(url).scheme.lower()
    if scheme == "sqlite":
        store = _open_sqlite(url, counter, clock, blocking=blocking)
    elif scheme in ("postgresql", "postgres"):
        store = _open_postgres(url, counter, clock, blocking=blocking)
    elif scheme in _REDIS:
        raise InvalidOption(
            f"{scheme}:// cannot be the store: Redis may forget. Use it as cache=, in front of one of {_KNOWN}"
        )
    else:
        raise InvalidOption(f"unknown store {shown_address(url)!r}; known: {_KNOWN}")
    return store if cache is None else with_cache(store, cache, blocking=blocking)


def _open_sqlite(
    url: str, counter: TokenCounter | None, clock: Callable[[], int] | None, *, blocking: bool
) -> Store:
    try:
        from turnfold.stores.sqlite_store import SqliteStore
    except ImportError as missing:
        raise MissingExtra(package="apsw", extra="sqlite", purpose="SqliteStore") from missing
    address = divided(url)
    if address.authority:
        # A file is named in the remedy; what may hold a password is not repeated.
        is_file = "@" not in url and ":" not in address.authority
        name = address.authority if is_file else "name.db"
        raise InvalidOption(
            f"{shown_address(url)!r} names a host; a relative path takes three slashes: sqlite:///{name}"
        )
    if address.options.strip("?#"):
        raise InvalidOption(
            f"{shown_address(url)!r}: SQLite addresses take no ? or # part; write them as %3F and %23"
        )
    path = unquote(address.path[1:])
    return SqliteStore(path or None, counter=counter, blocking=blocking, clock=clock)


def _open_postgres(
    url: str, counter: TokenCounter | None, clock: Callable[[], int] | None, *, blocking: bool
) -> Store:
    from turnfold.stores.postgres_store import PostgresStore

    return PostgresStore(url, counter=counter, blocking=blocking, clock=clock)


def with_cache(
    store: Store,
    cache: str,
    *,
    blocking: bool = False,
    on_answer: Callable[[float, bool], None] | None = None,
) -> Store:
    """A durable store with the Redis at `cache` in front of it.

    `on_answer` is told of each question to Redis how many seconds it took and whether it was answered.
    """
    if divided(cache).scheme.lower() not in _REDIS:
        raise InvalidOption(f"cache={shown_address(cache)!r} is not a redis:// address")
    from turnfold.stores.redis_cache import CachedStore

    cluster = "+cluster://" in cache
    address = cache.replace("+cluster://", "://", 1)
    return CachedStore(store, address, blocking=blocking, cluster=cluster, on_answer=on_answer)
