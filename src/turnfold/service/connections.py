"""Limits on connections, which hold before anybody is authorized: how many there are, and how long a request may take.

A connection that has not sent the headers of a request in time is closed, and so is one whose body does not arrive. If
there are as many connections as the service takes, the one that has been waiting longest for its headers makes room for
a new one: whoever opens connections and says nothing keeps nobody else out. The number stays below what the system lets
the process open, where nothing could be accepted any more. `LogThrottle` bounds what strangers can write into the log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from turnfold.service.limits import Limits

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as _Protocol
else:
    _Protocol = AutoHTTPProtocol

__all__ = (
    "LogThrottle",
    "limited_protocol",
    "most_connections",
)


_RESERVED: Final = 128
"""Files that the process may need beside its connections: stores, logs, connections to models."""
_LEAST: Final = 16


def most_connections(wanted: int) -> int:
    """Return how many connections to take: as many as wanted, if the system lets the process open that many files."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(_LEAST, allowed - _RESERVED))


class _LimitedProtocol(_Protocol):
    """An HTTP connection with deadlines; a server has a subclass of its own."""

    limits: ClassVar[Limits]
    most: ClassVar[int]
    waiting: ClassVar[OrderedDict[_LimitedProtocol, None]]
    """Connections whose headers have not arrived, the longest waiting first."""

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 (those of the server)
        super().__init__(*args, **options)
        self._deadline: asyncio.TimerHandle | None = None
        self._phase = ""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.most:
            next(iter(self.waiting), self).end()
        if not transport.is_closing():
            self._enter("headers")

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._enter(self._current_phase())

    def connection_lost(self, exc: Exception | None) -> None:
        self._enter("")
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._enter(
            ""
        )  # until the next request, the time-out of the server for idle connections holds

    def end(self) -> None:
        """Close the connection at once."""
        self._enter("")
        self.connections.discard(self)
        self.transport.abort()

    def _current_phase(self) -> str:
        if self.transport.is_closing():
            return ""
        if self.cycle is None or self.cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison] (before the first request)
            return "headers"
        return "body" if self.cycle.more_body else ""

    def _enter(self, phase: str) -> None:
        """Begin what the connection waits for now, and its deadline."""
        if phase == self._phase:
            return
        self._phase = phase
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self.waiting.pop(self, None)
        if phase == "headers":
            self.waiting[self] = None
        if phase:
            limits = self.limits
            seconds = limits.header_seconds if phase == "headers" else limits.body_seconds
            self._deadline = self.loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        self._deadline = None
        if self._phase == "body" and self.flow.read_paused:  # the service does not read it yet
            self._phase = ""
            self._enter("body")
        else:
            self.end()


def limited_protocol(limits: Limits) -> type[asyncio.Protocol]:
    """Return the protocol of a server whose connections keep to these limits."""
    most = most_connections(limits.connections)
    own = {"limits": limits, "most": most, "waiting": OrderedDict[_LimitedProtocol, None]()}
    return type("LimitedProtocol", (_LimitedProtocol,), own)


class LogThrottle(logging.Filter):
    """Passes on a number of records of each kind in a period, and then says how many were left out."""

    def __init__(
        self, most: int = 20, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._most, self._seconds, self._clock = most, seconds, clock
        self._kinds: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True for a record that is to be logged."""
        kind, now = (record.pathname, record.lineno), self._clock()
        began, number = self._kinds.get(kind, (now, 0))
        if now - began >= self._seconds:
            if number > self._most:
                left_out = number - self._most
                record.msg = (
                    f"{record.getMessage()} ({left_out:,} more like the last ones were left out)"
                )
                record.args = ()
            began, number = now, 0
        self._kinds[kind] = began, number + 1
        return number < self._most
