"""Connections to PostgreSQL that do not wait for ever.

A server that is frozen, or behind a network that drops packets, neither answers nor hangs up. Four limits hold:
connecting has one of its own; the server itself ends statements and waits for locks that take too long, and says so; a
server that is silent for longer than that is given up from here; and the operating system gives up a peer that does not
confirm what was sent. All but the first and the last are settings of a transaction, so they hold behind a proxy that
lends connections by transaction as well.
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
    "AwaitedConnection",
    "BlockingConnection",
    "Connection",
    "NoAnswer",
    "TimeLimits",
    "complete_address",
    "end_with_the_sync",
    "hang_up",
    "is_quiet",
    "reason_of",
)

_Answer = TypeVar("_Answer")
_SHORTEST_CONNECT = 2
"""Seconds below which libpq does not go."""
_LONGEST_GRACE = 5.0
"""Seconds that the server is given to say itself that something took too long."""
_DRAIN = 10.0
"""Seconds for the answer to a statement that the driver has cancelled; the driver gives up sooner."""
_INTERVAL = 0.1
"""Seconds between two looks at the clock while nothing comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """Seconds a store waits for its server.

    None means without end; for `statement` and `lock`, as long as the server itself is set up for.
    """

    connect: int
    statement: float | None
    lock: float | None
    long: float | None
    """For one statement of long work: of an import, a deletion, a recount, a new search index."""
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
        """How long a server may be silent that should have spoken after `seconds`."""
        return None if seconds is None else seconds + min(seconds, _LONGEST_GRACE)


class NoAnswer(psycopg.OperationalError):
    """The server has been silent for longer than it may; whether it will do what it was asked is unknown."""


class _Limited(Protocol):
    longest_silence: float | None


class BlockingConnection(psycopg.Connection[tuple[object, ...]]):
    """A connection for programs without an event loop."""

    longest_silence: float | None = None
    """Seconds without an answer after which the server is given up."""

    def wait(
        self, gen: PQGen[_Answer], interval: float = _INTERVAL, timeout: float | None = None
    ) -> _Answer:
        """Wait for the server, as long as it may be silent."""
        bounded = _given_up_when_silent(gen, self)
        if timeout is None:  # as older drivers have it
            return super().wait(bounded, interval)
        return super().wait(bounded, interval, timeout)


class AwaitedConnection(psycopg.AsyncConnection[tuple[object, ...]]):
    """A connection of an event loop."""

    longest_silence: float | None = None
    """Seconds without an answer after which the server is given up."""

    async def wait(
        self,
        gen: PQGen[_Answer],
        interval: float = _INTERVAL,
        timeout: float | None = None,  # noqa: ASYNC109 (the driver's own)
    ) -> _Answer:
        """Wait for the server, as long as it may be silent."""
        bounded = _given_up_when_silent(gen, self)
        if timeout is None:  # as older drivers have it
            return await super().wait(bounded, interval)
        return await super().wait(bounded, interval, timeout)


Connection: TypeAlias = BlockingConnection | AwaitedConnection


def _given_up_when_silent(
    gen: PQGen[_Answer], connection: _Limited
) -> Generator[Any, Any, _Answer]:
    """The driver's own steps; `NoAnswer` is raised in them when nothing has come for too long.

    The driver says after each interval that nothing came (0), and begins anew (None) to wait for the end of what it has
    cancelled. Steps that have to tidy up wait again: what was silent once is given no more time then.
    """
    limit = connection.longest_silence
    if limit is None:
        return (yield from gen)
    send: Callable[[Any], Any] = gen.send
    give_up = monotonic() + limit
    ready: Any = None
    try:
        wanted = send(ready)
        while True:
            ready = yield wanted
            if ready:
                give_up = monotonic() + limit
            elif ready is None:
                give_up = monotonic() + _DRAIN
            elif monotonic() >= give_up:
                connection.longest_silence = 0.0
                wanted = gen.throw(NoAnswer(f"no answer for {limit:g} s"))
                continue
            wanted = send(ready)
    except StopIteration as done:
        return done.value


def complete_address(url: str, limits: TimeLimits) -> str:
    """The address with the limits of connecting and of TCP, where it does not bring its own."""
    given = _parsed(url)
    if given is None or not _is_plain(url, str(given.get("port", ""))):
        raise InvalidOption(
            "the address of the store cannot be read as postgresql://user:password@host:port/database; a password "
            "with one of @ : / ? # % in it writes them as %40 %3A %2F %3F %23 %25"
        )
    wanted: dict[str, int] = {}
    if "PGCONNECT_TIMEOUT" not in os.environ:
        wanted["connect_timeout"] = ceil(limits.connect)
    if limits.tcp is not None:
        # A third of it without a word, then four questions in the rest.
        wanted["keepalives_idle"] = ceil(limits.tcp / 3)
        wanted["keepalives_interval"] = ceil(limits.tcp / 6)
        wanted["keepalives_count"] = 4
        wanted["tcp_user_timeout"] = ceil(limits.tcp * 1000)
    return make_conninfo(url, **{name: each for name, each in wanted.items() if name not in given})


def _parsed(url: str) -> dict[str, Any] | None:
    """The parts of an address; None if it has no such parts. The driver's own words would show a password."""
    try:
        return dict(conninfo_to_dict(url))
    except psycopg.Error:
        return None


def _is_plain(url: str, port: str) -> bool:
    """Whether no part of a password can have been taken for a host, a port or a database, which errors show."""
    authority, _, path = url.partition("://")[2].partition("?")[0].partition("/")
    misread = "@" in path or authority.count("@") > 1
    return not misread and all(each.isdecimal() for each in port.split(",") if each)


def end_with_the_sync(pipeline: psycopg.Pipeline | psycopg.AsyncPipeline) -> None:
    """Let nothing follow the sync that ends an exchange.

    The driver asks for the answers once more after it, which the server ignores. A proxy that lends connections by
    transaction may see that after it has seen the answers, and then reserves a connection for a client at rest.
    """
    fetch: Callable[..., Generator[Any, Any, None]] | None = getattr(pipeline, "_fetch_gen", None)
    if fetch is not None:

        def fetch_what_comes(*, flush: bool) -> Generator[Any, Any, None]:
            del (
                flush
            )  # the sync has the same effect, but what is not yet on its way must still be sent
            yield from generators.send(pipeline.pgconn)
            yield from fetch(flush=False)

        setattr(pipeline, "_fetch_gen", fetch_what_comes)  # noqa: B010 (private to the driver)


def hang_up(connection: Connection) -> None:
    """Close a connection without waiting for anything."""
    connection.pgconn.finish()  # what both kinds of connection do to close, in neither case waiting


def is_quiet(connection: Connection) -> bool:
    """Whether nothing has come in on an idle connection: a server that hung up has said so."""
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(connection.pgconn.socket, selectors.EVENT_READ)
            return not selector.select(0)
    except (psycopg.Error, OSError, ValueError):
        return False


def reason_of(error: psycopg.Error, limits: TimeLimits) -> str:
    """What went wrong, without the row it went wrong with; for a limit, which option it is."""
    text = (
        error.diag.message_primary or str(error).strip().partition("\n")[0] or type(error).__name__
    )
    if error.sqlstate == "55P03" and limits.lock is not None:
        return f"{text} (55P03, lock_timeout_seconds={limits.lock:g})"
    if (error.sqlstate == "57014" and "timeout" in text) or isinstance(error, NoAnswer):
        statement, long = limits.statement or 0, limits.long or 0
        return f"{text} (statement_timeout_seconds={statement:g}, long_timeout_seconds={long:g})"
    return f"{text} ({error.sqlstate})" if error.sqlstate else text
