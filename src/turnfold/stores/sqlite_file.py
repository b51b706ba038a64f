"""Connections to one SQLite file: opened with the settings that keep what is acknowledged, which are then read back."""

from __future__ import annotations

import itertools
import os
import random
import time
from pathlib import Path
from typing import cast

import apsw

from turnfold.errors import InvalidOption, StoreUnavailable, UnsafeStore
from turnfold.stores.sqlite_jobs import Connection
from turnfold.stores.sqlite_looking import check_own, look

__all__ = ("SqliteFile", "copy_into")

_SETTINGS: dict[str, tuple[str, object]] = {
    "journal_mode": ("WAL", "wal"),
    "synchronous": ("FULL", 2),
    "secure_delete": ("ON", 1),
    "mmap_size": ("0", 0),
}
_BACKUP_PAGES = 1024
"""Pages a backup copies before others get a chance."""
_memory_names = itertools.count()


def copy_into(target: str, source: Connection) -> None:
    """Copy one state of a database into a new file, while it is in use."""
    if Path(target).exists():
        raise InvalidOption(f"{target} exists: a backup never overwrites")
    copy = apsw.Connection(str(Path(target).absolute()))  # absolute, so it cannot be ":memory:"
    try:
        # Pinned to one state: otherwise every commit of others would make it begin again, without end.
        source.execute("BEGIN; SELECT 1 FROM sqlite_schema").fetchall()
        with copy.backup("main", cast("apsw.Connection", source), "main") as task:
            while not task.done:
                task.step(_BACKUP_PAGES)
        source.execute("COMMIT")
    finally:
        copy.close()


class SqliteFile:
    """A database file, or a database in memory where the path is ":memory:"."""

    def __init__(self, path: str, *, busy_seconds: float) -> None:
        self.path = path
        self.in_memory = path == ":memory:"
        self._busy_ms = int(busy_seconds * 1000)
        self._address = (
            f"file:/turnfold-{os.getpid()}-{next(_memory_names)}?vfs=memdb"
            if self.in_memory
            else path
        )
        self._own = self.in_memory  # whether the file is known to be no other program's

    def open(self) -> Connection:
        """A connection that may write."""
        # Whoever turns a new file into a write-ahead log needs it alone, and SQLite answers "busy" to
        # the others at once, whatever the time-out: two processes that create one file both succeed
        # only if the loser comes back.
        give_up = time.monotonic() + self._busy_ms / 1000
        while True:
            try:
                return self._open_once()
            except apsw.BusyError as error:
                if time.monotonic() >= give_up:
                    raise StoreUnavailable(
                        f"cannot open {self.path!r}: {error} for {self._busy_ms / 1000:g} s; "
                        "another process holds it alone"
                    ) from error
            except apsw.Error as error:
                raise StoreUnavailable(f"cannot open {self.path!r}: {error}") from error
            time.sleep(random.uniform(0.001, 0.02))  # noqa: S311 (spreads the losers; guards nothing)

    def _open_once(self) -> Connection:
        looked = self._own or look(self.path, self._to_look)
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        if self.in_memory:  # the one address that is no path
            flags |= apsw.SQLITE_OPEN_URI
        driver = apsw.Connection(self._address, flags=flags)
        connection = cast("Connection", driver)
        try:
            driver.set_busy_timeout(self._busy_ms)
            if not looked:
                check_own(connection)
            self._own = True  # said before any setting: those are written into the file
            if driver.readonly("main"):
                raise apsw.ReadOnlyError("this process may not write it")  # noqa: TRY301 (told as all others)
            for name, (value, expected) in _SETTINGS.items():
                connection.execute(f"PRAGMA {name}={value}").fetchall()
                self._assert_setting(connection, name, expected)
        except BaseException:
            connection.close()
            raise
        return connection

    def _to_look(self, address: str, *, only: bool, keep_log: bool) -> Connection:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        driver = apsw.Connection(address, flags=flags if only else apsw.SQLITE_OPEN_READWRITE)
        driver.set_busy_timeout(self._busy_ms)
        driver.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(keep_log))
        return cast("Connection", driver)

    def _assert_setting(self, connection: Connection, name: str, expected: object) -> None:
        if self.in_memory and name == "journal_mode":
            return  # there is no file to log ahead of
        row = connection.execute(f"PRAGMA {name}").fetchone()
        if row is not None and row[0] != expected:
            connection.close()
            raise UnsafeStore(
                f"{self.path!r} runs with {name}={row[0]!r} where {expected!r} is needed for acknowledged entries to "
                "survive: use a file on a local disk that this process may write"
            )
