"""Faults at a chosen statement on its way to PostgreSQL: in the driver, on the connection, or in the server."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeAlias

import psycopg

__all__ = ("FAULTS", "Blow", "Faulted")

Run: TypeAlias = Callable[[str], object]
"""Sends a statement of the fault's own on the same connection."""
Blow: TypeAlias = Callable[[psycopg.Connection[Any], Run], object]


def _fail_in_the_driver(_: psycopg.Connection[Any], _run: Run) -> None:
    raise psycopg.OperationalError("a fault that was planted")


def _fail_in_the_program(_: psycopg.Connection[Any], _run: Run) -> None:
    raise MemoryError("a fault that was planted")


def _interrupt(_: psycopg.Connection[Any], _run: Run) -> None:
    raise KeyboardInterrupt


def _cut(connection: psycopg.Connection[Any], _: Run) -> None:
    with socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


def _terminate(_: psycopg.Connection[Any], run: Run) -> None:
    run("SELECT pg_terminate_backend(pg_backend_pid())")


def _cancel(_: psycopg.Connection[Any], run: Run) -> None:
    run("SELECT pg_cancel_backend(pg_backend_pid())")


def _time_out(_: psycopg.Connection[Any], run: Run) -> None:
    run("SELECT set_config('statement_timeout', '1ms', true)")
    run("SELECT pg_sleep(30)")


def _fail_to_serialize(_: psycopg.Connection[Any], run: Run) -> None:
    run("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$")


FAULTS: dict[str, Blow] = {
    "driver error": _fail_in_the_driver,
    "error of the program": _fail_in_the_program,
    "interrupt": _interrupt,
    "connection cut": _cut,
    "backend terminated": _terminate,
    "statement cancelled": _cancel,
    "statement timed out": _time_out,
    "serialization failure": _fail_to_serialize,
}


class Faulted:
    """While entered, the n-th statement of blocking connections meets a blow, and so do the `times` - 1 after it."""

    def __init__(self, point: int, blow: Blow, *, times: int = 1) -> None:
        self._point, self._blow, self._times = point, blow, times
        self._execute: Any = psycopg.Connection.execute
        self.statements: list[str] = []

    @property
    def struck(self) -> bool:
        return len(self.statements) >= self._point

    def __enter__(self) -> Self:
        execute, faulted = self._execute, self

        def watched(connection: Any, sql: Any, *values: Any, **options: Any) -> Any:
            faulted.statements.append(bytes(sql).decode())
            if 0 <= len(faulted.statements) - faulted._point < faulted._times:
                faulted._blow(connection, lambda own: execute(connection, own.encode()))
            return execute(connection, sql, *values, **options)

        setattr(psycopg.Connection, "execute", watched)  # noqa: B010 (a method is replaced on purpose)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        setattr(psycopg.Connection, "execute", self._execute)  # noqa: B010 (a method is put back)
