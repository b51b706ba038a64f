"""Deleting long conversations from the SQLite store, in steps that leave room for other writers between them.

A short conversation goes in one transaction. A long one is first taken out of everybody's sight: its name is given to
an empty row that says "deleted", and its own row, with all that hangs on it, moves to the tenant "" (which nobody can
be). That is one small transaction; whatever happens afterwards, nobody reads it or writes to it. Then its entries (the
newest first), documents and checkpoints go in bounded steps, each a transaction. The row under the tenant "" goes last:
where there is one, a deletion is unfinished, and whoever finds it goes on.

Most of the time went into the search index. FTS5 can remove a place from its lists at once ("secure-delete"), which
costs 0.7 ms for an entry of 35 terms; or note that it is gone, which costs next to nothing, and leave it out when lists
are merged. Merging the whole index costs a few microseconds for each place in it. So few places are removed at once,
and many are noted and then merged away, in steps as well.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from turnfold.stores import sqlite_index as index
from turnfold.stores import sqlite_rows as sql
from turnfold.stores.protocol import Erasure, Head
from turnfold.stores.sqlite_engine import Connection

__all__ = (
    "continue_erasing",
    "delete",
    "erase_some",
    "erasing_keys",
    "erasure_warnings",
    "is_erasing",
)

MOST_ROWS = 500
"""Rows that are removed in one transaction."""
_MOST_SECURE = 100
"""The same, where each is removed from the lists of the index at once."""
_MOST_BYTES = 8 << 20
_MERGED_PAGES = 64
"""Pages of the index that are merged in one transaction."""
_MANY = 200
"""Places are merged away if they are more than one in so many; removing one costs as much as merging so many."""
_STEPS_AT_OPENING = 4
_NOBODY = ""
_SECURE, _MERGE, _MERGING = "", "merge", "merging"
# What is damaged can lack a body, and is deleted like everything else.
_ROWS = (
    ("beside", "id", "0"),
    ("document", "kind, key", "coalesce(length(body), 0)"),
    ("checkpoint", "id", "coalesce(length(text), 0)"),
)


class _Erasing(NamedTuple):
    """A conversation of which something is left."""

    key: int
    tenant: str
    """Whose it was."""
    indexed: int
    """The newest entry that is in the index."""
    indexed_by: str
    way: str
    """How its places leave the index."""


def delete(connection: Connection, tenant: str, name: str, *, now: int) -> Erasure:
    """Delete a conversation, or begin to: then `is_erasing` until `erase_some` has removed the rest."""
    held = sql.find_conversation(connection, tenant, name, writing=False)
    entries = held.head.seq
    beside = [_count(connection, table, held.key) for table in ("checkpoint", "document")]
    gone = Head(generation=held.head.generation)
    if entries + sum(beside) <= MOST_ROWS:
        index.unindex(connection, tenant, held.key)
        for table in ("entry", "checkpoint", "document"):
            sql.delete_from(connection, table, held.key)
        held.head = gone
    else:
        connection.execute(
            "UPDATE conversation SET tenant = ?, name = key, counter = ?, checkpoint = ?, deleted = 1, unindexed = 0 "
            "WHERE key = ?",
            (_NOBODY, tenant, _way(connection, held.key), held.key),
        )
        held = sql.Held(0, gone, deleted=held.deleted)
    already = held.deleted
    sql.save_head(connection, tenant, name, held, now=now, deleted=True)
    return Erasure(name, entries, *beside, already=already)


def _count(connection: Connection, table: str, key: int) -> int:
    found = connection.execute(
        f"SELECT count(*) FROM {table} WHERE conversation = ?",  # noqa: S608 (a table named in this file)
        (key,),
    ).fetchone()
    return cast("int", found[0]) if found is not None else 0


def _way(connection: Connection, key: int) -> str:
    found = connection.execute(
        "SELECT indexed + (SELECT count(*) FROM beside WHERE conversation = ?1 AND indexed) "
        "FROM conversation WHERE key = ?1",
        (key,),
    ).fetchone()
    places = cast("int", found[0]) if found is not None else 0
    return _MERGE if places * _MANY > index.places(connection) else _SECURE


def is_erasing(connection: Connection) -> bool:
    """Whether a deletion is unfinished."""
    return _next(connection) is not None


def erasing_keys(connection: Connection) -> list[int]:
    """The keys of conversations that are deleted and of which something may still be in the index."""
    found = connection.execute("SELECT key FROM conversation WHERE tenant = ?", (_NOBODY,))
    return [cast("int", row[0]) for row in found]


def continue_erasing(connection: Connection) -> None:
    """Go on with deletions that were interrupted, a few steps; manages its own transactions."""
    for _ in range(_STEPS_AT_OPENING):
        if not is_erasing(connection):
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            erase_some(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # a damaged file may have ended it
                connection.execute("ROLLBACK")
            raise


def erasure_warnings(connection: Connection) -> tuple[str, ...]:
    """What an operator should know while a deletion is unfinished."""
    found = connection.execute(
        "SELECT count(*) FROM conversation WHERE tenant = ?", (_NOBODY,)
    ).fetchone()
    many = cast("int", found[0]) if found is not None else 0
    if not many:
        return ()
    conversations = "1 conversation" if many == 1 else f"{many} conversations"
    warning = (
        f"the deletion of {conversations} is unfinished (interrupted, or under way): nobody can read what is left, but "
        "its bytes are still in the file; the next delete() or reindex() finishes it"
    )
    return (warning,)


def _next(connection: Connection) -> _Erasing | None:
    found = connection.execute(
        "SELECT key, counter, indexed, indexed_by, checkpoint FROM conversation WHERE tenant = ? LIMIT 1",
        (_NOBODY,),
    ).fetchone()
    return None if found is None else _Erasing(*cast("tuple[int, str, int, str, str]", found))


def erase_some(connection: Connection) -> None:
    """Remove some of what unfinished deletions have left: at most `MOST_ROWS` rows, or some pages of the index."""
    erasing = _next(connection)
    if erasing is None or _erase_entries(connection, erasing):
        return
    most = _most(erasing)
    for table, names, size in _ROWS:
        if _erase_rows(connection, erasing, table, names=names, size=size, most=most):
            return
    if erasing.way != _SECURE and index.merge_some(
        connection, _MERGED_PAGES, begin=erasing.way == _MERGE
    ):
        connection.execute(
            "UPDATE conversation SET checkpoint = ? WHERE key = ?", (_MERGING, erasing.key)
        )
        return
    connection.execute("DELETE FROM conversation WHERE key = ?", (erasing.key,))


def _most(erasing: _Erasing) -> int:
    return _MOST_SECURE if erasing.indexed_by and erasing.way == _SECURE else MOST_ROWS


def _erase_entries(connection: Connection, erasing: _Erasing) -> bool:
    """Remove the newest entries; whether there were any."""
    # The newest first: what an entry is found by depends on the calls before it, which must still be there.
    key = erasing.key
    newest = connection.execute(
        "SELECT seq, coalesce(length(body), 0) FROM entry WHERE id > ? AND id <= ? ORDER BY id DESC LIMIT ?",
        (sql.row_id(key, 0), sql.row_id(key, sql.LAST_SEQ), _most(erasing)),
    ).fetchall()
    if not newest:
        return False
    taken = _within_bytes(cast("list[tuple[int, int]]", newest))
    last, first = cast("int", newest[0][0]), cast("int", newest[taken - 1][0])
    if erasing.indexed_by and first <= erasing.indexed:
        index.take_out_entries(
            connection,
            erasing.tenant,
            key,
            (first, min(last, erasing.indexed)),
            merged=erasing.way != _SECURE,
        )
        connection.execute("UPDATE conversation SET indexed = ? WHERE key = ?", (first - 1, key))
    connection.execute(
        "DELETE FROM entry WHERE id >= ? AND id <= ?",
        (sql.row_id(key, first), sql.row_id(key, last)),
    )
    return True


def _erase_rows(
    connection: Connection, erasing: _Erasing, table: str, *, names: str, size: str, most: int
) -> bool:
    """Remove some rows of a table beside the log; whether there were any."""
    found = connection.execute(
        f"SELECT {size}, {names} FROM {table} WHERE conversation = ? ORDER BY {names} LIMIT ?",  # noqa: S608 (above)
        (erasing.key, most),
    ).fetchall()
    if not found:
        return False
    chosen = found[: _within_bytes([(0, cast("int", row[0])) for row in found])]
    if table == "beside" and erasing.indexed_by:
        index.take_out_beside(
            connection,
            erasing.tenant,
            erasing.key,
            [cast("int", row[1]) for row in chosen],
            merged=erasing.way != _SECURE,
        )
    where = " AND ".join(f"{name} = ?" for name in names.split(", "))
    connection.executemany(
        f"DELETE FROM {table} WHERE conversation = ? AND {where}",  # noqa: S608 (names of this file)
        [(erasing.key, *row[1:]) for row in chosen],
    )
    return True


def _within_bytes(sizes: list[tuple[int, int]]) -> int:
    """How many of these rows are removed at once: one at least."""
    total = 0
    for place, (_, size) in enumerate(sizes):
        total += size
        if total > _MOST_BYTES:
            return max(1, place)
    return len(sizes)
