"""What a SQLite file of turnfold's holds and which release wrote it, found without bringing it up to date.

Opening a store applies the steps its schema lacks. Who wants to know first whether there are any asks here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from turnfold.errors import StoreUnavailable
from turnfold.stores.sqlite_engine import Connection, SqliteEngine, sqlite_version
from turnfold.stores.sqlite_schema import MIGRATIONS

__all__ = ("SqliteStatus", "sqlite_status")

_MAGIC = b"SQLite format 3\0"
_TENANTS = "SELECT count(DISTINCT tenant) FROM conversation WHERE NOT deleted"
_CONVERSATIONS = "SELECT count(*) FROM conversation WHERE NOT deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteStatus:
    """A file and its settings."""

    path: str
    size: int
    """Bytes of the file, its log not counted."""
    log_size: int
    """Bytes of the write-ahead log beside it."""
    free_pages: int
    pages: int
    sqlite: str
    journal_mode: str
    synchronous: int
    applied: tuple[str, ...]
    """Steps of the schema the file has."""
    missing: tuple[str, ...]
    """Steps this release would add when it opens the file."""
    unknown: tuple[str, ...]
    """Steps a newer release added: this one does not open the file."""
    tenants: int
    conversations: int
    entries: int


async def sqlite_status(path: Path) -> SqliteStatus:
    """Look at a file."""
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise StoreUnavailable(f"{path} is no SQLite file")
    engine = SqliteEngine(str(path), blocking=True)
    try:
        return await engine.read(lambda connection: _look(connection, path))
    finally:
        await engine.close()


def _look(connection: Connection, path: Path) -> SqliteStatus:
    tables = {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_schema")}
    applied = (
        [str(row[0]) for row in connection.execute("SELECT name FROM migration ORDER BY name")]
        if "migration" in tables
        else []
    )
    known = [name for name, _ in MIGRATIONS]
    log = path.with_name(f"{path.name}-wal")

    ours = "conversation" in tables and "entry" in tables
    return SqliteStatus(
        path=str(path),
        size=path.stat().st_size,
        log_size=log.stat().st_size if log.exists() else 0,
        free_pages=_number(connection, "PRAGMA freelist_count"),
        pages=_number(connection, "PRAGMA page_count"),
        sqlite=sqlite_version(),
        journal_mode=str(_value(connection, "PRAGMA journal_mode")),
        synchronous=_number(connection, "PRAGMA synchronous"),
        applied=tuple(applied),
        missing=tuple(name for name in known if name not in applied),
        unknown=tuple(name for name in applied if name not in known),
        tenants=_number(connection, _TENANTS) if ours else 0,
        conversations=_number(connection, _CONVERSATIONS) if ours else 0,
        entries=_number(connection, "SELECT count(*) FROM entry") if ours else 0,
    )


def _value(connection: Connection, query: str) -> object:
    row = connection.execute(query).fetchone()
    return row[0] if row else None


def _number(connection: Connection, query: str) -> int:
    found = _value(connection, query)
    return found if isinstance(found, int) else 0
