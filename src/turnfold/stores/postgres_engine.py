"""PostgreSQL transactions in as few round trips as they need, blocking or in an event loop, written once.

Work is a coroutine over a `Link`. What it asks for together travels together (pipeline mode), the beginning of
the transaction travels with the first question and the commit with the last. A blocking link never suspends.

Nothing outlives a transaction on the server: no session settings, no prepared statements. The tenant is a
setting of the transaction. So the engine works behind a proxy that lends connections by transaction.

Connections are kept per event loop, without threads or tasks of their own, so a store can be used in one
`asyncio.run` after another. A connection that breaks, or whose caller is cancelled, is closed, never lent again.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from math import ceil
from typing import NamedTuple, NoReturn, Protocol, TypeAlias, TypeVar

from turnfold.errors import (
    InvalidOption,
    MissingExtra,
    StoreError,
    StoreUnavailable,
    UnsafeStore,
)
from turnfold.stores.process import ProcessGuard

try:
    import psycopg

    from turnfold.stores.postgres_connection import (
        AwaitedConnection,
        BlockingConnection,
        Connection,
        NoAnswer,
        TimeLimits,
        complete_address,
        end_with_the_sync,
        hang_up,
        is_quiet,
        reason_of,
    )
except ImportError as missing:
    raise MissingExtra(package="psycopg", extra="postgres", purpose="PostgresStore") from missing

__all__ = ("Link", "PostgresEngine", "Rows", "Statement", "TimeLimits", "UniqueViolation")

Result = TypeVar("Result")
Rows: TypeAlias = list[tuple[object, ...]]

_OTHER_SCHEMA = (
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedTable,
    psycopg.errors.NotNullViolation,
)
"""What the server says to statements that were made for other tables."""
_LONGEST_WAIT = 30.0
"""Seconds to wait for a free connection."""
_BEGIN_WRITING = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# A server or role that does not wait for the disk is made to, for this transaction.
_DURABLE = (
    "set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' "
    "ELSE current_setting('synchronous_commit') END, true)"
)
# The time limits free a conversation whose writer was stopped, and those who wait for it.
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
    """One transaction, as the work in it sees it."""

    async def ask(self, *statements: Statement) -> list[Rows]:
        """The rows of each statement, all in one round trip."""
        ...

    async def finish(self, *statements: Statement) -> list[Rows]:
        """The same, and the commit in the same round trip; nothing can be asked afterwards."""
        ...

    def take_long(self, *, unlimited: bool = False) -> None:
        """Let every statement from now on take as long as long work may, or without any limit."""
        ...


Work: TypeAlias = Callable[[Link], Awaitable[Result]]


class UniqueViolation(StoreUnavailable):
    """A row with this key exists; nothing was written."""


class _Transaction(ABC):
    def __init__(
        self, connection: Connection, opening: Sequence[Statement], limits: TimeLimits
    ) -> None:
        self._opening = tuple(opening)
        self._limits = limits
        self._limited = connection
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

    def take_long(self, *, unlimited: bool = False) -> None:
        limit = None if unlimited else self._limits.long
        setting = f"SELECT true{_limit(_LIMIT_STATEMENTS, limit or 0)}"
        self._opening += (Statement(setting),)
        self._limited.longest_silence = self._limits.silence(limit)

    @abstractmethod
    async def exchange(self, statements: Sequence[Statement]) -> list[Rows]:
        """Send statements together and read all their answers."""


class _BlockingTransaction(_Transaction):
    def __init__(
        self, connection: BlockingConnection, opening: Sequence[Statement], limits: TimeLimits
    ) -> None:
        super().__init__(connection, opening, limits)
        self._connection = connection

    async def exchange(self, statements: Sequence[Statement]) -> list[Rows]:
        with self._connection.pipeline() as pipeline:
            end_with_the_sync(pipeline)
            cursors = [
                self._connection.execute(sql.encode(), values, binary=True)
                for sql, values in statements
            ]
        return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


class _AsyncTransaction(_Transaction):
    def __init__(
        self, connection: AwaitedConnection, opening: Sequence[Statement], limits: TimeLimits
    ) -> None:
        super().__init__(connection, opening, limits)
        self._connection = connection

    async def exchange(self, statements: Sequence[Statement]) -> list[Rows]:
        async with self._connection.pipeline() as pipeline:
            end_with_the_sync(pipeline)
            cursors = [
                await self._connection.execute(sql.encode(), values, binary=True)
                for sql, values in statements
            ]
        return [await cursor.fetchall() if cursor.description else [] for cursor in cursors]


class _Pool(ABC):
    """Connections of one mode and, when asynchronous, of one event loop."""

    def __init__(self, url: str, limits: TimeLimits) -> None:
        self._url = url
        self._limits = limits
        self._idle: list[Connection] = []

    @abstractmethod
    async def enter(self) -> None:
        """Wait until one more connection may be used."""

    @abstractmethod
    def leave(self) -> None:
        """Let the next one in."""

    @abstractmethod
    async def connect(self) -> Connection:
        """Open a connection."""

    @abstractmethod
    def transaction(
        self,
        connection: Connection,
        opening: Sequence[Statement],
    ) -> _Transaction:
        """A transaction on a connection of this pool."""

    async def take(self) -> Connection:
        """An idle connection that is still alive, or a new one."""
        while self._idle:
            connection = self._idle.pop()
            if is_quiet(connection):
                return connection
            hang_up(connection)
        return await self.connect()

    def keep(self, connection: Connection) -> None:
        self._idle.append(connection)

    def close(self) -> None:
        """Hang up what is idle."""
        while self._idle:
            hang_up(self._idle.pop())


class _BlockingPool(_Pool):
    def __init__(self, url: str, limits: TimeLimits, size: int) -> None:
        super().__init__(url, limits)
        self._places = threading.Semaphore(size)
        self._size = size

    async def enter(self) -> None:
        if not self._places.acquire(timeout=_LONGEST_WAIT):
            _refuse_crowd(self._size)

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
        self,
        connection: Connection,
        opening: Sequence[Statement],
    ) -> _Transaction:
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
            _refuse_crowd(self._size)

    def leave(self) -> None:
        self._places.release()

    async def connect(self) -> Connection:
        return await AwaitedConnection.connect(
            self._url,
            autocommit=True,
            prepare_threshold=None,
            cursor_factory=psycopg.AsyncRawCursor[tuple[object, ...]],
            client_encoding="utf8",
            fallback_application_name="turnfold",
        )

    def transaction(
        self,
        connection: Connection,
        opening: Sequence[Statement],
    ) -> _Transaction:
        assert isinstance(connection, AwaitedConnection)  # noqa: S101 (for the type checker)
        return _AsyncTransaction(connection, opening, self._limits)


class PostgresEngine:
    """One database: transactions of a tenant, on connections that are opened when they are needed."""

    def __init__(
        self, url: str, limits: TimeLimits, *, blocking: bool, pool_size: int, prepare: Work[None]
    ) -> None:
        if pool_size < 1:
            raise InvalidOption(f"pool_size must be at least 1, got {pool_size}")
        self._url = complete_address(url, limits)
        self._limits = limits
        # Bound values would cost every transaction more than the rest of its settings.
        statements = _limit(_LIMIT_STATEMENTS, limits.statement)
        self._settings = f"{_SETTINGS}{statements}{_limit(_LIMIT_LOCKS, limits.lock)}"
        # Without a limit on locks: who finds somebody else migrating waits.
        self._settings_of_preparing = f"SELECT {_DURABLE}{statements}"
        self._size = pool_size
        self._prepare = prepare
        self._prepared = False
        self.blocking = blocking
        self._in_place = _BlockingPool(self._url, limits, pool_size) if blocking else None
        self._by_loop: dict[asyncio.AbstractEventLoop, _LoopPool] = {}
        self.closed = False
        self._process = ProcessGuard(self)
        self.round_trips = 0
        """Exchanges with the server since the engine was made."""
        self.transactions = 0

    async def transact(self, tenant: str, work: Work[Result], *, reading: bool = False) -> Result:
        """Run `work` in one transaction: whole, or not at all."""
        self._process.check()
        if not self._prepared and not self.closed:
            settings = Statement(self._settings_of_preparing)
            await self._run((Statement(_BEGIN_WRITING), settings), self._prepare)
            self._prepared = True
        begin = Statement(_BEGIN_READING if reading else _BEGIN_WRITING)
        return await self._run((begin, Statement(self._settings, (tenant,))), work)

    def check_open(self) -> None:
        """Refuse work once closed, and in a process that did not open it."""
        self._process.check()
        if self.closed:
            raise StoreUnavailable("the store has been closed")

    def close(self) -> None:
        """Close what is idle now, and what is in use when it comes back; in a forked process, leave it to its owner."""
        self.closed = True
        if not self._process.is_own:
            return
        for pool in (self._in_place, *self._by_loop.values()):
            if pool is not None:
                pool.close()

    def _pool(self) -> _Pool:
        self.check_open()
        if self._in_place is not None:
            return self._in_place
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            for ended in [known for known in self._by_loop if known.is_closed()]:
                self._by_loop.pop(ended).close()
            self._by_loop[loop] = _LoopPool(self._url, self._limits, self._size)
        return self._by_loop[loop]

    async def _run(self, opening: Sequence[Statement], work: Work[Result]) -> Result:
        pool = self._pool()
        await pool.enter()
        try:
            return await self._on_a_connection(pool, opening, work)
        finally:
            pool.leave()

    async def _on_a_connection(
        self, pool: _Pool, opening: Sequence[Statement], work: Work[Result]
    ) -> Result:
        try:
            connection = await pool.take()
        except psycopg.Error as error:
            raise StoreUnavailable(f"cannot connect: {reason_of(error, self._limits)}") from error
        transaction = pool.transaction(connection, opening)
        kept = False
        try:
            result = await work(transaction)
            if not transaction.finished:
                await transaction.finish()
            kept = True
        except psycopg.errors.UniqueViolation as error:
            kept = await _rolled_back(transaction, connection)
            raise UniqueViolation(reason_of(error, self._limits)) from error
        except psycopg.Error as error:
            kept = await _rolled_back(transaction, connection)
            if isinstance(error, NoAnswer):
                pool.close()  # to the same server: who comes next finds out by connecting, which is quicker
            reason = reason_of(error, self._limits)
            raise _unavailable(error, reason, lost=not kept and transaction.committing) from error
        except Exception:
            kept = await _rolled_back(transaction, connection)
            raise
        finally:
            self.round_trips += transaction.round_trips
            self.transactions += 1
            if not self._process.is_own:
                pass  # forked while this was under way: the connection is the parent's
            elif kept and not self.closed:
                pool.keep(connection)
            else:
                hang_up(connection)
        return result


async def _rolled_back(transaction: _Transaction, connection: Connection) -> bool:
    """Whether the connection could be brought back to rest."""
    states = psycopg.pq.TransactionStatus
    try:
        if connection.pgconn.transaction_status in (states.INTRANS, states.INERROR):
            transaction.round_trips += 1
            await transaction.exchange([Statement("ROLLBACK")])
    except psycopg.Error:
        return False
    return connection.pgconn.transaction_status == states.IDLE


def _limit(setting: str, seconds: float | None) -> str:
    """A time limit as a part of a statement; empty where the server's own is to hold."""
    return "" if seconds is None else setting.format(ceil(seconds * 1000))


def _unavailable(error: Exception, reason: str, *, lost: bool) -> StoreError:
    if isinstance(error, _OTHER_SCHEMA):
        return UnsafeStore(
            f"nothing was written: the database's tables are not those of this release ({reason}). Another "
            "release has upgraded them since this process began: restart it with the newest turnfold"
        )
    if lost:
        return StoreUnavailable(
            f"the connection was lost before the server confirmed the commit ({reason}): what was asked "
            "was done whole or not at all; ask again, an append with the same client ids"
        )
    return StoreUnavailable(f"nothing was written: {reason}")


def _refuse_crowd(size: int) -> NoReturn:
    raise StoreUnavailable(
        f"all {size} connections have been in use for {_LONGEST_WAIT:g} s: make pool_size larger"
    )
