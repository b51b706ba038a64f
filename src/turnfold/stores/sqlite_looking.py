"""Whose file is it? Asked before anything is written to it, because a refusal must leave it as it was.

Even the setting that makes a file safe, the write-ahead log, is written into its header. So a file is first read
without locks and without a trace beside it; only what that cannot tell is read as every program reads a database.
Looking costs as much as opening, so a store leaves its mark in the header, which needs no database to be read: where
it stands, the connection that is to be used looks, before it sets anything.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Protocol

from turnfold.errors import UnsafeStore
from turnfold.stores.sqlite_jobs import Connection

__all__ = ("FIRST_STEP", "MARK", "Connect", "check_own", "is_marked", "look")

FIRST_STEP = "0001_log"
"""The first step of the schema: in every file of a store, and in no other."""
MARK = 0x74666C64
"""The `application_id` of a store's file: "tfld"."""
_MAGIC = b"SQLite format 3\0"
_MARK_AT = slice(68, 72)
"""Where a file's header has its `application_id`."""


class Connect(Protocol):
    """Opens a connection to look through."""

    def __call__(self, address: str, *, only: bool, keep_log: bool) -> Connection:
        """To read `only`, at the address of a file; or at its path, with locks. Closing it may leave the log alone."""
        ...


def look(path: str, connect: Connect) -> bool:
    """Refuse another program's file (`UnsafeStore`), unchanged; a missing or empty one is nobody's.

    False where the file bears the mark of a store, and nothing else was asked: `check_own` is for who connects.
    """
    file = Path(path)
    if not file.is_file() or not file.stat().st_size:
        return True
    if _bears_mark(file):
        return False
    log = file.with_name(f"{file.name}-wal")
    logged = log.is_file() and log.stat().st_size > 0
    # A reader that takes no locks sees no write-ahead log, and leaves nothing beside the file.
    address = f"{file.absolute().as_uri()}?{'mode=ro' if logged else 'immutable=1'}"
    reason, sure = _first_look(address, connect)
    if not reason and sure:
        return True
    if reason and (sure or logged):
        raise UnsafeStore(reason)
    with closing(connect(path, only=False, keep_log=logged)) as connection:
        check_own(connection)
    return True


def is_marked(header: bytes) -> bool:
    """Whether the first bytes of a file say that it is a store's."""
    return header.startswith(_MAGIC) and header[_MARK_AT] == MARK.to_bytes(4, "big")


def _bears_mark(file: Path) -> bool:
    """Whether the header says that it is a store's; what is only in the log of the file does not count."""
    try:
        with file.open("rb", buffering=0) as opened:
            header = opened.read(_MARK_AT.stop)
    except OSError:  # whoever looks with the driver meets it too, and tells
        return False
    return is_marked(header)


def _first_look(address: str, connect: Connect) -> tuple[str, bool]:
    """Why the file is another program's, and whether that is sure: it may be written at that very moment."""
    try:
        with closing(connect(address, only=True, keep_log=True)) as connection:
            reason = _foreign(connection)
            return reason, not reason or "migration" not in _names(connection)
    except Exception:  # whatever it is, the look with locks meets it too, and tells
        return "", False


def check_own(connection: Connection) -> None:
    """Refuse another program's file."""
    if reason := _foreign(connection):
        raise UnsafeStore(reason)


def _foreign(connection: Connection) -> str:
    """Why the file is another program's; empty where it is a store's or nobody's."""
    if connection.in_transaction:
        return _foreign_now(connection)
    connection.execute("BEGIN")  # who makes it a store at this moment is seen whole or not at all
    try:
        return _foreign_now(connection)
    finally:
        if connection.in_transaction:  # a damaged file may have ended it
            connection.execute("COMMIT")


def _foreign_now(connection: Connection) -> str:
    names = _names(connection)
    if "migration" in names:
        return "" if _steps(connection)[:1] == [FIRST_STEP] else _told(names)
    if names:
        return _told(names)
    for pragma in ("application_id", "user_version"):
        row = connection.execute(f"PRAGMA {pragma}").fetchone()
        if row is not None and row[0]:
            return (
                f"the file is another program's (it has {pragma}={row[0]}): use a file of its own"
            )
    return ""


def _told(names: set[str]) -> str:
    shown = ", ".join(sorted(names)[:5])
    return f"the file is another program's (it has {shown}): use a file of its own"


def _names(connection: Connection) -> set[str]:
    return {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_schema")}


def _steps(connection: Connection) -> list[str]:
    columns = connection.execute("SELECT name FROM pragma_table_info('migration')").fetchall()
    if ("name",) not in columns:
        return []
    return [str(row[0]) for row in connection.execute("SELECT name FROM migration ORDER BY name")]
