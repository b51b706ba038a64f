"""SQL statements of the PostgreSQL store for conversations, entries and the search index.

Most functions return a `Statement` (SQL and its values), which the caller executes; those named `to_...` convert rows
of a result. Every statement names the tenant, and the conversation if there is one. Positions in the log are found by
binary search along the primary key inside the server, so that a read takes one round trip and touches few rows outside
its result.

A row of a database index has a limited size and may contain four names. A name that is too long for that is replaced in
keys by its beginning and a digest, and stored in full in another column.

In the search index (table `turnfold_term`), every term begins with a digest of its tenant, so that a search reads only
its own tenant's rows. A row of the search index also contains digests of the filter marks, which begin with a character
that no term has, and a mark of the conversation. A transaction sees only rows that contain a term that the transaction
has set (see schema.py); the mark lets a deletion see the rows that it must remove.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import NamedTuple, cast

from turnfold.errors import ConversationDeleted
from turnfold.search import Findable, marks_of_text
from turnfold.stores.checksums import checked_columns, entry_checksum
from turnfold.stores.log_semantics import Row, Stored, log_mark, new_epoch
from turnfold.stores.postgres.transactions import Rows, Statement
from turnfold.stores.protocol import ConversationInfo, Head, State
from turnfold.text import TERMS_MADE_BY, distinct_terms

__all__ = (
    "LONGEST_KEY",
    "ConversationKey",
    "ConversationRow",
    "IndexedText",
    "allow_conversation",
    "allow_terms",
    "append_rows",
    "change_costs",
    "entry_epoch",
    "find_erased",
    "find_head",
    "find_known",
    "index_rows",
    "index_text",
    "index_texts",
    "insert_rows",
    "key_of",
    "list_conversations",
    "lock_head",
    "long_form",
    "make_conversation",
    "mark_deleted",
    "newest_rows",
    "next_head",
    "of_conversation",
    "renew_entries",
    "replace_entry",
    "rows_between",
    "rows_by_id",
    "rows_of_ranges",
    "rows_of_tail",
    "rows_of_turn",
    "save_head",
    "scoped",
    "scoped_marks",
    "to_conversation",
    "to_info",
    "to_known",
    "to_rows",
    "unindex_text",
)


LONGEST_KEY = 600
"""Most bytes of a name in a key: four such names fit into a row of a database index."""


def key_of(name: str) -> str:
    """Return the form of a name that is used in keys: the name, or its beginning and a digest if it is too long."""
    data = name.encode()
    if len(data) <= LONGEST_KEY:
        return name
    digest = blake2b(data, digest_size=32).hexdigest()
    return f"{data[:500].decode(errors='ignore')}\U0010ffff{digest}"


def long_form(name: str) -> str | None:
    """Return the name if `key_of` shortens it, because it must then be stored in full too; None if not."""
    return None if key_of(name) == name else name


class ConversationKey:
    """The keys that statements use for a conversation: one made from its tenant, one from its id."""

    __slots__ = ("conversation", "keys", "name", "tenant")

    def __init__(self, tenant: str, name: str) -> None:
        self.name = name
        self.tenant = key_of(tenant)
        self.conversation = key_of(name)
        self.keys = (self.tenant, self.conversation)

    def mark(self) -> str:
        """Return the pseudonym of the conversation for log records and errors."""
        return log_mark(self.tenant, self.name)

    @classmethod
    def of_keys(cls, tenant_key: str, name: str) -> ConversationKey:
        """Return the keys of a conversation from its tenant's key (instead of the tenant's name) and its id."""
        place = cls("", name)
        place.tenant = tenant_key
        place.keys = (tenant_key, place.conversation)
        return place


# ruff: noqa: S608 (statements are joined from constants written here; every value is bound)


HERE = "tenant = $1 AND conversation = $2"
_ERASED = "tenant = $1 AND conversation = turnfold_erased($1, $2)"


class IndexedText(NamedTuple):
    """The text of a checkpoint or document that goes into the search index, with its kind and key."""

    kind: str
    key: str
    created: int
    text: str


def scoped(place: ConversationKey, terms: Iterable[str]) -> list[str]:
    """Return search terms in the form stored in the index: with a digest of the tenant before each."""
    tenant = _tenant_digest(place)
    return [f"{tenant}:{term}" for term in terms]


def scoped_marks(place: ConversationKey, marks: Iterable[str]) -> list[str]:
    """Return filter terms (such as a role or tool name) in the form stored in the search index: as digests."""
    tenant = _tenant_digest(place)
    return [f"{tenant}:@{blake2b(mark.encode(), digest_size=10).hexdigest()}" for mark in marks]


def index_text(place: ConversationKey, found: Findable) -> str:
    """Return all terms and filter terms of a text in the form stored in the search index, separated by spaces."""
    terms = sorted(distinct_terms(found.text))
    marks = scoped_marks(place, sorted(found.marks))
    return " ".join((_conversation_mark(place), *scoped(place, terms), *marks))


def _tenant_digest(place: ConversationKey) -> str:
    return blake2b(place.tenant.encode(), digest_size=5).hexdigest()


def _conversation_mark(place: ConversationKey) -> str:
    digest = blake2b("\x00".join(place.keys).encode(), digest_size=10).hexdigest()
    return f"#{digest}"


def allow_terms(place: ConversationKey, terms: Sequence[str]) -> Statement:
    """Return the statement that lets a transaction see rows of the search index that contain any of the terms."""
    return _allow(scoped(place, terms))


def allow_conversation(place: ConversationKey) -> Statement:
    """Return the statement that lets a transaction see the rows of the search index of a conversation."""
    return _allow([_conversation_mark(place)])


def _allow(named: Sequence[str]) -> Statement:
    return Statement("SELECT set_config('turnfold.terms', $1, true)", (" ".join(named),))


def index_texts(place: ConversationKey, new: Sequence[IndexedText]) -> list[Statement]:
    """Return statements that add texts of checkpoints and documents, which must be new, to the search index."""
    new = [each for each in new if each.text]
    if not new:
        return []
    insert = Statement(
        "INSERT INTO turnfold_term (tenant, conversation, seq, kind, long_kind, key, long_key, created, terms) "
        "SELECT $1, $2, 0, new.kind, new.long_kind, new.key, new.long_key, new.created, "
        "string_to_array(new.terms, ' ') FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], "
        "$7::bigint[], $8::text[]) AS new (kind, long_kind, key, long_key, created, terms)",
        (
            *place.keys,
            [key_of(each.kind) for each in new],
            [long_form(each.kind) for each in new],
            [key_of(each.key) for each in new],
            [long_form(each.key) for each in new],
            [each.created for each in new],
            [index_text(place, Findable(each.text, marks_of_text(each.text))) for each in new],
        ),
    )
    return [insert, _change_text_count(place, len(new))]


def unindex_text(place: ConversationKey, kind: str, key: str) -> list[Statement]:
    """Return statements that remove the text of a checkpoint or document, which must be indexed, from the index."""
    return [
        allow_conversation(place),
        Statement(
            f"DELETE FROM turnfold_term WHERE {HERE} AND kind = $3 AND key = $4",
            (*place.keys, key_of(kind), key_of(key)),
        ),
        _change_text_count(place, -1),
    ]


def _change_text_count(place: ConversationKey, change: int) -> Statement:
    return Statement(
        f"UPDATE turnfold_conversation SET beside = beside + $3 WHERE {HERE}",
        (*place.keys, change),
    )


_HEAD = "seq, tokens, turns, checkpoint, revision, counter, epoch"
_ROW = (
    "seq, coalesce(long_id, client_id, ''), created, turn, tokens, running, body, epoch, checksum"
)


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """The row of a conversation: its head (newest seq, totals, version), and whether it was deleted."""

    head: Head
    deleted: bool = False

    def for_writing(self, name: str) -> Head:
        """Return the conversation's head (newest seq, version); raise `ConversationDeleted` if it was deleted."""
        if self.deleted:
            raise ConversationDeleted(f"conversation {name!r} has been erased; use another id")
        return self.head


# ------------------------------------------------------------------------------------- conversations


def find_head(place: ConversationKey) -> Statement:
    """Return the statement that selects the head of a conversation: newest seq, totals, live checkpoint, version."""
    return Statement(
        f"SELECT erased, {_HEAD} FROM turnfold_conversation WHERE {HERE}",
        place.keys,
    )


def find_erased(place: ConversationKey) -> Statement:
    """Return the statement that selects the row of a deleted conversation, which has a digest as its name.

    A writer executes it after `lock_head` if the locked row is missing or new: it then also sees a deletion that ended
    while the writer waited. In that case the writer's insert is rolled back.
    """
    return Statement(
        f"SELECT erased, {_HEAD} FROM turnfold_conversation WHERE {_ERASED}",
        place.keys,
    )


def lock_head(place: ConversationKey) -> Statement:
    """Return the statement that selects a conversation's head (newest seq, version) and locks out other writers."""
    sql, values = find_head(place)
    return Statement(f"{sql} FOR UPDATE", values)


def to_conversation(found: Rows) -> ConversationRow:
    """Return the row that `find_head` selects; an empty one if there is no such conversation."""
    if not found:
        return ConversationRow(Head())
    deleted, *head = found[0]
    return ConversationRow(_head(head), deleted=bool(deleted))


def make_conversation(
    place: ConversationKey, *, now: int, unless_erased: bool = False
) -> Statement:
    """Return the statement that inserts an empty conversation unless it exists.

    A writer must check afterwards that the conversation was not deleted (`find_erased`); with `unless_erased`, the
    statement checks that itself.
    """
    erased = f"WHERE NOT EXISTS (SELECT FROM turnfold_conversation WHERE {_ERASED}) "
    return Statement(
        "INSERT INTO turnfold_conversation (tenant, conversation, long_name, seq, tokens, turns, checkpoint, "
        "revision, epoch, counter, created, updated, erased, indexed_by) "
        "SELECT $1, $2, $3, 0, 0, 0, '', 0, 0, '', $4::bigint, $4::bigint, false, $5 "
        f"{erased if unless_erased else ''}ON CONFLICT DO NOTHING",
        (*place.keys, long_form(place.name), now, TERMS_MADE_BY),
    )


# A writer with other rules for words than those that made the index marks the index as stale for everybody.
_SAVE_HEAD = (
    "UPDATE turnfold_conversation SET seq = $5, tokens = $6, turns = $7, checkpoint = $8, "
    "revision = $9, epoch = $10, counter = $11, updated = $12, "
    f"indexed_by = CASE indexed_by WHEN $13 THEN indexed_by ELSE '' END WHERE {HERE} "
    "AND revision = $3 AND epoch = $4 AND NOT erased"
)


def _head_values(
    place: ConversationKey, head: Head, *, before: State, now: int
) -> tuple[object, ...]:
    return (
        *place.keys,
        *before,
        head.seq,
        head.tokens,
        head.turns,
        head.checkpoint,
        head.generation,
        head.epoch,
        head.counter,
        now,
        TERMS_MADE_BY,
    )


def next_head(head: Head) -> Head:
    """Return a copy of the head with the next generation (number of the change) and a new random epoch."""
    return replace(head, generation=head.generation + 1, epoch=new_epoch())


def save_head(place: ConversationKey, head: Head, *, before: State, now: int) -> Statement:
    """Return the statement that updates a conversation's head (newest seq, version) if its version is `before`."""
    return Statement(_SAVE_HEAD, _head_values(place, head, before=before, now=now))


def mark_deleted(place: ConversationKey, generation: int, *, now: int) -> Statement:
    """Return the statement that clears a conversation's row, marks it as deleted and replaces its name by a digest."""
    return Statement(
        "UPDATE turnfold_conversation SET seq = 0, tokens = 0, turns = 0, checkpoint = '', counter = '', beside = 0, "
        "conversation = turnfold_erased($1, $2), long_name = NULL, revision = $3, epoch = $4, updated = $5, "
        f"erased = true WHERE {HERE} OR {_ERASED}",
        (*place.keys, generation, new_epoch(), now),
    )


def list_conversations(tenant: str, after: str, limit: int) -> Statement:
    """Return the statement that selects the conversations of a tenant after a name, without deleted ones."""
    return Statement(
        f"SELECT coalesce(long_name, conversation), created, updated, {_HEAD} FROM turnfold_conversation "
        "WHERE tenant = $1 AND conversation > $2 AND NOT erased ORDER BY conversation LIMIT $3",
        (key_of(tenant), key_of(after), limit),
    )


def to_info(row: Sequence[object]) -> ConversationInfo:
    """Return a row of `list_conversations` (name, times, newest seq and totals) as a `ConversationInfo`."""
    name, created, updated = cast("tuple[str, int, int]", row[:3])
    return ConversationInfo(name, _head(row[3:]), created, updated)


def _head(values: Sequence[object]) -> Head:
    return Head(*cast("tuple[int, int, int, str, int, str, int]", tuple(values)))


# ------------------------------------------------------------------------------------------- entries

_INSERT = """
written AS (
    INSERT INTO turnfold_entry
        (tenant, conversation, seq, client_id, long_id, created, turn, tokens, running, body, epoch, checksum)
    SELECT $1, $2, new.* FROM moved, unnest(${0}::bigint[], ${1}::text[], ${2}::text[], ${3}::bigint[], ${4}::bigint[],
        ${5}::bigint[], ${6}::bigint[], ${7}::bytea[], ${8}::bigint[], ${9}::bigint[]) AS new
), indexed AS (
    INSERT INTO turnfold_term (tenant, conversation, seq, created, turn, terms)
    SELECT $1, $2, new.seq, new.created, new.turn, string_to_array(new.terms, ' ')
    FROM moved, unnest(${0}::bigint[], ${3}::bigint[], ${4}::bigint[], ${10}::text[]) AS new (seq, created, turn, terms)
)
SELECT count(*) FROM moved
"""
# One statement, so that entries and their terms are written only if the head is the one that was read.
_APPEND = f"WITH moved AS ({_SAVE_HEAD} RETURNING true), {_INSERT.format(*range(14, 25))}"
_INSERT_ONLY = f"WITH moved AS (SELECT true), {_INSERT.format(*range(3, 14))}"


def append_rows(
    place: ConversationKey,
    head: Head,
    new: Sequence[Row],
    texts: Iterable[Findable],
    *,
    before: State,
) -> Statement:
    """Return the statement that inserts entries with their search terms, and updates the head (newest seq, totals).

    If the state of the conversation is not `before`, it writes nothing and selects 0.
    """
    values = _head_values(place, head, before=before, now=new[0].created)
    return Statement(_APPEND, (*values, *_row_values(place, new, texts)))


def insert_rows(place: ConversationKey, new: Sequence[Row], texts: Iterable[Findable]) -> Statement:
    """Return the statement that inserts entries with their search terms; it does not update the head (newest seq)."""
    return Statement(_INSERT_ONLY, (*place.keys, *_row_values(place, new, texts)))


def _row_values(
    place: ConversationKey, new: Sequence[Row], texts: Iterable[Findable]
) -> tuple[object, ...]:
    return (
        [row.seq for row in new],
        [key_of(row.client_id) or None for row in new],
        [long_form(row.client_id) for row in new],
        [row.created for row in new],
        [row.turn for row in new],
        [row.tokens for row in new],
        [row.running for row in new],
        [row.body for row in new],
        [row.epoch for row in new],
        [entry_checksum(row.seq, (row.client_id, row.created, row.turn, row.body)) for row in new],
        [index_text(place, found) for found in texts],
    )


def index_rows(place: ConversationKey, rows: Sequence[Row], texts: Iterable[Findable]) -> Statement:
    """Return the statement that adds existing entries to the search index."""
    return Statement(
        "INSERT INTO turnfold_term (tenant, conversation, seq, created, turn, terms) "
        "SELECT $1, $2, new.seq, new.created, new.turn, string_to_array(new.terms, ' ') "
        "FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::text[]) AS new (seq, created, turn, terms)",
        (
            *place.keys,
            [row.seq for row in rows],
            [row.created for row in rows],
            [row.turn for row in rows],
            [index_text(place, found) for found in texts],
        ),
    )


def find_known(place: ConversationKey, client_ids: Iterable[str]) -> Statement:
    """Return the statement that selects the entries with one of these client ids, to recognise a repeated append."""
    return Statement(
        f"SELECT {_ROW} FROM turnfold_entry WHERE {HERE} AND client_id = ANY($3)",
        (*place.keys, [key_of(name) for name in client_ids]),
    )


def to_known(place: ConversationKey, found: Rows) -> dict[str, Stored]:
    """Return the result of `find_known` as a mapping from client id to stored entry."""
    return {row.client_id: Stored(row.seq, row.body) for row in to_rows(place, found)}


def rows_between(place: ConversationKey, after: int, upto: int, limit: int) -> Statement:
    """Return the statement that selects at most `limit` entries with `after < seq <= upto`, oldest first."""
    where = "seq > $3 AND seq <= $4 ORDER BY seq LIMIT $5"
    return _select_rows(where, (*place.keys, after, upto, limit))


def rows_of_ranges(place: ConversationKey, ranges: Sequence[tuple[int, int]]) -> Statement:
    """Return the statement that selects the entries of these ranges (first seq, last seq), oldest first."""
    firsts, lasts = [first for first, _ in ranges], [last for _, last in ranges]
    # OFFSET 0 keeps each range a separate lookup; in a join the planner might read all rows for it.
    return Statement(
        "SELECT entry.* FROM unnest($3::bigint[], $4::bigint[]) AS wanted (first_seq, last_seq), LATERAL ("
        f"SELECT {_ROW} FROM turnfold_entry WHERE {HERE} AND seq BETWEEN first_seq AND last_seq OFFSET 0"
        ") AS entry ORDER BY entry.seq",
        (*place.keys, firsts, lasts),
    )


def newest_rows(place: ConversationKey, most: int) -> Statement:
    """Return the statement that selects the newest `most` entries, oldest first."""
    where = f"seq > (SELECT seq FROM turnfold_conversation WHERE {HERE}) - $3 ORDER BY seq"
    return _select_rows(where, (*place.keys, most))


def rows_by_id(place: ConversationKey, client_ids: Iterable[str]) -> Statement:
    """Return the statement that selects the entries with these client ids, oldest first."""
    keys = sorted({key_of(name) for name in client_ids})
    return _select_rows("client_id = ANY($3) ORDER BY seq", (*place.keys, keys))


def entry_epoch(place: ConversationKey, seq: int) -> Statement:
    """Return the statement that selects the epoch (random number of the write) of the entry `seq`."""
    return Statement(
        f"SELECT epoch FROM turnfold_entry WHERE {HERE} AND seq = $3", (*place.keys, seq)
    )


def rows_of_turn(place: ConversationKey, turn: int) -> Statement:
    """Return the statement that selects the entries of one turn; it finds the turn's bounds by binary search."""
    edges = f"{_binary_search('first', 'turn >= $3')}, {_binary_search('stop', 'turn > $3')}"
    where = "seq >= (SELECT max(low) FROM first) AND seq < (SELECT max(low) FROM stop) ORDER BY seq"
    return _select_rows(where, (*place.keys, turn), edges)


def rows_of_tail(place: ConversationKey, tokens: int, messages: int) -> Statement:
    """Return the statement that selects the newest entries with at most `tokens` tokens together.

    `messages` limits their number; 0 means no limit.
    """
    edge = _binary_search("first", "running - tokens >= (SELECT tokens FROM head) - $3")
    # With both bounds the planner sees that the range is small.
    where = (
        "seq BETWEEN (SELECT max(low) FROM first) AND (SELECT seq FROM head) "
        "AND seq > (SELECT CASE $4::bigint WHEN 0 THEN 0 ELSE seq - $4::bigint END FROM head) ORDER BY seq"
    )
    return _select_rows(where, (*place.keys, tokens, messages), edge)


def _binary_search(name: str, condition: str) -> str:
    """Return a WITH query called `name`, whose greatest `low` is the first seq for which a condition holds.

    If the condition holds for a seq, it must hold for all later ones.
    """
    # LIMIT 1 keeps the probe a separate lookup; in a join the planner might read all rows for it.
    return f"""{name} (low, high) AS (
    SELECT 1::bigint, seq + 1 FROM head
    UNION ALL
    SELECT CASE WHEN probe.reached THEN low ELSE probe.seq + 1 END,
           CASE WHEN probe.reached THEN probe.seq ELSE high END
    FROM {name}, LATERAL (
        SELECT seq, {condition} AS reached FROM turnfold_entry WHERE {HERE} AND seq = (low + high) / 2 LIMIT 1
    ) AS probe WHERE low < high
)"""


def _select_rows(where: str, values: tuple[object, ...], edges: str = "") -> Statement:
    head = f"head AS (SELECT seq, tokens FROM turnfold_conversation WHERE {HERE})"
    before = f"WITH RECURSIVE {head}, {edges} " if edges else ""
    return Statement(
        f"{before}SELECT {_ROW} FROM turnfold_entry WHERE {HERE} AND {where}",
        values,
    )


def to_rows(place: ConversationKey, found: Rows) -> list[Row]:
    """Return rows of entries as `Row` values; raise `InvalidRecord` if one does not match its checksum."""
    return [Row(*columns[:8]) for columns in checked_columns(found, 0, place.mark)]


def change_costs(place: ConversationKey, changed: Sequence[tuple[int, int, int]]) -> Statement:
    """Return the statement that updates the token counts of entries; `costs` has (seq, tokens, running sum) of each."""
    seqs, tokens, running = map(list, zip(*changed, strict=True))
    return Statement(
        "UPDATE turnfold_entry AS entry SET tokens = new.tokens, running = new.running "
        "FROM unnest($3::bigint[], $4::bigint[], $5::bigint[]) AS new (seq, tokens, running) "
        f"WHERE {HERE} AND entry.seq = new.seq",
        (*place.keys, seqs, tokens, running),
    )


def replace_entry(place: ConversationKey, old: Row, new: Row, found: Findable) -> list[Statement]:
    """Return statements that replace an entry and its search terms.

    This and all later entries get the epoch (random number of the write) of `new` and corrected running token sums.
    """
    checksum = entry_checksum(new.seq, (new.client_id, new.created, new.turn, new.body))
    return [
        Statement(
            f"UPDATE turnfold_entry SET body = $4, tokens = $5, checksum = $6 WHERE {HERE} AND seq = $3",
            (*place.keys, new.seq, new.body, new.tokens, checksum),
        ),
        Statement(
            f"UPDATE turnfold_entry SET running = running + $4, epoch = $5 WHERE {HERE} AND seq >= $3",
            (*place.keys, new.seq, new.tokens - old.tokens, new.epoch),
        ),
        allow_conversation(place),
        Statement(f"DELETE FROM turnfold_term WHERE {HERE} AND seq = $3", (*place.keys, new.seq)),
        index_rows(place, [new], [found]),
    ]


def renew_entries(place: ConversationKey, *, after: int, epoch: int) -> Statement:
    """Return the statement that gives all entries with `seq > after` a new epoch, so that caches read them again."""
    return Statement(
        f"UPDATE turnfold_entry SET epoch = $4 WHERE {HERE} AND seq > $3",
        (*place.keys, after, epoch),
    )


def of_conversation(action: str, table: str, place: ConversationKey) -> Statement:
    """Return the statement that applies `action` (such as DELETE) to all rows of a conversation in a table."""
    return Statement(f"{action} FROM {table} WHERE {HERE}", place.keys)
