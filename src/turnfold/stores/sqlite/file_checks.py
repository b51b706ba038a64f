"""Open a SQLite file safely: check which program made it, whether its log is missing, and whether it was replaced.

Owner: a file of another program must be refused unchanged, and even the setting that makes a file safe, the write-ahead
log, is written into its header. So the check comes before anything is written. The file is first read without locks,
which creates no other files; only if the result is not certain, it is read like any database. This takes as long as
opening the file, so a store writes a mark into the header (`application_id`): if the mark is there, only the connection
that will be used checks the owner, before it changes any setting.

Missing log: writes go to the write-ahead log next to the file (-wal) first, and into the file when the log has grown or
the last connection closes. A copy of the file alone would look like an empty store. So the tables are written into the
file itself when it is created, and before the first write `user_version` in the header of the file is set to 1: if it
is 1, and there is neither a conversation nor a log, the log is missing. If a file that already has conversations is
copied without its log, the copy has an older state of them; that cannot be detected.

Replaced file: SQLite goes on writing to a file that was deleted, moved or replaced while it was open, and those writes
are lost. So the path is compared with the file that was opened: after each commit, before callers get their result, and
before a read unless it was compared a moment ago. A copy that is written over the file keeps the inode of the file.
SQLite writes to the file itself only when it moves the log into it, so if the modification time has changed, the header
is read: it must be that of a store, and its change counter may only grow. Not detected: a copy whose counter is not
lower (the file of another store, or a state since which the file did not grow), and a copy that is written just before
a commit at which SQLite moves the log into the file.

Permissions: a new file, and a backup, can be read only by the user who made them; SQLite gives the log and the index of
the log the permissions of the file. The permissions of an existing file are not changed.
"""

from __future__ import annotations

import itertools
import os
import random
import stat
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Protocol, cast

import apsw

from turnfold.errors import InvalidOption, StoreUnavailable, UnsafeStore
from turnfold.stores.fork_guard import check_not_inherited
from turnfold.stores.sqlite.driver_errors import DAMAGE, damage_error
from turnfold.stores.sqlite.write_queue import Connection

__all__ = (
    "FIRST_STEP",
    "MARK",
    "Connect",
    "FirstWrite",
    "SqliteFile",
    "check_file_owner",
    "check_owner",
    "copy_into",
    "file_address",
    "is_blank",
    "is_marked",
)


FIRST_STEP = "0001_log"
"""Name of the first schema migration: the file of every store has it, and no other program's file."""
MARK = 0x74666C64
"""The `application_id` in the header of a store's file: "tfld"."""
_MAGIC = b"SQLite format 3\0"
_MARK_AT = slice(68, 72)
"""Position of the `application_id` in the header."""
_SCHEMA_PAGE, _SCHEMA_ROWS = slice(100, 101), slice(103, 105)
"""Positions of the kind of the first page, and of its number of rows: one for each table and index."""


class Connect(Protocol):
    """Function that opens a SQLite connection, used to check which program made a file."""

    def __call__(self, address: str, *, only: bool, keep_log: bool) -> Connection:
        """Connect to a path; with `only`, to a URI for reading.

        With `keep_log`, closing does not delete the -wal file.
        """
        ...


def check_file_owner(path: str, connect: Connect) -> bool:
    """Raise `UnsafeStore` if another program made the file, without changing it; accept a missing or empty file.

    Return False if only the mark in the header was checked; then the caller must call `check_owner` on its connection.
    """
    file = Path(path)
    if not _holds_bytes(file):
        return True
    if _has_mark(file):
        return False
    logged = _holds_bytes(file.with_name(f"{file.name}-wal"))
    size = len(_first_bytes(file))
    # SQLite takes a file of a few bytes for an empty database, and would write over it.
    if 0 < size < len(_MAGIC) and not _has_log(file):
        raise StoreUnavailable(
            f"{path!r} is not a SQLite file ({size} bytes): give the path of a store, or of a new file"
        )
    # A reader without locks does not see the write-ahead log, and leaves nothing beside the file.
    address = f"{file.absolute().as_uri()}?{'mode=ro' if logged else 'immutable=1'}"
    reason, sure = _check_unlocked(address, connect)
    if not reason and sure:
        return True
    if reason and (sure or logged):
        raise UnsafeStore(reason)
    with closing(connect(path, only=False, keep_log=logged)) as connection:
        check_owner(connection)
    return True


def _holds_bytes(file: Path) -> bool:
    """Return True if the file exists and is not empty; another process may remove it at any moment."""
    found = _stat(os.fsencode(file))
    return found is not None and stat.S_ISREG(found.st_mode) and found.st_size > 0


def is_blank(path: str | Path) -> bool:
    """Return True if no program stored anything in the file: it is missing, empty, or a SQLite file without a table.

    Opening it as a store would write the tables of a store into it.
    """
    file = Path(path)
    if _has_log(file):
        return False
    if not _holds_bytes(file):
        return _stat(os.fsencode(file)) is None or file.is_file()
    first = _first_bytes(file)
    # The page of the schema is a leaf of a table (13) with this number of rows.
    return (
        first.startswith(_MAGIC) and first[_SCHEMA_PAGE] == b"\x0d" and not any(first[_SCHEMA_ROWS])
    )


def is_marked(header: bytes) -> bool:
    """Return True if these first bytes of a SQLite file contain the `application_id` of a store."""
    return header.startswith(_MAGIC) and header[_MARK_AT] == MARK.to_bytes(4, "big")


def _has_log(file: Path) -> bool:
    """Return True if there is a write-ahead log or a rollback journal next to the file: only SQLite may judge it."""
    return any(_holds_bytes(file.with_name(f"{file.name}{end}")) for end in ("-wal", "-journal"))


def _has_mark(file: Path) -> bool:
    """Return True if the header in the file itself, not in its write-ahead log, has the `application_id` of a store."""
    return is_marked(_first_bytes(file))


def _first_bytes(file: Path) -> bytes:
    """Return the beginning of the file itself, not of its write-ahead log; b"" if it cannot be read."""
    try:
        with file.open("rb", buffering=0) as opened:
            return opened.read(_SCHEMA_ROWS.stop)
    except OSError:  # opening the file with the driver fails too, and reports it
        return b""


def _check_unlocked(address: str, connect: Connect) -> tuple[str, bool]:
    """Check the file's owner without taking locks.

    Returns the reason to refuse it ("" if there is none), and whether that is certain.
    """
    try:
        with closing(connect(address, only=True, keep_log=True)) as connection:
            reason = _foreign_reason(connection)
            return reason, not reason or "migration" not in _schema_names(connection)
    except Exception:  # the check with locks fails too, and reports it
        return "", False


def check_owner(connection: Connection) -> None:
    """Raise `UnsafeStore` if another program made the file."""
    if reason := _foreign_reason(connection):
        raise UnsafeStore(reason)


def _foreign_reason(connection: Connection) -> str:
    """Return why the file is that of another program; "" if it is the file of a store, or empty."""
    if connection.in_transaction:
        return _foreign_reason_now(connection)
    connection.execute("BEGIN")  # a store that is just being created is seen whole or not at all
    try:
        return _foreign_reason_now(connection)
    finally:
        if connection.in_transaction:  # a damaged file may have ended it
            connection.execute("COMMIT")


def _foreign_reason_now(connection: Connection) -> str:
    names = _schema_names(connection)
    if "migration" in names:
        return "" if _steps(connection)[:1] == [FIRST_STEP] else _foreign_schema(names)
    if names:
        return _foreign_schema(names)
    for pragma in ("application_id", "user_version"):
        row = connection.execute(f"PRAGMA {pragma}").fetchone()
        if row is not None and row[0]:
            return f"the file belongs to another program (it has {pragma}={row[0]}): use a separate file"
    return ""


def _foreign_schema(names: set[str]) -> str:
    shown = ", ".join(sorted(names)[:5])
    return f"the file belongs to another program (it has {shown}): use a separate file"


def _schema_names(connection: Connection) -> set[str]:
    return {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_schema")}


def _steps(connection: Connection) -> list[str]:
    columns = connection.execute("SELECT name FROM pragma_table_info('migration')").fetchall()
    if ("name",) not in columns:
        return []
    return [str(row[0]) for row in connection.execute("SELECT name FROM migration ORDER BY name")]


_HEADER = 100
_VERSION_AT = slice(60, 64)
"""Position of the `user_version` in the header."""
_FIRST_WRITE_SECONDS = 1.0
"""Seconds to wait for the first write of another process before the log is considered missing."""


class FirstWrite:
    """Records in a file's header that it has data, so that a missing write-ahead log is noticed later.

    `is_done` is True if nothing needs to be recorded any more; `check` sets it to False for a file without
    conversations.
    """

    def __init__(self) -> None:
        self.is_done = True
        self._begun = False

    def check(self, connection: Connection, path: str, *, had_log: bool) -> None:
        """Raise `UnsafeStore` if a file's write-ahead log is missing.

        `had_log` says if there was a log before opening.
        """
        header = _header(connection)
        if not is_marked(header):  # just created: the tables are in the log only
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        deadline = time.monotonic() + _FIRST_WRITE_SECONDS
        while True:
            self.is_done = not _is_empty(connection)
            if self.is_done or not any(header[_VERSION_AT]):
                return
            if had_log or time.monotonic() > deadline:
                break
            time.sleep(
                0.01
            )  # another process may have recorded its first write and not yet written
            header = _header(connection)
        if not had_log:
            raise UnsafeStore(
                f"{path!r} has no conversations, but its header says that data was stored: its log {path + '-wal'!r} "
                "is missing. Copy both files together, or make copies with backup(); if the data is not needed, delete "
                "the file"
            )
        _set(connection, written=False)  # the first writer was killed before it wrote

    def begin(self, connection: Connection) -> None:
        """Record in the file's header that data is written for the first time; must run outside a transaction."""
        self._begun = True
        _set(connection, written=True)

    def end(self, connection: Connection) -> None:
        """After the first write: set `is_done`, or clear the record in the file's header if nothing was stored."""
        if not self._begun:
            return
        if _is_empty(connection):
            _set(connection, written=False)
        else:
            self.is_done = True
        self._begun = False


def _header(connection: Connection) -> bytes:
    """Return the header in the database file itself, not the one in its write-ahead log."""
    return connection.read("main", 0, 0, _HEADER)[1]


def _is_empty(connection: Connection) -> bool:
    """Return True if the file never had a conversation; a deleted conversation leaves its row."""
    return connection.execute("SELECT 1 FROM conversation LIMIT 1").fetchone() is None


def _set(connection: Connection, *, written: bool) -> None:
    connection.execute("PRAGMA user_version=1" if written else "PRAGMA user_version=0")
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


_SETTINGS: dict[str, tuple[str, object]] = {
    "journal_mode": ("WAL", "wal"),
    "synchronous": ("FULL", 2),
    "secure_delete": ("ON", 1),
    "mmap_size": ("0", 0),
}
_BACKUP_PAGES = 1024
"""Pages that a backup copies in one call; between two calls, other threads run."""
_COUNTER_AT = slice(24, 28)
"""Position of the change counter in the header."""
_FRESH = 0.02
"""Seconds for which readers reuse the last check of the file: a check takes a tenth of the time of a read."""
_IDENTITY = slice(1, 3)
"""Position of inode and device in the result of `os.stat`."""
_memory_names = itertools.count()


def _stat(path: bytes) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 (as above)
    except OSError:
        return None


def _create_private(path: str) -> None:
    """Create an empty file that only its owner can read; do nothing if the file exists.

    The file is created and closed under a temporary name, then linked to its own name: nobody can open it before its
    permissions are set, and closing it does not release locks that this process has on the database.
    """
    file = Path(path)
    try:
        handle, draft = tempfile.mkstemp(prefix=".turnfold-", dir=file.parent)
    except OSError:  # SQLite fails too when it opens the file, and reports it
        return
    os.close(handle)
    try:
        os.link(draft, file)
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links
        with suppress(FileExistsError, OSError):
            os.close(os.open(file, os.O_CREAT | os.O_EXCL, 0o600))
    finally:
        Path(draft).unlink(missing_ok=True)


def copy_into(target: str, source: Connection) -> None:
    """Copy a consistent snapshot of a database into a new file, while the database is in use."""
    if Path(target).exists():
        raise InvalidOption(
            f"{target} exists, and a backup never overwrites a file: give another path"
        )
    folder = Path(target).absolute().parent
    if not folder.is_dir():
        raise InvalidOption(
            f"cannot write {target}: the folder {str(folder)!r} does not exist; create it first"
        )
    _create_private(target)
    try:
        copy = apsw.Connection(str(Path(target).absolute()))  # absolute, so it cannot be ":memory:"
    except apsw.CantOpenError as error:
        raise StoreUnavailable(f"cannot write {target}: {error}") from error
    try:
        # Pinned to one snapshot: otherwise every commit of others would restart the copy.
        source.execute("BEGIN; SELECT 1 FROM sqlite_schema").fetchall()
        with copy.backup("main", cast("apsw.Connection", source), "main") as task:
            while not task.done:
                task.step(_BACKUP_PAGES)
        source.execute("COMMIT")
    finally:
        copy.close()


def file_address(path: str | Path) -> str:
    """Return the absolute path of a store's file; raise `InvalidOption` if the path cannot be that of a file.

    SQLite gives no absolute path a special meaning, and an absolute path stays valid if the process changes directory.
    """
    if str(path) in ("", ":memory:"):
        raise InvalidOption(
            f"{str(path)!r} is not a file name: omit the path for a store in memory, or give ./{path or 'chat.db'}"
        )
    address = str(Path(path).absolute())
    if "\x00" in address or address != address.encode(errors="replace").decode():
        raise InvalidOption(
            f"{address!r} cannot be the path of a store: it contains NUL or is not UTF-8"
        )
    return address


class SqliteFile:
    """Opens connections to a database file (":memory:": one in memory), and checks that it is still the same file."""

    def __init__(self, path: str, *, busy_seconds: float) -> None:
        self.path = path
        self.in_memory = path == ":memory:"
        self.busy_ms = int(busy_seconds * 1000)
        self.address = (
            f"file:/turnfold-{os.getpid()}-{next(_memory_names)}?vfs=memdb"
            if self.in_memory
            else path
        )
        self._own = self.in_memory  # True once the file is known not to be another program's
        self.fault: UnsafeStore | None = None
        """The error to raise if the file at the path is no longer the one that was opened; None as long as it is."""
        self.had_log = False
        """True if there was a write-ahead log with content when the file was opened."""
        self._name, self._log = os.fsencode(path), b""
        self._identity: tuple[object, ...] | None = None
        self._log_identity: tuple[object, ...] | None = None
        self._touched = -1  # modification time of the file at the last check of its header
        self._counter = -1
        self._fresh = 0.0  # time until which a check need not be repeated

    def open(self) -> Connection:
        """Open a connection that may write; wait while another process has the file locked."""
        # Switching a new file to a write-ahead log needs it exclusively, and SQLite reports "busy" to
        # others at once, whatever the time-out: of two processes that create one file, the loser has to
        # retry.
        deadline = time.monotonic() + self.busy_ms / 1000
        while True:
            try:
                return self._open_once()
            except apsw.BusyError as error:
                if time.monotonic() >= deadline:
                    raise StoreUnavailable(
                        f"cannot open {self.path!r}: {error} for {self.busy_ms / 1000:g} s; "
                        "another process has it locked"
                    ) from error
            except apsw.Error as error:
                if self._identity is not None:
                    self._compare(_stat(self._name))
                if self.fault is not None:
                    raise self.fault from error
                if (folder := Path(self.path).parent) and not folder.is_dir():
                    raise StoreUnavailable(
                        f"cannot open {self.path!r}: the folder {str(folder)!r} does not exist; create it first"
                    ) from error
                raise StoreUnavailable(f"cannot open {self.path!r}: {error}") from error
            except DAMAGE as error:
                raise damage_error(error) from None
            time.sleep(random.uniform(0.001, 0.02))  # noqa: S311 (jitter)

    def check(self, connection: Connection) -> UnsafeStore | None:
        """Like `check_now`, but reuse a check made at most 20 ms ago; used for reads and for notes."""
        if self._identity is None or time.monotonic() < self._fresh:
            return self.fault
        return self.check_now(connection)

    def check_now(self, connection: Connection) -> UnsafeStore | None:
        """Check that the database file, its -wal file and its header are still those opened.

        Returns the error to raise if they are not; None if all is well.
        """
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
            found, log = _stat(self._name), _stat(self._log)
        return self._check_closely(connection, found, log)

    def _check_closely(
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
            self._set_fault(f"another file was put in its place{self._rename_stale_log()}")

    def _rename_stale_log(self) -> str:
        """Rename a replaced database's -wal file, so that the new file does not get it; return a text for the error."""
        # SQLite takes any log at the path for the file's own, and would write its pages into the new file.
        log = _stat(self._log)
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
        known = self._counter  # before the header is read: another thread may read a later one
        header = _header(connection)
        if not is_marked(header):
            if known >= 0:
                self._set_fault("other data was written over it")
            return  # the mark of a new file may still be in the log only
        counter = int.from_bytes(header[_COUNTER_AT], "big")
        if counter < known:
            self._set_fault("an older copy was written over it")
        self._counter = max(counter, self._counter)

    def _set_fault(self, reason: str) -> None:
        self.fault = UnsafeStore(
            f"{self.path!r} is no longer the file that was opened: {reason} while it was in use. The write is not "
            "acknowledged, and this store accepts no more: close it in every process, make sure that the right file "
            "(with its -wal, if it has one) is at the path, and open it again"
        )

    def _identify(self, driver: apsw.Connection, before: os.stat_result | None) -> bool:
        """Remember the identity (inode, device) of the file that the first connection opened.

        Sets `fault` if a later connection opened another file. Returns False if the file was replaced while the first
        connection opened it, so that it must be opened again.
        """
        found = _stat(self._name)
        if self._identity is not None:
            self._compare(found)
            return True
        if found is None:
            raise apsw.CantOpenError(
                "the file was deleted while it was opened; open the store again"
            )
        if before is not None and before[_IDENTITY] != found[_IDENTITY]:
            return False  # replaced while it was opened
        self._log = os.fsencode(driver.filename_wal)
        log = _stat(self._log)
        self._log_identity = None if log is None else log[_IDENTITY]
        self._identity = found[_IDENTITY]
        return True

    def _before_opening(self) -> os.stat_result | None:
        """Return the `os.stat` of the path; None if there is no file.

        For the first connection, a missing file is created, and `had_log` is set.
        """
        found = _stat(self._name)
        if self._identity is None:
            log = _stat(os.path.realpath(self._name) + b"-wal")
            self.had_log = log is not None and log.st_size > 0
            if found is None:
                _create_private(self.path)
                found = _stat(self._name)
        return found

    def _open_once(self) -> Connection:
        check_not_inherited(self.address)
        is_checked = self._own or check_file_owner(self.path, self._open_for_check)
        flags = apsw.SQLITE_OPEN_READWRITE
        if self._identity is None:  # a later connection never creates the file again
            flags |= apsw.SQLITE_OPEN_CREATE
        if self.in_memory:  # the one address that is not a path
            flags |= apsw.SQLITE_OPEN_URI
        before = None if self.in_memory else self._before_opening()
        driver = apsw.Connection(self.address, flags=flags)
        connection = cast("Connection", driver)
        try:
            driver.set_busy_timeout(self.busy_ms)
            if not is_checked:
                check_owner(connection)
            self._own = True  # before any setting: those are written into the file
            if driver.readonly("main"):
                raise apsw.ReadOnlyError("this process has no permission to write to it")  # noqa: TRY301 (handled like the others)
            for name, (value, expected) in _SETTINGS.items():
                connection.execute(f"PRAGMA {name}={value}").fetchall()
                self._assert_setting(connection, name, expected)
            if not self.in_memory and not self._identify(driver, before):
                raise apsw.BusyError("the file was replaced while it was opened")  # noqa: TRY301 (it is opened again)
            if self.fault is not None:
                raise self.fault  # noqa: TRY301 (handled like the others)
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_for_check(self, address: str, *, only: bool, keep_log: bool) -> Connection:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        driver = apsw.Connection(address, flags=flags if only else apsw.SQLITE_OPEN_READWRITE)
        driver.set_busy_timeout(self.busy_ms)
        driver.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(keep_log))
        return cast("Connection", driver)

    def _assert_setting(self, connection: Connection, name: str, expected: object) -> None:
        if self.in_memory and name == "journal_mode":
            return  # a database in memory has no log
        row = connection.execute(f"PRAGMA {name}").fetchone()
        if row is not None and row[0] != expected:
            connection.close()
            raise UnsafeStore(
                f"{self.path!r} runs with {name}={row[0]!r} where {expected!r} is needed for acknowledged entries to "
                "survive: use a file on a local disk that this process may write"
            )
