"""A store's file as stock SQLite sees it, and a way to run a blocking store's verbs without an event loop."""

from __future__ import annotations

import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw

from turnfold.records import ROLES, decode_message
from turnfold.stores import Scope, SqliteStore
from turnfold.stores.sqlite.search_index import TermDigests, live_index
from turnfold.stores.sqlite.write_queue import WriterTurn

__all__ = ("ALICE", "dump", "held_writer", "integrity", "settled", "stored_texts")

Answer = TypeVar("Answer")
ALICE = Scope("alice")

_OF_ALICE = "(SELECT key FROM conversation WHERE tenant = 'alice')"
_TABLES = {
    "conversation": "tenant = 'alice' ORDER BY key",
    "entry": f"conversation IN {_OF_ALICE} ORDER BY conversation, seq",
    "checkpoint": f"conversation IN {_OF_ALICE} ORDER BY conversation, upto",
    "document": f"conversation IN {_OF_ALICE} ORDER BY conversation, kind, key",
    "beside": f"conversation IN {_OF_ALICE} ORDER BY id",
}


def settled(verb: Coroutine[Any, Any, Answer]) -> Answer:
    """The answer of a blocking store, whose verbs never suspend."""
    try:
        verb.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("a blocking store has suspended")


class _HeldTurn(WriterTurn):
    """A turn that nobody takes over, although no call on any stack leads."""

    __slots__ = ()

    def is_lost(self) -> bool:
        return False


@contextmanager
def held_writer(store: SqliteStore) -> Iterator[None]:
    """While entered, nobody leads and callers gather; somebody must lead afterwards."""
    turn = _HeldTurn()
    while not store._engine._turns.take(turn, check_lost=False):
        time.sleep(0.001)  # the leader of the last write has answered and not ended yet
    try:
        yield
    finally:
        turn.ended = True


def dump(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Everything the file holds for one tenant, the search index included.

    Epochs are random: of each it is told only which of its conversation's it is, in the order they are met.
    """
    connection = apsw.Connection(str(path))
    epochs: dict[int, dict[int, int]] = {}
    try:
        held: dict[str, list[tuple[Any, ...]]] = {}
        for table, rest in _TABLES.items():
            found = connection.execute(f"SELECT * FROM {table} WHERE {rest}")  # noqa: S608 (constants)
            held[table] = [_numbered(row, found, epochs) for row in found]
        index = live_index(connection)  # pyright: ignore[reportArgumentType] (the driver's own type)
        roles = " OR ".join(TermDigests(ALICE.tenant).of(f"role:{role}") for role in sorted(ROLES))
        held["terms"] = connection.execute(
            f"SELECT rowid FROM {index.postings} WHERE {index.postings} MATCH ? ORDER BY rowid",  # noqa: S608 (a table's name)
            (roles,),
        ).fetchall()
    finally:
        connection.close()
    return held


def _numbered(
    row: tuple[Any, ...], found: apsw.Cursor, epochs: dict[int, dict[int, int]]
) -> tuple[Any, ...]:
    names = [name for name, _ in found.get_description()]
    known = epochs.setdefault(row[0], {})  # the key of the conversation is the first column
    return tuple(
        (value & 0xFFFFFFFF, known.setdefault(value >> 32, len(known)))
        if name == "revision"
        else value
        for name, value in zip(names, row, strict=True)
    )


def stored_texts(connection: apsw.Connection) -> dict[str, list[tuple[int, str]]]:
    """Seq and text of every entry, by conversation, as they lie in the file."""
    held: dict[str, list[tuple[int, str]]] = {}
    rows = connection.execute(
        "SELECT name, entry.seq, body FROM entry JOIN conversation ON key = conversation ORDER BY name, entry.seq"
    )
    for name, seq, body in rows:
        held.setdefault(name, []).append((seq, decode_message(body).text))
    return held


def integrity(connection: apsw.Connection) -> str:
    """What SQLite says of the whole file: "ok", or what is wrong."""
    return "; ".join(str(row[0]) for row in connection.execute("PRAGMA integrity_check"))
