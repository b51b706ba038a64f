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
import selectors
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol, TypeAlias, TypeVar

from turnfold.errors import (
    InvalidOption,
    MissingExtra,
    StoreError,
    StoreUnavailable,
    UnsafeStore,
)

try:
    import psycopg
    from psycopg import generators
except ImportError as missing:
    raise MissingExtra(package="psycopg", extra="postgres", purpose="PostgresStore") from missing

__all__ = ("Link", "PostgresEngine", "Rows", "Statement", "UniqueViolation")

Result = TypeVar("Result")
Rows: TypeAlias = list[tuple[object, ...]]
_Blocking: TypeAlias = psycopg.Connection[tuple[object, ...]]
_Async: TypeAlias = psycopg.AsyncConnection[tuple[object, ...]]
_Connection: TypeAlias = _Blocking | _Async

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
    "set_config('lock_timeout', '30s', true), "
    "set_config('idle_in_transaction_session_timeout', '5min', true)"
)


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


Work: TypeAlias = Callable[[Link], Awaitable[Result]]


class UniqueViolation(StoreUnavailable):
    """A row with this key exists; nothing was written."""


class _Transaction(ABC):
    def __init__(self, opening: Sequence[Statement]) -> None:
        self._opening = tuple(opening)
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

    @abstractmethod
    async def exchange(self, statements: Sequence[Statement]) -> list[Rows]:
        """Send statements together and read all their answers."""


class _BlockingTransaction(_Transaction):
    def __init__(self, connection: _Blocking, opening: Sequence[Statement]) -> None:
        super().__init__(opening)
        self._connection = connection

    async def exchange(self, statements: Sequence[Statement]) -> list[Rows]:
        with self._connection.pipeline() as pipeline:
            _end_with_the_sync(pipeline)
            cursors = [
                self._connection.execute(sql.encode(), values, binary=True)
                for sql, values in statements
            ]
        return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


class _AsyncTransaction(_Transaction):
    def __init__(self, connection: _Async, opening: Sequence[Statement]) -> None:
        super().__init__(opening)
        self._connection = connection

    async def exchange(self, statements: Sequence[Statement]) -> list[Rows]:
        async with self._connection.pipeline() as pipeline:
            _end_with_the_sync(pipeline)
            cursors = [
                await self._connection.execute(sql.encode(), values, binary=True)
                for sql, values in statements
            ]
        return [await cursor.fetchall() if cursor.description else [] for cursor in cursors]


class _Pool(ABC):
    """Connections of one mode and, when asynchronous, of one event loop."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: list[_Connection] = []

    @abstractmethod
    async def enter(self) -> None:
        """Wait until one more connection may be used."""

    @abstractmethod
    def leave(self) -> None:
        """Let the next one in."""

    @abstractmethod
    async def connect(self) -> _Connection:
        """Open a connection."""

    @abstractmethod
    def transaction(
        self,
        connection: _Connection,
        opening: Sequence[Statement],
    ) -> _Transaction:
        """A transaction on a connection of this pool."""

    async def take(self) -> _Connection:
        """An idle connection that is still alive, or a new one."""
        while self._idle:
            connection = self._idle.pop()
            if _is_quiet(connection):
                return connection
            _hang_up(connection)
        return await self.connect()

    def keep(self, connection: _Connection) -> None:
        self._idle.append(connection)

    def close(self) -> None:
        while self._idle:
            _hang_up(self._idle.pop())


class _BlockingPool(_Pool):
    def __init__(self, url: str, size: int) -> None:
        super().__init__(url)
        self._places = threading.Semaphore(size)
        self._size = size

    async def enter(self) -> None:
        if not self._places.acquire(timeout=_LONGEST_WAIT):
            _refuse_crowd(self._size)

    def leave(self) -> None:
        self._places.release()

    async def connect(self) -> _Connection:
        return _Blocking.connect(
            self._url,
            autocommit=True,
            prepare_threshold=None,
            cursor_factory=psycopg.RawCursor[tuple[object, ...]],
            client_encoding="utf8",
            fallback_application_name="turnfold",
        )

    def transaction(
        self,
        connection: _Connection,
        opening: Sequence[Statement],
    ) -> _Transaction:
        assert isinstance(connection, psycopg.Connection)  # noqa: S101 (for the type checker)
        return _BlockingTransaction(connection, opening)


class _LoopPool(_Pool):
    def __init__(self, url: str, size: int) -> None:
        super().__init__(url)
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

    async def connect(self) -> _Connection:
        return await _Async.connect(
            self._url,
            autocommit=True,
            prepare_threshold=None,
            cursor_factory=psycopg.AsyncRawCursor[tuple[object, ...]],
            client_encoding="utf8",
            fallback_application_name="turnfold",
        )

    def transaction(
        self,
        connection: _Connection,
        opening: Sequence[Statement],
    ) -> _Transaction:
        assert isinstance(connection, psycopg.AsyncConnection)  # noqa: S101 (for the type checker)
        return _AsyncTransaction(connection, opening)


class PostgresEngine:
    """One database: transactions of a tenant, on connections that are opened when they are needed."""

    def __init__(self, url: str, *, blocking: bool, pool_size: int, prepare: Work[None]) -> None:
        if pool_size < 1:
            raise InvalidOption(f"pool_size must be at least 1, got {pool_size}")
        self._url = url
        self._size = pool_size
        self._prepare = prepare
        self._prepared = False
        self.blocking = blocking
        self._in_place = _BlockingPool(url, pool_size) if blocking else None
        self._by_loop: dict[asyncio.AbstractEventLoop, _LoopPool] = {}
        self.closed = False
        self.round_trips = 0
        """Exchanges with the server since the engine was made."""
        self.transactions = 0

    async def transact(self, tenant: str, work: Work[Result], *, reading: bool = False) -> Result:
        """Run `work` in one transaction: whole, or not at all."""
        if not self._prepared and not self.closed:
            durable = Statement(f"SELECT {_DURABLE}")
            await self._run((Statement(_BEGIN_WRITING), durable), self._prepare)
            self._prepared = True
        begin = Statement(_BEGIN_READING if reading else _BEGIN_WRITING)
        return await self._run((begin, Statement(_SETTINGS, (tenant,))), work)

    def check_open(self) -> None:
        """Refuse work once closed."""
        if self.closed:
            raise StoreUnavailable("the store has been closed")

    def close(self) -> None:
        """Close what is idle now, and what is in use when it comes back."""
        self.closed = True
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
            self._by_loop[loop] = _LoopPool(self._url, self._size)
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
            raise StoreUnavailable(f"cannot connect: {_reason(error)}") from error
        transaction = pool.transaction(connection, opening)
        kept = False
        try:
            result = await work(transaction)
            if not transaction.finished:
                await transaction.finish()
            kept = True
        except psycopg.errors.UniqueViolation as error:
            kept = await _rolled_back(transaction, connection)
            raise UniqueViolation(_reason(error)) from error
        except psycopg.Error as error:
            kept = await _rolled_back(transaction, connection)
            raise _unavailable(error, lost=not kept and transaction.committing) from error
        except Exception:
            kept = await _rolled_back(transaction, connection)
            raise
        finally:
            self.round_trips += transaction.round_trips
            self.transactions += 1
            if kept and not self.closed:
                pool.keep(connection)
            else:
                _hang_up(connection)
        return result


async def _rolled_back(transaction: _Transaction, connection: _Connection) -> bool:
    """Whether the connection could be brought back to rest."""
    states = psycopg.pq.TransactionStatus
    try:
        if connection.pgconn.transaction_status in (states.INTRANS, states.INERROR):
            transaction.round_trips += 1
            await transaction.exchange([Statement("ROLLBACK")])
    except psycopg.Error:
        return False
    return connection.pgconn.transaction_status == states.IDLE


def _end_with_the_sync(pipeline: psycopg.Pipeline | psycopg.AsyncPipeline) -> None:
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


def _hang_up(connection: _Connection) -> None:
    connection.pgconn.finish()  # what both kinds of connection do to close, in neither case waiting


def _is_quiet(connection: _Connection) -> bool:
    """Whether nothing has come in on an idle connection: a server that hung up has said so."""
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(connection.pgconn.socket, selectors.EVENT_READ)
            return not selector.select(0)
    except (psycopg.Error, OSError, ValueError):
        return False


def _unavailable(error: psycopg.Error, *, lost: bool) -> StoreError:
    if isinstance(error, _OTHER_SCHEMA):
        return UnsafeStore(
            f"nothing was written: the database's tables are not those of this release ({_reason(error)}). Another "
            "release has upgraded them since this process began: restart it with the newest turnfold"
        )
    if lost:
        return StoreUnavailable(
            f"the connection was lost before the server confirmed the commit ({_reason(error)}): what was asked "
            "was done whole or not at all; ask again, an append with the same client ids"
        )
    return StoreUnavailable(f"nothing was written: {_reason(error)}")


def _reason(error: psycopg.Error) -> str:
    """What went wrong, without the row it went wrong with."""
    text = (
        error.diag.message_primary or str(error).strip().partition("\n")[0] or type(error).__name__
    )
    return f"{text} ({error.sqlstate})" if error.sqlstate else text


def _refuse_crowd(size: int) -> NoReturn:
    raise StoreUnavailable(
        f"all {size} connections have been in use for {_LONGEST_WAIT:g} s: make pool_size larger"
    )
