"""The search index of the SQLite store as a whole: filled when somebody searches, retired when its rules are old.

Places are indexed when somebody searches, not when they are written. To take them out the index must be told their
terms again, and those can only be made again by the same rules. So each conversation says which rules its places were
indexed by. An index made by other rules is retired as a whole when the file is opened (or when something must be taken
out that cannot be told again): another one is begun, which searches fill in steps, what they ask about first, and the
old one is taken apart in steps as well, so that nobody waits long for the file.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import cast

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.recall import TERMS_MADE_BY
from turnfold.records import Message, decode_message
from turnfold.stores import sqlite_rows as sql
from turnfold.stores.checksums import is_sound_text
from turnfold.stores.findable import CALL_REACH, Findable, ToolNames, findable, marks_of_text
from turnfold.stores.sqlite_engine import Connection
from turnfold.stores.sqlite_filling import Filling, Index, Placed

__all__ = (
    "has_retired",
    "has_unindexed",
    "index_some",
    "index_warnings",
    "live_index",
    "make_ready",
    "merge_some",
    "place_beside",
    "places",
    "remove_beside",
    "remove_retired",
    "take_out_beside",
    "take_out_entries",
    "tenant_unindexed",
    "unindex",
    "waiting",
)

_log = logging.getLogger(__name__)
_MIXED = "mixed"
MANY_WAITING = 20_000
"""Entries that may wait to be indexed for a search to index all of them before it answers."""
_REMOVED_BLOCKS = 500
_REMOVED_AT_ONCE = 8
"""Steps in which an index is taken apart when the file is opened: that of a new file is then gone."""
_WAITING = "tenant = ?1 AND (?2 IS NULL OR name = ?2) AND unindexed"
_BESIDE_TEXT = (
    "SELECT beside.id, coalesce(document.text, checkpoint.text, ''), "
    "iif(document.text IS NULL, checkpoint.checksum, document.checksum) FROM beside "
    "LEFT JOIN document ON document.conversation = beside.conversation "
    "AND document.kind = beside.kind AND document.key = beside.key "
    "LEFT JOIN checkpoint ON beside.kind = 'checkpoint' "
    "AND checkpoint.conversation = beside.conversation AND checkpoint.id = beside.key "
    "WHERE beside.conversation = ?"
)

# --------------------------------------------------------------------------------- the index as a whole


def make_ready(connection: Connection) -> None:
    """See that there is an index made by today's rules; manages its own transaction."""
    if _is_todays(connection):
        return  # and nobody who is writing was waited for
    connection.execute("BEGIN IMMEDIATE")
    try:
        todays = _is_todays(connection)
        if todays is None:  # a new file, or one of a release before there was but the one index
            _begin_anew(connection)
            for _ in range(_REMOVED_AT_ONCE):
                remove_retired(connection)
        elif not todays:
            _begin_anew(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a damaged file may have ended it
            connection.execute("ROLLBACK")
        raise


def _is_todays(connection: Connection) -> bool | None:
    """Whether the index in use was made by today's rules; None where there is none."""
    found = connection.execute(
        "SELECT made_by = ? FROM search_index WHERE NOT retired", (TERMS_MADE_BY,)
    ).fetchone()
    return None if found is None else bool(found[0])


def live_index(connection: Connection) -> Index:
    """The index that is searched and filled."""
    found = connection.execute("SELECT number FROM search_index WHERE NOT retired").fetchone()
    return _named(cast("int", found[0]) if found is not None else 0)


def _named(number: int) -> Index:
    return Index(f"found_{number:d}", f"held_{number:d}")


def _begin_anew(connection: Connection) -> None:
    """Retire the index and begin another; later searches fill it."""
    connection.execute("UPDATE search_index SET retired = 1")
    connection.execute(
        "INSERT INTO search_index (made_by, retired) VALUES (?, 0)", (TERMS_MADE_BY,)
    )
    found, held = _named(connection.last_insert_rowid())
    connection.execute(
        f"CREATE VIRTUAL TABLE {found} USING fts5 "  # noqa: S608 (tables named here)
        "(terms, content = '', columnsize = 0, detail = none, tokenize = 'ascii');"
        f"INSERT INTO {found} ({found}, rank) VALUES ('secure-delete', 1);"
        f"CREATE TABLE {held} "
        "(term INTEGER PRIMARY KEY, entries INTEGER NOT NULL, beside INTEGER NOT NULL) STRICT"
    )
    connection.execute(
        "UPDATE conversation SET indexed = 0, indexed_by = '', unindexed = NOT deleted WHERE indexed_by <> ''"
    )
    connection.execute("UPDATE beside SET indexed = 0 WHERE indexed")


def index_warnings(connection: Connection) -> tuple[str, ...]:
    """What an operator should know while an index is being made, or made anew."""
    warnings = _behind(connection)
    if not has_retired(connection):
        return warnings
    found = connection.execute("SELECT count(*) FROM conversation WHERE unindexed").fetchone()
    waiting = found[0] if found else 0
    warning = (
        f"the search index was made by other rules and is made anew: {waiting} conversations wait for their first "
        "search; reindex() does it now"
    )
    return (*warnings, warning)


def _behind(connection: Connection) -> tuple[str, ...]:
    """Say so where a search has begun to index a long log and is far from done."""
    found = connection.execute(
        "SELECT coalesce(sum(newest - indexed), 0) FROM (SELECT coalesce(last.seq, 0) AS newest, indexed "  # noqa: S608 (constants)
        f"FROM {sql.STANDING} WHERE unindexed AND indexed_by <> '' LIMIT 1000)"
    ).fetchone()
    many = cast("int", found[0]) if found is not None else 0
    if many <= MANY_WAITING:
        return ()
    warning = (
        f"{many} entries wait to be indexed: until then searches cover what is indexed and the newest of the others; "
        "reindex() does it now"
    )
    return (warning,)


def has_retired(connection: Connection) -> bool:
    """Whether something is left of an index that is no longer used."""
    return _oldest_retired(connection) is not None


def _oldest_retired(connection: Connection) -> int | None:
    found = connection.execute(
        "SELECT number FROM search_index WHERE retired ORDER BY number LIMIT 1"
    ).fetchone()
    return None if found is None else cast("int", found[0])


def remove_retired(connection: Connection) -> None:
    """Take apart some of an index that is no longer used."""
    number = _oldest_retired(connection)
    if number is None:
        return
    lists = (
        _named(number).found if number else "entry_terms"
    )  # as it was called before there were several
    rests = (f"retired_{number:d}_data", f"retired_{number:d}_docsize", _named(number).held)
    if _exists(connection, lists):
        # What is large is put aside first: an index that misses a part of itself would look like damage.
        for part in ("data", "docsize"):
            if _exists(connection, f"{lists}_{part}"):
                connection.execute(
                    f"ALTER TABLE {lists}_{part} RENAME TO retired_{number:d}_{part}"
                )
        connection.execute(f"DROP TABLE {lists}")
        return
    for rest in rests:
        if _exists(connection, rest):
            if not _delete_some(connection, rest):
                connection.execute(f"DROP TABLE {rest}")
            return
    connection.execute("DELETE FROM search_index WHERE number = ?", (number,))


def _exists(connection: Connection, table: str) -> bool:
    found = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    return found is not None


def _delete_some(connection: Connection, table: str) -> int:
    before = connection.total_changes()
    connection.execute(
        f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} LIMIT ?)",  # noqa: S608 (a table named here)
        (_REMOVED_BLOCKS,),
    )
    return connection.total_changes() - before


# ------------------------------------------------------------------------------------------- what waits


def waiting(connection: Connection, tenant: str, conversation: str | None) -> int:
    """How many entries of the scope, or of one conversation, wait to be indexed."""
    found = connection.execute(
        f"SELECT coalesce(sum(coalesce(last.seq, 0) - indexed), 0) FROM {sql.STANDING} WHERE {_WAITING}",  # noqa: S608 (constants)
        (tenant, conversation),
    ).fetchone()
    return cast("int", found[0]) if found is not None else 0


def has_unindexed(connection: Connection, tenant: str, conversation: str | None) -> bool:
    """Whether something of the scope, or of one conversation, waits to be indexed."""
    found = connection.execute(
        f"SELECT 1 FROM conversation WHERE {_WAITING} LIMIT 1",  # noqa: S608 (constants)
        (tenant, conversation),
    ).fetchone()
    return found is not None


def tenant_unindexed(connection: Connection) -> str | None:
    """A tenant of whose conversations something waits to be indexed; None when nothing does."""
    found = connection.execute("SELECT tenant FROM conversation WHERE unindexed LIMIT 1").fetchone()
    return cast("str", found[0]) if found is not None else None


def index_some(connection: Connection, tenant: str, conversation: str | None, *, most: int) -> int:
    """Index what is not indexed yet, at most `most` places; how many were."""
    pending = connection.execute(
        f"SELECT key, indexed FROM conversation WHERE {_WAITING} LIMIT ?3",  # noqa: S608 (constants)
        (tenant, conversation, most),
    ).fetchall()
    filling = Filling(connection, live_index(connection), tenant)
    done = 0
    for key, indexed in cast("list[tuple[int, int]]", pending):
        # What stands beside the log first: a search can look through the newest entries meanwhile, but not through it.
        beside = list(_beside(connection, key, "AND NOT beside.indexed LIMIT ?", most - done))
        done += filling.add(beside)
        entries = filling.add(_entries(connection, key, after=indexed, limit=most - done))
        done += entries
        connection.executemany(
            "UPDATE beside SET indexed = 1 WHERE id = ?", [(place,) for place, _ in beside]
        )
        connection.execute(
            "UPDATE conversation SET indexed = ?, unindexed = ?, "
            "indexed_by = iif(indexed_by IN ('', ?), ?, ?) WHERE key = ?",
            (indexed + entries, int(done >= most), TERMS_MADE_BY, TERMS_MADE_BY, _MIXED, key),
        )
        if done >= most:
            break
    filling.finish()
    return done


def _entries(
    connection: Connection, key: int, *, after: int = 0, limit: int = -1, upto: int = sql.LAST_SEQ
) -> Iterator[Placed]:
    """Entries with what they are found by. One that is damaged is found by nothing."""
    tools = ToolNames(after=after, earlier=lambda: _messages_before(connection, key, after))
    for columns in sql.raw_rows(connection, key, after=after, upto=upto, limit=limit):
        seq, message = cast("int", columns[0]), _message(connection, key, columns)
        found = None if message is None else findable(message, tools.of(message))
        if message is None:
            # It must not end all searches of its scope; whoever reads the entry itself is told.
            _log.warning(
                "entry %d cannot be read and is not indexed",
                seq,
                extra={"event": "unreadable_entry", "seq": seq},
            )
            tools.skip()
        yield sql.row_id(key, seq), found


def _messages_before(connection: Connection, key: int, seq: int) -> Sequence[Message | None]:
    found = sql.raw_rows(connection, key, after=max(seq - CALL_REACH, 0), upto=seq)
    return [_message(connection, key, columns) for columns in found]


def _message(connection: Connection, key: int, columns: tuple[object, ...]) -> Message | None:
    try:
        return decode_message(sql.to_row(connection, key, columns).body)
    except InvalidRecord:
        return None


# -------------------------------------------------------------------------------- what stands beside the log


def _beside(connection: Connection, key: int, which: str, *values: object) -> Iterator[Placed]:
    for row in connection.execute(f"{_BESIDE_TEXT} {which}", (key, *values)):
        place, said, checksum = cast("tuple[int, str, int | None]", row)
        sound = is_sound_text(said, checksum)
        yield place, Findable(said, marks_of_text(said)) if sound else None


def place_beside(connection: Connection, key: int, kind: str, name: str) -> None:
    """Note that something beside the log is to be found; it is indexed by the next search."""
    connection.execute(
        "INSERT INTO beside (id, kind, key, indexed) VALUES ((SELECT coalesce(min(id), -(?1 << 32)) - 1 FROM beside "
        "WHERE id < -(?1 << 32) AND id >= -(?1 << 32 | 4294967295)), ?2, ?3, 0)",
        (key, kind, name),
    )
    connection.execute("UPDATE conversation SET unindexed = 1 WHERE key = ?", (key,))


def remove_beside(connection: Connection, tenant: str, key: int, kind: str, name: str) -> None:
    """Forget something beside the log, while its text is still there to be read."""
    which = "AND beside.indexed AND beside.kind = ? AND beside.key = ?"
    places = list(_beside(connection, key, which, kind, name))
    if places:
        _take_out(connection, tenant, key, places)
    connection.execute(
        "DELETE FROM beside WHERE conversation = ? AND kind = ? AND key = ?", (key, kind, name)
    )


def unindex(connection: Connection, tenant: str, key: int) -> None:
    """Take a whole conversation out of the search index, while it is still there to be read."""
    found = connection.execute(
        "SELECT indexed, indexed_by FROM conversation WHERE key = ?", (key,)
    ).fetchone()
    indexed, made_by = cast("tuple[int, str]", found) if found is not None else (0, "")
    if made_by:
        entries = list(_entries(connection, key, upto=indexed)) if indexed else []
        _take_out(
            connection, tenant, key, [*entries, *_beside(connection, key, "AND beside.indexed")]
        )
    connection.execute("DELETE FROM beside WHERE conversation = ?", (key,))
    connection.execute(
        "UPDATE conversation SET indexed = 0, indexed_by = '', unindexed = 0 WHERE key = ?", (key,)
    )


def take_out_entries(
    connection: Connection, tenant: str, key: int, span: tuple[int, int], *, merged: bool
) -> None:
    """Take the entries from the first to the second seq out of the index, while they are there to be read."""
    found = list(_entries(connection, key, after=span[0] - 1, upto=span[1]))
    _take_out(connection, tenant, key, found, merged=merged)


def take_out_beside(
    connection: Connection, tenant: str, key: int, ids: Sequence[int], *, merged: bool
) -> None:
    """Take some of what stands beside the log out of the index, while its text is there to be read."""
    which = "AND beside.indexed AND beside.id IN (SELECT value FROM json_each(?))"
    found = list(_beside(connection, key, which, msgspec.json.encode(ids).decode()))
    if found:
        _take_out(connection, tenant, key, found, merged=merged)


def places(connection: Connection) -> int:
    """How many places are in the index, of all tenants."""
    # FTS5 keeps the number of rows at the beginning of its first block; counting them would read the whole index.
    found = connection.execute(
        f"SELECT block FROM {live_index(connection).found}_data WHERE id = 1"  # noqa: S608 (a table's name)
    ).fetchone()
    number = 0
    for byte in cast("bytes", found[0]) if found is not None else b"":
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return number


def merge_some(connection: Connection, pages: int, *, begin: bool) -> bool:
    """Merge some pages of the index, so that what was taken out is gone for good; whether there was anything to do."""
    table = live_index(connection).found
    if begin:
        _configure(connection, table, "usermerge", 2)
    before = connection.total_changes()
    connection.execute(
        f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)",  # noqa: S608 (a table's name)
        (-pages if begin else pages,),  # below 0: all lists are to be merged into one
    )
    return connection.total_changes() - before > 1  # as FTS5 documents it


def _configure(connection: Connection, table: str, option: str, value: int) -> None:
    connection.execute(
        f"INSERT INTO {table} ({table}, rank) VALUES (?, ?)",  # noqa: S608 (a table's name)
        (option, value),
    )


def _take_out(
    connection: Connection,
    tenant: str,
    key: int,
    places: Sequence[Placed],
    *,
    merged: bool = False,
) -> None:
    """Take places out of the lists at once; `merged`: they are noted as gone, and go when the lists are merged."""
    made_by = connection.execute(
        "SELECT indexed_by FROM conversation WHERE key = ?", (key,)
    ).fetchone()
    damaged = any(found is None for _, found in places)  # perhaps since it was indexed
    if damaged or made_by is None or made_by[0] != TERMS_MADE_BY:
        _begin_anew(connection)
        return
    live = live_index(connection)
    filling = Filling(connection, live, tenant)
    if merged:
        _configure(connection, live.found, "secure-delete", 0)
    filling.remove(places)
    if merged:
        connection.execute("SAVEPOINT noted; RELEASE noted")  # FTS5 writes its lists at a savepoint
        _configure(connection, live.found, "secure-delete", 1)
    filling.finish()
