"""The tables of a SQLite store, as an append-only list of named steps, each applied once in a transaction."""

from __future__ import annotations

from turnfold.errors import UnsafeStore
from turnfold.stores.sqlite_engine import Connection

__all__ = ("MIGRATIONS", "migrate")

MIGRATIONS: tuple[tuple[str, str], ...] = (
    (
        "0001_log",
        """
        CREATE TABLE conversation (
            key INTEGER PRIMARY KEY,
            tenant TEXT NOT NULL,
            name TEXT NOT NULL,
            seq INTEGER NOT NULL,
            tokens INTEGER NOT NULL,
            turns INTEGER NOT NULL,
            checkpoint TEXT NOT NULL,
            generation INTEGER NOT NULL,
            counter TEXT NOT NULL,
            created INTEGER NOT NULL,
            updated INTEGER NOT NULL,
            deleted INTEGER NOT NULL DEFAULT 0,
            indexed INTEGER NOT NULL DEFAULT 0,
            UNIQUE (tenant, name)
        ) STRICT;
        CREATE INDEX conversation_unindexed ON conversation (tenant) WHERE indexed < seq;
        CREATE TABLE entry (
            conversation INTEGER NOT NULL REFERENCES conversation (key),
            seq INTEGER NOT NULL,
            client_id TEXT,
            created INTEGER NOT NULL,
            turn INTEGER NOT NULL,
            tokens INTEGER NOT NULL,
            running INTEGER NOT NULL,
            body BLOB NOT NULL,
            PRIMARY KEY (conversation, seq)
        ) STRICT, WITHOUT ROWID;
        CREATE UNIQUE INDEX entry_client_id ON entry (conversation, client_id) WHERE client_id IS NOT NULL;
        CREATE TABLE checkpoint (
            conversation INTEGER NOT NULL REFERENCES conversation (key),
            upto INTEGER NOT NULL,
            id TEXT NOT NULL,
            previous TEXT NOT NULL,
            text TEXT NOT NULL,
            digest TEXT NOT NULL,
            model TEXT NOT NULL,
            trust TEXT NOT NULL,
            fidelity REAL NOT NULL,
            created INTEGER NOT NULL,
            PRIMARY KEY (conversation, upto),
            UNIQUE (conversation, id)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE document (
            conversation INTEGER NOT NULL REFERENCES conversation (key),
            kind TEXT NOT NULL,
            key TEXT NOT NULL,
            version INTEGER NOT NULL,
            created INTEGER NOT NULL,
            body BLOB NOT NULL,
            PRIMARY KEY (conversation, kind, key)
        ) STRICT, WITHOUT ROWID;
        """,
    ),
    (
        "0002_search",
        """
        CREATE VIRTUAL TABLE entry_terms USING fts5 (
            scope, terms, content = '', detail = column, tokenize = "unicode61 remove_diacritics 0"
        );
        INSERT INTO entry_terms (entry_terms, rank) VALUES ('secure-delete', 1);
        """,
    ),
)


def migrate(connection: Connection) -> None:
    """Bring the file to the newest schema; safe to run from many processes at once."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        _check_own(connection)
        connection.execute("CREATE TABLE IF NOT EXISTS migration (name TEXT PRIMARY KEY) STRICT")
        applied = [
            str(row[0]) for row in connection.execute("SELECT name FROM migration ORDER BY name")
        ]
        _check_known(applied)
        for name, script in MIGRATIONS[len(applied) :]:
            connection.execute(script)
            connection.execute("INSERT INTO migration (name) VALUES (?)", (name,))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a damaged file may have ended it
            connection.execute("ROLLBACK")
        raise


def _check_own(connection: Connection) -> None:
    tables = {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_schema")}
    if tables and "migration" not in tables:
        raise UnsafeStore(
            f"the file is another program's (it has {', '.join(sorted(tables)[:5])}): use a file of its own"
        )


def _check_known(applied: list[str]) -> None:
    known = [name for name, _ in MIGRATIONS]
    if applied != known[: len(applied)]:
        raise UnsafeStore(
            f"the file was written by another release (its schema has {', '.join(applied)}; this release knows "
            f"{', '.join(known)}): upgrade turnfold"
        )
