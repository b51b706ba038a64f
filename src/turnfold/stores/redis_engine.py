"""Redis or Valkey as something that may fail: every call ends soon, in an answer or in None, never in an error.

One place knows whether calls block or are awaited, and whether there is one server or a cluster. Each conversation is
one hash under one key, so a call never needs two places of a cluster. What the scripts do, they do at once: a
value is kept only if nothing newer is there, and an erased conversation leaves a mark that refuses late values.

Connections are kept per event loop and closed with it, so a store can be used in one `asyncio.run` after another.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol, TypeAlias, cast

from turnfold.errors import InvalidOption, MissingExtra
from turnfold.stores.process import ProcessGuard
from turnfold.stores.redis_breaker import Breaker

try:
    import redis
    import redis.asyncio
    from redis.asyncio.retry import Retry as AsyncRetry
    from redis.backoff import NoBackoff
    from redis.exceptions import NoScriptError, RedisError, ResponseError
    from redis.retry import Retry
except ImportError as missing:
    raise MissingExtra(package="redis", extra="redis", purpose="CachedStore") from missing

__all__ = ("RedisEngine",)

_Word: TypeAlias = str | bytes | int

_FILL = """
local kind = redis.call('TYPE', KEYS[1])['ok']
local ours = kind == 'hash' and redis.call('HGET', KEYS[1], 'store') == ARGV[6]
if ours then
  local newest = tonumber(redis.call('HGET', KEYS[1], 'generation')) or 0
  if newest > tonumber(ARGV[1]) then return 0 end
end
if kind ~= 'none' and (not ours or redis.call('HLEN', KEYS[1]) > tonumber(ARGV[5])) then
  redis.call('DEL', KEYS[1])
end
redis.call('HSET', KEYS[1], 'store', ARGV[6], 'generation', ARGV[1], ARGV[2], ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
"""
_ERASE = """
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'store', ARGV[2], 'generation', '9007199254740991')
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
"""
_MOST_FIELDS = 64
"""A conversation with more kept values than this starts again empty."""
_MARK_SECONDS = 60
"""How long an erased conversation refuses values from before the erasure."""
_MOST_OWED = 10_000
_SETTLED_AT_ONCE = 16
_SLOWEST_START = 1.0
"""Seconds a client may take to learn a cluster's layout, which takes more than one question."""


class _BlockingClient(Protocol):
    def execute_command(self, *words: _Word) -> object: ...
    def close(self) -> None: ...


class _AsyncClient(Protocol):
    async def execute_command(self, *words: _Word) -> object: ...
    async def initialize(self) -> object: ...
    async def aclose(self) -> None: ...


class RedisEngine:
    """One server or cluster, asked through a breaker."""

    def __init__(
        self,
        url: str,
        *,
        blocking: bool,
        cluster: bool,
        timeout_seconds: float,
        longest_pause_seconds: float,
        most_connections: int,
        clock: Callable[[], float] = time.monotonic,
        on_answer: Callable[[float, bool], None] | None = None,
    ) -> None:
        _check_url(url, cluster=cluster)
        self._url = url
        self._blocking = blocking
        self._cluster = cluster
        self._timeout = timeout_seconds
        self._most = most_connections
        self._lock = threading.Lock()
        self._in_use = 0
        self._in_place: _BlockingClient | None = None
        self._by_loop: dict[asyncio.AbstractEventLoop, _LoopClient] = {}
        self._owed: dict[str, str] = {}
        self._closed = False
        self._on_answer = on_answer
        self._process = ProcessGuard(self)
        self.breaker = Breaker(longest_pause=longest_pause_seconds, clock=clock)
        self.calls = 0
        """Commands sent."""
        self.crowded = 0
        """Calls not made because all connections were in use."""
        self.unerased = 0
        """Erasures given up because too many were owed; their values expire, and are never served."""

    @property
    def owed(self) -> int:
        """Erasures that wait for the cache to answer again."""
        return len(self._owed)

    async def fetch(self, key: str, field: bytes) -> bytes | None:
        """One kept value; None when there is none, or no answer."""
        answer = await self._ask("HGET", key, field)
        return answer if isinstance(answer, bytes) else None

    async def fill(
        self,
        key: str,
        field: bytes,
        value: bytes,
        *,
        store: str,
        generation: int,
        ttl_seconds: float,
    ) -> bool:
        """Keep a value unless the same store has something of a newer generation there; whether it was kept."""
        values = (generation, field, value, int(ttl_seconds * 1000), _MOST_FIELDS, store)
        return await self._run(_FILL, key, values) == 1

    async def erase(self, key: str, *, store: str) -> None:
        """Drop everything under a key, now or as soon as the cache answers again."""
        self._owed[key] = store
        while len(self._owed) > _MOST_OWED:
            self._owed.pop(next(iter(self._owed)), None)
            self.unerased += 1
        await self.settle()

    async def settle(self) -> None:
        """Do some of the erasures that are owed."""
        for key, store in list(self._owed.items())[:_SETTLED_AT_ONCE]:
            if await self._run(_ERASE, key, (_MARK_SECONDS * 1000, store)) != 1:
                return
            self._owed.pop(key, None)

    async def close(self) -> None:
        """Let go of the connections of this loop; those of other loops end with their loop."""
        self._closed = True
        if not self._process.is_own:  # they are the parent's
            return
        if self._in_place is not None:
            self._in_place.close()
        for loop in list(self._by_loop):
            client = self._by_loop.pop(loop)
            if not self._blocking and loop is asyncio.get_running_loop():
                await client.close()

    async def _run(self, script: str, key: str, values: Sequence[_Word]) -> object:
        digest = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
        answer = await self._ask("EVALSHA", digest, 1, key, *values)
        if isinstance(answer, NoScriptError):
            answer = await self._ask("EVAL", script, 1, key, *values)
        return answer

    async def _ask(self, *words: _Word) -> object:
        """The answer; None when there is none; an error that concerns this key or script alone, as a value."""
        self._process.check()
        if self._closed or not self._enter():
            return None
        reported = answered = False
        began = time.perf_counter()
        try:
            answer = await self._send(words)
            reported = answered = True
            self.breaker.worked()
        except ResponseError as error:
            reported = True
            if not _is_local(error):
                self.breaker.failed(error)
                return None
            answered = True
            self.breaker.worked()
            return error
        except Exception as error:
            reported = True
            self.breaker.failed(error)
            return None
        finally:
            self._leave()
            if not reported:
                self.breaker.abandoned()
            elif self._on_answer is not None:
                with suppress(Exception):  # a listener's fault must not become the cache's
                    self._on_answer(time.perf_counter() - began, answered)
        return answer

    def _enter(self) -> bool:
        with self._lock:
            if self._in_use >= self._most:
                self.crowded += 1
                return False
            if not self.breaker.admits():
                return False
            self._in_use += 1
            self.calls += 1
            return True

    def _leave(self) -> None:
        with self._lock:
            self._in_use -= 1

    async def _send(self, words: Sequence[_Word]) -> object:
        if self._blocking:
            with self._lock:
                if self._in_place is None:
                    self._in_place = self._open_blocking()
            return self._in_place.execute_command(*words)
        client = await self._loop_client()
        with client.in_use():
            if self._cluster:
                await client.start()
            async with asyncio.timeout(self._timeout):
                return await client.driver.execute_command(*words)

    async def _loop_client(self) -> _LoopClient:
        loop = asyncio.get_running_loop()
        known = self._by_loop.get(loop)
        if known is None:
            with self._lock:
                for ended in [other for other in self._by_loop if other.is_closed()]:
                    del self._by_loop[ended]
                known = self._by_loop[loop] = _LoopClient(self._open_async())
            await known.tie_to_loop()
        return known

    def _open_blocking(self) -> _BlockingClient:
        kind = redis.RedisCluster if self._cluster else redis.Redis
        return cast(
            "_BlockingClient",
            kind.from_url(  # pyright: ignore[reportUnknownMemberType] (the driver's options are untyped)
                self._url,
                protocol=2,
                retry=Retry(NoBackoff(), 0),
                socket_timeout=self._timeout,
                socket_connect_timeout=self._timeout,
                max_connections=self._most,
            ),
        )

    def _open_async(self) -> _AsyncClient:
        kind = redis.asyncio.RedisCluster if self._cluster else redis.asyncio.Redis
        return cast(
            "_AsyncClient",
            kind.from_url(  # pyright: ignore[reportUnknownMemberType] (the driver's options are untyped)
                self._url,
                protocol=2,
                retry=AsyncRetry(NoBackoff(), 0),
                socket_timeout=None,  # one limit around the whole call instead of one per read
                socket_connect_timeout=self._timeout,
                max_connections=self._most,
            ),
        )


class _LoopClient:
    """A client of one event loop. A loop finishes its generators before it ends: that closes the client in time."""

    def __init__(self, driver: _AsyncClient) -> None:
        self.driver = driver
        self._callers = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._starting: asyncio.Task[None] | None = None
        self._end: AsyncGenerator[None, None] | None = None

    async def tie_to_loop(self) -> None:
        self._end = _close_at_end(self.driver)
        await anext(self._end)

    async def start(self) -> None:
        """Learn a cluster's layout, once. A caller who goes away does not stop it, or the driver leaves parts open."""
        if self._starting is None or (self._starting.done() and not _succeeded(self._starting)):
            self._starting = asyncio.create_task(self._learn_layout())
        await asyncio.shield(self._starting)

    @contextmanager
    def in_use(self) -> Generator[None]:
        self._callers += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._callers -= 1
            if not self._callers:
                self._idle.set()

    async def close(self) -> None:
        """Close when the calls that are on their way have ended: one that came later would open it again."""
        await self._idle.wait()
        if self._starting is not None:
            await asyncio.wait([self._starting])
        if self._end is not None:
            await self._end.aclose()

    async def _learn_layout(self) -> None:
        async with asyncio.timeout(_SLOWEST_START):
            await self.driver.initialize()


def _succeeded(task: asyncio.Task[None]) -> bool:
    return not task.cancelled() and task.exception() is None


async def _close_at_end(driver: _AsyncClient) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        with suppress(RedisError, OSError):  # the other side closed it first
            await driver.aclose()


def _is_local(error: ResponseError) -> bool:
    """Whether the server is well and only this key or script is not as expected."""
    return isinstance(error, NoScriptError) or str(error).startswith("WRONGTYPE")


def _check_url(url: str, *, cluster: bool) -> None:
    """Refuse an address the driver cannot read when the store is made, not at the first read."""
    if not _is_readable(url):
        raise InvalidOption(
            "the address of the cache cannot be read as redis://user:password@host:port/database (or rediss://, "
            "unix://); a password with one of @ : / ? # % in it writes them as %40 %3A %2F %3F %23 %25"
        )
    if cluster and url.startswith("unix:"):
        raise InvalidOption(
            "a cluster is not reached through a socket file: give a redis:// address"
        )


def _is_readable(url: str) -> bool:
    """Whether the driver takes an address. Its own words are not told: they may show a part of a password."""
    try:
        redis.ConnectionPool.from_url(url)  # pyright: ignore[reportUnknownMemberType] (untyped options)
    except ValueError:
        return False
    return True
