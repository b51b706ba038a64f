"""Searching the SQLite store: which places hold the terms, and which of them are the best.

What a search reads is bounded, however long the log is. How rare a term is stands written. The lists of rare terms are
walked whole; of common ones only the newest end, and of every combination of them, so that the newest places that hold
all of them are found first. Only the few hundred places that are weighed are read.
"""

# ruff: noqa: S608 (statements are joined from constants and the names of tables; every value is bound)

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, cast

import msgspec

from turnfold.recall import AskedTerms
from turnfold.records import decode_message
from turnfold.stores import sqlite_rows as sql
from turnfold.stores.checksums import damaged, is_sound_entry, is_sound_text
from turnfold.stores.findable import required_marks
from turnfold.stores.log_mark import log_mark
from turnfold.stores.ranking import MOST_CANDIDATES, Candidate, Choosing, Hit, choosing_terms, rank
from turnfold.stores.sqlite_engine import Connection
from turnfold.stores.sqlite_erasure import erasing_keys
from turnfold.stores.sqlite_filling import Index, Tokens
from turnfold.stores.sqlite_index import live_index
from turnfold.stores.sqlite_scan import Scanned, scan_newest
from turnfold.stores.within import ENTRY, Within

__all__ = ("Found", "search")

_Span = tuple[int, int]
_ALL_ENTRIES: _Span = (1, (1 << 63) - 1)
_ALL_BESIDE: _Span = (-(1 << 63), -1)
_NO_LIMIT = -1

_TEXTS_BESIDE = """
LEFT JOIN document ON document.conversation = beside.conversation
    AND document.kind = beside.kind AND document.key = beside.key
LEFT JOIN checkpoint ON beside.kind = 'checkpoint'
    AND checkpoint.conversation = beside.conversation AND checkpoint.id = beside.key
"""
_ENTRIES_READ = """
SELECT conversation.name, entry.id, coalesce(entry.client_id, ''), entry.created, entry.turn, entry.body, entry.checksum
FROM json_each(?) AS chosen JOIN entry ON entry.id = chosen.value
JOIN conversation ON conversation.key = entry.id >> 32 AND conversation.tenant = ?
"""
_BESIDE_READ = f"""
SELECT conversation.name, beside.kind, beside.key, coalesce(document.text, checkpoint.text, ''),
    iif(document.text IS NULL, checkpoint.checksum, document.checksum)
FROM json_each(?) AS chosen JOIN beside ON beside.id = chosen.value
JOIN conversation ON conversation.key = beside.conversation AND conversation.tenant = ? {_TEXTS_BESIDE}
"""


class Found(list[Hit]):
    """The hits of a search, best first."""

    unsearched: int = 0
    """Entries that were neither indexed yet nor looked through: with 0, the answer is complete."""


def search(
    connection: Connection,
    tenant: str,
    terms: Sequence[str],
    *,
    conversation: str | None,
    limit: int,
    within: Within,
    waiting: int = 0,
) -> Found:
    """The best places of a conversation, or of the whole scope, that hold any of the terms.

    Where many entries are `waiting` to be indexed, the newest of them are looked through as well.
    """
    held = None
    if conversation is not None:
        held = sql.find_conversation(connection, tenant, conversation, writing=False)
        if not held.key:
            return Found()
    index, tokens = live_index(connection), Tokens(tenant)
    counting = _Counting(connection, index, tokens, within, held)
    holding = {term: counting.holding(term) for term in terms}
    total = counting.total()
    choosing = choosing_terms(holding, total=total)
    gone = erasing_keys(connection) if held is None else []
    chosen = _Choice(connection, index, tokens, within, held, choosing, gone).places()
    asked = AskedTerms(terms)
    candidates = list(_read(connection, tenant, chosen, asked))
    scanned = Scanned()
    if waiting:
        scanned = scan_newest(connection, tenant, conversation, asked, within)
        candidates += scanned.candidates
        holding = {term: many + scanned.holding[term] for term, many in holding.items()}
        total += (
            scanned.entries if held is None else 0
        )  # a conversation's total counts them already
    found = Found(rank(candidates, holding, total=total, limit=limit))
    found.unsearched = max(0, waiting - scanned.entries) if within.takes(ENTRY) else 0
    return found


def _spans(held: sql.Held | None) -> tuple[_Span, _Span]:
    """The places of a search: entries, and what stands beside them."""
    if held is None:
        return _ALL_ENTRIES, _ALL_BESIDE
    first, last = sql.row_id(held.key, 1), sql.row_id(held.key, sql.LAST_SEQ)
    return (first, last), (-last, -first)


def _read(
    connection: Connection, tenant: str, chosen: Collection[int], asked: AskedTerms
) -> Iterator[Candidate]:
    """The chosen places with what they hold of the terms."""
    entries = msgspec.json.encode([place for place in chosen if place > 0]).decode()
    beside = msgspec.json.encode([place for place in chosen if place < 0]).decode()
    for row in connection.execute(_ENTRIES_READ, (entries, tenant)):
        name, place, client_id, created, turn, body, checksum = cast(
            "tuple[str, int, str, int, int, bytes, int | None]", row
        )
        seq = place & sql.LAST_SEQ
        if not is_sound_entry(place, (client_id, created, turn, body), checksum):
            raise damaged(f"entry {seq}", partial(log_mark, tenant, name))
        yield Candidate(name, seq, ENTRY, "", asked.held_by(decode_message(body).text))
    for row in connection.execute(_BESIDE_READ, (beside, tenant)):
        name, kind, key, text, checksum = cast("tuple[str, str, str, str, int | None]", row)
        if not is_sound_text(text, checksum):
            raise damaged(f"{kind} {key}", partial(log_mark, tenant, name))
        yield Candidate(name, 0, kind, key, asked.held_by(text))


@dataclass(frozen=True, slots=True)
class _Counting:
    """How many places there are, and how many hold a term: written for a scope, counted for a conversation."""

    connection: Connection
    index: Index
    tokens: Tokens
    within: Within
    held: sql.Held | None

    def total(self) -> int:
        """All places that take part."""
        if self.held is None:
            return self._written(self.tokens.all_places)
        entries = self.held.head.seq if self.within.counts(ENTRY) else 0
        if not self.within.counts_beside:
            return entries
        found = self.connection.execute(
            "SELECT count(*) FROM beside WHERE id BETWEEN ? AND ?", _spans(self.held)[1]
        ).fetchone()
        return entries + cast("int", found[0] if found else 0)

    def holding(self, term: str) -> int:
        """Those that hold a term."""
        if self.held is None:
            return self._written(self.tokens.number(term))
        entries, beside = _spans(self.held)
        spans = [entries] if self.within.counts(ENTRY) else []
        spans += [beside] if self.within.counts_beside else []
        return sum(self._within_span(term, span) for span in spans)

    def _written(self, number: int) -> int:
        found = self.connection.execute(
            f"SELECT entries, beside FROM {self.index.held} WHERE term = ?", (number,)
        ).fetchone()
        entries, beside = cast("tuple[int, int]", found) if found is not None else (0, 0)
        counted = entries if self.within.counts(ENTRY) else 0
        return counted + (beside if self.within.counts_beside else 0)

    def _within_span(self, term: str, span: _Span) -> int:
        table = self.index.found
        found = self.connection.execute(
            f"SELECT count(*) FROM {table} WHERE {table} MATCH ? AND rowid BETWEEN ? AND ?",
            (f'"{self.tokens.of(term)}"', *span),
        ).fetchone()
        return cast("int", found[0]) if found is not None else 0


@dataclass(frozen=True, slots=True)
class _Choice:
    """Which places are weighed."""

    connection: Connection
    index: Index
    tokens: Tokens
    within: Within
    held: sql.Held | None
    choosing: Choosing
    gone: Sequence[int]
    """Conversations that are deleted and not yet out of the index."""

    def places(self) -> Collection[int]:
        """Those whose terms tell most, and of equals the newest, as `ranking` has it."""
        told: dict[int, int] = {}
        if self.within.takes(ENTRY):
            self._look(told, self._entries)
        if self.within.takes_beside:
            self._look(told, self._beside)
        if len(told) <= MOST_CANDIDATES:
            return told
        least = sorted(told.values(), reverse=True)[MOST_CANDIDATES - 1]
        best = [place for place, value in told.items() if value > least]
        equals = [place for place, value in told.items() if value == least]
        return best + self._newest_first(equals)[: MOST_CANDIDATES - len(best)]

    def _newest_first(self, places: Sequence[int]) -> list[int]:
        """Places of which the same is told, in the order they are weighed in."""
        beside = [place for place in places if place < 0]
        if not beside:
            return sorted(places, reverse=True)
        found = self.connection.execute(
            "SELECT beside.id, beside.kind, beside.key FROM json_each(?) AS asked "
            "JOIN beside ON beside.id = asked.value",
            (msgspec.json.encode(beside).decode(),),
        )
        named = {cast("int", row[0]): cast("tuple[str, str]", row[1:]) for row in found}

        def order(place: int) -> tuple[int, str, int, str]:
            if place > 0:
                return -(place >> 32), ENTRY, -(place & sql.LAST_SEQ), ""
            kind, key = named.get(place, ("", ""))  # without a name only in a damaged file
            return -(-place >> 32), kind, 0, key

        return sorted(places, key=order)

    def _look(self, told: dict[int, int], ask: Callable[[str, int], Iterable[int]]) -> None:
        """Find places by the choosing terms, and add up what these tell of each."""
        rarities, common = self.choosing.rarities, self.choosing.common
        walked = self._any_of(self.choosing.walked)
        found: dict[int, int] = {}
        for term in self.choosing.walked:
            _add(found, ask(self._any_of([term]), _NO_LIMIT), rarities[term])
        for term in common if walked else ():
            both = f"{walked} AND {self._any_of([term])}"
            _add(found, ask(both, _NO_LIMIT), rarities[term])
        # A place that is among the newest with some of the terms is also among the newest with any of these terms
        # it holds, so the most telling combination it is found by is all of them that it holds.
        newest: dict[int, int] = {}
        for many in range(1, len(common) + 1):
            for terms in combinations(common, many):
                value = sum(rarities[term] for term in terms)
                question = " AND ".join(self._any_of([term]) for term in terms)
                for place in ask(question, MOST_CANDIDATES):
                    newest[place] = max(newest.get(place, 0), value)
        told.update(newest)
        told.update(found)

    def _any_of(self, terms: Iterable[str]) -> str:
        # Digests are letters and digits only, so nothing of a term can be syntax.
        asked = " OR ".join(f'"{self.tokens.of(term)}"' for term in terms)
        return f"({asked})" if asked else ""

    def _match(self, question: str) -> str:
        marks = [self._any_of(marks) for marks in required_marks(self.within)]
        return " AND ".join([question, *marks])

    def _entries(self, question: str, limit: int) -> Iterable[int]:
        """The newest entries that are found by a question."""
        table, within = self.index.found, self.within
        span, turns = _spans(self.held)[0], within.turns
        if self.held is not None and turns is not None:
            span, turns = self._turns_span(self.held, turns), None
        join, conditions, values = "", "", list[int]()
        if turns is not None:
            conditions += " AND entry.turn BETWEEN ? AND ?"
            values += turns
        conditions += self._times("entry.created", values)
        if conditions:
            join = f"JOIN entry ON entry.id = {table}.rowid"
        # Lists are walked backwards only where that lets the walk end early; forwards is faster.
        order, last = (
            ("", ()) if limit == _NO_LIMIT else (f"ORDER BY {table}.rowid DESC LIMIT ?", (limit,))
        )
        found = self.connection.execute(
            f"SELECT group_concat(place) FROM (SELECT {table}.rowid AS place FROM {table} {join} "
            f"WHERE {table} MATCH ? AND {table}.rowid BETWEEN ? AND ? {conditions} {self._not_gone()} {order})",
            (self._match(question), *span, *values, *last),
        ).fetchone()
        return _numbers(found)

    def _turns_span(self, held: sql.Held, turns: _Span) -> _Span:
        first = sql.first_of_turn(self.connection, held, turns[0])
        stop = sql.first_of_turn(self.connection, held, turns[1] + 1)
        return sql.row_id(held.key, first), sql.row_id(held.key, stop - 1)

    def _beside(self, question: str, _limit: int) -> Iterable[int]:
        """All that is found beside the log: far less than the log, and its order is by name."""
        table, kinds = self.index.found, self.within.kinds
        values: list[object] = []
        conditions = self._times("coalesce(document.created, checkpoint.created)", values)
        if kinds is not None:
            conditions += " AND beside.kind IN (SELECT value FROM json_each(?))"
            values.append(msgspec.json.encode(sorted(kinds)).decode())
        found = self.connection.execute(
            f"SELECT group_concat(beside.id) FROM {table} JOIN beside ON beside.id = {table}.rowid {_TEXTS_BESIDE} "
            f"WHERE {table} MATCH ? AND {table}.rowid BETWEEN ? AND ? {conditions} {self._not_gone()}",
            (self._match(question), *_spans(self.held)[1], *values),
        ).fetchone()
        return _numbers(found)

    def _not_gone(self) -> str:
        return "".join(f" AND abs({self.index.found}.rowid) >> 32 <> {key:d}" for key in self.gone)

    def _times(self, column: str, values: list[Any]) -> str:
        conditions = ""
        for sign, bound in ((">=", self.within.since), ("<", self.within.until)):
            if bound is not None:
                conditions += f" AND {column} {sign} ?"
                values.append(bound)
        return conditions


def _add(told: dict[int, int], places: Iterable[int], value: int) -> None:
    for place in places:
        told[place] = told.get(place, 0) + value


def _numbers(found: tuple[object, ...] | None) -> Iterable[int]:
    # One text of all numbers is several times as fast as a row for each.
    return map(int, cast("str", found[0]).split(",")) if found and found[0] else ()
