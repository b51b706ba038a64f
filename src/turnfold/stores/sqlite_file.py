"""Connections to one SQLite file: opened with the settings that keep what is acknowledged, which are then read back.

SQLite goes on writing into a file that has been deleted, moved or replaced while it was open, and nobody ever sees it
again. So the path is compared with the file that was opened: after each commit before anybody is told, and before a
read if that was not just done. A copy written over the file keeps its inode. Only checkpoints write to the file itself,
so where its time has changed, its header is read: it must be a store's, and its change counter may only grow. Not
noticed: a copy whose counter is not lower (another store's file, or a state since which the file did not grow), and one
that is written just before the very commit at which SQLite moves the log into the file.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from contextlib import suppress
from pathlib import Path
from typing import cast

import apsw

from turnfold.errors import InvalidOption, StoreUnavailable, UnsafeStore
from turnfold.stores.process import check_not_inherited
from turnfold.stores.sqlite_jobs import Connection
from turnfold.stores.sqlite_looking import check_own, is_marked, look

__all__ = ("SqliteFile", "copy_into", "file_address")

_SETTINGS: dict[str, tuple[str, object]] = {
    "journal_mode": ("WAL", "wal"),
    "synchronous": ("FULL", 2),
    "secure_delete": ("ON", 1),
    "mmap_size": ("0", 0),
}
_BACKUP_PAGES = 1024
"""Pages a backup copies before others get a chance."""
_HEADER = 100
_COUNTER_AT = slice(24, 28)
"""Where a file's header has its change counter."""
_FRESH = 0.02
"""Seconds for which who reads relies on the last look at the file: a look costs as much as a tenth of a read."""
_IDENTITY = slice(1, 3)
"""Where the answer of `os.stat` has inode and device."""
_memory_names = itertools.count()


def _found(path: bytes) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 (as above)
    except OSError:
        return None


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


def file_address(path: str | Path) -> str:
    """The path as one SQLite takes for nothing else, whatever it begins with and wherever the program goes later."""
    if str(path) in ("", ":memory:"):
        raise InvalidOption(
            f"{str(path)!r} names no file: leave the path out for a store in memory, or write ./{path or 'chat.db'}"
        )
    address = str(Path(path).absolute())
    if "\x00" in address or address != address.encode(errors="replace").decode():
        raise InvalidOption(
            f"{address!r} cannot be the path of a store: it holds NUL or is not UTF-8"
        )
    return address


class SqliteFile:
    """A database file, or a database in memory where the path is ":memory:"."""

    def __init__(self, path: str, *, busy_seconds: float) -> None:
        self.path = path
        self.in_memory = path == ":memory:"
        self.busy_ms = int(busy_seconds * 1000)
        self.address = (
            f"file:/turnfold-{os.getpid()}-{next(_memory_names)}?vfs=memdb"
            if self.in_memory
            else path
        )
        self._own = self.in_memory  # whether the file is known to be no other program's
        self.fault: UnsafeStore | None = None
        """Why the file is no longer used, once it is not what was opened; only opening the store anew ends it."""
        self.had_log = False
        """Whether there was something in a log beside the file before it was opened."""
        self._name, self._log = os.fsencode(path), b""
        self._identity: tuple[object, ...] | None = None
        self._log_identity: tuple[object, ...] | None = None
        self._touched = -1  # when the file was written to, as of the last look at its header
        self._counter = -1
        self._fresh = 0.0  # until when a look at the file need not be repeated

    def open(self) -> Connection:
        """A connection that may write."""
        # Whoever turns a new file into a write-ahead log needs it alone, and SQLite answers "busy" to
        # the others at once, whatever the time-out: two processes that create one file both succeed
        # only if the loser comes back.
        give_up = time.monotonic() + self.busy_ms / 1000
        while True:
            try:
                return self._open_once()
            except apsw.BusyError as error:
                if time.monotonic() >= give_up:
                    raise StoreUnavailable(
                        f"cannot open {self.path!r}: {error} for {self.busy_ms / 1000:g} s; "
                        "another process holds it alone"
                    ) from error
            except apsw.Error as error:
                if self._identity is not None:
                    self._compare(_found(self._name))
                if self.fault is not None:
                    raise self.fault from error
                raise StoreUnavailable(f"cannot open {self.path!r}: {error}") from error
            time.sleep(random.uniform(0.001, 0.02))  # noqa: S311 (spreads the losers; guards nothing)

    def check(self, connection: Connection) -> UnsafeStore | None:
        """Say what `fault` the file has, as of a few milliseconds ago; for who reads, and for notes."""
        if self._identity is None or time.monotonic() < self._fresh:
            return self.fault
        return self.check_now(connection)

    def check_now(self, connection: Connection) -> UnsafeStore | None:
        """Compare path, log and header with what was opened; say what `fault` the file has."""
        if self._identity is None or self.fault is not None:
            return self.fault
        self._fresh = time.monotonic() + _FRESH
        try:
            found, log = os.stat(self._name), os.stat(self._log)  # noqa: PTH116 (the fastest there is)
            if (
                found[_IDENTITY] == self._identity
                and log[_IDENTITY] == self._log_identity
                and found.st_mtime_ns == self._touched
            ):
                return None
        except OSError:
            found, log = _found(self._name), _found(self._log)
        return self._look_closer(connection, found, log)

    def _look_closer(
        self, connection: Connection, found: os.stat_result | None, log: os.stat_result | None
    ) -> UnsafeStore | None:
        self._compare(found)
        if self.fault is not None or found is None:
            return self.fault
        if self._log_identity is None and log is not None:  # the log of a new file
            self._log_identity = log[_IDENTITY]
        if log is None or log[_IDENTITY] != self._log_identity:
            self._set_fault(
                f"its log {os.fsdecode(self._log)!r} was {'deleted' if log is None else 'replaced'}"
            )
        elif found.st_mtime_ns != self._touched:
            self._touched = found.st_mtime_ns
            self._check_header(connection)
        return self.fault

    def _compare(self, found: os.stat_result | None) -> None:
        if found is None:
            self._set_fault("it was deleted or moved away")
        elif found[_IDENTITY] != self._identity and self.fault is None:
            self._set_fault(f"another file was put in its place{self._put_log_aside()}")

    def _put_log_aside(self) -> str:
        """Rename the log of the file that is gone, so that nobody opens the file in its place with it; say so."""
        # SQLite takes whatever log is at the path for the file's own, and would write its pages into the new file.
        log = _found(self._log)
        if log is None or log[_IDENTITY] != self._log_identity:
            return ""
        aside = self._log + b".left-%d" % log.st_ino
        try:
            os.rename(self._log, aside)  # noqa: PTH104 (bytes)
            with suppress(OSError):
                index = os.fsencode(f"{os.fsdecode(self._log).removesuffix('-wal')}-shm")
                os.rename(index, index + b".left-%d" % log.st_ino)  # noqa: PTH104 (bytes)
        except OSError:
            return f" (delete {os.fsdecode(self._log)!r}, the log of the former file, before it is opened again)"
        return f" (the log of the former file is now {os.fsdecode(aside)!r})"

    def _check_header(self, connection: Connection) -> None:
        known = (
            self._counter
        )  # before the header is read: another thread may meanwhile see a later one
        header = connection.read("main", 0, 0, _HEADER)[1]
        if not is_marked(header):
            if known >= 0:
                self._set_fault("something that is no store was written over it")
            return  # the mark of a new file may still be in the log alone
        counter = int.from_bytes(header[_COUNTER_AT], "big")
        if counter < known:
            self._set_fault("an older copy was written over it")
        self._counter = max(counter, self._counter)

    def _set_fault(self, reason: str) -> None:
        self.fault = UnsafeStore(
            f"{self.path!r} is no longer the file that was opened: {reason} while it was in use. What was asked is not "
            "acknowledged, and this store takes nothing more: close it in every process, see that the right file (with "
            "its -wal, if it has one) is at the path, and open it again"
        )

    def _identify(self, driver: apsw.Connection, before: os.stat_result | None) -> bool:
        """Remember which file was opened first, or compare a later connection's; False: open it once more."""
        found = _found(self._name)
        if self._identity is not None:
            self._compare(found)
            return True
        if found is None:
            raise apsw.CantOpenError("there is no file at the path that was opened")
        if before is not None and before[_IDENTITY] != found[_IDENTITY]:
            return False  # replaced while it was opened
        self._log = os.fsencode(driver.filename_wal)
        log = _found(self._log)
        self._log_identity = None if log is None else log[_IDENTITY]
        self._identity = found[_IDENTITY]
        return True

    def _open_once(self) -> Connection:
        check_not_inherited(self.address)
        looked = self._own or look(self.path, self._to_look)
        flags = apsw.SQLITE_OPEN_READWRITE
        if self._identity is None:  # a later connection never makes the file anew
            flags |= apsw.SQLITE_OPEN_CREATE
        if self.in_memory:  # the one address that is no path
            flags |= apsw.SQLITE_OPEN_URI
        before = None if self.in_memory else _found(self._name)
        if self._identity is None and not self.in_memory:
            log = _found(os.path.realpath(self._name) + b"-wal")
            self.had_log = log is not None and log.st_size > 0
        driver = apsw.Connection(self.address, flags=flags)
        connection = cast("Connection", driver)
        try:
            driver.set_busy_timeout(self.busy_ms)
            if not looked:
                check_own(connection)
            self._own = True  # said before any setting: those are written into the file
            if driver.readonly("main"):
                raise apsw.ReadOnlyError("this process may not write it")  # noqa: TRY301 (told as all others)
            for name, (value, expected) in _SETTINGS.items():
                connection.execute(f"PRAGMA {name}={value}").fetchall()
                self._assert_setting(connection, name, expected)
            if not self.in_memory and not self._identify(driver, before):
                raise apsw.BusyError("the file was replaced while it was opened")  # noqa: TRY301 (it is opened again)
            if self.fault is not None:
                raise self.fault  # noqa: TRY301 (closed as after all others)
        except BaseException:
            connection.close()
            raise
        return connection

    def _to_look(self, address: str, *, only: bool, keep_log: bool) -> Connection:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        driver = apsw.Connection(address, flags=flags if only else apsw.SQLITE_OPEN_READWRITE)
        driver.set_busy_timeout(self.busy_ms)
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
