"""Search in the SQLite store: select candidates from the index, and scan the newest entries not indexed yet.

In the names of functions, a *place* is a text in the index: that of an entry, a checkpoint or a document. However long
the log is, a search reads a bounded amount. For each term, the index has a list of the texts that contain it, and their
number. The lists of rare terms are read completely; of the lists of common terms, and of their combinations, only the
newest texts are looked at. The texts of the few hundred candidates that are ranked are read, and no others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any, cast

import msgspec

from turnfold._caches import SizedCache
from turnfold.records import decode_message
from turnfold.search import (
    ENTRY,
    MOST_CANDIDATES,
    Candidate,
    Findable,
    Hit,
    QueryTerms,
    TermChoice,
    Within,
    choosing_terms,
    rank,
    required_marks,
)
from turnfold.stores.checksums import damaged, is_sound_entry, is_sound_text
from turnfold.stores.log_semantics import Row, log_mark
from turnfold.stores.sqlite import statements as sql
from turnfold.stores.sqlite.erasure import erasing_keys
from turnfold.stores.sqlite.search_index import (
    JOIN_TEXTS,
    IndexTables,
    TermDigests,
    findable_entries,
    live_index,
)
from turnfold.stores.sqlite.write_queue import Connection

__all__ = ("SearchMatches", "search")


# ruff: noqa: S608 (statements are joined from constants and the names of tables; every value is bound)

NEWEST = 1000
"""Most entries that are not indexed yet which one search scans, the newest first."""
_CONVERSATIONS = 16
"""Number of conversations of a tenant, the ones created last, in which a search scans the newest entries that are not
indexed yet."""
_SHORT_BODY = 2_000
_CACHED_BYTES = 4_000_000
"""Bytes of the stored messages, each of at most `_SHORT_BODY`, whose decoded texts are cached: each turn of a session
searches its log again."""


_texts: SizedCache[bytes, str] = SizedCache(limit=_CACHED_BYTES)


@dataclass(slots=True)
class _ScanResult:
    """The result of scanning entries that are not in the search index yet."""

    candidates: list[Candidate] = field(default_factory=list[Candidate])
    holding: Counter[str] = field(default_factory=Counter[str])
    """Search term -> number of scanned entries that contain it."""
    entries: int = 0
    """Number of entries scanned."""


def _scan_newest(
    connection: Connection,
    tenant: str,
    conversation: str | None,
    query: QueryTerms,
    within: Within,
) -> _ScanResult:
    """Search the newest entries that are not indexed yet, of one conversation or of the whole tenant."""
    scanned = _ScanResult()
    if not within.counts(ENTRY):
        return scanned
    waiting = connection.execute(
        "SELECT key, name, indexed FROM conversation WHERE tenant = ?1 AND (?2 IS NULL OR name = ?2) AND unindexed "
        "ORDER BY key DESC LIMIT ?3",
        (tenant, conversation, _CONVERSATIONS),
    ).fetchall()
    for key, name, indexed in cast("list[tuple[int, str, int]]", waiting):
        left = NEWEST - scanned.entries
        newest = list(sql.raw_rows(connection, key, after=indexed, limit=left, newest_first=True))
        scanned.entries += len(newest)
        after = cast("int", newest[-1][0]) - 1 if newest else 0
        for _, row, found in findable_entries(connection, key, newest[::-1], after=after):
            if row is None or found is None:
                continue  # damaged; logged when it is indexed
            candidate = Candidate(name, row.seq, ENTRY, "", query.count_in(found.text))
            scanned.holding.update(candidate.matches.counts.keys())
            if candidate.matches.counts and _matches(row, found, within):
                scanned.candidates.append(candidate)
    return scanned


def _matches(row: Row, found: Findable, within: Within) -> bool:
    return (
        within.includes(ENTRY)
        and within.includes_time(row.created)
        and within.includes_turn(row.turn)
        and all(not found.marks.isdisjoint(marks) for marks in required_marks(within))
    )


_Span = tuple[int, int]
_ALL_ENTRIES: _Span = (1, (1 << 63) - 1)
_ALL_TEXTS: _Span = (-(1 << 63), -1)
_NO_LIMIT = -1

_ENTRIES_READ = """
SELECT conversation.name, entry.id, coalesce(entry.client_id, ''), entry.created, entry.turn, entry.body, entry.checksum
FROM json_each(?) AS chosen JOIN entry ON entry.id = chosen.value
JOIN conversation ON conversation.key = entry.id >> 32 AND conversation.tenant = ?
"""
_TEXTS_READ = f"""
SELECT conversation.name, beside.kind, beside.key, coalesce(document.text, checkpoint.text, ''),
    iif(document.text IS NULL, checkpoint.checksum, document.checksum)
FROM json_each(?) AS chosen JOIN beside ON beside.id = chosen.value
JOIN conversation ON conversation.key = beside.conversation AND conversation.tenant = ? {JOIN_TEXTS}
"""


class SearchMatches(list[Hit]):
    """The results of a search, best first."""

    unsearched: int = 0
    """Number of entries that were not searched, because they are not indexed yet; 0 for a complete search."""


def search(
    connection: Connection,
    tenant: str,
    terms: Sequence[str],
    *,
    conversation: str | None,
    limit: int,
    within: Within,
    waiting: int = 0,
) -> SearchMatches:
    """Return the best matches for any of the terms in a conversation, or in the whole tenant.

    `waiting` is the number of entries that wait to be indexed; the newest of them are scanned.
    """
    record = None
    if conversation is not None:
        record = sql.find_conversation(connection, tenant, conversation, writing=False)
        if not record.key:
            return SearchMatches()
    index, digests = live_index(connection), TermDigests(tenant)
    term_counts = _TermCounts(connection, index, digests, within, record)
    holding = {term: term_counts.holding(term) for term in terms}
    total = term_counts.total()
    choosing = choosing_terms(holding, total=total)
    deleted_keys = erasing_keys(connection) if record is None else []
    chosen = _CandidateSelection(
        connection, index, digests, within, record, choosing, deleted_keys
    ).places()
    query = QueryTerms(terms)
    candidates = list(_candidates(connection, tenant, chosen, query))
    scanned = _ScanResult()
    if waiting:
        scanned = _scan_newest(connection, tenant, conversation, query, within)
        # An entry that is indexed in part may have been found in the index and by the scan.
        known = {(each.conversation, each.seq) for each in candidates}
        candidates += [
            each for each in scanned.candidates if (each.conversation, each.seq) not in known
        ]
        holding = {term: many + scanned.holding[term] for term, many in holding.items()}
        if record is None:  # the total of a single conversation includes them
            total += scanned.entries
    found = SearchMatches(rank(candidates, holding, total=total, limit=limit))
    found.unsearched = max(0, waiting - scanned.entries) if within.includes(ENTRY) else 0
    return found


def _spans(record: sql.SqliteConversation | None) -> tuple[_Span, _Span]:
    """Return two ranges of index ids that a search covers: ids of entries, and ids of checkpoints and documents."""
    if record is None:
        return _ALL_ENTRIES, _ALL_TEXTS
    first, last = sql.row_id(record.key, 1), sql.row_id(record.key, sql.LAST_SEQ)
    return (first, last), (-last, -first)


def _text_of(body: bytes) -> str:
    if len(body) > _SHORT_BODY:
        return decode_message(body).text
    text = _texts.get(body)
    if text is None:
        text = decode_message(body).text
        _texts.put(body, text, size=2 * len(body))
    return text


def _candidates(
    connection: Connection, tenant: str, chosen: Collection[int], query: QueryTerms
) -> Iterator[Candidate]:
    """Read the texts with the `chosen` index ids, and yield each with the search terms that it contains."""
    entries = msgspec.json.encode([place for place in chosen if place > 0]).decode()
    texts = msgspec.json.encode([place for place in chosen if place < 0]).decode()
    for row in connection.execute(_ENTRIES_READ, (entries, tenant)):
        name, place, client_id, created, turn, body, checksum = cast(
            "tuple[str, int, str, int, int, bytes, int | None]", row
        )
        seq = place & sql.LAST_SEQ
        if not is_sound_entry(place, (client_id, created, turn, body), checksum):
            raise damaged(f"entry {seq}", partial(log_mark, tenant, name))
        yield Candidate(name, seq, ENTRY, "", query.count_in(_text_of(body)))
    for row in connection.execute(_TEXTS_READ, (texts, tenant)):
        name, kind, key, text, checksum = cast("tuple[str, str, str, str, int | None]", row)
        if not is_sound_text(text, checksum):
            raise damaged(f"the text of {kind} {key}", partial(log_mark, tenant, name))
        yield Candidate(name, 0, kind, key, query.count_in(text))


@dataclass(frozen=True, slots=True)
class _TermCounts:
    """Numbers of searched texts and of texts with a term: from a table for a tenant, counted for a conversation."""

    connection: Connection
    index: IndexTables
    digests: TermDigests
    within: Within
    record: sql.SqliteConversation | None

    def total(self) -> int:
        """Return the number of texts that are searched."""
        if self.record is None:
            return self._stored_count(self.digests.all_places)
        entries = self.record.head.seq if self.within.counts(ENTRY) else 0
        if not self.within.counts_documents:
            return entries
        statement = "SELECT count(*) FROM beside WHERE id BETWEEN ? AND ?"
        return entries + sql.scalar(self.connection, statement, _spans(self.record)[1])

    def holding(self, term: str) -> int:
        """Return the number of searched texts that contain a term."""
        if self.record is None:
            return self._stored_count(self.digests.number(term))
        entries, texts = _spans(self.record)
        spans = [entries] if self.within.counts(ENTRY) else []
        spans += [texts] if self.within.counts_documents else []
        return sum(self._count_in_span(term, span) for span in spans)

    def _stored_count(self, number: int) -> int:
        found = self.connection.execute(
            f"SELECT entries, beside FROM {self.index.counts} WHERE term = ?", (number,)
        ).fetchone()
        entries, texts = cast("tuple[int, int]", found) if found is not None else (0, 0)
        counted = entries if self.within.counts(ENTRY) else 0
        return counted + (texts if self.within.counts_documents else 0)

    def _count_in_span(self, term: str, span: _Span) -> int:
        table = self.index.postings
        return sql.scalar(
            self.connection,
            f"SELECT count(*) FROM {table} WHERE {table} MATCH ? AND rowid BETWEEN ? AND ?",
            (f'"{self.digests.of(term)}"', *span),
        )


@dataclass(frozen=True, slots=True)
class _CandidateSelection:
    """Selects the texts that are read and ranked (the candidates), by their ids in the index."""

    connection: Connection
    index: IndexTables
    digests: TermDigests
    within: Within
    record: sql.SqliteConversation | None
    choosing: TermChoice
    deleted_keys: Sequence[int]
    """Primary keys of deleted conversations that are still in the index."""

    def places(self) -> Collection[int]:
        """Return the ids of at most `MOST_CANDIDATES` texts to rank: those with the rarest terms, then the newest."""
        scores: dict[int, int] = {}
        if self.within.includes(ENTRY):
            self._score(scores, self._entries)
        if self.within.includes_documents:
            self._score(scores, self._texts)
        if len(scores) <= MOST_CANDIDATES:
            return scores
        least = sorted(scores.values(), reverse=True)[MOST_CANDIDATES - 1]
        best = [place for place, value in scores.items() if value > least]
        equals = [place for place, value in scores.items() if value == least]
        return best + self._newest_first(equals)[: MOST_CANDIDATES - len(best)]

    def _newest_first(self, places: Sequence[int]) -> list[int]:
        """Sort the ids of equally scored texts, the newest first."""
        texts = [place for place in places if place < 0]
        if not texts:
            return sorted(places, reverse=True)
        found = self.connection.execute(
            "SELECT beside.id, beside.kind, beside.key FROM json_each(?) AS asked "
            "JOIN beside ON beside.id = asked.value",
            (msgspec.json.encode(texts).decode(),),
        )
        named = {cast("int", row[0]): cast("tuple[str, str]", row[1:]) for row in found}

        def order(place: int) -> tuple[int, str, int, str]:
            if place > 0:
                return -(place >> 32), ENTRY, -(place & sql.LAST_SEQ), ""
            kind, key = named.get(place, ("", ""))  # missing only in a damaged file
            return -(-place >> 32), kind, 0, key

        return sorted(places, key=order)

    def _score(self, scores: dict[int, int], find: Callable[[str, int], Iterable[int]]) -> None:
        """Find texts by the rarest search terms; set their `scores` to the summed weights of the terms they contain."""
        rarities, common = self.choosing.rarities, self.choosing.common
        walked = self._any_of(self.choosing.walked)
        sums: Counter[int] = Counter()
        for term in self.choosing.walked:
            for place in find(self._any_of([term]), _NO_LIMIT):
                sums[place] += rarities[term]
        for term in common if walked else ():
            for place in find(f"{walked} AND {self._any_of([term])}", _NO_LIMIT):
                sums[place] += rarities[term]
        # A text among the newest with some of the terms is also among the newest with any subset of them, so the
        # highest-scoring combination that finds it consists of all common terms it contains.
        newest: dict[int, int] = {}
        for size in range(1, len(common) + 1):
            for terms in combinations(common, size):
                value = sum(rarities[term] for term in terms)
                query = " AND ".join(self._any_of([term]) for term in terms)
                for place in find(query, MOST_CANDIDATES):
                    newest[place] = max(newest.get(place, 0), value)
        scores.update(newest)
        scores.update(sums)

    def _any_of(self, terms: Iterable[str]) -> str:
        # Digests are letters and digits only, so nothing of a term can be query syntax.
        alternatives = " OR ".join(f'"{self.digests.of(term)}"' for term in terms)
        return f"({alternatives})" if alternatives else ""

    def _match(self, query: str) -> str:
        marks = [self._any_of(marks) for marks in required_marks(self.within)]
        return " AND ".join([query, *marks])

    def _entries(self, query: str, limit: int) -> Iterable[int]:
        """Return the ids of the newest entries that match an FTS5 query, at most `limit`."""
        table, within = self.index.postings, self.within
        span, turns = _spans(self.record)[0], within.turns
        if self.record is not None and turns is not None:
            span, turns = self._turns_span(self.record, turns), None
        join, conditions, values = "", "", list[int]()
        if turns is not None:
            conditions += " AND entry.turn BETWEEN ? AND ?"
            values += turns
        conditions += self._times("entry.created", values)
        if conditions:
            join = f"JOIN entry ON entry.id = {table}.rowid"
        # Walking a list backwards is slower, and worth it only if a limit ends the walk early.
        order, last = (
            ("", ()) if limit == _NO_LIMIT else (f"ORDER BY {table}.rowid DESC LIMIT ?", (limit,))
        )
        found = sql.scalar(
            self.connection,
            f"SELECT group_concat(place) FROM (SELECT {table}.rowid AS place FROM {table} {join} "
            f"WHERE {table} MATCH ? AND {table}.rowid BETWEEN ? AND ? {conditions} {self._not_deleted()} {order})",
            (self._match(query), *span, *values, *last),
        )
        return _numbers(found)

    def _turns_span(self, record: sql.SqliteConversation, turns: _Span) -> _Span:
        first = sql.first_of_turn(self.connection, record, turns[0])
        stop = sql.first_of_turn(self.connection, record, turns[1] + 1)
        return sql.row_id(record.key, first), sql.row_id(record.key, stop - 1)

    def _texts(self, query: str, _limit: int) -> Iterable[int]:
        """Return the ids of all checkpoints and documents that match an FTS5 query; there are only a few."""
        table, kinds = self.index.postings, self.within.kinds
        values: list[object] = []
        conditions = self._times("coalesce(document.created, checkpoint.created)", values)
        if kinds is not None:
            conditions += " AND beside.kind IN (SELECT value FROM json_each(?))"
            values.append(msgspec.json.encode(sorted(kinds)).decode())
        found = sql.scalar(
            self.connection,
            f"SELECT group_concat(beside.id) FROM {table} JOIN beside ON beside.id = {table}.rowid {JOIN_TEXTS} "
            f"WHERE {table} MATCH ? AND {table}.rowid BETWEEN ? AND ? {conditions} {self._not_deleted()}",
            (self._match(query), *_spans(self.record)[1], *values),
        )
        return _numbers(found)

    def _not_deleted(self) -> str:
        return "".join(
            f" AND abs({self.index.postings}.rowid) >> 32 <> {key:d}" for key in self.deleted_keys
        )

    def _times(self, column: str, values: list[Any]) -> str:
        conditions = ""
        for sign, bound in ((">=", self.within.since), ("<", self.within.until)):
            if bound is not None:
                conditions += f" AND {column} {sign} ?"
                values.append(bound)
        return conditions


def _numbers(joined: str | None) -> Iterable[int]:
    # Reading all numbers as one text is several times faster than reading a row for each.
    return map(int, joined.split(",")) if joined else ()
