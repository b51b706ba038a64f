"""The status of a SQLite file: size, settings, schema migrations and counts, read without upgrading the file.

Opening a store applies the migrations that are missing; the status shows them beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from turnfold.errors import StoreUnavailable
from turnfold.stores.sqlite.engine import SqliteEngine, sqlite_version
from turnfold.stores.sqlite.schema import MIGRATIONS
from turnfold.stores.sqlite.statements import scalar
from turnfold.stores.sqlite.write_queue import Connection

__all__ = (
    "SqliteStatus",
    "sqlite_faults",
    "sqlite_status",
)


_MAGIC = b"SQLite format 3\0"
_TENANTS = "SELECT count(DISTINCT tenant) FROM conversation WHERE NOT deleted"
_CONVERSATIONS = "SELECT count(*) FROM conversation WHERE NOT deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteStatus:
    """Size, settings, schema migrations and counts of a SQLite file."""

    path: str
    size: int
    """Bytes of the file, without its write-ahead log."""
    log_size: int
    """Bytes of the write-ahead log."""
    free_pages: int
    pages: int
    sqlite: str
    journal_mode: str
    synchronous: int
    applied: tuple[str, ...]
    """Schema migrations that were applied to the file."""
    missing: tuple[str, ...]
    """Schema migrations that this release would apply when it opens the file."""
    unknown: tuple[str, ...]
    """Schema migrations of a newer release; if there are any, this release does not open the file."""
    tenants: int
    conversations: int
    entries: int


async def sqlite_status(path: Path) -> SqliteStatus:
    """Return the status of a SQLite file; raise `StoreUnavailable` if it is another kind of file."""
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise StoreUnavailable(f"{path} is not a SQLite file: give the path of a store's file")
    engine = SqliteEngine(str(path), blocking=True)
    try:
        return await engine.read(lambda connection: _read_status(connection, path))
    finally:
        await engine.close()


async def sqlite_faults(path: Path) -> list[str]:
    """Return the damage that SQLite's `quick_check` finds in a file, one line per fault; reads the whole file."""
    engine = SqliteEngine(str(path), blocking=True)
    try:
        found = await engine.read(
            lambda connection: [str(row[0]) for row in connection.execute("PRAGMA quick_check")]
        )
    finally:
        await engine.close()
    return [line for line in found if line != "ok"]


def _read_status(connection: Connection, path: Path) -> SqliteStatus:
    tables = {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_schema")}
    applied = (
        [str(row[0]) for row in connection.execute("SELECT name FROM migration ORDER BY name")]
        if "migration" in tables
        else []
    )
    known = [name for name, _ in MIGRATIONS]
    log = path.with_name(f"{path.name}-wal")

    is_store = "conversation" in tables and "entry" in tables
    return SqliteStatus(
        path=str(path),
        size=path.stat().st_size,
        log_size=log.stat().st_size if log.exists() else 0,
        free_pages=scalar(connection, "PRAGMA freelist_count"),
        pages=scalar(connection, "PRAGMA page_count"),
        sqlite=sqlite_version(),
        journal_mode=str(scalar(connection, "PRAGMA journal_mode")),
        synchronous=scalar(connection, "PRAGMA synchronous"),
        applied=tuple(applied),
        missing=tuple(name for name in known if name not in applied),
        unknown=tuple(name for name in applied if name not in known),
        tenants=scalar(connection, _TENANTS) if is_store else 0,
        conversations=scalar(connection, _CONVERSATIONS) if is_store else 0,
        entries=scalar(connection, "SELECT count(*) FROM entry") if is_store else 0,
    )
