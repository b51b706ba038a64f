"""The tables of a PostgreSQL store, as an append-only list of named migrations, and the view `ai_message`.

Every key begins with the tenant, and every unique key contains tenant and conversation, so the tables can be
distributed by hash over partitions or machines. Names in keys are written by `key_of` (see statements.py); a name that
is too long for a key is stored in full in another column. Bodies and summaries are bytes, because PostgreSQL text
cannot contain every character that a message may have.

Row-level security is the second barrier between tenants: even if a query forgets its condition, the server shows a
transaction only the rows of the tenant it has set, also to the owner of the tables. PostgreSQL evaluates operators that
might leak something of a row (such as the array operators of the search index) only after the policy has admitted the
row, so they cannot use an index. Therefore the search terms are part of that table's policy: a transaction sets its
terms, as it sets its tenant, and sees only rows that contain one of them.

A process of an earlier release may be running while a migration is applied. If that process must stop, the migration
renames a column that its statements use: they fail, and its callers get `UnsafeStore`.

The view `ai_message` shows the log as the table that earlier tools query: one row per turn, one per checkpoint. A
turn's row has the user's text as `query` and the assistant's last text as `answer`. A checkpoint's row has `query =
'[MEMORY_CHECKPOINT]'`, its summary as `answer`, its id as `message_id` and `create_by = 'turnfold:checkpoint'`. If a
user types that marker, the row is still a turn's, with the user in `create_by` and a `message_id` of the form
`conversation#seq`.

The documented queries order by `create_time` and compare it to find what came after a checkpoint. So it always
increases, even if the clock went back: two microseconds are added per entry, and a checkpoint comes right after the
last turn that it covers completely. `update_time` is the time of the clock. The view shows the tenant of the session
(`SET turnfold.tenant = 'name'`), or the tenant "default" to a client that sets none, and is subject to row-level
security like the tables. JSON in PostgreSQL cannot contain a NUL character; the view shows U+FFFD instead.
"""

from __future__ import annotations

from turnfold.errors import UnsafeStore
from turnfold.stores.postgres.transactions import Link, Statement

__all__ = (
    "MIGRATIONS",
    "TABLES",
    "migrate",
)


# ruff: noqa: S608 (statements are joined from constants written here; every value is bound)


_OWN = "tenant = current_setting('turnfold.tenant', true)"

# An escaped NUL is a backslash that no backslash escapes, followed by u0000.
_READABLE = r"""
CREATE FUNCTION turnfold_json(body bytea) RETURNS json
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN regexp_replace(convert_from(body, 'UTF8'), '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')::json
"""

_MESSAGE_TEXT = """
CREATE FUNCTION turnfold_text(message json) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (SELECT coalesce(string_agg(part.value ->> 'text', '' ORDER BY part.ordinality), '')
            FROM json_array_elements(message -> 'parts') WITH ORDINALITY AS part
            WHERE part.value ->> 'kind' = 'text')
"""

# `place` is the time the view orders by: the latest time so far, plus two microseconds per entry.
_VIEW = f"""
CREATE VIEW ai_message WITH (security_invoker = true) AS
WITH entry AS NOT MATERIALIZED (
    SELECT conversation, seq, turn, created, turnfold_json(body) AS message,
           max(created) OVER (PARTITION BY conversation ORDER BY seq) + 2 * seq AS place
    FROM turnfold_entry WHERE {_OWN}
), turn AS NOT MATERIALIZED (
    SELECT conversation, turn, min(seq) AS first, max(seq) AS last, min(place) AS place, max(place) AS until,
           max(created) AS updated,
           (array_agg(turnfold_text(message) ORDER BY seq) FILTER (WHERE message ->> 'role' = 'user'))[1] AS query,
           (array_agg(turnfold_text(message) ORDER BY seq DESC)
               FILTER (WHERE message ->> 'role' = 'assistant' AND turnfold_text(message) <> ''))[1] AS answer
    FROM entry GROUP BY conversation, turn
)
SELECT conversation || '#' || first AS message_id, conversation AS conversation_id,
       coalesce(query, '') AS query, coalesce(answer, '') AS answer,
       'epoch'::timestamptz + place * interval '1 microsecond' AS create_time, 'user' AS create_by,
       'epoch'::timestamptz + updated * interval '1 microsecond' AS update_time, 'assistant' AS update_by
FROM turn WHERE query IS NOT NULL OR answer IS NOT NULL
UNION ALL
SELECT id, conversation, '[MEMORY_CHECKPOINT]', turnfold_json(record) ->> 'text',
       'epoch'::timestamptz + coalesce(
           (SELECT max(turn.until) + 1 FROM turn
            WHERE turn.conversation = checkpoint.conversation AND turn.last <= checkpoint.upto),
           (SELECT min(entry.place) - 1 FROM entry WHERE entry.conversation = checkpoint.conversation)
       ) * interval '1 microsecond', 'turnfold:checkpoint',
       'epoch'::timestamptz + created * interval '1 microsecond', 'turnfold:checkpoint'
FROM turnfold_checkpoint AS checkpoint WHERE {_OWN}
"""

# A database used by the earlier tools may have a table of that name, which is left alone.
_VIEW_UNLESS_TAKEN = f"""
DO $create$ BEGIN IF to_regclass('ai_message') IS NULL THEN EXECUTE $view${_VIEW}$view$; END IF; END $create$
"""

_DOCUMENTED_VIEW = (_READABLE, _MESSAGE_TEXT, _VIEW_UNLESS_TAKEN)

# A program that sets no tenant may read the rows of the tenant "default", and write nothing.
_SHOWN = "tenant = coalesce(nullif(current_setting('turnfold.tenant', true), ''), 'default')"
# The prefix turnfold: tells checkpoints from turns, so a user or agent whose name begins with it is shown as user:...
_AUTHOR = """
CREATE FUNCTION turnfold_author(name text, otherwise text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN coalesce(name, '') = '' THEN otherwise WHEN name LIKE 'turnfold:%' THEN 'user:' || name
           ELSE name END
"""
_LABEL = r"""
CREATE FUNCTION turnfold_label(message json, name text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN regexp_replace(message ->> 'labels', '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')::json ->> name
"""
_NAMED_VIEW = (
    _VIEW.replace("CREATE VIEW", "CREATE OR REPLACE VIEW")
    .replace(f"WHERE {_OWN}", f"WHERE {_SHOWN}")
    .replace(
        "    FROM entry GROUP BY conversation, turn",
        "         , max(turnfold_label(message, 'user_id')) AS user_id"
        ", max(turnfold_label(message, 'agent_code')) AS agent_code\n"
        "    FROM entry GROUP BY conversation, turn",
    )
    .replace("'user' AS create_by", "turnfold_author(user_id, 'user') AS create_by")
    .replace("'assistant' AS update_by", "turnfold_author(agent_code, 'assistant') AS update_by")
)
_REPLACE_VIEW = f"""
DO $replace$ BEGIN
    IF (SELECT relkind = 'v' FROM pg_class WHERE oid = to_regclass('ai_message')) THEN
        EXECUTE $view${_NAMED_VIEW}$view$;
    END IF;
END $replace$
"""
_NAMED_VIEW_UNLESS_TAKEN = f"""
DO $create$ BEGIN IF to_regclass('ai_message') IS NULL THEN EXECUTE $view${_NAMED_VIEW}$view$; END IF; END $create$
"""


def _default_reader(table: str) -> tuple[str, ...]:
    # One policy for each command and not a second one for SELECT: joined by OR they would be evaluated for every row.
    return (
        f"DROP POLICY own_tenant ON {table}",
        f"CREATE POLICY shown_tenant ON {table} FOR SELECT USING ({_SHOWN})",
        f"CREATE POLICY own_insert ON {table} FOR INSERT WITH CHECK ({_OWN})",
        f"CREATE POLICY own_update ON {table} FOR UPDATE USING ({_OWN}) WITH CHECK ({_OWN})",
        f"CREATE POLICY own_delete ON {table} FOR DELETE USING ({_OWN})",
    )


TABLES = (
    "turnfold_checkpoint",
    "turnfold_conversation",
    "turnfold_document",
    "turnfold_entry",
    "turnfold_term",
)

_LOCK = 0x7475726E666F6C64  # "turnfold": one migration at a time in a database

_ASKED_FOR = "terms && string_to_array(current_setting('turnfold.terms', true), ' ')"


def _row_security(table: str) -> tuple[str, ...]:
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

# New terms wait in a list that every search scans; a short one keeps searches fast.
_TERM_TERMS = """
CREATE INDEX turnfold_term_terms ON turnfold_term USING gin (terms) WITH (gin_pending_list_limit = 256)
"""

_TERM_BESIDE = """
ALTER TABLE turnfold_term
    DROP CONSTRAINT turnfold_term_pkey,
    ADD COLUMN kind text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN long_kind text,
    ADD COLUMN key text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN long_key text,
    ADD COLUMN created bigint NOT NULL,
    ADD COLUMN turn bigint NOT NULL DEFAULT 0,
    ADD PRIMARY KEY (tenant, conversation, kind, key, seq)
"""

_CONVERSATION_INDEX = """
ALTER TABLE turnfold_conversation
    ADD COLUMN arrival bigint GENERATED BY DEFAULT AS IDENTITY,
    ADD COLUMN beside bigint NOT NULL DEFAULT 0,
    ADD COLUMN indexed_by text NOT NULL DEFAULT '',
    ADD COLUMN remade_by text NOT NULL DEFAULT '',
    ADD COLUMN remade bigint NOT NULL DEFAULT 0
"""

# A conversation id that equals the digest of an erased conversation is refused as erased; that does no other harm.
_ERASED_NAME = r"""
CREATE FUNCTION turnfold_erased(tenant text, conversation text) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL SAFE
    RETURN (SELECT 'erased:' || encode(sha256(salt || convert_to(
        length(tenant) || ':' || tenant || conversation, 'UTF8')), 'hex') FROM turnfold_salt)
"""

_HIDE_NAMES = """
UPDATE turnfold_conversation SET conversation = turnfold_erased(tenant, conversation), long_name = NULL WHERE erased
"""

MIGRATIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "0001_log",
        (
            *(_CONVERSATION, _ENTRY, _ENTRY_CLIENT_ID, _CHECKPOINT, _DOCUMENT),
            *_row_security("turnfold_conversation"),
            *_row_security("turnfold_entry"),
            *_row_security("turnfold_checkpoint"),
            *_row_security("turnfold_document"),
        ),
    ),
    (
        "0002_search",
        (
            _TERM,
            _TERM_TERMS,
            *_row_security("turnfold_term"),
            f"CREATE POLICY asked_for ON turnfold_term AS RESTRICTIVE FOR SELECT USING ({_ASKED_FOR})",
        ),
    ),
    ("0003_documented_view", _DOCUMENTED_VIEW),
    (
        # The highest version of any dropped document, so that no version is used twice; and the kinds that are too
        # long for a key, so that all documents of a conversation can be read without knowing their kinds.
        "0004_document_versions",
        (
            "ALTER TABLE turnfold_conversation ADD COLUMN dropped bigint NOT NULL DEFAULT 0",
            "ALTER TABLE turnfold_document ADD COLUMN long_kind text",
        ),
    ),
    (
        # Checkpoints and documents can be searched too. Every conversation records the rules its index was made by
        # (and how far it has been rebuilt by others). The existing index was made by retired rules and is dropped.
        "0005_beside",
        (
            "ALTER TABLE turnfold_document ADD COLUMN text bytea NOT NULL DEFAULT ''",
            "TRUNCATE turnfold_term",
            _TERM_BESIDE,
            _CONVERSATION_INDEX,
            "CREATE INDEX turnfold_conversation_indexed_by ON turnfold_conversation (tenant, indexed_by)",
        ),
    ),
    (
        # Each generation has a random number, drawn by the write that made it, to tell histories apart (see
        # Head.epoch). A running process of an earlier release must not write without one: an entry needs a value, and
        # every statement that reads or changes a conversation names `generation`, which is renamed.
        "0006_epochs",
        (
            "ALTER TABLE turnfold_conversation RENAME COLUMN generation TO revision",
            "ALTER TABLE turnfold_conversation ADD COLUMN epoch bigint NOT NULL DEFAULT 0",
            "ALTER TABLE turnfold_conversation ALTER COLUMN epoch DROP DEFAULT",
            "ALTER TABLE turnfold_entry ADD COLUMN epoch bigint NOT NULL DEFAULT 0",
            "ALTER TABLE turnfold_entry ALTER COLUMN epoch DROP DEFAULT",
        ),
    ),
    (
        # See checksums.py. Existing rows have none: computing them now would hide existing damage.
        "0007_checksums",
        (
            "ALTER TABLE turnfold_entry ADD COLUMN checksum bigint",
            "ALTER TABLE turnfold_checkpoint ADD COLUMN checksum bigint",
            "ALTER TABLE turnfold_document ADD COLUMN checksum bigint",
        ),
    ),
    (
        # The documented SQL names no tenant: it is answered for the default one. Rows name their user and agent.
        "0008_default_tenant",
        (
            *(_AUTHOR, _LABEL),
            *_default_reader("turnfold_entry"),
            *_default_reader("turnfold_checkpoint"),
            _REPLACE_VIEW,
        ),
    ),
    (
        # What remains of an erased conversation must refuse late writers for ever. Its name may be a person's, so the
        # row keeps a digest of it, salted for this database. A running process of an earlier release would look for
        # the name and create the conversation again: every statement of it names `deleted`, which is renamed.
        "0009_erased_names",
        (
            "CREATE TABLE turnfold_salt (salt bytea NOT NULL)",
            "INSERT INTO turnfold_salt VALUES (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))",
            _ERASED_NAME,
            "ALTER TABLE turnfold_conversation RENAME COLUMN deleted TO erased",
            "ALTER TABLE turnfold_conversation NO FORCE ROW LEVEL SECURITY",  # for the rows of every tenant
            _HIDE_NAMES,
            "ALTER TABLE turnfold_conversation FORCE ROW LEVEL SECURITY",
        ),
    ),
)


async def migrate(link: Link) -> None:
    """Apply the migrations that the database lacks, and create the view `ai_message` if nothing else has that name.

    Safe to run in many processes at once. If a table of an earlier program has the name, the view is created by the
    first process that opens the store after the table was renamed.
    """
    [[(present, free)]] = await link.ask(
        Statement(
            "SELECT to_regclass('turnfold_migration') IS NOT NULL, "
            "to_regclass('ai_message') IS NULL AND has_schema_privilege(current_schema(), 'CREATE')"
        )
    )
    if present and not free and len(await _applied(link)) == len(MIGRATIONS):
        return
    link.allow_long(unlimited=True)
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
    if free:
        await link.ask(Statement(_NAMED_VIEW_UNLESS_TAKEN))


async def _applied(link: Link) -> list[str]:
    """Return the names of the applied migrations; raise `UnsafeStore` if one of them is unknown to this release."""
    [found] = await link.ask(Statement("SELECT name FROM turnfold_migration ORDER BY name"))
    applied = [str(name) for (name,) in found]
    known = [name for name, _ in MIGRATIONS]
    if applied != known[: len(applied)]:
        raise UnsafeStore(
            f"the database was written by a newer or different release of turnfold (its schema has "
            f"{', '.join(applied)}; this release knows {', '.join(known)}): upgrade turnfold"
        )
    return applied
