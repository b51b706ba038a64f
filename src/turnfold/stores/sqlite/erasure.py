"""Erase single entries and delete whole conversations in the SQLite store, a long conversation in several transactions.

Between two of these transactions (steps), other writers can write.

A short conversation is deleted in one transaction. A long one is first hidden, in one small transaction: a new empty
row, marked as deleted, takes its name, and its own row moves to the tenant "", which no caller can have. (The row that
remains after a deletion has a digest in place of the name and tenant, by which a late writer is refused.) Then its
entries (newest first), documents and checkpoints are deleted in bounded steps, and at last the row under the tenant "".
As long as there is such a row, a deletion is unfinished, and the next process that finds it continues.

Most of the time goes into the search index; in the names of functions, a *place* is a text in it, that of an entry, a
checkpoint or a document. FTS5 can remove a text from its lists immediately ("secure-delete"), which takes 0.7 ms for an
entry of 35 terms, or mark it as deleted, which costs almost nothing, and drop it when lists are merged. Merging the
whole index takes a few microseconds for each text in it. So a few texts are removed immediately; many texts, and long
ones, are marked and then dropped by merging, in steps as well. A long text is removed in parts, whose terms are made by
a reader, without locking writers out (`next_long_place`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from turnfold.records import Document, Message
from turnfold.stores.log_semantics import check_erasure
from turnfold.stores.protocol import Erasure, Head
from turnfold.stores.sqlite import documents as doc_sql
from turnfold.stores.sqlite import search_index as index
from turnfold.stores.sqlite import statements as sql
from turnfold.stores.sqlite.write_queue import Connection

__all__ = (
    "EntryErasure",
    "continue_erasing",
    "delete",
    "erase_entry",
    "erase_some",
    "erasing_keys",
    "erasure_warnings",
    "is_erasing",
    "next_long_place",
)


MOST_ROWS = 500
"""Most rows deleted in one transaction; a larger conversation is deleted in several."""
_MOST_SECURE = 100
"""Most rows deleted in one transaction, if the terms of each row are removed from the search index at once and not
merged out later."""
_MOST_BYTES = 1 << 20
"""Most bytes deleted in one transaction; a single row may have more."""
_MOST_INDEXED_BYTES = 16 << 10
"""Most bytes of indexed texts that are deleted in one transaction; the terms of a single longer text are removed in
parts."""
_MERGED_PAGES = 64
"""Number of pages of the search index that one transaction merges, so that the terms of deleted texts disappear."""
_MERGE_RATIO = 200
"""Number of texts that can be merged in the time in which one text is removed immediately; if a larger share is
removed, texts are merged."""
_STEPS_AT_OPENING = 4
_DELETED_TENANT = ""
_SECURE, _MERGE, _MERGING = "", "merge", "merging"
"""Ways to remove texts from the search index: immediately, by a merge that is due, by a merge that has begun."""
_TEXT_BYTES = f"""(SELECT coalesce(octet_length(document.text), octet_length(checkpoint.text), 0)
FROM beside AS own {index.JOIN_TEXTS.replace("beside.", "own.")} WHERE own.id = beside.id)"""  # noqa: S608 (constants)
# A damaged row can lack a body; it is deleted like any other.
_ROWS = (
    ("beside", "id", _TEXT_BYTES),
    ("document", "kind, key", "coalesce(length(body), 0)"),
    ("checkpoint", "id", "coalesce(length(text), 0)"),
)


class _Erasing(NamedTuple):
    """The row of a hidden conversation whose deletion is unfinished: its rows are deleted in steps."""

    key: int
    tenant: str
    """The tenant that the conversation belonged to."""
    indexed: int
    """Seq (log position) of the newest entry of the conversation that is in the search index."""
    indexed_by: str
    """Version of the rules by which the conversation's index terms were made; empty if none of it is indexed."""
    mode: str
    """How the conversation's texts are removed from the index: `_SECURE`, `_MERGE` or `_MERGING`."""


def delete(connection: Connection, tenant: str, name: str, *, now: int) -> Erasure:
    """Delete a conversation at once if it is short.

    A long one is hidden at once, and `erase_some` deletes it in steps.

    `is_erasing` is True until that is finished.
    """
    record = sql.find_conversation(connection, tenant, name, writing=False)
    entries = record.head.seq
    counts = doc_sql.counts(connection, record.key)
    empty = Head(generation=record.head.generation)
    if entries + sum(counts) <= MOST_ROWS and _is_small(connection, record.key):
        index.remove_conversation(connection, tenant, record.key)
        for table in ("entry", "checkpoint", "document"):
            sql.delete_from(connection, table, record.key)
        record.head = empty
    else:
        connection.execute(
            "UPDATE conversation SET tenant = ?, name = key, counter = ?, checkpoint = ?, deleted = 1, unindexed = 0 "
            "WHERE key = ?",
            (_DELETED_TENANT, tenant, _choose_mode(connection, record.key), record.key),
        )
        record = sql.SqliteConversation(0, empty, deleted=record.deleted)
    known = record.key
    sql.save_head(
        connection, *sql.erased_name(connection, tenant, name), record, now=now, deleted=True
    )
    if known and not record.deleted:
        sql.hide_name(connection, known, tenant, name)
    return Erasure(name, entries, *counts, already=record.deleted)


def _is_small(connection: Connection, key: int) -> bool:
    """Return True if a conversation has few enough bytes to be deleted in one transaction."""
    indexed = bool(
        sql.scalar(connection, "SELECT indexed_by <> '' FROM conversation WHERE key = ?", (key,))
    )
    size = sql.scalar(
        connection,
        "SELECT (SELECT coalesce(sum(length(body)), 0) FROM entry WHERE id > ?1 AND id <= ?2) + "
        "(SELECT coalesce(sum(length(body) + octet_length(text)), 0) FROM document WHERE conversation = ?3) + "
        "(SELECT coalesce(sum(octet_length(text)), 0) FROM checkpoint WHERE conversation = ?3)",
        (*_entry_ids(key), key),
    )
    return size <= (_MOST_INDEXED_BYTES if indexed else _MOST_BYTES)


def _entry_ids(key: int) -> tuple[int, int]:
    return sql.row_id(key, 0), sql.row_id(key, sql.LAST_SEQ)


class EntryErasure(NamedTuple):
    """A request to erase an entry: the message that replaces it, and the documents to replace and to delete."""

    conversation: str
    seq: int
    message: Message
    replaced: Sequence[Document]
    dropped: Sequence[Document]


def erase_entry(
    connection: Connection,
    tenant: str,
    wanted: EntryErasure,
    record: sql.SqliteConversation,
    *,
    tokens: int,
    now: int,
) -> Erasure:
    """Replace the message of an entry, update the index and remove the checkpoints (summaries) that cover it.

    `tokens` is the token count of the new message.
    """
    conversation, seq, message, replaced, dropped = wanted
    key = record.key
    old = next(sql.rows(connection, key, after=seq - 1, upto=seq), None) if seq and key else None
    body = check_erasure(old, seq, message)
    doc_sql.change_documents(connection, tenant, key, replaced=replaced, dropped=dropped, now=now)
    already, checkpoints, epoch = old is None or old.body == body, 0, sql.new_epoch()
    if old is not None and not already:
        head = record.head

        def change() -> None:
            sql.replace_entry(connection, key, old, body, tokens=tokens, epoch=epoch)

        index.replace_entry(connection, tenant, key, seq, change)
        checkpoints, live = doc_sql.drop_checkpoints(connection, tenant, key, seq)
        record.head = replace(head, tokens=head.tokens + tokens - old.tokens, checkpoint=live)
    if not already or replaced or dropped:
        sql.save_head(connection, tenant, conversation, record, now=now, epoch=epoch)
    changed = len(replaced) + len(dropped)
    return Erasure(conversation, int(not already), checkpoints, changed, already)


def _choose_mode(connection: Connection, key: int) -> str:
    if _has_long_place(connection, key):
        return _MERGE
    places = sql.scalar(
        connection,
        "SELECT indexed + (SELECT count(*) FROM beside WHERE conversation = ?1 AND indexed) "
        "FROM conversation WHERE key = ?1",
        (key,),
    )
    return _MERGE if (places or 0) * _MERGE_RATIO > index.places(connection) else _SECURE


def _has_long_place(connection: Connection, key: int) -> bool:
    beside = f"SELECT 1 FROM beside WHERE conversation = ? AND {_TEXT_BYTES} > ?"  # noqa: S608 (above)
    entries = "SELECT 1 FROM entry WHERE id > ? AND id <= ? AND length(body) > ?"
    found = (
        sql.scalar(connection, f"{entries} LIMIT 1", (*_entry_ids(key), _MOST_INDEXED_BYTES)),
        sql.scalar(connection, f"{beside} LIMIT 1", (key, _MOST_INDEXED_BYTES)),
    )
    return any(found)


def next_long_place(
    connection: Connection, known: index.LongPlace | None
) -> index.LongPlace | None:
    """Return the next text to remove from the index, with its terms, if it is too long to be removed at once.

    Otherwise returns None. If it is the text of `known`, `known` is returned, so that its terms are made only once.
    """
    erasing = _next(connection)
    place = None if erasing is None else _long_place_of(connection, erasing)
    if erasing is None or place is None:
        return None
    if known is not None and known.place == place:
        return known
    return index.long_place(connection, erasing.tenant, erasing.key, place)


def _long_place_of(connection: Connection, erasing: _Erasing) -> int | None:
    """Return the id of the next text to delete if it is too long to be removed from the index at once; else None."""
    if erasing.mode == _SECURE or not erasing.indexed_by:
        return None
    newest = connection.execute(
        "SELECT id, coalesce(length(body), 0) FROM entry WHERE id = "
        "(SELECT max(id) FROM entry WHERE id > ? AND id <= ?)",
        _entry_ids(erasing.key),
    ).fetchone()
    last = index.last_indexed(connection, erasing.key) or 0
    if newest is None:
        newest = connection.execute(
            f"SELECT id, {_TEXT_BYTES} FROM beside WHERE conversation = ? ORDER BY id LIMIT 1",  # noqa: S608 (above)
            (erasing.key,),
        ).fetchone()
    if newest is None:
        return None
    place, size = cast("tuple[int, int]", newest)
    if size <= _MOST_INDEXED_BYTES:
        return None
    if place > 0:
        return place if place & sql.LAST_SEQ <= last else None
    return place if index.is_text_indexed(connection, erasing.key, place) else None


def _erase_part(connection: Connection, erasing: _Erasing, long: index.LongPlace | None) -> bool:
    """Remove a part of a long text from the index; return False if the next text can be removed at once."""
    place = _long_place_of(connection, erasing)
    if place is None:
        return False
    if long is None or long.place != place:
        long = index.long_place(connection, erasing.tenant, erasing.key, place)
    if index.remove_part(connection, erasing.tenant, erasing.key, long):
        return True
    if place > 0:
        seq = place & sql.LAST_SEQ
        connection.execute(
            "UPDATE conversation SET indexed = ? WHERE key = ?", (seq - 1, erasing.key)
        )
    else:
        connection.execute("UPDATE beside SET indexed = 0 WHERE id = ?", (place,))
    return True


def is_erasing(connection: Connection) -> bool:
    """Return True if a conversation is hidden but not all of its rows are deleted yet."""
    return _next(connection) is not None


def erasing_keys(connection: Connection) -> list[int]:
    """Return the primary keys of hidden conversations whose rows are not all deleted; the index may still have them."""
    found = connection.execute("SELECT key FROM conversation WHERE tenant = ?", (_DELETED_TENANT,))
    return [cast("int", row[0]) for row in found]


def continue_erasing(connection: Connection) -> None:
    """Delete some more rows of hidden conversations whose deletion was interrupted; begins its own transactions."""
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
    """Return a warning for the operator if a deletion is unfinished; an empty tuple if not."""
    count = len(erasing_keys(connection))
    if not count:
        return ()
    conversations = "1 conversation" if count == 1 else f"{count} conversations"
    warning = (
        f"the deletion of {conversations} is unfinished (interrupted, or in progress): nobody can read what is left, "
        "but its bytes are still in the file; the next delete() or reindex() finishes it"
    )
    return (warning,)


def _next(connection: Connection) -> _Erasing | None:
    found = connection.execute(
        "SELECT key, counter, indexed, indexed_by, checkpoint FROM conversation WHERE tenant = ? LIMIT 1",
        (_DELETED_TENANT,),
    ).fetchone()
    return None if found is None else _Erasing(*cast("tuple[int, str, int, str, str]", found))


def erase_some(connection: Connection, long: index.LongPlace | None = None) -> None:
    """Delete at most `MOST_ROWS` rows of one hidden conversation, or merge some pages of the index.

    `long` is the result of `next_long_place`; without it, the terms of a long text are made here.
    """
    erasing = _next(connection)
    if (
        erasing is None
        or _erase_part(connection, erasing, long)
        or _erase_entries(connection, erasing)
    ):
        return
    most = _row_limit(erasing)
    for table, names, size in _ROWS:
        if _erase_rows(connection, erasing, table, names=names, size=size, most=most):
            return
    if erasing.mode != _SECURE and index.merge_some(
        connection, _MERGED_PAGES, begin=erasing.mode == _MERGE
    ):
        connection.execute(
            "UPDATE conversation SET checkpoint = ? WHERE key = ?", (_MERGING, erasing.key)
        )
        return
    connection.execute("DELETE FROM conversation WHERE key = ?", (erasing.key,))


def _row_limit(erasing: _Erasing) -> int:
    return _MOST_SECURE if erasing.indexed_by and erasing.mode == _SECURE else MOST_ROWS


def _erase_entries(connection: Connection, erasing: _Erasing) -> bool:
    """Delete some of the newest entries of a hidden conversation; return True if there were any."""
    # The newest first: the terms of a tool result depend on the call before it, which must still be stored.
    key = erasing.key
    newest = connection.execute(
        "SELECT seq, coalesce(length(body), 0) FROM entry WHERE id > ? AND id <= ? ORDER BY id DESC LIMIT ?",
        (sql.row_id(key, 0), sql.row_id(key, sql.LAST_SEQ), _row_limit(erasing)),
    ).fetchall()
    if not newest:
        return False
    indexed = index.last_indexed(connection, key) or 0
    taken = _within_bytes(
        cast("list[tuple[int, int]]", newest),
        _MOST_INDEXED_BYTES if indexed and cast("int", newest[0][0]) <= indexed else _MOST_BYTES,
    )
    last, first = cast("int", newest[0][0]), cast("int", newest[taken - 1][0])
    if erasing.indexed_by and first <= indexed:
        index.remove_entries(
            connection,
            erasing.tenant,
            key,
            (first, min(last, indexed)),
            merged=erasing.mode != _SECURE,
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
    """Delete some checkpoints, documents or indexed texts of a hidden conversation; return True if there were any."""
    found = connection.execute(
        f"SELECT {size}, {names} FROM {table} WHERE conversation = ? ORDER BY {names} LIMIT ?",  # noqa: S608 (above)
        (erasing.key, most),
    ).fetchall()
    if not found:
        return False
    limit = _MOST_INDEXED_BYTES if table == "beside" else _MOST_BYTES
    chosen = found[: _within_bytes([(0, cast("int", row[0])) for row in found], limit)]
    if table == "beside" and erasing.indexed_by:
        index.remove_texts(
            connection,
            erasing.tenant,
            erasing.key,
            [cast("int", row[1]) for row in chosen],
            merged=erasing.mode != _SECURE,
        )
    where = " AND ".join(f"{name} = ?" for name in names.split(", "))
    connection.executemany(
        f"DELETE FROM {table} WHERE conversation = ? AND {where}",  # noqa: S608 (names of this file)
        [(erasing.key, *row[1:]) for row in chosen],
    )
    return True


def _within_bytes(sizes: list[tuple[int, int]], limit: int) -> int:
    """Return how many of the first rows (seq, bytes) have at most `limit` bytes together; at least 1."""
    total = 0
    for place, (_, size) in enumerate(sizes):
        total += size
        if total > limit:
            return max(1, place)
    return len(sizes)
