"""The newest entries that are not indexed yet, looked through one by one: for searches while the index is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from turnfold.errors import InvalidRecord
from turnfold.recall import AskedTerms
from turnfold.records import Message, decode_message
from turnfold.stores import sqlite_rows as sql
from turnfold.stores.findable import CALL_REACH, Findable, ToolNames, findable, required_marks
from turnfold.stores.ledger import Row
from turnfold.stores.ranking import Candidate
from turnfold.stores.sqlite_engine import Connection
from turnfold.stores.within import ENTRY, Within

__all__ = ("Scanned", "scan_newest")

_Columns: TypeAlias = tuple[object, ...]
NEWEST = 1000
"""Entries that are looked through in one search."""
_CONVERSATIONS = 16
"""Conversations of a scope of which the newest entries are looked through: those begun last."""


@dataclass(slots=True)
class Scanned:
    """What was found by looking."""

    candidates: list[Candidate] = field(default_factory=list[Candidate])
    holding: Counter[str] = field(default_factory=Counter[str])
    """How many of the entries hold each term."""
    entries: int = 0
    """How many entries were looked through."""


def scan_newest(
    connection: Connection,
    tenant: str,
    conversation: str | None,
    asked: AskedTerms,
    within: Within,
) -> Scanned:
    """Look through the newest entries that wait to be indexed, of one conversation or of the scope."""
    scanned = Scanned()
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
        for row, found in _found(connection, key, newest[::-1]):
            candidate = Candidate(name, row.seq, ENTRY, "", asked.held_by(found.text))
            scanned.holding.update(candidate.held.counts.keys())
            if candidate.held.counts and _passes(row, found, within):
                scanned.candidates.append(candidate)
    return scanned


def _found(
    connection: Connection, key: int, entries: list[_Columns]
) -> Iterator[tuple[Row, Findable]]:
    """Each entry that can be read, with what it is found by; a damaged one is logged when it is to be indexed."""
    after = cast("int", entries[0][0]) - 1 if entries else 0

    def earlier() -> list[Message | None]:
        before = sql.raw_rows(connection, key, after=max(after - CALL_REACH, 0), upto=after)
        return [read[1] if (read := _read(connection, key, each)) else None for each in before]

    tools = ToolNames(after=after, earlier=earlier)
    for columns in entries:
        read = _read(connection, key, columns)
        if read is None:
            tools.skip()
        else:
            row, message = read
            yield row, findable(message, tools.of(message))


def _passes(row: Row, found: Findable, within: Within) -> bool:
    return (
        within.takes(ENTRY)
        and within.takes_time(row.created)
        and within.takes_turn(row.turn)
        and all(not found.marks.isdisjoint(marks) for marks in required_marks(within))
    )


def _read(connection: Connection, key: int, columns: _Columns) -> tuple[Row, Message] | None:
    try:
        row = sql.to_row(connection, key, columns)
        return row, decode_message(row.body)
    except InvalidRecord:
        return None
