"""The tables of a PostgreSQL store, as an append-only list of named steps, each applied once.

Every key begins with the tenant, and every unique key holds tenant and conversation, so the tables can be spread
by hash over partitions or machines. Names stand in keys as `key_of` writes them (see postgres_rows.py); the long
form of the few names that are too long for a key stands beside it.

Row-level security is the second wall: whatever a query forgets to say, the server shows a transaction only the
rows of the tenant it has named, to the owner of the tables too. The server tests a condition that might reveal
something of a row (as the array operators of the search index might) only after the wall has let the row
through, and so cannot use an index for it. Therefore what is searched for is part of that table's wall: the
transaction names its terms, as it names its tenant, and sees no rows but those that hold one.

Bodies and summaries are bytes, because PostgreSQL text cannot hold every character a message may have.
"""

from __future__ import annotations

from turnfold.errors import UnsafeStore
from turnfold.stores.postgres_engine import Link, Statement
from turnfold.stores.postgres_view import DOCUMENTED_VIEW

__all__ = ("MIGRATIONS", "TABLES", "migrate")

TABLES = (
    "turnfold_checkpoint",
    "turnfold_conversation",
    "turnfold_document",
    "turnfold_entry",
    "turnfold_term",
)

_LOCK = 0x7475726E666F6C64  # "turnfold": one migration at a time in a database

_OWN = "tenant = current_setting('turnfold.tenant', true)"
_ASKED_FOR = "terms && string_to_array(current_setting('turnfold.terms', true), ' ')"


def _walled(table: str) -> tuple[str, ...]:
    return (
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
        f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
        f"CREATE POLICY own_tenant ON {table} USING ({_OWN}) WITH CHECK ({_OWN})",
    )


_CONVERSATION = """
CREATE TABLE turnfold_conversation (
    tenant text COLLATE "C" NOT NULL,
    conversation text COLLATE "C" NOT NULL,
    long_name text,
    seq bigint NOT NULL,
    tokens bigint NOT NULL,
    turns bigint NOT NULL,
    checkpoint text NOT NULL,
    generation bigint NOT NULL,
    counter text NOT NULL,
    created bigint NOT NULL,
    updated bigint NOT NULL,
    deleted boolean NOT NULL,
    PRIMARY KEY (tenant, conversation)
) WITH (fillfactor = 70)
"""

_ENTRY = """
CREATE TABLE turnfold_entry (
    tenant text COLLATE "C" NOT NULL,
    conversation text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    client_id text COLLATE "C",
    long_id text,
    created bigint NOT NULL,
    turn bigint NOT NULL,
    tokens bigint NOT NULL,
    running bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (tenant, conversation, seq)
)
"""

_ENTRY_CLIENT_ID = """
CREATE UNIQUE INDEX turnfold_entry_client_id ON turnfold_entry (tenant, conversation, client_id)
    WHERE client_id IS NOT NULL
"""

_CHECKPOINT = """
CREATE TABLE turnfold_checkpoint (
    tenant text COLLATE "C" NOT NULL,
    conversation text COLLATE "C" NOT NULL,
    upto bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    created bigint NOT NULL,
    record bytea NOT NULL,
    PRIMARY KEY (tenant, conversation, upto),
    UNIQUE (tenant, conversation, id)
)
"""

_DOCUMENT = """
CREATE TABLE turnfold_document (
    tenant text COLLATE "C" NOT NULL,
    conversation text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    long_key text,
    version bigint NOT NULL,
    created bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (tenant, conversation, kind, key)
)
"""

_TERM = """
CREATE TABLE turnfold_term (
    tenant text COLLATE "C" NOT NULL,
    conversation text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    terms text[] COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, conversation, seq)
)
"""

# New terms wait in a list that every search reads through; a short one keeps searches quick.
_TERM_TERMS = """
CREATE INDEX turnfold_term_terms ON turnfold_term USING gin (terms) WITH (gin_pending_list_limit = 256)
"""

MIGRATIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "0001_log",
        (
            *(_CONVERSATION, _ENTRY, _ENTRY_CLIENT_ID, _CHECKPOINT, _DOCUMENT),
            *_walled("turnfold_conversation"),
            *_walled("turnfold_entry"),
            *_walled("turnfold_checkpoint"),
            *_walled("turnfold_document"),
        ),
    ),
    (
        "0002_search",
        (
            _TERM,
            _TERM_TERMS,
            *_walled("turnfold_term"),
            f"CREATE POLICY asked_for ON turnfold_term AS RESTRICTIVE FOR SELECT USING ({_ASKED_FOR})",
        ),
    ),
    ("0003_documented_view", DOCUMENTED_VIEW),
    (
        # The highest version a dropped document had, so that no version ever returns; and the kinds that are too
        # long for a key, so that all of a conversation's documents can be told without knowing their kinds.
        "0004_document_versions",
        (
            "ALTER TABLE turnfold_conversation ADD COLUMN dropped bigint NOT NULL DEFAULT 0",
            "ALTER TABLE turnfold_document ADD COLUMN long_kind text",
        ),
    ),
)


async def migrate(link: Link) -> None:
    """Bring the database to the newest schema; safe to run from many processes at once."""
    [[(present,)]] = await link.ask(
        Statement("SELECT to_regclass('turnfold_migration') IS NOT NULL")
    )
    if present and len(await _applied(link)) == len(MIGRATIONS):
        return
    await link.ask(
        Statement("SELECT pg_advisory_xact_lock($1)", (_LOCK,)),
        Statement(
            'CREATE TABLE IF NOT EXISTS turnfold_migration (name text COLLATE "C" PRIMARY KEY)'
        ),
    )
    for name, steps in MIGRATIONS[len(await _applied(link)) :]:
        await link.ask(
            *map(Statement, steps),
            Statement("INSERT INTO turnfold_migration (name) VALUES ($1)", (name,)),
        )


async def _applied(link: Link) -> list[str]:
    """The steps taken so far, which must be the first of those this release knows."""
    [found] = await link.ask(Statement("SELECT name FROM turnfold_migration ORDER BY name"))
    applied = [str(name) for (name,) in found]
    known = [name for name, _ in MIGRATIONS]
    if applied != known[: len(applied)]:
        raise UnsafeStore(
            f"the database was written by another release (its schema has {', '.join(applied)}; this release knows "
            f"{', '.join(known)}): upgrade turnfold"
        )
    return applied
