"""The tables of a SQLite store: those of a new file, and an append-only list of named migrations for older files.

Each migration is applied once, in a transaction, and its name is recorded in the file; in a new file all names are
recorded.

A process of an earlier release may be using the file meanwhile. If that release must not write any more, the migration
renames a column that its statements use: they fail, and its callers get `UnsafeStore`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from turnfold.errors import UnsafeStore
from turnfold.stores.sqlite.file_checks import FIRST_STEP, MARK, check_owner
from turnfold.stores.sqlite.statements import hide_erased_names
from turnfold.stores.sqlite.write_queue import Connection

__all__ = (
    "MIGRATIONS",
    "TABLES",
    "migrate",
)


_MIGRATION = "CREATE TABLE IF NOT EXISTS migration (name TEXT PRIMARY KEY) STRICT"
_STRICT = (
    "beside", "checkpoint", "conversation", "document", "entry", "migration", "name_salt",
    "search_index",
)  # fmt: skip

_VIEW = """
    CREATE VIEW ai_message AS
    WITH said AS (
        SELECT conversation.name, entry.conversation, entry.seq, entry.turn, entry.created,
            max(entry.created) OVER (PARTITION BY entry.conversation ORDER BY entry.seq) + 2 * entry.seq AS place,
            json_extract(CAST(body AS TEXT), '$.role') AS role,
            (SELECT coalesce(group_concat(json_extract(part.value, '$.text'), ''), '')
                FROM json_each(CAST(body AS TEXT), '$.parts') AS part
                WHERE json_extract(part.value, '$.kind') = 'text') AS text,
            json_extract(json_extract(CAST(body AS TEXT), '$.labels'), '$.user_id') AS user_id,
            json_extract(json_extract(CAST(body AS TEXT), '$.labels'), '$.agent_code') AS agent_code
        FROM entry JOIN conversation ON conversation.key = entry.conversation
        WHERE conversation.tenant = 'default'
    ), turns AS (
        SELECT name, conversation, turn, min(seq) AS first, max(seq) AS last, min(place) AS place,
            max(place) AS until, max(created) AS updated, min(seq) FILTER (WHERE role = 'user') AS asked,
            max(seq) FILTER (WHERE role = 'assistant' AND text <> '') AS answered,
            max(user_id) AS user_id, max(agent_code) AS agent_code
        FROM said GROUP BY conversation, turn
    ), shown AS (
        SELECT name || '#' || first AS message_id, name AS conversation_id,
            coalesce((SELECT text FROM said WHERE said.conversation = turns.conversation AND seq = asked), '')
                AS query,
            coalesce((SELECT text FROM said WHERE said.conversation = turns.conversation AND seq = answered), '')
                AS answer,
            place, coalesce(nullif(user_id, ''), 'user') AS create_by, updated,
            coalesce(nullif(agent_code, ''), 'assistant') AS update_by
        FROM turns WHERE asked IS NOT NULL OR answered IS NOT NULL
    )
    SELECT message_id, conversation_id, query, answer,
        datetime(place / 1000000, 'unixepoch') || printf('.%06d', place % 1000000) AS create_time,
        iif(create_by GLOB 'turnfold:*', 'user:' || create_by, create_by) AS create_by,
        datetime(updated / 1000000, 'unixepoch') || printf('.%06d', updated % 1000000) AS update_time,
        iif(update_by GLOB 'turnfold:*', 'user:' || update_by, update_by) AS update_by
    FROM shown
    UNION ALL
    SELECT id, name, '[MEMORY_CHECKPOINT]', text,
        datetime(place / 1000000, 'unixepoch') || printf('.%06d', place % 1000000), 'turnfold:checkpoint',
        datetime(made / 1000000, 'unixepoch') || printf('.%06d', made % 1000000), 'turnfold:checkpoint'
    FROM (
        SELECT checkpoint.id, conversation.name, checkpoint.text, checkpoint.created AS made, coalesce(
            (SELECT max(until) + 1 FROM turns
                WHERE turns.conversation = checkpoint.conversation AND turns.last <= checkpoint.upto),
            (SELECT min(place) - 1 FROM said WHERE said.conversation = checkpoint.conversation)) AS place
        FROM checkpoint JOIN conversation ON conversation.key = checkpoint.conversation
        WHERE conversation.tenant = 'default'
    );
"""

TABLES = """
    CREATE TABLE conversation (
        key INTEGER PRIMARY KEY,
        tenant TEXT NOT NULL,
        name TEXT NOT NULL,
        checkpoint TEXT NOT NULL,
        revision INTEGER NOT NULL,
        counter TEXT NOT NULL,
        created INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        deleted INTEGER NOT NULL DEFAULT 0,
        indexed INTEGER NOT NULL DEFAULT 0,
        unindexed INTEGER NOT NULL DEFAULT 0,
        indexed_by TEXT NOT NULL DEFAULT '',
        dropped INTEGER NOT NULL DEFAULT 0,
        UNIQUE (tenant, name)
    ) STRICT;
    CREATE INDEX conversation_unindexed ON conversation (tenant) WHERE unindexed;
    CREATE TABLE entry (
        conversation INTEGER NOT NULL GENERATED ALWAYS AS (id >> 32) VIRTUAL,
        seq INTEGER NOT NULL GENERATED ALWAYS AS (id & 4294967295) VIRTUAL,
        id INTEGER PRIMARY KEY,
        revision INTEGER NOT NULL,
        client_id TEXT,
        created INTEGER NOT NULL,
        turn INTEGER NOT NULL,
        tokens INTEGER NOT NULL,
        running INTEGER NOT NULL,
        body BLOB NOT NULL,
        checksum INTEGER NOT NULL DEFAULT 0
    ) STRICT;
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
        checksum INTEGER,
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
        text TEXT NOT NULL DEFAULT '',
        checksum INTEGER,
        PRIMARY KEY (conversation, kind, key)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE beside (
        conversation INTEGER NOT NULL GENERATED ALWAYS AS (-id >> 32) VIRTUAL,
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        indexed INTEGER NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX beside_place ON beside (conversation, kind, key);
    CREATE TABLE search_index (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        made_by TEXT NOT NULL,
        retired INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE name_salt (salt BLOB NOT NULL) STRICT;
    INSERT INTO name_salt (salt) VALUES (randomblob(32));
"""
"""The tables of a new file. Together with `_VIEW` they equal the tables of an older file after all `MIGRATIONS`."""

NAMES_STEP = "0010_erased_names"
"""Name of the migration after which `migrate` also replaces the names of deleted conversations."""
MIGRATIONS: tuple[tuple[str, str], ...] = (
    (
        FIRST_STEP,
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
    (
        # An append touches as few pages as possible, because each is logged and synced. The head of a conversation is
        # in its newest entry, so no other row is rewritten (the newer of the two generations counts); and entries are
        # stored in the order of their key, in full pages and without an index.
        "0003_lean_log",
        """
        DROP INDEX conversation_unindexed;
        ALTER TABLE conversation ADD COLUMN unindexed INTEGER NOT NULL DEFAULT 0;
        UPDATE conversation SET unindexed = indexed < seq;
        ALTER TABLE conversation DROP COLUMN seq;
        ALTER TABLE conversation DROP COLUMN tokens;
        ALTER TABLE conversation DROP COLUMN turns;
        DROP INDEX entry_client_id;
        ALTER TABLE entry RENAME TO old_entry;
        CREATE TABLE entry (
            conversation INTEGER NOT NULL GENERATED ALWAYS AS (id >> 32) VIRTUAL,
            seq INTEGER NOT NULL GENERATED ALWAYS AS (id & 4294967295) VIRTUAL,
            id INTEGER PRIMARY KEY,
            generation INTEGER NOT NULL,
            client_id TEXT,
            created INTEGER NOT NULL,
            turn INTEGER NOT NULL,
            tokens INTEGER NOT NULL,
            running INTEGER NOT NULL,
            body BLOB NOT NULL
        ) STRICT;
        INSERT INTO entry (id, generation, client_id, created, turn, tokens, running, body)
            SELECT conversation << 32 | seq, 0, client_id, created, turn, tokens, running, body FROM old_entry
            ORDER BY conversation, seq;
        DROP TABLE old_entry;
        CREATE UNIQUE INDEX entry_client_id ON entry (conversation, client_id) WHERE client_id IS NOT NULL;
        CREATE INDEX conversation_unindexed ON conversation (tenant) WHERE unindexed;
        """,
    ),
    (
        # Terms are stored as digests from here on, and each conversation records the rules they were made by: see
        # index.py. The next search indexes everything again.
        "0004_digests",
        """
        DROP TABLE entry_terms;
        CREATE VIRTUAL TABLE entry_terms USING fts5 (
            scope, terms, content = '', detail = column, tokenize = 'ascii'
        );
        INSERT INTO entry_terms (entry_terms, rank) VALUES ('secure-delete', 1);
        ALTER TABLE conversation ADD COLUMN indexed_by TEXT NOT NULL DEFAULT '';
        UPDATE conversation SET unindexed = 1 WHERE indexed;
        UPDATE conversation SET indexed = 0;
        """,
    ),
    (
        # The highest version of any dropped document, so that no version is used twice.
        "0005_dropped_versions",
        "ALTER TABLE conversation ADD COLUMN dropped INTEGER NOT NULL DEFAULT 0",
    ),
    (
        # Checkpoints and documents can be searched too; each has a number in the index, below 0. An index records the
        # rules it was made by; the existing one becomes number 0 and is removed step by step: see index.py.
        "0006_beside",
        """
        ALTER TABLE document ADD COLUMN text TEXT NOT NULL DEFAULT '';
        CREATE TABLE beside (
            conversation INTEGER NOT NULL GENERATED ALWAYS AS (-id >> 32) VIRTUAL,
            id INTEGER PRIMARY KEY,
            kind TEXT NOT NULL,
            key TEXT NOT NULL,
            indexed INTEGER NOT NULL
        ) STRICT;
        CREATE UNIQUE INDEX beside_place ON beside (conversation, kind, key);
        INSERT INTO beside (id, kind, key, indexed)
            SELECT -(conversation << 32 | row_number() OVER (PARTITION BY conversation ORDER BY upto)),
                'checkpoint', id, 0 FROM checkpoint WHERE text <> '';
        CREATE TABLE search_index (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            made_by TEXT NOT NULL,
            retired INTEGER NOT NULL
        ) STRICT;
        INSERT INTO search_index (number, made_by, retired) VALUES (0, '', 1);
        UPDATE conversation SET unindexed = 1
            WHERE indexed OR EXISTS (SELECT 1 FROM checkpoint WHERE conversation = conversation.key AND text <> '');
        UPDATE conversation SET indexed = 0, indexed_by = '' WHERE indexed;
        """,
    ),
    (
        # Each generation has a random number, drawn by the write that made it, to tell histories apart (see
        # Head.epoch). `generation` is renamed, because a running process of an earlier release would write without
        # epochs: every statement by which it reads or writes a conversation names that column, and fails.
        "0007_epochs",
        """
        ALTER TABLE conversation RENAME COLUMN generation TO revision;
        ALTER TABLE conversation ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE entry RENAME COLUMN generation TO revision;
        ALTER TABLE entry ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
        """,
    ),
    (
        # `entry.epoch` is stored after the body, so reading a head reads the newest body. The epoch moves into the
        # upper 31 bits of `revision`, which is stored before it; only conversations whose newest entry has one are
        # updated. Dropping the column would rewrite every log, so it becomes the checksum (see checksums.py), where 0
        # means none. Existing rows get none: they may be damaged. Statements of the previous step name `epoch`, and
        # fail.
        "0008_checksums",
        """
        UPDATE entry SET revision = (entry.epoch & 2147483647) << 32 | entry.revision, epoch = 0
            FROM conversation JOIN entry AS last ON last.id = (SELECT max(id) FROM entry
                WHERE id > conversation.key << 32 AND id <= conversation.key << 32 | 4294967295)
            WHERE last.epoch AND entry.epoch
                AND entry.id > conversation.key << 32 AND entry.id <= conversation.key << 32 | 4294967295;
        UPDATE conversation SET revision = (epoch & 2147483647) << 32 | revision WHERE epoch;
        ALTER TABLE conversation DROP COLUMN epoch;
        ALTER TABLE entry RENAME COLUMN epoch TO checksum;
        ALTER TABLE checkpoint ADD COLUMN checksum INTEGER;
        ALTER TABLE document ADD COLUMN checksum INTEGER;
        """,
    ),
    (
        # The log of the default tenant as the table that earlier tools query: see the view of a PostgreSQL store.
        "0009_documented_view",
        _VIEW,
    ),
    (
        # The row that remains of a deleted conversation has a digest instead of its tenant and name (see
        # `erased_name`), made with a salt of this file. `migrate` replaces the names of earlier deletions.
        NAMES_STEP,
        """
        CREATE TABLE name_salt (salt BLOB NOT NULL) STRICT;
        INSERT INTO name_salt (salt) VALUES (randomblob(32));
        """,
    ),
)


def migrate(connection: Connection) -> None:
    """Create the tables of a new file, or apply the missing migrations; safe to run in many processes at once."""
    if _is_newest(connection):
        return  # without waiting for another writer
    connection.execute("BEGIN IMMEDIATE")
    try:
        check_owner(connection)
        connection.execute(_MIGRATION)
        applied = _applied(connection)
        _check_known(connection, applied)
        if not applied:
            connection.execute(TABLES)
            connection.execute(_VIEW)
        for name, script in MIGRATIONS[len(applied) :]:
            if applied:
                connection.execute(script)
                if name == NAMES_STEP:
                    hide_erased_names(connection)
            connection.execute("INSERT INTO migration (name) VALUES (?)", (name,))
        _check_unaltered(connection)
        connection.execute(f"PRAGMA application_id={MARK:d}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a damaged file may have ended it
            connection.execute("ROLLBACK")
        raise


def _is_newest(connection: Connection) -> bool:
    """Return True if the file certainly needs no migration and no program altered its tables; reads without a lock."""
    with _snapshot(connection):
        found = connection.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
        made = {str(name): str(text) for kind, name, text in found if kind == "table"}
        return (
            made.get("migration") == _MIGRATION.replace("IF NOT EXISTS ", "")
            and all(kind != "trigger" for kind, _, _ in found)
            and all(_is_strict(made.get(table, "")) for table in _STRICT)
            and _applied(connection) == [name for name, _ in MIGRATIONS]
            and connection.execute("PRAGMA application_id").fetchall() == [(MARK,)]
        )


@contextmanager
def _snapshot(connection: Connection) -> Generator[None]:
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:  # a damaged file may have ended it
            connection.execute("COMMIT")


def _is_strict(made: str) -> bool:
    """Return True if a CREATE TABLE statement certainly makes a strict table: it ends with STRICT, uncommented."""
    return made.endswith((") STRICT", ") STRICT, WITHOUT ROWID")) and not (
        "--" in made or "/*" in made
    )


def _applied(connection: Connection) -> list[str]:
    return [str(row[0]) for row in connection.execute("SELECT name FROM migration ORDER BY name")]


def _check_known(connection: Connection, applied: list[str]) -> None:
    known = [name for name, _ in MIGRATIONS]
    if applied != known[: len(applied)]:
        raise UnsafeStore(
            f"{connection.filename} was written by a newer or different release of turnfold (its schema has "
            f"{', '.join(applied)}; this release knows {', '.join(known)}): upgrade turnfold"
        )


def _check_unaltered(connection: Connection) -> None:
    """Raise `UnsafeStore` if a table is not strict or there is a trigger: turnfold made neither."""
    found = connection.execute(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND NOT strict"
    ).fetchall()
    altered = [row for row in found if row[0] in _STRICT] + connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'trigger'"
    ).fetchall()
    if altered:
        raise UnsafeStore(
            f"another program altered tables or added triggers in {connection.filename} "
            f"({', '.join(sorted(str(row[0]) for row in altered))}): restore it from a backup"
        )
