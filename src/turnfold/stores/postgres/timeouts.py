"""Connections to PostgreSQL with time limits.

A server that is frozen, or behind a network that drops packets, neither responds nor closes the connection. There are
four limits: for connecting; on the server, which ends statements and lock waits that take too long; in the client, for
a server that is silent for longer than that; and in the operating system, for a peer that does not acknowledge data.
The second and third are settings of a transaction, so they also work behind a proxy that assigns connections per
transaction.
"""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable, Generator
from dataclasses import dataclass
from math import ceil
from time import monotonic
from typing import Any, Protocol, TypeAlias, TypeVar

import psycopg
from psycopg import generators
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from turnfold.errors import InvalidOption

__all__ = (
    "AsyncConnection",
    "BlockingConnection",
    "Connection",
    "NoAnswer",
    "TimeLimits",
    "complete_address",
    "hang_up",
    "is_idle",
    "reason_of",
    "skip_flush_after_sync",
)


_Result = TypeVar("_Result")
_SHORTEST_CONNECT = 2
"""Shortest time limit for connecting, in seconds, that libpq (PostgreSQL's client library) allows; a shorter one is
refused."""
_LONGEST_GRACE = 5.0
"""Seconds that the client waits longer than the server, so that the server can report a time-out itself."""
_DRAIN = 10.0
"""Seconds to wait for the server's response to a statement that the driver has cancelled; the driver itself gives up
sooner."""
_INTERVAL = 0.1
"""Seconds between two checks of the clock while nothing is received."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """Seconds that a store waits for its server.

    None means no limit; for `statement` and `lock`, the limit set on the server.
    """

    connect: int
    statement: float | None
    lock: float | None
    long: float | None
    """Seconds for one statement of long work: an import, a deletion, a recount of tokens, a rebuild of the search
    index."""
    tcp: float | None

    def __post_init__(self) -> None:
        if self.connect < _SHORTEST_CONNECT:
            raise InvalidOption(
                f"connect_timeout_seconds must be at least {_SHORTEST_CONNECT}, got {self.connect}"
            )
        for name in ("statement", "lock", "long", "tcp"):
            value: float | None = getattr(self, name)
            if value is not None and value <= 0:
                raise InvalidOption(f"{name}_timeout_seconds must be more than 0, got {value}")

    @staticmethod
    def silence(seconds: float | None) -> float | None:
        """Return how long the client waits for a response that is due within `seconds`; None means no limit."""
        return None if seconds is None else seconds + min(seconds, _LONGEST_GRACE)


class NoAnswer(psycopg.OperationalError):
    """Raised if the server did not respond in time; whether it executes the request is unknown."""


class _Limited(Protocol):
    longest_silence: float | None


class BlockingConnection(psycopg.Connection[tuple[object, ...]]):
    """A blocking connection that gives up if the server does not respond in time."""

    longest_silence: float | None = None
    """Seconds without a response after which the connection is given up."""

    def wait(
        self, gen: PQGen[_Result], interval: float = _INTERVAL, timeout: float | None = None
    ) -> _Result:
        """Wait for the server's response, at most `longest_silence` seconds; then raise `NoAnswer`."""
        bounded = _limit_silence(gen, self)
        if timeout is None:  # older drivers do not take it
            return super().wait(bounded, interval)
        return super().wait(bounded, interval, timeout)


class AsyncConnection(psycopg.AsyncConnection[tuple[object, ...]]):
    """A connection of an event loop that gives up if the server does not respond in time."""

    longest_silence: float | None = None
    """Seconds without a response after which the connection is given up."""

    async def wait(
        self,
        gen: PQGen[_Result],
        interval: float = _INTERVAL,
        timeout: float | None = None,  # noqa: ASYNC109 (the driver's own)
    ) -> _Result:
        """Wait for the server's response, at most `longest_silence` seconds; then raise `NoAnswer`."""
        bounded = _limit_silence(gen, self)
        if timeout is None:  # older drivers do not take it
            return await super().wait(bounded, interval)
        return await super().wait(bounded, interval, timeout)


Connection: TypeAlias = BlockingConnection | AsyncConnection


def _limit_silence(gen: PQGen[_Result], connection: _Limited) -> Generator[Any, Any, _Result]:
    """Run a generator of the driver, and raise `NoAnswer` in it if nothing is received for too long.

    The driver sends 0 after each interval in which nothing was received, and None when it starts to wait for the end of
    a cancelled statement. After `NoAnswer`, the driver may wait again to clean up; it gets no more time for that.
    """
    limit = connection.longest_silence
    if limit is None:
        return (yield from gen)
    send: Callable[[Any], Any] = gen.send
    deadline = monotonic() + limit
    ready: Any = None
    try:
        wanted = send(ready)
        while True:
            ready = yield wanted
            if ready:
                deadline = monotonic() + limit
            elif ready is None:
                deadline = monotonic() + _DRAIN
            elif monotonic() >= deadline:
                connection.longest_silence = 0.0
                wanted = gen.throw(NoAnswer(f"no answer for {limit:g} s"))
                continue
            wanted = send(ready)
    except StopIteration as done:
        return done.value


def complete_address(url: str, limits: TimeLimits) -> str:
    """Return the address with the time limits for connecting and TCP added, except those that it already has."""
    given = _parse(url)
    if given is None or not _is_plain(url, str(given.get("port", ""))):
        raise InvalidOption(
            "the address of the store is not of the form postgresql://user:password@host:port/database; in a password, "
            "write @ : / ? # % as %40 %3A %2F %3F %23 %25"
        )
    wanted: dict[str, int] = {}
    if "PGCONNECT_TIMEOUT" not in os.environ:
        wanted["connect_timeout"] = ceil(limits.connect)
    if limits.tcp is not None:
        # The first probe after a third of the limit, four probes in the rest.
        wanted["keepalives_idle"] = ceil(limits.tcp / 3)
        wanted["keepalives_interval"] = ceil(limits.tcp / 6)
        wanted["keepalives_count"] = 4
        wanted["tcp_user_timeout"] = ceil(limits.tcp * 1000)
    return make_conninfo(url, **{name: each for name, each in wanted.items() if name not in given})


def _parse(url: str) -> dict[str, Any] | None:
    """Return the parts of an address; None if it is not valid. The driver's own error would show a password."""
    try:
        return dict(conninfo_to_dict(url))
    except psycopg.Error:
        return None


def _is_plain(url: str, port: str) -> bool:
    """Return True if no part of a password was parsed as host, port or database, which errors show."""
    authority, _, path = url.partition("://")[2].partition("?")[0].partition("/")
    misread = "@" in path or authority.count("@") > 1
    return not misread and all(each.isdecimal() for each in port.split(",") if each)


def skip_flush_after_sync(pipeline: psycopg.Pipeline | psycopg.AsyncPipeline) -> None:
    """Keep the driver from sending a Flush message after the Sync message that ends a pipeline.

    The server ignores the Flush. But a proxy that assigns connections per transaction may get it after the responses,
    and then reserve a connection for an idle client.
    """
    fetch: Callable[..., Generator[Any, Any, None]] | None = getattr(pipeline, "_fetch_gen", None)
    if fetch is not None:

        def fetch_what_comes(*, flush: bool) -> Generator[Any, Any, None]:
            del flush  # the sync has the same effect
            yield from generators.send(pipeline.pgconn)  # data may still be in the buffer
            yield from fetch(flush=False)

        setattr(pipeline, "_fetch_gen", fetch_what_comes)  # noqa: B010 (private to the driver)


def hang_up(connection: Connection) -> None:
    """Close a connection without waiting for a response of the server."""
    connection.pgconn.finish()  # as both kinds of connection do to close


def is_idle(connection: Connection) -> bool:
    """Return True if an unused connection of the pool still works.

    If the server has sent anything to it meanwhile, it is closed.
    """
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(connection.pgconn.socket, selectors.EVENT_READ)
            return not selector.select(0)
    except (psycopg.Error, OSError, ValueError):
        return False


def reason_of(error: psycopg.Error, limits: TimeLimits) -> str:
    """Return the reason of a driver's error without stored content; for a time-out, name the option that sets it."""
    text = (
        error.diag.message_primary or str(error).strip().partition("\n")[0] or type(error).__name__
    )
    if error.sqlstate == "55P03" and limits.lock is not None:
        return f"{text} (55P03, lock_timeout_seconds={limits.lock:g})"
    if (error.sqlstate == "57014" and "timeout" in text) or isinstance(error, NoAnswer):
        statement, long = limits.statement or 0, limits.long or 0
        return f"{text} (statement_timeout_seconds={statement:g}, long_timeout_seconds={long:g})"
    return f"{text} ({error.sqlstate})" if error.sqlstate else text
