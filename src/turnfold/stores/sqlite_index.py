"""The search index of the SQLite store: full text search by terms that are made outside and kept as digests.

A digest and not the word, because erasing must be whole: the index keeps, where one of its pages ends and the next
begins, the beginning of a term for as long as the page lasts, whoever that term belonged to. Of a digest that is a
few letters, which tell nothing. It also spares a second opinion on what a letter is: digests are plain ASCII.

Entries are indexed when somebody searches, not when they are written. To take them out the index must be told their
terms again, and those can only be made again by the same rules. So each conversation says which rules its entries
were indexed by; if others are in force when it is erased, the whole index is emptied, and made anew by later searches.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import cast

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.recall import TERMS_MADE_BY, terms_of
from turnfold.records import decode_message
from turnfold.stores import sqlite_rows as sql
from turnfold.stores.ledger import Row
from turnfold.stores.protocol import Hit
from turnfold.stores.ranking import MOST_CANDIDATES, Candidate, rank, rarity
from turnfold.stores.sqlite_engine import Connection

__all__ = ("has_unindexed", "index_some", "scope_term", "search", "unindex", "waiting")

_log = logging.getLogger(__name__)
_MIXED = "mixed"
_ALL_ROWS = (0, (1 << 63) - 1)
_DIGEST_BYTES = 7
"""Of a hundred million different terms, one in a billion searches would count another term's entries as well."""

_MOST_LEADING = 8
"""Terms that are named beside each of the others; more would make a question as long as their square."""

_CHOSEN = """
SELECT conversation.name, entry.seq, entry.body FROM entry_terms
JOIN entry ON entry.id = entry_terms.rowid
JOIN conversation ON conversation.key = entry_terms.rowid >> 32 AND conversation.tenant = ?
WHERE entry_terms MATCH ? AND entry_terms.rowid BETWEEN ? AND ? LIMIT ?
"""
# The order of ranking.cut. What is indexed of a conversation ends at its newest entry.
_HEAVIEST = """
SELECT chosen.name, entry.seq, entry.body FROM (
    SELECT held.id AS id, conversation.name AS name FROM (
        SELECT entry_terms.rowid AS id, sum(asked.value) AS told FROM json_each(?) AS asked
        CROSS JOIN entry_terms ON entry_terms MATCH asked.key
        WHERE entry_terms.rowid BETWEEN ? AND ? GROUP BY entry_terms.rowid
    ) AS held JOIN conversation ON conversation.key = held.id >> 32 AND conversation.tenant = ?
    ORDER BY held.told DESC, conversation.indexed - (held.id & 4294967295), conversation.name LIMIT ?
) AS chosen JOIN entry ON entry.id = chosen.id
"""


def waiting(connection: Connection, tenant: str) -> int:
    """How many entries of the scope wait to be indexed."""
    found = connection.execute(
        f"SELECT coalesce(sum(coalesce(last.seq, 0) - indexed), 0) FROM {sql.STANDING} "  # noqa: S608 (constants)
        "WHERE tenant = ? AND unindexed",
        (tenant,),
    ).fetchone()
    return cast("int", found[0]) if found is not None else 0


def has_unindexed(connection: Connection, tenant: str) -> bool:
    """Whether entries of the scope wait to be indexed."""
    found = connection.execute(
        "SELECT 1 FROM conversation WHERE tenant = ? AND unindexed LIMIT 1", (tenant,)
    ).fetchone()
    return found is not None


def index_some(connection: Connection, tenant: str, *, most: int) -> int:
    """Index entries of the scope that are not indexed yet, at most `most`; how many were."""
    done = 0
    digests: dict[str, str] = {}
    pending = connection.execute(
        "SELECT key, indexed FROM conversation WHERE tenant = ? AND unindexed LIMIT ?",
        (tenant, most),
    ).fetchall()
    for key, indexed in cast("list[tuple[int, int]]", pending):
        new = list(sql.rows(connection, key, after=indexed, limit=most - done))
        connection.executemany(
            "INSERT INTO entry_terms (rowid, scope, terms) VALUES (?, ?, ?)",
            (
                (sql.row_id(key, row.seq), scope_term(tenant), _readable_text(row, digests))
                for row in new
            ),
        )
        done += len(new)
        connection.execute(
            "UPDATE conversation SET indexed = ?, unindexed = ?, "
            "indexed_by = iif(indexed_by IN ('', ?), ?, ?) WHERE key = ?",
            (indexed + len(new), int(done >= most), TERMS_MADE_BY, TERMS_MADE_BY, _MIXED, key),
        )
        if done >= most:
            break
    return done


def unindex(connection: Connection, tenant: str, key: int) -> None:
    """Take a conversation's entries out of the search index, while they are still there to be read."""
    found = connection.execute(
        "SELECT indexed, indexed_by FROM conversation WHERE key = ?", (key,)
    ).fetchone()
    indexed, made_by = cast("tuple[int, str]", found) if found is not None else (0, "")
    if not indexed:
        return
    digests: dict[str, str] = {}
    try:
        terms = [
            (sql.row_id(key, row.seq), scope_term(tenant), _index_text(row.body, digests))
            for row in sql.rows(connection, key, upto=indexed)
        ]
    except InvalidRecord:  # damaged since it was indexed
        made_by = _MIXED
        terms = []
    if made_by != TERMS_MADE_BY:
        _empty(connection)
        return
    connection.executemany(
        "INSERT INTO entry_terms (entry_terms, rowid, scope, terms) VALUES ('delete', ?, ?, ?)",
        terms,
    )
    connection.execute("UPDATE conversation SET indexed = 0, indexed_by = '' WHERE key = ?", (key,))


def _empty(connection: Connection) -> None:
    connection.execute("INSERT INTO entry_terms (entry_terms) VALUES ('delete-all')")
    connection.execute(
        "UPDATE conversation SET indexed = 0, indexed_by = '', unindexed = 1 WHERE indexed"
    )


def search(
    connection: Connection,
    tenant: str,
    terms: Sequence[str],
    *,
    conversation: str | None,
    limit: int,
) -> list[Hit]:
    """The best entries of a conversation, or of the whole scope, that hold any of the terms."""
    span, total = _searched(connection, tenant, conversation)
    holding = {term: _holding(connection, tenant, span, term) for term in terms}
    # Entries that hold two terms are counted twice here; the order they are then asked for in does no harm.
    if sum(holding.values()) <= MOST_CANDIDATES:
        values: tuple[object, ...] = (tenant, _match(tenant, terms), *span, MOST_CANDIDATES)
        found = connection.execute(_CHOSEN, values)
    else:
        asked = _asked(tenant, holding, rarity(holding, total=total))
        found = connection.execute(_HEAVIEST, (asked, *span, tenant, MOST_CANDIDATES))
    candidates: list[Candidate] = [
        (cast("str", name), cast("int", seq), Counter(_terms(cast("bytes", body))))
        for name, seq, body in found
    ]
    return rank(candidates, holding, total=total, limit=limit)


def _searched(
    connection: Connection, tenant: str, conversation: str | None
) -> tuple[tuple[int, int], int]:
    """The rows a search may see, and how many entries they are."""
    if conversation is None:
        found = connection.execute(
            f"SELECT coalesce(sum(last.seq), 0) FROM {sql.STANDING} WHERE tenant = ?",  # noqa: S608 (constants)
            (tenant,),
        ).fetchone()
        return _ALL_ROWS, cast("int", found[0]) if found is not None else 0
    held = sql.find_conversation(connection, tenant, conversation, writing=False)
    return (sql.row_id(held.key, 0), sql.row_id(held.key, sql.LAST_SEQ)), held.head.seq


def _holding(connection: Connection, tenant: str, span: tuple[int, int], term: str) -> int:
    """How many entries hold a term."""
    found = connection.execute(
        "SELECT count(*) FROM entry_terms WHERE entry_terms MATCH ? AND rowid BETWEEN ? AND ?",
        (_match(tenant, (term,)), *span),
    ).fetchone()
    return cast("int", found[0]) if found else 0


def scope_term(tenant: str) -> str:
    """A tenant as a term of letters and digits, which no text can contain as a term of its own column."""
    return f"s{tenant.encode().hex()}"


def _match(tenant: str, terms: Sequence[str]) -> str:
    return f'scope : "{scope_term(tenant)}" AND terms : ({_any_of(terms)})'


def _any_of(terms: Sequence[str]) -> str:
    # Digests are letters and digits only, so nothing of a term can be syntax.
    return " OR ".join(f'"{_digest(term)}"' for term in terms)


def _asked(tenant: str, holding: Mapping[str, int], rarities: Mapping[str, int]) -> str:
    """Each term's own question with what the term tells, as a JSON object.

    Where enough entries hold one of the rarest terms, and each of these tells more than all the others together, no
    entry that holds only the others is among the heaviest: those are then asked for beside the rarest alone, which
    spares adding up the long lists of common words.
    """
    order = sorted(rarities, key=lambda term: (-rarities[term], term))
    leading = next(
        (
            order[:many]
            for many in range(1, min(len(order), _MOST_LEADING + 1))
            if rarities[order[many - 1]] > sum(rarities[term] for term in order[many:])
            and max(holding[term] for term in order[:many]) >= MOST_CANDIDATES
        ),
        order,
    )
    beside = f" AND terms : ({_any_of(leading)})"
    questions = {
        _match(tenant, (term,)) + ("" if term in leading else beside): rarities[term]
        for term in order
    }
    return msgspec.json.encode(questions).decode()


def _terms(body: bytes) -> list[str]:
    return terms_of(decode_message(body).text)


def _index_text(body: bytes, digests: dict[str, str]) -> str:
    return " ".join(
        digests.get(term) or digests.setdefault(term, _digest(term)) for term in _terms(body)
    )


def _readable_text(row: Row, digests: dict[str, str]) -> str:
    try:
        return _index_text(row.body, digests)
    except InvalidRecord:
        # One damaged entry must not end all searches of its scope; whoever reads the entry itself is told.
        _log.warning(
            "entry %d cannot be read and is not indexed",
            row.seq,
            extra={"event": "unreadable_entry", "seq": row.seq},
        )
        return ""


def _digest(term: str) -> str:
    return blake2b(term.encode(), digest_size=_DIGEST_BYTES).hexdigest()
