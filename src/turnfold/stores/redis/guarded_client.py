"""Call Redis or Valkey through a circuit breaker: every call returns a response, or None after a time limit.

The first failure opens the breaker: no calls are made for a while, which doubles with each failed probe up to a limit.
Then one caller may make a call, as a probe. An outage is logged when it begins and when it ends, never per call, and
never with content.

Only this module knows whether calls block or are awaited, and whether there is one server or a cluster. A conversation
has three keys: a hash with its cached values, a string with its session value (the JSON that other programs read, see
docs/en/documents/003.md), and a string, the mark, which says which store wrote the session value last. The three keys
are in one slot, so a call never needs two nodes of a cluster. Scripts are atomic: a value is stored only if no newer
one is there, and a deleted conversation leaves a tombstone that rejects late values.

Connections are kept per event loop and closed with it, so a store can be used in one `asyncio.run` after another.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Literal, NamedTuple, Protocol, TypeAlias, cast

from turnfold.errors import InvalidOption, MissingExtra
from turnfold.stores.fork_guard import ProcessGuard

__all__ = (
    "Breaker",
    "BreakerState",
    "FoundSession",
    "RedisEngine",
    "SessionKeys",
)


BreakerState: TypeAlias = Literal["closed", "open", "probing"]

_log = logging.getLogger(__name__)
_FIRST_PAUSE = 0.1


class Breaker:
    """A circuit breaker. Closed, it allows all calls; open, none; probing, one, whose result decides. Thread-safe."""

    def __init__(self, *, longest_pause: float, clock: Callable[[], float]) -> None:
        self._longest_pause = longest_pause
        self._clock = clock
        self._lock = threading.Lock()
        self._pause = 0.0
        self._opened = 0.0
        self.state: BreakerState = "closed"
        self.failures: dict[str, int] = {}
        """Number of failed calls by kind of error."""
        self.outages = 0
        """Number of times the circuit breaker went from closed to open."""

    def allows(self) -> bool:
        """Return True if a call may be made; the caller must then call `worked`, `failed` or `abandoned`."""
        with self._lock:
            if self.state == "closed":
                return True
            if self.state == "probing" or self._clock() - self._opened < self._pause:
                return False
            self.state = "probing"
            return True

    def worked(self) -> None:
        """Record that a Redis call got a response; if it was the probe, close the breaker: calls are made again."""
        if self.state == "closed":
            return
        with self._lock:
            if self.state == "probing":  # a late response from before the outage does not end it
                self.state, self._pause = "closed", 0.0
                _log.warning("the Redis cache responds again", extra={"event": "cache_back"})

    def failed(self, error: BaseException) -> None:
        """Record that a Redis call failed, and open the breaker: for a while no calls are made."""
        kind = type(error).__name__
        with self._lock:
            self.failures[kind] = self.failures.get(kind, 0) + 1
            if self.state == "open":
                return
            if self.state == "closed":
                self.outages += 1
                _log.warning(
                    "the Redis cache failed (%s): reads go to the durable store until it responds",
                    kind,
                    extra={"event": "cache_lost", "error": kind},
                )
            self._pause = min(self._longest_pause, self._pause * 2 or _FIRST_PAUSE)
            self._opened = self._clock()
            self.state = "open"

    def abandoned(self) -> None:
        """Record that a caller was cancelled before Redis responded; if it was the probe, another caller may probe."""
        with self._lock:
            if self.state == "probing":
                self.state = "open"


try:
    import redis
    import redis.asyncio
    from redis.asyncio.retry import Retry as AsyncRetry
    from redis.backoff import NoBackoff
    from redis.exceptions import NoScriptError, RedisError, ResponseError
    from redis.retry import Retry
except ImportError as missing:
    raise MissingExtra(package="redis", extra="redis", purpose="CachedStore") from missing


_Argument: TypeAlias = str | bytes | int

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
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
redis.call('HSET', KEYS[1], 'store', ARGV[2], 'generation', '9007199254740991')
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
"""
# A key that is gone before it expires was deleted, unless the server has evicted keys since, or was restarted: the
# value of server() would differ then.
_SERVER = """
local function server()
  local one, two = redis.pcall('INFO', 'server'), redis.pcall('INFO', 'stats')
  if type(one) ~= 'string' or type(two) ~= 'string' then return '' end
  return (one:match('run_id:(%x+)') or '') .. ':' .. (two:match('evicted_keys:(%d+)') or '')
end
local function text(key)
  return redis.call('TYPE', key)['ok'] == 'string' and redis.call('GET', key)
end
"""
_READ_SESSION = (
    _SERVER
    + """
local value, mark = text(KEYS[1]), text(KEYS[2])
local deleted, cached = 0, false
if mark and not value then
  local then_ = mark:match('^%S+ %S+ %S+ %S+ (%S+)$')
  if then_ and then_ ~= ':' and then_ == server() and redis.call('PTTL', KEYS[2]) > 1000 then deleted = 1 end
end
if ARGV[1] ~= '' and redis.call('TYPE', KEYS[3])['ok'] == 'hash' then
  cached = redis.call('HGET', KEYS[3], ARGV[1])
end
return {value, mark, deleted, cached}
"""
)
_WRITE_SESSION = (
    _SERVER
    + """
local hash = redis.call('TYPE', KEYS[3])['ok'] == 'hash'
if hash and redis.call('HGET', KEYS[3], 'store') == ARGV[1]
    and redis.call('HGET', KEYS[3], 'generation') == '9007199254740991' then return 0 end
local mark = text(KEYS[2])
if mark then
  local store, generation = mark:match('^(%S+) (%d+) ')
  if store == ARGV[1] and tonumber(generation) > tonumber(ARGV[2]) then return 0 end
end
redis.call('SET', KEYS[1], ARGV[5], 'PX', ARGV[6])
local made = table.concat({ARGV[1], ARGV[2], ARGV[3], ARGV[4], server()}, ' ')
redis.call('SET', KEYS[2], made, 'PX', ARGV[6])
return 1
"""
)
_MAX_FIELDS = 64
"""Most fields of the Redis hash in which a conversation is cached; if it has more, it is emptied before the next value
is stored."""
_MARK_SECONDS = 60
"""Seconds for which the mark (tombstone) of a deleted conversation prevents that late writers store older values in
Redis."""
_MAX_PENDING = 10_000
_ERASED_AT_ONCE = 16
_SLOWEST_START = 1.0
"""Seconds that a client may take to learn the layout of a Redis cluster, which takes several requests; after that the
call fails."""


class _BlockingClient(Protocol):
    def execute_command(self, *arguments: _Argument) -> object: ...
    def close(self) -> None: ...


class _AsyncClient(Protocol):
    async def execute_command(self, *arguments: _Argument) -> object: ...
    async def initialize(self) -> object: ...
    async def aclose(self) -> None: ...


class SessionKeys(NamedTuple):
    """The three Redis keys of a conversation: its session (JSON object), the last writer's record, cached values."""

    value: str
    mark: str
    cache: str


class FoundSession(NamedTuple):
    """The values that Redis has for a session, each None if it is missing."""

    value: bytes | None = None
    """The session value: JSON object of document 003, which other programs read and write too."""
    mark: bytes | None = None
    """The record of which store wrote the last session value (JSON object), for which state, and the value's digest."""
    deleted: bool = False
    """True if the session value (JSON object of document 003) was deleted before it expired."""
    cached: bytes | None = None
    """The cached value that was requested, with its authentication tag."""


class RedisEngine:
    """Calls one Redis server or cluster through a circuit breaker."""

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
        self._blocking_client: _BlockingClient | None = None
        self._loop_clients: dict[asyncio.AbstractEventLoop, _LoopClient] = {}
        self._pending_erasures: dict[SessionKeys, str] = {}
        self._closed = False
        self._on_answer = on_answer
        self._process = ProcessGuard(self)
        self.breaker = Breaker(longest_pause=longest_pause_seconds, clock=clock)
        self.calls = 0
        """Number of commands sent."""
        self.crowded = 0
        """Number of calls not made because all connections were in use."""
        self.unerased = 0
        """Number of deletions dropped because too many were pending; their values expire, and are never used."""

    @property
    def pending_erasures(self) -> int:
        """Number of conversations whose Redis keys are deleted as soon as Redis responds again."""
        return len(self._pending_erasures)

    async def ping(self) -> bool:
        """Return True if Redis answers a PING."""
        return await self._call("PING") is not None

    async def fetch(self, key: str, field: bytes) -> bytes | None:
        """Return a field of a conversation's hash; None if it is missing or Redis does not respond."""
        answer = await self._call("HGET", key, field)
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
        """Cache a value, unless this store has cached a value of a newer generation; return True if it was cached."""
        values = (generation, field, value, int(ttl_seconds * 1000), _MAX_FIELDS, store)
        return await self._run(_FILL, (key,), values) == 1

    async def read_session(self, keys: SessionKeys, field: bytes = b"") -> FoundSession:
        """Return the session (JSON object) and its writer's record in one request; with `field`, that value too."""
        answer = await self._run(_READ_SESSION, keys, (field,))
        if not isinstance(answer, list):
            return FoundSession()
        value, mark, deleted, cached = cast("list[object]", answer)
        return FoundSession(
            value if isinstance(value, bytes) else None,
            mark if isinstance(mark, bytes) else None,
            deleted == 1,
            cached if isinstance(cached, bytes) else None,
        )

    async def write_session(
        self,
        keys: SessionKeys,
        value: bytes,
        *,
        store: str,
        state: tuple[int, int],
        digest: str,
        ttl_seconds: float,
    ) -> bool:
        """Store the session value (JSON object of document 003) made from one version of the conversation.

        Returns False if a newer value is there or the conversation was deleted.
        """
        milliseconds = int(ttl_seconds * 1000)
        values = (store, *state, digest, value, milliseconds)
        return await self._run(_WRITE_SESSION, (keys.value, keys.mark, keys.cache), values) == 1

    async def erase(self, keys: SessionKeys, *, store: str) -> None:
        """Delete all Redis keys of a conversation, now or, if Redis does not respond, later."""
        self._pending_erasures[keys] = store
        while len(self._pending_erasures) > _MAX_PENDING:
            self._pending_erasures.pop(next(iter(self._pending_erasures)), None)
            self.unerased += 1
        await self.erase_pending()

    async def erase_pending(self) -> None:
        """Delete the Redis keys of some conversations that could not be deleted while Redis did not respond."""
        for keys, store in list(self._pending_erasures.items())[:_ERASED_AT_ONCE]:
            places = (keys.cache, keys.value, keys.mark)
            if await self._run(_ERASE, places, (_MARK_SECONDS * 1000, store)) != 1:
                return
            self._pending_erasures.pop(keys, None)

    async def close(self) -> None:
        """Close the connections of this event loop; those of other loops are closed with their loop."""
        self._closed = True
        if not self._process.is_own:  # the connections are the parent's
            return
        if self._blocking_client is not None:
            self._blocking_client.close()
        for loop in list(self._loop_clients):
            client = self._loop_clients.pop(loop)
            if not self._blocking and loop is asyncio.get_running_loop():
                await client.close()

    async def _run(self, script: str, keys: Sequence[str], values: Sequence[_Argument]) -> object:
        digest = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
        answer = await self._call("EVALSHA", digest, len(keys), *keys, *values)
        if isinstance(answer, NoScriptError):
            answer = await self._call("EVAL", script, len(keys), *keys, *values)
        return answer

    async def _call(self, *arguments: _Argument) -> object:
        """Send one command to Redis; return None if there is no response in time or the breaker is open.

        An error that concerns only this key or script is returned, not raised.
        """
        self._process.check()
        if self._closed or not self._enter():
            return None
        reported = answered = False
        began = time.perf_counter()
        try:
            answer = await self._send(arguments)
            reported = answered = True
            self.breaker.worked()
        except ResponseError as error:
            reported = True
            if not _concerns_key_only(error):
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
                with suppress(Exception):  # an error of the callback is not the cache's
                    self._on_answer(time.perf_counter() - began, answered)
        return answer

    def _enter(self) -> bool:
        with self._lock:
            if self._in_use >= self._most:
                self.crowded += 1
                return False
            if not self.breaker.allows():
                return False
            self._in_use += 1
            self.calls += 1
            return True

    def _leave(self) -> None:
        with self._lock:
            self._in_use -= 1

    async def _send(self, arguments: Sequence[_Argument]) -> object:
        if self._blocking:
            with self._lock:
                if self._blocking_client is None:
                    self._blocking_client = self._open_blocking()
            return self._blocking_client.execute_command(*arguments)
        client = await self._loop_client()
        with client.in_use():
            if self._cluster:
                await client.start()
            async with asyncio.timeout(self._timeout):
                return await client.driver.execute_command(*arguments)

    async def _loop_client(self) -> _LoopClient:
        loop = asyncio.get_running_loop()
        known = self._loop_clients.get(loop)
        if known is None:
            with self._lock:
                for ended in [other for other in self._loop_clients if other.is_closed()]:
                    del self._loop_clients[ended]
                known = self._loop_clients[loop] = _LoopClient(self._open_async())
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
                socket_timeout=None,  # one limit for the whole call instead of one per read
                socket_connect_timeout=self._timeout,
                max_connections=self._most,
            ),
        )


class _LoopClient:
    """A Redis client of one event loop; it is closed before the loop ends."""

    def __init__(self, driver: _AsyncClient) -> None:
        self.driver = driver
        self._callers = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._starting: asyncio.Task[None] | None = None
        self._end: AsyncGenerator[None, None] | None = None

    async def tie_to_loop(self) -> None:
        """Start the generator that closes the client when its event loop ends."""
        self._end = _close_at_end(self.driver)
        await anext(self._end)

    async def start(self) -> None:
        """Ask a Redis cluster for its layout, once; concurrent callers wait for the same response.

        The request goes on if its caller is cancelled, because the driver would leave connections open.
        """
        if self._starting is None or (self._starting.done() and not _succeeded(self._starting)):
            self._starting = asyncio.create_task(self._learn_layout())
        await asyncio.shield(self._starting)

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Context manager for a call: `close` waits until it ends."""
        self._callers += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._callers -= 1
            if not self._callers:
                self._idle.set()

    async def close(self) -> None:
        """Wait until running calls have ended, then close the client.

        A call after that would open the client again.
        """
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


def _concerns_key_only(error: ResponseError) -> bool:
    """Return True if the error is about this key or script only, and the server works."""
    return isinstance(error, NoScriptError) or str(error).startswith("WRONGTYPE")


def _check_url(url: str, *, cluster: bool) -> None:
    """Raise `InvalidOption` for a Redis address that the driver cannot parse; the error does not show the address."""
    if not _is_valid(url):
        raise InvalidOption(
            "the address of the cache is not of the form redis://user:password@host:port/database (or rediss://, "
            "unix://); in a password, write @ : / ? # % as %40 %3A %2F %3F %23 %25"
        )
    if cluster and url.startswith("unix:"):
        raise InvalidOption(
            "a cluster cannot be reached through a socket file: use a redis:// address"
        )


def _is_valid(url: str) -> bool:
    """Return True if the driver accepts an address; hides the driver's error, which might show a part of a password."""
    try:
        redis.ConnectionPool.from_url(url)  # pyright: ignore[reportUnknownMemberType] (untyped options)
    except ValueError:
        return False
    return True
