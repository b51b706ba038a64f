"""Everything that can go wrong with Redis, on demand: with the server, with what it holds, and on the wire to it.

The wire is a TCP proxy in a thread of its own; a test sets its `fault` at any time, also while connections are open.
Every fault is something real networks, servers and operators do; none is something a cache may pass on to its
caller. Each knows how it shows, so that a run in which it was not felt proves nothing and fails.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from abc import ABC, abstractmethod
from random import Random
from typing import Any, Literal, Protocol, TypeAlias

from tests.stores.redis_server import RedisServer

__all__ = (
    "FAULTS",
    "Corrupted",
    "Fault",
    "FaultProxy",
    "Flushed",
    "SetBack",
    "Symptoms",
    "WireFault",
)

WireFault: TypeAlias = Literal[
    "none", "reset", "black hole", "truncated", "garbage", "duplicated", "moved", "old reply"
]

_GARBAGE = (
    b"\x00\xff\xfe not a reply\r\n",
    b"$-5\r\n",
    b"*1\r\n$3\r\nab",
    b"HTTP/1.1 200 OK\r\n\r\n",
)


class FaultProxy:
    """Listens on a port of its own and passes bytes on, as long as `fault` is "none"."""

    def __init__(self, port: int) -> None:
        self.fault: WireFault = "none"
        self.struck = 0
        """Replies that were spoilt."""
        self._target = port
        self._last_reply = b"+OK\r\n"
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        self.port = int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def stop(self) -> None:
        """Close the port and every connection."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def _end(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        upstream: asyncio.StreamWriter | None = None
        try:
            replies, upstream = await asyncio.open_connection("127.0.0.1", self._target)
            async with asyncio.TaskGroup() as both:
                both.create_task(_pass_on(reader, upstream))
                both.create_task(self._answer(replies, writer))
        except (OSError, ExceptionGroup, asyncio.CancelledError):
            pass  # a broken connection is what this is for
        finally:
            for end in (writer, upstream):
                if end is not None:
                    end.close()
            self._tasks.discard(task)

    async def _answer(self, replies: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        while data := await replies.read(1 << 16):
            if self.fault != "none":
                self.struck += 1
            for piece in self._spoilt(data):
                client.write(piece)
            await client.drain()
            if self.fault == "reset":
                _reset(client)
            if self.fault in ("reset", "truncated"):
                raise ConnectionAbortedError
            self._last_reply = data
        raise ConnectionAbortedError

    def _spoilt(self, data: bytes) -> tuple[bytes, ...]:
        match self.fault:
            case "reset" | "black hole":
                return ()
            case "truncated":
                return (data[: len(data) // 2],)
            case "garbage":
                return (_GARBAGE[self.struck % len(_GARBAGE)],)
            case "duplicated":
                return (data, data)
            case "moved":
                return (b"-MOVED 1 127.0.0.1:1\r\n",)
            case "old reply":
                return (self._last_reply,)
            case "none":
                return (data,)


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(1 << 16):
        target.write(data)
        await target.drain()
    raise ConnectionAbortedError


def _reset(writer: asyncio.StreamWriter) -> None:
    """Make the coming close a reset instead of a polite end."""
    end: socket.socket = writer.get_extra_info("socket")
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Symptoms(Protocol):
    """What can be seen of a run from outside."""

    @property
    def failures(self) -> int: ...

    def count(self, name: str) -> int: ...


class Fault(ABC):
    """Something that goes wrong, for a while or once, and how it shows."""

    def __init__(self, server: RedisServer, proxy: FaultProxy, dice: Random) -> None:
        self.server, self.proxy, self.dice = server, proxy, dice

    @abstractmethod
    def strike(self) -> None: ...

    def heal(self) -> None:  # noqa: B027 (most faults leave nothing to undo)
        pass

    def shows(self, run: Symptoms) -> bool:
        return run.failures > 0

    def keys(self) -> list[bytes]:
        return self.server.ask("KEYS", "*")


class Killed(Fault):
    def strike(self) -> None:
        self.server.kill()

    def heal(self) -> None:
        self.server.start()


class Stalled(Fault):
    def strike(self) -> None:
        self.server.stall()

    def heal(self) -> None:
        self.server.resume()


class Flushed(Fault):
    def strike(self) -> None:
        self.server.ask("FLUSHALL")
        self.server.ask("SCRIPT", "FLUSH")

    def shows(self, run: Symptoms) -> bool:
        return run.count("misses") > 20


class Evicting(Fault):
    def strike(self) -> None:
        self.server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
        self.server.ask("CONFIG", "SET", "maxmemory", 1)

    def heal(self) -> None:
        self.server.ask("CONFIG", "SET", "maxmemory", 0)

    def shows(self, run: Symptoms) -> bool:
        del run  # the server knows
        return self.server.ask("INFO", "stats")["evicted_keys"] > 0


class Full(Evicting):
    def strike(self) -> None:
        self.server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        self.server.ask("CONFIG", "SET", "maxmemory", 1)

    def shows(self, run: Symptoms) -> bool:
        return run.failures > 0


class Expiring(Fault):
    def strike(self) -> None:
        for key in self.keys():
            self.server.ask("PEXPIRE", key, self.dice.randrange(1, 5))

    def shows(self, run: Symptoms) -> bool:
        del run  # the server knows
        return self.server.ask("INFO", "stats")["expired_keys"] > 0


class Corrupted(Fault):
    def strike(self) -> None:
        for key in self.keys():
            for name, value in _pairs(self.server.ask("HGETALL", key)):
                spot = self.dice.randrange(len(value))
                flipped = bytes([value[spot] ^ (1 << self.dice.randrange(8))])
                self.server.ask("HSET", key, name, value[:spot] + flipped + value[spot + 1 :])

    def shows(self, run: Symptoms) -> bool:
        return run.count("rubbish") > 0


class SetBack(Fault):
    """A replica that had not caught up takes over: everything is as it was a while ago."""

    def strike(self) -> None:
        self._old = {key: self.server.ask("DUMP", key) for key in self.keys()}

    def heal(self) -> None:
        for key, value in self._old.items():
            if value is not None:
                self.server.ask("RESTORE", key, 60_000, value, "REPLACE")

    def shows(self, run: Symptoms) -> bool:
        return run.count("joined") > 0


class Misplaced(Fault):
    """Values moved between keys and fields, as a broken tool would."""

    def strike(self) -> None:
        values = [pair for key in self.keys() for pair in _pairs(self.server.ask("HGETALL", key))]
        for key in self.keys():
            for name, _ in _pairs(self.server.ask("HGETALL", key)):
                self.server.ask("HSET", key, name, self.dice.choice(values)[1])

    def shows(self, run: Symptoms) -> bool:
        return run.count("rubbish") > 0


class WrongType(Fault):
    def strike(self) -> None:
        for key in self.keys():
            self.server.ask("DEL", key)
            self.server.ask("RPUSH", key, "not", "a", "hash")

    def shows(self, run: Symptoms) -> bool:
        return run.count("misses") > 20 and run.failures == 0


class ReadOnly(Fault):
    def strike(self) -> None:
        self.server.ask("REPLICAOF", "127.0.0.1", "1")

    def heal(self) -> None:
        self.server.ask("REPLICAOF", "NO", "ONE")


class OnTheWire(Fault):
    kind: WireFault = "none"

    def strike(self) -> None:
        self.proxy.fault = self.kind

    def heal(self) -> None:
        self.proxy.fault = "none"

    def shows(self, run: Symptoms) -> bool:
        return self.proxy.struck > 0 and run.failures + run.count("rubbish") > 0


def wire(kind: WireFault) -> type[Fault]:
    return type(kind.title().replace(" ", ""), (OnTheWire,), {"kind": kind})


FAULTS: tuple[type[Fault], ...] = (
    Killed,
    Stalled,
    Flushed,
    Evicting,
    Full,
    Expiring,
    Corrupted,
    SetBack,
    Misplaced,
    WrongType,
    ReadOnly,
    wire("reset"),
    wire("black hole"),
    wire("truncated"),
    wire("garbage"),
    wire("duplicated"),
    wire("moved"),
    wire("old reply"),
)


def _pairs(flat: Any) -> list[tuple[bytes, bytes]]:
    return (
        list(flat.items()) if isinstance(flat, dict) else list(zip(*[iter(flat)] * 2, strict=True))
    )
