"""Run PostgreSQL transactions in as few round trips as possible, blocking or in an event loop.

The work of a transaction is a coroutine function that gets a `Link`, by which it executes statements. Statements passed
together are sent together (pipeline mode), BEGIN with the first of them and COMMIT with the last. A blocking link never
suspends.

Nothing remains on the server after a transaction: no session settings, no prepared statements. The tenant is a setting
of the transaction. So the engine works behind a proxy that assigns connections per transaction, such as PgBouncer.

Connections are pooled per event loop, without threads or tasks, so a store can be used in one `asyncio.run` after
another. A connection that breaks, or whose caller is cancelled, is closed and not reused.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from math import ceil
from typing import Any, Generic, NamedTuple, NoReturn, Protocol, TypeAlias, TypeVar

from turnfold.errors import InvalidOption, MissingExtra, StoreError, StoreUnavailable, UnsafeStore
from turnfold.stores.fork_guard import ProcessGuard

__all__ = (
    "Link",
    "PostgresEngine",
    "Rows",
    "Statement",
    "UniqueViolation",
)


try:
    import psycopg

    from turnfold.stores.postgres.timeouts import (
        AsyncConnection,
        BlockingConnection,
        Connection,
        NoAnswer,
        TimeLimits,
        complete_address,
        hang_up,
        is_idle,
        reason_of,
        skip_flush_after_sync,
    )
except ImportError as missing:
    raise MissingExtra(package="psycopg", extra="postgres", purpose="PostgresStore") from missing


Result = TypeVar("Result")
_Connection = TypeVar("_Connection", bound=Connection)
Rows: TypeAlias = list[tuple[object, ...]]

_OTHER_SCHEMA = (
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedTable,
    psycopg.errors.NotNullViolation,
)
"""Errors of the server if a statement does not fit the tables, because another release changed them."""
_LONGEST_WAIT = 30.0
"""Seconds to wait for a free connection of the pool; after that, `StoreUnavailable` is raised."""
_BEGIN_WRITING = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Waits for the disk in this transaction, even if the server or role is set not to.
_DURABLE = (
    "set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' "
    "ELSE current_setting('synchronous_commit') END, true)"
)
# The time limit releases the lock of a conversation whose writer hangs.
_SETTINGS = (
    f"SELECT set_config('turnfold.tenant', $1, true), {_DURABLE}, "
    "set_config('idle_in_transaction_session_timeout', '5min', true)"
)
_LIMIT_STATEMENTS = ", set_config('statement_timeout', '{}ms', true)"
_LIMIT_LOCKS = ", set_config('lock_timeout', '{}ms', true)"


class Statement(NamedTuple):
    """SQL with `$1` placeholders, and the values bound to them."""

    sql: str
    values: tuple[object, ...] = ()


class Link(Protocol):
    """One transaction on a connection: executes the statements that are passed to it."""

    async def ask(self, *statements: Statement) -> list[Rows]:
        """Execute statements in one round trip to the server; return the rows of each statement."""
        ...

    async def finish(self, *statements: Statement) -> list[Rows]:
        """Execute statements and commit, in one round trip; return the rows of each. No statement may follow."""
        ...

    def allow_long(self, *, unlimited: bool = False) -> None:
        """Apply the time limit for long work to all further statements; with `unlimited`, no limit."""
        ...


Work: TypeAlias = Callable[[Link], Awaitable[Result]]


class UniqueViolation(StoreUnavailable):
    """Raised if a row with the same unique key exists already; nothing was written."""


class _Transaction(ABC, Generic[_Connection]):
    """Base class of transactions: subclasses send the statements, blocking or in an event loop."""

    def __init__(
        self, connection: _Connection, opening: Sequence[Statement], limits: TimeLimits
    ) -> None:
        self._opening = tuple(opening)
        self._limits = limits
        self._connection = connection
        connection.longest_silence = limits.silence(limits.statement)
        self.finished = False
        self.committing = False
        self.round_trips = 0

    async def ask(self, *statements: Statement) -> list[Rows]:
        opening, self._opening = self._opening, ()
        self.round_trips += 1
        answers = await self.exchange((*opening, *statements))
        return answers[len(opening) :]

    async def finish(self, *statements: Statement) -> list[Rows]:
        self.committing = True
        answers = await self.ask(*statements, Statement("COMMIT"))
        self.committing, self.finished = False, True
        return answers[:-1]

    def allow_long(self, *, unlimited: bool = False) -> None:
        limit = None if unlimited else self._limits.long
        setting = f"SELECT true{_limit(_LIMIT_STATEMENTS, limit or 0)}"
        self._opening += (Statement(setting),)
        self._connection.longest_silence = self._limits.silence(limit)

    @abstractmethod
    async def exchange(self, statements: Sequence[Statement]) -> list[Rows]:
        """Send statements together, in one round trip, and return the rows of each."""


class _BlockingTransaction(_Transaction[BlockingConnection]):
    async def exchange(self, statements: Sequence[Statement]) -> list[Rows]:
        with self._connection.pipeline() as pipeline:
            skip_flush_after_sync(pipeline)
            cursors = [
                self._connection.execute(sql.encode(), values, binary=True)
                for sql, values in statements
            ]
        return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


class _AsyncTransaction(_Transaction[AsyncConnection]):
    async def exchange(self, statements: Sequence[Statement]) -> list[Rows]:
        async with self._connection.pipeline() as pipeline:
            skip_flush_after_sync(pipeline)
            cursors = [
                await self._connection.execute(sql.encode(), values, binary=True)
                for sql, values in statements
            ]
        return [await cursor.fetchall() if cursor.description else [] for cursor in cursors]


class _Pool(ABC):
    """A pool of connections: of blocking connections, or of the connections of one event loop."""

    def __init__(self, url: str, limits: TimeLimits) -> None:
        self._url = url
        self._limits = limits
        self._idle: list[Connection] = []

    @abstractmethod
    async def enter(self) -> None:
        """Wait until fewer connections than the pool's size are in use, and count one more."""

    @abstractmethod
    def leave(self) -> None:
        """Count one connection less as in use, after `enter`."""

    @abstractmethod
    async def connect(self) -> Connection:
        """Open a new connection to the server."""

    @abstractmethod
    def transaction(
        self, connection: Connection, opening: Sequence[Statement]
    ) -> _Transaction[Any]:
        """Return a new transaction on a connection of this pool; it begins with the statements `opening`."""

    async def take(self) -> Connection:
        """Return an idle connection that is still alive, or a new one."""
        while self._idle:
            connection = self._idle.pop()
            if is_idle(connection):
                return connection
            hang_up(connection)
        return await self.connect()

    def keep(self, connection: Connection) -> None:
        """Put a connection back into the pool, to be used again."""
        self._idle.append(connection)

    def close(self) -> None:
        """Close the pool's idle connections."""
        while self._idle:
            hang_up(self._idle.pop())


class _BlockingPool(_Pool):
    def __init__(self, url: str, limits: TimeLimits, size: int) -> None:
        super().__init__(url, limits)
        self._places = threading.Semaphore(size)
        self._size = size

    async def enter(self) -> None:
        if not self._places.acquire(timeout=_LONGEST_WAIT):
            _raise_pool_exhausted(self._size)

    def leave(self) -> None:
        self._places.release()

    async def connect(self) -> Connection:
        return BlockingConnection.connect(
            self._url,
            autocommit=True,
            prepare_threshold=None,
            cursor_factory=psycopg.RawCursor[tuple[object, ...]],
            client_encoding="utf8",
            fallback_application_name="turnfold",
        )

    def transaction(
        self, connection: Connection, opening: Sequence[Statement]
    ) -> _Transaction[Any]:
        assert isinstance(connection, BlockingConnection)  # noqa: S101 (for the type checker)
        return _BlockingTransaction(connection, opening, self._limits)


class _LoopPool(_Pool):
    def __init__(self, url: str, limits: TimeLimits, size: int) -> None:
        super().__init__(url, limits)
        self._places = asyncio.Semaphore(size)
        self._size = size

    async def enter(self) -> None:
        if not self._places.locked():
            await self._places.acquire()
            return
        try:
            async with asyncio.timeout(_LONGEST_WAIT):
                await self._places.acquire()
        except TimeoutError:
            _raise_pool_exhausted(self._size)

    def leave(self) -> None:
        self._places.release()

    async def connect(self) -> Connection:
        return await AsyncConnection.connect(
            self._url,
            autocommit=True,
            prepare_threshold=None,
            cursor_factory=psycopg.AsyncRawCursor[tuple[object, ...]],
            client_encoding="utf8",
            fallback_application_name="turnfold",
        )

    def transaction(
        self, connection: Connection, opening: Sequence[Statement]
    ) -> _Transaction[Any]:
        assert isinstance(connection, AsyncConnection)  # noqa: S101 (for the type checker)
        return _AsyncTransaction(connection, opening, self._limits)


class PostgresEngine:
    """Runs transactions in one database, each for one tenant; connections are pooled and opened on demand."""

    def __init__(
        self, url: str, limits: TimeLimits, *, blocking: bool, pool_size: int, prepare: Work[None]
    ) -> None:
        if pool_size < 1:
            raise InvalidOption(f"pool_size must be at least 1, got {pool_size}")
        self._url = complete_address(url, limits)
        self._limits = limits
        # Not bound as values, which would cost more than the rest of the settings.
        statements = _limit(_LIMIT_STATEMENTS, limits.statement)
        self._settings = f"{_SETTINGS}{statements}{_limit(_LIMIT_LOCKS, limits.lock)}"
        # Without a limit on locks: a store waits while another one migrates.
        self._prepare_settings = f"SELECT {_DURABLE}{statements}"
        self._size = pool_size
        self._prepare = prepare
        self._prepared = False
        self.blocking = blocking
        self._blocking_pool = _BlockingPool(self._url, limits, pool_size) if blocking else None
        self._loop_pools: dict[asyncio.AbstractEventLoop, _LoopPool] = {}
        self.closed = False
        self._process = ProcessGuard(self)
        self.round_trips = 0
        """Number of round trips since the engine was created."""
        self.transactions = 0

    async def transact(self, tenant: str, work: Work[Result], *, reading: bool = False) -> Result:
        """Run `work` in one transaction of a tenant and return its result.

        With `reading`, the transaction is read-only.
        """
        self._process.check()
        if not self._prepared and not self.closed:
            settings = Statement(self._prepare_settings)
            await self._run((Statement(_BEGIN_WRITING), settings), self._prepare)
            self._prepared = True
        begin = Statement(_BEGIN_READING if reading else _BEGIN_WRITING)
        return await self._run((begin, Statement(self._settings, (tenant,))), work)

    def check_open(self) -> None:
        """Raise an error if the engine was closed, or was opened in another process (before a fork)."""
        self._process.check()
        if self.closed:
            raise StoreUnavailable("the store has been closed; open it again")

    def close(self) -> None:
        """Close idle connections now, and those in use when they are returned; do nothing in a forked process."""
        self.closed = True
        if not self._process.is_own:
            return
        for pool in (self._blocking_pool, *self._loop_pools.values()):
            if pool is not None:
                pool.close()

    def _pool(self) -> _Pool:
        self.check_open()
        if self._blocking_pool is not None:
            return self._blocking_pool
        loop = asyncio.get_running_loop()
        if loop not in self._loop_pools:
            for ended in [known for known in self._loop_pools if known.is_closed()]:
                self._loop_pools.pop(ended).close()
            self._loop_pools[loop] = _LoopPool(self._url, self._limits, self._size)
        return self._loop_pools[loop]

    async def _run(self, opening: Sequence[Statement], work: Work[Result]) -> Result:
        pool = self._pool()
        await pool.enter()
        try:
            return await self._run_on_connection(pool, opening, work)
        finally:
            pool.leave()

    async def _run_on_connection(
        self, pool: _Pool, opening: Sequence[Statement], work: Work[Result]
    ) -> Result:
        try:
            connection = await pool.take()
        except psycopg.Error as error:
            raise StoreUnavailable(
                f"cannot connect to PostgreSQL: {reason_of(error, self._limits)}"
            ) from error
        transaction = pool.transaction(connection, opening)
        kept = False
        try:
            result = await work(transaction)
            if not transaction.finished:
                await transaction.finish()
            kept = True
        except psycopg.errors.UniqueViolation as error:
            kept = await _roll_back(transaction, connection)
            raise UniqueViolation(reason_of(error, self._limits)) from error
        except psycopg.Error as error:
            kept = await _roll_back(transaction, connection)
            if isinstance(error, NoAnswer):
                pool.close()  # the same server: a new connection fails faster
            reason = reason_of(error, self._limits)
            raise _unavailable(error, reason, lost=not kept and transaction.committing) from error
        except Exception:
            kept = await _roll_back(transaction, connection)
            raise
        finally:
            self.round_trips += transaction.round_trips
            self.transactions += 1
            if not self._process.is_own:
                pass  # forked meanwhile: the connection is the parent's
            elif kept and not self.closed:
                pool.keep(connection)
            else:
                hang_up(connection)
        return result


async def _roll_back(transaction: _Transaction[Any], connection: Connection) -> bool:
    """Roll the transaction back; return True if the connection can be used again."""
    states = psycopg.pq.TransactionStatus
    try:
        if connection.pgconn.transaction_status in (states.INTRANS, states.INERROR):
            transaction.round_trips += 1
            await transaction.exchange([Statement("ROLLBACK")])
    except psycopg.Error:
        return False
    return connection.pgconn.transaction_status == states.IDLE


def _limit(setting: str, seconds: float | None) -> str:
    """Return the SQL that sets a time limit; empty if `seconds` is None, so that the server's own limit applies."""
    return "" if seconds is None else setting.format(ceil(seconds * 1000))


def _unavailable(error: Exception, reason: str, *, lost: bool) -> StoreError:
    if isinstance(error, _OTHER_SCHEMA):
        return UnsafeStore(
            f"nothing was written: the database's tables are not those of this release ({reason}). Another "
            "release has upgraded them since this process began: restart it with the newest turnfold"
        )
    if lost:
        return StoreUnavailable(
            f"the connection was lost before the server confirmed the commit ({reason}): it was applied as a whole "
            "or not at all. Retry, an append with the same client ids"
        )
    return StoreUnavailable(f"nothing was written: {reason}")


def _raise_pool_exhausted(size: int) -> NoReturn:
    raise StoreUnavailable(
        f"all {size} connections of the pool were in use for {_LONGEST_WAIT:g} s: increase pool_size"
    )
