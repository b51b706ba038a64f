"""The statements of the PostgreSQL store: each a small function that binds values, and what their rows mean.

Every statement names the tenant, and the conversation where there is one. Positions in the log are found by
halving along the primary key inside the server, so that a question costs one round trip and reads no row outside
its answer but the few it halves at.
"""

# ruff: noqa: S608 (statements are joined from constants written here; every value is bound)

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from turnfold.errors import ConversationDeleted
from turnfold.recall import TERMS_MADE_BY
from turnfold.stores.checksums import checked_columns, entry_checksum
from turnfold.stores.findable import Findable
from turnfold.stores.ledger import Row, Stored, new_epoch
from turnfold.stores.postgres_engine import Rows, Statement
from turnfold.stores.postgres_keys import Place, key_of, long_form
from turnfold.stores.postgres_terms import index_text
from turnfold.stores.protocol import ConversationInfo, Head, State

__all__ = (
    "Held",
    "append_rows",
    "bury",
    "change_costs",
    "changed",
    "entry_epoch",
    "find_head",
    "find_known",
    "index_rows",
    "insert_rows",
    "list_conversations",
    "lock_head",
    "make_conversation",
    "newest_rows",
    "of_conversation",
    "rows_between",
    "rows_by_id",
    "rows_of_tail",
    "rows_of_turn",
    "save_head",
    "to_held",
    "to_info",
    "to_known",
    "to_rows",
)

_HEAD = "seq, tokens, turns, checkpoint, revision, counter, epoch"
_ROW = (
    "seq, coalesce(long_id, client_id, ''), created, turn, tokens, running, body, epoch, checksum"
)
_HERE = "tenant = $1 AND conversation = $2"


@dataclass(frozen=True, slots=True)
class Held:
    """A conversation's row."""

    head: Head
    deleted: bool = False

    def for_writing(self, name: str) -> Head:
        """Where it stands, unless it was erased."""
        if self.deleted:
            raise ConversationDeleted(f"conversation {name!r} has been erased; use another id")
        return self.head


# ------------------------------------------------------------------------------------- conversations


def find_head(place: Place) -> Statement:
    """Where a conversation stands."""
    return Statement(
        f"SELECT deleted, {_HEAD} FROM turnfold_conversation WHERE {_HERE}",
        place.keys,
    )


def lock_head(place: Place) -> Statement:
    """The same, keeping every other writer of the conversation waiting until the transaction ends."""
    sql, values = find_head(place)
    return Statement(f"{sql} FOR UPDATE", values)


def to_held(found: Rows) -> Held:
    """The conversation behind its row; without a row it stands at the beginning."""
    if not found:
        return Held(Head())
    deleted, *head = found[0]
    return Held(_head(head), deleted=bool(deleted))


def make_conversation(place: Place, *, now: int) -> Statement:
    """An empty conversation, unless there is one."""
    return Statement(
        "INSERT INTO turnfold_conversation (tenant, conversation, long_name, seq, tokens, turns, checkpoint, "
        "revision, epoch, counter, created, updated, deleted, indexed_by) "
        "VALUES ($1, $2, $3, 0, 0, 0, '', 0, 0, '', $4, $4, false, $5) ON CONFLICT DO NOTHING",
        (*place.keys, long_form(place.name), now, TERMS_MADE_BY),
    )


# Whoever writes by other rules than the index was made by leaves one that nobody may take for their own.
_SAVE_HEAD = (
    "UPDATE turnfold_conversation SET seq = $5, tokens = $6, turns = $7, checkpoint = $8, "
    "revision = $9, epoch = $10, counter = $11, updated = $12, "
    f"indexed_by = CASE indexed_by WHEN $13 THEN indexed_by ELSE '' END WHERE {_HERE} "
    "AND revision = $3 AND epoch = $4 AND NOT deleted"
)


def _head_values(place: Place, head: Head, *, before: State, now: int) -> tuple[object, ...]:
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


def changed(head: Head) -> Head:
    """The head after one more change, with the epoch of that change."""
    return replace(head, generation=head.generation + 1, epoch=new_epoch())


def save_head(place: Place, head: Head, *, before: State, now: int) -> Statement:
    """Write where a conversation stands from now on; it must be in the state `before`."""
    return Statement(_SAVE_HEAD, _head_values(place, head, before=before, now=now))


def bury(place: Place, generation: int, *, now: int) -> Statement:
    """Leave of a conversation only that it was erased; `generation` is that of the erasure."""
    return Statement(
        "UPDATE turnfold_conversation SET seq = 0, tokens = 0, turns = 0, checkpoint = '', counter = '', beside = 0, "
        f"revision = $3, epoch = $4, updated = $5, deleted = true WHERE {_HERE}",
        (*place.keys, generation, new_epoch(), now),
    )


def list_conversations(tenant: str, after: str, limit: int) -> Statement:
    """The conversations of a tenant after a name, erased ones left out."""
    return Statement(
        f"SELECT coalesce(long_name, conversation), created, updated, {_HEAD} FROM turnfold_conversation "
        "WHERE tenant = $1 AND conversation > $2 AND NOT deleted ORDER BY conversation LIMIT $3",
        (key_of(tenant), key_of(after), limit),
    )


def to_info(row: Sequence[object]) -> ConversationInfo:
    """A line of a listing from its row: name, created, updated, head columns."""
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
# One statement, so that entries and their terms are written only if the head moved from where it was read.
_APPEND = f"WITH moved AS ({_SAVE_HEAD} RETURNING true), {_INSERT.format(*range(14, 25))}"
_INSERT_ONLY = f"WITH moved AS (SELECT true), {_INSERT.format(*range(3, 14))}"


def append_rows(
    place: Place, head: Head, new: Sequence[Row], found_by: Iterable[Findable], *, before: State
) -> Statement:
    """Write entries, what they are found by, and the head; gives 0 if the conversation is not in the state `before`."""
    values = _head_values(place, head, before=before, now=new[0].created)
    return Statement(_APPEND, (*values, *_row_values(place, new, found_by)))


def insert_rows(place: Place, new: Sequence[Row], found_by: Iterable[Findable]) -> Statement:
    """Write entries and what they are found by; the head is written apart."""
    return Statement(_INSERT_ONLY, (*place.keys, *_row_values(place, new, found_by)))


def _row_values(
    place: Place, new: Sequence[Row], found_by: Iterable[Findable]
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
        [index_text(place, found) for found in found_by],
    )


def index_rows(place: Place, rows: Sequence[Row], found_by: Iterable[Findable]) -> Statement:
    """Write what entries are found by, which are there already."""
    return Statement(
        "INSERT INTO turnfold_term (tenant, conversation, seq, created, turn, terms) "
        "SELECT $1, $2, new.seq, new.created, new.turn, string_to_array(new.terms, ' ') "
        "FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::text[]) AS new (seq, created, turn, terms)",
        (
            *place.keys,
            [row.seq for row in rows],
            [row.created for row in rows],
            [row.turn for row in rows],
            [index_text(place, found) for found in found_by],
        ),
    )


def find_known(place: Place, client_ids: Iterable[str]) -> Statement:
    """The entries that have one of these ids, by id."""
    return Statement(
        f"SELECT {_ROW} FROM turnfold_entry WHERE {_HERE} AND client_id = ANY($3)",
        (*place.keys, [key_of(name) for name in client_ids]),
    )


def to_known(place: Place, found: Rows) -> dict[str, Stored]:
    """Which of the ids that were asked for there are, and under which entries."""
    return {row.client_id: Stored(row.seq, row.body) for row in to_rows(place, found)}


def rows_between(place: Place, after: int, upto: int, limit: int) -> Statement:
    """Entries with `after < seq <= upto`."""
    where = "seq > $3 AND seq <= $4 ORDER BY seq LIMIT $5"
    return _select_rows(where, (*place.keys, after, upto, limit))


def newest_rows(place: Place, most: int) -> Statement:
    """The newest entries, oldest first."""
    where = f"seq > (SELECT seq FROM turnfold_conversation WHERE {_HERE}) - $3 ORDER BY seq"
    return _select_rows(where, (*place.keys, most))


def rows_by_id(place: Place, client_ids: Iterable[str]) -> Statement:
    """Entries that have one of these ids."""
    keys = sorted({key_of(name) for name in client_ids})
    return _select_rows("client_id = ANY($3) ORDER BY seq", (*place.keys, keys))


def entry_epoch(place: Place, seq: int) -> Statement:
    """The epoch of an entry."""
    return Statement(
        "SELECT epoch FROM turnfold_entry WHERE tenant = $1 AND conversation = $2 AND seq = $3",
        (*place.keys, seq),
    )


def rows_of_turn(place: Place, turn: int) -> Statement:
    """Entries of one turn: turns grow with seq, so their edges are found by halving."""
    edges = f"{_halving('first', 'turn >= $3')}, {_halving('stop', 'turn > $3')}"
    where = "seq >= (SELECT max(low) FROM first) AND seq < (SELECT max(low) FROM stop) ORDER BY seq"
    return _select_rows(where, (*place.keys, turn), edges)


def rows_of_tail(place: Place, tokens: int, messages: int) -> Statement:
    """The newest entries that cost at most `tokens` together and, unless it is 0, are at most `messages`."""
    edge = _halving("first", "running - tokens >= (SELECT tokens FROM head) - $3")
    # Both ends are named, so that the planner takes it for the small range it is.
    where = (
        "seq BETWEEN (SELECT max(low) FROM first) AND (SELECT seq FROM head) "
        "AND seq > (SELECT CASE $4::bigint WHEN 0 THEN 0 ELSE seq - $4::bigint END FROM head) ORDER BY seq"
    )
    return _select_rows(where, (*place.keys, tokens, messages), edge)


def _halving(name: str, condition: str) -> str:
    """A table whose greatest `low` is the first seq with a condition that stays true once it is."""
    # LIMIT 1 keeps the probe a question of its own; as part of a join the planner might read all rows for it.
    return f"""{name} (low, high) AS (
    SELECT 1::bigint, seq + 1 FROM head
    UNION ALL
    SELECT CASE WHEN probe.reached THEN low ELSE probe.seq + 1 END,
           CASE WHEN probe.reached THEN probe.seq ELSE high END
    FROM {name}, LATERAL (
        SELECT seq, {condition} AS reached FROM turnfold_entry WHERE {_HERE} AND seq = (low + high) / 2 LIMIT 1
    ) AS probe WHERE low < high
)"""


def _select_rows(where: str, values: tuple[object, ...], edges: str = "") -> Statement:
    head = f"head AS (SELECT seq, tokens FROM turnfold_conversation WHERE {_HERE})"
    before = f"WITH RECURSIVE {head}, {edges} " if edges else ""
    return Statement(
        f"{before}SELECT {_ROW} FROM turnfold_entry WHERE {_HERE} AND {where}",
        values,
    )


def to_rows(place: Place, found: Rows) -> list[Row]:
    """Entries from their rows."""
    return [Row(*columns[:8]) for columns in checked_columns(found, 0, place.mark)]


def change_costs(place: Place, changed: Sequence[tuple[int, int, int]]) -> Statement:
    """Replace the costs of entries: seq, tokens, running."""
    seqs, tokens, running = map(list, zip(*changed, strict=True))
    return Statement(
        "UPDATE turnfold_entry AS entry SET tokens = new.tokens, running = new.running "
        "FROM unnest($3::bigint[], $4::bigint[], $5::bigint[]) AS new (seq, tokens, running) "
        "WHERE tenant = $1 AND conversation = $2 AND entry.seq = new.seq",
        (*place.keys, seqs, tokens, running),
    )


def of_conversation(action: str, table: str, place: Place) -> Statement:
    """Everything a table has of a conversation."""
    return Statement(f"{action} FROM {table} WHERE {_HERE}", place.keys)
