"""Accepts connections, and starts those that bring a valid access token before those of strangers.

A client that opens hundreds of connections in a second fills the queue of the listening socket, in which all others
wait too. So connections are accepted as fast as they come, and nothing is set up for them. A glance at the bytes that
have arrived shows whether they contain a valid access token; if so, the connection is started at once. Connections of
strangers are started a few at a time, those of each address in turn, and where too many wait, the oldest of the address
with the most is closed.

The glance decides about the order only: the request is authorized afterwards like every other.
"""

from __future__ import annotations

import asyncio
import re
import select
import socket
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

__all__ = ("ConnectionQueue", "brings_token")

_TOKEN: Final = re.compile(rb"\btf_[a-z0-9-]{1,64}_[A-Za-z0-9_-]{16,128}")
_MOST_TOKENS: Final = 3
"""Most texts in the head of a request that are tried as access tokens."""
_GLANCE: Final = 4_096
"""Bytes of a request that are looked at."""
_ACCEPTED: Final = 64
"""Most connections that are accepted before other work of the event loop is done."""
_STARTED: Final = 4
"""Most connections of strangers that are started before other work of the event loop is done."""
_MOST_STRANGERS: Final = 64
"""Most connections of strangers that wait with a request."""
_MOST_SILENT: Final = 256
"""Most connections that wait and have sent nothing yet."""
_PAUSE_SECONDS: Final = 1.0
"""Seconds without accepting after the process could open no more files."""


@dataclass(slots=True)
class ConnectionQueue:
    """Queue of the connections of one listening socket that are accepted and not started yet."""

    listening: socket.socket
    start: Callable[[socket.socket], None]
    """Starts a connection."""
    knows: Callable[[bytes], bool]
    """Returns True if the first bytes of a connection are from a client with an access token."""
    has_room: Callable[[int], bool]
    """Returns True if the process may have so many connections beside those that are started."""
    _strangers: OrderedDict[str, deque[socket.socket]] = field(
        default_factory=OrderedDict[str, "deque[socket.socket]"]
    )
    """Address -> connections with a request, oldest first; the address whose turn it is comes first."""
    _silent: OrderedDict[socket.socket, str] = field(
        default_factory=OrderedDict[socket.socket, str]
    )
    """Connection that has sent nothing yet -> address, oldest first."""
    _starting: asyncio.Handle | None = None
    _resuming: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Begin to accept connections."""
        self.listening.setblocking(False)  # noqa: FBT003 (a name of the standard library)
        asyncio.get_running_loop().add_reader(self.listening, self._accept)

    def close(self) -> None:
        """Accept no more connections, and close those that wait."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self.listening)
        for handle in (self._starting, self._resuming):
            if handle is not None:
                handle.cancel()
        for each in list(self._silent):
            self._forget_silent(each).close()
        for waiting in self._strangers.values():
            for each in waiting:
                each.close()
        self._strangers.clear()

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(_ACCEPTED):
            try:
                connection, address = self.listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError:  # no more files: pause, so that the event loop does not spin
                loop.remove_reader(self.listening)
                self._resuming = loop.call_later(_PAUSE_SECONDS, self.open)
                break
            connection.setblocking(False)  # noqa: FBT003 (a name of the standard library)
            self._place(connection, str(address[0]) if address else "")
        self._start_soon()

    def _place(self, connection: socket.socket, address: str) -> None:
        """Start a connection that brings an access token; put any other into the queue."""
        sent = _sent(connection)
        if sent is None:
            self._silent[connection] = address
            asyncio.get_running_loop().add_reader(connection, self._on_first_bytes, connection)
        elif not sent:
            connection.close()
        elif self.knows(sent):
            self.start(connection)
        else:
            self._strangers.setdefault(address, deque()).append(connection)
        while len(self._silent) > _MOST_SILENT:
            self._forget_silent(next(iter(self._silent))).close()
        while sum(map(len, self._strangers.values())) > _MOST_STRANGERS or not self.has_room(
            self.waiting
        ):
            if not self._close_one():
                break

    @property
    def waiting(self) -> int:
        """Number of connections that wait."""
        return len(self._silent) + sum(map(len, self._strangers.values()))

    def _close_one(self) -> bool:
        """Close the oldest connection of the address with the most; False if none waits."""
        if self._strangers:
            most = max(self._strangers, key=lambda address: len(self._strangers[address]))
            self._take(most).close()
            return True
        if self._silent:
            self._forget_silent(next(iter(self._silent))).close()
            return True
        return False

    def _take(self, address: str) -> socket.socket:
        waiting = self._strangers.pop(address)
        oldest = waiting.popleft()
        if waiting:
            self._strangers[address] = waiting  # at the end: the others come first
        return oldest

    def _on_first_bytes(self, connection: socket.socket) -> None:
        address = self._silent[connection]
        self._place(self._forget_silent(connection), address)
        self._start_soon()

    def _forget_silent(self, connection: socket.socket) -> socket.socket:
        asyncio.get_running_loop().remove_reader(connection)
        del self._silent[connection]
        return connection

    def _start_soon(self) -> None:
        if self._starting is None and self.waiting:
            self._starting = asyncio.get_running_loop().call_soon(self._start_some)

    def _start_some(self) -> None:
        """Start some connections of strangers, each address in turn, and one that has sent nothing."""
        self._starting = None
        for _ in range(_STARTED):
            if not self._strangers:
                break
            connection = self._take(next(iter(self._strangers)))
            # In a crowd, whoever has left already is not answered.
            if self._strangers and _has_left(connection):
                connection.close()
            else:
                self.start(connection)
        else:
            self._start_soon()
            return
        for _ in range(min(_STARTED, len(self._silent))):
            self.start(self._forget_silent(next(iter(self._silent))))
        self._start_soon()


def brings_token(sent: bytes, accepts: Callable[[str], bool]) -> bool:
    """Return True if the head of a request has a text, in any header, that `accepts` as an access token."""
    found = islice(_TOKEN.finditer(sent[:_GLANCE]), _MOST_TOKENS)
    return any(accepts(each.group().decode()) for each in found)


def _sent(connection: socket.socket) -> bytes | None:
    """Return the first bytes that have arrived, without taking them; None if there are none yet."""
    try:
        return connection.recv(_GLANCE, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError:  # it was reset
        return b""


def _has_left(connection: socket.socket) -> bool:
    """Return True if the client has closed its connection, or will send nothing more."""
    if not hasattr(select, "POLLRDHUP"):
        return False
    asked = select.poll()
    asked.register(connection, select.POLLRDHUP)
    return bool(asked.poll(0))
