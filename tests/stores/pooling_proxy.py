"""A proxy that lends a few PostgreSQL connections by transaction, and never the same one twice in a row.

It does what the poolers of large installations do in their transaction mode, and does it as unkindly as they may: a
client gets the connection that has rested longest. So whatever a client leaves on a connection, somebody else finds.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field

import psycopg
from psycopg.conninfo import make_conninfo

__all__ = ("PoolingProxy",)

_CANCEL, _SSL, _GSS = 80877102, 80877103, 80877104
_TOLD = (
    "server_version",
    "server_encoding",
    "client_encoding",
    "standard_conforming_strings",
    "integer_datetimes",
    "DateStyle",
    "TimeZone",
)
"""What a server tells of itself to every client."""


class _Closed(Exception):
    """One side hung up."""


@dataclass
class _Message:
    kind: bytes
    body: bytes

    @property
    def data(self) -> bytes:
        return self.kind + struct.pack("!I", len(self.body) + 4) + self.body


async def _message(reader: asyncio.StreamReader, *, kinds: int = 1) -> _Message:
    try:
        head = await reader.readexactly(kinds + 4)
        (size,) = struct.unpack("!I", head[kinds:])
        return _Message(head[:kinds], await reader.readexactly(size - 4))
    except (asyncio.IncompleteReadError, ConnectionError):
        raise _Closed from None


@dataclass
class _Server:
    """A connection to PostgreSQL: opened by the driver, which can log in, then used without it."""

    driver: psycopg.Connection[tuple[object, ...]]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def greeting(self) -> list[_Message]:
        told = [(name, self.driver.info.parameter_status(name) or "") for name in _TOLD]
        words = [f"{name}\0{value}\0".encode() for name, value in told]
        return [_Message(b"R", bytes(4)), *(_Message(b"S", word) for word in words)]

    def close(self) -> None:
        self.writer.close()
        self.driver.close()


@dataclass
class _Pool:
    """The connections of one user to one database."""

    size: int
    made: int = 0
    resting: asyncio.Queue[_Server | None] = field(default_factory=asyncio.Queue)
    """Longest rest first; None is a place whose connection broke."""


class PoolingProxy:
    """Listens on a port of its own; `size` connections for all clients who are the same user of the same database."""

    def __init__(self, url: str, *, size: int = 2) -> None:
        self._url, self._size = url, size
        self._pools: dict[tuple[bytes, ...], _Pool] = {}
        self._held: dict[bytes, _Server] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.lent = 0
        """How often a connection was lent."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        listening = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._listener = asyncio.run_coroutine_threadsafe(listening, self._loop).result(60)
        self.port = int(self._listener.sockets[0].getsockname()[1])

    def url(self, url: str) -> str:
        """The same place, through the proxy."""
        return make_conninfo(url, host="127.0.0.1", port=self.port)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    async def _end(self) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for pool in self._pools.values():
            while not pool.resting.empty():
                if server := pool.resting.get_nowait():
                    server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            start = await self._startup(reader, writer)
            if start is not None:
                await self._talk(start, reader, writer)
        except (_Closed, OSError, asyncio.CancelledError):
            pass  # the other side has gone
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _startup(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> _Message | None:
        while True:
            start = await _message(reader, kinds=0)
            (code,) = struct.unpack("!I", start.body[:4])
            if code == _CANCEL:
                await self._cancel(start.body[4:])
                return None
            if code not in (_SSL, _GSS):
                return start
            writer.write(b"N")

    async def _cancel(self, key: bytes) -> None:
        server = self._held.get(key)
        if server is not None:
            await asyncio.to_thread(server.driver.cancel)

    async def _opened(self, start: _Message) -> _Server:
        user, database, options = (word.decode() for word in _identity(start))
        address = make_conninfo(
            self._url, user=user, dbname=database, options=options, sslmode="disable"
        )
        try:
            driver = await asyncio.to_thread(psycopg.connect, address, autocommit=True)
        except psycopg.Error:
            raise _Closed from None
        line = socket.socket(fileno=os.dup(driver.fileno()))
        return _Server(driver, *await asyncio.open_connection(sock=line))

    async def _take(self, start: _Message) -> _Server:
        pool = self._pools.setdefault(_identity(start), _Pool(self._size))
        self.lent += 1
        if pool.made < pool.size:
            pool.made += 1
            pool.resting.put_nowait(None)
        server = await pool.resting.get()
        try:
            return server or await self._opened(start)
        except BaseException:
            pool.resting.put_nowait(None)
            raise

    def _give_back(self, start: _Message, server: _Server, *, whole: bool) -> None:
        if not whole:
            server.close()
        self._pools[_identity(start)].resting.put_nowait(server if whole else None)

    async def _talk(
        self, start: _Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        key = secrets.token_bytes(8)
        server = await self._take(start)
        for message in (*server.greeting, _Message(b"K", key), _Message(b"Z", b"I")):
            writer.write(message.data)
        self._give_back(start, server, whole=True)
        while (message := await _message(reader)).kind != b"X":
            server = self._held[key] = await self._take(start)
            whole = False
            try:
                whole = await _transaction(message, server, reader, writer)
            finally:
                del self._held[key]
                self._give_back(start, server, whole=whole)


def _identity(start: _Message) -> tuple[bytes, ...]:
    words = start.body[4:].split(b"\0")
    said = dict(zip(words[::2], words[1::2], strict=False))
    return tuple(said.get(name, b"") for name in (b"user", b"database", b"options"))


async def _transaction(
    first: _Message, server: _Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    """Carry messages both ways until the server is at rest again."""
    message = first
    while True:
        server.writer.write(message.data)
        if message.kind in b"SQ":  # the end of a question
            await server.writer.drain()
            answer = await _message(server.reader)
            while answer.kind != b"Z":
                writer.write(answer.data)
                answer = await _message(server.reader)
            writer.write(answer.data)
            with suppress(ConnectionError):
                await writer.drain()
            if answer.body == b"I":
                return True
        message = await _message(reader)
        if message.kind == b"X":
            return False
