"""The search index of the SQLite store: an FTS5 table of hashed words, which searches fill.

Texts of entries, checkpoints (summaries) and documents are indexed. In the names of functions and columns, an indexed
text is a *place*: its number is the id of the entry, or a number below 0 for a checkpoint or document (table `beside`).
A text is indexed by the next search, not when it is written (`search_index_backfill`).

The index stores digests (hashes) instead of words, because deletion must be complete, and FTS5 may keep the beginning
of a deleted term at the edge of a page. A few letters of a digest reveal nothing. A digest is made of the term and its
tenant, so the list of a term contains only one tenant's texts. A second table has the number of texts per term, so that
a search need not read a list to count it.

To remove a text, FTS5 must be given its terms again, and only the same rules for words (`TERMS_MADE_BY`) make the same
terms. So each conversation records the version of the rules it was indexed by. If the rules have changed when the file
is opened, or if a text must be removed whose terms cannot be made again, the whole index is retired: searches fill a
new index in steps, and the old one is removed in steps as well.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple, TypeAlias, cast

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.records import Message, decode_message
from turnfold.search import CALL_REACH, Findable, ToolNames, findable, marks_of_text
from turnfold.stores.checksums import is_sound_text
from turnfold.stores.log_semantics import Row
from turnfold.stores.sqlite import statements as sql
from turnfold.stores.sqlite.write_queue import Connection
from turnfold.text import TERMS_MADE_BY, distinct_terms

__all__ = (
    "BATCH_TERMS",
    "JOIN_TEXTS",
    "MANY_WAITING",
    "MIXED",
    "TERMS_MADE_BY",
    "IndexRows",
    "IndexTables",
    "IndexedPart",
    "LongPlace",
    "Place",
    "TermDigests",
    "add_rows",
    "add_text",
    "beside_texts",
    "entry_texts",
    "findable_entries",
    "index_warnings",
    "is_text_indexed",
    "last_indexed",
    "live_index",
    "long_place",
    "merge_some",
    "oldest_retired",
    "partly_indexed",
    "parts_of",
    "places",
    "prepare_index",
    "remove_conversation",
    "remove_entries",
    "remove_part",
    "remove_retired",
    "remove_text",
    "remove_texts",
    "replace_entry",
    "rows_of",
    "set_parts_indexed",
)


_log = logging.getLogger(__name__)
_DIGEST_BYTES = 7
"""Bytes of a digest; with a hundred million terms, one search in a billion would mistake another term for its own."""
_ALL = ""
"""Term under which the number of all indexed texts is stored; no text contains it."""
MIXED = "mixed"
"""Version of the word rules that is recorded for a conversation indexed by several versions."""
MANY_WAITING = 20_000
"""A search indexes all waiting entries before it returns if there are at most this many, else some of them."""
BATCH_TERMS = 6_000
"""Most distinct terms written in one transaction, for which other writers wait; a text with more takes several."""
_REMOVED_BLOCKS = 500
_REMOVED_AT_ONCE = 8
"""Number of steps of removing a retired index that are done when the file is opened; enough for a small index."""
JOIN_TEXTS = """
LEFT JOIN document ON document.conversation = beside.conversation
    AND document.kind = beside.kind AND document.key = beside.key
LEFT JOIN checkpoint ON beside.kind = 'checkpoint'
    AND checkpoint.conversation = beside.conversation AND checkpoint.id = beside.key
"""
_TEXTS = (
    "SELECT beside.id, coalesce(document.text, checkpoint.text, ''), "  # noqa: S608 (constants)
    f"iif(document.text IS NULL, checkpoint.checksum, document.checksum) FROM beside {JOIN_TEXTS} "
    "WHERE beside.conversation = ?"
)

Place: TypeAlias = tuple[int, Findable | None]
"""The id of an indexed text, and the text with its filter marks; None in place of a damaged text."""


class IndexTables(NamedTuple):
    """The names of the database tables that make up one search index."""

    postings: str
    """FTS5 table with a list for each term: the ids of the texts that contain it."""
    counts: str
    """Table with two numbers per term: of entries, and of checkpoints and documents that contain it."""
    parts: str
    """Table of the long texts that are indexed in part, with the number of parts in the index; created when needed."""


class TermDigests:
    """Makes the digests (keyed hashes) of one tenant's terms, which the index stores in place of words."""

    def __init__(self, tenant: str) -> None:
        self._key = blake2b(tenant.encode(), digest_size=32).digest()
        self._known: dict[str, str] = {}

    def of(self, term: str) -> str:
        """Return the digest of a term; it has only letters and digits, so it cannot contain query syntax."""
        return self._known.get(term) or self._known.setdefault(term, _digest(term, self._key))

    def number(self, term: str) -> int:
        """Return the primary key of a search term in the table that counts the texts of each term."""
        return _number(self.of(term))

    @property
    def all_places(self) -> int:
        """Primary key of the row that counts all indexed texts, in the table of counts."""
        return self.number(_ALL)


def _digest(term: str, key: bytes) -> str:
    return blake2b(term.encode(), key=key, digest_size=_DIGEST_BYTES).hexdigest()


def _number(digest: str) -> int:
    return int(digest, 16)


class IndexedPart(NamedTuple):
    """Terms of an indexed text that are written in one transaction: all of them, or a part if there are very many."""

    place: int
    number: int
    """Number of this part, from 0."""
    of: int
    """Number of parts into which the text is divided."""
    terms: list[str]
    """Digests of terms."""
    marks: list[str]
    """Digests of filter marks (role, tools, paths), which are not counted."""


def parts_of(place: int, found: Findable | None, digests: TermDigests) -> list[IndexedPart]:
    """Split the terms and filter terms of a text into parts of about `BATCH_TERMS`; equal texts give equal parts."""
    of = digests.of
    terms = [of(term) for term in distinct_terms(found.text)] if found is not None else []
    marks = [of(mark) for mark in found.marks] if found is not None else []
    many = -(-(len(terms) + len(marks)) // BATCH_TERMS) or 1
    parts = [IndexedPart(place, number, many, [], []) for number in range(many)]
    # Sorting a million terms would be one call, during which no other thread runs.
    for digest in terms:
        parts[_number(digest) % many].terms.append(digest)
    for digest in marks:
        parts[_number(digest) % many].marks.append(digest)
    return parts


class IndexRows(NamedTuple):
    """Parts of indexed texts as JSON arrays, which the statements of `add_rows` and `_remove_rows` read.

    They are made before the write transaction begins. With one call for each row instead, other threads could take the
    interpreter lock at each call, while the transaction keeps other writers waiting.
    """

    postings: str
    """Id of the text and its terms, for each part."""
    counts: list[tuple[str, int, int]]
    """Terms, and the changes of their numbers of entries and of texts; below 0 for parts to be removed."""
    terms: str
    """All terms that occur in `counts`."""


def rows_of(parts: Iterable[IndexedPart], tenant: str, change: int) -> IndexRows:
    """Return parts of indexed texts and the counts of their terms as JSON; `change` is 1 to add them, -1 to remove."""
    every = TermDigests(tenant).all_places
    entries: Counter[int] = Counter()
    texts: Counter[int] = Counter()
    postings: list[tuple[int, str]] = []
    for part in parts:
        counts = entries if part.place > 0 else texts
        if not part.number:
            counts[every] += change
        for number in map(_number, part.terms):
            counts[number] += change
        postings.append((part.place, " ".join([*part.terms, *part.marks])))
    terms = sorted({*entries, *texts})
    equal: dict[tuple[int, int], list[int]] = {}
    for term in terms:
        equal.setdefault((entries[term], texts[term]), []).append(term)
    counts = [(_json(each), *changes) for changes, each in equal.items()]
    return IndexRows(_json(postings), counts, _json(terms))


def _json(values: Sequence[object]) -> str:
    return msgspec.json.encode(values).decode()


def add_rows(connection: Connection, index: IndexTables, rows: IndexRows) -> None:
    """Add (parts of) texts to the search index, and update the counts of their terms."""
    # Counts first: they are written under a savepoint, at which FTS5 would write its lists, and each page twice.
    _count(connection, index, rows)
    connection.execute(
        f"INSERT INTO {index.postings} (rowid, terms) SELECT value ->> 0, value ->> 1 FROM json_each(?)",  # noqa: S608 (a table's name)
        (rows.postings,),
    )


def _remove_rows(connection: Connection, index: IndexTables, rows: IndexRows) -> None:
    """Remove texts or parts of texts from the search index; `terms` must be those with which they were added."""
    table = index.postings
    _count(connection, index, rows)
    connection.execute(
        f"DELETE FROM {index.counts} WHERE term IN (SELECT value FROM json_each(?)) AND entries <= 0 AND beside <= 0",  # noqa: S608 (a table's name)
        (rows.terms,),
    )
    connection.execute(
        f"INSERT INTO {table} ({table}, rowid, terms) SELECT 'delete', value ->> 0, value ->> 1 FROM json_each(?)",  # noqa: S608 (a table's name)
        (rows.postings,),
    )


def _count(connection: Connection, index: IndexTables, rows: IndexRows) -> None:
    connection.executemany(
        f"INSERT INTO {index.counts} (term, entries, beside) "  # noqa: S608 (a table's name)
        "SELECT value, ?2, ?3 FROM json_each(?1) WHERE true ON CONFLICT DO UPDATE SET "
        "entries = entries + excluded.entries, beside = beside + excluded.beside",
        rows.counts,
    )


# ------------------------------------------------------------------------------------ current and retired


def prepare_index(connection: Connection) -> None:
    """Create the search index if there is none, or if another release split texts into other words."""
    if _is_current(connection):
        return  # without waiting for another writer
    connection.execute("BEGIN IMMEDIATE")
    try:
        current = _is_current(connection)
        if not current:
            _start_new_index(connection)
        if current is None:  # a new file, or one of a release that had a single index
            for _ in range(_REMOVED_AT_ONCE):
                remove_retired(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a damaged file may have ended it
            connection.execute("ROLLBACK")
        raise


def _is_current(connection: Connection) -> bool | None:
    """Return True if the words in the search index were split by the rules of this release.

    Returns None if there is no index.
    """
    made_by = sql.scalar(connection, "SELECT made_by FROM search_index WHERE NOT retired")
    return None if made_by is None else made_by == TERMS_MADE_BY


def live_index(connection: Connection) -> IndexTables:
    """Return the names of the tables of the search index in use."""
    return _tables(sql.scalar(connection, "SELECT number FROM search_index WHERE NOT retired") or 0)


def _tables(number: int) -> IndexTables:
    return IndexTables(f"found_{number:d}", f"held_{number:d}", f"part_{number:d}")


def _start_new_index(connection: Connection) -> None:
    """Retire the search index in use and create an empty one, which later searches fill."""
    connection.execute("UPDATE search_index SET retired = 1")
    connection.execute(
        "INSERT INTO search_index (made_by, retired) VALUES (?, 0)", (TERMS_MADE_BY,)
    )
    postings, counts, _ = _tables(connection.last_insert_rowid())
    connection.execute(
        f"CREATE VIRTUAL TABLE {postings} USING fts5 "  # noqa: S608 (tables named here)
        "(terms, content = '', columnsize = 0, detail = none, tokenize = 'ascii');"
        f"INSERT INTO {postings} ({postings}, rank) VALUES ('secure-delete', 1);"
        f"CREATE TABLE {counts} "
        "(term INTEGER PRIMARY KEY, entries INTEGER NOT NULL, beside INTEGER NOT NULL) STRICT"
    )
    connection.execute(
        "UPDATE conversation SET indexed = 0, indexed_by = '', unindexed = NOT deleted WHERE indexed_by <> ''"
    )
    connection.execute("UPDATE beside SET indexed = 0 WHERE indexed")


def index_warnings(connection: Connection) -> tuple[str, ...]:
    """Return warnings for the operator while the search index is incomplete or being rebuilt."""
    waiting: int = sql.scalar(
        connection,
        "SELECT coalesce(sum(newest - indexed), 0) FROM (SELECT coalesce(last.seq, 0) AS newest, indexed "  # noqa: S608 (constants)
        f"FROM {sql.CONVERSATIONS_WITH_HEAD} WHERE unindexed AND indexed_by <> '' LIMIT 1000)",
    )
    warnings: list[str] = []
    if waiting > MANY_WAITING:
        warnings.append(
            f"{waiting} entries wait to be indexed: until then a search covers the indexed entries and the newest of "
            "those that wait; reindex() indexes all of them now"
        )
    if oldest_retired(connection) is not None:
        stale = sql.scalar(connection, "SELECT count(*) FROM conversation WHERE unindexed")
        warnings.append(
            f"the search index was made by other rules for words and is being rebuilt: {stale} conversations wait for "
            "their next search; reindex() rebuilds it now"
        )
    return tuple(warnings)


def oldest_retired(connection: Connection) -> int | None:
    """Return the number of the oldest retired (replaced) search index; None if there is none."""
    return sql.scalar(
        connection, "SELECT number FROM search_index WHERE retired ORDER BY number LIMIT 1"
    )


def remove_retired(connection: Connection) -> None:
    """Delete some rows or one table of the oldest retired search index; called until no retired index is left."""
    number = oldest_retired(connection)
    if number is None:
        return
    # Number 0 is the index of releases that had a single one.
    postings = _tables(number).postings if number else "entry_terms"
    leftovers = (f"retired_{number:d}_data", f"retired_{number:d}_docsize", *_tables(number)[1:])
    if _exists(connection, postings):
        # The large tables are renamed first: an FTS5 table that lacks a part of itself would look damaged.
        for part in ("data", "docsize"):
            if _exists(connection, f"{postings}_{part}"):
                connection.execute(
                    f"ALTER TABLE {postings}_{part} RENAME TO retired_{number:d}_{part}"
                )
        connection.execute(f"DROP TABLE {postings}")
        return
    for table in leftovers:
        if _exists(connection, table):
            if not _delete_some(connection, table):
                connection.execute(f"DROP TABLE {table}")
            return
    connection.execute("DELETE FROM search_index WHERE number = ?", (number,))


def _exists(connection: Connection, table: str) -> bool:
    found = sql.scalar(connection, "SELECT 1 FROM sqlite_schema WHERE name = ?", (table,))
    return found is not None


def _delete_some(connection: Connection, table: str) -> int:
    before = connection.total_changes()
    connection.execute(
        f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} LIMIT ?)",  # noqa: S608 (a table named here)
        (_REMOVED_BLOCKS,),
    )
    return connection.total_changes() - before


def partly_indexed(connection: Connection, index: IndexTables, key: int) -> dict[int, int]:
    """Return {text id: number of indexed parts} of the texts of a conversation that are indexed only in part."""
    if not _exists(connection, index.parts):
        return {}
    first, last = sql.row_id(key, 0), sql.row_id(key, sql.LAST_SEQ)
    found = connection.execute(
        f"SELECT place, done FROM {index.parts} WHERE place BETWEEN ?1 AND ?2 OR place BETWEEN -?2 AND -?1",  # noqa: S608 (a table's name)
        (first, last),
    )
    return dict(cast("Iterable[tuple[int, int]]", found))


def set_parts_indexed(connection: Connection, index: IndexTables, place: int, done: int) -> None:
    """Record how many parts of a long text are indexed; 0 stands for none, and also for all of them."""
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {index.parts} (place INTEGER PRIMARY KEY, done INTEGER NOT NULL) STRICT"
    )
    if done:
        connection.execute(f"INSERT OR REPLACE INTO {index.parts} VALUES (?, ?)", (place, done))  # noqa: S608 (a table's name)
    else:
        connection.execute(f"DELETE FROM {index.parts} WHERE place = ?", (place,))  # noqa: S608 (a table's name)


def entry_texts(
    connection: Connection, key: int, *, after: int = 0, limit: int = -1, upto: int = sql.LAST_SEQ
) -> Iterator[Place]:
    """Yield the entries with `after < seq <= upto` as (id, searchable text); the text is None for a damaged entry."""
    raw = sql.raw_rows(connection, key, after=after, upto=upto, limit=limit)
    for seq, _, found in findable_entries(connection, key, raw, after=after):
        if found is None:
            # One damaged entry must not fail all searches of its scope; reading the entry raises.
            _log.warning(
                "entry %d is damaged and is not indexed: searches do not find it; `turnfold doctor` finds other damage",
                seq,
                extra={"event": "unreadable_entry", "seq": seq},
            )
        yield sql.row_id(key, seq), found


def findable_entries(
    connection: Connection, key: int, raw: Iterable[tuple[object, ...]], *, after: int
) -> Iterator[tuple[int, Row | None, Findable | None]]:
    """Yield (seq, row, searchable text) for each entry of `raw`; `after` is the seq before the first of them.

    Row and text are None for a damaged entry.
    """

    def earlier() -> list[Message | None]:
        before = sql.raw_rows(connection, key, after=max(after - CALL_REACH, 0), upto=after)
        return [_decode(connection, key, columns)[1] for columns in before]

    tools = ToolNames(after=after, earlier=earlier)
    for columns in raw:
        row, message = _decode(connection, key, columns)
        if message is None:
            tools.skip()
        found = None if message is None else findable(message, tools.of(message))
        yield cast("int", columns[0]), row, found


def _decode(
    connection: Connection, key: int, columns: tuple[object, ...]
) -> tuple[Row, Message] | tuple[None, None]:
    try:
        row = sql.to_row(connection, key, columns)
        return row, decode_message(row.body)
    except InvalidRecord:
        return None, None


# ------------------------------------------------------------------- texts of checkpoints and documents


def beside_texts(connection: Connection, key: int, which: str, *values: object) -> Iterator[Place]:
    """Yield (id, searchable text) of checkpoints and documents; the text is None if damaged.

    `which` is a SQL condition.
    """
    for row in connection.execute(f"{_TEXTS} {which}", (key, *values)):
        place, text, checksum = cast("tuple[int, str, int | None]", row)
        sound = is_sound_text(text, checksum)
        yield place, Findable(text, marks_of_text(text)) if sound else None


def add_text(connection: Connection, key: int, kind: str, name: str) -> None:
    """Register the text of a checkpoint or document for the search index; the next search adds it."""
    connection.execute(
        "INSERT INTO beside (id, kind, key, indexed) VALUES ((SELECT coalesce(min(id), -(?1 << 32)) - 1 FROM beside "
        "WHERE id < -(?1 << 32) AND id >= -(?1 << 32 | 4294967295)), ?2, ?3, 0)",
        (key, kind, name),
    )
    connection.execute("UPDATE conversation SET unindexed = 1 WHERE key = ?", (key,))


def remove_text(connection: Connection, tenant: str, key: int, kind: str, name: str) -> None:
    """Remove the text of a checkpoint or document from the search index; it must still be stored."""
    which = "AND beside.kind = ? AND beside.key = ?"
    _remove(connection, tenant, key, _indexed_texts(connection, key, which, kind, name))
    connection.execute(
        "DELETE FROM beside WHERE conversation = ? AND kind = ? AND key = ?", (key, kind, name)
    )


def _indexed_texts(
    connection: Connection, key: int, which: str, *values: object
) -> Sequence[Place]:
    """Return the checkpoints and documents that match the SQL condition `which` and are indexed, at least in part."""
    partly = partly_indexed(connection, live_index(connection), key)
    where = f"AND (beside.indexed OR beside.id IN (SELECT value FROM json_each(?))) {which}"  # noqa: S608 (constants)
    return list(
        beside_texts(connection, key, where, msgspec.json.encode(list(partly)).decode(), *values)
    )


# ------------------------------------------------------------------------------------------- removing


def remove_conversation(connection: Connection, tenant: str, key: int) -> None:
    """Remove a whole conversation from the search index; its texts must still be stored."""
    last = last_indexed(connection, key)
    if last is not None:
        entries = entry_texts(connection, key, upto=last) if last else ()
        texts = _indexed_texts(connection, key, "")
        _remove(connection, tenant, key, [*entries, *texts])
    connection.execute("DELETE FROM beside WHERE conversation = ?", (key,))
    connection.execute(
        "UPDATE conversation SET indexed = 0, indexed_by = '', unindexed = 0 WHERE key = ?", (key,)
    )


def last_indexed(connection: Connection, key: int) -> int | None:
    """Return the seq of the last entry in the search index, at least in part; None if nothing is indexed."""
    found = connection.execute(
        "SELECT indexed, indexed_by FROM conversation WHERE key = ?", (key,)
    ).fetchone()
    indexed, made_by = cast("tuple[int, str]", found) if found is not None else (0, "")
    if not made_by:
        return None
    partly = partly_indexed(connection, live_index(connection), key)
    return max([indexed, *(place & sql.LAST_SEQ for place in partly if place > 0)])


def is_text_indexed(connection: Connection, key: int, place: int) -> bool:
    """Return True if the text of a checkpoint or document is indexed, at least in part."""
    indexed = sql.scalar(connection, "SELECT indexed FROM beside WHERE id = ?", (place,))
    return bool(indexed) or place in partly_indexed(connection, live_index(connection), key)


def remove_entries(
    connection: Connection, tenant: str, key: int, span: tuple[int, int], *, merged: bool
) -> None:
    """Remove the entries in the range `span` (first and last seq) from the search index; they must still be stored.

    With `merged`, they are only marked as deleted until `merge_some` drops them.
    """
    found = list(entry_texts(connection, key, after=span[0] - 1, upto=span[1]))
    _remove(connection, tenant, key, found, merged=merged)


def replace_entry(
    connection: Connection, tenant: str, key: int, seq: int, change: Callable[[], None]
) -> None:
    """Replace the body of an entry by calling `change`, and index the new text if the old one was indexed."""
    place = sql.row_id(key, seq)
    indexed = _is_indexed(connection, key, seq)
    if indexed or place in partly_indexed(connection, live_index(connection), key):
        remove_entries(connection, tenant, key, (seq, seq), merged=False)
    change()
    if indexed and _is_indexed(
        connection, key, seq
    ):  # not if a new index was started: searches fill it
        digests = TermDigests(tenant)
        found = entry_texts(connection, key, after=seq - 1, upto=seq)
        parts = [part for place, each in found for part in parts_of(place, each, digests)]
        add_rows(connection, live_index(connection), rows_of(parts, tenant, 1))


def _is_indexed(connection: Connection, key: int, seq: int) -> bool:
    found = sql.scalar(
        connection,
        "SELECT indexed >= ? AND indexed_by <> '' FROM conversation WHERE key = ?",
        (seq, key),
    )
    return bool(found)


def remove_texts(
    connection: Connection, tenant: str, key: int, ids: Sequence[int], *, merged: bool
) -> None:
    """Remove texts of checkpoints and documents from the search index; they must still be stored."""
    which = "AND beside.id IN (SELECT value FROM json_each(?))"
    found = _indexed_texts(connection, key, which, msgspec.json.encode(ids).decode())
    _remove(connection, tenant, key, found, merged=merged)


class LongPlace(NamedTuple):
    """A text with so many terms that they are removed from the index in several transactions."""

    place: int
    tables: IndexTables
    parts: list[IndexedPart]
    damaged: bool


def long_place(connection: Connection, tenant: str, key: int, place: int) -> LongPlace:
    """Return a text with so many terms that `remove_part` removes them in several steps; `place` is the text's id."""
    if place > 0:
        seq = place & sql.LAST_SEQ
        [(_, found)] = entry_texts(connection, key, after=seq - 1, upto=seq)
    else:
        [(_, found)] = beside_texts(connection, key, "AND beside.id = ?", place)
    parts = parts_of(place, found, TermDigests(tenant))
    return LongPlace(place, live_index(connection), parts, found is None)


def remove_part(connection: Connection, tenant: str, key: int, long: LongPlace) -> bool:
    """Mark one part of a long text as deleted in the search index; return True if there are more parts."""
    live = live_index(connection)
    if long.damaged or not _is_removable(connection, key) or live != long.tables:
        _start_new_index(connection)
        return False
    done = partly_indexed(connection, live, key).get(long.place, len(long.parts))
    _remove_parts(connection, tenant, long.parts[done - 1 : done], merged=True)
    set_parts_indexed(connection, live, long.place, done - 1)
    return done > 1


def _remove(
    connection: Connection,
    tenant: str,
    key: int,
    places: Sequence[Place],
    *,
    merged: bool = False,
) -> None:
    """Remove texts from the search index; with `merged`, only mark them as deleted until `merge_some` drops them."""
    if not places:
        return
    damaged = any(
        found is None for _, found in places
    )  # it may have been damaged after it was indexed
    if damaged or not _is_removable(connection, key):
        _start_new_index(connection)
        return
    live, digests = live_index(connection), TermDigests(tenant)
    partly = partly_indexed(connection, live, key)
    parts: list[IndexedPart] = []
    for place, found in places:
        all_parts = parts_of(place, found, digests)
        parts += all_parts[: partly.get(place, len(all_parts))]
        if place in partly:
            set_parts_indexed(connection, live, place, 0)
    _remove_parts(connection, tenant, parts, merged=merged)


def _is_removable(connection: Connection, key: int) -> bool:
    """Return True if a conversation was indexed by this release's splitting of words: its terms can be made again."""
    made_by = sql.scalar(connection, "SELECT indexed_by FROM conversation WHERE key = ?", (key,))
    return made_by == TERMS_MADE_BY


def _remove_parts(
    connection: Connection, tenant: str, parts: Sequence[IndexedPart], *, merged: bool
) -> None:
    live = live_index(connection)
    if merged:
        _configure(connection, live.postings, "secure-delete", 0)
    _remove_rows(connection, live, rows_of(parts, tenant, -1))
    if merged:
        connection.execute("SAVEPOINT noted; RELEASE noted")  # FTS5 writes its lists at a savepoint
        _configure(connection, live.postings, "secure-delete", 1)


def places(connection: Connection) -> int:
    """Return the number of texts in the search index, of all tenants together."""
    # FTS5 stores the number of rows at the beginning of its first block; counting them would read the whole index.
    block: bytes = sql.scalar(
        connection,
        f"SELECT block FROM {live_index(connection).postings}_data WHERE id = 1",  # noqa: S608 (a table's name)
    )
    number = 0
    for byte in block or b"":
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return number


def merge_some(connection: Connection, pages: int, *, begin: bool) -> bool:
    """Merge pages of the search index, which drops texts marked as deleted; return False if nothing was left to do."""
    table = live_index(connection).postings
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
